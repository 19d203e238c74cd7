"""Two drafts for one place: the most that any lossless rule keeps of them, and how to keep it.

The second draft was drawn from q without the first. A set H of tokens gets both with probability
Q(H), and there the target takes at most P(H) of them. So nobody keeps more than 1 + P(H) − Q(H), of
any H, and the least of these bounds is the optimum of a transport from pairs to tokens (Hu et al.
2025, 2502.18779). It is reached by a beginning of the tokens in the order of p/q, those first that
the draft says too often: V sets are enough, and a sort finds them.

Why a beginning? Let H be best, x in it, y not, and p/q of y not above that of x. A token more adds
``gain = q·b(H) + b·q(H)`` to Q(H), with ``b = q/(1−q)`` of the token and sums over H. That x stays
says p/q ≤ gain/q of x, by H without x; then gain/q of y, by H, is larger still, as
``(b_x/q_x − b_y/q_y)(1 − q_x − q_y) < b_x + q_x b_y/q_y``. So H with y were better.

To reach the bound, choose one of the two drafts, and judge it like a single one (Khisti et al.
2024, 2410.18234): ``chosen`` is how often each token is chosen, and ``min(1, p/chosen)`` of them
stay. Which ``chosen`` can be had? Of each beginning H it needs at least Q(H), as pairs within H
have nowhere else to go. The curve ``need``, the least that rises where Q − P has yet to reach its
maximum and falls behind it, is the excess of ``chosen`` over p. (Between two of its steps the order
of chosen/q is that of p/q, so that there, too, a beginning is the worst set.) What follows if none
stays comes from ``max(p − chosen, 0)``, whichever two were drawn.

Which of a pair? Draw a u from 0 to 1. The upper hull of ``u·Q(H) − chosen(H)`` over q(H) cuts the
tokens into segments. Of two segments the later wins; within one the first draft, or else the
second with probability ``b · beyond/inside``, q of the second: then each token of the segment gets
the same multiple of its q, so that chosen(H) is Q(H) at the cuts and a straight line between. And
that is the hull's slope in u, so its mean over u is what the hull gains from u = 0, where it is
−chosen(H), to u = 1, where it is 0: on average each token is chosen as often as it should.
"""

import numpy as np


class OptimalPair:
    """Two drafts for a place, any two, and which of them is judged.

    Args:
        p: the target's probabilities ``(V,)`` there.
        q: what the first was drawn from ``(V,)``; two tokens at least are not 0.

    Attributes:
        most: the share of pairs of which one is kept; no lossless rule keeps more.
        chosen: ``(V,)``, how often each token is chosen from a pair.
    """

    def __init__(self, p: np.ndarray, q: np.ndarray) -> None:
        drawn = np.flatnonzero(q)
        ratio = p[drawn] / q[drawn]
        by_ratio = np.argsort(ratio)
        self._order = drawn[by_ratio]
        p_of, q_of = p[self._order], q[self._order]
        self._q, self._beyond = _sums(q_of), _sums(q_of[::-1])[::-1]
        self._b = q_of / (self._q[:-1] + self._beyond[1:])  # 1 − q, without a difference
        before = _sums(self._b)[:-1]
        self._both = _sums(q_of * before + self._b * self._q[:-1])
        ends = np.flatnonzero(np.diff(ratio[by_ratio], prepend=-1, append=np.inf))  # ties are alike
        excess = (self._both - _sums(p_of))[ends]
        rises = np.maximum.accumulate(excess)
        need = np.minimum(rises, np.maximum.accumulate(excess[::-1])[::-1])
        self._cuts = ends[excess >= need]  # for every u
        self.most = 1 - float(rises[-1])
        slope = np.diff(need) / np.add.reduceat(q_of, ends[:-1])
        chosen = np.maximum(p_of + q_of * np.repeat(slope, np.diff(ends)), 0)
        self._wanted = _sums(chosen)
        self.chosen = np.zeros(len(p))
        self.chosen[self._order] = chosen

    def second(self, first: int, second: int) -> float:
        """Return the chance that of two drafts, in the order of their draws, the second is chosen.

        It goes from u = 1 down, to where the hull first cuts between the two.
        """
        place, mine = (int(np.flatnonzero(self._order == token)[0]) for token in (first, second))
        left, right = sorted((place, mine))
        low = self._cuts[self._cuts <= left].max()
        high = self._cuts[self._cuts > left].min()
        chance, u = 0.0, 1.0
        # Of tokens so rare that their sum is lost in float64 the later one is chosen.
        while high > right and u > 0 and self._q[high] > self._q[low]:
            sag = self._sag(self._both, low, high)
            ends = self._sag(self._wanted, low, high) / np.where(sag > 0, sag, np.inf)
            cut = int(np.argmax(ends))
            lower = min(max(float(ends[cut]), 0.0), u)
            beyond, inside = self._beyond[high], self._q[high] - self._q[low]
            chance += (u - lower) * min(1.0, self._b[mine] * beyond / inside)
            u, cut = lower, cut + low + 1
            if cut <= left:
                low = cut
            else:
                high = cut if cut > right else left  # between them: it stays so
        return chance + u * (mine == right)

    def _sag(self, curve: np.ndarray, low: int, high: int) -> np.ndarray:
        """Return how far a curve hangs below its chord over q, at each place between two."""
        at, inner = self._q[low : high + 1] - self._q[low], curve[low : high + 1] - curve[low]
        return (inner[-1] / at[-1] * at - inner)[1:-1]


def _sums(values: np.ndarray) -> np.ndarray:
    """Return the sums of the first 0, 1, ... all of n values: ``(n+1,)``."""
    return np.concatenate([[0.0], np.cumsum(values)])

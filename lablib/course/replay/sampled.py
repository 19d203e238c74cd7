"""Sampled speculation along texts that exist already: every rule and every draft length at once.

What is written is distributed as the target's own text, whatever was drafted. So begin with the
text and ask which of its tokens were *kept drafts*. By Bayes' rule that is the chance of drafting
and keeping x, over p(x):

    match      q(x)                  drawn twice, and equal
    coupled    both(x) / p(x)        with shared noise both draw x
    rejection  min(1, q(x) / p(x))   of min(p, q), all that rejection keeps (2211.17192)
    block      min(1, q(x) / (w p(x))), w the cover of the drafts before it (2403.10444)

And a refused draft y, where x came in its place, has been

    match      y other than x, by q(y)         drawn twice, and unequal
    rejection  by max(q(y) - p(y), 0)          whatever x is

Given the text these coins are independent, as after any kept drafts the target goes on as it would
alone. Where rounds begin is then a chain over the places of the text, and everything that is
counted in rounds has an exact expectation. No model runs again, and nothing is drawn.
"""

from dataclasses import dataclass

from lablib.course.replay.rounds import LONGEST, Guesses
from lablib.validation import BadValue, integer, one_of

import numpy as np

RULES = ("match", "coupled", "rejection", "block")


@dataclass(frozen=True)
class Texts:
    """B texts, padded to N places, and what a drafter gave their tokens.

    Entry ``[b, s, d]`` is about place s + d of text b when the round begins at place s.

    Attributes:
        lengths: tokens of each text ``(B,)``.
        offered: drafts in a round that begins at each place, at most ``LONGEST``, ``(B, N)``.
        p: the target's probability of each token ``(B, N)``.
        q: the drafter's ``(B, N, LONGEST)``.
        both: the chance that with shared noise both draw that token ``(B, N, LONGEST)``.
    """

    lengths: np.ndarray
    offered: np.ndarray
    p: np.ndarray
    q: np.ndarray
    both: np.ndarray

    def chances(self, rule: str) -> np.ndarray:
        """Return the chance that each token was a kept draft ``(B, N, LONGEST)``.

        Drafts are judged in turn: the chance is given that all before it in the round were kept.

        Raises:
            ValueError: ``rule`` is none of ``RULES``.
        """
        one_of("rule", rule, RULES)
        if rule == "match":
            return self.q
        ahead = spread(self.p)
        safe = np.where(ahead > 0, ahead, 1)
        if rule == "coupled":
            return np.minimum(self.both / safe, 1)
        if rule == "rejection":
            return np.minimum(self.q / safe, 1)
        kept, cover = np.empty_like(self.q), np.ones_like(self.p)
        for d in range(LONGEST):
            likely = cover * safe[..., d]  # of the cover, what the target gives this token
            kept[..., d] = np.minimum(self.q[..., d] / likely, 1)
            cover = np.minimum(likely / np.maximum(self.q[..., d], 1e-30), 1)
        return kept


def keeps(rule: str, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the chance that ``match`` or ``rejection`` keeps a draft with this p and q."""
    return p if rule == "match" else np.minimum(p / np.maximum(q, 1e-30), 1)


def refused(rule: str, p: np.ndarray, q: np.ndarray, token: int) -> np.ndarray:
    """Return how likely each draft ``(V,)`` was the one that ``match`` or ``rejection`` refused.

    Args:
        rule: one of the two.
        p: the target's distribution ``(V,)``.
        q: the drafter's ``(V,)``.
        token: what came in the draft's place.

    Returns:
        Weights, whose sum may be anything; all 0 if no draft can have been refused.
    """
    if rule == "match":
        return np.where(np.arange(len(q)) == token, 0, q)
    return np.maximum(q - p, 0)


def spread(values: np.ndarray) -> np.ndarray:
    """Return ``(..., N, LONGEST)`` whose ``[..., s, d]`` is ``values[..., s + d]``, 0 past N."""
    padded = np.concatenate([values, np.zeros((*values.shape[:-1], LONGEST - 1))], axis=-1)
    return np.lib.stride_tricks.sliding_window_view(padded, LONGEST, axis=-1)


def room(lengths: np.ndarray, places: int, max_tokens: int) -> np.ndarray:
    """Return how many drafts a round can hold at each place ``(B, places)``.

    The engine drafts no token past the end of a text, and none for the last of ``max_tokens``.
    """
    s, lengths = np.arange(places), np.asarray(lengths)[:, None]
    return np.clip(np.minimum(lengths - s, max_tokens - s - 1), 0, LONGEST)


def looked_up(guesses: list[Guesses], limits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``offered (B, N)`` and ``q (B, N, LONGEST)`` of drafts that were looked up.

    Such a drafter is certain: q is 1 as far as its guess is the text's, and 0 behind.
    """
    offered, right = np.zeros_like(limits), np.zeros_like(limits)
    for b, each in enumerate(guesses):
        offered[b, : len(each.offered)], right[b, : len(each.right)] = each.offered, each.right
    return np.minimum(offered, limits), (np.arange(LONGEST) < right[..., None]).astype(float)


@dataclass(frozen=True)
class Expected:
    """The expected rounds along each of B texts.

    Attributes:
        kept: rounds that keep exactly 0 ... γ drafts ``(B, γ+1)``; they sum to all rounds.
        whole: those whose bonus token would still belong to the text; near its end rounds are cut
            short.
        reached: drafts that are judged ``(B,)``.
        tokens: of the text ``(B,)``.
    """

    kept: np.ndarray
    whole: np.ndarray
    reached: np.ndarray
    tokens: np.ndarray

    @property
    def alpha(self) -> float:
        """Return accepted over reached drafts, of all texts together."""
        accepted = (self.kept @ np.arange(self.kept.shape[-1])).sum()
        return float(accepted / max(self.reached.sum(), 1e-30))

    @property
    def shares(self) -> np.ndarray:
        """Return the share of whole rounds that keep 0 ... γ drafts ``(γ+1,)``."""
        return self.whole.sum(axis=0) / max(self.whole.sum(), 1e-30)

    @property
    def tokens_per_round(self) -> float:
        """Return what a whole round writes: its kept drafts and the target's own token."""
        return float(1 + self.shares @ np.arange(self.whole.shape[-1]))

    @property
    def tokens_per_call(self) -> float:
        """Return what a call of the target yields, rounds at the end of a text included."""
        return float(self.tokens.sum() / self.kept.sum())

    def of(self, which: slice) -> "Expected":
        """Return that of some of the texts."""
        return Expected(
            self.kept[which], self.whole[which], self.reached[which], self.tokens[which]
        )


def expect(
    chances: np.ndarray, offered: np.ndarray, lengths: np.ndarray, draft_tokens: int
) -> Expected:
    """Follow all rounds through B texts at once.

    Args:
        chances: from :meth:`Texts.chances`, ``(B, N, LONGEST)``.
        offered: drafts in a round at each place ``(B, N)``; none of them past the text's end.
        lengths: tokens of each text ``(B,)``.
        draft_tokens: γ, at most ``LONGEST``.

    Raises:
        ValueError: γ is out of range, or the shapes do not fit.
    """
    gamma = integer("draft_tokens", draft_tokens, 1, LONGEST)
    if chances.shape != (*offered.shape, LONGEST) or len(lengths) != len(offered):
        raise BadValue(f"chances must be {(*offered.shape, LONGEST)}, got {chances.shape}")
    texts, places = offered.shape
    meant = np.arange(gamma) < np.minimum(offered, gamma)[..., None]
    reach = np.ones((texts, places, gamma + 2))  # that at least 0 ... γ+1 drafts are kept
    reach[..., 1:-1] = np.cumprod(np.where(meant, chances[..., :gamma], 0), axis=-1)
    reach[..., -1] = 0
    exactly = reach[..., :-1] - reach[..., 1:]
    begins = np.zeros((texts, places + gamma + 1))
    begins[:, 0] = 1
    for s in range(places):  # k kept drafts and the target's own token: the next round
        begins[:, s + 1 : s + gamma + 2] += begins[:, s, None] * exactly[:, s]
    begins = begins[:, :places] * (np.arange(places) < np.asarray(lengths)[:, None])
    counts = begins[..., None] * exactly
    inside = np.arange(places) + gamma < np.asarray(lengths)[:, None]
    whole = (counts * inside[..., None]).sum(axis=1)
    judged = (reach[..., :-2] * meant).sum(axis=-1)
    return Expected(counts.sum(axis=1), whole, (begins * judged).sum(axis=1), np.asarray(lengths))


def toss(
    chances: np.ndarray, offered: np.ndarray, coins: np.ndarray, draft_tokens: int
) -> list[tuple[int, int]]:
    """Follow rounds through one text, as one throw of its coins would have it.

    Args:
        chances: of each place that a round begins at, those of its drafts ``(n, LONGEST)``.
        offered: drafts in a round at each place ``(n,)``.
        coins: one for each place of the text, in [0, 1) ``(n,)``: a draft there stays if its
            chance is larger, wherever the round began.
        draft_tokens: γ, at most ``LONGEST``.

    Returns:
        Of each round, how many were drafted and how many kept.
    """
    gamma = integer("draft_tokens", draft_tokens, 1, LONGEST)
    room, throws, likely = offered.tolist(), coins.tolist(), chances.tolist()
    rounds, place = [], 0
    while place < len(room):
        drafted, kept = min(gamma, room[place]), 0
        while kept < drafted and throws[place + kept] < likely[place][kept]:
            kept += 1
        rounds.append((drafted, kept))
        place += kept + 1
    return rounds

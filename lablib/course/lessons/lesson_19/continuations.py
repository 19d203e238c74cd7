"""All the ways in which a text may go on, and what a block keeps whose places are told so much.

The target's next tokens are a tree. It is walked to a few levels, without what is too rare, and so
everything that one may ask of it is a sum: what stands at a place of a block if nobody says which
tokens stand before it, or if only some of them are known, and how much of such a block stays.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lablib.course.lessons.lesson_13.rounds import chances
from lablib.inference import Drafter, Proposal
from lablib.inference.speculation import SpeculativeTokenIterator

import mlx.core as mx
import numpy as np

Path = tuple[int, ...]
LEAST = 1e-30  # a chance that is none, where its logarithm is asked for


class Place(NamedTuple):
    """A place of a block: what may stand before it, and what the target says then.

    Attributes:
        before: the tokens before it, n paths, all of one length.
        mass: how likely each path is ``(n,)``.
        p: the target's distribution after each ``(n, V)``.
    """

    before: list[Path]
    mass: np.ndarray
    p: np.ndarray


class Continuations:
    """How a text goes on, ``places`` tokens far, at temperature 1.

    Args:
        target: a model.
        text: its tokens.
        places: how many.
        least: paths that are less likely are left out.

    Attributes:
        left_out: how likely all that was left out is, together.
        says: by how many tokens before it a place is told (0: none, so that it says what stands
            there on average; 1: its neighbour), for each place: those tokens -> its distribution.
    """

    def __init__(
        self, target: Any, text: Sequence[int], places: int = 4, least: float = 3e-4
    ) -> None:
        self.text, self.places = list(text), []
        paths, mass = [()], np.ones(1)
        for _ in range(places):
            read = target(mx.array([[*text, *path] for path in paths]))[:, -1]
            p = chances(read, 1.0)
            self.places.append(Place(paths, mass, p))
            both = mass[:, None] * p
            found = np.argwhere(both > least).tolist()
            paths = [(*paths[row], token) for row, token in found]
            mass = both[tuple(np.transpose(found))]
        self.left_out = 1 - float(mass.sum())
        self.says = [self._says(told) for told in range(places)]

    def _says(self, told: int) -> list[dict[Path, np.ndarray]]:
        """Return what each place says, by the tokens before it that it is told.

        Args:
            told: how many of the block's tokens before it a place is told: 0, and it says what
                stands there on average; 1, and it is told its neighbour.

        Returns:
            For each place: the tokens that it is told -> its distribution ``(V,)``.
        """
        found = []
        for place in self.places:
            sums: dict[Path, np.ndarray] = {}
            for path, mass, p in zip(*place, strict=True):
                known = path[max(0, len(path) - told) :]
                sums[known] = sums.get(known, 0.0) + mass * p
            found.append({known: each / each.sum() for known, each in sums.items()})
        return found

    def kept(self, told: int) -> np.ndarray:
        """Return how often each place of such a block is kept by rejection, ``(places,)``.

        A path of drafts is drawn with the product of its q, and each of them stays with
        min(1, p/q): so the path stays with the product of min(p, q). The paths are summed.
        """
        stays, found = {(): 1.0}, []
        for place, says in zip(self.places, self.says[told], strict=True):
            following = {}
            for path, p in zip(place.before, place.p, strict=True):
                if path in stays:
                    shared = stays[path] * np.minimum(p, says[path[max(0, len(path) - told) :]])
                    following |= {(*path, int(t)): shared[t] for t in np.flatnonzero(shared)}
            stays = following
            found.append(sum(stays.values()))
        return np.array(found)

    def pair(self, told: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return p and q of the first two places, ``p1, p2, q1, q2``: ``(V,)`` and ``(V, V)``.

        Row x of p2 and q2 stands behind x; it is 0 where x was left out.
        """
        first, second = self.places[:2]
        p2, q2 = np.zeros((2, first.p.shape[1], first.p.shape[1]))
        for path, p in zip(second.before, second.p, strict=True):
            p2[path[0]], q2[path[0]] = p, self.says[told][1][path[len(path) - min(told, 1) :]]
        return first.p[0], p2, self.says[told][0][()], q2

    def head(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what the places say alone ``(places, V)``, and a Markov head's table ``(V, V)``.

        Both are logarithms, added before a softmax. Row x is what x changes at the place behind it
        (the last one, if it stands before several); of a token that was left out it is 0.
        """
        alone = np.stack([np.log(np.maximum(each[()], LEAST)) for each in self.says[0]])
        table = np.zeros((alone.shape[1], alone.shape[1]))
        for row, says in zip(alone[1:], self.says[1][1:], strict=True):
            for (token,), q in says.items():
                table[token] = np.log(np.maximum(q, LEAST)) - row
        return alone, table

    def draw(self, told: int, rng: np.random.Generator) -> tuple[list[int], list[np.ndarray]]:
        """Draw such a block; returns its tokens, and what each was drawn from.

        Where a place is told what it has never met, it says what stands there on average.
        """
        tokens: list[int] = []
        found = []
        for place, (says, average) in enumerate(zip(self.says[told], self.says[0], strict=True)):
            known = tuple(tokens[max(0, place - told) :])
            q = says.get(known, average[()])
            tokens.append(int(rng.choice(len(q), p=q)))
            found.append(q)
        return tokens, found

    def p_after(self, path: Path) -> np.ndarray | None:
        """Return the target's distribution ``(V,)`` after a path; None if that was left out."""
        place = self.places[len(path)]
        return dict(zip(place.before, place.p, strict=True)).get(path)


class Told(Drafter):
    """A drafter whose blocks are drawn from a text's continuations, so that its places are exact.

    It drafts where the text is that of the continuations, and elsewhere nothing.

    Args:
        continuations: of the text.
        told: how many tokens before it each place is told.
        seed: of its draws.
    """

    def __init__(self, continuations: Continuations, told: int, seed: int = 0) -> None:
        self.continuations, self.told = continuations, told
        self._rng = np.random.default_rng(seed)

    def propose(self, texts: Any, limits: Any, sampler: Any) -> Proposal | None:
        """Draw a block; its length is settled before."""
        length = min(limits[0], len(self.continuations.places))
        if list(texts[0]) != self.continuations.text or not length:
            return None
        tokens, q = self._drawn(length)
        said = mx.array(np.stack(q[:length])[None].astype(np.float32))
        return Proposal(mx.array([tokens[:length]], mx.int32), q=said, blind=True)

    def _drawn(self, length: int) -> tuple[Sequence[int], Sequence[np.ndarray]]:
        return self.continuations.draw(self.told, self._rng)


class Own(Told):
    """The same with a function of one's own, exercise 19.2, that draws from scores and a table.

    Args:
        continuations: of the text.
        function: a solution of the exercise.
        seed: of its draws.
    """

    def __init__(
        self, continuations: Continuations, function: Callable[..., Any], seed: int = 0
    ) -> None:
        super().__init__(continuations, 1, seed)
        self._function, self._head = function, continuations.head()

    def _drawn(self, length: int) -> tuple[Sequence[int], Sequence[np.ndarray]]:
        alone, table = self._head
        u = self._rng.random(length)
        tokens, q = self._function(alone[:length], table, self.continuations.text[-1], u)
        return [int(token) for token in tokens], np.asarray(q, float)


def judged(
    target: Any, drafter: Any, text: Sequence[int], places: int, rounds: int = 40
) -> np.ndarray:
    """Return how many drafts the engine is offered and keeps, ``(rounds, 2)``, by rejection.

    Each round is the first one after ``text``; the k-th has the seed k.
    """
    found = []
    for seed in range(rounds):
        options = {"temperature": 1.0, "rule": "rejection", "seed": seed, "trace": True}
        with SpeculativeTokenIterator(
            target, drafter, text, draft_tokens=places, max_tokens=places + 1, **options
        ) as iterator:
            next(iterator)
            (first, *_) = iterator.rounds
        found.append((len(first.drafted), first.accepted))
    return np.array(found)

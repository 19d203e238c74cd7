"""Rounds of trees and chains of every size, for a picture that follows a hand.

They are those of ``rounds.one_round``: a tree grows its best nodes first, so that the first n of a
large one are a tree of n, as the first n drafts of a chain are a chain. More nodes then hold what
fewer did, and no luck of another draw lies between them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from lablib.cache import kv, tree
from lablib.course.lessons.lesson_13.rounds import (
    Drafts,
    Round,
    chances,
    drafts_of,
    judged,
    sampler_for,
)
from lablib.inference import SamplerOptions
from lablib.inference.speculation.draft_model import draw_in_turn
from lablib.inference.speculation.draft_tree import grow

import mlx.core as mx
import numpy as np
from scipy.special import softmax

Path = tuple[int, ...]  # drafts, one after the other; none at the text's end


def read(model: Any, text: Sequence[int]) -> kv.Cache:
    """Return a cache of ``model`` that holds all of a text but its last token."""
    cache = kv.make(model)
    mx.eval(model(mx.array([text[:-1]]), cache=cache))
    return cache


class Said:
    """A model's logits after a text and after paths of drafts; each is read once.

    Args:
        model: reads trees.
        text: token ids.
        others: a cache that holds all of the text but its last token; it stays as it is.
    """

    def __init__(self, model: Any, text: Sequence[int], others: kv.Cache) -> None:
        self.text, self._model, self._cache = list(text), model, kv.copy(others)
        self._parents: list[int] = []
        self._logits: dict[Path, mx.array] = {}

    def after(self, paths: Sequence[Path]) -> mx.array:
        """Return the logits ``(R, V)`` after R paths, each behind what it begins with."""
        new = [path for path in dict.fromkeys(paths) if path not in self._logits]
        if new:
            places = {path: place for place, path in enumerate([*self._logits, *new])}
            self._parents += [places[path[:-1]] if path else -1 for path in new]
            tokens = mx.array([[path[-1] if path else self.text[-1] for path in new]])
            layers = tree.branch(self._cache, self._parents, len(new))
            logits = self._model(tokens, cache=layers)[0]
            self._logits.update(zip(new, logits, strict=True))
        return mx.stack([self._logits[path] for path in paths])

    def forward(self) -> Callable[..., mx.array]:
        """Return what a drafter calls: with the text's last token first, then with drafts."""
        paths: list[Path] = []

        def forward(tokens: mx.array, parents: Sequence[int] | None = None) -> mx.array:
            new = tokens.tolist()[0]
            before = [len(paths) - 1] if parents is None else parents[-len(new) :]
            for token, parent in zip(new, before, strict=True):
                paths.append((*paths[parent], token) if paths else ())
            return self.after(paths[-len(new) :])[None]

        return forward


class Rounds:
    """Rounds of every size after one text, one for each seed.

    Args:
        drafted: seed -> drafts, and the target's probabilities ``(N+1, V)`` after them.
    """

    def __init__(self, drafted: dict[int, tuple[Drafts, np.ndarray]]) -> None:
        self._drafted = drafted
        self.of = lru_cache(None)(self._of)

    def _of(self, seed: int, rule: str, nodes: int) -> Round:
        """Return the round of a seed's first drafts."""
        drafts, p = self._drafted[seed]
        found = judged(drafts.first(nodes), p[: nodes + 1], rule)
        return replace(found, forwards=self._forwards(found))

    def _forwards(self, found: Round) -> int:
        """Return in how many forwards of the draft model these drafts were found."""
        raise NotImplementedError

    def every(self, rule: str, nodes: int) -> list[Round]:
        """Return the round of each seed."""
        return [self.of(seed, rule, nodes) for seed in self._drafted]


class ChainRounds(Rounds):
    """Chains of drafts, drafted and read side by side; each is what it would be alone.

    Many then cost little more than one.

    Args:
        models: the target and the draft model.
        text: token ids.
        read: a cache of each model, which holds all of the text but its last token.
        most: drafts of each.
        temperature: of both models.
        seeds: of what is drawn.
    """

    def __init__(
        self,
        models: Sequence[Any],
        text: Sequence[int],
        read: Sequence[kv.Cache],
        most: int,
        temperature: float,
        seeds: Sequence[int],
    ) -> None:
        (target, draft), n = models, len(seeds)
        options = [SamplerOptions(temperature=temperature, seed=seed) for seed in seeds]
        sampler = sampler_for(list(text), most, *options)
        of_target, of_draft = (kv.expand(cache, n) for cache in read)
        ends = mx.array([text[-1:]] * n)
        drawn = draw_in_turn(partial(draft, cache=of_draft), ends, [most] * n, sampler)
        logits = target(mx.concatenate([ends, drawn.tokens], axis=1), cache=of_target)
        drafts = [drafts_of(drawn, row) for row in range(n)]
        p = chances(logits, temperature)
        super().__init__(dict(zip(seeds, zip(drafts, p, strict=True), strict=True)))

    def _forwards(self, found: Round) -> int:
        return len(found.drafts)


class TreeRounds(Rounds):
    """Trees of drafts; what one has read of a path, the others know.

    Args:
        said: by the target and by the draft model, after the text; trees that share it know, too,
            what was read for the others.
        most, temperature, seeds: as of ``ChainRounds``.
        depth: the longest path of a tree; None: no bound.
        drawn: whether a node's children are drawn; else the best are chosen, for all seeds alike.
    """

    def __init__(
        self,
        said: Sequence[Said],
        most: int,
        temperature: float,
        seeds: Sequence[int],
        depth: int | None = None,
        drawn: bool = False,
    ) -> None:
        target, self._draft = said
        text = target.text
        self._drafted_at = temperature or 1.0  # at 0, too, a tree grows by the chances at 1
        self.drawn = drawn and temperature > 0

        def grown(seed: int, nodes: int, forward: Callable[..., mx.array]) -> Drafts:
            options = SamplerOptions(temperature=temperature, seed=seed)
            sampler, end = sampler_for(text, most, options), mx.array([text[-1:]])
            return drafts_of(grow(forward, end, [nodes], sampler, depth, self.drawn))

        self._grow = partial(grown, seeds[0])
        apart = seeds if self.drawn else seeds[:1]
        trees = [grown(seed, most, self._draft.forward()) for seed in apart]
        logits = target.after([path for drafts in trees for path in drafts.paths])
        ends = np.cumsum([len(drafts.paths) for drafts in trees])
        p = np.split(chances(logits, temperature), ends[:-1])
        super().__init__(dict(zip(apart, zip(trees, p, strict=True), strict=True)))

    def _of(self, seed: int, rule: str, nodes: int) -> Round:
        if seed in self._drafted:
            return super()._of(seed, rule, nodes)
        return self.every(rule, nodes)[0]  # chosen: the same for all seeds

    def _forwards(self, found: Round) -> int:
        """Return the levels; who looks for chosen words may look at one more, in vain."""
        if self.drawn:
            return int(found.depths.max())
        forward, asked = self._draft.forward(), []

        def counted(tokens: mx.array, parents: Sequence[int] | None = None) -> mx.array:
            asked.append(tokens.shape[1])
            return forward(tokens, parents)

        self._grow(len(found.drafts), counted)
        return len(asked)

    def drafted(self, one: Round) -> tuple[np.ndarray, np.ndarray]:
        """Return the draft model's chances of a first word ``(V,)``, and of each path ``(N,)``."""
        paths = Drafts(one.drafts, one.parents, None).paths
        rows = np.array(self._draft.after([(), *(path[:-1] for path in paths[1:])]), np.float64)
        q, worth = softmax(rows / self._drafted_at, axis=-1), [1.0]
        for token, parent, after in zip(one.drafts, one.parents, q[1:], strict=True):
            worth.append(worth[parent + 1] * after[token])
        return q[0], np.array(worth[1:])

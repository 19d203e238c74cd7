"""Exact distributions of what speculation writes, by enumerating everything that can happen.

``Language`` is a model without a network: a table of scores for every context, transformed by
sampler options in float64 NumPy, written independently of the library.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

Context = tuple[int, ...]


class Language:
    """Fixed random scores for each context, and what a sampler makes of them."""

    def __init__(self, vocab_size: int, seed: int, spread: float = 2.0, **options: float):
        self.size, self.seed, self.spread, self.options = vocab_size, seed, spread, options
        self._known: dict[Context, np.ndarray] = {}

    def scores(self, context: Sequence[int]) -> np.ndarray:
        key = tuple(context)
        if key not in self._known:
            rng = np.random.default_rng([self.seed, len(key), *key])
            self._known[key] = rng.normal(size=self.size) * self.spread
        return self._known[key]

    def probs(self, context: Sequence[int]) -> np.ndarray:
        """The distribution of the next token after all transforms, ``(V,)`` float64."""
        return transformed(self.scores(context), context, **self.options)


def transformed(
    scores: np.ndarray,
    context: Sequence[int],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repeat_penalty: float = 1.0,
    presence_penalty: float = 0.0,
    frequency_penalty: float = 0.0,
    repeat_last_n: int = 64,
) -> np.ndarray:
    scores = np.array(scores, np.float64)
    window = list(context)[-repeat_last_n:] if repeat_last_n else []
    for token in set(window):
        s = scores[token]
        s = s / repeat_penalty if s > 0 else s * repeat_penalty
        scores[token] = s - presence_penalty - frequency_penalty * window.count(token)
    if temperature == 0:
        return np.eye(len(scores))[int(np.argmax(scores))]
    order = np.argsort(-scores, kind="stable")
    if 0 < top_k < len(scores):
        scores[order[top_k:]] = -np.inf
    p = np.exp((scores - scores.max()) / temperature)
    p /= p.sum()
    if 0 < top_p < 1:
        before = np.cumsum(p[order]) - p[order]
        p[order[before >= top_p]] = 0
    p[p < min_p * p.max()] = 0
    return p / p.sum()


def joint(target: Language, prompt: Sequence[int], n: int) -> np.ndarray:
    """The target's own distribution over the next ``n`` tokens, ``(V,) * n``."""
    out = np.zeros((target.size,) * n)
    for tokens in itertools.product(range(target.size), repeat=n):
        p = 1.0
        for i, token in enumerate(tokens):
            p *= target.probs([*prompt, *tokens[:i]])[token]
        out[tokens] = p
    return out


Rule = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
Drafter = Callable[[Sequence[int]], np.ndarray]


def spoken(
    rule: Rule, target: Language, draft: Drafter, prompt: Sequence[int], n: int, gamma: int
) -> np.ndarray:
    """The distribution over the next ``n`` tokens when they come from rounds of speculation.

    Args:
        rule:
            ``(p (N, γ+1, V), q (N, γ, V), drafts (N, γ)) -> kept (N, γ+1), following (N, γ+1, V)``.
        target: the target.
        draft: the distribution a draft is drawn from in a context; one-hot if it was looked up.
        prompt: what comes before.
        n: how many tokens.
        gamma: drafts in a round.
    """
    size = target.size
    blocks = np.array(list(itertools.product(range(size), repeat=gamma)))
    out = np.zeros((size,) * n)

    def visit(so_far: Context, weight: float) -> None:
        base = [*prompt, *so_far]
        p = np.array([[target.probs([*base, *b[:i]]) for i in range(gamma + 1)] for b in blocks])
        q = np.array([[draft([*base, *b[:i]]) for i in range(gamma)] for b in blocks])
        chance = np.prod(np.take_along_axis(q, blocks[..., None], -1)[..., 0], axis=-1)
        kept, following = rule(p, q, blocks)
        for b, block in enumerate(blocks):
            if chance[b] == 0:
                continue
            for accepted in range(gamma + 1):
                for token in range(size):
                    w = weight * chance[b] * kept[b, accepted] * following[b, accepted, token]
                    if w == 0:
                        continue
                    text = (*so_far, *(int(x) for x in block[:accepted]), token)
                    ends[text] = ends.get(text, 0.0) + w

    ends: dict[Context, float] = {(): 1.0}
    while ends:
        shortest = min(ends, key=len)
        weight = ends.pop(shortest)
        if len(shortest) >= n:
            out[shortest[:n]] += weight
        else:
            visit(shortest, weight)
    return out

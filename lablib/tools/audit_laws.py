"""Two tiny models, and the laws of their texts: the right one, and those of known mistakes.

Both models have three tokens, and in every context (all tokens so far) another distribution. So the
chance of each of the 81 texts of four tokens is known, of the target's own texts and of those that
a mistaken engine writes: :func:`law` goes through all that can happen, in float64. The draft's
distributions are all made of the same three chances, so every threshold on q(x) is one of two.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache

TOKENS, LENGTH, PROMPT = 3, 4, (2, 0)
TEXTS = np.array(list(product(range(TOKENS), repeat=LENGTH)))
TEMPERATURE = 0.6
_ROWS = 4099  # a prime above 4⁶: no two contexts share a row
# At that temperature: chances of the draft, and about those of the target for the same tokens.
# Found by a search: each known mistake moves the law far, and each to a place of its own.
_DRAFT, _TARGET, _SEED = (0.59, 0.34, 0.07), (0.31, 0.44, 0.25), 451

Kernel = tuple[np.ndarray, np.ndarray]  # of a place: draft x is kept (V,), y comes instead (V,)
Kernels = tuple[list[np.ndarray], list[np.ndarray]]  # the same, of all texts so far


class Tiny:
    """A model of known distributions, with the call of any mlx-lm model.

    Attributes:
        table: logits ``(R, V)`` in float64.
        vocab_size: V.
        layers: one, of which only the cache is real: it keeps the tokens.
    """

    def __init__(self, table: np.ndarray) -> None:
        self.table, self.vocab_size, self.layers = table, table.shape[1], [None]
        self._table = mx.array(table, dtype=mx.float32)

    def make_cache(self) -> list[Any]:
        """Return an empty cache, which can be trimmed, batched and padded on the left."""
        return [KVCache()]

    def __call__(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        """Return the logits ``(B, T, V)`` after each of ``tokens (B, T)`` and what is cached."""
        (layer,) = self.make_cache() if cache is None else cache
        mask = layer.make_mask(tokens.shape[1], return_array=True, window_size=None)
        entry = (tokens + 1).astype(mx.float32)[:, None, :, None]
        history = layer.update_and_fetch(entry, entry)[0][:, :, :, 0].astype(mx.int32)
        seen = mx.ones((1, 1), mx.bool_) if mask is None else mask
        seen = mx.broadcast_to(seen, (*history.shape[:2], tokens.shape[1], history.shape[2]))
        age = mx.cumsum(seen[:, 0].astype(mx.int32), axis=-1, reverse=True) - 1
        weights = mx.array(_weights(history.shape[2]))[mx.maximum(age, 0)]
        return self._table[(history * weights * seen[:, 0]).sum(axis=-1) % _ROWS]

    def logits(self, texts: Any) -> np.ndarray:
        """Return the logits ``(..., V)`` after each text ``(..., T)``, in float64."""
        weights = _weights(np.shape(texts)[-1])[::-1]
        return self.table[((np.asarray(texts) + 1) * weights).sum(axis=-1) % _ROWS]

    def probs(self, texts: Any, temperature: float = 1.0) -> np.ndarray:
        """Return the distribution ``(..., V)`` after each text at a temperature above 0."""
        scores = self.logits(texts) / temperature
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)


def _weights(n: int) -> np.ndarray:
    """Return what the last token, the one before it, ... count for: 1, 4, 16, ... modulo R."""
    return np.array([pow(TOKENS + 1, age, _ROWS) for age in range(n)], np.int32)


@cache
def world() -> tuple[Tiny, Tiny]:
    """Return the target and the draft."""
    rng = np.random.default_rng(_SEED)
    order = rng.permuted(np.tile(np.arange(TOKENS), (_ROWS, 1)), axis=1)
    target = rng.dirichlet(15 * np.array(_TARGET), size=_ROWS) + 0.01
    scores = (TEMPERATURE * np.log(p) for p in (target, np.tile(_DRAFT, (_ROWS, 1))))
    target, draft = (np.take_along_axis(each, order, axis=1) for each in scores)
    return Tiny(target), Tiny(draft)


def contexts(written: int) -> np.ndarray:
    """Return the prompt with each text of so many tokens, in order ``(3^written, ...)``."""
    texts = TEXTS[:: TOKENS ** (LENGTH - written), :written]
    return np.concatenate([np.tile(PROMPT, (len(texts), 1)), texts], axis=1)


def chances(model: Tiny, temperature: float) -> list[np.ndarray]:
    """Return the distributions after every text of 0, 1, ... tokens: ``(3^t, V)`` each."""
    return [model.probs(contexts(t), temperature) for t in range(LENGTH)]


def scored(temperature: float) -> np.ndarray:
    """Return the target's log-probability of each token of each text ``(81, LENGTH)``."""
    texts, logs = np.concatenate([np.tile(PROMPT, (len(TEXTS), 1)), TEXTS], axis=1), []
    for t in range(len(PROMPT), texts.shape[1]):
        p = world()[0].probs(texts[:, :t], temperature)
        logs.append(np.log(p[np.arange(len(texts)), texts[:, t]]))
    return np.stack(logs, axis=1)


@cache
def own(temperature: float) -> np.ndarray:
    """Return the law ``(81,)`` of the target's own texts."""
    return np.exp(scored(temperature).sum(axis=1))


# --- what speculation writes -----------------------------------------------------------------


def law(kernels: Kernels, p: list[np.ndarray], drafts: int, spare: bool, alone: bool) -> np.ndarray:
    """Return the law ``(81,)`` of an engine that speculates.

    Args:
        kernels: kept and instead, each for the texts of 0, 1, ... tokens: ``(3^t, V)``.
        p: the target's distributions likewise, which the token after all drafts is drawn from.
        drafts: most drafts of a round.
        spare: whether the last token that is wanted is never drafted.
        alone: whether the first token is the target's own.
    """
    kept, instead = kernels
    begins, within = [np.ones(1)], np.zeros((drafts + 1, 1))  # a round; i drafts are still to come
    for t in range(LENGTH):
        budget = 0 if alone and t == 0 else min(drafts, LENGTH - t - spare)
        within[budget] += begins[t]
        ends = within[0, :, None] * p[t] + within[1:].sum(axis=0)[:, None] * instead[t]
        begins.append(ends.ravel())
        goes_on = (within[1:, :, None] * kept[t]).reshape(drafts, -1)
        within = np.concatenate([goes_on, np.zeros((1, goes_on.shape[1]))])
    return begins[LENGTH] + within.sum(axis=0)


def judged(p: np.ndarray, q: np.ndarray, drawn: np.ndarray) -> Kernel:
    """Return what the usual rule does with drafts of q if they were ``drawn`` from another."""
    ratio, residual = _rule(p, q)
    return drawn * ratio, (drawn * (1 - ratio)).sum(axis=-1, keepdims=True) * residual


def greedy(p: np.ndarray, q: np.ndarray) -> Kernel:
    """Draft the likeliest token, judge it by the soft q."""
    return judged(p, q, np.eye(TOKENS)[q.argmax(axis=-1)])


def dropped(p: np.ndarray, q: np.ndarray, rank: int) -> Kernel:
    """Draw a draft, and end the round without it unless it is among the ``rank`` likeliest."""
    offered = np.where(q >= np.sort(q)[..., [-rank]], q, 0)
    kept, instead = judged(p, q, offered)
    return kept, instead + (1 - offered.sum(axis=-1, keepdims=True)) * p


def one_number(p: np.ndarray, q: np.ndarray) -> Kernel:
    """Draw the draft and judge it with the same uniform number."""
    ratio, residual = _rule(p, q)
    kept = np.clip(ratio - (q.cumsum(axis=-1) - q), 0, q)
    return kept, (q - kept).sum(axis=-1, keepdims=True) * residual


def one_draw(p: np.ndarray, q: np.ndarray) -> Kernel:
    """Draw the draft and the residual with the same uniform number."""
    ratio, residual = _rule(p, q)
    (low, high), (least, most) = ((x.cumsum(axis=-1) - x, x.cumsum(axis=-1)) for x in (q, residual))
    high, low = high[..., None], low[..., None]
    both = np.minimum(high, most[..., None, :]) - np.maximum(low, least[..., None, :])
    return q * ratio, ((1 - ratio)[..., None] * both.clip(0)).sum(axis=-2)


def one_race(p: np.ndarray, q: np.ndarray) -> Kernel:
    """Draw the draft and the residual with the same Gumbel numbers.

    Of tokens that race, the draft is the first by q, at a time m ~ Exp(1). So by the residual r,
    which has two tokens at most, token i can come from m·q_i / r_i on, at the rate r_i.
    """
    ratio, residual = _rule(p, q)
    waits = q / np.maximum(residual, 1e-300)
    order = np.argsort(waits, axis=-1)[..., :2]
    wait, rate = (np.take_along_axis(x, order, axis=-1) for x in (waits, residual))
    late = rate[..., 1] / (1 + rate[..., 0] * (wait[..., 1] - wait[..., 0]))
    chances = np.zeros_like(p)
    np.put_along_axis(chances, order, np.stack([1 - late, late], axis=-1), axis=-1)
    return q * ratio, (q * (1 - ratio)).sum(axis=-1, keepdims=True) * chances


def _rule(p: np.ndarray, q: np.ndarray) -> Kernel:
    """Return the chance to keep each draft, and the residual."""
    left = np.maximum(p - q, 0)
    return np.minimum(1, p / q), left / np.maximum(left.sum(axis=-1, keepdims=True), 1e-300)


# --- the list --------------------------------------------------------------------------------


def _kernels(temperature: float) -> Iterator[tuple[str, str, Kernels]]:
    """Yield each mistake in a draft or its judgement: its name, a variant, the kernels."""
    target, draft = world()
    p, q = chances(target, temperature), chances(draft, temperature)

    def each(kernel: Callable[..., Kernel], *others: list[np.ndarray]) -> Kernels:
        found = [kernel(*rows) for rows in zip(p, *others, strict=True)]
        return [kept for kept, _ in found], [instead for _, instead in found]

    yield GREEDY, "", each(greedy, q)
    near = temperature * np.geomspace(1 / 4, 4, 33)
    other = {heat: chances(draft, heat) for heat in {1.0, temperature**2, *near}}
    del other[near[16]]  # the temperature itself
    for heat, rows in other.items():
        yield UNSAMPLED, f"drawn at {heat:.3g}", each(judged, q, rows)
        yield UNSAMPLED, f"judged at {heat:.3g}", each(judged, rows, q)
    for rank in range(1, TOKENS):
        yield DROPPED, f"all but the {rank} likeliest", each(partial(dropped, rank=rank), q)
    for shared in (one_number, one_draw, one_race):
        yield NOISE, shared.__name__, each(shared, q)


GREEDY = "a greedy draft judged by the soft q"
UNSAMPLED = "a draft not drawn from the q that judges it"
DROPPED = "a drafter that drops its own unlikely tokens"
NOISE = "random numbers shared by draft and target"
TWICE = "temperature applied twice"


@cache
def mistakes(temperature: float) -> dict[str, dict[str, np.ndarray]]:
    """Return the laws ``(81,)`` of known mistakes, by name and variant."""
    p, found = chances(world()[0], temperature), {}
    for name, variant, kernels in _kernels(temperature):
        for drafts, spare, alone in product(range(1, LENGTH + 1), (False, True), (False, True)):
            rounds = f"{variant}; γ = {drafts}" + ", one to spare" * spare + ", one alone" * alone
            found.setdefault(name, {})[rounds] = law(kernels, p, drafts, spare, alone)
    found[TWICE] = {"": own(temperature**2)}
    return found

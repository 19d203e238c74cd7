"""What a draw from a large vocabulary should be, in float64; and what the library's own sums are.

``law`` reads the whole numbers that ``transforms.draw`` chooses by, and counts the random numbers
that give each token: nothing is sampled.
"""

from lablib.inference.sampling import sums, transforms

import mlx.core as mx
import numpy as np

SIZES = (512, 32_000, 151_936, 262_144)  # of shipped models, Llama, Qwen and Gemma


def shapes(size):
    """Five kinds of logits, by name, float32."""
    rng = np.random.default_rng(size)
    for place, at in (("first", 0), ("middle", size // 2), ("last", size - 1)):
        peak = np.full(size, -17.0)
        peak[at] = 0
        yield f"peak {place}", peak.astype(np.float32)
    gaussian = rng.normal(size=size) * 3
    gaussian[size // 3] = 22
    yield "gaussian", gaussian.astype(np.float32)
    yield "zipf", -np.log(1.0 + rng.permutation(size)).astype(np.float32)
    two = rng.normal(size=size) - 30
    two[[7, size - 5]] = 0, -20
    yield "two peaks", two.astype(np.float32)


def log_probabilities(logits):
    gaps = logits.astype(np.float64)
    gaps = gaps - gaps.max()
    return gaps - np.log(np.exp(gaps).sum())


def penalised(row, tokens, options):
    """Scores as float32 has them where only a few tokens are changed."""
    out = row.astype(np.float64)
    for token in set(tokens):
        repeat = options.get("repeat_penalty", 1.0)
        out[token] = out[token] / repeat if out[token] > 0 else out[token] * repeat
        out[token] -= options.get("presence_penalty", 0.0)
        out[token] -= options.get("frequency_penalty", 0.0) * tokens.count(token)
    return out


def wanted(row, tokens, options):
    """Return weights ``(V,)``, which of them are kept, and which are within 1e-7 of a cut."""
    scores = penalised(row, tokens, options)
    order = np.lexsort((np.arange(len(row)), -scores))
    kept = np.ones(len(row), bool)
    close = np.zeros(len(row), bool)
    if "top_k" in options:
        kept[order[options["top_k"] :]] = False
    scores = (scores - scores.max()) / options.get("temperature", 1.0)
    weights = np.exp(scores)
    if "top_p" in options:
        p = np.where(kept, weights, 0)[order]
        p /= p.sum()
        before = np.cumsum(p) - p
        limit = float(np.float32(options["top_p"]))
        kept[order] &= before < limit
        close[order] |= np.abs(before - limit) < 1e-7
    if "min_p" in options:
        kept &= scores >= np.log(options["min_p"])
        close |= np.abs(np.exp(scores) - options["min_p"]) < 1e-7
    return weights, kept, close


def law(weights):
    """Return the probability of each of ``weights (K,)`` under ``transforms.draw``: float64."""
    rows = mx.array(weights)[None]
    if len(weights) <= sums.SMALL:
        return shares_of(rows)[0]
    blocks = sums.filled(rows, transforms._BLOCK).reshape(-1, transforms._BLOCK)
    totals = shares_of(sums.in_fours(blocks)[:, 0][None])[0]
    inside = np.zeros(blocks.shape)
    some = np.flatnonzero(totals)
    inside[some] = shares_of(blocks[mx.array(some)])
    return (totals[:, None] * inside).ravel()[: len(weights)]


def shares_of(weights):
    """Return how many of 2^32 random numbers choose each of the weights ``(N, K)``, as a share."""
    ends = np.cumsum(np.array(sums.grains(weights)), axis=-1)  # below 2^32: the shift fits
    beyond = ((ends << np.uint64(32)) - np.uint64(1)) // ends[:, -1:] + np.uint64(1)
    beyond[ends == 0] = 0
    return np.diff(beyond.astype(np.float64), prepend=0.0, axis=-1) / 2**32


def first_beyond(probabilities, u):
    """Return the token, by id, at which the cumulative probability exceeds ``u``."""
    return int(np.searchsorted(np.cumsum(probabilities), u, side="right"))

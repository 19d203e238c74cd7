"""Texts that a capstone is played on: a batch of equal prompts' lengths, one token at a time."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from lablib.cache import kv

import mlx.core as mx
import numpy as np
from scipy.special import log_softmax

Draw = Callable[[int, list[int], np.ndarray], Sequence[int]]


def write(
    model: Any, prompts: Sequence[Sequence[int]], draw: Draw, longest: int, stop: int
) -> tuple[list[list[int]], list[list[float]]]:
    """Write a completion of each prompt.

    Args:
        model: ``model(tokens (B, T), cache=...) -> logits (B, T, V)``.
        prompts: B lists of ids, all of one length.
        draw: ``draw(step, rows, logits) -> tokens``: the next token of each row that is not
            finished; ``rows`` are their places among the prompts, ``logits (len(rows), V)``.
        longest: tokens of a completion at most.
        stop: the id that ends one; it is part of it.

    Returns:
        The ids of each completion, and log-softmax of the raw logits at each of them.
    """
    cache, rows = kv.make(model), [*range(len(prompts))]
    texts: list[list[int]] = [[] for _ in prompts]
    logprobs: list[list[float]] = [[] for _ in prompts]
    each = [*map(tuple, prompts)]
    read = [*dict.fromkeys(each)]  # a prompt of many rows is read once
    last = model(mx.array(read), cache=cache)[:, -1]
    if len(read) < len(rows):
        shared = [read.index(prompt) for prompt in each]
        kv.select(cache, shared)
        last = last[mx.array(shared)]
    for step in range(longest):
        logits = np.array(last.astype(mx.float32))
        tokens = [int(token) for token in draw(step, rows, logits)]
        chances = log_softmax(logits, axis=-1)[np.arange(len(rows)), tokens]
        for row, token, chance in zip(rows, tokens, chances.tolist(), strict=True):
            texts[row].append(token)
            logprobs[row].append(chance)
        live = [i for i, token in enumerate(tokens) if token != stop]
        if not live:
            break
        if len(live) < len(rows):
            kv.select(cache, live)
            rows = [rows[i] for i in live]
        last = model(mx.array([[tokens[i]] for i in live]), cache=cache)[:, -1]
    return texts, logprobs


def uniforms(*key: Any, size: int) -> np.ndarray:
    """Return numbers from 0 to 1 ``(size,)`` that depend on the key and on nothing else."""
    return np.random.default_rng(number(*key)).random(size)


def number(*key: Any) -> int:
    """Return a whole number, a hash of the key: other keys, unrelated numbers."""
    return int.from_bytes(sha256(repr(key).encode()).digest()[:6], "big")


def by_chance(probs: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Draw one id of each row of ``probs (B, V)`` by the numbers ``u (B,)``."""
    ends = np.cumsum(probs, axis=1)
    drawn = (ends <= u[:, None] * ends[:, -1:]).sum(axis=1)
    return np.minimum(drawn, probs.shape[1] - 1)

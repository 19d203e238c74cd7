"""Completions of many prompts at once: what ``sample_n`` would draw, prompt after prompt.

``sample_n`` reads one prompt and fans it out. An evaluation has hundreds of short prompts, so here
those of equal length are read together and their rows decode together. Row i of prompt j draws
from the random numbers of (``seeds[j]``, i) as in ``sample_n(..., seed=seeds[j])``: a lesson that
recomputes one prompt gets the very completions that the stored evaluation is made of.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from lablib.cache import kv
from lablib.inference.samples import Samples
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.sampler import Sampler

import mlx.core as mx
import numpy as np


def complete(
    model: Any,
    prompts: Sequence[Sequence[int]],
    n: int = 1,
    *,
    seeds: Sequence[int],
    temperature: float = 1.0,
    max_tokens: int = 64,
    stop_tokens: Iterable[int] = (),
    max_rows: int = 256,
) -> list[Samples]:
    """Draw ``n`` completions of each prompt.

    Args:
        model: ``model(tokens (B, T), cache=...) -> logits (B, T, V)``.
        prompts: token ids of each prompt.
        n: completions of each.
        seeds: one for each prompt.
        temperature: 0 takes the best token; all ``n`` are then the same.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end a completion and belong to it.
        max_rows: about how many rows decode together.

    Returns:
        The samples of each prompt, in the order of ``prompts``.
    """
    stops = frozenset(stop_tokens)
    by_length: dict[int, list[int]] = {}
    for number, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(number)
    found: dict[int, Samples] = {}
    at_once = max(1, max_rows // n)
    for numbers in by_length.values():
        for first in range(0, len(numbers), at_once):
            chunk = numbers[first : first + at_once]
            rows = _decode(
                model,
                mx.array([prompts[number] for number in chunk]),
                [(SamplerOptions(temperature, seed=seeds[k]), i) for k in chunk for i in range(n)],
                max_tokens,
                stops,
            )
            for place, number in enumerate(chunk):
                found[number] = _samples(rows[place * n : (place + 1) * n], stops)
    return [found[number] for number in range(len(prompts))]


def _decode(
    model: Any,
    prompts: mx.array,
    wanted: list[tuple[SamplerOptions, int]],
    max_tokens: int,
    stops: frozenset[int],
) -> list[list[tuple[int, float]]]:
    """Tokens with their raw log-probabilities, for each (options, stream) of ``wanted``."""
    cache = kv.make(model)
    each = len(wanted) // len(prompts)
    fan_out = [place for place in range(len(prompts)) for _ in range(each)]
    logits = model(prompts, cache=cache)[:, -1].astype(mx.float32)[mx.array(fan_out)]
    kv.select(cache, fan_out)
    sampler = Sampler(prompts.shape[1] + max_tokens)
    for row, (options, stream) in enumerate(wanted):
        sampler.add(row, options, stream=stream)
    rows: list[list[tuple[int, float]]] = [[] for _ in wanted]
    live = list(range(len(wanted)))
    for left in reversed(range(max_tokens)):
        token, _ = sampler.draw(live, logits)
        chosen = mx.take_along_axis(logits, token[:, None], axis=-1)[:, 0]
        logprob = chosen - mx.logsumexp(logits, axis=-1)
        mx.eval(token, logprob)
        drawn = np.array(token)
        sampler.commit(live, drawn)
        for row, pair in zip(live, zip(drawn.tolist(), logprob.tolist(), strict=True), strict=True):
            rows[row].append(pair)
        keep = [i for i, id_ in enumerate(drawn.tolist()) if id_ not in stops]
        if not left or not keep:
            break
        if len(keep) < len(live):
            live = [live[i] for i in keep]
            kv.select(cache, keep)
            token = token[mx.array(keep)]
        logits = model(token[:, None], cache=cache)[:, -1].astype(mx.float32)
    return rows


def _samples(rows: list[list[tuple[int, float]]], stops: frozenset[int]) -> Samples:
    return Samples(
        tokens=[[token for token, _ in row] for row in rows],
        logprobs=[[logprob for _, logprob in row] for row in rows],
        finished=[row[-1][0] in stops for row in rows],
    )

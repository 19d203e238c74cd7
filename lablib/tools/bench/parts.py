"""Parts of lablib by themselves, each beside a plainer way to the same."""

import random
import string
from collections.abc import Callable
from functools import cache, lru_cache, partial
from itertools import islice, product
from typing import Any

import lablib
from lablib.cache import kv, shared
from lablib.inference.steering import Grammar, Vocabulary
from lablib.tools.bench.plan import GRAMMARS, LABLIB, MASKS, SAMPLERS, SHAPES
from lablib.tools.bench.turns import Answer, Run, clock

import mlx.core as mx
import numpy as np

_BYTES = 150_000_000  # of weights: they come from memory, as in a model
_PIECES = 49_152


def cases(settings: dict[str, Any], target: Callable[[], Any]) -> dict[str, Run]:
    """Return the parts' cases by name; ``target`` loads the shipped model."""
    plan, found = settings["plan"], {}
    for rows, size in plan["sampler"]:
        name = f"sampler, {rows} × {size}"
        for kind in SAMPLERS:
            found[f"{name}, {kind}"] = partial(_sample, [kind], rows, size)
        found[f"{name}, mixed, {LABLIB}"] = partial(_sample, [*SAMPLERS], rows, size)
        found[f"{name}, mixed, row by row"] = partial(_sample_rows, rows, size)
    for rows, length in plan["sharing"]:
        name = f"sharing, {rows} rows, prompt of {length}"
        for label, make in (("shared", _share), ("each its own", kv.expand)):
            found[f"{name}, {label}"] = partial(_step, target, make, rows, length, plan["new"])
    for columns, depth in SHAPES:
        for rows in plan["products"]:
            name = f"products, {rows} × {depth} × {columns}"
            found[name] = partial(_multiply, rows, columns, depth)
    for name in GRAMMARS:
        for how in MASKS:
            found[f"grammar, {name}, {how}"] = partial(_wander, name, how)
    return found


def steps_of(rows: int, size: int) -> int:
    """Return how many steps of a sampler can be timed together."""
    return min(100, max(3, 3_000_000 // (rows * size)))


@cache
def logits_of(rows: int, size: int) -> mx.array:
    """Return rows about as peaked as a language model's: Zipf's law with noise, shuffled."""
    rng = np.random.default_rng(0)
    scores = -1.3 * np.log(np.arange(1, size + 1)) + rng.normal(size=(rows, size))
    return mx.array(rng.permuted(scores, axis=1).astype(np.float32))


@cache
def _sampler(kinds: tuple[str, ...], rows: int) -> lablib.Sampler:
    """Return a sampler whose slots take turns among the kinds, with 64 tokens to penalise."""
    sampler = lablib.Sampler(4096)
    for i in range(rows):
        options = lablib.SamplerOptions(**SAMPLERS[kinds[i % len(kinds)]], seed=i)
        sampler.add(i, options, range(64))
    return sampler


def _sample(kinds: list[str], rows: int, size: int, _: int) -> Answer:
    sampler, logits = _sampler(tuple(kinds), rows), logits_of(rows, size)
    for _ in range(steps_of(rows, size)):
        sampler.sample(range(rows), logits)
    return {"units": rows * steps_of(rows, size)}


def _sample_rows(rows: int, size: int, _: int) -> Answer:
    sampler, logits = _sampler(tuple(SAMPLERS), rows), logits_of(rows, size)
    for _ in range(steps_of(rows, size)):
        for i in range(rows):
            sampler.sample([i], logits[i : i + 1])
    return {"units": rows * steps_of(rows, size)}


def _share(prefix: list[Any], rows: int) -> list[Any]:
    return [shared.SharedPrefix(layer, rows) for layer in prefix]


def _step(target: Callable, make: Callable, rows: int, length: int, new: int, _: int) -> Answer:
    """Expand a prompt that is read to rows, and let them step."""
    model, (prefix, before) = target(), _read(target, length)
    mx.clear_cache()
    mx.reset_peak_memory()
    layers = make(prefix, rows)
    for _ in range(new):
        mx.eval(model(mx.ones((rows, 1), mx.int32), cache=layers))
    return {"units": rows * new, "peak": mx.get_peak_memory() - before}


@lru_cache(1)
def _read(target: Callable, length: int) -> tuple[list[Any], int]:
    prefix = kv.make(target())
    mx.eval(target()(mx.ones((1, length), mx.int32), cache=prefix))
    return prefix, mx.get_active_memory()


def _multiply(rows: int, columns: int, depth: int, _: int) -> Answer:
    """Multiply rows with many matrices; what is read is the matrices."""
    weights = _weights(columns, depth)
    x = mx.ones((rows, depth))
    mx.eval([x @ weight.T for weight in weights])
    return {"units": len(weights), "bytes": weights[0].nbytes}


@lru_cache(1)
def _weights(columns: int, depth: int) -> list[mx.array]:
    weights = [mx.random.normal((columns, depth)) for _ in range(_BYTES // (4 * columns * depth))]
    mx.eval(weights)
    return weights


@cache
def _vocabulary() -> tuple[Vocabulary, mx.array]:
    """Return pieces of words as a tokenizer has them, bytes first, and a row of logits for each."""
    syllables = ["".join(each) for each in product("bcdfglmnprst", "aeiou", ["", *"nrsl"])]
    words = (
        space + "".join(parts)
        for n in (1, 2, 3)
        for parts in product(syllables, repeat=n)
        for space in ("", " ")
    )
    first = ["<end>", *string.printable, *map(str, range(1000))]
    texts = list(islice(dict.fromkeys([*first, *islice(words, 2 * _PIECES)]), _PIECES))
    return Vocabulary(texts, [0]), mx.random.normal((24, 1, _PIECES), key=mx.random.key(0))


@cache
def _grammar(name: str) -> Grammar:
    return Grammar(_vocabulary()[0], **GRAMMARS[name])


def _wander(name: str, how: str, turn: int) -> Answer:
    """Take the likeliest token of each row of logits, of those a grammar allows or of all.

    With "mask alone" the clock runs for the parser and its walk through the vocabulary only.
    """
    rows, text, grammar = _vocabulary()[1], [1], _grammar(name).copy()
    now, seconds = clock(), 0.0
    for i in random.Random(turn).sample(range(len(rows)), len(rows)):
        start = now()
        if how == "mask alone":
            grammar.read(text)
            grammar.allowed()
            seconds += now() - start
        logits = rows[i] if how == "free" else grammar(mx.array(text), rows[i])
        text.append(int(mx.argmax(logits)))
        if how != "mask alone":
            seconds += now() - start
        if text[-1] == 0:  # the text has ended
            text, grammar = [1], _grammar(name).copy()
    return {"units": len(rows), "seconds": seconds}

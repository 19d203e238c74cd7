"""How far rounding moves the line that a token is drawn on, and how often a draw falls between.

A draw lays the probabilities end to end in the order of their ids, and takes the token in whose
piece the random number falls. The same text that is read in other pieces has other last digits, so
that each border between two tokens lies elsewhere by a little. A random number between the old
border and the new one draws another token: what of [0, 1) does so is a sum over all borders.
"""

from collections.abc import Iterator
from typing import Any

import lablib
from lablib.cache import kv
from lablib.course.lessons.lesson_12.jobs import jobs
from lablib.course.lessons.lesson_12.runs import stored
from lablib.course.lessons.lesson_12.window import parted
from lablib.inference import Head, NGram
from lablib.inference.sampling import random_numbers
from lablib.inference.sampling.row import key_of
from lablib.models import load_head

import mlx.core as mx
import numpy as np

LENGTH = 32  # tokens of a text
DRAFTS = 4  # of look-up's first round
RARE = 1e-5  # a word that nobody expects


def read(model: Any, ids: list[int], text: list[int], drafts: int | None) -> np.ndarray:
    """Return the probabilities ``(T, V)`` of each token of ``text`` behind ``ids``, float64.

    Args:
        model: a language model.
        ids: a prompt.
        text: what follows.
        drafts: None reads as plain decoding does: the prompt but its last token, then token by
            token. Else the whole prompt is read in one forward with so many drafts, which are taken
            back, as look-up's first round does.
    """
    cache = kv.make(model)
    if drafts is None:
        model(mx.array([ids[:-1]]), cache=cache)
        rows = [model(mx.array([ids[-1:]]), cache=cache)[0, -1]]
    else:
        rows = [model(mx.array([ids + text[:drafts]]), cache=cache)[0, len(ids) - 1]]
        kv.trim(cache, drafts)
    for token in text[:-1]:
        rows.append(model(mx.array([[token]]), cache=cache)[0, -1])
        mx.eval(rows[-1])
    logits = np.array(mx.stack(rows).astype(mx.float32), dtype=float)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def between(p: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the share of [0, 1) that draws another token from the one than from the other.

    Args:
        p: probabilities ``(..., V)``.
        other: those with which the borders lie elsewhere.
    """
    ends, others = np.cumsum(p, axis=-1), np.cumsum(other, axis=-1)
    both = np.minimum(ends, others) - np.maximum(ends - p, others - other)
    return 1 - np.maximum(both, 0).sum(axis=-1)


def prompt_of(tokenizer: Any, number: int) -> list[int]:
    """Return a job's prompt."""
    _, question = [*jobs()][number]
    message = [{"role": "user", "content": question}]
    return tokenizer.apply_chat_template(message, add_generation_prompt=True)


def borders(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[dict[str, Any]]]:
    """Yield of each job's text at T = 1 the partings to expect, and the mass of rare words.

    Each text is read as plain decoding does, and again as look-up does. ``head`` and ``look-up``
    are how far a drafted text's log-probabilities lie from the plain one's at most, up to where
    they part.
    """
    who = {"head": (Head(load_head("smollm2-head", model)), 2), "look-up": (NGram(), DRAFTS)}
    for number, (kind, _) in enumerate(jobs()):
        if number in done:
            continue
        ids = prompt_of(tokenizer, number)
        how: Any = {"max_tokens": LENGTH, "seed": number}
        plain = [*lablib.TokenIterator(model, ids, **how)]
        text = [token.id for token in plain]
        p, other = (read(model, ids, text, drafts) for drafts in (None, DRAFTS))
        found = {
            "number": number,
            "kind": kind,
            "tokens": len(text),
            "expected": float(f"{between(p, other).sum():.4g}"),
            "rare": float(f"{np.where(p < RARE, p, 0).sum():.4g}"),
        }
        for name, (drafter, n) in who.items():
            more: Any = {"draft_tokens": n, "rule": "match", **how}
            drafted = [*lablib.SpeculativeTokenIterator(model, drafter, ids, **more)]
            off = [a.logprob - b.logprob for a, b in zip(plain, drafted, strict=False)]
            same = parted(text, [token.id for token in drafted])
            found[name] = float(f"{np.abs(off[: same or len(off)]).max():.2g}")
        yield [found]


def pieces(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[dict[str, Any]]]:
    """Yield of each text of ``rounding`` where the pieces of its two words begin and end.

    They are told in billionths from the random number, as the text is read plainly and by look-up:
    the word is drawn whose piece holds 0.
    """
    for number, place, words in ((x["number"], x["place"], x["words"]) for x in stored("rounding")):
        if number in done:
            continue
        ids, options = prompt_of(tokenizer, number), lablib.SamplerOptions(seed=number)
        text = [t.id for t in lablib.TokenIterator(model, ids, max_tokens=LENGTH, seed=number)]
        keys, places = np.array([key_of(options, 0)], np.uint64), np.array([place])
        u = int(random_numbers.bits(keys, places)[0]) / 2**64
        found: dict[str, Any] = {"number": number, "place": place, "words": words}
        for way, drafts in (("plain", None), ("look-up", DRAFTS)):
            p = read(model, ids, text[: max(place + 1, DRAFTS)], drafts)[place]
            ends = np.cumsum(p)
            own = [tokenizer.encode(word, add_special_tokens=False)[0] for word in words]
            found[way] = [
                [round(1e9 * float(x - u), 1) for x in (ends[i] - p[i], ends[i])] for i in own
            ]
        yield [found]

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
from lablib.course.lessons.lesson_12.window import parted
from lablib.inference import Head, NGram
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


def borders(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[dict[str, Any]]]:
    """Yield of each job's text at T = 1 the partings to expect, and the mass of rare words.

    Each text is read as plain decoding does, and again as look-up does. ``head`` and ``look-up``
    are how far a drafted text's log-probabilities lie from the plain one's at most, up to where
    they part.
    """
    who = {"head": (Head(load_head("smollm2-head", model)), 2), "look-up": (NGram(), DRAFTS)}
    for number, (kind, question) in enumerate(jobs()):
        if number in done:
            continue
        message = [{"role": "user", "content": question}]
        ids = tokenizer.apply_chat_template(message, add_generation_prompt=True)
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

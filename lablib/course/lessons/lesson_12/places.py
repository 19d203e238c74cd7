"""Judges what is drawn behind Gemma's window: the law of ``rejection``, and p after a refusal.

A text is longer than the window, and a draft model of the target's first layers guesses at its last
places. At each of them the token that a round writes has a law: a draft comes with q, stays with
min(1, p/q), and else the rule's own rest is drawn. Its distance from p is the rule's bias.
"""

from collections.abc import Iterator
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.course.lessons.lesson_12.window import DRAFTS, beginning
from lablib.inference.decoding.prompts import read_prompt
from lablib.inference.sampling.transforms import log_softmax
from lablib.inference.speculation import first_layers, rules

import mlx.core as mx
import numpy as np

TEXTS, LENGTH, LAST = 20, 700, 100  # tokens of a text, of which the last are places
LAYERS = 12  # of Gemma's 18, which draft
PIECE = 50  # tokens that are read at once
REFUSED = 5  # places of a text at which drafts are read and taken back


def places(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[dict[str, Any]]]:
    """Yield of each text the worst bias among its places, and how far p moves by a refusal."""
    draft = first_layers(model, LAYERS)
    for number in range(TEXTS):
        if number not in done:
            begin = "\n".join(map(beginning, (number, number + TEXTS)))
            ids = tokenizer.encode(begin)[:LENGTH]
            yield [{"number": number, **of_text(model, draft, ids)}]


def of_text(model: Any, draft: Any, ids: list[int]) -> dict[str, Any]:
    """Return the worst bias, in total variation, and |log p| difference, and Σ min(p, q)."""
    p, q = (mx.exp(log_softmax(last_logits(each, ids))) for each in (model, draft))
    drawn = mx.random.categorical(mx.log(q), key=mx.random.key(len(ids)))
    biases, kept = zip(*(bias_at(p[i], q[i], drawn[i]) for i in range(LAST)), strict=True)
    starts = range(len(ids) - LAST, len(ids) - 1, LAST // REFUSED)
    return {
        "tokens": len(ids),
        "places": len(biases),
        "bias": max(biases),
        "kept": round(float(np.mean(kept)), 4),
        "moved": max(moved_by_refusal(model, ids, start) for start in starts),
    }


def last_logits(model: Any, ids: list[int]) -> mx.array:
    """Return the logits ``(LAST, V)`` after each of the last tokens."""
    cache = read(model, ids[: 1 - LAST]).cache
    halves = [ids[-LAST : -LAST // 2], ids[-LAST // 2 :]]
    return mx.concatenate([model(mx.array([half]), cache=cache)[0] for half in halves])


def read(model: Any, ids: list[int]) -> Rewinder:
    """Return a reader that has read a text but for its last token."""
    reader = Rewinder(model, kv.make(model))
    for _ in read_prompt([reader], ids, PIECE):
        pass
    return reader


def bias_at(p: mx.array, q: mx.array, drawn: mx.array) -> tuple[float, float]:
    """Return a round's bias at one place, p and q ``(V,)``, and how often its draft stays."""
    both = mx.stack([p, p])[None]  # what follows a draft that stays is not asked here
    outcome = rules.rejection(both, q[None, None], drawn[None, None])
    rest = np.array(outcome.following[0, 0], dtype=np.float64)
    p64, q64 = (np.array(each, dtype=np.float64) for each in (p, q))
    stays = np.minimum(q64, p64)  # q · min(1, p/q)
    law = stays + (q64.sum() - stays.sum()) * rest
    return float(np.abs(law - p64).sum() / 2), float(stays.sum())


def moved_by_refusal(model: Any, ids: list[int], start: int) -> float:
    """Return how far log p moves if wrong drafts are read after ``start`` tokens, and taken back.

    It is compared with a fresh read of the same text, by its largest difference.
    """
    again, fresh = (read(model, ids[: start + 1]) for _ in range(2))
    wrong = [(token + 1) % 1000 for token in ids[start : start + DRAFTS]]
    mx.eval(again.forward(mx.array([wrong])))
    again.rewind(DRAFTS)
    after, alone = (each.forward(mx.array([ids[start : start + 1]])) for each in (again, fresh))
    return float(mx.abs(log_softmax(after) - log_softmax(alone)).max())

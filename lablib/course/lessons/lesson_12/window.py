"""A window that wraps: Gemma 3 attends to the last 512 tokens in most layers.

Keys that fell out of the window can't be brought back, so that a draft which was read and refused
must not push any out. Here two engines are given the same drafts, and both must write the greedy
text: lablib's, and mlx-lm's own ``speculative_generate_step``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import lablib
from lablib.cache.rewind import restore, snapshot
from lablib.course.lessons.lesson_12.jobs import jobs

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx_lm.generate import speculative_generate_step
from mlx_lm.models.cache import KVCache, RotatingKVCache, trim_prompt_cache

BEFORE, BEHIND = 500, 200  # tokens of a text that is read, and greedy ones behind them
TEXTS, DRAFTS = 200, 3
VERSION = mlx_lm.__version__  # of the other engine
TURNED = 5  # texts that begin with the questions in turn; the others have them in any order


class Prompter:
    """A draft model that knows a text, and says every third of its tokens wrong.

    Args:
        text: the ids that the target writes greedily, prompt included.
        size: the vocabulary's.
    """

    def __init__(self, text: Sequence[int], size: int) -> None:
        self.text, self.vocab_size = [*text], size
        self.layers: list[Any] = [None]

    def make_cache(self) -> list[KVCache]:
        """Return a cache that only counts."""
        return [KVCache()]

    def __call__(self, tokens: mx.array, cache: list[KVCache]) -> mx.array:
        """Return logits ``(1, T, V)``: 9 at its guess of what follows each token, else 0."""
        begin, n = cache[0].offset, tokens.shape[1]
        cache[0].update_and_fetch(*[mx.zeros((1, 1, n, 1))] * 2)
        last = len(self.text) - 1
        ids = [self.text[min(i + 1, last)] for i in range(begin, begin + n)]
        guesses = [(x + 1) % self.vocab_size if i % 3 == 0 else x for i, x in enumerate(ids, begin)]
        return mx.where(mx.arange(self.vocab_size) == mx.array(guesses)[:, None], 9.0, 0.0)[None]


def parted(one: Iterable[int], other: Iterable[int]) -> int | None:
    """Return the first place where two texts differ, or None."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), None)


def small_ring(window: int = 6) -> tuple[dict[str, list[int]], int]:
    """Return what lies in a ring of mlx-lm's before and after drafts, and how many it takes back.

    Tokens 1 to 8 are read one by one, then 9, 10 and 11 as drafts, all of which are refused. In
    the last row the ring's snapshot is put back, as lablib does.
    """
    layer = RotatingKVCache(max_size=window)

    def read(*tokens: int) -> list[int]:
        numbers = mx.array(tokens, dtype=mx.float32).reshape(1, 1, -1, 1)
        layer.update_and_fetch(numbers, numbers)
        return slots()

    def slots() -> list[int]:
        return np.array(layer.keys).ravel().astype(int).tolist()

    rows = {"the text so far": [read(token) for token in range(1, 9)][-1]}
    before = snapshot([layer])
    rows["three drafts are read"] = read(9, 10, 11)
    taken = trim_prompt_cache([layer], 3)
    rows["mlx-lm takes them back?"] = slots()
    restore([layer], before)
    rows["lablib does"] = slots()
    return rows, taken


def window(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[dict[str, Any]]]:
    """Yield of each text where each engine's text with drafts parts from the plain one.

    Places count from its beginning; None: the texts are equal.
    """
    for number in range(TEXTS):
        if number not in done:
            ids = tokenizer.encode(beginning(number))[:BEFORE]
            yield [{"number": number, **one_text(model, ids, BEHIND)}]


def beginning(number: int) -> str:
    """Return a text's beginning: the questions of ``jobs``, in an order of its own."""
    asked = [question for _, question in jobs()]
    if number < TURNED:
        order = np.roll(np.arange(len(asked)), -(len(asked) // TURNED) * number)
    else:
        order = np.random.default_rng(number).permutation(len(asked))
    return "\n".join(asked[i] for i in order)


def one_text(model: Any, ids: list[int], n: int) -> dict[str, Any]:
    """Return where ``n`` greedy tokens behind ``ids`` part, with each engine's speculation."""
    options: Any = {"temperature": 0.0, "max_tokens": n, "stop_tokens": ()}
    plain = [token.id for token in lablib.TokenIterator(model, ids, **options)]
    draft = Prompter(ids + plain, model(mx.array([ids[:1]])).shape[-1])
    with lablib.SpeculativeTokenIterator(
        model, draft, ids, draft_tokens=DRAFTS, **options
    ) as writer:
        ours = [token.id for token in writer]
    steps = speculative_generate_step(
        mx.array(ids), model, draft, num_draft_tokens=DRAFTS, max_tokens=n
    )
    theirs = (int(token) for token, *_ in steps)  # written as far as it is the plain text
    places = {"lablib": parted(plain, ours), "mlx-lm": parted(plain, theirs)}
    found = {name: at if at is None else at + len(ids) for name, at in places.items()}
    stats = writer.stats
    return {
        "tokens": len(ids) + len(plain),
        "kept": stats["total_accepted"],
        "judged": stats["total_reached"],
        **found,
    }

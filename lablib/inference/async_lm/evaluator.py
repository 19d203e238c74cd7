"""Compute next-token log-probabilities of a batch of prompts, each prefix once, and keep it.

The way of a batch: look the prompts up in the tree, plan the tokens that are missing, forward them
a piece at a time, hand their keys and values to the tree. Between two forwards the batch gives way
to whoever drives it; it owns or has pinned all it needs, so the cache may change meanwhile.
"""

import math
import sys
import warnings
from collections import OrderedDict, deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any

from lablib.cache import kv
from lablib.cache.same_bits import check_model
from lablib.cache.slab import Slab, SlabCache, caches_of_rows
from lablib.cache.trie import Lease, Match, TokenTrie
from lablib.inference.async_lm import plan
from lablib.inference.async_lm.plan import WIDTH, Advance, Prompt, TokenRun
from lablib.inference.async_lm.records import BatchRecord, Records
from lablib.inference.sampling.text_sampler import NOT_FINITE, only_known
from lablib.inference.sampling.transforms import log_softmax
from lablib.machine.streams import clear_with_thread
from lablib.models.interface import agree, find_out, vocab_size_of
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache, RotatingKVCache

Answers = dict[Prompt, mx.array | BadValue]  # a row, or why there is none
Rows = mx.array | tuple[()]  # (n, V); nothing where no prompt ends
_TOKEN_BYTES = 64  # a token of the tree's edges weighs no more, apart from its keys and values
_RECENT = 1 << 15  # prompts of which it is known that they were kept


class BatchEvaluator:
    """Evaluate prompts with ``model(tokens (B, T), cache) -> logits (B, T, V)``, and remember.

    A forward takes ``step`` tokens at most, padding included. The tree keeps at most ``max_tokens``
    tokens, None meaning what the bytes allow, and ``max_bytes`` at rest, three quarters of these
    for keys and values. At most ``rows`` prompts share a forward that reads the tree; with None the
    model is tried out. Only the first ``n_known`` ids have a probability; None: all.
    """

    def __init__(
        self,
        model: Any,
        step: int,
        max_tokens: int | None,
        max_bytes: float,
        rows: int | None = None,
        n_known: int | None = None,
    ):
        self.model = model
        self.n_known = n_known
        self.step = step
        if max_tokens is None:
            max_tokens = int(min(0.75 * max_bytes / _TOKEN_BYTES, sys.maxsize))
        self.max_tokens = max_tokens
        self.max_bytes = max_bytes
        self.vocab_size = vocab_size_of(model)
        self.records = Records()
        self._attends = getattr(model, "cache_attends", False)
        self._warned = False
        self._warned_of_eviction = False
        caches = kv.make(model)
        self.n_layers = len(caches)
        # Of a prompt up to the longest, keys and values can be cut anywhere.
        self.longest = min(map(_longest, caches))
        if self.longest == 0:
            self._warn("has a cache that cannot be cut at a token")
        elif rows is None:
            rows = _rows_that_agree(model)
            if rows == 0:
                self.longest = 0
                self._warn("does not answer the same from a cache that prompts share")
        self.rows = WIDTH if rows is None else rows
        self.clear()

    def clear(self) -> None:
        """Forget everything; a batch that is running goes on with its own."""
        slab = Slab(self.n_layers, self.max_tokens, 0.75 * self.max_bytes)
        self.trie = TokenTrie(self.max_tokens, 0.25 * self.max_bytes, slab=slab)
        self._kept: OrderedDict[int, None] = OrderedDict()  # the hash of each, the latest last

    def lookup(self, prompt: Prompt) -> mx.array | None:
        """Return the tree's log-probabilities after ``prompt``, if any; counts as a use."""
        row = self.trie.match(prompt).logprobs
        if row is not None:
            self.records.stats.update(prompts=1, cached=1)
        return row

    def evaluate(
        self, prompts: list[Prompt], answers: Answers, keys: bool = False
    ) -> Generator[None]:
        """Put the log-probabilities ``(V,)`` after each of some distinct prompts into ``answers``.

        They are the tree's own arrays: hand out copies. A prompt whose logits are not finite gets
        an error, and the tree nothing of its batch. With ``keys`` a prompt runs also if only its
        keys and values are missing. A generator that stops before each forward. Closing it early
        frees all it holds; an error in a forward leaves the cache as it was before.
        """
        clear_with_thread()
        check_model("model", self.model)
        trie = self.trie
        missing: dict[Prompt, Match] = {}
        alone: list[Prompt] = []
        record = self.records.batch(len(prompts))
        for prompt in prompts:
            match = trie.match(prompt)
            lacks_keys = keys and len(match.slots) < len(prompt)
            if match.logprobs is not None and not lacks_keys:
                answers[prompt] = match.logprobs
                self.records.stats.update(cached=1)
            elif len(prompt) <= self.longest:
                missing[prompt] = match
            else:
                alone.append(prompt)
        yield from self._run(trie, missing, answers, record)
        if alone:
            self._warn(f"has a sliding window of {self.longest}, shorter than a prompt")
        # Attention gives what is masked a weight of 0, and 0 · NaN is NaN: a prompt that shared a
        # row with a longer one may owe its NaN to that one.
        alone += [prompt for prompt in missing if isinstance(answers[prompt], BadValue)]
        for equals in _equals(alone, self.step):
            yield from self._run_alone(trie, equals, answers, record)

    # With the tree: plan, run, keep.

    def _run(
        self, trie: TokenTrie, missing: dict[Prompt, Match], answers: Answers, record: BatchRecord
    ) -> Iterator[None]:
        with Lease(trie, *(match.tip for match in missing.values())) as lease:
            # The slot of the last token at hand stands for all tokens up to it.
            runs = plan.plan_runs(
                (prompt, len(match.slots), match.slots[-1:].tobytes())
                for prompt, match in missing.items()
            )
            kept = self._kept  # of this tree: another one may follow before the batch ends
            self._count_rereads(runs)
            trie.make_room(sum(len(run.prompt) - run.kept for run in runs))
            # Rows in the callers' order stay where they lie, and their slots follow one another.
            order = {prompt: number for number, prompt in enumerate(missing)}
            rows = sorted(runs, key=lambda run: order[run.prompt])
            new = {run: lease.allocate(len(run.prompt) - run.kept) for run in rows}
            for run in runs:  # parents come first
                before = missing[run.prompt].slots
                if run.parent is not None:
                    before = run.parent.slots[: run.start]
                run.slots = np.concatenate([before, new[run]])
                self.records.stats.update(reused=run.start)
            while not all(run.finished for run in runs):
                yield
                advances = plan.choose_forward(rows, self.step, self.vocab_size, self.rows)
                self._forward(trie, advances, answers)
                self.records.forward(record, [(run.done, stop) for run, stop in advances])
                for run, stop in advances:
                    run.done = stop
            # Keys and values are as bad as logits, and so is what continues them: none is kept.
            if any(isinstance(answers[prompt], BadValue) for prompt in missing):
                return
            for run in runs:
                lease.insert(run.prompt, new[run], run.kept, answers[run.prompt])
                for end in run.ends[:-1]:
                    prompt = run.prompt[:end]
                    trie.insert(prompt, logprobs=answers[prompt])
            for prompt in missing:
                kept[hash(prompt)] = None
            while len(kept) > _RECENT:
                kept.popitem(last=False)

    def _count_rereads(self, runs: list[TokenRun]) -> None:
        """Count the tokens of prompts that were kept, and go on by a token after an eviction."""
        for run in runs:
            if hash(run.prompt[:-1]) in self._kept:
                self.records.stats.update(reread=len(run.prompt) - 1 - run.start)
        reread = self.records.stats["reread"]
        limit = self.trie.slab.limit
        wanted = min(self.max_tokens, self.max_bytes) > 0  # else nothing is to be kept
        if wanted and reread > limit and not self._warned_of_eviction:
            self._warned_of_eviction = True
            bound = "cache_size" if limit == self.max_tokens else "cache_bytes"
            fact = f"callers hold more than the {limit} tokens that {bound}= lets the cache keep"
            cure = f"raise {bound}=, or let fewer callers run at a time"
            warnings.warn(
                f"{fact}: {reread} were evicted and read again; {cure}", UserWarning, stacklevel=3
            )

    def _forward(self, trie: TokenTrie, advances: list[Advance], answers: Answers) -> None:
        """Forward the next tokens of some runs, and get the answers that end in them."""
        tokens, caches, ends = _lay_out(trie.slab, advances, self._attends)
        try:
            logits = self.model(tokens, cache=caches).flatten(0, 1)
            rows = self._logprobs(logits[mx.array([*ends.values()])]) if ends else ()
        except BaseException:
            trie.slab.clear_rows()
            with suppress(Exception):  # its arrays must not fail in somebody else's forward
                self._compute(trie)
            raise
        self._compute(trie, rows)
        answers.update(zip(ends, _each(rows), strict=True))

    def _compute(self, trie: TokenTrie, rows: Rows = ()) -> None:
        try:
            mx.eval(rows, trie.slab.arrays)
        except BaseException:  # nobody knows how far it came: nothing in this slab can be trusted
            if self.trie is trie:
                self.clear()
            raise

    def _logprobs(self, logits: mx.array) -> mx.array:
        return log_softmax(only_known(logits, self.n_known))

    # Without it.

    def _run_alone(
        self, trie: TokenTrie, prompts: list[Prompt], answers: Answers, record: BatchRecord
    ) -> Iterator[None]:
        """Run prompts of one length from their start, with the model's own caches."""
        tokens = mx.array(prompts)
        cache = kv.make(self.model)
        count, length = tokens.shape
        run = TokenRun(prompts[0], stored=0, start=0, done=0, ends=[length])
        while not run.finished:
            yield
            stop = run.reach(self.step // count, self.vocab_size)
            logits = self.model(tokens[:, run.done : stop], cache=cache)
            rows = self._logprobs(logits[:, -1]) if stop == length else ()
            mx.eval(rows, [layer.state for layer in cache])
            self.records.forward(record, [(run.done, stop)] * count)
            run.done = stop
        for prompt, row in zip(prompts, _each(rows), strict=True):
            answers[prompt] = row
            if isinstance(row, mx.array):
                trie.insert(prompt, logprobs=row)

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            cost = "it runs without prefix reuse, each such prompt from its start"
            warnings.warn(f"{type(self.model).__name__} {why}: {cost}", UserWarning, stacklevel=3)


def _each(rows: Rows) -> list[mx.array | BadValue]:
    """Return the rows ``(n, V)`` as arrays of their own, or errors for those with NaN.

    A view would keep the batch in memory.
    """
    return [
        BadValue(f"model: {NOT_FINITE}") if np.isnan(row).any() else mx.array(row)
        for row in np.asarray(rows)
    ]


def rows_of(answers: Answers, prompts: Iterable[Prompt]) -> list[mx.array]:
    """Return the rows after some prompts; raise the error of the first without one."""
    rows: list[mx.array] = []
    for prompt in prompts:
        row = answers[prompt]
        if isinstance(row, BadValue):
            raise row
        rows.append(row)
    return rows


def own_copy(rows: mx.array) -> mx.array:
    """Return a copy, for a caller who may write into it, of a row ``(V,)`` or of several."""
    return mx.array(np.asarray(rows))  # MLX's own copies share a buffer that NumPy can write to


def _rows_that_agree(model: Any) -> int:
    """Return how many rows of one forward answer, on this very model, as each does alone.

    Some models read the mask of a batch otherwise than it is meant: then 1. Some write a layer's
    cache more than once in a forward, or ask it for what only their own has: then 0.
    """
    for rows in (WIDTH, 1):
        if find_out(model, ("rows agree", rows), partial(_agrees, model, rows)):
            return rows
    return 0


def _agrees(model: Any, rows: int) -> bool:
    """Return whether ``rows`` a forward, through a tree of their own, answer as each does alone."""
    evaluator = BatchEvaluator(model, 64, 64, math.inf, rows)
    answers: Answers = {}
    cold = [(0,), (1, 0)]
    warm = [(0, 1, 1), (1, 0, 0), (1, 1)]
    for prompts in (cold, warm):
        deque(evaluator.evaluate(prompts, answers), maxlen=0)
    alone = [model(mx.array([prompt]), cache=kv.make(model))[0, -1] for prompt in answers]
    wanted = log_softmax(mx.stack(alone).astype(mx.float32))
    got = mx.stack(rows_of(answers, answers))
    return agree(got.astype(alone[0].dtype), wanted)


def _equals(prompts: list[Prompt], step: int) -> Iterator[list[Prompt]]:
    """Yield prompts of one length, as many as one forward may take."""
    for length, group in groupby(sorted(prompts, key=len), key=len):
        equals = list(group)
        count = max(1, min(step, WIDTH // length))
        for start in range(0, len(equals), count):
            yield equals[start : start + count]


def _longest(cache: Any) -> float:
    """Return how long a sequence may be for its cache to be no more than its keys and values."""
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return cache.max_size
    return math.inf if type(cache) is KVCache else 0


def _lay_out(
    slab: Slab, advances: list[Advance], attends: bool
) -> tuple[mx.array, list[SlabCache], dict[Prompt, int]]:
    """Return the tokens ``(B, T)`` of a forward, their caches, and where its prompts end.

    A row for each run, flush right; the ends are indices into the flattened ``(B · T)``.
    """
    columns = max(stop - run.done for run, stop in advances)
    width = max(stop for _, stop in advances)
    tokens = np.zeros((len(advances), columns), np.int32)
    seen = np.zeros((len(advances), width), np.int32)
    ends: dict[Prompt, int] = {}
    for row, (run, stop) in enumerate(advances):
        here = (row + 1) * columns - stop  # the index of position 0
        tokens[row, run.done - stop :] = run.prompt[run.done : stop]
        seen[row, :stop] = run.slots[:stop]
        for end in run.ends:
            if run.done < end <= stop:
                ends[run.prompt[:end]] = here + end - 1
    stored = np.array([max(run.done, run.kept) for run, _ in advances])
    caches = caches_of_rows(slab, seen, stored, columns, attends)
    return mx.array(tokens), caches, ends

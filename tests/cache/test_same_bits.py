"""Inside ``same_bits()`` a text has one set of logits, to the last bit, however it is read."""

import re
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import lablib
from lablib.cache import kv, shared
from lablib.cache.rewind_batch import BatchRewinder
from lablib.machine import backend, one_order
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import BatchRotatingKVCache, RotatingKVCache
from oracles import architectures
from oracles.fresh import run

pytestmark = pytest.mark.skipif(
    backend.blas().few_rows is None, reason="the same bits are promised with few_rows.c only"
)
STRANGE = ["llama", "gemma3_text"]  # the second one has windows of 16
KINDS = {  # a model, and the width of its windows
    "target": ("target", "float32", None),
    "target in windows": ("target", "float32", 50),
    **{name: (name, "float32", None) for name in STRANGE},
}
STORED = {
    f"{name} in {dtype}": (name, dtype, None)
    for name in ("target", *STRANGE)
    for dtype in ("bfloat16", "4 bits")
}
WHOLE = [pytest.param(kind, marks=pytest.mark.thorough) for kind in STORED]
LENGTH, LONG = 70, 600
SIZES = [1, 2, 3, 5, 8, 15, 16, 17, 18, 31, 32, 33, 64, 65, 97, 128, 129, 300, 511, 512]


class Reader:
    """A model, a text of its own ids, and the logits after each of its tokens, read singly."""

    def __init__(self, kind: str, length: int = LENGTH) -> None:
        name, dtype, width = {**KINDS, **STORED}[kind]
        if name == "target":
            self.model = lablib.load("target")[0]
        else:
            self.model = architectures.build(name)
            length = min(length, 120)
        if dtype != "float32":
            self.model = architectures.prepared(self.model, dtype)
        self.make = partial(kv.make, self.model, width)
        size = 512 if name == "target" else architectures.VOCAB
        self.text = np.random.default_rng(62).integers(1, size, length).tolist()
        self.alone = self.read(1)
        mx.eval(self.alone)  # for any thread

    def read(self, size: int) -> mx.array:
        cache = self.make()
        parts = [self.text[i : i + size] for i in range(0, len(self.text), size)]
        return mx.concatenate([self.model(mx.array([part]), cache=cache)[0] for part in parts])

    def has_read(self, length: int) -> kv.Cache:
        cache = self.make()
        self.model(mx.array([self.text[:length]]), cache=cache)
        mx.eval([layer.state for layer in cache])
        return cache

    def share(self, logits: mx.array, starts: Sequence[int]) -> float:
        """Return which share of the logits ``(B, T, V)`` are those of reading singly."""
        length = logits.shape[1]
        alone = mx.stack([self.alone[start : start + length] for start in starts])
        return float(np.mean(np.array(logits == alone)))


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    with lablib.same_bits():
        yield


@pytest.fixture(params=[*KINDS, *WHOLE])
def reader(request: Any) -> Reader:
    return Reader(request.param)


def test_pieces_of_any_size(reader: Reader) -> None:
    for size in (2, 15, 16, 17, 33, 64, LENGTH):
        assert mx.array_equal(reader.read(size), reader.alone), size


def test_rows_of_any_number(reader: Reader) -> None:
    for rows in (2, 16, 17, 40):
        cache = kv.expand(reader.has_read(60), rows)
        for at in (60, 61):
            logits = reader.model(mx.array([reader.text[at : at + 1]] * rows), cache=cache)
            assert reader.share(logits, [at] * rows) == 1, rows


def _ragged(reader: Reader, count: int, seed: int = 0) -> Iterator[float]:
    """Read on in a batch of texts of any length, of which some are taken back and some leave."""
    rng = np.random.default_rng([count, seed])
    at = rng.integers(1, len(reader.text) - 12, count)
    batch = BatchRewinder(reader.model, kv.merge([reader.has_read(int(n)) for n in at]), list(at))

    def forward(length: int) -> float:
        parts = [reader.text[start : start + length] for start in at]
        return reader.share(batch.forward(mx.array(parts)), at)

    for length in (1, 1, 4):
        yield forward(length)
        at = at + length
    back = rng.integers(0, 4, count)
    batch.rewind(back.tolist())
    at = at - back
    yield forward(1)
    at = at + 1
    keep = np.argsort(at)[: max(1, count // 2)]  # padding that all of these share is dropped
    batch.select(keep.tolist())
    at = at[keep]
    yield forward(2)


def test_ragged_batches(reader: Reader) -> None:
    for count in (2, 5, 20):
        assert list(_ragged(reader, count)) == [1, 1, 1, 1, 1], count


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_grid(kind: str) -> None:
    reader = Reader(kind, 200 if "windows" in kind else LONG)
    length = len(reader.text)
    for size in SIZES:
        assert mx.array_equal(reader.read(size), reader.alone), size
    for start in (1, length - 4):
        before = reader.has_read(start)
        for rows in (1, 2, 3, 5, 8, 15, 16, 17, 18, 31, 32, 33, 64):
            parts = mx.array([reader.text[start : start + 2]] * rows)
            assert reader.share(reader.model(parts, cache=kv.expand(before, rows)), [start]) == 1
    for count in (1, 5, 16, 17, 64):
        assert set(_ragged(reader, count, seed=1)) == {1}, count


# --- through the doors -------------------------------------------------------------------------
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
PROMPTS = [[7, 2], PROMPT, list(range(1, 25))]


def _plain(model: Any, prompt: list[int], n: int = 30) -> tuple[list[int], list[float]]:
    iterator = lablib.TokenIterator(model, prompt, max_tokens=n, temperature=0.0, stop_tokens=())
    list(iterator)
    return iterator.tokens, iterator.logprobs


@pytest.mark.parametrize("name", ["target", *STRANGE])
def test_drafts_change_no_bit_of_a_greedy_text(name: str) -> None:
    is_ours = name == "target"
    model = lablib.load(name)[0] if is_ours else architectures.build(name)
    near = lablib.load("draft")[0] if is_ours else architectures.build(name, noise=0.3)
    tokens, logprobs = _plain(model, PROMPT)
    ways = [(near, 4), (near, 20), (lablib.NGram(shortest=1), 4)]
    ways += [(lablib.Tree(near), 20)] if is_ours else []
    for draft, most in ways:
        helped = lablib.SpeculativeTokenIterator(
            model, draft, PROMPT, max_tokens=30, draft_tokens=most, temperature=0.0, stop_tokens=()
        )
        list(helped)
        assert (helped.tokens, helped.logprobs) == (tokens, logprobs), (draft, most)
    batch = lablib.speculative_batch(
        model, near, PROMPTS, max_tokens=10, temperature=0.0, stop_tokens=()
    )
    for prompt, own, numbers in zip(PROMPTS, batch.tokens, batch.logprobs, strict=True):
        assert (own, numbers) == _plain(model, prompt, 10)


@pytest.mark.parametrize("name", ["target", *STRANGE])
def test_neighbours_change_no_bit(name: str) -> None:
    model = lablib.load(name)[0] if name == "target" else architectures.build(name)
    prompts = [[*each, 1 + i] for i in range(12) for each in PROMPTS]
    options = [lablib.SamplerOptions(seed=i, logprobs=True) for i in range(len(prompts))]
    ask = partial(lablib.sample_many, model, max_tokens=6, stop_tokens=())
    together = ask(prompts, options)
    for i in (0, 7, 35):
        (alone,) = ask(prompts[i : i + 1], options[i : i + 1])
        assert alone.tokens == together[i].tokens
        assert alone.logprobs == together[i].logprobs


def test_rows_that_share_a_prompt_have_the_bits_of_rows_that_do_not() -> None:
    model = lablib.load("target")[0]
    reader = Reader("target")
    cache = reader.has_read(60)
    sharing, alone = shared.fan_out(model, cache, 40), kv.expand(cache, 40)
    assert type(sharing[0]) is shared.SharedPrefix
    for seed, length in enumerate((1, 1, 3)):
        tokens = mx.random.randint(1, 512, (40, length), key=mx.random.key(seed))
        assert mx.array_equal(model(tokens, cache=sharing), model(tokens, cache=alone))


def test_callers_who_share_a_batch_get_what_each_gets_alone() -> None:
    model = lablib.load("target")[0]
    prompts = [[*PROMPT * 3, i, *range(1, i % 7)] for i in range(1, 40)]
    together = lablib.AsyncMlxLM(model, None).batch_next_token_logprobs_sync(prompts)
    for i in (0, 17, 38):
        alone = lablib.AsyncMlxLM(model, None).next_token_logprobs_sync(prompts[i])
        assert mx.array_equal(mx.array(together[i]), mx.array(alone))


# --- what it refuses, and leaves behind --------------------------------------------------------
@pytest.mark.parametrize("name", ["lablib hybrid", "mamba2", "deepseek_v3"])
def test_a_model_with_an_order_of_its_own_is_refused(name: str) -> None:
    model = architectures.build(name)
    message = r"model must read texts with the same bits inside same_bits\(\)"
    with pytest.raises(BadValue, match=message):
        lablib.TokenIterator(model, PROMPT)
    with pytest.raises(BadValue, match=message):
        lablib.AsyncMlxLM(model, None).next_token_logprobs_sync(PROMPT)


def _refusal(code: str, **environment: str) -> str:
    return run(f"import lablib\n{code}\nlablib.same_bits().__enter__()", **environment).stderr


def test_where_it_cannot_hold_it_says_so() -> None:
    off = _refusal("", LABLIB_FEW_ROWS="off")
    assert "can't be promised here: few_rows.c is not in use (LABLIB_FEW_ROWS=off)" in off
    gpu = _refusal("import mlx.core as mx; mx.default_device = lambda: mx.gpu")
    assert "can't be promised here: a GPU's kernels choose the order" in gpu
    planted = "from lablib.machine import one_order; one_order._switch = lambda on: True"
    assert re.search("promised here: .*products.* gave other bits", _refusal(planted))


def test_the_proof_tells_one_order_from_several() -> None:
    assert one_order.proof() == []
    one_order.end()
    try:
        assert "products" in one_order.proof()
    finally:
        one_order.begin()


def test_it_nests_is_for_all_threads_and_leaves_nothing_behind() -> None:
    reader = Reader("target in windows")
    found = []

    def work() -> None:
        with lablib.same_bits():
            pass
        found.append(mx.array_equal(reader.read(40), reader.alone).item())
        mx.clear_streams()

    with pytest.raises(ZeroDivisionError), lablib.same_bits():
        raise ZeroDivisionError
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [True]
    one_order.end()  # the fixture's
    try:
        assert not bool(one_order.blocks)
        assert not mx.array_equal(reader.read(40), reader.alone)
    finally:
        one_order.begin()


def test_mlx_lms_rings_are_its_own_again() -> None:
    code = """
import lablib
from mlx_lm.models.cache import BatchRotatingKVCache, RotatingKVCache
written = [dict(vars(ring)) for ring in (RotatingKVCache, BatchRotatingKVCache)]
with lablib.same_bits(), lablib.same_bits():
    assert vars(RotatingKVCache) != written[0]
assert [dict(vars(ring)) for ring in (RotatingKVCache, BatchRotatingKVCache)] == written
"""
    assert run(code).returncode == 0


@pytest.mark.parametrize("kept", [0, 3])
@pytest.mark.parametrize("window", [None, 5, 8])
def test_a_ring_hands_out_what_it_holds_in_order_of_time(kept: int, window: int | None) -> None:
    ring = type("Own", (RotatingKVCache,), {})(8, keep=kept)
    batch = BatchRotatingKVCache(8, [2, 0])
    for time in range(30):
        mask, masks = ring.make_mask(1, window), batch.make_mask(1, window)
        now = mx.full((1, 1, 1, 1), time)
        keys, _ = ring.update_and_fetch(now, now)
        times = keys.reshape(-1).tolist()
        held = [*range(min(kept, time + 1)), *range(kept, time + 1)]
        assert times == (held if len(held) <= 8 else held[:kept] + held[kept - 8 :])
        if mask is not None:
            assert [t for t, is_seen in zip(times, mask.tolist(), strict=True) if is_seen] == (
                times[-(window or 8) :]
            )
        both = mx.broadcast_to(now, (2, 1, 1, 1))
        keys, _ = batch.update_and_fetch(both, both)
        for row, padding in enumerate((2, 0)):
            times = keys[row].reshape(-1).tolist()
            seen = masks.reshape(2, -1)[row].tolist()
            read = list(range(padding, time + 1))[-(window or 8) :]
            assert [t for t, is_seen in zip(times, seen, strict=True) if is_seen] == read

"""Whatever is cached, shared, evicted or cut: AsyncMlxLM answers as a fresh forward does."""

import asyncio
import warnings

from lablib.inference import sample_n
from lablib.inference.async_lm import AsyncMlxLM, Query
from lablib.models import zoo
from lablib.models.base import LanguageModel
from lablib.models.gpt import gpt_config
from lablib.models.interface import vocab_size_of
from lablib.models.llama import llama_config
from lablib.models.retention import hybrid_config

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx_lm.models import gemma2, llama, qwen3
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import KVCache, RotatingKVCache, make_prompt_cache

TOLERANCE = 1e-4
LONGEST = 12


SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": 40}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6}
QWEN = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "rope_theta": 10000.0}
QWEN |= {"max_position_embeddings": 64, "tie_word_embeddings": False}


def of_mlx_lm(module, **more):
    named = {"model_type": module.__name__.rpartition(".")[2]}
    return module.Model(module.ModelArgs(**named | SIZES | more))


def mlx_lm_llama(**more):
    return of_mlx_lm(llama, rms_norm_eps=1e-5, **more)


class Looped(nn.Module):
    """A Llama that goes through its layers twice, and writes their caches each time."""

    def __init__(self):
        super().__init__()
        self.inner = mlx_lm_llama()
        self.vocab_size, self.layers = 40, self.inner.layers

    def __call__(self, tokens, cache=None):
        hidden = self.inner.model.embed_tokens(tokens)
        cache = cache or [None] * len(self.layers)
        for _ in range(2):
            mask = create_attention_mask(hidden, cache[0])
            for layer, layer_cache in zip(self.layers, cache, strict=True):
                hidden = layer(hidden, mask, layer_cache)
        return self.inner.model.embed_tokens.as_linear(self.inner.model.norm(hidden))


def sliding_llama():
    return mlx_lm_llama(layer_types=["sliding_attention", "full_attention"], sliding_window=6)


MODELS = {
    "mlx-lm llama": mlx_lm_llama,
    "mlx-lm qwen3": lambda: of_mlx_lm(qwen3, **QWEN),
    "sliding window": sliding_llama,
    "llama": lambda: LanguageModel(llama_config(40, 32, 4, 2, n_kv_heads=2), seed=1),
    "gpt": lambda: LanguageModel(gpt_config(40, 32, 4, 2, max_positions=LONGEST), seed=1),
    "hybrid": lambda: LanguageModel(hybrid_config(40, 32, 4, 3), seed=1),
}
SHIPPED = {
    f"shipped {name}": lambda name=name: zoo.load(name, dtype=mx.float32)[0]
    for name in ("target", "hybrid")
    if name in zoo.names()
}


class Fresh:
    """The oracle: one forward of the whole prompt, without a cache."""

    def __init__(self, model):
        self.model, self.known = model, {}

    def __call__(self, prompt):
        if prompt not in self.known:
            logits = self.model(mx.array([prompt]))[0, -1].astype(mx.float32)
            self.known[prompt] = np.array(logits - mx.logsumexp(logits))
        return self.known[prompt]

    def check(self, prompt, row):
        assert row.dtype == mx.float32
        assert np.abs(np.array(row) - self(prompt)).max() < TOLERANCE

    def check_all(self, prompts, rows):
        for prompt, row in zip(prompts, rows, strict=True):
            self.check(tuple(prompt), row)


@pytest.fixture(scope="module", params=[*MODELS, *SHIPPED])
def fresh(request):
    mx.random.seed(0)
    model = (MODELS | SHIPPED)[request.param]()
    mx.eval(model.parameters())
    oracle = Fresh(model)
    oracle.name = request.param
    return oracle


PROMPT = st.lists(st.integers(0, 2), min_size=1, max_size=LONGEST).map(tuple)
OPERATION = st.one_of(
    st.tuples(st.just("gather"), st.lists(PROMPT, min_size=1, max_size=10)),
    st.tuples(st.just("batch"), st.lists(PROMPT, min_size=1, max_size=6)),
    st.tuples(st.just("sync"), PROMPT),
    st.tuples(st.just("cache_kv"), PROMPT),
    st.tuples(st.just("walk"), PROMPT),
    st.tuples(st.just("clear"), st.none()),
)


async def perform(lm, oracle, operation, argument):
    if operation == "gather":
        oracle.check_all(argument, await asyncio.gather(*map(lm.next_token_logprobs, argument)))
    elif operation == "batch":
        oracle.check_all(argument, await lm.batch_next_token_logprobs(argument))
    elif operation == "sync":
        oracle.check(argument, lm.next_token_logprobs_sync(argument))
    elif operation == "cache_kv":
        lm.cache_kv(argument)
    elif operation == "walk":
        check_walk(lm, oracle.model, argument)
    else:
        lm.clear_cache()


def check_walk(lm, model, prompt):
    """What walk_cache says is there is what a forward would have put there."""
    node, matched, past, kv_node, kv_matched = lm.walk_cache(prompt)
    assert 0 <= kv_matched <= matched <= len(prompt)
    assert node.depth <= matched
    assert kv_node.depth <= kv_matched
    assert (past is None) == (kv_matched == 0)
    if past is not None:
        cache = make_prompt_cache(model)
        mx.eval(model(mx.array([prompt[:kv_matched]]), cache=cache))
        assert past.shape[3] == kv_matched
        for layer, (keys, values) in enumerate(c.keys_and_values() for c in cache):
            assert mx.abs(past[0, layer] - keys[0, :, :kv_matched]).max().item() < TOLERANCE
            assert mx.abs(past[1, layer] - values[0, :, :kv_matched]).max().item() < TOLERANCE


SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=12, deadline=None, suppress_health_check=SLOW)
@given(
    calls=st.lists(OPERATION, min_size=1, max_size=8),
    batch_size=st.integers(1, 12),
    step=st.sampled_from([1, 2, 5, 2048]),
    cache_size=st.sampled_from([0, 3, 10, 30, 8192]),
    cache_bytes=st.sampled_from([None, 0, 5_000, 1 << 20]),
)
def test_answers_equal_a_fresh_forward(fresh, calls, batch_size, step, cache_size, cache_bytes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of what cannot be reused; tested below
        given = fresh.model, None, batch_size, 0.0, step, cache_size
        lm = AsyncMlxLM(*given, cache_bytes=cache_bytes)

        async def run():
            for operation, argument in calls:
                await perform(lm, fresh, operation, argument)
                assert_at_rest(lm, cache_bytes)

        asyncio.run(run())


def nbytes(lm):
    """The bytes of the cache, free places included."""
    return sum(array.nbytes for array in lm.cache.slab.arrays) + lm.cache.logprob_bytes


def assert_at_rest(lm, cache_bytes):
    trie, slab = lm.cache, lm.cache.slab
    assert lm.queries == []
    assert trie.root.pins == 0
    assert trie.tokens <= trie.max_tokens
    assert slab.used == trie.kv_tokens <= slab.limit
    assert slab.capacity <= max(slab.limit, slab.used)
    if cache_bytes is not None and slab.limit:
        assert nbytes(lm) <= cache_bytes


@pytest.fixture(scope="module")
def plain():
    mx.random.seed(0)
    model = mlx_lm_llama()
    mx.eval(model.parameters())
    return Fresh(model)


@pytest.fixture
def lm(plain):
    return AsyncMlxLM(plain.model, None)


def test_a_match_may_end_inside_an_edge(plain, lm):
    row = lm.next_token_logprobs_sync([5, 6, 7, 8])
    node, matched, past, kv_node, kv_matched = lm.walk_cache([5, 6, 9])
    assert (node.depth, matched, kv_node.depth, kv_matched) == (0, 2, 0, 2)
    assert past.shape == (2, 2, 2, 2, 8)
    assert lm.walk_cache([]) == (lm.cache.root, 0, None, lm.cache.root, 0)
    plain.check((5, 6, 9), lm.next_token_logprobs_sync([5, 6, 9]))
    node, matched, _, kv_node, kv_matched = lm.walk_cache([5, 6, 7, 8])
    assert (node.depth, matched, kv_matched) == (4, 4, 4)
    assert kv_node is node
    assert mx.array_equal(node.logprobs, row)
    assert [n["tokens"] for n in lm.cache.snapshot()] == [(5, 6), (7, 8), (9,)]


def test_the_last_token_runs_again_only_for_its_logits(plain, lm):
    lm.cache_kv([5, 6, 7, 8])
    before = lm.stats
    plain.check((5, 6, 7), lm.next_token_logprobs_sync([5, 6, 7]))
    plain.check((5, 6, 7, 8), lm.next_token_logprobs_sync([5, 6, 7, 8]))
    after = lm.stats
    assert after["token_forwards"] - before["token_forwards"] == 1
    assert after["cached"] - before["cached"] == 1
    assert lm.cache.tokens == 4


def test_long_prompts_run_in_pieces(plain):
    lm = AsyncMlxLM(plain.model, None, prefill_step_size=500)
    prompt = tuple(np.random.default_rng(0).integers(0, 40, 1500).tolist())
    plain.check(prompt, lm.next_token_logprobs_sync(prompt))
    plain.check((*prompt[:700], 1), lm.next_token_logprobs_sync([*prompt[:700], 1]))
    spans = [span for batch in lm.trace for forward in batch.forwards for span in forward]
    assert [stop - start for start, stop in spans] == [500] * 3 + [1]


def test_a_half_precision_model_answers_in_float32():
    mx.random.seed(0)
    model = mlx_lm_llama()
    model.set_dtype(mx.float16)
    lm = AsyncMlxLM(model, None)
    row = lm.next_token_logprobs_sync([1, 2, 3])
    assert row.dtype == mx.float32
    assert abs(mx.exp(row).sum().item() - 1) < 1e-5
    assert lm.cache.slab.arrays[0].dtype == mx.float16


def test_the_shipped_target():
    if "target" not in zoo.names():
        pytest.skip("no target has been trained yet")
    lm = AsyncMlxLM.from_name("target", batch_size=8)
    assert lm.tokenizer is not None
    lm.mlx_lm_model.set_dtype(mx.float32)
    oracle = Fresh(lm.mlx_lm_model)
    draw = np.random.default_rng(0)
    vocab_size = vocab_size_of(lm.mlx_lm_model)
    trunk = tuple(draw.integers(0, vocab_size, 20).tolist())
    cuts = [trunk[: draw.integers(1, 21)] for _ in range(24)]
    ends = [draw.integers(0, vocab_size, draw.integers(0, 5)).tolist() for _ in cuts]
    prompts = [(*cut, *end) for cut, end in zip(cuts, ends, strict=True)]
    rows = asyncio.run(lm.batch_next_token_logprobs(prompts))
    assert rows.shape == (24, vocab_size)
    oracle.check_all(prompts, rows)


@pytest.mark.parametrize(
    ("make", "prompts", "why"),
    [
        (MODELS["hybrid"], [[1, 2], [1, 2, 3], [4]], "cannot be cut"),
        (sliding_llama, [[1, 2], [1] * 7, [2] * 8], "sliding window"),
    ],
)
def test_what_cannot_be_reused_is_right_and_said_once(make, prompts, why):
    model = make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lm = AsyncMlxLM(model, None, batch_size=2)
        rows = asyncio.run(lm.batch_next_token_logprobs(prompts))
        lm.next_token_logprobs_sync([9] * 9)
    (warning,) = caught
    assert why in str(warning.message)
    assert "without prefix reuse" in str(warning.message)
    Fresh(model).check_all(prompts, rows)
    assert lm.next_token_logprobs_sync(prompts[-1]) is not None
    assert lm.stats["cached"] == 1  # answers are remembered all the same


def test_a_model_that_misreads_the_mask_of_a_batch_runs_row_by_row():
    model = of_mlx_lm(gemma2, head_dim=8)  # its grouped scores have five axes
    lm, oracle = AsyncMlxLM(model, None, batch_size=8), Fresh(model)
    assert lm.stats["forwards"] == 0 == len(lm.trace)  # trying it out does not count
    prompts = [(1, 2, 3), (4,), (1, 2), (5, 6, 7, 8), (1, 2, 9)]
    for _ in range(2):
        oracle.check_all(prompts, asyncio.run(lm.batch_next_token_logprobs(prompts)))
        prompts = [(*prompt, 3) for prompt in prompts]
    assert lm.stats["reused"] > 0
    assert {len(forward) for batch in lm.trace for forward in batch.forwards} == {1}


def test_a_model_that_writes_its_caches_twice_shares_none():
    model = Looped()
    with pytest.warns(UserWarning, match="does not answer the same from a cache"):
        lm = AsyncMlxLM(model, None, batch_size=8)
    prompts = [(1, 2, 3), (4,), (1, 2), (5, 6, 7), (1, 2, 9)]
    rows = asyncio.run(lm.batch_next_token_logprobs(prompts))
    for prompt, row in zip(prompts, rows, strict=True):
        logits = model(mx.array([prompt]), cache=make_prompt_cache(model.inner))[0, -1]
        expected = logits - mx.logsumexp(logits)
        assert mx.abs(row - expected).max().item() < TOLERANCE


def test_a_sliding_window_is_reused_up_to_its_end():
    model = sliding_llama()
    lm = AsyncMlxLM(model, None)
    for size in (3, 5, 6):
        prompt = (1, 2, 3, 4, 5, 6)[:size]
        Fresh(model).check(prompt, lm.next_token_logprobs_sync(prompt))
    assert lm.stats["token_forwards"] == 6


@pytest.mark.parametrize("name", ["mlx-lm llama", "gpt", "hybrid"])
def test_samples_are_those_of_sample_n_whatever_runs_beside_them(name):
    model = MODELS[name]()
    prompt, ends = [1, 2, 3], {7, 8, 9}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        lm = AsyncMlxLM(model, None, batch_size=3)

    async def run():
        others = [lm.sample(prompt, 8, ends, seed=seed) for seed in range(3)]
        return await asyncio.gather(lm.sample(prompt, 8, ends, temperature=0.7, seed=5), *others)

    alone = sample_n(model, prompt, 1, max_tokens=8, stop_tokens=ends, seed=5, temperature=0.7)
    expected = alone.tokens[0]
    assert asyncio.run(run())[0] == [token for token in expected if token not in ends]
    greedy = asyncio.run(lm.sample(prompt, 5, [], temperature=0))
    best = sample_n(model, prompt, 1, max_tokens=5, temperature=0)
    assert greedy == best.tokens[0]
    assert len(greedy) == 5


def test_add_to_cache_takes_keys_values_and_rows_from_elsewhere(plain, lm):
    prompts = [(1, 2, 3), (1, 2, 3, 4, 5)]
    rows = mx.stack([mx.array(plain(prompt)) for prompt in prompts])
    caches = [make_prompt_cache(plain.model) for _ in prompts]
    for prompt, cache in zip(prompts, caches, strict=True):
        plain.model(mx.array([prompt]), cache=cache)
    merged = [KVCache.merge(layers) for layers in zip(*caches, strict=True)]
    lm.add_to_cache([Query(prompt) for prompt in prompts], merged, rows)
    assert (lm.cache.tokens, lm.cache.kv_tokens) == (5, 5)
    plain.check(prompts[1], lm.next_token_logprobs_sync(prompts[1]))
    assert lm.stats["token_forwards"] == 0
    plain.check((1, 2, 3, 4, 6), lm.next_token_logprobs_sync([1, 2, 3, 4, 6]))
    assert lm.stats["token_forwards"] == 1


@pytest.mark.parametrize("write", [lambda row: row.__setitem__((..., 5), -mx.inf), "numpy view"])
def test_answers_are_the_callers_own(plain, write):
    """Masking in place is the ordinary thing to do with a row."""

    def spoil(row):
        if write == "numpy view":
            np.asarray(row)[..., 5] = -np.inf
        else:
            write(row)
        assert row[..., 5].item() == -np.inf

    lm = AsyncMlxLM(plain.model, None, batch_size=4, timeout=0.0)

    async def ask_twice():
        return await asyncio.gather(*[lm.next_token_logprobs(prompt) for prompt in [(1, 2)] * 2])

    for _ in range(2):  # first both wait for one row, then both find it in the cache
        first, second = asyncio.run(ask_twice())
        spoil(first)
        plain.check((1, 2), second)
    spoil(lm.next_token_logprobs_sync([1, 2]))
    spoil(lm.next_token_logprobs_sync([3]))
    spoil(lm.batch_next_token_logprobs_sync([[3]]))
    given = mx.array(plain((4,)))
    lm.add_to_cache([Query([4])], logprobs=[given])
    spoil(given)
    for prompt in [(1, 2), (3,), (4,)]:
        plain.check(prompt, lm.next_token_logprobs_sync(prompt))
        plain.check(prompt, asyncio.run(lm.next_token_logprobs(prompt)))
    assert lm.stats["forwards"] == 2


def test_rows_alone_in_the_cache_still_need_keys_and_values(plain, lm):
    lm.add_to_cache([Query([1, 2, 3])], logprobs=[mx.array(plain((1, 2, 3)))])
    plain.check((1, 2, 3), lm.next_token_logprobs_sync([1, 2, 3]))
    assert (lm.cache.tokens, lm.cache.kv_tokens, lm.stats["token_forwards"]) == (3, 0, 0)
    lm.cache_kv([1, 2, 3])
    assert (lm.cache.tokens, lm.cache.kv_tokens, lm.stats["token_forwards"]) == (3, 3, 3)


def filled(layers, heads=2, size=8, batch=1, tokens=3):
    """Caches as another model might have filled them."""
    caches = [KVCache() for _ in range(layers)]
    for cache in caches:
        cache.update_and_fetch(*[mx.zeros((batch, heads, tokens, size))] * 2)
    return caches


UNLIKE = filled(1, tokens=4) + filled(1, size=16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt_cache": filled(1)}, "prompt_cache must be 2 KVCache"),
        ({"prompt_cache": [RotatingKVCache(9)] * 2}, "prompt_cache must be 2 KVCache"),
        (
            {"prompt_cache": filled(2)},
            r"\[0\] must hold .*2, 4, 8\)\] of prompt 0, got .*2, 3, 8\)",
        ),
        ({"prompt_cache": filled(2, batch=3)}, "a row for each of 1 prompts, got 3"),
        ({"prompt_cache": [KVCache(), KVCache()]}, "a row for each of 1 prompts, got 0"),
        ({"prompt_cache": filled(2, heads=4)}, r"\(2, 4, 8\)\] of prompt 0, got \[\(4, 3, 8\)"),
        ({"prompt_cache": filled(2, size=16)}, r"\(2, 4, 8\)\] of prompt 0, got \[\(2, 3, 16\)"),
        ({"prompt_cache": UNLIKE}, r"\[1\] must hold .*, got \[\(2, 3, 16\)"),
        ({"logprobs": mx.zeros((2, 40))}, "logprobs must be 1 of 40"),
        ({"logprobs": mx.zeros((1, 4))}, "logprobs must be 1 of 40"),
    ],
)
@pytest.mark.parametrize("known", [[], [1, 2]])
def test_add_to_cache_refuses_what_does_not_fit_and_changes_nothing(
    plain, lm, arguments, message, known
):
    if known:
        lm.cache_kv(known)
    with pytest.raises(ValueError, match=message):
        lm.add_to_cache([Query([1, 2, 3, 4])], **arguments)
    assert lm.cache.tokens == lm.cache.kv_tokens == lm.cache.slab.used == len(known)
    assert lm.cache.root.pins == 0
    plain.check((1, 2, 3, 4), lm.next_token_logprobs_sync([1, 2, 3, 4]))


def test_what_fails_while_it_is_added_leaves_no_slot_and_no_pin(plain, lm, monkeypatch):
    lm.cache_kv([1, 2])

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(lm.cache.slab, "write", fail)
    with pytest.raises(MemoryError):
        lm.add_to_cache([Query([1, 2, 3])], filled(2))
    assert (lm.cache.tokens, lm.cache.slab.used, lm.cache.root.pins) == (2, 2, 0)


def test_added_keys_and_values_take_the_models_own_type(plain, lm):
    cache = filled(2)
    for layer in cache:
        layer.keys, layer.values = (a.astype(mx.float16) for a in (layer.keys, layer.values))
    lm.add_to_cache([Query([1, 2, 3])], cache)
    assert {array.dtype for array in lm.cache.slab.arrays} == {mx.float32}

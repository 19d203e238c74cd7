"""What AsyncMlxLM computes, counted at the model: token-forwards and calls, not seconds."""

import asyncio
import random
import warnings

from lablib.inference.async_lm import AsyncMlxLM
from lablib.models.base import LanguageModel
from lablib.models.llama import llama_config

import mlx.core as mx
import numpy as np
import pytest

V = 70


class Counted(LanguageModel):
    """A Llama that remembers the shape ``(B, T)`` of every call."""

    def __init__(self, vocab_size=V):
        super().__init__(llama_config(vocab_size, 16, 2, 2, d_ff=16, max_positions=2048), seed=0)
        mx.eval(self.parameters())
        self.calls = []

    def __call__(self, tokens, cache=None):
        self.calls.append(tokens.shape)
        return super().__call__(tokens, cache)

    @property
    def tokens(self):
        """Token-forwards so far, padding included."""
        return sum(rows * columns for rows, columns in self.calls)


def new_lm(model, **options):
    """Return an AsyncMlxLM; the calls that try the model out are not counted."""
    lm = AsyncMlxLM(model, None, **options)
    model.calls.clear()
    return lm


def fresh(model, prompt):
    logits = LanguageModel.__call__(model, mx.array([prompt]))[0, -1]
    return np.array(logits - mx.logsumexp(logits))


def family(count, own, trunk=64):
    """``count`` prompts that share ``trunk`` tokens and differ in the first of ``own`` others."""
    shared = [7 * i % V for i in range(trunk)]
    return [(*shared, i, *[(i + 3 * j) % V for j in range(own - 1)]) for i in range(count)]


@pytest.mark.parametrize("own", [1, 4])
@pytest.mark.parametrize("batch_size", [64, 5])
def test_cold_prompts_with_a_common_prefix_compute_it_once(own, batch_size):
    prompts = family(64, own)
    model = Counted()
    lm = new_lm(model, batch_size=batch_size)
    rows = asyncio.run(lm.batch_next_token_logprobs(prompts))
    assert model.tokens == 64 + 64 * own == lm.stats["token_forwards"]
    assert len(model.calls) == -(-64 // batch_size) + 1  # the prefix, then one for each batch
    for prompt, row in zip(prompts[::9], rows[::9], strict=True):
        assert np.abs(np.array(row) - fresh(model, prompt)).max() < 1e-4


def particles(lm, prompts, steps, seed=0):
    draw = random.Random(seed)

    async def run(prompt):
        for _ in range(steps):
            await lm.next_token_logprobs(prompt)
            prompt = (*prompt, draw.randrange(V))
        return prompt

    async def all_of_them():
        return await asyncio.gather(*map(run, prompts))

    return asyncio.run(all_of_them())


def test_particles_take_one_forward_of_all_rows_each_step():
    model = Counted()
    lm = new_lm(model, batch_size=16)
    particles(lm, family(16, 1), 16)
    # The first step reads the prompt with the first particle, and then the other fifteen.
    assert model.calls == [(1, 65), (15, 1)] + [(16, 1)] * 15


def test_particles_of_unequal_lengths_never_read_their_prompts_again():
    model = Counted()
    lm = new_lm(model, batch_size=16)
    prompts = [prompt[: 20 + 3 * i] for i, prompt in enumerate(family(16, 10))]
    lm.batch_next_token_logprobs_sync(prompts)
    model.calls.clear()
    lm.batch_next_token_logprobs_sync([(*prompt, 5) for prompt in prompts])
    assert model.calls == [(16, 1)]
    particles(lm, [(*prompt, 6) for prompt in prompts], 8)
    assert model.calls == [(16, 1)] * 9


def test_a_step_back_costs_one_token():
    model = Counted()
    lm = new_lm(model, batch_size=16)
    ends = particles(lm, family(16, 1), 8)
    model.calls.clear()
    back = [(*end[:-4], (end[-4] + 1) % V) for end in ends]
    rows = lm.batch_next_token_logprobs_sync(back)
    assert model.calls == [(16, 1)]
    for prompt, row in zip(back, rows, strict=True):
        assert np.abs(np.array(row) - fresh(model, prompt)).max() < 1e-4
    model.calls.clear()
    lm.batch_next_token_logprobs_sync([end[:-3] for end in ends])
    assert model.calls == []  # their own way back is known altogether


def test_resampled_particles_share_what_they_have_in_common():
    model = Counted()
    lm = new_lm(model, batch_size=16)
    survivors = particles(lm, family(16, 1), 4)[:2]
    model.calls.clear()
    asyncio.run(lm.batch_next_token_logprobs([survivors[i % 2] for i in range(16)]))
    assert model.calls == [(2, 1)]  # equal queries run once
    model.calls.clear()
    asyncio.run(lm.batch_next_token_logprobs([(*survivors[i % 2], i) for i in range(16)]))
    assert model.calls == [(16, 1)]


def test_forwards_stay_within_the_prefill_step():
    model = Counted()
    lm = new_lm(model, batch_size=64, prefill_step_size=100)
    asyncio.run(lm.batch_next_token_logprobs(family(64, 30, trunk=300)))
    assert all(rows * columns <= 100 for rows, columns in model.calls)
    assert lm.stats["token_forwards"] == 300 + 64 * 30
    assert model.tokens < 1.5 * (300 + 64 * 30)


def test_logits_of_long_prompts_are_computed_at_their_ends_only():
    """The logits of all 2,000 tokens would weigh 240 MB; unevaluated they are never computed."""
    model = Counted(30_000)
    lm = new_lm(model)
    prompt = [7 * i % 30_000 for i in range(2000)]
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    lm.next_token_logprobs_sync(prompt)
    assert model.calls == [(1, 1999), (1, 1)]
    assert mx.get_peak_memory() - before < 120e6


def test_the_trace_tells_what_ran():
    lm = AsyncMlxLM(Counted(), None, batch_size=4)
    prompts = [(1, 2, 3), (1, 2, 4), (5,), (1, 2, 3)]
    asyncio.run(lm.batch_next_token_logprobs(prompts))
    asyncio.run(lm.batch_next_token_logprobs(prompts[:1]))  # known: no batch at all
    (batch,) = lm.trace
    assert [sorted(forward) for forward in batch.forwards] == [[(0, 1), (0, 3)], [(2, 3)]]
    assert lm.stats == {
        "batches": 1,
        "prompts": 4,
        "cached": 1,
        "forwards": 2,
        "token_forwards": 5,
        "padding": 2,
        "reused": 2,
        "reread": 0,
    }


# The bound of the cache.


def ask_in_turn(callers, length, tokens, **options):
    """Let callers of distinct prompts ask for ``tokens`` answers each; return their model."""
    lm = new_lm(Counted(), batch_size=callers // 2, **options)
    particles(lm, family(callers, length - 1, trunk=1), tokens)
    return lm


def needed(callers, length, tokens):
    """Return how many distinct prefixes that makes."""
    return 1 + callers * (length - 1 + tokens - 1)


def test_callers_whose_prompts_fit_in_the_bytes_read_them_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lm = ask_in_turn(64, 200, 4)
    assert lm.stats["token_forwards"] == needed(64, 200, 4)
    assert lm.stats["reread"] == 0


@pytest.mark.parametrize(
    ("bound", "options"),
    [("cache_size", {"cache_size": 400}), ("cache_bytes", {"cache_bytes": 150_000})],
)
def test_evicting_what_callers_still_need_is_warned_of_once_and_counted(bound, options):
    with pytest.warns(UserWarning, match=f"{bound}= lets the cache keep.*read again") as seen:
        lm = ask_in_turn(16, 50, 8, **options)
    assert len(seen) == 1
    extra = lm.stats["token_forwards"] - needed(16, 50, 8)
    assert extra > 400
    assert lm.stats["reread"] == extra


def test_fewer_callers_at_a_time_read_nothing_again_in_the_same_room():
    lm = new_lm(Counted(), batch_size=4, cache_size=400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for start in range(0, 16, 4):
            particles(lm, family(16, 49, trunk=1)[start : start + 4], 8)
    assert lm.stats["reread"] == 0


@pytest.mark.parametrize("options", [{"cache_size": 0}, {"cache_bytes": 0}])
def test_nobody_is_warned_who_wants_nothing_kept(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lm = ask_in_turn(4, 10, 3, **options)
    assert lm.cache.tokens == 0


def test_a_cleared_cache_is_no_eviction():
    lm = new_lm(Counted(), cache_size=20)
    lm.next_token_logprobs_sync([1, 2, 3])
    lm.clear_cache()
    lm.next_token_logprobs_sync([1, 2, 3, 4])
    assert lm.stats["reread"] == 0


@pytest.mark.parametrize(("cache_bytes", "most"), [(None, 300), (6400, 75)])
def test_bytes_bound_prompts_without_keys_and_values_too(monkeypatch, cache_bytes, most):
    lm = new_lm(Counted(), cache_bytes=cache_bytes)
    monkeypatch.setattr(lm._evaluator, "longest", 0)  # as of a model whose cache cannot be cut
    lm._evaluator._warned = True
    for first in range(30):
        lm.next_token_logprobs_sync([first, *range(9)])
    assert lm.cache.tokens == most - most % 10

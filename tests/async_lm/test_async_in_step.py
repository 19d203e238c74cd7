"""Particles in step: rows that are extended where they lie answer as a fresh forward does."""

import asyncio
import random
import warnings

from lablib.cache import shared
from lablib.inference.async_lm import AsyncMlxLM
from lablib.models import LanguageModel, gpt_config

import mlx.core as mx
import pytest
from test_async_values import MODELS, Fresh, nbytes

V = 40


GPT = gpt_config(V, 32, 4, 2, max_positions=64)
SHARING = {  # rows read once what all begin with, wherever there is such a thing
    "llama, sharing": MODELS["llama"],
    "gpt, sharing": lambda: LanguageModel(GPT, seed=1),
}


@pytest.fixture(scope="module", params=["mlx-lm llama", "sliding window", "llama", *SHARING])
def fresh(request):
    mx.random.seed(0)
    model = (MODELS | SHARING)[request.param]()
    mx.eval(model.parameters())
    with pytest.MonkeyPatch.context() as patch:
        if request.param in SHARING:
            patch.setattr(shared, "_PAYS", 0)
        yield Fresh(model)


def step(lm, prompts, fresh):
    async def ask():
        return await asyncio.gather(*map(lm.next_token_logprobs, prompts))

    for prompt, row in zip(prompts, asyncio.run(ask()), strict=True):
        fresh.check(prompt, row)


def in_step(lm):
    return bool(lm.cache.slab.dense.layers)


@pytest.mark.grid(lambda fresh, options: options != {"prefill_step_size": 3}, rest="slow")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cache_size": 60},  # old leaves are evicted, and their slots given out again, at each step
        {"cache_size": 0},
        {"cache_bytes": 40_000},
        {"prefill_step_size": 3},  # several forwards a step, none of which has all rows
    ],
)
def test_particles_that_are_resampled_cut_back_and_disturbed(fresh, options):
    draw = random.Random(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        lm = AsyncMlxLM(fresh.model, None, batch_size=6, **options)
        prompts = [(1, 2, 3, number) for number in range(6)]
        for number in range(40):
            step(lm, prompts, fresh)
            if number % 5 == 4:
                prompts = draw.choices(prompts, k=draw.randint(1, 6))
            if number == 11:
                prompts = [prompt[: draw.randint(1, len(prompt))] for prompt in prompts]
            if number == 20:
                fresh.check((9, 8), lm.next_token_logprobs_sync([9, 8]))
            if number == 25:
                lm.cache_kv([*prompts[0], 3, 3])
            if number == 30:
                lm.clear_cache()
                assert nbytes(lm) == 0
            if number == 35:
                lm.cache.compact()
            prompts = [(*p, *draw.choices(range(V), k=draw.choice([1, 1, 1, 2]))) for p in prompts]
            prompts = [prompt for prompt in prompts if len(prompt) < 60]


def test_rows_of_one_length_read_what_they_all_begin_with_once(monkeypatch):
    """Once there is no such thing any more, nothing of it is left behind."""
    monkeypatch.setattr(shared, "_PAYS", 50)
    model = MODELS["llama"]()
    mx.eval(model.parameters())
    fresh, lm = Fresh(model), AsyncMlxLM(model, None, batch_size=4)
    prompts = [(1, 2, 3, 4, 5, 6, number) for number in range(4)]
    trunks = []
    for number in range(12):
        step(lm, prompts, fresh)
        trunks.append((lm.cache.slab.trunk.width, bool(lm.cache.slab.trunk.layers)))
        if number in (3, 6):
            prompts = [prompts[0]] * 4  # all they have is shared now
        elif number == 8:
            prompts = [*prompts[:2], prompts[0][:-1], prompts[0]]  # rows of two lengths
        elif number == 9:
            prompts = [prompt[:3] for prompt in prompts]  # and now too little to share
        prompts = [(*prompt, (10 + 4 * number + i) % V) for i, prompt in enumerate(prompts)]
    gone = (0, False)
    # In the first step three rows go on from the one that brings the trunk; in the second it is
    # laid out, and in the third kept. From twice its length on a longer one is worth the move.
    assert trunks == [gone, (6, False), *[(6, True)] * 5, (13, False), (13, True), gone, gone, gone]


def test_only_rows_that_go_on_are_kept_and_the_budget_counts_them(fresh):
    lm = AsyncMlxLM(fresh.model, None, batch_size=8)
    prompts = [(1, 2, 3, 4, number) for number in range(8)]
    lm.cache_kv(prompts[0][:4])
    step(lm, prompts, fresh)
    assert not in_step(lm)
    before = nbytes(lm)
    step(lm, [(*prompt, 5) for prompt in prompts], fresh)
    assert in_step(lm)
    assert nbytes(lm) > 2 * before
    step(lm, [(7,), (8, 9)], fresh)
    assert not in_step(lm)


@pytest.mark.parametrize("after", [True, False])
def test_a_forward_that_fails_halfway_leaves_no_half_rows(after):
    inner = MODELS["mlx-lm llama"]()
    mx.eval(inner.parameters())
    layer = inner.model.layers[1]

    class Broken(type(layer)):
        def __call__(self, *given, **named):
            if armed and not after:
                raise ArithmeticError
            result = super().__call__(*given, **named)
            if armed:
                raise ArithmeticError
            return result

    armed = False
    layer.__class__ = Broken
    fresh, lm = Fresh(inner), AsyncMlxLM(inner, None, batch_size=4)
    prompts = [(1, 2, 3, number) for number in range(4)]
    for number in range(9):
        armed = False
        step(lm, prompts, fresh)
        prompts = [(*prompt, 5 + number) for prompt in prompts]
        if number % 3 == 2:
            prompts = [(*prompts[i // 2][:-1], 20 + i) for i in range(4)]
            armed = True
            with pytest.raises(ArithmeticError):
                lm.batch_next_token_logprobs_sync(prompts)
            assert not in_step(lm)
    assert lm.cache.slab.used == lm.cache.kv_tokens

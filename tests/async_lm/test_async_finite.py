"""Logits that are not finite reach those who asked for them, and nothing of them is kept."""

import asyncio

from lablib.inference.async_lm import AsyncMlxLM, Query
from lablib.models import LanguageModel, hybrid_config, llama_config

import mlx.core as mx
import numpy as np
import pytest

V = 24
BAD = 7  # the token whose embedding is sick
REFUSED = "logits must be finite, got NaN, .inf or"


class Sick:
    """Make one token's embedding NaN or infinite while a ``with`` block lasts."""

    def __init__(self, model, value=np.nan, token=BAD):
        self.table, self.value, self.token = model.model.embed_tokens, value, token

    def __enter__(self):
        self.healthy = self.table.weight
        weight = np.array(self.healthy)
        weight[self.token] = self.value
        self.table.weight = mx.array(weight)

    def __exit__(self, *_):
        self.table.weight = self.healthy


def model():
    return LanguageModel(llama_config(V, 16, 2, 2, tie_word_embeddings=False), seed=3).eval()


def fresh(model, prompt):
    return model(mx.array([prompt]))[0, -1]


def close(row, model, prompt):
    logits = fresh(model, prompt)
    wanted = logits - mx.logsumexp(logits)
    np.testing.assert_allclose(np.array(row), np.array(wanted), atol=1e-4)


def nothing_bad(lm):
    """Everything in the tree is finite, and no slot is lost."""
    trie = lm.cache
    for node in trie.nodes():
        assert BAD not in node.tokens
        assert node.logprobs is None or not mx.isnan(node.logprobs).any().item()
    assert trie.slab.used == trie.kv_tokens
    assert trie.root.pins == 0


async def asked(lm, prompts):
    found = map(lm.next_token_logprobs, prompts)
    return await asyncio.gather(*found, return_exceptions=True)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_only_those_who_asked_hear_of_it_and_nothing_is_kept(value):
    """Random prompts in shared batches: those with the sick token, and beside them the others."""
    own = model()
    numbers = np.random.default_rng(5)
    lm = AsyncMlxLM(own, None, batch_size=6, timeout=0.0, prefill_step_size=16)
    seen = {"bad": 0, "good": 0}
    for _ in range(12):
        prompts = [numbers.integers(0, 9, numbers.integers(1, 9)).tolist() for _ in range(12)]
        prompts += [[*prompts[0], 1], [*prompts[1], BAD, 2], prompts[2][:1]]
        with Sick(own, value):
            for prompt, found in zip(prompts, asyncio.run(asked(lm, prompts)), strict=True):
                if BAD in prompt:
                    seen["bad"] += 1
                    assert isinstance(found, ValueError)
                    assert REFUSED.replace(".", "+") in str(found)
                else:
                    seen["good"] += 1
                    close(found, own, prompt)
            nothing_bad(lm)
        bad = [prompt for prompt in prompts if BAD in prompt][:3]
        for prompt, found in zip(bad, asyncio.run(asked(lm, bad)), strict=True):
            close(found, own, prompt)  # healed
        lm.clear_cache()
    assert min(seen.values()) > 30


def test_calls_that_do_not_wait(recwarn):
    own = model()
    lm = AsyncMlxLM(own, None)
    calls = (
        lambda: lm.next_token_logprobs_sync([1, BAD]),
        lambda: lm.batch_next_token_logprobs_sync([[1, 2], [1, BAD, 3]]),
        lambda: lm.cache_kv([1, BAD, 2]),
        lambda: asyncio.run(lm.sample([1, BAD], 3, [])),
        lambda: asyncio.run(lm.batch_next_token_logprobs([[1, 3], [BAD]])),
    )
    with Sick(own):
        for call in calls:
            with pytest.raises(ValueError, match=REFUSED):
                call()
            nothing_bad(lm)
        close(lm.next_token_logprobs_sync([1, 2]), own, [1, 2])
    for prompt in ([1, BAD], [1, BAD, 3], [1, BAD, 2], [BAD]):
        close(lm.next_token_logprobs_sync(prompt), own, prompt)
    assert not recwarn.list


def test_a_prefix_whose_logits_alone_are_sick_is_answered_later():
    """The longer prompt is right, though its beginning is not kept."""
    own = model()

    class Model:
        layers, vocab_size, sick = own.layers, V, False

        def __call__(self, tokens, cache=None):
            logits = own(tokens, cache=cache)
            bad = (tokens == BAD) & self.sick
            return mx.where(bad[..., None], mx.inf, logits)

        def make_cache(self):
            return own.make_cache()

    lm = AsyncMlxLM(Model(), None, batch_size=3, timeout=0.0)
    prompts = [[1, 2, BAD], [1, 2, BAD, 3], [1, 2]]
    lm.mlx_lm_model.sick = True
    first, *others = asyncio.run(asked(lm, prompts))
    assert isinstance(first, ValueError)
    for row, prompt in zip(others, prompts[1:], strict=True):
        close(row, own, prompt)
    nothing_bad(lm)
    lm.mlx_lm_model.sick = False
    for row, prompt in zip(asyncio.run(asked(lm, prompts)), prompts, strict=True):
        close(row, own, prompt)


def test_a_model_without_reuse_keeps_nothing_either():
    own = LanguageModel(hybrid_config(V, 16, 2, 2, tie_word_embeddings=False), seed=3).eval()
    with pytest.warns(UserWarning, match="without prefix reuse"):
        lm = AsyncMlxLM(own, None, batch_size=3, timeout=0.0)
    prompts = [[1, BAD, 2], [1, 3, 2], [2, 2]]
    with Sick(own):
        first, *others = asyncio.run(asked(lm, prompts))
        assert isinstance(first, ValueError)
        for row, prompt in zip(others, prompts[1:], strict=True):
            close(row, own, prompt)
    close(lm.next_token_logprobs_sync(prompts[0]), own, prompts[0])


def test_rows_from_elsewhere_are_refused_too():
    lm = AsyncMlxLM(model(), None)
    rows = [mx.zeros(V), mx.full((V,), mx.nan)]
    with pytest.raises(ValueError, match="logprobs must be log-probabilities, got NaN"):
        lm.add_to_cache([Query([1]), Query([2])], logprobs=rows)
    assert lm.cache.tokens == 0


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_a_row_from_elsewhere_that_gives_no_token_is_refused(value):
    lm = AsyncMlxLM(model(), None)
    with pytest.raises(ValueError, match=f"logprobs must be log-probabilities, got .*{value}"):
        lm.add_to_cache([Query([1])], logprobs=[mx.full((V,), value)])
    assert lm.cache.tokens == 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("side", ["keys", "values"])
def test_keys_and_values_from_elsewhere_are_refused_too(side, value):
    """Kept, they would make all that continues the prompt run twice, for good."""
    own = model()
    lm, cache = AsyncMlxLM(own, None), own.make_cache()
    own(mx.array([[1, 2, 3]]), cache=cache)
    array = np.array(getattr(cache[1], side))
    array[0, 0, 1, 0] = value
    setattr(cache[1], side, mx.array(array))
    with pytest.raises(ValueError, match=r"prompt_cache\[1\] must hold finite numbers"):
        lm.add_to_cache([Query([1, 2, 3])], cache)
    assert lm.cache.tokens == 0
    lm.add_to_cache([Query([1])], _cut(cache, 1))  # what is behind the prompt is not looked at
    assert lm.cache.tokens == 1


def _cut(cache, length):
    for layer in cache:
        layer.trim(3 - length)
    return cache


@pytest.mark.filterwarnings("ignore:.*without prefix reuse")
def test_minus_infinity_forbids_a_token_and_is_an_answer():
    own = model()

    class Masked:
        layers, vocab_size = own.layers, V

        def __call__(self, tokens, cache=None):
            return mx.where(mx.arange(V) == 5, -mx.inf, own(tokens, cache=cache))

        def make_cache(self):
            return own.make_cache()

    row = np.array(AsyncMlxLM(Masked(), None).next_token_logprobs_sync([1, 2]))
    assert row[5] == -np.inf
    assert np.exp(row).sum() == pytest.approx(1)

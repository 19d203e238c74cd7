"""sample_n: one prefill, rows that are right, rows that leave, and the exact distribution."""

import math

from lablib.cache import kv
from lablib.inference.completions import sample_batches, sample_n
from lablib.inference.decoding import scheduler
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.sampling import text_sampler
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.sampler import Sampler
from lablib.models import LanguageModel, gpt_config, hybrid_config, llama_config

import mlx.core as mx
import numpy as np
import pytest
from oracles.scripted import Recorder, Recurrent, random_table

PROMPT = [4, 0, 7, 7, 2]
STOPS = [1, 3, 8]


def recorder(**options):
    return Recorder(random_table(**options))


def assert_rows_are_the_models(model, result, prompt=PROMPT):
    """Every log-probability is the model's for that row's own history: no row was mixed up."""
    for tokens, logprobs in zip(result.tokens, result.logprobs, strict=True):
        expected = [model.log_probs(prompt + tokens[:n])[token] for n, token in enumerate(tokens)]
        np.testing.assert_allclose(logprobs, expected, atol=1e-5)


@pytest.mark.parametrize("kind", [Recorder, Recurrent])
@pytest.mark.parametrize("stops", [[], STOPS], ids=["no stops", "stops"])
@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.7, "top_p": 0.9, "repeat_penalty": 1.4}], ids=["plain", "all"]
)
def test_rows_are_those_of_a_sampler_slot_each(kind, stops, options):
    model = kind(random_table())
    result = sample_n(model, PROMPT, 9, max_tokens=12, stop_tokens=stops, seed=3, **options)
    assert len(result) == 9
    assert_rows_are_the_models(model, result)
    for row, tokens in enumerate(result.tokens):
        sampler = Sampler(1000)
        sampler.add("slot", SamplerOptions(seed=3, **options), PROMPT, stream=row)
        expected = []
        while len(expected) < 12 and not (expected and expected[-1] in stops):
            logits = mx.array(model.logits(PROMPT + expected)[None], dtype=mx.float32)
            expected.append(sampler.sample(["slot"], logits).token.item())
        assert tokens == expected
        assert result.finished[row] == (tokens[-1] in stops)
    assert result.lengths == [len(tokens) for tokens in result.tokens]
    first = TokenIterator(model, PROMPT, max_tokens=12, stop_tokens=stops, seed=3, **options)
    assert [token.id for token in first] == result.tokens[0]


CONFIGS = {
    "llama": llama_config(40, 32, 2, 2, tie_word_embeddings=False),
    "gpt": gpt_config(40, 32, 2, 2, tie_word_embeddings=False),
    "hybrid": hybrid_config(40, 32, 2, 3, tie_word_embeddings=False),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_row_is_the_same_for_every_n_and_batch_size(name):
    model = LanguageModel(CONFIGS[name], seed=0)
    options = {"max_tokens": 10, "stop_tokens": [3, 5, 9], "seed": 7}
    whole = sample_n(model, PROMPT, 64, **options)
    assert 0 < sum(whole.finished) < 64
    for n, max_batch in ((16, None), (16, 1), (16, 5), (64, 64), (64, 23)):
        part = sample_n(model, PROMPT, n, max_batch=max_batch, **options)
        assert part.tokens == whole.tokens[:n]
        np.testing.assert_allclose(
            np.concatenate(part.logprobs), np.concatenate(whole.logprobs[:n]), atol=1e-4
        )
    # And the log-probabilities are those of a fresh forward without a cache.
    for tokens, logprobs in zip(whole.tokens[:8], whole.logprobs[:8], strict=True):
        logits = np.array(model(mx.array([PROMPT + tokens]))[0, len(PROMPT) - 1 : -1])
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        np.testing.assert_allclose(logprobs, log_probs[range(len(tokens)), tokens], atol=1e-4)


def test_the_prompt_is_read_once_and_nothing_that_no_result_needs():
    for max_batch, chunks in ((None, 1), (4, 3)):
        model = recorder()
        result = sample_n(
            model, PROMPT, 10, max_tokens=7, seed=0, max_batch=max_batch, prefill_step_size=3
        )
        # The prompt: 3 + 1, then its last token. Then 6 forwards for 7 tokens, in each chunk.
        assert model.shapes[:3] == [(1, 3), (1, 1), (1, 1)]
        assert len(model.calls) == 3 + 6 * chunks
        assert model.token_forwards == len(PROMPT) + sum(n - 1 for n in result.lengths)

    model = recorder()
    result = sample_n(model, PROMPT, 40, max_tokens=20, stop_tokens=STOPS, seed=1)
    # A row's last token, stop or not, is never forwarded: the batch shrinks as rows finish.
    sizes = [sum(length > step for length in result.lengths) for step in range(1, 20)]
    assert model.shapes[2:] == [(size, 1) for size in sizes if size]
    assert len(set(sizes)) > 5

    model = recorder()
    sample_n(model, PROMPT, 40, max_tokens=1, seed=1)
    assert model.token_forwards == len(PROMPT)


def test_memory_grows_with_live_rows_only(monkeypatch):
    model = recorder()
    sizes = []
    model.hook = lambda call: None
    original = kv.select

    def watched(cache, keep):
        original(cache, keep)
        sizes.append((len(keep), kv.nbytes(cache)))

    monkeypatch.setattr(kv, "select", watched)
    sample_n(model, PROMPT, 30, max_tokens=20, stop_tokens=STOPS, seed=1)
    assert len(sizes) > 3
    assert len({size / rows for rows, size in sizes}) == 1


def test_whoever_leaves_early_draws_no_further_rows():
    model = recorder()
    parts = sample_batches(model, PROMPT, 12, max_batch=4, max_tokens=6, seed=5)
    assert model.calls == []
    taken = [next(parts), next(parts)]
    parts.close()
    assert model.token_forwards == len(PROMPT) + 2 * 4 * 5
    whole = sample_n(model, PROMPT, 12, max_tokens=6, seed=5)
    assert [row for part in taken for row in part.tokens] == whole.tokens[:8]
    rest = sample_batches(model, PROMPT, 10, max_batch=4, max_tokens=6, seed=5)
    assert [len(part) for part in rest] == [4, 4, 2]


def test_seeds_are_the_only_randomness():
    model = recorder()
    before = mx.random.state[0].tolist()
    runs = [sample_n(model, PROMPT, 5, max_tokens=9, seed=seed).tokens for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    unseeded = sample_n(model, PROMPT, 5, max_tokens=40).tokens  # of 9, one pair in 13,000 is equal
    assert len({tuple(row) for row in unseeded}) == 5
    assert mx.random.state[0].tolist() == before
    greedy = sample_n(model, PROMPT, 3, max_tokens=9, temperature=0).tokens
    assert greedy[0] == greedy[1] == greedy[2]


# -- the distribution ------------------------------------------------------------------------

ROWS = 20_000
SMALL = [4, 0, 3]  # a prompt for a vocabulary of 6


def deviation(model, result):
    """Chi-square of the first two tokens of every row against the exact joint distribution.

    Returned as standard normal deviations (Wilson and Hilferty 1931), so one bound fits any size.
    """
    v = model.vocab_size
    first = np.exp(model.log_probs(SMALL))
    second = np.array([np.exp(model.log_probs([*SMALL, token])) for token in range(v)])
    expected = (first[:, None] * second).ravel() * len(result)
    counts = np.bincount([a * v + b for a, b in result.tokens], minlength=v * v)
    assert expected.min() > 5
    chi2, k = ((counts - expected) ** 2 / expected).sum(), v * v - 1
    return ((chi2 / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k))


# A right sampler exceeds 4.9 deviations with probability 5e-7; the seed is fixed besides.
ALARM = 4.9


def test_the_first_tokens_have_the_exact_distribution():
    model = recorder(rows=31, vocab_size=6, spread=1.0)
    result = sample_n(model, SMALL, ROWS, max_tokens=2, seed=0)
    assert deviation(model, result) < ALARM


@pytest.mark.thorough  # a test of tests
def test_planted_bugs_are_noticed(monkeypatch):
    model = recorder(rows=31, vocab_size=6, spread=1.0)
    cool = sample_n(model, SMALL, ROWS, max_tokens=2, seed=0, temperature=0.9)
    assert deviation(model, cool) > ALARM

    key_of, draw = scheduler.key_of, text_sampler.TextSampler.draw

    def one_of_100(options, stream):
        return key_of(options, stream % 100)

    def shifted(sampler, scores, unseen=None):
        token, finite = draw(sampler, scores, unseen)
        return (token if unseen is None else mx.roll(token, 1)), finite

    planted = (scheduler, "key_of", one_of_100), (text_sampler.TextSampler, "draw", shifted)
    for owner, name, broken in planted:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            result = sample_n(model, SMALL, ROWS, max_tokens=2, seed=0)
        assert deviation(model, result) > ALARM

    monkeypatch.undo()
    model = recorder()
    select = kv.select
    monkeypatch.setattr(kv, "select", lambda cache, keep: select(cache, list(reversed(keep))))
    mixed = sample_n(model, PROMPT, 20, max_tokens=10, stop_tokens=[1], seed=0)
    with pytest.raises(AssertionError):
        assert_rows_are_the_models(model, mixed)


# -- failures and bad input ------------------------------------------------------------------


@pytest.mark.parametrize("stops", [[], [3]])
def test_logits_that_are_not_finite_are_refused(stops):
    model = recorder(rows=7)
    model.rows[sum((t + 1) * (i + 1) for i, t in enumerate([*PROMPT, 0])) % 7] = mx.nan
    model.table[:, 0] = 9
    model.rows[:, 0] = mx.where(mx.isnan(model.rows[:, 0]), mx.nan, 9.0)
    with pytest.raises(ValueError, match=r"row \d, token 1: the model's logits must be finite"):
        sample_n(model, PROMPT, 5, max_tokens=4, stop_tokens=stops, seed=0)


REFUSED = {
    "n": ([1], 0, {}, "n must be at least 1, got 0"),
    "float n": ([1], 2.0, {}, "n must be an int, got 2.0"),
    "empty prompt": ([], 2, {}, "prompt must hold at least one token"),
    "id": ([11], 2, {}, r"prompt\[0\] must be between 0 and 10, got 11"),
    "max_tokens": ([1], 2, {"max_tokens": -3}, "max_tokens must be at least 1, got -3"),
    "max_batch": ([1], 2, {"max_batch": 0, "max_tokens": 9}, "max_batch must be at least 1, got 0"),
    "step": ([1], 2, {"prefill_step_size": 0}, "prefill_step_size must be at least 1"),
    "stop": ([1], 2, {"stop_tokens": [-1]}, r"stop_tokens\[0\] must be between 0 and 10, got -1"),
    "cold": ([1], 2, {"temperature": -1}, "temperature must be between"),
    "NaN": ([1], 2, {"temperature": math.nan}, "temperature must be finite"),
    "seed": ([1], 2, {"seed": 1.5}, "seed must be an int"),
    "unknown": ([1], 2, {"extract": len}, "unknown option 'extract'"),
    "top": ([1], 2, {"top_logprobs": -1}, "top_logprobs must be at least 0|between 0 and"),
    "seeds": ([1], 2, {"seed": [1, 2, 3]}, "seed must be one, or one for each of 2, got 3"),
    "progress": ([1], 2, {"progress": "yes", "max_tokens": 9}, "progress must be True or False"),
    "context": (
        [1] * 9, 2, {"max_tokens": 13},
        r"prompt \(9 tokens\) \+ max_tokens \(13\), of .* must fit the model's context of 20",
    ),
}  # fmt: skip


@pytest.mark.parametrize("function", [sample_n, sample_batches])
@pytest.mark.parametrize(("prompt", "n", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_at_the_call(function, prompt, n, options, message):
    model = Recorder(random_table(), max_positions=20)
    with pytest.raises((ValueError, TypeError), match=message):
        function(model, prompt, n, **options)
    assert model.calls == []


def test_a_progress_bar_on_request(capsys):
    sample_n(recorder(), PROMPT, 4, max_tokens=5, stop_tokens=STOPS, seed=0)
    assert capsys.readouterr().err == ""
    sample_n(recorder(), PROMPT, 4, max_tokens=5, stop_tokens=STOPS, seed=0, progress=True)
    assert "/20" in capsys.readouterr().err

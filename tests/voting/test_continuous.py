"""sample_many: each row as if alone, in the slots that ``schedule`` says."""

import math
from types import SimpleNamespace

from lablib.cache import kv
from lablib.cache.rewind_batch import can_batch
from lablib.course.tasks import stories
from lablib.course.theory.slots import schedule
from lablib.inference.completions import sample_n
from lablib.inference.decoding.batches import sample_many
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.sampling.options import SamplerOptions
from lablib.models import LanguageModel, hybrid_config, llama_config, zoo
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.generate import batch_generate
from mlx_lm.sample_utils import make_sampler
from oracles.scripted import Recorder, random_table
from scipy.stats import chi2_contingency

PROMPTS = [[4, 0, 7], [1], [9, 9, 2, 3, 5, 8, 1], [6, 2, 0], [3, 3, 3, 3], [5], [8, 8, 2]]
OPTIONS = [
    SamplerOptions(seed=i, temperature=1.0 + 0.1 * i, repeat_penalty=1.0 + 0.2 * (i % 2))
    for i in range(len(PROMPTS))
]


class Watched:
    """Writes down the shape of each forward."""

    def __init__(self, model):
        self.model, self.shapes = model, []
        self.layers, self.make_cache, self.vocab_size = model.layers, model.make_cache, 12

    def __call__(self, tokens, cache=None):
        self.shapes.append(tokens.shape)
        return self.model(tokens, cache=cache)


@pytest.fixture
def watched():
    """A model that was tried out already, as each is once."""
    model = Watched(LanguageModel(llama_config(12, 32, 2, 2), seed=0))
    assert can_batch(model, kv.make(model))
    model.shapes.clear()
    return model


def assert_each_is_as_if_alone(model, found, stops, n=1):
    assert [len(samples) for samples in found] == [n] * len(PROMPTS)
    for prompt, asked, samples in zip(PROMPTS, OPTIONS, found, strict=True):
        for i in range(n):
            alone = TokenIterator(
                model, prompt, max_tokens=9, stop_tokens=stops, seed=asked.seed, stream=i,
                temperature=asked.temperature, repeat_penalty=asked.repeat_penalty,
            )  # fmt: skip
            assert [token.id for token in alone] == samples.tokens[i]
            np.testing.assert_allclose(samples.logprobs[i], alone.logprobs, atol=1e-4)
            assert samples.finished[i] == (samples.tokens[i][-1] in stops)


@pytest.mark.parametrize("slots", [1, 2, 3, 20])
@pytest.mark.parametrize("stops", [[], [0, 1, 2, 3, 4]], ids=["no stops", "stops"])
def test_each_sequence_is_as_if_alone_and_sits_where_the_schedule_says(watched, slots, stops):
    found = sample_many(watched, PROMPTS, OPTIONS, max_batch=slots, max_tokens=9, stop_tokens=stops)
    sizes = [rows for rows, length in watched.shapes]
    read = [shape for shape in watched.shapes if shape[1] > 1]
    assert_each_is_as_if_alone(watched.model, found, stops)
    lengths = [samples.lengths[0] for samples in found]
    stays = schedule(lengths, slots)
    expected, at = [], iter(PROMPTS)
    for step in range(max(stay.start + stay.length for stay in stays)):
        joining = sum(stay.start == step for stay in stays)
        unread = [len(prompt) > 1 for _, prompt in zip(range(joining), at, strict=False)]
        expected += [1] * sum(unread)  # all but the ends of those that join
        # The ends are read beside the others. The forward after a last token is never run.
        expected.append(sum(stay.start <= step < stay.start + stay.length for stay in stays))
    assert sizes == expected
    assert {rows for rows, _ in read} == {1}
    assert (len(set(lengths)) > 1) == bool(stops)


@pytest.mark.parametrize("config", [llama_config(12, 32, 2, 2), hybrid_config(12, 32, 2, 2)])
@pytest.mark.parametrize(("n", "slots"), [(3, 2), (3, 7), (2, 5), (4, 64)])
def test_each_row_of_each_prompt_is_as_if_alone(config, n, slots):
    model = LanguageModel(config, seed=3)
    stops = [0, 1, 2]
    found = sample_many(
        model, PROMPTS, OPTIONS, n, max_batch=slots, max_tokens=9, stop_tokens=stops
    )
    assert_each_is_as_if_alone(model, found, stops, n)


def test_no_more_rows_than_allowed_and_a_prompt_is_read_once(watched):
    sample_many(watched, PROMPTS, OPTIONS, 4, max_batch=9, max_tokens=9, stop_tokens=[0, 1])
    assert max(rows for rows, _ in watched.shapes) in (8, 9)  # four rows of a prompt join together
    read = [length for rows, length in watched.shapes if rows == 1 and length > 1]
    assert sum(read) == sum(len(prompt) - 1 for prompt in PROMPTS if len(prompt) > 2)


def test_what_a_prompt_has_in_common_with_the_one_before_is_not_read_again(watched):
    head = [1, 2, 3, 4, 5, 6]
    prompts = [[*head, 7, 8, 9], [*head, 7, 8, 9], [*head, 7, 0], [*head], [9, 9, 9]]
    found = sample_many(watched, prompts, OPTIONS[:5], max_batch=1, max_tokens=1)
    read = [length for _, length in watched.shapes]
    # A single token ends each prompt; before it: all; nothing; nothing; nothing; all.
    assert read == [8, 1, 1, 1, 1, 2, 1]
    for prompt, asked, samples in zip(prompts, OPTIONS, found, strict=False):
        alone = sample_n(
            watched.model, prompt, 1, max_tokens=1, seed=asked.seed, temperature=asked.temperature,
            repeat_penalty=asked.repeat_penalty,
        )  # fmt: skip
        assert samples.tokens == alone.tokens


def test_what_cannot_share_a_batch_is_served_prompt_by_prompt():
    model = Recorder(random_table())
    assert not can_batch(model, kv.make(model))
    model.calls.clear()
    found = sample_many(model, PROMPTS, OPTIONS, 3, max_batch=8, max_tokens=9, stop_tokens=[1, 3])
    assert_each_is_as_if_alone(model, found, [1, 3], 3)
    assert {rows for rows, _ in model.shapes} == {1, 2, 3}


def two_samples(a: list[str], b: list[str]) -> float:
    """Return the p-value of a chi-square test that both were drawn alike; rare ones are pooled."""
    counts = np.array([[side.count(kind) for kind in {*a, *b}] for side in (a, b)])
    often = counts.sum(axis=0) >= 20
    rare = counts[:, ~often].sum(axis=1, keepdims=True)
    return chi2_contingency(np.hstack([counts[:, often], rare + 0.5])).pvalue


def test_rows_have_the_distribution_of_mlx_lms():
    """False alarms: 1e-6, for these seeds never again. Temperature 1.25 is found out."""
    model, tokenizer = zoo.load("draft")
    prompts = [tokenizer.encode(problem.prompt) for problem in stories.problems(3, 3)]
    n, new = 700, 2

    def ours(temperature):
        options = [SamplerOptions(temperature, seed=j) for j in range(3)]
        found = sample_many(model, prompts, options, n, max_batch=900, max_tokens=new)
        return [f"{j} {row}" for j, samples in enumerate(found) for row in samples.tokens]

    mx.random.seed(0)
    rows = [prompt for prompt in prompts for _ in range(n)]
    found = batch_generate(
        model, SimpleNamespace(eos_token_ids=[], decode=lambda tokens: ""), rows, max_tokens=new,
        sampler=make_sampler(temp=1.0), completion_batch_size=900, return_token_ids=True,
    )  # fmt: skip
    theirs = [f"{k // n} {row}" for k, row in enumerate(found.token_ids)]
    assert two_samples(ours(1.0), theirs) > 1e-6
    assert two_samples(ours(1.25), theirs) < 1e-6


class Broken(Recorder):
    """Its logits are NaN once a row has seen token 5."""

    def __call__(self, tokens, cache=None):
        logits = super().__call__(tokens, cache)
        return mx.where((tokens == 5)[..., None], math.nan, logits)


def test_logits_that_are_not_finite_become_no_token():
    prompts = [[1, 2, 3], [4, 5], [6, 7]]
    with pytest.raises(BadValue, match=r"row 1, token 0: the model's logits must be finite"):
        sample_many(Broken(random_table()), prompts, [SamplerOptions(seed=0)] * 3, max_tokens=3)


def test_bad_input_is_refused_before_any_work():
    model = Recorder(random_table(), max_positions=20)
    for change, message in (
        ({"options": OPTIONS[:3]}, "options must be one for each of 7 prompts, got 3"),
        ({"options": [{"seed": 1}] * 7}, r"options\[0\] must be SamplerOptions, got"),
        ({"max_tokens": [3] * 6}, "max_tokens must be one, or one for each of 7, got 6"),
        (
            {"temperature": 0.5},
            "unknown option 'temperature' .here it is options=, a SamplerOptions",
        ),
        ({"temp": 0.5}, "unknown option 'temp' .here it is temperature="),
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"max_batch": 0}, "max_batch must be at least 1, got 0"),
        ({"max_tokens": 15}, "must fit the model's context of 20"),
        ({"stop_tokens": [11]}, r"stop_tokens\[0\] must be between 0 and 10"),
        ({"prefill_step_size": 0}, "prefill_step_size must be at least 1"),
        ({"prompts": [[99]] * 7}, r"prompts\[0\]\[0\] must be between 0 and 10, got 99"),
    ):
        with pytest.raises((BadType, BadValue), match=message):
            sample_many(model, **({"prompts": PROMPTS, "options": OPTIONS} | change))
    assert model.calls == []


def test_an_empty_queue():
    assert sample_many(Recorder(random_table()), [], []) == []

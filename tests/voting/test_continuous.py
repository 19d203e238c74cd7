"""serve: each sequence as if alone, in the slots that ``schedule`` says."""

from lablib.cache import kv
from lablib.cache.rewind import can_batch
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.tokens import TokenIterator
from lablib.inference.voting.continuous import serve
from lablib.models import LanguageModel, llama_config
from lablib.theory.slots import schedule

import numpy as np
import pytest
from oracles.scripted import Recorder, random_table

PROMPTS = [[4, 0, 7], [1], [9, 9, 2, 3, 5, 8, 1], [6, 2, 0], [3, 3, 3, 3], [5], [8, 8, 2]]
OPTIONS = [
    SamplerOptions(seed=i, temperature=1.0 + 0.1 * i, repeat_penalty=1.0 + 0.2 * (i % 2))
    for i in range(len(PROMPTS))
]


class Watched:
    """Writes down the batch size of each forward of one token."""

    def __init__(self, model):
        self.model, self.sizes = model, []
        self.layers, self.make_cache, self.vocab_size = model.layers, model.make_cache, 12

    def __call__(self, tokens, cache=None):
        if tokens.shape[1] == 1:
            self.sizes.append(tokens.shape[0])
        return self.model(tokens, cache=cache)


def assert_each_is_as_if_alone(model, samples, stops):
    for prompt, asked, tokens, logprobs, finished in zip(
        PROMPTS, OPTIONS, samples.tokens, samples.logprobs, samples.finished, strict=True
    ):
        alone = TokenIterator(
            model, prompt, max_tokens=9, stop_tokens=stops, seed=asked.seed,
            temperature=asked.temperature, repeat_penalty=asked.repeat_penalty,
        )  # fmt: skip
        assert [token.id for token in alone] == tokens
        np.testing.assert_allclose(logprobs, alone.logprobs, atol=1e-4)
        assert finished == (tokens[-1] in stops)


@pytest.mark.parametrize("slots", [1, 2, 3, 20])
@pytest.mark.parametrize("stops", [[], [0, 1, 2, 3, 4]], ids=["no stops", "stops"])
def test_each_sequence_is_as_if_alone_and_sits_where_the_schedule_says(slots, stops):
    model = Watched(LanguageModel(llama_config(12, 32, 2, 2), seed=0))
    assert can_batch(model, kv.make(model))  # is tried out once for each model
    model.sizes.clear()
    samples = serve(model, PROMPTS, OPTIONS, slots=slots, max_tokens=9, stop_tokens=stops)
    assert_each_is_as_if_alone(model.model, samples, stops)
    stays = schedule(samples.lengths, slots)
    expected = []
    for step in range(max(stay.start + stay.length for stay in stays)):
        expected += sum(stay.start == step for stay in stays) * [1]  # ends of prompts
        # The forward after a sequence's last token is never run.
        live = sum(stay.start <= step < stay.start + stay.length - 1 for stay in stays)
        expected += [live] * (live > 0)
    assert model.sizes == expected
    assert (len(set(samples.lengths)) > 1) == bool(stops)


def test_what_cannot_share_a_batch_has_one_slot():
    model = Recorder(random_table())
    assert not can_batch(model, kv.make(model))
    model.calls.clear()
    samples = serve(model, PROMPTS, OPTIONS, slots=3, max_tokens=9, stop_tokens=[1, 3])
    assert_each_is_as_if_alone(model, samples, [1, 3])
    assert {rows for rows, _ in model.shapes} == {1}


def test_bad_input_is_refused_before_any_work():
    model = Recorder(random_table(), max_positions=20)
    for change, message in (
        ({"options": OPTIONS[:3]}, "options must be one for each of 7 prompts, got 3"),
        ({"slots": 0}, "slots must be at least 1, got 0"),
        ({"max_tokens": 15}, "must fit the model's context of 20"),
        ({"stop_tokens": [11]}, r"stop_tokens\[0\] must be between 0 and 10"),
        ({"prefill_step_size": 0}, "prefill_step_size must be at least 1"),
        ({"prompts": [[99]] * 7}, r"prompts\[0\]\[0\] must be between 0 and 10, got 99"),
    ):
        with pytest.raises(ValueError, match=message):
            serve(model, **({"prompts": PROMPTS, "options": OPTIONS} | change))
    assert model.calls == []


def test_an_empty_queue():
    assert serve(Recorder(random_table()), [], []).tokens == []

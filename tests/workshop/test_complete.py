"""Many prompts at once: each gets what ``sample_n`` draws, and what cannot be is refused."""

import math

from lablib.inference.voting.many import sample_n
from lablib.validation import BadValue
from lablib.workshop.complete import complete

import mlx.core as mx
import pytest
from oracles.scripted import Recorder, random_table

PROMPTS = [[1, 2, 3], [4, 5], [6, 7], [1, 2, 3]]


@pytest.mark.parametrize("max_rows", [1, 4, 256])
def test_every_prompt_gets_its_own_samples(max_rows):
    model, options = Recorder(random_table()), {"max_tokens": 9, "stop_tokens": [3]}
    found = complete(model, PROMPTS, 2, seeds=range(4), max_rows=max_rows, **options)
    for seed, (prompt, samples) in enumerate(zip(PROMPTS, found, strict=True)):
        alone = sample_n(model, prompt, 2, seed=seed, **options)
        assert samples.tokens == alone.tokens
        assert samples.finished == alone.finished


class Broken(Recorder):
    """Its logits are NaN once a row has seen token 5."""

    def __call__(self, tokens, cache=None):
        logits = super().__call__(tokens, cache)
        return mx.where((tokens == 5)[..., None], math.nan, logits)


def test_logits_that_are_not_finite_become_no_token():
    with pytest.raises(BadValue, match=r"row 1, token 0: the model's logits must be finite"):
        complete(Broken(random_table()), PROMPTS, seeds=range(4), max_tokens=3)


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        (PROMPTS, {"seeds": [1, 2]}, "seeds must be one for each of 4 prompts, got 2"),
        (PROMPTS, {"seeds": range(4), "stop_tokens": [11]}, r"stop_tokens\[0\] must be between"),
        ([[1], [11]], {"seeds": range(2)}, r"prompts\[1\]\[0\] must be between 0 and 10, got 11"),
        (PROMPTS, {"seeds": range(4), "max_tokens": 0}, "max_tokens must be at least 1"),
        (PROMPTS, {"seeds": range(4), "max_tokens": 30}, "must fit the model's context of 20"),
    ],
)
def test_bad_input_is_refused_before_any_work(prompts, options, message):
    model = Recorder(random_table(), max_positions=20)
    with pytest.raises(BadValue, match=message):
        complete(model, prompts, **options)
    assert model.calls == []

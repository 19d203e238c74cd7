"""Confidences: gathered while decoding they are those of the model's exact table, in every door."""

import math

from lablib.inference import (
    SamplerOptions,
    best_of_n,
    majority_vote,
    sample_many,
    sample_n,
    speculative_batch,
    speculative_sample_n,
    vote_until,
)
from lablib.inference.decoding.rows import Samples
from lablib.inference.speculation import NGram
from lablib.inference.steering import (
    GiveUp,
    agreement,
    by_confidence,
    lowest_confidence,
    mean_confidence,
    negative_entropy,
    self_certainty,
    tail_confidence,
    token_confidence,
)
from lablib.inference.steering.confidence import logprobs_of

import numpy as np
import pytest
from oracles.scripted import Recorder, random_table

PROMPT = [3, 1, 4]
V = 11
HOW = {"max_tokens": 9, "stop_tokens": [0], "seed": 2}


@pytest.fixture(scope="module")
def model():
    return Recorder(random_table(vocab_size=V, spread=1.0))


@pytest.fixture(scope="module")
def draft():
    return Recorder(random_table(vocab_size=V, spread=1.0, seed=1))


def exact(model, prompt, tokens, k):
    """The k best log-probabilities before each token, from the table."""
    rows = [model.log_probs([*prompt, *tokens[:i]]) for i in range(len(tokens))]
    return -np.sort(-np.array(rows), axis=-1)[:, :k]


def agrees(model, prompt, samples, k):
    assert len(samples.top_logprobs) == len(samples.tokens)
    assert len({len(row) for row in samples.tokens}) > 1
    for tokens, best in zip(samples.tokens, samples.top_logprobs, strict=True):
        rows = logprobs_of(best)
        assert rows.shape == (len(tokens), k)
        np.testing.assert_allclose(rows, exact(model, prompt, tokens, k), atol=1e-5)


def pairs(rows):
    """Log-probabilities as samples have them, with some id beside each."""
    return [tuple(enumerate(row)) for row in rows.tolist()]


@pytest.mark.parametrize("k", [1, 3, V])
@pytest.mark.parametrize("max_batch", [None, 3])
def test_samples_keep_the_best_log_probabilities(model, k, max_batch):
    how = {**HOW, "temperature": 0.8, "max_batch": max_batch}
    samples = sample_n(model, PROMPT, 8, top_logprobs=k, **how)
    agrees(model, PROMPT, samples, k)
    plain = sample_n(model, PROMPT, 8, **how)
    assert (samples.tokens, plain.top_logprobs) == (plain.tokens, [[]] * 8)
    agrees(model, PROMPT, sample_n(model, PROMPT, 3, top_logprobs=999, **how), V)


@pytest.mark.parametrize("rule", ["match", "rejection", "block", "coupled"])
def test_so_do_those_with_drafts(model, draft, rule):
    agrees(
        model,
        PROMPT,
        speculative_sample_n(model, draft, PROMPT, 6, rule=rule, top_logprobs=4, **HOW),
        4,
    )
    looked = speculative_batch(model, NGram(), [PROMPT] * 6, rule=rule, top_logprobs=4, **HOW)
    agrees(model, PROMPT, looked, 4)


def test_in_a_queue_each_prompt_has_as_many_as_it_asked_for(model):
    options = [SamplerOptions(seed=1, top_logprobs=k) for k in (2, 0, 5)]
    how = {"max_tokens": 9, "stop_tokens": [0], "max_batch": 4}
    found = sample_many(model, [PROMPT, [1], [2, 7]], options, 3, **how)
    assert found[1].top_logprobs == [[]] * 3
    agrees(model, PROMPT, found[0], 2)
    agrees(model, [2, 7], found[2], 5)


def test_the_measures_are_their_definitions():
    rng = np.random.default_rng(3)
    p = rng.dirichlet([0.3] * 6, size=20)
    rows = np.sort(np.log(p), axis=-1)[:, ::-1]
    by_hand = [-sum(math.log(x) for x in sorted(each)[-3:]) / 3 for each in p]
    np.testing.assert_allclose(token_confidence(pairs(rows[:, :3])), by_hand)
    assert mean_confidence(pairs(rows[:, :3])) == pytest.approx(sum(by_hand) / 20)
    assert tail_confidence(pairs(rows[:, :3]), last=4) == pytest.approx(sum(by_hand[-4:]) / 4)
    assert tail_confidence(pairs(rows[:, :3]), last=99) == pytest.approx(sum(by_hand) / 20)
    windows = [sum(by_hand[i : i + 5]) / 5 for i in range(16)]
    assert lowest_confidence(pairs(rows[:, :3]), window=5) == pytest.approx(min(windows))
    assert lowest_confidence(pairs(rows[:, :3]), window=50) == pytest.approx(sum(by_hand) / 20)
    divergences = [sum(1 / 6 * math.log(1 / 6 / x) for x in each) for each in p]
    assert self_certainty(pairs(rows)) == pytest.approx(sum(divergences) / 20)
    entropies = [-sum(x * math.log(x) for x in each) for each in p]
    assert negative_entropy(pairs(rows)) == pytest.approx(-sum(entropies) / 20)
    assert self_certainty(pairs(np.full((4, 8), -math.log(8)))) == pytest.approx(0.0)
    assert agreement(["a", "b", "a", None]) == [0.5, 0.25, 0.5, 0.0]


@pytest.mark.parametrize("measure", [self_certainty, negative_entropy])
def test_a_part_of_the_vocabulary_is_no_distribution(measure):
    rows = np.log(np.array([[0.5, 0.3, 0.2], [0.9, 0.05, 0.05]]))
    measure(pairs(rows))
    with pytest.raises(ValueError, match=f"{measure.__name__} must have top_logprobs of the whole"):
        measure(pairs(rows[:, :2]))


def votes(model, weight, **more):
    last = {"extract": lambda tokens: tokens[-1], "top_logprobs": 3, **HOW}
    return majority_vote(model, PROMPT, 12, weight=weight, **(last | more))


@pytest.mark.parametrize("weigh", ["linear", "log", "equal"])
@pytest.mark.parametrize("keep", [1.0, 0.3, 0.0])
def test_votes_are_weighed_and_filtered(model, draft, keep, weigh):
    samples = sample_n(model, PROMPT, 12, top_logprobs=3, temperature=0.8, **HOW)
    values = [mean_confidence(best) for best in samples.top_logprobs]
    least = sorted(values)[-max(1, math.ceil(keep * 12))]
    size = {"linear": lambda x: x, "log": math.exp, "equal": lambda x: 1.0}[weigh]
    wanted = {}
    for tokens, value in zip(samples.tokens, values, strict=True):
        wanted[tokens[-1]] = wanted.get(tokens[-1], 0) + (size(value) if value >= least else 0)
    total = sum(wanted.values())
    found = votes(model, by_confidence(mean_confidence, keep, weigh))
    shares = {answer: share for answer, (_, share) in zip(found.answers, found, strict=True)}
    assert shares == pytest.approx({answer: x / total for answer, x in wanted.items()})
    drafted = votes(
        model, by_confidence(mean_confidence, keep, weigh), draft_model=draft, rule="match"
    )
    assert drafted == found


def test_other_scorers_may_look_at_the_samples_too(model):
    seen = []

    def longest(sequences, samples):
        seen.append(samples)
        return samples.lengths

    best_of_n(model, PROMPT, 4, score_fn=longest, **HOW)
    assert isinstance(seen[0], Samples)


def given_up(best, tokens, floor, window):
    """Where a text ends by its confidences, spelled out."""
    confidences = token_confidence(best)
    for i in range(len(tokens)):
        if i + 1 >= window and confidences[i + 1 - window : i + 1].mean() < floor:
            return [*tokens[:i], 0]
    return tokens


@pytest.mark.parametrize("window", [1, 3])
def test_a_text_is_given_up_where_its_confidence_sinks(model, draft, window):
    how = HOW | {"stop_tokens": [0], "temperature": 1.0}
    free = sample_n(model, PROMPT, 12, top_logprobs=5, **how)
    floor = float(np.quantile([lowest_confidence(r, window) for r in free.top_logprobs], 0.5))
    wanted = [
        given_up(r, t, floor, window) for r, t in zip(free.top_logprobs, free.tokens, strict=True)
    ]
    assert 3 <= sum(a != b for a, b in zip(wanted, free.tokens, strict=True)) <= 9
    stop = {"logits_processors": [GiveUp(floor, 0, window)]}
    assert sample_n(model, PROMPT, 12, **how, **stop).tokens == wanted
    drafted = speculative_sample_n(model, draft, PROMPT, 12, rule="match", **how, **stop)
    assert drafted.tokens == wanted  # refused drafts leave no trace
    for rule in ("rejection", "block"):
        rows = speculative_sample_n(
            model, draft, PROMPT, 12, rule=rule, top_logprobs=5, **how, **stop
        )
        for tokens, best in zip(rows.tokens, rows.top_logprobs, strict=True):
            assert given_up(best, tokens, floor, window) == tokens


def test_a_vote_goes_on_without_those_that_gave_up(model):
    how = HOW | {"temperature": 1.0}
    free = sample_n(model, PROMPT, 16, top_logprobs=5, **how)
    floor = float(np.quantile([lowest_confidence(r, 2) for r in free.top_logprobs], 0.5))
    stop = {"logits_processors": [GiveUp(floor, 0, 2)]}
    answer = lambda tokens: tokens[-2] if len(tokens) > 6 else None  # noqa: E731
    found = vote_until(model, PROMPT, 16, extract=answer, **how, **stop)
    rows = sample_n(model, PROMPT, 16, **how, **stop).tokens[: found.drawn]
    assert found.missing == [i for i, row in enumerate(rows) if answer(row) is None]
    assert sum(count for _, count in found) + len(found.missing) == found.drawn


def test_bad_arguments_are_refused(model):
    for call, told in (
        (
            lambda: votes(model, by_confidence(mean_confidence), top_logprobs=0),
            "top_logprobs must be",
        ),
        (lambda: by_confidence(mean_confidence, keep=2.0), "keep must be between"),
        (lambda: by_confidence(mean_confidence, weigh="x"), "weigh must be one of"),
        (lambda: by_confidence(3), "measure must be callable"),
        (lambda: votes(model, by_confidence(lambda best: -1.0)), "measure must be positive"),
        (lambda: GiveUp(math.nan, 0), "floor must be"),
        (lambda: GiveUp(1.0, -1), "stop_token must be"),
        (lambda: GiveUp(1.0, 0, 0), "window must be"),
        (lambda: GiveUp(1.0, 0, 1, 0), "best must be"),
        (
            lambda: vote_until(model, PROMPT, 4, top_logprobs=2, **HOW),
            "top_logprobs must be 0 here",
        ),
    ):
        with pytest.raises((ValueError, TypeError), match=told):
            call()

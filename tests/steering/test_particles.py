"""Particles against enumeration: what they estimate is exact on average, and mistakes are found.

A mean of 1,000 runs or more misses the truth by more than 5.5 standard errors in 4 of 10⁸ tests;
a chi-square test fails at a chance below 10⁻⁷.
"""

import math
from itertools import pairwise

from lablib.inference import AsyncMlxLM, sample_n
from lablib.inference.steering import (
    importance_sample,
    particles,
    rejection_sample,
    requests,
    resampling,
    smc,
)
from lablib.inference.voting import tally
from lablib.models import zoo

import mlx.core as mx
import numpy as np
import pytest
from oracles.steering import STOP, TableLM, conditioned, off_by, too_far

PROMPT = [2, 1]
ENDS = {"max_tokens": 5, "stop_tokens": [STOP]}
FAR = 5.5
RARE = 1e-7


@pytest.fixture(scope="module")
def lm():
    return TableLM(seed=2)


def wanted(tokens, ended):
    """Ones are wanted, 3 before a 2 never, and texts that end themselves twice as much."""
    value = 1.2 * min(tokens.count(1), 3) - 0.4 * len(tokens)
    if any(a == 3 and b == 2 for a, b in pairwise(tokens)):
        return -math.inf
    return value + (math.log(2) if ended and tokens[-1] == STOP else 0.0)


def weight(text):
    return math.exp(wanted(list(text), True))


MORE = mx.array([[0.0, 1.0, 0.0, 0.0]])
NEVER = mx.array([[0.0, 1.0, 0.0, -mx.inf]])


def mask(tokens, logits):
    """Leave no 3 after a 1, and make 1 more likely: a mask and a weight."""
    return logits + (NEVER if tokens.tolist()[-1] == 1 else MORE)


def never_masked(text):
    return not any(a == 1 and b == 3 for a, b in zip((PROMPT[-1], *text), text, strict=False))


def runs(lm, n_runs, size, potential=wanted, seed=1, **options):
    return smc(lm, [PROMPT] * n_runs, size, potential, seed=seed, **ENDS, **options)


def misses(clouds, texts, weight):
    """By how many standard errors the evidence, and parts of it, are off at most.

    Ẑ times a weighted mean is unbiased, too: for texts by their first token, their length and end.
    """
    parts = {
        "all": lambda text: 1.0,
        "first is 1": lambda text: float(text[0] == 1),
        "first is 3": lambda text: float(text[0] == 3),
        "ends itself": lambda text: float(text[-1] == STOP),
        "long": lambda text: float(len(text) == 5),
        "tokens": lambda text: float(len(text)),
    }
    found = {}
    for name, part in parts.items():
        exact = sum(p * weight(text) * part(text) for text, p in texts.items())
        values = [
            0.0
            if cloud.log_evidence == -math.inf
            else math.exp(cloud.log_evidence) * cloud.mean(part)
            for cloud in clouds
        ]
        found[name] = off_by(values, exact)
    return found


@pytest.mark.parametrize(
    ("resample", "ess"), [("systematic", 0.7), *((name, 1.0) for name in resampling.RESAMPLE)]
)
def test_the_evidence_and_its_parts_are_unbiased(lm, resample, ess):
    clouds = runs(lm, 1000, 6, resample=resample, ess=ess)
    assert any(len({*g.parents}) < 6 for cloud in clouds for g in cloud.history)
    found = misses(clouds, lm.texts(PROMPT), weight)
    assert max(found.values()) < FAR, found


def test_a_proposal_is_made_good_by_its_weights(lm):
    clouds = runs(lm, 1000, 4, logits_processors=[mask])
    exact = lambda text: weight(text) * never_masked(text)  # noqa: E731
    found = misses(clouds, lm.texts(PROMPT), exact)
    assert max(found.values()) < FAR, found
    texts = [tuple(tokens) for cloud in clouds for tokens in cloud.tokens]
    assert all(map(never_masked, texts))


def test_importance_and_rejection_are_unbiased(lm):
    texts = lm.texts(PROMPT)
    found = misses(importance_sample(lm, [PROMPT] * 1000, 4, wanted, seed=2, **ENDS), texts, weight)
    assert max(found.values()) < FAR, found
    kept = rejection_sample(lm, [PROMPT] * 1000, 4, wanted, log_bound=4.0, seed=2, **ENDS)
    assert (
        off_by([math.exp(each.log_evidence) for each in kept], conditioned(texts, weight)[1]) < FAR
    )


def test_what_rejection_keeps_is_exact(lm):
    (kept,) = rejection_sample(lm, [PROMPT], 50_000, wanted, log_bound=3.2, seed=3, **ENDS)
    exact, _ = conditioned(lm.texts(PROMPT), weight)
    assert too_far(kept.tokens, exact) > RARE
    share = len(kept.tokens) / 50_000
    assert kept.log_evidence == pytest.approx(3.2 + math.log(share))
    assert too_far(kept.tokens, lm.texts(PROMPT)) < RARE  # the planted bug: nothing is rejected


def test_without_a_potential_particles_are_plain_samples(lm):
    (cloud,) = smc(lm, [PROMPT], 50_000, seed=4, **ENDS)
    assert cloud.log_evidence == 0.0
    assert too_far(cloud.tokens, lm.texts(PROMPT)) > RARE
    texts = lm.texts(PROMPT)
    for tokens, logprobs in zip(cloud.tokens[:50], cloud.logprobs, strict=False):
        assert sum(logprobs) == pytest.approx(math.log(texts[tuple(tokens)]), abs=1e-5)


def test_particles_are_the_rows_of_sample_n():
    model, tokenizer = zoo.load("draft", mx.float32)
    prompt = tokenizer.encode("sum 7 3 9 0 4 8:")
    lm = AsyncMlxLM(model, tokenizer, batch_size=16)
    (cloud,) = smc(lm, [prompt], 6, max_tokens=10, seed=5)
    rows = sample_n(model, prompt, 6, max_tokens=10, seed=5)
    assert cloud.tokens == rows.tokens
    assert cloud.finished == rows.finished
    np.testing.assert_allclose(
        np.concatenate(cloud.logprobs), np.concatenate(rows.logprobs), atol=1e-4
    )


def test_many_particles_come_close(lm):
    """The distribution itself, not only its mean: 20,000 particles."""
    exact, evidence = conditioned(lm.texts(PROMPT), weight)
    (cloud,) = smc(lm, [PROMPT], 20_000, wanted, seed=6, **ENDS)
    assert math.exp(cloud.log_evidence) == pytest.approx(evidence, rel=0.05)
    votes = tally(cloud.tokens, log_weights=cloud.log_weights)
    shares = {answer: share for answer, (_, share) in zip(votes.answers, votes, strict=True)}
    distance = sum(abs(shares.get(text, 0.0) - p) for text, p in exact.items()) / 2
    assert distance < 0.05


# --- planted bugs -----------------------------------------------------------------------------


def plant(monkeypatch, bug):
    cloud = particles.Cloud
    if bug == "weights kept after resampling":
        resample = cloud.resample

        def kept(self, points):
            before = self.log_weights
            resample(self, points)
            self.log_weights = before[self._parents]

        monkeypatch.setattr(cloud, "resample", kept)
    if bug == "mask without renormalising":

        def as_they_are(texts, rows, power):
            return np.stack([requests.processed(*pair) for pair in zip(texts, rows, strict=True)])

        monkeypatch.setattr(requests, "proposals", as_they_are)
    if bug == "mean over the living":
        log_mean = particles.log_mean
        monkeypatch.setattr(particles, "log_mean", lambda logs: log_mean(logs[logs > -np.inf]))
    if bug == "mask without weight":

        def proposals(texts, rows, power):
            log_q = of(texts, rows, power)
            rows[:] = np.where(log_q > -np.inf, log_q, rows)
            return log_q

        of = requests.proposals
        monkeypatch.setattr(requests, "proposals", proposals)
    if bug == "potential added at every step":

        def again(self, *given):
            self._potentials = [0.0] * len(self.texts)
            weigh(self, *given)

        weigh = cloud.weigh
        monkeypatch.setattr(cloud, "weigh", again)
    if bug == "parents by rank":
        best = lambda logs, points: np.full(len(logs), logs.argmax())  # noqa: E731
        monkeypatch.setattr(particles, "parents", best)


UNMASKED = [
    "weights kept after resampling",
    "mean over the living",
    "potential added at every step",
    "parents by rank",
]
MASKED = ["mask without renormalising", "mask without weight"]


@pytest.mark.grid(lambda bug: bug == UNMASKED[0], rest="slow")
@pytest.mark.thorough  # a test of tests
@pytest.mark.parametrize("bug", UNMASKED)
def test_planted_bugs_are_found(lm, monkeypatch, bug):
    plant(monkeypatch, bug)
    assert max(misses(runs(lm, 1000, 5, ess=1.0), lm.texts(PROMPT), weight).values()) > 2 * FAR


@pytest.mark.thorough  # a test of tests
@pytest.mark.parametrize("bug", MASKED)
def test_planted_bugs_of_masks_are_found(lm, monkeypatch, bug):
    plant(monkeypatch, bug)
    clouds = runs(lm, 1000, 4, logits_processors=[mask])
    exact = lambda text: weight(text) * never_masked(text)  # noqa: E731
    assert max(misses(clouds, lm.texts(PROMPT), exact).values()) > 2 * FAR


# --- resampling -------------------------------------------------------------------------------


def chosen(name, weights, u):
    with np.errstate(divide="ignore"):
        return resampling.parents(np.log(weights), resampling.RESAMPLE[name](u))


@pytest.mark.parametrize("name", resampling.RESAMPLE)
def test_each_particle_lives_on_as_often_as_its_weight_says(name):
    rng = np.random.default_rng(7)
    weights = rng.dirichlet([0.5] * 6)
    weights[2] = 0.0
    weights /= weights.sum()
    drawn = [chosen(name, weights, rng.random(6)) for _ in range(4000)]
    counts = np.array([np.bincount(each, minlength=6) for each in drawn])
    assert (counts.sum(axis=1) == 6).all()
    assert (counts[:, 2] == 0).all()
    for i in (0, 1, 3, 4, 5):
        whole = counts[:, i].std() == 0
        assert whole or off_by(counts[:, i], 6 * weights[i]) < FAR
    if name == "systematic":
        assert (counts >= np.floor(6 * weights)).all()
        assert (counts <= np.ceil(6 * weights)).all()


@pytest.mark.parametrize("name", resampling.RESAMPLE)
def test_no_rounding_wakes_the_dead(name):
    last = np.array([1 / 3, 1 / 3, 1 / 3, 0.0])
    assert 3 not in chosen(name, last, np.full(4, np.nextafter(1, 0)))
    assert chosen(name, np.array([0.0, 1.0]), np.zeros(2)).tolist() == [1, 1]


def test_as_many_are_effective_as_have_equal_weights():
    with np.errstate(divide="ignore"):
        logs = np.log([0.2, 0.2, 0.0])
    assert resampling.effective(logs) == pytest.approx(2.0)
    assert resampling.effective(np.full(3, -np.inf)) == 0.0


# --- the edges --------------------------------------------------------------------------------


def test_the_history_leads_to_each_text(lm):
    (cloud,) = smc(lm, [PROMPT], 12, wanted, ess=1.0, seed=8, **ENDS)
    for i, tokens in enumerate(cloud.tokens):
        found, at = [], i
        for step in reversed(cloud.history):
            if step.tokens[at] is not None:
                found.insert(0, step.tokens[at])
            at = step.parents[at]
        assert found == tokens
    assert cloud.history[-1].log_weights == cloud.log_weights.tolist()
    assert cloud.weights.sum() == pytest.approx(1.0)


def test_texts_do_not_depend_on_those_of_other_prompts_after_them(lm):
    alone = smc(lm, [PROMPT], 6, wanted, seed=9, **ENDS)[0]
    beside = smc(lm, [PROMPT, [3]], 6, wanted, seed=9, **ENDS)
    assert beside[0].tokens == alone.tokens
    assert beside[0].log_evidence == alone.log_evidence
    assert smc(lm, [PROMPT], 6, wanted, seed=10, **ENDS)[0].tokens != alone.tokens
    assert (
        smc(lm, [PROMPT], 6, wanted, **ENDS)[0].tokens
        != smc(lm, [PROMPT], 6, wanted, **ENDS)[0].tokens
    )


def test_nothing_that_is_wanted_leaves_no_evidence(lm):
    (cloud,) = smc(lm, [PROMPT], 4, lambda tokens, ended: -math.inf, seed=1, **ENDS)
    assert cloud.log_evidence == -math.inf
    assert cloud.weights.tolist() == [0.0] * 4
    assert math.isnan(cloud.mean(len))
    assert len(cloud.history) == 1  # nobody is asked for the dead
    nothing = lambda tokens, logits: mx.full(logits.shape, -mx.inf)  # noqa: E731
    (cloud,) = smc(lm, [PROMPT], 4, seed=1, logits_processors=[nothing], **ENDS)
    assert cloud.log_evidence == -math.inf
    assert cloud.tokens == [[]] * 4
    assert cloud.finished == [False] * 4
    (kept,) = rejection_sample(lm, [PROMPT], 4, lambda tokens, ended: -math.inf, seed=1, **ENDS)
    assert (kept.tokens, kept.log_evidence) == ([], -math.inf)


class Counter:
    """Leaves the token that its state says; copies have states of their own."""

    def __init__(self, at=0):
        self.at = at

    def copy(self):
        return Counter(self.at)

    def __call__(self, tokens, logits):
        self.at += 1
        assert self.at == len(tokens) - len(PROMPT) + 1
        return mx.where(mx.arange(4) == self.at % 4, -mx.inf, logits)


def test_a_processor_with_a_state_follows_its_text(lm):
    own = Counter()
    (cloud,) = smc(lm, [PROMPT], 16, wanted, ess=1.0, logits_processors=[own], seed=1, **ENDS)
    assert own.at == 0
    assert all(token != i % 4 for tokens in cloud.tokens for i, token in enumerate(tokens, 1))


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"particles": 0}, ValueError, "particles must be"),
        ({"prompts": []}, ValueError, "prompts must hold at least one"),
        ({"prompts": [[9]]}, ValueError, r"prompts\[0\]"),
        ({"resample": "none"}, ValueError, "resample must be one of 'systematic'"),
        ({"ess": 1.5}, ValueError, "ess must be between 0.0 and 1.0"),
        ({"power": -1.0}, ValueError, "power must be"),
        ({"power": 1e31}, ValueError, r"power must be between 0\.0 and 1e\+30"),
        ({"max_tokens": 0}, ValueError, "max_tokens must be"),
        ({"stop_tokens": [7]}, ValueError, "stop_tokens"),
        ({"potential": 3}, TypeError, "potential must be callable"),
        ({"potential": lambda tokens, ended: None}, TypeError, "potential must return a number"),
        ({"potential": lambda tokens, ended: math.nan}, ValueError, "potential must return no NaN"),
        ({"potential": lambda tokens, ended: math.inf}, ValueError, "potential must return no NaN"),
        ({"lm": object()}, TypeError, "lm must have batch_next_token_logprobs_sync"),
        ({"seed": 0.5}, TypeError, "seed must be"),
    ],
)
def test_bad_arguments_are_refused(lm, change, error, told):
    given = {"lm": lm, "prompts": [PROMPT], "particles": 2, "seed": 1, **ENDS} | change
    with pytest.raises(error, match=told):
        smc(**given)


def test_a_bound_that_is_none_is_refused(lm):
    with pytest.raises(ValueError, match=r"potential must be at most log_bound 0\.0, got"):
        rejection_sample(lm, [PROMPT], 100, lambda tokens, ended: 1.0, seed=1, **ENDS)

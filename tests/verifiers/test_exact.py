"""Verifiers: exact on the task, and safe as weights."""

import math

from lablib.course.tasks import load_tokenizer, sums
from lablib.course.verifiers import Exact, log_weight
from lablib.inference.voting.scoring import pad, score
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
from oracles.refusals import refuses
from scipy.special import log_expit

TOKENIZER = load_tokenizer()
END = 2


def encode(text):
    return TOKENIZER.encode(text, add_special_tokens=False).ids


class Sampled64:
    """Completions of one problem with what ``scoring`` wants to know about them."""

    def __init__(self, texts):
        self.tokens = [[*encode(text), END] for text in texts]
        self.logprobs = [[-1.0] * len(row) for row in self.tokens]


def test_the_exact_verifier_reads_only_the_completion():
    problem = sums.problems(seed=1, n=1)[0]
    texts = [*sums.simulate(problem, np.random.default_rng(0), 30), "", "#", problem.answer[:-1]]
    prompt = [1, *encode(problem.prompt)]
    verifier = Exact(TOKENIZER, lambda text: sums.verify(problem, text))
    scores = score(verifier, prompt, Sampled64(texts))
    assert scores.tolist() == [float(sums.verify(problem, text)) for text in texts]
    assert 0 < scores.sum() < 30
    completions, lengths = pad([], Sampled64(texts).tokens)
    assert verifier(completions, lengths).tolist() == scores.tolist()


def zero(sequences):
    return mx.zeros(sequences.shape[0])


def test_log_weight_of_log_odds_is_a_log_probability():
    def learned(tokens, lengths):
        assert lengths.shape == (4,)
        return mx.array([[0.0], [800.0], [-800.0], [math.log(3)]])

    sequences, lengths = pad([1], [[2]] * 4)
    weights = log_weight(learned)(sequences, lengths, 1)
    np.testing.assert_allclose(weights, [-math.log(2), 0.0, -800.0, math.log(0.75)], atol=1e-7)
    sharp = log_weight(learned, center=1.0, temperature=0.5)(sequences, lengths)
    np.testing.assert_allclose(sharp[0], log_expit(-2.0))


def test_bad_input():
    refuses(BadType, "check must be callable", Exact, TOKENIZER, True)
    refuses(BadType, "tokenizer must have a decode method", Exact, None, bool)
    refuses(BadValue, "temperature must be positive", log_weight, zero, temperature=0.0)
    refuses(BadType, "verifier must be callable", log_weight, "log_prob")

"""Noisy verifiers: errors by the stated law, one for each solution, and what they do to a vote."""

import math

from lablib.course.replay.curves import Sampled, vote_curves
from lablib.course.tasks import sums
from lablib.course.verifiers.noisy import Noisy, hash_pair, student_t
from lablib.inference.voting.scoring import pad
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles.refusals import refuses
from scipy.special import log_expit
from scipy.stats import kstest, t


def rows(n, width=6, seed=0):
    return mx.array(np.random.default_rng(seed).integers(0, 100, size=(n, width)), dtype=mx.int32)


def zero(sequences):
    return mx.zeros(sequences.shape[0])


def distance(sample, df):
    """Largest gap between the sample's distribution function and the law's (Kolmogorov)."""
    return kstest(sample, t(df).cdf).statistic


@pytest.mark.parametrize("df", [1, 2, math.inf])
def test_the_errors_follow_their_law(df):
    """Dvoretzky-Kiefer-Wolfowitz: a gap above 0.0191 has probability below 1e-6 at n = 20,000."""
    errors = Noisy(zero, scale=1.0, df=df, seed=3)(rows(20_000))
    limit = math.sqrt(math.log(2e6) / (2 * 20_000))
    assert distance(errors, df) < limit
    assert distance(1.2 * errors, df) > limit
    assert distance(errors, 2 if df != 2 else math.inf) > limit


def test_errors_belong_to_the_solution():
    sequences = rows(50)
    verifier = Noisy(zero, scale=2.0, df=2, seed=1)
    together = verifier(sequences)
    alone = [verifier(sequences[i : i + 1])[0] for i in range(50)]
    assert together.tolist() == alone == verifier(sequences).tolist()
    padded, lengths = pad([], [row[:4] for row in sequences.tolist()])
    wider = mx.concatenate([padded, 7 * mx.ones((50, 3), dtype=mx.int32)], axis=1)
    assert verifier(padded).tolist() == verifier(wider, lengths).tolist()
    assert (Noisy(zero, 2.0, 2, seed=2)(sequences) != together).all()
    np.testing.assert_allclose(Noisy(zero, 1.0, 2, seed=1)(sequences), together / 2)
    assert Noisy(zero, 0.0)(sequences).tolist() == [0.0] * 50


def test_the_most_extreme_uniforms_stay_finite():
    for u in (2.0**-53, 1 - 2.0**-53):
        for df in (0.2, 1.0, 5.0, 1e6, math.inf):
            assert math.isfinite(student_t(u, 1e-9, df))
    assert student_t(0.3, 0.1, 1e7) == pytest.approx(student_t(0.3, 0.1, math.inf), rel=1e-5)


def test_hashes_differ_by_tokens_order_and_seed():
    texts = [np.array(tokens) for tokens in ([1, 2], [2, 1], [1])]
    seen = {hash_pair(tokens, seed) for tokens in texts for seed in (0, 1)}
    assert len(seen) == 6
    assert hash_pair(np.array([1, 2]), 0) == hash_pair(np.array([1, 2], dtype=np.int32), 0)


def curves(df, scale):
    """Best-of-N and the weighted vote on the annotator's own chains, 120 problems of 64."""
    sampled = []
    rng = np.random.default_rng(11)
    for problem in sums.problems(seed=2, n=120):
        texts = sums.simulate(problem, rng, 64)
        held = [float(sums.verify(problem, text)) for text in texts]
        tokens = [np.frombuffer((problem.prompt + text).encode(), np.uint8) for text in texts]
        errors = [student_t(*hash_pair(row, 0), df) for row in tokens]
        scores = np.array(held) + scale * np.array(errors)
        truth = str(sum(problem.data) % 10)
        answers = [sums.extract(text) for text in texts]
        weights = {"v": log_expit((scores - 0.5) / 0.2)}
        sampled.append(Sampled(truth, answers, {"v": scores}, weights))
    return vote_curves(sampled, (1, 4, 8, 64), confidence=None, orders=4)


def test_a_heavy_tail_is_overoptimised_and_a_gaussian_is_not():
    """The phenomenon itself: more samples, worse answers; and a bounded weight prevents it."""
    heavy, light = curves(df=2.0, scale=0.5), curves(df=math.inf, scale=0.7)
    _, _, peak, end = heavy["best: v"].accuracy
    assert peak > heavy["best: v"].accuracy[0] + 0.15
    assert end < peak - 0.05
    assert light["best: v"].accuracy[3] >= light["best: v"].accuracy[2]
    assert heavy["weighted: v"].accuracy[3] > heavy["majority"].accuracy[3] + 0.10


def test_bad_input():
    refuses(BadType, "verifier must be callable", Noisy, None, 1.0)
    refuses(BadValue, "scale must be at least 0", Noisy, zero, -1.0)
    refuses(BadValue, r"df must be at least 0\.2", Noisy, zero, 1.0, df=0.0)
    with pytest.raises(BadValue, match="must have shape"):
        Noisy(zero, 1.0)(mx.zeros(3))
    with pytest.raises(BadValue, match="lengths must have shape"):
        Noisy(zero, 1.0)(rows(3), mx.array([1, 2]))
    with pytest.raises(BadValue, match=r"verifier must return shape \(3,\)"):
        Noisy(lambda s: mx.zeros(2), 1.0)(rows(3))
    with pytest.raises(BadType, match="got None"):
        Noisy(lambda s: None, 1.0)(rows(3))
    with pytest.raises(BadValue, match="verifier must not return NaN, got it for completion 1"):
        Noisy(lambda s: [0.0, math.nan], 1.0)(rows(2))

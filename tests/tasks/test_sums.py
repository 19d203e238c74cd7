"""Sums: the exact process against enumeration, the annotator against it, the verifiers."""

import math

from lablib.course.tasks import sums
from lablib.course.tasks.problem import Problem

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import tasks as oracle

DIGITS = st.tuples(*[st.integers(0, 9)] * 6)
QUICK = settings(max_examples=100, derandomize=True)
EXAMPLE = Problem("sum 7 3 9 0 4 8:", "", "sums", (7, 3, 9, 0, 4, 8))
RIGHT = "3+9=2;2+7=9;9+0=9;9+8=7;7+4=1;#1"


def problem_of(digits):
    digits = tuple(digits)
    return Problem("sum" + "".join(f" {d}" for d in digits) + ":", "", "sums", digits)


@given(DIGITS)
@settings(max_examples=12, derandomize=True)
def test_answer_distribution_equals_the_enumeration_of_all_orders(digits):
    exact = sums.answer_distribution(problem_of(digits))
    assert exact.shape == (10,)
    assert np.abs(exact - oracle.answer_distribution(digits)).max() < 1e-12


@pytest.mark.thorough  # a test of tests
def test_the_enumeration_notices_planted_bugs(monkeypatch):
    digits = (0, 1, 4, 2, 9, 7)
    expected = oracle.answer_distribution(digits)
    for name, value in [("NOISE", 0.601), ("WRONG", np.roll(sums.WRONG, 1, axis=0))]:
        with monkeypatch.context() as patch:
            patch.setattr(sums, name, value)
            planted = sums.answer_distribution(problem_of(digits))
        assert np.abs(planted - expected).max() > 1e-6


def largest_gap(problem, rng, n, simulate=sums.simulate):
    answers = [int(sums.extract(text)) for text in simulate(problem, rng, n)]
    return np.abs(np.bincount(answers, minlength=10) / n - sums.answer_distribution(problem)).max()


def test_the_annotator_follows_the_exact_process():
    # Hoeffding with a union bound over ten answers: false alarms <= 1e-6.
    n = 100_000
    bound = math.sqrt(math.log(2 * 10 / 1e-6) / (2 * n))
    assert largest_gap(EXAMPLE, np.random.default_rng(0), n) < bound

    def half_the_noise(problem, rng, n):
        return sums._annotate(np.tile(np.array(problem.data), (n, 1)), rng, noise=0.3)

    assert largest_gap(EXAMPLE, np.random.default_rng(0), n, half_the_noise) > bound


def test_documents_carry_the_noise_and_problems_do_not():
    noisy = 0
    for text in sums.documents(0, 500):
        prompt, chain = text.split(":")
        problem = problem_of(map(int, prompt.split()[1:]))
        noisy += not sums.verify(problem, chain)
    # A chain meets five pairs of which one in five is noisy: about 47 % slip somewhere.
    assert 150 < noisy < 325
    assert all(sums.verify(p, p.answer) for p in sums.problems(0, 500))


def test_the_process_shows_every_voting_effect():
    """What the voting lessons need, from the exact process on 200 unseen problems."""
    rng = np.random.default_rng(5)
    single, majority, anyone, greedy, surely_wrong = [], [], [], [], 0
    for problem in sums.problems(7, 200):
        chances, true = sums.answer_distribution(problem), sum(problem.data) % 10
        single.append(chances[true])
        anyone.append(1 - (1 - chances[true]) ** 32)
        votes = rng.multinomial(32, chances, size=200)
        winners = votes == votes.max(axis=1, keepdims=True)
        majority.append((winners[:, true] / winners.sum(axis=1)).mean())
        surely_wrong += chances.argmax() != true
        # The most likely slip at every pair, whatever the order: what greedy decoding follows.
        hits = 0
        for _ in range(20):
            total, *rest = rng.permutation(problem.data)
            for operand in rest:
                total = sums.WRONG[total, operand]
            hits += total == true
        greedy.append(hits / 20)
    assert 0.45 < np.mean(single) < 0.6
    assert np.mean(majority) > np.mean(single) + 0.2
    assert np.mean(majority) < 0.88  # leaves room for a verifier
    assert np.mean(anyone) > 0.99
    assert 0.26 < np.mean(greedy) < 0.5
    assert surely_wrong >= 8


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (RIGHT, None),
        ("3+9=3;" + RIGHT[6:-1] + "1", None),  # a wrong step, but the right answer
        ("3+9=3;3+7=0;0+0=0;0+8=8;8+4=2;#2", "step 1: 3+9 is 2 modulo 10, not 3"),
        ("3+9=2;2+7=9;9+7=6;6+8=4;4+4=8;#8", "step 3 adds 7, which is used up"),
        ("3+9=2;2+7=9;9+5=4;4+8=2;2+4=6;#6", "step 3 adds 5, which is not among the digits"),
        ("5+9=4;4+7=1;1+0=1;1+8=9;9+4=3;#3", "step 1 starts from 5, which is not among the digits"),
        ("3+9=2;3+7=0;0+0=0;0+8=8;8+4=2;#2", "step 2 starts from 3 where the total is 2"),
        ("3+9=2;2+7=9;9+0=9;9+8=7;#7", "there are 4 steps where 5 are needed"),
        (RIGHT[:-1] + "5", "the answer is 5, but the steps lead to 1"),
        (RIGHT.replace("#", ""), "there is no '#' with an answer"),
        (RIGHT[:-1], "the text must end with '#' and one digit"),
        (RIGHT + ";", "the text must end with '#' and one digit"),
        ("3+9=2;2+7;#5", "step 2, '2+7;', is not of the form t+x=n;"),
        ("", "there is no '#' with an answer"),
    ],
)
def test_explain_names_the_mistake(text, reason):
    assert sums.explain(EXAMPLE, text) == reason
    assert sums.check(EXAMPLE, text) == (reason is None)


def test_verify_steps_judges_every_step():
    assert sums.verify_steps(EXAMPLE, RIGHT) == [True] * 5
    assert sums.verify(EXAMPLE, RIGHT)
    lucky = "3+9=3;" + RIGHT[6:]  # the second step does not start from the written 3
    assert sums.verify_steps(EXAMPLE, lucky) == [False, False, True, True, True]
    assert sums.check(EXAMPLE, lucky)
    assert not sums.verify(EXAMPLE, lucky)
    assert not sums.verify(EXAMPLE, "#1")
    assert sums.verify_steps(EXAMPLE, "nonsense;#1") == [False]


@given(DIGITS, st.integers(0, 4), st.integers(1, 9))
@QUICK
def test_a_changed_result_is_found_in_its_step(digits, step, shift):
    problem = problem_of(digits)
    chain = sums._annotate(np.array([digits]), np.random.default_rng(1), noise=0.0)[0]
    at = 6 * step + 4
    broken = chain[:at] + str((int(chain[at]) + shift) % 10) + chain[at + 1 :]
    verdict = sums.verify_steps(problem, broken)
    assert not verdict[step]
    assert sum(verdict) == (4 if step == 4 else 3)  # the next one starts from another total
    assert not sums.verify(problem, broken)


@given(DIGITS, st.integers(0, 9))
@QUICK
def test_check_accepts_the_true_sum_only(digits, answer):
    assert sums.check(problem_of(digits), f"#{answer}") == (answer == sum(digits) % 10)


def test_training_never_sees_the_digits_of_a_problem():
    trained = {tuple(sorted(text[4:15])) for text in sums.documents(3, 20_000)}
    tested = {tuple(sorted(p.prompt[4:15])) for p in sums.problems(3, 2_000)}
    assert len(trained) > 3_500
    assert len(tested) > 300
    assert not trained & tested


def test_token_classes_of_a_chain():
    classes = "".join(
        {"boilerplate": ".", "operand": "x", "running-total": "t", "result": "n"}.get(name, "?")
        for start, _, name in sums.token_classes(EXAMPLE, RIGHT)
        if start >= len(EXAMPLE.prompt)
    )
    assert classes == "x.x.n.t.x.n.t.x.n.t.x.n.t.x.n..t"

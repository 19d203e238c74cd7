"""The hunts of lesson 15: the code as found fails as the lesson says; the widgets compute it."""

from lablib.course.checks.checking import check
from lablib.course.checks.exercises import exercises
from lablib.course.lessons.lesson_15 import widgets as lab
from lablib.course.lessons.lesson_15.exercises import JUDGE
from lablib.course.lessons.lesson_15.exercises_judge import judge
from lablib.course.lessons.lesson_15.exercises_memory import attend, take_back
from lablib.inference.speculation import rules

import mlx.core as mx
import numpy as np
import pytest
from matplotlib.figure import Figure
from mlx_lm.models.cache import RotatingKVCache

AS_FOUND = {
    "15.1": "zeroed",
    "15.2": "all_written",
    "15.3": "counters_only",
    "15.4": "first_rows_seed",
    "15.5": "target_draws",
}


def untouched(starter: str) -> str:
    return "\n".join(line for line in starter.splitlines() if "NotImplementedError" not in line)


@pytest.mark.parametrize("exercise", exercises("15"), ids=lambda exercise: exercise.id)
def test_the_code_as_found_is_recognised_once_its_first_line_is_gone(exercise) -> None:
    space = {"np": np}
    exec(untouched(exercise.starter), space)
    outcome = check(exercise, space[exercise.name])
    assert (outcome.mark, outcome.misconception) == ("✗", AS_FOUND[exercise.id])


def test_attention_is_mlx_s_own_with_a_mask() -> None:
    rng = np.random.default_rng(5)
    queries, keys, values = (rng.normal(size=size) for size in ((3, 8), (3, 5, 8), (3, 5, 8)))
    lengths = [5, 1, 3]
    mask = mx.array(np.arange(5) < np.array(lengths)[:, None])[:, None, None]
    arrays = [mx.array(each[:, None], mx.float32) for each in (queries[:, None], keys, values)]
    expected = mx.fast.scaled_dot_product_attention(*arrays, scale=8**-0.5, mask=mask)
    found = attend(queries, keys, values, lengths)
    assert found == pytest.approx(np.array(expected)[:, 0, 0], abs=1e-5)


@pytest.mark.parametrize(("read", "back"), [(3, 1), (4, 2), (6, 2), (9, 0), (9, 3), (9, 4)])
def test_a_ring_is_mlx_lm_s_own(read: int, back: int) -> None:
    layer = RotatingKVCache(max_size=4)
    for position in range(read):
        mark = mx.full((1, 1, 1, 1), float(position))
        layer.update_and_fetch(mark, mark)
    ring = np.array(layer.keys).ravel()[:4].astype(int).tolist()
    ring += [0] * (4 - len(ring))
    held, again = take_back(ring, read, back)
    stays = list(range(read - back))[-4:]
    assert stays[again:] == held
    assert again == len(stays) - len([at for at in stays if at >= read - 4])


def test_the_judge_is_the_library_s_rejection_rule() -> None:
    p, q = np.random.default_rng(2).dirichlet(np.ones(6), 2)
    table = judge(p, q)
    pq = [mx.array(np.tile(each, (6, n, 1)), mx.float32) for each, n in ((p, 2), (q, 1))]
    outcome = rules.rejection(*pq, mx.arange(6)[:, None])
    kept, instead = np.array(outcome.kept)[:, 1], np.array(outcome.following)[:, 0]
    assert np.diag(table) == pytest.approx(kept, abs=1e-5)
    assert table == pytest.approx(np.diag(kept) + (1 - kept)[:, None] * instead, abs=1e-5)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda p, q: np.ones((len(p), len(p))), "chances sum to 1"),
        (lambda p, q: np.full((len(p), len(p)), np.nan), "chances sum to 1"),
        (lambda p, q: p, "shape"),
        (lambda p, q: {"keep": p}, "could not be used"),
    ],
)
def test_what_is_no_table_is_said_to_be_none(wrong, text: str) -> None:
    outcome = check(JUDGE, wrong)
    assert outcome.mark == "✗"
    assert text in outcome.message


def test_phantoms_take_what_the_closed_form_says() -> None:
    widget = lab.Phantoms(most=6)
    for stay, zeroed, mean, spread in ((1, 6, -6.0, 0.0), (4, 2, 0.0, 1.0), (6, 3, 2.0, 4.0)):
        data = widget.compute(stay, zeroed, mean, spread)
        assert data["right"].sum() == pytest.approx(1)
        assert data["found"].sum() == pytest.approx(1)
        lost = data["found"][stay:].sum()
        assert lost == pytest.approx(data["stolen"])
        assert data["found"][:stay] == pytest.approx(data["right"] * (1 - lost))
        assert isinstance(widget.draw(data), Figure)
    assert lab.stolen([0.0], 1) == pytest.approx(0.5)
    assert lab.stolen([800.0, -800.0], 3) == 0
    assert lab.stolen([-800.0], 1) == 1
    assert "take 75.0% of the weight" in widget.set(stay=1, zeroed=3, mean=0.0)
    assert "take 0.0% of the weight" in widget.set(zeroed=0)


def test_shares_of_two_distributions() -> None:
    p, q = np.log([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]), np.log([[0.4, 0.4, 0.2], [0.8, 0.1, 0.1]])
    agree, most = lab.shares(p, q, 1.0)
    assert agree == pytest.approx((0.28 + 0.08 + 0.02 + 0.08 + 0.01 + 0.08) / 2)
    assert most == pytest.approx((0.4 + 0.2 + 0.1 + 0.1 + 0.1 + 0.1) / 2)
    assert lab.shares(p, q, 0.0) == (0.5, 0.5)
    assert lab.shares(p, q, 0.01) == pytest.approx((0.5, 0.5), abs=0.3)


def test_a_drafter_unsure_of_everything_is_kept_at_0_and_nowhere_else() -> None:
    flat = np.random.default_rng(0).normal(size=(20, 400)) * 0.01
    sure = flat + 50 * np.eye(400)[:20]
    widget = lab.Judged({"vague": (flat, flat), "sure": (sure, sure)})
    assert "keep 100% of the drafts; 100% can be" in widget.set(temperature=0.0)
    assert "keep 0% of the drafts; 100% can be" in widget.set(temperature=0.3)
    assert "keep 100% of the drafts; 100% can be" in widget.set(drafter="sure")
    data = widget.compute("vague", 1.0)
    assert data["curves"].shape == (16, 2)
    assert isinstance(widget.draw(data), Figure)


def test_bad_input_is_refused_in_a_line() -> None:
    with pytest.raises(ValueError, match="pairs must hold"):
        lab.Judged({})
    with pytest.raises(ValueError, match="most must be"):
        lab.Phantoms(most=1)
    with pytest.raises(ValueError, match="zeroed must be"):
        lab.stolen([0.0], -1)

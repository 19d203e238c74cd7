"""The hunts of lesson 15: the code as found fails as its report says; the widget computes."""

from lablib.course.checks.checking import check
from lablib.course.checks.exercises import exercises
from lablib.course.lessons.lesson_15 import exercises_batch as batch
from lablib.course.lessons.lesson_15 import exercises_drafts as drafts
from lablib.course.lessons.lesson_15 import exercises_seeds as seeds
from lablib.course.lessons.lesson_15 import widgets as lab

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import read


def untouched(starter: str) -> str:
    return "\n".join(line for line in starter.splitlines() if "NotImplementedError" not in line)


@pytest.mark.parametrize("exercise", exercises("15"), ids=lambda exercise: exercise.id)
def test_the_code_as_found_is_recognised_once_its_first_line_is_gone(exercise) -> None:
    space = {"np": np}
    exec(untouched(exercise.starter), space)
    outcome = check(exercise, space[exercise.name])
    assert (outcome.mark, outcome.misconception) == ("✗", f"{exercise.name}_as_found")


@pytest.mark.parametrize("exercise", exercises("15"), ids=lambda exercise: exercise.id)
def test_a_report_names_no_cause(exercise) -> None:
    """Neither the title nor the report, nor what is said of the code as it was found."""
    known = exercise.misconceptions[f"{exercise.name}_as_found"]
    said = f"{exercise.title} {exercise.task} {known}"
    for word in ("zero", "mask", "softmax", "rotat", "heads", "state", "roll", "greedy", "argmax"):
        assert word not in said.lower()


def test_attention_is_mlx_s_own_with_a_mask() -> None:
    """The texts of two rounds, as one batch with gaps."""
    rounds, kept = [[[3, 1], [2, 4]], [[5, 6], [7, 8]]], [[2, 1], [1, 2]]
    of_query, of_key, of_value = np.random.default_rng(0).normal(size=(3, 10, 2))
    tokens = np.array([[3, 1, 5, 0], [2, 0, 7, 8]])
    there = np.array([[1, 1, 1, 0], [1, 0, 1, 1]], dtype=bool)
    arrays = [of_query[[[5], [8]]], of_key[tokens], of_value[tokens]]
    expected = mx.fast.scaled_dot_product_attention(
        *[mx.array(each[:, None], mx.float32) for each in arrays],
        scale=2**-0.5,
        mask=mx.array(there)[:, None, None],
    )
    reads, lengths = batch.read(rounds, kept, 1)
    assert reads == pytest.approx(np.array(expected)[:, 0, 0], abs=1e-5)
    assert lengths.tolist() == [3, 3]


def test_the_rotation_is_mlx_s_own() -> None:
    """What a text writes is what ``mx.fast.rope`` would have it write."""
    rng = np.random.default_rng(14)
    of_query, of_key, of_value = 2 * rng.normal(size=(3, 2, 12, 8))
    to_scores = rng.normal(size=(16, 12))
    text = [3, 1, 4]
    for token in batch.write([text], 6)[0]:
        query, key = (
            mx.fast.rope(
                mx.array(table[:, text])[None], 8, traditional=True, base=None, scale=1.0,
                offset=0, freqs=mx.array(10.0 ** np.arange(4)),
            )
            for table in (of_query, of_key)
        )  # fmt: skip
        value = mx.array(of_value[:, text])[None]
        read = mx.fast.scaled_dot_product_attention(query, key, value, scale=8**-0.5, mask="causal")
        scores = np.array(read)[0, :, -1].reshape(-1) @ to_scores
        assert token == scores.argmax()
        text.append(int(token))


def test_a_report_holds_of_the_code_as_found() -> None:
    many = np.random.default_rng(0).integers(0, 12, (6, 3)).tolist()
    right, found = batch.write(many, 8), batch.WRITE_FOUND(many, 8)
    assert (right[0] == found[0]).all()
    assert (right[:, 0] == found[:, 0]).all()
    assert (right[1:] != found[1:]).any(axis=1).all()
    twice = batch.WRITE_FOUND([[3, 1], [3, 1]], 5).tolist()
    assert twice[0] != twice[1]
    for ahead in (1, 2, 3):
        texts = [drafts.OBEY_FOUND(prompt, 40, ahead)[0] for prompt in ("a", "b(")]
        assert texts != [drafts.obey(prompt, 40, 0)[0] for prompt in ("a", "b(")]
    assert drafts.OBEY_FOUND("a", 40, 0) == drafts.obey("a", 40, 0)
    spoken = (np.array(each(1000, 3, 2, 1, 1)[0]) for each in (drafts.speak, drafts.SPEAK_FOUND))
    shares = [np.bincount(each[:, 0], minlength=3) / 1000 for each in spoken]
    assert shares[1].max() > shares[0].max() + 0.2
    assert seeds.SERVE_FOUND([(7, 1), (8, 4)], 1)[1] == seeds.serve([(8, 4)], 1)[0]
    assert seeds.SERVE_FOUND([(7, 4), (8, 4)], 2)[1] != seeds.serve([(8, 4)], 1)[0]


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
    sums = widget.sums("vague", start=0.3)
    for column, (temperatures, heights) in enumerate(sums.values()):
        assert temperatures == pytest.approx(np.arange(3, 16) / 10)
        wanted = [lab.shares(flat, flat, temperature)[column] for temperature in temperatures]
        assert heights == pytest.approx(wanted)
    assert read(widget.draw(data))


def test_bad_input_is_refused_in_a_line() -> None:
    with pytest.raises(ValueError, match="pairs must hold"):
        lab.Judged({})

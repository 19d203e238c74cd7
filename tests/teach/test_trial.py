"""The trial is no formality: it names what is wrong."""

from lablib.course.checks.exercises import exercises

import pytest
import submitted
import trial

pytestmark = pytest.mark.thorough

CASE = submitted.Case("ada", "", {"00.1": "✓", "00.2": "✗!"}, {"00.2": "named"})


def row(exercise, outcome, misconception="", student="ada"):
    found = {"student": student, "exercise": exercise, "outcome": outcome, "message": "said"}
    return found | {"misconception": misconception}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row("00.1", "✓"), row("00.2", "✗", "named")], []),
        (
            [row("00.1", "✗", "x"), row("00.2", "✗", "named")],
            ["ada: 00.1 ✗ x said; due is ✓ x"],
        ),
        ([row("00.1", "✓"), row("00.2", "✓")], ["ada: 00.2 ✓  said; due is ✗! named"]),
        ([row("00.1", "✓"), row("00.2", "✗")], ["ada: 00.2 ✗  said; due is ✗! named"]),
        ([row("00.1", "✓")], ["ada: 00.2 has no row"]),
        (
            [row("00.1", "✓"), row("00.2", "!", "named"), row("00.1", "✓", student="bob")],
            ["bob: 00.1 was not asked"],
        ),
    ],
)
def test_each_wrong_mark_is_named(rows, said):
    assert trial.wrong_marks([CASE], rows) == said


def test_no_answer_needs_what_no_student_has():
    """Those that are made by ``changed`` stand there as a student would have written them."""
    for exercise in exercises("15"):
        for answer in (*exercise.alternatives, *exercise.wrong):
            text = submitted.answer_of("15", answer.__name__, exercise.name)
            assert "changed(" not in text, (exercise.id, answer.__name__)


def test_each_file_that_differs_is_named(tmp_path):
    for run, text in {"1": "same", "2": "same", "3": "other"}.items():
        (tmp_path / run / "told").mkdir(parents=True)
        (tmp_path / run / "told" / "ada.md").write_text(text)
        (tmp_path / run / "r.csv.journal").write_text(run)
    (tmp_path / "3" / "r.csv").write_text("")
    one, two, three = (trial.reports(tmp_path / run) for run in "123")
    assert trial.differing(one, two) == []
    assert trial.differing(one, three) == ["r.csv", "told/ada.md"]


@pytest.mark.slow
def test_a_small_trial_is_held_and_fails_where_it_should(capsys, monkeypatch):
    assert trial.main(["--only", "00$|killer_closes"]) == 0
    printed = capsys.readouterr().out
    assert "[1, 3, 5]" in printed
    assert "the same to the byte" in printed
    cases = [case for case in submitted.honest("00") if case.name == "wrong00"]
    cases[0].due["00.2"] = "✓"
    monkeypatch.setattr(submitted, "submissions", lambda: cases)
    monkeypatch.setattr(trial, "MOST", dict.fromkeys(trial.MOST, 0.01))
    assert trial.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if line.startswith("wrong00: ")]
    assert told[0].startswith("wrong00: 00.2 ✗")
    for line, what in zip(told[1:], trial.MOST, strict=True):
        assert line.endswith(f" s of processor time for {what}")

"""Predictions are kept, shown beside what came, asked again, and count for nothing."""

import datetime
import json
from pathlib import Path

from lablib.course.checks import marks, predictions
from lablib.course.checks.predictions import Question, outcome, predict, questions, recall
from lablib.teach.page import page
from lablib.teach.predicted import Predicted, predicted
from lablib.teach.predicted import predictions as predictions_of
from lablib.teach.reports import GradeReport

import pytest

KNOWN = [
    Question("97.q1", "Which one?", ("this", "that")),
    Question("97.q2", "How many?"),
    Question("97.m1", "Is it so?", ("yes", "no"), truth="b"),
]


@pytest.fixture(autouse=True)
def course(monkeypatch, tmp_path):
    monkeypatch.setattr(predictions, "questions", lambda: {each.id: each for each in KNOWN})
    monkeypatch.setattr("lablib.teach.predicted.questions", predictions.questions)
    monkeypatch.setattr(predictions, "_kept", {})
    monkeypatch.chdir(tmp_path)


def said(capsys) -> str:
    return capsys.readouterr().out


def later(monkeypatch, days: int) -> None:
    class Later(datetime.date):
        @classmethod
        def today(cls):
            return cls.fromordinal(datetime.date(2026, 1, 1).toordinal() + days)

    monkeypatch.setattr(predictions.datetime, "date", Later)


def test_without_an_answer_the_question_is_shown_and_nothing_is_kept(capsys):
    predict("97.q1", ...)
    assert said(capsys) == (
        "Which one?\n  a  this\n  b  that\n"
        'Answer in the cell: predict("97.q1", "a"); or go on without.\n'
    )
    outcome("97.q1", "b")
    assert said(capsys) == "It came out: b (that)\n"
    recall()
    assert said(capsys) == ""
    assert not list(Path().iterdir())


def test_a_prediction_stands_beside_what_came_in_another_kernel_too(capsys, monkeypatch):
    Path(marks.FILE).write_text("{}")
    predict("97.q1", "a")
    predict("97.q2", 10)
    monkeypatch.setattr(predictions, "_kept", {})
    outcome("97.q1", "b")
    outcome("97.q2", 11.25)
    assert said(capsys).splitlines()[2:] == [
        "You said a (this); it came out: b (that)",
        "You said 10; it came out: 11.25",
    ]
    assert Path(marks.FILE).read_text() == "{}"


def test_what_came_is_asked_again_each_time_later(capsys, monkeypatch):
    later(monkeypatch, 0)
    predict("97.q1", "a")
    outcome("97.q1", "b")
    later(monkeypatch, 6)
    said(capsys)
    recall()
    assert said(capsys).startswith("Is it so?"), "the misconception of a lesson that was begun"
    recall("97.m1", "b")
    assert said(capsys) == "Yes: it is b (no). It comes again in 14 days.\n"
    recall()
    assert said(capsys) == ""
    later(monkeypatch, 7)
    recall()
    assert said(capsys).startswith("Which one?")
    recall("97.q1", "b")
    assert "again in 14 days" in said(capsys)
    later(monkeypatch, 21)
    recall("97.q1", "a")
    assert said(capsys) == "You said a (this): it is b (that). It comes again in 7 days.\n"


def test_a_number_is_right_when_it_is_close():
    asked = KNOWN[1]
    assert asked.right(90, 100)
    assert not asked.right(79, 100)
    assert asked.right(0, 0)


def test_a_number_that_no_float_holds_is_no_answer(capsys):
    predict("97.q2", 10**400)
    assert "is no answer" in said(capsys)


@pytest.mark.parametrize("answer", ["c", "", 1, None, "ab", ["a"]])
def test_what_is_no_answer_is_not_kept(capsys, answer):
    predict("97.q1", answer)
    assert "is no answer" in said(capsys)
    assert predictions._kept == {}


HUGE = '{"97.q2": {"said": 1' + "0" * 400 + "}}"
ODD = ["[]", "{", '{"97.q1": 3}', '{"97.q1": {"said": "z"}}', "null", "[" * 100_000, HUGE]


@pytest.mark.parametrize("text", ODD)
def test_a_file_of_something_else_is_as_none_and_stays(capsys, text):
    Path(predictions.FILE).write_text(text)
    Path(marks.FILE).write_text("{}")
    outcome("97.q1", "b")
    assert said(capsys) == "It came out: b (that)\n"
    predict("97.q1", "a")
    outcome("97.q1", "b")
    assert "predictions.json holds something else" in said(capsys)
    assert Path(predictions.FILE).read_text() == text


def test_marks_that_are_boxes_in_boxes_are_no_marks():
    Path(marks.FILE).write_text("[" * 100_000)
    with pytest.raises(ValueError, match="must be a new file or a progress file"):
        marks.read(Path(marks.FILE))


def test_a_question_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match=r"there are: 97\.q1, 97\.q2"):
        predict("97.q9", "a")


def test_the_class_is_counted_and_nothing_runs():
    def notebook(name, *lines):
        return name, predictions_of([*enumerate(lines)])

    files = [
        notebook("ada", 'predict("97.q1", "b")', 'predict("97.q2", 3)', "1/0"),
        notebook("bob", 'predict("97.q1", "a")', 'predict("97.q1", "b")'),
        notebook(
            "eve", 'predict("97.q1", ...)', 'predict("97.q2", 10**9)', 'predict("97.q1", "z")'
        ),
        notebook("mal", "predict(", 'predict("97.q2", __import__("os").getpid())'),
        notebook("joe", 'predict("97.q2", 3.00001)'),  # which is told as 3 is
        notebook("kim", 'predict("97.q2", 3.00002)'),
        notebook("leo", 'predict("97.q2", 4)'),
    ]
    found = predicted(files)
    assert [(each.question, each.answers) for each in found] == [
        ("97.q1", {"b (that)": 2}),
        ("97.q2", {"3": 3, "4": 1}),
    ]


def test_the_report_tells_what_the_class_predicted():
    report = GradeReport([], predicted=[Predicted("97.q1", "Which <one>?", {"b (that)": 2})])
    assert "97.q1 Which &lt;one&gt;?" in page(report)
    assert "2 × b (that)" in page(report)
    assert json.loads(report.json())["predicted"][0]["answers"] == {"b (that)": 2}


def test_the_courses_questions_can_be_answered():
    for id_, each in questions().items():
        assert id_ == each.id
        assert each.truth == "" or each.accepts(each.truth)
        assert len({*each.choices}) == len(each.choices) != 1
        assert (id_.partition(".")[2][0] == "m") == bool(each.truth)

"""What a student is told by check, hint, solution and progress."""

import dataclasses
import functools
import json
import random
import signal
import threading
import time

from lablib.course.checks import checking, comparing, exercises
from lablib.course.checks.checking import check, hint, progress, solution, solved
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.running import Watched

import numpy as np
import pytest
from oracles.fake_exercise import SOFTMAX, by_logarithms, overflow, softmax

STARTER: dict = {}
exec(SOFTMAX.starter, STARTER)


def forgot_return(scores, temperature):
    softmax(scores, temperature)


def forgot_a_branch(scores, temperature):
    if len(scores) < 5:
        return softmax(scores, temperature)


def none_of_a_table(scores, temperature):
    return {}.get(temperature)


def one_argument(scores):
    return scores


def boom(scores, temperature):
    return scores[99]  # too far


def half_done(scores, temperature):
    if temperature == 1.0:
        raise NotImplementedError
    return softmax(scores, temperature)


def endless(scores, temperature):
    while True:
        try:
            temperature += 1
        except:  # noqa: E722 - what a beginner may write
            temperature = 1


def of_the_call_before(scores, temperature, kept=[1.0]):  # noqa: B006
    temperature, kept[0] = kept[0], temperature
    return softmax(scores, temperature)


def one_list_for_all(scores, temperature, kept=[]):  # noqa: B006
    kept[:] = softmax(scores, temperature)
    return kept


def noisy(scores, temperature):
    return [random.random() for _ in scores]


def sorts_in_place(scores, temperature):
    answer = softmax(scores, temperature)
    scores.sort()
    return answer


def chatty(scores, temperature):
    print("debug")
    return softmax(scores, temperature)


def empty(scores, temperature):
    """Return what softmax returns."""
    ...


def passes(scores, temperature):
    pass


def none_of_a_case(scores, temperature):
    return softmax(scores, temperature) if temperature > 1 else None


def gives_a_generator(scores, temperature):
    yield from softmax(scores, temperature)


def calls_something_unfinished(scores, temperature):
    return LIBRARY["unfinished"](scores)


LIBRARY: dict = {}
exec(compile("def unfinished(x):\n    raise NotImplementedError", "<library>", "exec"), LIBRARY)


@pytest.mark.parametrize(
    ("function", "mark", "said"),
    [
        (STARTER["softmax"], "○", "Write softmax above"),
        (empty, "○", "Write softmax above"),
        (passes, "○", "Write softmax above"),
        (softmax, "✓", "Next: Try temperature 0.01."),
        (by_logarithms, "✓", ""),
        (lambda s, t: np.array(softmax(s, t)), "✓", ""),
        (gives_a_generator, "✓", ""),
        (chatty, "✓", "what it prints is hidden"),
        (sorts_in_place, "✓", "it changes its argument scores"),
        (overflow, "✗", "OverflowError: math range error\n  line"),
        (overflow, "✗", "What it looks like: large scores overflow"),
        (forgot_return, "✗", "returned None: did you forget `return`?"),
        (forgot_a_branch, "✗", "got      None\n  it returned None\n"),
        (none_of_a_case, "✗", "got      None\n  it returned None\n"),
        (none_of_a_table, "✗", "expected [0.1192, 0.8808]\n  got      None\n  it returned None\n"),
        (lambda s, t: None, "✗", "did you forget `return`?"),
        (one_argument, "✗", "called as softmax(scores, temperature), but yours is one_argument("),
        (boom, "✗", "IndexError: list index out of range\n  line"),
        (boom, "✗", "return scores[99]  # too far"),
        (half_done, "✗", "softmax([1000, 0], 1)\n  it still raises NotImplementedError"),
        (calls_something_unfinished, "✗", "it raised NotImplementedError"),
        (noisy, "✗", "different answer when called again"),
        (of_the_call_before, "✗", "different answer when called again"),
        (one_list_for_all, "✗", "a later call changes what it returned before"),
        (lambda s, t: "0.1", "✗", "returned a str, expected 2 numbers"),
        (lambda s, t: object(), "✗", "returned an object, expected 2 numbers"),  # new each time
        (lambda s, t: softmax(s, t)[:1], "✗", "1 in a row, expected 2"),
        (lambda s, t: sum(softmax(s, t)), "✗", "returned a number, expected 2 numbers"),
        (lambda s, t: softmax(s, 2 * t), "✗", "expected [0.1192, 0.8808]\n  got      [0.2689"),
        ([0.5, 0.5], "✗", 'without (): check("97.1", softmax)'),
    ],
)
def test_check_says(function, mark, said):
    outcome = check(SOFTMAX, function)
    assert outcome.mark == mark
    assert said in repr(outcome)
    assert repr(outcome) == repr(check(SOFTMAX, function))


def test_an_endless_loop_ends_and_says_where():
    hurried = dataclasses.replace(SOFTMAX, seconds=0.2)
    before = signal.getsignal(signal.SIGALRM)
    start = time.monotonic()
    outcome = check(hurried, endless)
    assert time.monotonic() - start < 5
    assert "longer than 0.2 s" in outcome.message
    assert "stopped at line" in outcome.message
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_check_works_in_another_thread_without_a_limit():
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(check(SOFTMAX, softmax)))
    thread.start()
    thread.join()
    assert outcomes[0].correct


def test_an_interrupt_by_the_user_stops_the_check():
    def interrupted(scores, temperature):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(SOFTMAX, interrupted)


def test_the_smallest_failing_case_is_shown():
    def fails_on_many(scores, temperature):
        return softmax(scores, temperature) if len(scores) < 3 else scores

    assert check(SOFTMAX, fails_on_many).message.splitlines()[0].count(",") == 3


def test_long_answers_are_shown_by_their_first_difference():
    def last_off(scores, temperature):
        answer = softmax(scores, temperature)
        return answer if len(answer) < 12 else [*answer[:-1], 0.5]

    assert "first difference at [11]: expected 0.0" in check(SOFTMAX, last_off).message


def first_word(words):
    """Return the first word, and None if there is none."""
    return words[0] if words else None


def words_and_places(words):
    """Return the words and their places."""
    return list(words), list(range(len(words)))


def test_none_may_be_the_answer():
    cases = [(["a"],), ([],)]
    exercise = dataclasses.replace(
        SOFTMAX, reference=first_word, cases=lambda rng: cases, wrong={}, alternatives=[]
    )
    assert check(exercise, first_word).correct
    assert check(exercise, lambda words: next(iter(words), None)).correct
    outcome = check(exercise, lambda words: "".join(words))
    assert "expected None\ngot      ''\nreturned a str, expected None" in outcome.message


def test_equal_arrays_of_words_are_the_same_answer_when_called_again():
    cases = [(["a", "b"],), ([],)]
    exercise = dataclasses.replace(SOFTMAX, reference=words_and_places, cases=lambda rng: cases)
    assert check(exercise, lambda words: (np.array(words), np.arange(len(words)))).correct
    wrong = check(exercise, lambda words: (np.array(words[::-1]), np.arange(len(words))))
    assert "at [0][0]: expected 'a', got 'b'" in wrong.message


def mass_is_one(function):
    total = sum(function([0.0, 3.0], 1.0))
    if abs(total - 1) > 1e-6:
        raise Wrong(f"the mass is {total:.2f}", like="overflow")


BY_CHECKER = dataclasses.replace(SOFTMAX, cases=None, checker=mass_is_one)


def test_a_checker_may_name_the_misconception():
    outcome = check(BY_CHECKER, lambda scores, temperature: [1.0, 1.0])
    assert outcome.misconception == "overflow"
    assert outcome.message.splitlines()[:2] == [
        "the mass is 2.00",
        "What it looks like: large scores overflow: subtract the maximum first.",
    ]


def test_an_answer_that_breaks_the_checker_is_wrong_not_a_crash():
    outcome = check(BY_CHECKER, lambda scores, temperature: 3)
    assert outcome.mark == "✗"
    assert "its answer 3 could not be used: TypeError" in outcome.message


def test_a_generator_moves_on_in_a_checker_and_starts_anew_in_cases():
    def draw(rng):
        """Return a random number."""
        return rng.random()

    def checker(function):
        rng = np.random.default_rng(0)
        if function(rng) == function(rng):
            raise Wrong("it always draws the same")

    def cases(rng):
        yield (rng,)
        yield (rng,)

    exercise = dataclasses.replace(SOFTMAX, reference=draw, cases=cases, checker=checker)
    assert check(exercise, draw).correct
    assert not check(exercise, lambda rng: 1 - rng.random()).correct


def double(numbers):
    """Double each number in place."""
    for i, number in enumerate(numbers):
        numbers[i] = 2 * number


def double_a_copy(numbers):
    return [2 * number for number in numbers]


def test_a_function_may_work_in_place():
    def checker(function):
        numbers = np.ones(3)
        if function(numbers) is not None or numbers.sum() != 6:
            raise Wrong("it does not double")

    exercise = dataclasses.replace(
        SOFTMAX,
        reference=double,
        cases=lambda rng: [([1.0, 2.0],)],
        checker=checker,
        wrong={double_a_copy: "it doubles a copy."},
        in_place=True,
    )
    assert check(exercise, double).message == "Next: Try temperature 0.01."
    assert check(exercise, double_a_copy).misconception == "double_a_copy"
    assert "got      [None, [1, 2]]" in check(exercise, lambda numbers: None).message
    assert check(dataclasses.replace(exercise, cases=None), lambda numbers: None).mark == "✗"


def test_html_is_escaped_and_never_only_colour():
    outcome = check(SOFTMAX, lambda scores, temperature: "<b>")
    page = outcome._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>'" not in page
    assert "✗ 97.1 Softmax: wrong" in page


@pytest.fixture
def course(monkeypatch):
    """A course of one lesson with two exercises, and a kernel that has just started."""
    second = dataclasses.replace(SOFTMAX, id="97.2", title="Another")
    monkeypatch.setattr(exercises, "lessons", lambda: ["97"])
    monkeypatch.setattr(
        exercises.importlib, "import_module", lambda _: type("M", (), {"a": second, "b": SOFTMAX})
    )
    monkeypatch.setattr(checking, "_marks", {})


@pytest.mark.usefixtures("course")
def test_hints_are_folded_one_by_one_and_none_is_used_up():
    for _ in range(2):  # "Run All Cells" opens none
        shown = hint("97.1")._repr_html_().split("<details>")[1:]
        assert [each.partition(" (click)")[0] for each in shown] == [
            "<summary>Hint 1 of 2 for 97.1",
            "<summary>Hint 2 of 2 for 97.1",
        ]
    assert repr(hint("97.1")) == ('Hint 1 of 2 for 97.1: Divide first.\nOne more: hint("97.1", 2)')
    assert repr(hint("97.1", 2)) == "Hint 2 of 2 for 97.1: Subtract the maximum."
    assert hint("97.1", level=1).source == "Divide first."
    with pytest.raises(ValueError, match="level must be between 1 and 2, got 3"):
        hint("97.1", level=3)


@pytest.mark.usefixtures("course")
def test_the_solution_is_folded_and_runs():
    shown = solution("97.1")
    assert repr(shown) == 'One solution of 97.1: print(solution("97.1").source)'
    assert "<details>" in shown._repr_html_()
    space = {}
    exec("import math\n" + shown.source, space)
    assert check("97.1", space["softmax"]).correct


@pytest.mark.usefixtures("course")
def test_an_unknown_exercise_is_one_readable_line():
    with pytest.raises(ValueError, match=r"no exercise '97.9'; there are: 97.1, 97.2"):
        check("97.9", softmax)
    with pytest.raises(ValueError, match=r"no exercise 3; there are: 97.1, 97.2"):
        hint(3)


def test_a_cell_uses_a_function_once_it_is_right(capsys):
    def best_token(probabilities):
        return 0

    assert not solved("00.1", best_token)
    assert capsys.readouterr().out == "○ Once 00.1 is ✓, this cell uses your function.\n"
    assert solved("00.1", lambda p: p.index(max(p)))
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("course")
def test_progress_is_a_table_and_is_saved_only_when_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check("97.2", softmax)
    assert repr(progress("97")).splitlines() == [
        "○ 97.1  Softmax  ●○○   5 min",
        "✓ 97.2  Another  ●○○   5 min",
        "1 of 2 solved",
    ]
    assert "✓ correct" in progress()._repr_html_()
    assert not list(tmp_path.iterdir())
    (tmp_path / "marks.json").write_text('{"96.1": "✓", "97.2": "✗"}', encoding="utf-8")
    progress("97", save="marks.json")
    saved = json.loads((tmp_path / "marks.json").read_text(encoding="utf-8"))
    assert saved == {"96.1": "✓", "97.2": "✓"}
    for other in ("[1]", "{not json", '{"97.1": {}}', '{"name": "Ada"}'):
        (tmp_path / "other.json").write_text(other)
        with pytest.raises(ValueError, match="save must be a new file"):
            progress("97", save="other.json")
        assert (tmp_path / "other.json").read_text() == other


def test_a_starter_is_the_signature_and_docstring():
    assert SOFTMAX.starter.splitlines()[0] == "def softmax(scores, temperature):"
    assert SOFTMAX.starter.endswith('as a list."""\n    raise NotImplementedError')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "1.1"}, "id must look like '03.2'"),
        ({"stars": 4}, "stars must be 1, 2 or 3"),
        ({"cases": None}, "needs cases or a checker"),
        ({"starter": "", "reference": boom}, "reference must be a def with a docstring"),
    ],
)
def test_a_bad_exercise_is_refused(change, message):
    fields = {f.name: getattr(SOFTMAX, f.name) for f in dataclasses.fields(Exercise) if f.init}
    with pytest.raises(ValueError, match=message):
        Exercise(**{**fields, **change})


def counted(function):
    """Return the function under its own name and signature, and a list of its calls."""
    calls = []

    @functools.wraps(function)
    def counting(*args):
        calls.append(args)
        return function(*args)

    return counting, calls


def test_the_exercises_own_functions_are_asked_once(monkeypatch):
    monkeypatch.setattr(comparing, "_known", {})
    (reference, right), (wrong, known) = counted(softmax), counted(overflow)
    exercise = dataclasses.replace(SOFTMAX, reference=reference, wrong={wrong: "it overflows"})
    first = check(exercise, overflow)
    assert (len(right), len(known)) == (5, 5)
    assert repr(check(exercise, overflow)) == repr(first)
    assert first.misconception == "overflow"
    assert check(exercise, softmax).correct
    assert (len(right), len(known)) == (5, 5)
    errors = [answer for answers in comparing._known.values() for answer in answers]
    assert {error.__traceback__ for error in errors if isinstance(error, Wrong)} == {None}


def test_other_cases_and_another_seed_are_asked_anew(monkeypatch):
    monkeypatch.setattr(comparing, "_known", {})
    reference, calls = counted(softmax)
    exercise = dataclasses.replace(SOFTMAX, reference=reference, wrong={})
    assert check(exercise, softmax).correct
    assert check(dataclasses.replace(exercise, cases=lambda rng: [([1.0], 1.0)]), softmax).correct
    assert len(calls) == 6
    monkeypatch.setattr(comparing, "SEED", 1)
    assert check(exercise, softmax).correct
    assert len(calls) == 11


def test_what_has_no_equal_is_asked_anew_and_equals_nothing(monkeypatch):
    monkeypatch.setattr(comparing, "_known", {})
    reference, calls = counted(lambda scores, temperature: object())
    exercise = dataclasses.replace(SOFTMAX, reference=reference, starter="x", wrong={})
    outcomes = [check(exercise, lambda scores, temperature: object()) for _ in range(2)]
    assert [outcome.mark for outcome in outcomes] == ["✗", "✗"]
    assert len(calls) == 10
    assert comparing._known == {}


def test_what_is_remembered_stays_as_it_was_and_has_a_bound(monkeypatch):
    monkeypatch.setattr(comparing, "_known", {})
    for answers in (comparing._remembered(SOFTMAX, softmax) for _ in range(2)):
        assert answers == comparing._answers(SOFTMAX, Watched(softmax, SOFTMAX))
        answers[0][0] = 7.0
    monkeypatch.setattr(comparing, "MOST", 2)
    for function in (by_logarithms, overflow):
        comparing._remembered(SOFTMAX, function)
    assert [key[0] for key in comparing._known] == [by_logarithms, overflow]

"""Bug hunts by seed: each is refused by ``check``, is silent, and is drawn again."""

import ast
import random
from collections import Counter

from lablib import __main__ as command_line
from lablib.course.checks.checking import check
from lablib.course.checks.exercises import exercises, find
from lablib.teach import hunts
from lablib.teach.mutants import change_of, mutants

import pytest

QUICK = {"15.1", "15.2", "15.3"}  # the other two are asked thousands of times by one check


@pytest.fixture(scope="module")
def drawn():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hunts, "exercises", lambda lesson: [find(each) for each in sorted(QUICK)])
        yield {seed: [*hunts.draw(seed, 4)] for seed in (1, 2)}


def of(text: str, exercise: str):
    space = dict(find(exercise).reference.__globals__)
    exec(text, space)
    return space[find(exercise).name]


def test_each_hunt_is_refused_by_check_and_has_one_place_changed(drawn):
    for hunt in (each for found in drawn.values() for each in found):
        assert check(hunt.exercise, of(hunt.source, hunt.exercise)).mark == "✗"
        right = ast.unparse(ast.parse(find(hunt.exercise).solution))
        assert change_of(right, hunt.source) == hunt.change
        before, _, after = hunt.change.partition("  ->  ")
        assert " ; " not in before + after
        assert "raise" not in hunt.seen
        # what is not changed is the reference, to the letter, and its docstring is there
        assert abs(len(right.splitlines()) - len(hunt.source.splitlines())) <= 1
        assert find(hunt.exercise).reference.__doc__.splitlines()[0] in hunt.source


def test_each_exercise_comes_once_before_one_comes_again_and_none_is_given_twice(drawn):
    for found in drawn.values():
        assert {each.exercise for each in found[:3]} == QUICK
        assert max(Counter(each.exercise for each in found).values()) == 2
        assert len({each.source for each in found}) == 4


def test_a_seed_gives_the_same_hunts_again_and_another_gives_others(drawn, monkeypatch):
    monkeypatch.setattr(hunts, "exercises", lambda lesson: [find(each) for each in sorted(QUICK)])
    assert [*hunts.draw(1, 2)] == drawn[1][:2]
    assert {each.change for each in drawn[1]} != {each.change for each in drawn[2]}


def test_what_is_right_loud_or_told_by_its_look_is_no_hunt():
    read = find("15.1")
    source = ast.unparse(ast.parse(read.solution))
    assert hunts.silent(read, source) == ""  # right
    shape = source.replace("return (attend", "return (attend(of_query[newest])[0], attend")
    assert shape != source
    assert hunts.silent(read, shape) == ""  # no answer at all
    error = source.replace("stay[", "stay[99 + ").replace("max(stay)", "max(stay) / 0")
    assert hunts.silent(read, error) == ""  # an error
    bug = source.replace("max(stay)", "min(stay)")
    assert hunts.silent(read, bug).startswith("read([[[3, 1], [2, 4]]]")
    assert not hunts._fair("a = 1\nif x < 1:\n    pass", "a = 1\nif True:\n    pass")
    assert not hunts._fair("rng = np.random.default_rng(14)", "rng = np.random.default_rng(13)")
    assert hunts._fair("a = min(b)", "a = max(b)")
    assert hunts._tidied("def f():\n    pass\n    return x[1 + 1:]") == "def f():\n    return x[2:]"


def test_the_lessons_own_bug_is_not_drawn(monkeypatch):
    read = find("15.1")
    asked = []
    monkeypatch.setattr(hunts, "silent", lambda exercise, text: asked.append(text) or "")
    assert [*hunts._candidates(read, random.Random(0))] == []
    tree = ast.parse(read.solution)
    del tree.body[0].body[0]
    own = hunts._named(next(iter(read.wrong)), "read")
    assert own in {hunts._tidied(each) for each in mutants(ast.unparse(tree))}
    assert own not in asked
    assert len(asked) == len({*asked}) > 60


def test_sheet_and_key_hold_what_they_should(drawn):
    found = drawn[1][:3]
    sheet, key = hunts.sheet(found), hunts.key(found, "abc")
    assert all(each.source in sheet and each.seen in sheet for each in found)
    for each in found:
        right, _, wrong = each.change.partition("  ->  ")
        assert all(line in key for line in (right.strip(), wrong.strip()))
        assert (
            not right.strip()
            or right.strip() not in sheet.split(f"{each.title}")[1].split("Seen")[0]
        )
    assert "abc" in key
    assert "abc" not in sheet


@pytest.mark.parametrize("n", [0, 21, 1.5, "many"])
def test_a_wrong_number_is_refused(n):
    with pytest.raises((ValueError, TypeError), match="n must be"):
        hunts.hunts(1, n)


@pytest.mark.thorough
def test_the_command_writes_a_sheet_of_all_five_and_its_key(tmp_path, capsys):
    assert command_line.main(["hunts", "2026", "-n", "5", "--out", str(tmp_path / "a")]) == 0
    assert [*map(str, sorted((tmp_path / "a").iterdir()))] == sorted(
        capsys.readouterr().out.split()
    )
    sheet, key = ((tmp_path / f"a/{name}.md").read_text("utf-8") for name in ("hunts", "key"))
    titles = {each.id: each.title.removesuffix(" (further)") for each in exercises("15")}
    assert all(name in sheet and f"{id_} {name}" in key for id_, name in titles.items())
    again = hunts.hunts(2026, 5)
    assert hunts.sheet(again) == sheet
    for each in again:
        assert check(each.exercise, of(each.source, each.exercise)).mark == "✗"

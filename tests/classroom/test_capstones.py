"""The teacher's table of capstones: fair, deterministic, and a crash is a row."""

import csv
import os

from lablib.__main__ import main
from lablib.classroom import capstones
from lablib.lessons.lesson_16 import edits, stories, sums
from lablib.lessons.lesson_16.exercises import PROPOSE

import nbformat
import pytest

GOOD = PROPOSE.solution
FILES = {
    "ada.py": GOOD,
    "bob.py": "def propose(prompt, written, limit):\n    return []",
    "cyd.py": "def propose(prompt, written, limit):\n    return [1] * 99",
    "dan.py": "def propose(prompt, written, limit):\n    return 1 / 0",
    "eve.py": "import os\ndef propose(prompt, written, limit):\n    os._exit(3)",
    "fay.py": "def propose(prompt, written, limit):\n    while True: pass",
    "gus.py": "def propose(",
    "hal.py": "def propose(prompt, written, limit):\n    raise NotImplementedError",
    "ivy/a.py": "x = 1",
    "ivy/b.py": GOOD,
    "jim.py": "import sys\ndef propose(*_):\n    print('{}'); sys.stdout.flush(); return []",
    "kim.py": "def vote(votes, left, problems):\n    return '7' if left == 0 else 'more'",
    "leo.py": "import numpy as np\ndef odds(logits, texts):\n"
    "    return np.eye(logits.shape[1])[logits.argmax(axis=1)]",
}


@pytest.fixture(scope="module", autouse=True)
def small():
    """Play small worlds: what is tested is the table."""
    with pytest.MonkeyPatch.context() as patch:
        for game, size in ((stories, 1), (sums, 2), (edits, 2)):
            whole = game.world
            patch.setattr(game, "world", lambda seed, whole=whole, size=size: whole(seed, size))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("submissions")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    cell = nbformat.v4.new_code_cell
    notebook = nbformat.v4.new_notebook(
        cells=[
            cell("%matplotlib inline\nimport numpy as np\nSIZE = 16"),
            cell("open('left', 'w')\nwhile True: pass"),
            cell("def words(prompt):\n    return prompt[-21:-5]"),
            cell("def propose(prompt, written, limit):\n    n = len(written)\n"
                 "    return words(prompt)[n : n + limit]"),
            cell("score('edits', propose)"),
        ]
    )  # fmt: skip
    nbformat.write(notebook, folder / "mia.ipynb")
    return folder


@pytest.fixture(scope="module")
def table(folder):
    return capstones.score_folder(folder, "secret", seconds=8)


def by_student(table, capstone: str) -> dict[str, capstones.Result]:
    return {one.student: one for one in table.results if one.capstone == capstone}


def test_every_student_has_a_row_in_every_capstone(table) -> None:
    students = ["ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal", "ivy", "jim", "kim", "leo"]
    for capstone in ("stories", "sums", "edits"):
        assert [*by_student(table, capstone)] == [*students, "mia"]
    assert len(table.rows) == 3 * 13


def test_scores_are_those_of_the_game_and_a_fault_is_a_row(table) -> None:
    found = by_student(table, "edits")
    world = edits.world(capstones.number("hidden", "secret", "edits"))
    assert found["ada"].score == found["ivy"].score == edits.play(PROPOSE.reference, world)
    assert found["bob"].score.value == found["jim"].score.value == 1
    assert 1 < found["mia"].score.value < found["ada"].score.value
    notes = {name: one.note for name, one in found.items() if one.score is None}
    assert notes == {
        "cyd": "propose must return at most 8 ids, got 99",
        "dan": "it raised ZeroDivisionError: division by zero",
        "eve": "its process ended without an answer",
        "fay": "it ran longer than 8 s",
        "gus": "no function propose",
        "hal": "not attempted",
        "kim": "no function propose",
        "leo": "no function propose",
    }
    assert by_student(table, "sums")["kim"].score is not None
    assert by_student(table, "stories")["leo"].score.value <= 1 / stories.ROWS


def test_places_are_shared_and_faults_come_last(table) -> None:
    rows = [row for row in table.rows if row[0] == "edits"]
    assert [(row[1], row[2]) for row in rows[:5]] == [
        ("1", "ada"), ("1", "ivy"), ("3", "mia"), ("4", "bob"), ("4", "jim"),
    ]  # fmt: skip
    assert all(row[1] == "" for row in rows[5:])


def test_the_same_secret_gives_the_same_table_and_another_one_does_not(folder, table, tmp_path):
    few = tmp_path / "few"
    few.mkdir()
    for name in ("ada.py", "mia.ipynb"):
        (few / name).write_text((folder / name).read_text())
    again, other = (capstones.score_folder(few, secret, seconds=20) for secret in ("secret", "x"))
    whole = by_student(table, "edits")
    for one in by_student(again, "edits").values():
        assert one == whole[one.student]  # whoever else takes part
    asked = [edits.world(capstones.number("hidden", s, "edits")).prompts for s in ("secret", "x")]
    assert asked[0] != asked[1]
    assert other.results != again.results


def test_the_command_writes_a_csv_and_names_its_secret(folder, tmp_path, capsys) -> None:
    few = tmp_path / "few"
    few.mkdir()
    (few / "ada.py").write_text(GOOD)
    assert main(["score", str(few), "--csv", str(tmp_path / "t.csv")]) == 0
    shown = capsys.readouterr().out
    secret = shown.strip().splitlines()[-1].removeprefix("seeds: --seed ")
    assert main(["score", str(few), "--seed", secret]) == 0
    assert capsys.readouterr().out == shown
    with open(tmp_path / "t.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    assert tuple(rows[0]) == capstones.HEAD
    assert [row[2] for row in rows[1:]] == ["ada"] * 3
    assert main(["score", str(tmp_path / "nowhere")]) == 2
    assert "folder must be a folder" in capsys.readouterr().err
    assert main(["score", str(few), "--csv", str(tmp_path / "no" / "t.csv")]) == 2


def test_the_player_sees_neither_seeds_nor_answers(tmp_path, monkeypatch) -> None:
    """All that crosses: what a case is asked with. The function lists what else it could see."""
    monkeypatch.setenv("SECRET_FOR_THIS_TEST", "")
    spy = tmp_path / "spy.py"
    spy.write_text(
        "import os, sys\n"
        "def propose(*case):\n"
        "    seen = [len(case), *map(type, case)]\n"
        "    args = open('/proc/self/cmdline').read() if os.path.exists('/proc') else ''\n"
        "    assert seen == [3, list, list, int], seen\n"
        "    assert 'secret' not in args\n"
        "    assert os.listdir('.') == [], os.listdir('.')\n"
        "    return []\n"
    )
    table = capstones.score_folder(tmp_path, "secret", seconds=20)
    found = by_student(table, "edits")["spy"]
    assert found.note == ""
    assert found.score.value == 1
    assert os.listdir(tmp_path) == ["spy.py"]

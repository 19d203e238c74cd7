"""The teacher's table of capstones: fair, deterministic, and a crash is a row."""

import csv
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lablib.__main__ import main
from lablib.course.checks.running import Gone
from lablib.course.lessons.lesson_16 import board, drafts, stories, sums
from lablib.course.lessons.lesson_16.exercises import PROPOSE
from lablib.course.lessons.lesson_16.scores import Score
from lablib.teach import capstones, plays, walls
from lablib.teach.process import Function, Limits, Process
from lablib.teach.submission import offered

import nbformat
import pytest

pytestmark = pytest.mark.thorough

GOOD = PROPOSE.solution
FILES = {
    "ada.py": GOOD,
    "bob.py": "def propose(prompt, written, limit):\n    return []",
    "dan.py": "def propose(prompt, written, limit):\n    return 1 / 0",
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
        for game, size in ((stories, 1), (sums, 2), (drafts, 3)):
            whole = game.world
            patch.setattr(game, "world", lambda seed, whole=whole, size=size: whole(seed, size))
        yield


@contextmanager
def without(*others: str) -> Iterator[None]:
    """Play no other capstones than these leave."""
    with pytest.MonkeyPatch.context() as patch:
        for other in others:
            patch.delitem(board.CAPSTONES, other)
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
            cell("score('drafts', propose)"),
        ]
    )  # fmt: skip
    nbformat.write(notebook, folder / "mia.ipynb")
    return folder


@pytest.fixture(scope="module")
def table(folder):
    """All of them in one capstone, two in the others: each row costs two processes."""
    with without("stories", "sums"):
        return capstones.score_folder(folder, "secret", seconds=12)


@pytest.fixture(scope="module")
def few(folder, tmp_path_factory):
    few = tmp_path_factory.mktemp("few")
    for name in ("kim.py", "leo.py"):
        shutil.copy(folder / name, few)
    with without("drafts"):
        return capstones.score_folder(few, "secret", seconds=12)


def by_student(table, capstone: str) -> dict[str, capstones.Result]:
    return {one.student: one for one in table.results if one.capstone == capstone}


def test_every_student_has_a_row_in_every_capstone(table, few) -> None:
    students = ["ada", "bob", "dan", "fay", "gus", "hal", "ivy", "jim", "kim", "leo", "mia"]
    assert [*by_student(table, "drafts")] == students
    for capstone in ("stories", "sums"):
        assert [*by_student(few, capstone)] == ["kim", "leo"]
    assert len(table.rows) == 11
    assert len(few.rows) == 2 * 2


def test_scores_are_those_of_the_game_and_a_fault_is_a_row(table, few) -> None:
    found = by_student(table, "drafts")
    seeds = [capstones.number("hidden", "secret", "drafts", i) for i in range(capstones.SEEDS)]
    played = [drafts.play(PROPOSE.reference, drafts.world(seed)) for seed in seeds]
    assert found["ada"].score == found["ivy"].score == Score.together(played)
    assert found["bob"].score.value == found["jim"].score.value == 1
    assert 1 < found["mia"].score.value < found["ada"].score.value
    notes = {name: one.note for name, one in found.items() if one.score is None}
    assert notes == {
        "dan": "it raised ZeroDivisionError: division by zero",
        "fay": "it ran longer than 12 s",
        "gus": "its cell raised SyntaxError: '(' was never closed (line 1)",
        "hal": "not attempted",
        "kim": "no function propose",
        "leo": "no function propose",
    }
    assert by_student(few, "sums")["kim"].score is not None
    assert by_student(few, "stories")["leo"].score.value <= 1 / stories.ROWS


def test_places_are_shared_and_faults_come_last(table) -> None:
    rows = [row for row in table.rows if row[0] == "drafts"]
    assert [(row[1], row[2]) for row in rows[:5]] == [
        ("1", "ada"), ("1", "ivy"), ("3", "mia"), ("4", "bob"), ("4", "jim"),
    ]  # fmt: skip
    assert all(row[1] == "" for row in rows[5:])


@pytest.mark.slow
def test_the_same_secret_gives_the_same_table_and_another_one_does_not(folder, table, tmp_path):
    few = tmp_path / "few"
    few.mkdir()
    for name in ("ada.py", "mia.ipynb"):
        (few / name).write_text((folder / name).read_text())
    again, other = (capstones.score_folder(few, secret, seconds=20) for secret in ("secret", "x"))
    whole = by_student(table, "drafts")
    for one in by_student(again, "drafts").values():
        assert one == whole[one.student]  # whoever else takes part
    asked = [
        drafts.world(capstones.number("hidden", s, "drafts", 0)).prompts for s in ("secret", "x")
    ]
    assert asked[0] != asked[1]
    assert other.results != again.results


@pytest.mark.slow
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


def test_a_table_that_is_stopped_is_there_as_far_as_it_came(tmp_path, monkeypatch) -> None:
    for name in ("ada", "bob"):
        (tmp_path / f"{name}.py").write_text(GOOD)

    def stopped(orders, limits, workers):
        for order in [*orders][:3]:
            yield order, {"note": f"{order.name} was here"}
        raise KeyboardInterrupt

    monkeypatch.setattr(capstones, "judge", stopped)
    out = tmp_path / "t.csv"
    with pytest.raises(KeyboardInterrupt):
        capstones.score_folder(tmp_path, "secret", csv=out)
    with open(out, encoding="utf-8-sig", newline="") as file:
        notes = [row["note"] for row in csv.DictReader(file)]
    assert notes == ["ada was here", "bob was here", "ada was here", "", "", ""]


SPY = """
import os, sys

def propose(*case):
    seen = [len(case), *map(type, case)]
    assert seen == [3, list, list, int], seen
    assert os.listdir(".") == [], os.listdir(".")
    assert "hush-4711" not in "".join(map(repr, [sys.argv, os.environ, sys.orig_argv]))
    return []
"""
# What each does, and what its row then says.
ROGUES = {
    "b_leaves": (
        "import os\ndef propose(*_):\n    os._exit(7)",
        "it ended its process (exit code 7)",
    ),
    "c_loops": (
        "def propose(*_):\n    while True:\n        pass",
        "it ran longer than 4 s",
    ),
    "d_chatters": (
        "import os\n"
        "def chat():\n"
        "    while True:\n"
        "        for number in range(3, 20):\n"
        "            try: os.write(number, b'\\0\\0\\0\\x0c{\"at\":[0,0]}' * 99)\n"
        "            except OSError: pass\n"
        "said = chat()\n"
        "def propose(*_):\n    return said",
        "it wrote something else into its line",
    ),
    "e_garbles": (
        "import os\n"
        "def propose(*_):\n"
        "    for number in range(3, 20):\n"
        "        try: os.write(number, b'garbage' * 9)\n"
        "        except OSError: pass\n",
        "it wrote something else into its line",
    ),
    "f_leaves_on_loading": (
        "import os\nlast = os._exit(5)\ndef propose(*_):\n    return last",
        "it ended its process (exit code 5)",
    ),
    "g_huge": (
        "def propose(*_):\n    return [float('inf')]",
        "propose must return ids, whole numbers from 0, got [inf]",
    ),
    "h_claims": (
        "class Empty(list):\n    __len__ = lambda self: 0\n"
        "def propose(*_):\n    return Empty([1] * 99)",
        "propose must return at most 8 ids, got 99",
    ),
    "k_learns_by_heart": (
        "from lablib.course.lessons.lesson_16.exercises import PROPOSE\n"
        "propose = PROPOSE.reference",
        "its cell raised ImportError: lablib.course.lessons.lesson_16.exercises is not here while "
        "notebooks are graded",
    ),
}
# Where the walls are as on Linux, these find nothing.
NOSY = {
    "n_folder": (
        "import os\ndef propose(*_):\n    open({folder!r} + '/z_honest.py')\n    return []",
        "it raised FileNotFoundError: [Errno 2] No such file or directory: '{folder}/z_honest.py'",
    ),
    "o_parent": (
        "import glob\n"
        "def propose(*_):\n"
        "    for path in glob.glob('/proc/[0-9]*/[ce][mn][dv]*'):\n"
        "        try: found = open(path).read()\n"
        "        except OSError: continue\n"
        "        assert 'TOPSECRET' not in found, 'found it'\n"
        "    return []",
        "",
    ),
}
# The command with a small world of one capstone, in a process whose command line has the secret.
COMMAND = """
import sys
from lablib.__main__ import main
from lablib.course.lessons.lesson_16 import board, drafts
whole = drafts.world
drafts.world = lambda seed: whole(seed, 3)
for other in ("stories", "sums"):
    del board.CAPSTONES[other]
sys.exit(main(sys.argv[1:]))
"""


def start(folder, *options):
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "score", str(folder), "--seed", "TOPSECRET",
         "--seconds", "4", *["--no-walls"] * bool(walls.missing()), *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_function_sees_neither_seeds_nor_answers(tmp_path) -> None:
    """All that crosses: what a case is asked with. The function lists what else it could see."""
    (tmp_path / "spy.py").write_text(SPY)
    with without("stories", "sums"):
        table = capstones.score_folder(tmp_path, "hush-4711", seconds=20)
    found = by_student(table, "drafts")["spy"]
    assert found.note == ""
    assert found.score.value == 1
    assert os.listdir(tmp_path) == ["spy.py"]


FEW = ("c_loops", "d_chatters", "h_claims", "k_learns_by_heart", "n_folder", "o_parent")


@pytest.mark.parametrize("names", [FEW, pytest.param((*ROGUES, *NOSY), marks=pytest.mark.slow)])
def test_whatever_a_function_does_is_a_row_and_the_next_one_is_scored(names, tmp_path) -> None:
    folder = tmp_path / "rogues"
    folder.mkdir()
    known = ROGUES if walls.missing() else ROGUES | NOSY
    wanted = {name: known[name] for name in names if name in known}
    for name, (text, _) in wanted.items():
        (folder / f"{name}.py").write_text(text.replace("{folder!r}", repr(str(folder))))
    (folder / "m_broken.ipynb").write_text("{broken")
    (folder / "z_honest.py").write_text(GOOD)
    out = tmp_path / "t.csv"
    played = start(folder, "--csv", str(out))
    played.communicate(timeout=200)
    assert played.returncode == 0
    with open(out, encoding="utf-8-sig", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert float(rows["z_honest"]["score"]) > 1
    assert rows.pop("m_broken")["note"].startswith("can't be read: it is no notebook")
    notes = {name: row["note"] for name, row in rows.items()}
    assert notes == {"z_honest": ""} | {
        name: note.replace("{folder}", str(folder)) for name, (_, note) in wanted.items()
    }


@pytest.mark.slow
def test_whose_a_file_is_and_what_counts_are_as_in_grade(tmp_path) -> None:
    for name in ("ada/week/x.py", "bob.py", ".git/eve.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# %% [markdown]\n# it's prose\n# %%\n" + GOOD)
    with without("stories", "sums"):
        found = by_student(capstones.score_folder(tmp_path, "secret", seconds=20), "drafts")
    assert [*found] == ["ada", "bob"]
    assert all(one.score is not None for one in found.values())


def test_the_command_says_what_its_walls_keep_out(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["score", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for words in ("the same walls as grade's", "neither seeds nor answers", "--no-walls"):
        assert words in said


def test_a_spreadsheet_takes_no_students_name_for_a_formula(tmp_path):
    table = capstones.Table([capstones.Result("stories", "=1+1", None, "-x")], "secret")
    table.write_csv(tmp_path / "table.csv")
    text = (tmp_path / "table.csv").read_text(encoding="utf-8-sig")
    assert text.splitlines()[1:] == ["stories,,'=1+1,,,,,,'-x"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not in a process below")
def test_whoever_ends_before_the_work_is_counted_has_no_score():
    """What had been used before the game would be taken from what was used in it."""
    code = "def propose(prompt, written, limit):\n    return []"
    world = drafts.World([[1, 2, 3]], [[4]])
    with Process(Limits(has_walls=not walls.missing())) as process:
        there, _ = offered(process, [(0, code)], {"16.0": "propose"})
        function = Function(process, there["16.0"][0], ("16.0", 0), 60)

        class Last:
            worked = function.worked

            def __call__(self, *case):
                answer = function(*case)
                process._process.kill()
                process._process.wait()
                return answer

        with pytest.raises(Gone):
            drafts.play(Last(), world, call=1.0)


def test_what_a_call_takes_is_known_before_a_student_can_slow_it_down(tmp_path, monkeypatch):
    """Threads that are busy meanwhile would make the calls dear, and their own work cheap."""
    known = []

    def begun(limits):
        known.append(drafts.call_seconds.cache_info().currsize)
        raise Gone("it is enough")

    played = tmp_path / "played"
    played.write_bytes(pickle.dumps([drafts.world(1)]))
    (tmp_path / "ada.py").write_text(GOOD)
    monkeypatch.setattr(plays, "Process", begun)
    drafts.call_seconds.cache_clear()
    found = plays.play("drafts", str(played), [str(tmp_path / "ada.py")], Limits())
    assert (known, found) == ([1], {"note": "it is enough"})

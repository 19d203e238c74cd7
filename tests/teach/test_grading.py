"""Grading a class: reports, rosters, a kill, a resume."""

import csv
import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from dataclasses import asdict, replace
from pathlib import Path

from lablib.__main__ import main
from lablib.course.checks.checking import judge
from lablib.course.checks.exercises import find, lessons
from lablib.course.checks.running import Gone
from lablib.teach import grade as grading
from lablib.teach import handed_in, journal, reports, submission
from lablib.teach.apart.desk import Order, Referee
from lablib.teach.apart.remote import Function, Limits, Process
from lablib.teach.editions import part_of
from lablib.teach.grade import grade
from lablib.teach.handed_in import digest
from lablib.teach.page import SORT, feedback, file_name, page
from lablib.teach.reports import ExerciseRow, GradeReport, best_of
from lablib.teach.submission import Submission, judge_submission, read_submission

import numpy as np
import pytest
import submitted

pytestmark = pytest.mark.thorough

CLASS = {case.name: case for case in submitted.odd()}
# A handful; the slow suite has all of them.
HANDFUL = [
    "fair_timed", "fair_await", "fair_late_helper", "fair_computed", "fair_exit_after",
    "fair_no_metadata", "fair_program", "fair_checked_otherwise", "differs", "cheat_patched",
    "cheat_imported_later", "cheat_solution_later", "cheat_stack", "cheat_verdict_line",
    "cheat_malformed", "cheat_forged", "cheat_equal", "cheat_builtins", "killer_exits",
    "killer_kills", "killer_closes", "killer_forks", "killer_forks_in_c", "killer_hoards",
    "killer_writes", "killer_deep", "killer_odd_error", "killer_surrogate",
]  # fmt: skip
LONG = Limits(seconds=300, statement=60)  # the machine may be busy
PATIENT = ("--cpu", "60")


def outcomes(case, tmp_path):
    return judge_submission(read_submission(case.write(tmp_path)), LONG)


@pytest.mark.parametrize("name", HANDFUL)
def test_an_odd_notebook_gets_its_due(name, tmp_path):
    found = outcomes(CLASS[name], tmp_path)
    for exercise, due in CLASS[name].due.items():
        assert found[exercise].outcome in due, found[exercise]


MENDED = {
    "in a cell below the check": "{wrong}\n{check}\n{right}",
    "after many checks": "{wrong}\n{check}\n" * 7 + "{right}\n{check}",
}


@pytest.mark.parametrize("where", MENDED)
def test_what_has_the_name_in_the_end_counts(where, tmp_path):
    """Who mends an answer below its check runs that cell once more, in Jupyter."""
    check = 'check("00.1", best_token)'
    parts = {"wrong": submitted.ZERO, "right": submitted.RIGHT, "check": check}
    (tmp_path / "ada.py").write_text(f"import numpy as np\n{MENDED[where].format(**parts)}\n")
    assert grade(tmp_path).rows[0].outcome == "✓"


def test_a_wrong_answer_that_was_checked_is_judged_once(monkeypatch, tmp_path):
    judged = []
    whole = submission.judge
    monkeypatch.setattr(submission, "judge", lambda *a: judged.append(a) or whole(*a))
    (tmp_path / "ada.py").write_text(f"{submitted.ZERO}\ncheck('00.1', best_token)\n")
    work = read_submission(tmp_path / "ada.py").only([], ["00.1"])
    assert judge_submission(work, LONG)["00.1"].outcome == "✗"
    assert len(judged) == 1


PRINTED = {"lines": ["loss 3.4 🚀\n"] * 2_000_000, "letters": "🚀" + "x" * 45_000_000}


@pytest.mark.parametrize("how", PRINTED)
def test_much_that_was_printed_costs_no_mark(how, tmp_path):
    notebook = submitted.answered("00", {})
    output = {"output_type": "stream", "name": "stdout", "text": PRINTED[how]}
    cell = {"cell_type": "code", "metadata": {}, "outputs": [output], "source": ""}
    notebook["cells"].append(cell | {"execution_count": None})
    (tmp_path / "ada.ipynb").write_text(json.dumps(notebook, ensure_ascii=False), encoding="utf-8")
    assert [row.outcome for row in grade(tmp_path).rows] == ["✓"] * 3


def test_more_code_than_is_read_is_said_to_be_that(tmp_path):
    (tmp_path / "mal.py").write_text(f"check('00.1', 1)\nx = '{'a' * 5_000_000}'\n")
    assert {row.message for row in grade(tmp_path).rows} == {"its code is more than is read"}


@pytest.mark.slow
@pytest.mark.parametrize("case", submitted.submissions(), ids=lambda case: case.name)
def test_everybody_gets_their_due(case, tmp_path):
    found = outcomes(case, tmp_path)
    assert found.keys() == case.due.keys()
    for exercise, due in case.due.items():
        assert found[exercise].outcome in due, found[exercise]
        assert found[exercise].misconception == case.like.get(
            exercise, found[exercise].misconception
        )


def test_what_a_notebook_says_of_itself_is_told(tmp_path):
    message = outcomes(CLASS["differs"], tmp_path)["00.1"].message
    assert message.startswith("the notebook's own output says ✓; here it is wrong: best_token(")


def test_a_time_limit_costs_what_it_touches(tmp_path):
    case = CLASS["hog_endless_at_the_top"]
    path = case.write(tmp_path)
    found = judge_submission(read_submission(path), Limits(seconds=200, statement=2))
    assert "".join(each.outcome for each in found.values()) == "!✓✓"
    assert found["00.1"].message == "its cell: it ran longer than 2 s"


def test_processor_time_is_limited_and_waiting_costs_none(tmp_path):
    """Who works for a second is not judged, or differs; the clock alone ends nobody."""
    works = "import time\ndef best_token(p):\n    while time.process_time() < 60:\n        pass"
    waits = "import time\ntime.sleep(1)\n" + submitted.RIGHT.replace(
        "    return", "    time.sleep(0.3)\n    return"
    )
    marks = {}
    for name, answer in (("works", works), ("waits", waits)):
        work = Submission([(0, "import numpy as np"), (1, answer)], ["00.1"])
        for recorded in ("", "✓"):
            told = replace(work, recorded={"00.1": recorded})
            marks[name + recorded] = judge_submission(told, Limits(cpu=0.5))["00.1"]
    assert "".join(each.outcome for each in marks.values()) == "!≠✓✓"
    late = "calling it: it used more than 0.5 s of processor time: "
    late += "does every loop end, and is all this work needed?"
    assert marks["works"].message == late
    assert marks["works✓"].message.endswith(f"here it is not judged: {late}")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not in a process below")
def test_who_works_where_others_work_too_is_given_time_and_who_waits_is_not(monkeypatch):
    """A mark does not depend on how much of the processor a student's process gets."""
    hasty = replace(find("00.1"), seconds=1.0)
    monkeypatch.setattr(submission, "find", lambda id_: hasty)
    answers = {
        "works": "while time.process_time() < BEGAN[0] + 1.6:\n        pass",
        "waits": "time.sleep(60)",
    }
    found = {}
    for name, text in answers.items():
        answer = f"import time\nBEGAN = []\ndef best_token(p):\n    {text}\n"
        answer = answer.replace("    ", "    BEGAN.append(time.process_time())\n    ", 1)
        answer += "    return int(np.argmax(p))"
        work = Submission([(0, "import numpy as np"), (1, answer)], ["00.1"])
        found[name] = judge_submission(work, Limits(seconds=300, cpu=30))["00.1"]
    assert found["works"].outcome == "✓", found["works"]
    assert found["waits"].outcome == "✗"
    assert found["waits"].message.startswith("it took longer than 1 s: ")


def test_what_lablib_itself_takes_to_be_imported_is_no_time_of_a_students():
    """Half a second, or three where others work, too: the name was then missing, and the mark."""
    cell = "import numpy as np\nfrom lablib.course.lessons.lesson_16 import stories"
    answer = "def best_token(p):\n    return stories and int(np.argmax(p))"
    work = Submission([(0, cell), (1, answer)], ["00.1"])
    assert judge_submission(work, Limits(seconds=300, cpu=0.5))["00.1"].outcome == "✓"


PAD_LEFT = """
def pad_left(rows, padding):
    width = max(map(len, rows))
    missing = [width - len(row) for row in rows]
    return ([padding] * n + list(row) for n, row in zip(missing, rows)), iter(missing)
"""
ONE_LIST = """
ROWS = []
def pad_left(rows, padding):
    missing = [max(map(len, rows)) - len(row) for row in rows]
    ROWS[:] = ([padding] * n + list(row) for n, row in zip(missing, rows))
    return ROWS, missing
"""
TWO_DICTS = """
SHARES = [{}, {}]
def weighted_vote(answers, log_weights):
    SHARES.reverse()
    SHARES[0].clear()
    for answer, weight in zip(answers, log_weights):
        SHARES[0][answer] = SHARES[0].get(answer, 0) + float(np.exp(weight - max(log_weights)))
    total = sum(SHARES[0].values())
    SHARES[0].update({answer: share / total for answer, share in SHARES[0].items()})
    return SHARES[0]
"""
DISCOURAGE = """
def discourage(scores, recent, penalty):
    new = scores.copy() if recent else scores
    for token in set(recent):
        new[token] = new[token] / penalty if new[token] > 0 else new[token] * penalty
    return new
"""
NUCLEUS = """
def nucleus(probs, p):
    if p == 1:
        return probs[:]
    order = np.argsort(-probs, axis=1, kind="stable")
    best = np.take_along_axis(probs, order, axis=1)
    kept = np.where(np.cumsum(best, axis=1) - best < p, best, 0)
    new = np.zeros_like(probs)
    np.put_along_axis(new, order, kept / kept.sum(axis=1, keepdims=True), axis=1)
    return new
"""


@pytest.mark.parametrize(
    ("exercise", "source", "mark", "said"),
    [
        ("04.2", PAD_LEFT, "✓", ""),  # generators in a tuple
        ("04.2", ONE_LIST, "✗", "a later call changes what it returned before"),
        ("06.2", TWO_DICTS, "✗", "a later call changes what it returned before"),
        ("03.1", NUCLEUS, "✗", "returns probs itself"),
        ("03.3", DISCOURAGE, "✗", "returns scores itself"),
    ],
)
def test_grade_says_of_what_an_answer_is_made_of_what_check_says(exercise, source, mark, said):
    here: dict = {"np": np}
    exec(source, here)
    work = Submission([(0, "import numpy as np"), (1, source)], [exercise])
    found = judge_submission(work, Limits())[exercise]
    wanted = judge(find(exercise), here[find(exercise).name])
    assert found.outcome == wanted.mark == mark
    assert said in found.message
    assert said in wanted.message


IMPORTS = "import asyncio, sys\nfrom functools import singledispatch\nimport numpy as np"
WHAT_JUPYTER_RUNS = {
    "registered": [
        "@singledispatch\ndef best_token(p):\n    raise TypeError",
        "@best_token.register(list)\n@best_token.register(np.ndarray)\ndef _(p):\n"
        "    return int(np.argmax(p))",
    ],
    "recursion": [
        "sys.setrecursionlimit(20000)",
        "def deep(n):\n    return n and deep(n - 1)",
        "def best_token(p):\n    return int(np.argmax(p)) + deep(4000)",
    ],
    "a task": [
        "TABLE = {}\nasync def fill():\n    TABLE['best'] = np.argmax",
        "task = asyncio.create_task(fill())",
        "await task",
        "def best_token(p):\n    return int(TABLE['best'](p))",
    ],
    "futures": [
        "async def best():\n    return np.argmax",
        "futures = [asyncio.ensure_future(best()) for _ in range(2)]\n"
        "tasks, log = [], []\nfor x in (1, 2):\n    log.append(x)\n"
        "    tasks.append(asyncio.create_task(best()))",
        "BEST = [await each for each in (*futures, *tasks)]",
        "def best_token(p):\n    return int(BEST[0](p)) if log == [1, 2] else None",
    ],
    "a loop of one's own": [
        "async def best():\n    return np.argmax",
        "if __name__ == '__main__':\n    loop = asyncio.new_event_loop()\n"
        "    BEST = loop.run_until_complete(loop.create_task(best()))",
        "BEST = asyncio.run(best()) and BEST",
        "def best_token(p):\n    return int(BEST(p))",
    ],
    "tasks that a function starts": [
        "async def best():\n    return np.argmax",
        "log = []\ndef start():\n    log.append(1)\n    return asyncio.create_task(best())",
        "task = start()\nloop = asyncio.get_running_loop()",
        "BEST = await task\nassert loop is asyncio.get_running_loop()",
        "def best_token(p):\n    return int(BEST(p)) if log == [1] else None",
    ],
    "functions that are called as asyncio's": [
        "async def best():\n    return np.argmax",
        "def gather(*work):\n    return [asyncio.run(each) for each in work]",
        "def create_task(work):\n    return gather(work)[0]",
        "BEST = create_task(best())",
        "def best_token(p):\n    return int(BEST(p))",
    ],
    "a loop that is set": [
        "async def best():\n    return np.argmax",
        "asyncio.run(best())",
        "loop = asyncio.new_event_loop()\nasyncio.set_event_loop(loop)\n"
        "(BEST,) = loop.run_until_complete(asyncio.gather(best()))",
        "def best_token(p):\n    return int(BEST(p))",
    ],
    "a file": [
        "with open('n.txt', 'w') as file:\n    file.write('1')",
        "def store():\n    np.save('one.npy', np.ones(1))",
        "store()",
        "one, n = np.load('one.npy')[0], int(open('n.txt').read())",
        "def best_token(p):\n    return int(np.argmax(p) * one) * n",
    ],
    "a file with a blank in its name, beside one's own": [
        "from pathlib import Path\nONE = Path(__file__).parent / 'one.txt'",
        "ONE.write_text('1')\nopen('my table.txt', 'w').write('1')",
        "def best_token(p):\n    one = int(ONE.read_text()) * int(open('my table.txt').read())\n"
        "    return int(np.argmax(p)) * one",
    ],
    "a module of the course's": [
        "from lablib.course import check, tasks",
        "def best_token(p):\n    return int(np.argmax(p)) if tasks.Problem else None",
    ],
    "a module of one's own": [
        "%%writefile helper.py\nimport numpy as np\ndef best(p):\n    return int(np.argmax(p))",
        "open('other.py', 'w').write('one = 1')",
        "from helper import best\nimport other",
        "def best_token(p):\n    return best(p) * other.one",
    ],
    "modules in folders": [
        "import importlib, os\nos.makedirs('helpers')\nsys.path.insert(0, 'helpers')",
        "%%writefile helpers/first.py\none = 1",
        "%%file helpers/second.py\none = 1",
        "name = 'third'\nwith open(f'{name}.py', 'w') as file:\n    print('one = 1', file=file)",
        "import second\nfrom helpers.first import one\nthird = importlib.import_module('third')",
        "def best_token(p):\n    return int(np.argmax(p)) * one * second.one * third.one",
    ],
    "magics with options": [
        "def best_token(p):\n    return int(np.argmax(p))\n%timeit -n 10 -r3 best_token([1, 2])\n"
        "%prun -q -l 5 best_token([1, 2])\n%time best_token([1,\n"
        "%timeit -o\n%timeit -q best_token([1])",
    ],
    "subclasses that nobody names": [
        "class Base:\n    found = []\n    def __init_subclass__(cls):\n"
        "        Base.found.append(cls)",
        "class Best(Base):\n    def of(self, p):\n        return int(np.argmax(p))",
        "def best_token(p):\n    same = Base.__subclasses__() == Base.found\n"
        "    return Base.found[0]().of(p) if same else None",
    ],
    "a thread that fills a table": [
        "import threading\nTABLE = {}\ndef fill():\n    TABLE['best'] = np.argmax",
        "thread = threading.Thread(target=fill)\nthread.start()\nthread.join()",
        "def best_token(p):\n    return int(TABLE['best'](p))",
    ],
    "an attribute of each function": [
        "def best_token(p):\n    best_token.calls += 1\n    return int(np.argmax(p))",
        "for function in [best_token]:\n    function.calls = 0",
    ],
    "what is changed by another name": [
        "A, D, a, b = np.zeros((2, 2)), {'in': {}}, [], []",
        "view = A.reshape(-1)\nview[1] = 1\nflat = np.ravel(A)\nflat[2] = 1",
        "inner = D.get('in')\ninner['best'] = np.argmax",
        "both = (a, b)\nfor x in both:\n    x.append(1)",
        "def best_token(p):\n    return int(D['in']['best'](p) * A[0, 1] * A[1, 0]) * a[0] * b[0]",
    ],
    "what is set": [
        "import multiprocessing\nif __name__ == '__main__':\n"
        "    multiprocessing.set_start_method('fork', force=True)\n    LOG = [1]",
        "np.seterr(all='raise')\nasync def divide():\n    try:\n"
        "        return np.ones(1) / np.zeros(1)\n    except FloatingPointError:\n        return 0",
        "LOG.append(await divide())",
        "def best_token(p):\n    return int(np.argmax(p)) if LOG == [1, 0] else None",
    ],
    "one loop": [
        "lock = asyncio.Lock()\nasync def wait(n):\n    async with lock:\n"
        "        await asyncio.sleep(0)\n    return n",
        "ONE, *_ = await asyncio.gather(wait(1), wait(2))",
        "TWO, *_ = await asyncio.gather(wait(1), wait(2))",
        "def best_token(p):\n    return int(np.argmax(p)) * ONE * TWO",
    ],
}


@pytest.mark.parametrize("what", WHAT_JUPYTER_RUNS)
def test_what_jupyter_runs_is_run_here(what):
    """It was a wrong answer: what it needs has no name in common with it, or another loop."""
    work = Submission([*enumerate([IMPORTS, *WHAT_JUPYTER_RUNS[what]])], ["00.1"])
    found = judge_submission(work, Limits())["00.1"]
    assert (found.outcome, found.message) == ("✓", "")


BESIDE = "ModuleNotFoundError: No module named 'mytools'"


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["from mytools import best"], f"name 'best' is not defined ({BESIDE})"),
        (["from mytools import *"], f"name 'best' is not defined ({BESIDE})"),
        (
            ["import mytools", "best = mytools.best"],
            f"name 'best' is not defined (NameError: name 'mytools' is not defined ({BESIDE}))",
        ),
        (["best = [*open('best.txt')]"], "(FileNotFoundError: [Errno 2] No such file"),
        (["def best(p):\n    return rest(p)"], "name 'rest' is not defined"),
    ],
)
def test_a_name_that_is_missing_is_told_with_what_kept_it_from_being_bound(cells, said):
    """Each file is judged alone: what lay beside it is missing, and a NameError doesn't say so."""
    cells = [*cells, "def best_token(p):\n    return best(p)"]
    found = judge_submission(Submission([*enumerate(cells)], ["00.1"]), Limits())["00.1"]
    assert found.outcome == "✗"
    assert said in found.message


def test_threads_that_call_what_was_lent_wait_for_each_other():
    """Their requests stood in each other's lines."""
    source = """
import numpy as np
from concurrent.futures import ThreadPoolExecutor
def write_greedily(next_scores, prompt, max_tokens, stop):
    written = []
    while len(written) < max_tokens and stop not in written:
        with ThreadPoolExecutor(8) as pool:
            found = [*pool.map(next_scores, [prompt + written] * 40)]
        assert len({*map(tuple, found)}) == 1
        written.append(int(np.argmax(found[0])))
    return written
"""
    found = judge_submission(Submission([(0, source)], ["01.4"]), Limits(cpu=5.0))["01.4"]
    assert (found.outcome, found.message) == ("✓", "")


@pytest.mark.parametrize(
    "last",
    [
        "best_token = SOLVERS['fast']", "best_token = SOLVERS['fast'] if SOLVERS else None",
        "if SOLVERS:\n    def best_token(p):\n        return SOLVERS['fast'](p)",
        "best_token: object = next(iter(SOLVERS.values()))",
    ],
)  # fmt: skip
def test_a_function_that_the_first_try_could_not_make_is_made_in_the_second(last: str):
    cells = [
        "import numpy as np\nSOLVERS = {}\ndef add(name, f):\n    SOLVERS[name] = f\n    return f",
        "fast = add('fast', lambda p: int(np.argmax(p)))", last,
    ]  # fmt: skip
    found = judge_submission(Submission([*enumerate(cells)], ["00.1"]), Limits())["00.1"]
    assert (found.outcome, found.message) == ("✓", "")
    wrong = [cells[0], "raise RuntimeError('not yet')", last]
    found = judge_submission(Submission([*enumerate(wrong)], ["00.1"]), Limits())["00.1"]
    assert found.outcome in "!○"


@pytest.mark.parametrize(
    "wait", ["ready.wait()", "while not found: pass", "os.kill(os.getpid(), 9)"]
)
def test_who_ends_the_first_try_has_a_second(wait: str):
    """What waits for a thread that a cell starts waited for ever, as the cell was not run."""
    cells = [
        "import os, threading, numpy as np\nready, found = threading.Event(), []",
        "def fill():\n    found.append(np.argmax)\n    ready.set()",
        "thread: threading.Thread = threading.Thread(target=fill)\nthread.start()",
        f"def best_token(p):\n    if not found:\n        {wait}\n    return int(found[0](p))",
    ]
    limits = Limits(cpu=1.0)
    found = judge_submission(Submission([*enumerate(cells)], ["00.1"]), limits)["00.1"]
    assert (found.outcome, found.message) == ("✓", "")


def test_a_copy_of_what_was_lent_is_itself():
    source = """
import copy, numpy as np
def write_greedily(next_scores, prompt, max_tokens, stop):
    state = copy.deepcopy({"model": next_scores, "written": []})
    while len(state["written"]) < max_tokens and stop not in state["written"]:
        scores = state["model"](prompt + state["written"])
        state["written"].append(int(np.argmax(scores)))
    return state["written"]
"""
    found = judge_submission(Submission([(0, source)], ["01.4"]), Limits())["01.4"]
    assert (found.outcome, found.message) == ("✓", "")


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("scores *= -1; token = int(np.argmin(scores))", "✗"),
        ("token = int(np.argmax(scores)); scores[token] = -1000", "✗"),
        ("token = int(np.argmax(scores)); scores.sort()", "✗"),
        ("scores -= scores.max(); token = int(np.argmax(scores))", "✓"),
        ("token = int(np.argmax(scores))", "✓"),
    ],
)
def test_who_writes_into_what_a_lent_function_returned_spoils_it(line: str, outcome: str):
    """It was a copy here, and wrong answers were right."""
    source = f"""
import numpy as np
def write_greedily(next_scores, prompt, max_tokens, stop):
    written = []
    while len(written) < max_tokens and stop not in written:
        scores = next_scores(prompt + written)
        {line}
        written.append(token)
    return written
"""
    found = judge_submission(Submission([(0, source)], ["01.4"]), Limits())["01.4"]
    assert found.outcome == outcome


def test_nothing_that_is_read_or_written_is_shown(monkeypatch, tmp_path):
    """Where it lay among Python's packages the roster, the journal and others' pages were read."""
    limits = []

    def judge(orders, told, workers):
        limits.append(told)
        yield from ()

    monkeypatch.setattr(grading, "judge", judge)
    folder, roster, points = (tmp_path / name for name in ("in", "class.csv", "points.toml"))
    folder.mkdir()
    roster.write_text("student\nada\n")
    points.write_text("optional = []\n")
    csv, pages = tmp_path / "r.csv", tmp_path / "pages"
    grade(folder, csv, feedback=pages, roster=roster, points=points)
    wanted = (folder, roster, points, csv, pages, tmp_path / "r.csv.journal")
    assert {str(path.resolve()) for path in wanted} <= {*limits[0].hide}


WORK = """
import time
def work(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
"""
MANY_STATEMENTS = {
    "statements": "\n".join(["check and work(0.2)"] * 100),
    "what they say": "while True:\n    work(0.01)\n    check.__self__.line.send({'at': [0, 0]})",
}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not in a process below")
@pytest.mark.parametrize("how", MANY_STATEMENTS)
def test_all_statements_together_have_a_limit(how: str) -> None:
    """However often it says that the next one begins."""
    cell = f"{WORK}check\n{MANY_STATEMENTS[how]}\ndef f(p):\n    work(0)"
    limits = Limits(cpu=0.4, statements=2)
    with Process(limits) as process, pytest.raises(Gone, match=r"more than 2 s of proc"):
        for _ in process.run([(0, cell)], ["f"]):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not in a process below")
def test_all_processes_together_have_a_limit(tmp_path, monkeypatch):
    """What has used up its ration is started anew, and says of another statement that it was it."""
    monkeypatch.setattr(submission, "RATIONS", 3)
    told = "check.__self__.line.send({'at': [99, number]})"
    spin = f"def spin(number=0):\n  while True:\n    work(0.1)\n    number += 1\n    {told}"
    path = tmp_path / "work.py"
    path.write_text(f"{WORK}\n{spin}\ncheck('00.1', spin())\n")
    work = read_submission(path)
    found = judge_submission(work, Limits(cpu=0.5))
    assert found["00.1"].message == "its cells used more than 1.5 s of processor time"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not in a process below")
def test_what_only_judged_exercises_need_is_not_run_again(monkeypatch):
    """Several lessons in one notebook had used up their time before the last was judged."""
    monkeypatch.setattr(submission, "RATIONS", 5)
    spin = "    while True:\n        work(1)"
    cells = [
        f"{WORK}\nfrom collections import Counter\nimport numpy as np",
        "ONE = {}\nONE['best'] = work(0.9)",
        "def best_token(p):\n    ONE\n    return int(np.argmax(p))\ncheck('00.1', best_token)",
        f"TABLE = {{}}\ndef spin():\n{spin}",
        *["TABLE['n'] = spin()"] * 3,
        "def winner(answers):\n    TABLE\n"
        "    found = Counter(a for a in answers if a is not None)\n"
        "    return found.most_common(1)[0][0]\ncheck('00.2', winner)",
    ]
    found = judge_submission(Submission([*enumerate(cells)], ["00.1", "00.2"]), Limits(cpu=1.0))
    assert [found[each].outcome for each in ("00.1", "00.2")] == ["✓", "✓"], found


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not in a process below")
@pytest.mark.parametrize("slow", ["while True:\n    print(TABLE)", "if TABLE:\n    os._exit(0)"])
def test_an_experiment_that_only_mentions_a_value_costs_no_mark(slow):
    """In the second try it was run, as it may change the value, and ended all of it."""
    fill = "def fill(table):\n    table['best'] = np.argmax\n    return len(table)\nn = fill(TABLE)"
    answer = "def best_token(p):\n    return int(TABLE['best'](p))"
    imports = "import os\nimport numpy as np\nTABLE = {}"
    work = Submission([*enumerate([imports, fill, slow, answer])], ["00.1"])
    found = judge_submission(work, Limits(cpu=0.5))["00.1"]
    assert (found.outcome, found.message) == ("✓", "")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not in a process below")
def test_processor_time_counts_every_process_and_all_calls(tmp_path):
    with Process(Limits(cpu=0.5)) as process:
        told = process.run([(0, "def f(p):\n    sum(range(3_000_000))\n    return 0")], ["f"])
        assert [*told] == [{"at": [0, 0]}]
        process.send({"offer": "f"})
        function = Function(process, process.receive(30), 60.0)
        with pytest.raises(Gone, match="processor time"):
            [function(0) for _ in range(1000)]


@pytest.mark.parametrize("limit", [0, float("nan"), True, "1"])
def test_a_limit_is_a_number_above_nothing(limit, tmp_path):
    with pytest.raises((ValueError, TypeError), match="cpu must be"):
        grade(tmp_path, cpu=limit)


# --- a class -----------------------------------------------------------------------------------


@pytest.fixture
def school(tmp_path):
    """Four students: solved, wrong twice, untouched and solved, a broken file."""
    folder = tmp_path / "school"
    named = {case.name: case for case in submitted.honest("00")}
    for student, case in {"ada": "solved00", "bob": "wrong00", "cleo": "starter00"}.items():
        named[case].write(folder).parent.rename(folder / student)
    path = named["other00"].write(folder)
    path.rename(folder / "cleo" / "again (1).ipynb")
    path.parent.rmdir()
    (folder / "dan.ipynb").write_text("{broken")
    (folder / "roster.csv").write_text("name,student\nAda L.,Ada\nEve,eve\nBob,bob\n")
    return folder


def run(school, out, *more):
    out.mkdir()
    options = ["--csv", out / "r.csv", "--json", out / "r.json", "--html", out / "r.html"]
    options += ["--feedback", out / "told", "--roster", school / "roster.csv", *more]
    return ["grade", str(school), *map(str, options)]


def files(out):
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.suffix != ".journal"
    }


def start(arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "lablib", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_two_runs_and_a_killed_and_resumed_one_are_the_same_to_the_byte(school, tmp_path):
    printed = []
    for name in ("one", "two"):
        process = start(run(school, tmp_path / name, "--workers", "2"))
        printed.append(process.communicate(timeout=200))
        assert process.returncode == 0, printed[-1]
    assert printed[0] == printed[1]
    assert files(tmp_path / "one") == files(tmp_path / "two")

    arguments = run(school, tmp_path / "three", "--workers", "1")
    process, kept = start(arguments), tmp_path / "three" / "r.csv.journal"
    while process.poll() is None and not (kept.exists() and kept.read_text()):
        time.sleep(0.005)
    process.kill()
    process.wait()
    first = kept.read_text().splitlines()
    assert 1 <= len(first) < 5
    rows = [*csv.DictReader(io.StringIO((tmp_path / "three" / "r.csv").read_text("utf-8-sig")))]
    assert all(row["message"] is not None for row in rows)
    assert left_over(tmp_path) == []
    torn = '{"path": [], "digest": "", "basis": "", "findings": {}}\n{"path": "ha'
    kept.write_text(kept.read_text() + torn)  # killed while it wrote
    process = start([*arguments, "--resume"])
    assert process.communicate(timeout=200)[0] == printed[0][0]
    assert kept.read_text().splitlines()[: len(first)] == first
    assert files(tmp_path / "three") == files(tmp_path / "one")


def left_over(folder, seconds=10.0):
    """Return the processes for students' work in a folder that are there after some seconds."""
    until = time.monotonic() + seconds
    while True:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes()
            except OSError:
                continue
            if b"sandbox.py" in words and str(folder).encode() in words:
                found.append(words)
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whoever_stops_it_finds_no_process_and_a_whole_report(how, tmp_path):
    CLASS["hog_endless"].write(tmp_path / "school")
    out = tmp_path / "out"
    out.mkdir()
    process = start(["grade", str(tmp_path / "school"), "--csv", str(out / "r.csv"), *PATIENT])
    until = time.monotonic() + 60
    while not left_over(tmp_path, 0) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(how)
    process.wait(timeout=30)
    assert process.returncode in (130, -9)
    if how != signal.SIGKILL:
        assert "stopped; what is judged is kept, and with --resume" in process.stderr.read()
    assert left_over(tmp_path) == []
    assert (out / "r.csv").read_text("utf-8-sig").startswith("student,notebook,")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_stopped_twice_it_says_one_line(tmp_path):
    CLASS["hog_endless"].write(tmp_path / "school")
    process = start(["grade", str(tmp_path / "school"), *PATIENT])
    until = time.monotonic() + 60
    while not left_over(tmp_path, 0) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    for _ in range(20):  # whatever it is at by then
        time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert [line for line in said.splitlines() if "here students' code" not in line] == [
        "lablib: stopped"
    ]
    assert left_over(tmp_path) == []


def instantly(orders, limits, workers):
    for order in orders:
        order.digest = digest(Path(order.path))
        is_same = order.digest == order.known
        yield order, {"same": order.digest} if is_same else {"00.1": ["✓", "", ""]}


def test_a_table_is_written_a_row_at_a_time_and_the_journal_too(tmp_path, monkeypatch):
    for number in range(30):
        (tmp_path / f"s{number}.py").write_text('check("00.1", best_token)')
    monkeypatch.setattr(grading, "judge", instantly)
    writings, write = [], grading.Outputs.write
    monkeypatch.setattr(
        grading.Outputs, "write", lambda *each: (writings.append(each), write(*each))
    )
    monkeypatch.setattr(grading, "SHARE", 1e9)  # however short each writing was
    grade(tmp_path, tmp_path / "r.csv")
    assert len(writings) == 2  # the first, and the last
    assert len((tmp_path / "r.csv.journal").read_text().splitlines()) == 30
    monkeypatch.setattr(grading, "SHARE", 0.0)
    grade(tmp_path, tmp_path / "r.csv")
    assert len(writings) == 2 + 32


def test_a_file_that_is_changed_while_it_is_judged_is_judged_again(tmp_path, monkeypatch):
    """In a folder that is synced: an old verdict is not kept for the new file."""
    asked = []

    def synced_meanwhile(orders, limits, workers):
        for order, verdict in instantly(orders, limits, workers):
            asked.append([order.name, *verdict])
            (school / "ada.py").write_text("# better")
            yield order, verdict

    school = tmp_path / "school"
    school.mkdir()
    (school / "ada.py").write_text('check("00.1", best_token)')
    monkeypatch.setattr(grading, "judge", synced_meanwhile)
    for more in ({}, {"resume": True}, {"resume": True}):
        grade(school, tmp_path / "r.csv", **more)
    assert asked == [["ada.py", "00.1"]] * 2 + [["ada.py", "same"]]


def test_the_command_itself_reads_no_file_of_a_students(tmp_path, monkeypatch):
    """Whoever resumed waited until it had read all that had its verdict: 12 s for one student's."""

    def refused(path, flags):
        raise AssertionError(f"{path} was read, and not by a referee")

    school = tmp_path / "school"
    school.mkdir()
    for name in ("ada", "bob"):
        text = f'import numpy as np\n{submitted.RIGHT}check("00.1", best_token)'
        (school / f"{name}.py").write_text(text)
    journal._references()  # of files that are nobody's
    monkeypatch.setattr(handed_in, "_itself", refused)
    report = grade(school, tmp_path / "r.csv", lessons=["00"])
    assert [row.outcome for row in report.rows] == ["✓", "!", "!"] * 2
    (school / "bob.py").write_text("check('00.1', best_token)")
    (school / "cy.py").write_text("check('00.1', best_token)")
    found, look = [], Referee.look

    def heard(referee):
        verdict = look(referee)
        if verdict is not None:
            found.append([referee.order.name, *verdict][:2])
        return verdict

    monkeypatch.setattr(Referee, "look", heard)
    again = grade(school, tmp_path / "r.csv", lessons=["00"], resume=True, workers=1)
    assert found == [["ada.py", "same"], ["bob.py", "00.1"], ["cy.py", "00.1"]]
    marks = {row.student: row.outcome for row in again.rows if row.exercise == "00.1"}
    assert marks == {"ada": "✓", "bob": "!", "cy": "!"}


def test_reports_of_an_earlier_run_stand_until_all_it_knew_is_told_again(tmp_path, monkeypatch):
    school, writings = tmp_path / "school", []
    school.mkdir()
    for name in ("ada", "bob", "cy"):
        (school / f"{name}.py").write_text('check("00.1", best_token)')
    monkeypatch.setattr(grading, "judge", instantly)
    monkeypatch.setattr(grading, "SHARE", 0.0)
    grade(school, tmp_path / "r.csv")
    (school / "ada.py").write_text("# another")
    monkeypatch.setattr(grading.Outputs, "write", lambda _, report: writings.append(report))
    grade(school, tmp_path / "r.csv", resume=True)
    assert [len(report.rows) for report in writings] == [3, 3]  # with the last, and at the end

    def stopped(orders, limits, workers):
        yield from [*instantly(orders, limits, workers)][:2]
        raise KeyboardInterrupt

    monkeypatch.setattr(grading, "judge", stopped)
    with pytest.raises(KeyboardInterrupt):
        grade(school, tmp_path / "r.csv", resume=True)
    assert len(writings) == 2


def test_limits_that_nobody_reaches_cost_no_mark(tmp_path):
    (tmp_path / "ada.py").write_text(
        f'import numpy as np\n{submitted.RIGHT}check("00.1", best_token)'
    )
    limits = {"cpu": grading.MOST_CPU, "seconds": grading.MOST_SECONDS, "memory": 10**6}
    rows = grade(tmp_path, **limits).rows
    assert [row.outcome for row in rows] == ["✓", "!", "!"]


def test_whoever_interrupts_finds_in_the_report_what_the_journal_has(tmp_path, monkeypatch):
    def until_the_fifth(orders, limits, workers):
        yield from [*instantly(orders, limits, workers)][:5]
        raise KeyboardInterrupt

    for number in range(10):
        (tmp_path / f"s{number}.py").write_text('check("00.1", best_token)')
    monkeypatch.setattr(grading, "judge", until_the_fifth)
    with pytest.raises(KeyboardInterrupt):
        grade(tmp_path, tmp_path / "r.csv", workers=1)
    journal = (tmp_path / "r.csv.journal").read_text().splitlines()
    rows = [*csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text("utf-8-sig")))]
    assert len(journal) == 5
    assert {row["notebook"] for row in rows} == {json.loads(line)["path"] for line in journal}


def test_a_full_disk_is_named_and_what_is_judged_is_kept(tmp_path, monkeypatch, capsys):
    def full(path, data):
        if "ada.md" in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, data)

    school, told = tmp_path / "school", tmp_path / "told"
    school.mkdir()
    (school / "ada.py").write_text('check("00.1", best_token)')
    write = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(grading, "judge", instantly)
    command = ["grade", str(school), "--csv", str(tmp_path / "r.csv"), "--feedback", str(told)]
    assert main(command) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-2:] == [
        "lablib: stopped; what is judged is kept, and with --resume it goes on",
        f"lablib: [Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}: {str(told / 'ada.md')!r}",
    ]


def test_an_answer_may_use_the_class_that_its_lesson_shows(tmp_path):
    right = find("10.3").solution.replace("def try_drafts", "def right")
    own = "\n\ndef try_drafts(layer, drafts, accepted):\n    Recurrent()\n"
    own += "    return right(layer, drafts, accepted)"
    case = submitted.Case("ada", submitted.answered("10", {"10.3": right + own}), {})
    assert outcomes(case, tmp_path)["10.3"].outcome == "✓"


@pytest.mark.parametrize("lesson", lessons())
def test_no_lesson_imports_what_is_not_there_while_it_is_graded(lesson):
    code = [cell["source"] for cell in submitted.blank(lesson)["cells"]]
    assert not re.search(r"lesson_\d\d(\.| import )exercises", "\n".join(code))


def test_of_capstones_grade_marks_the_first_steps(tmp_path):
    notebook = submitted.answered("16", {"16.1": ""})
    checks = [n for n, cell in enumerate(notebook["cells"]) if part_of(cell) == ("16.3", "check")]
    further = "def propose(prompt, written, limit):\n    return []\nscore('drafts', propose)"
    cell = {"cell_type": "code", "metadata": {}, "source": further, "outputs": []}
    notebook["cells"].insert(checks[0] + 1, cell)  # somebody went on, and it plays worse
    submitted.Case("ada", notebook, {}).write(tmp_path)
    rows = grade(tmp_path).rows
    assert [(row.exercise, row.outcome) for row in rows] == [
        ("16.1", "!"), ("16.2", "✓"), ("16.3", "✓"),
    ]  # fmt: skip


def test_a_report_tells_who_solved_what_and_what_to_discuss(school, tmp_path):
    roster = school / "roster.csv"
    report = grade(school, roster=roster, html=tmp_path / "r.html", json=tmp_path / "r.json")
    marks = {}
    for row in report.rows:
        marks.setdefault(row.student, []).append(row.outcome)
    assert {name: "".join(found) for name, found in marks.items()} == {
        "Ada": "✓✓✓", "bob": "✗✗✗", "cleo": "✓✓✓", "dan": "!", "eve": "∅∅∅",
    }  # fmt: skip
    assert {r.notebook for r in report.rows if r.student == "cleo"} == {"cleo/again (1).ipynb"}
    assert report.counts()["00.1"] == {"✓": 2, "≠": 0, "✗": 1, "○": 0, "!": 0, "∅": 1}
    topics = report.topics()
    assert [topic.exercise for topic in topics] == ["00.1", "00.2", "00.3"]
    assert (topics[0].students, topics[0].attempts) == (1, 3)
    assert f"Discuss 00.1 The best token (1 of 3 who tried): {topics[0].text}" in repr(report)
    content = json.loads((tmp_path / "r.json").read_text())
    assert len(content["rows"]) == len(report.rows)
    assert content["misconceptions"][0]["misconception"] == topics[0].misconception
    text = (tmp_path / "r.html").read_text()
    for word in ("<h2>Discuss next</h2>", "cleo/again (1).ipynb", 'aria-label="correct"'):
        assert word in text
    assert "http" not in text  # it needs nothing else


ROW = ExerciseRow("a<b", "x.ipynb", "00.1", "✗", "largest_value", "=cmd · <script>")


def test_nothing_a_student_writes_is_run_by_a_reader_of_the_report():
    report = GradeReport([ROW])
    assert page(report).count("<script>") == 1  # our own, which sorts
    assert page(report).count(f"<script>{SORT}</script></body>") == 1
    assert "a&lt;b" in page(report)
    assert "'=cmd" in report.csv()
    assert "\\<script\\>" in feedback(report, "a<b")
    assert file_name("../a b") == "_a_b"
    assert file_name("..") == "_"


def test_a_report_counts_points_and_what_has_no_name():
    rows = [
        ExerciseRow("ada", "x", "03.1", "✓", "", ""), ExerciseRow("ada", "x", "03.2", "✗", "", ""),
        ExerciseRow("bob", "x", "03.2", "✗", "", ""), ExerciseRow("bob", "x", "-", "!", "", ""),
        ExerciseRow("bob", "x", "03.1", "≠", "", "a" * 100),
    ]  # fmt: skip
    report = GradeReport(rows)
    assert (report.points("ada"), report.points("bob")) == ((3, 4), (0, 4))
    assert ">3 of 4</td>" in page(report)
    assert "Wrong in ways that have no name: 03.2 (2)." in page(report)
    table = csv.DictReader(io.StringIO(report.csv().lstrip("\ufeff")))
    assert [row["points"] for row in table] == ["3", "0", "0", "0", "0"]
    assert json.loads(report.json())["points"]["bob"] == {"got": 0, "of": 4}
    assert "a" * 79 + "…" in repr(report)


def test_a_page_says_our_sentences_as_they_are_meant():
    row = ExerciseRow("ada_l", "a_b.ipynb", "08.1", "✗", "same_favourite", "one · two")
    text = page(GradeReport([row]))
    assert "<code>same_favourite</code>" in text  # as the guide and the teacher's edition call it
    assert "it compares two <em>samples</em>" in text
    assert 'class="topics"' in text  # on a phone a card for each, which says what its numbers are
    assert '<td data-head="students">1</td><td data-head="of those who tried">1</td>' in text
    assert ".topics td[data-head]::before{content:attr(data-head)" in text
    broken = replace(row, exercise="-", outcome="!")
    lines = feedback(GradeReport([broken, row]), "ada_l").splitlines()
    assert lines[0] == "# ada\\_l: your exercises"
    assert lines[4].startswith("- ! **a\\_b.ipynb**")
    assert lines[-2:] == ["  one  ", "  two"]  # each on a line of its own


def test_of_several_notebooks_the_best_counts_and_of_equals_the_first():
    rows = [ExerciseRow("a", str(i), "00.1", mark, "", "") for i, mark in enumerate("✗✓✓")]
    ranks = [2, 4, 4]
    assert best_of(zip(ranks, rows, strict=True)) == [rows[1]]
    assert set(reports.OUTCOMES) == set("✓≠✗○!∅")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"csv": "none/r.csv"}, "a folder that can be written"),
        ({"html": "."}, "a folder that can be written"),
        ({"feedback": "file"}, "feedback must be a folder"),
        ({"feedback": "docs"}, "feedback must be a folder of its own, got one with docs/README.md"),
        ({"csv": "file", "json": "./file"}, "a file of its own, got file for two things"),
        ({"csv": "file", "html": "link"}, "a file of its own, got file for two things"),
        ({"csv": "r", "json": "r.journal"}, "a file of its own, got r.journal for two things"),
        ({"csv": "file", "roster": "file"}, "a file of its own, got file for two things"),
        ({"html": "p", "points": "p"}, "a file of its own, got p for two things"),
        ({"csv": "ada.ipynb"}, "no notebook and no program, got ada.ipynb"),
        ({"resume": True}, "resume needs the file of a report"),
        ({"roster": "none"}, "roster must be"),
        ({"seconds": 0}, "seconds must be"),
        ({"workers": -1}, "workers must be"),
        ({"memory": 1}, "memory must be"),
        ({"seconds": 1e19}, "seconds must be between 0.1 and 100000"),
        ({"cpu": 1e9}, "cpu must be between 0.1 and 10000"),
        ({"memory": 10**13}, "memory must be between 256 and 1000000"),
        ({"lessons": ["03", "x"]}, "lessons must be one of"),
    ],
)
def test_what_is_wrong_is_said_before_the_work(wanted, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("ada\n")
    Path("link").symlink_to("file")
    Path("docs").mkdir()
    Path("docs", "README.md").write_text("# Ours\n")
    monkeypatch.setattr("lablib.teach.grade.judge", None)
    with pytest.raises(ValueError, match=message):
        grade(tmp_path, **wanted)


def test_a_folder_of_pages_that_is_read_only_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("lablib.teach.grade.judge", None)
    monkeypatch.setattr(grading.os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(ValueError, match="feedback must be a folder to write to"):
        grade(tmp_path, feedback=tmp_path / "told")


def test_the_command_says_what_its_walls_keep_out(capsys):
    with pytest.raises(SystemExit):
        main(["grade", "--help"])
    said = capsys.readouterr().out
    told = ("--resume", "neither references nor verdicts", "sandbox-exec", "copied", "score")
    for word in told:
        assert word in said


def test_a_command_leaves_signals_as_they_were(tmp_path, capsys):
    (tmp_path / "ada.ipynb").write_text("{}")
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert main(["grade", str(tmp_path)]) == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_cell_of_another_courses_exercise_costs_none_of_this_one(tmp_path):
    """An older edition may have had more exercises: a cell of one that fails is nobody's here."""
    cells = [
        {"source": "def (", "metadata": {"lablib": {"exercise": "00.9", "part": "starter"}}},
        {"source": "y = (", "metadata": {"lablib": {"exercise": ["00.1"]}}},
        {"source": f"import numpy as np\n{submitted.RIGHT}\ncheck('00.1', best_token)"},
    ]
    whole = {"nbformat": 4, "cells": [{"cell_type": "code", **cell} for cell in cells]}
    (tmp_path / "ada.ipynb").write_text(json.dumps(whole))
    assert [row.outcome for row in grade(tmp_path).rows] == ["✓", "!", "!"]


def test_what_is_told_about_a_file_is_bounded_and_a_journal_is_read_by_the_line(tmp_path):
    """A student's messages filled the command's memory, and ``--resume`` held them three times."""
    order = Order(path="x.py", name="x.py")
    long = {f"01.{i}": ["✗", "", "𝕩" * 2000] for i in range(68)}
    short = {"01.1": ["✗", "sum", "𝕩" * 2000], "01.2": ["✓", "", ""]}
    told = grading._graded(order, "", long)
    assert {len(each.message) for each in told.findings.values()} == {grading.TOLD // 68}
    whole = grading._graded(order, "", short).findings
    assert {id_: [*asdict(found).values()] for id_, found in whole.items()} == short
    line = journal._line(told)
    path = tmp_path / "r.csv.journal"
    path.write_text(line * 300 + line[:50], encoding="utf-8")
    tracemalloc.start()
    kept = journal.Journal([tmp_path / "r.csv"], resume=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * len(line)  # of 300
    assert kept.found("x.py", "") == told
    assert path.read_text(encoding="utf-8") == line

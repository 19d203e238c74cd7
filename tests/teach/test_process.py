"""A notebook runs as Jupyter runs it, and its functions are judged as they would be here."""

import inspect

from lablib.course.checks.checking import judge
from lablib.course.checks.exercises import exercises, lessons
from lablib.course.checks.running import Gone
from lablib.teach import cells, walls
from lablib.teach.process import Function, Limits, Process
from lablib.teach.submission import Submission, judge_submission, offered, understood

import pytest
from submitted import BY_CHANCE, BY_IDENTITY, ZERO, answered, source_of_exercises

OURS = Limits(seconds=300, cpu=60, has_walls=not walls.missing())  # the machine may be busy


def found(*sources, exercise="00.1", **limits):
    """Return what is found of an exercise in a notebook of these cells."""
    work = Submission([*enumerate(sources)], [exercise])
    limits = Limits(**{"has_walls": OURS.has_walls, **limits})
    return judge_submission(work, limits, lambda *_: None)[exercise]


# --- which statements are run ------------------------------------------------------------------


LESSON = """
import numpy as np, math
from time import sleep
SCALE = 2
TABLE = [helper(i) for i in range(3)]
TABLE.append(SCALE)
unused = sleep(1000)
for p in range(3):
    print(answer(p))
def helper(x):
    p = x
    return math.exp(p)
def answer(x):
    return TABLE[x] * np.pi
np.seterr(all="ignore")
while True: pass
check("00.1", answer)
check("00.1", lambda x: other(x))
other = answer
"""


def test_of_a_lesson_only_what_an_exercise_needs_is_run():
    kept = cells.needed(cells.statements(0, LESSON, own=False), ["answer"])
    lines = LESSON.splitlines()
    text = [lines[s.node.lineno - 1] for s in kept]
    assert text == [
        "import numpy as np, math", "SCALE = 2", "TABLE = [helper(i) for i in range(3)]",
        "TABLE.append(SCALE)", "def helper(x):", "def answer(x):", 'check("00.1", answer)',
        'check("00.1", lambda x: other(x))', "other = answer",
    ]  # fmt: skip


CHANGES = {
    "by a method": "table.append(1)",
    "in a loop": "for i in range(3):\n    table[i] = i",
    "by an attribute": "table.size = 3",
    "by deletion": "del table[0]",
    "in place": "table += [1]",
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_name_that_is_changed_has_its_changes(how):
    source = f"table = make()\n{CHANGES[how]}\ndef f():\n    return table"
    found = cells.statements(0, source, own=False)
    assert len(cells.needed(found, ["f"])) == len(found)


@pytest.mark.parametrize("lesson", lessons())
def test_a_lessons_experiments_are_not_run(lesson):
    """Nor where a name of theirs looks like one that an exercise needs."""
    work = understood(answered(lesson, {})["cells"], f"{lesson}.ipynb")
    every = [
        each
        for number, source in work.cells
        for each in cells.statements(number, source, own=number not in work.untouched)
    ]
    kept = cells.needed(every, [exercise.name for exercise in exercises(lesson)])
    assert len(kept) < len(every) / 4


def test_names_of_an_earlier_value_lead_no_further():
    source = "word = slow()\nfor word in slow():\n    pass\nword = 3\ndef f():\n    return word"
    kept = cells.needed(cells.statements(0, source, own=False), ["f"])
    assert [each.node.lineno for each in kept] == [4, 5]


@pytest.mark.parametrize(
    ("source", "said"),
    [("def f(x): return", ""), ("!ls", ""), ("%matplotlib inline", ""), ("f?", ""),
     ("%%html\n<b>", ""), ("%%time\nx = 1", "x"), ("x = await f()", "x")],
)  # fmt: skip
def test_magics_are_read(source, said):
    assert {*said} <= set().union(*(each.binds for each in cells.statements(0, source)))


# --- a notebook in another process --------------------------------------------------------------

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
    "a loop of one's own": [
        "async def best():\n    return np.argmax",
        "if __name__ == '__main__':\n    loop = asyncio.new_event_loop()\n"
        "    BEST = loop.run_until_complete(loop.create_task(best()))",
        "BEST = asyncio.run(best()) and BEST",
        "def best_token(p):\n    return int(BEST(p))",
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
    one = found(IMPORTS, *WHAT_JUPYTER_RUNS[what])
    assert (one.outcome, one.message) == ("✓", "")


BESIDE = "ModuleNotFoundError: No module named 'mytools'"


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["from mytools import best"], f"name 'best' is not defined ({BESIDE})"),
        (["best = [*open('best.txt')]"], "(FileNotFoundError: [Errno 2] No such file"),
        (["def best(p):\n    return rest(p)"], "name 'rest' is not defined"),
    ],
)
def test_a_name_that_is_missing_is_told_with_what_kept_it_from_being_bound(cells, said):
    """Each file is judged alone: what lay beside it is missing, and a NameError doesn't say so."""
    cells = [*cells, "def best_token(p):\n    return best(p)"]
    one = found(*cells)
    assert one.outcome == "✗"
    assert said in one.message


def test_threads_that_call_what_was_lent_wait_for_each_other():
    """Their requests stood in each other's lines."""
    source = """
import numpy as np
from concurrent.futures import ThreadPoolExecutor
def write_greedily(next_scores, prompt, max_tokens, stop):
    written = []
    while len(written) < max_tokens and stop not in written:
        with ThreadPoolExecutor(4) as pool:
            found = [*pool.map(next_scores, [prompt + written] * 6)]
        assert len({*map(tuple, found)}) == 1
        written.append(int(np.argmax(found[0])))
    return written
"""
    one = found(source, exercise="01.4", cpu=5.0)
    assert (one.outcome, one.message) == ("✓", "")


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
    one = found(source, exercise="01.4")
    assert (one.outcome, one.message) == ("✓", "")


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
    one = found(source, exercise="01.4")
    assert one.outcome == outcome


LENDING = ("01", "04", "10")  # lessons whose exercises lend a function or an object


@pytest.mark.parametrize(
    "lesson",
    [n if n in LENDING else pytest.param(n, marks=pytest.mark.slow) for n in lessons()],
)
def test_every_answer_is_judged_as_it_is_here(lesson):
    """The references, the other right answers and every named wrong one, word for word."""
    listed = exercises(lesson)
    answers = [(e, f) for e in listed for f in (e.reference, *e.alternatives, *e.wrong)]
    last = {function.__name__: function for _, function in answers}  # of two of the same name
    other = {*BY_CHANCE, *BY_IDENTITY}
    answers = [(e, f) for e, f in answers if last[f.__name__] is f and f.__name__ not in other]
    names = {function.__name__: function.__name__ for _, function in answers}
    # One that is another with one place changed stands in no file.
    changed = [inspect.getsource(f) for _, f in answers if f.__code__.co_filename[0] == "<"]
    with Process(OURS) as process:
        sources = [*enumerate([source_of_exercises(lesson), *changed])]
        there, problems = offered(process, sources, names)
        assert problems == {}
        for exercise, function in answers:
            name = function.__name__
            got = judge(exercise, Function(process, there[name][0], (name, 0), 60.0))
            assert repr(got) == repr(judge(exercise, function)), name


IN_ADVANCE = """
def try_drafts(layer, drafts, accepted):
    kept = layer.state.copy()
    for count, token in enumerate(drafts, 1):
        layer.read([token])
        if count == accepted:
            kept = layer.state.copy()
    layer.state = kept
"""


def test_a_checker_hears_when_what_it_lends_is_looked_at():
    """This one reads what the reference reads, and ends where it ends: it looks at other times."""
    one = found(IN_ADVANCE, exercise="10.3", cpu=60)
    assert (one.outcome, one.misconception) == ("✗", "verdict_in_advance")


def test_later_cells_have_what_an_earlier_one_imports_from_the_future():
    """Jupyter remembers it, and then no annotation is looked up."""
    right = "def best_token(p: Unknown):\n    return p.index(max(p))"
    assert found("from __future__ import annotations", right).outcome == "✓"


def test_a_statement_may_import_what_asks_for_more_than_there_is():
    """mlx_lm wants 4,096 open files when it is imported; the walls allow fewer."""
    right = "def best_token(p):\n    return p.index(max(p)) if generate else 0"
    assert found(f"import resource\nfrom mlx_lm import generate\n{right}").outcome == "✓"


SLOW = "def best_token(p):\n    while True:\n        pass"


def test_an_endless_loop_costs_its_exercise_and_says_so():
    one = found(SLOW, cpu=0.5)
    assert one.outcome == "!"
    assert one.message.startswith("calling it: it used more than 0.5 s of processor time: does")


def test_calls_of_an_exercise_share_its_time():
    code = "import time\ndef f(x):\n    end = time.process_time() + 0.2\n"
    code += "    while time.process_time() < end:\n        pass"
    with Process(Limits(cpu=0.5, has_walls=OURS.has_walls)) as process:
        there, _ = offered(process, [(0, code)], {"f": "f"})
        function = Function(process, there["f"][0], ("f", 0), 60.0)
        with pytest.raises(Gone, match="processor time"):
            [function(0) for _ in range(10)]


def test_experiments_have_a_time_for_all_of_them_and_cost_no_mark():
    loops = ["while True:\n    pass"] * 20
    right = "def best_token(p):\n    return p.index(max(p))"
    assert found(*loops, right, cpu=0.3).outcome == "✓"


def test_the_best_of_what_was_checked_counts_and_what_has_the_name_in_the_end():
    right = "def best_token(p):\n    return p.index(max(p))\n"
    assert found(f"{ZERO}check('00.1', best_token)\n{right}").outcome == "✓"
    assert found(f"{right}check('00.1', best_token)\n{ZERO}").outcome == "✓"
    assert found(f"{right.replace('best_token', 'mine')}check('00.1', mine)").outcome == "✓"


ENDS = {
    "exits": ("import os\nos._exit(3)", "it ended its process (exit code 3)"),
    "crashes": ("import ctypes\nctypes.string_at(0)", "its process was ended (signal 11)"),
}


@pytest.mark.parametrize("how", ENDS)
def test_who_wears_the_process_out_loses_the_file_and_is_told_why(how):
    source, said = ENDS[how]
    one = found(source, "def best_token(p):\n    return p.index(max(p))")
    assert one.outcome == "!"
    assert one.message.endswith(f"took the whole file: {said}")


def test_a_process_leaves_nothing_behind():
    with Process(Limits(has_walls=False)) as process:
        assert walls.Path(process._home).is_dir()
    assert process._process.returncode is not None
    assert not walls.Path(process._home).exists()

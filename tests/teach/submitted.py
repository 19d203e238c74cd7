"""A class of submissions: honest, odd, unlucky, cheating and destructive ones, and their due."""

import ast
import copy
import inspect
import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import lablib.course.lessons as course
from lablib.course.checks.exercises import exercises, lessons
from lablib.teach import cells
from lablib.teach.editions import edition, part_of, read_notebook

import numpy as np

# The order of a set is another one in each process, unless PYTHONHASHSEED is set.
BY_CHANCE = ("order_of_a_set", "whatever_a_set_says")
# Two numbers that are one object here are two in another process.
BY_IDENTITY = ("same_object",)
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@dataclass
class Case:
    """A submission: its text and what may be said of each exercise.

    ``due`` holds the marks that are right; ``like`` the misconception to be named, if any.
    """

    name: str  # of the student, too
    notebook: dict | str | Path  # a path is one that a link leads to
    due: dict[str, str]
    like: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        suffix = "ipynb" if isinstance(self.notebook, dict) else "py"
        path = folder / self.name / f"lesson.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(self.notebook, Path):
            path.symlink_to(self.notebook)
            return path
        text = self.notebook if suffix == "py" else json.dumps(self.notebook)
        path.write_text(text, encoding="utf-8")
        return path


def source_of_exercises(lesson: str) -> str:
    files = sorted(Path(course.__path__[0], f"lesson_{lesson}").glob("exercises*.py"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


@cache
def _statements(lesson: str, more: str = "") -> tuple[str, list[cells.Statement]]:
    source = source_of_exercises(lesson) + more
    return source, cells.statements(0, source, own=False)


def _changed(lesson: str, function: str) -> str:
    """Return the source of an answer that is another with one place changed: no file has it."""
    answers = [a for e in exercises(lesson) for a in (*e.alternatives, *e.wrong)]
    made = (a for a in answers if a.__name__ == function and a.__code__.co_filename[0] == "<")
    return "".join(f"\n\n{inspect.getsource(each)}\n" for each in made)


def answer_of(lesson: str, function: str, name: str) -> str:
    """Return the source of one of a lesson's answers, as a student would have written it."""
    made = _changed(lesson, function)
    source, everything = _statements(lesson, made)
    lines = source.splitlines()
    kept = cells.needed(copy.deepcopy(everything), [function])
    if made:  # where it has a name in the file, that is bound by a call of `changed`: no student's
        kept = [s for s in kept if not (isinstance(s.node, ast.Assign) and function in s.binds)]
    parts = ["\n".join(lines[s.node.lineno - 1 : s.node.end_lineno]) for s in kept]
    parts = [part for part in parts if not part.startswith(("from lablib", "@"))]
    if function == name:
        return "\n\n\n".join(parts)
    # One answer may lean on another, of its own exercise or of another one: the names that
    # exercises ask for are not theirs.
    asked = "|".join(exercise.name for exercise in exercises(lesson))
    parts = [re.sub(rf"\b({asked})\b", r"right_\1", part) for part in parts]
    return "\n\n\n".join([*parts, f"{name} = {function}"])


def blank(lesson: str) -> dict:
    """Return a lesson without outputs, the exercises of the pages beside it at its end."""
    (path,) = NOTEBOOKS.glob(f"{lesson}_*.ipynb")
    notebook = read_notebook(path)
    for page in sorted(NOTEBOOKS.glob(f"further/{lesson}_*.ipynb")):
        notebook["cells"] += [cell for cell in read_notebook(page)["cells"] if any(part_of(cell))]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return notebook


def answered(lesson: str, answers: dict[str, str]) -> dict:
    """Return a lesson with these answers, and solutions where there is none."""
    notebook = edition(blank(lesson), solved=True)
    for cell in notebook["cells"]:
        exercise, part = part_of(cell)
        if part == "starter" and exercise in answers:
            cell["source"] = answers[exercise]
    return notebook


def honest(*numbers: str) -> list[Case]:
    """Every lesson four times: untouched, solved, solved otherwise, and wrong all over."""
    found = []
    for lesson in numbers or lessons():
        listed = exercises(lesson)
        ids = [exercise.id for exercise in listed]
        found.append(Case(f"starter{lesson}", blank(lesson), dict.fromkeys(ids, "○")))
        found.append(Case(f"solved{lesson}", answered(lesson, {}), dict.fromkeys(ids, "✓")))
        other = {e.id: answer_of(lesson, e.alternatives[-1].__name__, e.name) for e in listed}
        found.append(Case(f"other{lesson}", answered(lesson, other), dict.fromkeys(ids, "✓")))
        choose = np.random.default_rng(int(lesson))
        names = {e.id: [name for name in e.misconceptions if name not in BY_CHANCE] for e in listed}
        like = {id_: each[choose.integers(len(each))] for id_, each in names.items()}
        wrong = {e.id: answer_of(lesson, like[e.id], e.name) for e in listed}
        found.append(Case(f"wrong{lesson}", answered(lesson, wrong), dict.fromkeys(ids, "✗"), like))
    return found


RIGHT = "def best_token(probabilities):\n    return int(np.argmax(probabilities))\n"
ZERO = "def best_token(probabilities):\n    return 0\n"

# What is ✓ in Jupyter, each as the answer to 00.1 in a notebook that is otherwise solved.
FAIR = {
    "lambda": "best_token = lambda p: max(range(len(p)), key=p.__getitem__)",
    "magic": "%matplotlib inline\n" + RIGHT,
    "timed": "%%time\n" + RIGHT,
    "timed_line": "%time ONE = 1\ndef best_token(p):\n    return int(np.argmax(p)) * ONE",
    "shell": "!echo hello\n" + RIGHT,
    "question": RIGHT + "\nbest_token?",
    "experiment": RIGHT + "\nprint(best_token([0.1, 0.9]), undefined_name)",
    "failing_assert": RIGHT + "\nassert best_token([1.0]) == 5",
    "system_exit": RIGHT + "\nraise SystemExit",
    "await": "import asyncio\nasync def one():\n    await asyncio.sleep(0)\n    return 1\n"
    "ONE = await one()\ndef best_token(p):\n    return int(np.argmax(p)) * ONE",
    "computed": "PLACES = [i * 2 // 2 for i in range(100)]\nPLACES.append(7)\n"
    "def best_token(p):\n    return PLACES[int(np.argmax(p))]",
    "recursion": "import sys\nsys.setrecursionlimit(5000)\n" + RIGHT,
    "late_helper": "FIRST = helper([1.0])\ndef best_token(p):\n    return helper(p) + FIRST\n"
    "def helper(p):\n    return int(np.argmax(p))",
    "dataclass": "from dataclasses import dataclass\n@dataclass\nclass Best:\n    at: int\n"
    "def best_token(p):\n    return Best(int(np.argmax(p))).at",
    "own_sum": "def sum(x):\n    return 0\n" + RIGHT.replace("return ", "return sum([5]) + "),
    "printing": RIGHT.replace("    return", "    print(probabilities)\n    return"),
    "loop_after": RIGHT + "for best_token.i in iter(int, 1):\n    pass",
    "future": "from __future__ import annotations\ndef best_token(p: Unknown) -> int:\n"
    "    return int(np.argmax(p))",
    "registered": "KNOWN = {}\ndef known(f):\n    KNOWN[f.__name__] = f\n    return f\n"
    "@known\ndef largest(p):\n    return int(np.argmax(p))\n"
    "def best_token(p):\n    return KNOWN['largest'](p)",
    "filled": "KNOWN = {}\ndef fill():\n    KNOWN.update((i, i) for i in range(999))\n"
    "    return len(KNOWN)\nCOUNT = fill()\n"
    "def best_token(p):\n    return KNOWN[int(np.argmax(p))]",
    "first_kept": f"{RIGHT}first = best_token\ndef best_token(p):\n    return first(p)",
    "checked_often": f"{ZERO}for _ in range(7):\n    check('00.1', best_token)\n{RIGHT}",
    "long_float": "def best_token(p):\n    return np.longdouble(np.argmax(p))",
    "numpy_number": "def best_token(p):\n    return np.argmax(p)",
    "mlx_number": "import mlx.core as mx\ndef best_token(p):\n    return mx.argmax(mx.array(p))",
}

# What must not be ✓; what else may be said of it.
CHEATS = {
    "patched": "import lablib.course.checks.comparing as c, lablib.course.checks.checking as k\n"
    "c.compare = k.compare = lambda *a: None\n" + ZERO,
    "patched_judge": "import lablib.course.checks.checking as k\n"
    "k.judge = k.check = k._find_fault = lambda *a: None\n" + ZERO,
    "imported": "from lablib.course.lessons.lesson_00.exercises import best_token",
    "imported_later": "def best_token(p):\n"
    "    from lablib.course.lessons.lesson_00.exercises import best_token\n"
    "    return best_token(p)",
    "solution": "exec(solution('00.1').source)",
    "solution_later": "def best_token(p):\n    space = {'np': np}\n"
    "    exec(solution('00.1').source, space)\n    return space['best_token'](p)",
    "found": "from lablib.course.checks.exercises import find\n"
    "def best_token(p):\n    return find('00.1').reference(p)",
    "stack": "import sys\ndef best_token(p):\n    frame = sys._getframe()\n    while frame:\n"
    "        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:\n"
    "            if hasattr(value, 'reference'):\n                return value.reference(p)\n"
    "        frame = frame.f_back\n    return 0",
    "memory": "import gc\ndef best_token(p):\n    for thing in gc.get_objects():\n"
    "        if type(thing).__name__ == 'Exercise':\n            return thing.reference(p)\n"
    "    return 0",
    "verdict_line": "import json, sys\ndef best_token(p):\n    for name in sys.argv[1:]:\n"
    "        with open(name, 'a') as file:\n"
    "            file.write(json.dumps(['00.1', {'outcome': '✓'}]) + '\\n')\n    return 0",
    "malformed": "import os\ndef best_token(p):\n    for number in range(20):\n        try:\n"
    "            os.write(number, b'not a message')\n        except OSError:\n"
    "            pass\n    return 0",
    "forged": "import os\ndef best_token(p):\n    for number in range(3, 20):\n        try:\n"
    '            os.write(number, b\'{"answer":1,"shared":[]}\\n\')\n'
    "        except OSError:\n            pass\n    return 0",
    "equal": "class Equal(float):\n    __eq__ = lambda a, b: True\n"
    "    __ne__ = lambda a, b: False\n"
    "    __sub__ = __rsub__ = lambda a, b: 0.0\n    __hash__ = lambda a: 0\n"
    "def best_token(p):\n    return Equal(77)",
    "equal_thing": "class Equal:\n    __eq__ = lambda a, b: True\n    __hash__ = lambda a: 0\n"
    "def best_token(p):\n    return Equal()",
    "own_check": "check = lambda *a: print('✓ 00.1 The best token: correct')\n" + ZERO,
    "builtins": "import builtins\nbuiltins.isinstance = lambda *a: True\n"
    "builtins.len = lambda *a: 0\n" + ZERO,
    "read": "import lablib.course.lessons as course\ndef best_token(p):\n"
    "    text = open(course.__path__[0] + '/lesson_00/exercises.py').read()\n"
    "    space = {'np': np}\n"
    "    exec(text[text.index('def best_token('):text.index('def best_token_with')], space)\n"
    "    return space['best_token'](p)",
    "unpacked": "import lablib, os, re, zlib\ndef best_token(p):\n"
    "    root = os.path.dirname(os.path.dirname(lablib.__file__)) + '/.git'\n"
    "    for folder, _, files in os.walk(root):\n        for file in files:\n"
    "            data = open(os.path.join(folder, file), 'rb').read()\n"
    "            for at in re.finditer(b'\\x78[\\x01\\x9c\\xda]', data):\n                try:\n"
    "                    text = zlib.decompressobj().decompress(data[at.start():])\n"
    "                except zlib.error:\n                    continue\n"
    "                if b'def best_token(' in text and b'BEST_TOKEN =' in text:\n"
    "                    space = {'np': np}\n                    exec(text, space)\n"
    "                    return space['best_token'](p)\n    return 0",
    "tells": "def best_token(p):\n    raise AssertionError('✓ correct')",
    "starter": "def best_token(probabilities):\n    raise NotImplementedError",
    "syntax": "def best_token(p:",
}

# What breaks things: it may cost its author what is judged after it, and nobody else anything.
KILLERS = {
    "exit_after": "import os\n" + RIGHT + "best_token.done = os._exit(0)",
    "exits": "import os\ndef best_token(p):\n    os._exit(0)",
    "exits_at_the_top": "import os\nbest_token = os._exit(0)",
    "kills": "import os\ndef best_token(p):\n    for each in (0, -1, os.getpid(), os.getppid()):\n"
    "        os.kill(each, 9)",
    "closes": "import os\ndef best_token(p):\n    os.closerange(0, 256)\n    return 1",
    "forks": "import os\ndef best_token(p):\n    while True:\n        os.fork()",
    "forks_at_the_top": "import os\nwhile True:\n    best_token = os.fork()",
    "forks_in_c": "import ctypes\ndef best_token(p):\n    return ctypes.CDLL(None).fork() and 7",
    "programs": "import subprocess\ndef best_token(p):\n    return subprocess.run(['true'])",
    "threads": "import threading, time\ndef best_token(p):\n    for _ in range(10_000):\n"
    "        threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n    return 7",
    "hoards": "def best_token(p):\n    return len(bytearray(10**12))",
    "hoards_slowly": "def best_token(p):\n    kept = []\n    while True:\n"
    "        kept.append(bytearray(10**8))",
    "writes": "def best_token(p):\n    with open('full', 'wb') as file:\n        while True:\n"
    "            file.write(bytes(10**7))",
    "writes_elsewhere": "import lablib\ndef best_token(p):\n"
    "    open(lablib.__file__, 'a').write('#')\n    return 7",
    "connects": "import socket\ndef best_token(p):\n"
    "    socket.create_connection(('1.1.1.1', 53), timeout=2)\n    return 7",
    "deep": "def best_token(p):\n    box = []\n    for _ in range(10**5):\n        box = [box]\n"
    "    return box",
    "huge": "def best_token(p):\n    return 10**10**5",
    "many": "def best_token(p):\n    return [0] * 10**7",
    "recurses": "def best_token(p):\n    return best_token(p)",
    "odd_error": "class Odd(Exception):\n    def __str__(self):\n        raise ValueError\n"
    "def best_token(p):\n    raise Odd",
    "odd_repr": "class Odd:\n    def __repr__(self):\n        raise ValueError\n"
    "def best_token(p):\n    return Odd()",
    "surrogate": "def best_token(p):\n    return '\\ud800'",
    "random": "import random, time, os\ndef best_token(p):\n    return random.random() + 3",
}
# A student's process may write what it likes into its line: here the text of a message.
RAW = """
import json, os
def raw(check, message):
    data = json.dumps(message).encode() + b"\\n"
    while data:
        data = data[os.write(check.__self__._out, data):]
"""
ANSWERS = RAW + "def best_token(p):\n    raw(check, {'answer': ANSWER})\n    return 0\n"
# Each is a program about 00.1 that is wrong, and costs whoever reads its answers too much.
COSTLY = {
    "long_text": f"{RAW}raw(check, {{'problem': [0, 0], 'text': 'A' * 8_000_000}})\n{ZERO}",
    "long_texts": f"{RAW}for _ in range(500):\n"
    f"    raw(check, {{'problem': [0, 0], 'text': 'A' * 3_000_000}})\n{ZERO}",
    "empty_rows": "def best_token(p):\n    return np.zeros((20_000_000, 0))",
    "many_empty_rows": "def best_token(p):\n    return np.zeros((10**10, 0))",
    "set": f"{ANSWERS}ANSWER = {{'set': [k * (2**61 - 1) for k in range(40_000)]}}",
    "dict": f"{ANSWERS}ANSWER = {{'dict': "
    "[[{'tuple': [k * (2**61 - 1)]}, 0] for k in range(20_000)]}",
    "rows": f"{ANSWERS}ANSWER = {{'array': ['<f8', [20_000_000, 0], '']}}",
    "lists": f"{ANSWERS}ANSWER = [[]] * 2_000_000",
}
KILLERS |= {f"wire_{name}": text for name, text in COSTLY.items()}
HOGS = {
    "endless": "def best_token(p):\n    while True:\n        pass",
    "endless_in_c": "import itertools, collections\ndef best_token(p):\n"
    "    return collections.deque(itertools.repeat(0), maxlen=0)",
    "stubborn": "def best_token(p):\n    while True:\n        try:\n            while True:\n"
    "                pass\n        except BaseException:\n            pass",
    "endless_at_the_top": "while True:\n    best_token = 1",
}


def odd() -> list[Case]:
    """Return notebooks of lesson 00 whose first answer is out of the ordinary."""
    rest = {"00.2": "✓", "00.3": "✓"}
    found = []
    for kind, texts, due in (
        ("fair", FAIR, "✓"), ("cheat", CHEATS, "✗!○≠"),
        ("killer", KILLERS, "✗!○"), ("hog", HOGS, "✗!"),
    ):  # fmt: skip
        for name, text in texts.items():
            notebook = answered("00", {"00.1": text})
            spoils = kind in ("killer", "hog") or name in ("forged", "malformed")
            lost = dict.fromkeys(rest, "✓✗!") if spoils else rest
            found.append(Case(f"{kind}_{name}", notebook, {"00.1": due, **lost}))
    return found + _shapes(rest)


def _shapes(rest: dict[str, str]) -> list[Case]:
    """Return notebooks whose form is out of the ordinary."""
    solved = answered("00", {})
    all_right = dict.fromkeys(("00.1", "00.2", "00.3"), "✓")
    bare = copy.deepcopy(solved)
    for cell in bare["cells"]:
        del cell["metadata"]
    turned = copy.deepcopy(solved)
    turned["cells"] = turned["cells"][:3] + turned["cells"][:2:-1]
    unchecked = copy.deepcopy(solved)
    unchecked["cells"] = [c for c in unchecked["cells"] if part_of(c)[1] != "check"]
    program = "\n".join(
        f"# %%\n{cell['source']}" if cell["cell_type"] == "code" else "# %% [markdown]\n# Text"
        for cell in solved["cells"]
    )
    exported = "\n".join(
        f"# In[ ]:\n\n{cell['source']}\n" for cell in solved["cells"] if cell["cell_type"] == "code"
    )
    once = answered("00", {"00.1": ZERO})
    for cell in once["cells"]:
        if part_of(cell) == ("00.1", "check"):
            text = "✓ 00.1 The best token: correct\n"
            data = {"text/plain": [text]}
            cell["outputs"] = [{"output_type": "execute_result", "data": data, "metadata": {}}]
    own = copy.deepcopy(solved)
    for cell in own["cells"]:
        if part_of(cell) == ("00.1", "check"):
            cell["source"] = 'for each in [lambda p: 0, best_token]:\n    check("00.1", each)'
    return [
        Case("fair_no_metadata", bare, all_right),
        Case("fair_turned_round", turned, all_right),
        Case("fair_no_check", unchecked, all_right),
        Case("fair_program", program, all_right),
        Case("fair_exported", exported, all_right),
        Case("fair_checked_otherwise", own, all_right),
        Case("differs", once, {"00.1": "≠", **rest}),
    ]

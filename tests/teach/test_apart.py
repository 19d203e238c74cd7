"""A function in another process is judged as it would be here, and can do nothing else."""

import inspect
import math
import re
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

from lablib.course.checks.checking import judge
from lablib.course.checks.exercises import exercises, find, lessons
from lablib.course.checks.running import Gone, TimeUp
from lablib.teach.apart import cells, codec, sandbox
from lablib.teach.apart.remote import Function, Limits, Process, not_kept_out
from lablib.teach.apart.surroundings import references
from lablib.teach.submission import understood

import mlx.core as mx
import numpy as np
import pytest
from submitted import BY_CHANCE, BY_IDENTITY, answered, source_of_exercises


def crossed(value):
    return codec.unpack(codec.loads(codec.dumps(codec.pack(value))))


@pytest.mark.parametrize(
    "value",
    [
        None, True, -3, 10**300, 0.1, math.inf, "ä\ud800\n", b"\x00\xff", Fraction(1, 3),
        [], [1, [2.5, None]], (1, (2,)), {"a": 1, (2, 3): [4]}, {1, 2}, frozenset({"x"}),
    ],
)  # fmt: skip
def test_plain_values_cross_as_they_are(value):
    got = crossed(value)
    assert got == value
    assert type(got) is type(value)


def test_the_signal_that_ended_a_process_is_told_by_its_number():
    with Process(Limits()) as process:
        assert [*process.run([(0, "import ctypes\ndef f(x):\n    ctypes.string_at(0)")], ["f"])]
        process.send({"offer": "f"})
        with pytest.raises(Gone, match=r"was ended \(signal 11\)"):
            Function(process, process.receive(30), 60.0)(0)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
def test_numbers_of_more_than_64_bits_cross_as_those_that_python_has(shape):
    """Where a longer one is as long as a float, on ARM's macOS say, it is one."""
    array = np.full(shape, 0.1, np.longdouble)
    for value in (array, array[()]):
        assert np.array_equal(crossed(value), np.full(shape, 0.1))
    assert repr(crossed(np.clongdouble(1j))) == "1j"


@pytest.mark.parametrize("kind", ["float32", "float64", "int8", "int64", "uint32", "bool"])
def test_arrays_cross_with_shape_and_type(kind):
    for shape in ((), (3,), (2, 0), (2, 3)):
        array = np.arange(math.prod(shape)).reshape(shape).astype(kind)
        got = crossed(array)
        assert (got.dtype, got.shape) == (array.dtype, shape)
        assert np.array_equal(got, array)
        assert got.flags.writeable
    number = np.ones(1, kind)[0]
    assert type(crossed(number)) is type(number)
    assert math.isnan(crossed(float("nan")))


def test_other_arrays_and_sequences_arrive_as_numbers():
    assert np.array_equal(crossed(mx.array([[1.5, 2.0]])), [[1.5, 2.0]])
    assert crossed(range(3)) == [0, 1, 2]
    assert crossed(np.array(["a", "b"])) == ["a", "b"]


def test_a_generator_of_random_numbers_crosses_with_its_state():
    here = np.random.default_rng(3)
    here.random(5)
    there = crossed(here)
    assert there.random() == here.random()
    here.integers(5)  # keeps half of its number for the next time
    assert crossed(here).integers(5, size=9).tolist() == here.integers(5, size=9).tolist()


class Equal(float):
    """Claims to be whatever it is compared with."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __sub__(self, other):
        return 0.0

    __rsub__ = __sub__


class EqualThing:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


def test_nothing_that_claims_to_be_equal_crosses_with_its_claim():
    assert crossed(Equal(7)) == 7.0
    assert type(crossed(Equal(7))) is float
    got = crossed(EqualThing())
    assert got != 3
    assert type(got).__name__ == "EqualThing"
    assert crossed(EqualThing()) == got  # the same answer twice is the same answer
    assert type(crossed(print)).__name__ == "builtin_function_or_method"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"nonsense", b'{"array":["O",[1],"AAAA"]}', b'{"array":["<f8",[9],"AAAA"]}',
        b'{"array":["(99,99",[1],"AAAA"]}', b'{"array":["<f8",[-1],"AAAA"]}', b'{"pickle":"x"}',
        b'{"a":1,"b":2}', b"[" * 100_000,
        b'{"dict":[[[1],2]]}', b'{"fraction":["1","0"]}', b'{"generator":{"bit_generator":"X"}}',
        b'{"set":[[1]]}', b'{"tuple":3}', b"1" * 5000, b"[" * 60 + b"]" * 60, b'{"function":9}',
    ],
)  # fmt: skip
def test_what_no_honest_process_sends_is_refused(data):
    with pytest.raises(codec.Garbled):
        codec.unpack(codec.loads(data))


def test_an_answer_that_is_too_large_does_not_cross():
    with pytest.raises(ValueError, match="too large"):
        codec.pack(range(2**20 + 1))
    with pytest.raises(ValueError, match="too large"):
        codec.dumps(codec.pack(np.zeros(2**21)))


def test_what_a_function_left_of_its_arguments_is_put_in_their_place():
    inner = np.zeros(2)
    old = [inner, [1], {"a": [2]}, (inner,), 5]
    codec.restore(old, [np.ones(2), [1, 7], {"b": 3}, (np.ones(2),), 6])
    assert old[0] is inner
    assert inner.tolist() == [1, 1]
    assert old[1:3] == [[1, 7], {"b": 3}]
    assert old[4] == 6
    codec.restore(old, [])
    assert old == []


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


def test_only_what_an_exercise_needs_is_run():
    kept = cells.needed(cells.statements(0, LESSON, "cell"), ["answer"])
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
    found = cells.statements(0, source, "cell")
    assert len(cells.needed(found, ["f"])) == len(found)


FILL = "def fill():\n    table.append(1)\n    return table"
MAY_CHANGE = {
    "by a function": "def fill():\n    table.append(1)\nfill()",
    "by one that calls it": "def a():\n    table[0] = 1\ndef b():\n    a()\nb()",
    "by a decorator": "def note(f):\n    table.append(f)\n    return f\n@note\ndef g():\n    pass",
    "by await": "async def fill():\n    table.append(1)\nawait fill()",
    "by with": "class C:\n    def __enter__(self):\n        table.append(1)\nwith C():\n    pass",
    "as what is left": "new = add(table, 1, out=table)",
    "by global": "def anew():\n    global table\n    table = [1]\nanew()",
    "by pop": "first = table.pop(0)",
    "by setdefault": "for i in range(3):\n    last = table.setdefault(i, 1)",
    "in a comprehension": "[table.append(i) for i in range(3)]",
    "by another name": "row = table[0]\nrow.append(1)",
    "in a loop": "for i, row in enumerate(table):\n    row[0] = i",
    "by what is registered": "@table.register\ndef g():\n    pass",
    "by what is registered for": "@table.register(int)\ndef g():\n    pass",
    "by an object that is called": "@table\ndef g():\n    pass",
    "with a hint": "row: list[int] = table[0]\nrow[0] = 1",
    "in a chain": "row = first = table[0]\nfirst[0] = 1",
    "in a pair": "row, other = table[0], table[1]\nrow[0] = 1",
    "by one of two": "row = table[0] if table else table[1]\nrow[0] = 1",
    "in passing": "print(row := table[0])\nrow[0] = 1",
    "through a list": "rows = [row for row in table]\nrows[0][0] = 1",
    "by a match": "match table:\n    case [row]:\n        row[0] = 1",
    "by a view": "flat = table.ravel()\nflat[0] = 1",
    "by a thread": "def fill():\n    table.append(1)\nt: T = Thread(target=fill)\nt.start()",
    "by a partial": "go = partial(add, table)\ngo()",
    "for what it returns": f"{FILL}\nn = fill()",
    "within an expression": f"{FILL}\nprint('filled', len(fill()))",
    "in a loop that makes a list": f"{FILL}\n[fill() for _ in range(3)]",
    "by map": f"{FILL}\nlist(map(lambda _: fill(), range(3)))",
    "in a condition": f"{FILL}\nif fill():\n    pass",
    "in an assert": f"{FILL}\nassert fill()",
    "by a name of its own": f"{FILL}\ngo = fill\ngo()",
    "by a lambda": "fill = lambda: table.append(1)\nfill()",
    "as an argument": "def fill(t):\n    t.append(1)\n    return t\nn = fill(table)",
    "as a named argument": "def fill(t):\n    t.append(1)\nfill(t=table)",
    "as a default": "def fill(t=table):\n    t.append(1)\nfill()",
    "in a class": "class C:\n    table.append(1)",
    "when an object is made": "class C:\n    def __init__(self):\n        table.append(1)\nc = C()",
    "by a method": "class C:\n    def go(self):\n        table.append(1)\nc = C()\nn = c.go()",
    "by a subclass": "class C:\n    def __init_subclass__(cls):\n        table.append(1)\n"
    "class D(C):\n    pass",
    "of what a function makes": "def go():\n    global other\n    other = table\n    return 1\n"
    "n = go()",
    "by what is no statement": "import array\nexec('table.append(array)')",
}


@pytest.mark.parametrize("how", MAY_CHANGE)
def test_what_may_change_a_name_is_run_in_a_second_try(how):
    source = f"table = make()\n{MAY_CHANGE[how]}\ndef f():\n    return table, other"
    found = cells.statements(0, source, "cell")
    assert len(cells.needed(found, ["f"])) < len(found)
    assert len(cells.needed(found, ["f"], wide=True)) == len(found)


@pytest.mark.parametrize(
    "line",
    [
        "sys.setrecursionlimit(5000)", "setrecursionlimit(5000)", "getcontext().prec = 50",
        "decimal.getcontext().prec = 50", "builtins.best = max", "sys.path += ['more']",
        "if sys.platform:\n    sys.setrecursionlimit(5000)", "sys.setrecursionlimit(MOST)",
        "setrecursionlimit(MOST)", "getcontext().prec = MOST", "builtins.best = MOST",
        "del sys.modules['this']", "sys.modules['this'] = MOST",
    ],
)  # fmt: skip
def test_what_is_set_up_without_a_name_is_run_in_a_second_try(line):
    """And no picture is drawn."""
    source = "import builtins, decimal, sys\nfrom decimal import getcontext\n"
    source += f"from sys import setrecursionlimit\nMOST = 5000\n{line}\ndef f():\n    return best"
    found = cells.statements(0, source, "cell")
    assert found[4] not in cells.needed(found, ["f"])
    assert found[4] in cells.needed(found, ["f"], wide=True)
    source = "import time, matplotlib.pyplot as plt\nlong = curves()\nplt.plot(long)\n"
    idle = cells.statements(0, f"{source}plt.show()\ntime.sleep(60)\ndef f():\n    pass", "cell")
    assert cells.needed(idle, ["f"], wide=True) == [idle[-1]]


OTHERS = """
target = load()
curves = slow(target)
table = []
"""
EXPERIMENTS = """
print(curves)
mine = run(target)
plot(mine)
while True: pass
"""


def test_no_second_try_runs_what_has_to_do_with_no_name_of_an_answers():
    """Nor does a lesson's own name connect two: both of these have to do with its model."""
    cell = "def f(x):\n    return target, kept, x\nkept = []\nfill(target, kept)"
    theirs = cells.statements(0, OTHERS, "cell", own=False)
    experiments = cells.statements(1, EXPERIMENTS, "cell")
    answer = cells.statements(2, cell, "cell")
    kept = cells.needed(theirs + experiments + answer, ["f"], wide=True)
    assert kept == [theirs[0], experiments[1], experiments[2], *answer]
    answer = cells.statements(2, cell.replace("return target", "return 1"), "cell")
    kept = cells.needed(theirs + experiments + answer, ["f"], wide=True)
    assert kept == [theirs[0], *answer]


@pytest.mark.parametrize(
    "source",
    [
        "from numpy import *", "any((found := x) > 1 for x in [1, 2])",
        "x = [(found := x) for x in [1, 2]]",
    ],
)  # fmt: skip
def test_names_that_are_bound_in_passing_are_there(source):
    every = cells.statements(0, f"{source}\ndef f(p):\n    return found + argmax(p)", "cell")
    assert len(cells.needed(every, ["f"])) == 2


def test_who_used_an_earlier_function_of_the_same_name_has_that():
    source = "def f():\n    return 1\nfirst = f\ny = f()\ndef f():\n    return first()"
    kept = cells.needed(cells.statements(0, f"{source}\ncheck('00.1', f)", "cell"), ["f"])
    assert [s.place[1] for s in kept] == [0, 1, 3, 4]


@pytest.mark.parametrize("lesson", lessons())
def test_a_lessons_experiments_are_not_run(lesson):
    """Nor where a name of theirs looks like one that an exercise needs."""
    cells_of = answered(lesson, {})["cells"]
    work = understood(cells_of, f"{lesson}.ipynb")
    every = [
        each
        for number, source in work.cells
        for each in cells.statements(number, source, "cell", own=number not in work.untouched)
    ]
    names = [exercise.name for exercise in exercises(lesson)]
    kept = cells.needed(every, names)
    assert len(kept) < len(every) / 8
    second = [each for each in cells.needed(every, names, wide=True) if each not in kept]
    assert second == []  # and no second try is made of them


@pytest.mark.parametrize("lesson", lessons())
def test_no_lesson_gives_an_exercises_name_away_behind_its_check(lesson):
    """What has the name in the end is judged, too: it must be the student's."""
    cells_of = answered(lesson, {})["cells"]
    code = [(i, cell["source"]) for i, cell in enumerate(cells_of) if cell["cell_type"] == "code"]
    every = [each for number, source in code for each in cells.statements(number, source, "cell")]
    for name in [exercise.name for exercise in exercises(lesson)]:
        check = min(each.place for each in every if {"check", name} <= each.uses)
        assert [each.place for each in every if name in each.binds and each.place > check] == []


@pytest.mark.parametrize(
    "own",
    [
        "for word in range(3):\n    table.append(word)",
        "for i, word in enumerate('ab'):\n    table[i] = word",
        "word = 3\ntable.append(word)", "word: int = 3\ntable.append(word)",
        "word = [1]\nword += [2]\ntable += word", "from words import word\ntable += [word]",
        "def word():\n    return 3\ntable.append(word())",
    ],
)  # fmt: skip
@pytest.mark.parametrize("wide", [False, True])
def test_what_a_lesson_calls_as_a_student_does_is_not_run(own: str, wide: bool) -> None:
    """One helper that was called so had all of lesson 17 run, and its answers lost."""
    before = cells.statements(0, "word = slow()\nfor word in slow():\n    pass", "cell", own=False)
    answer = f"table = []\n{own}\ndef f():\n    return table, word\ncheck('00.1', f)"
    answer = cells.statements(1, answer, "cell")
    after = cells.statements(2, "word = slow()\nprint(word)", "cell", own=False)
    assert cells.needed([*before, *answer, *after], ["f"], wide) == answer


@pytest.mark.parametrize(
    "made",
    [
        "class word(word):\n    pass", "def word(x, word=word):\n    return word(x)",
        "def word(x, *, word=word):\n    return word(x)", "@word\ndef word(x):\n    pass",
        "class word(metaclass=word):\n    pass", "word = word(3)",
    ],
)  # fmt: skip
def test_what_is_made_of_an_earlier_thing_of_its_name_has_that(made: str) -> None:
    source = f"from words import word\n{made}\ndef f():\n    return word"
    found = cells.statements(0, source, "cell")
    assert cells.needed(found, ["f"]) == found


def test_who_uses_a_value_has_it_as_it_was_then() -> None:
    source = (
        "x = 1\nif x:\n    x = x + 1\nfirst = x\nx = 5\ny = x\nx[0] = 2\ndef f():\n    return first"
    )
    kept = cells.needed(cells.statements(0, source, "cell"), ["f"])
    assert [s.place[1] for s in kept] == [0, 1, 2, 6]
    source = (
        "def f():\n    return late() + g(later)\ny = later\nlater = late()\ndef late():\n    pass"
    )
    found = cells.statements(0, source, "cell")
    assert cells.needed(found, ["f"]) == [found[0], *found[2:]]


def test_what_a_function_keeps_for_itself_has_no_experiment_run():
    source = "kept = {}\ndef f(x):\n    kept[x] = x\n    return kept[x]\nprint(f(3))\ny = f(4)"
    assert len(cells.needed(cells.statements(0, source, "cell"), ["f"])) == 2


def test_later_cells_have_what_an_earlier_one_imports_from_the_future():
    """Jupyter remembers it, and then no annotation is looked up."""
    code = [(0, "from __future__ import annotations"), (1, "def f(x: Unknown):\n    return x")]
    with Process(Limits()) as process:
        assert not [told for told in process.run(code, ["f"]) if "problem" in told]


@pytest.mark.parametrize(
    "own", ["f = lambda: 1", "def f():\n    return f", "f = lambda: 2\nf = twice(f)"]
)
def test_what_a_lesson_called_so_before_is_not_run(own):
    source = f"f = slow()\nfor f in slower():\n    pass\n{own}\ncheck('00.1', f)\nf = late()"
    kept = cells.needed(cells.statements(0, source, "cell"), ["f"])
    assert {s.node.lineno for s in kept}.isdisjoint({1, 2})
    assert len(kept) == own.count("f = ") + own.count("def") + 2


@pytest.mark.parametrize(
    ("source", "binds"),
    [
        ("%%time\nx = 1", {"x"}), ("get_ipython().run_cell_magic('time', '', 'x = 1')", {"x"}),
        ("get_ipython().run_cell_magic('time')\ny = 2", {"y"}), ("%time x = 1", {"x"}),
        ("%matplotlib inline", set()),
        ("!ls\ny = 2", {"y"}), ("x = await f()", {"x"}), ("%%html\n<b>x = 1</b>", set()),
        ("a = (5\n% 3)", {"a"}), ("class C:\n    z = 1", {"C"}), ("f?", set()),
        ("def f():\n    global g\n    g = 1", {"f"}),
    ],
)  # fmt: skip
def test_magics_are_run_or_left_out(source, binds):
    found = cells.statements(0, source, "cell")
    assert set().union(*(s.binds for s in found)) == binds


# --- a function in another process -------------------------------------------------------------


LONG = Limits(seconds=300, statement=60)  # the machine may be busy
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
    with Process(LONG) as process:
        names = [function.__name__ for _, function in answers]
        # One that is another with one place changed stands in no file.
        changed = [inspect.getsource(f) for _, f in answers if f.__code__.co_filename[0] == "<"]
        sources = [*enumerate([source_of_exercises(lesson), *changed])]
        process.send({"cells": sources, "functions": names, "skip": [], "wide": False})
        while "done" not in (told := process.receive(60)):
            assert "problem" not in told, told
        for exercise, function in answers:
            process.send({"offer": function.__name__})
            told = process.receive(5)
            got = judge(exercise, Function(process, told, 60.0))
            process.send({"enough": True})
            assert repr(got) == repr(judge(exercise, function)), function.__name__


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
    with Process(LONG) as process:
        assert [told for told in process.run([(0, IN_ADVANCE)], ["try_drafts"]) if "at" in told]
        process.send({"offer": "try_drafts"})
        outcome = judge(find("10.3"), Function(process, process.receive(30), 60.0))
    assert (outcome.mark, outcome.misconception) == ("✗", "verdict_in_advance")


def test_a_statement_may_import_what_asks_for_more_than_there_is():
    """mlx_lm wants 4,096 open files when it is imported; the walls allow fewer."""
    source = "import resource\nfrom mlx_lm import generate\ndef f(p):\n    return 1"
    with Process(Limits()) as process:
        assert [told for told in process.run([(0, source)], ["f"]) if "problem" in told] == []


def test_a_process_leaves_nothing_behind():
    with Process(Limits()) as process:
        folder = process._folder
    assert process._process.returncode is not None
    assert not Path(folder).exists()


@pytest.mark.skipif(not Path("/proc/self/ns/user").exists(), reason="Linux' walls")
def test_where_there_are_no_walls_it_is_said():
    """Namespaces in which no further ones may be made stand for a machine that has none."""
    code = "from lablib.teach.apart.remote import not_kept_out; print(not_kept_out())"
    script = f'echo 0 > /proc/sys/user/max_user_namespaces && exec {sys.executable} -c "{code}"'
    if subprocess.run(["unshare", "-Ur", "true"]).returncode:
        pytest.skip("no user namespaces here")
    command = ["unshare", "-Ur", "sh", "-c", script]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "the network and other files of yours (no user namespaces" in said
    assert not_kept_out() == []


def test_every_reference_lies_in_a_file_that_is_hidden():
    assert {inspect.getsourcefile(each.reference) for each in exercises()} <= {*references()}


def test_the_references_of_another_copy_are_hidden_too(tmp_path, monkeypatch):
    """A venv may hold lablib as a copy, beside the clone that grades."""
    packages = tmp_path / "site-packages"
    copy = packages / "lablib" / "course" / "lessons" / "lesson_07" / "exercises.py"
    copy.parent.mkdir(parents=True)
    copy.write_text("")
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    assert str(copy) in references()


def test_the_profile_for_macos_names_every_wall():
    order = {"folder": "/tmp/f", "see": ["/Users/t/lab/lablib"]}
    order["hide"] = ["/Users/t/lab", "/Users/t/lab/lablib/exercises.py"]
    profile = sandbox._profile(order)
    for wall in ("(deny network*)", "(deny file-write*)", '(allow file-write* (subpath "/tmp/f")'):
        assert wall in profile
    told = re.findall(r'\((\w+) file-read-data \(subpath "([^"]+)"\)\)', profile)
    of = [rule for rule in told if rule[1].startswith("/Users") or rule[1] == "/tmp/f"]
    assert of == [  # of two the later counts, so the deeper one comes later
        ("deny", "/Users"), ("deny", "/Users/t/lab"), ("allow", "/Users/t/lab/lablib"),
        ("deny", "/Users/t/lab/lablib/exercises.py"), ("allow", "/tmp/f"),
    ]  # fmt: skip


CHAT = """
import os
def chat():
    more, at, number = b'\\0\\0\\0\\x0c{"at":[0,0]}' * 9999, 0, 4
    while True:
        try:
            at = (at + os.write(number, more[at:])) % len(more)
        except OSError:
            number = number % 20 + 1
said = chat()
"""


def test_who_never_stops_talking_is_not_heard_for_ever():
    with Process(Limits(seconds=60)) as process:
        told = process.run([(0, CHAT)], ["said"])
        with pytest.raises(Gone, match="does not stop talking"):
            for _ in told:
                pass
        process.send({"offer": "said"})  # an answer's time is limited, however much is said
        process.deadline = time.monotonic() + 2
        with pytest.raises(TimeUp):
            assert all(iter(lambda: process.receive(60), None))
        assert time.monotonic() < process.deadline + 1


def test_a_signal_to_its_group_reaches_nobody_else():
    """Else who waits above ends, and with it, some time later, whatever is judged then."""
    if sys.platform != "linux" or not_kept_out():
        pytest.skip("no namespaces here: the group is its own anyway")
    code = "import os\nfrom contextlib import suppress\ndef f(x):\n"
    code += "    with suppress(OSError):\n        os.kill(0, 9)\n    return x"
    with Process(Limits()) as process:
        assert [*process.run([(0, code)], ["f"])]
        process.send({"offer": "f"})
        function = Function(process, process.receive(30), 60.0)
        for number in range(3):
            assert function(number) == number
            time.sleep(0.2)

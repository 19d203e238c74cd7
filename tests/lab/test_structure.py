"""The house keeps its measure: an engine that is small and breathes, in rooms that point one way.

What is counted, and how, says the top of ``tests/structure.py``; run it to see all of it.
"""

import ast
from pathlib import Path

from lablib.course.checks.exercises import number_of

import pytest
import structure

ROOT = Path(__file__).parents[2]

# From the ground up: a room uses what stands below it. What has no room, a file right inside
# ``lablib/``, stands beside the house: what a room reaches through it counts as the room's own.
FLOORS = ("machine", "models", "cache", "inference", "course", "teach", "tools")
AROUND = {"course", "teach", "tools"}  # the engine, all the rest, imports nothing of these

# The package, whose table of lazy names has some of every room; the command line, which runs all.
DOORS = {"lablib", "lablib.__main__"}

# The first taste, arrays, the bug hunts and the capstones: what they use the others have opened.
OPENS_NOTHING_NEW = {"00", "00a", "15", "16"}

# What a reader counts: tokens, not lines. Libraries of this kind that one likes to read have 6 to
# 10 of them a line, no walrus a thousand lines, and leave their layout to the formatter.
# How many tokens there are, and which way one goes, is bounded in tests/sizes.md.


@pytest.fixture(scope="module")
def package() -> structure.Package:
    return structure.Package(ROOT)


@pytest.fixture(scope="module")
def found(package: structure.Package) -> dict:
    return structure.structure(package)


@pytest.fixture(scope="module")
def engine(found: dict) -> dict[str, float]:
    return found["density"]["engine"]


# --- how the engine reads ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "most"),
    [("tokens a line", 10.0), ("walruses a thousand lines", 0.0), ("skips", 0)],
)
def test_the_engine_breathes(engine: dict[str, float], name: str, most: float) -> None:
    assert engine[name] <= most


def test_no_function_is_longer_than_a_screen(package: structure.Package) -> None:
    long = [f for f in package.functions() if f.lines > structure.SCREEN]
    assert not long, long


def test_things_have_nouns_for_names(package: structure.Package) -> None:
    banned = {"told", "asked", "meant", "lent", "found", "apart", "few", "party", "wish"}
    names = [
        (file, node.lineno, str(getattr(node, kind)))
        for file in package.engine
        for node in ast.walk(package.trees[file])
        for kind in ("id", "arg", "name", "attr")
        if str(getattr(node, kind, "")).strip("_").lower() in banned
    ]
    assert [name for _, _, name in names] == ["Found"], names  # an alias until 1.0


def test_the_engine_has_one_decoding_loop(found: dict) -> None:
    assert len(found["decoding loops"]) == 1, found["decoding loops"]


NONE = (
    "modules of one name",
    "docstrings with What, How, Whether",
    "cycles",
    "cycles with imports inside functions",
    "cycles between the folders of inference",
)


@pytest.mark.parametrize("name", NONE)
def test_there_are_none_of(found: dict, name: str) -> None:
    assert not found[name]


# --- which way the imports point --------------------------------------------------------------
def room(module: str) -> str:
    """Return the room of a module, "" where it has none."""
    names = module.split(".")
    return names[1] if len(names) > 1 and names[1] in FLOORS else ""


def every_import(package: structure.Package) -> structure.Graph:
    """Return all imports, those inside functions and the lazy names of packages among them.

    Nothing leads through the doors.
    """
    loading = package.imports(deferred=False)
    graph = structure.joined(loading, package.imports(deferred=True))
    graph = structure.joined(graph, package.exported())
    return {node: edges - DOORS for node, edges in graph.items() if node not in DOORS}


def climbing(package: structure.Package) -> list[tuple[str, str]]:
    """Return the imports, also through files that have no room, that do not point down."""
    graph = every_import(package)
    inner = [module for module in graph if room(module)]
    found = []
    for module in inner:
        height = FLOORS.index(room(module))
        reached = structure.reachable(graph, module, through=lambda node: not room(node))
        above = {other for other in reached if room(other) in FLOORS[height + 1 :]}
        found += [(module, other) for other in sorted(above)]
    return found


def leaving(package: structure.Package) -> list[tuple[str, str]]:
    """Return the engine's imports of what stands around it."""
    graph = every_import(package)
    modules = [structure.module_name(file) for file in package.engine]
    return [
        (module, other)
        for module in modules
        for other in sorted(graph.get(module, ()))
        if room(other) in AROUND
    ]


def test_the_house_has_these_rooms_only(package: structure.Package) -> None:
    rooms = {structure.room_of(file) for file in package.sources} - {"(top)"}
    assert rooms == set(FLOORS)


def test_rooms_use_only_what_stands_below_them(package: structure.Package) -> None:
    assert climbing(package) == []


def test_the_engine_uses_nothing_around_it(package: structure.Package) -> None:
    assert leaving(package) == []


def test_an_import_that_climbs_is_found(tmp_path: Path) -> None:
    table = 'from lablib.lazy import exports\nexports(__name__, {"lablib.course.d": "D check"})'
    files = {
        "__init__": table,
        "__main__": "import lablib.tools.t, lablib.teach.e",
        "lazy": "",
        "text": "from lablib.inference.b import f",
        "machine/a": "def f():\n    from lablib.cache import c",
        "cache/__init__": "",
        "cache/c": "from lablib.text import generate",
        "inference/__init__": table,
        "inference/b": "import lablib.cache.c, lablib.lazy\nfrom lablib import D",
        "course/d": "import lablib.text",
        "teach/e": "import lablib.course.d",
        "tools/t": "import lablib.teach.e, lablib.text",
    }
    package = write(tmp_path, **files)
    up = [("lablib.inference", "lablib.course.d"), ("lablib.inference.b", "lablib.course.d")]
    through = [("lablib.cache.c", "lablib.inference.b"), ("lablib.machine.a", "lablib.cache.c")]
    assert sorted(climbing(package)) == sorted(up + through)
    assert sorted(leaving(package)) == up
    files["text"] = "def f():\n    import lablib.tools.t"
    package = write(tmp_path, **files)
    assert ("lablib.text", "lablib.tools.t") in leaving(package)
    assert ("lablib.course.d", "lablib.tools.t") in climbing(package)


def test_every_folder_has_at_most_seven_floors(found: dict) -> None:
    floors = found["floors"] | {"inference": found["floors"]["inference, its rooms"]}
    high = {name: f["path"] for name, f in floors.items() if len(f["path"]) > 7}
    assert not high, high


# --- what the lessons open --------------------------------------------------------------------
def test_every_lesson_opens_a_function_that_fits_on_a_screen(found: dict) -> None:
    for row in found["lessons"]:
        assert row["lines"] is not None, f"no such function: {row}"
        assert row["lines"] <= structure.SCREEN, row
    notebooks = {number_of(path.name) for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    assert {row["lesson"] for row in found["lessons"]} >= notebooks - OPENS_NOTHING_NEW


# --- the measure itself -----------------------------------------------------------------------
def write(root: Path, **files: str) -> structure.Package:
    for name, text in {"__init__": "", "inference/__init__": "", **files}.items():
        path = root / "lablib" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return structure.Package(root)


def test_planted_cycles_and_floors_are_found(tmp_path: Path) -> None:
    files = {
        "inference/a/x": "from lablib.inference.b import y",
        "inference/a/z": "",
        "inference/b/__init__": "",
        "inference/b/y": "def f():\n    from lablib.inference.a import z",
        "inference/c": "from lablib.inference.c import g\nimport lablib.inference.a.x",
    }
    found = structure.structure(write(tmp_path, **files))
    assert found["cycles"] == found["cycles with imports inside functions"] == []
    circle = ["lablib.inference.a", "lablib.inference.b"]
    assert found["cycles between the folders of inference"] == [circle]
    assert found["floors"]["inference, its rooms"]["path"] == ["lablib.inference.c", *circle]
    floors = found["floors"]["inference"]
    assert (floors["floors"], floors["with imports inside functions"]) == (3, 4)
    files["inference/a/z"] = "class C:\n    def g(self):\n        import lablib.inference.a.x"
    found = structure.structure(write(tmp_path, **files))
    circle = ["lablib.inference.a.x", "lablib.inference.a.z", "lablib.inference.b.y"]
    assert found["cycles"] == []
    assert found["cycles with imports inside functions"] == [circle]


def test_lazy_names_are_followed_to_their_module(tmp_path: Path) -> None:
    table = 'from lablib.lazy import exports\nexports(__name__, {"f": "lablib.inference.far"})'
    files = {
        "inference/__init__": table,
        "inference/far": "from lablib.inference.near import g",
        "inference/near": "from lablib.inference import f",
    }
    package = write(tmp_path, **files)
    found = structure.structure(package)
    assert found["cycles"] == [["lablib.inference.far", "lablib.inference.near"]]
    assert package.exported()["lablib.inference"] == {"lablib.inference.far"}


def test_sizes_and_the_map_are_read(tmp_path: Path) -> None:
    text = '"""Docs.\n\n    01  cache/kv.py  f, C.g\n        a/none.py  f\n    02  a/x.py  h\n"""\n'
    files = {
        "inference/__init__": text,
        "inference/a/x": "x = 1\n",
        "cache/kv": 'def f():\n    """Do.\n\n    So.\n    """\n    return 1\n\n\n'
        "class C:\n    def g(self): ...\n",
        "course/e": "y = 2\n",
        "models/checkpoints/m": "no code at all",
    }
    package = write(tmp_path, **files)
    sizes = {"(top)": 0, "cache": 10, "course": 1, "inference": 7}
    assert package.lines() == sizes | {"engine": 17, "all": 18}
    assert [(f.name, f.lines) for f in package.functions()] == [("f", 2), ("C.g", 1)]
    rows = [(row["lesson"], row["name"], row["lines"]) for row in package.lessons()]
    assert rows == [("01", "f", 2), ("01", "C.g", 1), ("01", "f", None), ("02", "h", None)]


def test_tokens_are_counted(tmp_path: Path) -> None:
    text = '''"""How it is."""

def f(x):  # fmt: skip
    r"""What it does."""
    if (y := x):
        return f"{y!r} and {y + 1} {f'{x}'}"
    z = """
    text """; return z
'''
    package = write(tmp_path, **{"models/m": text, "workshop/w": text, "tools/t": text})
    density = package.density()
    assert set(density) == {"(top)", "inference", "models", "engine"}
    assert density["engine"] == density["models"]
    # def f ( x ) : | if ( y := x ) : | return f"…" | z = """…""" | ; return z
    models = structure.Density(lines=8, code_lines=5, tokens=6 + 7 + 2 + 3 + 3, walruses=1, skips=1)
    assert density["models"] == models
    ratios = {"tokens a line": 21 / 5, "walruses a thousand lines": 200.0}
    assert models.report().items() >= ratios.items()
    assert package.questions() == ["module models/m.py", "function models/m.py f"]


def test_names_that_stand_for_two_things_are_found(tmp_path: Path) -> None:
    rooms = ("inference/a", "inference/b", "cache", "course")
    package = write(tmp_path, **{f"{room}/tree": "" for room in rooms})
    trees = ["cache/tree.py", "inference/a/tree.py", "inference/b/tree.py"]
    assert package.modules_of_one_name() == {"tree": trees}


LOOPS = """
class Loop:
    def run(self):
        while self.rows:
            with self.held():
                self._step()

    def whole(self):
        while self.rows:
            logits = self.target.read(self.rows)
            for row, token in zip(self.rows, self.judge(logits)):
                row.append(round(token))

    def nested(self):
        for part in self.parts:
            while part.left:
                part.advance()

    def catch_up(self):
        while self.unread:
            self.reader.forward(self.unread.pop())
            later = lambda: self.step()

    def drain(self):
        for token in self.step():
            print(token)
"""


def test_decoding_loops_are_found(tmp_path: Path) -> None:
    files = {"inference/a": LOOPS, "inference/async_lm/b": LOOPS, "cache/c": LOOPS}
    package = write(tmp_path, **files)
    names = ["Loop.run (line 4)", "Loop.whole (line 9)", "Loop.nested (line 16)"]
    assert package.decoding_loops() == [f"inference/a.py {name}" for name in names]


def test_a_walk_is_followed(tmp_path: Path) -> None:
    files = {
        "first": "def double(x):\n    return [same(x) for _ in range(2)]\n",
        "second": "def same(x):\n    return part(x)\n\n\ndef values():\n    yield 1\n",
        "models/third": "def part(x):\n    return (lambda: x)()\n",
    }
    write(tmp_path, **files)
    home = tmp_path / "lablib"
    names: dict = {}
    for file in files:
        path = home / f"{file}.py"
        exec(compile(path.read_text(), str(path), "exec"), names)

    def action() -> None:
        names["double"](1)
        names["double"](2)
        list(names["values"]())

    first, second, third = "first.py", "second.py", "models/third.py"
    twice = [first, second, third, second, third]
    # The generator is called twice, for its value and for its end.
    assert structure.walk(action, home) == twice + twice + [second, second]
    numbers = {"files": 2, "calls": 8, "changes of file": 3, "names": [first, second]}
    assert structure.watched(action, home) == numbers

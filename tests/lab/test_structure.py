"""The house keeps its measure: small rooms, no cycles, few floors, lessons that open one screen."""

from pathlib import Path

import pytest
import structure

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def package() -> structure.Package:
    return structure.Package(ROOT)


@pytest.fixture(scope="module")
def found(package: structure.Package) -> dict:
    return structure.structure(package)


# From the ground up: a room uses what stands below it, nothing beside it and nothing above.
HOUSE = (
    "installed", "validation lazy folders pages", "extras openblas", "backend", "machine",
    "theory tasks",
    "models", "cache", "inference", "drafters", "text verifiers replay", "plots", "lessons",
    "classroom", "workshop", "demo lab", "__main__",
)  # fmt: skip
# A lesson's exercises are made of the classroom's parts, and the classroom looks them up by name.
BOTH_WAYS = {("lessons", "classroom")}

# The first taste, the bug hunts and the capstones: what they use the others have opened. Lesson 14
# opens the workshop's sweeps, which are around the engine and not in it.
OPENS_NOTHING_NEW = {"00", "14", "15", "16"}

# Lines: what one can read in a few evenings. What only uses the engine (text, verifiers, drafters,
# replays) and what only computes (theory) stands in rooms of its own.
MOST = 8000


def test_the_core_is_small(found: dict) -> None:
    core = found["lines"]["core"]
    assert 1000 < core < MOST, (
        f"models, cache and inference have {core} lines of {MOST} at most: look for what can go. "
        "If what came in is worth its lines, raise the bound and say why in the commit."
    )


def climbing(package: structure.Package) -> list[tuple[str, str]]:
    """Return the imports that do not point down the house."""
    floor = {room: height for height, rooms in enumerate(HOUSE) for room in rooms.split()}
    graph = structure.joined(package.imports(deferred=False), package.imports(deferred=True))
    found = []
    for module, edges in graph.items():
        for edge in edges - {"lablib"}:
            rooms = tuple(name.split(".")[1] for name in (module, edge) if name != "lablib")
            if len(rooms) == 2 and rooms[0] != rooms[1] and rooms not in BOTH_WAYS:
                found += [(module, edge)] if floor[rooms[1]] >= floor[rooms[0]] else []
    return found


def test_rooms_use_only_what_stands_below_them(package: structure.Package) -> None:
    assert climbing(package) == []


def test_an_import_that_climbs_is_found(tmp_path: Path) -> None:
    files = {
        "theory/a": "def f():\n    from lablib.inference import b",
        "inference/b": "import lablib.theory.a, lablib.cache.c",
        "cache/__init__": "",
        "cache/c": "from lablib.validation import x",
        "validation": "",
    }
    assert climbing(write(tmp_path, **files)) == [("lablib.theory.a", "lablib.inference.b")]


def test_no_function_is_longer_than_a_screen(package: structure.Package) -> None:
    long = [f for f in package.functions() if f.lines > structure.SCREEN]
    assert not long, long


def test_nothing_imports_in_a_circle(found: dict) -> None:
    assert found["cycles"] == []
    assert found["cycles with imports inside functions"] == []
    assert found["cycles between the folders of inference"] == []


def test_every_folder_has_at_most_seven_floors(found: dict) -> None:
    floors = found["floors"] | {"inference": found["floors"]["inference, its rooms"]}
    high = {name: f["path"] for name, f in floors.items() if len(f["path"]) > 7}
    assert not high, high


def test_every_lesson_opens_a_function_that_fits_on_a_screen(found: dict) -> None:
    for row in found["lessons"]:
        assert row["lines"] is not None, f"no such function: {row}"
        assert row["lines"] <= structure.SCREEN, row
    notebooks = {path.name[:2] for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
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
    found = structure.structure(write(tmp_path, **files))
    assert found["cycles"] == [["lablib.inference.far", "lablib.inference.near"]]


def test_sizes_and_the_map_are_read(tmp_path: Path) -> None:
    text = '"""Docs.\n\n    01  cache/kv.py  f, C.g\n        a/none.py  f\n    02  a/x.py  h\n"""\n'
    files = {
        "inference/__init__": text,
        "inference/a/x": "x = 1\n",
        "cache/kv": "def f():\n    return 1\n\n\nclass C:\n    def g(self): ...\n",
        "models/checkpoints/m": "no code at all",
    }
    package = write(tmp_path, **files)
    assert package.lines() == {"(top)": 0, "cache": 6, "inference": 7, "core": 13, "all": 13}
    assert [(f.name, f.lines) for f in package.functions()] == [("f", 2), ("C.g", 1)]
    rows = [(row["lesson"], row["name"], row["lines"]) for row in package.lessons()]
    assert rows == [("01", "f", 2), ("01", "C.g", 1), ("01", "f", None), ("02", "h", None)]


def test_calls_are_counted() -> None:
    from lablib.validation import integer

    numbers = structure.watched(lambda: [integer("n", n) for n in range(3)])
    assert (numbers["files"], numbers["calls"], numbers["names"]) == (1, 3, ["validation.py"])

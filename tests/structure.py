"""Measures the shape of a checkout: sizes, imports, and what runs for twelve tokens.

    python tests/structure.py [--root PATH] [--json]

It reads any checkout of lablib, older ones too, so that two can be compared.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

ROOT = Path(__file__).parents[1]
CORE = ("models", "cache", "inference")
SCREEN = 60  # lines of a function that one can see at once
PROMPT = "On a sunny day, Mia finds"

Graph = dict[str, set[str]]  # module or folder -> what it imports


@dataclass(frozen=True)
class Function:
    """One function or method of the package, and the lines it takes."""

    file: str
    name: str
    line: int
    lines: int


class Package:
    """The Python files of ``root/lablib``, parsed; stored checkpoints are data and left out."""

    def __init__(self, root: Path):
        self.path = root / "lablib"
        files = sorted(path for path in self.path.rglob("*.py") if "checkpoints" not in path.parts)
        self.sources = {path.relative_to(self.path).as_posix(): path.read_text() for path in files}
        self.trees = {file: ast.parse(text) for file, text in self.sources.items()}
        self.modules = {module_name(file): file for file in self.sources}

    # --- sizes --------------------------------------------------------------------------------

    def lines(self) -> dict[str, int]:
        """Return the lines of each room, of the core, and of everything."""
        rooms: dict[str, int] = {}
        for file, text in self.sources.items():
            room = file.split("/")[0] if "/" in file else "(top)"
            rooms[room] = rooms.get(room, 0) + len(text.splitlines())
        core, total = sum(rooms.get(room, 0) for room in CORE), sum(rooms.values())
        return dict(sorted(rooms.items())) | {"core": core, "all": total}

    def files_over(self, lines: int) -> dict[str, int]:
        """Return the files that are longer than ``lines``."""
        sizes = {file: len(text.splitlines()) for file, text in self.sources.items()}
        return {file: size for file, size in sizes.items() if size > lines}

    def functions(self, rooms: Iterable[str] = ("",)) -> list[Function]:
        """Return the functions in the folders ``rooms``, the longest first."""
        found = [
            Function(file, name, node.lineno, node.end_lineno - node.lineno + 1)
            for file, tree in self.trees.items()
            if file.startswith(tuple(rooms))
            for name, node in definitions(tree)
            if not isinstance(node, ast.ClassDef)
        ]
        return sorted(found, key=lambda f: (-f.lines, f.file, f.line))

    # --- imports ------------------------------------------------------------------------------

    def imports(self, deferred: bool) -> Graph:
        """Return which module imports which: on loading, or with ``deferred`` inside functions.

        A name taken from a package is followed to the module that defines it where the package
        says so in its table of ``exports(…)``. That a module's parents are loaded before it is no
        import of its own.
        """
        graph: Graph = {module: set() for module in self.modules}
        for module, file in self.modules.items():
            for node in import_nodes(self.trees[file], deferred):
                graph[module] |= self._targets(node)
            graph[module].discard(module)
        return graph

    def _targets(self, node: ast.Import | ast.ImportFrom) -> set[str]:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module is None or node.level:
            raise ValueError(f"relative imports are not followed: line {node.lineno}")
        else:
            exports = self._exports(node.module)
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [
                name if name in self.modules else exports.get(name.split(".")[-1], node.module)
                for name in names
            ]
        return {name for name in names if name in self.modules}

    def _exports(self, module: str) -> dict[str, str]:
        """Return public name -> module of a package that loads its names lazily."""
        tree = self.trees[self.modules[module]] if module in self.modules else ast.Module([], [])
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "exports":
                names = ast.literal_eval(node.args[1])
                if all(value.startswith("lablib.") for value in names.values()):
                    return names  # as it was written once: older checkouts are measured too
                return {name: module for module, some in names.items() for name in some.split()}
        return {}

    # --- lessons ------------------------------------------------------------------------------

    def lessons(self) -> list[dict[str, Any]]:
        """Return what each lesson opens, after the map in ``inference/__init__.py``'s docstring.

        A line of the map is ``03  sampling/transforms.py  min_p, top_p``; ``lines`` is None where
        the file has no such function, and ``file`` is None where there is no such file.
        """
        text = ast.get_docstring(self.trees["inference/__init__.py"]) or ""
        found = []
        entry = re.compile(r"^\s*(\d\d)?\s+(\S+\.py)\s+(\w[\w.]*(?:, *\w[\w.]*)*)", re.MULTILINE)
        lesson = None
        for number, path, names in entry.findall(text):
            lesson = number or lesson  # a line without a number goes on with the lesson above
            places = (f"inference/{path}", path, path.removeprefix("lablib/"))
            file = next((place for place in places if place in self.trees), None)
            sizes = {
                name: node.end_lineno - node.lineno + 1
                for name, node in (definitions(self.trees[file]) if file else ())
            }
            for name in re.split(", *", names):
                row = {"lesson": lesson, "path": path, "name": name}
                found.append(row | {"file": file, "lines": sizes.get(name)})
        return found


def module_name(file: str) -> str:
    """Return ``lablib.cache.kv`` for ``cache/kv.py``."""
    name = "lablib." + file.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def definitions(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each function and class with its dotted name, from the top of the file down."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield outer + node.name, node
            yield from definitions(node, f"{outer}{node.name}.")
        else:
            yield from definitions(node, outer)


def import_nodes(tree: ast.AST, deferred: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports inside functions (``deferred``), or those that run when a module loads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            if not deferred:
                yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            if deferred:
                yield from import_nodes(node, deferred=False)
        else:
            yield from import_nodes(node, deferred)


# --- graphs -----------------------------------------------------------------------------------


def joined(first: Graph, second: Graph) -> Graph:
    """Return the edges of both graphs, which have the same nodes."""
    return {node: edges | second[node] for node, edges in first.items()}


def within(graph: Graph, folder: str) -> Graph:
    """Return the part of a graph of modules that lies in one folder, ``"inference/voting"``."""
    prefix = "lablib." + folder.replace("/", ".") + "."
    return {
        node: {edge for edge in edges if edge.startswith(prefix)}
        for node, edges in graph.items()
        if node.startswith(prefix)
    }


def by_folder(graph: Graph, folder: str) -> Graph:
    """Return the same graph between the folders and single files right inside ``folder``."""
    depth = folder.count("/") + 3
    inside = within(graph, folder)

    def place(module: str) -> str:
        return ".".join(module.split(".")[:depth])

    result: Graph = {place(module): set() for module in inside}
    for module, edges in inside.items():
        result[place(module)] |= {place(edge) for edge in edges} - {place(module)}
    return result


def cycles(graph: Graph) -> list[list[str]]:
    """Return the groups of nodes that reach each other."""
    reach = {node: reachable(graph, node) for node in graph}
    groups = {
        tuple(sorted(other for other in reach[node] if node in reach[other])) for node in graph
    }
    return [list(group) for group in sorted(groups) if group]


def reachable(graph: Graph, start: str) -> set[str]:
    """Return every node at the end of a path of at least one edge from ``start``."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for edge in graph.get(waiting.pop(), ()):
            if edge in graph and edge not in seen:
                seen.add(edge)
                waiting.append(edge)
    return seen


def floors(graph: Graph) -> list[str]:
    """Return one longest path of imports, from the top floor down; a cycle is walked once."""
    longest: dict[str, list[str]] = {}

    def below(node: str, above: frozenset[str]) -> list[str]:
        if node not in longest:
            paths = [below(edge, above | {node}) for edge in graph[node] if edge not in above]
            longest[node] = [node, *max(paths, key=len, default=[])]
        return longest[node]

    return max((below(node, frozenset((node,))) for node in sorted(graph)), key=len, default=[])


# --- what runs --------------------------------------------------------------------------------


INLINED = {"<listcomp>", "<setcomp>", "<dictcomp>"}  # calls up to Python 3.11, no longer after it


def watched(action: Any) -> dict[str, int]:
    """Return the calls of Python functions, generators' steps included, and files of an action."""
    import lablib

    home, calls = str(Path(lablib.__file__).parent) + os.sep, []

    def count(frame: Any, event: str, _: Any) -> None:
        if frame.f_code.co_name in INLINED:
            return
        if event == "call" and frame.f_code.co_filename.startswith(home):
            calls.append(frame.f_code.co_filename.removeprefix(home))

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    outside = [file for file in calls if not file.startswith("models" + os.sep)]
    return {
        "files": len(set(calls)), "calls": len(calls),
        "files outside the models": len(set(outside)), "calls outside the models": len(outside),
        "names": sorted(set(calls)),
    }  # fmt: skip


def run() -> dict[str, Any]:
    """Return what runs for twelve speculative tokens and in a vote, with the lablib on the path."""
    import lablib

    target, tokenizer = lablib.load("target")
    draft, _ = lablib.load("draft")
    prompt = tokenizer.encode(PROMPT)
    found: dict[str, Any] = {"package": str(Path(lablib.__file__).parent)}
    for name, options in {
        "temperature 0": {"temperature": 0.0},
        "temperature 0.8": {"temperature": 0.8},
        "temperature 0.8, match": {"temperature": 0.8, "rule": "match"},
    }.items():

        def whole(options: dict[str, Any] = options) -> None:
            lablib.speculative_decode(target, draft, prompt, 12, seed=1, **options)

        def iterator(options: dict[str, Any] = options) -> Iterator[Any]:
            return lablib.SpeculativeTokenIterator(
                target, draft, prompt, max_tokens=12, seed=1, **options
            )

        whole()  # what a first call imports and compiles is not counted
        found[name] = {"whole": watched(whole)}
        with iterator() as tokens:
            found[name]["after construction"] = watched(lambda tokens=tokens: list(tokens))

    def vote() -> None:
        lablib.majority_vote(target, prompt, n=8, max_tokens=12, seed=0)

    vote()
    found["vote"] = {"whole": watched(vote)}
    return found


def run_in(root: Path) -> dict[str, Any]:
    """Return :func:`run` of the checkout in ``root``, from a process of its own."""
    code = "import json, structure; print(json.dumps(structure.run()))"
    path = os.pathsep.join([str(root), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, cwd=root,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    if Path(found["package"]).resolve() != (root / "lablib").resolve():
        raise RuntimeError(f"measured {found['package']} instead of {root}")
    return found


# --- the report -------------------------------------------------------------------------------


def structure(package: Package) -> dict[str, Any]:
    """Return what can be told without running anything."""
    loading = package.imports(deferred=False)
    everything = joined(loading, package.imports(deferred=True))
    folders = ["inference", *(f"inference/{name}" for name in subfolders(package, "inference"))]
    return {
        "lines": package.lines(),
        "files over 400 lines": package.files_over(400),
        "longest in the core": [vars(f) for f in package.functions(CORE)[:8]],
        "longest": [vars(f) for f in package.functions()[:8]],
        "over a screen": {
            "core": sum(f.lines > SCREEN for f in package.functions(CORE)),
            "all": sum(f.lines > SCREEN for f in package.functions()),
        },
        "cycles": cycles(loading),
        "cycles with imports inside functions": cycles(everything),
        "cycles between the folders of inference": cycles(by_folder(everything, "inference")),
        "floors": {
            "inference, its rooms": height(
                by_folder(loading, "inference"), by_folder(everything, "inference")
            )
        }
        | {
            folder: height(within(loading, folder), within(everything, folder))
            for folder in (*folders, "models", "cache")
        },
        "lessons": package.lessons(),
    }


def height(loading: Graph, everything: Graph) -> dict[str, Any]:
    """Return how many floors of imports a part of the package has, and one longest path."""
    return {
        "nodes": len(loading),
        "floors": len(floors(loading)),
        "with imports inside functions": len(floors(everything)),
        "path": floors(everything),
    }


def subfolders(package: Package, folder: str) -> list[str]:
    """Return the folders with Python files right inside a folder of the package."""
    inside = (file.removeprefix(folder + "/") for file in package.sources if folder + "/" in file)
    return sorted({rest.split("/")[0] for rest in inside if "/" in rest})


def tables(found: dict[str, Any]) -> str:
    """Return everything found as tables of text."""
    parts = []

    def table(title: str, rows: list[Any], headers: Any = ()) -> None:
        parts.append(f"## {title}\n\n" + (tabulate(rows, headers, "github") if rows else "none"))

    table("Lines of Python by room", list(found["lines"].items()), ["room", "lines"])
    rows = [
        [name, part, *list(numbers.values())[:4]]
        for name, parts_of in found["running"].items()
        if name != "package"
        for part, numbers in parts_of.items()
    ]
    headers = ["", "part", "files", "calls", "files outside models", "calls outside models"]
    table("What runs: twelve speculative tokens, and a vote of eight", rows, headers)
    files = found["running"]["temperature 0.8"]["whole"]["names"]
    parts.append(f"Files at temperature 0.8: {', '.join(files)}")
    parts.append(f"Files of a vote: {', '.join(found['running']['vote']['whole']['names'])}")
    table("Functions over a screen", list(found["over a screen"].items()), ["where", "functions"])
    table("The longest functions of the core", found["longest in the core"], "keys")
    table("The longest functions", found["longest"], "keys")
    long_files = list(found["files over 400 lines"].items())
    table("Files over 400 lines", long_files, ["file", "lines"])
    for kind in (key for key in found if key.startswith("cycles")):
        table(f"Import {kind}", [[" ".join(cycle)] for cycle in found[kind]])
    rows = [[folder, *list(numbers.values())[:3]] for folder, numbers in found["floors"].items()]
    headers = ["folder", "modules or rooms", "floors", "with imports inside functions"]
    table("Floors of imports", rows, headers)
    parts.append("The longest: " + " → ".join(found["floors"]["inference"]["path"]))
    table("What a lesson opens", found["lessons"], "keys")
    return "\n\n".join(parts)


def main() -> None:
    """Print the structure of a checkout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout (default: this one)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    found = structure(Package(root)) | {"running": run_in(root)}
    print(json.dumps(found, indent=2) if arguments.json else tables(found))


if __name__ == "__main__":
    main()

"""Measures the shape of a checkout: sizes, density, imports, and what runs for twelve tokens.

    python tests/structure.py [--root PATH]

It reads any checkout of lablib, older ones too, so that two can be compared. The *engine* is all of
``lablib/`` but what teaches, grades and makes it (``OUTSIDE``), and but stored checkpoints.

A **token** is a name, an operator, a number or a string; an f-string is one. Docstrings and other
strings in three quotes that begin their line are none. A **line of code** is one where a token
begins. A **function's lines** are those from its ``def`` to its end without its docstring.

A **decoding loop** is a ``while`` or ``for`` of ``inference/`` (but of ``async_lm``, which writes
no text) that itself, and no loop or function inside it, calls what brings texts one token or one
round further: something named as in ``STEPS``; or both something that forwards, as in ``FORWARDS``,
and something that chooses tokens, as in ``CHOICES``. Underscores at the front don't matter.

A **walk** is what runs for twelve tokens: the calls of Python functions in ``lablib/``, in their
order, of a whole call of the library, argument checks and construction included, in the thread that
calls. It is the second such call: what a first one imports and compiles is not in it. Files in
``models/`` are not counted, nor what has no name (lambdas, comprehensions, generator expressions);
a generator is called again for each value. A **change of file** is a pair of calls, one right after
the other, in different files; returns are not looked at. The seed is 1, so both walks with a draft
hold for the machine's arithmetic: other tokens make other rounds.

The **way of a token** is what runs for one token more, in the middle of a text: the calls of a text
of nine tokens that one of eight has not. Here everything counts: lambdas, comprehensions and
models. The model is the simplest there can be, so that the models' part is what the library asks of
it.
"""

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OLDER = {"lessons", "plots", "replay", "theory", "tasks", "classroom", "workshop"}
OUTSIDE = {"course", "teach", "tools"} | OLDER  # folders right inside lablib/
SCREEN = 60  # lines of a function that one can see at once
PROMPT = "On a sunny day, Mia finds"

STEPS = {"advance", "decode", "round", "run_round", "step"}
FORWARDS = {"forward", "model", "read", "target"}
CHOICES = {"choose", "decide", "draw", "judge", "plain", "sample"}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.While, ast.For, ast.AsyncFor)

Graph = dict[str, set[str]]  # module or folder -> what it imports


@dataclass(frozen=True)
class Function:
    """One function or method of the package, and the lines it takes without its docstring."""

    file: str
    name: str
    line: int
    lines: int


@dataclass(frozen=True)
class Density:
    """How much stands in some files, and how close."""

    lines: int = 0
    code_lines: int = 0
    tokens: int = 0
    walruses: int = 0
    skips: int = 0  # comments that keep the formatter away

    def __add__(self, other: "Density") -> "Density":
        """Return the density of both together."""
        pairs = zip(asdict(self).values(), asdict(other).values(), strict=True)
        return Density(*map(sum, pairs))

    def report(self) -> dict[str, float]:
        """Return all numbers, and their ratios."""
        code_lines = max(1, self.code_lines)
        ratios = {
            "tokens a line": self.tokens / code_lines,
            "walruses a thousand lines": 1000 * self.walruses / code_lines,
        }
        return asdict(self) | ratios


class Package:
    """The Python files of ``root/lablib``, parsed; stored checkpoints are data and left out."""

    def __init__(self, root: Path):
        self.path = root / "lablib"
        files = sorted(path for path in self.path.rglob("*.py") if "checkpoints" not in path.parts)
        self.sources = {path.relative_to(self.path).as_posix(): path.read_text() for path in files}
        self.trees = {file: ast.parse(text) for file, text in self.sources.items()}
        self.modules = {module_name(file): file for file in self.sources}
        self.engine = [file for file in self.sources if room_of(file) not in OUTSIDE]

    # --- sizes --------------------------------------------------------------------------------

    def lines(self) -> dict[str, int]:
        """Return the lines of each room, of the engine, and of everything."""
        rooms: dict[str, int] = {}
        for file, text in self.sources.items():
            room = room_of(file)
            rooms[room] = rooms.get(room, 0) + len(text.splitlines())
        engine = {room_of(file) for file in self.engine}
        sums = {
            "engine": sum(lines for room, lines in rooms.items() if room in engine),
            "all": sum(rooms.values()),
        }
        return dict(sorted(rooms.items())) | sums

    def files_over(self, lines: int) -> dict[str, int]:
        """Return the files that are longer than ``lines``."""
        sizes = {file: len(text.splitlines()) for file, text in self.sources.items()}
        return {file: size for file, size in sizes.items() if size > lines}

    def functions(self, files: Iterable[str] | None = None) -> list[Function]:
        """Return the functions of ``files``, of all if None; the longest first."""
        found = [
            Function(file, name, node.lineno, lines_of(node))
            for file in (self.sources if files is None else files)
            for name, node in definitions(self.trees[file])
            if isinstance(node, FUNCTIONS)
        ]
        return sorted(found, key=lambda f: (-f.lines, f.file, f.line))

    # --- how it reads -------------------------------------------------------------------------

    def density(self) -> dict[str, Density]:
        """Return the density of each room of the engine, and of the engine."""
        rooms: dict[str, Density] = {}
        for file in self.engine:
            room = room_of(file)
            here = density_of(self.sources[file], self.trees[file])
            rooms[room] = rooms.get(room, Density()) + here
        whole = sum(rooms.values(), start=Density())
        return dict(sorted(rooms.items())) | {"engine": whole}

    def modules_of_one_name(self) -> dict[str, list[str]]:
        """Return the names that several modules of the engine have, with their files."""
        names = [(Path(file).stem, file) for file in self.engine]
        return several(pair for pair in names if pair[0] not in ("__init__", "__main__"))

    def questions(self) -> list[str]:
        """Return where a docstring of the engine begins with What, How or Whether."""
        found = []
        for file in self.engine:
            tree = self.trees[file]
            for name, node in [("", tree), *definitions(tree)]:
                text = ast.get_docstring(node) or ""
                if re.match(r"(What|How|Whether)\b", text):
                    found.append(f"{kind_of(node)} {file} {name}".rstrip())
        return found

    def inference(self) -> list[str]:
        """Return the files of ``inference``."""
        return [file for file in self.engine if room_of(file) == "inference"]

    def writers(self) -> Iterator[tuple[str, Any]]:
        """Yield the functions of ``inference`` without ``async_lm``, each with where it is."""
        for file in self.inference():
            if not file.startswith("inference/async_lm/"):
                for name, node in definitions(self.trees[file]):
                    if isinstance(node, FUNCTIONS):
                        yield f"{file} {name}", node

    def decoding_loops(self) -> list[str]:
        """Return where the decoding loops are; what one is says the top of this file."""
        return [
            f"{where} (line {node.lineno})"
            for where, function in self.writers()
            for node in inside(function, (*FUNCTIONS, ast.Lambda))
            if isinstance(node, LOOPS) and decodes(node)
        ]

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

    def exported(self) -> Graph:
        """Return which modules each package names in its table of ``exports(…)``."""
        return {
            module: set(self._exports(module).values()) & set(self.modules) - {module}
            for module in self.modules
        }

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
        entry = re.compile(r"^\s*(\d\d\w?)?\s+(\S+\.py)\s+(\w[\w.]*(?:, *\w[\w.]*)*)", re.MULTILINE)
        lesson = None
        for number, path, names in entry.findall(text):
            lesson = number or lesson  # a line without a number goes on with the lesson above
            places = (f"inference/{path}", path, path.removeprefix("lablib/"))
            file = next((place for place in places if place in self.trees), None)
            inner = definitions(self.trees[file]) if file else ()
            sizes = {name: lines_of(node) for name, node in inner}
            for name in re.split(", *", names):
                row = {"lesson": lesson, "path": path, "name": name}
                found.append(row | {"file": file, "lines": sizes.get(name)})
        return found


# --- files and functions ----------------------------------------------------------------------


def room_of(file: str) -> str:
    """Return the folder right inside ``lablib/`` that a file lies in, or ``(top)``."""
    return file.split("/")[0] if "/" in file else "(top)"


def module_name(file: str) -> str:
    """Return ``lablib.cache.kv`` for ``cache/kv.py``."""
    name = "lablib." + file.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def kind_of(node: ast.AST) -> str:
    """Return "module", "class" or "function"."""
    if isinstance(node, ast.Module):
        return "module"
    return "class" if isinstance(node, ast.ClassDef) else "function"


def several(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names that come with several places, and these."""
    places: dict[str, list[str]] = {}
    for name, place in pairs:
        places.setdefault(name, []).append(place)
    return {name: places[name] for name in sorted(places) if len(places[name]) > 1}


def lines_of(node: Any) -> int:
    """Return the lines of a function or class without its docstring."""
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is None:
        return lines
    docstring = node.body[0]
    return lines - (docstring.end_lineno - docstring.lineno + 1)


def density_of(text: str, tree: ast.AST) -> Density:
    """Return the density of one file."""
    tokens = list(tokens_of(text))
    readline = io.StringIO(text).readline
    comments = [
        token.string
        for token in tokenize.generate_tokens(readline)
        if token.type == tokenize.COMMENT
    ]
    return Density(
        lines=len(text.splitlines()),
        code_lines=len({token.start[0] for token in tokens}),
        tokens=len(tokens),
        walruses=sum(isinstance(node, ast.NamedExpr) for node in ast.walk(tree)),
        skips=sum(bool(re.search(r"fmt: *(skip|off)", comment)) for comment in comments),
    )


def tokens_of(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the names, operators, numbers and strings of a file, but no docstring.

    Python 3.12 takes f-strings apart; what is inside one is not counted, as before.
    """
    counted = {tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING}
    starts = {getattr(tokenize, name, None) for name in ("FSTRING_START", "TSTRING_START")}
    ends = {getattr(tokenize, name, None) for name in ("FSTRING_END", "TSTRING_END")}
    lines = text.split("\n")
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in ends:
            depth -= 1
        elif token.type in starts:
            if depth == 0:
                yield token
            depth += 1
        elif depth == 0 and token.type in counted:
            line = lines[token.start[0] - 1].lstrip()
            if token.type != tokenize.STRING or not line.startswith(('"""', 'r"""')):
                yield token


def definitions(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each function and class with its dotted name, from the top of the file down."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield outer + node.name, node
            yield from definitions(node, f"{outer}{node.name}.")
        else:
            yield from definitions(node, outer)


def inside(node: ast.AST, stop: tuple[type, ...]) -> Iterator[ast.AST]:
    """Yield what is below ``node``, but nothing below nodes of the kinds ``stop``.

    What a ``for`` loop goes through is evaluated before it, and is not below it.
    """
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, stop):
            yield from inside(child, stop)
        elif isinstance(child, ast.For | ast.AsyncFor):
            yield child.iter
            yield from inside(child.iter, stop)


def called(call: ast.Call) -> str:
    """Return the name of what is called, a method's without its object, "" if it has none."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    name = getattr(call.func, "id", "")
    return "" if name == "round" else name  # Python's own


def calls_in(node: ast.AST, stop: tuple[type, ...]) -> list[ast.Call]:
    """Return the calls below ``node``, but not those below nodes of the kinds ``stop``."""
    return [child for child in inside(node, stop) if isinstance(child, ast.Call)]


def decodes(loop: ast.While | ast.For | ast.AsyncFor) -> bool:
    """Return whether this is a decoding loop."""
    again = [*loop.body, loop.test] if isinstance(loop, ast.While) else loop.body
    calls = calls_in(ast.Tuple(again), (*LOOPS, *FUNCTIONS, ast.Lambda))
    names = {called(call).lstrip("_") for call in calls}
    return bool(names & STEPS or (names & FORWARDS and names & CHOICES))


def import_nodes(tree: ast.AST, deferred: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports inside functions (``deferred``), or those that run when a module loads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            if not deferred:
                yield node
        elif isinstance(node, (*FUNCTIONS, ast.Lambda)):
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
    part = within(graph, folder)

    def place(module: str) -> str:
        return ".".join(module.split(".")[:depth])

    result: Graph = {place(module): set() for module in part}
    for module, edges in part.items():
        result[place(module)] |= {place(edge) for edge in edges} - {place(module)}
    return result


def cycles(graph: Graph) -> list[list[str]]:
    """Return the groups of nodes that reach each other."""
    reach = {node: reachable(graph, node) for node in graph}
    groups = {
        tuple(sorted(other for other in reach[node] if node in reach[other])) for node in graph
    }
    return [list(group) for group in sorted(groups) if group]


def reachable(
    graph: Graph, start: str, through: Callable[[str], bool] = lambda node: True
) -> set[str]:
    """Return every node at the end of a path of at least one edge from ``start``.

    A path goes on only ``through`` nodes of which this is true.
    """
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for edge in graph.get(waiting.pop(), ()):
            if edge in graph and edge not in seen:
                seen.add(edge)
                if through(edge):
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


def walk(action: Callable[[], object], home: Path, unnamed: bool = False) -> list[str]:
    """Return the files under ``home`` whose functions an action calls, call by call.

    Lambdas and comprehensions, which have no name, count if ``unnamed``.
    """
    files: list[str] = []
    prefix = str(home) + os.sep

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        named = unnamed or code.co_name[0] != "<"
        if event == "call" and named and code.co_filename.startswith(prefix):
            files.append(code.co_filename.removeprefix(prefix).replace(os.sep, "/"))

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return files


def way(action: Callable[[int], object], home: Path) -> dict[str, Any]:
    """Return the files and the calls that ``action(9)`` takes beyond ``action(8)``."""
    action(9)  # what a first call imports and compiles is not counted
    shorter, longer = (Counter(walk(partial(action, n), home, unnamed=True)) for n in (8, 9))
    more = longer - shorter
    return {"files": len(more), "calls": more.total(), "names": sorted(more)}


def watched(action: Callable[[], object], home: Path) -> dict[str, Any]:
    """Return the files, the calls and the changes of file of an action, without the models."""
    files = [file for file in walk(action, home) if not file.startswith("models/")]
    return {
        "files": len(set(files)),
        "calls": len(files),
        "changes of file": sum(one != other for one, other in pairwise(files)),
        "names": sorted(set(files)),
    }


def run() -> dict[str, Any]:
    """Return the walks of twelve tokens, with the lablib that is on the path."""
    import lablib

    home = Path(lablib.__file__).parent
    target, tokenizer = lablib.load("target")
    draft, _ = lablib.load("draft")
    prompt = tokenizer.encode(PROMPT)
    asked = {"max_tokens": 12, "seed": 1, "temperature": 0.8}
    actions = {
        "generate with a draft": lambda: lablib.generate(
            target, tokenizer, PROMPT, draft_model=draft, **asked
        ),
        "vote of eight": lambda: lablib.majority_vote(target, prompt, n=8, **asked),
        "vote of eight with a draft": lambda: lablib.majority_vote(
            target, prompt, n=8, draft_model=draft, **asked
        ),
    }
    walks = {}
    for name, action in actions.items():
        action()  # what a first call imports and compiles is not counted
        walks[name] = watched(action, home)
    return {"package": str(home), "walks": walks, "ways": ways(home)}


def ways(home: Path) -> dict[str, Any]:
    """Return the ways of a token: alone, with options, greedy, and in one row of eight."""
    import lablib

    import mlx.core as mx
    from mlx_lm.models.cache import KVCache

    class Table:
        """A model that gives the same logits after every token."""

        layers = (None,)
        vocab_size = 512

        def __init__(self) -> None:
            self.logits = mx.random.normal((1, 1, self.vocab_size), key=mx.random.key(1))
            self.nothing = mx.zeros((8, 1, 64, 1))

        def make_cache(self) -> list[KVCache]:
            return [KVCache()]

        def __call__(self, tokens: mx.array, cache: list[KVCache]) -> mx.array:
            rows, n = tokens.shape
            nothing = self.nothing[:rows, :, :n]
            cache[0].update_and_fetch(nothing, nothing)
            return mx.broadcast_to(self.logits, (rows, n, self.vocab_size))

    model, prompt = Table(), [1, 2, 3]

    def alone(n: int, **options: Any) -> None:
        list(lablib.TokenIterator(model, prompt, max_tokens=n, stop_tokens=(), **options))

    def eight(n: int) -> None:
        lablib.sample_n(model, prompt, 8, max_tokens=n, stop_tokens=(), seed=1)

    actions: dict[str, Callable[[int], None]] = {
        "plain": partial(alone, seed=1),
        "top-p, repeat penalty": partial(alone, seed=1, top_p=0.9, repeat_penalty=1.2),
        "greedy": partial(alone, temperature=0.0),
        "row of eight": eight,
    }
    found = {name: way(action, home) for name, action in actions.items()}
    with lablib.by_definition():
        by_definition = {name: way(action, home) for name, action in actions.items()}
    return found | {f"{name}, by definition": each for name, each in by_definition.items()}


def run_in(root: Path) -> dict[str, Any]:
    """Return the walks of :func:`run` in the checkout ``root``, from a process of its own."""
    code = "import json, structure; print(json.dumps(structure.run()))"
    path = os.pathsep.join([str(root), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    if Path(found["package"]).resolve() != (root / "lablib").resolve():
        raise RuntimeError(f"measured {found['package']} instead of {root}")
    return {"walks": found["walks"], "ways": found["ways"]}


# --- the report -------------------------------------------------------------------------------


def structure(package: Package) -> dict[str, Any]:
    """Return what can be told without running anything."""
    loading = package.imports(deferred=False)
    everything = joined(loading, package.imports(deferred=True))
    rooms = sorted({room_of(file) for file in package.engine} - {"(top)", "inference"})
    inner = [f"inference/{name}" for name in subfolders(package, "inference")]
    return {
        "lines": package.lines(),
        "density": {room: density.report() for room, density in package.density().items()},
        "decoding loops": package.decoding_loops(),
        "modules of one name": package.modules_of_one_name(),
        "docstrings with What, How, Whether": package.questions(),
        "files over 400 lines": package.files_over(400),
        "longest in the engine": [asdict(f) for f in package.functions(package.engine)[:8]],
        "longest": [asdict(f) for f in package.functions()[:8]],
        "over a screen": {
            "engine": sum(f.lines > SCREEN for f in package.functions(package.engine)),
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
            for folder in ("inference", *inner, *rooms)
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
    prefix = folder + "/"
    files = [file.removeprefix(prefix) for file in package.sources if file.startswith(prefix)]
    return sorted({rest.split("/")[0] for rest in files if "/" in rest})


def main() -> None:
    """Print the structure of a checkout, without walks (on stderr: why) where it does not run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout (default: this one)")
    root = parser.parse_args().root.resolve()
    found = structure(Package(root))
    try:
        found |= run_in(root)
    except RuntimeError as error:
        print(f"no walks: {error}", file=sys.stderr)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

"""Answers that are the same program once names, comments, annotations and blanks are set aside.

An answer is its function, with what the same cell defines for it. Names that it binds are replaced
in the order in which they appear; what it only uses, ``np`` or ``max``, stays. Short answers have
no form, as many write these alike. Students' texts are parsed here, so ``referee`` does it, in
bounds.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from lablib.course.checks.exercises import find

SHORTEST = 40  # nodes of syntax, some five lines: shorter answers are written alike by chance
LONGEST = 100_000  # letters of a cell that is looked at
NOT_COUNTED = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop, ast.arguments)
MAGIC = re.compile(r"^(?:[%!].*|[\w.]+\?+)$", re.MULTILINE)  # IPython's, at a line's beginning
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign


@dataclass(frozen=True)
class Alike:
    """Students whose answers to an exercise are equal.

    Attributes:
        exercise: its id.
        students: at least two, in order.
        shown: whether it is what ``solution`` shows, too.
    """

    exercise: str
    students: tuple[str, ...]
    shown: bool


def form(cells: Iterable[str], name: str) -> str:
    """Return what equal answers have in common, as a hash; nothing where one is short or missing.

    Args:
        cells: sources of code cells.
        name: of the function.
    """
    for source in reversed([*cells]):
        try:
            defined = _definitions(source, name)
            if name in defined:
                return _form([*_with_helpers(defined, name)])
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # no Python, or too deep
            continue
    return ""


def groups(answers: Mapping[tuple[str, str], str]) -> list[Alike]:
    """Return who has equal answers.

    Args:
        answers: the form of an answer, by exercise and student.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for (exercise, student), told in sorted(answers.items()):
        if told and not _begun(exercise):
            found.setdefault((exercise, told), []).append(student)
    return [
        Alike(exercise, tuple(students), told == _shown(exercise))
        for (exercise, told), students in found.items()
        if len(students) > 1
    ]


@cache
def _shown(exercise: str) -> str:
    """Return the form of what ``solution`` shows."""
    return form([find(exercise).solution], find(exercise).name)


@cache
def _begun(exercise: str) -> bool:
    """Return whether an exercise hands out more than a head: to mend it, many write the same."""
    wanted = find(exercise)
    defined = _definitions(wanted.starter, wanted.name)[wanted.name]
    return len([each for each in getattr(defined, "body", []) if not _is_text(each)]) > 1


def _definitions(source: str, name: str) -> dict[str, Definition]:
    """Return what a cell that has a name in it defines at its top, the last of each name."""
    if len(source) > LONGEST or name not in source:
        return {}
    found: dict[str, Definition] = {}
    for node in ast.parse(MAGIC.sub("", source)).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found[node.name] = node
            case ast.Assign(targets=[ast.Name(name)]):
                found[name] = node
    return found


def _with_helpers(defined: Mapping[str, Definition], name: str) -> Iterator[Definition]:
    """Yield a function, and what it uses of its own cell, in the order of use."""
    wanted = [name]
    for each in wanted:  # it grows
        yield defined[each]
        used = [node.id for node in ast.walk(defined[each]) if isinstance(node, ast.Name)]
        wanted += [n for n in dict.fromkeys(used) if n in defined and n not in wanted]


def _form(definitions: Sequence[Definition]) -> str:
    """Return the hash of definitions without what is set aside, or nothing if they are short."""
    plain = [_Plain().visit(node) for node in definitions]
    bodies = [part for node in plain for part in getattr(node, "body", [node])]
    nodes = [inner for part in bodies for inner in ast.walk(part)]
    if sum(not isinstance(node, NOT_COUNTED) for node in nodes) < SHORTEST:
        return ""
    shared = {_name(node): f"0.{place}" for place, node in enumerate(plain)}
    texts = [ast.dump(_Renamed(node, shared).visit(node)) for node in plain]
    return hashlib.sha256("\n".join(texts).encode("utf-8", "replace")).hexdigest()[:32]


def _name(node: ast.AST) -> str:
    """Return what a definition is called."""
    return node.targets[0].id if isinstance(node, ast.Assign) else node.name


def _binds(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds itself."""
    match node:
        case ast.Name(name, ast.Store() | ast.Del()) | ast.arg(name):
            yield name
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            yield name
        case ast.ExceptHandler(name=str(name)):
            yield name


class _Plain(ast.NodeTransformer):
    """Takes docstrings and annotations away."""

    def visit(self, node: ast.AST) -> ast.AST:
        """Return a node without them."""
        body = getattr(node, "body", None)
        if isinstance(body, list):
            # A text that stands alone says something to readers only.
            kept = [each for each in body if not _is_text(each)]
            node.body = kept or [ast.Pass()]
        if hasattr(node, "annotation") and isinstance(node, ast.arg):
            node.annotation = None
        if hasattr(node, "returns"):
            node.returns = None
        self.generic_visit(node)
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return ast.Assign([node.target], node.value)
        return node


class _Renamed(ast.NodeTransformer):
    """Numbers a definition's own names in the order in which they appear.

    Args:
        node: the definition.
        shared: numbers of names that other definitions use, too.
    """

    def __init__(self, node: ast.AST, shared: Mapping[str, str]) -> None:
        own = {name for inner in ast.walk(node) for name in _binds(inner)}
        self._bound = own | {*shared}
        self._numbers = {**shared}

    def visit(self, node: ast.AST) -> ast.AST:
        """Return a node whose names are numbers, where they are its program's own."""
        for place in ("id", "arg", "name"):
            name = getattr(node, place, None)
            if name in self._bound and not isinstance(node, ast.keyword | ast.alias):
                # No name of a program's begins with a digit.
                setattr(node, place, self._numbers.setdefault(name, str(len(self._numbers))))
        if isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [self._numbers.get(name, name) for name in node.names]
        return self.generic_visit(node)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)

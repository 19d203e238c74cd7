"""Which statements of a notebook its exercises need: those that make the names they use.

A lesson's experiments may take a minute, and an endless loop among them for ever, so they are not
run. What is run: statements that call ``check``, and, in the notebook's order, every statement that
binds or changes a name which those, or the functions to judge, use; and so on. Whether a statement
changes a value is mostly not to be seen: ``row = table[0]``, and later ``fill(row)``. So there is a
second try, in which all of a student's own statements are run that have to do with such a name.
"""

import __future__

import ast
import dis
import math
import re
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import lablib.course

# Of the compiler: what can be imported from ``__future__``.
FUTURE = reduce(or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))
# Whoever uses these may bind any name.
OPAQUE = {"exec", "eval", "globals", "locals", "vars", "setattr", "__import__"}
IDLE = {"lablib", "matplotlib", "time"}  # packages in which nothing is set up for an answer
# Options before the Python in a line's magic, some with a value: of ``timeit``, and of ``prun``.
_OPTIONS = [
    re.compile(rf"\A(?:\s*-(?:[{valued}] *\S+|-?[a-zA-Z][\w-]*)(?=\s+\S))*\s*")
    for valued in ("nrpv", "DlsT")
]
_FILE = re.compile(r"[\w ./-]{0,99}\w\.[A-Za-z]\w{0,7}")

# In these, names are looked up when they are called.
_LATE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

Place = tuple[int, int]  # the number of a cell, and a statement's own number there


@dataclass
class Statement:
    """A top-level statement.

    Attributes:
        place: where it stands.
        node: what it says.
        code: it, compiled; top-level ``await`` is allowed.
        binds: names that it binds.
        uses: names that it, or a function in it, looks up; and of files that it may read.
        sets: names outside of it that a function in it binds; and of files that it may write.
        own: whether the student wrote its cell, or changed it.
    """

    place: Place
    node: ast.stmt
    code: types.CodeType
    binds: set[str] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)
    sets: set[str] = field(default_factory=set)
    own: bool = True


def statements(
    number: int, source: str, name: str, future: int = 0, own: bool = True
) -> list[Statement]:
    """Return the top-level statements of a cell.

    Args:
        number: of the cell.
        source: with IPython's magics.
        name: of the file that errors should name.
        future: flags of what earlier cells import from ``__future__``: Jupyter remembers them.
        own: whether the student wrote the cell, or changed it.

    Raises:
        SyntaxError: what is no Python.
    """
    found = []
    for index, node in enumerate(_nodes(source)):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | future
        code = compile(ast.Module([node], []), name, "exec", flags, dont_inherit=True)
        future |= code.co_flags & FUTURE
        statement = Statement((number, index), node, code, own=own)
        for word, which in _names(code):
            getattr(statement, which).add(word)
        files = _files(node)  # names, too: who writes one makes it, and who reads it needs it
        statement.uses |= files | {f"{package}.py" for package in _packages(node)}
        statement.sets |= files
        if not _is_definition(node):  # what is within a list or a generator runs, too
            statement.binds |= statement.sets
        found.append(statement)
    return found


def is_of_lablib(node: ast.stmt) -> bool:
    """Return whether a statement imports of lablib, and of nothing else."""
    return _packages(node) == {"lablib"}


def _packages(node: ast.stmt) -> set[str]:
    """Return of which packages a statement imports something."""
    match node:
        case ast.Import(names):
            return {alias.name.partition(".")[0] for alias in names}
        case ast.ImportFrom(str(module), level=0):
            return {module.partition(".")[0]}
    return set()


def checked(node: ast.stmt) -> str:
    """Return the exercise that a statement checks, and does nothing else; else an empty text."""
    match node:
        case ast.Expr(ast.Call(ast.Name("check"), [ast.Constant(str(exercise)), ast.Name()], [])):
            return exercise
    return ""


def needed(
    everything: Sequence[Statement], functions: Sequence[str], wide: bool = False
) -> list[Statement]:
    """Return the statements that make these functions and whatever they need, in order.

    Args:
        everything: all statements.
        functions: names of what is judged.
        wide: take the student's own statements along that have to do with the names these use.
    """
    others = [s for s in everything if not isinstance(s.node, ast.Import | ast.ImportFrom)]
    values = set().union(*(s.binds | s.sets for s in others))
    imported = set().union(*(s.binds for s in everything)) - values
    made = _made(everything)
    binds, uses = _versions(everything, made, values)
    roots = [s for s in everything if "check" in s.uses or s.uses & OPAQUE or "*" in s.binds]
    wanted = set().union(*(_judged(name, roots, made.get(name, [])) for name in functions))
    kept, wanted = _closure(roots, wanted, binds, uses)
    if wide:
        own = [s for s in others if s.own]
        if any(s.uses & OPAQUE for s in roots):  # they may use any name
            roots = [*roots, *own, *(s for s in everything if s.binds & imported)]
        idle = set().union(*(s.binds for s in everything if _packages(s.node) & IDLE))
        outside = imported - idle
        roots += [s for s in own if (_changed(s.node) | _called(s.node)) & outside]
        roots += [s for s in own if s.uses & outside and not _mentioned(s, values)]
        names = {name.partition("#")[0] for name in wanted} | {"open"}  # what is read is written
        roots += _connected(own, names, values | {"open"})
        kept, _ = _closure(roots, wanted, binds, uses)
    return [s for s in everything if s.place in kept]


def _made(everything: Iterable[Statement]) -> dict[str, list[Statement]]:
    """Return for each name the statements that give it a value which owes nothing to another."""
    made: dict[str, list[Statement]] = {}
    for statement in everything:
        for name in _binds_anew(statement):
            made.setdefault(name, []).append(statement)
    return made


def _versions(
    everything: Iterable[Statement], made: Mapping[str, Sequence[Statement]], values: set[str]
) -> tuple[dict[Place, set[str]], dict[Place, set[str]]]:
    """Return for each place which values its statement binds or changes, and which it uses.

    Each is its name and how often that was given a new one, ``word#2``: a lesson calls many things
    ``word``, and who says ``for word in words`` needs none of them. What has no value yet may have
    it from further down. A function looks names up when it is called: what a student makes further
    down is meant, too.
    """
    count = Counter[str]()
    binds, uses = {}, {}
    for statement in everything:
        is_late = any(isinstance(each, _LATE) for each in ast.walk(statement.node))
        anew = _binds_anew(statement)
        looked_at = statement.uses - (set() if is_late else anew)
        count.update(anew if is_late else ())
        found = uses[statement.place] = {f"{name}#{count[name]}" for name in looked_at}
        for name in looked_at:
            later = enumerate(made.get(name, ())[count[name] :], start=count[name] + 1)
            found |= {
                f"{name}#{i}" for i, each in later if not count[name] or (is_late and each.own)
            }
        count.update(() if is_late else anew)
        changed = _bound(statement) | (_changed(statement.node) & values)
        binds[statement.place] = {f"{name}#{count[name]}" for name in changed}
    return binds, uses


def _judged(name: str, roots: Iterable[Statement], made: Sequence[Statement]) -> set[str]:
    """Return which values of a name are judged, beside those that a check uses: what is in the end.

    What a lesson called so, before it asked for the function, is not it.
    """
    first = min((s.place for s in roots if name in s.uses), default=(math.inf, 0))
    later = [i for i, each in enumerate(made, start=1) if each.place > first]
    return {f"{name}#{i}" for i in later or [len(made)]}


def _connected(own: Iterable[Statement], wanted: set[str], values: set[str]) -> list[Statement]:
    """Return the statements that mention one of these names, or one that such a statement mentions.

    Two names that stand in one statement may be one value's. A lesson's own names lead nowhere
    else: all that is done with its model would be run.
    """
    theirs = set().union(*(s.binds | s.sets for s in own))
    by_name: dict[str, list[Statement]] = {}
    for statement in own:
        for name in _mentioned(statement, values):
            by_name.setdefault(name, []).append(statement)
    found, left = {}, [*wanted]
    while left:
        for statement in by_name.pop(left.pop(), ()):  # each name leads on once
            found[statement.place] = statement
            left += _mentioned(statement, theirs)
    return [*found.values()]


def _mentioned(statement: Statement, names: set[str]) -> set[str]:
    return (statement.binds | statement.uses | statement.sets) & names


def _closure(
    roots: Iterable[Statement],
    wanted: set[str],
    binds: Mapping[Place, set[str]],
    uses: Mapping[Place, set[str]],
) -> tuple[set[Place], set[str]]:
    """Return the places of what makes these names, and of the roots, and the names it all uses."""
    kept = {s.place for s in roots}
    wanted = wanted.union(*(uses[place] for place in kept))
    while True:
        more = {place for place in binds if place not in kept and binds[place] & wanted}
        if not more:
            return kept, wanted
        kept |= more
        wanted = wanted.union(*(uses[place] for place in more))


def _nodes(source: str) -> list[ast.stmt]:
    """Return a cell's statements, with magics replaced by the Python that they run.

    In a program that nbconvert wrote they are calls already.
    """
    try:
        nodes = ast.parse(source).body
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager  # loads slowly

        nodes = ast.parse(TransformerManager().transform_cell(source)).body
    return [inner for node in nodes for inner in _without_magic(node)]


def _without_magic(node: ast.stmt) -> Iterator[ast.stmt]:
    match node:
        case ast.Expr(ast.Call(ast.Attribute(ast.Call(ast.Name("get_ipython")), how), args)):
            texts = [str(arg.value) for arg in args if isinstance(arg, ast.Constant)]
            match how, texts:
                case "run_cell_magic", ["time" | "timeit" | "capture" | "prun", _, text]:
                    yield from _nodes(text)
                case "run_line_magic", ["time" | "timeit" | "capture" | "prun" as name, text]:
                    with suppress(SyntaxError):  # which is in this line alone
                        yield from _nodes(_OPTIONS[name == "prun"].sub("", text))
                case "run_cell_magic", ["writefile" | "file", line, text] if line.split():
                    mode, name = "a" if "-a" in line.split() else "w", line.split()[-1]
                    yield from ast.parse(f"open({name!r}, {mode!r}).write({text!r})").body
        case _:
            yield node


def _names(code: types.CodeType, outermost: bool = True) -> Iterator[tuple[str, str]]:
    """Yield each global name in code, and which names of a statement it is one of."""
    for step in dis.get_instructions(code):
        word = step.opname
        if word in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"):
            yield step.argval, "uses"
        elif word == "STORE_GLOBAL" or (outermost and word in ("STORE_NAME", "DELETE_NAME")):
            yield step.argval, "binds" if outermost else "sets"
        elif (
            word == "IMPORT_STAR"  # until 3.11
            or (word == "CALL_INTRINSIC_1" and "IMPORT_STAR" in step.argrepr)
        ):
            yield "*", "binds"
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner, outermost=False)


def _files(node: ast.stmt) -> set[str]:
    """Return the names of files that a statement mentions, as it seems."""
    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return {t.removeprefix("./") for t in texts if isinstance(t, str) and _FILE.fullmatch(t)}


def _is_definition(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _bound(statement: Statement) -> set[str]:
    """Return the names that a statement binds, but for what the runner has already."""
    match statement.node:
        case ast.ImportFrom(module="lablib.course") as node:
            there = {alias.name for alias in node.names if alias.asname is None}
            return statement.binds - there.intersection(lablib.course.__all__)
    return statement.binds


def _binds_anew(statement: Statement) -> set[str]:
    """Return the names that a statement gives a value which owes nothing to an earlier one."""
    bound = _bound(statement)
    match statement.node:
        case ast.Import() | ast.ImportFrom():
            return bound
        case ast.Assign() | ast.AnnAssign():
            return bound - statement.uses
        case ast.For(target, among):
            return bound & (_names_in(target) - _names_in(among))
        case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args) as node:
            at_once = (*node.decorator_list, *args.defaults, *filter(None, args.kw_defaults))
            return bound.difference(*map(_names_in, at_once))
        case ast.ClassDef() as node:
            return bound.difference(
                *map(_names_in, (*node.decorator_list, *node.bases, *node.keywords))
            )
    return set()


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _changed(node: ast.stmt) -> set[str]:
    """Return the names whose value a statement changes without binding them, as it is seen at once.

    ``x.y = 1``, ``x[0] = 1`` and ``x.add(1)`` do.
    """
    found = set()
    for inner in _outside_definitions(node):
        match inner:
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del())
                | ast.Subscript(ctx=ast.Store() | ast.Del())
            ):
                found.add(_root(inner))
            case ast.Expr(ast.Call(ast.Attribute() as method)):
                found.add(_root(method))
    return found


def _called(node: ast.stmt) -> set[str]:
    """Return the function that a statement calls for what it does: ``seed(3)``."""
    match node:
        case ast.Expr(ast.Call(ast.Name(name))):
            return {name}
    return set()


def _outside_definitions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not _is_definition(node):
        for child in ast.iter_child_nodes(node):
            yield from _outside_definitions(child)


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""

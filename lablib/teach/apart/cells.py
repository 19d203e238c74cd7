"""Which statements of a notebook its exercises need: those that make the names they use.

A lesson's experiments may take a minute, and an endless loop among them for ever, so they are not
run. What is run: statements that call ``check``, and, in the notebook's order, every statement that
binds or changes a name which those, or the functions to judge, use; and so on. Whether a statement
changes a value is often guessed: ``n = fill()`` mostly doesn't, and so it is run in a second try.
"""

import __future__

import ast
import dis
import math
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

# Of the compiler: what can be imported from ``__future__``.
FUTURE = reduce(or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))
# Whoever uses these may bind any name.
OPAQUE = {"exec", "eval", "globals", "locals", "vars", "setattr", "__import__"}
QUIET = {"print", "display", "len", "repr", "type", "help"}  # these change nothing
IDLE = {"lablib", "matplotlib", "time"}  # packages of which nothing is set up for an answer
# Options before the Python in a line's magic, some with a value: of ``timeit``, and of ``prun``.
_OPTIONS = [
    re.compile(rf"\A(?:\s*-(?:[{valued}] *\S+|-?[a-zA-Z][\w-]*)(?=\s+\S))*\s*")
    for valued in ("nrpv", "DlsT")
]
_FILE = re.compile(r"[\w./-]{0,99}\w\.[A-Za-z]\w{0,7}")
# These change what they belong to, wherever in a statement they stand.
CHANGING = {
    *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "add", "discard"),
    *("update", "setdefault", "popitem", "appendleft", "extendleft", "popleft"),
}


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
    """

    place: Place
    node: ast.stmt
    code: types.CodeType
    binds: set[str] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)
    sets: set[str] = field(default_factory=set)


def statements(number: int, source: str, name: str, future: int = 0) -> list[Statement]:
    """Return the top-level statements of a cell.

    Args:
        number: of the cell.
        source: with IPython's magics.
        name: of the file that errors should name.
        future: flags of what earlier cells import from ``__future__``: Jupyter remembers them.

    Raises:
        SyntaxError: what is no Python.
    """
    found = []
    for index, node in enumerate(_nodes(source)):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | future
        code = compile(ast.Module([node], []), name, "exec", flags, dont_inherit=True)
        future |= code.co_flags & FUTURE
        statement = Statement((number, index), node, code)
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
        wide: take those along that may change a value which these use: they mention it, or call
            what mentions it; or they set something up that has no name (``sys.setrecursionlimit``).
    """
    imported = {
        n for s in everything if isinstance(s.node, ast.Import | ast.ImportFrom) for n in s.binds
    }
    made = {n for s in everything if _is_definition(s.node) for n in s.binds}
    called = _changed_by_calls(everything, imported, made)
    values = set[str]().union(*(s.binds | s.sets for s in everything)) - imported - made
    others = _other_names(everything, values | made, wide)
    binds, uses = {}, {s.place: {*s.uses} for s in everything}
    for statement in everything:
        changed = _changed(_outside_definitions(statement.node), imported, made)
        changed = changed.union(*(called.get(name, ()) for name in _ordered(statement.node)))
        binds[statement.place] = statement.binds | _reached(changed, others)
        match statement.node:
            case ast.ImportFrom(module="lablib.course") as node:  # the runner has these already
                binds[statement.place] -= {a.name for a in node.names if a.asname is None}
    roots = [s for s in everything if "check" in s.uses or s.uses & OPAQUE or "*" in s.binds]
    for name in functions:  # what a lesson called so before it asked for the function is not it
        checked = [s.place for s in roots if name in s.uses]
        first = min(checked, default=(math.inf, 0))
        bound = [s.place for s in everything if s.place < first and _binds_anew(s, name)]
        earlier = [s.place for s in everything if bound and s.place < bound[-1]]
        for names in (each[place] for place in earlier for each in (binds, uses)):
            if name in names:  # but who used that then has it
                names.remove(name)
                names.add(f"{name} before")
    kept, wanted = _closure(roots, {*functions}, binds, uses)
    if wide:
        touched = _touched(everything, values, made)
        roots += [s for s in everything if touched[s.place] & wanted]
        idle = set[str]().union(*(s.binds for s in everything if _packages(s.node) & IDLE))
        roots += [s for s in everything if _outer(s.node) & (imported - idle)]
        if any(s.uses & OPAQUE for s in roots):  # they may use any name
            wanted = wanted | imported | made
        kept, _ = _closure(roots, wanted, binds, uses)
    return [s for s in everything if s.place in kept]


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


def _touched(
    everything: Sequence[Statement], values: set[str], made: set[str]
) -> dict[Place, set[str]]:
    """Return for each place the values that its statement mentions, or that what it calls does."""
    leads: dict[str, set[str]] = {}
    for statement in everything:
        if _is_definition(statement.node) or _makes_a_name_for_code(statement.node, made):
            for name in statement.binds:
                leads.setdefault(name, set()).update(statement.uses, statement.sets)
    return {
        s.place: set() if _is_function(s.node) else _reached(s.uses, leads) & values
        for s in everything
    }


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
                case "run_cell_magic", ["writefile", line, text] if line.split():
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


def _is_function(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _is_definition(node: ast.stmt) -> bool:
    return _is_function(node) or isinstance(node, ast.ClassDef)


def _makes_a_name_for_code(node: ast.stmt, made: set[str]) -> bool:
    """Return whether an assignment may bind what can be called, or what has methods."""
    match node:
        case ast.Assign(value=ast.Lambda() | ast.Name() | ast.Attribute() | ast.Subscript()):
            return True
        case ast.Assign(value=ast.Call(ast.Name())):  # of a class
            return True
        case ast.Assign(value=ast.Call() as call):  # Thread(target=fill)
            return not _names_in(call).isdisjoint(made)
    return False


def _binds_anew(statement: Statement, name: str) -> bool:
    """Return whether a statement gives a name a value that owes nothing to an earlier one."""
    match statement.node:
        case ast.Assign(targets=[ast.Name(target)]):
            return target == name and name not in statement.uses
    return _is_definition(statement.node) and name in statement.binds


def _changed_by_calls(
    everything: Sequence[Statement], imported: set[str], made: set[str]
) -> dict[str, set[str]]:
    """Return for each definition's name which outer names its functions change, or what they call.

    ``def note(x): seen.append(x)`` changes ``seen``, and so does ``def run(): note(1)``.
    """
    own: dict[str, set[str]] = {}
    calls: dict[str, set[str]] = {}
    for statement in everything:
        if _is_definition(statement.node):
            inside = _changed(ast.walk(statement.node), imported, made) & statement.uses
            for name in statement.binds:
                own.setdefault(name, set()).update(inside, statement.sets)
                calls.setdefault(name, set()).update(statement.uses & made)
    return {name: set().union(*(own[n] for n in _reached({name}, calls))) for name in own}


def _ordered(node: ast.stmt) -> Iterator[str]:
    """Yield the functions that a statement calls for what they do: as a line, or as a decorator.

    Whoever calls one for what it returns seldom minds what it keeps: a memory of its own.
    """
    for inner in _outside_definitions(node):
        match inner:
            case (
                ast.Expr(ast.Call(ast.Name(name)))
                | ast.Expr(ast.Await(ast.Call(ast.Name(name))))
                | ast.withitem(ast.Call(ast.Name(name)))
            ):
                yield name
    for decorator in getattr(node, "decorator_list", ()):
        yield from _names_in(decorator)


def _other_names(
    everything: Sequence[Statement], things: set[str], wide: bool
) -> dict[str, set[str]]:
    """Return for each name those whose value it may be, or be a part of: row, in rows.

    Args:
        everything: all statements.
        things: names of what is no module.
        wide: whether it may be of what it holds, or a view that a method or a module's function
            returns: of ``table.ravel()``. Of what other functions return it may not: whole
            experiments would be run.
    """
    found: dict[str, set[str]] = {}
    for statement in everything:
        for node in _outside_definitions(statement.node):
            match node:
                case ast.Assign([ast.Name(name)], ast.Name() | ast.Attribute() | ast.Subscript()):
                    found.setdefault(name, set()).update({_root(node.value)} & things)
                case ast.Assign(
                    [ast.Name(name)],
                    ast.Call(ast.Attribute()) | ast.Tuple() | ast.List() | ast.Dict(),
                ) if wide:
                    found.setdefault(name, set()).update(_names_in(node.value) & things)
                case ast.For(target, among):
                    for name in _names_in(target):
                        found.setdefault(name, set()).update(_names_in(among) & things)
    return found


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _reached(names: set[str], further: Mapping[str, set[str]]) -> set[str]:
    """Return names, and all that they lead to."""
    found, left = set(names), [*names]
    while left:
        more = further.get(left.pop(), set()) - found
        found |= more
        left += more
    return found - {""}


def _changed(nodes: Iterable[ast.AST], imported: set[str], made: set[str]) -> set[str]:
    """Return the names whose value is changed without binding them.

    ``x.y = 1``, ``x[0] = 1``, ``x.add(1)``, ``fill(x)`` and ``@x.register`` do; ``np.mean(x)``'s
    ``np`` stays.
    """
    found = set()
    for inner in nodes:
        match inner:
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del())
                | ast.Subscript(ctx=ast.Store() | ast.Del())
            ):
                found.add(_root(inner))
            case ast.Call(ast.Attribute(attr=name) as function) if name in CHANGING:
                found |= {_root(function)} - imported
            case ast.Expr(ast.Call(ast.Attribute() as function, args)):
                root = _root(function)
                settled = all(isinstance(arg, ast.Constant) for arg in args)
                if root not in imported or settled:  # np.seterr("ignore"), random.seed(0)
                    found.add(root)
                found |= {arg.id for arg in args if isinstance(arg, ast.Name)} - imported - made
            case ast.Expr(ast.Call(ast.Name(name), args)) if name not in QUIET | {"check"}:
                found |= {arg.id for arg in args if isinstance(arg, ast.Name)} - imported - made
            case ast.keyword("out", ast.Name(name)):
                found.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                for decorator in inner.decorator_list:
                    call = decorator.func if isinstance(decorator, ast.Call) else decorator
                    known = imported | made if isinstance(call, ast.Name) else imported
                    found |= {_root(call)} - known
                # A base is told, and knows who its children are.
                found |= {_root(base) for base in getattr(inner, "bases", ())} & made
    return found - {""}


def _outer(node: ast.stmt) -> set[str]:
    """Return the name of which a statement sets something up, as it seems, if it does.

    ``sys.setrecursionlimit(5000)`` does, and ``getcontext().prec = 50``.
    """
    match node:
        case ast.Expr(ast.Call(function, args, keywords)):
            given = [*args, *(keyword.value for keyword in keywords)]
            are_settled = all(isinstance(each, ast.Constant) for each in given)
            return {_root(function)} if are_settled else set()
        case ast.Assign([ast.Attribute(value=ast.Call(function) | function)]):
            return {_root(function)}
    return set()


def _outside_definitions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not _is_definition(node):
        for child in ast.iter_child_nodes(node):
            yield from _outside_definitions(child)


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""

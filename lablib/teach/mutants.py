"""Functions changed in one place, as source: for a search for wrong answers, and for an exam.

The changes are those of mutation testing: another operator, comparison, constant or bound, a
condition turned round, a statement left out, a call taken off its argument.
"""

import ast
import copy
import difflib
import itertools
from collections.abc import Callable, Iterator

ARITHMETIC = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div, ast.Add],
    ast.Div: [ast.Mult, ast.FloorDiv],
    ast.FloorDiv: [ast.Div],
    ast.Pow: [ast.Mult],
    ast.Mod: [ast.FloorDiv],
    ast.MatMult: [ast.Mult],
}
COMPARISONS = {
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.GtE],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
}
PAIRS = [("min", "max"), ("any", "all"), ("argmax", "argmin"), ("minimum", "maximum")]
PAIRS += [("floor", "ceil"), ("append", "remove"), ("left", "right"), ("cumsum", "cumprod")]
TWINS = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}


def mutants(source: str) -> list[str]:
    """Return every function that differs from this one in one place, as source; none twice."""
    found = dict.fromkeys(mutant(source, number) for number in range(count(source)))
    found.pop(ast.unparse(ast.parse(source)), None)
    return list(found)


def count(source: str) -> int:
    """Return in how many ways a function can be changed; some may come to the same."""
    return sum(len(list(_changes(node))) for node in ast.walk(ast.parse(source)))


def mutant(source: str, number: int) -> str:
    """Return a function changed in the way with this number, from 0, as source."""
    tree = ast.parse(source)
    changes = (change for node in ast.walk(tree) for change in _changes(node))
    next(itertools.islice(changes, number, None))()
    return ast.unparse(ast.fix_missing_locations(tree))


def _changes(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Yield what can be done to one node, each a function that does it."""
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            for other in COMPARISONS.get(type(operator), []):
                yield lambda i=i, other=other: node.ops.__setitem__(i, other())
    for other in ARITHMETIC.get(type(getattr(node, "op", None)), []):
        yield lambda other=other: setattr(node, "op", other())
    if isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield lambda: setattr(node, "op", other())
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        for test in (True, False)[isinstance(node, ast.While) :]:
            yield lambda test=test: setattr(node, "test", ast.Constant(test))
        yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.comprehension) and node.ifs:
        yield lambda: setattr(node, "ifs", [])
    if isinstance(node, ast.Name | ast.Attribute):
        field = "id" if isinstance(node, ast.Name) else "attr"
        if twin := TWINS.get(getattr(node, field)):
            yield lambda: setattr(node, field, twin)
    if isinstance(node, ast.Call):
        for i in range(len(node.keywords)):
            yield lambda i=i: node.keywords.pop(i)
    if isinstance(node, ast.Slice):
        yield from _slices(node)
    yield from _lists(node)


def _slices(node: ast.Slice) -> Iterator[Callable[[], None]]:
    for field in ("lower", "upper"):
        edge = getattr(node, field)
        if edge is None:
            continue
        yield lambda field=field: setattr(node, field, None)
        for operator in (ast.Add, ast.Sub):
            moved = ast.BinOp(edge, operator(), ast.Constant(1))
            yield lambda field=field, moved=moved: setattr(node, field, moved)


def _lists(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Yield changes of a node's children that put another node into its place."""
    for field, value in ast.iter_fields(node):
        for i, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST):
                continue
            for other in _instead(child, first=i == 0 and isinstance(node, ast.FunctionDef)):
                if i is None:
                    yield lambda field=field, other=other: setattr(node, field, other)
                else:
                    yield lambda value=value, i=i, other=other: value.__setitem__(i, other)


def _instead(node: ast.AST, first: bool) -> Iterator[ast.AST]:
    """Yield what may stand in a node's place."""
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield from (ast.Constant(n) for n in {value + 1, value - 1, 0, 1, -1} - {value})
        case ast.Constant(value=str(value)) if value in TWINS:
            yield ast.Constant(TWINS[value])
        case ast.UnaryOp(operand=inner) | ast.Starred(value=inner):
            yield inner
        case ast.Call(func=ast.Name(), args=[inner]) if not isinstance(inner, ast.Starred):
            yield inner  # list(x), reversed(x), abs(x) ... -> x
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "math")), args=[inner, *_]):
            yield inner
        case ast.Call(func=ast.Attribute(value=inner), args=[]):
            yield inner  # x.copy() -> x
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.FunctionDef():
            return
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range":
        for i, argument in enumerate(node.args[:2]):
            for operator in (ast.Add, ast.Sub):
                moved = copy.copy(node)
                moved.args = [*node.args]
                moved.args[i] = ast.BinOp(argument, operator(), ast.Constant(1))
                yield moved
    if isinstance(node, ast.stmt) and not first:
        yield ast.Pass()


def change_of(before: str, after: str) -> str:
    """Return the lines in which two sources differ, on one line."""
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    parts: dict[str, list[str]] = {"-": [], "+": []}
    for line in lines:
        if line[0] in parts:
            parts[line[0]].append(line[2:].strip())
    return f"{' ; '.join(parts['-'])}  ->  {' ; '.join(parts['+'])}"

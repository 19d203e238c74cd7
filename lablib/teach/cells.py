"""Which statements of a notebook its exercises need, and which it may try as well.

A lesson's experiments may take a minute, so of its own cells only what makes a name that an answer,
or a ``check``, looks up is run. It is read from the end: what is used must have been made above.
What students wrote themselves is run whether it is needed or not, as in Jupyter, while there is
time for it.
"""

import ast
import re
import symtable
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# Cells' magics around Python that counts.
_TIMED = re.compile(r"\A\s*%%(?:time(?:it)?|capture|prun)\b.*\n")
LATE = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef  # in which names are looked up later


@dataclass
class Statement:
    """A top-level statement, and the names in it, as far as that is to be seen."""

    place: int  # of its cell
    node: ast.stmt
    own: bool = True  # whether the student wrote its cell, or changed it
    binds: set[str] = field(default_factory=set)  # or changes their value
    anew: set[str] = field(default_factory=set)  # those that owe nothing to an earlier value
    uses: set[str] = field(default_factory=set)  # looked up by it, or by a function in it


def statements(number: int, source: str, own: bool = True) -> list[Statement]:
    """Return the top-level statements of a cell; ``SyntaxError`` about what is no Python."""
    return [_statement(Statement(number, node, own)) for node in _nodes(source)]


def needed(everything: Sequence[Statement], names: Iterable[str]) -> list[Statement]:
    """Return the statements that make these names, or check something, and what they use."""
    wanted = {*names}
    tried = set().union(*(each.uses for each in everything if each.own))
    made = set().union(*(each.binds for each in everything))
    while True:
        live, kept = {*wanted}, []
        for each in reversed(everything):
            if _is_root(each, tried) or live & each.binds:
                kept.append(each)
                live = (live - each.anew) | each.uses
        late = (live & made) - wanted  # a function looks up what stands below it
        if not late:
            return kept[::-1]
        wanted |= late


def _is_root(each: Statement, tried: set[str]) -> bool:
    """Return whether it is run in any case: a check, and what costs next to nothing."""
    if "check" in each.uses:
        return True
    if isinstance(each.node, ast.Import | ast.ImportFrom):
        return bool(each.binds & tried)
    return each.own and isinstance(each.node, LATE)


def _statement(each: Statement) -> Statement:
    text = ast.unparse(each.node)
    each.binds, each.uses = _names(symtable.symtable(text, "cell", "exec"))
    late = isinstance(each.node, LATE)
    at_once = each.uses
    if late:  # its body does not run yet
        first = [*each.node.decorator_list, *getattr(each.node, "bases", ())]
        first += getattr(getattr(each.node, "args", None), "defaults", ())
        at_once = {n.id for part in first for n in ast.walk(part) if isinstance(n, ast.Name)}
    plain = ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.For
    if late or isinstance(each.node, plain):
        each.anew = each.binds - at_once
    each.binds = each.binds | _changed(each.node, each.own)
    return each


def _names(table: symtable.SymbolTable, outermost: bool = True) -> tuple[set[str], set[str]]:
    """Return the global names that are bound in a scope, and those that are looked up."""
    binds, uses = set(), set()
    for symbol in table.get_symbols():
        if outermost or symbol.is_global():
            if symbol.is_assigned() or symbol.is_imported():
                binds.add(symbol.get_name())
            if symbol.is_referenced():
                uses.add(symbol.get_name())
    for inner in table.get_children():
        bound, used = _names(inner, outermost=False)
        binds, uses = binds | bound, uses | used
    return binds, uses


def _changed(node: ast.stmt, own: bool) -> set[str]:
    """Return the names whose value it changes: ``x.y = 1``, ``x[0] = 1``, ``x.add(1)``.

    And, where a student wrote it, ``fill(x)``.
    """
    found = set[str]()
    for inner in ast.walk(node):
        match inner:
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del())
                | ast.Subscript(ctx=ast.Store() | ast.Del())
            ):
                found.add(_root(inner))
            case ast.Expr(ast.Call(function, arguments)):
                found |= {_root(function)} if isinstance(function, ast.Attribute) else set()
                found |= {_root(each) for each in arguments} if own else set()
    return found - {""}


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _nodes(source: str) -> list[ast.stmt]:
    """Return a cell's statements; magics become calls of ``get_ipython``."""
    try:
        return ast.parse(source).body
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager  # loads slowly

        source = TransformerManager().transform_cell(_TIMED.sub("", source))
        return ast.parse(source).body

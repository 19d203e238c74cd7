"""Writes the type stubs of packages whose names load lazily: ``python tests/stubs.py``.

A type checker runs nothing, so it can't see names that a package finds when they are first used.
Beside each table of such names stands an ``__init__.pyi`` that imports the same ones.
"""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "lablib"


def stubs() -> dict[Path, str]:
    """Return the stub of each package that has a table of lazy names, by its path."""
    found = {}
    for path in sorted(PACKAGE.rglob("__init__.py")):
        table = _table(ast.parse(path.read_text()))
        if table is not None:
            found[path.with_suffix(".pyi")] = _stub(path.parent, table)
    return found


def _table(tree: ast.Module) -> dict[str, str] | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "exports":
            return ast.literal_eval(node.args[1])
    return None


def _stub(folder: Path, table: dict[str, str]) -> str:
    rooms = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
    package = ".".join(folder.relative_to(PACKAGE.parent).parts)
    lines = ["# Made from the table in __init__.py by tests/stubs.py."]
    lines += [f"from {package} import {room} as {room}" for room in rooms]
    for module, names in sorted(table.items()):
        lines += [f"from {module} import {name} as {name}" for name in sorted(names.split())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)

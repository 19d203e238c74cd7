"""The trial of an engineer: a script of public names, which runs without a warning.

That type checkers accept it is tested in ``test_types.py``.
"""

import ast
import subprocess
import sys
from pathlib import Path

import lablib

import pytest

TRIAL = Path(__file__).parents[1] / "typed" / "trial.py"


@pytest.mark.thorough
def test_it_runs_without_a_warning() -> None:
    command = [sys.executable, "-W", "error", str(TRIAL)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_uses_public_names_only() -> None:
    tree = ast.parse(TRIAL.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    imported = {alias.name for node in imports for alias in node.names}
    assert {name for name in imported if name.startswith("lablib")} == {"lablib"}
    froms = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(name.startswith("lablib") for name in froms if name)
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "lablib"
    }
    assert used <= {*lablib.__all__}
    assert len(used) >= 25

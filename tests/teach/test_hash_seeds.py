"""The answers that depend on the order of a set of strings are judged alike in each order."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOM = Path(__file__).parent
PROGRAM = """
from importlib import import_module
from oracles.answers import faults

for lesson in ("00", "06", "11"):
    answers = import_module(f"wrong_answers.lesson_{lesson}").ANSWERS
    assert not (found := faults([*answers.rights, *answers.wrongs])), found
"""


# One order that stays; ``test_answers`` judges them all in an order that is new in each run.
@pytest.mark.thorough
@pytest.mark.parametrize(
    "seed", ["0", *(pytest.param(seed, marks=pytest.mark.slow) for seed in ("1", "42"))]
)
def test_the_order_of_sets_makes_no_difference(seed: str) -> None:
    path = os.pathsep.join(map(str, (ROOM, ROOM.parent, ROOM.parents[1])))
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]

"""A search for wrong answers by machine: each reference, changed in one place, meets its checker.

``python tests/teach/mutants.py [LESSON ...]`` prints for each exercise how many mutants there
are, how many the checker refused, how many are equivalent (they answer as the reference does, on
every input that was tried), and how many survive though they answer something with another result;
then what survived, each with an input that tells it from the reference.

Inputs are what the checker asks under many seeds (``asked`` in the report), and random changes of
these (``changed``), which may lie outside of what the task allows: look before you mend.
"""

import argparse
import ast
import copy
import json
import random
import resource
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from lablib.course.checks import comparing
from lablib.course.checks.checking import check
from lablib.course.checks.exercises import Exercise, exercises, find
from lablib.course.checks.running import TimeUp, time_limit
from lablib.course.checks.values import call_text, difference
from lablib.teach.mutants import change_of, mutants

import numpy as np

SECONDS = 4.0  # for one check, and for one comparison: a mutant may loop for ever
MEMORY = 6 * 2**30  # bytes of address space: or grow for ever
SEEDS = 12  # of the checker's own cases
INPUTS = 1500  # most inputs on which a survivor is compared with the reference


# ------------------------------------------------------------------ what tells two functions apart


def asked(exercise: Exercise) -> list[tuple[Any, ...]]:
    """Return the arguments with which the checker calls the reference, under several seeds."""
    calls: list[tuple[Any, ...]] = []

    def noting(*args: Any) -> Any:
        calls.append(copy.deepcopy(args))
        return exercise.reference(*args)

    before = comparing.SEED
    try:
        for seed in range(SEEDS):
            comparing.SEED = seed
            check(replace(exercise, seconds=60), noting)
    finally:
        comparing.SEED = before
    return calls


def changed(value: Any, rng: random.Random) -> Any:
    """Return a value like this one: an item doubled, dropped, moved, or a number nudged."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | np.integer):
        return max(0, int(value) + rng.choice([-1, 0, 0, 1, 2]))
    if isinstance(value, float | np.floating):
        return rng.choice([value, value, value * rng.uniform(0.5, 1.5), round(value, 1)])
    if isinstance(value, np.ndarray) and value.size:
        value = value.copy()
        at, to = (tuple(rng.randrange(n) for n in value.shape) for _ in range(2))
        value[to] = value[at]
        return value
    if isinstance(value, list | tuple) and value:
        items = list(value)
        move = rng.randrange(5)
        i, j = rng.randrange(len(items)), rng.randrange(len(items))
        if move == 0:
            items[j] = copy.deepcopy(items[i])
        elif move == 1:
            items[i] = changed(items[i], rng)
        elif move == 2 and len(items) > 1:
            del items[i]
        elif move == 3:
            items.insert(j, copy.deepcopy(items[i]))
        else:
            items[i], items[j] = items[j], items[i]
        return type(value)(items)
    return value


def answer(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, Any]:
    """Return ("gave", answer and arguments afterwards), or ("raised", None)."""
    args = copy.deepcopy(args)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = function(*args)
            if isinstance(result, types.GeneratorType):
                result = list(result)
    except Exception:
        return "raised", None
    left = [vars(a) if hasattr(a, "__dict__") and not callable(a) else a for a in args]
    return "gave", [result, *(a for a in left if isinstance(a, list | np.ndarray | dict))]


def told_apart(
    exercise: Exercise, mutant: Callable[..., Any], inputs: list[tuple[str, tuple[Any, ...], Any]]
) -> tuple[str, str]:
    """Return how an input was found on which the mutant answers differently, and the call."""
    for how, args, expected in inputs:
        try:
            with time_limit(SECONDS):
                kind, got = answer(mutant, args)
        except TimeUp:
            kind, got = "raised", None
        if kind != "gave" or difference(expected, got, exercise.tolerance) is not None:
            return how, call_text(exercise.name, args)
    return "", ""


def inputs_of(exercise: Exercise) -> list[tuple[str, tuple[Any, ...], Any]]:
    """Return (how it was found, arguments, the reference's answer) of many inputs."""
    rng = random.Random(0)
    own = asked(exercise)
    tried = [("asked", args) for args in own[: INPUTS // 3]]
    while len(tried) < INPUTS:
        args = copy.deepcopy(rng.choice(own))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(args))
            args = (*args[:at], changed(args[at], rng), *args[at + 1 :])
        tried.append(("changed", args))
    found = []
    for how, args in tried:
        try:
            with time_limit(SECONDS):
                kind, expected = answer(exercise.reference, args)
        except TimeUp:
            continue
        if kind == "gave" and "nan" not in repr(expected):  # else not an input the task allows
            found.append((how, args, expected))
    return found


# ------------------------------------------------------------------ the search


@dataclass(frozen=True)
class Survivor:
    """A mutant that the checker accepts although it answers something differently.

    Attributes:
        exercise: its id.
        change: the changed lines, ``before -> after``; stays the same as long as the reference.
        how: "asked" or "changed" (see the module's first lines).
        call: an input on which it differs.
    """

    exercise: str
    change: str
    how: str
    call: str


def judge(exercise: Exercise, start: int = 0) -> Iterator[dict[str, Any]]:
    """Yield what became of each mutant from number ``start`` on."""
    whole = exercise.solution
    tree = ast.parse(whole)
    tree.body[0].body = tree.body[0].body[1:]  # without its docstring, which no change touches
    source = ast.unparse(tree)
    hurried = replace(exercise, seconds=SECONDS)
    inputs: list[tuple[str, tuple[Any, ...], Any]] = []
    for text in mutants(source)[start:]:
        space = dict(exercise.reference.__globals__)
        exec(compile(text, "<mutant>", "exec"), space)
        mutant = space[exercise.name]
        if not check(hurried, mutant).correct:
            yield {"fate": "killed"}
            continue
        inputs = inputs or inputs_of(exercise)
        how, call = told_apart(exercise, mutant, inputs)
        change = change_of(source, text)
        fate = "surviving" if how else "equivalent"
        yield {"fate": fate, **asdict(Survivor(exercise.id, change, how, call))}


def search(exercise: Exercise, seconds: float = 900) -> list[dict[str, Any]]:
    """Judge all mutants of an exercise in other processes; one that dies is a mutant killed."""
    found: list[dict[str, Any]] = []
    while True:
        command = [sys.executable, __file__, "--child", exercise.id, str(len(found))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        lines = done.stdout.splitlines()
        found += [json.loads(line) for line in lines if line != "end"]
        if lines and lines[-1] == "end":
            return found
        if done.returncode == 1:  # an error of ours, not a process that was killed
            raise RuntimeError(done.stderr)
        found.append({"fate": "killed"})


def child(exercise: str, start: str) -> None:
    """Judge in this process, and say each fate at once."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for fate in judge(find(exercise), int(start)):
        print(json.dumps(fate), flush=True)
    print("end")


def main() -> None:
    """Print the table and what survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lessons", nargs="*", help="02, or 02.3; all by default")
    parser.add_argument("--equivalent", action="store_true", help="list these too")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(*options.child)
    wanted = [
        e for e in exercises() if not options.lessons or {e.id, e.lesson} & {*options.lessons}
    ]
    fates = ("killed", "equivalent", "surviving")
    survivors = []
    print(f"{'exercise':<28} mutants  " + "  ".join(fates))
    totals = [0, 0, 0]
    for exercise in wanted:
        found = search(exercise)
        counts = [sum(one["fate"] == fate for one in found) for fate in fates]
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        _row(f"{exercise.id} {exercise.name}", counts)
        shown = fates[1:] if options.equivalent else fates[2:]
        survivors += [one for one in found if one["fate"] in shown]
    _row("all", totals)
    for one in survivors:
        print(
            f"\n{one['exercise']} {one['fate']}: {one['change']}\n    {one['how']}: {one['call']}"
        )


def _row(name: str, counts: list[int]) -> None:
    print(
        f"{name:<28} {sum(counts):>7}  {counts[0]:>6}  {counts[1]:>10}  {counts[2]:>9}", flush=True
    )


if __name__ == "__main__":
    main()

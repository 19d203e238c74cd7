"""Every case of a plan, each side in a process of its own, in turns."""

import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from lablib.machine import backend
from lablib.tools.bench import plan as plans
from lablib.tools.bench import report
from lablib.tools.bench.plan import (
    GENLM,
    LABLIB,
    LLAMA_CPP,
    LMXLAB,
    MLX_LM,
    NO_FEW_ROWS,
    OLD,
    Case,
    Plan,
)
from lablib.tools.bench.turns import Answer, Side, SideError, take_turns
from lablib.validation import BadValue, integer, one_of, sequence

from tqdm import tqdm

_HERE = Path(__file__).parent
_OURS = {
    LABLIB: "side_lablib",
    NO_FEW_ROWS: "side_lablib",
    OLD: "side_lablib",
    MLX_LM: "side_mlx_lm",
    "memory": "side_memory",
}
_THEIRS = {
    GENLM: "side_genlm.py",
    LMXLAB: "side_lmxlab.py",
    LLAMA_CPP: "side_llama_cpp.py",
}


def bench(
    what: Sequence[str] = (), *, plan: Plan | None = None, turns: int | None = None,
    only: str = "", genlm: str | None = None, lmxlab: str | None = None,
    llama_cpp: str | None = None, few_rows: bool = False, old: Path | None = None
) -> dict[str, Any]:  # fmt: skip
    """Measure lablib beside its peers: the same weights, prompts, BLAS and threads.

    Args:
        what: some of ``plan.WHAT`` and ``plan.PARTS``; none means all of ``WHAT`` whose peers are
            here.
        plan: how much is measured.
        turns: how many turns count, instead of the plan's.
        only: a regular expression; cases in whose name it is found are run.
        genlm: a Python with genlm-backend, which "async" needs, and genlm-control for "smc".
        lmxlab: a Python with lmxlab, which "best_of_n" needs.
        llama_cpp: a Python with xllamacpp, which "stored" needs, beside a fetched SmolLM2.
        few_rows: whether the peers, too, get lablib's products of few rows, and not only its BLAS.
        old: the root of another checkout, which takes its turns in place of the peers: is anything
            slower than it was? Cases that its own bench lacks are left out.

    Returns:
        ``about`` the machine, ``memory`` in bytes a second, and ``cases``: see ``report.summary``.

    Raises:
        ValueError, TypeError: an argument is bad, or an environment lacks what it is named for.
        SideError: a side failed.
    """
    plan = plan or Plan()
    if turns is not None:
        plan = replace(plan, turns=integer("turns", turns, 1))
    pythons = {GENLM: genlm, LMXLAB: lmxlab, LLAMA_CPP: llama_cpp}
    wanted = _wanted(plan, what, only, pythons, old)
    labels = {side for case in wanted for side, _ in case.runs.values()} | {"memory"}
    found, memory = [], []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lablib-bench-"))
        told = plans.settings(plan, Path(folder), {case.model for case in wanted})
        sides = {
            label: stack.enter_context(_start(label, pythons, told, few_rows, old))
            for label in labels
        }
        _ready(sides)
        wanted = [case for case in wanted if _has(case, sides)]
        steps = sum(len(case.runs) * (plan.turns + 1) for case in wanted)
        progress = stack.enter_context(tqdm(total=steps, disable=None, file=sys.stderr))
        for case in wanted:
            progress.set_description(f"{case.what}: {case.name}")
            row, speeds = _measure(case, sides, plan.turns, progress.update)
            found.append(row)
            memory += speeds
            progress.write(report.line(row), file=sys.stderr)
    return {"about": report.about(plan, few_rows), "memory": report.median(memory), "cases": found}


def _wanted(
    plan: Plan, what: Sequence[str], only: str, pythons: dict[str, str | None], old: Path | None
) -> list[Case]:
    """Return the cases to run; or refuse what was asked for."""
    known = (*plans.WHAT, *plans.PARTS)
    what = [one_of("what", each, known) for each in sequence("what", what, "names")]
    absent = [] if old else [each for each, peer in plans.PEERS.items() if pythons[peer] is None]
    for each in absent:
        if each in what:
            peer = plans.PEERS[each]
            option = peer.split("-")[0]
            raise BadValue(f"{option} must be a Python with {peer}, which {each} needs; got None")
    try:
        pattern = re.compile(only)
    except re.error as error:
        raise BadValue(f"only must be a regular expression, got {only!r}: {error}") from None
    here = [
        each for each in plans.WHAT if old or pythons.get(plans.PEERS.get(each), "") is not None
    ]
    cases = [case for case in plans.cases(plan) if case.what in (what or here)]
    if old is not None:
        if not (old / "lablib" / "tools" / "bench").is_dir():
            raise BadValue(f"old must be the root of a checkout with a bench, got {str(old)!r}")
        cases = plans.against(cases)
    found = [case for case in cases if pattern.search(f"{case.what}: {case.name}")]
    if not found:
        names = "; ".join(f"{case.what}: {case.name}" for case in cases)
        raise BadValue(f"only must be found in one of the cases ({names}), got {only!r}")
    return found


def _start(
    label: str, pythons: dict[str, str | None], settings: dict[str, Any], few_rows: bool,
    old: Path | None,
) -> Side:  # fmt: skip
    """Start a side: ours where lablib is, a peer's in its own environment, all with one BLAS."""
    threads = str(backend.threads())
    environment = {
        **backend.blas().settings(), "LABLIB_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads,
    }  # fmt: skip
    if label not in (LABLIB, OLD, "memory") and (not few_rows or label == NO_FEW_ROWS):
        environment["LABLIB_FEW_ROWS"] = "off"
    if label in _OURS:
        root = str(old.resolve() if label == OLD else _HERE.parents[2])
        command = [sys.executable, "-m", f"lablib.tools.bench.{_OURS[label]}"]
        return Side(command, settings, environment | {"PYTHONPATH": root}, root)
    script = str(_HERE / _THEIRS[label])
    try:
        return Side([pythons[label], script], settings, environment | {"PYTHONPATH": ""})
    except OSError as error:
        raise BadValue(f"{label.split('-')[0]} must be a Python with {label}: {error}") from None


def _has(case: Case, sides: dict[str, Side]) -> bool:
    """Return whether all sides have a case; an old checkout may not."""
    lacks = [label for side, label in case.runs.values() if label not in sides[side].names]
    if lacks:
        print(f"{OLD} lacks {', '.join(lacks)}: left out", file=sys.stderr)
    return not lacks


def _ready(sides: dict[str, Side]) -> None:
    """Wait for all sides; one that cannot start says why."""
    for label, side in sides.items():
        try:
            _ = side.names
        except SideError as error:
            if label not in _THEIRS:
                raise SideError(f"{label}: {error}") from None
            option = label.split("-")[0]
            raise BadValue(f"{option} must be a Python with {label}: {error}") from None


def _measure(
    case: Case, sides: dict[str, Side], turns: int, done: Callable[[], Any]
) -> tuple[dict[str, Any], Iterable[float]]:
    """Run a case; return its summary and the memory's speed, in bytes a second, in each turn."""
    exact = sides[LABLIB].run(case.exact) if case.exact else None

    def runner(label: str, side: str, name: str) -> Callable[[int], Answer]:
        def run(turn: int) -> Answer:
            try:
                return sides[side].run(name, turn)
            except SideError as error:
                raise SideError(f"{label}, {name}: {error}") from None

        return run

    runs = {label: runner(label, *where) for label, where in case.runs.items()}
    runs["memory"] = lambda turn: sides["memory"].run("read", turn)
    answers = take_turns(runs, turns, done)
    speeds = [turn["memory"]["bytes"] / turn["memory"]["seconds"] for turn in answers]
    return report.summary(case, answers, exact), speeds

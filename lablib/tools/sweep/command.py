"""The command: ``python -m lablib sweep votes|acceptance|speed|plot …``."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lablib.tools.sweep.defaults import DEFAULTS
from lablib.validation import BadValue

# Set by whoever started this process as one of many: mlx.launch, Open MPI, MPICH.
_RANK = ("MLX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_WHAT = {
    "votes": "answers to vote on, over problems and temperatures",
    "acceptance": "what is kept of drafts, over problems, temperatures, γ and rules",
    "speed": "tokens a second, over problems, n and γ; on machines that do nothing else",
}
_MANY = (
    ("--n", "n", int, "completions of each problem; votes: each N to report"),
    ("--temperature", "temperatures", float, "of sampling"),
    ("--gamma", "gammas", int, "drafts a round; speed: 0 is plain decoding"),
    ("--rule", "rules", str, "of speculation"),
)


def add_to(commands: Any) -> None:
    """Add the command to the command line's."""
    sweep = commands.add_parser("sweep", help="measure over problems and settings, by many ranks")
    kinds = sweep.add_subparsers(required=True, metavar="what")
    for what in DEFAULTS:
        _add_kind(kinds, what)
    plot = kinds.add_parser("plot", help="draw a sweep's file")
    plot.add_argument("file", type=Path)
    plot.add_argument("--out", type=Path, help=".svg or .png (default: FILE with .png)")
    plot.set_defaults(run=_plot)


def _add_kind(kinds: Any, what: str) -> None:
    kind = kinds.add_parser(what, help=_WHAT[what], description=_WHAT[what])
    kind.add_argument("model", help="a shipped model's name, or an mlx-lm directory")
    kind.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON Lines")
    tasks = "sums or edits" if what == "votes" else "sums, edits or stories"
    kind.add_argument("--task", default="sums", help=f"{tasks} (default: sums)")
    usual = DEFAULTS[what]
    problems = f"unseen ones of the task (default: {usual['problems']})"
    kind.add_argument("--problems", type=int, metavar="K", help=problems)
    for option, key, type, help in _MANY:
        if key in usual:
            help = f"{help} (default: {' '.join(map(str, usual[key]))})"
            more = {"nargs": "+", "default": (), "metavar": option[2].upper(), "dest": key}
            kind.add_argument(option, type=type, help=help, **more)
    if what != "votes":
        kind.add_argument("--draft", help="a model, or ngram (default: draft, for target)")
    kind.add_argument("--seed", type=int, default=2026, help="(default: 2026)")
    patience = "after so long without a word a rank is lost (default: 20)"
    kind.add_argument("--patience", type=float, metavar="SECONDS", default=20.0, help=patience)
    limit = "after so long at one batch a rank is stuck (default: it takes its time)"
    kind.add_argument("--limit", type=float, metavar="SECONDS", help=limit)
    add_ranks(kind)
    kind.set_defaults(run=_sweep, what=what)


def add_ranks(command: Any) -> None:
    """Add the option of what many ranks can do."""
    command.add_argument(
        "--ranks", type=int, default=1, help="processes on this machine (default: 1)"
    )


def as_ranks(options: argparse.Namespace, work: Callable[[], int | None]) -> int:
    """Do the work in this process, or start ``--ranks`` of them that do.

    What went wrong at all ranks is said by the first alone.
    """
    from lablib.tools.sweep.ranks import Ranks, SweepError, start

    if options.ranks != 1 and not any(name in os.environ for name in _RANK):
        return start(options.ranks, [sys.executable, "-m", "lablib", *options.arguments])
    first = True
    try:
        # Now, not when the models are loaded: a ring gives up on a rank that comes 30 s later.
        first = Ranks().rank == 0
        return work() or 0
    except SweepError as error:
        if first:
            print(f"lablib: {error}", file=sys.stderr)
        return 1
    except (ValueError, TypeError, OSError):
        if first:
            raise
        return 2


def _sweep(options: argparse.Namespace) -> int:
    from lablib.extras import need

    need("sweeps", "scipy")

    from lablib.tools.sweep.kinds import Asked

    many = {key: tuple(getattr(options, key, ())) for _, key, *_ in _MANY}
    one = {name: getattr(options, name, None) for name in ("draft", "task", "problems", "seed")}

    def work() -> int:
        asked = Asked(options.what, options.model, **one, **many)
        found = asked.sweep(options.out, patience=options.patience, limit=options.limit)
        if found is None:  # the first rank has it
            return 0
        why = asked.nothing(found)
        if why is not None:
            print(f"lablib: {options.out}: {why}", file=sys.stderr)
            return 1
        print(f"{options.out}: python -m lablib sweep plot {options.out} draws it")
        return 0

    return as_ranks(options, work)


def _plot(options: argparse.Namespace) -> None:
    from lablib.extras import need
    from lablib.tools.bench.report import check_picture

    need("pictures", "matplotlib", "ipywidgets")
    picture = options.out or options.file.with_suffix(".png")
    check_picture(picture)
    if picture.exists() and picture.samefile(options.file):
        raise BadValue(f"out must be another file than the records, got {str(picture)!r}")

    from lablib.course.plots import pictures
    from lablib.tools.sweep.drawing import draw, named

    figure = draw(options.file)
    with named(options.file):
        drawn = pictures.svg(figure).encode() if picture.suffix == ".svg" else pictures.png(figure)
    picture.write_bytes(drawn)
    print(picture)

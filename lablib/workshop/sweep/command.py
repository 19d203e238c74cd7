"""The command: ``python -m lablib sweep votes|acceptance|speed|plot …``."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_RANK = "MLX_RANK"  # set by whoever started this process as one of many, but for MPI
_WHAT = {
    "votes": "answers to vote on, over problems and temperatures",
    "acceptance": "what is kept of drafts, over problems, temperatures, γ and rules",
    "speed": "tokens a second, over problems, n and γ",
}


def add_to(commands: Any) -> None:
    """Add the command to the command line's."""
    sweep = commands.add_parser("sweep", help="measure over problems and settings, by many ranks")
    kinds = sweep.add_subparsers(required=True, metavar="what")
    for what, help in _WHAT.items():
        kind = kinds.add_parser(what, help=help)
        kind.add_argument("model", help="a shipped model's name, or an mlx-lm directory")
        kind.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON Lines")
        kind.add_argument("--task", default="sums", help="sums, edits or stories (default: sums)")
        kind.add_argument("--problems", type=int, help="unseen problems of the task")
        kind.add_argument("--n", type=int, nargs="+", default=(), help="completions of each")
        kind.add_argument("--temperature", type=float, nargs="+", default=(), metavar="T")
        if what != "votes":
            kind.add_argument("--gamma", type=int, nargs="+", default=(), help="drafts a round")
            kind.add_argument("--rule", nargs="+", default=(), help="of acceptance")
            kind.add_argument("--draft", help="a model, or ngram")
        kind.add_argument("--seed", type=int, default=2026)
        kind.add_argument("--patience", type=float, default=20.0, help="s until a rank is lost")
        add_ranks(kind)
        kind.set_defaults(run=_sweep, what=what)
    plot = kinds.add_parser("plot", help="draw a sweep's file")
    plot.add_argument("file", type=Path)
    plot.add_argument("--out", type=Path, help=".svg or .png (default: FILE with .png)")
    plot.set_defaults(run=_plot)


def add_ranks(command: Any) -> None:
    """Add the options of what many ranks can do."""
    command.add_argument(
        "--ranks", type=int, default=1, help="processes on this machine (default: 1)"
    )


def as_ranks(options: argparse.Namespace, work: Callable[[], int | None]) -> int:
    """Do the work in this process, or start ``--ranks`` of them that do.

    What went wrong at all ranks is said by the first alone.
    """
    from lablib.workshop.sweep.ranks import SweepError, start

    if options.ranks != 1 and _RANK not in os.environ:
        return start(options.ranks, [sys.executable, "-m", "lablib", *options.arguments])
    first = os.environ.get(_RANK, "0") == "0"
    try:
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
    from lablib.workshop.sweep.kinds import Asked

    named = {"n": "n", "temperature": "temperatures", "gamma": "gammas", "rule": "rules"}
    many = {new: tuple(getattr(options, old, ())) for old, new in named.items()}
    one = {name: getattr(options, name, None) for name in ("draft", "task", "problems", "seed")}
    asked = Asked(options.what, options.model, **one, **many)

    def work() -> None:
        if asked.sweep(options.out, patience=options.patience) is not None:
            print(f"{options.out}: python -m lablib sweep plot {options.out} draws it")

    return as_ranks(options, work)


def _plot(options: argparse.Namespace) -> None:
    from lablib.extras import need
    from lablib.workshop.bench.report import check_picture

    need("pictures", "matplotlib", "ipywidgets")
    picture = options.out or options.file.with_suffix(".png")
    check_picture(picture)

    from lablib.plots import charts
    from lablib.workshop.sweep.drawing import draw

    figure = draw(options.file)
    if picture.suffix == ".svg":
        picture.write_text(charts.svg(figure), encoding="utf-8")
    else:
        picture.write_bytes(charts.png(figure))
    print(picture)

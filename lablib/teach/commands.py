"""The classroom's commands: ``release``, ``solve``, ``hunts``, ``grade`` and ``score``."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lablib.validation import BadValue

OPEN = (
    "without walls students' code has your rights: it is kept from no file, key, network or "
    "process of yours, the references among them, and only time and its own memory are limited"
)
_GRADING = """
Tell who solved what: FOLDER/student/lesson.ipynb, FOLDER/student.ipynb, or .py.

Marks: ✓ correct, ✗ wrong, ○ not attempted, ! could not be judged, ≠ the notebook's
own output says ✓ and it is not so here (look at it), ∅ nothing handed in (--roster)."""
_WALLS = """
Students' functions run in a process that has neither references nor verdicts, behind walls
of bubblewrap; what they answer is compared elsewhere (docs/grading.md). A mark says that a
function answers right, not who wrote it: a solution copied from a friend is a ✓.
An exercise that needs more processor time than --cpu is not judged (!). Of the capstones
it marks the first steps, 16.1 to 16.3; how well a capstone plays is what score tells."""
_SCORING = """
The functions run behind the same walls as grade's (see grade --help), and are asked case
by case: they see neither seeds nor answers, nor the SECRET in this command line. A score
says how a function plays, not who wrote it."""
# Each option's metavar, which tells what it takes, and its help.
_OUTPUTS = {
    "--csv": ("CSV", "write the table here"),
    "--json": ("JSON", "write the table and its counts here"),
    "--html": ("HTML", "write a page with all that is found here"),
    "--feedback": ("FOLDER", "a page for each student, .md"),
    "--moodle": ("CSV", "write a row of points a student, for Moodle"),
    "--canvas": ("CSV", "the same, for Canvas"),
    "--roster": ("CSV", "who is in the class: a table with the columns id and name"),
    "--points": (
        "TOML",
        'what exercises are worth, and which are optional: optional = ["07.4"], [points] and '
        'lines like "08.1" = 5 (default: their stars, none)',
    ),
}


def add_to(commands: Any) -> None:
    """Add them to the command line's."""
    _add_score(commands)
    _add_grade(commands)
    _add_editions(commands)


def _add_editions(commands: Any) -> None:
    release = commands.add_parser(
        "release",
        help="write the student's, solved, teacher's editions",
        usage="lablib release [-h] [--assessment] [--nbgrader] [--otter] [--sheet] OUT "
        "[LESSON ...]",
    )
    add = release.add_argument
    add("out", metavar="OUT", type=Path, help="gets student (hand out), solved, teacher (keep)")
    add(
        "sources",
        metavar="LESSON",
        nargs="*",
        help="numbers, 01 04, or notebooks, or folders of them (default: all lessons)",
    )
    for option, told in {
        "--assessment": "students see no solutions (but lablib has them)",
        "--nbgrader": "write OUT/source for nbgrader instead",
        "--otter": "write OUT/otter for Otter instead, or as well",
        "--sheet": "write OUT/sheet, pages of board exercises to print, likewise",
    }.items():
        add(option, action="store_true", help=told)
    release.set_defaults(run=_release)

    solve = commands.add_parser("solve", help="write a notebook's solved edition alone")
    solve.add_argument("notebook", type=Path)
    solve.add_argument("-o", "--out", type=Path, required=True)
    solve.set_defaults(run=_solve)

    told = "write a sheet of bug hunts, lesson 15's functions changed by a seed, and its key"
    hunts = commands.add_parser("hunts", help=told)
    hunts.add_argument("seed", metavar="SEED", help="any text; the same one gives the same hunts")
    hunts.add_argument("-n", type=int, default=3, help="how many (default: 3)")
    out = {"type": Path, "default": Path("hunts"), "metavar": "FOLDER"}
    hunts.add_argument("-o", "--out", help="gets hunts.md and key.md (default: hunts)", **out)
    hunts.set_defaults(run=_hunts)


def _add_grade(commands: Any) -> None:
    grade = commands.add_parser(
        "grade",
        help="who solved what, over a folder of notebooks",
        usage="lablib grade FOLDER [OPTION ...]",  # --lessons takes all that follow it
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_GRADING,
        epilog=_WALLS,
    )
    add = grade.add_argument
    add("folder", type=Path)
    for option, (what, told) in _OUTPUTS.items():
        add(option, type=Path, metavar=what, help=told)
    add(
        "--student",
        default="folder",
        metavar="REGEX",
        help="whose a file is, by its path in FOLDER: folder (the outer one, the default), moodle, "
        "canvas, github, or an expression with a group, '^hw1-(?P<student>[^/]+)/'",
    )
    add(
        "--lessons",
        nargs="+",
        default=[],
        metavar="NN",
        help="only these, 03 05, asked of everybody on the roster (default: what was handed in)",
    )
    add("--seconds", type=float, default=120.0, help="limit a notebook (default: 120)")
    add("--workers", type=int, help="notebooks at a time (default: one a processor)")
    add("--memory", type=int, default=2048, help="MB a notebook (default: 2048)")
    told = "seconds of processor time an exercise (default: 3)"
    add("--cpu", type=float, default=3.0, help=told)
    _add_walls(grade)
    grade.set_defaults(run=_grade)


def _add_walls(command: argparse.ArgumentParser) -> None:
    told = "run students' code where there is no bubblewrap, with your rights"
    command.add_argument("--no-walls", dest="walls", action="store_false", help=told)


def _add_score(commands: Any) -> None:
    score = commands.add_parser(
        "score",
        help="capstones of a folder of submissions, on seeds that nobody has seen",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_SCORING,
    )
    add = score.add_argument
    add("folder", type=Path, help="FOLDER/student/file, or FOLDER/student.ipynb")
    add("--seed", metavar="SECRET", help="any text (default: a new one, shown)")
    add("--csv", type=Path, help="write the table here too")
    add("--seconds", type=float, default=120.0, help="for a function (default: 120)")
    _add_walls(score)
    score.set_defaults(run=_score)


def _release(options: argparse.Namespace) -> None:
    from lablib.course.working_copy import notebooks_folder
    from lablib.teach.release import release

    names = "assessment", "nbgrader", "otter", "sheet"
    kinds = {name: getattr(options, name) for name in names}
    print(*release(options.out, options.sources or [notebooks_folder()], **kinds), sep="\n")


def _solve(options: argparse.Namespace) -> None:
    from lablib.teach.release import solve

    print(solve(options.notebook, options.out))


def _hunts(options: argparse.Namespace) -> None:
    from lablib.teach.hunts import write

    print(*write(options.out, options.seed, options.n), sep="\n")


def _grade(options: argparse.Namespace) -> None:
    from lablib.extras import need

    need("submitted notebooks", "IPython", "psutil")
    from lablib.teach.grade import grade

    wanted = {k: v for k, v in vars(options).items() if k not in ("arguments", "folder", "run")}
    files = options.csv, options.json, options.html, options.moodle, options.canvas
    written = any(files)
    with _behind_walls(options, "; what is judged by now is in the report" * written):
        report = grade(options.folder, progress=sys.stderr.isatty(), **wanted)
        print(report.summary() if written else report)  # the table is in the file


def _score(options: argparse.Namespace) -> None:
    import secrets

    from lablib.extras import need

    need("submitted notebooks", "IPython", "psutil")
    from lablib.teach.capstones import score_folder

    secret = secrets.token_hex(8) if options.seed is None else options.seed
    wanted = {name: getattr(options, name) for name in ("seconds", "csv", "walls")}
    with _behind_walls(options, f"; --seed {secret} plays the same again"):
        print(score_folder(options.folder, secret, **wanted))


@contextmanager
def _behind_walls(options: argparse.Namespace, further: str) -> Iterator[None]:
    """Run students' code inside: it ends with this command; say so where nothing keeps it in.

    Args:
        options: of the command: the folder, and whether walls are wanted.
        further: what whoever stops it is told as well.

    Raises:
        BadValue: this command itself may run what lies in there, or MLX can't be started inside.
    """
    _stand_outside(options.folder)
    _need_a_cpu()
    if not options.walls:
        print(f"lablib: {OPEN}", file=sys.stderr)
    signals = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(number, _stop) for number in signals]
    try:
        yield
    except (KeyboardInterrupt, OSError):  # of a full disk, say
        print(f"lablib: stopped{further}", file=sys.stderr)
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is _stop:  # once stopped, they are ignored to the end
            for number, handler in zip(signals, before, strict=True):
                signal.signal(number, handler)


def _stand_outside(folder: Path) -> None:
    """Refuse to work where Python looks for modules: a student's csv.py would run.

    ``python -m`` looks first where one stands; lablib has it look there no more, but for some
    modules that was too late. What belongs to this Python may lie below the folder.

    Raises:
        BadValue: a place that Python looks in is what was handed in, or in it.
    """
    stands = [os.curdir] if "-m" in sys.orig_argv and not sys.flags.safe_path else []
    places = [Path(os.path.realpath(place)) for place in (*stands, *sys.path)]
    others = [place for place in places if not place.is_relative_to(os.path.realpath(sys.prefix))]
    if any(place.is_relative_to(os.path.realpath(folder)) for place in others):
        raise BadValue(
            f"FOLDER must not be where you stand, or in PYTHONPATH, got {str(folder)!r}: Python "
            "looks for modules there, so a student's csv.py would run with your rights; cd to "
            "another folder"
        )


def _need_a_cpu() -> None:
    """Refuse MLX for CUDA: it takes more addresses than a student's process may have."""
    from lablib.machine import backend

    if backend.has_cuda_backend():
        raise BadValue(
            "MLX must be the one for CPUs, got MLX for CUDA, which doesn't start where memory is "
            "limited: grade in an environment that has no mlx-cuda"
        )


def _stop(*_: object) -> None:
    """Stop at the first signal, so that no process is left behind; a second one doesn't hinder."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt

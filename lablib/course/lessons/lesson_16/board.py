"""Play a capstone in a notebook, and keep a table of one's own attempts.

Public seeds are for trying things out: whoever tunes on them for long is good on them. A teacher
scores with seeds that nobody has seen: ``python -m lablib score FOLDER``.

The table is ``capstones.json`` in the working folder. It is kept where a student works, which is
where a ``progress.json`` lies or where ``leaderboard(keep=True)`` was called once; never among the
course's own notebooks, so that a lesson that is recorded or tested there leaves nothing behind.
"""

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from lablib.course.lessons.lesson_16 import drafts, stories, sums
from lablib.course.lessons.lesson_16.scores import Difference, Score
from lablib.folders import course, write_whole
from lablib.validation import BadType, BadValue, integer, one_of

CAPSTONES: dict[str, ModuleType] = {game.NAME: game for game in (stories, sums, drafts)}
BASELINE, EXAMPLE, ORACLE = "baseline", "one good answer", "the oracle"
PUBLIC = 1  # the seed whose problems a notebook shows
SEEDS = (1, 2, 3)  # on which two functions are compared
FILE = "capstones.json"
_SWITCH = "progress.json"  # where a student's marks are kept, the attempts are kept too
_KEYS = {"capstone", "name", "seed", "value", "low", "high", "made_of", "when"}

_here: list[dict[str, Any]] = []  # the attempts of this kernel


def score(
    capstone: str,
    function: Callable[..., Any] | str,
    *,
    seed: int = PUBLIC,
    name: str | None = None,
) -> Score:
    """Play a capstone on a public seed, and note the attempt for :func:`leaderboard`.

    Args:
        capstone: ``"stories"``, ``"sums"`` or ``"drafts"``.
        function: what the capstone asks for; or, to compare, ``"baseline"``,
            ``"one good answer"``, or ``"the oracle"``, who knows what a function may not know:
            the ceiling.
        seed: which problems; the score of another seed is another draw of the same game.
        name: what the table calls the attempt; the function's own name when None.

    Raises:
        ValueError: the function is the untouched starter, or broke a rule; nothing is noted.
    """
    found = _played(capstone, function, integer("seed", seed, 0))
    named = function if isinstance(function, str) else getattr(function, "__name__", "a function")
    attempt = {
        "capstone": capstone, "name": name or named,
        "seed": seed,
        "value": found.value, "low": found.low, "high": found.high, "made_of": found.made_of,
        "when": datetime.now().isoformat(" ", "minutes"),
    }  # fmt: skip
    _here.append(attempt)
    path = Path(FILE)
    if path.exists() or Path(_SWITCH).exists():
        _keep(path, [attempt])
    return found


def compare(
    capstone: str,
    one: Callable[..., Any] | str,
    other: Callable[..., Any] | str = BASELINE,
    *,
    seeds: Sequence[int] = SEEDS,
) -> Difference:
    """Play a capstone with two functions on the same seeds, and compare them problem by problem.

    Args:
        capstone: as in :func:`score`.
        one: a function, or one of ours.
        other: what it is compared with.
        seeds: which problems; the more seeds, the narrower the interval.
    """
    seeds = [integer("seeds", seed, 0) for seed in seeds]
    if not seeds:
        raise BadValue("seeds must hold a seed at least, got none")
    both = [[_played(capstone, each, seed) for seed in seeds] for each in (one, other)]
    return Difference.of(*map(Score.together, both))


def _played(capstone: str, function: Callable[..., Any] | str, seed: int) -> Score:
    """Return what a function scores on a seed; nothing is noted."""
    game = CAPSTONES[one_of("capstone", capstone, CAPSTONES)]
    if isinstance(function, str):
        one_of("function", function, (BASELINE, EXAMPLE, ORACLE))
        if function == ORACLE:
            return game.oracle(game.world(seed))
        function = player(capstone, function)
    if not callable(function):
        raise BadType(f"function must be {game.FUNCTION} itself, got {type(function).__name__}")
    world = game.world(seed)
    try:
        return game.play(function, world)
    except NotImplementedError:
        raise BadValue(
            f"write {game.FUNCTION} first: it still raises NotImplementedError"
        ) from None


def player(capstone: str, which: str) -> Callable[..., Any]:
    """Return the "baseline" of a capstone, or "one good answer", its exercise's reference."""
    if which == BASELINE:
        return CAPSTONES[capstone].baseline
    from lablib.course.lessons.lesson_16.exercises import EXAMPLES

    return EXAMPLES[capstone]


def leaderboard(keep: bool = False, seed: int | None = None) -> "Board":
    """Return the attempts, the best first on each seed; those of earlier kernels too.

    Args:
        keep: begin a file in the working folder, so that attempts outlast this kernel.
        seed: whose attempts; of all seeds when None.

    Raises:
        ValueError: the file holds something else; ``keep`` in the course's own folder; a bad seed.
    """
    wanted = None if seed is None else integer("seed", seed, 0)
    path = Path(FILE)
    if keep and not path.exists():
        if _is_the_course(path.absolute().parent):
            raise BadValue("keep must be False among the course's own notebooks: copy them first")
        _keep(path, _here)
    kept = _read(path)
    both = [*kept, *(attempt for attempt in _here if attempt not in kept)]
    return Board([each for each in both if wanted in (None, each["seed"])])


@dataclass(frozen=True)
class Board:
    """A table of attempts; it displays itself.

    Places count within a seed, as other seeds have other problems. Equal scores share one, and the
    oracle has none.
    """

    attempts: list[dict[str, Any]]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Return capstone, place, score, interval, name, seed, and what the score was made of."""
        rows = []
        for capstone in CAPSTONES:
            mine = [one for one in self.attempts if one["capstone"] == capstone]
            mine.sort(key=lambda one: (one["seed"], -one["value"], one["when"], one["name"]))
            ranked = [(one["seed"], one["value"]) for one in mine if one["name"] != ORACLE]
            for one in mine:
                ahead = sum(s == one["seed"] and v > one["value"] for s, v in ranked)
                place = "–" if one["name"] == ORACLE else 1 + ahead
                span = f"{one['low']:.3f} to {one['high']:.3f}"
                value = f"{one['value']:.3f}"
                row = (capstone, str(place), value, span, one["name"], str(one["seed"]))
                rows.append((*row, one["made_of"]))
        return rows

    def __repr__(self) -> str:
        if not self.rows:
            return "no attempts yet"
        table = [HEAD, *self.rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(HEAD))]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)

    def _repr_html_(self) -> str:
        whole = "overflow-wrap:normal"  # else a narrow window breaks "sco|re"
        head = "".join(f'<th scope="col" style="{whole}">{name}</th>' for name in HEAD)
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        rows = f"<caption>Attempts</caption><tr>{head}</tr>{cells}"
        return f'<table style="overflow-wrap:anywhere">{rows}</table>'


HEAD = ("capstone", "place", "score", "95 %", "function", "seed", "made of")


def _is_the_course(folder: Path) -> bool:
    """Return whether a folder is the notebooks' own, or below it."""
    notebooks = course()
    return notebooks is not None and folder.resolve().is_relative_to(notebooks)


def _keep(path: Path, attempts: list[dict[str, Any]]) -> None:
    """Add attempts to a file, which is replaced as a whole."""
    if _is_the_course(path.absolute().parent):
        return
    try:
        text = json.dumps([*_read(path), *attempts], ensure_ascii=False, indent=1)
        write_whole(path, text + "\n")
    except (OSError, BadValue) as error:  # a score that took its time is shown all the same
        print(f"The table ends with this kernel: {error}")


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the attempts in a file; none when there is no file."""
    try:
        attempts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError:
        attempts = None
    whole = isinstance(attempts, list) and all(
        isinstance(one, dict) and one.keys() >= _KEYS and isinstance(one["value"], float)
        for one in attempts
    )
    if not whole:
        raise BadValue(f"{path.name} must hold attempts at capstones; move it away")
    return attempts

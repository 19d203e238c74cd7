"""Judge one submitted notebook: its functions, called in a process that knows no answers.

There is one process for a file. What raises, or takes too long and lets itself be stopped, costs
the exercise that it touches; who wears the process out loses what is not judged by then, and the
report says so.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from lablib.course.checks.checking import judge
from lablib.course.checks.exercises import (
    NUMBER,
    Exercise,
    exercises,
    find,
    lessons,
    number_of,
)
from lablib.course.checks.running import Gone, TimeUp
from lablib.folders import course
from lablib.teach.editions import code_cells, read_notebook
from lablib.teach.explained import explanations
from lablib.teach.handed_in import clean, code_of, read_cells, text_of
from lablib.teach.predicted import predictions
from lablib.teach.process import GARBLED, SPENT, STATEMENTS, Function, Limits, Process, words

FOR_STUDENTS = ("Write ", "Next: ", "Stuck? ")  # advice that a teacher's table can do without
RANK = {mark: rank for rank, mark in enumerate("!○✗≠✓")}  # of several verdicts the best counts
SECONDS = 20.0  # by the clock, for a statement
TALK = 2**18  # bytes of what is said of all statements
_MAKES = r"^(?:(?:async )?def |class ){0}\b|^{0} *(?::[^=\n]*)?=(?!=)"  # a name
OFFERS = 6  # of one exercise, at most: each costs time


@dataclass(frozen=True)
class Finding:
    """A verdict: ``✓``, ``✗``, ``○``, ``!`` not judged, ``≠`` not what the notebook itself says."""

    outcome: str
    misconception: str = ""
    message: str = ""
    ends: str = ""  # why nothing after it can be judged, if so


@dataclass(frozen=True)
class Submission:
    """The parts of a notebook that are judged; cells are called by their numbers."""

    cells: list[tuple[int, str]]  # code
    exercises: list[str]  # of its lessons
    owners: dict[int, str] = field(default_factory=dict)  # the exercise that a cell is about
    recorded: dict[str, str] = field(default_factory=dict)  # what ``check`` said there
    predicted: dict[str, Any] = field(default_factory=dict)  # by question
    explained: dict[str, str] = field(default_factory=dict)  # by exercise
    untouched: list[int] = field(default_factory=list)  # cells that are as the lesson has them


def read_submission(path: Path) -> Submission:
    """Read a notebook, or a ``.py`` file with ``# %%`` or ``# In[1]:`` between its cells.

    Raises:
        ValueError: it is neither, or has no exercise of this course.
    """
    return understood(read_cells(path), path.name)


def understood(cells: list[dict[str, Any]], name: str) -> Submission:
    """Return what is judged of a notebook's cells; its file's name may tell the lesson."""
    code, marks, recorded = code_of(cells), {}, {}
    for number, cell in enumerate(cells):
        mark = (cell.get("metadata") or {}).get("lablib") or {}
        if isinstance(mark.get("exercise"), str):
            marks[number] = mark["exercise"]
        if cell.get("cell_type") == "code":
            recorded |= dict(_recorded(cell))
    told = {*marks.values(), *re.findall(rf"""\bcheck\(\s*["']({NUMBER}\.\d)["']""", _joined(code))}
    numbers = {number_of(each) for each in told} & {*lessons()} or _untold(_joined(code), name)
    every = [e for number in sorted(numbers) for e in exercises(number)]
    page = {e.further for e in every if e.id in told} == {True}  # one beside a lesson
    made = {e.id for e in every if f"def {e.name}(" in _joined(code)}
    listed = [e for e in every if e.further == page or e.id in told | made]
    if not listed:
        raise ValueError("it has no exercise of this course: neither a check nor a function of one")
    owners = {}
    for number, source in code:
        defined = [e.id for e in listed if re.search(_MAKES.format(e.name), source, re.MULTILINE)]
        marked = [e.id for e in listed if e.id == marks.get(number)]  # no other course's
        if defined or marked:
            owners[number] = [*marked, *defined][-1]
    handed_out = frozenset().union(*map(_handed_out, numbers))
    untouched = [number for number, source in code if _without_end(source) in handed_out]
    asked = [each.id for each in listed]
    said = predictions(code), explanations(code)
    return Submission(code, asked, owners, recorded, *said, untouched)


def judge_submission(
    work: Submission, limits: Limits, tell: Callable[[str, Finding], None]
) -> dict[str, Finding]:
    """Return what was found of each exercise; ``tell`` is told as soon as it is.

    Nothing runs when there is none.
    """
    found: dict[str, Finding] = {}
    end = ""
    try:
        if work.exercises:
            with Process(limits) as process:
                names = {id_: find(id_).name for id_ in work.exercises}
                found_there, said = offered(process, work.cells, names, work.untouched)
                first = sorted(said.items(), reverse=True)  # of several cells the upper one tells
                problems = {work.owners.get(number, ""): text for number, text in first}
                for id_ in work.exercises:
                    each = found_there.get(id_) or []
                    found[id_] = _best(process, id_, each, problems.get(id_, ""))
                    tell(id_, _compared(work, id_, found[id_]))
                    if found[id_].ends:
                        raise Gone(found[id_].ends)
    except (Gone, TimeUp) as error:
        late = f"the notebook ran longer than {limits.seconds:g} s"
        end = late if isinstance(error, TimeUp) else str(error)
    lost = Finding("!", "", clean(f"not judged, as what ran before it took the whole file: {end}"))
    return {id_: _compared(work, id_, found.get(id_, lost)) for id_ in work.exercises}


def offered(
    process: Process,
    cells: Sequence[tuple[int, str]],
    names: Mapping[str, str],
    untouched: Sequence[int] = (),
) -> tuple[dict[str, Any], dict[int, str]]:
    """Run a notebook; return what it offers by exercise, and what cells raised, by their numbers.

    ``names`` are functions' by exercise, ``untouched`` numbers of cells that are the lesson's own.
    """
    own = [(number, source, number not in untouched) for number, source in cells]
    limits = process.limits
    cpu, spare = min(limits.cpu, limits.seconds / 5), STATEMENTS * limits.cpu
    times = {"cpu": cpu, "seconds": SECONDS, "spare": min(spare, limits.seconds / 5)}
    process.send({"cells": own, "names": names, **times})
    told = process.receive(limits.seconds, most=TALK)
    try:
        problems = {int(number): words(text) for number, text in told["problems"]}
        return {**told["offered"]}, problems
    except (KeyError, TypeError, ValueError):
        raise Gone(GARBLED) from None


def _best(process: Process, id_: str, offered: list[Any], problem: str) -> Finding:
    """Return the best that is found of what is offered: what has the name, and what was checked."""
    asked = find(id_)
    nothing = f"its cell raised {problem}"
    if not problem or problem == f"NameError: name '{asked.name}' is not defined":
        nothing = f"no function {asked.name} in the notebook"
    best = Finding("!", "", clean(nothing))
    for number, told in enumerate(offered[:OFFERS] if isinstance(offered, list) else []):
        if not isinstance(told, dict):
            raise Gone(GARBLED)
        keeps = bool(asked.cases) and not asked.in_place
        function = Function(process, told, (id_, number), asked.seconds, keeps)
        try:
            finding = _verdict(asked, function, told.get("callable"))
        except Gone as gone:
            lives = gone.args[0].startswith(SPENT)
            finding = Finding("!", "", clean(f"calling it: {gone}"), "" if lives else str(gone))
        if function.gone and not finding.ends and not str(function.gone).startswith(SPENT):
            finding = replace(finding, ends=str(function.gone))
        if number == 0 or RANK[finding.outcome] > RANK[best.outcome]:
            best = finding
        if finding.ends or best.outcome == "✓":
            return replace(best, ends=finding.ends)
    return best


def _compared(work: Submission, id_: str, found: Finding) -> Finding:
    """Return what was found, or ``≠`` where the notebook itself says ✓."""
    if found.outcome == "✓" or work.recorded.get(id_) != "✓":
        return replace(found, ends="")
    word = {"✗": "wrong", "○": "not attempted", "!": "not judged"}[found.outcome]
    said = f"the notebook's own output says ✓; here it is {word}: {found.message}"
    return Finding("≠", "", said.rstrip(": "))


def _verdict(exercise: Exercise, function: Function, can_be_called: Any) -> Finding:
    try:
        outcome = judge(exercise, function if can_be_called else None)
    except Exception as error:  # an answer that even its message could not be made of
        return Finding("!", "", clean(f"could not be judged: {type(error).__name__}: {error}"))
    lines = [line for line in outcome.message.splitlines() if not line.startswith(FOR_STUDENTS)]
    return Finding(outcome.mark, outcome.misconception or "", clean(" · ".join(lines)))


def _recorded(cell: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the marks in a cell's recorded outputs: (exercise, mark)."""
    for output in cell.get("outputs") or []:
        data = output.get("data") or {}
        for text in map(text_of, (data.get("text/plain", ""), output.get("text", ""))):
            for mark, exercise in re.findall(rf"^([✓✗○]) ({NUMBER}\.\d) ", text, re.MULTILINE):
                yield exercise, mark


def _untold(source: str, name: str) -> set[str]:
    """Return the lessons of work that has no check in it.

    A program may have functions of several lessons. A notebook is one lesson, whose own cells may
    define what another lesson asks for: so its file's name tells, or what most functions are of. A
    function's name that two lessons have tells of neither.
    """
    written = {*re.findall(r"^def (\w+)", source, re.MULTILINE)}
    asked = [each for each in exercises() if each.name in written]
    names = Counter(each.name for each in asked)
    found = Counter(each.lesson for each in asked if names[each.name] == 1)
    said = re.findall(rf"(?<!\d){NUMBER}(?!\d)", name)[:1]
    named = {*[n for each in said for n in (each, each[:2]) if n in lessons()][:1]}
    if name.lower().endswith(".py"):
        return {*found} or named
    return named or {lesson for lesson, _ in found.most_common(1)}


@lru_cache
def _handed_out(lesson: str) -> frozenset[str]:
    """Return the code cells of a lesson, and of the pages beside it, as students got them."""
    folder, names = course(), (f"{lesson}_*.ipynb", f"further/{lesson}_*.ipynb")
    paths = [path for name in names for path in folder.glob(name)] if folder else ()
    cells = (cell for path in paths for cell, _ in code_cells(read_notebook(path)))
    return frozenset(_without_end(cell["source"]) for cell in cells)


def _without_end(source: str) -> str:
    """Return a cell without comments at its end: there a program has the lesson's next text."""
    lines = source.splitlines()
    while lines and (not lines[-1].strip() or lines[-1].startswith("#")):
        lines.pop()
    return "\n".join(lines).strip()


def _joined(cells: list[tuple[int, str]]) -> str:
    return "\n".join(source for _, source in cells)

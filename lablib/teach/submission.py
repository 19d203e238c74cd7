"""Judge one submitted notebook: its functions, called in a process that knows no answers.

The process is started anew without the statement, or without the exercise, that ended it, so an
accident costs the exercise it touches and no other. Where an answer is wrong it is judged once
more, after those of the student's own statements that may matter, too.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from lablib.course.checks.checking import judge
from lablib.course.checks.exercises import Exercise, exercises, find, lessons
from lablib.course.checks.running import Gone, TimeUp
from lablib.folders import course
from lablib.teach.apart.codec import Garbled
from lablib.teach.apart.remote import Function, Limits, Process, words
from lablib.teach.editions import code_cells, read_notebook
from lablib.teach.handed_in import clean, code_of, read_cells, text_of
from lablib.teach.predicted import predictions

FOR_STUDENTS = ("Write ", "Next: ", "Stuck? ")  # advice that a teacher's table can do without
RANK = {
    "!": 0,
    "○": 1,
    "✗": 2,
    "≠": 3,
    "✓": 4,
}  # of several verdicts on one exercise the best counts
STARTS = 12  # of its process, at most
STATEMENTS = 5  # rations of processor time that all statements may use in one process
RATIONS = 15  # that they may use in all processes
CELLS = "its cells"  # what is at work when no exercise is judged
_MAKES = r"^(?:(?:async )?def |class ){0}\b|^{0} *(?::[^=\n]*)?=(?!=)"  # a name
OFFERS = 5  # of one exercise, at most: each costs time


@dataclass(frozen=True)
class Finding:
    """A verdict: ``✓``, ``✗``, ``○``, ``!`` not judged, ``≠`` not what the notebook itself says."""

    outcome: str
    misconception: str = ""
    message: str = ""


@dataclass(frozen=True)
class Submission:
    """The parts of a notebook that are judged.

    Attributes:
        cells: its code cells, each with its number.
        exercises: ids of all exercises of its lessons.
        owners: the exercise that a cell is about, by the cell's number.
        recorded: what ``check`` said when the student ran it, by exercise.
        predicted: what its ``predict`` lines say, by question; nothing is judged of it.
        untouched: numbers of the cells that are as the lesson has them.
    """

    cells: list[tuple[int, str]]
    exercises: list[str]
    owners: dict[int, str] = field(default_factory=dict)
    recorded: dict[str, str] = field(default_factory=dict)
    predicted: dict[str, Any] = field(default_factory=dict)
    untouched: list[int] = field(default_factory=list)

    def only(self, lessons: Sequence[str], ids: Sequence[str] = ()) -> "Submission":
        """Return it with the exercises of these lessons, and with these; with all where none are.

        There may be none left.
        """
        kept = [e for e in self.exercises if not lessons or e[:2] in lessons]
        return replace(self, exercises=[e for e in kept if not ids or e in ids])


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
    told = {*marks.values(), *re.findall(r"""\bcheck\(\s*["'](\d\d\.\d)["']""", _joined(code))}
    numbers = {each[:2] for each in told} & {*lessons()} or _untold(_joined(code), name)
    listed = [e for number in sorted(numbers) for e in exercises(number)]
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
    return Submission(code, asked, owners, recorded, predictions(code), untouched)


def judge_submission(
    work: Submission,
    limits: Limits,
    tell: Callable[[str, Finding | None], None] = lambda exercise, finding: None,
    known: Mapping[str, Finding] | None = None,
    struck: Mapping[str, str] | None = None,
    over: str = "",
) -> dict[str, Finding]:
    """Return what was found of each exercise; nothing runs when there is none.

    Args:
        work: what is judged.
        limits: of the process that it runs in.
        tell: is told of each exercise when it begins (``None``; ``CELLS`` between them), and of
            what was found.
        known: what was found in an earlier sitting.
        struck: exercises that are not judged (again), and why.
        over: why nothing is judged any more, if so.
    """
    if not work.exercises:
        return {}
    sitting = _Sitting(work, limits, tell)
    sitting.recall(known or {}, struck or {})
    if over:
        sitting.give_up(over)
    else:
        tell(CELLS, None)
        sitting.hold()
    return {exercise: sitting.finding(exercise) for exercise in work.exercises}


class _Sitting:
    """One notebook before the judge, over as many processes as it wears out."""

    def __init__(
        self, work: Submission, limits: Limits, tell: Callable[[str, Finding | None], None]
    ) -> None:
        self.work, self.limits, self.tell = work, limits, tell
        self.until = time.monotonic() + limits.seconds
        self.found: dict[str, Finding] = {}
        self.offers: dict[str, int] = {}
        self.closed: set[str] = set()  # exercises that are not judged (again)
        self.ended: set[str] = set()  # those that ended their process
        self.accidents: dict[str | None, str] = {}
        self.skip: list[tuple[int, int]] = []
        self.at: tuple[int, int] | None = None
        self.wide = False  # whether what may matter is run, too

    def recall(self, known: Mapping[str, Finding], struck: Mapping[str, str]) -> None:
        """Go on from what an earlier sitting has found, without what has ended it."""
        for exercise, text in struck.items():
            self._note(exercise, Finding("!", "", clean(text)))
            self.closed.add(exercise)
        for exercise, finding in known.items():
            self._note(exercise, finding)

    def give_up(self, text: str) -> None:
        """Note why what is not judged by now is not."""
        for exercise in self.work.exercises:
            if exercise not in self.closed:
                self._note(exercise, Finding("!", "", clean(text)))

    def hold(self) -> None:
        """Judge until everything is judged, or the time is over."""
        text = ""
        rations = RATIONS * self.limits.cpu
        for _ in range(STARTS):
            left = self.until - time.monotonic()
            if left <= 0:
                text = f"the notebook ran longer than {self.limits.seconds:g} s"
                break
            if rations <= 0:
                text = f"its cells used more than {RATIONS * self.limits.cpu:g} s of processor time"
                break
            self.at = None
            try:
                most = min(STATEMENTS * self.limits.cpu, rations)
                with Process(replace(self.limits, seconds=left, statements=most)) as process:
                    try:
                        self._run(process)
                        self._offers(process)
                    finally:
                        rations -= process.meter.stated
                if self.wide or not process.wider:
                    return
                self.closed -= self.ended
                if not self._is_open():
                    return
                self.wide = True
            except Garbled:
                text = "its code is more than is read"
                break
            except (Gone, TimeUp) as end:
                late = f"it ran longer than {self.limits.statement:g} s"
                text = late if isinstance(end, TimeUp) else str(end)
                if self.at is not None:
                    self.skip.append(self.at)
                if self.at is not None and not self.wide:  # an experiment's is nobody's accident
                    self.accidents.setdefault(self.work.owners.get(self.at[0]), f"its cell: {text}")
        if not self.wide:
            self.give_up(text)

    def _is_open(self) -> bool:
        """Return whether an answer is not right, or not made yet, and may be judged again."""
        source = _joined(self.work.cells)
        return any(
            self.found[id_].outcome in "✗!" if id_ in self.found else find(id_).name in source
            for id_ in self.work.exercises
            if id_ not in self.closed
        )

    def finding(self, exercise: str) -> Finding:
        """Return the best that was found, or ``≠`` where the notebook itself says ✓."""
        nothing = self.accidents.get(exercise, f"no function {find(exercise).name} in the notebook")
        found = self.found.get(exercise, Finding("!", "", clean(nothing)))
        if found.outcome != "✓" and self.work.recorded.get(exercise) == "✓":
            words = {"✗": "wrong", "○": "not attempted", "!": "not judged"}[found.outcome]
            said = f"the notebook's own output says ✓; here it is {words}: {found.message}"
            return Finding("≠", "", said.rstrip(": "))
        return found

    def _run(self, process: Process) -> None:
        # A process that is started anew doesn't repeat what only judged exercises need; but whether
        # those that have ended one lack something, it should tell.
        judged = [exercise for exercise in self.work.exercises if exercise in self.closed]
        names = [
            find(each).name
            for each in self.work.exercises
            if each not in judged or each in self.ended
        ]
        work = self.work
        for told in process.run(work.cells, names, self.skip, self.wide, judged, work.untouched):
            if "at" in told:
                self.at = _place(told["at"])
            elif "problem" in told:
                owner = self.work.owners.get(_place(told["problem"])[0])
                text = words(told.get("text"))
                missing = owner and f"NameError: name '{find(owner).name}' is not defined"
                if text != missing:  # which the check below it says; better said in words
                    self.accidents.setdefault(owner, f"its cell raised {text}")
            elif "check" in told:
                self._offered(process, words(told["check"]), told)
            else:
                raise Gone("it wrote something else into its line")
        self.at = None

    def _offers(self, process: Process) -> None:
        """Judge what no ``check`` has seen, or had seen before all cells had run.

        What has the name in the end counts, too, however often another one was checked.
        """
        for exercise in self.work.exercises:
            found = self.found.get(exercise)
            again = found is None or found.outcome in "!○" or "NameError" in found.message
            if exercise not in self.closed:
                process.send({"offer": find(exercise).name, "again": again})
                told = process.hear()
                if "missing" not in told:
                    self._offered(process, exercise, told, last=True)

    def _offered(
        self, process: Process, exercise: str, told: dict[str, Any], last: bool = False
    ) -> None:
        """Judge a function that is offered, the last one in any case; say that this is enough."""
        self.offers[exercise] = self.offers.get(exercise, 0) + 1
        too_often = self.offers[exercise] > OFFERS and not last
        closed = exercise in self.closed or too_often
        if exercise in self.work.exercises and not closed:
            turn, asked = self.offers[exercise], find(exercise)
            keeps = bool(asked.cases) and not asked.in_place
            function = Function(process, told, asked.seconds, turn, keeps)
            self.tell(exercise, None)
            try:
                self._note(exercise, _verdict(asked, function, told.get("callable")))
            except Gone as gone:
                self._note(exercise, Finding("!", "", clean(f"calling it: {gone}")))
            self.tell(CELLS, None)
            if function.gone:
                self.at = None
                self.closed.add(exercise)
                self.ended.add(exercise)
                raise function.gone
        process.send({"enough": True})

    def _note(self, exercise: str, finding: Finding) -> None:
        best = self.found.get(exercise)
        if best is None or RANK[finding.outcome] > RANK[best.outcome]:
            self.found[exercise] = finding
            self.tell(exercise, finding)
        if finding.outcome == "✓":
            self.closed.add(exercise)


def _verdict(exercise: Exercise, function: Function, can_be_called: Any) -> Finding:
    try:
        outcome = judge(exercise, function if can_be_called else None)
    except Exception as error:  # an answer that even its message could not be made of
        return Finding("!", "", clean(f"could not be judged: {type(error).__name__}: {error}"))
    lines = [line for line in outcome.message.splitlines() if not line.startswith(FOR_STUDENTS)]
    return Finding(outcome.mark, outcome.misconception or "", clean(" · ".join(lines)))


def _place(told: Any) -> tuple[int, int]:
    try:
        cell, statement = told
    except (TypeError, ValueError):
        cell = statement = None
    if type(cell) is not int or type(statement) is not int:
        raise Gone("it wrote something else into its line")
    return cell, statement


def _recorded(cell: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the marks in a cell's recorded outputs: (exercise, mark)."""
    for output in cell.get("outputs") or []:
        data = output.get("data") or {}
        for text in map(text_of, (data.get("text/plain", ""), output.get("text", ""))):
            for mark, exercise in re.findall(r"^([✓✗○]) (\d\d\.\d) ", text, re.MULTILINE):
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
    found = Counter(each.id[:2] for each in asked if names[each.name] == 1)
    named = {*re.findall(r"(?<!\d)\d\d(?!\d)", name)[:1]} & {*lessons()}
    if name.lower().endswith(".py"):
        return {*found} or named
    return named or {lesson for lesson, _ in found.most_common(1)}


@lru_cache
def _handed_out(lesson: str) -> frozenset[str]:
    """Return the code cells of a lesson as students got it."""
    folder = course()
    paths = folder.glob(f"{lesson}_*.ipynb") if folder else ()
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

"""The report as one HTML page that needs nothing else, and as a page of feedback a student."""

import hashlib
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from lablib.teach.reports import OUTCOMES, ExerciseRow, GradeReport

# Okabe and Ito's colours, darkened to a contrast of 4.5 on white; the marks differ in shape, too.
COLOURS = {"✓": "#00734f", "≠": "#7a4a8a", "✗": "#b34700", "○": "#666", "!": "#8a6100", "∅": "#666"}
STYLE = Path(__file__).with_name("static").joinpath("report.css").read_text(encoding="utf-8")
TITLE = ": your exercises"  # behind a name, of a page of feedback


def page(report: GradeReport) -> str:
    """Return the report as one HTML page."""
    told = "".join(_details(report, *each) for each in enumerate(report.students()))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Who solved what</title><style>{STYLE}</style></head><body>"
        f"<h1>Who solved what</h1>{_summary(report)}"
        f"<h2>Discuss next</h2>{_topics(report)}"
        f"<h2>Students and exercises</h2>{_grid(report)}"
        f"{_explained(report)}"
        f"<h2>Exercises</h2>{_counts(report)}{_predicted(report)}"
        f"<h2>What each was told</h2>{told}</body></html>\n"
    )


def feedback(report: GradeReport, student: str) -> str:
    """Return what to tell one student, in Markdown."""
    known = {exercise.id: exercise for exercise in report.exercises()}
    lines = [f"# {_plain(student)}{TITLE}", ""]
    rows = report.of(student)
    asked = [row for row in rows if row.exercise != "-"]
    lines += [f"{sum(row.outcome == '✓' for row in asked)} of {len(asked)} solved.", ""]
    for row in rows:
        exercise = known.get(row.exercise)
        title = f"{row.exercise} {exercise.title}" if exercise else _plain(row.notebook)
        told = [f"- {row.outcome} **{title}**: {OUTCOMES[row.outcome]}"]
        if row.message and row.outcome not in "✓∅":  # these two say all by themselves
            told += [f"  {_begun(_plain(part))}" for part in row.message.split(" · ")]
        elif exercise and row.outcome == "✓" and exercise.next:
            told.append(f"  Next: {exercise.next}")
        lines.append("  \n".join(told))  # two spaces keep a line's end in Markdown
    return "\n".join(lines) + "\n"


def is_feedback(path: Path) -> bool:
    """Return whether a file is such a page, as its first line tells."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.readline(2**16).rstrip().endswith(TITLE.encode())


def file_name(student: str) -> str:
    """Return a name for a student's file: every file system takes it, and for no other's."""
    if re.fullmatch(r"[a-z0-9][a-z0-9._@+-]{,99}", student):
        return student
    hashed = hashlib.sha256(student.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{re.sub(r'[^A-Za-z0-9_@+-]', '_', student)[:80]}~{hashed}"


def _summary(report: GradeReport) -> str:
    marks = [row.outcome for row in report.rows]
    listed = "".join(
        f"<li>{_mark(mark)} {escape(text)}: {marks.count(mark)}</li>"
        for mark, text in OUTCOMES.items()
        if mark in marks
    )
    notes = "".join(f"<p><strong>{escape(note)}</strong></p>" for note in report.notes())
    return f"<p>{len(report.students())} students.</p><ul>{listed}</ul>{notes}"


def _topics(report: GradeReport) -> str:
    head = ("exercise", "looks like", "students", "of those who tried", "what to tell them")
    rows = [
        [
            _cell(f"{topic.exercise} {topic.title}"),
            f"<td><code>{topic.misconception}</code></td>",
            *map(_cell, (topic.students, topic.attempts)),
            f"<td>{_marked(topic.text)}</td>",
        ]
        for topic in report.topics()
    ]
    found = _table("Misconceptions, the most frequent first", head, rows)
    ways = ", ".join(f"{id_} ({count})" for id_, count in report.unnamed().items())
    other = f"<p>Wrong in ways that have no name: {ways}. See what was told, below.</p>"
    return (found if rows else "<p>No known misconception was found.</p>") + other * bool(ways)


def _grid(report: GradeReport) -> str:
    listed = [each.id for each in report.exercises()]
    rows = []
    for number, student in enumerate(report.students()):
        own = {row.exercise: row for row in report.of(student)}
        strange = " (not on the roster)" * (student in report.strangers)
        marks = [_told(own[id_], number) if id_ in own else "<td></td>" for id_ in listed]
        got, most = report.points(student)
        rows.append([_cell(student + strange), *marks, _cell(f"{got:.10g} of {most:.10g}")])
    return _table("Marks", ("student", *listed, "points"), rows)


def _counts(report: GradeReport) -> str:
    counts = report.counts()
    rows = [
        [_cell(f"{each.id} {each.title} {each.difficulty}"), *map(_cell, counts[each.id].values())]
        for each in report.exercises()
    ]
    return _table("How many students of each outcome", ("exercise", *OUTCOMES), rows)


def _predicted(report: GradeReport) -> str:
    """Return what the class predicted; it counts for nothing, and is worth a talk."""
    rows = []
    for each in report.predicted:
        answers = "; ".join(f"{count} × {answer}" for answer, count in each.answers.items())
        rows.append([_cell(f"{each.question} {each.text}"), _cell(answers)])
    table = _table("Before the cell was run", ("question", "predictions"), rows)
    return f"<h2>What the class predicted</h2>{table}" if rows else ""


def _explained(report: GradeReport) -> str:
    """Return what students wrote about their own functions, each beside its mark."""
    rows = [
        [
            _cell(f"{row.exercise} {row.student}"),
            f"<td>{_mark(row.outcome)}</td>",
            _cell(row.explanation),
        ]
        for row in report.explained()
    ]
    table = _table("For you to read: no program has", ("exercise", "mark", "explanation"), rows)
    return f"<h2>Explanations</h2>{table}" if rows else ""


def _details(report: GradeReport, number: int, student: str) -> str:
    items = "".join(
        f'<li id="told-{number}-{row.exercise}">{_mark(row.outcome)} {row.exercise} '
        f"{escape(row.message)} <small>{escape(row.notebook)}</small></li>"
        for row in report.of(student)
    )
    return f"<details><summary>{escape(student)}</summary><ul>{items}</ul></details>"


def _told(row: ExerciseRow, number: int) -> str:
    """Return a mark that leads to what its student was told; browsers open what it is folded in."""
    return f'<td><a href="#told-{number}-{row.exercise}">{_mark(row.outcome)}</a></td>'


def _mark(mark: str) -> str:
    word = escape(OUTCOMES[mark].split(":")[0])
    told = f'role="img" aria-label="{word}" title="{word}"'
    return f'<span style="color:{COLOURS[mark]}" {told}>{mark}</span>'


def _cell(value: object) -> str:
    return f"<td>{escape(str(value))}</td>"


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    first = (row[0].replace("<td", '<th scope="row"').replace("</td", "</th") for row in rows)
    body = "".join(
        f"<tr>{name}{''.join(row[1:])}</tr>" for name, row in zip(first, rows, strict=True)
    )
    return (
        f'<div class="scroll"><table><caption>{caption}</caption>'
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _marked(text: str) -> str:
    """Return the emphasis and the code of one of our own sentences as HTML."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"(?<![\w*])\*(\w[^*<]*)\*(?!\w)", r"<em>\1</em>", text)


def _plain(text: str) -> str:
    """Return a text that Markdown leaves alone."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", text)


def _begun(line: str) -> str:
    """Return a line that begins no heading, list, table or rule."""
    return re.sub(r"^(\d*)([#+=~|.)-])", r"\1\\\2", line.strip())

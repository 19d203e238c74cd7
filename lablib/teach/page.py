"""The report as one HTML page that needs nothing else, and as a page of feedback a student."""

import hashlib
import html
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from lablib.teach.reports import LATE, OUTCOMES, ExerciseRow, GradeReport


def _static(name: str) -> str:
    return Path(__file__).with_name("static").joinpath(name).read_text(encoding="utf-8")


# Okabe and Ito's colours, darkened to a contrast of 4.5 on white; the marks differ in shape, too.
COLOURS = {"✓": "#00734f", "≠": "#7a4a8a", "✗": "#b34700", "○": "#666", "!": "#8a6100", "∅": "#666"}
STYLE = _static("report.css")
# A press on a column's head sorts by it, once more turns it round; without scripts nothing is lost.
SORT = _static("report.js")

ORDER = [*OUTCOMES][::-1]  # of marks in a sorted column: ✓ is the most
BINS = 10  # of a histogram
TITLE = ": your exercises"  # behind a name, of a page of feedback
LONGEST, HASH = 200, 16  # bytes of a file's name; letters of a hash
FURTHER = (
    "<p>Each of them as code, with a question for the class, stands below its exercise in the "
    "teacher's edition, which <code>release</code> writes; questions on a whole lesson, with "
    "answers, stand in TEACHING.md.</p>"
)


def page(report: GradeReport) -> str:
    """Return the report as one HTML page."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>Who solved what</title><style>{STYLE}</style></head><body>",
        "<h1>Who solved what</h1>",
        _summary(report),
        "<h2>Discuss next</h2>",
        _topics(report),
        "<h2>Students and exercises</h2>",
        _grid(report),
        _class(report),
        "<h2>Exercises</h2>",
        _counts(report),
        _predicted(report),
        "<h2>What each was told</h2>",
        *(_details(report, *each) for each in enumerate(report.students())),
        f"<script>{SORT}</script></body></html>\n",
    ]
    return "\n".join(parts)


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


def file_names(students: Iterable[str]) -> dict[str, str]:
    """Return a name for each student's file: every file system takes it, and for no other's.

    Whose name another one's could be taken for has a hash behind it.
    """
    plain = {student: file_name(student) for student in students}
    taken = Counter(map(_seen_alike, plain.values()))
    names = {}
    for student, name in plain.items():
        hashed = hashlib.sha256(student.encode("utf-8", "replace")).hexdigest()[:HASH]
        short = name.encode()[: LONGEST - HASH - 1].decode("utf-8", "ignore")
        own = taken[_seen_alike(name)] == 1 and len(name.encode()) <= LONGEST
        made = re.search(rf"-[0-9a-f]{{{HASH}}}$", name)  # one's own name may look like this
        names[student] = name if own and not made else f"{short}-{hashed}"
    return names


def file_name(student: str) -> str:
    """Return a student's name with what no file system takes replaced."""
    return re.sub(r"[^\w.@+-]", "_", student).lstrip(".") or "_"


def _seen_alike(name: str) -> str:
    """Return what is the same for names that a file system may take for each other."""
    return unicodedata.normalize("NFKC", name).casefold()


def _summary(report: GradeReport) -> str:
    rows = [row for row in report.rows if row.exercise != "-"]
    marks = {mark: sum(row.outcome == mark for row in report.rows) for mark in OUTCOMES}
    listed = "".join(
        f"<li>{_mark(mark)} {html.escape(text)}: {marks[mark]}</li>"
        for mark, text in OUTCOMES.items()
        if marks[mark]
    )
    count = f"{len(report.students())} students, {len(rows)} answers asked for."
    notes = "".join(f"<p><strong>{html.escape(note)}</strong></p>" for note in report.notes())
    return f"<p>{count}</p><ul>{listed}</ul>{notes}"


def _topics(report: GradeReport) -> str:
    head = ("exercise", "looks like", "students", "of those who tried", "what to tell them")
    rows = [
        [
            f'<th scope="row">{topic.exercise} {html.escape(topic.title)}</th>',
            f'<td class="text" data-head="{head[1]}"><code>{topic.misconception}</code></td>',
            f'<td data-head="{head[2]}">{topic.students}</td>',
            f'<td data-head="{head[3]}">{topic.attempts}</td>',
            f'<td class="text wide">{_marked(topic.text)}</td>',
        ]
        for topic in report.topics()
    ]
    ways = ", ".join(f"{id_} ({count})" for id_, count in report.unnamed().items())
    other = f"<p>Wrong in ways that have no name: {ways}. See what was told, below.</p>"
    found = _table("Misconceptions, the most frequent first", head, rows, "topics") + FURTHER
    return (found if rows else "<p>No known misconception was found.</p>") + other * bool(ways)


def _grid(report: GradeReport) -> str:
    listed = report.exercises()
    found = {(row.student, row.exercise): row for row in report.rows}
    rows = []
    for number, student in enumerate(report.students()):
        strange = " <small>not on the roster</small>" * (student in report.strangers)
        cells = [f'<th scope="row">{html.escape(student)}{strange}</th>']
        own = [found.get((student, exercise.id)) for exercise in listed]
        cells += ['<td data-value="-1"></td>' if row is None else _told(row, number) for row in own]
        cells.append(_cell(sum(row is not None and row.outcome == "✓" for row in own)))
        got, most = report.points(student)
        cells.append(f'<td data-value="{got:.10g}">{got:.10g} of {most:.10g}</td>')
        rows.append(cells)
    return _table(
        "Marks", ("student", *(each.id for each in listed), "✓", "points"), rows, "sorted"
    )


def _counts(report: GradeReport) -> str:
    counts = report.counts()
    rows = [
        [
            f'<th scope="row">{each.id} {html.escape(each.title)} {each.difficulty}</th>',
            *(_cell(count or "") for count in counts[each.id].values()),
        ]
        for each in report.exercises()
    ]
    return _table("How many students of each outcome", ("exercise", *OUTCOMES), rows, "sorted")


def _predicted(report: GradeReport) -> str:
    """Return what the class predicted; it counts for nothing, and is worth a talk."""
    rows = []
    for each in report.predicted:
        answers = "; ".join(f"{count} × {answer}" for answer, count in each.answers.items())
        name = html.escape(f"{each.question} {each.text}")
        rows.append([f'<th scope="row">{name}</th>', _cell(answers, "text wide")])
    if not rows:
        return ""
    table = _table("Before the cell was run", ("question", "predictions"), rows)
    return f"<h2>What the class predicted</h2>{table}"


def _class(report: GradeReport) -> str:
    """Return how the class as a whole did: the middle, and how many have what share of points."""
    shares = report.shares()
    if not shares:
        return ""
    middle = statistics.median(shares)
    counts = Counter(min(int(share * BINS), BINS - 1) for share in shares)
    rows = []
    for place in range(BINS):
        count, low, high = counts[place], 100 * place // BINS, 100 * (place + 1) // BINS
        bar = f'<span class="bar" style="width:{30 * count / max(counts.values()):.1f}em"></span>'
        name = f'<th scope="row">{low} to {high} %</th>'
        rows.append([name, f'<td class="text">{bar if count else ""} {count}</td>'])
    told = f"<p>Half of the students have {100 * middle:.0f} % of their points or more.</p>"
    return told + _table("Points", ("share of the points", "students"), rows)


def _details(report: GradeReport, number: int, student: str) -> str:
    items = "".join(_item(row, number) for row in report.of(student))
    return f"<details><summary>{html.escape(student)}</summary><ul>{items}</ul></details>"


def _item(row: ExerciseRow, number: int) -> str:
    told, where = html.escape(row.message), html.escape(row.notebook)
    told = f"{_mark(row.outcome)}{_late(row)} {row.exercise} {told} <small>{where}</small>"
    return f'<li id="{_place(row, number)}">{told}</li>'


def _told(row: ExerciseRow, number: int) -> str:
    """Return a mark that leads to what its student was told; browsers open what it is folded in."""
    value = f' data-value="{ORDER.index(row.outcome)}"'
    return f'<td{value}><a href="#{_place(row, number)}">{_mark(row.outcome)}</a>{_late(row)}</td>'


def _late(row: ExerciseRow) -> str:
    return f"<small>{LATE}</small>" * row.late


def _place(row: ExerciseRow, number: int) -> str:
    return f"told-{number}-{row.exercise}"


def _mark(mark: str) -> str:
    word = html.escape(OUTCOMES[mark].split(":")[0])
    told = f'role="img" aria-label="{word}" title="{word}"'
    return f'<span style="color:{COLOURS[mark]}" {told}>{mark}</span>'


def _cell(value: object, kind: str = "") -> str:
    given = f' class="{kind}"' if kind else ""
    return f"<td{given}>{html.escape(str(value))}</td>"


def _table(caption: str, head: tuple[str, ...], rows: list[list[str]], kind: str = "") -> str:
    names = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return (
        f'<div class="scroll"><table class="{kind}"><caption>{caption}</caption>'
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _marked(text: str) -> str:
    """Return the emphasis and the code of one of our own sentences as HTML."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
    return re.sub(r"(?<![\w*])\*(\w[^*<]*)\*(?!\w)", r"<em>\1</em>", text)


def _plain(text: str) -> str:
    """Return a text that Markdown leaves alone."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", text)


def _begun(line: str) -> str:
    """Return a line that begins no heading, list, table or rule."""
    return re.sub(r"^(\d*)([#+=~|.)-])", r"\1\\\2", line.strip())

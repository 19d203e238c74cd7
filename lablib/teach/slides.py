"""Slides of a lesson, from its own cells: what a class looks at, and for the teacher the rest.

What becomes a slide follows from the cells, in their order:

- A *heading* begins a slide and names those that follow, until the next one.
- A *text* has its first sentences on a slide, a list the first sentences of its items; what was
  left out stands in the slide's notes. What doesn't fit goes on, on a slide of the same name.
- A *question* has a slide to itself, before the slides of the output that answers it, with the
  choices of its ``predict`` and the numbers that the code below it spells out; what its cell says
  after it is in the notes.
- A code cell that *shows* something has a slide for each picture and each table, and slides for
  what it printed. Its code stands above that if both fit, else in the notes. A cell that shows
  nothing has no slide.
- An *exercise* has one slide with its task, and its starter in the notes. Hints, checks, solutions
  and the table of progress have none. Nor have the links to other lessons.
"""

import html
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lablib.course.checks.exercises import find
from lablib.teach import deck
from lablib.teach.editions import QUESTION, Cell, Notebook, part_of
from lablib.teach.markdown import Block, beginning, blocks, code_html, items, plain, sentences
from lablib.teach.markdown import html as to_html
from lablib.teach.shown import given, printed_html, shown

FIRST, LONGEST = 230, 300  # characters of a text's first sentences, and of a question
WIDE, HIGH = 70, 12.5  # characters of a line of text, and lines of a slide
COLUMNS, ROWS = 100, 20  # of code and of what was printed
LARGE = 68, 13  # columns and rows that are few enough for a larger type
MANY = 12  # rows of a table that get a smaller type
MOST = 8  # slides for what one cell printed
_LINKS = "**Previous lesson**", "**Next lesson**"


@dataclass(frozen=True)
class Slide:
    """One slide.

    Attributes:
        kind: "text", "question", "output" or "exercise".
        title: the heading that it belongs to.
        body: HTML.
        notes: what the teacher says besides, as HTML.
    """

    kind: str
    title: str
    body: str
    notes: str = ""


@dataclass
class _Page:
    """A slide of text while it is filled."""

    title: str
    seen: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lines: float = 0.0

    def add(self, text: str, whole: str, lines: float) -> None:
        self.seen.append(text)
        self.lines += lines
        if text != whole:
            self.notes.append(whole)

    def slides(self) -> Iterator[Slide]:
        if self.seen:
            notes = to_html("\n\n".join(dict.fromkeys(self.notes)))
            yield Slide("text", self.title, to_html("\n".join(self.seen)), notes)


def slides(notebook: Notebook) -> list[Slide]:
    """Return the slides of a lesson as it was recorded; the rule stands at the top of this file."""
    made: list[Slide] = []
    title = ""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        exercise, part = part_of(cell)
        if part == "task":
            made.append(_exercise(exercise, source))
        elif source.startswith("predict("):
            if made and made[-1].kind == "question":
                made[-1] = replace(made[-1], body=made[-1].body + _choices(cell))
        elif cell["cell_type"] == "code" and not exercise and not source.startswith("progress("):
            if made and made[-1].kind == "question" and (numbers := given(source)):
                made[-1] = replace(made[-1], body=made[-1].body + code_html(numbers))
            made += _code(title, cell)
        elif cell["cell_type"] == "markdown" and not exercise:
            for each in _texts(title, source):
                made.append(each)
                title = each.title
            title = _last_heading(source) or title
    return made


def slides_page(notebook: Notebook) -> str:
    """Return the slides of a lesson as one HTML page that needs nothing else."""
    made = slides(notebook)
    parts = [_section(number, slide) for number, slide in enumerate(made, 1)]
    return deck.page(plain(made[0].title) if made else "", parts)


def _texts(title: str, source: str) -> Iterator[Slide]:
    """Yield the slides of a text."""
    page, asked = _Page(title), None
    found = [part for block in blocks(source) for part in _parts(block)]
    for number, block in enumerate(found):
        if block.kind == "heading":
            yield from _done(page, asked)
            page, asked = _Page(block.source.lstrip("# ")), None
        elif block.source.startswith(_LINKS):
            continue
        elif block.kind == "question":
            yield from _done(page, asked)
            page, asked = _Page(page.title), block.source
        elif asked:
            page.notes.append(block.source)
        else:
            after = found[number + 1].kind if number + 1 < len(found) else ""
            for seen, whole, lines in _shortened(block, after):
                if page.lines and page.lines + lines > HIGH:
                    yield from page.slides()
                    page = _Page(page.title)
                page.add(seen, whole, lines)
    yield from _done(page, asked)


def _done(page: _Page, asked: str | None) -> Iterator[Slide]:
    """Yield the slides of a page, or that of the question which was asked on it."""
    if asked is None:
        yield from page.slides()
        return
    text = asked.removeprefix(QUESTION).strip()
    seen = beginning(text, LONGEST)
    notes = [text] * (seen != text) + page.notes
    yield Slide("question", page.title, to_html(seen), to_html("\n\n".join(notes)))


def _parts(block: Block) -> Iterator[Block]:
    """Yield a block; of one in which a question is asked what stands before it, and the question.

    A list under a text is a block of its own, however it is written.
    """
    before, mark, after = block.source.partition(QUESTION)
    if block.kind == "text" and mark:
        if before.strip():
            yield Block("text", before.strip())
        yield Block("question", mark + after)
    else:
        yield block


def _shortened(block: Block, after: str) -> Iterator[tuple[str, str, float]]:
    """Yield what is seen of a block, all of it, and the lines that this takes, piece by piece."""
    if block.kind == "text":
        seen = beginning(block.source, FIRST)
        if after in ("list", "formula", "table", "code") and seen != block.source:
            seen += f" {sentences(block.source)[-1]}"  # it says what comes
        yield f"{seen}\n", f"{block.source}\n", _lines(seen) + 0.6
    elif block.kind == "table":
        for some in _tables(block.source.splitlines()):
            yield f"{some}\n", f"{some}\n", HIGH
    elif block.kind == "list":
        for item in items(block.source):
            seen = beginning(item, FIRST)
            yield seen, item, _lines(seen) + 0.3
        yield "", "", 0.0  # ends the list
    else:
        count = 3 if block.kind == "formula" else 1.1 * len(block.source.splitlines())
        yield f"{block.source}\n", f"{block.source}\n", count


def _tables(lines: list[str]) -> Iterator[str]:
    """Yield a table in pieces that fill a slide, each below the table's head."""
    head, rows, room = lines[:2], [], HIGH - 2
    for line in lines[2:]:
        takes = math.ceil(len(plain(line)) / COLUMNS)
        if rows and takes > room:
            yield "\n".join(head + rows)
            rows, room = [], HIGH - 2
        rows.append(line)
        room -= takes
    yield "\n".join(head + rows)


def _lines(text: str) -> int:
    return math.ceil(len(plain(text)) / WIDE)


def _last_heading(source: str) -> str:
    headings = [block.source for block in blocks(source) if block.kind == "heading"]
    return headings[-1].lstrip("# ") if headings else ""


def _choices(cell: Cell) -> str:
    """Return the choices that a ``predict`` printed; they are indented."""
    lines = [line for each in shown(cell) for line in each.text.splitlines()]
    choices = [line for line in lines if line.startswith("  ")]
    return printed_html("\n".join(choices)) if choices else ""


def _code(title: str, cell: Cell) -> Iterator[Slide]:
    """Yield the slides of what a code cell shows."""
    code, found = cell["source"].strip("\n"), shown(cell)
    room = ROWS - len(code.splitlines()) - 2  # below the code
    above = next((each.text for each in found if 0 < _rows(each.text) <= room), "")
    notes = "" if above else code_html(code)
    for each in found:
        if each.html:
            made = [_figure(each.html, each.caption)]
        elif each.text == above:
            made, above = [_printed(code, each.text)], ""
        else:
            made = [_printed("", text) for text in _screens(each.text)]
        for body in made:
            yield Slide("output", title, body, notes)
            notes = ""


def _printed(code: str, text: str) -> str:
    """Return code and what it printed, in a larger type if both are small."""
    lines = [*code.splitlines(), *text.splitlines()]
    large = max(map(len, lines)) <= LARGE[0] and len(lines) <= LARGE[1]
    body = (code_html(code) if code else "") + printed_html(text)
    return f'<div class="large">{body}</div>' if large else body


def _rows(text: str) -> int:
    return sum(_height(line) for line in text.splitlines())


def _height(line: str) -> int:
    return max(1, math.ceil(len(line) / COLUMNS))


def _figure(picture: str, caption: str) -> str:
    said = f"<figcaption>{html.escape(beginning(caption, FIRST))}</figcaption>" if caption else ""
    many = ' class="many"' if picture.count("<tr") > MANY else ""
    return f"<figure{many}>{picture}{said}</figure>"


def _screens(text: str) -> Iterator[str]:
    """Yield what was printed in pieces of about the same height that fit."""
    high = math.ceil(_rows(text) / math.ceil(_rows(text) / ROWS))
    pieces: list[list[str]] = [[]]
    for line in text.splitlines():
        if pieces[-1] and _rows("\n".join([*pieces[-1], line])) > high:
            pieces.append([])
        pieces[-1].append(line)
    if left := sum(map(len, pieces[MOST:])):
        pieces[MOST - 1][-1] = f"… and {left + 1} lines more, in the lesson"
    yield from ("\n".join(piece) for piece in pieces[:MOST])


def _exercise(exercise_id: str, source: str) -> Slide:
    heading, _, task = source.partition("\n")
    task = re.sub(r"^(●.*)\n+", r"*\1*\n\n", task)
    starter = code_html(find(exercise_id).starter)
    return Slide("exercise", heading.lstrip("# "), to_html(task), starter)


def _section(number: int, slide: Slide) -> str:
    title = to_html(slide.title).strip().removeprefix("<p>").removesuffix("</p>")
    level, source = ("h1", deck.SOURCE) if number == 1 else ("h2", "")
    label = '<p class="label">Question</p>' if slide.kind == "question" else ""
    notes = f'<aside class="notes">{slide.notes}</aside>' if slide.notes else ""
    return (
        f'<section id="{number}" class="{slide.kind}"><div class="slide">'
        f"<{level}>{title}</{level}>{label}{slide.body}{source}</div>{notes}</section>"
    )

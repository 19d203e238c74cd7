"""The board exercises of the lessons on paper: what *By hand* asks, with and without answers.

Each question of a lesson's section *By hand* is an exercise. Students see what leads to the first
one, text, code and what that code shows; before the others only texts. Of the code that answers a
question they see the numbers which it spells out. What it shows, and what the lesson says about it
then, is on the teacher's sheet alone: a later question may build on it, so say it at the board.
What comes after the last question is on neither.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lablib.teach.editions import QUESTION, Cell, Notebook, answered
from lablib.teach.markdown import code_html, code_style, plain
from lablib.teach.markdown import html as to_html
from lablib.teach.shown import given, printed_html, shown

SECTION = "## By hand"
LICENCE = "https://creativecommons.org/licenses/by/4.0/"
SOURCE = f'<p class="from">From lablib by The lablib authors, <a href="{LICENCE}">CC BY 4.0</a></p>'
STYLE = Path(__file__).with_name("static").joinpath("sheet.css").read_text(encoding="utf-8")
_ROOM = f'<div class="room">{"<div></div>" * 4}</div>'
_NAME = "<p>Name: ______________________________ Date: ____________</p>"


@dataclass
class Board:
    """One exercise for paper or board.

    Attributes:
        before: what leads to it, as HTML, and whether students see it.
        question: HTML.
        given: the numbers that the answering code spells out, as HTML.
        answer: what that code shows, and what the lesson says about it, as HTML.
    """

    before: list[tuple[str, bool]]
    question: str
    given: str = ""
    answer: list[str] = field(default_factory=list)


def boards(notebook: Notebook) -> list[Board]:
    """Return the board exercises of a lesson, in order."""
    found: list[Board] = []
    before: list[tuple[str, bool]] = []
    asked = False
    for cell in _section(notebook):
        source = cell["source"].removeprefix(SECTION).strip()
        if cell["cell_type"] == "code":
            if asked:
                found[-1].given += _code(given(source))
                found[-1].answer += _outputs(cell)
            else:
                seen = "".join([_code(source), *_outputs(cell)])
                before.append((seen, not found))
            continue
        if asked:
            answer, rest = answered(source)
            found[-1].answer.append(to_html("\n\n".join(answer)))
            source = "\n\n".join(rest)
        text, mark, question = source.partition(QUESTION)
        before.append((to_html(text), True))
        asked = bool(mark)
        if asked:
            found.append(Board(before, to_html(question.strip())))
            before = []
    return found


def sheet_page(lessons: Sequence[Notebook], answers: bool) -> str:
    """Return the board exercises of some lessons as one page to print on A4.

    Args:
        lessons: notebooks, recorded; one without board exercises adds nothing.
        answers: whether the answers are on it: the teacher's sheet.
    """
    title = "By hand: exercises for paper and board" + ", with answers" * answers
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{title}</title><style>{STYLE}{code_style()}</style></head><body>",
        f"<h1>{title}</h1>",
        "" if answers else _NAME,
        *(_lesson(notebook, answers) for notebook in lessons),
        f"{SOURCE}</body></html>\n",
    ]
    return "\n".join(parts)


def _lesson(notebook: Notebook, answers: bool) -> str:
    found = boards(notebook)
    title = re.search(r"^# (.+)$", notebook["cells"][0]["source"], re.MULTILINE)
    heading = html.escape(plain(title[1])) if title else "A lesson"
    articles = [_article(number, each, answers) for number, each in enumerate(found, 1)]
    return f"<section><h2>{heading}</h2>{''.join(articles)}</section>" if found else ""


def _article(number: int, board: Board, answers: bool) -> str:
    before = "".join(text for text, open_ in board.before if open_ or answers)
    end = _ROOM
    if answers:
        end = f'<div class="answer"><h4>Answer</h4>{"".join(board.answer)}</div>'
    question = f'<div class="question">{board.question}</div>{board.given}'
    return f"{before}<article><h3>Exercise {number}</h3>{question}{end}</article>"


def _section(notebook: Notebook) -> list[Cell]:
    """Return the cells of *By hand*, but no ``predict``, which asks again."""
    cells: list[Cell] = []
    for cell in notebook["cells"]:
        if cells and cell["source"].startswith("## "):
            break
        if cell["source"].startswith("predict("):
            continue
        if cells or cell["source"].startswith(SECTION):
            cells.append(cell)
    return cells


def _code(source: str) -> str:
    return code_html(source) if source else ""


def _outputs(cell: Cell) -> list[str]:
    made = []
    for each in shown(cell):
        caption = f"<figcaption>{html.escape(each.caption)}</figcaption>" if each.caption else ""
        picture = f"<figure>{each.html}{caption}</figure>"
        made.append(printed_html(each.text) if each.text else picture)
    return made

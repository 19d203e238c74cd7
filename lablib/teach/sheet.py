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

from lablib.teach.deck import SOURCE
from lablib.teach.editions import QUESTION, Cell, Notebook, answered
from lablib.teach.markdown import code_html, code_style, plain
from lablib.teach.markdown import html as to_html
from lablib.teach.shown import given, printed_html, shown

SECTION = "## By hand"
STYLE = """
@page{size:A4;margin:15mm}
body{font:11pt/1.4 system-ui,sans-serif;color:#222;max-width:180mm;margin:1em auto;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.25em;margin:1em 0 .3em}h3{font-size:1em;margin:1em 0 .3em}
article{break-inside:avoid;border:1px solid #999;padding:0 1em .6em;margin:1em 0}
pre,figure,p{break-inside:avoid}
p,ul,ol{margin:.4em 0}
pre{font-size:.8em;line-height:1.3;margin:.5em 0;padding:.4em .8em;white-space:pre-wrap;
overflow-wrap:anywhere;border-left:2px solid #999}
table{border-collapse:collapse;font-size:.85em}td,th{border:1px solid #ccc;padding:.1em .5em}
figure{margin:.5em 0}img{max-width:100%;max-height:60mm}figcaption{font-size:.8em}
.question{font-weight:600}.question p:first-child::before{content:"Question. ";color:#b34700}
.room div{height:9mm;border-bottom:1px dotted #777}
.answer{border-left:3px solid #00734f;padding-left:.8em;margin-top:.6em}
.answer>h4{margin:.2em 0;color:#00734f;font-size:1em}
.from{font-size:.8em;color:#555}
@media print{body{margin:0;padding:0;max-width:none}section+section{break-before:page}
h2,h3{break-after:avoid}}
"""
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

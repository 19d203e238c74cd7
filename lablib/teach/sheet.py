"""The board exercises of the lessons on paper: what *By hand* asks, with and without answers.

Each question of a lesson's section *By hand* is an exercise. Students see what leads to the first
one, text, code and what that code shows; before the others only texts. Of the code that answers a
question they see the numbers which it spells out. What it shows, and what the lesson says about it
then, is on the teacher's sheet alone: a later question may build on it, so say it at the board.
What comes after the last question is on neither.

Markdown is read as the site reads it (markdown-it, formulas as MathML by docutils). A page stands
alone: of a link to a file beside the lesson the words stay, of a picture its description.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import Any

from lablib.extras import need
from lablib.teach.editions import QUESTION, Cell, Notebook, answered, joined

SECTION = "## By hand"
CAPTION = '<p class="lablib-caption">'  # of an explorer's picture
LICENCE = "https://creativecommons.org/licenses/by/4.0/"
SOURCE = f'<p class="from">From lablib by The lablib authors, <a href="{LICENCE}">CC BY 4.0</a></p>'
STYLE = Path(__file__).with_name("static").joinpath("sheet.css").read_text(encoding="utf-8")
_ROOM = f'<div class="room">{"<div></div>" * 4}</div>'
_NAME = "<p>Name: ______________________________ Date: ____________</p>"


@dataclass
class Board:
    """One exercise for paper or board, in HTML."""

    before: list[tuple[str, bool]]  # what leads to it, and whether students see it
    question: str
    given: str = ""  # the numbers that the answering code spells out
    answer: list[str] = field(default_factory=list)  # what it shows, and what the lesson says then


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
                found[-1].answer += shown(cell)
            else:
                before.append(("".join([_code(source), *shown(cell)]), not found))
            continue
        if asked:
            answer, rest = answered(source)
            found[-1].answer.append(_html("\n\n".join(answer)))
            source = "\n\n".join(rest)
        text, mark, question = source.partition(QUESTION)
        before.append((_html(text), True))
        asked = bool(mark)
        if asked:
            found.append(Board(before, _html(question.strip())))
            before = []
    return found


def sheet_page(lessons: Sequence[Notebook], answers: bool) -> str:
    """Return the board exercises of some lessons as one page to print on A4.

    Args:
        lessons: notebooks, recorded; one without board exercises adds nothing.
        answers: whether the answers are on it: the teacher's sheet.
    """
    from pygments.formatters import HtmlFormatter

    title = "By hand: exercises for paper and board" + ", with answers" * answers
    colours = HtmlFormatter().get_style_defs(".code").splitlines()
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{title}</title><style>{STYLE}",
        *(line for line in colours if line.startswith(".code .")),
        f"</style></head><body><h1>{title}</h1>",
        "" if answers else _NAME,
        *(_lesson(notebook, answers) for notebook in lessons),
        f"{SOURCE}</body></html>\n",
    ]
    return "\n".join(parts)


def _lesson(notebook: Notebook, answers: bool) -> str:
    found = boards(notebook)
    title = re.search(r"^# (.+)$", notebook["cells"][0]["source"], re.MULTILINE)
    heading = _reader().renderInline(title[1]) if title else "A lesson"
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


def shown(cell: Cell) -> list[str]:
    """Return what a recorded cell shows as HTML that stands alone: text, pictures, tables."""
    found: list[str] = []
    for each in _outputs(cell):
        if each.startswith(CAPTION) and found:
            text = escape(unescape(re.sub(r"<[^>]+>", "", each)).strip())
            found[-1] = found[-1].replace("</figure>", f"<figcaption>{text}</figcaption></figure>")
        elif each.startswith("<pre"):
            found.append(each)
        else:
            found.append(f"<figure>{each}</figure>")
    return found


def _outputs(cell: Cell) -> Iterator[str]:
    for output in joined(cell["outputs"]):
        data = output.get("data", {})
        text = output.get("text", "".join(data.get("text/plain", ""))).strip("\n")
        if "image/png" in data:
            alt = escape(output["metadata"].get("image/png", {}).get("alt", ""))
            source = "".join(data["image/png"]).replace("\n", "")
            yield f'<img alt="{alt}" src="data:image/png;base64,{source}">'
        elif "text/html" in data:
            yield "".join(data["text/html"])
        elif text:
            yield f'<pre class="printed">{escape(text)}</pre>'


def given(code: str) -> str:
    """Return the lists, tables and arrays that code spells out: what one has to know to ask.

    What is computed from them may be the answer, so it is left out.
    """
    try:
        nodes = ast.parse(code).body
    except SyntaxError:  # a line for IPython
        return ""
    lines = code.splitlines()  # whole ones, for the comments behind
    return "\n".join(
        line for node in nodes if _given(node) for line in lines[node.lineno - 1 : node.end_lineno]
    )


def _given(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return False
    value = node.value
    if isinstance(value, ast.Call) and ast.unparse(value.func).startswith("np.") and value.args:
        value = value.args[0]  # np.array([...])
    try:
        return bool(ast.literal_eval(value)) and not isinstance(value, ast.Constant)
    except ValueError:
        return False


def _html(text: str) -> str:
    text = re.sub(r"!\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return _reader().render(re.sub(r"\[([^\[\]]*)\]\((?!https?:)[^)\s]*\)", r"\1", text))


def _code(code: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    made = highlight(code.strip("\n"), PythonLexer(), HtmlFormatter(nowrap=True))
    return f'<pre class="code">{made}</pre>' if code else ""


@cache
def _reader() -> Any:
    need("sheets", "markdown_it", "mdit_py_plugins", "docutils", extra="site")
    from docutils.utils.math import latex2mathml
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    def formula(text: str, options: dict[str, bool]) -> str:
        text = text.strip().replace(r"\dots", r"\ldots")  # the one word that docutils lacks
        return latex2mathml.tex2mathml(text, as_block=options["display_mode"])

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    return reader.use(dollarmath_plugin, renderer=formula)

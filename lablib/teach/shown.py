"""The outputs of a recorded cell, as HTML that stands alone: text, pictures, tables."""

import ast
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from lablib.teach.editions import Cell, joined

CAPTION = '<p class="lablib-caption">'


@dataclass(frozen=True)
class Shown:
    """One thing that a cell shows: ``text`` as it was printed, or else ``html``, and a caption."""

    text: str = ""
    html: str = ""
    caption: str = ""


def shown(cell: Cell) -> list[Shown]:
    """Return what a cell shows, in order; an explorer as its first picture.

    An explorer's picture has its caption in it, other pictures have it below them.
    """
    found: list[Shown] = []
    for each in _outputs(cell):
        if each.html.startswith(CAPTION) and found and found[-1].html:
            text = html.unescape(re.sub(r"<[^>]+>", "", each.html)).strip()
            found[-1] = Shown(html=found[-1].html, caption=text)
        else:
            found.append(each)
    return found


def printed_html(text: str) -> str:
    """Return what was printed as HTML."""
    return f'<pre class="printed">{html.escape(text)}</pre>'


def _outputs(cell: Cell) -> Iterator[Shown]:
    for output in joined(cell["outputs"]):
        data = output.get("data", {})
        if output["output_type"] == "stream":
            if text := output["text"].strip("\n"):
                yield Shown(text=text)
        elif "image/png" in data:
            alt = output["metadata"].get("image/png", {}).get("alt", "")
            source = "".join(data["image/png"]).replace("\n", "")
            picture = f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{source}">'
            yield Shown(html=picture)
        elif "text/html" in data:
            yield Shown(html="".join(data["text/html"]))
        elif "text/plain" in data:
            yield Shown(text="".join(data["text/plain"]))


def given(code: str) -> str:
    """Return the lists, tables and arrays that code spells out: what one has to know to ask.

    What is computed from them may be the answer, so it is left out.
    """
    lines = code.splitlines()  # whole ones, for the comments behind
    found = [lines[node.lineno - 1 : node.end_lineno] for node in _statements(code) if _given(node)]
    return "\n".join(line for some in found for line in some)


def _statements(code: str) -> list[ast.stmt]:
    try:
        return ast.parse(code).body
    except SyntaxError:  # a line for IPython
        return []


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

"""A lesson's Markdown, taken apart into blocks, shortened, and written as HTML.

It is read as the site reads it (markdown-it, formulas as MathML by docutils), so the same extra
brings what it needs. The HTML stands alone: of a link to a file beside the lesson the words stay,
of a picture that is named by its address its description, and HTML in the Markdown is text.
"""

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from lablib.extras import need

_KINDS = {
    "heading_open": "heading",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "math_block": "formula",
    "table_open": "table",
    "fence": "code",
}
_PICTURE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_BESIDE = re.compile(r"\[([^\[\]]*)\]\((?!https?:)[^)\s]*\)")
_END = re.compile(r"[.?!][\"”’)*_`]*\s+(?=[A-Z\d\"“(*_`$])")
_SHORTENED = re.compile(r"\b(al|e\.g|i\.e|vs|cf|Fig|Eq)\.\s+$")
_CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True)
class Block:
    """One block of a text: its kind (a heading, a list, ...; else "text") and its source."""

    kind: str
    source: str


def blocks(text: str) -> list[Block]:
    """Return the blocks of a text, in order."""
    lines = text.splitlines()
    found = []
    for token in _reader().parse(text):
        if token.level or token.map is None:
            continue
        source = "\n".join(lines[slice(*token.map)]).strip("\n")
        found.append(Block(_KINDS.get(token.type, "text"), source))
    return found


def items(source: str) -> list[str]:
    """Return the items of a list, each with what stands below it and with its mark."""
    found: list[str] = []
    for line in source.splitlines():
        if re.match(r"([-*+]|\d+[.)])\s", line) or not found:
            found.append(line)
        else:
            found[-1] += "\n" + line
    return found


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph; nothing is cut inside emphasis, brackets or code."""
    ends = [found.end() for found in _END.finditer(text) if _whole(text[: found.end()])]
    return [text[a:b].strip() for a, b in pairwise([0, *ends, len(text)]) if text[a:b].strip()]


def beginning(text: str, length: int) -> str:
    """Return a paragraph's first sentences: as many as fit into ``length``, and at least one.

    A bold heading at its beginning is no sentence.
    """
    first, *others = sentences(text)
    if others and re.fullmatch(r"\*\*[^*]+\*\*", first):
        first += f" {others.pop(0)}"
    for sentence in others:
        if len(plain(f"{first} {sentence}")) > length:
            break
        first += f" {sentence}"
    return first


def plain(text: str) -> str:
    """Return about what a reader sees of a text: links' words without addresses, no marks."""
    text = re.sub(r"\[([^\[\]]*)\]\([^)\s]*\)", r"\1", text)
    return re.sub(r"\*\*|(?<!\w)[*_]|[*_](?!\w)|`", "", text)


def html(text: str) -> str:
    """Return a text as HTML that needs nothing else."""
    text = _PICTURE.sub(r"\1", text)
    return _reader().render(_BESIDE.sub(r"\1", text))


def code_html(code: str) -> str:
    """Return Python code as HTML, coloured by ``code_style``."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    shown = highlight(code.strip("\n"), PythonLexer(), HtmlFormatter(nowrap=True))
    return f'<pre class="code">{shown}</pre>'


def code_style() -> str:
    """Return the CSS of ``code_html``."""
    from pygments.formatters import HtmlFormatter

    lines = HtmlFormatter().get_style_defs(".code").splitlines()
    return "\n".join(line for line in lines if line.startswith(".code ."))


def _whole(text: str) -> bool:
    """Return whether a text ends outside all marks, and not with an abbreviation."""
    rest = _CODE.sub("", text)
    open_ = rest.count("*") % 2 or rest.count("`") or rest.count("$") % 2
    pairs = ("(", ")"), ("[", "]"), ("“", "”")
    even = all(rest.count(left) == rest.count(right) for left, right in pairs)
    return even and not open_ and rest.count('"') % 2 == 0 and not _SHORTENED.search(rest)


@cache
def _reader() -> Any:
    need("slides and sheets", "markdown_it", "mdit_py_plugins", "docutils", extra="site")
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    return reader.use(dollarmath_plugin, renderer=_formula)


def _formula(text: str, options: dict[str, bool]) -> str:
    from docutils.utils.math import latex2mathml

    text = text.strip().replace(r"\dots", r"\ldots")  # the one word that docutils lacks
    return latex2mathml.tex2mathml(text, as_block=options["display_mode"])

"""A lesson's Markdown as HTML.

It is read as the site reads it (markdown-it, formulas as MathML by docutils), so the same extra
brings what it needs. The HTML stands alone: of a link to a file beside the lesson the words stay,
of a picture that is named by its address its description, and HTML in the Markdown is text.
"""

import re
from functools import cache
from typing import Any

from lablib.extras import need

_PICTURE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_BESIDE = re.compile(r"\[([^\[\]]*)\]\((?!https?:)[^)\s]*\)")


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


@cache
def _reader() -> Any:
    need("sheets", "markdown_it", "mdit_py_plugins", "docutils", extra="site")
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    return reader.use(dollarmath_plugin, renderer=_formula)


def _formula(text: str, options: dict[str, bool]) -> str:
    from docutils.utils.math import latex2mathml

    text = text.strip().replace(r"\dots", r"\ldots")  # the one word that docutils lacks
    return latex2mathml.tex2mathml(text, as_block=options["display_mode"])

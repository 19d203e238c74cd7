"""Tells Sphinx the theme, the extensions, and formulas as MathML.

Everything that a page needs lies beside it. So formulas are MathML, which browsers draw themselves,
and the scripts that MyST-NB would fetch for widgets are left out.
"""

import re
from html import escape, unescape
from pathlib import Path
from typing import Any

from lablib.course.plots.scene import SHARED

from pygments import token
from pygments.formatters import HtmlFormatter

DESCRIPTION = (
    "A lab for seeing how language models choose their words: lessons with sliders, where every "
    "claim is code that ran, and two real models that run in a page."
)
STATIC = Path(__file__).parent / "static"
PICTURED = (  # in share.png: the text of play.html as whoever opens it first sees it
    "A story that two language models wrote together: a small one guessed, and a large one kept "
    "most guesses. Below, the guesses of one round, each with the chance that it stays."
)
_SCENE = re.compile(r'<figure [^>]*data-scene="(\w+)"')


def configuration(static: Path, version: str, address: str = "") -> dict[str, Any]:
    """Return Sphinx's configuration.

    Args:
        static: a folder whose content goes into ``_static``, beside the site's own files.
        version: of the library.
        address: where the site will be, if that is known.
    """
    return {
        "project": "lablib",
        "version": version,
        "extensions": ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", __name__],
        "html_theme": "furo",
        "html_title": "lablib",
        "html_baseurl": f"{address}/" if address else "",
        "html_static_path": [str(STATIC), str(static)],
        "html_css_files": ["site.css", "scenes.css"],
        "html_js_files": [("site.js", {"defer": "defer"})],
        "html_math_renderer": "mathml",
        "html_copy_source": False,  # the lessons' sources hold what pages leave out
        "html_show_sourcelink": False,
        "html_show_sphinx": False,
        "html_favicon": str(STATIC / "favicon.svg"),
        "html_show_copyright": False,
        "napoleon_use_ivar": True,  # an attribute may be a property with a text of its own, too
        "suppress_warnings": ["misc.highlighting_failure"],  # cells for Colab are not all Python
        "myst_enable_extensions": ["dollarmath"],
        "myst_heading_anchors": 3,
        "nb_execution_mode": "off",
        "nb_ipywidgets_js": {},
        "nb_code_prompt_show": "What came out",
        "nb_code_prompt_hide": "What came out",
        "autodoc_member_order": "bysource",
        "autodoc_typehints_format": "short",
    }


def setup(app: Any) -> dict[str, bool]:
    """Add what a page needs beside its text, and leave out what it doesn't; Sphinx calls this."""
    app.connect("builder-inited", _plain_code)
    app.connect("html-page-context", _scenes)
    app.connect("html-page-context", _preview)
    app.add_html_math_renderer("mathml", (_math, None), (_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class _Code(HtmlFormatter):
    """Code in colours; what has the colour of all text has no tag: a third of a page was those."""

    def format_unencoded(self, tokens: Any, to: Any) -> None:
        plain = (token.Name, token.Punctuation, token.Whitespace)
        super().format_unencoded(
            ((token.Text if kind in plain else kind, text) for kind, text in tokens), to
        )


def _plain_code(app: Any) -> None:
    app.builder.highlighter.formatter = _Code


def _scenes(app: Any, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let a page load what draws its own pictures, before what moves them."""
    if found := {*_SCENE.findall(context.get("body", ""))}:
        for script in ("shared", *sorted(found - {*SHARED})):
            app.add_js_file(f"scenes/{script}.js", defer="defer")


def _preview(app: Any, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Add a picture and, to a page without its own, a title and a description (ogp.me)."""
    if doctree is None:  # a page of Sphinx's own, as its search
        return
    about = {
        "og:title": _plain(context["title"]),
        "og:description": DESCRIPTION,
        "og:type": "website",
    }
    about = {key: text for key, text in about.items() if key not in context["metatags"]}
    picture = f"{app.config.html_baseurl}_static/share.png"
    about |= {"og:image": picture, "og:image:alt": PICTURED}
    about |= {"og:image:width": "1200", "og:image:height": "630"}
    tags = [f'<meta property="{key}" content="{escape(text)}">' for key, text in about.items()]
    tags.append('<meta name="twitter:card" content="summary_large_image">')
    context["metatags"] += "\n".join(tags)


def _plain(title: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", title))


def _math(writer: Any, node: Any) -> None:
    from docutils.nodes import SkipNode
    from docutils.utils.math import latex2mathml

    block = node.tagname == "math_block"
    text = node.astext().replace(r"\dots", r"\ldots")  # the one word that docutils lacks
    writer.body.append(latex2mathml.tex2mathml(text, as_block=block))
    raise SkipNode

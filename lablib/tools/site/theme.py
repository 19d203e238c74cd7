"""Tells Sphinx the theme, the extensions, and formulas as MathML.

Everything that a page needs lies beside it. So formulas are MathML, which browsers draw themselves,
and the scripts that MyST-NB would fetch for widgets are left out.
"""

from pathlib import Path
from typing import Any

STATIC = Path(__file__).parent / "static"


def configuration(static: Path, version: str) -> dict[str, Any]:
    """Return Sphinx's configuration.

    Args:
        static: a folder whose content goes into ``_static``, beside the site's own files.
        version: of the library.
    """
    return {
        "project": "lablib",
        "version": version,
        "extensions": ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", __name__],
        "html_theme": "furo",
        "html_title": "lablib",
        "html_static_path": [str(STATIC), str(static)],
        "html_css_files": ["site.css", "scenes.css"],
        "html_js_files": [(name, {"defer": "defer"}) for name in ("scenes.js", "site.js")],
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
    """Add the way to draw formulas; Sphinx calls this."""
    app.add_html_math_renderer("mathml", (_math, None), (_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _math(writer: Any, node: Any) -> None:
    from docutils.nodes import SkipNode
    from docutils.utils.math import latex2mathml

    block = node.tagname == "math_block"
    text = node.astext().replace(r"\dots", r"\ldots")  # the one word that docutils lacks
    writer.body.append(latex2mathml.tex2mathml(text, as_block=block))
    raise SkipNode

"""``python -m lablib site``."""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any


def add_to(commands: Any) -> None:
    """Add the command to the command line's."""
    site = commands.add_parser("site", help="write the lab as web pages whose sliders move")
    site.add_argument("out", type=Path, help="folder of the site")
    site.add_argument("lessons", nargs="*", type=Path, help="notebooks (default: all lessons)")
    site.add_argument(
        "--repository", default="", metavar="URL", help="adds links to Binder and Colab"
    )
    site.add_argument("--branch", default="main", help="of the repository (default: main)")
    site.add_argument(
        "--address", default="", metavar="URL", help="where it will be: link previews want it"
    )
    site.set_defaults(run=_site)


def _site(options: argparse.Namespace) -> int:
    from lablib.tools.site.build import build

    links = {"repository": options.repository, "branch": options.branch}
    links |= {"address": options.address, "say": partial(print, flush=True)}
    warnings = build(options.out, options.lessons, **links)
    for line in warnings:
        print(line, file=sys.stderr)
    return 1 if warnings else 0

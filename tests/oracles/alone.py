"""What a page asks of elsewhere, what one reads on it, and the lines that only a solution has."""

import html
import json
import re
from pathlib import Path

_FETCHED = re.compile(r"""(?:\bsrc|\bsrcset|\bposter|\bdata)=["']?(?!data:)([^"'\s>]+)""")
_LINKED = re.compile(r"<(?:link|script|iframe|object|embed|base)\b[^>]*(?:href|src)=[^>]*>")
_IN_CSS = re.compile(r"@import[^;]*|url\((?!['\"]?data:)[^)]*\)")


def fetched(page: str) -> list[str]:
    """Return what a browser would fetch to show a page; links that are pressed aren't."""
    tags = "".join(re.findall(r"<[a-z][^>]*>", page))
    styles = "".join(re.findall(r"<style>.*?</style>|style=\"[^\"]*\"", page, re.DOTALL))
    return [*_FETCHED.findall(tags), *_LINKED.findall(page), *_IN_CSS.findall(styles)]


def words(page: str) -> str:
    """Return what stands on a page, marks and styles away."""
    page = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", page)).strip()


def solution_lines(exercise, path: Path) -> list[str]:
    """Return the lines of an exercise's solution that stand nowhere else in its lesson.

    A lesson may itself do by hand what an exercise asks in another form, so a line counts only if
    no cell of the lesson but the exercises' own, and no output of such a cell, has it.
    """
    cells = json.loads(path.read_text())["cells"]
    own = [cell for cell in cells if not cell["metadata"].get("lablib")]
    outputs = ["".join(each.get("text", "")) for cell in own for each in cell.get("outputs", ())]
    known = "\n".join(["".join(cell["source"]) for cell in own] + outputs)
    lines = (line.strip() for line in exercise.solution.splitlines())
    return [line for line in lines if line not in known and line not in exercise.starter]

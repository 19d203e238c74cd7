"""Turns a lesson into the notebook that becomes its page.

On a page nothing runs, so each cell's output must stand for itself. Explorers become films, other
pictures files; what answers a question is folded; an exercise keeps its task, its starter and its
hints, and says what Jupyter adds. Solutions are not on the site.
"""

import ast
import base64
import hashlib
import html
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lablib.course.checks.exercises import find
from lablib.course.plots import scene
from lablib.course.plots.pictures import LEAST
from lablib.teach.editions import (
    Cell,
    Notebook,
    answered,
    code_cells,
    joined,
    part_of,
)
from lablib.tools.site.film import MIME
from lablib.tools.site.run import Run

from PIL import Image

FRAMES = "_static/frames"
_PYTHON = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
_ANSWER = "What you should have seen"
_IMPORTED = "What is imported"
_SIDES = "width", "height"
_ASKS = " lablib-asks"
_FOR_THE_LAB = "check", "hint", "solution", "used", "explain"  # parts of exercises
_OF_A_READER = "progress(", "recall("  # cells whose output is about whoever runs them
_THINNED = "The sliders skip some values here."


def page(notebook: Notebook, run: Run, frames: Path, launch: str = "") -> Notebook:
    """Return the notebook of a page.

    Args:
        notebook: the lesson, recorded.
        run: what its explorers show.
        frames: the folder of pictures; those that are no explorer's are put there.
        launch: HTML that stands below the title.
    """
    cells: list[Cell] = []
    asked = {cell["id"]: answers for cell, answers in code_cells(notebook)}
    before: Cell = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            answers = asked.get(before.get("id"), False)
            cells.append(_said(cell, folded(cell["source"]) if answers else cell["source"]))
        else:
            cells += _code(cell, run, frames, asked[cell["id"]])
        before = cell
    cells[0]["source"] += f"\n\n{launch}" if launch else ""
    return {**notebook, "cells": cells, "metadata": _PYTHON}


def folded(text: str) -> str:
    """Return the text after an experiment with its answer folded."""
    answer, rest = answered(text)
    return "\n\n".join([*_fold(_ANSWER, answer), *rest]) if answer else text


def film_html(film: dict[str, Any], asks: bool = False) -> str:
    """Return a film as HTML: its caption, and what draws and moves it.

    If it ``asks``, a veil lies on it: it answers a question.
    """
    words = [_THINNED] * any(control["thinned"] for control in film["controls"])
    words += [f"“{label}” can be set in Jupyter." for label in film["fixed"]]
    note = f'<p class="lablib-note">{html.escape(" ".join(words))}</p>' if words else ""
    told = {name: film[name] for name in ("controls", "scene", "data", "caption")}
    told |= {"engine": film["engine"]} if film.get("engine") else {}
    told |= {"parts": f"{FRAMES}/{film['parts']}"} if "parts" in film else {}
    script = json.dumps(told, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    return (
        # the page has to load its scene
        f'<figure class="lablib-film{_ASKS * asks}" data-scene="{film["scene"]["name"]}">'
        '<div class="lablib-stage"></div>'
        f'<figcaption aria-live="polite">{html.escape(film["caption"])}</figcaption>{note}'
        f'<script type="application/json">{script}</script></figure>'
    )


def picture_html(file: str, caption: str, width: int, height: int) -> str:
    """Return a picture as HTML."""
    return (
        '<div class="lablib-slides">'
        f'<img class="lablib-picture" loading="lazy" src="{FRAMES}/{file}" '
        f'alt="{html.escape(caption)}" '
        f'width="{width}" height="{height}" style="min-width:{LEAST * width:.0f}px"></div>'
    )


def _keep(png: bytes, folder: Path) -> tuple[str, int, int]:
    """Put a picture into a folder as WebP, nothing lost, unless it is there.

    Returns:
        The file's name, which is made from the pixels, and the picture's width and height.
    """
    image = Image.open(io.BytesIO(png)).convert("RGB")
    name = f"{hashlib.sha256(image.tobytes()).hexdigest()[:20]}.webp"
    if not (folder / name).exists():
        image.save(folder / name, "webp", lossless=True, method=4)
    return name, *image.size


def _code(cell: Cell, run: Run, frames: Path, answers: bool) -> Iterator[Cell]:
    """Yield what a code cell becomes: itself with other outputs, a text, or nothing."""
    exercise, part = part_of(cell)
    if part == "hint":
        yield _said(cell, _exercise(exercise))
    asks = cell["source"].startswith("predict(")
    if part in ("check", "hint", "solution", "used", "explain") or cell["source"].startswith(
        _OF_A_READER
    ):
        return
    outputs = [] if part == "starter" else [*_outputs(cell, run, frames, answers)]
    pictures = [each for each in outputs if _ASKS.strip() in str(each.get("data"))]
    said = [each for each in outputs if each not in pictures]
    said = [*map(_choices, said)] if asks else said
    fold = ["hide-output"] if answers and said else []
    metadata: dict[str, Any] = {"tags": ["remove-input"] if asks else fold}
    if "setup" in cell["metadata"].get("tags", ()):
        metadata = {"tags": ["hide-input"], "mystnb": {"code_prompt_show": _IMPORTED}}
    yield {**cell, "outputs": said, "metadata": metadata}
    if pictures:  # in sight, below a veil of their own; Sphinx leaves out a cell without a line
        metadata = {"tags": ["remove-input"]}
        shown = {"cell_type": "code", "execution_count": None, "source": "#", "metadata": metadata}
        yield {**shown, "id": f"{cell['id']}-pictures", "outputs": pictures}


def _choices(asked: dict[str, Any]) -> dict[str, Any]:
    """Return a question's output without its last line: on a page no cell takes an answer."""
    return {**asked, "text": "".join(asked["text"]).partition("Answer in the cell:")[0]}


def _outputs(cell: Cell, run: Run, frames: Path, asks: bool) -> Iterator[dict[str, Any]]:
    for output in joined(run.outputs.get(cell["id"], cell["outputs"])):
        data = output.get("data", {})
        if output["output_type"] == "stream":
            yield output
        elif MIME in data:
            yield _html(film_html(run.films[data[MIME]], asks))
        elif scene.MIME in data:
            told, caption = json.loads(data[scene.MIME]), "".join(data["text/plain"])
            still = {"controls": [], "fixed": [], "scene": told, "data": told.pop("data")}
            yield _html(film_html({**still, "caption": caption}, asks))
        elif "image/png" in data:
            told = output["metadata"].get("image/png", {})
            name, *pixels = _keep(base64.b64decode(data["image/png"]), frames)
            size = [told.get(side, own) for side, own in zip(_SIDES, pixels, strict=True)]
            picture = picture_html(name, told.get("alt", ""), *size)
            yield _html(f'<div class="{_ASKS.strip()}">{picture}</div>' if asks else picture)
        elif "text/html" in data:
            yield _html("".join(data["text/html"]))
        elif data:
            yield output


def _exercise(exercise_id: str) -> str:
    """Return what stands below an exercise's starter: its hints, folded, and what Jupyter adds.

    The last hint of a short exercise may be its solution: then it is left out.
    """
    exercise = find(exercise_id)
    *before, last = ast.parse(exercise.solution).body[-1].body
    whole = "" if len(before) > 1 else ast.unparse(last)  # one statement, beside the docstring
    hints = [hint for hint in exercise.hints if not whole or whole not in hint]
    parts = []
    for number, hint in enumerate(hints, 1):
        parts += _fold(f"Hint {number}", [hint])
    checks = (
        f'In Jupyter `check("{exercise.id}", {exercise.name})` says whether your function is right '
        "and, if not, which kind of mistake it looks like; the solution is there, too."
    )
    return "\n\n".join([*parts, checks])


def _fold(summary: str, paragraphs: list[str]) -> list[str]:
    start = f'<details class="lablib-answer"><summary>{summary}</summary>'
    return [start, *paragraphs, "</details>"]


def _said(cell: Cell, text: str) -> Cell:
    return {"cell_type": "markdown", "id": cell["id"], "metadata": {}, "source": text}


def _html(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/html": text}, "metadata": {}}

"""Ways to add a problem's digits, drawn as a fork: where chains part, and how likely each is."""

from collections.abc import Sequence
from typing import Any

from lablib.course.lessons.lesson_18.author import Author, choices
from lablib.course.plots.chart import Chart
from lablib.course.plots.charts import axis, panel
from lablib.course.plots.pictures import COLOURS
from lablib.course.tasks import sums
from lablib.validation import one_of

import numpy as np

Text = tuple[tuple[int, int], ...]  # of each digit in its order: the digit, the total behind it
HABIT, GREY, RIGHT, WRONG = "#B34A00", "#BBBBBB", COLOURS[2], COLOURS[1]
WIDEST = 15  # pixels of a line that every chain takes
READINGS = {"T = 1": (1.0, "texts"), "T = 1/4": (4.0, "tokens"), "p⁴": (4.0, "texts")}


def texts(author: Author, order: Sequence[int], power: float, of: str) -> dict[Text, float]:
    """Return each text of one order of the digits, and its chance^power, not scaled.

    Args:
        author: who writes.
        order: all digits of a problem.
        power: what is asked of is p^power.
        of: "texts": p is a whole text's; "tokens": each token's, scaled, as a temperature has it.
    """
    one_of("of", of, ("texts", "tokens"))
    results = author.results() ** power
    if of == "tokens":
        results = results / results.sum(-1, keepdims=True)
    left, found = tuple(sorted(order)), {(): 1.0}
    for x in order:
        ((left, taken),) = [each[1:] for each in choices(left, power, of) if each[0] == x]
        longer: dict[Text, float] = {}
        for text, mass in found.items():
            after = results[text[-1][1], x] if text else np.eye(10)[x]
            for total in np.flatnonzero(after).tolist():
                longer[*text, (x, total)] = mass * taken * float(after[total])
        found = longer
    return found


def shares(
    author: Author, orders: Sequence[Sequence[int]], power: float, of: str
) -> dict[Text, float]:
    """Return all texts of some orders, and their shares of each other, whose sum is 1."""
    found: dict[Text, float] = {}
    for order in orders:
        found |= texts(author, order, power, of)
    whole = sum(found.values())
    return {text: mass / whole for text, mass in found.items()}


def fork(author: Author, orders: Sequence[Sequence[int]], readings: Sequence[str]) -> Chart:
    """Draw orders of one problem's digits, a panel for each reading of ``READINGS``.

    A line is as wide as the share of the texts that take it; at the ends stand the texts' shares.
    """
    views, marks = [], []
    for name in readings:
        one_of("readings", name, tuple(READINGS))
        found = shares(author, orders, *READINGS[name])
        across = axis(-0.3, sums.COUNT - 0.2, "", (), bare=True)
        down = axis(0.4 - len(found), 0.5, "", (), bare=True)
        title = f"{name}: shares of {len(found)} texts"
        views.append(panel(title, across, down, side=8, high=44 * len(found)))
        marks.append(_marks(found))
    keys = [(HABIT, "adds one of the 20 pairs")]
    keys += [(RIGHT, "ends right", True), (WRONG, "ends wrong", True)]
    return Chart(views, marks, keys)


def _marks(found: dict[Text, float]) -> list[dict[str, Any]]:
    rows: dict[Text, list[int]] = {}  # of each beginning, the rows of the texts that have it
    share: dict[Text, float] = {}
    for row, (text, part) in enumerate(found.items()):
        for k in range(1, len(text) + 1):
            rows.setdefault(text[:k], []).append(row)
            share[text[:k]] = share.get(text[:k], 0.0) + part
    height = {text: -float(np.mean(each)) for text, each in rows.items()}
    lines, boxes = [], []
    for text, y in height.items():
        x, (digit, total) = len(text) - 1, text[-1]
        before, last = text[:-1], text in found
        if before:
            pair, start = (before[-1][1], digit), height[before]
            look = {"colour": HABIT if pair in sums.NOISY_PAIRS else GREY}
            note = f"{pair[0]} + {digit} = {total}: {share[text]:.2f} of the texts."
            bend = [[x - 1, start], [x - 0.78, start], [x - 0.5, y], [x, y]]
            wide = max(0.8, WIDEST * share[text])
            lines.append({"line": bend, "wide": round(wide, 1), "note": note, **look})
            at = [x - 0.36, y + 0.28]
            boxes.append({"text": f"+{digit}", "at": at, "anchor": "middle"})
        right = total == sum(x for x, _ in text) % 10
        edge = (RIGHT if right else WRONG) if last else "#777777"
        sides = [x - 0.15, x + 0.15, y - 0.19, y + 0.19]
        boxes.append({"bar": sides, "fill": "#FFFFFF", "edge": edge, "text": f"{total}"})
        if last:
            boxes.append({"text": f"{found[text]:.2f}", "at": [x + 0.25, y - 0.08]})
    return [*lines, *boxes]

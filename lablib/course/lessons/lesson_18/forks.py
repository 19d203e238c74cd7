"""Ways to add a problem's digits, drawn as a fork: where chains part, and how likely each is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
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
ENDS = (RIGHT, "ends right", True), (WRONG, "ends wrong", True)
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
        views.append(_view(f"{name}: shares of {len(found)} texts", len(found)))
        marks.append(_marks(found, found, lambda *pair: pair in sums.NOISY_PAIRS, len(readings)))
    return Chart(views, marks, [(HABIT, "adds one of the 20 pairs"), *ENDS])


def authors(named: Mapping[str, Author], orders: Sequence[Sequence[int]]) -> Chart:
    """Draw orders of one problem's digits as several authors add them, a panel for each.

    A line is brown where its author hesitates, because he may write two results. A slip on a pair
    that is none of the 20 is drawn as a ring, and its way is not followed; shares are of all texts.
    """
    every = [shares(author, orders, 1.0, "texts") for author in named.values()]
    followed = [[*filter(_slips_on_the_20_alone, found)] for found in every]
    most = max(map(len, followed))
    marks = []
    for author, found, ways in zip(named.values(), every, followed, strict=True):
        doubtful = (author.results() > 0).sum(-1) > 1
        marks.append(_marks(found, ways, lambda *pair, at=doubtful: bool(at[pair]), len(named)))
    keys = [(HABIT, "hesitates: two results (a ring: a slip)"), *ENDS]
    return Chart([_view(name, most) for name in named], marks, keys)


def _slips_on_the_20_alone(text: Text) -> bool:
    pairs = [((t, x), n) for (_, t), (x, n) in pairwise(text)]
    return all(pair in sums.NOISY_PAIRS or n == sum(pair) % 10 for pair, n in pairs)


def _view(title: str, rows: int) -> dict[str, Any]:
    across = axis(-0.3, sums.COUNT - 0.2, "", (), bare=True)
    return panel(title, across, axis(0.4 - rows, 0.5, "", (), bare=True), side=8, high=44 * rows)


def _marks(
    found: Mapping[Text, float],
    ways: Iterable[Text],
    brown: Callable[[int, int], bool],
    panels: int,
) -> list[dict[str, Any]]:
    rows: dict[Text, list[int]] = {}  # of each beginning, the rows of the texts that have it
    share: dict[Text, float] = {}
    for row, text in enumerate(ways):
        for k in range(1, len(text) + 1):
            rows.setdefault(text[:k], []).append(row)
    for text, part in found.items():
        for k in range(1, len(text) + 1):
            share[text[:k]] = share.get(text[:k], 0.0) + part
    height = {text: -float(np.mean(each)) for text, each in rows.items()}
    half = 0.15 if panels < 3 else 0.2  # of a box: a digit has to fit
    lines, boxes = [], []
    for text, y in height.items():
        x, (digit, total) = len(text) - 1, text[-1]
        before, last = text[:-1], text in found
        if before:
            pair, start = (before[-1][1], digit), height[before]
            look = {"colour": HABIT if brown(*pair) else GREY}
            note = f"{pair[0]} + {digit} = {total}: {share[text]:.2f} of the texts."
            bend = [[x - 1, start], [x - 1 + half, start], [x - 0.5, y], [x, y]]
            wide = max(0.8, WIDEST * share[text])
            lines.append({"line": bend, "wide": round(wide, 1), "note": note, **look})
            at = [x - 0.36, y + 0.28]
            boxes.append({"text": f"+{digit}", "at": at, "anchor": "middle"})
            slip = *before, (digit, (sum(pair) + 1) % 10)
            if slip in share and slip not in height:
                lines.append({"line": [[x - 0.5, y], [x - 0.36, y - 0.34]], "wide": 1.5, **look})
                note = f"{pair[0]} + {digit}, a slip: {share[slip]:.2f} of the texts."
                ring = {"hollow": True, "fill": "#FFFFFF", "colour": WRONG}
                boxes.append({"dot": [x - 0.36, y - 0.34], "r": 4, "note": note, **ring})
        right = total == sum(x for x, _ in text) % 10
        edge = (RIGHT if right else WRONG) if last else "#777777"
        sides = [x - half, x + half, y - 0.19, y + 0.19]
        boxes.append({"bar": sides, "fill": "#FFFFFF", "edge": edge, "text": f"{total}"})
        if last:
            boxes.append({"text": f"{found[text]:.2f}", "at": [x + half + 0.1, y - 0.08]})
    return [*lines, *boxes]

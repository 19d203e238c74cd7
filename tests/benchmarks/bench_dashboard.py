"""Milliseconds of processor time from a control to its new picture: what must answer in 100.

The acceptance dashboard and the trees of lesson 13, the widgets with most to compute and to draw.
Each control goes to a value whose picture was never drawn, from a start that was; controls take
turns. Run it as ``python tests/benchmarks/bench_dashboard.py [--turns 7]``.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import lablib
from lablib.course.lessons.lesson_08.dashboard import Dashboard
from lablib.course.lessons.lesson_13.rounds import measure_prices
from lablib.course.lessons.lesson_13.widgets import Trees
from lablib.course.replay.recording import stored_acceptance
from lablib.course.tasks import TASKS

import mlx.core as mx

DASHBOARD = {
    "task": ("stories", "edits"),
    "drafter": ("head", "look-up"),
    "rule": ("match", "block"),
    "draft_tokens": (1, 8),
    "temperature": (0.0, 1.5),
}
# A start and a move: trees of 16 nodes have most words to draw.
TREES = (
    ({}, {"nodes": 16}),
    ({"nodes": 16}, {"text": "a story"}),
    ({"nodes": 16}, {"rule": "rejection"}),
    ({"nodes": 16}, {"depth": 1}),
    ({"nodes": 16}, {"temperature": 2.0}),
    ({"nodes": 16}, {"toss": 3}),
    ({"nodes": 16, "rule": "rejection"}, {"temperature": 0.5}),  # ten trees, drawn in advance
    ({"nodes": 16, "rule": "rejection"}, {"depth": 3}),  # and drawn now
)
Move = tuple[str, Callable[[], Any], dict[str, Any], dict[str, Any]]


def moves() -> Iterator[Move]:
    """Yield the name of a widget, what makes one, where it starts, and the control to move."""
    target, tokenizer = lablib.load("target", dtype=mx.float32)
    draft, _ = lablib.load("draft", dtype=mx.float32)
    words = [tokenizer.decode([i], skip_special_tokens=True) for i in range(target.vocab_size)]
    head, recording = lablib.load_head("target-head", target), stored_acceptance()
    story = tokenizer.encode(TASKS["stories"].problems(3, 1)[0].prompt)
    texts = {"sums": tokenizer.encode("sum 7 3 9 0 4 8:3+"), "a story": story}
    prices = measure_prices(target, draft, story)

    def board() -> Dashboard:
        return Dashboard(recording, target, draft, head, words, task="sums")

    for name, values in DASHBOARD.items():
        yield from (("dashboard", board, {}, {name: value}) for value in values)
    for start, moved in TREES:
        yield "trees", lambda: Trees(target, draft, texts, words, prices), start, moved


def main() -> None:
    """Print a row for each move: the median over the turns, and the most."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    turns = parser.parse_args().turns
    taken: dict[tuple[str, ...], list[float]] = {}
    every = list(moves())
    for _ in range(turns):
        for widget, make, start, moved in every:
            shown = make()  # of its own: nothing was computed or drawn
            shown.set(**start)
            begun = time.process_time()
            shown.set(**moved)
            control, value = next(iter(moved.items()))
            own = taken.setdefault((widget, control, str(value)), [])
            own.append(1e3 * (time.process_time() - begun))
    print(f"{'widget':12}{'control':14}{'to':>10}{'median ms':>11}{'most ms':>9}")
    for (widget, control, value), times in taken.items():
        middle, most = statistics.median(times), max(times)
        print(f"{widget:12}{control:14}{value:>10}{middle:11.1f}{most:9.1f}")


if __name__ == "__main__":
    main()

"""Milliseconds of processor time from a control of the acceptance dashboard to its new picture.

Each control goes to a value whose charts were never drawn, from a start that was; controls take
turns. Run it as ``python tests/benchmarks/bench_dashboard.py [--turns 7]``. 100 ms is the goal.
"""

import argparse
import statistics
import time

import lablib
from lablib.lessons.lesson_08.dashboard import Dashboard
from lablib.replay.recording import stored_acceptance

import mlx.core as mx

OTHER = {
    "task": ("stories", "edits"),
    "drafter": ("head", "look-up"),
    "rule": ("match", "block"),
    "draft_tokens": (1, 8),
    "temperature": (0.0, 1.5),
    "token": (1, 33),
}


def main() -> None:
    """Print a row for each control: both ends, medians over the turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    turns = parser.parse_args().turns
    target, tokenizer = lablib.load("target", dtype=mx.float32)
    draft, _ = lablib.load("draft", dtype=mx.float32)
    words = [tokenizer.decode([i], skip_special_tokens=True) for i in range(target.vocab_size)]
    head, recording = lablib.load_head("target-head", target), stored_acceptance()
    taken: dict[tuple[str, object], list[float]] = {}
    for _ in range(turns):
        for name, values in OTHER.items():
            for value in values:  # a dashboard of its own: nothing was computed or drawn
                board = Dashboard(recording, target, draft, head, words, task="sums")
                start = time.process_time()
                board.set(**{name: value})
                taken.setdefault((name, value), []).append(1e3 * (time.process_time() - start))
    print(f"{'control':14}{'to':>10}{'median ms':>11}{'most ms':>9}")
    for (name, value), times in taken.items():
        print(f"{name:14}{value!s:>10}{statistics.median(times):11.1f}{max(times):9.1f}")


if __name__ == "__main__":
    main()

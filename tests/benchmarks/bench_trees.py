"""What a tree of drafts yields on *sums*, against chains: tokens a target call, and time.

    python tests/benchmarks/bench_trees.py [turns]
    pytest -m benchmark tests/benchmarks/bench_trees.py

The shipped pair, float32; the sides take turns in one process, and the time is the median of the
turns' processor time. *At operands* are the calls whose first token is a digit that the target
chooses among those left: there the draft is in doubt. Exit code 1 if a tree of 8 nodes yields no
more tokens a call than a chain of 4, anywhere or at operands.
"""

import statistics
import sys
import time
from typing import Any

from lablib.course.tasks import sums
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import Head, Tree
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.models import load_head, zoo

import mlx.core as mx
import pytest

PROBLEMS, TIMED = 24, 3


class Bench:
    """The shipped models, and the sides: a drafter and its ``draft_tokens``, a rule."""

    def __init__(self) -> None:
        self.target, self.tokenizer = zoo.load("target", mx.float32)
        draft, _ = zoo.load("draft", mx.float32)
        head = load_head("target-head", self.target)
        self.problems = sums.problems(23, PROBLEMS)
        self.sides = {
            "chain of 4": (draft, 4, "rejection"),
            "chain of 8": (draft, 8, "rejection"),
            "tree of 8": (Tree(draft), 8, "rejection"),
            "tree of 8, 4 deep": (Tree(draft, depth=4), 8, "rejection"),
            "tree of 8, block": (Tree(draft), 8, "block"),
            "head, chain of 4": (Head(head), 4, "rejection"),
            "head, tree of 8": (Tree(Head(head)), 8, "rejection"),
        }

    def text(self, i: int, side: str, temperature: float, trace: bool = False) -> Any:
        """Complete problem ``i``; returns the iterator."""
        options = {"max_tokens": 48, "temperature": temperature, "seed": i}
        options["stop_tokens"] = self.tokenizer.eos_token_ids
        prompt = self.tokenizer.encode(self.problems[i].prompt)
        if side == "plain":
            iterator = TokenIterator(self.target, prompt, **options)
        else:
            draft, nodes, rule = self.sides[side]
            iterator = SpeculativeTokenIterator(
                self.target, draft, prompt, draft_tokens=nodes, rule=rule, trace=trace, **options
            )
        for _ in iterator:
            pass
        return iterator

    def yields(self, side: str, temperature: float) -> tuple[float, float, float]:
        """Tokens a call of the target, at operands too; and calls of the draft model with it."""
        everywhere, operands, drafts = [], [], 0
        for i, problem in enumerate(self.problems):
            iterator = self.text(i, side, temperature, trace=True)
            drafts += iterator.stats["draft_calls"]
            written = self.tokenizer.decode(iterator.tokens, skip_special_tokens=True)
            names = {
                place: name
                for start, end, name in sums.token_classes(problem, written)
                for place in range(start, end)
            }
            at = 0
            for verdict in iterator.rounds:
                before = self.tokenizer.decode(iterator.tokens[:at], skip_special_tokens=True)
                everywhere.append(len(verdict.tokens))
                if names.get(len(problem.prompt) + len(before)) == "operand":
                    operands.append(len(verdict.tokens))
                at += len(verdict.tokens)
        mean = statistics.fmean
        return mean(everywhere), mean(operands), drafts / len(everywhere)

    def times(self, turns: int, temperature: float) -> dict[str, list[float]]:
        """Processor time for each token in ms, of each side in each turn."""
        spent: dict[str, list[float]] = {name: [] for name in ("plain", *self.sides)}
        for _ in range(turns + 1):
            for name, column in spent.items():
                start, tokens = time.process_time(), 0
                for i in range(TIMED):
                    tokens += len(self.text(i, name, temperature).tokens)
                column.append(1e3 * (time.process_time() - start) / tokens)
        return {name: column[1:] for name, column in spent.items()}  # the first turn warms up


def main(turns: int) -> int:
    """Print the table; return how many bounds were missed."""
    bench, missed = Bench(), 0
    for temperature in (0.0, 1.0):
        print(f"\ntemperature {temperature:g}: tokens a call, at operands, draft calls, ms a token")
        found = {side: bench.yields(side, temperature) for side in bench.sides}
        times = bench.times(turns, temperature)
        for side, spent in times.items():
            pairs = zip(times["plain"], spent, strict=True)
            ratio = statistics.median(plain / own for plain, own in pairs)
            columns = "".join(f"{x:7.2f}" for x in found.get(side, (1.0, 1.0, 0.0)))
            print(f"{side:20}{columns}{statistics.median(spent):7.2f}  {ratio:.2f} times plain")
        tree, chain = found["tree of 8"], found["chain of 4"]
        missed += sum(tree[i] <= chain[i] for i in range(2))
    return missed


@pytest.mark.benchmark
def test_a_tree_yields_more_than_a_chain() -> None:
    assert main(7) == 0


if __name__ == "__main__":
    sys.exit(min(1, main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)))

"""What speculation gains on the shipped pair: against plain decoding, mlx-lm's, and the theory.

    python tests/benchmarks/bench_speculation.py [repeats]
    pytest -m benchmark tests/benchmarks/bench_speculation.py

All sides are float32, take turns in one process, and are compared by the median of paired ratios:
on a shared machine single timings lie. Exit code 1 if a bound is missed.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from lablib.course.replay.measure import measure_costs
from lablib.course.tasks import TASKS
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import EarlyExit, NGram
from lablib.inference.speculation.costs import expected_tokens
from lablib.inference.speculation.draft_length import AdaptiveLength
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.machine.doctor import doctor
from lablib.models import zoo
from lablib.text import TextStream

import mlx.core as mx
import mlx_lm
import pytest

GAMMA, PROBLEMS, LONG = 4, 6, 320
LENGTHS = (2, 3, 4, 6, 8)
Side = Callable[[], int]


class Pair:
    """The shipped models, ours and as mlx-lm opens them, and the prompts."""

    def __init__(self) -> None:
        self.target, self.tokenizer = zoo.load("target", mx.float32)
        self.draft, _ = zoo.load("draft", mx.float32)
        self.theirs = []
        for name in ("target", "draft"):
            model, _ = mlx_lm.load(str(zoo.CHECKPOINTS / name))
            model.set_dtype(mx.float32)
            mx.eval(model.parameters())
            self.theirs.append(model)
        self.prompts = {
            task: [self.tokenizer.encode(p.prompt) for p in module.problems(23, PROBLEMS)]
            for task, module in TASKS.items()
        }

    def plain(self, task: str, **options: Any) -> Side:
        return self._side(task, partial(TokenIterator, self.target), options)

    def speculative(self, task: str, draft: Any = None, text: bool = False, **options: Any) -> Side:
        draft = self.draft if draft is None else draft

        def iterate(prompt: list[int], **o: Any) -> Iterator[Any]:
            iterator = SpeculativeTokenIterator(self.target, draft, prompt, **o)
            return TextStream(iterator, self.tokenizer) if text else iterator

        return self._side(task, iterate, options)

    def mlx_lm(self, task: str, gamma: int) -> Side:
        target, draft = self.theirs

        def run() -> int:
            tokens = 0
            for prompt in self.prompts[task]:
                for _ in mlx_lm.stream_generate(
                    target, self.tokenizer, prompt, max_tokens=64, draft_model=draft,
                    num_draft_tokens=gamma,
                ):  # fmt: skip
                    tokens += 1
            return tokens

        return run

    def _side(self, task: str, iterate: Callable[..., Iterator[Any]], options: dict) -> Side:
        options = {
            "max_tokens": 64,
            "temperature": 0.0,
            "stop_tokens": self.tokenizer.eos_token_ids,
            **options,
        }

        def run() -> int:
            tokens = 0
            for prompt in self.prompts[task]:
                iterator = iterate(prompt, **options)
                for _ in iterator:
                    pass
                tokens += iterator.stats["tokens"]
            return tokens

        return run


def turns(sides: dict[str, Side], repeats: int) -> dict[str, list[float]]:
    """Seconds per token of each side in each turn; the first turn, which warms up, is dropped."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats + 1):
        for name, side in sides.items():
            start = time.perf_counter()
            tokens = side()
            times[name].append((time.perf_counter() - start) / tokens)
    return {name: spent[1:] for name, spent in times.items()}


def gain(times: dict[str, list[float]], fast: str, slow: str) -> float:
    """The median over the turns of how many times faster ``fast`` is."""
    return statistics.median(b / a for a, b in zip(times[fast], times[slow], strict=True))


def rate(spent: list[float]) -> float:
    return 1 / statistics.median(spent)


def rates(times: dict[str, list[float]]) -> str:
    return ", ".join(f"{name} {rate(spent):.0f}" for name, spent in times.items())


class Report:
    """Prints the table; counts the bounds that are missed."""

    missed = 0

    def bound(self, what: str, value: float, least: float) -> None:
        met = value >= least
        self.missed += not met
        print(f"    {what:58} {value:6.2f}  (at least {least:.2f}) {'ok' if met else 'MISSED'}")


def against_others(pair: Pair, report: Report, repeats: int) -> None:
    """Greedy, to the end of the text: plain, drafters, adaptive length."""
    tokens_per_round = {}
    for task in TASKS:
        adaptive, looking_up = AdaptiveLength(8), AdaptiveLength(8)
        sides = {
            "plain": pair.plain(task),
            "speculative": pair.speculative(task, draft_tokens=GAMMA),
            "adaptive": pair.speculative(task, draft_tokens=adaptive),
            "n-gram": pair.speculative(task, NGram(), draft_tokens=GAMMA),
            "n-gram, adaptive": pair.speculative(task, NGram(), draft_tokens=looking_up),
            "early exit": pair.speculative(task, EarlyExit(2), draft_tokens=3),
        }
        times = turns(sides, repeats)
        print(f"{task}, tokens/s: {rates(times)}")
        report.bound("speculative over plain", gain(times, "speculative", "plain"), 1.7)
        for name in ("adaptive", "n-gram, adaptive"):
            report.bound(f"{name} over plain", gain(times, name, "plain"), 0.95)
        tokens_per_round[task] = _tokens_per_round(pair, task)
    report.bound("n-gram, tokens per target call on edits", tokens_per_round["edits"], 2.5)
    fewer = tokens_per_round["edits"] - tokens_per_round["stories"]
    report.bound("n-gram, edits minus stories", fewer, 1.2)


def against_mlx_lm(pair: Pair, report: Report, repeats: int) -> None:
    """Greedy text, each side at its best γ.

    The bound is near, and the best lengths of the two sides need not be one: many turns.
    """
    for task in TASKS:
        sides = {}
        for n in LENGTHS:  # each beside its counterpart: what slows one turn slows both
            sides[f"ours γ={n}"] = pair.speculative(task, text=True, draft_tokens=n)
            sides[f"mlx-lm γ={n}"] = pair.mlx_lm(task, n)
        times = turns(sides, 3 * repeats)
        print(f"{task}, text, tokens/s: {rates(times)}")
        ours, theirs = (
            max((n for n in times if n.startswith(kind)), key=lambda n: rate(times[n]))
            for kind in ("ours", "mlx-lm")
        )
        report.bound(f"{ours} over {theirs}, each at its best", gain(times, ours, theirs), 1.1)


def _tokens_per_round(pair: Pair, task: str) -> float:
    tokens = rounds = 0
    for prompt in pair.prompts[task]:
        iterator = SpeculativeTokenIterator(
            pair.target, NGram(), prompt, max_tokens=64, temperature=0.0,
            stop_tokens=pair.tokenizer.eos_token_ids,
        )  # fmt: skip
        tokens += sum(1 for _ in iterator)
        rounds += iterator.stats["rounds"]
    return tokens / rounds


def against_theory(pair: Pair, report: Report, repeats: int) -> None:
    """Long texts, so that ends do not matter: measured gain over what α and T(k) predict.

    The prediction is that of Leviathan et al. (2023): from the one α and the times alone. The times
    are taken between the two texts of each turn, and a turn's gain is held against its own
    prediction: a machine that is slower for a while is so on both sides.
    """
    for task in TASKS:
        prompts = pair.prompts[task][:2]
        alphas = _alphas(pair, prompts)
        tokens = expected_tokens([kept for kept, _ in alphas], GAMMA)
        alpha = sum(k * n for k, n in alphas) / sum(n for _, n in alphas)
        decode = partial(TokenIterator, pair.target)
        speculate = partial(SpeculativeTokenIterator, pair.target, pair.draft, draft_tokens=GAMMA)
        costs, measured = [], []
        for _ in range(repeats):
            plain = _decoding(decode, prompts)
            costs.append(measure_costs(pair.target, pair.draft, most=GAMMA, context=160))
            measured.append(plain / _decoding(speculate, prompts))
        predicted = [
            expected_tokens(alpha, GAMMA) * c.forward(1) / c.of_round(GAMMA) for c in costs
        ]
        one, block, draft = (
            1e3 * statistics.median(map(time_of, costs))
            for time_of in (
                lambda c: c.forward(1),
                lambda c: c.forward(GAMMA + 1),
                lambda c: c.draft,
            )
        )
        print(
            f"{task}, {LONG} tokens: α {alpha:.3f}, tokens a round by theory "
            f"{expected_tokens(alpha, GAMMA):.2f} (with a chance for each place {tokens:.2f}), "
            f"T(1) {one:.2f}, T({GAMMA + 1}) {block:.2f}, draft {draft:.2f} ms, "
            f"gain {statistics.median(measured):.2f}, predicted {statistics.median(predicted):.2f}"
        )
        ratio = statistics.median(m / p for m, p in zip(measured, predicted, strict=True))
        report.bound("measured over predicted, or its inverse", min(ratio, 1 / ratio), 0.9)


def _alphas(pair: Pair, prompts: list[list[int]]) -> list[tuple[float, int]]:
    """For each drafted position the share that was kept, and how many were reached."""
    kept, reached = [0] * GAMMA, [0] * GAMMA
    for prompt in prompts:
        iterator = SpeculativeTokenIterator(
            pair.target, pair.draft, prompt, max_tokens=LONG, draft_tokens=GAMMA, trace=True,
            temperature=0.0, stop_tokens=(),
        )  # fmt: skip
        for _ in iterator:
            pass
        for round_ in iterator.rounds:
            for i in range(round_.reached):
                reached[i] += 1
                kept[i] += round_.accepted > i
    return [(k / n if n else 0.0, n) for k, n in zip(kept, reached, strict=True)]


def _decoding(iterate: Callable[..., Any], prompts: list[list[int]]) -> float:
    """Seconds of decoding, reading the prompts left out."""
    seconds = 0.0
    for prompt in prompts:
        iterator = iterate(prompt, max_tokens=LONG, temperature=0.0, stop_tokens=())
        for _ in iterator:
            pass
        seconds += iterator.stats["decode_seconds"]
    return seconds


def by_rule(pair: Pair, repeats: int) -> None:
    """The three rules at temperature 1, for the record."""
    for task in TASKS:
        sides = {"plain": pair.plain(task, temperature=1.0, seed=1)}
        for rule in ("match", "rejection", "block"):
            sides[rule] = pair.speculative(task, rule=rule, temperature=1.0, seed=1)
        times = turns(sides, repeats)
        print(
            f"{task}, temperature 1: "
            + ", ".join(f"{rule} {gain(times, rule, 'plain'):.2f}" for rule in list(sides)[1:])
            + " times plain"
        )


def main(repeats: int) -> int:
    """Print the tables; return how many bounds were missed."""
    pair, report = Pair(), Report()
    print(f"{doctor().facts['machine']}; BLAS {doctor().facts['blas']}; {repeats} turns")
    against_others(pair, report, repeats)
    against_mlx_lm(pair, report, repeats)
    against_theory(pair, report, repeats)
    by_rule(pair, repeats)
    return report.missed


@pytest.mark.benchmark
def test_speculation_keeps_its_bounds() -> None:
    assert main(7) == 0


if __name__ == "__main__":
    sys.exit(min(1, main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)))

"""What a step of the sampler costs, against V and B, loops and mlx-lm's samplers.

    python tests/benchmarks/bench_sampling.py [repeats]

Sides take turns and the bounds are on medians of paired ratios: on a shared machine single timings
lie. On a CPU the clock is the processor time of all threads, which the neighbours do not add to; on
a GPU it is the wall's. Exit code 1 if a bound is missed.

mlx-lm's samplers are compiled functions (they need a C++ compiler on the CPU; without one MLX runs
them uncompiled) and draw unseeded; ours are not compiled, so that a batch whose size changes never
waits for a compiler.
"""

import shutil
import statistics
import sys
import time
from collections.abc import Callable

from lablib.inference.sampling.sampler import Sampler, SamplerOptions

import mlx.core as mx
import numpy as np
from compare import KINDS
from mlx_lm.sample_utils import make_sampler

Side = Callable[[], object]
CLOCK = time.process_time if mx.default_device() == mx.cpu else time.perf_counter


def sampler_of(kinds: list[dict], n: int) -> Sampler:
    """n slots that take turns among the kinds, each with a full window of 64 tokens."""
    sampler = Sampler(4096)
    for i in range(n):
        sampler.add(i, SamplerOptions(**kinds[i % len(kinds)], seed=i), range(64))
    return sampler


def logits_of(n: int, vocab_size: int) -> mx.array:
    """Rows about as peaked as a language model's: a Zipf law with noise, in a random order."""
    rng = np.random.default_rng(0)
    zipf = -1.3 * np.log(np.arange(1, vocab_size + 1))
    rows = [rng.permutation(zipf + rng.normal(size=vocab_size)) for _ in range(n)]
    logits = mx.array(np.array(rows, np.float32))
    mx.eval(logits)
    return logits


def paired(sides: list[Side], repeats: int) -> tuple[list[float], list[float]]:
    """Median ms of each side, and median ratio of the first to each."""
    for side in sides:
        side()
    rounds = []
    for _ in range(repeats):
        times = []
        for side in sides:
            start = CLOCK()
            side()
            times.append(1e3 * (CLOCK() - start))
        rounds.append(times)
    columns = list(zip(*rounds, strict=True))
    ratios = [statistics.median(a / b for a, b in zip(columns[0], c, strict=True)) for c in columns]
    return [statistics.median(column) for column in columns], ratios


def step(kinds: list[dict], logits: mx.array) -> Side:
    """One eager step of all slots together."""
    sampler, ids = sampler_of(kinds, len(logits)), list(range(len(logits)))
    return lambda: sampler.sample(ids, logits)


def loop(kinds: list[dict], logits: mx.array) -> Side:
    """The same step, slot after slot."""
    sampler, rows = sampler_of(kinds, len(logits)), [row[None] for row in logits]
    mx.eval(rows)

    def side() -> None:
        for i, row in enumerate(rows):
            sampler.sample([i], row)

    return side


def bounds(repeats: int) -> int:
    """64 mixed slots against uniform batches and against a loop; returns the bounds missed."""
    missed = 0
    kinds, n = list(KINDS.values()), len(KINDS)
    print(f"\n{'64 mixed slots, ms a step':48}{'mixed':>8}{'other':>9}{'ratio':>7}{'bound':>7}")
    for vocab_size, loop_bound in ((512, 1 / 3), (32_000, 1.0)):
        logits = logits_of(64, vocab_size)
        uniform = step([KINDS["everything"]], logits)
        each = [step([kind], logits) for kind in kinds]
        # A uniform batch of every kind, one after the other: the mean cost of such a batch.
        turns = [step(kinds, logits), uniform, loop(kinds, logits), lambda e=each: [s() for s in e]]
        times, ratios = paired(turns, repeats)
        rows = [
            ("all with every transform", times[1], ratios[1], 1.5),
            ("a uniform batch, mean of kinds", times[3] / n, ratios[3] * n, None),
            ("a loop over the rows", times[2], ratios[2], loop_bound),
        ]
        for name, other, ratio, bound in rows:
            held = bound is None or ratio <= bound
            missed += not held
            limit = "" if bound is None else f"{bound:7.2f}{'' if held else '  MISSED'}"
            row = f"V={vocab_size:<6} against {name}"
            print(f"{row:48}{times[0]:8.2f}{other:9.2f}{ratio:7.2f}{limit}")
    return missed


def against_mlx_lm(repeats: int) -> None:
    """Our eager step and mlx-lm's sampler on the same logits."""
    compiled = "compiled" if shutil.which("g++") else "not compiled: no g++"
    print(f"\nbeside mlx-lm ({compiled})")
    heads = ("ours, V=512", "mlx-lm", "ours, V=32000", "mlx-lm")
    print(f"{'ms a step':20}" + "".join(f"{head:>15}" for head in heads))
    for n in (1, 64):
        for name, options in KINDS.items():
            if "repeat_penalty" in options:
                continue
            cells = []
            for vocab_size in (512, 32_000):
                logits = logits_of(n, vocab_size)
                theirs = make_sampler(
                    temp=options["temperature"],
                    top_p=options.get("top_p", 0.0),
                    min_p=options.get("min_p", 0.0),
                    top_k=options.get("top_k", 0),
                )
                sides = [step([options], logits), lambda f=theirs, x=logits: np.array(f(x))]
                times, _ = paired(sides, repeats)
                cells += times
            print(f"B={n:<3} {name:13} " + "".join(f"{cell:15.3f}" for cell in cells))


def against_size(repeats: int) -> None:
    """Cost against B and V, and the part that Python takes."""
    sizes = [(n, v) for v in (512, 4096, 32_000) for n in (1, 16, 64)]
    print(
        f"\nB x V, ms a step; the last column is the time of Python alone for 1 x 512\n{'':13}",
        end="",
    )
    print("".join(f"{n}x{v}".rjust(10) for n, v in sizes) + f"{'Python':>10}")
    for name, options in KINDS.items():
        cells = []
        for n, vocab_size in sizes:
            (cell, *_), _ = paired([step([options], logits_of(n, vocab_size))], repeats)
            cells.append(cell)
        sampler, logits = sampler_of([options], 1), logits_of(1, 512)
        (build, argmax), _ = paired(
            [
                lambda s=sampler, x=logits: s.batch([0]).draw(x),
                lambda x=logits: mx.argmax(x, -1).item(),
            ],
            10 * repeats,
        )
        print(f"{name:13}" + "".join(f"{cell:10.3f}" for cell in cells) + f"{build:10.3f}")
    print(f"argmax alone, 1x512: {argmax:.3f} ms")


def main(repeats: int) -> int:
    """Print the tables; return how many bounds were missed."""
    missed = bounds(repeats)
    against_mlx_lm(repeats)
    against_size(repeats)
    return missed


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]) if len(sys.argv) > 1 else 15) else 0)

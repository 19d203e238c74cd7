"""Tokens per second of one sequence beside mlx-lm's, both with mlx-lm's own 5M-parameter Llama.

So what is compared is the loop, not the model; ``python -m lablib bench`` compares both together,
and bench_voting.py does the same for many sequences.

    python tests/benchmarks/bench_generation.py [repeats]

The two sides take turns, and the bound is on the median of the paired ratios: on a shared machine
single timings lie. Exit code 1 if a bound is missed.
"""

import statistics
import sys
import time
from collections.abc import Callable

import lablib
from lablib.inference.decoding.token_iterator import TokenIterator

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.generate import generate_step
from mlx_lm.models import llama
from mlx_lm.sample_utils import make_sampler

VOCAB = 512


def build_model() -> llama.Model:
    """Hidden size 256, 6 layers, 8 heads: 4.9M parameters, random weights."""
    arguments = llama.ModelArgs(
        model_type="llama",
        hidden_size=256,
        num_hidden_layers=6,
        intermediate_size=688,
        num_attention_heads=8,
        rms_norm_eps=1e-5,
        vocab_size=VOCAB,
    )
    mx.random.seed(0)
    model = llama.Model(arguments)
    mx.eval(model.parameters())
    return model


def prompt_of(length: int) -> list[int]:
    """Ids that do not repeat in a short cycle."""
    return [(7 * i * i + 3 * i) % VOCAB for i in range(length)]


def paired(
    ours: Callable[[], int], theirs: Callable[[], int], repeats: int
) -> tuple[float, float, float]:
    """Tokens/s of each side, and the median ratio of ours to theirs."""
    ours(), theirs()
    rates: list[tuple[float, float]] = []
    for _ in range(repeats):
        pair = []
        for side in (ours, theirs):
            start = time.perf_counter()
            tokens = side()
            pair.append(tokens / (time.perf_counter() - start))
        rates.append((pair[0], pair[1]))
    mine, other = zip(*rates, strict=True)
    ratio = statistics.median(a / b for a, b in rates)
    return statistics.median(mine), statistics.median(other), ratio


def main(repeats: int) -> int:
    """Print the table; return how many bounds were missed."""
    model = build_model()
    parameters = sum(array.size for _, array in tree_flatten(model.parameters()))
    print(f"Llama, {parameters / 1e6:.1f}M parameters, float32; {lablib.__name__} against mlx-lm")
    temperature_one = make_sampler(temp=1.0)

    def one(length: int, new: int, **options: float) -> int:
        return sum(1 for _ in TokenIterator(model, prompt_of(length), max_tokens=new, **options))

    def one_mlx(length: int, new: int, sampler: Callable | None = None) -> int:
        prompt = mx.array(prompt_of(length))
        return sum(1 for _ in generate_step(prompt, model, max_tokens=new, sampler=sampler))

    cases = [
        ("one sequence, greedy, 16 + 128", 1.0,
         lambda: one(16, 128, temperature=0), lambda: one_mlx(16, 128)),
        ("one sequence, temperature 1, 16 + 128", 1.0,
         lambda: one(16, 128, seed=0), lambda: one_mlx(16, 128, temperature_one)),
    ]  # fmt: skip
    print(f"{'prompt + new tokens':<40}{'ours':>8}{'mlx-lm':>8}  tokens/s{'ratio':>8}{'bound':>8}")
    missed = 0
    for name, bound, ours, theirs in cases:
        mine, other, ratio = paired(ours, theirs, repeats)
        missed += ratio < bound
        print(f"{name:<40}{mine:>8.0f}{other:>8.0f}{ratio:>18.2f}{bound:>8.1f}")
    return missed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 12) > 0)

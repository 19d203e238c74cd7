"""Cost of many prompts at once: ``sample_many`` against mlx-lm's ``batch_generate``.

200 prompts of 16 to 512 tokens, 8 completions of up to 32 tokens each at temperature 1, at most 32
rows at a time, all by the shipped ``target``. mlx-lm gets every prompt eight times, in the same
order. The queue is cut into eight parts, which the sides complete in turn, each part first by the
other side: what else the machine does hits both. Speeds are tokens per second of processor time.

    python tests/benchmarks/bench_many.py
    pytest -m benchmark tests/benchmarks/bench_many.py
"""

import statistics
import time

from lablib.course import tasks
from lablib.inference.decoding.batches import sample_many
from lablib.inference.sampling.options import SamplerOptions
from lablib.models import zoo

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm import load
from mlx_lm.generate import batch_generate
from mlx_lm.sample_utils import make_sampler

PROMPTS, PARTS, N, NEW, ROWS = 200, 8, 8, 32, 32
WANTED = 1.5


def prompts(tokenizer):
    """Cut prompts of every length out of stories; none begins like another."""
    problems = tasks.stories.problems(5, 400)
    text = tokenizer.encode(" ".join(problem.prompt + problem.answer for problem in problems))
    draw = np.random.default_rng(0)
    lengths = draw.integers(16, 513, PROMPTS)
    starts = draw.integers(0, len(text) - 512, PROMPTS)
    return [text[a : a + n] for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]


def measured(run, *arguments):
    """Return the tokens, the processor's seconds and the peak of MLX's memory in bytes."""
    mx.clear_cache()
    mx.reset_peak_memory()
    start = time.process_time()
    tokens = run(*arguments)
    return tokens, time.process_time() - start, mx.get_peak_memory()


def compare():
    """Return of each part (our measurement, theirs)."""
    model, tokenizer = zoo.load("target")
    foreign, its_tokenizer = load(str(zoo.CHECKPOINTS / "target"))
    if mx.default_device() == mx.cpu:
        foreign.set_dtype(mx.float32)  # as lablib does: half precision has no BLAS
    stops, queue = tokenizer.eos_token_ids, prompts(tokenizer)

    def ours(part, seed):
        options = [SamplerOptions(seed=seed + j) for j in range(len(part))]
        how = {"max_batch": ROWS, "max_tokens": NEW, "stop_tokens": stops}
        return sum(sum(each.lengths) for each in sample_many(model, part, options, N, **how))

    def theirs(part, seed):
        mx.random.seed(seed)
        found = batch_generate(
            foreign, its_tokenizer, [prompt for prompt in part for _ in range(N)], max_tokens=NEW,
            sampler=make_sampler(temp=1.0), completion_batch_size=ROWS, return_token_ids=True,
        )  # fmt: skip
        return sum(map(len, found.token_ids))

    ours(queue[:2], 0), theirs(queue[:2], 0)  # to warm up
    rows, size = [], PROMPTS // PARTS
    for k in range(PARTS):
        part = queue[k * size : (k + 1) * size]
        sides = [ours, theirs] if k % 2 else [theirs, ours]
        found = {side: measured(side, part, 1000 * k) for side in sides}
        rows.append((found[ours], found[theirs]))
    return rows


def main():
    """Print the table, and return the median ratio of speeds and that of memory."""
    rows = compare()
    speeds = [[tokens / seconds for tokens, seconds, _ in row] for row in rows]
    ratios = sorted(a / b for a, b in speeds)
    for name, side in (("sample_many", 0), ("batch_generate", 1)):
        most = max(row[side][2] for row in rows) / 1e6
        speed = statistics.median(each[side] for each in speeds)
        print(f"{name:15}{speed:8.0f} tokens/s{most:8.0f} MB at most")
    median = statistics.median(ratios)
    print(f"times {median:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), {PARTS} parts")
    return median, max(row[0][2] for row in rows) / max(row[1][2] for row in rows)


@pytest.mark.benchmark
def test_many_prompts():
    speed, memory = main()
    assert speed > WANTED
    assert memory < 1


if __name__ == "__main__":
    main()

"""Two checkouts against each other, line by line: is anything slower than it was?

    python tests/benchmarks/compare.py OLD [--turns 15] [--only PATTERN]

OLD is the root of another checkout; the new one is this. Each side is a process of its own that
keeps its models warm; the two take turns, case by case, and the ratio is the median over the turns.
On a CPU it is of processor time, which the neighbours do not add to, on a GPU of the clock's. Only
public names are used, so that old checkouts can be asked too.
"""

import argparse
import asyncio
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "lablib/tools/bench"))  # the old side has no such folder
import turns  # noqa: E402

sys.path.pop(0)
PENALTIES = {"repeat_penalty": 1.2, "presence_penalty": 0.1, "frequency_penalty": 0.1}
KINDS = {
    "greedy": {"temperature": 0.0},
    "temperature": {"temperature": 0.8},
    "min-p": {"temperature": 0.8, "min_p": 0.05},
    "top-k 40": {"temperature": 0.8, "top_k": 40},
    "top-p": {"temperature": 0.8, "top_p": 0.9},
    "penalties": {"temperature": 0.8} | PENALTIES,
    "k, p, min-p": {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.05},
    "everything": {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.05} | PENALTIES,
}


def sampling() -> Iterator[tuple[str, Callable[[], object]]]:
    """One step of a sampler, repeated until it can be timed."""
    import lablib

    import mlx.core as mx
    import numpy as np

    for rows, vocab_size, times in ((1, 512, 400), (64, 512, 100), (64, 32_000, 3)):
        rng = np.random.default_rng(0)
        scores = -1.3 * np.log(np.arange(1, vocab_size + 1)) + rng.normal(size=(rows, vocab_size))
        logits = mx.array(rng.permuted(scores, axis=1).astype(np.float32))
        sides = {name: [options] for name, options in KINDS.items()}
        if rows > 1:
            sides["mixed"] = list(KINDS.values())
        for name, kinds in sides.items():
            sampler = lablib.Sampler(4096)
            for i in range(rows):
                options = lablib.SamplerOptions(**kinds[i % len(kinds)], seed=i)
                sampler.add(i, options, range(64))

            def run(sampler=sampler, logits=logits, rows=rows, times=times) -> None:
                for _ in range(times):
                    sampler.sample(range(rows), logits)

            yield f"sampler, {rows} × {vocab_size}: {name}", run


def generation() -> Iterator[tuple[str, Callable[[], object]]]:
    """Plain decoding, many samples, votes."""
    import lablib

    target, tokenizer = lablib.load("target")
    prompt = tokenizer.encode("On a sunny day, Mia finds")
    long = (prompt * 40)[:400]

    def plain(**options) -> Callable[[], object]:
        options |= {"max_tokens": 120, "stop_tokens": ()}
        return lambda: list(lablib.TokenIterator(target, prompt, **options))

    yield "plain decoding, greedy", plain(temperature=0.0)
    for size, shape, n in (("20M", (384, 6, 10, 6, 1024), 48), ("100M", (576, 9, 27, 3, 1536), 12)):
        model = lablib.LanguageModel(lablib.llama_config(8192, *shape), seed=0)
        options = {"max_tokens": n, "temperature": 0.0}
        yield (
            f"plain decoding, greedy, {size}",
            lambda m=model, o=options: list(lablib.TokenIterator(m, prompt[:2], **o)),
        )
    yield "plain decoding, temperature 1", plain(seed=1)
    yield "plain decoding, top-p and penalties", plain(seed=1, top_p=0.9, **PENALTIES)
    many = {"max_tokens": 32, "stop_tokens": (), "seed": 1}
    yield "64 samples, prompt of 8", lambda: lablib.sample_n(target, prompt[:8], 64, **many)
    yield "64 samples, prompt of 400", lambda: lablib.sample_n(target, long, 64, **many)
    sums = tokenizer.encode("sum 7 3 9 0 4 8:")
    stop = {"stop_tokens": [tokenizer.eos_token_id], "seed": 0}
    yield "a vote of 64", lambda: lablib.majority_vote(target, sums, 64, **stop)


def speculation() -> Iterator[tuple[str, Callable[[], object]]]:
    """Drafts of a model and of the text itself, every rule, a batch."""
    import lablib
    from lablib.inference import AdaptiveLength, NGram, speculative_sample_n

    tasks = "lablib.course.tasks" if find_spec("lablib.course") else "lablib.tasks"
    TASKS = import_module(tasks).TASKS  # noqa: N806
    target, tokenizer = lablib.load("target")
    draft, _ = lablib.load("draft")
    decode = partial(lablib.speculative_decode, stop_tokens=())
    for name, task in TASKS.items():
        prompt = tokenizer.encode(task.problems(3, 1)[0].prompt)
        yield f"speculation, {name}", lambda p=prompt: decode(target, draft, p, 120)
        for rule in ("match", "rejection", "block"):
            options = {"temperature": 1.0, "rule": rule, "seed": 1}
            yield (
                f"speculation, {name}, temperature 1, {rule}",
                lambda p=prompt, o=options: decode(target, draft, p, 120, **o),
            )
        length = AdaptiveLength()
        yield (
            f"speculation, {name}, look-up, adaptive",
            lambda p=prompt, n=length: decode(target, NGram(), p, 120, n),
        )
    batch = {"max_tokens": 40, "stop_tokens": (), "seed": 1, "temperature": 1.0}
    yield "speculation, 16 rows", lambda: speculative_sample_n(target, draft, prompt, 16, **batch)


def many_callers() -> Iterator[tuple[str, Callable[[], object]]]:
    """Callers that share a prefix, and particles in step."""
    import lablib

    import numpy as np

    target, _ = lablib.load("target")
    rng = np.random.default_rng(0)
    shared = rng.integers(3, 500, 64).tolist()
    cold = [shared + rng.integers(3, 500, 4).tolist() for _ in range(64)]

    def prefix() -> None:
        lm = lablib.AsyncMlxLM(target, None, batch_size=64)
        asyncio.run(lm.batch_next_token_logprobs(cold))

    def particles() -> None:
        lm = lablib.AsyncMlxLM(target, None, batch_size=16)
        texts = [list(shared) for _ in range(16)]

        async def steps() -> None:
            for step in range(16):
                await lm.batch_next_token_logprobs(texts)
                for i, text in enumerate(texts):
                    text.append(3 + (7 * i + step) % 490)

        asyncio.run(steps())

    yield "async, 64 cold prompts of one prefix", prefix
    yield "async, 16 particles × 16 steps", particles


def cases() -> dict[str, Callable[[], object]]:
    """Return all cases by name."""
    parts = (sampling, generation, speculation, many_callers)
    return {name: run for part in parts for name, run in part()}


def worker() -> None:
    """Run the cases whose names come in, and say how long each took."""
    import lablib  # noqa: F401

    def make(_: None) -> dict[str, turns.Run]:
        return {name: lambda _, run=run: bool(run()) and None for name, run in cases().items()}

    turns.serve(make)


def main() -> int:
    """Print the table; 1 if a line is slower by more than 5 %."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--only", default="")
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.worker:
        worker()
        return 0
    slower = []
    command = [sys.executable, __file__, "--worker"]
    roots = {"old": options.old.resolve(), "new": ROOT}
    with ExitStack() as stack:
        sides = {
            name: stack.enter_context(turns.Side(command, None, {"PYTHONPATH": str(root)}))
            for name, root in roots.items()
        }
        print(f"{'old, ms':>9}  {'new, ms':>9}  new / old")
        for name in filter(re.compile(options.only).search, sides["new"].names):
            runs = {key: partial(side.run, name) for key, side in sides.items()}
            answers = turns.take_turns(runs, options.turns)
            times = [[turn[key]["seconds"] for key in roots] for turn in answers]
            ratio = statistics.median(b / a for a, b in times)
            before, after = (1e3 * statistics.median(c) for c in zip(*times, strict=True))
            slower += [name] if ratio > 1.05 else []
            mark = " *" if ratio > 1.05 else "  "
            print(f"{before:9.1f}  {after:9.1f}  {ratio:.3f}{mark}  {name}", flush=True)
    print(f"{len(slower)} lines slower by more than 5 %")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())

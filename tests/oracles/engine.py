"""An ``Engine`` against its promises: many clients, other engines.

    python tests/oracles/engine.py storm [--seconds 300]   random clients, faults, cancellations
    python tests/oracles/engine.py throughput [--turns 5]  mlx-lm's BatchGenerator, sample_many

``engine_gaps.py`` has long prompts, ``docs/benchmarks.md`` what came of all. Sides take turns; the
trust is in the ratios. Of mlx-lm's generator there are two: in this process, with lablib's
products, and *apart*, as it comes.
Time is the process's own, the engine's, too, unless ``--wall``: a busy machine makes no gaps then.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import lablib
from lablib.cache.same_bits import same_bits
from lablib.course.tasks import edits, stories, sums
from lablib.inference.engine import continuous_batch, job
from lablib.machine.backend import set_threads

import mlx.core as mx

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import batch_generator
from oracles.batch_generator import Work, loaded, random_llama, served

TASKS = (stories, sums, edits)
clock = time.process_time


def prompts_of(n: int, seed: int) -> list[str]:
    """Return the prompts of problems of all tasks."""
    made = [each.problems(seed, n // 3 + 1) for each in TASKS]
    return [each.prompt for group in zip(*made, strict=True) for each in group][:n]


# --- many clients -------------------------------------------------------------------------------
class Raises:
    """A processor that fails at its third token."""

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        self.n += 1
        if self.n == 3:
            raise LookupError("at the third token")
        return logits


def odd(tokens: mx.array, logits: mx.array) -> mx.array:
    """Leave the odd ids."""
    return mx.where(mx.arange(logits.shape[-1]) % 2 == 1, logits, -mx.inf)


def requests_of(n: int, seed: int, drafts: bool = False) -> list[dict[str, Any]]:
    """Return requests of many kinds, each with options that fix its text."""
    drawn = random.Random(seed)
    kinds: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"temperature": 0.8, "top_p": 0.9},
        {"top_k": 20, "min_p": 0.05, "repeat_penalty": 1.2},
        {"stop": [" the", "9;"]},
        {"stop_tokens": (), "frequency_penalty": 0.3},
        {"logits_processors": [odd]},
        {"logits_processors": [lablib.menu.Mirostat(3.0)], "top_logprobs": 2},
    ]
    made = []
    for i, prompt in enumerate(prompts_of(n, seed)):
        how = {**kinds[i % len(kinds)], "seed": drawn.randrange(1000)}
        how["max_tokens"] = drawn.randrange(1, 60)
        if drafts and i % 2:
            how |= {"rule": ("match", "rejection", "block")[i % 3], "draft_tokens": 2 + i % 3}
        made.append({"prompt": prompt, **how})
    return made


class Storm:
    """Clients who come and go at random, some of them wrong; counts how they were answered."""

    bad: tuple[dict[str, Any], ...] = (
        {"prompt": [10**6]},
        {"prompt": ""},
        {"prompt": [1], "max_tokens": 0},
        {"prompt": [1], "max_tokens": 10**6},
        {"prompt": [1], "temperature": -1.0},
        {"prompt": [1], "tempratur": 1.0},
    )

    def __init__(self, engine: lablib.Engine, asked: list[dict[str, Any]], seed: int) -> None:
        self.engine, self.asked = engine, asked
        self.drawn = random.Random(seed)
        self.answers: Counter[str] = Counter()
        self.texts: list[tuple[int, str, list[int]]] = []  # of whole ones: request, text, tokens

    async def run(self, clients: int, seconds: float) -> None:
        """Let clients come within some seconds, again and again, and wait for all answers."""
        end = time.perf_counter() + seconds
        await asyncio.gather(*(self.client(end) for _ in range(clients)))

    async def client(self, end: float) -> None:
        """Come and go until the end."""
        while True:
            await asyncio.sleep(self.drawn.expovariate(2.0))
            if time.perf_counter() >= end:
                return
            self.answers["asked"] += 1
            self.answers[await self.request()] += 1

    async def request(self) -> str:
        """Ask once; return how it was answered."""
        number = self.drawn.randrange(len(self.asked))
        how, fate = self.asked[number], self.drawn.random()
        if fate < 0.05:
            return await self.refused()
        if fate < 0.1:
            return await self.failed({**how, "logits_processors": [Raises()], "stop": ()})
        if fate < 0.2:
            return await self.cancelled(how)
        if fate < 0.3:
            return await self.left(how)
        made = await self.engine.generate(**how)
        self.texts.append((number, str(made), made.tokens))
        return "whole"

    async def refused(self) -> str:
        """Ask for what cannot be."""
        try:
            await self.engine.generate(**self.drawn.choice(self.bad))
        except (ValueError, TypeError):
            return "refused"
        return "not refused"

    async def failed(self, how: dict[str, Any]) -> str:
        """Bring a processor that raises, if the text gets that far."""
        try:
            await self.engine.generate(**how)
        except LookupError:
            return "failed"
        return "too short to fail"

    async def cancelled(self, how: dict[str, Any]) -> str:
        """Give up after a while."""
        waits = self.drawn.expovariate(2.0)
        try:
            await asyncio.wait_for(self.engine.generate(**how), waits)
        except TimeoutError:
            return "cancelled"
        return "done before"

    async def left(self, how: dict[str, Any]) -> str:
        """Leave after some pieces."""
        pieces, n = self.engine.stream(**how), self.drawn.randrange(8)
        async for _ in pieces:
            n -= 1
            if n <= 0:
                break
        await pieces.aclose()
        return "left"

    def flips(self, model: Any, tokenizer: Any, **more: Any) -> int:
        """Count the texts that are not what ``generate`` writes of the same request alone."""
        alone = {}
        for number in {each[0] for each in self.texts}:
            made = lablib.generate(model, tokenizer, **self.asked[number], **more)
            alone[number] = str(made), made.tokens
        return sum(alone[number] != (text, tokens) for number, text, tokens in self.texts)


def storm(seconds: float, clients: int = 200) -> None:
    """Print what came of many clients: alone, with drafts, and with the same bits."""
    target, tokenizer = lablib.load("target")
    draft, _ = lablib.load("draft")
    bound = 40 * 2**20

    async def once(asked: list[dict[str, Any]], helper: Any, some: float) -> Storm:
        async with lablib.Engine(target, tokenizer, helper, cache_bytes=bound) as engine:
            made = Storm(engine, asked, 1)
            await made.run(clients, some)
            stats = engine.stats
            print("  " + ", ".join(f"{k} {v:,.6g}" for k, v in stats.items()))
            assert stats["most_cache_bytes"] <= bound
            assert stats["waiting"] == stats["reading"] == stats["running"] == 0
            return made

    for name, helper, share in (("plain", None, 0.4), ("drafts", draft, 0.3), ("bits", None, 0.3)):
        with same_bits() if name == "bits" else nullcontext():
            asked = requests_of(60, 1, helper is not None)
            made = asyncio.run(once(asked, helper, seconds * share))
            more = {} if helper is None else {"draft_model": helper}
            flips = made.flips(target, tokenizer, **more)
        answers = dict(made.answers)
        assert sum(answers.values()) == 2 * answers["asked"]  # nobody is unanswered
        print(f"{name}: {answers}; {flips} of {len(made.texts)} texts differ", flush=True)
        assert name != "bits" or not flips


# --- throughput ---------------------------------------------------------------------------------
class Arrivals:
    """Requests that come at random, faster than anybody can answer them.

    The prompts are of all tasks; each text has at most ``most`` tokens.
    """

    def __init__(self, tokenizer: Any, n: int, seconds: float, most: int, turn: int) -> None:
        drawn = random.Random(turn)
        self.stops = sorted(tokenizer.eos_token_ids)
        self.times = sorted(drawn.uniform(0, seconds) for _ in range(n))
        self.prompts = [tokenizer.encode(each) for each in prompts_of(n, 100 + turn)]
        self.lengths = [drawn.randrange(most // 4, most + 1) for _ in range(n)]


def ours(model: Any, tokenizer: Any, asked: Arrivals, batch: int, turn: int) -> float:
    """Return the engine's tokens a second."""

    async def serve() -> int:
        async with lablib.Engine(model, tokenizer, max_batch=batch) as engine:
            start = clock()

            async def client(i: int) -> int:
                await asyncio.sleep(max(0.0, start + asked.times[i] - clock()))
                how = {"max_tokens": asked.lengths[i], "seed": 1000 * turn + i}
                return len((await engine.generate(asked.prompts[i], **how)).tokens)

            return sum(await asyncio.gather(*map(client, range(len(asked.times)))))

    start = clock()
    return asyncio.run(serve()) / (clock() - start)


def work_of(model: str | list[int], asked: Arrivals, batch: int, turn: int) -> Work:
    """Return the same as mlx-lm's generator is asked."""
    return Work(model, asked.times, asked.prompts, asked.lengths, asked.stops, batch, turn)


def apart(work: Work) -> float:
    """Return the tokens a second of mlx-lm's generator in a process of its own, on one thread."""
    done = subprocess.run(
        [sys.executable, batch_generator.__file__],
        input=json.dumps(vars(work)), capture_output=True, text=True, check=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return float(done.stdout)


def offline(model: Any, asked: Arrivals, batch: int, turn: int) -> float:
    """Return the tokens a second of ``sample_many``, which knows all of them from the start."""
    options = [lablib.SamplerOptions(seed=1000 * turn + i) for i in range(len(asked.times))]
    start = clock()
    how = {"max_batch": batch, "max_tokens": asked.lengths, "stop_tokens": asked.stops}
    made = lablib.sample_many(model, asked.prompts, options, **how)
    tokens = sum(sum(each.lengths) for each in made)
    return tokens / (clock() - start)


def throughput(turns: int, n: int = 320, seconds: float = 0.3, most: int = 96) -> None:
    """Print tokens a second of the engine and of the others, and the medians of the ratios."""
    target, tokenizer = lablib.load("target")
    folder = str(lablib.models.zoo.CHECKPOINTS / "target")
    shape = [256, 6]
    larger = random_llama(*shape)
    models = (("target", target, folder), ("Llama, 256 x 6", larger, shape))
    for name, own, model in models:
        other = larger if own is larger else loaded(folder)
        rows = (8, 16, 32, 64)
        sizes = {"ours": rows[2:], "theirs": rows, "apart": rows, "offline": rows[2:]}
        run = {
            "ours": lambda asked, size, turn, own=own: ours(own, tokenizer, asked, size, turn),
            "theirs": lambda asked, size, turn, model=model, other=other: served(
                other, work_of(model, asked, size, turn), clock
            ),
            "apart": lambda asked, size, turn, model=model: apart(
                work_of(model, asked, size, turn)
            ),
            "offline": lambda asked, size, turn, own=own: offline(own, asked, size, turn),
        }
        best = {}
        for side, tried in sizes.items():
            asked = Arrivals(tokenizer, n, seconds, most, 0)
            speeds = {size: run[side](asked, size, 0) for size in tried}
            best[side] = max(speeds, key=speeds.__getitem__)
            print(
                f"  {name}, {side}: " + ", ".join(f"{k} rows {v:,.0f}/s" for k, v in speeds.items())
            )
        ratios: dict[str, list[float]] = {"theirs": [], "apart": [], "offline": []}
        for turn in range(1, turns + 1):
            asked = Arrivals(tokenizer, n, seconds, most, turn)
            speeds = {side: run[side](asked, best[side], turn) for side in run}
            for side in ratios:
                ratios[side].append(speeds["ours"] / speeds[side])
            print("  " + ", ".join(f"{side} {speed:,.0f}/s" for side, speed in speeds.items()))
        found = ", ".join(f"{median(each):.2f} x {side}" for side, each in ratios.items())
        print(f"{name}: {found}; best rows {best}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["storm", "throughput"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--wall", action="store_true")
    given = parser.parse_args()
    if given.wall or given.what == "storm":
        clock = time.perf_counter
    for module in (continuous_batch, job):
        module.time = SimpleNamespace(perf_counter=clock)
    set_threads(1)
    if given.what == "storm":
        storm(given.seconds)
    else:
        throughput(given.turns)

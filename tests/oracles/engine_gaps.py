"""While a long prompt joins an ``Engine``: the others' gaps, and its own first token.

    python tests/oracles/engine_gaps.py gaps [--turns 5]    2,000 tokens join 8 clients
    python tests/oracles/engine_gaps.py bounds [--turns 5]  what both can be, by what pieces take

Time is the process's own, the engine's, too, unless ``--wall``: a busy machine makes no gaps then.
But it makes all slower: so gaps before are counted, too.
"""

import argparse
import asyncio
import random
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import lablib
from lablib.cache import kv
from lablib.inference.engine import continuous_batch, job
from lablib.machine.backend import set_threads

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import trim_prompt_cache

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles.batch_generator import random_llama

clock = time.process_time


class Watch:
    """Notes when each request of an engine got tokens."""

    def __init__(self, engine: lablib.Engine) -> None:
        self.times: dict[int, list[float]] = {}
        self._turn = engine._batch.turn
        engine._batch.turn = self.turn

    def turn(self) -> list[Any]:
        news = self._turn()
        for each in news:
            self.times.setdefault(each.row.number, []).append(clock())
        return news


async def gaps_once(model: Any, tokenizer: Any, clients: int, length: int, turn: int) -> Any:
    """Return ratios: the gap that 99 % keep, before and while it joins, and its first token.

    And the median gap before, in seconds, and the number of gaps.
    """
    drawn = random.Random(turn)
    long = [drawn.randrange(3, 512) for _ in range(length)]
    short = [[drawn.randrange(3, 512) for _ in range(256)] for _ in range(clients)]
    how: dict[str, Any] = {"stop_tokens": (), "seed": turn}
    async with lablib.Engine(model, tokenizer) as engine:
        watch, alone = Watch(engine), []
        for _ in range(2):
            start = clock()
            await engine.generate(long, max_tokens=1, **how)
            alone.append(clock() - start)
            await engine.generate(short[0], max_tokens=1, **how)  # the long one is forgotten
        writers = [engine.stream(each, max_tokens=2000, **how) for each in short]
        numbers = [each.job.row.number for each in writers]
        while any(len(watch.times.get(number, ())) < 60 for number in numbers):
            await asyncio.sleep(0.01)
        start = clock()
        await engine.generate(long, max_tokens=8, **how)
        last = watch.times[max(watch.times)]
        for each in writers:
            await each.aclose()
    before, during = [], []
    for number in numbers:
        times = watch.times[number]
        for one, two in pairwise(times[10:]):
            if two <= start:
                before.append(two - one)
            elif one <= last[-1]:
                during.append(two - one)
    kept = [sorted(each)[int(0.99 * (len(each) - 1))] / median(before) for each in (before, during)]
    return *kept, (last[0] - start) / min(alone), median(before), len(during)


def long_models() -> dict[str, Any]:
    """Return two models of random weights that read 4,096 tokens."""
    config = lablib.llama_config(512, 256, 8, 6, 4, max_positions=4096)
    return {
        "lablib's Llama, 256 x 6": lablib.LanguageModel(config, seed=0),
        "mlx-lm's Llama, 512 x 8": random_llama(512, 8),
    }


def gaps(turns: int, clients: int = 8, length: int = 2000) -> None:
    """Print how long others wait for a token while a long prompt is read, and it for its first."""
    _, tokenizer = lablib.load("target")
    for name, model in long_models().items():
        found = []
        for turn in range(turns):
            found.append(asyncio.run(gaps_once(model, tokenizer, clients, length, turn)))
            calm, worst, first, gap, n = found[-1]
            print(
                f"  99 % of {n} gaps <= {worst:.2f} x {1000 * gap:.1f} ms, before {calm:.2f} x; "
                f"first {first:.2f} x"
            )
        calm, worst, first, *_ = (median(column) for column in zip(*found, strict=True))
        bound = f"99 % of gaps <= {worst:.2f} x the median before, when it was {calm:.2f} x"
        print(f"{name}: {bound}; first token in {first:.2f} x alone", flush=True)


# --- bounds -------------------------------------------------------------------------------------
def bounds(turns: int, length: int = 2000) -> None:
    """Print what pieces take, and the soonest first token for each bound on the others' gaps.

    By arithmetic, of the least time of each piece: every turn has the largest piece with which a
    turn stays below so many rounds of eight clients.
    """
    sizes, places = (4, 8, 12, 16, 20, 24, 32, 48, 64), (0, 480, 960, 1440)
    for name, model in long_models().items():
        cache, at, took = kv.make(model), 0, {}

        def seconds(tokens: Any, cache: Any, model: Any = model) -> float:
            start = clock()
            mx.eval(model(tokens, cache=cache), [layer.state for layer in cache])
            return clock() - start

        for place in places:
            while at < place:
                at += 96
                seconds(mx.full((1, 96), 5), cache)
            for size in (*sizes, 512):
                tried = []
                for _ in range(turns):
                    tried.append(seconds(mx.full((1, size), 7), cache))
                    trim_prompt_cache(cache, size)
                took[size, place] = min(tried)
        cache = kv.make(model)
        seconds(mx.full((8, 320), 5), cache)
        gap = median(seconds(mx.full((8, 1), 5), cache) for _ in range(8 * turns))

        def piece(size: int, at: int, took: Any = took) -> float:
            return float(np.interp(at, places, [took[size, place] for place in places]))

        print(f"{name}: a round {1000 * gap:.1f} ms; a piece, in ms:")
        for size in (*sizes, 512):
            print(f"  {size:3}:", *(f"{1000 * took[size, place]:7.1f}" for place in places))
        alone = sum(piece(512, at) for at in range(0, length, 512))
        for most in (2.5, 2.75, 3.0, 3.25, 3.5, 4.0):
            at, spent = 0.0, 0.0
            while at < length:
                fits = [n for n in sizes if piece(n, int(at)) <= (most - 1) * gap] or sizes[:1]
                spent += gap + piece(fits[-1], int(at))
                at += fits[-1]
            print(f"  gaps <= {most} x: first token in {spent / alone:.2f} x alone", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["gaps", "bounds"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--wall", action="store_true")
    given = parser.parse_args()
    if given.wall:
        clock = time.perf_counter
    for module in (continuous_batch, job):
        module.time = SimpleNamespace(perf_counter=clock)
    set_threads(1)
    {"gaps": gaps, "bounds": bounds}[given.what](given.turns)

"""An ``Engine`` against its promises: many clients, other engines, long prompts.

    python tests/oracles/engine.py storm [--seconds 300]   random clients, faults, cancellations
    python tests/oracles/engine.py throughput [--turns 5]  mlx-lm's BatchGenerator, sample_many
    python tests/oracles/engine.py gaps [--turns 5]        a prompt of 2,000 tokens joins 8 clients

``docs/benchmarks.md`` has what came of the last two. Sides take turns; the trust is in the ratios.
Time is the process's own, the engine's, too, unless ``--wall``: a busy machine makes no gaps then.
"""

import argparse
import asyncio
import random
import time
from importlib import import_module
from itertools import pairwise
from statistics import median
from types import SimpleNamespace
from typing import Any

import lablib
from lablib.course.tasks import edits, stories, sums
from lablib.inference.engine import continuous_batch, job
from lablib.machine.backend import set_threads

import mlx.core as mx
import mlx_lm
from mlx_lm.models import llama
from mlx_lm.sample_utils import make_sampler

TASKS = (stories, sums, edits)
clock = time.process_time


def prompts_of(n: int, seed: int) -> list[str]:
    """Return the prompts of problems of all tasks."""
    made = [each.problems(seed, n // 3 + 1) for each in TASKS]
    return [each.prompt for group in zip(*made, strict=True) for each in group][:n]


def random_llama(hidden: int, layers: int, context: int = 4096) -> Any:
    """Return a Llama of mlx-lm's with random weights."""
    mx.random.seed(0)
    settings = {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": 4 * hidden,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-5,
        "vocab_size": 512,
        "max_position_embeddings": context,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
    }
    model = llama.Model(llama.ModelArgs.from_dict(settings))
    mx.eval(model.parameters())
    return model


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


def theirs(model: Any, asked: Arrivals, batch: int, turn: int) -> float:
    """Return the tokens a second of mlx-lm's generator, into which the same are inserted."""
    mx.random.seed(turn)
    start, waiting, tokens, alive = clock(), 0, 0, 0
    made = import_module("mlx_lm.generate").BatchGenerator(
        model,
        sampler=make_sampler(temp=1.0),
        stop_tokens=[[token] for token in asked.stops],
        completion_batch_size=batch,
        prefill_batch_size=min(8, batch),
    )
    while waiting < len(asked.times) or alive:
        now = clock() - start
        while waiting < len(asked.times) and asked.times[waiting] <= now:
            made.insert([[*asked.prompts[waiting]]], [asked.lengths[waiting]])
            waiting, alive = waiting + 1, alive + 1
        if not alive:
            time.sleep(0.0005)
            continue
        _, responses = made.next()
        tokens += len(responses)
        alive -= sum(each.finish_reason is not None for each in responses)
    made.close()
    return tokens / (clock() - start)


def offline(model: Any, asked: Arrivals, batch: int, turn: int) -> float:
    """Return the tokens a second of ``sample_many``, which knows all of them from the start."""
    options = [lablib.SamplerOptions(seed=1000 * turn + i) for i in range(len(asked.times))]
    start = clock()
    how = {"max_batch": batch, "max_tokens": asked.lengths, "stop_tokens": asked.stops}
    made = lablib.sample_many(model, asked.prompts, options, **how)
    tokens = sum(sum(each.lengths) for each in made)
    return tokens / (clock() - start)


def throughput(turns: int, n: int = 96, seconds: float = 0.3, most: int = 96) -> None:
    """Print tokens a second of the engine and of the others, and the medians of the ratios."""
    target, tokenizer = lablib.load("target")
    same, _ = mlx_lm.load(str(lablib.models.zoo.CHECKPOINTS / "target"))
    same.set_dtype(mx.float32)
    larger = random_llama(256, 6)
    for name, own, other in (("target", target, same), ("Llama, 256 x 6", larger, larger)):
        sizes = {"ours": (16, 32, 64), "theirs": (8, 16, 32, 64), "offline": (16, 32, 64)}
        run = {
            "ours": lambda asked, size, turn, own=own: ours(own, tokenizer, asked, size, turn),
            "theirs": lambda asked, size, turn, other=other: theirs(other, asked, size, turn),
            "offline": lambda asked, size, turn, own=own: offline(own, asked, size, turn),
        }
        best = {}
        for side, tried in sizes.items():
            asked = Arrivals(tokenizer, n, seconds, most, 0)
            speeds = {size: max(run[side](asked, size, 0) for _ in range(2)) for size in tried}
            best[side] = max(speeds, key=speeds.__getitem__)
            print(f"  {side}: " + ", ".join(f"{k} rows {v:,.0f}/s" for k, v in speeds.items()))
        ratios: dict[str, list[float]] = {"theirs": [], "offline": []}
        for turn in range(1, turns + 1):
            asked = Arrivals(tokenizer, n, seconds, most, turn)
            speeds = {side: run[side](asked, best[side], turn) for side in run}
            for side in ratios:
                ratios[side].append(speeds["ours"] / speeds[side])
        found = ", ".join(f"{median(each):.2f} x {side}" for side, each in ratios.items())
        print(f"{name}: {found}; best rows {best}", flush=True)


# --- gaps ---------------------------------------------------------------------------------------
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
    """Return the gap that 99 % keep and the first token, as ratios, and the median gap before."""
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
    during.sort()
    worst = during[int(0.99 * (len(during) - 1))]
    return worst / median(before), (last[0] - start) / min(alone), median(before), len(during)


def gaps(turns: int, clients: int = 8, length: int = 2000) -> None:
    """Print how long others wait for a token while a long prompt is read, and it for its first."""
    _, tokenizer = lablib.load("target")
    for hidden, layers in ((256, 6), (512, 8)):
        model, found = random_llama(hidden, layers), []
        for turn in range(turns):
            found.append(asyncio.run(gaps_once(model, tokenizer, clients, length, turn)))
            worst, first, gap, n = found[-1]
            print(f"  99 % of {n} gaps <= {worst:.2f} x {1000 * gap:.1f} ms; first {first:.2f} x")
        worst, first, *_ = (median(column) for column in zip(*found, strict=True))
        print(
            f"Llama, {hidden} x {layers}: 99 % of gaps <= {worst:.2f} x the median before; ", end=""
        )
        print(f"first token in {first:.2f} x alone", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["storm", "throughput", "gaps"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--wall", action="store_true")
    given = parser.parse_args()
    if given.wall:
        clock = time.perf_counter
    for module in (continuous_batch, job):
        module.time = SimpleNamespace(perf_counter=clock)
    set_threads(1)
    if given.what == "throughput":
        throughput(given.turns)
    elif given.what == "gaps":
        gaps(given.turns)

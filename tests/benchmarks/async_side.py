"""One side of bench_async.py's comparison with genlm-backend: runs a case once for each line.

    PYTHON async_side.py lablib|quickened|genlm CASE

It runs in genlm's environment too, with lablib's root on PYTHONPATH, because lablib brings the BLAS
(the one that LABLIB_BLAS names) and the model must be the same. It first prints what the case adds
to the memory at its highest, in bytes, by MLX's count and by the system's, and a few numbers of the
answer; then for each line of standard input a run's processor time, as others use the machine.
"""

import asyncio
import json
import os
import random
import sys
import time

import lablib

import mlx.core as mx
import numpy as np
from mlx_lm.models import llama

VOCAB, TRUNK = 1024, 64
Steps = list[list[tuple[int, ...]]]


def particles(count: int, steps: int, resample: int | None = None) -> Steps:
    """Queries of particles in step; every ``resample`` steps some are copied, others dropped."""
    draw, trunk = random.Random(0), tuple(7 * i % VOCAB for i in range(TRUNK))
    asked = [[(*trunk, i) for i in range(count)]]
    for step in range(1, steps):
        parents = asked[-1]
        if resample and step % resample == 0:
            parents = draw.choices(parents, k=count)
        asked.append([(*parent, draw.randrange(VOCAB)) for parent in parents])
    return asked


CASES = {
    "64 cold prompts": lambda: particles(64, 1),
    "16 x 16": lambda: particles(16, 16),
    "16 x 32, resampled": lambda: particles(16, 32, resample=4),
    "64 x 32": lambda: particles(64, 32),
}


def make_model() -> llama.Model:
    shape = llama.ModelArgs(
        model_type="llama", hidden_size=256, num_hidden_layers=6, intermediate_size=768,
        num_attention_heads=4, rms_norm_eps=1e-5, vocab_size=VOCAB, tie_word_embeddings=True,
    )  # fmt: skip
    mx.random.seed(0)
    model = llama.Model(shape)
    mx.eval(model.parameters())
    return model


def new_lm(side: str, model: llama.Model, count: int) -> object:
    if side != "genlm":
        return lablib.AsyncMlxLM(model, None, batch_size=count)
    from genlm.backend.llm import base
    from genlm.backend.llm.mlx import AsyncMlxLM

    base.decode_vocab = lambda tokenizer: ([], [])  # it wants a tokenizer, which nothing here needs
    return AsyncMlxLM(model, None)


def ask(lm: object, steps: Steps) -> list[np.ndarray]:
    """Return the last step's rows; every query is a caller of its own."""

    async def run() -> list[object]:
        for step in steps:
            rows = await asyncio.gather(*map(lm.next_token_logprobs, map(list, step)))
        return rows

    return [np.array(row) for row in asyncio.run(run())]


def resident(field: str) -> int:
    """Return the process's memory, ``VmRSS`` now or ``VmHWM`` at its highest; 0 if not Linux."""
    try:
        with open("/proc/self/status") as lines:
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))
    except OSError:
        return 0


def main(side: str, case: str) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    model, steps = make_model(), CASES[case]()
    if side == "quickened":
        lablib.quicken(model)
    ask(new_lm(side, model, 1), [[(1, 2, 3)]])  # what is imported late
    mx.clear_cache()
    mx.reset_peak_memory()
    before, active = resident("VmRSS"), mx.get_active_memory()
    rows = ask(new_lm(side, model, len(steps[0])), steps)
    grown = {"mlx": mx.get_peak_memory() - active, "process": resident("VmHWM") - before}
    print(json.dumps(grown | {"answer": [float(row[:9].sum()) for row in rows]}), flush=True)
    for _ in sys.stdin:
        lm, began = new_lm(side, model, len(steps[0])), time.process_time()
        ask(lm, steps)
        print(time.process_time() - began, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

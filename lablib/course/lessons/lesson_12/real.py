"""The real model of lesson 12: opened if it was fetched, and timed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import lablib
from lablib.cache import kv
from lablib.course.replay import measure
from lablib.course.replay.measure import bandwidth as bandwidth
from lablib.inference.speculation.costs import Costs
from lablib.machine import backend
from lablib.models import zoo

import mlx.core as mx
import numpy as np

NAME = "smollm2"


class NotFetched(Exception):
    """The model is not on this machine; a notebook shows one sentence and no traceback."""

    def __init__(self) -> None:
        super().__init__(
            "This lesson needs a real model, SmolLM2-135M: run `python -m lablib fetch` once in a "
            "terminal, then restart this notebook; every other lesson works without it."
        )

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def load_real() -> tuple[Any, Any]:
    """Return SmolLM2-135M-Instruct in float32, and its tokenizer.

    Raises:
        NotFetched: ``python -m lablib fetch`` has not brought it yet.
    """
    if zoo.fetched(NAME) is None:
        raise NotFetched
    return lablib.load(NAME, dtype=mx.float32)


def clock() -> float:
    """Return what ``measure.clock`` tells: seconds that other programs add little to."""
    return measure.clock()()


def batch_costs(
    model: Any, batch: int, widths: Iterable[int] = (1, 2, 3, 5, 9), repeats: int = 3
) -> Costs:
    """Time forwards over k new tokens of ``batch`` texts at once, in seconds; drafts are free.

    Of ``repeats`` measurements the shortest counts. Between the ``widths`` T(k) is a straight line.
    """
    cache, widths = kv.make(model), sorted(widths)
    mx.eval(model(mx.full((batch, 32), 7), cache=cache))
    best = np.full(len(widths), np.inf)
    for turn in range(repeats + 1):
        for i, k in enumerate(widths):
            start = clock()
            mx.eval(model(mx.full((batch, k), 7), cache=cache))
            if turn:  # the first one warms up
                best[i] = min(best[i], clock() - start)
            kv.trim(cache, k)
    times = np.interp(np.arange(1, widths[-1] + 1), widths, best)
    return Costs(tuple(times.tolist()), draft=0.0)


def few_rows() -> str:
    """Return "in use" where products of few rows read each weight once, else why they don't."""
    blas = backend.blas()
    return "in use" if blas.few_rows else f"not in use ({blas.few_rows_note or blas.source})"


def costs_without_few_rows() -> Costs:
    """Return ``batch_costs`` of one text in a process of its own, without few rows.

    They can't be switched off in this one: a process keeps the library that it began with.
    """
    environment = {**os.environ, **backend.blas().settings(), "LABLIB_FEW_ROWS": "off"}
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return Costs(tuple(json.loads(done.stdout.splitlines()[-1])), draft=0.0)


if __name__ == "__main__":
    print(json.dumps(batch_costs(load_real()[0], 1).target))

"""Callers of an asynchronous model, the same for each side; needs nothing but Python and MLX."""

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Case(NamedTuple):
    """Texts that grow in step.

    Attributes:
        rows: how many.
        steps: how many tokens each gets, one at a time; 1 asks about the texts once.
        every: after so many steps each text goes on from one that is drawn; 0 for never.
        trunk: the text that all begin with.
    """

    rows: int
    steps: int
    every: int
    trunk: list[int]


def cases(plan: dict[str, Any], prompts: dict[str, list[int]]) -> dict[str, Case]:
    """Return the cases of a plan by name."""
    trunk = prompts[str(plan["trunk"])]
    found = {f"async, {plan['cold']} cold prompts": Case(plan["cold"], 1, 0, trunk)}
    for rows, steps, every in plan["particles"]:
        name = f"async, {rows} particles × {steps}" + f", resampled every {every}" * bool(every)
        found[name] = Case(rows, steps, every, trunk)
    return found


def odd(tokens: Iterable[int], cost: float) -> float:
    """Return a cheap potential, so that engines are compared: an odd token costs so many nats."""
    return -cost * sum(token % 2 for token in tokens)


def ask(lm: Any, case: Case, now: Callable[[], float]) -> dict[str, Any]:
    """Ask for the next log-probabilities of all texts together, then lengthen them, and again.

    ``lm.next_token_logprobs(tokens)`` is awaited once for each text. What is added to a text does
    not depend on the answers, so that every side is asked the same; the last answers' best tokens
    are returned. ``now`` is the clock.
    """
    import mlx.core as mx
    import numpy as np

    drawn = random.Random(0)
    texts = [[*case.trunk, 3 + row] for row in range(case.rows)]

    async def run() -> list[Any]:
        nonlocal texts
        for step in range(case.steps):
            rows = await asyncio.gather(*map(lm.next_token_logprobs, texts))
            if case.every and step % case.every == case.every - 1:
                texts = [list(drawn.choice(texts)) for _ in texts]
            for text in texts:
                text.append(drawn.randrange(3, 500))
        return rows

    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    start = now()
    rows = asyncio.run(run())
    seconds = now() - start
    best = [[int(np.argmax(np.array(row)))] for row in rows]
    peak = mx.get_peak_memory() - before
    units = case.rows * case.steps
    return {"seconds": seconds, "units": units, "tokens": best, "peak": peak}

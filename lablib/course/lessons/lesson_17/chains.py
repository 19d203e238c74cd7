"""Grammars of the sums: what a chain of steps must look like, and what it must repeat."""

from collections.abc import Sequence
from typing import Any

from lablib.inference.steering import Grammar

import mlx.core as mx
import numpy as np

STEPS = 5


def with_totals() -> str:
    """Return a grammar in Lark's syntax in which each step begins with the last one's total.

    A rule for each step and total, ``sK_T``, remembers the total; a regular expression can't say
    it so briefly.
    """
    rules = [f's{STEPS}_{total}: "#{total}"' for total in range(10)]
    for step in range(1, STEPS):
        ways = " | ".join(f'"{total};" s{step + 1}_{total}' for total in range(10))
        rules += [f"n{step}: {ways}"]
        rules += [f's{step}_{total}: "{total}+" /[0-9]/ "=" n{step}' for total in range(10)]
    ways = " | ".join(f'"{total};" s1_{total}' for total in range(10))
    return "\n".join(['start: /[0-9]/ "+" /[0-9]/ "=" n0', f"n0: {ways}", *rules])


def kinds(grammar: Grammar, prompt: Sequence[int], tokens: Sequence[int]) -> list[str]:
    """Return of each token whether it is "chosen" or "forced": whether another one might come."""
    state, found = grammar.copy(), []
    for n in range(len(tokens)):
        state.read([*prompt, *tokens[:n]])
        found.append("forced" if state.allowed().sum() == 1 else "chosen")
    return found


def allowed_masses(
    model: Any, grammar: Grammar, prompt: Sequence[int], tokens: Sequence[int]
) -> np.ndarray:
    """Return the mass that a grammar allowed at each token of a text ``(T,)``.

    Their product is the weight of a text that was drawn under the mask.
    """
    logits = model(mx.array([[*prompt, *tokens]]))[0, len(prompt) - 1 : -1].astype(mx.float32)
    p, state, found = np.array(mx.softmax(logits, axis=-1), np.float64), grammar.copy(), []
    for n, row in enumerate(p):
        state.read([*prompt, *tokens[:n]])
        may = np.flatnonzero(state.allowed())
        found.append(row[may[may < len(row)]].sum())
    return np.array(found)

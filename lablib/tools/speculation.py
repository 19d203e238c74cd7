"""The gain of speculation: overlap of target and draft, acceptance, times, speed-up.

Nothing here runs the speculative engine. The overlap is measured along the target's own samples,
which is where speculation happens; greedy rounds are replayed from flags that say where the draft's
best token is the target's, which is exact because a greedy text is fixed.
"""

from collections.abc import Callable, Sequence
from typing import Any

from lablib.course import tasks
from lablib.course.replay.rounds import (
    guesses_of_flags,
    guesses_of_ngram,
    replay,
    tokens_per_call,
)
from lablib.inference.sampling.sums import softmax
from lablib.inference.speculation import NGram, rules
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import FixedLength
from lablib.inference.voting.scoring import pad
from lablib.tools.completions import Drawn

import mlx.core as mx
import numpy as np

END = "end"  # the class of </s>
GAMMA = 4
_ROWS = 40  # texts read at once
Rows = list[dict[str, Any]]


def overlaps(
    target: Any, draft: Any, drawn: Sequence[Drawn], temperatures: Sequence[float]
) -> tuple[Rows, Rows]:
    """Measure ``Σ min(p, q)`` and ``Σ p·q`` along the target's samples at each temperature.

    Both models are tempered alike, as speculation does it.

    Returns:
        One row for each task and temperature, ``{"task", "temperature", "rejection", "match",
        "tokens"}``, with the task ``"all"`` for the mean over all tokens; and one for each token
        class (``"class"``), of the tokens that the class holds.
    """
    by_task, by_class = [], []
    for temperature in temperatures:
        parts = []
        for each in drawn:
            completions = [samples.tokens[0] for samples in each.samples[temperature]]
            pairs = np.concatenate(
                _overlap(target, draft, each.prompts, completions, temperature), axis=0
            )
            classes = np.concatenate(
                [token_classes(p, c) for p, c in zip(each.problems, completions, strict=True)]
            )
            parts.append(pairs)
            by_task.append(_mean(pairs, task=each.task, temperature=temperature))
            for name in dict.fromkeys(classes.tolist()):
                keys = {"task": each.task, "class": name, "temperature": temperature}
                by_class.append(_mean(pairs[classes == name], **keys))
        by_task.append(_mean(np.concatenate(parts), task="all", temperature=temperature))
    return by_task, by_class


def _mean(pairs: np.ndarray, **keys: Any) -> dict[str, Any]:
    rejection, match = pairs.mean(axis=0).tolist()
    return {**keys, "rejection": rejection, "match": match, "tokens": len(pairs)}


def _overlap(
    target: Any,
    draft: Any,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    temperature: float,
) -> list[np.ndarray]:
    """Return what rejection and what match keep, ``(tokens of the completion, 2)`` a text."""

    def both(rows: mx.array) -> mx.array:
        p, q = (softmax(m(rows).astype(mx.float32) / temperature) for m in (target, draft))
        return mx.stack(rules.overlap(p, q)[:2], axis=-1)

    return _along(both, prompts, completions)


def _along(
    measure: Callable[[mx.array], mx.array],
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
) -> list[np.ndarray]:
    """Apply ``measure (B, T) -> (B, T, ...)`` to whole texts; keep what predicts a completion."""
    found: list[np.ndarray] = []
    for first in range(0, len(prompts), _ROWS):
        chunk = range(first, min(first + _ROWS, len(prompts)))
        rows, lengths = pad([], [[*prompts[i], *completions[i]] for i in chunk])
        measured = np.array(measure(rows))
        for i, values, length in zip(chunk, measured, lengths.tolist(), strict=True):
            found.append(values[len(prompts[i]) - 1 : length - 1])
    return found


def token_classes(problem: tasks.Problem, tokens: Sequence[int]) -> list[str]:
    """Return each token's class: that of its last character, as spaces come first."""
    tokenizer = tasks.load_tokenizer()
    pieces = tokenizer.decode_batch([[token] for token in tokens], skip_special_tokens=True)
    spans = tasks.TASKS[problem.task].token_classes(problem, "".join(pieces))
    at = len(problem.prompt)
    of_character = [name for start, end, name in spans for _ in range(start, end)]
    classes = []
    for piece in pieces:
        at += len(piece)
        classes.append(of_character[at - 1] if piece else END)
    return classes


def greedy(target_drawn: Drawn, draft: Any, gammas: Sequence[int]) -> dict[str, Any]:
    """Replay greedy speculation: the draft's best token against the target's text.

    Returns:
        ``alpha`` (accepted over reached at γ = 4), ``agreement`` (over all positions) and
        ``tokens_per_round`` for each γ.
    """
    completions = [samples.tokens[0] for samples in target_drawn.samples[0.0]]
    best = _along(lambda rows: mx.argmax(draft(rows), axis=-1), target_drawn.prompts, completions)
    flags = [
        (guess == np.array(tokens)).tolist()
        for guess, tokens in zip(best, completions, strict=True)
    ]
    texts = [guesses_of_flags(row) for row in flags]
    steps = [step for text in texts for step in replay(text, FixedLength(GAMMA))]
    return {
        "alpha": sum(step.kept for step in steps) / sum(step.reached for step in steps),
        "agreement": sum(map(sum, flags)) / sum(map(len, flags)),
        "tokens_per_round": {str(gamma): tokens_per_call(texts, gamma)[0] for gamma in gammas},
    }


def ngram_tokens_per_call(drawn: Drawn) -> float:
    """Return the tokens a target call yields with prompt lookup, greedy, γ = 4."""
    completions = [samples.tokens[0] for samples in drawn.samples[0.0]]
    texts = [
        guesses_of_ngram(NGram(), prompt, tokens)
        for prompt, tokens in zip(drawn.prompts, completions, strict=True)
    ]
    return tokens_per_call(texts, GAMMA)[0]


def speedups(tokens_per_round: dict[str, float], measured: Costs) -> dict[str, float]:
    """Predict the speed-up for each γ: ``E · T(1) / (T(γ + 1) + γ · t_draft)``."""
    return {
        gamma: tokens * measured.forward(1) / measured.of_round(int(gamma))
        for gamma, tokens in tokens_per_round.items()
    }

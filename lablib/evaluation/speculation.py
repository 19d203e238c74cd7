"""What speculation would gain: overlap of target and draft, acceptance, times, speed-up.

Nothing here runs the speculative engine. The overlap is measured along the target's own samples,
which is where speculation happens; greedy rounds are replayed from flags that say where the draft's
best token is the target's, which is exact because a greedy text is fixed.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from lablib import tasks
from lablib.cache import kv
from lablib.evaluation.drawing import Drawn
from lablib.inference import rules
from lablib.inference.drafters import NGram
from lablib.inference.scoring import pad
from lablib.inference.theory import Costs

import mlx.core as mx
import numpy as np

END = "end"  # the class of </s>
GAMMA = 4
_ROWS = 40  # texts read at once
Rows = list[dict[str, Any]]


def overlaps(
    target: Any, draft: Any, drawn: Sequence[Drawn], temperatures: Sequence[float]
) -> tuple[Rows, Rows]:
    """``Σ min(p, q)`` and ``Σ p·q`` along the target's samples at each temperature.

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
    """For each text, ``(tokens of the completion, 2)``: what rejection and what match keep."""

    def both(rows: mx.array) -> mx.array:
        p, q = (mx.softmax(m(rows).astype(mx.float32) / temperature, -1) for m in (target, draft))
        return mx.stack(rules.overlap(p, q), axis=-1)

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
    """The class of each token of a completion; that of its last character, as spaces come first."""
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
    accepted, reached, _ = np.sum([replay(row, GAMMA) for row in flags], axis=0)
    tokens = sum(map(len, flags))
    return {
        "alpha": float(accepted / reached),
        "agreement": sum(map(sum, flags)) / tokens,
        "tokens_per_round": {
            str(gamma): tokens / sum(replay(row, gamma)[2] for row in flags) for gamma in gammas
        },
    }


def replay(agree: Sequence[bool], gamma: int) -> tuple[int, int, int]:
    """Accepted drafts, reached drafts and rounds of a text whose drafts agree where flagged.

    The last flag is that of ``</s>``: what is drafted after it is never reached.
    """
    place = accepted = reached = rounds = 0
    while place < len(agree):
        drafted = min(gamma, len(agree) - place)
        kept = next((i for i in range(drafted) if not agree[place + i]), drafted)
        accepted, reached = accepted + kept, reached + min(kept + 1, drafted)
        place, rounds = place + kept + 1, rounds + 1  # one token of the target's own
    return accepted, reached, rounds


def ngram_tokens_per_call(drawn: Drawn, gamma: int = GAMMA) -> float:
    """Tokens a target call yields with prompt lookup, greedy, by replaying the lookups."""
    tokens = rounds = 0
    for prompt, samples in zip(drawn.prompts, drawn.samples[0.0], strict=True):
        text, end = [*prompt, *samples.tokens[0]], len(prompt)
        lookup = NGram().begin(None, [], None).lookup
        while end < len(text):
            guess = lookup(text[:end], gamma)
            kept = 0
            while kept < len(guess) and text[end + kept : end + kept + 1] == guess[kept : kept + 1]:
                kept += 1
            end, rounds = end + kept + 1, rounds + 1
        tokens += len(samples.tokens[0])
    return tokens / rounds


def costs(target: Any, draft: Any, timings: int, context: int = 64, most: int = 9) -> Costs:
    """Seconds of a forward: ``T(1) … T(most)`` of the target and one token of the draft.

    Each is the median over ``timings`` forwards after ``context`` tokens, all kinds in turn, so
    that a slow moment of the machine hits all alike.
    """
    prompt = mx.zeros((1, context), mx.int32)
    runs = [(target, k) for k in range(1, most + 1)] + [(draft, 1)]
    caches = []
    for model, _ in runs:
        cache = kv.make(model)
        mx.eval(model(prompt, cache=cache))
        caches.append(cache)
    seconds = np.zeros((timings + 2, len(runs)))
    for turn in range(len(seconds)):  # the first two warm up
        for place, (model, k) in enumerate(runs):
            tokens = mx.zeros((1, k), mx.int32)
            start = time.perf_counter()
            mx.eval(mx.argmax(model(tokens, cache=caches[place])[:, -1], axis=-1))
            seconds[turn, place] = time.perf_counter() - start
            kv.trim(caches[place], k)
    medians = np.median(seconds[2:], axis=0).tolist()
    return Costs(tuple(medians[:-1]), medians[-1])


def speedups(tokens_per_round: dict[str, float], measured: Costs) -> dict[str, float]:
    """Predicted speed-up for each γ: ``E · T(1) / (T(γ + 1) + γ · t_draft)``."""
    return {
        gamma: tokens * measured.forward(1) / measured.of_round(int(gamma))
        for gamma, tokens in tokens_per_round.items()
    }

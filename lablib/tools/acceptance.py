"""The acceptance dashboard's data: ``python -m lablib evaluate --acceptance`` makes them.

Two things, and neither is computed from the other. Texts that the target wrote at each temperature,
with what each drafter gave their tokens: from them ``replay.sampled`` knows all rules and lengths.
And what the engine counted when it wrote texts of its own, from the same prompts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from lablib.cache import kv
from lablib.course.replay.recording import (
    COUNTS,
    DRAFT,
    DRAFTERS,
    FILE,
    GAMMA,
    HEAD,
    LOOKUP,
    MAX_TOKENS,
    probabilities,
)
from lablib.course.replay.rounds import LONGEST
from lablib.course.replay.sampled import RULES
from lablib.course.tasks import TASKS
from lablib.inference.completions import speculative_batch
from lablib.inference.decoding.batches import sample_many
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.speculation import Head, NGram
from lablib.inference.voting.scoring import pad
from lablib.models import zoo
from lablib.models.head import DraftHead, load_head

import mlx.core as mx
import numpy as np


@dataclass(frozen=True)
class Plan:
    """The amount of work: ``problems`` of each task at each temperature, from ``seed``."""

    temperatures: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
    problems: int = 16
    repeats: int = 2  # texts that the engine writes for each problem
    seed: int = 80


def measure_acceptance(
    out: str | Path | None = None, *, models: str | Path | None = None,
    plan: Plan | None = None, say: Callable[[str], Any] = print,
) -> Path:  # fmt: skip
    """Write the texts, read them with every model, let the engine write others, and store all.

    Args:
        out: where ``acceptance.npz`` goes; by default beside the checkpoints.
        models: the folder with ``target``, ``draft`` and ``target-head``.
        plan: how much is measured.
        say: gets a line for each task and temperature.
    """
    plan = plan or Plan()
    folder = Path(models) if models is not None else zoo.CHECKPOINTS
    out = Path(out) if out is not None else zoo.CHECKPOINTS
    target, tokenizer = zoo.load(folder / "target", dtype=mx.float32)
    draft, _ = zoo.load(folder / "draft", dtype=mx.float32)
    head = load_head(folder / "target-head", target)
    stop = tokenizer.eos_token_ids
    found: dict[str, list[Any]] = {name: [] for name in ("texts", "p", "draft", "head", "engine")}
    for task, temperature in product(TASKS, plan.temperatures):
        problems = TASKS[task].problems(plan.seed, plan.problems)
        prompts = [tokenizer.encode(problem.prompt) for problem in problems]
        how = {"max_tokens": MAX_TOKENS, "stop_tokens": stop}
        seeded = [SamplerOptions(temperature, seed=seed) for seed in range(plan.problems)]
        drawn = sample_many(target, prompts, seeded, **how)
        texts = [(prompt, each.tokens[0]) for prompt, each in zip(prompts, drawn, strict=True)]
        p, by_draft, by_head = read(target, draft, head, texts, temperature)
        how |= {"temperature": temperature, "seed": plan.seed}
        counts = _count(target, draft, head, prompts * plan.repeats, how)
        found["texts"] += texts
        for name, values in (("p", p), ("draft", by_draft), ("head", by_head), ("engine", counts)):
            found[name].append(values)
        say(f"{task} at temperature {temperature}: {len(p)} tokens")
    engine = np.reshape(found["engine"], (len(TASKS), len(plan.temperatures), *counts.shape))
    out.mkdir(parents=True, exist_ok=True)
    _store(out / FILE, plan, found, engine)
    return out / FILE


def _store(path: Path, plan: Plan, found: dict[str, list[Any]], engine: np.ndarray) -> None:
    rows = [[*prompt, *tokens] for prompt, tokens in found["texts"]]
    np.savez_compressed(
        path,
        temperatures=np.array(plan.temperatures),
        tasks=np.array(list(TASKS)),
        problems=plan.problems,
        ids=np.concatenate(rows).astype(np.uint16),
        lengths=np.array([len(row) for row in rows], np.uint16),
        prompts=np.array([len(prompt) for prompt, _ in found["texts"]], np.uint16),
        # half precision: three digits of a probability are enough for a picture
        **{name: np.concatenate(found[name]).astype(np.float16) for name in ("p", "draft", "head")},
        engine=engine.astype(np.int32),
    )


def _count(
    target: Any, draft: Any, head: DraftHead, prompts: list[list[int]], how: dict[str, Any]
) -> np.ndarray:
    """Let the engine write these texts by each rule and drafter: ``COUNTS``, ``(4, 3, 4)``."""
    ways = {DRAFT: draft, HEAD: Head(head), LOOKUP: NGram()}
    counts = []
    for rule, name in product(RULES, DRAFTERS):
        samples = speculative_batch(
            target, ways[name], prompts, rule=rule, draft_tokens=GAMMA, **how
        )
        stats = samples.stats
        tokens = sum(len(row) for row in samples.tokens)
        counts.append([stats["total_accepted"], stats["total_reached"], stats["rounds"], tokens])
    return np.reshape(counts, (len(RULES), len(DRAFTERS), len(COUNTS)))


# ------------------------------------------------------------------ reading texts


def read(
    target: Any, draft: Any, head: DraftHead, texts: Sequence[tuple[list[int], list[int]]],
    temperature: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Read texts with all models at once; see ``Recording`` for what comes out.

    Args:
        target: a ``LanguageModel``.
        draft: a draft model.
        head: of the target.
        texts: prompt and completion of each, ids.
        temperature: of all models.

    Returns:
        ``p (places,)``, of the draft ``(places, 2)`` and of the head ``(places, LONGEST, 2)``.
    """
    rows, lengths = pad([], [[*prompt, *tokens] for prompt, tokens in texts])
    ids, places = np.array(rows), np.arange(rows.shape[1])
    starts = np.array([len(prompt) for prompt, _ in texts])
    inside = (places >= starts[:, None]) & (places < np.array(lengths)[:, None])
    p, q = (
        np.roll(probabilities(model(rows).astype(mx.float32), temperature), 1, axis=1)
        for model in (target, draft)
    )  # row t is about token t
    by_head = np.zeros((*ids.shape, LONGEST, 2))
    for first, d, logits in _head_rows(target, head, rows, int(starts.min())):
        at = first + d
        if at < rows.shape[1]:
            guess = probabilities(logits, temperature)
            by_head[:, first, d] = _pair(p[:, at], guess, ids[:, at])
    chosen = np.take_along_axis(p, ids[..., None], axis=-1)[..., 0]
    return chosen[inside], _pair(p, q, ids)[inside], by_head[inside]


def _pair(p: np.ndarray, q: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return q of each token, and the chance that both draw it with shared noise ``(..., 2)``."""
    p_x, q_x = (np.take_along_axis(x, ids[..., None], axis=-1) for x in (p, q))
    races = np.maximum(p * q_x, q * p_x).sum(axis=-1, keepdims=True)
    both = p_x * q_x / np.where(races > 0, races, 1)
    return np.concatenate([q_x, both], axis=-1)


def _head_rows(
    target: Any, head: DraftHead, rows: mx.array, start: int
) -> Iterator[tuple[int, int, mx.array]]:
    """Let the head draft the texts' own tokens, 8 in a round, from every place on.

    Yields:
        Where the round begins, how many drafts it has, and the logits ``(B, V)`` of the next.
    """
    states, cache = target.hidden(rows), head.make_cache()
    if start > 2:
        head(states[:, : start - 2], rows[:, 1 : start - 1], cache)
    for first in range(max(start, 2), rows.shape[1]):
        guess = head(states[:, first - 2 : first - 1], rows[:, first - 1 : first], cache)
        for d in range(LONGEST):
            logits = head.logits(guess[:, 0]).astype(mx.float32)
            yield first, d, logits
            if d + 1 < LONGEST:
                at = min(first + d, rows.shape[1] - 1)
                guess = head(guess, rows[:, at : at + 1], cache)
        kv.trim(cache, LONGEST - 1)

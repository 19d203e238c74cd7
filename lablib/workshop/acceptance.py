"""What the acceptance dashboard shows: ``python -m lablib evaluate --acceptance`` makes it.

Two things, and neither is computed from the other. Texts that the target wrote at each temperature,
with what each drafter gave their tokens: from them ``theory.sampled`` knows all rules and lengths.
And what the engine counted when it wrote texts of its own, from the same prompts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from lablib.cache import kv
from lablib.inference.speculation.drafters import NGram
from lablib.inference.speculation.head import Head
from lablib.inference.speculation.many import speculative_batch
from lablib.inference.voting.scoring import pad
from lablib.models import zoo
from lablib.models.head import DraftHead, load_head
from lablib.tasks import TASKS
from lablib.theory.replay import LONGEST, guesses_of_ngram
from lablib.theory.sampled import RULES, Texts, looked_up, room, spread
from lablib.validation import BadValue
from lablib.workshop.complete import complete

import mlx.core as mx
import numpy as np

FILE = "acceptance.npz"
DRAFT, HEAD, LOOKUP = DRAFTERS = ("draft model", "head", "look-up")
MAX_TOKENS = 72
GAMMA = 4  # of the engine's rounds
COUNTS = ("accepted", "reached", "rounds", "tokens")


@dataclass(frozen=True)
class Plan:
    """How much is measured: ``problems`` of each task at each temperature, from ``seed``."""

    temperatures: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
    problems: int = 16
    repeats: int = 2  # texts that the engine writes for each problem
    seed: int = 80


@dataclass(frozen=True)
class Recording:
    """Texts of every task and temperature, and the engine's counts.

    Texts stand in the order of task, temperature, problem; ``places`` are all their tokens, one
    text after the other.

    Attributes:
        temperatures: ``(T,)``.
        tasks: their names.
        problems: of each task and temperature.
        tokens: of each text, and its prompt: pairs of lists of ids.
        p: the target's probability of each token ``(places,)``.
        draft: the draft model's, and the chance that both draw it with shared noise
            ``(places, 2)``.
        head: the same of the head, after 0 ... 7 drafts of the round ``(places, LONGEST, 2)``.
        engine: ``COUNTS`` of each task, temperature, rule of ``RULES`` and drafter of ``DRAFTERS``
            with γ = 4, ``(tasks, T, 4, 3, 4)``.
    """

    temperatures: np.ndarray
    tasks: tuple[str, ...]
    problems: int
    tokens: list[tuple[list[int], list[int]]]
    p: np.ndarray
    draft: np.ndarray
    head: np.ndarray
    engine: np.ndarray

    def written(self, task: str, temperature: float) -> tuple[list[int], list[int]]:
        """Return prompt and completion of the first text at this temperature."""
        return self.tokens[self._first(task) + self.at(temperature) * self.problems]

    def at(self, temperature: float) -> int:
        """Return the number of a temperature."""
        return int(np.argmin(np.abs(self.temperatures - temperature)))

    def of(self, temperature: float) -> slice:
        """Return which texts of a task were written at this temperature."""
        first = self.at(temperature) * self.problems
        return slice(first, first + self.problems)

    def along(self, task: str, drafter: str) -> Texts:
        """Return what a drafter gave all texts of a task, one temperature after the other."""
        first, count = self._first(task), len(self.temperatures) * self.problems
        ends = np.cumsum([0, *(len(tokens) for _, tokens in self.tokens)])
        some = slice(ends[first], ends[first + count])
        mine = self.tokens[first : first + count]
        lengths = np.diff(ends)[first : first + count]
        inside = np.arange(lengths.max()) < lengths[:, None]

        def padded(values: np.ndarray) -> np.ndarray:
            whole = np.zeros((*inside.shape, *values.shape[1:]))
            whole[inside] = values[some]
            return whole

        p, limits = padded(self.p), room(lengths, inside.shape[1], MAX_TOKENS)
        if drafter == LOOKUP:
            guesses = [guesses_of_ngram(NGram(), *each) for each in mine]
            offered, q = looked_up(guesses, limits)
            return Texts(lengths, offered, p, q, q * spread(p))
        if drafter == HEAD:
            head = padded(self.head)
            return Texts(lengths, limits, p, head[..., 0], head[..., 1])
        q, both = np.moveaxis(padded(self.draft), -1, 0)
        return Texts(lengths, limits, p, spread(q), spread(both))

    def counted(self, task: str, temperature: float, rule: str, drafter: str) -> dict[str, int]:
        """Return the engine's ``COUNTS``."""
        place = self.tasks.index(task), self.at(temperature), RULES.index(rule)
        values = self.engine[(*place, DRAFTERS.index(drafter))].tolist()
        return dict(zip(COUNTS, values, strict=True))

    def _first(self, task: str) -> int:
        return self.tasks.index(task) * len(self.temperatures) * self.problems


def stored_acceptance(folder: str | Path | None = None) -> Recording:
    """Return the recording that came with the checkpoints, or the one in ``folder``.

    Raises:
        BadValue: there is none.
    """
    path = (Path(folder) if folder is not None else zoo.CHECKPOINTS) / FILE
    if not path.is_file():
        raise BadValue(f"{path} is missing: `python -m lablib evaluate --acceptance` makes it")
    with np.load(path) as stored:
        arrays = dict(stored)
    rows = np.split(arrays.pop("ids").astype(int), np.cumsum(arrays.pop("lengths"))[:-1])
    tokens = [
        (row[:n].tolist(), row[n:].tolist())
        for row, n in zip(rows, arrays.pop("prompts").tolist(), strict=True)
    ]
    wide = {name: arrays[name].astype(np.float64) for name in ("p", "draft", "head")}
    return Recording(
        arrays["temperatures"], tuple(arrays["tasks"].tolist()), int(arrays["problems"]), tokens,
        **wide, engine=arrays["engine"],
    )  # fmt: skip


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
        how = {"temperature": temperature, "max_tokens": MAX_TOKENS, "stop_tokens": stop}
        drawn = complete(target, prompts, seeds=range(plan.problems), **how)
        texts = [(prompt, each.tokens[0]) for prompt, each in zip(prompts, drawn, strict=True)]
        p, by_draft, by_head = read(target, draft, head, texts, temperature)
        counts = _count(target, draft, head, prompts * plan.repeats, {**how, "seed": plan.seed})
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


def probabilities(logits: Any, temperature: float) -> np.ndarray:
    """Return softmax(logits / temperature) in float64; at 0 all for the best token."""
    scores = np.array(logits, np.float64)
    if not temperature:
        return (np.arange(scores.shape[-1]) == scores.argmax(axis=-1)[..., None]).astype(float)
    weights = np.exp((scores - scores.max(axis=-1, keepdims=True)) / temperature)
    return weights / weights.sum(axis=-1, keepdims=True)


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

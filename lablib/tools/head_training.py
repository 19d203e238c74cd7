"""Trains draft heads: ``python -m lablib train target-head`` or ``smollm2-head``.

A head learns from text that its target wrote, and from the hidden states that the target had
meanwhile: to guess the next state, and the distribution that the target makes of it (EAGLE, Li et
al. 2024, 2401.15077). When it drafts, its second guess stands on its first one, so it also learns
to go on from its own guesses (EAGLE-3's training-time test, Li et al. 2025, 2503.01840).
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from lablib.course import tasks
from lablib.inference.decoding.batches import sample_many
from lablib.inference.sampling.options import SamplerOptions
from lablib.machine import backend
from lablib.models import zoo
from lablib.models.base import LanguageModel
from lablib.models.files import fingerprint
from lablib.models.head import KIND, DraftHead
from lablib.models.state_reader import StateReader
from lablib.tools import chat_prompts
from lablib.tools.descent import RESUME, Descent, Progress, ResumePoint, descend, same
from lablib.tools.training import checkpoint
from lablib.validation import one_of

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from tqdm.auto import tqdm

_SHARD = 12_288  # texts in a file: what an interrupt can cost
_ROWS = 64  # texts written at a time
_KNOWN = 32  # a row of a batch has at least so many tokens


@dataclass(frozen=True)
class HeadRecipe:
    """Hold everything that decides a head's weights, beside the target's.

    Attributes:
        target: name or path of the model that is drafted for.
        chat: whether prompts are questions in the target's chat template; else problems of all
            tasks.
        texts: how many the target writes, each from its own prompt and seed.
        max_tokens: of each text, after its prompt.
        temperatures: of the texts, in turn.
        ids: how many tokens can be drafted: those most frequent in the texts; None: all.
        intermediate_size: width inside the head's block.
        steps: of AdamW on batches of ``batch`` texts.
        learning_rate: at its peak; it falls to a twentieth along a cosine.
        guesses: how many tokens in a row it learns to guess, each from the guess before.
        decay_steps: at which the learning rate would be lowest; None: at the last.
        state_weight: of the distance between guessed and true states, beside the cross-entropy.
    """

    target: str
    chat: bool
    texts: int
    max_tokens: int
    intermediate_size: int
    steps: int
    batch: int
    ids: int | None = None
    temperatures: tuple[float, ...] = (0.0, 0.7, 1.0)
    learning_rate: float = 1e-3
    guesses: int = 3
    decay_steps: int | None = None
    state_weight: float = 0.5
    seed: int = 0


HEADS = {
    # On an H100: the texts took 72 s and the steps 415 s, two other trainings beside them. A step
    # takes 2.9 s on one thread of a CPU: all of them 13 hours.
    "target-head": HeadRecipe(
        "target", chat=False, texts=49_152, max_tokens=60, intermediate_size=128, steps=16_000,
        batch=64, guesses=5, state_weight=0.1,
    ),
    # On an H100, with MLX_ENABLE_TF32=1: a shard of the texts took 110 s and all steps 284 s. That
    # was before a text's first token counted among those that a head learns to draft.
    "smollm2-head": HeadRecipe(
        "smollm2", chat=True, texts=49_152, max_tokens=96, intermediate_size=1280, steps=8_400,
        batch=64, ids=8_192, temperatures=(0.0, 0.8), learning_rate=1.5e-3, guesses=2,
        state_weight=0.1,
    ),
}  # fmt: skip


def train_head(
    name: str,
    out: str | Path | None = None,
    *,
    recipe: HeadRecipe | None = None,
    models: str | Path | None = None,
    save_every: int = 200,
    progress: bool = True,
) -> Path:
    """Train a head and write it; an interrupted run goes on where it was.

    Arguments, errors and the files that are written are those of ``workshop.training.train``; the
    texts are kept beside them in ``texts`` until the run has ended.
    """
    recipe = recipe or HEADS[one_of("name", name, HEADS)]
    out = Path(out) if out is not None else Path("runs") / name
    out.mkdir(parents=True, exist_ok=True)
    # On a GPU in the type it is stored in; the head's own weights are float32 everywhere.
    target, tokenizer = zoo.load(checkpoint(recipe.target, models))
    target.freeze()
    made_of = {
        "recipe": json.loads(json.dumps(asdict(recipe))),
        "blas_threads": backend.threads(),
        "teachers": {recipe.target: fingerprint(target)},
    }
    report = out / "training.json"
    if report.is_file():
        same(json.loads(report.read_text()), made_of, f"delete {out}")
        return out
    texts = texts_of(recipe, target, tokenizer, out / "texts", progress)
    head = DraftHead(target, _frequent(texts, recipe), recipe.intermediate_size, seed=recipe.seed)
    point = ResumePoint(out, made_of, save_every)
    loss, batches = partial(_loss, recipe), _batches(texts, recipe)
    how = Descent(recipe.steps, recipe.learning_rate, decay_steps=recipe.decay_steps)
    done = descend(name, head, lambda step: loss, batches, how, point, progress)
    save_head(head, out, Path(recipe.target).name)
    write_report(out, name, made_of, done)
    return out


def write_report(out: Path, name: str, made_of: dict[str, Any], done: Progress) -> None:
    """Write what was made of what, and take away the texts and what a broken-off run needs."""
    said = {
        "name": name,
        **made_of,
        "seconds": round(done.seconds),  # without the texts
        "device": mx.default_device().type.name,
        "mlx": mx.__version__,
        "loss": done.curve,
    }
    (out / "training.json").write_text(json.dumps(said) + "\n")
    for file in [*(out / "texts").glob("*.npz"), *out.glob(RESUME)]:
        file.unlink()
    (out / "texts").rmdir()


def save_head(head: DraftHead, path: str | Path, target: str) -> Path:
    """Write ``config.json`` and, in float16, ``model.safetensors`` into the directory ``path``.

    The model it drafts for is not stored: ``target`` is its name or path.
    """
    return save_reader(head, path, KIND, target)


def save_reader(module: StateReader, path: str | Path, kind: str, target: str, **keys: Any) -> Path:
    """Write a reader of ``target``'s states, as ``save_head`` does; ``keys`` join its config."""
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    weights = {name: w.astype(mx.float16) for name, w in tree_flatten(module.parameters())}
    mx.save_safetensors(str(path / "model.safetensors"), {**weights, "ids": module.ids})
    said = {"model_type": kind, "target": target, "fingerprint": fingerprint(module.target)}
    said |= {"intermediate_size": module.shape.intermediate_size, **keys}
    (path / "config.json").write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    return path


def prompts_of(recipe: HeadRecipe, tokenizer: Any, n: int, *, unseen: bool = False) -> list[Any]:
    """Return token ids of ``n`` prompts, of training or of topics and problems it never saw."""
    seed = recipe.seed + 1000 * unseen
    if recipe.chat:
        return [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], add_generation_prompt=True
            )
            for text in chat_prompts.prompts(seed, n, unseen=unseen)
        ]
    share = -(-n // len(tasks.TASKS))
    if unseen:
        problems = (p for task in tasks.TASKS.values() for p in task.problems(seed, share))
        texts = [problem.prompt for problem in problems]
    else:
        documents = (d for task in tasks.TASKS.values() for d in task.documents(seed, share))
        texts = [tasks.prompt_of(document) for document in documents]
    order = np.random.default_rng([seed, 1]).permutation(len(texts))[:n]
    return [tokenizer.encode(texts[i]) for i in order]


def texts_of(
    recipe: HeadRecipe, target: LanguageModel, tokenizer: Any, folder: Path, progress: bool
) -> list[tuple[np.ndarray, int]]:
    """Let the target write, or read what it wrote before: token ids, and where the prompt ends."""
    folder.mkdir(exist_ok=True)
    prompts = prompts_of(recipe, tokenizer, recipe.texts)
    texts = []
    shards = range(0, recipe.texts, _SHARD)
    for first in tqdm(shards, desc=f"{recipe.target} writes", disable=not progress):
        file = folder / f"{first:06d}.npz"
        if not file.is_file():
            _write(recipe, target, tokenizer, prompts[first : first + _SHARD], first, file)
        stored = np.load(file)
        ends = np.cumsum(stored["lengths"])
        rows = np.split(stored["tokens"], ends[:-1])
        texts += zip(rows, stored["prompts"].tolist(), strict=True)
    return texts


def _write(
    recipe: HeadRecipe,
    target: LanguageModel,
    tokenizer: Any,
    prompts: list[Any],
    first: int,
    file: Path,
) -> None:
    rows: list[Any] = [None] * len(prompts)
    turns = len(recipe.temperatures)
    for turn, temperature in enumerate(recipe.temperatures):
        places = range(turn, len(prompts), turns)
        written = sample_many(
            target, prompts[turn::turns],
            [SamplerOptions(temperature, seed=first + place) for place in places],
            max_tokens=recipe.max_tokens, stop_tokens=tokenizer.eos_token_ids, max_batch=_ROWS,
        )  # fmt: skip
        for place, samples in zip(places, written, strict=True):
            rows[place] = np.array([*prompts[place], *samples.tokens[0]], np.int32)
    beside = file.with_suffix(".new.npz")
    np.savez(
        beside, tokens=np.concatenate(rows), lengths=[len(row) for row in rows],
        prompts=[len(prompt) for prompt in prompts],
    )  # fmt: skip
    beside.replace(file)


def _frequent(texts: list[tuple[np.ndarray, int]], recipe: HeadRecipe) -> list[int] | None:
    if recipe.ids is None:
        return None
    counts = np.bincount(np.concatenate([tokens[prompt:] for tokens, prompt in texts]))
    return np.argsort(-counts, kind="stable")[: recipe.ids].tolist()


def _batches(
    texts: list[tuple[np.ndarray, int]], recipe: HeadRecipe
) -> Iterator[tuple[mx.array, mx.array]]:
    """Yield token ids ``(B, T)`` and 1 where a state wrote a token of the model; shuffled."""
    longest = max(max(len(tokens) for tokens, _ in texts), _KNOWN)
    for epoch in count():
        order = np.random.default_rng([recipe.seed, 2, epoch]).permutation(len(texts))
        for start in range(0, len(order) - recipe.batch + 1, recipe.batch):
            tokens = np.zeros((recipe.batch, longest), np.int32)
            weights = np.zeros((recipe.batch, longest), np.float32)
            for row, i in enumerate(order[start : start + recipe.batch]):
                ids, prompt = texts[i]
                tokens[row, : len(ids)] = ids
                # The prompt's last state wrote the first token, the first that is ever drafted.
                weights[row, prompt - 1 : len(ids) - 1] = 1
            yield mx.array(tokens), mx.array(weights)


class _Chains:
    """The keys and values of one training step, in which a chain of guesses starts at every place.

    The pair of a state and a token that chain r reads at its i-th guess stands at place r + i. It
    sees the true pairs up to place r, and the chain's own guesses, as it will when it drafts
    (EAGLE-3's training-time test). So the first guess, of all chains at once, is causal; later ones
    see a diagonal of each guess before.
    """

    def __init__(self) -> None:
        self.offset = 0  # the place of the first chain's next pair
        self._keys: list[tuple[mx.array, mx.array]] = []

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Take in the next pair of every chain; return all, in the order of the mask."""
        self._keys.append((keys, values))
        self.offset += 1
        return tuple(mx.concatenate(each, axis=2) for each in zip(*self._keys, strict=True))

    def make_mask(self, length: int, **_: Any) -> mx.array:
        """Return ``(length, keys)``: True where a chain's next pair sees a key."""
        chains = mx.arange(length)[:, None]
        true, *guessed = [keys.shape[2] for keys, _ in self._keys] + [length]
        own = [chains == mx.arange(n) for n in guessed]
        return mx.concatenate([chains >= mx.arange(true), *own], axis=1)


def guesses(head: DraftHead, states: mx.array, tokens: mx.array, n: int) -> Iterator[mx.array]:
    """Yield ``n`` times what ``head`` guesses as it drafts from each place of a text.

    ``states (B, T, hidden)`` are the target's and ``tokens (B, T)`` the text's, which a draft is
    taken to hit; the i-th guesses, from i = 1, are of the states from place i on.
    """
    chains, given = [_Chains()], states
    for i in range(1, n + 1):
        given = head(given[:, :-1], tokens[:, i:], chains)
        yield given


def _loss(recipe: HeadRecipe, head: DraftHead, tokens: mx.array, weights: mx.array) -> mx.array:
    """Return the mean loss of a guess, over all places and guesses in a row, in nats."""
    states = mx.stop_gradient(head.target.hidden(tokens).astype(mx.float32))
    wanted = mx.stop_gradient(mx.softmax(head.scores(states), axis=-1))
    total = mx.array(0.0)
    for i, given in enumerate(guesses(head, states, tokens, recipe.guesses), start=1):
        scores = head.scores(given)
        logs = scores - mx.logsumexp(scores, axis=-1, keepdims=True)
        surprise = -(wanted[:, i:] * logs).sum(-1)
        apart = mx.mean(mx.abs(given - states[:, i:]), axis=-1)
        here = weights[:, i:]
        total = total + ((surprise + recipe.state_weight * apart) * here).sum() / here.sum()
    return total / recipe.guesses

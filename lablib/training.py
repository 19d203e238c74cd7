"""Trains the shipped checkpoints: ``python -m lablib train [name]``.

A recipe says everything: shape, data, seed, schedule. The same recipe on the same machine gives
the same weights, and an interrupted run goes on to them: the data is a function of (seed, step),
and the optimiser's state is saved beside the weights.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from lablib import backend, tasks
from lablib.models import llama_config, zoo
from lablib.models.base import LanguageModel, ModelConfig
from lablib.models.retention import hybrid_config
from lablib.validation import BadValue, one_of

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from tqdm.auto import tqdm

VOCAB_SIZE = 512  # the tokenizer's, rounded up
_SHARD = 6_000  # documents generated at a time


EVERYTHING = {"stories": 400, "sums": 400, "edits": 200}


@dataclass(frozen=True)
class Stage:
    """A part of the training: ``steps`` batches of ``batch`` rows of ``length`` tokens.

    ``mix`` is the number of documents of each task in a thousand. With a ``teacher``, a checkpoint,
    the model learns its distributions (distillation, Hinton et al. 2015, 1503.02531) instead of the
    next token alone.
    """

    steps: int
    batch: int
    length: int
    mix: dict[str, int] = field(default_factory=EVERYTHING.copy)
    teacher: str | None = None


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a checkpoint's weights.

    Attributes:
        config: the model's shape.
        stages: one after the other: short rows first, for speed, then long ones, so that late
            positions are no surprise.
        prompt_weight: weight in the loss of a prompt's tokens. They are drawn at random, so there
            is little to learn from them and much noise in their gradients; an answer's count 1.
        learning_rate: the peak, after ``warmup`` steps; it falls to a twentieth along a cosine.
        bias_scale: size of the biases that queries and keys begin with, where the attention has
            any; None leaves the usual small ones. A bias of a query and one of a key, turned by
            their positions, give a score of the distance alone. With large ones a single layer
            finds the distance at which to copy in 600 steps, with small ones it did not in 3,200.
        after: another recipe, whose weights (as they are stored) this one starts from.
    """

    config: ModelConfig
    stages: tuple[Stage, ...]
    prompt_weight: float = 0.1
    learning_rate: float = 2e-3
    warmup: int = 200
    weight_decay: float = 0.05
    bias_scale: float | None = None
    seed: int = 0
    after: "Recipe | None" = None

    @property
    def steps(self) -> int:
        """Optimiser steps of all stages."""
        return sum(stage.steps for stage in self.stages)


def _target() -> Recipe:
    """Three runs, one after the other.

    First the answers, then the prompts too: a text that goes on after its end begins again with a
    prompt. The third is more of the second, at half its learning rate.
    """
    shape = llama_config(VOCAB_SIZE, d_model=192, n_heads=3, n_layers=8, d_ff=448)
    answers = Recipe(
        shape,
        # Sums are full of chance, and their noise hides what recall is to be learned from the other
        # two: with all three from the start, neither was learned in 2,300 steps.
        stages=(
            Stage(1000, 8, 128, {"stories": 500, "edits": 500}),
            Stage(3800, 8, 128, {"stories": 300, "sums": 500, "edits": 200}),
            Stage(400, 2, 512),
        ),
    )
    prompts = Recipe(
        shape,
        stages=(
            Stage(1500, 8, 128, {"stories": 250, "sums": 500, "edits": 250}),
            Stage(100, 2, 512),
        ),
        prompt_weight=1.0,
        learning_rate=8e-4,
        warmup=100,
        seed=1,
        after=answers,
    )
    mixed = {"stories": 350, "sums": 400, "edits": 250}
    stages = (Stage(1100, 8, 128, mixed), Stage(100, 2, 512))
    return replace(prompts, stages=stages, learning_rate=4e-4, seed=2, after=prompts)


RECIPES = {
    "target": _target(),
    # Attention biases and a small rope base make "so many tokens back" easy to say, and that is how
    # one layer copies an edit.
    "draft": Recipe(
        replace(
            llama_config(VOCAB_SIZE, d_model=128, n_heads=2, n_layers=1, d_ff=128, rope_theta=100),
            attention_bias=True,
        ),
        stages=(
            Stage(1400, 8, 128, teacher="target"),
            Stage(100, 2, 512, teacher="target"),
        ),
        learning_rate=4e-3,
        warmup=100,
        bias_scale=0.5,
    ),
    "hybrid": Recipe(
        hybrid_config(VOCAB_SIZE, d_model=128, n_heads=2, n_layers=4),
        stages=(
            Stage(800, 8, 128, {"stories": 500, "edits": 500}),
            Stage(1600, 8, 128),
            Stage(150, 2, 512),
        ),
    ),
}


def train(
    name: str,
    out: str | Path | None = None,
    *,
    recipe: Recipe | None = None,
    save_every: int = 200,
    progress: bool = True,
) -> Path:
    """Train ``name`` and write an mlx-lm directory with its loss curve.

    Args:
        name: a key of ``RECIPES``, unless ``recipe`` is given.
        out: the directory; default ``runs/<name>``. A half-finished run found there goes on.
        recipe: another recipe than the shipped one.
        save_every: steps between two resume points.
        progress: whether to show a bar with the loss.

    Returns:
        The directory, with ``model.safetensors`` in float16 and ``training.json``.
    """
    if recipe is None:
        recipe = RECIPES[one_of("name", name, RECIPES)]
    _check(recipe)
    out = Path(out) if out is not None else Path("runs") / name
    out.mkdir(parents=True, exist_ok=True)
    if recipe.after is None:
        model, before = _fresh(recipe), {}
    else:
        first = out / "first"
        if not (first / "training.json").exists():
            train(name, first, recipe=recipe.after, save_every=save_every, progress=progress)
        before = {"first": json.loads((first / "training.json").read_text())}
        if before["first"]["recipe"] != _as_json(recipe.after):
            raise BadValue(f"out holds a run of another recipe: delete {first}")
        model, _ = zoo.load(first, dtype=mx.float32)
    optimizer = optim.AdamW(_schedule(recipe), betas=[0.9, 0.95], weight_decay=recipe.weight_decay)
    optimizer.init(model.trainable_parameters())
    step, curve, seconds = _resume(out, recipe, model, optimizer)
    updates: dict[str | None, Callable] = {}
    teachers = [stage.teacher for stage in recipe.stages for _ in range(stage.steps)]
    bar = tqdm(total=recipe.steps, initial=step, desc=name, disable=not progress, smoothing=0.02)
    start, window = time.perf_counter() - seconds, []
    for batch in _skip(batches(recipe), step):
        teacher = teachers[step]
        if teacher not in updates:
            updates[teacher] = _compiled_update(model, optimizer, _objective(teacher))
        loss = updates[teacher](*batch)
        mx.eval(loss, model.state, optimizer.state)
        window.append(loss.item())
        step += 1
        bar.update()
        if step % 10 == 0 or step == recipe.steps:
            curve.append([step, round(float(np.mean(window)), 4)])
            bar.set_postfix(loss=f"{curve[-1][1]:.3f}")
            window = []
        if step % save_every == 0 and step < recipe.steps:
            _save_resume(out, recipe, model, optimizer, step, curve, time.perf_counter() - start)
    bar.close()
    if step < recipe.steps:
        raise RuntimeError(f"the run ran out of data after {step} of {recipe.steps} steps")
    zoo.save(model, tasks.load_tokenizer(), out, dtype=mx.float16)
    report = _report(name, recipe, curve, time.perf_counter() - start) | before
    (out / "training.json").write_text(json.dumps(report) + "\n")
    (out / _RESUME).unlink(missing_ok=True)
    return out


def _check(recipe: Recipe) -> None:
    if recipe.bias_scale is not None and not (recipe.config.attention_bias and not recipe.after):
        raise BadValue("bias_scale must be None without attention biases, and with after=")
    if recipe.after and recipe.after.config != recipe.config:
        raise BadValue("config must be that of the recipe in after=")


def _fresh(recipe: Recipe) -> LanguageModel:
    mx.random.seed(recipe.seed)
    model = LanguageModel(recipe.config)
    if recipe.bias_scale is not None:
        for layer in model.layers:
            for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                projection.bias = recipe.bias_scale * mx.random.normal(projection.bias.shape)
    return model


def batches(recipe: Recipe) -> Iterator[tuple[mx.array, mx.array, mx.array]]:
    """The recipe's batches in order: (inputs, targets, weights), each (B, T).

    Every row starts at a document's beginning and holds whole documents, ``<s> … </s>`` after
    ``<s> … </s>``, the last one cut at the row's end. The weights are those of the targets.
    """
    for number, stage in enumerate(recipe.stages):
        stream = _rows(recipe, number, stage.length + 1)
        for _ in range(stage.steps):
            tokens, weights = zip(*(next(stream) for _ in range(stage.batch)), strict=True)
            tokens, weights = np.array(tokens, np.int32), np.array(weights, np.float32)
            yield mx.array(tokens[:, :-1]), mx.array(tokens[:, 1:]), mx.array(weights[:, 1:])


def _rows(recipe: Recipe, stage: int, length: int) -> Iterator[tuple[list[int], list[float]]]:
    tokens: list[int] = []
    weights: list[float] = []
    for shard in range(1_000_000):
        for ids, answer in _documents(recipe, stage, shard):
            tokens += ids
            weights += [recipe.prompt_weight] * answer + [1.0] * (len(ids) - answer)
            if len(tokens) >= length:
                yield tokens[:length], weights[:length]
                tokens, weights = [], []


def _documents(recipe: Recipe, stage: int, shard: int) -> list[tuple[list[int], int]]:
    """One shard of documents, the tasks shuffled: token ids, and where among them the answer is."""
    rng = np.random.default_rng([recipe.seed, stage, shard])
    texts: list[str] = []
    for task, share in recipe.stages[stage].mix.items():
        seed = int(rng.integers(2**31))
        texts += tasks.TASKS[task].documents(seed, _SHARD * share // 1000)
    texts = [texts[i] for i in rng.permutation(len(texts))]
    tokenizer = tasks.load_tokenizer()
    end = tokenizer.token_to_id("</s>")
    documents = []
    for text, encoding in zip(texts, tokenizer.encode_batch(texts), strict=True):
        prompt = len(tasks.prompt_of(text))
        answer = sum(start < prompt for start, _ in encoding.offsets)
        documents.append(([*encoding.ids, end], answer))
    return documents


def _skip(stream: Iterator, n: int) -> Iterator:
    for _ in range(n):
        next(stream)
    return stream


def _objective(name: str | None) -> Callable[..., mx.array]:
    """(model, inputs, targets, weights) -> mean loss in nats a token, as weighted."""
    if name is None:

        def likelihood(
            model: LanguageModel, inputs: mx.array, targets: mx.array, weights: mx.array
        ) -> mx.array:
            losses = nn.losses.cross_entropy(model(inputs), targets)
            return (weights * losses).sum() / weights.sum()

        return likelihood
    teacher, _ = zoo.load(name, dtype=mx.float32)
    teacher.freeze()

    def distil(
        model: LanguageModel, inputs: mx.array, targets: mx.array, weights: mx.array
    ) -> mx.array:
        p = mx.stop_gradient(mx.softmax(teacher(inputs), axis=-1))
        scores = model(inputs)
        log_q = scores - mx.logsumexp(scores, axis=-1, keepdims=True)
        return -(weights * (p * log_q).sum(-1)).sum() / weights.sum()

    return distil


def _compiled_update(
    model: LanguageModel, optimizer: optim.Optimizer, objective: Callable
) -> Callable[..., mx.array]:
    state = [model.state, optimizer.state]
    loss_and_gradients = nn.value_and_grad(model, objective)

    @partial(mx.compile, inputs=state, outputs=state)
    def update(inputs: mx.array, targets: mx.array, weights: mx.array) -> mx.array:
        loss, gradients = loss_and_gradients(model, inputs, targets, weights)
        gradients, _ = optim.clip_grad_norm(gradients, max_norm=1.0)
        optimizer.update(model, gradients)
        return loss

    return update


def _schedule(recipe: Recipe) -> Callable[[mx.array], mx.array]:
    peak = recipe.learning_rate
    warmup = min(recipe.warmup, recipe.steps // 4)
    rise = optim.linear_schedule(peak / 100, peak, steps=max(warmup, 1))
    fall = optim.cosine_decay(peak, recipe.steps - warmup, end=peak / 20)
    return optim.join_schedules([rise, fall], [warmup])


_RESUME = "resume.safetensors"


def _save_resume(
    out: Path,
    recipe: Recipe,
    model: LanguageModel,
    optimizer: optim.Optimizer,
    step: int,
    curve: list[list[float]],
    seconds: float,
) -> None:
    arrays = {f"model.{k}": v for k, v in tree_flatten(model.parameters())}
    arrays |= {f"optimizer.{k}": v for k, v in tree_flatten(optimizer.state)}
    progress = {"step": step, "curve": curve, "seconds": seconds, "recipe": _as_json(recipe)}
    fresh = (
        out / f"new-{_RESUME}"
    )  # written whole, then moved: an interrupt can't leave half a file
    mx.save_safetensors(str(fresh), arrays, {"progress": json.dumps(progress)})
    fresh.replace(out / _RESUME)


def _resume(
    out: Path, recipe: Recipe, model: LanguageModel, optimizer: optim.Optimizer
) -> tuple[int, list[list[float]], float]:
    """Put model and optimiser back to the last resume point; return (step, curve, seconds)."""
    if not (out / _RESUME).exists():
        return 0, [], 0.0
    arrays, metadata = mx.load(str(out / _RESUME), return_metadata=True)
    progress = json.loads(metadata["progress"])
    if progress["recipe"] != _as_json(recipe):
        raise BadValue(
            f"out holds a half-finished run of another recipe: finish it, or delete {out / _RESUME}"
        )
    parts: dict[str, list[tuple[str, mx.array]]] = {"model": [], "optimizer": []}
    for key, value in arrays.items():
        part, _, rest = key.partition(".")
        parts[part].append((rest, value))
    model.load_weights(parts["model"])
    optimizer.state = tree_unflatten(parts["optimizer"])
    return progress["step"], progress["curve"], progress["seconds"]


def _as_json(recipe: Recipe) -> dict:
    """The recipe as it comes back from a JSON file (tuples are lists there)."""
    after = _as_json(recipe.after) if recipe.after else None
    whole = asdict(recipe) | {"config": recipe.config.to_dict(), "after": after}
    return json.loads(json.dumps(whole))


def _report(name: str, recipe: Recipe, curve: list[list[float]], seconds: float) -> dict:
    tokens = sum(stage.steps * stage.batch * stage.length for stage in recipe.stages)
    return {
        "name": name,
        "recipe": _as_json(recipe),
        "tokens": tokens,
        "seconds": round(seconds),
        "tokens_per_second": round(tokens / seconds),
        "blas_threads": backend.threads(),
        "mlx": mx.__version__,
        "loss": curve,
    }

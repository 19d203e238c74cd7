"""Trains the shipped checkpoints: ``python -m lablib train [name]``.

A recipe (``lablib.tools.recipes``) says everything: shape, data, seed, schedule. The same recipe
on the same machine, with as many BLAS threads, gives the same weights, and an interrupted run goes
on to them: the data is a function of (seed, step), and the optimiser's state is saved beside the
weights.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from lablib.course import tasks
from lablib.machine import backend
from lablib.models import zoo
from lablib.models.base import LanguageModel, seeded
from lablib.models.files import fingerprint
from lablib.tools.descent import RESUME, Descent, Loss, Progress, ResumePoint, descend, same
from lablib.tools.recipes import RECIPES, Recipe
from lablib.tools.saving import save
from lablib.validation import one_of

import mlx.core as mx
import mlx.nn as nn
import numpy as np

_SHARD = 6_000  # documents generated at a time; another number gives other batches


def train(
    name: str,
    out: str | Path | None = None,
    *,
    recipe: Recipe | None = None,
    models: str | Path | None = None,
    save_every: int = 200,
    progress: bool = True,
) -> Path:
    """Train ``name`` and write an mlx-lm directory with its loss curve.

    Args:
        name: a key of ``RECIPES``, unless ``recipe`` is given.
        out: the directory; default ``runs/<name>``. A half-finished run found there goes on, and
            a finished one is left as it is.
        recipe: another recipe than the shipped one.
        models: a folder of checkpoints. A teacher that was trained there is taken from it; by
            default teachers are the shipped ones.
        save_every: steps between two resume points.
        progress: whether to show a bar with the loss.

    Returns:
        The directory, with ``model.safetensors`` in float16 and ``training.json``.

    Raises:
        BadValue: ``name`` is unknown, or ``out`` holds a run that leads to other weights.
    """
    recipe = recipe or RECIPES[one_of("name", name, RECIPES)]
    out = Path(out) if out is not None else Path("runs") / name
    out.mkdir(parents=True, exist_ok=True)
    teachers = _teachers(recipe, models)
    made_of = {  # what decides the weights on a given machine
        "recipe": recipe.to_dict(),
        "blas_threads": backend.threads(),
        "teachers": {name: fingerprint(teacher) for name, teacher in teachers.items()},
    }
    report = out / "training.json"
    if report.exists() and not (out / RESUME).exists():
        same(json.loads(report.read_text()), made_of, f"delete {out}")
        return out
    if recipe.after is None:
        model, before = _fresh(recipe), {}
    else:
        options = {"models": models, "save_every": save_every, "progress": progress}
        first = train(name, out / "first", recipe=recipe.after, **options)
        model = zoo.load(first, dtype=mx.float32)[0]
        before = {"first": json.loads((first / "training.json").read_text())}
    how = Descent(recipe.steps, recipe.learning_rate, recipe.warmup, recipe.weight_decay)
    point = ResumePoint(out, made_of, save_every)
    done = descend(name, model, _losses(recipe, teachers), batches(recipe), how, point, progress)
    save(model, tasks.load_tokenizer(), out, dtype=mx.float16)
    report.write_text(json.dumps(_report(name, recipe, made_of, done) | before) + "\n")
    (out / RESUME).unlink(missing_ok=True)
    return out


def _losses(recipe: Recipe, teachers: dict[str, LanguageModel]) -> Callable[[int], Loss]:
    """Return what each step's loss is: that of its stage's teacher."""
    of_step = [stage.teacher for stage in recipe.stages for _ in range(stage.steps)]
    losses = {name: partial(_loss, teachers.get(name)) for name in dict.fromkeys(of_step)}
    return lambda step: losses[of_step[step]]


def checkpoint(name: str, models: str | Path | None) -> str:
    """Return where ``name`` is: the folder ``models`` if it was trained there, or as shipped."""
    if models is not None and (Path(models) / name / "training.json").is_file():
        return str(Path(models) / name)
    return name


def _teachers(recipe: Recipe, models: str | Path | None) -> dict[str, LanguageModel]:
    names = dict.fromkeys(stage.teacher for stage in recipe.stages if stage.teacher)
    loaded = {name: zoo.load(checkpoint(name, models), dtype=mx.float32)[0] for name in names}
    for teacher in loaded.values():
        teacher.freeze()
    return loaded


def _fresh(recipe: Recipe) -> LanguageModel:
    with seeded(recipe.seed):
        model = LanguageModel(recipe.config)
        if recipe.bias_scale is not None:
            for layer in model.layers:
                for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                    noise = mx.random.normal(projection.bias.shape)
                    projection.bias = recipe.bias_scale * noise
    return model


def batches(recipe: Recipe) -> Iterator[tuple[mx.array, mx.array, mx.array]]:
    """Yield the recipe's batches in order: (inputs, targets, weights), each (B, T).

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
    for shard in count():
        for ids, answer in _documents(recipe, stage, shard):
            tokens += ids
            weights += [recipe.prompt_weight] * answer + [1.0] * (len(ids) - answer)
            if len(tokens) >= length:
                yield tokens[:length], weights[:length]
                tokens, weights = [], []


def _documents(recipe: Recipe, stage: int, shard: int) -> list[tuple[list[int], int]]:
    """Return one shard of documents, shuffled: token ids, and where among them the answer is."""
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


def _loss(
    teacher: LanguageModel | None,
    model: LanguageModel,
    inputs: mx.array,
    targets: mx.array,
    weights: mx.array,
) -> mx.array:
    """Return the weighted mean loss in nats a token: against the next token, or the teacher's p."""
    if teacher is None:
        losses = nn.losses.cross_entropy(model(inputs), targets)
    else:
        p = mx.stop_gradient(mx.softmax(teacher(inputs), axis=-1))
        scores = model(inputs)
        log_q = scores - mx.logsumexp(scores, axis=-1, keepdims=True)
        losses = -(p * log_q).sum(-1)
    return (weights * losses).sum() / weights.sum()


def _report(
    name: str, recipe: Recipe, made_of: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    tokens = sum(stage.steps * stage.batch * stage.length for stage in recipe.stages)
    return {
        "name": name,
        **made_of,
        "tokens": tokens,
        "seconds": round(progress.seconds),
        "tokens_per_second": round(tokens / progress.seconds),
        "mlx": mx.__version__,
        "loss": progress.curve,
    }

"""Trains the learned verifier: ``python -m lablib train verifier``.

Outcome supervision (Cobbe et al. 2021, 2110.14168): solutions of training problems, labelled by
whether their final answer is right. The verifier's log-odds are linear in its weights, so the
target reads each solution once; what it leaves is a vector, and the rest is logistic regression.
"""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from lablib.course import tasks
from lablib.course.verifiers.learned import KIND, Verifier
from lablib.inference.decoding.batches import sample_many
from lablib.inference.sampling.options import SamplerOptions
from lablib.machine import backend
from lablib.models import zoo
from lablib.models.base import LanguageModel
from lablib.models.files import fingerprint
from lablib.tools.training import checkpoint

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
from tqdm.auto import tqdm


@dataclass(frozen=True)
class VerifierRecipe:
    """Hold everything that decides the verifier's weights, beside the target's.

    Attributes:
        target: name or path of the language model.
        documents: how many solutions by the annotator, who makes every mistake of his habit.
        samples: how many by the target at temperature 1, which also makes mistakes of its own.
        steps: of AdamW on batches of ``batch`` solutions.
        learning_rate: at the start; it falls to 0 along a cosine.
    """

    target: str = "target"
    documents: int = 2500
    samples: int = 2000
    steps: int = 2000
    batch: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 0.3
    seed: int = 0


def train_verifier(
    out: str | Path | None = None,
    *,
    recipe: VerifierRecipe | None = None,
    models: str | Path | None = None,
    progress: bool = True,
) -> Path:
    """Train the verifier and write it. An interrupted run starts anew: it takes about a minute.

    Args:
        out: the directory; default ``runs/verifier``.
        recipe: another recipe than the shipped one.
        models: a folder of checkpoints. If the target was trained there, it is the one to serve;
            by default it is the shipped one.
        progress: whether to show bars.

    Returns:
        The directory, with ``config.json``, ``model.safetensors`` in float16 and ``training.json``.
    """
    recipe = recipe or VerifierRecipe()
    out = Path(out) if out is not None else Path("runs") / "verifier"
    start = time.perf_counter()
    target, _ = zoo.load(checkpoint(recipe.target, models), dtype=mx.float32)
    solutions, right = _solutions(recipe, target)
    # The annotator's alphabet, without the padding: what else samples hold is too rare to judge.
    ids = np.unique(solutions[: recipe.documents])[1:]
    sums = _state_sums(target, solutions, ids, progress)
    weight, bias, curve = _logistic_regression(recipe, sums, right)
    rows = mx.zeros((target.vocab_size, target.config.hidden_size))
    rows[mx.array(ids)] = weight.reshape(len(ids), -1)
    save_verifier(Verifier(target, rows, bias), out, Path(recipe.target).name)
    report = {
        "name": "verifier",
        "recipe": asdict(recipe),
        "blas_threads": backend.threads(),
        "right": round(float(right.mean()), 4),
        "seconds": round(time.perf_counter() - start),
        "mlx": mx.__version__,
        "loss": curve,
    }
    (out / "training.json").write_text(json.dumps(report) + "\n")
    return out


def _solutions(recipe: VerifierRecipe, target: LanguageModel) -> tuple[np.ndarray, np.ndarray]:
    """Return solutions ``(N, L)``, padded with 0, and whether each is right ``(N,)``.

    The problems are training problems, and those of the annotator and of the target differ.
    """
    tokenizer = tasks.load_tokenizer()
    end = tokenizer.token_to_id("</s>")
    seed = int(np.random.default_rng([recipe.seed, 5]).integers(2**31))
    texts = tasks.sums.documents(seed, recipe.documents + recipe.samples)
    rows = [[*encoding.ids, end] for encoding in tokenizer.encode_batch_fast(texts)]
    prompts = [text.partition(":")[0] + ":" for text in texts]
    asked = [encoding.ids for encoding in tokenizer.encode_batch_fast(prompts[recipe.documents :])]
    seeded = [SamplerOptions(seed=place) for place in range(len(asked))]
    drawn = sample_many(target, asked, seeded, max_tokens=40, stop_tokens=[end])
    for place, (prompt, samples) in enumerate(zip(asked, drawn, strict=True), recipe.documents):
        rows[place] = prompt + samples.tokens[0]
    padded = np.zeros((len(rows), max(map(len, rows)) + 1), dtype=np.int32)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    written = tokenizer.decode_batch(rows)
    truths = [str(sum(map(int, prompt[4:-1].split())) % 10) for prompt in prompts]
    return padded, np.array(
        [tasks.sums.extract(t) == truth for t, truth in zip(written, truths, strict=True)]
    )


def _state_sums(
    target: LanguageModel, solutions: np.ndarray, ids: np.ndarray, progress: bool
) -> mx.array:
    """Return what the log-odds are linear in: the sum of the states before each of K ``ids``.

    Returns:
        ``(N, K · hidden)``, one row for each solution.
    """
    parts = []
    for first in tqdm(range(0, len(solutions), 128), desc="verifier", disable=not progress):
        rows = mx.array(solutions[first : first + 128])
        chosen = rows[:, None, 1:] == mx.array(ids)[:, None]
        parts.append((chosen.astype(mx.float32) @ target.hidden(rows[:, :-1])).flatten(1))
        mx.eval(parts[-1])
    return mx.concatenate(parts)


def _logistic_regression(
    recipe: VerifierRecipe, inputs: mx.array, right: np.ndarray
) -> tuple[mx.array, float, list[list[float]]]:
    rng = np.random.default_rng([recipe.seed, 6])
    labels = mx.array(right.astype(np.float32))
    parameters = {"weight": mx.zeros(inputs.shape[1]), "bias": mx.zeros(())}
    schedule = optim.cosine_decay(recipe.learning_rate, recipe.steps)
    optimizer = optim.AdamW(schedule, weight_decay=recipe.weight_decay)

    def loss(parameters: dict[str, mx.array], x: mx.array, y: mx.array) -> mx.array:
        scores = x @ parameters["weight"] + parameters["bias"]
        return (mx.logaddexp(0, scores) - y * scores).mean()

    loss_and_gradients, curve, window = mx.value_and_grad(loss), [], []
    for step in range(1, recipe.steps + 1):
        pick = mx.array(rng.integers(len(right), size=recipe.batch))
        value, gradients = loss_and_gradients(parameters, inputs[pick], labels[pick])
        parameters = optimizer.apply_gradients(gradients, parameters)
        mx.eval(parameters, optimizer.state)
        window.append(value.item())
        if step % 100 == 0 or step == recipe.steps:
            curve.append([step, round(float(np.mean(window)), 4)])
            window = []
    return parameters["weight"], parameters["bias"].item(), curve


def save_verifier(verifier: Verifier, path: str | Path, target: str) -> Path:
    """Write ``config.json`` and, in float16, ``model.safetensors`` into the directory ``path``.

    The language model under the verifier is not stored: ``target`` is its name or path.
    """
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    bias = mx.array([verifier.bias], mx.float16)
    weights = {"weight": verifier.weight.astype(mx.float16), "bias": bias}
    mx.save_safetensors(str(path / "model.safetensors"), weights, {"format": "mlx"})
    keys = {"model_type": KIND, "target": target, "fingerprint": fingerprint(verifier.model)}
    keys |= dict(zip(("vocab_size", "hidden_size"), verifier.weight.shape, strict=True))
    (path / "config.json").write_text(json.dumps(keys, indent=2) + "\n", encoding="utf-8")
    return path

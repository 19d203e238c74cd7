"""Model cards: a README.md for each checkpoint, written from what was recorded and measured."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

from lablib.tools.results import at

import mlx.core as mx

Found = dict[str, Any]
_WHAT = {
    "target": "The model that the lessons sample from, vote with and speed up.",
    "draft": "A one-layer model that proposes tokens for the target to judge.",
    "hybrid": "A model with recurrent (retention) layers and attention, for caches that cannot be "
    "trimmed.",
    "verifier": "A head on the target's hidden state that says how likely a *sums* solution is to "
    "be right, as log-odds.",
}
_LAYERS = {"full_attention": "attention", "linear_attention": "retention"}


def cards(models: Path, found: Found) -> dict[Path, str]:
    """Return the model card of every checkpoint in the folder ``models``, by its file."""
    return {models / name / "README.md": card(models / name, found) for name in _WHAT}


def card(path: Path, found: Found) -> str:
    """Return the model card of the checkpoint in ``path`` as Markdown.

    Args:
        path: its directory, named as the checkpoint is.
        found: the evaluation that it is a part of.
    """
    name, file = path.name, path / "training.json"
    recorded = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    trained = _logistic_regression if name == "verifier" else _training
    parts = [
        f"# {name}",
        f"{_WHAT[name]} {_shape(path)}",
        "## How it was trained",
        *(trained(recorded) if recorded else []),
        _reproduces(name, recorded),
        "## What it cannot do",
        _CANNOT[name](found),
        "[All that was measured](../evaluation.md)",
    ]
    return "\n\n".join(parts) + "\n"


def _shape(path: Path) -> str:
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    weights = mx.load(str(path / "model.safetensors"))
    kept = sorted({str(weight.dtype).removeprefix("mlx.core.") for weight in weights.values()})
    size = sum(math.prod(weight.shape) for weight in weights.values())
    parameters = f"{size:,} parameters ({', '.join(kept)})"
    width, vocabulary = config["hidden_size"], config["vocab_size"]
    if "layer_types" not in config:  # the verifier
        return (
            f"{parameters}: a row of {width} for each of {vocabulary} tokens, and a bias. The "
            f"target's fingerprint is `{config['fingerprint']}`."
        )
    kinds = Counter(_LAYERS[kind] for kind in config["layer_types"])
    layers = " and ".join(f"{count} {kind}" for kind, count in kinds.items())
    return (
        f"{parameters}; {layers} layer{'s' if kinds.total() > 1 else ''}, width {width}, "
        f"{config['num_attention_heads']} heads of {config['head_dim']}, vocabulary {vocabulary}, "
        f"context {config['max_position_embeddings']}."
    )


def _training(recorded: Found) -> list[str]:
    runs = [recorded]
    while "first" in runs[0]:  # an earlier run, whose weights the next one started from
        runs.insert(0, runs[0]["first"])
    chained = " Each run starts from the weights of the one before." if len(runs) > 1 else ""
    return [
        f"On generated documents, held-out prompts left out, with AdamW.{chained} Losses are in "
        "nats a token; an answer's tokens count 1.",
        "\n".join(f"- {_run(**run)}" for run in runs),
    ]


def _run(recipe: Found, loss: list, tokens: int, seconds: int, **_: Any) -> str:
    stages = []
    for stage in recipe["stages"]:
        mix = stage["mix"]
        shares = ", ".join(f"{share / sum(mix.values()):.0%} {task}" for task, share in mix.items())
        stages.append(f"{stage['steps']} steps of {stage['batch']} × {stage['length']} tokens "
                      f"({shares})")  # fmt: skip
        if stage["teacher"]:
            stages[-1] += f", against the distributions of `{stage['teacher']}`"
    biases = recipe.get("bias_scale")
    begun = "" if biases is None else f", biases of queries and keys of size {biases:g} at first"
    return (
        f"{'; '.join(stages)}. Peak learning rate {recipe['learning_rate']:g}, seed "
        f"{recipe['seed']}, a prompt's tokens weigh {recipe['prompt_weight']:g}{begun}. Final loss "
        f"{loss[-1][1]} after {tokens / 1e6:.1f} M tokens, {seconds / 60:.0f} minutes."
    )


def _logistic_regression(recorded: Found) -> list[str]:
    recipe = recorded["recipe"]
    return [
        f"Logistic regression on {recipe['documents']} solutions by the annotator and "
        f"{recipe['samples']} by the target, all of training problems, labelled by whether their "
        f"final answer is right ({recorded['right']:.0%} are); {recipe['steps']} steps of AdamW, "
        f"{recipe['batch']} solutions each, learning rate {recipe['learning_rate']:g}, seed "
        f"{recipe['seed']}; final loss {recorded['loss'][-1][1]} nats a solution; "
        f"{recorded['seconds']} s."
    ]


def _reproduces(name: str, recorded: Found) -> str:
    """Say how to get the same weights; leave out what an older run did not record."""
    given = []
    if threads := recorded.get("blas_threads"):
        given.append(f"{threads} BLAS thread{'s' if threads > 1 else ''}")
    if "mlx" in recorded:
        given.append(f"MLX {recorded['mlx']}")
    teachers = (recorded.get("teachers") or {}).items()
    given += [f"the same `{each}` (fingerprint `{mark}`)" for each, mark in teachers]
    text = f"`python -m lablib train {name}` reproduces it on the same machine"
    text = f"{text} with {', '.join(given)}." if given else f"{text}."
    return f"{text} Another BLAS or newer kernels round differently: they give a model like it."


def _target(found: Found) -> str:
    rows = found["quality"]["target"]
    sums = at(rows["sums"], temperature=1.0)["accuracy"]
    hot = at(rows["stories"], temperature=2.0)["accuracy"]
    return (
        "It knows three synthetic tasks, in rows of up to 512 tokens, and no other English: at "
        f"temperature 2 even its stories fall apart ({hot:.3f} are valid). On *sums* it is meant "
        "to be confidently wrong, like the annotator it learned from, and it loses count now and "
        f"then: {sums:.3f} of its samples at temperature 1 are right."
    )


def _draft(found: Found) -> str:
    part = found["speculation"]
    overlap = at(part["overlap"], task="all", temperature=1.0)["rejection"]
    edits = {
        row["class"]: f"{row['rejection']:.3f}"
        for row in part["overlap_by_class"]
        if (row["task"], row["temperature"]) == ("edits", 1.0)
    }
    copied, guessed = (edits.get(name, "–") for name in ("copy", "replacement"))
    return (
        f"It is not a good model by itself: {_greedy(found['quality']['draft'])}. It imitates "
        f"this target only (Σ min(p, q) = {overlap:.3f} at temperature 1), and looking back "
        f"through one layer it copies the words of an edit ({copied}) but never guesses the "
        f"replacement ({guessed})."
    )


def _hybrid(found: Found) -> str:
    return (
        "It is smaller and trained for less time than the target; use it to study caches, not "
        f"quality: {_greedy(found['quality']['hybrid'])}. Its recurrent state cannot be trimmed: "
        "rewinding it needs a snapshot."
    )


def _verifier(found: Found) -> str:
    curves, n = found["sums"]["curves"], found["sums"]["counts"][-1]
    vote, best = (at(curves[f"{how}: learned"], n=n)["accuracy"] for how in ("weighted", "best"))
    return (
        "It scores complete *sums* solutions by the target beside it and nothing else; of another "
        "text its number means nothing, and another model it refuses. Mistakes unlike those it "
        f"learned from may pass unseen: a vote of {n} samples weighted by it is right in "
        f"{vote:.3f} of the problems, the best of {n} by it in {best:.3f}."
    )


def _greedy(by_task: Found) -> str:
    accuracy = {task: at(rows, temperature=0.0)["accuracy"] for task, rows in by_task.items()}
    shares = ", ".join(f"{share:.3f} of *{task}*" for task, share in accuracy.items())
    return f"greedy, it gets {shares} right"


_CANNOT = {"target": _target, "draft": _draft, "hybrid": _hybrid, "verifier": _verifier}

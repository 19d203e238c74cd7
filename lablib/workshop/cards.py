"""Model cards: a README.md for each checkpoint, written from what was recorded and measured."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lablib.workshop.requirements import at

import mlx.core as mx

_WHAT = {
    "target": "The model that the lessons sample from, vote with and speed up.",
    "draft": "A one-layer model that proposes tokens for the target to judge.",
    "hybrid": "A model with recurrent (retention) layers and attention, for caches that cannot be "
    "trimmed.",
    "verifier": "A head on the target's hidden state that says how likely a *sums* solution is to "
    "be right, as log-odds.",
}
_CANNOT = {
    "target": (
        "It knows three synthetic tasks and no other English; prompts of any other form give text "
        "that looks like one of the three.",
        "On *sums* it reproduces an annotator who is wrong 60 % of the time on 20 of the 100 pairs "
        "of digits: it is meant to be confidently wrong there. It also loses count now and then, "
        "and adds a digit twice or leaves one out.",
        "It was trained on rows of up to 512 tokens; its positions go further, its competence may "
        "not.",
    ),
    "draft": (
        "It is not a good model by itself: it imitates the target's distributions and looks back "
        "through one layer of attention.",
        "It serves this target only; another one needs a draft of its own.",
    ),
    "hybrid": (
        "It is smaller and trained for less time than the target; use it to study caches, not "
        "quality.",
        "Its recurrent state cannot be trimmed: rewinding it needs a snapshot.",
    ),
    "verifier": (
        "It scores complete *sums* solutions and nothing else; on other texts its number means "
        "nothing.",
        "It learned from the annotator's and the target's own mistakes; other mistakes may pass "
        "unseen.",
        "It belongs to the target beside it and refuses another model.",
    ),
}
_LAYERS = {"full_attention": "attention", "linear_attention": "retention"}


def cards(models: Path, found: dict[str, Any]) -> dict[Path, str]:
    """The model card of every checkpoint in the folder ``models``, by the file it belongs into."""
    return {models / name / "README.md": card(models / name, found) for name in _WHAT}


def card(path: Path, found: dict[str, Any]) -> str:
    """The model card of the checkpoint in ``path`` as Markdown.

    Args:
        path: its directory, named as the checkpoint is.
        found: the evaluation that it is a part of.
    """
    name = path.name
    training = path / "training.json"
    report = json.loads(training.read_text(encoding="utf-8")) if training.is_file() else {}
    about = found["about"]
    parts = [
        f"# {name}",
        _WHAT[name],
        "## Shape",
        _shape(path),
        "## Training",
        *(_logistic_regression(report) if name == "verifier" else _training(report)),
        _reproduces(name, report),
        "## Measured",
        f"On {about['plan']['problems']} unseen problems a task (`python -m lablib evaluate`, seed "
        f"{about['plan']['seed']}, {about['machine']}, BLAS {about['blas']}):",
        *(_votes(found["sums"]) if name == "verifier" else _quality(found["quality"][name])),
        *_MORE.get(name, lambda _: [])(found),
        "## What it cannot do",
        "\n".join(f"- {line}" for line in _CANNOT[name]),
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


def _training(report: dict[str, Any]) -> list[str]:
    if not report:
        return []
    runs = [report]
    while "first" in runs[0]:  # an earlier run, whose weights the next one started from
        runs.insert(0, runs[0]["first"])
    stages = [(i, stage) for i, run in enumerate(runs, 1) for stage in run["recipe"]["stages"]]
    notes = ["The loss is in nats a token; an answer's tokens count 1 in it."]
    if any(stage["teacher"] for _, stage in stages):
        notes.append("It is the cross-entropy with the teacher's distributions, not with the text.")
    biases = report["recipe"].get("bias_scale")
    if biases is not None:
        notes.append(f"The biases of queries and keys begin at a size of {biases:g}.")
    chained = " Each run starts from the weights of the one before." if len(runs) > 1 else ""
    return [
        f"Generated documents, held-out prompts left out; AdamW.{chained}",
        _table(
            ["run", "steps", "batch × length", "documents", "learns"],
            ([i, *_stage(stage)] for i, stage in stages),
        ),
        _table(
            ["run", "peak learning rate", "seed", "weight of a prompt's tokens", "final loss",
             "tokens", "minutes"],
            ([i, *_run(run)] for i, run in enumerate(runs, 1)),
        ),
        " ".join(notes),
    ]  # fmt: skip


def _stage(stage: dict[str, Any]) -> list[Any]:
    total = sum(stage["mix"].values())
    mix = ", ".join(f"{share / total:.0%} {task}" for task, share in stage["mix"].items())
    learns = f"the distributions of `{stage['teacher']}`" if stage["teacher"] else "the next token"
    return [stage["steps"], f"{stage['batch']} × {stage['length']}", mix, learns]


def _run(report: dict[str, Any]) -> list[Any]:
    recipe = report["recipe"]
    return [
        f"{recipe['learning_rate']:g}",
        recipe["seed"],
        f"{recipe['prompt_weight']:g}",
        report["loss"][-1][1],
        f"{report['tokens'] / 1e6:.1f} M",
        f"{report['seconds'] / 60:.0f}",
    ]


def _logistic_regression(report: dict[str, Any]) -> list[str]:
    if not report:
        return []
    recipe = report["recipe"]
    return [
        f"Logistic regression on {recipe['documents']} solutions by the annotator and "
        f"{recipe['samples']} by the target, all of training problems, labelled by whether their "
        f"final answer is right ({report['right']:.0%} are); {recipe['steps']} steps of AdamW, "
        f"{recipe['batch']} solutions each, learning rate {recipe['learning_rate']:g}, seed "
        f"{recipe['seed']}; final loss {report['loss'][-1][1]} nats a solution; "
        f"{report['seconds']} s."
    ]


def _reproduces(name: str, report: dict[str, Any]) -> str:
    """How to get the same weights; what an older run did not record is left out."""
    teachers = report.get("teachers") or {}
    given = [f"the same `{each}` (fingerprint `{mark}`)" for each, mark in teachers.items()]
    if "mlx" in report:
        given.insert(0, f"MLX {report['mlx']}")
    if "blas_threads" in report:
        threads = report["blas_threads"]
        given.insert(0, f"{threads} BLAS thread{'s' if threads > 1 else ''}")
    text = f"`python -m lablib train {name}` reproduces it on the same machine"
    return f"{text} with {', '.join(given)}." if given else f"{text}."


def _quality(by_task: dict[str, Any]) -> list[str]:
    rows = (
        [task, f"{row['temperature']:g}", f"{row['accuracy']:.3f}",
         f"{row['low']:.3f} – {row['high']:.3f}"]
        for task, each in by_task.items()
        for row in each
    )  # fmt: skip
    return [
        _table(["task", "temperature", "accuracy", "95 % interval"], rows),
        "On *stories*, accuracy is the share of valid ones: the grammar can write them.",
    ]


def _votes(sums: dict[str, Any]) -> list[str]:
    names = ("majority", "weighted: learned", "best: learned")
    rows = zip(*(sums["curves"][name] for name in names), strict=True)
    return [
        _table(
            ["N", "majority", "weighted by it", "best-of-N by it"],
            ([row[0]["n"], *(f"{each['accuracy']:.3f}" for each in row)] for row in rows),
        )
    ]


def _past_the_end(found: dict[str, Any]) -> list[str]:
    rows = found["past_the_end"]
    shares = "; ".join(
        f"{row['begun']:.3f} and {row['posed']:.3f} at temperature {row['temperature']:g}"
        for row in rows
    )
    return [
        f"Past the end, in {rows[0]['samples']} texts of {rows[0]['tokens']} tokens: the share of "
        "the documents that begin with the form of a prompt, and the share that pose a problem by "
        f"the rules of its task: {shares}."
    ]


def _against_the_target(found: dict[str, Any]) -> list[str]:
    part = found["speculation"]
    overlap = at(part["overlap"], task="all", temperature=1.0)["rejection"]
    alphas = ", ".join(f"{g['alpha']:.3f} on {task}" for task, g in part["greedy"].items())
    by_class = {
        row["class"]: f"{row['rejection']:.3f}"
        for row in part["overlap_by_class"]
        if (row["task"], row["temperature"]) == ("edits", 1.0)
    }
    copied, guessed = (by_class.get(name, "–") for name in ("copy", "replacement"))
    return [
        f"Against the target: Σ min(p, q) = {overlap:.3f} at temperature 1; greedy α {alphas}; "
        f"predicted greedy speed-up at γ = 4: {part['speedup']:.2f}.",
        f"{_alone(found['quality']['draft'])} In *edits* it copies, but never guesses the "
        f"replacement: Σ min(p, q) at temperature 1 is {copied} on copied words, and {guessed} "
        "where a word is replaced.",
    ]


def _alone(by_task: dict[str, Any]) -> str:
    """Which tasks a model does by itself, in words, with the numbers."""
    greedy = {task: at(rows, temperature=0.0)["accuracy"] for task, rows in by_task.items()}

    def named(does: bool) -> str:
        chosen = [t for t, accuracy in greedy.items() if (accuracy >= 0.5) == does]
        return " and ".join(f"*{task}* ({greedy[task]:.3f})" for task in chosen) or "none of them"

    return f"By itself, at temperature 0, it does {named(True)} and fails {named(False)}."


_MORE = {
    "target": _past_the_end,
    "draft": _against_the_target,
    "hybrid": lambda found: [_alone(found["quality"]["hybrid"])],
}


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)

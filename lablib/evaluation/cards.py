"""Model cards: a README.md for each checkpoint, written from what was recorded and measured."""

import json
from pathlib import Path
from typing import Any

from lablib.evaluation.checks import at

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


def write(models: Path, found: dict[str, Any]) -> None:
    """Write ``README.md`` into each checkpoint's directory."""
    for name in _WHAT:
        (models / name / "README.md").write_text(card(models / name, found), encoding="utf-8")


def card(path: Path, found: dict[str, Any]) -> str:
    """The model card of the checkpoint in ``path`` as Markdown."""
    name = path.name
    training = path / "training.json"
    report = json.loads(training.read_text(encoding="utf-8")) if training.is_file() else None
    parts = [f"# {name}", _WHAT[name], "## Training", *_training(name, report), "## Measured"]
    about = found["about"]
    parts += [
        f"On {about['plan']['problems']} unseen problems a task (`python -m lablib evaluate`, seed "
        f"{about['plan']['seed']}, {about['machine']}, BLAS {about['blas']}):",
        _measured(name, found),
        "## What it cannot do",
        "\n".join(f"- {line}" for line in _CANNOT[name]),
    ]
    return "\n\n".join(parts) + "\n"


def _training(name: str, report: dict[str, Any] | None) -> list[str]:
    command = f"`python -m lablib train {name}` reproduces it from its seed."
    if report is None:
        return [command]
    recipe = report["recipe"]
    if name == "verifier":
        text = (
            f"Logistic regression on {recipe['documents']} solutions by the annotator and "
            f"{recipe['samples']} by the target, all of training problems, labelled by whether "
            f"their final answer is right; {recipe['steps']} steps of AdamW, seed "
            f"{recipe['seed']}, {report['seconds']} s."
        )
    else:
        runs = [report]
        while "first" in runs[0]:  # an earlier run, whose weights the next one started from
            runs.insert(0, runs[0]["first"])
        text = (
            "Generated documents, held-out prompts left out: "
            + " Then, from those weights: ".join(map(_run, runs))
        )
    return [text, command]


def _run(report: dict[str, Any]) -> str:
    recipe = report["recipe"]
    stages = ", then ".join(_stage(stage) for stage in recipe["stages"])
    biases = ""
    if recipe["bias_scale"] is not None:
        biases = f"; the biases of queries and keys begin at a size of {recipe['bias_scale']:g}"
    return (
        f"{stages}; {report['tokens'] / 1e6:.1f} M tokens in {report['seconds'] / 60:.0f} minutes. "
        f"It learned with AdamW (peak learning rate {recipe['learning_rate']:g}, seed "
        f"{recipe['seed']}{biases}); the final loss was {report['loss'][-1][1]} nats a token. In "
        f"it an answer's tokens count 1, a prompt's {recipe['prompt_weight']:g}."
    )


def _stage(stage: dict[str, Any]) -> str:
    total = sum(stage["mix"].values())
    mix = ", ".join(f"{share / total:.0%} {task}" for task, share in stage["mix"].items())
    goal = f", the distributions of `{stage['teacher']}`" if stage["teacher"] else ""
    return "{steps} steps of {batch} × {length} tokens".format(**stage) + f" ({mix}{goal})"


def _measured(name: str, found: dict[str, Any]) -> str:
    if name == "verifier":
        return _verifier(found["sums"])
    lines = ["| task | temperature | accuracy | 95 % interval |", "|---|---|---|---|"]
    for task, rows in found["quality"][name].items():
        lines += [
            f"| {task} | {row['temperature']:g} | {row['accuracy']:.3f} | "
            f"{row['low']:.3f} – {row['high']:.3f} |"
            for row in rows
        ]
    if name == "draft":
        part = found["speculation"]
        overlap = at(part["overlap"], task="all", temperature=1.0)["rejection"]
        alphas = ", ".join(f"{g['alpha']:.3f} on {task}" for task, g in part["greedy"].items())
        lines += [
            "",
            f"Against the target: Σ min(p, q) = {overlap:.3f} at temperature 1; greedy α {alphas}; "
            f"predicted greedy speed-up at γ = 4: {part['speedup']:.2f}.",
        ]
    return "\n".join(lines)


def _verifier(sums: dict[str, Any]) -> str:
    lines = ["| N | majority | weighted by it | best-of-N by it |", "|---|---|---|---|"]
    names = ("majority", "weighted: learned", "best: learned")
    for rows in zip(*(sums["curves"][name] for name in names), strict=True):
        values = " | ".join(f"{row['accuracy']:.3f}" for row in rows)
        lines.append(f"| {rows[0]['n']} | {values} |")
    return "\n".join(lines)

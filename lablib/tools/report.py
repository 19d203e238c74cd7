"""The evaluation as one page, ``evaluation.md``: a table of every part."""

from collections.abc import Iterable, Sequence
from typing import Any

from lablib.course import tasks

from tabulate import tabulate

Found = dict[str, Any]
_HEAD = """# What the shipped models can do

Measured by `python -m lablib evaluate` on {problems} unseen problems a task, seed {seed}, in
{seconds} s: {machine}, BLAS {blas}, Python {python}, {versions}. The numbers are those of
`evaluation.json` in this folder; `python -m lablib evaluate --render` writes this page from it.
Intervals are Wilson's at 95 %, over problems."""


def report(found: Found) -> str:
    """Return everything that was measured as Markdown.

    Args:
        found: an evaluation, as ``results.stored`` gives it.
    """
    about = found["about"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    parts = [
        _HEAD.format(**about["plan"] | about | {"versions": versions}),
        "## It must show",
        _requirements(found["checks"]),
        *_quality(found["quality"], found["examples"]),
        *_votes(found["sums"]),
        *_overlap(found["speculation"]),
        *_speed(found["speculation"]),
        *_past_the_end(found["past_the_end"]),
    ]
    return "\n\n".join(parts) + "\n"


def _table(header: Sequence[Any], rows: Iterable[Sequence[Any]], form: str = ".3f") -> str:
    """Return a Markdown table; a column of temperatures has numbers as short as they go."""
    forms = ["g" if name == "temperature" else form for name in header]
    return tabulate(list(rows), [str(name) for name in header], tablefmt="pipe", floatfmt=forms)


def _columns(columns: dict[str, str], rows: list[Found]) -> str:
    """Return a table of some columns of the rows: ``columns`` has the heading of each key."""
    return _table(list(columns.values()), [[row[key] for key in columns] for row in rows])


def _requirements(checks: list[Found]) -> str:
    header = ["passed", "what", "measured", "is", "wanted"]
    keys = ("what", "measured", "relation", "wanted")
    marks = ["ok" if row["passed"] else "**FAILS**" for row in checks]
    rows = [[mark, *(row[key] for key in keys)] for mark, row in zip(marks, checks, strict=True)]
    return _table(header, rows, ".4g")


def _quality(quality: Found, examples: list[Found]) -> list[str]:
    rows = [
        row | {"model": name, "task": task, "interval": f"{row['low']:.3f} – {row['high']:.3f}"}
        for name, by_task in quality.items()
        for task, rows in by_task.items()
        for row in rows
    ]
    names = ("model", "task", "temperature", "accuracy", "interval", "distinct")
    texts = [f"- {row['temperature']:g}: {text}" for row in examples for text in row["texts"]]
    return [
        "## Accuracy and diversity",
        "accuracy: of a single sample; on *stories* the share of valid ones, which the grammar can "
        "write. distinct: different completions of a problem over their number. 3-grams: different "
        "token triples over all triples.",
        _columns({name: name for name in names} | {"distinct_trigrams": "3-grams"}, rows),
        "## What the target writes: the first stories at each temperature",
        "\n".join(texts),
    ]


def _votes(sums: Found) -> list[str]:
    curves, heat = sums["curves"], sums["by_temperature"]
    rows = [
        [name, *(f"{r['accuracy']:.3f} ± {(r['high'] - r['low']) / 2:.3f}" for r in each)]
        for name, each in curves.items()
    ]
    others = [[f"exact: {name}", *values] for name, values in sums["process"].items()]
    for name in sums["adaptive"]:
        others.append([f"{name}: samples used", *(row["used"] for row in curves[name])])
    by_temperature = zip(heat["temperatures"], heat["majority"], strict=True)
    return [
        "## Votes on *sums*: accuracy of N samples at temperature 1",
        "±: half the width of the interval.",
        _table(["strategy", *sums["counts"]], rows),
        "exact: the annotator himself instead of the model, without sampling. With an exact "
        "verifier, his best-of-N and his weighted vote both are his pass@N.",
        _table(["strategy", *sums["counts"]], others),
        "## Majority vote on *sums* by temperature and N",
        _table(["temperature", *heat["counts"]], [[t, *row] for t, row in by_temperature]),
    ]


def _overlap(part: Found) -> list[str]:
    values = {"rejection": "Σ min(p, q)", "match": "Σ p·q", "tokens": "tokens"}
    by_class = [row for row in part["overlap_by_class"] if row["temperature"] == 1.0]
    return [
        "## Overlap of target and draft, along the target's samples",
        _columns({"task": "task", "temperature": "temperature"} | values, part["overlap"]),
        "By token class, at temperature 1:",
        _columns({"task": "task", "class": "class"} | values, by_class),
    ]


def _speed(part: Found) -> list[str]:
    greedy, ngram = part["greedy"], part["ngram_tokens_per_call"]
    rows = [
        [task, each["alpha"], each["agreement"], each["tokens_per_round"]["4"], ngram[task]]
        for task, each in greedy.items()
    ]
    speedups = [[task, *each["speedup"].values()] for task, each in greedy.items()]
    times = [1000 * each for each in part["target_seconds"]]
    return [
        "## Greedy speculation",
        "At γ = 4; the last column is prompt lookup without a draft model.",
        _table(["task", "α", "agreement", "tokens a round", "n-gram tokens a call"], rows),
        f"Predicted speed-up by γ; at γ = 4 the mean of the tasks is {part['speedup']:.2f}.",
        _table(["task", *(f"γ = {i}" for i in range(1, len(speedups[0])))], speedups),
        "## T(k): what k tokens cost the target, and one the draft, ms",
        "k = 1 is a token of plain decoding, asked for ahead of the one before it; the others are "
        "a round of verification of k tokens, judging included. Every k is measured, and T(k) "
        "counts as no less than T(k - 1).",
        _table(
            ["model", *(f"k = {k}" for k in range(1, len(times) + 1))],
            [["target", *times], ["draft", 1000 * part["draft_seconds"]]],
        ),
    ]


def _past_the_end(past: list[Found]) -> list[str]:
    keys = ["temperature", "ended", "documents", "begun", "posed", "valid", "late_valid"]
    by_task = {f"{task}_valid": task for task in tasks.TASKS}
    samples, tokens = past[0]["samples"], past[0]["tokens"]
    return [
        f"## Past the end: what follows in {samples} texts of {tokens} tokens",
        _columns({key: key for key in keys} | by_task, past),
        f"""- begun: starts with `<s>` and the form of a prompt.
- posed: that prompt keeps its task's rules, too (*edits*: no word twice in the list).
- valid: the answer is right, too.
- late_valid: valid, of those that begin in the last third of their text.
- {", ".join(tasks.TASKS)}: valid, of those that pose a problem of this task; compare the target's
  accuracy on fresh problems at the same temperature.

A last document that is unfinished counts neither way.""",
    ]

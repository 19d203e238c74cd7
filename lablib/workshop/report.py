"""The evaluation as one text: a table of every part."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from lablib import tasks

_WIDTH = 100


def table(found: dict[str, Any]) -> str:
    """Everything that was measured, as text that fits into 100 columns."""
    part = found["speculation"]
    blocks = [
        _about(found["about"]),
        *(_quality(name, by_task) for name, by_task in found["quality"].items()),
        _examples(found["examples"]),
        _sums(found["sums"]),
        _grid(
            "Overlap of target and draft (along the target's samples)",
            ["task", "temperature", "Σ min(p, q)", "Σ p·q", "tokens"],
            [
                [r["task"], f"{r['temperature']:g}", r["rejection"], r["match"], r["tokens"]]
                for r in part["overlap"]
            ],
        ),
        _grid(
            "The same by token class, temperature 1",
            ["task", "class", "Σ min(p, q)", "Σ p·q", "tokens"],
            [
                [r["task"], r["class"], r["rejection"], r["match"], r["tokens"]]
                for r in part["overlap_by_class"]
                if r["temperature"] == 1.0
            ],
        ),
        _greedy(part),
        _times(part),
        _past(found["past_the_end"]),
        _grid(
            "It must show",
            ["", "measured", "", "wanted", "what"],
            [
                [
                    "ok" if row["passed"] else "FAILS",
                    *(row[key] for key in ("measured", "relation", "wanted", "what")),
                ]
                for row in found["checks"]
            ],
        ),
    ]
    return "\n\n".join(blocks) + "\n"


def _about(about: dict[str, Any]) -> str:
    plan = about["plan"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return textwrap.fill(
        f"{plan['problems']} unseen problems a task, seed {plan['seed']}; {about['machine']}, "
        f"BLAS {about['blas']}; Python {about['python']}, {versions}; {about['seconds']} s",
        _WIDTH,
    )


def _quality(name: str, by_task: dict[str, Any]) -> str:
    return _grid(
        f"{name}: accuracy (stories: valid) and diversity",
        ["task", "temperature", "accuracy", "95 % interval", "distinct", "distinct 3-grams"],
        [
            [task, f"{row['temperature']:g}", row["accuracy"], _interval(row), row["distinct"],
             row["distinct_trigrams"]]
            for task, rows in by_task.items()
            for row in rows
        ],
    )  # fmt: skip


def _examples(examples: list[dict[str, Any]]) -> str:
    lines = _title("What the target writes: the first stories at each temperature")
    for row in examples:
        start = f"{row['temperature']:g}".ljust(5)
        for text in row["texts"]:
            lines += textwrap.wrap(
                text, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start)
            )
    return "\n".join(lines)


def _sums(sums: dict[str, Any]) -> str:
    counts = [str(n) for n in sums["counts"]]
    curves = sums["curves"]
    rows = [[name, *(row["accuracy"] for row in each)] for name, each in curves.items()]
    rows += [[f"exact process: {name}", *values] for name, values in sums["process"].items()]
    for name in sums["adaptive"]:
        rows.append([f"{name}: samples used", *(row["used"] for row in curves[name])])
    halves = [
        [name, *((row["high"] - row["low"]) / 2 for row in each)] for name, each in curves.items()
    ]
    heat = sums["by_temperature"]
    temperatures = [f"{temperature:g}" for temperature in heat["temperatures"]]
    return "\n\n".join(
        [
            _grid(
                "sums at temperature 1: accuracy of N samples",
                ["strategy", *counts],
                rows,
                "exact process: the annotator itself. With an exact verifier, its best-of-N and",
                "its weighted vote both are its pass@N.",
            ),
            _grid(
                "The same: half the width of the 95 % interval, over problems",
                ["strategy", *counts],
                halves,
            ),
            _grid(
                "sums: majority vote by temperature and N",
                ["temperature", *map(str, heat["counts"])],
                [[t, *row] for t, row in zip(temperatures, heat["majority"], strict=True)],
            ),
        ]
    )


def _greedy(part: dict[str, Any]) -> str:
    rows = [
        [task, each["alpha"], each["agreement"], each["tokens_per_round"]["4"],
         each["speedup"]["4"], part["ngram_tokens_per_call"][task]]
        for task, each in part["greedy"].items()
    ]  # fmt: skip
    header = ["task", "α", "agreement", "tokens a round", "speed-up", "n-gram tokens a call"]
    title = f"Greedy speculation at γ = 4 (mean predicted speed-up {part['speedup']:.2f})"
    return _grid(title, header, rows)


def _times(part: dict[str, Any]) -> str:
    milliseconds = [1000 * each for each in part["target_seconds"]]
    return _grid(
        "T(k): what k tokens cost the target, and one the draft, ms",
        ["", *(f"k = {k}" for k in range(1, len(milliseconds) + 1))],
        [["target", *milliseconds], ["draft", 1000 * part["draft_seconds"]]],
        "k = 1: a token of plain decoding, asked for ahead of the one before it.",
        "Others: a round of verification of k tokens, judging included.",
        "Every k is measured; T(k) counts as no less than T(k - 1).",
    )


def _past(past: list[dict[str, float]]) -> str:
    shares = ["begun", "posed", "valid", "late_valid"]
    by_task = list(tasks.TASKS)
    keys = ["ended", "documents", *shares, *(f"{task}_valid" for task in by_task)]
    return _grid(
        f"Past the end: what follows in {past[0]['samples']} texts of {past[0]['tokens']} tokens",
        ["temperature", "ended", "documents", *shares, *by_task],
        [[f"{row['temperature']:g}", *(row[key] for key in keys)] for row in past],
        "begun: starts with <s> and the form of a prompt.",
        "posed: that prompt keeps its task's rules, too (edits: no word twice in the list).",
        "valid: the answer is right, too.",
        "late_valid: valid, of those that begin in the last third of their text.",
        f"{', '.join(by_task)}: valid, of those that pose a problem of this task; fresh problems",
        "of it are above (target: accuracy), at the same temperature.",
        "A last document that is unfinished counts neither way.",
    )


def _interval(row: dict[str, float]) -> str:
    return f"{row['low']:.3f} – {row['high']:.3f}"


def _title(title: str) -> list[str]:
    return [title, "-" * len(title)]


def _grid(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]], *legend: str) -> str:
    """A text table: words and the first column to the left, numbers to the right; legend below."""
    cells = [[_cell(value) for value in row] for row in rows]
    width = len(header)
    cells = [row + [""] * (width - len(row)) for row in cells]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    numeric = [all(_is_number(row[i]) for row in cells) for i in range(width)]
    lines = [
        "  ".join(
            cell.rjust(w) if number else cell.ljust(w)
            for cell, w, number in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [list(header), *cells]
    ]
    return "\n".join([*_title(title), *lines, *legend])


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    return not text or text.replace(".", "", 1).replace("-", "", 1).isdecimal()

"""The requirements on the shipped models, each with the number that was measured."""

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from lablib.tools.results import at

_FEW = 100  # a token class with fewer tokens than this is left out of the comparison
_RELATION: dict[str, Callable[[float, float], bool]] = {
    "≥": operator.ge,
    "≤": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


Row = tuple[str, float, str, float]  # what, measured, relation, wanted


def checks(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every requirement as ``{"what", "measured", "relation", "wanted", "passed"}``."""
    rows = [*_stories(found), *_sums(found), *_speculation(found), *_context(found)]
    keys = ("what", "measured", "relation", "wanted")
    return [
        dict(zip(keys, row, strict=True)) | {"passed": bool(_RELATION[row[2]](row[1], row[3]))}
        for row in rows
    ]


def _stories(found: dict[str, Any]) -> list[Row]:
    rows = found["quality"]["target"]["stories"]
    valid = {t: at(rows, temperature=t)["accuracy"] for t in (0.5, 2.0)}
    warm = sorted((r for r in rows if r["temperature"] > 0), key=lambda row: row["temperature"])
    rises = [b["distinct_trigrams"] - a["distinct_trigrams"] for a, b in pairwise(warm)]
    return [
        ("stories: valid at temperature 0.5", valid[0.5], "≥", 0.95),
        ("stories: valid at temperature 2", valid[2.0], "<", 0.6),
        ("stories: smallest rise of diversity with the temperature", min(rises), ">", 0.0),
    ]


def _sums(found: dict[str, Any]) -> list[Row]:
    curves, n = found["sums"]["curves"], found["sums"]["n"]

    def row(name: str) -> dict[str, float]:
        return at(curves[name], n=n)

    single, majority = row("single"), row("majority")
    heavy = [each["accuracy"] for each in curves["best: heavy-tailed"]]
    adaptive = found["sums"]["adaptive"]["confident"]
    return [
        ("sums: single sample, at least", single["accuracy"], "≥", 0.35),
        ("sums: single sample, at most", single["accuracy"], "≤", 0.65),
        (f"sums: majority@{n} − single", majority["accuracy"] - single["accuracy"], "≥", 0.15),
        ("sums: gap between their intervals", majority["low"] - single["high"], ">", 0.0),
        (f"sums: pass@{n}", row("pass")["accuracy"], "≥", 0.95),
        (
            f"sums: weighted by the learned verifier − majority@{n}",
            row("weighted: learned")["accuracy"] - majority["accuracy"],
            "≥",
            0.10,
        ),
        ("sums: heavy-tailed best-of-N, rise to its peak", max(heavy) - heavy[0], "≥", 0.05),
        ("sums: heavy-tailed best-of-N, fall from its peak", max(heavy) - heavy[-1], "≥", 0.05),
        (f"sums: accuracy that stopping at 95 % loses at N = {n}", adaptive["lost"], "≤", 0.01),
        ("sums: share of the samples that it uses", adaptive["share_used"], "≤", 0.6),
    ]


def _speculation(found: dict[str, Any]) -> list[Row]:
    part = found["speculation"]
    overall = at(part["overlap"], task="all", temperature=1.0)["rejection"]
    by_class = [
        row["rejection"]
        for row in part["overlap_by_class"]
        if row["temperature"] == 1.0 and row["tokens"] >= _FEW
    ]
    apart = max(by_class, default=0.0) - min(by_class, default=0.0)
    ngram = part["ngram_tokens_per_call"]
    return [
        ("draft: Σ min(p, q) at temperature 1, at least", overall, "≥", 0.6),
        ("draft: Σ min(p, q) at temperature 1, at most", overall, "≤", 0.95),
        ("draft: easiest − hardest token class", apart, "≥", 0.3),
        ("draft: greedy α on stories", part["greedy"]["stories"]["alpha"], "≥", 0.8),
        ("draft: greedy α on edits", part["greedy"]["edits"]["alpha"], "≥", 0.8),
        ("draft: predicted greedy speed-up at γ = 4, mean of tasks", part["speedup"], "≥", 1.9),
        ("n-gram: tokens per call on edits", ngram["edits"], "≥", 2.5),
        ("n-gram: edits − stories", ngram["edits"] - ngram["stories"], "≥", 1.2),
    ]


def _context(found: dict[str, Any]) -> list[Row]:
    begun = min(row["begun"] for row in found["past_the_end"])
    return [
        ("past the end: documents that begin again, at any temperature", begun, "≥", 0.95),
        ("context length", found["context"], "≥", 512),
    ]

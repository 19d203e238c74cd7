"""Exercise 15.5, what becomes of a draft."""

from collections.abc import Callable, Iterator
from typing import Any

from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.values import as_text, difference
from lablib.course.lessons.edges import refuse_changes
from lablib.course.lessons.lesson_15.found import found

import numpy as np


def judge(p, q):
    """Return a table (V, V) of chances: in row x, what is written after the draft was x.

    p: the target's probabilities (V,).   q: the draft's (V,), which the draft was drawn from.
    Both are after the temperature; at temperature 0 they are 1 for one token.
    A draft counts as kept when it is what is written: table[x, x]. Rows with q[x] = 0 never happen.
    The text must have the distribution p, and no other table may keep more drafts.
    """
    drafted = q > 0
    keep = np.where(drafted, np.minimum(1, p / np.where(drafted, q, 1)), 0)
    rest = np.maximum(p - q, 0)
    instead = rest / rest.sum() if rest.sum() > 0 else p
    return np.diag(keep) + np.outer(1 - keep, instead)


JUDGE_FOUND = """    # The target draws its own token; the draft counts as kept if it is the same.
    return np.tile(p, (len(p), 1))
"""


def judge_by_moving(p, q):
    joint = np.diag(np.minimum(p, q))
    lacking, spare = p - np.diag(joint), q - np.diag(joint)
    for x in range(len(p)):
        for y in range(len(p)):
            moved = min(spare[x], lacking[y])
            joint[x, y] += moved
            spare[x], lacking[y] = spare[x] - moved, lacking[y] - moved
    return joint / np.where(q > 0, q, 1)[:, None] + np.diag(q == 0)


def target_draws(p, q):
    return np.tile(p, (len(p), 1))


def keep_all(p, q):
    return np.eye(len(p))


def best_only(p, q):
    return np.tile(np.eye(len(p))[np.argmax(p)], (len(p), 1))


def _ruled(keep, instead):
    return np.diag(keep) + np.outer(1 - keep, instead)


def _keep(p, q):
    return np.where(q > 0, np.minimum(1, p / np.where(q > 0, q, 1)), 0)


def _rest(p, q):
    rest = np.maximum(p - q, 0)
    return rest / rest.sum() if rest.sum() > 0 else p


def corrected_from_p(p, q):
    return _ruled(_keep(p, q), p)


def upside_down(p, q):
    return _ruled(_keep(q, p), _rest(p, q))


def undivided(p, q):
    return _ruled(np.minimum(p, q), _rest(p, q))


def half_strict(p, q):
    return _ruled((p >= q).astype(float), _rest(p, q))


def rest_not_scaled(p, q):
    return _ruled(_keep(p, q), np.maximum(p - q, 0))


def rest_of_q(p, q):
    return _ruled(_keep(p, q), _rest(q, p))


def _pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(3)
    yield np.array([0.7, 0.2, 0.1]), np.array([0.4, 0.4, 0.2])
    yield np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])
    for size in (2, 5, 12):
        yield tuple(rng.dirichlet(np.ones(size), 2))
    yield np.full(50, 1 / 50), np.full(50, 1 / 50)  # a perfect drafter that can't know the draw


def _edge_pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield np.array([0.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0])  # temperature 0, right
    yield np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])  # and wrong
    yield np.array([0.5, 0.0, 0.5]), np.array([0.0, 0.5, 0.5])
    yield np.array([0.6, 0.3, 0.1]), np.array([0.0, 1.0, 0.0])  # looked up: certain
    yield np.array([1.0]), np.array([1.0])


def _table(function: Callable[..., Any], p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the rows of the table that can happen, or say what is no table."""
    table = np.asarray(function(p, q), dtype=float)
    if problem := difference(np.zeros((len(p), len(p))), np.nan_to_num(table), np.inf):
        raise Wrong(problem)
    rows = table[q > 0]
    if not np.isfinite(rows).all() or rows.min() < -1e-9 or abs(rows.sum(axis=1) - 1).max() > 1e-5:
        worst = rows[np.argmax(np.abs(rows.sum(axis=1) - 1))]
        raise Wrong(
            f"judge({as_text(p)}, {as_text(q)}): a row is {as_text(worst)}; chances sum to 1"
        )
    return table


def _law(function: Callable[..., Any], p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the distribution of what is written, and the share of the drafts kept."""
    table = np.where((q > 0)[:, None], _table(function, p, q), 0)
    return q @ table, float(q @ np.diag(table))


def _outcome(function: Callable[..., Any], pairs: Any) -> Any:
    """Return what is written and kept for each pair; of no table, what is wrong with it."""
    outcomes: list[Any] = []
    for p, q in pairs:
        try:
            outcomes.append(_law(function, p, q))
        except Wrong as wrong:
            outcomes.append(wrong.message)
    return outcomes


def _check_judge(function: Callable[..., Any]) -> None:
    for pairs in ([*_pairs()], [*_edge_pairs()]):
        got = _outcome(function, pairs)
        for (p, q), outcome in zip(pairs, got, strict=True):
            if fault := _broken(p, q, outcome):
                theirs = (name.__name__ for name in JUDGES if _alike(_outcome(name, pairs), got))
                raise Wrong(fault, like=next(theirs, None))
    refuse_changes(function)


def _broken(p: np.ndarray, q: np.ndarray, outcome: Any) -> str | None:
    """Return what is wrong with an outcome, if anything is."""
    if isinstance(outcome, str):
        return outcome
    written, kept = outcome
    call, most = f"judge({as_text(p)}, {as_text(q)})", float(np.minimum(p, q).sum())
    if np.abs(written - p).max() > 1e-5:
        return f"{call}: the text would be {as_text(written)}, and should be p"
    if kept < most - 1e-5:
        return f"{call}: the text is right, but keeps {kept:.3f} of the drafts; {most:.3f} can be"
    return None


def _alike(a: Any, b: Any) -> bool:
    return all(
        one == other
        if isinstance(one, str) or isinstance(other, str)
        else np.allclose(one[0], other[0]) and np.isclose(one[1], other[1])
        for one, other in zip(a, b, strict=True)
    )


JUDGES = {
    target_draws: (
        "the text is right and the drafts are wasted: the target draws its own token, and two "
        "independent draws rarely meet. Σ p·q are kept; Σ min(p, q) can be."
    ),
    keep_all: "every draft is kept: the text is the draft model's, q, not the target's.",
    best_only: (
        "the draft is compared with the target's best token. Above temperature 0 the text must be "
        "drawn, and yours is greedy."
    ),
    corrected_from_p: (
        "after a refusal you draw from p. Part of p was written by the kept drafts already: draw "
        "from what is left, max(p − q, 0)."
    ),
    upside_down: "the ratio is upside down: keep with min(1, p/q), not q/p.",
    undivided: (
        "you keep x with the chance min(p, q). x is drafted with the chance q already: divide, "
        "min(1, p/q)."
    ),
    half_strict: "a draft with p < q is not always refused: it stays with the chance p/q.",
    rest_not_scaled: "what is left, max(p − q, 0), must be scaled to sum to 1 before one draws.",
    rest_of_q: "you draw from max(q − p, 0), of which there was too much already.",
}

JUDGE = Exercise(
    id="15.5",
    title="Always at 0, never above",
    task=(
        "At temperature 0 the code as found keeps every draft of a good drafter. Above 0 it keeps "
        "almost none, though the text is right. Keep as many as can be kept."
    ),
    stars=3,
    minutes=12,
    reference=judge,
    starter=found(judge, JUDGE_FOUND),
    alternatives=[judge_by_moving],
    wrong=JUDGES,
    checker=_check_judge,
    hints=[
        "x is drafted with the chance q[x] and wanted with p[x]. How much of both can meet?",
        "Keep x with min(1, p[x] / q[x]). Instead of a refused draft, draw from "
        "max(p - q, 0), scaled to sum to 1.",
        "np.diag(keep) + np.outer(1 - keep, instead); mind q = 0 and p = q.",
    ],
    next="Give it a q of another temperature than the draft's. What is written?",
)

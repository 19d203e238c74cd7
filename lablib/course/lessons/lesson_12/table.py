"""Lesson 12's table: eleven claims of the lessons before, by kind, and what real models say."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from lablib.course.lessons.lesson_12 import runs
from lablib.course.lessons.lesson_12.runs import REFUTED, ROUNDED, WITHIN, Estimate
from lablib.models.zoo import CHECKPOINTS

import numpy as np
from scipy import stats

PROVED, MODEL, MACHINE = "proved", "of the model", "of the machine"
WIDE = 4  # votes of 8 by which a winner is far ahead
N = runs.COUNTS.index(8)


class Row(NamedTuple):
    """A claim, and what came of it.

    Attributes:
        kind: what it rests on: PROVED, MODEL or MACHINE.
        lesson: where it was made.
        claim: what it says.
        here: the number, with its unit and its 95 % interval.
        n: how many cases it is of.
        visible: the smallest size that so many cases show, four times in five.
        verdict: "held", "held within 10 points", "held up to rounding", "not held" or "not told
            apart".
        part: the run that it is from.
        size: the number and its interval's ends, in units of what is visible.
        within: how far a share that is said not to change may be off, in the same unit.
    """

    kind: str
    lesson: str
    claim: str
    here: str
    n: str
    visible: str
    verdict: str
    part: str
    size: tuple[float, float, float]
    within: float | None = None


def in_visible(found: Estimate) -> tuple[float, float, float]:
    """Return a number and its interval's ends, in units of what it could have seen."""
    value, low, high = (x / found.visible for x in (found.value, found.low, found.high))
    return value, low, high


def points(found: Estimate, many: str = "questions") -> dict[str, Any]:
    """Return a difference of shares in points of a hundred, as a row has it."""
    value, low, high, visible = (
        100 * x for x in (found.value, found.low, found.high, found.visible)
    )
    here, seen = f"{value:+.1f} points ({low:+.1f} to {high:+.1f})", f"{visible:.1f} points"
    return {"here": here, "n": f"{found.n:,} {many}", "visible": seen, "size": in_visible(found)}


def factor(found: Estimate, many: str) -> dict[str, Any]:
    """Return a factor, of which the logarithm was estimated, as a row has it."""
    value, low, high = np.exp([found.value, found.low, found.high])
    here, seen = f"×{value:.2f} ({low:.2f} to {high:.2f})", f"×{np.exp(found.visible):.2f}"
    return {"here": here, "n": f"{found.n} {many}", "visible": seen, "size": in_visible(found)}


def texts(parted: int, n: int, exactly: int = 0) -> dict[str, Any]:
    """Return how many of n texts part, as a row has it: one that does so refutes.

    Args:
        parted: how many are other texts.
        n: of how many.
        exactly: how many of them are so in exact numbers, too, if any were parted.
    """
    ends = stats.binomtest(parted, n).proportion_ci(0.95)  # Clopper and Pearson 1934
    share, low, high = parted / n, float(ends.low), float(ends.high)
    seen = 1 - 0.2 ** (1 / n)  # of so many texts at least one parts, four times in five
    return {
        "here": f"{parted} parted ({100 * low:.1f} to {100 * high:.1f} %)",
        "n": f"{n} texts",
        "visible": f"{100 * seen:.1f} % of the texts",
        "size": (share / seen, low / seen, high / seen),
        "within": WITHIN / seen,
        "verdict": REFUTED if exactly else ROUNDED if parted else runs.unchanged(low, high),
    }


def bytes_bound() -> Row:
    """Lesson 02: a token waits for its weights, so that it takes their bytes' time or more."""
    (whole,) = (each for each in runs.stored("bits") if each["number"] == 32)
    least = whole["bytes"] / (1e9 * whole["bandwidth"])
    found = runs.mean_of([np.log(seconds / least) for seconds in whole["seconds"]])
    claim = "A token takes longer than its bytes (32 bits)"
    row = factor(found, "timings")
    return Row(MACHINE, "02", claim, verdict=runs.above(found), part="bits", **row)


def heat_costs() -> Row:
    """Lesson 03: what heat buys in different texts it costs in right ones."""
    asked, curves = runs.asked("facts"), runs.curves_of("facts")
    cold = asked.greedy()
    gains = asked.right(cold) - curves["single"].per_problem[:, 0]
    found = runs.mean_of(gains[cold != np.array(None)])
    claim = "A greedy answer is right more often than a drawn one"
    return Row(MODEL, "03", claim, verdict=runs.above(found), part="facts", **points(found))


def likeliest(part: str = "facts") -> Row:
    """Lesson 05: a judge picks from many; here it is the model's own log-probability."""
    claim = "The likeliest of 8 is right more often than one"
    return _chosen(part, "05", claim, "best: likeliest", "single")


def votes(part: str = "facts") -> Row:
    """Lesson 06: a vote finds the favourite, and the favourite is right more often."""
    return _chosen(part, "06", "A vote of 8 is right more often than one", "majority", "single")


def likeliest_or_vote(part: str = "facts") -> Row:
    """Lesson 06: at equal tokens, the model's own judgement against many voices."""
    claim = "The likeliest of 8 is right more often than a vote"
    return _chosen(part, "06", claim, "best: likeliest", "majority")


def gained(one: str, other: str, part: str = "facts") -> Estimate:
    """Return how much more often one way to choose of eight is right than another, in pairs."""
    curves = runs.curves_of(part)
    return runs.mean_of(np.subtract(*(curves[way].per_problem[:, N] for way in (one, other))))


def gained_there(one: str, other: str) -> Estimate:
    """Return the same of lesson 06's sums by a small model, of which no pairs were kept.

    So its error is too large, if anything.
    """
    run = json.loads((CHECKPOINTS / "evaluation.json").read_text("utf-8"))
    n, curves = run["about"]["plan"]["problems"], run["sums"]["curves"]
    names = [x.replace("likeliest", "log-probability") for x in (one, other)]
    shares = [next(x["accuracy"] for x in curves[name] if x["n"] == 8) for name in names]
    variance = sum(share * (1 - share) / n for share in shares)
    return Estimate(shares[0] - shares[1], variance**0.5, n)


def _chosen(part: str, lesson: str, claim: str, one: str, other: str) -> Row:
    """Compare two ways to choose, question by question."""
    found = gained(one, other, part)
    return Row(MODEL, lesson, claim, verdict=runs.above(found), part=part, **points(found))


def sizes() -> list[tuple[str, Estimate, Estimate, Estimate, str]]:
    """Return of each gain that lesson 06 shows its claim, there and here, the change, a verdict.

    Two intervals may overlap though their difference lies apart from 0: its error is the root of
    the sum of both errors' squares.
    """
    found = []
    for row, *pair in (
        (likeliest, "best: likeliest", "single"),
        (votes, "majority", "single"),
        (likeliest_or_vote, "best: likeliest", "majority"),
    ):
        here, there = gained(*pair), gained_there(*pair)
        off = Estimate(here.value - there.value, np.hypot(here.error, there.error), here.n)
        found.append((row().claim, there, here, off, runs.unchanged(off.low, off.high)))
    return found


def leads_tell(part: str = "facts") -> Row:
    """Lesson 06: winners that are far ahead are right more often."""
    won, leads = runs.curves_of(part)["majority"].per_problem[:, N], runs.asked(part).leads
    found = runs.between(won[leads >= WIDE], won[leads < WIDE])
    claim = f"A winner {WIDE} votes ahead is right more often than others"
    return Row(MODEL, "06", claim, verdict=runs.above(found), part=part, **points(found))


def greedy_texts() -> Row:
    """Lesson 07: the target has the last word at every place, so that the text can't change."""
    same = _same("drafts")
    return Row(PROVED, "07", "Drafts change no greedy text", part="drafts", **texts(*same))


def drawn_texts() -> Row:
    """Lesson 08: under ``match`` a seed's text is the plain one."""
    mended = [each["equal with same_bits"] for each in runs.stored("rounding")]
    row = texts(*_same("match"), exactly=mended.count(False))
    return Row(PROVED, "08", "Under match drafts change no drawn text", part="match", **row)


def _same(part: str) -> tuple[int, int]:
    """Count the texts of both drafters that are not the plain ones, and all."""
    same = [each[name]["equal"] for each in runs.stored(part) for name in ("head", "look-up")]
    return same.count(False), len(same)


def rejection_keeps() -> Row:
    """Lesson 08: rejection keeps Σ min(p, q) of the drafts."""
    _, _, off = runs.kept_and_promised(runs.stored("law"))
    row = {**points(off, "drafts"), "within": WITHIN / off.visible}
    claim = "Rejection keeps Σ min(p, q) of the drafts"
    verdict = runs.unchanged(off.low, off.high)
    return Row(PROVED, "08", claim, verdict=verdict, part="law", **row)


def window_wraps() -> Row:
    """Lesson 10: what fell out of a window can't be brought back, so drafts must wait outside."""
    records = runs.stored("window")
    row = texts(sum(each["lablib"] is not None for each in records), len(records))
    claim = "Past Gemma's window drafts change no greedy text"
    return Row(PROVED, "10", claim, part="window", **row)


def heads_know() -> Row:
    """Lesson 09: a look-up is right where a text repeats itself, a head elsewhere, too."""
    records = [each for each in runs.stored("drafts") if each["kind"] != "copies"]
    gains = runs.per_call(records, "head") / runs.per_call(records, "look-up")
    found = runs.mean_of(np.log(gains))
    claim = "Where nothing is copied a head brings more than look-up"
    row = factor(found, "texts")
    return Row(MODEL, "09", claim, verdict=runs.above(found), part="drafts", **row)


ELEVEN: tuple[Callable[..., Row], ...] = (
    greedy_texts, drawn_texts, rejection_keeps, window_wraps, heat_costs, likeliest, votes,
    likeliest_or_vote, leads_tell, heads_know, bytes_bound,
)  # fmt: skip


def rows() -> list[Row]:
    """Return the table, kind after kind."""
    return [make() for make in ELEVEN]


def claimed(some: list[Row]) -> str:
    """Return what rows claim, before anybody knows what came of it."""
    kinds = dict.fromkeys(row.kind for row in some)
    return "\n".join(
        "\n".join([kind, *(f"  {row.lesson}  {row.claim}" for row in some if row.kind == kind)])
        for kind in kinds
    )


def printed(some: list[Row]) -> str:
    """Return rows as text, two lines each."""
    return "\n".join(
        f"{row.lesson}  {row.claim}: {row.verdict}"
        f"\n    {row.here}, {row.n}, visible from {row.visible}"
        for row in some
    )

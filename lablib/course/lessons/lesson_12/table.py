"""Lesson 12's table: eleven claims of the lessons before, and what two real models say to them."""

from collections.abc import Callable
from typing import Any, NamedTuple

from lablib.course.lessons.lesson_12 import runs
from lablib.course.lessons.lesson_12.runs import HELD, REFUTED, Estimate

import numpy as np

WIDE = 4  # votes of 8 by which a winner is far ahead
N = runs.COUNTS.index(8)


class Row(NamedTuple):
    """A claim, and what came of it.

    Attributes:
        lesson: where it was made.
        claim: what it says.
        here: the number, with its unit and its 95 % interval.
        n: how many cases it is of.
        visible: the smallest difference that so many cases show.
        verdict: "held", "not held" or "not told apart".
        part: the run that it is from.
        points: the difference of two shares, if it is one.
    """

    lesson: str
    claim: str
    here: str
    n: str
    visible: str
    verdict: str
    part: str
    points: Estimate | None = None


def points(found: Estimate, many: str = "questions") -> dict[str, Any]:
    """Return a difference of shares in points of a hundred, as a row has it."""
    value, low, high, visible = (
        100 * x for x in (found.value, found.low, found.high, found.visible)
    )
    here = f"{value:+.1f} points ({low:+.1f} to {high:+.1f})"
    visible = f"{visible:.1f} points"
    return {"here": here, "n": f"{found.n:,} {many}", "visible": visible, "points": found}


def factor(found: Estimate, many: str) -> dict[str, str]:
    """Return a factor, of which the logarithm was estimated, as a row has it."""
    value, low, high = np.exp([found.value, found.low, found.high])
    here, visible = f"×{value:.2f} ({low:.2f} to {high:.2f})", f"×{np.exp(found.visible):.2f}"
    return {"here": here, "n": f"{found.n} {many}", "visible": visible}


def texts(equal: int, n: int) -> dict[str, str]:
    """Return how many of n texts are equal, as a row has it: one exception refutes.

    Of n independent texts, at least one differs 95 times in a hundred where a share of 3/n does.
    """
    verdict = HELD if equal == n else REFUTED
    here, visible = f"{equal} of {n} equal", f"{min(300 / n, 100):.1f} % of the texts"
    return {"here": here, "n": f"{n} texts", "visible": visible, "verdict": verdict}


def bytes_decide() -> Row:
    """Lesson 02: a forward waits for its weights, so that a token takes their bytes' time."""
    (whole,) = (each for each in runs.stored("bits") if each["number"] == 32)
    least = whole["bytes"] / (1e9 * whole["bandwidth"])
    found = runs.mean_of([np.log(seconds / least) for seconds in whole["seconds"]])
    claim = "A token of 32 bits takes as long as the model's bytes take from memory: ×1"
    return Row("02", claim, verdict=runs.equal(found), part="bits", **factor(found, "timings"))


def heat_costs(part: str = "facts") -> Row:
    """Lesson 03: what heat buys in different texts it costs in right ones."""
    asked, curves = runs.asked(part), runs.curves_of(part)
    gains = asked.greedy - curves["single"].per_problem[:, 0]
    found = runs.mean_of(gains[~np.isnan(gains)])
    claim = "A greedy answer is right more often than a drawn one"
    return Row("03", claim, verdict=runs.above(found), part=part, **points(found))


def likeliest(part: str = "facts") -> Row:
    """Lesson 05: a judge picks from many; here it is the model's own log-probability."""
    claim = "The likeliest of 8 is right more often than one"
    return _chosen(part, "05", claim, ("best: likeliest", N), ("single", 0))


def votes(part: str = "facts") -> Row:
    """Lesson 06: a vote finds the favourite, and the favourite is right more often."""
    claim = "A vote of 8 is right more often than one"
    return _chosen(part, "06", claim, ("majority", N), ("single", 0))


def vote_or_likeliest(part: str = "facts") -> Row:
    """Lessons 05 and 06: at equal tokens, many voices against the model's own judgement."""
    claim = "A vote of 8 is right more often than the likeliest of the same 8"
    return _chosen(part, "06", claim, ("majority", N), ("best: likeliest", N))


def _chosen(
    part: str, lesson: str, claim: str, one: tuple[str, int], other: tuple[str, int]
) -> Row:
    """Compare two ways to choose, each of a number of samples, question by question."""
    curves = runs.curves_of(part)
    found = runs.mean_of(np.subtract(*(curves[w].per_problem[:, n] for w, n in (one, other))))
    return Row(lesson, claim, verdict=runs.above(found), part=part, **points(found))


def leads_tell(part: str = "facts") -> Row:
    """Lesson 06: winners that are far ahead are right more often."""
    won, leads = runs.curves_of(part)["majority"].per_problem[:, N], runs.asked(part).leads
    found = runs.between(won[leads >= WIDE], won[leads < WIDE])
    claim = f"A winner {WIDE} votes ahead is right more often than a narrow one"
    return Row("06", claim, verdict=runs.above(found), part=part, **points(found))


def greedy_texts() -> Row:
    """Lesson 07: the target has the last word at every place, so that the text can't change."""
    return _same("07", "Drafts change no greedy text", "drafts")


def drawn_texts() -> Row:
    """Lesson 08: under ``match`` a seed's text is the plain one."""
    return _same("08", "Under match drafts change no text that is drawn (T = 1)", "match")


def _same(lesson: str, claim: str, part: str) -> Row:
    """Count the texts of both drafters that are the plain ones."""
    same = [each[name]["equal"] for each in runs.stored(part) for name in ("head", "look-up")]
    return Row(lesson, claim, part=part, **texts(sum(same), len(same)))


def rejection_keeps() -> Row:
    """Lesson 08: rejection keeps Σ min(p, q) of the drafts."""
    kept, promised, off = runs.kept_and_promised(runs.stored("law"))
    claim = f"Rejection keeps Σ min(p, q) of the drafts: {promised:.1%}, kept {kept:.1%}"
    return Row("08", claim, verdict=runs.equal(off), part="law", **points(off, "drafts"))


def heads_know() -> Row:
    """Lesson 09: a look-up is right where a text repeats itself, a head elsewhere, too."""
    records = [each for each in runs.stored("drafts") if each["kind"] != "copies"]
    gains = runs.per_call(records, "head") / runs.per_call(records, "look-up")
    found = runs.mean_of(np.log(gains))
    claim = "Where nothing is copied a head brings more tokens a call than look-up"
    return Row("09", claim, verdict=runs.above(found), part="drafts", **factor(found, "texts"))


def window_wraps() -> Row:
    """Lesson 10: what fell out of a window can't be brought back, so drafts must wait outside."""
    records = runs.stored("window")
    claim = "Past a window of 512 (Gemma 3) drafts change no greedy text"
    return Row(
        "10", claim, part="window", **texts(sum(e["lablib"] is None for e in records), len(records))
    )


ELEVEN: tuple[Callable[..., Row], ...] = (
    bytes_decide, heat_costs, likeliest, votes, vote_or_likeliest, leads_tell, greedy_texts,
    drawn_texts, rejection_keeps, heads_know, window_wraps,
)  # fmt: skip


def rows() -> list[Row]:
    """Return the table."""
    return [make() for make in ELEVEN]


def printed(some: list[Row]) -> str:
    """Return rows as text, three lines each."""
    return "\n".join(
        f"{row.lesson}  {row.claim}\n    {row.here}, {row.n}, visible from {row.visible}"
        f"\n    -> {row.verdict}"
        for row in some
    )

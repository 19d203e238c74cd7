"""The stored runs of lesson 12, and what may be said from them: estimates and verdicts.

``measured.py`` made them.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from lablib.course.lessons.lesson_12.facts import answer, facts
from lablib.course.replay.curves import Curve, Sampled, vote_curves

import numpy as np
from scipy import stats

STORED = Path(__file__).with_name("stored")
LETTERS, COUNTS = "abcdefgh", (1, 2, 4, 8)
SEEN = 0.84  # standard errors more, so that four intervals in five show a difference
ALL = "all kinds"
HELD, REFUTED, OPEN = "held", "not held", "not told apart"
WITHIN = 0.1  # how far a share that is said not to change may be off, and must be told to be
NEAR = f"held within {100 * WITHIN:.0f} points"
ROUNDED = "held up to rounding"  # texts parted, and in exact numbers they would not


class Estimate(NamedTuple):
    """A number that was measured.

    Attributes:
        value: the mean.
        error: its standard error.
        n: how many independent cases it is of.
        freedom: degrees of freedom of the error: Student's t widens what few cases say.
    """

    value: float
    error: float
    n: int
    freedom: float = math.inf

    @property
    def half(self) -> float:
        """Return half of the 95 % interval."""
        return float(stats.t.ppf(0.975, self.freedom)) * self.error

    @property
    def low(self) -> float:
        """Return the lower end of the 95 % interval."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """Return the upper end."""
        return self.value + self.half

    @property
    def visible(self) -> float:
        """Return the smallest difference that so many cases show, four times in five."""
        return self.half + SEEN * self.error


def stored(part: str) -> list[dict[str, Any]]:
    """Return the records of a run."""
    return json.loads((STORED / f"{part}.json").read_text("utf-8"))["records"]


def command(part: str) -> str:
    """Return what made them."""
    return json.loads((STORED / f"{part}.json").read_text("utf-8"))["about"]["command"]


# ------------------------------------------------------------------ estimates and verdicts
def mean_of(values: Sequence[float] | np.ndarray) -> Estimate:
    """Return the mean of independent values, differences of pairs for example."""
    values = np.asarray(values, dtype=float)
    n = len(values)
    return Estimate(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n), n, n - 1)


def between(ones: np.ndarray, others: np.ndarray) -> Estimate:
    """Return how far the mean of some cases lies above that of others, which are no pairs."""
    a, b = mean_of(ones), mean_of(others)
    error = math.hypot(a.error, b.error)
    # Welch 1947: as if each had a spread of its own
    freedom = error**4 / ((a.error**4) / a.freedom + (b.error**4) / b.freedom)
    return Estimate(a.value - b.value, error, a.n + b.n, freedom)


def above(found: Estimate, claimed: float = 0.0) -> str:
    """Return the verdict on the claim that a number is larger than ``claimed``."""
    if found.low > claimed:
        return HELD
    return REFUTED if found.high < claimed else OPEN


def unchanged(low: float, high: float) -> str:
    """Return the verdict on the claim that a share does not change, by its change's interval.

    That an interval holds 0 is not enough, because that of few cases always does.
    """
    if not low <= 0 <= high:
        return REFUTED
    return NEAR if max(-low, high) <= WITHIN else OPEN


# ------------------------------------------------------------------ votes
def chosen(record: dict[str, Any]) -> list[Any]:
    """Return a question's samples ``[text, log-probability, tokens]``, as they were drawn."""
    return [record["texts"][LETTERS.index(letter)] for letter in record["of"]]


def sampled(record: dict[str, Any], truth: str) -> Sampled:
    """Return a question's samples as ``vote_curves`` takes them; an empty text has no vote."""
    samples = chosen(record)
    scores = {
        "likeliest": [log for _, log, _ in samples],
        "likeliest, by the mean": [log / size for _, log, size in samples],
    }
    return Sampled(truth, [answer(text) or None for text, *_ in samples], scores)


class Asked(NamedTuple):
    """The questions of a run.

    Attributes:
        records: what was written.
        kinds: of each question ``(K,)``.
        truths: its answer.
        problems: its samples.
    """

    records: list[dict[str, Any]]
    kinds: np.ndarray
    truths: list[str]
    problems: list[Sampled]

    def greedy(self, bits: int = 32) -> np.ndarray:
        """Return the greedy answers of so many bits ``(K,)``, None where none was asked."""
        known = {each["number"]: answer(each[str(bits)]) for each in stored("greedy")}
        return np.array([known.get(record["number"]) for record in self.records], object)

    def right(self, answers: Sequence[str | None]) -> np.ndarray:
        """Return which of the answers are true, 1 or 0: ``(K,)``."""
        return np.equal(np.array(answers, object), np.array(self.truths, object)).astype(float)

    @property
    def favourites(self) -> dict[str, np.ndarray]:
        """Return what a vote of all samples elects, and the likeliest sample's answer: ``(K,)``."""
        tallies = [Counter(filter(None, problem.answers)) for problem in self.problems]
        voted = [next((each for each, _ in tally.most_common(1)), None) for tally in tallies]
        best = [p.answers[int(np.argmax(p.scores["likeliest"]))] for p in self.problems]
        return {"the vote": np.array(voted, object), "the likeliest": np.array(best, object)}

    @property
    def leads(self) -> np.ndarray:
        """Return how many votes of 8 the winner has more than the second, ``(K,)``."""
        tallies = [sorted(Counter(filter(None, p.answers)).values()) for p in self.problems]
        return np.array([sum(each[-1:]) - sum(each[-2:-1]) for each in tallies])


def asked(part: str = "facts") -> Asked:
    """Return the questions of a stored run."""
    known, records = facts(), stored(part)
    mine = [known[each["number"]] for each in records]
    problems = [sampled(*pair) for pair in zip(records, (f.truth for f in mine), strict=True)]
    kinds, truths = zip(*((fact.kind, fact.truth) for fact in mine), strict=True)
    return Asked(records, np.array(kinds), list(truths), problems)


@lru_cache
def curves_of(part: str = "facts") -> dict[str, Curve]:
    """Return what each way to choose makes of a run's questions, at each of ``COUNTS`` samples."""
    return vote_curves(asked(part).problems, COUNTS, confidence=None, orders=8)


# ------------------------------------------------------------------ drafts
def kept_and_promised(records: Sequence[dict[str, Any]]) -> tuple[float, float, Estimate]:
    """Return the share of drafts kept, the share promised, and how far the first lies above.

    Each place where a draft was judged tosses a coin of its own, which falls with Σ min(p, q).
    """
    kept, judged, shared, variance = (
        sum(each[name] for each in records) for name in ("kept", "judged", "min", "variance")
    )
    off = Estimate((kept - shared) / judged, math.sqrt(variance) / judged, judged)
    return kept / judged, shared / judged, off


def laws() -> dict[str, tuple[float, float, Estimate]]:
    """Return of each drafter and temperature what :func:`kept_and_promised` says."""
    records = stored("law")
    named = {f"{each['drafter']}, T = {each['T']:g}": [] for each in records}
    for each in records:
        named[f"{each['drafter']}, T = {each['T']:g}"].append(each)
    return {name: kept_and_promised(some) for name, some in sorted(named.items())}


def by_kind(
    what: Callable[..., np.ndarray], records: Sequence[dict[str, Any]]
) -> dict[str, list[np.ndarray]]:
    """Return of each drafter what ``per_call``, ``prices`` or ``speedups`` says of each kind."""
    kinds = dict.fromkeys(each["kind"] for each in records)
    some = {kind: [each for each in records if each["kind"] == kind] for kind in kinds}
    return {name: [what(some[kind], name) for kind in kinds] for name in ("head", "look-up")}


def per_call(records: Sequence[dict[str, Any]], drafter: str) -> np.ndarray:
    """Return how many tokens a call of the model brought in each text: ``(texts,)``."""
    return np.array([each[drafter]["per_call"] for each in records])


def prices(records: Sequence[dict[str, Any]], drafter: str) -> np.ndarray:
    """Return how many plain calls' time a drafted one took in each text: ``(texts,)``.

    The clocks begin with the first token, behind a text's first call.
    """
    plain = [each["seconds"] / (each["tokens"] - 1) for each in records]
    drafted = [each[drafter]["seconds"] / (each[drafter]["rounds"] - 1) for each in records]
    return np.divide(drafted, plain)


def speedups(records: Sequence[dict[str, Any]], drafter: str) -> np.ndarray:
    """Return how many times as fast drafts made each text: its tokens a call, over their price."""
    return per_call(records, drafter) / prices(records, drafter)


# ------------------------------------------------------------------ bits
def token_times() -> dict[int, tuple[float, float, float]]:
    """Return by bits the megabytes, the milliseconds that they take, and those of a token."""
    return {
        each["number"]: (
            each["bytes"] / 1e6,
            each["bytes"] / each["bandwidth"] / 1e6,
            1e3 * float(np.exp(np.mean(np.log(each["seconds"])))),
        )
        for each in stored("bits")
    }

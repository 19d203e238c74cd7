"""What votes make of real models' confidences, on the same eight samples of each question.

``real.py`` made the stored runs. All ways to choose but one sample read the same texts, so that
they cost the same tokens, and their differences are taken question by question.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from lablib.course.lessons.lesson_12 import runs
from lablib.course.lessons.lesson_12.facts import answer, facts
from lablib.course.lessons.lesson_12.runs import Estimate
from lablib.course.lessons.lesson_18 import real
from lablib.course.lessons.lesson_18.chains import ordered, surest
from lablib.course.replay.curves import Sampled, vote_curves
from lablib.course.theory.estimators import wilson_interval

import numpy as np

NAMES = {"single": "one sample", "majority": "majority", "best: likeliest": "the likeliest"}
POWER = 4.0
HALF = 0.5  # of eight samples the surest four vote: a tenth would be one
SAID = (0.2, 0.4, 0.6, 0.8)  # edges of chances
BETTER, WORSE = "right more often", "right less often"
OPEN = runs.OPEN
VERDICTS = {runs.HELD: BETTER, runs.REFUTED: WORSE, runs.OPEN: OPEN}
WRITTEN = {  # measures of what was written, which lesson 12 kept
    "log-probability": "mean",
    "log-probability of the whole text": "sum",
}
THOUGHT = {  # measures of all that the model thought, as lesson 18 calls them
    "mean of the best 5": "best 5",
    "its last 2 tokens": "tail",
    "its worst token": "lowest",
    "minus the entropy": "entropy",
    "self-certainty": "all",
}
LIKELIER = "the likelier half"  # by the whole text's log-probability
HALVES = {f"surest half: {name}": kept for name, kept in (WRITTEN | THOUGHT).items()}
HALVES = {LIKELIER: "sum"} | {name: kept for name, kept in HALVES.items() if kept != "sum"}
GREEDY = "one greedy answer"  # of the questions that lesson 12 asked so, too
CONFIDENT, LIKELY, POWERED = "each by its confidence", "each by its probability", "p⁴, by weights"


class Question(NamedTuple):
    """A question, and its eight samples.

    Attributes:
        number: its place in lesson 12's ``facts``.
        kind: what it is about.
        truth: its answer.
        answers: of each sample, None for an empty one.
        sure: of each, by name: its log-probability "sum", that by the token, "mean"; and what was
            kept of it where it was read again; ``(8,)``.
    """

    number: int
    kind: str
    truth: str
    answers: list[str | None]
    sure: dict[str, np.ndarray]

    @property
    def right(self) -> np.ndarray:
        """Return whether each sample is right, ``(8,)``."""
        return np.array([each == self.truth for each in self.answers])


@lru_cache
def questions(model: str = "smollm2") -> list[Question]:
    """Return the questions that a model was asked, with what is known of its samples."""
    every, found = facts(), []
    part = real.STORED / f"{real.name_of('sure', model)}.json"
    kept = {each["number"]: each for each in real.stored("sure", model)} if part.exists() else {}
    for record in runs.stored(real.name_of("facts", model)):
        texts, number = record["texts"], record["number"]
        which = [runs.LETTERS.index(letter) for letter in record["of"]]
        logs = np.array([[log, log / size] for _, log, size in texts])
        sure = dict(zip(("sum", "mean"), logs[which].T, strict=True))
        if number in kept:
            columns = np.array(kept[number]["texts"])[which].T
            sure |= dict(zip(real.KEPT, columns, strict=True))
        answers = [answer(texts[i][0]) or None for i in which]
        found.append(Question(number, every[number].kind, every[number].truth, answers, sure))
    return found


def weights_of(question: Question) -> dict[str, np.ndarray]:
    """Return the logarithms by which each way to vote weighs a question's samples, ``(8,)``."""
    sure = question.sure
    weights = {way: surest(sure[kept], HALF) for way, kept in HALVES.items() if kept in sure} | {
        LIKELY: sure["sum"]
    }
    if "warm" in sure:
        weights[CONFIDENT] = np.log(sure["best 5"])
        # Drawn at a temperature, so that what is weighed is p⁴ over the chance of being drawn.
        weights[POWERED] = POWER * sure["sum"] - sure["warm"]
    return weights


@lru_cache
def right(model: str = "smollm2") -> dict[str, np.ndarray]:
    """Return of each way to choose whether it is right: a share for each question, ``(K,)``.

    It is NaN where a question was not read again, and a way needs what was thought; and where
    SmolLM2 was not asked for a greedy answer.
    """
    every = questions(model)
    found: dict[str, np.ndarray] = {}
    for read in (False, True):
        here = np.array([("warm" in each.sure) == read for each in every])
        some = [
            Sampled(q.truth, q.answers, {"likeliest": q.sure["sum"].tolist()}, weights_of(q))
            for q, mine in zip(every, here, strict=True)
            if mine
        ]
        curves = vote_curves(some, (8,), confidence=None, orders=8) if some else {}
        for way, curve in curves.items():
            name = NAMES.get(way) or way.removeprefix("weighted: ")
            column = found.setdefault(name, np.full(len(every), np.nan))
            column[here] = curve.per_problem[:, 0]
    if model == "smollm2":
        asked = runs.asked("facts")
        cold = asked.greedy()
        found[GREEDY] = np.where([each is None for each in cold], np.nan, asked.right(cold))
    return found


def ways(model: str = "smollm2") -> list[str]:
    """Return the ways to choose that are compared with the vote of all eight, in their order."""
    order = ["one sample", "the likeliest", LIKELY, CONFIDENT, *HALVES, POWERED]
    return [way for way in order if way in right(model)]


def gain(way: str, model: str = "smollm2", on: str = "majority") -> Estimate:
    """Return how much more often a way is right than another, question by question."""
    apart = right(model)[way] - right(model)[on]
    return runs.mean_of(apart[~np.isnan(apart)])


def verdict(found: Estimate) -> str:
    """Return whether something is right more often, less often, or not told apart."""
    return VERDICTS[runs.above(found)]


def points(found: Estimate) -> str:
    """Return a difference of shares in points of a hundred, and its interval, in words."""
    value, low, high = (100 * x for x in (found.value, found.low, found.high))
    return f"{value:.1f} points (95 %: {low:.1f} to {high:.1f})"


def pairs(measure: str, model: str = "smollm2") -> Estimate:
    """Return how often a right sample is surer than a wrong one of the same question."""
    kept = (WRITTEN | THOUGHT)[measure]
    asked = [q for q in questions(model) if kept in q.sure]
    each = [ordered(q.sure[kept], q.right) for q in asked]
    return runs.mean_of([share for share in each if share == share])


# ------------------------------------------------------------------ calibration
def elected(question: Question) -> tuple[float, bool]:
    """Return the chance that the model gave to its samples' favourite, and if that is right.

    The chance is the sum of the different texts' that give this answer: those that were seen.
    """
    named = [each for each in question.answers if each is not None]
    best = max(dict.fromkeys(named), key=named.count, default="")
    texts = {
        (float(p), each)
        for p, each in zip(question.sure["sum"], question.answers, strict=True)
        if each == best
    }
    return min(1.0, sum(np.exp(log) for log, _ in texts)), best == question.truth


def calibration(model: str = "smollm2", some: Any = None) -> list[dict[str, Any]]:
    """Return of each bin of ``SAID`` what was ``said`` and what was ``right``, with its interval.

    Args:
        model: whose run.
        some: numbers of the questions that count; all unless they are given.
    """
    chosen = [each for each in questions(model) if some is None or each.number in some]
    said, won = np.array([elected(each) for each in chosen]).T
    found = []
    for place, span in enumerate(pairwise([0, *SAID, 1])):
        here = np.digitize(said, SAID) == place
        n = int(here.sum())
        if n:
            ends = wilson_interval(float(won[here].sum()), n)
            share = float(won[here].mean()), *ends
            name = f"{span[0]:g} to {span[1]:g}"
            found.append({"bin": name, "n": n, "said": float(said[here].mean()), "right": share})
    return found


def off(bins: list[dict[str, Any]]) -> float:
    """Return the expected calibration error: how far the bins are off, weighed by their size."""
    whole = sum(each["n"] for each in bins)
    return sum(each["n"] * abs(each["said"] - each["right"][0]) for each in bins) / whole

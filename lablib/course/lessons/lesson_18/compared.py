"""What votes make of real models' confidences, on the same eight samples of each question.

``real.py`` made the stored runs. All ways to choose but one sample read the same texts, so that
they cost the same tokens, and their differences are taken question by question.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from lablib.course.lessons.lesson_12 import runs
from lablib.course.lessons.lesson_12.facts import answer, facts
from lablib.course.lessons.lesson_12.runs import Estimate
from lablib.course.lessons.lesson_18 import real
from lablib.course.lessons.lesson_18.chains import ordered, surest
from lablib.course.replay.curves import Sampled, vote_curves
from lablib.course.theory.estimators import wilson_interval

import numpy as np

HALF = 0.5  # of eight samples the surest four vote: a tenth would be one
SAID = (0.2, 0.4, 0.6, 0.8)  # edges of chances
BETTER, WORSE = "right more often", "right less often"
VERDICTS = {runs.HELD: BETTER, runs.REFUTED: WORSE, runs.OPEN: runs.OPEN}
MEASURES = {  # as lesson 18 calls them, by what is kept of a text
    "mean of the best 5": "best 5",
    "its last 2 tokens": "tail",
    "its worst token": "lowest",
    "minus the entropy": "entropy",
    "log-probability": "mean",
    "self-certainty": "all",
}


class Question(NamedTuple):
    """A question, and its eight samples.

    Attributes:
        number: its place in lesson 12's ``facts``.
        kind: what it is about.
        truth: its answer.
        answers: of each sample, None for an empty one.
        sure: of each, by name: what was kept of it, its log-probability "sum", and that by the
            token, "mean"; ``(8,)``.
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
    """Return the questions of which a run was stored."""
    every = facts()
    known = {each["number"]: each for each in runs.stored(real.name_of("facts", model))}
    found = []
    for record in real.stored("sure", model):
        number = record["number"]
        texts, of = known[number]["texts"], known[number]["of"]
        rows = [
            [log, log / size, *kept]
            for (_, log, size), kept in zip(texts, record["texts"], strict=True)
        ]
        which = [runs.LETTERS.index(letter) for letter in of]
        columns = np.array(rows)[which].T
        sure = dict(zip(("sum", "mean", *real.KEPT), columns, strict=True))
        answers = [answer(texts[i][0]) or None for i in which]
        found.append(Question(number, every[number].kind, every[number].truth, answers, sure))
    return found


def sampled(question: Question) -> Sampled:
    """Return a question's samples with what each way to choose weighs them by."""
    sure = question.sure
    weights = {name: surest(sure[kept], HALF) for name, kept in MEASURES.items()}
    weights["each by its confidence"] = np.log(sure["best 5"])
    weights["each by its probability"] = sure["sum"]
    # Drawn at a temperature, so that what is weighed is p⁴ over the chance of being drawn.
    weights["p⁴, by weights"] = real.POWER * sure["sum"] - sure["warm"]
    return Sampled(
        question.truth, question.answers, {"the likeliest": sure["sum"].tolist()}, weights
    )


@lru_cache
def right(model: str = "smollm2") -> dict[str, np.ndarray]:
    """Return of each way to choose whether it is right: a share for each question, ``(K,)``."""
    curves = vote_curves([*map(sampled, questions(model))], (8,), confidence=None, orders=8)
    names = {name.partition(": ")[2] or name: name for name in curves}
    found = {short: curves[name].per_problem[:, 0] for short, name in names.items()}
    if (real.STORED / f"{real.name_of('power', model)}.json").exists():
        found["p⁴, by a walk"] = walked(model)
    return found


def walked(model: str) -> np.ndarray:
    """Return whether a chain of p⁴ stands at the right answer, NaN where none was run: ``(K,)``."""
    texts = {each["number"]: each["text"] for each in real.stored("power", model)}
    return np.array(
        [
            float(answer(texts[each.number]) == each.truth) if each.number in texts else np.nan
            for each in questions(model)
        ]
    )


def gain(way: str, model: str = "smollm2", on: str = "majority") -> Estimate:
    """Return how much more often a way is right than another, question by question."""
    apart = right(model)[way] - right(model)[on]
    return runs.mean_of(apart[~np.isnan(apart)])


def verdict(found: Estimate) -> str:
    """Return whether something is right more often, less often, or not told apart."""
    return VERDICTS[runs.above(found)]


def pairs(measure: str, model: str = "smollm2") -> Estimate:
    """Return how often a right sample is surer than a wrong one of the same question."""
    each = [ordered(q.sure[MEASURES[measure]], q.right) for q in questions(model)]
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
    for place in range(len(SAID) + 1):
        here = np.digitize(said, SAID) == place
        n = int(here.sum())
        if n:
            ends = wilson_interval(float(won[here].sum()), n)
            share = float(won[here].mean()), *ends
            found.append({"n": n, "said": float(said[here].mean()), "right": share})
    return found


def off(bins: list[dict[str, Any]]) -> float:
    """Return the expected calibration error: how far the bins are off, weighed by their size."""
    whole = sum(each["n"] for each in bins)
    return sum(each["n"] * abs(each["said"] - each["right"][0]) for each in bins) / whole

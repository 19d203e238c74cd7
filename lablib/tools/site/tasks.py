"""Three exercises for the page: the lessons' own, with their cases and wrong ideas as JSON.

A visitor writes JavaScript. It is judged as in the notebook: the reference has answered every case
here, and so has each named wrong answer; whoever answers all the lesson's cases as one of these is
told which mistake it looks like. No solution is on the page.
"""

import contextlib
import functools
import json
import random
from collections.abc import Callable
from typing import Any

from lablib.course.checks.checking import judge
from lablib.course.checks.comparing import SEED
from lablib.course.checks.exercises import Exercise, find

import numpy as np

CHOSEN = "03.2", "08.3", "06.1"  # a transform, the residual, a majority
FAILS = {"error": True}  # what stands for an exception
_STARTERS = {
    "03.2": """// Keep the tokens that are at least m times as probable as the best one,
// and renormalise. probs: an array of probabilities; m: from 0 to 1.
function keep_likely(probs, m) {

}
""",
    "08.3": """// Return [keep, after] for a draft that was looked up: the chance that it
// stays, and the distribution of the token in its place if it does not
// (p itself if it is never refused). p: the large model's chances, an array;
// draft: the index of the guessed token.
function looked_up(p, draft) {

}
""",
    "06.1": """// Return the answer with the most votes; among equals the one that appeared
// first; null if there is none. answers: texts or numbers, null without one.
function majority(answers) {

}
""",
}
_HINTS = {  # where the lesson's speak of Python
    "03.2": [
        "One comparison and one division.",
        "`probs.map(x => ...)` keeps or clears each; the threshold goes with `Math.max(...probs)`.",
    ],
    "06.1": [
        "A `Map` keeps its keys in the order in which they came.",
        "If only a larger count takes the lead, the first of the largest keeps it.",
    ],
}


def tasks() -> list[dict[str, Any]]:
    """Return the exercises: what to do, cases with right answers, and wrong ideas with theirs."""
    return [_told(find(name)) for name in CHOSEN]


def _told(exercise: Exercise) -> dict[str, Any]:
    cases = _cases(exercise)
    wrong = [
        {"text": _in_javascript(text), "answers": [_answer(function, case) for case in cases]}
        for function, text in exercise.wrong.items()
    ]
    return {
        **{"id": exercise.id, "title": exercise.title, "task": _in_javascript(exercise.task)},
        **{"name": exercise.name, "starter": _STARTERS[exercise.id]},
        **{"hints": _HINTS.get(exercise.id, exercise.hints)},
        **{"cases": cases, "right": [_answer(exercise.reference, case) for case in cases]},
        **{"wrong": wrong, "tolerance": exercise.tolerance, "own": _own(exercise, cases)},
    }


def _in_javascript(text: str) -> str:
    return text.replace("None", "null")


def _cases(exercise: Exercise) -> list[Any]:
    """Return the arguments of every call by which the notebook judges a right answer.

    What JSON has no word for (NaN among the answers of a poll) is left out.
    """
    seen: dict[str, Any] = {}

    @functools.wraps(exercise.reference)
    def watched(*arguments: Any) -> Any:
        plain = _plain(arguments)
        with contextlib.suppress(ValueError):
            seen[json.dumps(plain, allow_nan=False)] = plain
        return exercise.reference(*arguments)

    outcome = judge(exercise, watched)
    assert outcome.correct, outcome
    return list(seen.values())


def _own(exercise: Exercise, cases: list[Any]) -> int:
    """Count the lesson's own cases, which come first: a mistake is recognised by these."""
    own = exercise.cases(np.random.default_rng(SEED))
    return sum(_plain(case) in cases for case in own)


def _answer(function: Callable[..., Any], case: list[Any]) -> Any:
    """Return the answer of a function to a case, in the words of JSON."""
    arguments = [np.array(value) if _is_row(value) else value for value in case]
    random.seed(0)  # some wrong ideas draw
    try:
        with np.errstate(all="ignore"):
            answer = _plain(function(*arguments))
        json.dumps(answer, allow_nan=False)
    except Exception:
        return FAILS
    return answer


def _is_row(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(x) is float for x in value)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value

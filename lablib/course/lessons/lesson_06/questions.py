"""The predictions of lesson 06's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

_DIE = "A die shows six in 30 % of its throws, each other face in 14 %."
_RIVAL = "A die shows five in 42 % of its throws and six in 30 %."
_UP = ("more often than after one", "less often than after one", "as often")

QUESTIONS = [
    Question("06.q1", f"{_DIE} How often is six the favourite of 100 throws, in per cent?"),
    Question("06.q2", f"{_RIVAL} How often is six the favourite of 100 throws?", _UP),
    Question(
        "06.q3",
        "A judge errs, now and then by very much. What is best with 64 samples?",
        (
            "best of 64",
            "plain votes",
            "votes that weigh e to the score",
            "votes that weigh σ of it",
        ),
    ),
    Question(
        "06.m1",
        "Most of 32 samples of a model agree. What does that say?",
        ("the answer is right", "it is the model's favourite, which may be wrong"),
        truth="b",
    ),
]

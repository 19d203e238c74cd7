"""The predictions of lesson 14's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

_PILE = "Eight units take 3, 1, 2, 6, 1, 2, 1, 2 seconds; whoever is free takes the next."

QUESTIONS = [
    Question("14.q1", f"{_PILE} After how many seconds are three workers done?"),
    Question(
        "14.q2",
        "Workers take units off one pile. When should the long units come?",
        ("first", "last"),
    ),
    Question(
        "14.q3",
        "Which seed gives a unit the same result with more workers, and in another order?",
        ("by worker", "by place in the list", "by what the unit is"),
    ),
    Question(
        "14.m1",
        "A sweep takes an hour on one machine. How long does it take on 1,000?",
        (
            "a thousandth of it",
            "longer than that: the start and the slowest unit are not divided",
        ),
        truth="b",
    ),
]

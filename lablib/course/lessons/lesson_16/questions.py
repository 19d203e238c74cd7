"""The predictions of lesson 16's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "16.q5",
        "Without drafts a target writes one token for the price of a call, with look-up 2.1. A "
        "drafter asks the target itself for eight drafts before each call, and all of them stay. "
        "What does it get, its own work paid for?",
        ("more than look-up", "less than look-up, more than one", "less than one"),
    ),
    Question(
        "16.q6",
        "What counts are stories that are valid and all different. A lower temperature than 1: "
        "what becomes of the score?",
        ("it rises", "it falls"),
    ),
    Question(
        "16.q7",
        "Two votes play three seeds of 48 problems, the same samples for both. Is the same one "
        "ahead on each seed?",
        ("on each", "not on each"),
    ),
    Question(
        "16.q8",
        "Two stories are equal so far. A ruler has pieces for happy (0.3), sad (0.5) and angry "
        "(0.2), in this order. One story draws from its left half, the other one from its right "
        "half. How often do both take the same word?",
        ("never", "in 24 % of the cases", "in 38 %, as two free draws do"),
    ),
    Question(
        "16.m1",
        "On the same problems one vote has 71 % right, another 65 %, and their intervals overlap. "
        "What does that say?",
        ("neither is better", "the first is better", "nothing: compare them pair by pair"),
        truth="c",
    ),
]

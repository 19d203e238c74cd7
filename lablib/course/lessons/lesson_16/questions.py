"""The predictions of lesson 16's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "16.q1",
        "Two stories are equal so far. The next word is sad, happy or angry, with the chances 0.5, "
        "0.3 and 0.2. Each word must come as often as before. How seldom can both take the same?",
        ("never", "in 38 % of the cases, as two free draws do", "in half of the cases"),
    ),
    Question(
        "16.q2",
        "What counts are stories that are valid and all different. A lower temperature than 1: "
        "what becomes of the score?",
        ("it rises", "it falls"),
    ),
    Question(
        "16.q3",
        "Of two votes one is better by some ten points. Both play three seeds of 48 problems, the "
        "same for both. Does the better one win each time?",
        ("each time", "not each time"),
    ),
    Question(
        "16.q4",
        "A drafter asks the target itself for eight drafts, one call each, and all stay. How many "
        "tokens does it get for the price of a call?",
        ("nine", "about four", "about one"),
    ),
    Question(
        "16.m1",
        "On the same problems one vote has 71 % right, another 65 %, and their intervals overlap. "
        "What does that say?",
        ("neither is better", "the first is better", "nothing: compare them pair by pair"),
        truth="c",
    ),
]

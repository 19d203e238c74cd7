"""The predictions of lesson 16's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "16.q1",
        "Two stories are equal so far. Each, looked at alone, must go on as the model does: happy "
        "with the chance 0.3, sad 0.5, angry 0.2. How seldom can both take the same word?",
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
        "Two votes play three seeds of 48 problems, the same samples for both. Is the same one "
        "ahead on each seed?",
        ("on each", "not on each"),
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

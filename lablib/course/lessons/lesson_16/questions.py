"""The predictions of lesson 16's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "16.q4",
        "A target copies a list of sixteen words from its prompt, with one of them replaced, and "
        "ends: 17 tokens. Look-up drafts what followed the last words in the prompt, up to eight "
        "tokens a call, and the target adds one. How many calls does the text take?",
    ),
    Question(
        "16.q5",
        "Without drafts a target writes one token for the price of a call, with look-up 2.1. A "
        "drafter asks the target itself for eight drafts before each call, and each that lies "
        "within the text stays. What does it get, its own work paid for?",
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
        "16.m1",
        "On the same problems one vote has 71 % right, another 65 %, and their intervals overlap. "
        "What does that say?",
        ("neither is better", "the first is better", "nothing: compare them pair by pair"),
        truth="c",
    ),
]

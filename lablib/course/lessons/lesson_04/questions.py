"""The predictions of lesson 04's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

_SIX = "Six sequences want 5, 2, 3, 4, 1 and 3 tokens; two of them can be served at a time."
_SEED = "A batch of texts is drawn with one seed. One of them is to be drawn again, alone."

QUESTIONS = [
    Question(
        "04.q1",
        f"{_SIX} Whenever one ends, the next begins at once. How many steps are needed?",
        ("8", "9", "10", "12"),
    ),
    Question(
        "04.q2",
        "Sixteen sequences wait for four slots. In which queue does it save most steps to fill a "
        "slot as soon as it is free, instead of waiting for all four?",
        (
            "short and long ones by turns",
            "one giant first, then short ones",
            "short ones, one giant last",
            "all of one length",
        ),
    ),
    Question(
        "04.q3",
        "A server writes a reader's text in a batch, beside others who come and go; each reader "
        "has a seed. What does the same reader get on an empty server?",
        ("the same text", "another text"),
    ),
    Question(
        "04.q4",
        "One random key serves a whole batch. Two neighbours join a text. For how many of 50 keys "
        "does its next token change?",
        ("none", "a few", "most"),
    ),
    Question(
        "04.q5",
        "A model writes 64 texts side by side. How many times as many tokens a second is that as "
        "with one text?",
    ),
    Question(
        "04.m1",
        f"{_SEED} Does the same seed give the same text?",
        ("yes, that is what a seed is for", "only if it has random numbers of its own"),
        truth="b",
    ),
]

"""The predictions of lesson 09's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "09.q1",
        "A text: the cat sat on the mat and the cat sat on the. Find the last three words further "
        "up, the last place first. What followed them there?",
        ("cat", "mat"),
    ),
    Question(
        "09.q3",
        "Where does looking drafts up in the text help most?",
        ("a list is copied, one word replaced", "a new story is written", "digits are added"),
    ),
    Question(
        "09.q4",
        "On texts that add digits a look-up finds the last token again in most calls, and guesses "
        "wrong. It now looks for runs of two tokens or more. What happens?",
        (
            "it drafts seldom, and is more often right",
            "it drafts as often, and is more often right",
            "it drafts seldom, and is as often wrong",
        ),
    ),
    Question(
        "09.m1",
        "Which drafter is the best?",
        ("the one that is right most often", "the one with most tokens per cost"),
        truth="b",
    ),
]

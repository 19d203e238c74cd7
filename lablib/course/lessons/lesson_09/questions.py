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
        "09.q2",
        "A target says sat, ran, slept with 0.6, 0.3, 0.1. A look-up proposes sat; a small model "
        "draws from 0.5, 0.4, 0.1. Which guess does rejection keep more often?",
        ("the looked-up one", "the small model's"),
    ),
    Question(
        "09.q3",
        "Where does looking drafts up in the text help most?",
        ("a list is copied, one word replaced", "a new story is written", "digits are added"),
    ),
    Question(
        "09.q4",
        "A target copies a list. Whose drafts suffer most when all sample at temperature 1.5?",
        ("a small model's", "a head's on top of the target", "looked-up ones"),
    ),
    Question(
        "09.q5",
        "Drafts are kept with 0.8. One draft costs a tenth of a plain token, and so does reading "
        "it. How many drafts a round are best?",
    ),
    Question(
        "09.m1",
        "Which drafter is the best?",
        ("the one that is right most often", "the one with most tokens per cost"),
        truth="b",
    ),
]

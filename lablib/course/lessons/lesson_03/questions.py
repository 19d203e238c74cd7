"""The predictions of lesson 03's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

_CUTS = ("the 3 best words", "the best words that hold 0.8", "words at least 0.3 of the best")

QUESTIONS = [
    Question(
        "03.q1",
        "A model is very sure: one word has 0.97. Which cut keeps more than that word?",
        _CUTS,
    ),
    Question(
        "03.q2",
        "Top-p is 0.9, and the temperature goes from 1 to 3. How many words stay?",
        ("more than before", "fewer than before", "as many"),
    ),
    Question(
        "03.q4",
        "Stories are written at temperature 1.8. What leaves the most of them right?",
        ("no cut", "top-p 0.9", "min-p 0.1"),
    ),
    Question(
        "03.m1",
        "What does a model write at temperature 0?",
        ("its most probable text", "its most probable next token, again and again"),
        truth="b",
    ),
]

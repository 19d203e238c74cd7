"""The predictions of lesson 15's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "15.q1",
        "Three tokens have the chances 0.5, 0.3 and 0.2. Somebody divides their logarithms by a "
        "temperature of 0.5. What do the exponentials of that sum to?",
    ),
    Question(
        "15.q3",
        "A model that is sure of nothing drafts for itself, at temperature 1. How many drafts "
        "could stay, with the best rule?",
        ("nearly all", "about half", "hardly any"),
    ),
    Question(
        "15.q4",
        "Drafts stay with the chance Σ min(p, q), or, if two draws must agree, Σ p·q. The "
        "temperature rises. What becomes of the distance between the two, for a model that is "
        "mostly sure?",
        ("it grows", "it shrinks"),
    ),
    Question(
        "15.m1",
        "A system has run for weeks, and nobody complained. What does that say?",
        ("it does what it should", "its texts look fine"),
        truth="b",
    ),
]

"""The predictions of lesson 01's readers, and its misconception."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "01.q1",
        "On a line from 0 to 1 'the' has the first 1/16, then come 'cat' with 1/2, 'dog' with 1/4 "
        "and others. A dart falls at 0.60. Which word is hit?",
        ("the", "cat", "dog", "another"),
    ),
    Question(
        "01.q2",
        "Scores are divided by a temperature that grows from 0.1 to 5. What does the entropy do?",
        ("it rises", "it falls", "first one, then the other"),
    ),
    Question(
        "01.q3",
        "A model reads true stories that it has never seen. At how many places in a hundred does "
        "its most probable token come?",
    ),
    Question(
        "01.q4",
        "Always the most probable next word: is that the most probable text?",
        ("always", "not always"),
    ),
    Question(
        "01.q5",
        "Which texts surprise a model least? (All are scored at temperature 1.)",
        ("true ones", "its own at temperature 1", "its own at 0.5", "true ones, shuffled"),
    ),
    Question(
        "01.m1",
        "A token came to which a good model gave one chance in eight. What does that say?",
        ("the token is a mistake", "other tokens could have come there, too"),
        truth="b",
    ),
]

"""The predictions of lesson 00a's readers, and its misconception."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "00a.q1",
        "A table has 3 rows and 4 columns. Its numbers are added along axis 1. How many numbers "
        "come out?",
    ),
    Question(
        "00a.q2",
        "From a table of 3 rows and 4 columns the largest number of each row is taken away. "
        "These 3 have shape (3,). What comes of `table - largest`?",
        ("each row less its own", "each column less its own", "an error"),
    ),
    Question(
        "00a.q3",
        "Each of 1,000 tokens has probability 1/4. What does a computer say is the probability of "
        "all of them?",
        ("about 1e-602", "0", "an error"),
    ),
    Question(
        "00a.q4",
        "A small model reads stories. The probabilities that it gave their tokens, mostly near 1, "
        "are multiplied, one after the other; the 48 of the first story make 8e-12. "
        "After how many is the product 0 for a computer, which has none below 5e-324?",
    ),
    Question(
        "00a.m1",
        "A line of NumPy ran without an error, and the shape of what came out is right. What does "
        "that say?",
        ("the numbers are right, too", "nothing about the numbers"),
        truth="b",
    ),
]

"""The predictions of lesson 00b's readers, and its misconception."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "00b.q1",
        "In 'the cat sat the cat ran the hat', which two letters stand side by side most often?",
        ("t and h", "h and e", "a and t"),
    ),
    Question(
        "00b.q2",
        "A model has read 20 tokens, and its vocabulary is 512. How many scores does it return?",
        ("1", "20", "512", "20 × 512"),
    ),
    Question(
        "00b.q3",
        "A model of 8 blocks has read '... finds a tiny c', 'l', 'o'. After how many blocks is "
        "'ck' (clock) its best guess, to stay so?",
    ),
    Question(
        "00b.q4",
        "The last word of a text is changed. In which rows of the scores does anything change?",
        ("in all of them", "in the last word's only", "in all but the last"),
    ),
    Question(
        "00b.m1",
        "A model has read a text. For which places does one forward say what comes next?",
        ("for the last one only", "for every place at once"),
        truth="b",
    ),
]

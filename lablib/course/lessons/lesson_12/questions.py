"""The predictions of lesson 12's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "12.q1",
        "Two ways to answer are compared question by question, and their differences spread by "
        "0.46. How many questions show a gain of 4 points in a hundred, four times in five?",
    ),
    Question(
        "12.q2",
        "A small real model answers hundreds of questions, eight times each. Which is right more "
        "often?",
        ("a vote of the eight", "the likeliest of the eight", "they are not told apart"),
    ),
    Question(
        "12.q3",
        "A trained head drafts two tokens a round for a small chat model, which takes its best "
        "words. How many tokens does a call of the model bring, on average? From 1 to 3.",
    ),
    Question(
        "12.q4",
        "A model's weights are rounded from 32 bits to 4. How many times as fast does it write a "
        "token?",
    ),
    Question(
        "12.q5",
        "Eleven claims of the lessons before were put to real models. How many of them hold there, "
        "to the letter?",
    ),
    Question(
        "12.m1",
        "A vote was right on two of eight questions more than one sample, and lost none. Is it "
        "better?",
        ("yes: it gained", "no: the gain is too small", "so few questions can't tell"),
        truth="c",
    ),
]

"""The predictions of lesson 00's readers, and its misconception."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "00.q1",
        "A small model tells short stories, each token drawn at temperature 2. How many are right?",
        ("nearly all", "about half", "hardly any"),
    ),
    Question(
        "00.q2",
        "At temperature 0 a model goes on with the same text six times. How many texts come out?",
    ),
    Question(
        "00.q3",
        "A model reads 'elephant', a word that none of its texts had. What happens to it?",
        ("it is refused", "it is cut into pieces", "a known word takes its place"),
    ),
    Question(
        "00.q4",
        "A model errs about every second time. Of 64 answers to one question one leads in the end. "
        "From which on was it ahead for good?",
        ("before the 10th", "between the 10th and the 30th", "later"),
    ),
    Question(
        "00.q5",
        "A model writes a story. Before each token another one, a twentieth of its size, guesses "
        "it. How many per cent of the guesses are right?",
    ),
    Question(
        "00.m1",
        "A model says that a sum is 7. Where did the 7 come from?",
        ("it is the answer that the model knows", "a draw: the model gave each token a chance"),
        truth="b",
    ),
]

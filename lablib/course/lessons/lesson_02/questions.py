"""The predictions of lesson 02's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "02.q2",
        "A token is added at the end of a text. Where do the keys of the other tokens change?",
        ("in no layer", "in all layers but the first", "in every layer"),
    ),
    Question(
        "02.q3",
        "A prompt of 32 tokens, 64 new ones, and a KV cache. How many tokens go through the model?",
    ),
    Question(
        "02.q4",
        "A text of 8,000 tokens. Which is larger in a model of 8 billion weights?",
        ("its weights", "its cache"),
    ),
    Question(
        "02.m1",
        "Why does a KV cache make a model faster?",
        ("it stores answers", "it stores what each token has to say to later ones"),
        truth="b",
    ),
]

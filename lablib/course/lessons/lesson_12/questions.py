"""The predictions of lesson 12's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "12.q1",
        "A language model of 135 million parameters reads *One, two, three, four,*. Which share "
        "of its mass, in per cent, has *five*?",
    ),
    Question(
        "12.q2",
        "A small model adds two-digit numbers badly and knows some facts. One answer against a "
        "vote of eight: where does the vote help more?",
        ("with the sums", "with the facts", "the same with both"),
    ),
    Question(
        "12.q3",
        "A model copies a paragraph with one name replaced. Up to ten drafts a call are looked up "
        "in the prompt. How many tokens does a call yield?",
    ),
    Question(
        "12.q4",
        "A chat model has 30 layers. After how many would its next word be right half of the time?",
    ),
    Question(
        "12.m1",
        "Drafts make a model faster for one text. What is left of the gain where eight texts are "
        "decoded at once?",
        ("as much for each text", "more, as more drafts are checked", "less: they share already"),
        truth="c",
    ),
]

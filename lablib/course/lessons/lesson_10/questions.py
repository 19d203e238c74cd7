"""The predictions of lesson 10's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "10.q1",
        "Three memories have read 1 to 6: a list of all; a ring of four slots, where the newest "
        "overwrites the oldest; a number s, which each token t made s / 2 + t. Now 5 and 6 are "
        "taken back, and nothing else is known. Which memory can't come back?",
        ("the list", "the ring", "the number"),
    ),
    Question(
        "10.q2",
        "A float32 number s begins at 7 and becomes s / 2 + t, with 60 whole numbers t in turn. "
        "Then the same backwards: s becomes (s - t) * 2. Where does it end?",
        ("at 7", "near 7", "far away"),
    ),
    Question(
        "10.q3",
        "state is an array. You write snapshot = state; then state is halved in place, state *= "
        "0.5. What does snapshot hold?",
        ("what state held before", "what state holds now"),
    ),
    Question(
        "10.q4",
        "Of 12 tokens that were read the last 3 are taken back, and each layer drops its "
        "last entries if it says that it can. One layer has a full window of 6, another a "
        "recurrent state. Which of the two is wrong now?",
        ("the window", "the recurrent state", "both", "neither"),
    ),
    Question(
        "10.q5",
        "Three tokens that are not in the text were left in the sliding window of a model with two "
        "layers. It reads on. What becomes of the mistake in its logits?",
        ("it never goes away", "it is gone after a while"),
    ),
    Question(
        "10.m1",
        "A model whose cache was corrupted still writes fluent text. What does that say?",
        ("its cache is fine", "nothing: its text must be compared"),
        truth="b",
    ),
]

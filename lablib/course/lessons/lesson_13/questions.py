"""The predictions of lesson 13's readers, and its misconception."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "13.q1",
        "A target says four words with 0.4, 0.3, 0.2, 0.1. A draft guesses two different ones for "
        "one place, drawn without replacement from 0.2, 0.1, 0.3, 0.4. How often is one of the two "
        "right?",
        ("less than twice as often as one guess", "more than twice as often"),
    ),
    Question(
        "13.q2",
        "Two guesses for a place are each judged with min(1, p/q), the second if the first was "
        "refused; then max(p − q, 0) is drawn from. Does what is written follow p?",
        ("yes", "no"),
    ),
    Question(
        "13.q3",
        "A draft model is sure of all but the next digit, for which five are possible. A tree of 8 "
        "nodes takes the likeliest paths. With how many of the five digits does it begin?",
        ("all five", "fewer"),
    ),
    Question(
        "13.q4",
        "A head guesses from the target's own state, a draft model reads the text anew. Where is "
        "the head's lead, on sums?",
        ("at the first guess", "at later guesses, which come from guesses"),
    ),
    Question(
        "13.q5",
        "A chain of drafts is ahead of a tree where, in plain tokens, reading one more costs 0.1, "
        "a draft 0.1 and waiting for a level 0.2. What must be free for the tree to be ahead?",
        ("reading", "drafting", "waiting"),
    ),
    Question(
        "13.m1",
        "A tree of drafts gets further branches. What do they cost?",
        (
            "nothing, the target reads them all at once anyway",
            "a token to read each, and each level is waited for",
        ),
        truth="b",
    ),
]

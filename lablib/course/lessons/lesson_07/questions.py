"""The predictions of lesson 07's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

_ON = (
    "A target writes 'the cat sat on a mat .'; its draft errs only after 'on', where it says 'the'."
)

QUESTIONS = [
    Question(
        "07.q1",
        f"{_ON} After 'the', what becomes of a round of three drafts?",
        ("all three are accepted", "one is rejected"),
    ),
    Question(
        "07.q2",
        "A large model checks drafts at temperature 0. What decides whether one is accepted?",
        ("how high its probability is", "only whether it is the model's best token"),
    ),
    Question(
        "07.q3",
        "A text adds digits, as in 7+5=2; and the next number is chosen freely among some. "
        "Where does a small model guess a large one's token least often?",
        ("at the signs", "at the results", "at the next number"),
    ),
    Question(
        "07.q4",
        "A round has a single draft. It must be drafted, and the target reads one token more. From "
        "which chance α of being accepted on does it pay?",
        ("above this price, in plain tokens", "above one half, whatever the price"),
    ),
    Question(
        "07.m1",
        "More drafts a round, and more of them are accepted. Does the text come faster?",
        ("yes", "not always: each has to be drafted and read as well"),
        truth="b",
    ),
]

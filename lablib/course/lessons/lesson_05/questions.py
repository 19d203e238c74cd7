"""The predictions of lesson 05's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

_TWO = (
    "The tokens of one completion have log-probabilities −0.7 and −0.2, those of another −0.5, "
    "−0.2, −0.3, −0.2, −0.4, −0.2."
)

QUESTIONS = [
    Question(
        "05.q1",
        f"{_TWO} Which of the two is ranked first by the sum, and which by the mean?",
        ("the short one by both", "short by the sum, long by the mean", "the long one by both"),
    ),
    Question(
        "05.q2",
        "Of the same stories one is chosen by the sum of its log-probabilities, one by their mean. "
        "Which is longer, if they differ?",
        ("the sum's", "the mean's", "now the one, now the other"),
    ),
    Question(
        "05.q3",
        "A model has learned its author's slips along with the rest. Of eight of its solutions "
        "the one with the highest log-probability is kept. How often is it right?",
        ("more often than a single one", "as often", "less often"),
    ),
    Question(
        "05.q4",
        "A verifier was trained on whole solutions, marked right or wrong. In a solution with one "
        "slip, which token speaks most against it?",
        ("the answer at the end", "the first wrong result", "none in particular"),
    ),
    Question(
        "05.q5",
        "A judge's errors are mostly small, now and then huge. The best of ever more samples "
        "is taken: what happens?",
        (
            "its score and the truth rise",
            "its score rises, the truth rises and falls",
            "both rise and fall",
        ),
    ),
    Question(
        "05.q6",
        "A judge's errors are Gaussian, a fifth of the reward in size. The best of ever more "
        "samples is taken: what does the truth do?",
        ("it rises", "it rises and falls"),
    ),
    Question(
        "05.m1",
        "The score of a reward model went up. What do you know about the answers?",
        ("they got better", "nothing yet: the score is what was maximised"),
        truth="b",
    ),
]

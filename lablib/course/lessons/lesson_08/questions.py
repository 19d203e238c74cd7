"""The predictions of lesson 08's readers, and its misconceptions: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "08.q1",
        "A draft model says fog with 0.4, its target with 0.1. Text must be the target's, and as "
        "many drafts as possible be kept. Which share of the drafted fogs may stay, 0 to 1?",
    ),
    Question(
        "08.q2",
        "Drafts are kept with probability min(1, p/q). After a refusal somebody draws from the "
        "target's p. Which words come too often?",
        ("those that the draft proposes too often", "those that it proposes too rarely", "none"),
    ),
    Question(
        "08.q3",
        "A rule writes exactly the target's distribution at one position, whatever stands before "
        "it. It judges several drafts one after the other. Are whole texts the target's, too?",
        ("yes, exactly", "nearly: small errors add up"),
    ),
    Question(
        "08.q5",
        "A model adds digits in any order, a smaller one drafts. Temperature 1 instead of greedy: "
        "does rejection keep more drafts, or fewer?",
        ("more", "fewer"),
    ),
    Question(
        "08.m1",
        "A draft was refused by the rejection rule. From what is the next token drawn?",
        ("the target's p", "what is left of p where it exceeds q", "p without the draft"),
        truth="b",
    ),
    Question(
        "08.m2",
        "A rule for keeping drafts is faster than another. What does that say of its text?",
        ("it is the target's", "it is less exact", "nothing"),
        truth="c",
    ),
]

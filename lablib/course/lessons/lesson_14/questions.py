"""The predictions of lesson 14's readers, and its misconception: a line each."""

from lablib.course.checks.predictions import Question

QUESTIONS = [
    Question(
        "14.q4",
        "Six requests come to a server at seconds 0, 1, 2, 7, 8 and 12. It serves one at a time, "
        "and each takes 2 seconds. How many seconds do they wait, all together?",
    ),
    Question(
        "14.q5",
        "Requests come at random to a server that serves one at a time. Its load grows from 0.5 "
        "to 0.9. How many times as long do they wait for their turn?",
        ("about twice as long", "about four times", "about nine times"),
    ),
    Question(
        "14.q6",
        "Sixteen readers ask at once; the server writes eight texts at a time. Which grows more, "
        "compared with a reader alone: the time to the first token, or that between tokens?",
        ("to the first token", "between tokens"),
    ),
    Question(
        "14.q7",
        "A round writes a token for one row. How many times as long does a round of eight take?",
    ),
    Question(
        "14.q8",
        "Drafts cost nothing, and 0.8 of those that are judged are kept. Sixteen rows share a "
        "forward. Do four drafts a row pay on this machine?",
        ("yes", "no"),
    ),
    Question(
        "14.m2",
        "A server is busy half of the time. Can it take twice as many requests?",
        ("yes: half of its time is free", "no: its load is 1 then, and its queue never goes away"),
        truth="b",
    ),
]

"""The predictions of lesson 11's readers, and its misconception."""

from lablib.course.checks.predictions import Question

_FILM = (
    "the cat sat on the mat; the cat ran home; the dog sat; a bird sang; the cat sat on the roof; "
    "the dog ran; the cat ran home; a bird flew off"
)

QUESTIONS = [
    Question(
        "11.q1",
        "A model is asked about: the cat sat; the cat ran; the dog sat; the cat sat down. It reads "
        "what prompts begin with once for all. How many words does it read?",
    ),
    Question(
        "11.q2",
        "A tree holds: the cat sat, the cat ran, the dog sat, the cat sat down, written in this "
        "order. Now the cat ran is read. Which loses its last word first when room is needed?",
        ("the cat sat down", "the cat ran", "the dog sat"),
    ),
    Question(
        "11.q3",
        "Coroutines A and B each say 1, await asyncio.sleep(0), and say 2. What is heard?",
        ("A1 A2 B1 B2", "A1 B1 A2 B2", "now this, now that"),
    ),
    Question(
        "11.q4",
        "Twelve callers ask at once about a story of 21 tokens and one more word, of which six are "
        "different. With a queue and a tree of prefixes, empty yet: how many tokens are read?",
    ),
    Question(
        "11.q5",
        f"A tree of prefixes keeps at most twelve words. It is asked: {_FILM}. What is still held "
        "whole at the end?",
        ("the dog sat", "the cat sat on the roof", "both", "neither"),
    ),
    Question(
        "11.q6",
        "A queue makes batches of one, before a tree of prefixes. Are more tokens run than with "
        "batches of four?",
        ("more", "as many"),
    ),
    Question(
        "11.m1",
        "Whom does a cache of prefixes help?",
        (
            "who asks the same thing again",
            "all who begin alike, also the first time and in the same batch",
        ),
        truth="b",
    ),
]

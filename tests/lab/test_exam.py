"""The exam's key is what its numbers give; ``python tests/lab/test_exam.py`` prints it."""

import math
import re
from pathlib import Path

from lablib.course.theory import closed_forms, serving
from lablib.inference.sampling import transforms
from lablib.inference.speculation.costs import expected_tokens
from lablib.inference.voting import pass_at_k

import mlx.core as mx
import numpy as np

FOLDER = Path(__file__).parents[2] / "docs" / "teaching"
# The numbers in bold, question by question: put yours here.
CHANCES, HEAT, MASS = (0.5, 0.3, 0.2), 0.5, 0.6
WORDS = (0.5, 0.25, 0.5)
PROMPT, NEW = 20, 30
SAMPLES, RIGHT, TRIES = 10, 3, 2
BELIEFS = (0.9, 0.2, 0.3, 0.1, 0.4)
DRAFTS, AGREED = 4, 2
ALPHA, GAMMA, DRAFT, READING = 0.8, 4, 0.1, 0.05
P, Q = (0.5, 0.3, 0.2), (0.2, 0.2, 0.6)
QUESTIONS, SPREAD = 200, 0.46
RATE, STAY, LOADS = 3, 4, (0.5, 0.75)
SUN, ICE = 0.6, (0.1, 0.4)
SCORE = 2


def heated(temperature: float) -> np.ndarray:
    p = np.array(CHANCES) ** (1 / temperature)
    return p / p.sum()


def staying(temperature: float) -> int:
    """Return how many words the library's own top-p keeps."""
    scores = mx.array(np.log(heated(temperature)))[None]
    return int((np.array(transforms.top_p(scores, MASS)) > -np.inf).sum())


def listed(numbers, digits: str = ".2f") -> str:
    return ", ".join(f"{number:{digits}}" for number in numbers)


def elected(weights) -> tuple[str, dict[str, float]]:
    votes: dict[str, float] = {}
    for answer, weight in zip("ABBCA", weights, strict=True):
        votes[answer] = votes.get(answer, 0) + weight
    return max(votes, key=votes.__getitem__), votes


def key() -> dict[str, str]:
    """Return the key's second column, by question."""
    bits = -sum(math.log2(p) for p in WORDS)
    plain, votes = elected([1] * 5)[0], elected(BELIEFS)
    assert plain == votes[0] == "A"  # else the key's words are others
    tokens, price = expected_tokens(ALPHA, GAMMA), 1 + GAMMA * (DRAFT + READING)
    rest = np.maximum(np.array(P) - Q, 0)
    waits = [serving.wait_of_one(load, 1.0) for load in LOADS]
    ours = SUN * ICE[0] / (SUN * ICE[0] + (1 - SUN) * ICE[1])
    return {
        "1a": listed(heated(HEAT)),
        "1b": f"{staying(1)} at temperature 1, {staying(HEAT)} at ½",
        "2": f"{bits:g} bits, perplexity {2 ** (bits / len(WORDS)):.2f}",
        "3": f"{PROMPT + NEW - 1} with, {sum(PROMPT + i for i in range(NEW))} without",
        "4": f"{pass_at_k(SAMPLES, RIGHT, TRIES):.2f}",
        "5": "A both times; weights " + ", ".join(f"{a} {w:.1f}" for a, w in votes[1].items()),
        "6": f"{DRAFTS} drafted, {AGREED + 1} reached, {AGREED} accepted, {AGREED + 1} longer; "
        f"α = {AGREED}/{AGREED + 1}",
        "7": f"{tokens:.2f} tokens, price {price:.2g}, {tokens / price:.2g} times as fast",
        "8": f"{closed_forms.acceptance_rejection(P, Q):.2g} by rejection, "
        f"{closed_forms.acceptance_match(P, Q):.2g} by match; residual "
        + listed(rest / rest.sum(), ".2g"),
        "9": f"from {280 * SPREAD / math.sqrt(QUESTIONS):.1f} points on; "
        f"{(2.8 * SPREAD / 0.04) ** 2:.0f} questions",
        "10": f"{RATE * STAY} readers; {waits[1] / waits[0]:.2g} times as long; goodput",
        "11": f"{SUN:g}; {ours:.2f}; weights {ICE[0]} and {ICE[1]}",
        "12a": f"{1 / (1 + math.exp(SCORE)):.2f}",
    }


def test_the_key_is_what_the_numbers_give():
    text = (FOLDER / "exam-key.md").read_text("utf-8")
    assert dict(re.findall(r"^\| (\d+[ab]?) \| (.*?) \|", text, re.M)) == key()


def test_the_exam_asks_with_these_numbers():
    said = re.findall(r"\*\*([\d.½]+)\*\*", (FOLDER / "exam.md").read_text("utf-8"))
    used = [*CHANCES, HEAT, MASS, HEAT, *WORDS, PROMPT, NEW, SAMPLES, RIGHT, TRIES]
    used += [BELIEFS[i] for i in range(5)]
    used += [DRAFTS, AGREED, ALPHA, GAMMA, DRAFT, READING, *P, *Q, QUESTIONS, SPREAD]
    used += [RATE, STAY, *LOADS, SUN, *ICE, SCORE]
    assert [float(each.replace("½", "0.5")) for each in said] == used


def test_the_points_add_up_and_each_question_has_a_key():
    exam, solved = ((FOLDER / f"{name}.md").read_text("utf-8") for name in ("exam", "exam-key"))
    questions = re.findall(r"^### (\d+) · .*\n\n.*\((\d) points\)$", exam, re.M)
    assert [int(number) for number, _ in questions] == [*range(1, 13)]
    title = f"{len(questions)} questions, {sum(int(points) for _, points in questions)} points"
    assert title in exam.splitlines()[0]
    assert [*map(int, re.findall(r"^\*\*(\d+)\.\*\* ", solved, re.M))] == [*range(1, 13)]


def test_the_words_behind_question_8_are_true():
    drafted = min(P[0], Q[0])
    rest = np.maximum(np.array(P) - Q, 0)
    refused = 1 - closed_forms.acceptance_rejection(P, Q)
    assert np.isclose(drafted + refused * rest[0] / rest.sum(), P[0])
    assert np.isclose(refused * rest[0] / rest.sum(), 0.4 * 0.75)
    assert np.isclose(drafted + refused * P[0], 0.4)  # who draws from p after a refusal


if __name__ == "__main__":
    for question, answer in key().items():
        print(f"{question:>3}  {answer}")

"""The open task: make a real model, SmolLM2, answer more questions at the same price.

The questions are those of lesson 12, without their answers. A student's function gets a question's
line and the lines of examples of its kind, and a pen with which the model writes whatever it is
asked to. What is read and what is written is counted, and a question has ``BUDGET`` tokens. The
opponent is the vote of eight samples that was stored with lesson 12, on the same questions, so that
two scores are compared question by question and nothing of his is run again.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import lablib
from lablib.course.lessons.lesson_12 import runs
from lablib.course.lessons.lesson_12.facts import KINDS, Fact, answer, facts
from lablib.course.lessons.lesson_12.measured import HEAT
from lablib.course.lessons.lesson_12.real import load_real
from lablib.course.lessons.lesson_16.scores import Difference, Foul, Score
from lablib.course.lessons.lesson_16.texts import number
from lablib.validation import function as checked_function
from lablib.validation import integer

import numpy as np

NAME, QUESTIONS = "open task", 60
BUDGET = 160  # tokens of a question, read and written: the list twice, and its eight answers
Writer = Callable[[str, int, float, int, int], Sequence[tuple[str, float, int]]]
Ask = Callable[[str, list[str], "Pen"], Any]


class Pen:
    """What the model writes for one question, and what that has cost.

    Attributes:
        left: tokens that may still be read or written.

    Args:
        write: ``write(prompt, n, temperature, most, seed) -> [(text, log-probability, tokens)]``.
        size: ``size(text) -> tokens``.
        seed: of what is drawn.
    """

    def __init__(self, write: Writer, size: Callable[[str], int], seed: int) -> None:
        self._write, self._size, self._seed = write, size, seed
        self.left = BUDGET

    def write(
        self, prompt: str, n: int = 1, temperature: float = HEAT, most: int = 8
    ) -> list[tuple[str, float]]:
        """Return ``n`` completions of a prompt, each with its log-probability.

        A prompt is read once for all of them. A completion ends with its line, or after ``most``
        tokens.

        Raises:
            Foul: they could cost more than is left; nothing was written.
        """
        n, most = integer("n", n, 1), integer("most", most, 1)
        price = self._size(prompt) + n * most
        if price > self.left:
            raise Foul(f"write must cost at most the {self.left} tokens left, could take {price}")
        self._seed += 1
        found = self._write(prompt, n, temperature, most, self._seed)
        self.left -= self._size(prompt) + sum(size for *_, size in found)
        return [(text, log) for text, log, _ in found]


def chosen(seed: int, questions: int = QUESTIONS) -> list[tuple[int, Fact]]:
    """Return the questions of a seed, with their numbers in ``facts``."""
    every = facts()
    drawn = np.random.default_rng(number(NAME, integer("seed", seed, 0))).permutation(len(every))
    return [(int(i), every[i]) for i in sorted(drawn[:questions])]


def as_lesson_12(line: str, examples: list[str], pen: Pen) -> str:
    """Continue the list eight times, and take the most frequent answer: the opponent's way."""
    texts = pen.write("\n".join([*examples, line]), 8)
    named = [answer(text) for text, _ in texts]
    return max(named, key=named.count)


def play(ask: Ask, writer: Writer, size: Callable[[str], int], asked: Sequence[Any]) -> Score:
    """Let a function answer questions, and count the right answers.

    Args:
        ask: ``ask(line, examples, pen)`` returns the answer, a text: what stands behind the line.
        writer: see :class:`Pen`.
        size: see :class:`Pen`.
        asked: ``(number, fact)`` pairs.

    Raises:
        Foul: it returned no text, or asked for more than the budget.
    """
    checked_function("ask", ask)
    right, spent = [], 0
    for place, fact in asked:
        pen = Pen(writer, size, seed=1000 * place)
        said = ask(fact.asked, KINDS[fact.kind].splitlines(), pen)
        if not isinstance(said, str):
            raise Foul(f"ask must return a text, got {type(said).__name__}")
        right.append(said.strip() == fact.truth)
        spent += BUDGET - pen.left
    return Score.of(NAME, right, tokens=spent, budget=BUDGET * len(right))


def opponent(asked: Sequence[tuple[int, Fact]]) -> Score:
    """Return what the stored vote of eight answers to the same questions."""
    known = {each["number"]: each for each in runs.stored("facts")}
    right = []
    for place, fact in asked:
        named = [answer(text) for text, *_ in runs.chosen(known[place])]
        ((best, _),) = Counter(filter(None, named)).most_common(1) or [("", 0)]
        right.append(best == fact.truth)
    return Score.of(NAME, right)


def attempt(ask: Ask, *, seed: int = 1, questions: int = QUESTIONS) -> tuple[Score, Difference]:
    """Play with SmolLM2; return the score, and its lead over the stored vote of eight.

    Args:
        ask: as in :func:`play`.
        seed: which questions.
        questions: how many of them.

    Raises:
        NotFetched: SmolLM2 is not on this machine.
        Foul: as in :func:`play`.
    """
    asked = chosen(seed, integer("questions", questions, 2))
    model, tokenizer = load_real()

    def writer(prompt: str, n: int, heat: float, most: int, seed: int) -> Any:
        options = lablib.SamplerOptions(temperature=heat, seed=seed)
        how: Any = {"max_tokens": most, "stop": "\n", "tokenizer": tokenizer}
        (samples,) = lablib.sample_many(model, [prompt], options, n, **how)
        return [*_read(tokenizer, samples)]

    score = play(ask, writer, lambda text: len(tokenizer.encode(text)), asked)
    return score, Difference.of(score, opponent(asked))


def _read(tokenizer: Any, samples: Any) -> Iterator[tuple[str, float, int]]:
    """Yield of each sample its text, its log-probability and its tokens."""
    for tokens, logs in zip(samples.tokens, samples.logprobs, strict=True):
        yield tokenizer.decode(tokens, skip_special_tokens=True), sum(logs), len(tokens)

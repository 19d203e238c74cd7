"""The real model of lesson 12: asked where it was fetched; elsewhere its stored words stand."""

from typing import Any

import lablib
from lablib.course.lessons.lesson_12 import runs
from lablib.course.lessons.lesson_12.facts import facts
from lablib.models import zoo

import mlx.core as mx

NAME = "smollm2"


class NotFetched(Exception):
    """The model is not on this machine; a notebook shows one sentence and no traceback."""

    def __init__(self) -> None:
        super().__init__(
            "This page needs a real model, SmolLM2-135M: run `python -m lablib fetch` once in a "
            "terminal, then restart this notebook; every other page works without it."
        )

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def load_real() -> tuple[Any, Any]:
    """Return SmolLM2-135M-Instruct in float32, and its tokenizer.

    Raises:
        NotFetched: ``python -m lablib fetch`` has not brought it yet.
    """
    if zoo.fetched(NAME) is None:
        raise NotFetched
    return lablib.load(NAME, dtype=mx.float32)


def answers(numbers: list[int]) -> list[dict[str, Any]]:
    """Return what SmolLM2 answers to questions by their numbers: now, or when the run was stored.

    A record is that of ``measured.answered``.
    """
    if zoo.fetched(NAME) is None:
        known = {each["number"]: each for each in runs.stored("facts")}
        return [known[number] for number in numbers]
    from lablib.course.lessons.lesson_12.measured import answered

    every = facts()
    return [*answered(*load_real(), [(n, every[n]) for n in numbers])]

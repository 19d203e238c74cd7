"""Edits: copy a list of words with one replacement.

    edit: wolf hen bee ... | bee -> owl: wolf hen owl ...

The answer repeats most of the prompt, so a drafter that merely looks up n-grams in the prompt does
well here. The length is fixed and every word is one token: what comes next always stands the same
number of tokens back, which even a model of one layer can learn.
"""

import re
from random import Random

from lablib.course.tasks.problem import Problem, Span, expect, fill_gaps, generator, held_out, words
from lablib.validation import integer

LENGTH = 16
WORDS = words(
    "ant bat bear bee bird cat cow crab crow deer dog duck "
    "fish fox frog goat hen lamb lion owl pig seal swan wolf"
)
CLASSES = ("copy", "replacement", "prompt-word", "boilerplate", "other")


def problems(seed: int, n: int) -> list[Problem]:
    """Return ``n`` unseen problems; the same seed gives the same ones."""
    seed, n = integer("seed", seed, 0), integer("n", n, 0)
    rng = generator("edits", "problems", seed)
    return [_draw(rng, test=True) for _ in range(n)]


def documents(seed: int, n: int) -> list[str]:
    """Return ``n`` training documents (prompt and answer), none of them a held-out prompt's."""
    seed, n = integer("seed", seed, 0), integer("n", n, 0)
    rng = generator("edits", "documents", seed)
    return [p.prompt + p.answer for p in (_draw(rng, test=False) for _ in range(n))]


def _draw(rng: Random, test: bool) -> Problem:
    while True:
        *listed, new = rng.sample(WORDS, LENGTH + 1)
        old = listed[int(rng.random() * LENGTH)]
        prompt = f"edit: {' '.join(listed)} | {old} -> {new}:"
        if held_out(prompt) == test:
            return Problem(prompt, _answer(listed, old, new), "edits", (tuple(listed), old, new))


def _answer(listed: list[str], old: str, new: str) -> str:
    return "".join(" " + (new if word == old else word) for word in listed)


def check(problem: Problem, text: str) -> bool:
    """Tell whether the completion ``text`` is the list with the replacement, and nothing else."""
    return explain(problem, text) is None


def explain(problem: Problem, text: str) -> str | None:
    """Return what is wrong with the completion ``text`` in one sentence, or None.

    The very first space may be missing: streaming detokenizers trim it.
    """
    expect("edits", problem, text)
    _, old, new = problem.data
    if text.removeprefix(" ") == problem.answer[1:]:
        return None
    wanted, got = problem.answer.split(), text.split()
    for place, (right, wrong) in enumerate(zip(wanted, got, strict=False), start=1):
        if right == wrong:
            continue
        if right == new and wrong == old:
            return f"word {place}, '{old}', was not replaced by '{new}'"
        if right == new:
            return f"word {place} must be '{new}', the replacement of '{old}', not '{wrong}'"
        return f"word {place} must be '{right}', copied from the list, not '{wrong}'"
    if len(got) < len(wanted):
        return f"the list stops after {len(got)} of {len(wanted)} words"
    if len(got) > len(wanted):
        return f"there is text after the last of the {len(wanted)} words: '{got[len(wanted)]}'"
    return "each word must have exactly one space before it, and nothing may follow the last"


def token_classes(problem: Problem, text: str) -> list[Span]:
    """Partition ``prompt + text`` into spans (start, end, class), in characters."""
    expect("edits", problem, text)
    listed, old, _ = problem.data
    offset = len(problem.prompt)
    spans: list[Span] = []
    for match in re.finditer(r" [a-z]+", problem.prompt):
        spans.append((match.start(), match.end(), "prompt-word"))
    spans = fill_gaps(spans, offset, "boilerplate")
    answer = []
    for place, match in enumerate(re.finditer(r" ?[a-z]+", text)):
        name = "other" if place >= LENGTH else "replacement" if listed[place] == old else "copy"
        answer.append((match.start(), match.end(), name))
    answer = fill_gaps(answer, len(text), "other")
    return spans + [(start + offset, end + offset, name) for start, end, name in answer]

"""Stories: a few English sentences that must agree with one another.

    On a rainy day, Mia finds a red kite in the park. She is sad because it is broken. So she
    shows it to her uncle Paul, who mends it with care. At last she walks home with a smile.

The prompt is the first sentence. A continuation tells how the finder feels and why, perhaps who
helps, and how it ends. The grammar (:mod:`lablib.course.tasks.grammar`) is read in two directions:
it writes stories, and it checks them word by word, so a checker's verdict is exact and has a
reason. Only the order of the options is skewed: a story may take any of them.
"""

import re
from random import Random

from lablib.course.tasks import grammar
from lablib.course.tasks.grammar import PLOT, Facts, Template
from lablib.course.tasks.problem import (
    Problem,
    Span,
    expect,
    fill_gaps,
    generator,
    held_out,
    skewed_choice,
)
from lablib.validation import integer

CLASSES = ("name", "noun", "verb", "adjective", "function", "punctuation", "other")


def problems(seed: int, n: int) -> list[Problem]:
    """Return ``n`` unseen openings, each with one of its many right continuations."""
    seed, n = integer("seed", seed, 0), integer("n", n, 0)
    rng = generator("stories", "problems", seed)
    return [_draw(rng, test=True) for _ in range(n)]


def documents(seed: int, n: int) -> list[str]:
    """Return ``n`` training documents (prompt and answer), none of them a held-out prompt's."""
    seed, n = integer("seed", seed, 0), integer("n", n, 0)
    rng = generator("stories", "documents", seed)
    return [p.prompt + p.answer for p in (_draw(rng, test=False) for _ in range(n))]


def _draw(rng: Random, test: bool) -> Problem:
    while True:
        facts, prompt = grammar.opening(rng)
        if held_out(prompt) == test:
            data = tuple(facts.items())
            return Problem(prompt, _continue(facts, rng), "stories", data)


def _continue(facts: Facts, rng: Random) -> str:
    sentences, part = [], "start"
    while part != "end":
        templates = [t for t in PLOT[part] if t.when(facts) is None]
        template = skewed_choice(templates, rng)
        words = []
        for piece in template.pieces:
            if piece in grammar.SLOTS:
                slot = grammar.SLOTS[piece]
                word = skewed_choice(slot.options(facts), rng)
                facts[piece] = word
                words.append(word)
            else:
                words.append(piece)
        sentences.append(" " + "".join(words))
        part = template.then
    return "".join(sentences)


def check(problem: Problem, text: str) -> bool:
    """Tell whether the completion ``text`` is one that the grammar can write after the prompt."""
    return explain(problem, text) is None


def explain(problem: Problem, text: str) -> str | None:
    """Return the first broken rule of the completion ``text`` in one sentence, or None.

    The very first space may be missing: streaming detokenizers trim it.
    """
    expect("stories", problem, text)
    facts: Facts = dict(problem.data)
    part, rest = "start", " " + text.removeprefix(" ")
    while part != "end":
        if rest in ("", " "):
            return "the story stops before its ending"
        if not rest.startswith(" "):
            return "a sentence must follow after one space"
        sentence, stop, rest = rest[1:].partition(".")
        if not stop:
            return f"the sentence '{sentence}' is not finished"
        match = _recognise(part, sentence + ".")
        if match is None:
            return _why_unrecognised(sentence + ".", facts)
        template, found = match
        reason = template.when(facts)
        if reason is not None:
            return reason
        for name, word in found:
            slot = grammar.SLOTS[name]
            if word not in slot.options(facts):
                return slot.reason(word, facts)
            facts[name] = word
        part = template.then
    return None if not rest else f"there is text after the ending: '{rest[:20]}'"


def _recognise(part: str, sentence: str) -> tuple[Template, list[tuple[str, str]]] | None:
    """Return the template of this part of the plot that ``sentence`` follows, and its slots."""
    for template in PLOT[part]:
        match = template.pattern.fullmatch(sentence)
        if match:
            return template, list(zip(template.slots, match.groups(), strict=True))
    return None


def _why_unrecognised(sentence: str, facts: Facts) -> str:
    for word in re.findall(r"[^ ,.]+", sentence):
        if word not in grammar.WORD_CLASS:
            return f"'{word}' is not a word of these stories"
    for part in PLOT:
        elsewhere = _recognise(part, sentence)
        if elsewhere:
            too_early = elsewhere[0].when(facts)
            return too_early or f"'{sentence}' comes at the wrong place in the story"
    return f"'{sentence}' is not built like any sentence of these stories"


def token_classes(problem: Problem, text: str) -> list[Span]:
    """Partition ``prompt + text`` into spans (start, end, class); a space goes with its word."""
    expect("stories", problem, text)
    whole = problem.prompt + text
    spans = []
    for match in re.finditer(r" ?([A-Za-z]+)|([,.])", whole):
        name = "punctuation" if match[2] else grammar.WORD_CLASS.get(match[1], "other")
        spans.append((match.start(), match.end(), name))
    return fill_gaps(spans, len(whole), "other")

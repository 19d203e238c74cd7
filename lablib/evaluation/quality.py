"""How good and how varied the completions are, and what comes after the end of a document."""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from lablib import tasks
from lablib.evaluation.drawing import Drawn, Plan, seeds
from lablib.inference.completions import complete
from lablib.inference.estimators import wilson_interval
from lablib.tasks import Problem, grammar

import numpy as np


def quality(drawn: Drawn, repeats: int) -> list[dict[str, float]]:
    """Accuracy and diversity at each temperature.

    Args:
        drawn: the completions.
        repeats: how many completions of a problem the diversity is measured on; a greedy one is
            drawn once and counts as so many equal ones.

    Returns:
        For each temperature: ``accuracy`` (mean over problems; *stories*: the share of valid ones)
        with its 95 % interval ``low``, ``high`` over problems, ``distinct`` (different completions
        of a problem over their number) and ``distinct_trigrams`` (different token triples over all
        triples, across problems).
    """
    rows = []
    for temperature, samples in drawn.samples.items():
        right = np.array(drawn.right(temperature), dtype=float)
        low, high = wilson_interval(float(right.mean(axis=1).sum()), len(right))
        each = 1 if temperature == 0 else repeats
        completions = [[tuple(row) for row in s.tokens[:each]] * (repeats // each) for s in samples]
        rows.append(
            {
                "temperature": temperature,
                "samples": right.shape[1],
                "accuracy": float(right.mean()),
                "low": low,
                "high": high,
                "distinct": float(np.mean([len(set(c)) / len(c) for c in completions])),
                "distinct_trigrams": distinct_ngrams(row for c in completions for row in c),
            }
        )
    return rows


def distinct_ngrams(rows: Iterable[Iterable[int]], n: int = 3) -> float:
    """Different n-grams over all n-grams (Li et al. 2016, 1510.03055)."""
    grams = [row[i : i + n] for row in map(tuple, rows) for i in range(max(0, len(row) - n + 1))]
    return len(set(grams)) / len(grams) if grams else 0.0


def past_the_end(model: Any, plan: Plan, temperature: float) -> dict[str, float]:
    """Let the model run on and look at what follows the first ``</s>``.

    Returns:
        ``ended``: share of the samples that ended their document; ``documents``: how many complete
        documents followed; ``begun``: the share of them that start with ``<s>`` and have the form
        of a prompt of one of the tasks; ``posed``: the share that also keeps the rule of *edits*,
        no word twice in the list, and the replaced one in it; ``valid``: the share whose answer the
        task accepts, too; ``late_valid``: the same for the last third of each sample.
    """
    tokenizer = tasks.load_tokenizer()
    begin, end = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
    names = list(tasks.TASKS)
    each = -(-plan.long_rows // len(names))
    problems = [p for name in names for p in tasks.TASKS[name].problems(plan.seed, each)]
    problems = problems[: plan.long_rows]
    drawn = complete(
        model,
        [tokenizer.encode(problem.prompt).ids for problem in problems],
        seeds=seeds(plan, len(problems)),
        temperature=temperature,
        max_tokens=plan.long_tokens,
        max_rows=64,
    )
    ended, begun, posed, valid, late = 0, [], [], [], []
    for samples in drawn:
        row = samples.tokens[0]
        ends = [i for i, token in enumerate(row) if token == end]
        ended += bool(ends)
        for first, last in pairwise(ends):
            document = row[first + 1 : last]
            text = tokenizer.decode(document[1:]) if document[:1] == [begin] else ""
            found = read_document(text)
            begun.append(has_a_prompt(text))
            posed.append(found is not None)
            valid.append(found is not None and tasks.TASKS[found[0].task].check(*found))
            late.append(first > 2 * plan.long_tokens / 3)
    late_ones = [ok for ok, is_late in zip(valid, late, strict=True) if is_late]
    return {
        "temperature": temperature,
        "samples": len(drawn),
        "tokens": plan.long_tokens,
        "ended": ended / len(drawn),
        "documents": len(begun),
        "begun": float(np.mean(begun)) if begun else 0.0,
        "posed": float(np.mean(posed)) if posed else 0.0,
        "valid": float(np.mean(valid)) if valid else 0.0,
        "late_valid": float(np.mean(late_ones)) if late_ones else 0.0,
    }


def _any_of(words: Iterable[str]) -> str:
    return "(" + "|".join(map(re.escape, words)) + ")"


_SUMS = re.compile(r"sum((?: \d){6}):")
_WORD = "|".join(tasks.edits.WORDS)
_EDITS = re.compile(rf"edit:((?: (?:{_WORD})){{16}}) \| ({_WORD}) -> ({_WORD}):")
_OPENERS = [o.format(weather) for o in grammar.OPENERS for weather in grammar.WEATHER]
_STORIES = re.compile(
    rf"{_any_of(_OPENERS)}, {_any_of(grammar.FINDERS)}(?: and {_any_of(grammar.FINDERS)})? "
    rf"{_any_of([*grammar.FINDS, *grammar.FINDS.values()])} an? "
    rf"{_any_of(dict.fromkeys(grammar.THING_LOOKS + grammar.ANIMAL_LOOKS))} "
    rf"{_any_of(grammar.THINGS + grammar.ANIMALS)} "
    rf"{_any_of(f'{word} the {place}' for place, word in grammar.PLACES.items())}\."
)


def has_a_prompt(text: str) -> bool:
    """Whether a document begins with something of the form of a prompt."""
    return any(form.match(text) for form in (_SUMS, _EDITS, _STORIES))


def read_document(text: str) -> tuple[Problem, str] | None:
    """Split a document into the problem that its prompt states and the completion, or None."""
    if match := _SUMS.match(text):
        data: tuple = tuple(map(int, match[1].split()))
        return Problem(match[0], "", "sums", data), text[match.end() :]
    if match := _EDITS.match(text):
        listed, old, new = tuple(match[1].split()), match[2], match[3]
        if len({*listed, new}) == tasks.edits.LENGTH + 1 and old in listed:
            answer = "".join(" " + (new if word == old else word) for word in listed)
            return Problem(match[0], answer, "edits", (listed, old, new)), text[match.end() :]
    if match := _STORIES.match(text):
        return _read_story(match), text[match.end() :]
    return None


def _read_story(match: re.Match) -> Problem:
    opener, first, second, _, _, noun, _ = match.groups()
    facts = {
        "names": f"{first} and {second}" if second else first,
        "who": "they" if second else grammar.FINDERS[first],
        "weather": next(w for w in grammar.WEATHER if w in opener.split()),
        "kind": "thing" if noun in grammar.THINGS else "animal",
        "noun": noun,
    }
    return Problem(match[0], "", "stories", tuple(facts.items()))

"""The text after the end of a document, when the model is let to write on."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from lablib.course import tasks
from lablib.course.tasks import Problem, grammar
from lablib.tools.completions import Plan


class Document(NamedTuple):
    """Describe a document past the end.

    Attributes:
        begun: it starts with ``<s>`` and the form of a prompt.
        task: the task whose problem it poses, or None.
        valid: that task accepts its answer.
        late: it begins in the last third of its text.
    """

    begun: bool
    task: str | None
    valid: bool
    late: bool


def problems(plan: Plan) -> list[Problem]:
    """Return what the texts begin with: ``plan.long_rows`` problems, as many of each task."""
    each = -(-plan.long_rows // len(tasks.TASKS))
    found = [p for task in tasks.TASKS.values() for p in task.problems(plan.seed, each)]
    return found[: plan.long_rows]


def past_the_end(rows: Sequence[list[int]], plan: Plan, temperature: float) -> dict[str, float]:
    """Judge the documents that follow when a model writes on after ``</s>``.

    The texts begin with the prompts of :func:`problems` and run to ``plan.long_tokens`` tokens. A
    document is what stands between one ``</s>`` and the next: the one that answers the prompt is
    not counted, nor is a last one that is unfinished when the tokens run out, neither as good nor
    as bad.

    Args:
        rows: the ids of each text after its prompt.
        plan: how long they are.
        temperature: at which they were drawn.

    Returns:
        ``temperature``; ``samples``, the texts; ``tokens``, the length of each; ``ended``, the
        share of them with a ``</s>``; ``documents``, how many followed in all; and shares of these
        (0 where there is none):

        - ``begun``: it starts with ``<s>`` and has the form of a prompt;
        - ``posed``: that prompt also keeps the rules of its task: a list of *edits* holds no word
          twice, and it holds the word to replace;
        - ``valid``: the task accepts the answer, too;
        - ``late_valid``: valid among those that begin in the last third of their text;
        - ``stories_valid``, ``sums_valid``, ``edits_valid``: valid among those that pose a problem
          of this task.
    """
    tokenizer = tasks.load_tokenizer()
    found = [document for row in rows for document in documents(row, 2 * plan.long_tokens / 3)]
    return {
        "temperature": temperature,
        "samples": len(rows),
        "tokens": plan.long_tokens,
        "ended": _share(tokenizer.token_to_id("</s>") in row for row in rows),
        "documents": len(found),
        "begun": _share(d.begun for d in found),
        "posed": _share(d.task is not None for d in found),
        "valid": _share(d.valid for d in found),
        "late_valid": _share(d.valid for d in found if d.late),
        **{f"{t}_valid": _share(d.valid for d in found if d.task == t) for t in tasks.TASKS},
    }


def documents(row: list[int], late: float) -> Iterator[Document]:
    """Yield the finished documents after the first ``</s>`` of a text.

    Args:
        row: its token ids.
        late: a document that begins after so many tokens is a late one.
    """
    tokenizer = tasks.load_tokenizer()
    begin, end = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
    for first, last in pairwise(i for i, token in enumerate(row) if token == end):
        document = row[first + 1 : last]
        text = tokenizer.decode(document[1:]) if document[:1] == [begin] else ""
        problem, answer = read_document(text) or (None, "")
        task = problem.task if problem else None
        valid = problem is not None and tasks.TASKS[problem.task].check(problem, answer)
        yield Document(has_a_prompt(text), task, valid, first > late)


def _share(marks: Iterable[bool]) -> float:
    marks = list(marks)
    return sum(marks) / len(marks) if marks else 0.0


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
    """Tell whether a document begins with something of the form of a prompt."""
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

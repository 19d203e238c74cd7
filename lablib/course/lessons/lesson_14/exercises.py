"""Exercises of lesson 14; its page: units and ranks, seeds of their own, going on after a kill."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.comparing import compare
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.lessons.edges import edges, refuse_changes
from lablib.course.lessons.lesson_14.exercises_promises import PROMISES
from lablib.course.lessons.lesson_14.exercises_waiting import WAITING

import numpy as np

__all__ = ["LEFT", "PROMISES", "SEED", "WAITING", "WAITS"]

# ------------------------------------------------------------------ 14.1 who waits


def waits(unit_seconds, ranks):
    """Return how many seconds each rank waits for the last one, a list of `ranks` numbers.

    unit_seconds: what each unit takes; perhaps there are none, or fewer than ranks.
    ranks: how many there are. The first unit goes to rank 0, the next one to rank 1, and so on;
        after the last rank it is rank 0's turn again. All is dealt before the work begins.
    """
    busy = [0.0] * ranks
    for place, seconds in enumerate(unit_seconds):
        busy[place % ranks] += seconds
    return [max(busy) - mine for mine in busy]


def waits_by_slices(unit_seconds, ranks):
    busy = np.array([sum(unit_seconds[rank::ranks]) for rank in range(ranks)])
    return busy.max() - busy


def dealt_in_blocks(unit_seconds, ranks):
    size = -(-len(unit_seconds) // ranks)
    busy = [sum(unit_seconds[rank * size : (rank + 1) * size]) for rank in range(ranks)]
    return [max(busy) - mine for mine in busy]


def to_who_is_free(unit_seconds, ranks):
    busy = [0.0] * ranks
    for seconds in unit_seconds:
        busy[busy.index(min(busy))] += seconds
    return [max(busy) - mine for mine in busy]


def _piles(rng: np.random.Generator) -> Iterator[tuple[list[float], int]]:
    yield [3, 1, 2], 2
    yield [1, 1, 5, 1], 2
    yield [4.0, 2.0, 1.0], 3
    yield [2, 7], 4  # two have nothing to do
    yield [5, 1, 1, 1, 1, 6], 3  # there and back again would be another share
    for size, ranks in ((11, 3), (40, 7), (9, 1), (5, 12)):
        yield rng.exponential(2, size=size).round(2).tolist(), ranks
    yield [0.5] * 64, 16


def _small_piles(rng: np.random.Generator) -> Iterator[tuple[list[float], int]]:
    yield [], 3
    yield [2.5], 1
    yield [2.5], 3  # one for three, and so none
    yield [0.0, 3.0, 0.0], 2


WAITS = Exercise(
    id="14.1",
    title="Who waits, and how long",
    task=(
        "All units are dealt like cards before the work begins, and the sweep is done when the "
        "last rank is. Say how long each rank waits for that."
    ),
    stars=1,
    minutes=6,
    reference=waits,
    alternatives=[waits_by_slices],
    wrong={
        dealt_in_blocks: (
            "rank 0 gets the first units in a row: they are dealt like cards, so its second unit "
            "is the one after everybody's first."
        ),
        to_who_is_free: (
            "each unit goes to whoever is free first: that is the lesson's queue; here all is "
            "dealt before the work begins."
        ),
        changed(waits, "until_the_mean", "max(busy) - mine", "max(sum(busy) / ranks - mine, 0)"): (
            "the end is when everybody had done an equal share: it ends when the slowest rank ends."
        ),
        changed(
            waits,
            "for_the_slowest_unit",
            "max(busy) - mine",
            "max(max(unit_seconds, default=0) - mine, 0)",
        ): ("the end is taken from the slowest *unit*: a rank has several, one after the other."),
        changed(
            waits, "seconds_of_work", "max(busy) - mine", "mine"
        ): "these are the seconds of work, and not those of waiting.",
        changed(
            waits, "only_who_has_work", "for mine in busy", "for mine in busy[: len(unit_seconds)]"
        ): "ranks without a unit are missing: they wait from start to end.",
        changed(
            waits, "counts_units", "+= seconds", "+= 1"
        ): "units are counted: one may take as long as ten others.",
    },
    cases=_piles,
    checker=edges(_small_piles),
    hints=[
        "First find out how many seconds each rank works. When is all done?",
        "Unit number `place` goes to rank `place % ranks`.",
    ],
    next="Sort the units, longest first. Does the longest wait always get shorter?",
    further=True,
)

# ------------------------------------------------------------------ 14.2 a seed of its own


def seed_for(seed, unit):
    """Return a unit's own seed: a function of what the unit is, in every process the same.

    seed: the sweep's, a whole number.   unit: a dict of plain values; leave it as it is.
    Write [seed, unit] as text with json.dumps, the unit's keys sorted. Take the SHA-256 of that
    text (hashlib.sha256), and its first 6 bytes as one whole number, the first byte the highest.
    """
    import hashlib
    import json

    text = json.dumps([seed, unit], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def seed_by_hex_digits(seed, unit):
    import hashlib
    import json

    text = json.dumps([seed, dict(sorted(unit.items()))])
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def _digest(text: str) -> bytes:
    import hashlib

    return hashlib.sha256(text.encode()).digest()


def _text(value: Any, *, sort: bool = True) -> str:
    import json

    return json.dumps(value, sort_keys=sort)


def pythons_hash(seed, unit):
    return hash(_text([seed, unit]))


def forgets_the_seed(seed, unit):
    return int.from_bytes(_digest(_text(unit))[:6], "big")


def adds_the_seed(seed, unit):
    return seed + forgets_the_seed(seed, unit)


def _units(rng: np.random.Generator) -> Iterator[tuple[int, dict[str, Any]]]:
    yield 7, {"problem": 3}
    yield 7, {"problem": 3, "temperature": 0.8}
    yield 7, {"temperature": 0.8, "problem": 3}  # the same unit
    yield 0, {"problem": 3}
    yield 2026, {"task": "sums", "rule": "block", "gamma": 4, "exact": True, "draft": None}
    yield 7, {"γ": 4}  # json.dumps writes it in ASCII
    yield 7, {"a": 4, "B": 4}  # capitals come first
    yield 7, {"a": 1.0}  # json.dumps writes 1.0, not 1
    yield 7, {"a": True}  # and true; to Python the three are equal
    yield 7, {"a": 0.25}
    yield 2**40, {"a": 4}
    yield -1, {"a": 4}
    for place in (1, 12, 123):
        unit = {"task": "edits", "problem": place, "n": int(rng.integers(1, 65))}
        yield int(rng.integers(1, 2**31)), unit


def _check_seed(fn: Callable[..., Any]) -> None:
    try:
        compare(replace(fn.exercise, cases=_units), fn)
    except Wrong as wrong:
        if wrong.like is None and wrong.error is None and _hashes(fn):
            raise Wrong(wrong.message, like="pythons_hash") from None
        raise
    refuse_changes(fn)


def _hashes(fn: Callable[..., Any]) -> bool:
    """Tell whether answers are as wide as those of ``hash``, and may be negative as those are.

    What ``hash`` says of a text is another number in each process, so it is known by its size.
    """
    found = [fn(*case) for case in _units(np.random.default_rng(0))]
    whole = all(isinstance(each, int) and -(2**63) <= each < 2**63 for each in found)
    return whole and any(abs(each) >= 2**50 for each in found)


SEED = Exercise(
    id="14.2",
    title="A seed of its own",
    task=(
        "A unit's random numbers may depend on what the unit *is*, and on nothing else: not on its "
        "place, on the rank, or on the process that computes it. Write the seed that does so."
    ),
    stars=2,
    minutes=8,
    reference=seed_for,
    alternatives=[seed_by_hex_digits],
    wrong={
        pythons_hash: (
            "this looks like Python's `hash`: of a text it is another number in each process, so "
            "two ranks would never agree."
        ),
        changed(seed_for, "keys_as_they_come", ", sort_keys=True", ""): (
            "the keys stand in the text as they come: the same unit, written in another order, "
            "gets another seed."
        ),
        forgets_the_seed: "the sweep's own seed plays no part: nobody could draw a second time.",
        adds_the_seed: (
            "the seed is added behind the hash: sweeps with neighbouring seeds could share random "
            "numbers. It belongs into the text."
        ),
        changed(
            seed_for, "whole_digest", "[:6]", ""
        ): "all 32 bytes are taken: the first 6 are asked for.",
        changed(
            seed_by_hex_digits, "six_hex_digits", "[:12]", "[:6]"
        ): "six hexadecimal digits are three bytes: take 6 bytes, twelve digits.",
        changed(
            seed_for, "lowest_byte_first", '"big"', '"little"'
        ): "the bytes are read from the other end: the first one is the highest.",
        changed(
            seed_for, "values_alone", "[seed, unit]", "[seed, *(unit[key] for key in sorted(unit))]"
        ): "the keys are missing from the text: whose value is 3, the problem's or γ's?",
    },
    checker=_check_seed,
    # Of 2 ** 48 the usual tolerance would let the last four of six bytes be anything.
    tolerance=0.0,
    hints=[
        "Which argument of `json.dumps` sorts the keys? A text has `.encode()`.",
        'int.from_bytes(digest[:6], "big")',
    ],
    next="Two units of a sweep of a million: how likely is it that any two share a seed?",
    further=True,
)

# ------------------------------------------------------------------ 14.3 going on after a kill


def still_to_do(content, units):
    """Return the units that a killed sweep has not finished, in the order of `units`.

    content: the text of its file. The first line is JSON, and its "unit" lists the keys that name
        a unit. Each further line is JSON, too: a unit's keys and what was found, in no particular
        order. A line is whole if it ends with its newline; the kill may have torn the last one,
        even the first line. Perhaps the file is empty.
    units: a list of different dicts with these keys; leave them as they are.
    """
    import json

    whole = content.split("\n")[:-1]  # what stands behind the last newline is torn
    if not whole:
        return units
    keys = json.loads(whole[0])["unit"]
    records = [json.loads(line) for line in whole[1:]]
    finished = [{key: record[key] for key in keys} for record in records]
    return [unit for unit in units if unit not in finished]


def still_by_sets(content, units):
    import json

    records = [json.loads(x) for x in content.splitlines(keepends=True) if x.endswith("\n")]
    if not records:
        return list(units)
    names = sorted(records[0]["unit"])
    done = {tuple(record[name] for name in names) for record in records[1:]}
    return [unit for unit in units if tuple(unit[name] for name in names) not in done]


def _finished(lines: list[str], keys: list[str] | None = None) -> list[dict[str, Any]]:
    import json

    keys = keys or json.loads(lines[0])["unit"]
    return [{key: json.loads(line)[key] for key in keys} for line in lines[1:]]


def _lines(content: str) -> list[str]:
    return content.split("\n")[:-1]


def reads_the_torn_line(content, units):
    if not content:
        return units
    done = _finished(content.splitlines())
    return [unit for unit in units if unit not in done]


def drops_the_last_line(content, units):
    lines = content.splitlines()[:-1]
    done = _finished(lines) if lines else []
    return [unit for unit in units if unit not in done]


def keeps_what_parses(content, units):
    import json

    lines = content.splitlines()
    try:
        done = _finished(lines)
    except (json.JSONDecodeError, IndexError):
        done = _finished(lines[:-1]) if lines[1:] else []
    return [unit for unit in units if unit not in done]


def counts_lines(content, units):
    return units[max(len(_lines(content)) - 1, 0) :]


def whole_records(content, units):
    import json

    records = [json.loads(line) for line in _lines(content)[1:]]
    return [unit for unit in units if unit not in records]


def first_key_alone(content, units):
    lines = _lines(content)
    if not lines:
        return units
    key = next(iter(units[0]))
    done = [unit[key] for unit in _finished(lines, [key])]
    return [unit for unit in units if unit[key] not in done]


def begins_again(content, units):
    if not content.endswith("\n"):
        return units
    return still_to_do(content, units)


def what_is_finished(content, units):
    left = still_to_do(content, units)
    return [unit for unit in units if unit not in left]


def _file(units: list[dict[str, Any]], places: list[int], tail: str = "") -> str:
    """Return a file that holds the units at these places, and then a tail; few fit into a line."""
    import json

    first: dict[str, Any] = {"unit": list(units[0])}
    if len(units) > 9:
        first = {"sweep": "votes", **first, "settings": {"seed": 7}}
    records = [{**units[place], "right": 10 + place} for place in places]
    return "".join(f"{json.dumps(each)}\n" for each in (first, *records)) + tail


def _torn(unit: dict[str, Any], size: int | None = None) -> str:
    """Return a record without its newline, or only its first letters."""
    import json

    return json.dumps({**unit, "right": 3})[:size]


def _killed(rng: np.random.Generator) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    one = [{"problem": j} for j in range(4)]
    yield _file(one, [0, 1]), one
    yield _file(one, [0, 2]), one  # in no particular order
    yield _file(one, [0, 1], _torn(one[2], 9)), one
    yield _file(one, [1, 3], _torn(one[0])), one  # all but its newline
    yield _file(one, []), one
    yield _file(one, [3, 1, 0, 2]), one
    pair = [{"problem": 1, "rule": rule} for rule in ("match", "block")]
    yield '{"unit": ["problem", "rule"]}\n{"rule": "match", "problem": 1}\n', pair
    yield '{"unit": ["rule", "problem"]}\n{"rule": "match", "problem": 1}\n', pair
    yield '{"unit": ["a"]}\n{"a": 10}\n', [{"a": 1}, {"a": 10}]
    four = [{"a": a, "b": b} for a in (1, 2) for b in (1, 2)]  # each value is in some record
    yield '{"unit": ["a", "b"]}\n{"a": 1, "b": 1}\n{"a": 2, "b": 2}\n', four
    many = [{"problem": j, "rule": r} for r in ("match", "block") for j in range(11)]
    for size in (3, 12, 21):
        places = rng.permutation(len(many))[:size].tolist()
        yield _file(many, places, _torn(many[5], 20)), many
    yield _file(many, [10, 21, 0]), many
    twelve = [{"problem": j} for j in range(12)]
    yield _file(twelve, [0, 11]), twelve  # 1 is how 11 begins, and 10 is what was found for 0
    yield _file([dict(reversed(unit.items())) for unit in many], [2, 9]), many
    two = [{"a": 1, "b": 2}, {"a": 2, "b": 1}]  # the same values, and another unit
    yield '{"unit": ["a", "b"]}\n{"a": 1, "b": 2}\n', two
    texts = [{"a": 1}, {"a": "1"}]  # a text is no number
    yield '{"unit": ["a"]}\n{"a": 1}\n', texts
    yield '{"unit": ["a"]}\n{"a": "X"}\n', [{"a": "x"}, {"a": "X"}]
    yield '{"unit": ["a"]}\n{"a": "x y"}\n', [{"a": "xy"}, {"a": "x y"}]  # a space is a sign, too
    yield '{"unit": ["a"]}\n{"n": 2, "a": 1}\n', [{"a": 1}, {"a": 2}]
    yield '{"unit": ["a"]}\n{"a": 1, "n": 0}\n', [{"a": 1}, {"a": 2}]  # 0 is a result, too
    yield '{"unit": ["a"]}\n{"a": 0.5}\n', [{"a": 0.5}, {"a": 0.25}]
    three = [{"a": a} for a in (1, 2, 3)]  # null was found for 1, nothing at all for 2
    yield '{"unit": ["a"]}\n{"a": 1, "n": null}\n{"a": 2}\n', three
    drafts = [{"a": 1, "draft": draft} for draft in (None, "", "x", "X")]  # null is a value
    yield '{"unit": ["a", "draft"]}\n{"a": 1, "draft": "x"}\n{"a": 1, "draft": ""}\n', drafts
    yield _file(one, [1], _torn(one[2])), one  # the torn one has no place of its own
    spelled = [{"a": a} for a in (1, 2, 3)]  # JSON needs no spaces, and a result may be a dict
    yield '{"unit":["a"]}\n{"a":1}\n{"n": {"b": 0, "a": 3, "c": 0}, "a": 2}\n', spelled


def _hardly_begun(rng: np.random.Generator) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    one = [{"problem": j} for j in range(3)]
    yield "", one
    yield _file(one, [])[:20], one
    yield _file(one, [])[:-1], one  # the first line, but for its newline
    yield _file(one, [0, 1, 2], _torn(one[0], 1)), one
    yield _file(one, [], _torn(one[0], -1)), one  # nothing is whole but the first line
    three = [{"a": 1, "b": 2, "c": c} for c in (3, 4)]  # two keys of three are alike
    yield _file(three, [1]), three


LEFT = Exercise(
    id="14.3",
    title="Where was I?",
    task=(
        "A sweep was killed, and its file may end in the middle of a line. Find the units that are "
        "still to do, so that the same command can go on."
    ),
    stars=2,
    minutes=10,
    reference=still_to_do,
    alternatives=[still_by_sets],
    wrong={
        reads_the_torn_line: (
            "the torn line is read like the others: a kill may come in the middle of a write."
        ),
        drops_the_last_line: (
            "the last line is always dropped: where its newline is there it is whole, and that "
            "unit would be done twice."
        ),
        keeps_what_parses: (
            "a line without its newline counts if it happens to parse: the next record would be "
            "written behind it, into the same line."
        ),
        counts_lines: (
            "as many units as there are lines are taken off the front: several ranks finish them "
            "in another order."
        ),
        whole_records: (
            "a record is more than its unit, so the two are never equal: compare the unit's keys."
        ),
        first_key_alone: (
            "one key is compared: problem 3 under one rule is not problem 3 under the other."
        ),
        begins_again: "one torn line, and all is done again: the lines before it are whole.",
        what_is_finished: "these are the units that are finished.",
    },
    cases=_killed,
    checker=edges(_hardly_begun),
    hints=[
        'What is the last piece of `content.split("\\n")` if the last line is whole? And if not?',
        'keys = json.loads(lines[0])["unit"], then {key: record[key] for key in keys} of each '
        "record.",
    ],
    next="The library also cuts the torn line off before it writes on. Why must it?",
    further=True,
)

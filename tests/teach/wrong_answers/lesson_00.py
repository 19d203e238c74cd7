"""Answers to the exercises of lesson 00, as students write them: right ones and wrong ones."""

import os
import statistics
from collections import Counter
from difflib import SequenceMatcher
from fractions import Fraction
from itertools import groupby, takewhile

import lablib  # noqa: F401 (before mlx)

import mlx.core as mx
import numpy as np
from oracles.answers import Answers


def given(answers):
    return [answer for answer in answers if answer is not None]


def same(guesses, choices):
    return [g == c for g, c in zip(guesses, choices, strict=True)]


def the_same_text(guesses, choices):
    begun = [
        ["".join(map(str, each[:n])) for n in range(len(each) + 1)] for each in (guesses, choices)
    ]
    return max(n for n, (a, b) in enumerate(zip(*begun, strict=True)) if a == b)


def ends_with_the_sentence(guesses, choices):
    kept = guesses[: breaks(guesses, choices)]
    return kept.index(".") + 1 if "." in kept else len(kept)


def pops(guesses, choices):
    count = 0
    while guesses and guesses.pop(0) == choices.pop(0):
        count += 1
    return count


def breaks(guesses, choices):
    count = 0
    for match in same(guesses, choices):
        if not match:
            break
        count += 1
    return np.int64(count)


def removes_nones(answers):
    while None in answers:
        answers.remove(None)
    return statistics.mode(answers)


def leader_so_far(answers):
    best, votes = None, {}
    for answer in given(answers):
        votes[answer] = votes.get(answer, 0) + 1
        if best is None or votes[answer] > votes[best]:
            best = answer
    return best


def none_takes_a_vote_away(answers):
    votes, last = Counter(), None
    for answer in answers:
        if answer is not None:
            last = answer
        if last is not None:
            votes[last] += 1 if answer is not None else -1
    return votes.most_common(1)[0][0]


def votes_that_fade(answers):
    votes = Counter()
    for place, answer in enumerate(answers):
        votes[answer] += 0 if answer is None else 1 - place / 1000
    return votes.most_common(1)[0][0]


def removes_as_it_goes(answers):
    for answer in answers:
        if answer is None:
            answers.remove(answer)
    return statistics.mode(answers)


def majority_by_cancelling(answers):
    """Boyer and Moore's vote: right where one answer has more than half."""
    best, lead = None, 0
    for answer in given(answers):
        if lead == 0:
            best = answer
        lead += 1 if answer == best else -1
    return best


def stops_at_the_first_fall(p):
    i = 0
    while i + 1 < len(p) and p[i + 1] >= p[i]:
        i += 1
    return i


def higher_than_both_neighbours(p):
    inner = (i for i in range(1, len(p) - 1) if p[i - 1] < p[i] > p[i + 1])
    return next(inner, p.index(max(p)))


def pair_by_pair(p):
    """Return the best of the best of each pair; the last of an odd number is in none."""
    winners = [i if p[i] >= p[i + 1] else i + 1 for i in range(0, len(p) - 1, 2)]
    return max(winners, key=p.__getitem__, default=0)


def first_block_of_a_diff(guesses, choices):
    block = SequenceMatcher(None, guesses, choices, autojunk=False).get_matching_blocks()[0]
    return block.size if block.a == block.b == 0 else 0


def by_a_dictionary(guesses, choices):
    wanted = dict(zip(guesses, choices, strict=True))
    return sum(1 for _ in takewhile(lambda guess: wanted[guess] == guess, guesses))


# With one hash seed in forty this set begins with another answer than the misconception's: refused,
# but not recognised. That it is recognised is asserted where the seed is set, by test_hash_seeds.
WHERE_SEEDED = "order_of_a_set" if "PYTHONHASHSEED" in os.environ else None

RIGHT = [
    ("00.1", lambda p: p.index(max(p))),
    ("00.1", np.argmax),
    ("00.1", lambda p: mx.argmax(mx.array(p))),
    ("00.1", lambda p: max(enumerate(p), key=lambda pair: pair[1])[0]),
    ("00.1", lambda p: sorted(range(len(p)), key=lambda i: -p[i])[0]),
    ("00.1", lambda p: np.float64(np.flatnonzero(np.array(p) == max(p))[0])),
    ("00.1", lambda p: max(range(len(p)), key=p.__getitem__)),
    ("00.1", lambda p: p.index(sorted(p)[-1])),
    ("00.2", lambda a: statistics.mode(given(a))),
    ("00.2", removes_nones),
    ("00.2", lambda a: max(a, key=lambda x: (x is not None) * a.count(x))),
    (
        "00.2",
        lambda a: next(x for x in a if x is not None and a.count(x) == max(map(a.count, given(a)))),
    ),
    ("00.2", lambda a: max(dict.fromkeys(given(a)), key=a.count)),
    ("00.2", lambda a: next(x for x, _ in Counter(a).most_common() if x is not None)),
    ("00.2", lambda a: np.str_(max(given(a), key=a.count))),
    ("00.2", lambda a: sorted(given(a), key=lambda x: (-a.count(x), a.index(x)))[0]),
    ("00.3", pops),
    ("00.3", breaks),
    ("00.3", lambda g, c: len(list(takewhile(bool, same(g, c))))),
    ("00.3", lambda g, c: next((i for i in range(len(g)) if g[i] != c[i]), len(g))),
    ("00.3", lambda g, c: Fraction(breaks(g, c))),
    ("00.3", lambda g, c: [*same(g, c), False].index(False)),
    ("00.3", lambda g, c: int(np.cumprod([1, *same(g, c)]).sum()) - 1),
    ("00.3", lambda g, c: mx.array(sum(g[:n] == c[:n] for n in range(1, len(g) + 1)))),
]
WRONG = [
    ("00.1", "largest_value", max),
    ("00.1", "last_of_equals", lambda p: np.argsort(p, kind="stable")[-1]),
    ("00.1", "last_of_equals", lambda p: len(p) - 1 - p[::-1].index(max(p))),
    ("00.1", "last_rise", lambda p: max(i for i in range(len(p)) if i == 0 or p[i] > p[i - 1])),
    *(("00.1", None, lambda p, n=n: int(np.argmax(np.round(p, n)))) for n in (1, 2, 3)),
    ("00.1", None, lambda p: max(range(1, len(p)), key=p.__getitem__)),
    ("00.1", "first_peak", stops_at_the_first_fall),
    ("00.1", None, lambda p: p.index(sorted(p)[1 % len(p)])),
    ("00.1", None, lambda p: next(i for i, x in enumerate(p) if x > 0.45)),
    ("00.1", None, lambda p: max(range(len(p)), key=lambda i: str(p[i]))),
    ("00.1", None, lambda p: int(np.argmax(p[:10]))),
    ("00.1", None, pair_by_pair),
    ("00.1", None, higher_than_both_neighbours),
    ("00.1", None, lambda p: int(np.argmax(np.float16(p)))),
    ("00.1", None, lambda p: int(np.argmax(p[1:])) + 1),
    ("00.1", None, lambda p: int(np.random.default_rng(0).choice(len(p), p=np.array(p) / sum(p)))),
    ("00.2", "order_of_a_set", lambda a: max(set(a) - {None}, key=a.count)),
    ("00.2", WHERE_SEEDED, lambda a: max(set(given(a)), key=given(a).count)),
    ("00.2", None, lambda a: max(set(a), key=a.count)),
    ("00.2", "counts_the_silent", lambda a: max(a, key=a.count)),
    ("00.2", "first_in_the_alphabet", lambda a: max(sorted(set(given(a))), key=a.count)),
    ("00.2", "removes_while_it_walks", removes_as_it_goes),
    ("00.2", "first_to_get_there", leader_so_far),
    ("00.2", None, majority_by_cancelling),
    ("00.2", None, lambda a: statistics.mode(x for x in a if x)),
    ("00.2", None, lambda a: statistics.mode([x for x in given(a) if x.isdigit()] or ["4"])),
    ("00.2", None, lambda a: str(statistics.mode(int(x) for x in given(a)))),
    ("00.2", None, lambda a: statistics.mode(x for x in map(str, a) if x != "None")),
    ("00.2", None, lambda a: statistics.mode("" if x is None else x for x in a)),
    ("00.2", None, lambda a: statistics.mode(x or "0" for x in a)),
    ("00.2", None, lambda a: statistics.mode(x.lower() for x in given(a))),
    (
        "00.2",
        None,
        lambda a: max(given(a), key=lambda x: sum(y.lower() == x.lower() for y in given(a))),
    ),
    ("00.2", None, lambda a: statistics.mode(x.strip() for x in given(a))),
    ("00.2", None, lambda a: max(given(a), key=lambda x: sum(x is y for y in a))),
    ("00.2", None, lambda a: max(given(a), key=lambda x: sum(x in y for y in given(a)))),
    ("00.2", "largest_answer", lambda a: sorted(given(a))[-1]),
    ("00.2", "first_answer", lambda a: given(a)[0]),
    ("00.2", "last_of_the_leaders", lambda a: max(given(a)[::-1], key=a.count)),
    ("00.2", "counts_digits", lambda a: max(given(a), key="".join(given(a)).count)),
    ("00.2", "longest_run", lambda a: max(groupby(given(a)), key=lambda r: len(list(r[1])))[0]),
    ("00.2", None, lambda a: Counter(given(a)).most_common(1)),
    ("00.2", None, lambda a: Counter(given(a)).most_common(1)[0][1]),
    ("00.2", None, lambda a: max(given(a), key=lambda x: (a.count(x), x))),
    (
        "00.2",
        None,
        lambda a: max(given(a), key=lambda x: sum(y.zfill(9) == x.zfill(9) for y in given(a))),
    ),
    ("00.2", None, lambda a: next((x for x in given(a) if 2 * a.count(x) > len(a)), given(a)[0])),
    ("00.2", None, lambda a: int(statistics.mode(given(a)))),
    ("00.2", None, lambda a: Counter("".join(given(a))).most_common(1)[0][0]),
    ("00.2", None, lambda a: statistics.mode(given(a)[:10])),
    ("00.3", "same_object", lambda g, c: breaks([*map(id, g)], [*map(id, c)])),
    ("00.3", None, lambda g, c: breaks([str(x)[0] for x in g], [str(x)[0] for x in c])),
    ("00.3", None, lambda g, c: breaks([str(x).lower() for x in g], [str(x).lower() for x in c])),
    ("00.3", None, lambda g, c: breaks([str(x).strip() for x in g], [str(x).strip() for x in c])),
    ("00.3", None, lambda g, c: breaks([len(str(x)) for x in g], [len(str(x)) for x in c])),
    (
        "00.3",
        None,
        lambda g, c: next((i for i in range(len(g)) if str(g[i]) not in str(c[i])), len(g)),
    ),
    (
        "00.3",
        None,
        lambda g, c: next(
            (i for i in range(len(g)) if not str(g[i]).startswith(str(c[i]))), len(g)
        ),
    ),
    (
        "00.3",
        None,
        lambda g, c: next((i for i in range(len(g)) if not g[i] or g[i] != c[i]), len(g)),
    ),
    (
        "00.3",
        None,
        lambda g, c: breaks(
            [x if isinstance(x, str) else abs(x) for x in g],
            [x if isinstance(x, str) else abs(x) for x in c],
        ),
    ),
    ("00.3", "all_matches", lambda g, c: sum(same(g, c))),
    ("00.3", "place_of_the_word", by_a_dictionary),
    ("00.3", "zero_at_the_end", lambda g, c: np.argmin(same(g, c)) if g else 0),
    ("00.3", "longest_match", lambda g, c: max(map(len, bytes(same(g, c)).split(b"\0")))),
    ("00.3", "returns_the_tokens", lambda g, c: g[: breaks(g, c)]),
    ("00.3", "all_or_nothing", lambda g, c: len(g) * (g == c)),
    ("00.3", None, lambda g, c: breaks(g, c) + 1),
    ("00.3", None, lambda g, c: len(set(g) & set(c))),
    ("00.3", None, lambda g, c: int(np.argmin(same(g, c)))),
    ("00.3", None, lambda g, c: [x in c for x in [*g, None]].index(False)),
    ("00.3", None, lambda g, c: same(g, c).index(False)),
    ("00.3", None, lambda g, c: [x in y for x, y in zip(g, c, strict=True)].count(True)),
    ("00.3", None, lambda g, c: breaks(g[:10], c[:10])),
    ("00.3", None, lambda g, c: len(g) - breaks(g, c)),
    ("00.3", None, the_same_text),
    ("00.3", None, lambda g, c: max(n for n in range(len(g) + 1) if {*g[:n]} == {*c[:n]})),
    ("00.3", None, lambda g, c: breaks([str(x).strip() and x for x in g], c)),
    ("00.3", None, ends_with_the_sentence),
    ("00.1", None, lambda p: [x > max(p) - 1e-6 for x in p].index(True)),
    ("00.1", None, lambda p: [round(x, 6) for x in p].index(round(max(p), 6))),
    ("00.1", None, lambda p: len(p) - 1 if p[-1] == max(p) else p.index(max(p))),
    ("00.1", None, lambda p: p.index(max(p)) if max(p) > 0.1 else 0),
    ("00.2", None, lambda a: statistics.mode([x for x in given(a) if x != "0"] or ["0"])),
    ("00.2", None, lambda a: statistics.mode([x for x in given(a) if x.lower() != "no"] or ["8"])),
    ("00.2", None, votes_that_fade),
    ("00.2", None, none_takes_a_vote_away),
    ("00.2", None, lambda a: max(given(a), key=lambda x: str(a.count(x)))),
    (
        "00.2",
        None,
        lambda a: max(given(a), key=lambda x: sum(sorted(x) == sorted(y) for y in given(a))),
    ),
    ("00.3", None, first_block_of_a_diff),
    ("00.1", None, lambda p: p.index(max(p[:64]))),
    ("00.2", None, lambda a: statistics.mode(given(a)[:100])),
    ("00.2", None, lambda a: max(list(dict.fromkeys(given(a)))[:20], key=a.count)),
    ("00.3", None, lambda g, c: breaks(g[:50], c[:50])),
    ("00.3", None, lambda g, c: breaks([*map(sorted, map(str, g))], [*map(sorted, map(str, c))])),
    (
        "00.3",
        None,
        lambda g, c: breaks(*[[t if isinstance(t, str) else t % 256 for t in x] for x in (g, c)]),
    ),
]

ANSWERS = Answers(RIGHT, WRONG)
for name, old, new in (
    ("one_place_behind", "choices[i]", "choices[i - 1]"),
    ("from_the_other_end", "choices[i]", "choices[-1 - i]"),
    ("one_too_few", "return i\n", "return i - 1\n"),
    ("counts_the_rest", "return i\n", "return len(guesses) - i\n"),
    ("first_place_of_the_choice", "return i\n", "return choices.index(choices[i])\n"),
    ("skips_the_first", "range(len(guesses))", "range(1, len(guesses))"),
    ("first_match", "!=", "=="),
):
    ANSWERS.changed("00.3", name, old, new)


@ANSWERS.wrong("00.2", "set_with_nobody")
def most_frequent_of_a_set(answers):
    return max(set(answers), key=answers.count)


@ANSWERS.wrong("00.2", "drops_the_empty")
def counts_what_is_true(answers):
    return Counter(answer for answer in answers if answer).most_common(1)[0][0]

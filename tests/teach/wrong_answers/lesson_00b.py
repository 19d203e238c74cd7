"""Answers to the exercises of lesson 00b, as students write them: right ones and wrong ones."""

from functools import reduce
from itertools import pairwise

import lablib  # noqa: F401 (before mlx)
from lablib.course.lessons.lesson_00b.exercises import merge

import mlx.core as mx
import numpy as np
from oracles.answers import Answers


def rebuilds(word, merges):
    pieces = [*word]
    for a, b in merges:
        new, i = [], 0
        while i < len(pieces):
            if pieces[i : i + 2] == [a, b]:
                new.append(a + b)
                i += 2
            else:
                new.append(pieces[i])
                i += 1
        pieces = new
    return pieces


def lowest_rank_first(word, merges):
    """Look for the earliest merge that fits, again and again: as most libraries do."""
    rank, pieces = {pair: i for i, pair in enumerate(merges)}, [*word]
    while True:
        pairs = {*pairwise(pieces)} & {*rank}
        if not pairs:
            return pieces
        pieces = merge(pieces, min(pairs, key=rank.get))


def removes_while_it_walks(word, merges):
    pieces = [*word]
    for pair in merges:
        for i in range(len(pieces) - 1):
            if (pieces[i], pieces[i + 1]) == pair:
                pieces[i] += pieces.pop(i + 1)
    return pieces


def overlapping(word, merges):
    pieces = [*word]
    for a, b in merges:
        hits = [i for i in range(len(pieces) - 1) if pieces[i] == a and pieces[i + 1] == b]
        pieces = [a + b if i in hits else p for i, p in enumerate(pieces) if i - 1 not in hits]
    return pieces


def text_with_bars(word, merges):
    return "|".join(rebuilds(word, merges))


def writes_into_x(x, blocks):
    for block in blocks:
        x[:] = x + block(x)
    return x


def keeps_a_list(x, blocks):
    stream = [x]
    for block in blocks:
        stream.append(stream[-1] + block(stream[-1]))
    return stream[-1]


def every_stage(x, blocks):
    stream = [x]
    for block in blocks:
        stream.append(stream[-1] + block(stream[-1]))
    return stream


def twice_itself(x, blocks):
    for block in blocks:
        x = x + x + block(x)
    return x


def stops_inside(x, blocks):
    for block in blocks:
        x = x + block(x)
        return x
    return x


RIGHT = [
    ("00b.1", rebuilds),
    ("00b.1", lambda word, merges: reduce(merge, merges, list(word))),
    ("00b.2", keeps_a_list),
    ("00b.2", lambda x, blocks: reduce(lambda y, block: y + block(y), blocks, x)),
    ("00b.3", lambda logits: np.argmax(logits[len(logits) - 1])),
    ("00b.3", lambda logits: int(np.argmax(logits, axis=-1)[-1])),
    ("00b.3", lambda logits: mx.argmax(mx.array(logits)[-1]).item()),
]

WRONG = [
    ("00b.1", None, removes_while_it_walks),
    ("00b.1", None, overlapping),
    ("00b.1", None, text_with_bars),
    ("00b.1", None, lowest_rank_first),
    ("00b.1", "one_piece", lambda word, merges: [word]),
    ("00b.2", "in_place", writes_into_x),
    ("00b.2", "only_the_first", stops_inside),
    ("00b.2", "replaces", lambda x, blocks: reduce(lambda y, block: block(y), blocks, x)),
    ("00b.2", None, every_stage),
    ("00b.2", None, twice_itself),
    ("00b.2", None, lambda x, blocks: x),
    ("00b.3", "first_row", lambda logits: int(logits[0].argmax())),
    ("00b.3", "of_all_rows", lambda logits: int(logits.argmax())),
    ("00b.3", None, lambda logits: int(logits[-2:].sum(axis=0).argmax())),
    ("00b.3", None, lambda logits: int(np.argmin(logits[-1]))),
    ("00b.3", None, lambda logits: int(np.argmax(logits[-1])) + 1),
]

ANSWERS = Answers(RIGHT, WRONG)

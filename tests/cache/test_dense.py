"""Rows laid out for attention: the same numbers as the slab's, bit for bit, however they came."""

import math
import random

from lablib.cache.dense import ROOM
from lablib.cache.slab import Slab, caches_of_rows

import mlx.core as mx
import numpy as np
import pytest

LAYERS, HEADS, SIZE = 2, 2, 3


class Rows:
    """Rows of tokens in a slab, forwarded a few at a time; every forward checks what rows see."""

    def __init__(self, max_bytes=math.inf):
        self.slab = Slab(LAYERS, 10_000, max_bytes)
        self.draw = random.Random(0)
        self.numbers = np.random.default_rng(0)

    def forward(self, before, counts, columns=None):
        """Add ``counts[i]`` tokens to row i, whose slots were ``before[i]``; return all slots."""
        held = np.array([len(row) for row in before])
        rows = zip(before, counts, strict=True)
        after = [np.concatenate([row, self.slab.allocate(n)]).astype(np.int32) for row, n in rows]
        columns = columns or max(counts)
        seen = np.zeros((len(after), max(map(len, after))), np.int32)
        for i, row in enumerate(after):
            seen[i, : len(row)] = row
        for layer, cache in enumerate(caches_of_rows(self.slab, seen, held, columns)):
            shape = (2, len(after), HEADS, columns, SIZE)
            new = mx.array(self.numbers.normal(size=shape).astype(np.float32))
            pair = cache.update_and_fetch(*new)
            mx.eval(pair, self.slab.arrays)
            for side, array in enumerate(pair):
                assert array.shape == (len(after), HEADS, seen.shape[1], SIZE)
                for i, (row, count) in enumerate(zip(after, counts, strict=True)):
                    own = self.slab.read(layer, mx.array(row)[None])[side][0]
                    assert mx.array_equal(array[i, :, : len(row)], own)
                    if count:
                        assert mx.array_equal(own[:, -count:], new[side, i, :, columns - count :])
        return after

    @property
    def kept(self):
        return bool(self.slab.dense.layers)


def test_rows_in_step_are_kept_and_extended_across_the_room():
    rows = Rows()
    slots = rows.forward([[]] * 3, [5, 5, 5])
    assert not rows.kept
    slots = rows.forward(slots, [1, 1, 1])
    arrays = rows.slab.dense.layers[0][0].shape
    assert arrays == (3, HEADS, 6 + ROOM, SIZE)
    for _ in range(ROOM + 2):
        slots = rows.forward(slots, [1, 1, 1])
        assert rows.kept
    assert rows.slab.dense.layers[0][0].shape[2] == 7 + 2 * ROOM


@pytest.mark.parametrize("count", [1, 2, 7])
def test_any_way_on_from_the_last_rows(count):
    """Selections, single tokens and several, ragged rows, steps back, slots that changed hands."""
    rows, draw = Rows(), random.Random(count)
    slots = rows.forward([[]] * count, [draw.randint(1, 6) for _ in range(count)])
    ways = {"in step": 0, "else": 0}
    for _ in range(150):
        chosen = [draw.choice(slots) for _ in slots] if draw.random() < 0.3 else list(slots)
        if draw.random() < 0.2:
            chosen = [row[: draw.randint(1, len(row))] for row in chosen]
        if draw.random() < 0.1:
            chosen = chosen[: draw.randint(1, len(chosen))]
        if draw.random() < 0.1:
            chosen.append(np.empty(0, np.int32))
        held = {slot for row in chosen for slot in row.tolist()}
        used = {slot for row in slots for slot in row.tolist()}
        rows.slab.release(np.array(sorted(used - held), np.int32))  # the next to be given out
        ragged = draw.random() < 0.3
        counts = [draw.randint(0, 3) if ragged and len(row) else 1 for row in chosen]
        counts = [draw.randint(1, 3)] * len(chosen) if draw.random() < 0.2 else counts
        more = draw.randint(0, 2) if min(map(len, chosen)) > 2 else 0
        slots = rows.forward(chosen, counts, max(1, *counts, 0) + more)
        ways["in step" if rows.kept else "else"] += 1
        if draw.random() < 0.05:
            rows.slab.dense.clear()
    assert min(ways.values()) > 3


def test_slots_that_others_wrote_are_read_again():
    """``add_to_cache`` and a compaction change what a slot holds."""
    rows = Rows()
    slots = rows.forward(rows.forward([[]] * 2, [3, 3]), [1, 1])
    assert rows.kept
    rows.slab.dense.clear()
    tokens = [mx.ones((1, HEADS, SIZE)) * number for number in (7.0, 8.0)]
    for layer in range(LAYERS):
        rows.slab.write(layer, mx.array(slots[0][:1]), *tokens)
    slots = rows.forward(slots, [1, 1])
    rows.slab.max_tokens = 0
    new_slot = rows.slab.compact(np.sort(np.concatenate(slots)))
    assert not rows.kept
    rows.forward([new_slot[row] for row in slots], [1, 1])


def test_strangers_and_copies_of_one_row_take_no_memory():
    rows = Rows()
    slots = rows.forward([[]], [6])
    rows.forward(slots * 5, [1] * 5)
    assert not rows.kept
    rows.forward([[]] * 5, [1] * 5)
    assert not rows.kept


def test_what_the_slab_leaves_of_the_budget_bounds_the_rows():
    token = LAYERS * 2 * HEADS * SIZE * 4
    for extra, fits in ((11, True), (10, False)):  # the slab's own, slot 0 and free ones included
        places = 2 * (5 + ROOM) + extra
        rows = Rows(max_bytes=places * token)
        slots = rows.forward(rows.forward([[]] * 2, [4, 4]), [1, 1])
        assert rows.slab.capacity == 10
        assert rows.kept == fits
        assert sum(array.nbytes for array in rows.slab.arrays) <= places * token
    for _ in range(4):
        slots = rows.forward(slots, [1, 1])
    assert rows.slab.capacity > 10  # now the slab needs the place itself
    assert not rows.kept

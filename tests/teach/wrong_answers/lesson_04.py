"""Answers to the exercises of lesson 04, as students write them: right ones and wrong ones."""

from collections import deque
from heapq import heapify, heappop
from itertools import zip_longest

import lablib  # noqa: F401 (before mlx)

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 04.1 the scheduler


def loop(waiting, slots, step, *, fill=None, leave=None, count=None, begin=0):
    """Serve as the lesson does, with one part of the loop replaced."""
    queue, active, steps = deque(waiting), [], begin
    while queue or active:
        if fill:
            fill(queue, active, slots)
        else:
            while queue and len(active) < slots:
                active.append(queue.popleft())
        finished = step(active)
        steps += count(active) if count else 1
        active = leave(active, finished) if leave else [r for r in active if r not in finished]
    return np.int64(steps)


@right("04.1")
def a_deque_and_a_numpy_count(waiting, slots, step):
    return loop(waiting, slots, step)


@right("04.1")
def sets_of_active_requests(waiting, slots, step):
    position, active, steps = 0, set(), 0
    while position < len(waiting) or active:
        free = slots - len(active)
        active |= set(waiting[position : position + free])
        position += free
        active -= set(step(active))
        steps += 1
    return steps


@right("04.1")
def recursion_with_tuples(waiting, slots, step):
    def rest(active, queue):
        active, queue = active + queue[: slots - len(active)], queue[slots - len(active) :]
        if not active:
            return 0
        done = step(active)
        return 1 + rest(tuple(r for r in active if r not in done), queue)

    return rest((), tuple(waiting))


@right("04.1")
def arrays_of_names(waiting, slots, step):
    active, queue, steps = np.array([], int), np.array(waiting, int), 0
    while len(active) + len(queue):
        active, queue = (
            np.append(active, queue[: slots - len(active)]),
            queue[slots - len(active) :],
        )
        active = active[~np.isin(active, step(mx.array(active)))]
        steps += 1
    return mx.array(steps)


@wrong("04.1", "steps_for_nothing")
def asks_after_the_step(waiting, slots, step):
    queue, active, steps = list(waiting), [], 0
    while True:
        while queue and len(active) < slots:
            active.append(queue.pop(0))
        done = step(active)
        active = [r for r in active if r not in done]
        steps += 1
        if not (queue or active):
            return steps


@wrong("04.1")
def at_least_one_step(waiting, slots, step):
    return max(1, int(loop(waiting, slots, step)))


@wrong("04.1")
def empties_the_callers_list(waiting, slots, step):
    active, steps = [], 0
    while waiting or active:
        while waiting and len(active) < slots:
            active.append(waiting.pop(0))
        done = step(active)
        active = [r for r in active if r not in done]
        steps += 1
    return steps


@wrong("04.1", "removes_while_looping")
def shrinks_the_list_it_walks(waiting, slots, step):
    def leave(active, finished):
        for r in active:
            if r in finished:
                active.remove(r)
        return active

    return loop(waiting, slots, step, leave=leave)


@wrong("04.1", "counts_requests")
def counts_tokens(waiting, slots, step):
    return loop(waiting, slots, step, count=len)


@wrong("04.1", "one_slot_too_many")
def fills_up_to_and_with_slots(waiting, slots, step):
    def fill(queue, active, slots):
        while queue and len(active) <= slots:
            active.append(queue.popleft())

    return loop(waiting, slots, step, fill=fill)


@wrong("04.1")
def counts_from_one(waiting, slots, step):
    return loop(waiting, slots, step, begin=1)


@wrong("04.1")
def a_queue_sorted_by_name(waiting, slots, step):
    heap = list(waiting)
    heapify(heap)
    return loop([heappop(heap) for _ in waiting], slots, step)


@wrong("04.1")
def a_queue_without_order(waiting, slots, step):
    return loop(set(waiting), slots, step)


@wrong("04.1")
def only_one_leaves_at_a_time(waiting, slots, step):
    return loop(
        waiting, slots, step, leave=lambda active, done: [r for r in active if r not in done[:1]]
    )


@wrong("04.1")
def a_falsy_name_is_nobody(waiting, slots, step):
    return loop([r for r in waiting if r], slots, step)


@wrong("04.1", "whole_batches")
def fills_when_all_are_done(waiting, slots, step):
    def fill(queue, active, slots):
        while queue and not active:
            active.extend(queue.popleft() for _ in range(min(slots, len(queue))))

    return loop(waiting, slots, step, fill=fill)


@wrong("04.1", "one_joins_a_step")
def if_instead_of_while(waiting, slots, step):
    def fill(queue, active, slots):
        if queue and len(active) < slots:
            active.append(queue.popleft())

    return loop(waiting, slots, step, fill=fill)


@wrong("04.1", "stops_with_the_queue")
def while_somebody_waits(waiting, slots, step):
    queue, active, steps = list(waiting), [], 0
    while queue:
        while queue and len(active) < slots:
            active.append(queue.pop(0))
        done = step(active)
        active = [r for r in active if r not in done]
        steps += 1
    return steps


# ------------------------------------------------------------------ 04.2 left padding


@right("04.2")
def an_array_of_mlx(rows, padding):
    width = max(map(len, rows))
    missing = mx.array([width - len(row) for row in rows])
    return mx.array([[padding] * (width - len(row)) + row for row in rows]), missing


@right("04.2")
def transposed_twice(rows, padding):
    columns = zip_longest(*(reversed(row) for row in rows), fillvalue=padding)
    tokens = [row[::-1] for row in zip(*columns, strict=True)]
    return tokens, tuple(len(t) - len(row) for t, row in zip(tokens, rows, strict=True))


@right("04.2")
def numpy_pads(rows, padding):
    lengths = np.array([len(row) for row in rows])
    missing = lengths.max() - lengths
    return [
        np.pad(row, (m, 0), constant_values=padding) for row, m in zip(rows, missing, strict=True)
    ], missing


def padded(rows, padding, width):
    return [[padding] * (width - len(row)) + list(row) for row in rows]


@wrong("04.2", "counts_the_padding_id")
def counts_ids_afterwards(rows, padding):
    tokens = np.array(padded(rows, padding, max(map(len, rows))))
    return tokens, (tokens == padding).sum(axis=1)


@wrong("04.2", "counts_up_to_the_first_token")
def first_id_that_is_not_padding(rows, padding):
    tokens = np.array(padded(rows, padding, max(map(len, rows))))
    other = tokens != padding
    return tokens, np.where(other.any(axis=1), other.argmax(axis=1), tokens.shape[1])


@wrong("04.2")
def longest_in_the_dictionary(rows, padding):
    width = len(max(rows))
    return padded(rows, padding, width), [width - len(row) for row in rows]


@wrong("04.2", "as_wide_as_the_first")
def width_of_the_first(rows, padding):
    width = len(rows[0])
    return padded(rows, padding, width), [width - len(row) for row in rows]


@wrong("04.2")
def width_of_the_last(rows, padding):
    width = len(rows[-1])
    return padded(rows, padding, width), [width - len(row) for row in rows]


@wrong("04.2", "sorted_by_length")
def longest_first(rows, padding):
    rows = sorted(rows, key=lambda row: -len(row))
    width = len(rows[0])
    return padded(rows, padding, width), [width - len(row) for row in rows]


@wrong("04.2")
def fills_the_callers_rows(rows, padding):
    missing = [max(map(len, rows)) - len(row) for row in rows]
    for row, m in zip(rows, missing, strict=True):
        row[:0] = [padding] * m
    return rows, missing


@wrong("04.2")
def digits_in_a_text(rows, padding):
    width = max(map(len, rows))
    texts = ["".join(map(str, row)).rjust(width, str(padding)[-1]) for row in rows]
    return [[*map(int, text)] for text in texts], [width - len(row) for row in rows]


@wrong("04.2")
def one_row_many_times(rows, padding):
    width = max(map(len, rows))
    tokens = [[padding] * width] * len(rows)
    for line, row in zip(tokens, rows, strict=True):
        line[width - len(row) :] = row
    return tokens, [width - len(row) for row in rows]


@wrong("04.2", "always_fills_with_zero")
def zeros_of_numpy(rows, padding):
    width = max(map(len, rows))
    tokens = np.zeros((len(rows), width), int)
    for line, row in zip(tokens, rows, strict=True):
        line[width - len(row) :] = row
    return tokens, [width - len(row) for row in rows]


@wrong("04.2")
def small_integers(rows, padding):
    width = max(map(len, rows))
    return np.array(padded(rows, padding, width)).astype(np.int8), [width - len(r) for r in rows]


@wrong("04.2")
def always_one_column_more(rows, padding):
    width = 1 + max(map(len, rows))
    return padded(rows, padding, width), [width - len(row) for row in rows]


@wrong("04.2")
def the_total(rows, padding):
    width = max(map(len, rows))
    return padded(rows, padding, width), sum(width - len(row) for row in rows)

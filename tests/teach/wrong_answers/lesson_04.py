"""Answers to the exercises of lesson 04, as students write them: right ones and wrong ones."""

from collections import deque
from itertools import zip_longest

import lablib  # noqa: F401 (before mlx)

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 04.1 the scheduler


@right("04.1")
def a_deque_and_a_numpy_count(waiting, slots, step):
    queue, active, steps = deque(waiting), [], np.int64(0)
    while queue or active:
        active += [queue.popleft() for _ in range(min(len(queue), slots - len(active)))]
        done = {*step(tuple(active))}
        active = [request for request in active if request not in done]
        steps += 1
    return steps


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


FILL = """while queue and len(active) < slots:
            active.append(queue.pop(0))"""
STAY = "active = [request for request in active if request not in finished]"


def serve(name, old, new, like=None):
    ANSWERS.changed("04.1", name, old, new, like)


serve("at_least_one_step", "return steps", "return max(1, steps)")
serve(
    "counts_from_one",
    "active, steps = list(waiting), [], 0",
    "active, steps = list(waiting), [], 1",
)
serve(
    "empties_the_callers_list",
    "queue, active, steps = list(waiting)",
    "queue, active, steps = waiting",
)
serve("counts_tokens", "step(active)", "step(active); steps += len(active) - 1", "counts_requests")
serve("a_queue_sorted_by_name", "list(waiting)", "sorted(waiting)")
serve("a_queue_without_order", "list(waiting)", "list(set(waiting))")
serve("a_falsy_name_is_nobody", "list(waiting)", "list(filter(None, waiting))")
serve("only_one_leaves_at_a_time", "in finished", "in finished[:1]")
serve("only_the_last_may_leave", "in finished", "in finished and request == active[-1]")
serve(
    "leaves_at_the_next_step",
    "append(queue.pop(0))",
    "append(queue.pop(0)); break",
    "one_joins_a_step",
)
serve("a_slot_less", "< slots", "< slots - 1")
serve("a_slot_is_kept_free", "< slots", "< max(1, slots - 1)")
serve(
    "waits_for_a_whole_group", "queue and len(active) < slots", "len(queue) >= slots > len(active)"
)
serve("the_queue_is_never_shortened", "queue.pop(0)", "queue[0]")
serve("ends_with_the_slots", "queue or active", "active or steps == 0")
serve("one_after_the_other", "step(active)", "[r for each in active for r in step([each])]")
serve("asks_each_by_itself", "step(active)", "step(active[:1])")
serve("counts_only_full_steps", "steps += 1", "steps += len(active) == slots")
serve("counts_the_finished", "steps += 1", "steps += len(finished)")
serve("fills_once", "while queue and", "while steps == 0 and queue and")
serve(
    "fills_after_the_last_has_left",
    "while queue and len(active) < slots",
    "while queue and not active",
)
serve("forgets_who_is_not_finished", STAY, "active = []")
serve("keeps_the_finished", "not in finished", "in finished")
serve("takes_the_newest_first", "queue.pop(0)", "queue.pop(-1)", "last_come_first_served")
serve("up_to_and_with_slots", "len(active) < slots", "len(active) <= slots", "one_slot_too_many")
serve("while_somebody_waits", "while queue or active", "while len(queue)", "stops_with_the_queue")
serve("a_queue_of_0_is_empty", "queue or active", "any(queue) or active")
serve(
    "joins_when_all_slots_can_be_filled",
    "while queue and len(active) < slots",
    "while queue and len(active) < slots <= len(active) + len(queue) or queue and not active",
)
serve("only_while_both", "queue or active", "queue and (active or not steps)")
serve(
    "asks_after_the_step",
    "while queue or active",
    "while steps < 1 or queue or active",
    "steps_for_nothing",
)
serve("whoever_came_first_leaves", STAY, "del active[: len(finished)]", "the_first_leave")


@wrong("04.1")
def seats_that_stay_and_nobody(waiting, slots, step):
    queue, seats, steps = list(waiting), [None] * slots, 0
    while queue or any(seat is not None for seat in seats):
        seats = [queue.pop(0) if seat is None and queue else seat for seat in seats]
        done = step(seats)
        seats = [None if seat in done else seat for seat in seats]
        steps += 1
    return steps


@wrong("04.1")
def seats_that_look_empty(waiting, slots, step):
    queue, seats, steps = list(waiting), [None] * slots, 0
    while queue or any(seats):
        seats = [queue.pop(0) if seat is None and queue else seat for seat in seats]
        done = step([seat for seat in seats if seat is not None])
        seats = [None if seat in done else seat for seat in seats]
        steps += 1
    return steps


@wrong("04.1", "same_object")
def by_their_addresses(waiting, slots, step):
    queue, active, steps = list(waiting), [], 0
    while queue or active:
        active, queue = active + queue[: slots - len(active)], queue[slots - len(active) :]
        done = [*map(id, step(active))]
        active = [request for request in active if id(request) not in done]
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
def generators_for_both(rows, padding):
    width = max(map(len, rows))
    return (([padding] * (width - len(r)) + r for r in rows), (width - len(r) for r in rows))


@right("04.2")
def numpy_pads(rows, padding):
    lengths = np.array([len(row) for row in rows])
    missing = lengths.max() - lengths
    return [
        np.pad(row, (m, 0), constant_values=padding) for row, m in zip(rows, missing, strict=True)
    ], missing


def pad(name, old, new, like=None):
    ANSWERS.changed("04.2", name, old, new, like)


WIDTH, LAST, FILLED = "max(len(row) for row in rows)", "], missing", "[padding] * m + list(row)"
pad("longest_in_the_dictionary", WIDTH, "len(max(rows))")
pad("width_of_the_first", WIDTH, "len(rows[0])", "as_wide_as_the_first")
pad("width_of_the_last", WIDTH, "len(rows[-1])")
pad("always_one_column_more", WIDTH, f"1 + {WIDTH}")
pad("a_power_of_two", WIDTH, f"1 << ({WIDTH} - 1).bit_length()")
pad("a_multiple_of_eight", WIDTH, f"-(-{WIDTH} // 8) * 8")
pad("all_tokens_in_a_row", WIDTH, "sum(len(row) for row in rows)")
pad("the_ids_that_differ", WIDTH, "max(len(set(row)) for row in rows)")
pad(
    "longest_first",
    "width =",
    "rows = sorted(rows, key=lambda row: -len(row))\n    width =",
    "sorted_by_length",
)
pad("equal_rows_are_one", "width =", "rows = list(dict.fromkeys(map(tuple, rows)))\n    width =")
pad(
    "padding_of_its_own_is_taken_away",
    "width =",
    "rows = [[t for t in r if t != padding] for r in rows]\n    width =",
)
pad("the_total", LAST, "], sum(missing)")
pad("the_largest", LAST, "], max(missing)")
pad("where_the_padding_ends", LAST, "], [m - 1 for m in missing]")
pad("only_short_rows_are_counted", LAST, "], [m for m in missing if m]")
pad("width_for_all", LAST, "], [width] * len(rows)")
pad(
    "counts_ids_afterwards",
    LAST,
    "], [m + row.count(padding) for m, row in zip(missing, rows)]",
    "counts_the_padding_id",
)
pad("a_one_for_each_short_row", LAST, "], [int(m > 0) for m in missing]")
pad("rows_turned_round", FILLED, "[padding] * m + list(row)[::-1]")
pad("both_sides", FILLED, "[padding] * (m // 2) + list(row) + [padding] * (m - m // 2)")
pad("repeats_the_first_token", FILLED, "list(row[:1]) * m + list(row)")
pad("fills_with_the_rows_end", FILLED, "(list(row) * width)[-width:]")
pad("no_padding_for_zero", FILLED, "[padding or -1] * m + list(row)")
pad("the_last_tokens_of_all", FILLED, "([padding] * m + list(row))[1:]")


@wrong("04.2", "counts_up_to_the_first_token")
def first_id_that_is_not_padding(rows, padding):
    width = max(map(len, rows))
    tokens = np.array([[padding] * (width - len(row)) + row for row in rows])
    other = tokens != padding
    return tokens, np.where(other.any(axis=1), other.argmax(axis=1), width)


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
    tokens = [[padding] * (width - len(row)) + row for row in rows]
    return np.array(tokens).astype(np.int8), [width - len(row) for row in rows]

"""Exercises of lesson 04: many sequences in few slots."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lablib.classroom.exercises import Exercise, Wrong

import numpy as np

# ------------------------------------------------------------------ 04.1 the scheduler


def serve(waiting, slots, step):
    """Serve every request of `waiting`, at most `slots` at a time; return how many steps it took.

    waiting: request names, in order of arrival.
    step(active): does one step for a list of requests; returns those that are finished with it.
    """
    queue, active, steps = list(waiting), [], 0
    while queue or active:
        while queue and len(active) < slots:
            active.append(queue.pop(0))
        finished = step(active)
        active = [request for request in active if request not in finished]
        steps += 1
    return steps


def serve_slices(waiting, slots, step):
    queue, active, steps = list(waiting), [], 0
    while queue or active:
        free = slots - len(active)
        active, queue = active + queue[:free], queue[free:]
        finished = set(step(list(active)))
        active = [request for request in active if request not in finished]
        steps += 1
    return steps


def whole_batches(waiting, slots, step):
    queue, steps = list(waiting), 0
    while queue:
        active, queue = queue[:slots], queue[slots:]
        while active:
            finished = step(active)
            active = [request for request in active if request not in finished]
            steps += 1
    return steps


def one_joins_a_step(waiting, slots, step):
    queue, active, steps = list(waiting), [], 0
    while queue or active:
        if queue and len(active) < slots:
            active.append(queue.pop(0))
        finished = step(active)
        active = [request for request in active if request not in finished]
        steps += 1
    return steps


def everybody_at_once(waiting, slots, step):
    return serve(waiting, max(1, len(waiting)), step)


def stops_with_the_queue(waiting, slots, step):
    queue, active, steps = list(waiting), [], 0
    while queue:
        while queue and len(active) < slots:
            active.append(queue.pop(0))
        finished = step(active)
        active = [request for request in active if request not in finished]
        steps += 1
    return steps


def last_come_first_served(waiting, slots, step):
    return serve(list(waiting)[::-1], slots, step)


def never_leaves(waiting, slots, step):
    queue, active, steps, done = list(waiting), [], 0, set()
    while queue or set(active) - done:
        while queue and len(set(active) - done) < slots:
            active.append(queue.pop(0))
        done |= set(step(active))
        steps += 1
    return steps


class _Machine:
    """Counts what a scheduler asks for; each request needs a number of steps of its own."""

    def __init__(self, needs: Sequence[int], slots: int) -> None:
        self.left = dict(enumerate(needs))
        self.slots = slots
        self.calls: list[list[int]] = []

    def step(self, active: Sequence[int]) -> list[int]:
        """Do one step and remember who took part."""
        active = list(active)
        self.calls.append(active)
        if len(self.calls) > 1000:
            raise Wrong("the loop does not end: when are all requests done?")
        if not active:
            raise Wrong("step was called with nobody active: that is a step for nothing.")
        for request in active:
            if self.left.get(request, 0) <= 0:
                raise Wrong(
                    f"request {request} took part in a step after it was finished.",
                    like="never_leaves",
                )
        if len(active) > self.slots:
            raise Wrong(
                f"{len(active)} requests were active with {self.slots} slots.",
                like="everybody_at_once",
            )
        for request in active:
            self.left[request] -= 1
        return [request for request in active if self.left[request] == 0]


def _needs(rng: np.random.Generator) -> Iterator[tuple[list[int], int]]:
    yield [2], 1
    yield [1, 1], 1
    yield [3, 1, 1], 2
    yield [1, 3, 2, 1], 2
    for slots in (2, 3, 4):
        yield rng.integers(1, 6, size=7).tolist(), slots


def _calls(fn: Callable[..., Any], needs: Sequence[int], slots: int) -> list[list[int]]:
    machine = _Machine(needs, slots)
    fn(list(range(len(needs))), slots, machine.step)
    return machine.calls


def _check_serve(fn: Callable[..., Any]) -> None:
    suspects = [whole_batches, one_joins_a_step, stops_with_the_queue, last_come_first_served]
    complaint = None
    for needs, slots in _needs(np.random.default_rng(0)):
        machine = _Machine(needs, slots)
        steps = fn(list(range(len(needs))), slots, machine.step)
        suspects = [s for s in suspects if _calls(s, needs, slots) == machine.calls]
        expected = _calls(serve, needs, slots)
        where = f"With {slots} slots and requests that need {needs} steps"
        if list(map(sorted, machine.calls)) != list(map(sorted, expected)):
            complaint = complaint or f"{where}, you served {machine.calls}, not {expected}."
        elif steps != len(machine.calls):
            raise Wrong(f"{where}, you return {steps!r} after {len(machine.calls)} steps.")
    if complaint:
        raise Wrong(complaint, like=suspects[0].__name__ if suspects else None)


SERVE = Exercise(
    id="04.1",
    title="The scheduler",
    task=(
        "Complete the loop of a server. Before each step, free slots are filled from the queue, "
        "first come first served. After each step the finished requests leave at once. Return the "
        "number of steps."
    ),
    stars=2,
    minutes=12,
    reference=serve,
    alternatives=[serve_slices],
    wrong={
        whole_batches: (
            "a free slot waits until the whole batch is done: fill it before the very next step."
        ),
        one_joins_a_step: "only one request joins in a step: fill every free slot.",
        everybody_at_once: "there are only `slots` slots; the others wait in the queue.",
        stops_with_the_queue: "the loop ends when the queue is empty, with requests still active.",
        last_come_first_served: "the queue is served from the wrong end.",
        never_leaves: "finished requests must leave the list of active ones.",
    },
    checker=_check_serve,
    hints=[
        "Two conditions keep the loop alive: somebody waits, or somebody is active.",
        "while queue and len(active) < slots: active.append(queue.pop(0))",
    ],
    next="Serve short requests first. Who is better off, and who waits for ever?",
)

# ------------------------------------------------------------------ 04.2 left padding


def pad_left(rows, padding):
    """Return (tokens, lengths_of_padding) of a batch whose rows all end in the last column.

    rows: lists of token ids of different lengths.   padding: the id that fills the left.
    tokens: a list of equally long lists.   lengths_of_padding: one number for each row.
    """
    width = max(len(row) for row in rows)
    missing = [width - len(row) for row in rows]
    return [[padding] * m + list(row) for m, row in zip(missing, rows, strict=True)], missing


def pad_left_numpy(rows, padding):
    lengths = np.array([len(row) for row in rows])
    tokens = np.full((len(rows), lengths.max()), padding)
    for i, row in enumerate(rows):
        tokens[i, tokens.shape[1] - len(row) :] = row
    return tokens, lengths.max() - lengths


def pad_right(rows, padding):
    width = max(len(row) for row in rows)
    missing = [width - len(row) for row in rows]
    return [list(row) + [padding] * m for m, row in zip(missing, rows, strict=True)], missing


def real_lengths(rows, padding):
    return pad_left(rows, padding)[0], [len(row) for row in rows]


def cut_to_the_shortest(rows, padding):
    width = min(len(row) for row in rows)
    return [list(row)[len(row) - width :] for row in rows], [0] * len(rows)


def _ragged(rng: np.random.Generator) -> Iterator[tuple[list[list[int]], int]]:
    yield [[5], [6, 7]], 0
    yield [[1, 2, 3], [4, 5, 6], [7]], 9
    for size in (2, 4):
        yield [rng.integers(1, 9, size=n).tolist() for n in rng.integers(1, 7, size=size)], 0


PAD = Exercise(
    id="04.2",
    title="Rows of different lengths",
    task=(
        "Prompts of different lengths go into one array. Their *last* tokens must stand in the "
        "same column, because that is the one whose logits are sampled. Fill the left."
    ),
    stars=1,
    minutes=6,
    reference=pad_left,
    alternatives=[pad_left_numpy],
    wrong={
        pad_right: (
            "you fill the right: the last column then holds padding, and short rows are continued "
            "from it."
        ),
        real_lengths: "the second result counts the padding, not the tokens.",
        cut_to_the_shortest: "tokens are lost: nothing may be cut, the short rows are filled up.",
    },
    cases=_ragged,
    hints=["How long is the longest row, and how much does each of the others lack?"],
    next="What must the attention of a padded row not look at?",
)

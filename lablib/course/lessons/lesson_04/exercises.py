"""Exercises of lesson 04: many sequences in few slots."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.values import as_text
from lablib.course.lessons.edges import edges, refuse_changes

import numpy as np

# ------------------------------------------------------------------ 04.1 the scheduler


def serve(waiting, slots, step):
    """Serve every request of `waiting`, at most `slots` at a time; return how many steps it took.

    waiting: request names, in order of arrival; leave this list as it is. It may be empty.
    step(active): does one step for a list of requests, at least one; returns those that are
        finished with it.
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


def removes_while_looping(waiting, slots, step):
    queue, active, steps = list(waiting), [], 0
    while queue or active:
        while queue and len(active) < slots:
            active.append(queue.pop(0))
        finished = step(active)
        for request in active:
            if request in finished:
                active.remove(request)
        steps += 1
    return steps


def counts_requests(waiting, slots, step):
    counted = []
    serve(waiting, slots, lambda active: counted.extend(active) or step(active))
    return len(counted)


def one_slot_too_many(waiting, slots, step):
    return serve(waiting, slots + 1, step)


def steps_for_nothing(waiting, slots, step):
    queue, active, steps = list(waiting), [], 0
    while True:
        while queue and len(active) < slots:
            active.append(queue.pop(0))
        finished = step(active)
        active = [request for request in active if request not in finished]
        steps += 1
        if not queue and not active:
            return steps


class _Machine:
    """Counts what a scheduler asks for; each request needs a number of steps of its own."""

    def __init__(self, needs: Sequence[int], slots: int) -> None:
        # neither sorted nor all of them truthy: whoever sorts names or tests them is found out
        self.left = {(16 * i + 5) % 37: need for i, need in enumerate(needs)}
        self.slots = slots
        self.calls: list[list[int]] = []

    def step(self, active: Sequence[int]) -> list[int]:
        """Do one step and remember who took part."""
        active = np.asarray(list(active)).tolist()
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


@dataclass
class _Run:
    """What a scheduler did: who was active in each step, what it returned, what was wrong."""

    calls: list[list[int]]
    steps: Any
    fault: Wrong | None


def _run(fn: Callable[..., Any], needs: Sequence[int], slots: int) -> _Run:
    machine = _Machine(needs, slots)
    try:
        return _Run(machine.calls, fn([*machine.left], slots, machine.step), None)
    except Wrong as fault:
        return _Run(machine.calls, None, fault)


def _needs(rng: np.random.Generator) -> Iterator[tuple[list[int], int]]:
    yield [2], 1
    yield [1, 1], 1
    yield [3, 1, 1], 2
    yield [1, 3, 2, 1], 2
    yield [1, 1, 1, 2], 3  # three are done at once
    yield [2, 1], 5  # fewer requests than slots
    for slots in (2, 3, 4):
        yield rng.integers(1, 6, size=7).tolist(), slots
    yield rng.integers(1, 30, size=36).tolist(), 4


def _check_serve(fn: Callable[..., Any]) -> None:
    cases = [*_needs(np.random.default_rng(0))]
    yours = [_run(fn, *case) for case in cases]
    for (needs, slots), run in zip(cases, yours, strict=True):
        fault = _fault(run, needs, slots)
        if fault is not None:
            raise Wrong(fault.message, like=_suspect(cases, yours) or fault.like, error=fault.error)
    nothing = _run(fn, [], 2)
    if nothing.fault or nothing.calls or nothing.steps != 0:
        text = nothing.fault.message if nothing.fault else f"you return {nothing.steps!r}, not 0."
        raise Wrong(
            f"With nobody waiting: {text}", like="steps_for_nothing" if nothing.calls else None
        )
    refuse_changes(fn)


def _fault(run: _Run, needs: Sequence[int], slots: int) -> Wrong | None:
    """Return what is wrong with a run, if anything: its accident, its steps or their number."""
    expected = _run(serve, needs, slots)
    where = f"With {slots=} and requests that need {_Machine(needs, slots).left} steps"
    if run.fault is not None:
        return Wrong(f"{where}: {run.fault.message}", like=run.fault.like, error=run.fault.error)
    if [*map(sorted, run.calls)] != [*map(sorted, expected.calls)]:
        return Wrong(f"{where}, you served {run.calls}, not {expected.calls}.")
    if run.steps != expected.steps:
        return Wrong(f"{where}, you return {as_text(run.steps)} after {expected.steps} steps.")
    return None


def _suspect(cases: Sequence[tuple[list[int], int]], yours: Sequence[_Run]) -> str | None:
    """Return the name of the wrong answer that did the same on every case."""
    for suspect in SERVE.wrong:
        theirs = [_run(suspect, *case) for case in cases]
        if all(
            a.calls == b.calls and a.steps == b.steps for a, b in zip(theirs, yours, strict=True)
        ):
            return suspect.__name__
    return None


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
        removes_while_looping: (
            "a list that shrinks while you loop over it skips the request after each removed one: "
            "build a new list of those that stay."
        ),
        counts_requests: "steps are counted, however many requests take part in each.",
        one_slot_too_many: "one request more than there are slots: fill while fewer are active.",
        steps_for_nothing: (
            "a step is done before anybody asks whether there is work: with an empty queue the "
            "answer is 0 steps."
        ),
    },
    checker=_check_serve,
    hints=[
        "Two conditions keep the loop alive: somebody waits, or somebody is active.",
        "queue = list(waiting), a copy. while queue and len(active) < slots: "
        "active.append(queue.pop(0))",
    ],
    next="Serve short requests first. Who is better off, and who waits for ever?",
)

# ------------------------------------------------------------------ 04.2 left padding


def pad_left(rows, padding):
    """Return (tokens, lengths_of_padding) of a batch whose rows all end in the last column.

    rows: lists of token ids, at least one, and none of them empty; leave them as they are.
    padding: the id that fills the left. A row may hold the same id as a token of its own.
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


def counts_the_padding_id(rows, padding):
    tokens, _ = pad_left(rows, padding)
    return tokens, [row.count(padding) for row in tokens]


def counts_up_to_the_first_token(rows, padding):
    tokens, _ = pad_left(rows, padding)
    return tokens, [len(row) - len(np.trim_zeros(np.array(row) - padding, "f")) for row in tokens]


def always_fills_with_zero(rows, padding):
    return pad_left(rows, 0)


def sorted_by_length(rows, padding):
    return pad_left(sorted(rows, key=len, reverse=True), padding)


def as_wide_as_the_first(rows, padding):
    width = len(rows[0])
    missing = [width - len(row) for row in rows]
    return [[padding] * m + list(row) for m, row in zip(missing, rows, strict=True)], missing


def _ragged(rng: np.random.Generator) -> Iterator[tuple[list[list[int]], int]]:
    yield [[5], [6, 7]], 0
    yield [[1, 2, 3], [4, 5, 6], [7]], 9
    yield [[12, 345], [49151], [10, 11, 12, 13]], 100
    for size in (2, 4):
        yield [rng.integers(1, 9, size=n).tolist() for n in rng.integers(1, 7, size=size)], 0
    yield [rng.integers(1, 500, size=n).tolist() for n in (3, 120, 40, 7)], 0


def _padding_ids_of_its_own(rng: np.random.Generator) -> Iterator[tuple[list[list[int]], int]]:
    yield [[0, 5], [3, 0, 0]], 0
    yield [[7, 7], [1, 2, 7], [7]], 7
    yield [[4, 5], [6, 7]], 0  # nothing is missing
    yield [[8]], 0


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
        always_fills_with_zero: "it is filled with 0, whatever `padding` is.",
        sorted_by_length: "the rows come back in another order: nobody knows whose text is whose.",
        as_wide_as_the_first: "the longest row sets the width, not the first one.",
        counts_the_padding_id: (
            "ids equal to `padding` are counted, and a row may hold that id as a token of its own: "
            "count what you add."
        ),
        counts_up_to_the_first_token: (
            "the ids before the first other token are counted, and a row may *begin* with the "
            "padding id as a token of its own: count what you add."
        ),
    },
    cases=_ragged,
    checker=edges(_padding_ids_of_its_own),
    hints=["How long is the longest row, and how much does each of the others lack?"],
    next="What must the attention of a padded row not look at?",
)

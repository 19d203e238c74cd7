"""Exercises of lesson 04: many sequences in few slots."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.values import as_text, difference
from lablib.course.lessons.edges import edges, refuse_changes
from lablib.course.lessons.lesson_04.trial import countdown

import numpy as np

# ------------------------------------------------------------------ 04.1 the scheduler


def serve(waiting, slots, step):
    """Serve every request of `waiting`, at most `slots` at a time; return how many steps it took.

    waiting: requests in order of arrival, all different, perhaps none; leave the list as it is.
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


class _Machine:
    """Counts what a scheduler asks for; each request needs a number of steps of its own."""

    def __init__(self, needs: Sequence[int], slots: int) -> None:
        # neither sorted nor all of them truthy, and some above 256, where equal ones need not be
        # one object: whoever sorts names, tests them or asks `is` is found out
        self.needs = {(498 * i + 5) % 1001: need for i, need in enumerate(needs)}
        self.slots, self.left, self.serve = slots, dict(self.needs), countdown(self.needs)
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
            if request not in self.left:
                raise Wrong(f"step was given {request!r}, which is no request.")
            if active.count(request) > 1:
                raise Wrong(f"request {request} sits in two slots of one step.")
            if self.left[request] == 0:
                raise Wrong(f"request {request} took part in a step after it was finished.")
        if len(active) > self.slots:
            raise Wrong(f"{len(active)} requests were active, and slots is {self.slots}.")
        for request in active:
            self.left[request] -= 1
        return self.serve(active)


@dataclass
class _Run:
    """The record of a scheduler: who was active in each step, its result, its mistake."""

    calls: list[list[int]]
    steps: Any
    fault: Wrong | None

    def like(self, other: "_Run") -> bool:
        """Return whether another did the same, accidents included."""
        faults = [run.fault.message if run.fault else "" for run in (self, other)]
        return self.calls == other.calls and self.steps == other.steps and faults[0] == faults[1]


def _run(fn: Callable[..., Any], needs: Sequence[int], slots: int) -> _Run:
    machine = _Machine(needs, slots)
    try:
        return _Run(machine.calls, fn([*machine.needs], slots, machine.step), None)
    except Wrong as fault:
        return _Run(machine.calls, None, fault)


def _needs(rng: np.random.Generator) -> Iterator[tuple[list[int], int]]:
    """Yield what requests need, and the slots.

    Ideas that come out right on some of them: nobody joins before all are done; one joins a step;
    those who have ended still hold their slots when the queue moves up; a step waits for full
    slots; nobody joins before all free slots can be filled; the first who came are the first who
    leave; positions are taken for names; a list shrinks while it is walked through; a name that is
    0 is nobody, or a queue of it is none.
    """
    yield [2], 1
    yield [1, 1], 1
    yield [1, 1, 2], 1  # the last name is 0, and it is active alone
    yield [3, 1, 1], 2
    yield [1, 3, 2, 1], 2
    yield [1, 1, 1, 2], 3  # three are done at once
    yield [3, 1, 1, 2], 3  # two slots get free, and one request waits
    yield [2, 1], 5  # fewer requests than slots
    yield [1, 2, 1, 1, 1], 3  # two of three are done, not the first two
    for slots in (2, 3, 4):
        yield rng.integers(1, 6, size=7).tolist(), slots
    yield rng.integers(1, 30, size=36).tolist(), 4


def _check_serve(fn: Callable[..., Any]) -> None:
    cases = [*_needs(np.random.default_rng(0))]
    yours = [_run(fn, *case) for case in cases]
    for (needs, slots), run in zip(cases, yours, strict=True):
        fault = _fault(run, needs, slots)
        if fault is not None:
            raise Wrong(fault.message, like=_suspect(cases, yours), error=fault.error)
    nothing = _run(fn, [], 2)
    if nothing.fault or nothing.calls or not _is_count(nothing.steps, 0):
        text = nothing.fault.message if nothing.fault else f"expected 0\ngot      {nothing.steps}"
        like = "steps_for_nothing" if nothing.calls else None
        raise Wrong(f"serve([], 2, countdown({{}}))\n{text}", like=like)
    refuse_changes(fn)


def _fault(run: _Run, needs: Sequence[int], slots: int) -> Wrong | None:
    """Return what is wrong with a run, if anything: its accident, its steps or their number."""
    expected, all_needs = _run(serve, needs, slots), _Machine(needs, slots).needs
    call = f"serve({[*all_needs]}, {slots}, countdown({all_needs}))"
    if run.fault is not None:
        return Wrong(f"{call}\n{run.fault.message}", error=run.fault.error)
    for number, (right, got) in enumerate(zip_longest(expected.calls, run.calls), 1):
        if got is None:
            return Wrong(f"{call}\nyou stop before step {number}, which serves {right}.")
        if sorted(right) != sorted(got):
            return Wrong(f"{call}\nstep {number}: expected {right}\nstep {number}: got      {got}")
    if not _is_count(run.steps, expected.steps):
        got = as_text(run.steps)
        return Wrong(f"{call}\nexpected {expected.steps} steps\ngot      {got}")
    return None


def _is_count(got: Any, count: int) -> bool:
    return difference(count, got) is None


def _suspect(cases: Sequence[tuple[list[int], int]], yours: Sequence[_Run]) -> str | None:
    """Return the name of the wrong answer that did the same on every case."""
    for suspect in SERVE.wrong:
        theirs = [_run(suspect, *case) for case in cases]
        if all(map(_Run.like, theirs, yours)):
            return suspect.__name__
    return None


_FILL = """while queue and len(active) < slots:
            active.append(queue.pop(0))"""
_STAY = "active = [request for request in active if request not in finished]"

SERVE = Exercise(
    id="04.1",
    title="The scheduler",
    task=(
        "Complete the loop of a server. Before each step, free slots are filled from the queue, "
        "first come first served. After each step the finished requests leave at once. Return the "
        "number of steps. `countdown({5: 3, 7: 1})` makes a `step` to try it with: request 5 needs "
        "three steps, request 7 one."
    ),
    stars=2,
    minutes=12,
    reference=serve,
    alternatives=[serve_slices],
    wrong={
        changed(
            serve,
            "whole_batches",
            _FILL,
            "if not active:\n            active, queue = queue[:slots], queue[slots:]",
        ): "a free slot waits until the whole batch is done: fill it before the very next step.",
        changed(
            serve, "one_joins_a_step", "while queue and", "if queue and"
        ): "only one request joins in a step: fill every free slot.",
        changed(
            serve, "everybody_at_once", "len(active) < slots", "True"
        ): "there are only `slots` slots; the others wait in the queue.",
        changed(
            serve, "stops_with_the_queue", "queue or active", "queue"
        ): "the loop ends when the queue is empty, with requests still active.",
        changed(
            serve, "last_come_first_served", "pop(0)", "pop()"
        ): "the queue is served from the wrong end.",
        changed(
            serve, "never_leaves", " if request not in finished", ""
        ): "finished requests must leave the list of active ones.",
        changed(
            serve,
            "removes_while_looping",
            _STAY,
            "for request in active:\n"
            "            if request in finished:\n"
            "                active.remove(request)",
        ): (
            "a list that shrinks while you loop over it skips the request after each removed one: "
            "build a new list of those that stay."
        ),
        changed(
            serve, "the_first_leave", _STAY, "active = active[len(finished) :]"
        ): "whoever is finished leaves, and that need not be those who came first.",
        changed(
            serve,
            "positions_for_names",
            _STAY,
            "active = [request for i, request in enumerate(active) if i not in finished]",
        ): "step returns the requests that are finished, not their places in the list.",
        changed(
            serve,
            "same_object",
            "request not in finished",
            "all(request is not other for other in finished)",
        ): (
            "`is` asks whether two requests are one object in memory; equal ones need not be: use "
            "`in`, or ==."
        ),
        changed(
            serve,
            "waits_for_full_slots",
            "while queue or active",
            "while len(queue + active) >= slots",
        ): "a step needs no full slots: the last requests are served in fewer.",
        changed(
            serve,
            "fills_too_early",
            f"{_FILL}\n        finished = step(active)\n        {_STAY}",
            "active = active or [queue.pop(0) for _ in queue[:slots]]\n"
            "        finished = step(active)\n"
            f"        {_FILL}\n"
            f"        {_STAY}",
        ): (
            "the queue moves up while the finished requests still hold their slots: let them leave "
            "first."
        ),
        changed(
            serve,
            "counts_requests",
            "finished = step(active)",
            "finished = step(active)\n        steps += len(active) - 1",
        ): "steps are counted, however many requests take part in each.",
        changed(
            serve, "one_slot_too_many", "< slots", "<= slots"
        ): "one request more than there are slots: fill while fewer are active.",
        changed(
            serve,
            "steps_for_nothing",
            "while queue or active",
            "while not steps or queue or active",
        ): (
            "a step is done before anybody asks whether there is work: with an empty queue the "
            "answer is 0 steps."
        ),
    },
    checker=_check_serve,
    hints=[
        "Two conditions keep the loop alive: somebody waits, or somebody is active.",
        "A round has three parts: fill while a slot is free and somebody waits; one step; then a "
        "new list of those who stay. Take from a copy of `waiting`.",
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


def cut_to_the_shortest(rows, padding):
    width = min(len(row) for row in rows)
    return [list(row)[len(row) - width :] for row in rows], [0] * len(rows)


def counts_up_to_the_first_token(rows, padding):
    tokens, _ = pad_left(rows, padding)
    return tokens, [len(row) - len(np.trim_zeros(np.array(row) - padding, "f")) for row in tokens]


def _ragged(rng: np.random.Generator) -> Iterator[tuple[list[list[int]], int]]:
    """Yield rows and padding.

    Ideas that come out right on some of them: the first, the last or the "largest" row is the
    longest; 0 is what fills; one id fills however many are missing; equal rows are one row; the
    width is a power of two; a token that looks like padding is padding.
    """
    yield [[5], [6, 7]], 0
    yield [[1, 2, 3], [4, 5, 6], [7]], 9
    yield [[12, 345], [49151], [10, 11, 12, 13]], 100
    for size in (2, 4):
        yield [rng.integers(1, 9, size=n).tolist() for n in rng.integers(1, 7, size=size)], 0
    yield [[4], [5, 6, 7], [4]], 2  # equal rows stay two
    yield [rng.integers(1, 9, size=n).tolist() for n in (3, 9, 5)], 0


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
        changed(pad_left, "pad_right", "[padding] * m + list(row)", "list(row) + [padding] * m"): (
            "you fill the right: the last column then holds padding, and short rows are continued "
            "from it."
        ),
        changed(
            pad_left, "real_lengths", "], missing", "], [len(row) for row in rows]"
        ): "the second result counts the padding, not the tokens.",
        cut_to_the_shortest: "tokens are lost: nothing may be cut, the short rows are filled up.",
        changed(
            pad_left, "always_fills_with_zero", "[padding] *", "[0] *"
        ): "it is filled with 0, whatever `padding` is.",
        changed(
            pad_left, "one_each", "* m +", "* min(m, 1) +"
        ): "one id is added to each short row, however many it lacks.",
        changed(
            pad_left,
            "sorted_by_length",
            "width =",
            "rows = sorted(rows, key=len, reverse=True)\n    width =",
        ): "the rows come back in another order: nobody knows whose text is whose.",
        changed(
            pad_left, "as_wide_as_the_first", "max(len(row) for row in rows)", "len(rows[0])"
        ): "the longest row sets the width, not the first one.",
        changed(
            pad_left,
            "counts_the_padding_id",
            "], missing",
            "], [m + list(row).count(padding) for m, row in zip(missing, rows)]",
        ): (
            "ids equal to `padding` are counted, and a row may hold that id as a token of its own: "
            "count what you add."
        ),
        counts_up_to_the_first_token: (
            "the ids before the first other token are counted, and a row may *begin* with the "
            "padding id as a token of its own: count what you add."
        ),
        changed(
            pad_left,
            "swapped",
            "return [[padding] * m + list(row) for m, row in zip(missing, rows, strict=True)], "
            "missing",
            "return missing, [[padding] * m + list(row) for m, row in zip(missing, rows)]",
        ): "the two results are in the wrong order: the tokens come first.",
        changed(pad_left, "only_the_tokens", "], missing", "]"): (
            "only the tokens come back: return two things, `return tokens, lengths_of_padding`."
        ),
        changed(
            pad_left,
            "a_mask",
            "], missing",
            "], [[0] * m + [1] * len(row) for m, row in zip(missing, rows)]",
        ): "a mask says where the padding is; what is wanted is how much, one number for each row.",
    },
    cases=_ragged,
    checker=edges(_padding_ids_of_its_own),
    hints=[
        "How long is the longest row, and how much does each of the others lack?",
        "A list times a number repeats it, and times 0 is empty. How often it is repeated for each "
        "row is the second result.",
    ],
    next="What must the attention of a padded row not look at?",
)

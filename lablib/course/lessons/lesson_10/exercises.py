"""Exercises of lesson 10: taking tokens back from every kind of memory."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.values import as_text
from lablib.course.lessons.edges import edges
from lablib.course.lessons.lesson_10.recurrent import Recurrent

import numpy as np

# ------------------------------------------------------------------ 10.1 trim after a round


def after_round(layers, drafted, accepted):
    """Return the cache after a round of speculation; the old one stays unchanged.

    layers: a list of one (keys, values) pair for each layer, each an array (T, d). The target has
        read the text and then all drafts: the last `drafted` of the T tokens are drafts.
    drafted: how many were drafted, 0 to T.   accepted: how many of them stay, the first ones.
    """
    keep = len(layers[0][0]) - (drafted - accepted)
    return [(keys[:keep], values[:keep]) for keys, values in layers]


def after_round_from_the_text(layers, drafted, accepted):
    text = len(layers[0][0]) - drafted
    rows = np.arange(text + accepted)
    return [tuple(np.take(part, rows, axis=0) for part in layer) for layer in layers]


def first_layer_only(layers, drafted, accepted):
    return after_round(layers[:1], drafted, accepted) + [tuple(layer) for layer in layers[1:]]


def last_ones_accepted(layers, drafted, accepted):
    end = len(layers[0][0])
    gone = range(end - drafted, end - accepted)
    return [tuple(np.delete(part, gone, axis=0) for part in layer) for layer in layers]


def refused_ones_zeroed(layers, drafted, accepted):
    keep = len(layers[0][0]) - (drafted - accepted)
    rows = np.arange(len(layers[0][0]))[:, None] < keep
    return [(keys * rows, values * rows) for keys, values in layers]


Cache = list[tuple[np.ndarray, ...]]


def _layers(keys: list[list[int]], layers: int = 1) -> Cache:
    """Return layers of small numbers: keys as given, ten more in each layer, and values below 0."""
    first = np.array(keys, dtype=float)
    return [(first + 10 * i, -first - 10 * i) for i in range(layers)]


def _rounds(rng: np.random.Generator) -> Iterator[tuple[Cache, int, int]]:
    yield _layers([[1], [2], [3], [4]]), 2, 1
    yield _layers([[1], [2], [3], [4]]), 3, 1
    yield _layers([[1], [2], [3]], layers=2), 2, 0
    yield _layers([[1], [2], [3]], layers=2), 2, 2
    yield _layers([[1]], layers=3), 1, 0
    yield _layers([[1, 5], [2, 6], [3, 7], [4, 8], [5, 9]], layers=3), 4, 1


def _odd_rounds(rng: np.random.Generator) -> Iterator[tuple[Cache, int, int]]:
    yield _layers([[7], [2], [7], [2]]), 2, 1  # a refused draft looks like a token of the text
    yield _layers([[1], [2], [3]], layers=2), 0, 0
    yield _layers([[1], [2]]), 2, 2  # there is no text before the drafts
    yield _layers([[1], [2]]), 2, 0
    yield _layers([[1]], layers=2), 1, 1
    yield _layers([[n] for n in range(30)], layers=2), 12, 5


AFTER_ROUND = Exercise(
    id="10.1",
    title="After a round",
    task=(
        "The target has just read some drafts, and the rule has said how many stay. Bring the "
        "cache to where it belongs: as if only the accepted drafts had been read. (The token that "
        "the target adds itself has not been read by anybody yet.)"
    ),
    stars=1,
    minutes=8,
    reference=after_round,
    alternatives=[after_round_from_the_text],
    wrong={
        first_layer_only: (
            "only the first layer is trimmed; the others still hold the refused drafts. (The trim "
            "of mlx-swift-lm once did this: no error, and another text.)"
        ),
        changed(after_round, "accepted_go", "(drafted - accepted)", "accepted"): (
            "you forget as many tokens as were *accepted*; the refused ones must go."
        ),
        changed(after_round, "all_drafts_go", "(drafted - accepted)", "drafted"): (
            "you forget every draft; the accepted ones are part of the text now."
        ),
        changed(
            after_round,
            "correction_counted",
            "(drafted - accepted)",
            "max(0, drafted - accepted - 1)",
        ): (
            "you keep one token too many, as if the target's own token had been read already. It "
            "is read in the next round."
        ),
        changed(after_round, "one_too_many", "(drafted - accepted)", "(drafted - accepted) - 1"): (
            "you forget one token too many: the last accepted draft has been read."
        ),
        changed(
            after_round, "minus_zero", "len(layers[0][0]) - (drafted - acc", "-(drafted - acc"
        ): ("when every draft was accepted the cache is empty: [:-0] is [:0]."),
        changed(after_round, "keys_only", "values[:keep]", "values"): (
            "the keys are shorter, the values are not: both must forget."
        ),
        changed(after_round, "values_only", "keys[:keep]", "keys"): (
            "the values are shorter, the keys are not: both must forget."
        ),
        changed(
            after_round, "text_forgotten", "len(layers[0][0]) - (drafted - accepted)", "accepted"
        ): (
            "you keep the first `accepted` tokens of the *text*. The drafts stand at its end: T − "
            "(drafted − accepted) tokens stay."
        ),
        changed(
            after_round,
            "from_the_front",
            "(keys[:keep], values[:keep])",
            "(keys[len(keys) - keep :], values[len(keys) - keep :])",
        ): "you forget the oldest tokens; the refused drafts are the newest.",
        last_ones_accepted: (
            "you keep the last `accepted` drafts. Accepted are the first ones: behind a refusal "
            "nothing stays."
        ),
        refused_ones_zeroed: (
            "a zeroed key still takes part: e⁰ = 1 in every softmax. The rows must go."
        ),
    },
    cases=_rounds,
    checker=edges(_odd_rounds),
    hints=[
        "How many tokens were refused? That many go, from the end, in every layer.",
        "How long is the cache afterwards? Say it with T, `drafted` and `accepted`. Try it "
        "with all drafts accepted: [:-0] is not what it looks like.",
    ],
    next="And the draft model's cache: has it read its own last draft?",
)

# ------------------------------------------------------------------ 10.2 what a ring has lost


def lost(read, window, back):
    """Return the positions that are missing after stepping back, in order.

    A ring has `window` slots, at least 1, and was given the tokens 0 ... read - 1, one by one;
    each new token overwrites the oldest one once it is full. Then the last `back` tokens are taken
    back, 0 <= back <= read. The ring should hold the last `window` of the tokens that stay. Which
    of those are gone? A list of numbers, perhaps empty.
    """
    wanted = range(max(0, read - back - window), read - back)
    held = range(max(0, read - window), read)
    return [position for position in wanted if position not in held]


def lost_by_writing(read, window, back):
    slots = {}
    for position in range(read):
        slots[position % window] = position
    stays = list(range(read - back))[-window:]
    return [position for position in stays if position not in slots.values()]


def _rings(rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    yield 3, 4, 2
    yield 4, 4, 1  # just full
    yield 5, 4, 1
    yield 6, 4, 2
    yield 9, 4, 3
    yield 9, 4, 6  # two turns of the ring: of what was pushed out, some was taken back itself
    yield 5, 4, 2  # one was pushed out, two are taken back
    yield 6, 5, 3
    yield 12, 5, 4
    yield 7, 2, 1
    yield 7, 4, 1  # what stays is of two turns
    yield 9, 4, 1


def _extreme_rings(rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    yield 9, 4, 0  # nothing is taken back
    yield 9, 4, 9  # everything is
    yield 3, 4, 3
    yield 9, 4, 4
    yield 9, 4, 5  # more than the ring holds
    yield 0, 4, 0
    yield 5, 1, 1  # a ring of one slot
    yield 5, 1, 2
    yield 4, 4, 4
    yield 200, 64, 30


# What the reference returns; some wrong ideas return something else in its place.
_MISSING = "[position for position in wanted if position not in held]"

LOST = Exercise(
    id="10.2",
    title="What a ring has lost",
    task=(
        "A sliding window is a ring of slots. A token that is read into a full ring pushes the "
        "oldest one out, and taking the token back does not bring the other one home. Which "
        "positions would be missing?"
    ),
    stars=2,
    minutes=10,
    reference=lost,
    alternatives=[lost_by_writing],
    wrong={
        changed(lost, "the_taken_back", _MISSING, "[*range(read - back, read)]"): (
            "those are the tokens that were taken back; they should be gone. Missing are older "
            "ones, which they have overwritten."
        ),
        changed(lost, "taken_back_too", "window), read - back)", "window), read)"): (
            "some of those were taken back themselves: only what stays in the text can be missed."
        ),
        changed(lost, "never_full", "position not in held", "False"): (
            "you never miss anything. Fill a ring of 4 with 0 … 5, take 5 and 4 back: the last 4 "
            "of what stays are 0, 1, 2, 3, but 0 and 1 were overwritten."
        ),
        changed(lost, "always_full", "max(0, read - back - window)", "read - back - window"): (
            "you count positions below 0, or some although the ring was not full: nothing was "
            "overwritten before the first `window` tokens."
        ),
        changed(lost, "one_slot_less", "max(0, read - window)", "max(0, read - window + 1)"): (
            "the ring holds the last `window` tokens, not one less."
        ),
        changed(lost, "ever_written", "max(0, read - back - window)", "0"): (
            "those are all tokens ever overwritten. The ring should hold only the last `window` of "
            "what stays; older ones are not missed."
        ),
        changed(lost, "one_too_many", "read - back - window", "read - back - window - 1"): (
            "the ring should hold `window` tokens of what stays, not one more."
        ),
        changed(lost, "what_is_left", "not in held", "in held"): (
            "those are the tokens that are still there and should be; return the others."
        ),
        changed(
            lost, "as_many_as_taken_back", _MISSING, "[*wanted[:back]] if read > window else []"
        ): (
            "you miss one for each token taken back. Of 0 … 4 a ring of 4 has lost only 0: take "
            "two back, and 0 is all that is missing."
        ),
        changed(lost, "all_or_nothing", _MISSING, "[*wanted] if read > window and back else []"): (
            "you miss the whole window once the ring has wrapped. What was not overwritten is "
            "still there."
        ),
        changed(lost, "slot_numbers", "[position for", "[position % window for"): (
            "those are numbers of slots; return the positions of the tokens."
        ),
        changed(lost, "how_many", _MISSING, "len({*wanted} - {*held})"): (
            "the question is *which* positions, not how many: a list."
        ),
    },
    cases=_rings,
    checker=edges(_extreme_rings),
    hints=[
        "Write down two sets: the positions it should hold, and the ones it still holds.",
        "It holds list(range(read))[-window:]. Write the other set in the same way.",
    ],
    next="When is the answer empty although back > 0? That is when mlx-lm's ring can be trimmed.",
)

# ------------------------------------------------------------------ 10.3 snapshot and replay


def try_drafts(layer, drafts, accepted):
    """Let the layer read all drafts, then leave it as if only the first `accepted` had been read.

    layer: `layer.state` is an array of one number; `layer.read(tokens)` changes it in place.
    drafts: a list of tokens, perhaps empty.   accepted: how many of them stay, 0 to len(drafts);
        in earnest nobody knows it before all are read.
    Read nothing but the drafts and, again, those that stay. What is returned does not matter.
    """
    snapshot = layer.state.copy()
    layer.read(drafts)
    if accepted < len(drafts):
        layer.state = snapshot
        layer.read(drafts[:accepted])


def try_drafts_in_place(layer, drafts, accepted):
    before = [float(number) for number in layer.state]
    layer.read(drafts)
    layer.state[:] = before
    layer.read(list(drafts)[:accepted])


def try_drafts_by_steps(layer, drafts, accepted):
    states = [layer.state.copy()]
    for token in drafts:
        layer.read([token])
        states.append(layer.state.copy())
    layer.state = states[accepted]


def try_drafts_with_the_whole_layer(layer, drafts, accepted):
    before = copy.deepcopy(layer.__dict__)
    layer.read(drafts)
    layer.__dict__.update(before)
    layer.read(drafts[:accepted])


def tries_a_copy(layer, drafts, accepted):
    try_drafts(copy.deepcopy(layer), drafts, accepted)


def drafts_never_read(layer, drafts, accepted):
    layer.read(drafts[:accepted])


def verdict_in_advance(layer, drafts, accepted):
    layer.read(drafts[:accepted])
    snapshot = layer.state.copy()
    layer.read(drafts[accepted:])
    layer.state = snapshot


def computes_the_state(layer, drafts, accepted):
    state = layer.state.copy()
    layer.read(drafts)
    for token in drafts[:accepted]:
        state = state / 2 + token
    layer.state = state


# They leave the right state in the layer of the lesson: other things give them away.
_RIGHT_STATES = (verdict_in_advance, computes_the_state)


def divides_back(layer, drafts, accepted):
    layer.read(drafts)
    for token in reversed(drafts[accepted:]):
        layer.state -= token
        layer.state /= 0.5


def reads_the_text_again(layer, drafts, accepted):
    text = list(layer.log)
    layer.read(drafts)
    layer.__init__()
    layer.read([*text, *drafts[:accepted]])


# What a layer goes through, two rounds each: (drafts, accepted). The long drafts push the state's
# last digits out: undone by subtracting and dividing it ends elsewhere.
_ROUNDS = (
    (([3, 5], 1), ([4], 0)),
    (([2**24 + 1, 7, 4], 1), ([6, 1], 0)),  # single precision has too few digits
    (([6, 1, 8], 2), ([2, 2], 1)),
    (([4, 9], 0), ([5, 0, 6], 2)),  # 0 is a token as any other
    (([3] * 64, 1), ([5] * 64, 3)),
)
_ALL_OR_NONE = (
    (([4], 1), ([3, 5], 1)),
    (([5, 2, 6], 3), ([3, 3], 0)),
    (([], 0), ([3, 5], 1)),
    (([7], 0), ([], 0)),
)
# The rule is the layer's own: whoever computes with it, and doesn't let it read, is wrong here.
_OTHER_RULE = ((([3, 5], 1), ([2, 7, 4], 2)),)
Followed = list[tuple[Any, list[float]]]  # after each round: the state, and what was read


class Forgetful(Recurrent):
    """The layer with another rule: it keeps a quarter of its state."""

    def read(self, tokens: list[float]) -> None:
        """Read tokens."""
        for token in tokens:
            self.state *= 0.25
            self.state += token
            self.log.append(token)


def _watched(kind: type, calls: list[list[float]]) -> Any:
    """Return a layer that notes what it reads; apart, as one that is put back puts its log back."""

    class Watching(kind):
        def read(self, tokens: list[float]) -> None:
            calls.append(list(tokens))
            super().read(tokens)

    return Watching()


def _follow(function: Callable[..., Any], lives: Any, kind: type = Recurrent) -> Followed:
    """Return what the layer holds after each round, and which tokens it read in it."""
    results = []
    for rounds in lives:
        calls: list[list[float]] = []
        layer = _watched(kind, calls)
        layer.read([1, 2])
        for drafts, accepted in rounds:
            before = len(calls)
            function(layer, list(drafts), accepted)
            state = np.asarray(layer.state).astype(float).tolist()
            results.append((state, [token for call in calls[before:] for token in call]))
            if np.shape(layer.state) != (1,):  # told of this round, and not met in the next
                layer.state = np.ravel(layer.state).astype(float)
    return results


def _before_the_verdict(function: Callable[..., Any], drafts: list[float], accepted: int) -> Any:
    """Return what the function does with a layer until all drafts are read: reads and looks."""
    notes: list[Any] = []

    class Noting(Recurrent):
        def __getattribute__(self, name: str) -> Any:
            if name == "state":
                notes.append("look")
            return super().__getattribute__(name)

        def read(self, tokens: list[float]) -> None:
            before = [*notes]
            super().read(tokens)
            notes[:] = [*before, *tokens, "read"]  # its own looks do not count

    function(Noting(), list(drafts), accepted)
    read = 0
    for end, note in enumerate(notes):
        read += note not in ("look", "read")
        if read == len(drafts):
            return notes[: end + 2]
    return notes


def _check_replay(function: Callable[..., Any]) -> None:
    for lives, kind in ((_ROUNDS, Recurrent), (_ALL_OR_NONE, Recurrent), (_OTHER_RULE, Forgetful)):
        got, right = _follow(function, lives, kind), _follow(try_drafts, lives, kind)
        every = [(life, i) for life in lives for i in range(len(life))]
        for (life, i), done, (wanted, _) in zip(every, got, right, strict=True):
            if fault := _fault(*life[i], *done, wanted):
                like = computes_the_state.__name__
                if kind is Recurrent:  # where all stay some replay for nothing: names come without
                    theirs = _follow(function, _ROUNDS)
                    named = (wrong for wrong in REPLAYS if wrong not in _RIGHT_STATES)
                    same = (wrong.__name__ for wrong in named if _follow(wrong, _ROUNDS) == theirs)
                    like = next(same, None)
                text = "[1, 2]" if i == 0 else f"[1, 2] and had a round of {_round(*life[0])}"
                layer = (
                    "a layer" if kind is Recurrent else "a layer with another rule, 1/4 for 1/2,"
                )
                raise Wrong(
                    f"{layer} that has read {text}; drafts {_round(*life[i])}: {fault}",
                    like=like,
                )
    drafts = [2, 7, 4]
    first, second = (_before_the_verdict(function, drafts, accepted) for accepted in (1, 2))
    if first != second:
        raise Wrong(
            f"with 1 of the drafts {drafts} accepted it goes another way than with 2, before all "
            "of them are read.",
            like="verdict_in_advance",
        )
    rounds = [each for lives in (_ROUNDS, _ALL_OR_NONE) for life in lives for each in life]
    for given, accepted in rounds:
        theirs = list(given)
        function(Recurrent(), theirs, accepted)
        if theirs != given:
            raise Wrong(
                "its answers are right, but it changes drafts, which its caller still needs."
            )


def _round(drafts: list[float], accepted: int) -> str:
    text = f"[{drafts[0]}] * {len(drafts)}" if len(drafts) > 9 else as_text(drafts)
    return f"{text}, of which {accepted} stay"


def _fault(
    drafts: list[float], accepted: int, state: Any, read: list[float], wanted: list[float]
) -> str | None:
    """Return what is wrong after a round, if anything is."""
    if read[: len(drafts)] != drafts:
        return f"the drafts were not all read first; it read {as_text(read)}."
    if np.shape(state) != (1,):
        return f"the state is {as_text(state)}, and should still be an array of one number."
    if not abs(state[0] - wanted[0]) <= 1e-9:
        return f"the state is {as_text(state)}, and should be {as_text(wanted)}."
    if len(read) > len(drafts) + accepted:
        return f"it read {len(read) - len(drafts)} tokens again, where {accepted} are enough."
    return None


REPLAYS = {
    changed(try_drafts, "alias", "layer.state.copy()", "layer.state"): (
        "the state is as if you had never gone back. Is the snapshot the array itself? Then "
        "reading the drafts changed it too: keep layer.state.copy(). If it is a copy: was it taken "
        "before the first read, and put back, as layer.state, before the second?"
    ),
    changed(try_drafts, "nothing_replayed", "layer.read(drafts[:accepted])", "pass"): (
        "you go back to the snapshot and stop there: the accepted drafts are part of the text and "
        "must be read again."
    ),
    changed(try_drafts, "all_replayed", "drafts[:accepted]", "drafts"): (
        "you read all drafts again, the refused ones too: only the first `accepted`."
    ),
    changed(try_drafts, "refused_replayed", "drafts[:accepted]", "drafts[accepted:]"): (
        "you read the refused drafts again instead of the accepted ones."
    ),
    changed(try_drafts, "one_more_replayed", "drafts[:accepted]", "drafts[: accepted + 1]"): (
        "one draft too many is read again: drafts[:accepted]."
    ),
    changed(try_drafts, "one_less_replayed", "[:accepted]", "[: max(0, accepted - 1)]"): (
        "one draft too few is read again: drafts[:accepted]."
    ),
    changed(try_drafts, "never_goes_back", "accepted < len(drafts)", "False"): (
        "the layer still holds all drafts. Keep a snapshot from *before* they are read, and put "
        "it back."
    ),
    divides_back: (
        "you undo the drafts by subtracting and dividing. Each division doubles the rounding "
        "error: after 60 drafts nothing of the state is left. Keep a copy from before instead."
    ),
    reads_the_text_again: (
        "you begin again from nothing and read the whole text. That is right, and costs as much "
        "as no cache at all: the snapshot holds the text already."
    ),
    changed(try_drafts, "from_nothing", "layer.state = snapshot", "layer.state = np.zeros(1)"): (
        "you go back to an empty state: what was read before the drafts is gone too."
    ),
    verdict_in_advance: (
        "you use `accepted` before the drafts are read, to read those that stay apart or to take "
        "the snapshot behind them. But nobody knows how many those are until the model has read "
        "all: the snapshot is of before."
    ),
    computes_the_state: (
        "you compute what `read` would have done. That is this layer's own business: another one "
        "has another rule. Let it read the accepted drafts."
    ),
    tries_a_copy: (
        "the layer is as if you had done nothing: you read with a copy of it. The next round goes "
        "on with the layer itself, so it must have the state."
    ),
    drafts_never_read: (
        "you read only the accepted drafts. But nobody knows how many those are until the model "
        "has read them all: try first, then go back."
    ),
}

TRY_DRAFTS = Exercise(
    id="10.3",
    title="Snapshot and replay",
    task=(
        "A recurrent state can't be trimmed. Write the other way back: keep what was there before, "
        "read the drafts, and if some were refused put the old state back and read what stays. "
        "`Recurrent` from above is the layer to think of."
    ),
    stars=2,
    minutes=10,
    reference=try_drafts,
    alternatives=[try_drafts_in_place, try_drafts_by_steps, try_drafts_with_the_whole_layer],
    wrong=REPLAYS,
    checker=_check_replay,
    in_place=True,
    hints=[
        "Four steps: snapshot, read all, put the snapshot back, read the accepted ones.",
        "The snapshot must not move along when the layer reads: ask the array for a copy.",
    ],
    next="With all drafts accepted, does your function read any token twice? Need it?",
)

# ------------------------------------------------------------------ 10.4 the cost of a replay


def read_again(alpha, drafted):
    """Return how many tokens a round reads again on average, with snapshot and replay.

    alpha: each draft is kept with this probability, 0 to 1, if those before it were.
    drafted: drafts in a round, perhaps 0.
    In a round the target reads the last token of the text and all drafts. With n < drafted of them
    kept, the last token and those n are read again; with all kept, nothing is.
    """
    return sum(alpha**n * (1 - alpha) * (n + 1) for n in range(drafted))


def read_again_closed(alpha, drafted):
    return sum(alpha**n for n in range(drafted)) - drafted * alpha**drafted


def product_of_averages(alpha, drafted):
    kept = sum(alpha**n for n in range(1, drafted + 1))
    return (1 - alpha**drafted) * (kept + 1)


def _chances(rng: np.random.Generator) -> Iterator[tuple[float, int]]:
    yield 0.5, 1
    yield 0.5, 2
    yield 0.2, 2
    yield 0.3, 3
    yield 0.8, 4
    yield 0.9, 7
    yield 0.99, 60


def _certain_chances(rng: np.random.Generator) -> Iterator[tuple[float, int]]:
    yield 0.0, 3
    yield 1.0, 3
    yield 0.7, 0  # nothing is drafted, so nothing is read again
    yield 0.0, 1
    yield 1.0, 1


READ_AGAIN = Exercise(
    id="10.4",
    title="The price of a replay",
    task=(
        "How many tokens does a round read a second time, on average, on a model that can't be "
        "trimmed? Sum over how many drafts are kept."
    ),
    stars=2,
    minutes=10,
    further=True,
    reference=read_again,
    alternatives=[read_again_closed],
    wrong={
        changed(read_again, "last_token_forgotten", "(n + 1)", "n"): (
            "the last token of the text was read in this round as well, before the drafts: it is "
            "read again with them, n + 1 in all."
        ),
        changed(
            read_again,
            "even_if_all_stay",
            "range(drafted))",
            "range(drafted)) + alpha**drafted * (drafted + 1)",
        ): "if all drafts are kept nothing has to be taken back, or read again.",
        changed(read_again, "refused_instead", "(n + 1)", "(drafted - n)"): (
            "you count the refused drafts; those are read once and never again."
        ),
        changed(read_again, "whole_block", "(n + 1)", "(drafted + 1)"): (
            "only the kept ones are read again, not the whole block."
        ),
        changed(read_again, "at_least_n", " * (1 - alpha)", ""): (
            "alpha**n is the chance that *at least* n are kept; exactly n needs a refusal after "
            "them, (1 - alpha)."
        ),
        changed(read_again, "one_round_too_many", "range(drafted)", "range(drafted + 1)"): (
            "n goes up to drafted - 1: with all drafts kept there is no refusal and no replay."
        ),
        product_of_averages: (
            "you multiply the chance of a replay by the average length. But long texts stay where "
            "nothing is refused: sum over n, each with its own chance."
        ),
        changed(read_again, "refusal_forgotten", " * (n + 1)", ""): (
            "that is the chance of a replay. Each replay reads n + 1 tokens: multiply by it."
        ),
        changed(
            read_again, "first_refusal_is_not_counted", "range(drafted)", "range(1, drafted)"
        ): (
            "n begins at 0: if the first draft is refused, the last token of the text is still "
            "read again."
        ),
        changed(
            read_again, "chances_swapped", "alpha**n * (1 - alpha)", "alpha * (1 - alpha) ** n"
        ): (
            "you have n refusals and one draft that is kept; it is the other way round: n are "
            "kept, then one is refused, and the round ends."
        ),
        changed(read_again, "refused_one_too", "(n + 1)", "(n + 2)"): (
            "you read one token too many: the last token and the n that were kept are n + 1. The "
            "refused draft is gone, and what comes in its place is read in the next round."
        ),
    },
    cases=_chances,
    checker=edges(_certain_chances),
    hints=[
        "Exactly n are kept with probability alpha**n * (1 - alpha), for n below `drafted`.",
        "How many tokens are read again if exactly n are kept? Weigh each such number with its "
        "chance. On paper: with alpha = 1/2 and one draft it is 1/2.",
    ],
    next="For which alpha is it largest, if 4 are drafted? Why is it small at both ends?",
)

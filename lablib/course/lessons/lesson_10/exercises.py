"""Exercises of lesson 10: taking tokens back from every kind of memory."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

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


def accepted_go(layers, drafted, accepted):
    return after_round(layers, drafted, drafted - accepted)


def all_drafts_go(layers, drafted, accepted):
    return after_round(layers, drafted, 0)


def correction_counted(layers, drafted, accepted):
    keep = min(len(layers[0][0]), len(layers[0][0]) - (drafted - accepted) + 1)
    return [(keys[:keep], values[:keep]) for keys, values in layers]


def one_too_many(layers, drafted, accepted):
    keep = len(layers[0][0]) - (drafted - accepted) - 1
    return [(keys[:keep], values[:keep]) for keys, values in layers]


def minus_zero(layers, drafted, accepted):
    gone = drafted - accepted
    return [(keys[:-gone], values[:-gone]) for keys, values in layers]


def text_forgotten(layers, drafted, accepted):
    return [(keys[:accepted], values[:accepted]) for keys, values in layers]


def from_the_front(layers, drafted, accepted):
    gone = drafted - accepted
    return [(keys[gone:], values[gone:]) for keys, values in layers]


def refused_ones_zeroed(layers, drafted, accepted):
    keep = len(layers[0][0]) - (drafted - accepted)
    rows = np.arange(len(layers[0][0]))[:, None] < keep
    return [(keys * rows, values * rows) for keys, values in layers]


def keys_only(layers, drafted, accepted):
    trimmed = after_round(layers, drafted, accepted)
    return [(keys, values) for (keys, _), (_, values) in zip(trimmed, layers, strict=True)]


def _rounds(rng: np.random.Generator) -> Iterator[tuple[list[tuple[np.ndarray, ...]], int, int]]:
    for n_layers, tokens, drafted, accepted in (
        (1, 4, 2, 1),
        (2, 4, 3, 1),
        (2, 5, 3, 3),
        (3, 6, 4, 0),
        (2, 9, 4, 3),
    ):
        yield [tuple(rng.normal(size=(2, tokens, 2))) for _ in range(n_layers)], drafted, accepted


def _empty_rounds(
    rng: np.random.Generator,
) -> Iterator[tuple[list[tuple[np.ndarray, ...]], int, int]]:
    for tokens, drafted, accepted in ((3, 0, 0), (2, 2, 2), (2, 2, 0), (1, 1, 1), (80, 12, 5)):
        yield [tuple(rng.normal(size=(2, tokens, 2))) for _ in range(3)], drafted, accepted


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
        accepted_go: "you forget as many tokens as were *accepted*; the refused ones must go.",
        all_drafts_go: "you forget every draft; the accepted ones are part of the text now.",
        correction_counted: (
            "you keep one token too many, as if the target's own token had been read already. It "
            "is read in the next round."
        ),
        one_too_many: "you forget one token too many: the last accepted draft has been read.",
        minus_zero: "when every draft was accepted the cache is empty: [:-0] is [:0].",
        keys_only: "the keys are shorter, the values are not: both must forget.",
        text_forgotten: (
            "you keep the first `accepted` tokens of the *text*. The drafts stand at its end: T − "
            "(drafted − accepted) tokens stay."
        ),
        from_the_front: "you forget the oldest tokens; the refused drafts are the newest.",
        refused_ones_zeroed: (
            "a zeroed key still takes part: e⁰ = 1 in every softmax. The rows must go."
        ),
    },
    cases=_rounds,
    checker=edges(_empty_rounds),
    hints=[
        "How many tokens were refused? That many go, from the end, in every layer.",
        "keep = T - (drafted - accepted), then keys[:keep] and values[:keep].",
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


def the_taken_back(read, window, back):
    return list(range(read - back, read))


def never_full(read, window, back):
    return []


def always_full(read, window, back):
    return list(range(read - back - window, min(read - back, read - window)))


def one_slot_less(read, window, back):
    held = range(max(0, read - window + 1), read)
    return [p for p in range(max(0, read - back - window), read - back) if p not in held]


def ever_written(read, window, back):
    return list(range(min(max(0, read - window), read - back)))


def one_too_many(read, window, back):
    held = range(max(0, read - window), read)
    return [p for p in range(max(0, read - back - window - 1), read - back) if p not in held]


def what_is_left(read, window, back):
    return list(range(max(0, read - window), read - back))


def as_many_as_taken_back(read, window, back):
    if read <= window:
        return []
    first = max(0, read - back - window)
    return list(range(first, first + min(back, read - back, window)))


def how_many(read, window, back):
    return len(lost(read, window, back))


def _rings(rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    yield 3, 4, 2
    yield 4, 4, 1
    yield 5, 4, 1
    yield 6, 4, 2
    yield 9, 4, 3
    yield 9, 3, 5
    yield 5, 4, 2  # one was pushed out, two are taken back
    yield 6, 5, 3
    for _ in range(5):
        read = int(rng.integers(4, 30))
        yield read, int(rng.integers(2, 12)), int(rng.integers(0, min(read, 6)))


def _extreme_rings(rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    yield 9, 4, 0  # nothing is taken back
    yield 9, 4, 9  # everything is
    yield 3, 4, 3
    yield 9, 4, 5  # more than the ring holds
    yield 9, 4, 6
    yield 0, 4, 0
    yield 5, 1, 1  # a ring of one slot
    yield 5, 1, 2
    yield 4, 4, 4
    yield 200, 64, 30


LOST = Exercise(
    id="10.2",
    title="What a ring has lost",
    task=(
        "A sliding window is a ring of slots. Until it is full, nothing is lost. Once it has "
        "wrapped, each token that is read pushes one out, and taking the token back does not "
        "bring the other one home. Which positions would be missing?"
    ),
    stars=2,
    minutes=10,
    reference=lost,
    alternatives=[lost_by_writing],
    wrong={
        the_taken_back: (
            "those are the tokens that were taken back; they should be gone. Missing are older "
            "ones, which they have overwritten."
        ),
        never_full: (
            "you never miss anything. Fill a ring of 4 with 0 … 5, take 5 and 4 back: the last 4 "
            "of what stays are 0, 1, 2, 3, but 0 and 1 were overwritten."
        ),
        always_full: (
            "you count positions below 0, or some although the ring was not full: nothing was "
            "overwritten before the first `window` tokens."
        ),
        one_slot_less: "the ring holds the last `window` tokens, not one less.",
        ever_written: (
            "those are all tokens ever overwritten. The ring should hold only the last `window` of "
            "what stays; older ones are not missed."
        ),
        one_too_many: "the ring should hold `window` tokens of what stays, not one more.",
        what_is_left: "those are the tokens that are still there and should be; return the others.",
        as_many_as_taken_back: (
            "you miss one for each token taken back. Of 0 … 4 a ring of 4 has lost only 0: take "
            "two back, and 0 is all that is missing."
        ),
        how_many: "the question is *which* positions, not how many: a list.",
    },
    cases=_rings,
    checker=edges(_extreme_rings),
    hints=[
        "Write down two sets: the positions it should hold, and the ones it still holds.",
        "Should hold: the last `window` of range(read - back). Holds: the last `window` of "
        "range(read).",
    ],
    next="When is the answer empty although back > 0? That is when mlx-lm's ring can be trimmed.",
)

# ------------------------------------------------------------------ 10.3 snapshot and replay


def try_drafts(layer, drafts, accepted):
    """Let the layer read all drafts, then leave it as if only the first `accepted` had been read.

    layer: `layer.state` is an array that `layer.read(tokens)` changes in place.
    drafts: a list of tokens, perhaps empty.   accepted: how many of them stay, 0 to len(drafts).
    Read nothing but the drafts and, again, those that stay. Return nothing.
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


def alias(layer, drafts, accepted):
    snapshot = layer.state
    layer.read(drafts)
    layer.state = snapshot
    layer.read(drafts[:accepted])


def _replayed(layer, drafts, again):
    """Read the drafts, go back by a snapshot and read these tokens again."""
    snapshot = layer.state.copy()
    layer.read(drafts)
    layer.state = snapshot
    layer.read(again)


def nothing_replayed(layer, drafts, accepted):
    _replayed(layer, drafts, [])


def all_replayed(layer, drafts, accepted):
    _replayed(layer, drafts, drafts)


def refused_replayed(layer, drafts, accepted):
    _replayed(layer, drafts, drafts[accepted:])


def one_more_replayed(layer, drafts, accepted):
    _replayed(layer, drafts, drafts[: accepted + 1])


def never_goes_back(layer, drafts, accepted):
    layer.read(drafts)


def drafts_never_read(layer, drafts, accepted):
    layer.read(drafts[:accepted])


def verdict_in_advance(layer, drafts, accepted):
    layer.read(drafts[:accepted])
    snapshot = layer.state.copy()
    layer.read(drafts[accepted:])
    layer.state = snapshot


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


# What a layer goes through, two rounds each: (drafts, accepted). The long drafts have digits to
# lose: undone by subtracting and dividing they leave a rounding error of 2 ** 60.
_LONG = [0.1 + 0.7 * (i % 11) for i in range(64)]
_ROUNDS = (
    (([3, 5], 1), ([4], 1)),
    (([2, 7, 4], 1), ([6, 1], 0)),
    (([6, 1, 8], 2), ([2, 2], 1)),
    (([4, 9], 0), ([5, 2, 6], 2)),
    (([5, 2, 6], 3), ([3, 3], 0)),
    ((_LONG, 1), (_LONG[::-1], 3)),
)
_NO_DRAFTS = ((([], 0), ([3, 5], 1)), (([7], 0), ([], 0)))


def _follow(
    function: Callable[..., Any], lives: Any
) -> list[tuple[list[float], list[float], list[int]]]:
    """Return what the layer holds after each round, what it read, and how many in each call."""
    results = []
    for rounds in lives:
        calls: list[list[float]] = []  # kept apart: a layer put back whole puts its log back

        class Watching(Recurrent):
            def read(self, tokens: list[float], calls: list[list[float]] = calls) -> None:
                calls.append(list(tokens))
                super().read(tokens)

        layer = Watching()
        layer.read([1, 2])
        for drafts, accepted in rounds:
            before = len(calls)
            function(layer, list(drafts), accepted)
            state = np.ravel(np.asarray(layer.state)).astype(float).tolist()
            read = [token for call in calls[before:] for token in call]
            results.append((state, read, [len(call) for call in calls[before:] if call]))
    return results


def _check_replay(function: Callable[..., Any]) -> None:
    for lives in (_ROUNDS, _NO_DRAFTS):
        got, right = _follow(function, lives), _follow(try_drafts, lives)
        every = [(life, i) for life in lives for i in range(len(life))]
        for (life, i), (*done, sizes), (wanted, *_) in zip(every, got, right, strict=True):
            if fault := _fault(*life[i], *done, wanted, sizes):
                names = (wrong.__name__ for wrong in REPLAYS if _follow(wrong, lives) == got)
                text = [1, 2] if i == 0 else "[1, 2] and a round before"
                raise Wrong(
                    f"a layer that has read {text}; drafts {as_text(life[i][0])}, of which "
                    f"{life[i][1]} stay: {fault}",
                    like=next(names, None),
                )


def _fault(
    drafts: list[float],
    accepted: int,
    state: list[float],
    read: list[float],
    wanted: list[float],
    sizes: list[int],
) -> str | None:
    """Return what is wrong after a round, if anything is.

    Whoever reads the accepted drafts apart, and none again, knows the verdict in advance. Token by
    token, with a copy after each, is right: any verdict finds its copy.
    """
    if read[: len(drafts)] != drafts:
        return f"the drafts were not all read first; it read {as_text(read)}."
    if len(state) != 1 or not abs(state[0] - wanted[0]) <= 1e-9:
        return f"the state is {as_text(state)}, and should be {as_text(wanted)}."
    if read == drafts and sizes[:1] == [accepted] and max(sizes) > 1 and len(sizes) > 1:
        return f"it read the {accepted} that stay apart, before the model had judged the others."
    if len(read) > len(drafts) + accepted:
        return f"it read {len(read) - len(drafts)} tokens again, where {accepted} are enough."
    return None


REPLAYS = {
    alias: (
        "the state is as if you had never gone back. Is the snapshot the array itself? Then "
        "reading the drafts changed it too: keep layer.state.copy(). If it is a copy: was it put "
        "back, as layer.state, before the second read?"
    ),
    nothing_replayed: (
        "you go back to the snapshot and stop there: the accepted drafts are part of the text and "
        "must be read again."
    ),
    all_replayed: "you read all drafts again, the refused ones too: only the first `accepted`.",
    refused_replayed: "you read the refused drafts again instead of the accepted ones.",
    one_more_replayed: "one draft too many is read again: drafts[:accepted].",
    never_goes_back: (
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
    verdict_in_advance: (
        "you read the accepted drafts first and take the snapshot behind them. But nobody knows "
        "how many those are until the model has read all: the snapshot is of before."
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
        "layer.state.copy() before the first read; layer.read(drafts[:accepted]) as the last line.",
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


def last_token_forgotten(alpha, drafted):
    return sum(alpha**n * (1 - alpha) * n for n in range(drafted))


def even_if_all_stay(alpha, drafted):
    return read_again(alpha, drafted) + alpha**drafted * (drafted + 1)


def refused_instead(alpha, drafted):
    return sum(alpha**n * (1 - alpha) * (drafted - n) for n in range(drafted))


def whole_block(alpha, drafted):
    return (1 - alpha**drafted) * (drafted + 1)


def at_least_n(alpha, drafted):
    return sum(alpha**n * (n + 1) for n in range(drafted))


def one_round_too_many(alpha, drafted):
    return sum(alpha**n * (1 - alpha) * (n + 1) for n in range(drafted + 1))


def product_of_averages(alpha, drafted):
    kept = sum(alpha**n for n in range(1, drafted + 1))
    return (1 - alpha**drafted) * (kept + 1)


def refusal_forgotten(alpha, drafted):
    return sum(alpha**n * (1 - alpha) for n in range(drafted))


def first_refusal_is_not_counted(alpha, drafted):
    return sum(alpha**n * (1 - alpha) * (n + 1) for n in range(1, drafted))


def _chances(rng: np.random.Generator) -> Iterator[tuple[float, int]]:
    yield 0.5, 1
    yield 0.5, 2
    for _ in range(5):
        yield float(rng.uniform(0.2, 0.98)), int(rng.integers(1, 9))
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
    reference=read_again,
    alternatives=[read_again_closed],
    wrong={
        last_token_forgotten: (
            "the last token of the text was read in this round as well, before the drafts: it is "
            "read again with them, n + 1 in all."
        ),
        even_if_all_stay: "if all drafts are kept nothing has to be taken back, or read again.",
        refused_instead: "you count the refused drafts; those are read once and never again.",
        whole_block: "only the kept ones are read again, not the whole block.",
        at_least_n: (
            "alpha**n is the chance that *at least* n are kept; exactly n needs a refusal after "
            "them, (1 - alpha)."
        ),
        one_round_too_many: (
            "n goes up to drafted - 1: with all drafts kept there is no refusal and no replay."
        ),
        product_of_averages: (
            "you multiply the chance of a replay by the average length. But long texts stay where "
            "nothing is refused: sum over n, each with its own chance."
        ),
        refusal_forgotten: (
            "that is the chance of a replay. Each replay reads n + 1 tokens: multiply by it."
        ),
        first_refusal_is_not_counted: (
            "n begins at 0: if the first draft is refused, the last token of the text is still "
            "read again."
        ),
    },
    cases=_chances,
    checker=edges(_certain_chances),
    hints=[
        "Exactly n are kept with probability alpha**n * (1 - alpha), for n below `drafted`.",
        "Multiply that by n + 1 and add up for n = 0 … drafted - 1.",
    ],
    next="For which alpha is it largest, if 4 are drafted? Why is it small at both ends?",
)

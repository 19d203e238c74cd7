"""Answers to the exercises of lesson 10, as students write them: right ones and wrong ones."""

import copy

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 10.1 after a round


@right("10.1")
def with_negative_ends(layers, drafted, accepted):
    gone = drafted - accepted
    return [(k[: -gone or None], v[: -gone or None]) for k, v in layers]


@right("10.1")
def as_mlx_arrays(layers, drafted, accepted):
    stay = layers[0][0].shape[0] - drafted + accepted
    return [[mx.array(part)[:stay] for part in layer] for layer in layers]


@right("10.1")
def row_by_row(layers, drafted, accepted):
    new = []
    for keys, values in layers:
        pairs = list(zip(keys, values, strict=True))[: len(keys) - (drafted - accepted)]
        shape = (len(pairs), keys.shape[1])
        columns = zip(*pairs, strict=True) if pairs else ([], [])
        new.append(tuple(np.array(column).reshape(shape) for column in columns))
    return tuple(new)


@right("10.1")
def with_delete(layers, drafted, accepted):
    end = len(layers[0][0])
    rows = range(end - (drafted - accepted), end)
    return [(np.delete(k, rows, axis=0), np.delete(v, rows, axis=0)) for k, v in layers]


@wrong("10.1", like="minus_zero")
def negative_end(layers, drafted, accepted):
    return [(k[: accepted - drafted], v[: accepted - drafted]) for k, v in layers]


@wrong("10.1", like="text_forgotten")
def first_accepted(layers, drafted, accepted):
    return [(k[:accepted], v[:accepted]) for k, v in layers]


@wrong("10.1", like="from_the_front")
def oldest_go(layers, drafted, accepted):
    return [(k[drafted - accepted :], v[drafted - accepted :]) for k, v in layers]


@wrong("10.1", like="refused_ones_zeroed")
def zeroed(layers, drafted, accepted):
    new = [(k.copy(), v.copy()) for k, v in layers]
    for k, v in new:
        k[len(k) - drafted + accepted :] = 0
        v[len(v) - drafted + accepted :] = 0
    return new


@wrong("10.1", like="first_layer_only")
def only_the_first(layers, drafted, accepted):
    (k, v), *others = layers
    stay = len(k) - drafted + accepted
    return [(k[:stay], v[:stay]), *others]


@wrong("10.1")
def works_in_the_old_list(layers, drafted, accepted):
    for i, (k, v) in enumerate(layers):
        stay = len(k) - drafted + accepted
        layers[i] = (k[:stay], v[:stay])
    return layers


@wrong("10.1")
def erases_the_old_cache(layers, drafted, accepted):
    stay = len(layers[0][0]) - drafted + accepted
    new = [(k[:stay].copy(), v[:stay].copy()) for k, v in layers]
    for k, v in layers:
        k[stay:], v[stay:] = 0, 0
    return new


@wrong("10.1")
def along_the_width(layers, drafted, accepted):
    return [(k[:, : len(k) - drafted + accepted], v) for k, v in layers]


@wrong("10.1")
def last_layer_only(layers, drafted, accepted):
    *others, (k, v) = layers
    stay = len(k) - drafted + accepted
    return [*others, (k[:stay], v[:stay])]


@wrong("10.1")
def only_the_accepted_drafts(layers, drafted, accepted):
    text = len(layers[0][0]) - drafted
    return [(k[text : text + accepted], v[text : text + accepted]) for k, v in layers]


@wrong("10.1")
def values_only(layers, drafted, accepted):
    return [(k, v[: len(v) - drafted + accepted]) for k, v in layers]


@wrong("10.1")
def layers_trimmed_again_and_again(layers, drafted, accepted):
    gone = drafted - accepted
    return [(k[: len(k) - gone * n], v[: len(v) - gone * n]) for n, (k, v) in enumerate(layers, 1)]


# ------------------------------------------------------------------ 10.2 what a ring has lost


@right("10.2")
def by_two_borders(read, window, back):
    return range(max(0, read - back - window), max(0, min(read - back, read - window)))


@right("10.2")
def with_sets(read, window, back):
    should = set(list(range(read - back))[-window:])
    return sorted(should - set(list(range(read))[-window:]))


@right("10.2")
def with_arrays(read, window, back):
    stays, held = np.arange(read - back)[-window:], np.arange(read)[-window:]
    return np.setdiff1d(stays, held)


@right("10.2")
def with_a_queue(read, window, back):
    ring = []
    for position in range(read):
        ring = [*ring, position][-window:]
    return mx.array([p for p in range(read - back) if p not in ring and p >= read - back - window])


@right("10.2")
def nothing_back_is_nothing_lost(read, window, back):
    stays = list(range(read))[:-back][-window:]
    held = list(range(read))[-window:]
    return [p for p in stays if p not in held]


@wrong("10.2", like="one_too_many")
def window_and_one(read, window, back):
    first = max(0, read - back - window - 1)
    return [p for p in range(first, read - back) if p < read - window]


@wrong("10.2", like="what_is_left")
def still_there(read, window, back):
    return [p for p in range(read - back) if p >= read - window]


@wrong("10.2", like="how_many")
def count(read, window, back):
    return len(by_two_borders(read, window, back))


@wrong("10.2")
def misses_what_it_held(read, window, back):
    should = set(range(max(0, read - back - window), read - back))
    return sorted(should ^ set(range(max(0, read - window), read)))


@wrong("10.2", like="the_taken_back")
def drafts(read, window, back):
    return list(range(read))[read - back :]


@wrong("10.2")
def as_many_as_taken_back(read, window, back):
    last = max(0, read - window)
    return list(range(max(0, last - back), last))


@wrong("10.2")
def nothing_below_zero_forgotten(read, window, back):
    return list(range(read - back - window, read - window))


@wrong("10.2")
def slot_numbers(read, window, back):
    return [p % window for p in by_two_borders(read, window, back)]


@wrong("10.2")
def newest_first(read, window, back):
    return list(by_two_borders(read, window, back))[::-1]


@wrong("10.2")
def a_set_of_them(read, window, back):
    return set(by_two_borders(read, window, back))


@wrong("10.2")
def all_or_nothing(read, window, back):
    if read <= window or back == 0:
        return []
    return list(range(max(0, read - back - window), read - back))


@wrong("10.2")
def simulates_the_way_back(read, window, back):
    ring = [None] * window
    for position in range(read):
        ring[position % window] = position
    for position in range(read - back, read):
        ring[position % window] = None
    return [p for p in range(max(0, read - window), read - back) if p not in ring]


# ------------------------------------------------------------------ 10.3 snapshot and replay


@right("10.3")
def on_a_twin(layer, drafts, accepted):
    twin = copy.deepcopy(layer)
    twin.read(drafts)
    layer.read(drafts[:accepted])


@right("10.3")
def with_an_mlx_snapshot(layer, drafts, accepted):
    snapshot = np.array(layer.state, copy=True)
    layer.read(drafts)
    if accepted == len(drafts):
        return layer
    np.copyto(layer.state, snapshot)
    layer.read(drafts[:accepted])
    return layer


@right("10.3")
def one_at_a_time(layer, drafts, accepted):
    snapshot = layer.state + 0
    layer.read(drafts)
    layer.state = snapshot
    for token in drafts[:accepted]:
        layer.read([token])


@wrong("10.3")
def writes_no_number(layer, drafts, accepted):
    layer.read(drafts)
    layer.state = np.array([np.nan])


@wrong("10.3", like="divides_back")
def backwards(layer, drafts, accepted):
    layer.read(drafts)
    for token in drafts[accepted:][::-1]:
        layer.state = (layer.state - token) * 2


@wrong("10.3")
def all_the_way_backwards(layer, drafts, accepted):
    layer.read(drafts)
    for token in drafts[::-1]:
        layer.state = (layer.state - token) / 0.5
    layer.read(drafts[:accepted])


@wrong("10.3", like="reads_the_text_again")
def from_the_beginning(layer, drafts, accepted):
    text = layer.log[:]
    layer.read(drafts)
    layer.__init__()
    layer.read(text + drafts[:accepted])


@wrong("10.3", like="alias")
def second_name(layer, drafts, accepted):
    old = layer.state
    layer.read(drafts)
    layer.state = old
    layer.read(drafts[:accepted])


@wrong("10.3")
def snapshot_too_late(layer, drafts, accepted):
    layer.read(drafts)
    snapshot = layer.state.copy()
    layer.state = snapshot
    layer.read(drafts[:accepted])


@wrong("10.3")
def a_slice_is_no_copy(layer, drafts, accepted):
    snapshot = layer.state[:]
    layer.read(drafts)
    layer.state = snapshot
    layer.read(drafts[:accepted])


@wrong("10.3", like="nothing_replayed")
def only_back(layer, drafts, accepted):
    snapshot = layer.state.copy()
    layer.read(drafts)
    layer.state = snapshot


@wrong("10.3")
def a_list_in_place_of_the_array(layer, drafts, accepted):
    snapshot = layer.state.tolist()
    layer.read(drafts)
    if accepted < len(drafts):
        layer.state = snapshot
        layer.read(drafts[:accepted])


@wrong("10.3")
def from_zero(layer, drafts, accepted):
    layer.read(drafts)
    layer.state = np.zeros(1)
    layer.read(drafts[:accepted])


SNAPSHOTS = []


@wrong("10.3")
def first_snapshot_for_ever(layer, drafts, accepted):
    if accepted == len(drafts):
        layer.read(drafts)
        return
    if not SNAPSHOTS or SNAPSHOTS[0][0] is not layer:
        SNAPSHOTS[:] = [(layer, layer.state.copy())]
    layer.read(drafts)
    layer.state = SNAPSHOTS[0][1].copy()
    layer.read(drafts[:accepted])


@wrong("10.3")
def last_accepted_ones(layer, drafts, accepted):
    snapshot = layer.state.copy()
    layer.read(drafts)
    layer.state = snapshot
    layer.read(drafts[-accepted:])


@wrong("10.3", like="drafts_never_read")
def knows_beforehand(layer, drafts, accepted):
    layer.read(drafts[:accepted])


# ------------------------------------------------------------------ 10.4 the price of a replay


@right("10.4")
def with_numpy(alpha, drafted):
    n = np.arange(drafted)
    return (float(alpha) ** n * (1 - alpha) * (n + 1)).sum()


@right("10.4")
def with_mlx(alpha, drafted):
    n = mx.arange(drafted)
    return mx.sum(mx.power(mx.array(alpha), n) * (1 - alpha) * (n + 1))


@right("10.4")
def by_survival(alpha, drafted):
    total, reached = 0.0, 1.0
    for n in range(drafted):
        total += reached * (1 - alpha) * (n + 1)
        reached *= alpha
    return np.float64(total)


@wrong("10.4")
def divides_by_the_refusals(alpha, drafted):
    return (1 - alpha**drafted) / (1 - alpha) - drafted * alpha**drafted


@wrong("10.4", like="product_of_averages")
def chance_times_length(alpha, drafted):
    kept = sum(alpha ** (i + 1) for i in range(drafted))
    return (1 - alpha**drafted) * (1 + kept)


@wrong("10.4", like="refusal_forgotten")
def chance_of_a_replay(alpha, drafted):
    return 1 - alpha**drafted


@wrong("10.4", like="first_refusal_is_not_counted")
def from_one(alpha, drafted):
    return sum((n + 1) * alpha**n * (1 - alpha) for n in range(1, drafted))


@wrong("10.4", like="one_round_too_many")
def up_to_drafted(alpha, drafted):
    return sum((n + 1) * alpha**n * (1 - alpha) for n in range(drafted + 1))


@wrong("10.4", like="last_token_forgotten")
def without_the_last_token(alpha, drafted):
    return sum(n * alpha**n * (1 - alpha) for n in range(drafted))


@wrong("10.4")
def expected_number_kept(alpha, drafted):
    return sum(alpha**n for n in range(1, drafted + 1))


@wrong("10.4")
def as_if_drafts_went_on_for_ever(alpha, drafted):
    return 1 / (1 - alpha) if alpha < 1 and drafted else 0.0


@wrong("10.4")
def chances_swapped(alpha, drafted):
    return sum((n + 1) * alpha * (1 - alpha) ** n for n in range(drafted))


@wrong("10.4")
def independent_drafts(alpha, drafted):
    return alpha * drafted + 1 if alpha < 1 and drafted else 0.0


@wrong("10.4")
def simulated(alpha, drafted):
    rng = np.random.default_rng(0)
    kept = np.minimum(rng.geometric(max(1e-9, 1 - alpha), 20_000) - 1, drafted)
    return np.where(kept < drafted, kept + 1, 0).mean()


@wrong("10.4")
def a_whole_number(alpha, drafted):
    return round(sum((n + 1) * alpha**n * (1 - alpha) for n in range(drafted)))

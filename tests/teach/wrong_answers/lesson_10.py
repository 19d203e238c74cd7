"""Answers to the exercises of lesson 10, as students write them: right ones and wrong ones."""

import copy
from fractions import Fraction

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


@right("10.1")
def as_a_generator(layers, drafted, accepted):
    for k, v in layers:
        kept = np.arange(len(k)) < len(k) - drafted + accepted
        yield k[kept], v[kept].tolist() if kept.any() else v[kept]


ANSWERS.changed("10.1", "half_of_them", "(drafted - accepted)", "(drafted - accepted) // 2")
ANSWERS.changed(
    "10.1",
    "the_first_refused_stays",
    "(drafted - accepted)",
    "max(0, drafted - (accepted + 1))",
    "correction_counted",
)
ANSWERS.changed("10.1", "one_goes", "(drafted - accepted)", "(1 if drafted > accepted else 0)")
ANSWERS.changed("10.1", "none_or_all", "(drafted - accepted)", "(drafted > accepted) * drafted")
ANSWERS.changed("10.1", "by_the_width", "len(layers[0][0])", "layers[0][0].shape[1]")
ANSWERS.changed(
    "10.1", "never_empty", "return [(keys[:keep]", "keep = max(keep, 1)\n    return [(keys[:keep]"
)
ANSWERS.changed(
    "10.1", "values_first", "(keys[:keep], values[:keep])", "(values[:keep], keys[:keep])"
)
ANSWERS.changed("10.1", "keys_of_the_first", "(keys[:keep]", "(layers[0][0][:keep]")
ANSWERS.changed("10.1", "two_layers_only", "in layers]", "in layers[:2]]")
ANSWERS.changed("10.1", "last_layer_only", "in layers]", "in layers[-1:]]")
ANSWERS.changed(
    "10.1",
    "refused_put_in_front",
    "(keys[:keep], values[:keep])",
    "(np.roll(keys, -keep, 0)[-keep:], np.roll(values, -keep, 0)[-keep:])",
)


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
def only_the_accepted_drafts(layers, drafted, accepted):
    text = len(layers[0][0]) - drafted
    return [(k[text : text + accepted], v[text : text + accepted]) for k, v in layers]


@wrong("10.1")
def layers_trimmed_again_and_again(layers, drafted, accepted):
    gone = drafted - accepted
    return [(k[: len(k) - gone * n], v[: len(v) - gone * n]) for n, (k, v) in enumerate(layers, 1)]


@wrong("10.1")
def equal_tokens_go_too(layers, drafted, accepted):
    stay = len(layers[0][0]) - drafted + accepted
    new = []
    for k, v in layers:
        gone = k[stay:].tolist()
        rows = [row for row, key in enumerate(k.tolist()) if key not in gone]
        new.append((k[rows], v[rows]))
    return new


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


@right("10.2")
def one_at_a_time_back(read, window, back):
    if not back:
        return ()
    stays = read - back
    older = (stays - window,) if stays >= window and stays < read else ()
    return (*older, *(p for p in one_at_a_time_back(read, window, back - 1) if p < stays))


_MISSING = "[position for position in wanted if position not in held]"
_BACK = "max(0, read - back - window)"
ANSWERS.changed(
    "10.2", "window_and_one", "- back - window)", "- back - 1 - window)", "one_too_many"
)
ANSWERS.changed("10.2", "still_there", _MISSING, "[*{*wanted} & {*held}]", "what_is_left")
ANSWERS.changed("10.2", "count", _MISSING, "sum(p not in held for p in wanted)", "how_many")
ANSWERS.changed("10.2", "drafts", _MISSING, "[*range(read)][read - back :]", "the_taken_back")
ANSWERS.changed(
    "10.2", "below_what_is_held", _MISSING, "[*range(read - back - window, read - window)]"
)
ANSWERS.changed("10.2", "newest_first", _MISSING, _MISSING + "[::-1]")
ANSWERS.changed("10.2", "a_set_of_them", _MISSING, "{*wanted} - {*held}")
ANSWERS.changed("10.2", "misses_what_it_held", _MISSING, "sorted({*wanted} ^ {*held})")
ANSWERS.changed("10.2", "from_one", "[position for", "[position + 1 for")
ANSWERS.changed("10.2", "the_next_token_has_a_slot", _BACK, "max(0, read - back - window + 1)")
ANSWERS.changed("10.2", "first_turn_only", "not in held", "not in held and position < window")
ANSWERS.changed("10.2", "after_a_whole_turn", "not in held", "not in held and read >= 2 * window")
ANSWERS.changed("10.2", "fewer_back_than_slots", "not in held", "not in held and back < window")
ANSWERS.changed("10.2", "back_within_a_turn", "wanted = ", "back %= window\n    wanted = ")
ANSWERS.changed(
    "10.2", "full_at_the_last_slot", "- window), read)", "- window + 1), read)", "one_slot_less"
)
ANSWERS.changed("10.2", "as_many_as_pushed_out", _MISSING, "[*wanted[: max(0, read - window)]]")
ANSWERS.changed(
    "10.2", "newest_of_the_pushed_out", _MISSING, "[*wanted][-min(back, max(0, read - window)) :]"
)
ANSWERS.changed(
    "10.2", "slots_of_their_own", "[position for", "[position % window for", "slot_numbers"
)
ANSWERS.changed("10.2", "holes", _MISSING, "[None if p in held else p for p in wanted]")


@wrong("10.2", like="taken_back_too")
def under_the_taken_back(read, window, back):
    return [p - window for p in range(read - back, read) if p >= window]


@wrong("10.2")
def earlier_turns(read, window, back):
    stays = range(max(0, read - back - window), read - back)
    return [p for p in stays if p // window < (read - 1) // window]


@wrong("10.2", like="as_many_as_taken_back")
def one_for_each(read, window, back):
    stays = read - back
    first = max(0, stays - window)
    return [] if read <= window else list(range(first, first + min(back, stays, window)))


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


@right("10.3")
def a_number_and_the_place(layer, drafts, accepted):
    before = float(layer.state[0])
    for token in drafts:
        layer.read([token])
    if refused := len(drafts) - accepted:
        layer.state[0] = before
        layer.read(drafts[:-refused])


@right("10.3")
def nothing_to_do_if_all_stay(layer, drafts, accepted):
    if accepted == len(drafts):
        return layer.read(drafts)
    state = layer.state * 1
    layer.read(drafts)
    layer.state = state
    return accepted and layer.read(drafts[:accepted])


ANSWERS.changed("10.3", "second_name", "layer.state.copy()", "layer.state[:]", "alias")
ANSWERS.changed(
    "10.3", "another_layer_same_array", "layer.state.copy()", "copy.copy([layer.state])[0]", "alias"
)
ANSWERS.changed("10.3", "never_put_back", "layer.state = snapshot", "state = snapshot", "alias")
ANSWERS.changed(
    "10.3", "only_back", "layer.read(drafts[:accepted])", "layer.read([])", "nothing_replayed"
)
ANSWERS.changed("10.3", "zeros_left_out", "drafts[:accepted]", "[*filter(None, drafts[:accepted])]")
ANSWERS.changed("10.3", "replayed_backwards", "drafts[:accepted]", "drafts[:accepted][::-1]")
ANSWERS.changed("10.3", "last_accepted_ones", "drafts[:accepted]", "drafts[-accepted:]")
ANSWERS.changed(
    "10.3", "from_zero", "layer.state = snapshot", "layer.state = 0 * snapshot", "from_nothing"
)
ANSWERS.changed("10.3", "a_number_for_the_array", "= snapshot", "= float(np.ravel(snapshot)[0])")
ANSWERS.changed("10.3", "a_list_for_the_array", "= snapshot", "= snapshot.tolist()")
ANSWERS.changed("10.3", "drafts_read_twice", "layer.read(drafts)", "layer.read(drafts + drafts)")
ANSWERS.changed(
    "10.3",
    "refused_ones_out_of_the_callers_list",
    "layer.read(drafts[:accepted])",
    "del drafts[accepted:]\n        layer.read(drafts)",
)
ANSWERS.changed("10.3", "back_only_to_read", "accepted < len", "0 < accepted < len")
ANSWERS.changed(
    "10.3",
    "too_late",
    "snapshot = layer.state.copy()\n    layer.read(drafts)",
    "layer.read(drafts)\n    snapshot = layer.state.copy()",
    "alias",
)
ANSWERS.changed(
    "10.3", "last_token_of_the_text_too", "drafts[:accepted]", "[2, *drafts[:accepted]]"
)


@wrong("10.3", like="verdict_in_advance")
def a_copy_where_it_will_be_needed(layer, drafts, accepted):
    for place, token in enumerate([*drafts, None]):
        if place == accepted:
            snapshot = layer.state.copy()
        if token is not None:
            layer.read([token])
    layer.state = snapshot


@wrong("10.3", like="verdict_in_advance")
def accepted_ones_first(layer, drafts, accepted):
    layer.read(drafts[:accepted])
    snapshot = layer.state.copy()
    for token in drafts[accepted:]:
        layer.read([token])
    layer.state = snapshot


@wrong("10.3", like="computes_the_state")
def computes_what_it_should_read(layer, drafts, accepted):
    state = layer.state.copy()
    layer.read(drafts)
    for token in drafts[:accepted]:
        state = state / 2 + token
    layer.state = state


@wrong("10.3")
def the_weight_of_the_refused(layer, drafts, accepted):
    layer.read(drafts)
    refused = 0.0
    for token in drafts[accepted:]:
        refused = refused / 2 + token
    layer.state = (layer.state - refused) * 2.0 ** (len(drafts) - accepted)


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


@right("10.4")
def with_fractions(alpha, drafted):
    alpha = Fraction(alpha)
    return sum(alpha**n - alpha**drafted for n in range(drafted))


@right("10.4")
def by_recursion(alpha, drafted, kept=0):
    if kept == drafted:
        return 0
    return (1 - alpha) * (kept + 1) + alpha * by_recursion(alpha, drafted, kept + 1)


ANSWERS.changed("10.4", "chance_of_a_replay", " * (n + 1)", "", "refusal_forgotten")
ANSWERS.changed("10.4", "without_the_last_token", "(n + 1)", "n", "last_token_forgotten")
ANSWERS.changed(
    "10.4", "up_to_drafted", "range(drafted)", "range(1 + drafted)", "one_round_too_many"
)
ANSWERS.changed(
    "10.4", "from_one", "in range(drafted)", "in range(1, drafted)", "first_refusal_is_not_counted"
)
ANSWERS.changed("10.4", "one_kept_more", "alpha**n", "alpha ** (n + 1)")
ANSWERS.changed("10.4", "one_chance_for_all", "alpha**n * ", "")
ANSWERS.changed("10.4", "kept_times_n", "alpha**n", "alpha * n")
ANSWERS.changed("10.4", "a_mean_of_them", "drafted))", "drafted)) / max(1, drafted)")
ANSWERS.changed(
    "10.4", "if_there_is_a_replay", "drafted))", "drafted)) / (1 - alpha**drafted or 1)"
)
ANSWERS.changed("10.4", "all_that_is_read", "drafted))", "drafted)) + drafted + 1")
ANSWERS.changed("10.4", "half_of_the_block", "(n + 1)", "(drafted + 1) / 2")
ANSWERS.changed("10.4", "tokens_of_a_round", "(1 - alpha) * (n + 1)", "1")


@wrong("10.4")
def divides_by_the_refusals(alpha, drafted):
    return (1 - alpha**drafted) / (1 - alpha) - drafted * alpha**drafted


@wrong("10.4", like="product_of_averages")
def chance_times_length(alpha, drafted):
    kept = sum(alpha ** (i + 1) for i in range(drafted))
    return (1 - alpha**drafted) * (1 + kept)


@wrong("10.4")
def expected_number_kept(alpha, drafted):
    return sum(alpha**n for n in range(1, drafted + 1))


@wrong("10.4")
def as_if_drafts_went_on_for_ever(alpha, drafted):
    return 1 / (1 - alpha) if alpha < 1 and drafted else 0.0


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


ANSWERS.changed(
    "10.3", "in_single_precision", "layer.state.copy()", "layer.state.astype(np.float32)"
)


@right("10.1")
def refused_ones_marked(layers, drafted, accepted):
    kept = []
    for pair in layers:
        marked = [part.copy() for part in pair]
        for part in marked:
            part[len(part) - drafted + accepted :] = np.nan
        kept.append(tuple(part[~np.isnan(part).any(axis=1)] for part in marked))
    return kept

"""Answers to the exercises of lesson 11, as students write them: right ones and wrong ones."""

from collections import OrderedDict, deque

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 11.1 longest match


def paths(tree, above=()):
    for edge, below in tree.items():
        yield above + edge
        yield from paths(below, above + edge)


def shared(a, b):
    size = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        size += 1
    return size


@right("11.1")
def over_all_paths(tree, prompt):
    return max((shared(path, prompt) for path in paths(tree)), default=0)


@right("11.1")
def as_an_array(tree, prompt):
    return np.array(over_all_paths(tree, prompt))


@right("11.1")
def with_a_stack(tree, prompt):
    found, waiting = 0, [(0, tree)]
    while waiting:
        size, node = waiting.pop()
        for edge, below in node.items():
            same = shared(edge, prompt[size:])
            found = max(found, size + same)
            if same == len(edge):
                waiting.append((size + same, below))
    return mx.array(found)


@right("11.1")
def prefix_by_prefix(tree, prompt):
    held = {path[:size] for path in paths(tree) for size in range(len(path) + 1)} | {()}
    return max(size for size in range(len(prompt) + 1) if prompt[:size] in held)


@wrong("11.1", like="in_joined_digits")
def digits(tree, prompt):
    best, text = 0, "".join(map(str, prompt))
    for path in paths(tree):
        for size in range(1, len(path) + 1):
            if text.startswith("".join(map(str, path[:size]))):
                best = max(best, size)
    return best


@wrong("11.1", like="goes_on_below_a_broken_edge")
def never_stops(tree, prompt):
    found = 0
    while prompt:
        for edge in tree:
            if edge[0] == prompt[0]:
                break
        else:
            return found
        size = shared(edge, prompt)
        found, prompt, tree = found + size, prompt[size:], tree[edge]
    return found


@wrong("11.1", like="whole_edges_only")
def ends_of_edges(tree, prompt):
    return max((len(path) for path in paths(tree) if prompt[: len(path)] == path), default=0)


@wrong("11.1", like="first_edge_only")
def top_level(tree, prompt):
    return max((shared(edge, prompt) for edge in tree), default=0)


@wrong("11.1")
def tokens_in_any_order(tree, prompt):
    return max((len(set(path) & set(prompt)) for path in paths(tree)), default=0)


@wrong("11.1")
def anywhere_in_the_path(tree, prompt):
    return max(
        (sum(a == b for a, b in zip(p, prompt, strict=False)) for p in paths(tree)), default=0
    )


@wrong("11.1")
def first_fitting_path(tree, prompt):
    for path in paths(tree):
        if path[:1] == prompt[:1]:
            return shared(path, prompt)
    return 0


@wrong("11.1")
def what_is_missing(tree, prompt):
    return len(prompt) - over_all_paths(tree, prompt)


@wrong("11.1")
def known_or_not(tree, prompt):
    return len(prompt) if over_all_paths(tree, prompt) == len(prompt) else 0


@wrong("11.1")
def fails_without_a_prompt(tree, prompt):
    first = prompt[0]
    return over_all_paths(tree, prompt) if any(edge[0] == first for edge in tree) else 0


@wrong("11.1")
def fails_without_a_tree(tree, prompt):
    return max(shared(path, prompt) for path in paths(tree))


@wrong("11.1")
def one_token_more(tree, prompt):
    return min(len(prompt), over_all_paths(tree, prompt) + 1)


@wrong("11.1")
def eats_the_tree(tree, prompt):
    answer = over_all_paths(tree, prompt)
    tree.clear()
    return answer


# ------------------------------------------------------------------ 11.2 insert with a split


def rebuilt(ends):
    """Build the tree of these prompts, with a node where one ends or two part."""
    tree, firsts = {}, dict.fromkeys(end[0] for end in ends if end)
    for first in firsts:
        own = [end for end in ends if end and end[0] == first]
        size = min(shared(own[0], other) for other in own)
        tree[own[0][:size]] = rebuilt([end[size:] for end in own])
    return tree


@right("11.2")
def from_all_its_ends(tree, prompt):
    ends = list(paths(tree))
    return _with_ends(tree, [*ends, prompt])


def _with_ends(tree, ends):
    # the nodes of the given tree stay, also where only one way goes on
    new = {}
    for first in dict.fromkeys(end[0] for end in ends if end):
        own = [end for end in ends if end and end[0] == first]
        shortest = min(own, key=len)
        size = min(shared(shortest, other) for other in own)
        new[shortest[:size]] = _with_ends({}, [end[size:] for end in own])
    return new


@right("11.2")
def recursively(tree, prompt):
    for edge, below in tree.items():
        same = shared(edge, prompt)
        if same == 0:
            continue
        rest = {k: v for k, v in tree.items() if k is not edge}
        if same == len(edge):
            rest[edge] = recursively(below, prompt[same:])
        else:
            ends = {edge[same:]: below}
            if prompt[same:]:
                ends[prompt[same:]] = {}
            rest[edge[:same]] = ends
        return rest
    return dict(tree, **{}) | ({prompt: {}} if prompt else {})


@right("11.2")
def in_an_ordered_dict(tree, prompt):
    return OrderedDict(sorted(recursively(tree, prompt).items()))


@right("11.2")
def token_by_token(tree, prompt):
    import copy

    root = node = copy.deepcopy(tree)
    while prompt:
        edge = next((e for e in node if e[0] == prompt[0]), None)
        if edge is None:
            node[prompt] = {}
            return root
        same = shared(edge, prompt)
        below = node.pop(edge)
        node[edge[:same]] = below if same == len(edge) else {edge[same:]: below}
        node, prompt = node[edge[:same]], prompt[same:]
    return root


@wrong("11.2", like="adds_at_the_top")
def one_more_edge(tree, prompt):
    return tree | {prompt: {}} if prompt else tree


@wrong("11.2", like="new_edge_below_the_parting")
def second_edge(tree, prompt):
    for edge in tree:
        same = shared(edge, prompt)
        if same and same in (len(edge), len(prompt)):
            return {**tree, edge: second_edge(tree[edge], prompt[same:])}
    return {**tree, **({prompt: {}} if prompt else {})}


@wrong("11.2", like="empty_lower_edge")
def always_cuts(tree, prompt):
    if not prompt:
        return tree
    for edge in tree:
        if edge[0] == prompt[0]:
            same = shared(edge, prompt)
            others = {k: v for k, v in tree.items() if k != edge}
            return others | {edge[:same]: always_cuts({edge[same:]: tree[edge]}, prompt[same:])}
    return {**tree, prompt: {}}


@wrong("11.2", like="new_end_forgotten")
def only_cuts(tree, prompt):
    if not prompt:
        return tree
    for edge in tree:
        if edge[0] == prompt[0]:
            same = shared(edge, prompt)
            others = {k: v for k, v in tree.items() if k != edge}
            if same < len(edge):
                return others | {edge[:same]: {edge[same:]: tree[edge]}}
            return others | {edge: only_cuts(tree[edge], prompt[same:])}
    return {**tree, prompt: {}}


@wrong("11.2", like="old_subtree_below_the_upper")
def children_stay_above(tree, prompt):
    for edge, below in tree.items():
        same = shared(edge, prompt)
        if same:
            rest = {k: v for k, v in tree.items() if k is not edge}
            if same == len(edge):
                return rest | {edge: children_stay_above(below, prompt[same:])}
            new = {**below, edge[same:]: {}}
            if prompt[same:]:
                new[prompt[same:]] = {}
            return rest | {edge[:same]: new}
    return tree | ({prompt: {}} if prompt else {})


@wrong("11.2")
def a_node_for_each_token(tree, prompt):
    if not prompt:
        return tree
    return {**tree, prompt[:1]: a_node_for_each_token(tree.get(prompt[:1], {}), prompt[1:])}


@wrong("11.2")
def nodes_with_one_way_are_merged(tree, prompt):
    leaves = [p for p in paths(tree) if not any(o[: len(p)] == p != o for o in paths(tree))]
    return rebuilt([*leaves, prompt])


@wrong("11.2")
def works_in_the_given_tree(tree, prompt):
    node = tree
    while prompt:
        edge = next((e for e in node if e[0] == prompt[0]), None)
        if edge is None:
            node[prompt] = {}
            break
        same = shared(edge, prompt)
        below = node.pop(edge)
        node[edge[:same]] = below if same == len(edge) else {edge[same:]: below}
        node, prompt = node[edge[:same]], prompt[same:]
    return tree


@wrong("11.2")
def empty_edge_for_an_empty_prompt(tree, prompt):
    return recursively(tree, prompt) if prompt else {**tree, (): {}}


@wrong("11.2")
def edges_as_text(tree, prompt):
    def text(node):
        return {"".join(map(str, edge)): text(below) for edge, below in node.items()}

    return text(recursively(tree, prompt))


@wrong("11.2")
def the_subtree_in_place_of_the_tree(tree, prompt):
    for edge, below in tree.items():
        if prompt[: len(edge)] == edge:
            return recursively(below, prompt[len(edge) :])
    return recursively(tree, prompt)


@wrong("11.2", like="loses_the_old_end")
def overwrites(tree, prompt):
    if not prompt:
        return tree
    for edge in tree:
        if edge[0] == prompt[0]:
            same = shared(edge, prompt)
            others = {k: v for k, v in tree.items() if k != edge}
            if same == len(edge):
                return others | {edge: overwrites(tree[edge], prompt[same:])}
            return others | {edge[:same]: {prompt[same:]: {}} if prompt[same:] else {}}
    return {**tree, prompt: {}}


# ------------------------------------------------------------------ 11.3 least recently used


@right("11.3")
def with_times(events, capacity):
    used = {}
    for now, (kind, name) in enumerate(events):
        if kind == "write" or name in used:
            used[name] = now
        if len(used) > capacity:
            del used[min(used, key=used.get)]
    return sorted(used, key=used.get)


@right("11.3")
def with_a_deque(events, capacity):
    cached = deque(maxlen=capacity)
    for kind, name in events:
        if name in cached:
            cached.remove(name)
            cached.append(name)
        elif kind == "write":
            cached.append(name)
    return tuple(cached)


@right("11.3")
def with_a_dictionary(events, capacity):
    cached = {}
    for kind, name in events:
        if kind == "read" and name not in cached:
            continue
        cached.pop(name, None)
        cached[name] = True
        while len(cached) > capacity:
            cached.pop(next(iter(cached)))
    return list(cached)


@wrong("11.3", like="evicts_at_the_end")
def last_uses(events, capacity):
    cached = []
    for kind, name in events:
        if kind == "write" or name in cached:
            cached = [other for other in cached if other != name] + [name]
    return cached[-capacity:]


@wrong("11.3")
def sorted_by_last_use(events, capacity):
    written = {name for kind, name in events if kind == "write"}
    last = {name: now for now, (_, name) in enumerate(events) if name in written}
    return sorted(last, key=last.get)[-capacity:]


@wrong("11.3", like="newest_first")
def young_ones_in_front(events, capacity):
    return with_times(events, capacity)[::-1]


@wrong("11.3")
def as_a_set(events, capacity):
    return set(with_times(events, capacity))


@wrong("11.3")
def in_order_of_name(events, capacity):
    return sorted(with_times(events, capacity))


@wrong("11.3", like="first_in_first_out")
def age_of_the_first_write(events, capacity):
    cached = {}
    for kind, name in events:
        if kind == "write":
            cached.setdefault(name)
        if len(cached) > capacity:
            del cached[next(iter(cached))]
    return list(cached)


@wrong("11.3", like="forgets_reads")
def writes_only(events, capacity):
    return with_a_deque([event for event in events if event[0] == "write"], capacity)


@wrong("11.3", like="a_miss_stores")
def every_event_is_a_write(events, capacity):
    return with_a_deque([("write", name) for _, name in events], capacity)


@wrong("11.3")
def one_place_less(events, capacity):
    return with_a_dictionary(events, max(1, capacity - 1))


@wrong("11.3")
def one_place_more(events, capacity):
    return with_a_dictionary(events, capacity + 1)


@wrong("11.3")
def the_evicted(events, capacity):
    return [n for n in dict.fromkeys(n for _, n in events) if n not in with_times(events, capacity)]


@wrong("11.3", like="least_frequently_used")
def fewest_uses(events, capacity):
    uses, last = {}, {}
    for now, (kind, name) in enumerate(events):
        if kind == "write" and name not in uses and len(uses) >= capacity:
            gone = min(uses, key=lambda n: (uses[n], last[n]))
            uses.pop(gone), last.pop(gone)
        if kind == "write" or name in uses:
            uses[name], last[name] = uses.get(name, 0) + 1, now
    return sorted(last, key=last.get)


@wrong("11.3")
def empties_the_history(events, capacity):
    answer = with_times(events, capacity)
    events.clear()
    return answer


# ------------------------------------------------------------------ 11.4 batches without repeats


@right("11.4")
def with_divmod(prompts, batch_size):
    number = {}
    for prompt in prompts:
        number.setdefault(prompt, len(number))
    batches = [[] for _ in range(-(-len(number) // batch_size))]
    for prompt, i in number.items():
        batches[i // batch_size].append(prompt)
    return batches, [divmod(number[prompt], batch_size) for prompt in prompts]


@right("11.4")
def as_numpy_arrays(prompts, batch_size):
    batches, seats = with_divmod(prompts, batch_size)
    return [np.array(batch) for batch in batches], np.array(seats).reshape(-1, 2)


@right("11.4")
def as_tuples(prompts, batch_size):
    batches, seats = with_divmod(prompts, batch_size)
    return tuple(map(tuple, batches)), tuple(map(list, seats))


@right("11.4")
def seats_from_mlx(prompts, batch_size):
    batches, seats = with_divmod(prompts, batch_size)
    return [batches, mx.array(seats, dtype=mx.int32).reshape(-1, 2) if seats else []]


@right("11.4")
def with_index(prompts, batch_size):
    different = sorted(set(prompts), key=prompts.index)
    batches = [different[i : i + batch_size] for i in range(0, len(different), batch_size)]
    place = [different.index(prompt) for prompt in prompts]
    return batches, [(np.int64(i // batch_size), np.int64(i % batch_size)) for i in place]


@wrong("11.4")
def a_set_of_prompts(prompts, batch_size):
    different = list(set(prompts))
    batches = [different[i : i + batch_size] for i in range(0, len(different), batch_size)]
    return batches, [divmod(different.index(prompt), batch_size) for prompt in prompts]


@wrong("11.4", like="rows_without_batches")
def numbers(prompts, batch_size):
    different = list(dict.fromkeys(prompts))
    batches = [different[i : i + batch_size] for i in range(0, len(different), batch_size)]
    return batches, [different.index(prompt) for prompt in prompts]


@wrong("11.4", like="rows_before_batches")
def rows_first(prompts, batch_size):
    batches, seats = with_divmod(prompts, batch_size)
    return batches, [seat[::-1] for seat in seats]


@wrong("11.4", like="sorted_order")
def unique_of_numpy(prompts, batch_size):
    different = np.unique(prompts).tolist()
    batches = [different[i : i + batch_size] for i in range(0, len(different), batch_size)]
    return batches, [divmod(different.index(prompt), batch_size) for prompt in prompts]


@wrong("11.4", like="only_the_first_asker")
def a_seat_for_each_prompt(prompts, batch_size):
    batches, seats = with_divmod(list(dict.fromkeys(prompts)), batch_size)
    return batches, seats


@wrong("11.4")
def dealt_like_cards(prompts, batch_size):
    different = list(dict.fromkeys(prompts))
    count = -(-len(different) // batch_size)
    batches = [different[i::count] for i in range(count)]
    return batches, [(different.index(p) % count, different.index(p) // count) for p in prompts]


@wrong("11.4")
def last_batch_filled_up(prompts, batch_size):
    batches, seats = with_divmod(prompts, batch_size)
    return [[*b, *[None] * (batch_size - len(b))] for b in batches], seats


@wrong("11.4")
def one_batch(prompts, batch_size):
    different = list(dict.fromkeys(prompts))
    return [different], [(0, different.index(prompt)) for prompt in prompts]


@wrong("11.4")
def counted_from_one(prompts, batch_size):
    batches, seats = with_divmod(prompts, batch_size)
    return batches, [(batch + 1, row + 1) for batch, row in seats]


@wrong("11.4")
def seats_by_prompt(prompts, batch_size):
    batches, seats = with_divmod(prompts, batch_size)
    return batches, dict(zip(prompts, seats, strict=True))


@wrong("11.4")
def an_empty_batch_for_nobody(prompts, batch_size):
    batches, seats = with_divmod(prompts, batch_size)
    return batches or [[]], seats


@wrong("11.4")
def consumes_the_queue(prompts, batch_size):
    answer = with_divmod(list(prompts), batch_size)
    while prompts:
        prompts.pop(0)
    return answer

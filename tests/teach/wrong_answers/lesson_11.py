"""Answers to the exercises of lesson 11, as students write them: right ones and wrong ones."""

import asyncio
from collections import OrderedDict, deque

from lablib.course.lessons.lesson_11.callers import together

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 11.2 longest match


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


@right("11.2")
def over_all_paths(tree, prompt):
    return max((shared(path, prompt) for path in paths(tree)), default=0)


@right("11.2")
def as_an_array(tree, prompt):
    return np.array(over_all_paths(tree, prompt))


@right("11.2")
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


@right("11.2")
def prefix_by_prefix(tree, prompt):
    held = {path[:size] for path in paths(tree) for size in range(len(path) + 1)} | {()}
    return max(size for size in range(len(prompt) + 1) if prompt[:size] in held)


@wrong("11.2", like="in_joined_digits")
def digits(tree, prompt):
    best, text = 0, "".join(map(str, prompt))
    for path in paths(tree):
        for size in range(1, len(path) + 1):
            if text.startswith("".join(map(str, path[:size]))):
                best = max(best, size)
    return best


@wrong("11.2", like="goes_on_below_a_broken_edge")
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


@wrong("11.2", like="whole_edges_only")
def ends_of_edges(tree, prompt):
    return max((len(path) for path in paths(tree) if prompt[: len(path)] == path), default=0)


@wrong("11.2", like="first_edge_only")
def top_level(tree, prompt):
    return max((shared(edge, prompt) for edge in tree), default=0)


@wrong("11.2")
def tokens_in_any_order(tree, prompt):
    return max((len(set(path) & set(prompt)) for path in paths(tree)), default=0)


@wrong("11.2", like="counts_later_agreements")
def agreements(tree, prompt):
    for edge, below in tree.items():
        if prompt and edge[0] == prompt[0]:
            same = sum(a == b for a, b in zip(edge, prompt, strict=False))
            more = agreements(below, prompt[same:]) if same == len(edge) else 0
            return same + more
    return 0


@wrong("11.2")
def compares_identity(tree, prompt):
    def same(edge):
        found = [a is b for a, b in zip(edge, prompt, strict=False)]
        return [*found, False].index(False)

    return max(map(same, paths(tree)), default=0)


@wrong("11.2")
def begins_anywhere(tree, prompt):
    below = [begins_anywhere(subtree, prompt) for subtree in tree.values()]
    return max([over_all_paths(tree, prompt), *below])


@wrong("11.2")
def begins_inside_an_edge(tree, prompt):
    ends = [path[i:] for path in paths(tree) for i in range(len(path))]
    return max((shared(end, prompt) for end in ends), default=0)


@wrong("11.2")
def different_tokens_only(tree, prompt):
    return len({*prompt[: over_all_paths(tree, prompt)]})


@wrong("11.2")
def anywhere_in_the_path(tree, prompt):
    return max(
        (sum(a == b for a, b in zip(p, prompt, strict=False)) for p in paths(tree)), default=0
    )


@wrong("11.2")
def first_fitting_path(tree, prompt):
    for path in paths(tree):
        if path[:1] == prompt[:1]:
            return shared(path, prompt)
    return 0


@wrong("11.2")
def what_is_missing(tree, prompt):
    return len(prompt) - over_all_paths(tree, prompt)


@wrong("11.2")
def known_or_not(tree, prompt):
    return len(prompt) if over_all_paths(tree, prompt) == len(prompt) else 0


@wrong("11.2")
def fails_without_a_prompt(tree, prompt):
    first = prompt[0]
    return over_all_paths(tree, prompt) if any(edge[0] == first for edge in tree) else 0


@wrong("11.2")
def fails_without_a_tree(tree, prompt):
    return max(shared(path, prompt) for path in paths(tree))


@wrong("11.2")
def one_token_more(tree, prompt):
    return min(len(prompt), over_all_paths(tree, prompt) + 1)


@wrong("11.2")
def eats_the_tree(tree, prompt):
    answer = over_all_paths(tree, prompt)
    tree.clear()
    return answer


# ------------------------------------------------------------------ 11.4 insert with a split


def rebuilt(ends):
    """Build the tree of these prompts, with a node where one ends or two part."""
    tree, firsts = {}, dict.fromkeys(end[0] for end in ends if end)
    for first in firsts:
        own = [end for end in ends if end and end[0] == first]
        size = min(shared(own[0], other) for other in own)
        tree[own[0][:size]] = rebuilt([end[size:] for end in own])
    return tree


@right("11.4")
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


@right("11.4")
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


@right("11.4")
def in_an_ordered_dict(tree, prompt):
    return OrderedDict(sorted(recursively(tree, prompt).items()))


@right("11.4")
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


@wrong("11.4", like="adds_at_the_top")
def one_more_edge(tree, prompt):
    return tree | {prompt: {}} if prompt else tree


@wrong("11.4", like="new_edge_below_the_parting")
def second_edge(tree, prompt):
    for edge in tree:
        same = shared(edge, prompt)
        if same and same in (len(edge), len(prompt)):
            return {**tree, edge: second_edge(tree[edge], prompt[same:])}
    return {**tree, **({prompt: {}} if prompt else {})}


@wrong("11.4", like="empty_lower_edge")
def always_cuts(tree, prompt):
    if not prompt:
        return tree
    for edge in tree:
        if edge[0] == prompt[0]:
            same = shared(edge, prompt)
            others = {k: v for k, v in tree.items() if k != edge}
            return others | {edge[:same]: always_cuts({edge[same:]: tree[edge]}, prompt[same:])}
    return {**tree, prompt: {}}


@wrong("11.4", like="new_end_forgotten")
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


@wrong("11.4", like="old_subtree_below_the_upper")
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


@wrong("11.4")
def a_node_for_each_token(tree, prompt):
    if not prompt:
        return tree
    return {**tree, prompt[:1]: a_node_for_each_token(tree.get(prompt[:1], {}), prompt[1:])}


@wrong("11.4")
def nodes_with_one_way_are_merged(tree, prompt):
    leaves = [p for p in paths(tree) if not any(o[: len(p)] == p != o for o in paths(tree))]
    return rebuilt([*leaves, prompt])


@wrong("11.4")
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


@wrong("11.4")
def empty_edge_for_an_empty_prompt(tree, prompt):
    return recursively(tree, prompt) if prompt else {**tree, (): {}}


@wrong("11.4")
def edges_as_text(tree, prompt):
    def text(node):
        return {"".join(map(str, edge)): text(below) for edge, below in node.items()}

    return text(recursively(tree, prompt))


@wrong("11.4")
def the_subtree_in_place_of_the_tree(tree, prompt):
    for edge, below in tree.items():
        if prompt[: len(edge)] == edge:
            return recursively(below, prompt[len(edge) :])
    return recursively(tree, prompt)


@wrong("11.4", like="loses_the_old_end")
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


# ------------------------------------------------------------------ 11.1 a queue


def queue(serve):
    """Return an answer to 11.1 with its own ``ask(prompt, run, state)``."""

    def ask_together(callers):
        batches, state = [], {}

        def run(prompts):
            batches.append(sorted(prompts))
            return {prompt: prompt.upper() for prompt in prompts}

        async def caller(prompts):
            return [await serve(prompt, run, state) for prompt in prompts]

        return batches, together(map(caller, callers))

    ask_together.__name__ = serve.__name__
    return ask_together


def queued(how, **options):
    """Note ``ask(prompt, run, state)`` as a right or a wrong answer to 11.1."""
    return lambda serve: how("11.1", **options)(queue(serve))


@queued(right)
async def by_the_loop(prompt, run, state):
    loop = asyncio.get_running_loop()

    def flush():
        batch = dict(state)
        state.clear()
        for each, answer in run(batch).items():
            batch[each].set_result(answer)

    if not state:
        loop.call_soon(flush)
    return await state.setdefault(prompt, loop.create_future())


@queued(right)
async def with_an_event(prompt, run, state):
    first = not state
    if first:
        state["batch"] = asyncio.Event(), {prompt}, {}
    event, prompts, answers = state["batch"]
    prompts.add(prompt)
    if first:
        await asyncio.sleep(0)
        state.clear()
        answers.update(run(prompts))
        event.set()
    await event.wait()
    return answers[prompt]


@queued(right)
async def looks_again_and_again(prompt, run, state):
    if first := not state:
        state["batch"] = {}
    answers = state["batch"]
    answers.setdefault(prompt)
    await asyncio.sleep(0)
    if first:
        state.clear()
        answers.update(run(list(answers)))
    while answers[prompt] is None:
        await asyncio.sleep(0)
    return answers[prompt]


@queued(right)
async def waits_a_little(prompt, run, state):
    future = state.get(prompt)
    if future is None:
        alone = not state
        future = state[prompt] = asyncio.get_running_loop().create_future()
        if alone:
            await asyncio.sleep(0.001)
            batch = {each: state.pop(each) for each in list(state)}
            answers = run(list(batch))
            for each in batch:
                batch[each].set_result(answers[each])
    return await future


@queued(right)
async def a_list_for_each_prompt(prompt, run, state):
    first = not state
    future = asyncio.get_running_loop().create_future()
    state.setdefault(prompt, []).append(future)
    if first:
        await asyncio.sleep(0)
        groups = dict(state)
        state.clear()
        answers = run(tuple(groups))
        for each, futures in groups.items():
            for waiting in futures:
                waiting.set_result(answers[each])
    return await future


@queued(wrong, like="makes_no_way")
async def at_once(prompt, run, state):
    return run([prompt])[prompt]


@queued(wrong)
async def each_for_itself(prompt, run, state):
    await asyncio.sleep(0)
    return run([prompt])[prompt]


@queued(wrong, like="keeps_answers")
async def remembers(prompt, run, state):
    known, waiting = state.setdefault("known", {}), state.setdefault("waiting", {})
    if prompt in known:
        return known[prompt]
    first = not waiting
    future = waiting.setdefault(prompt, asyncio.get_running_loop().create_future())
    if first:
        await asyncio.sleep(0)
        batch = dict(waiting)
        waiting.clear()
        known.update(run(batch))
        for each in batch:
            batch[each].set_result(known[each])
    return await future


@queued(wrong)
async def clears_before_it_waits(prompt, run, state):
    first = not state
    future = state.setdefault(prompt, asyncio.get_running_loop().create_future())
    if first:
        batch = dict(state)
        state.clear()
        await asyncio.sleep(0)
        for each, answer in run(batch).items():
            batch[each].set_result(answer)
    return await future


@queued(wrong)
async def clears_when_others_have_asked(prompt, run, state):
    first = not state
    future = state.setdefault(prompt, asyncio.get_running_loop().create_future())
    if first:
        await asyncio.sleep(0)
        for each, answer in run(state).items():
            state[each].set_result(answer)
        await asyncio.sleep(0)
        state.clear()
    return await future


@queued(wrong)
async def the_batch_for_an_answer(prompt, run, state):
    first = not state
    future = state.setdefault(prompt, asyncio.get_running_loop().create_future())
    if first:
        await asyncio.sleep(0)
        batch = dict(state)
        state.clear()
        answers = run(batch)
        for each in batch.values():
            each.set_result(answers)
    return await future


@queued(wrong)
async def the_future_for_an_answer(prompt, run, state):
    first = not state
    future = state.setdefault(prompt, asyncio.get_running_loop().create_future())
    if first:
        await asyncio.sleep(0)
        batch = dict(state)
        state.clear()
        for each, answer in run(batch).items():
            batch[each].set_result(answer)
    return future


@queued(wrong)
async def answers_all_alike(prompt, run, state):
    first = not state
    future = state.setdefault("one", asyncio.get_running_loop().create_future())
    state.setdefault("prompts", set()).add(prompt)
    if first:
        await asyncio.sleep(0)
        prompts = state["prompts"]
        state.clear()
        future.set_result(run(prompts)[prompt])
    return await future


@queued(wrong)
async def two_at_a_time(prompt, run, state):
    first = not state
    future = state.setdefault(prompt, asyncio.get_running_loop().create_future())
    if first:
        await asyncio.sleep(0)
    if first or len(state) == 2:
        batch = dict(state)
        state.clear()
        for each, answer in run(batch).items() if batch else ():
            batch[each].set_result(answer)
    return await future


@queued(wrong)
async def one_batch_for_all_time(prompt, run, state):
    known = state.setdefault("known", {})
    await asyncio.sleep(0)
    if prompt not in known:
        known.update(run([prompt]))
    return known[prompt]


@queued(wrong)
async def does_not_await_the_pause(prompt, run, state):
    first = not state
    future = state.setdefault(prompt, asyncio.get_running_loop().create_future())
    if first:
        asyncio.sleep(0).close()
        batch = dict(state)
        state.clear()
        for each, answer in run(batch).items():
            batch[each].set_result(answer)
    return await future


@queued(wrong)
async def pauses_for_ever(prompt, run, state):
    future = state.setdefault(prompt, asyncio.get_running_loop().create_future())
    return await future


ANSWERS.changed("11.1", "no_answer", "return await future", "await future")
ANSWERS.changed("11.1", "answers_the_prompt", "set_result(answer)", "set_result(each)")
ANSWERS.changed("11.1", "runs_its_own_only", "run([*batch])", "run([prompt])")
ANSWERS.changed(
    "11.1",
    "equal_answers_stand_once",
    "        first = not waiting\n",
    "        first, prompt = not waiting, prompt.lower()\n",
)

ANSWERS.changed(
    "11.4", "not_at_its_end", "if not prompt:", "if any(prompt == e[: len(prompt)] for e in tree):"
)
ANSWERS.changed("11.3", "a_read_is_enough", 'kind == "read" and', 'kind == "write" and')
ANSWERS.changed("11.3", "two_uses_keep_two", "if name in cached:", "if False:")
ANSWERS.changed("11.3", "most_used_last", "cached.append(name)", "cached.insert(0, name)")
ANSWERS.changed("11.3", "in_the_alphabet", "return cached", "return sorted(cached)")
ANSWERS.changed("11.3", "before_the_last", "cached.append(name)", "cached.insert(-1, name)")


@queued(wrong)
async def each_new_prompt_leads(prompt, run, state):
    new = prompt not in state
    future = state.setdefault(prompt, asyncio.get_running_loop().create_future())
    if new:
        await asyncio.sleep(0)
    if new and state:  # perhaps another one has served it, and these are the next ones
        batch = dict(state)
        state.clear()
        for each, answer in run(batch).items():
            batch[each].set_result(answer)
    return await future


@wrong("11.2")
def begins_later_in_the_prompt(tree, prompt):
    return max((over_all_paths(tree, prompt[i:]) for i in range(len(prompt))), default=0)


@wrong("11.2")
def no_token_is_zero(tree, prompt):
    return over_all_paths(tree, (*prompt, 0)[: (*prompt, 0).index(0)])


@wrong("11.4")
def longer_leaves(tree, prompt):
    for edge, below in tree.items():
        if not below and edge == prompt[: len(edge)]:
            return {each: s for each, s in tree.items() if each != edge} | {prompt: {}}
    return recursively(tree, prompt)


@wrong("11.2")
def same_tokens_in_any_order(tree, prompt):
    for edge, below in tree.items():
        if edge[0] in prompt[:1]:
            if sorted(edge) == sorted(prompt[: len(edge)]):
                return len(edge) + same_tokens_in_any_order(below, prompt[len(edge) :])
            return shared(edge, prompt)
    return 0


@wrong("11.4", like="siblings_lost")
def only_the_way_it_went(tree, prompt):
    for edge, below in tree.items():
        if same := shared(edge, prompt):
            below = {edge[same:]: below} if same < len(edge) else below
            return {edge[:same]: only_the_way_it_went(below, prompt[same:])}
    return tree | {prompt: {}} if prompt else tree


ANSWERS.changed("11.4", "siblings_lost_at_the_top", "**others, upper", "upper")


@wrong("11.4")
def a_new_end_of_single_tokens(tree, prompt):
    def chain(rest):
        return {rest[:1]: chain(rest[1:])} if rest else {}

    for edge, below in tree.items():
        if same := shared(edge, prompt):
            others = {k: v for k, v in tree.items() if k != edge}
            if same < len(edge):
                return others | {edge[:same]: {edge[same:]: below} | chain(prompt[same:])}
            return others | {edge: a_new_end_of_single_tokens(below, prompt[same:])}
    return tree | {prompt: {}} if prompt else tree


ANSWERS.changed("11.2", "the_last_edge", "for edge in tree:", "for edge in [*tree][-1:]:")
ANSWERS.changed("11.3", "two_at_least", "-capacity", "-max(capacity, 2)")
ANSWERS.changed(
    "11.4", "counts_later_agreements", "size = 0", "size = sum(map(int.__eq__, edge, prompt))"
)
ANSWERS.changed("11.1", "the_promise_itself", "return await future", "return future")


@wrong("11.3")
def a_list_of_all_calls(events, capacity, cached=[]):  # noqa: B006
    for kind, name in events:
        if name in cached:
            cached.remove(name)
        elif kind == "read":
            continue
        cached.append(name)
        del cached[:-capacity]
    return cached


ANSWERS.changed("11.4", "the_same_object", "edge[0] == prompt[0]", "edge[0] is prompt[0]")
ANSWERS.changed(
    "11.1", "the_same_prompt_object", "if prompt not in waiting:",
    "if not any(prompt is each for each in waiting):",
)  # fmt: skip
ANSWERS.changed(
    "11.1", "short_prompts_first", "run([*batch]).items()",
    "zip(sorted(batch, key=len), run([*batch]).values())",
)  # fmt: skip


@wrong("11.2")
def joined_with_commas(tree, prompt):
    text = ",".join(map(str, prompt))
    for edge, below in tree.items():
        if text.startswith(",".join(map(str, edge))):
            return len(edge) + joined_with_commas(below, prompt[len(edge) :])
        if same := shared(edge, prompt):
            return same
    return 0


@wrong("11.3", like="evicts_at_the_end")
def a_read_brings_it_back(events, capacity):
    written, cached = set(), []
    for kind, name in events:
        if kind == "write" or name in written:
            written.add(name)
            cached = [*(other for other in cached if other != name), name][-capacity:]
    return cached


ANSWERS.changed(
    "11.1",
    "looks_before_it_makes_way",
    """await asyncio.sleep(0)
            batch = dict(waiting)""",
    """batch = dict(waiting)
            await asyncio.sleep(0)""",
    like="only_the_first_hears",
)


@wrong("11.4")
def cut_where_the_joined_text_ends(tree, prompt):
    text = ",".join(map(str, prompt))
    for edge, below in tree.items():
        others = {key: value for key, value in tree.items() if key != edge}
        if text.startswith(",".join(map(str, edge))):
            return others | {edge: cut_where_the_joined_text_ends(below, prompt[len(edge) :])}
        if same := shared(edge, prompt):
            ends = {edge[same:]: below, prompt[same:]: {}}
            return others | {edge[:same]: {end: ends[end] for end in ends if end}}
    return tree | {prompt: {}} if prompt else tree


@wrong("11.2")
def tokens_left_out_on_the_way(tree, prompt):
    for edge, below in tree.items():
        same = shared(edge, prompt)
        if 0 < same < len(edge):
            return same
        if same:
            rests = [prompt[size:] for size in range(same, len(prompt) + 1)]
            return same + max(tokens_left_out_on_the_way(below, rest) for rest in rests)
    return 0


@wrong("11.2")
def begins_again_below(tree, prompt):
    for edge, below in tree.items():
        same = shared(edge, prompt)
        if 0 < same < len(edge):
            return same
        if same:
            further = same + begins_again_below(below, prompt[same:])
            return max(further, begins_again_below(below, prompt))
    return 0

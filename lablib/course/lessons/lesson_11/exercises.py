"""Exercises of lesson 11: a tree of prefixes, what it forgets, and who runs with whom."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np

Prompt = tuple[int, ...]
Tree = dict[Prompt, Any]
WORDS = 3  # so few tokens that random prompts share prefixes


def _tree(rng: np.random.Generator, depth: int = 3) -> Tree:
    """Return a random tree: below each node, at most one edge for each first token."""
    firsts = rng.permutation(WORDS)[: rng.integers(1, WORDS + 1)].tolist()
    rests = [rng.integers(0, WORDS, size=rng.integers(0, 4)).tolist() for _ in firsts]
    edges = [(first, *rest) for first, rest in zip(firsts, rests, strict=True)]
    return {edge: _tree(rng, depth - 1) if depth and rng.random() < 0.7 else {} for edge in edges}


def _prompt(rng: np.random.Generator, tree: Tree) -> Prompt:
    """Return a prompt that follows the tree for a while, then perhaps goes its own way."""
    prompt: Prompt = ()
    while tree and rng.random() < 0.85:
        edge = list(tree)[int(rng.integers(len(tree)))]
        prompt, tree = prompt + edge, tree[edge]
    kept = prompt[: int(rng.integers(0, len(prompt) + 1))] if rng.random() < 0.6 else prompt
    return (*kept, *rng.integers(0, WORDS, size=rng.integers(0 if kept else 1, 4)).tolist())


def _shared(edge: Prompt, prompt: Prompt) -> int:
    """Return how many leading tokens two runs share."""
    pairs = zip(edge, prompt, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(edge), len(prompt)))


def _edge(tree: Tree, prompt: Prompt) -> Prompt | None:
    """Return the edge that begins as the prompt does."""
    return next((edge for edge in tree if edge[:1] == prompt[:1]), None)


# ------------------------------------------------------------------ 11.1 longest match


def longest_match(tree, prompt):
    """Return how many leading tokens of prompt the tree holds.

    tree: {edge: subtree}; an edge is a tuple of tokens, a subtree is a tree again, {} at a leaf.
    prompt: a tuple of tokens, perhaps empty. The match may end inside an edge.
    """
    matched = 0
    while True:
        for edge in tree:
            if matched < len(prompt) and edge[0] == prompt[matched]:
                break
        else:
            return matched
        for token in edge:
            if matched == len(prompt) or token != prompt[matched]:
                return matched
            matched += 1
        tree = tree[edge]


def by_recursion(tree, prompt):
    best = 0
    for edge, below in tree.items():
        shared = _shared(edge, prompt)
        more = by_recursion(below, prompt[shared:]) if shared == len(edge) else 0
        best = max(best, shared + more)
    return best


def whole_edges_only(tree, prompt):
    matched = 0
    while True:
        for edge in tree:
            if prompt[matched : matched + len(edge)] == edge:
                matched += len(edge)
                tree = tree[edge]
                break
        else:
            return matched


def first_edge_only(tree, prompt):
    return max((_shared(edge, prompt) for edge in tree), default=0)


def trusts_the_first_token(tree, prompt):
    matched = 0
    while True:
        for edge in tree:
            if matched < len(prompt) and edge[0] == prompt[matched]:
                matched += len(edge)
                tree = tree[edge]
                break
        else:
            return min(matched, len(prompt))


def counts_edges(tree, prompt):
    edges = 0
    while True:
        for edge in tree:
            if prompt[: len(edge)] == edge:
                prompt, tree = prompt[len(edge) :], tree[edge]
                edges += 1
                break
        else:
            return edges


def goes_on_below_a_broken_edge(tree, prompt):
    edge = _edge(tree, prompt) if prompt else None
    if edge is None:
        return 0
    size = _shared(edge, prompt)
    return size + goes_on_below_a_broken_edge(tree[edge], prompt[size:])


def in_joined_digits(tree, prompt):
    prompt, best = "".join(map(str, prompt)), 0
    waiting = [("", 0, tree)]
    while waiting:
        above, size, node = waiting.pop()
        for edge, below in node.items():
            run = "".join(map(str, edge))
            if prompt.startswith(above + run):
                waiting.append((above + run, size + len(edge), below))
            shares = [n for n in range(len(edge) + 1) if _starts(prompt, above, edge[:n])]
            best = max(best, size + max(shares))
    return best


def _starts(prompt, above, edge):
    return prompt.startswith(above + "".join(map(str, edge)))


def _matches(rng: np.random.Generator) -> Iterator[tuple[Tree, Prompt]]:
    yield {(1, 2): {}}, (1, 2)
    yield {(1, 2, 3): {}}, (1, 2, 4)
    yield {(1,): {(2, 3): {}}}, (1, 2, 3)
    yield {(1,): {(2, 3): {}, (4,): {}}}, (1, 4, 2)
    yield {(1, 2, 3): {}}, (1, 2)
    yield {(1, 2, 3): {(5,): {}}}, (1, 2, 5)  # the child hangs below the 3
    yield {(12, 3): {}}, (1, 23)  # ids are no digits
    yield {(11,): {(2, 34): {}}}, (11, 23, 4)
    for _ in range(14):
        tree = _tree(rng)
        yield tree, _prompt(rng, tree)


def _empty_matches(rng: np.random.Generator) -> Iterator[tuple[Tree, Prompt]]:
    yield {}, ()
    yield {(1, 2): {}}, ()
    yield {}, (1,)
    yield {(7,): {}}, (7,)
    yield {tuple(range(100, 400)): {(5,) * 80: {}}}, (*range(100, 400), *[5] * 60, 4)


LONGEST_MATCH = Exercise(
    id="11.1",
    title="The longest known prefix",
    task=(
        "Here a tree is a plain dictionary, from edges to subtrees. Walk down it and count how "
        "many leading tokens of the prompt it holds. Two edges of one node never begin with the "
        "same token."
    ),
    stars=1,
    minutes=10,
    reference=longest_match,
    alternatives=[by_recursion],
    wrong={
        whole_edges_only: (
            "you count only edges that match to their end. A match may end *inside* an edge: those "
            "tokens have keys and values too, and would be computed twice."
        ),
        first_edge_only: "you stop after one edge: when it matches to its end, go on below it.",
        trusts_the_first_token: (
            "an edge that *begins* with the right token need not go on with the right ones. You "
            "would reuse keys and values of other tokens: wrong answers, and no error."
        ),
        counts_edges: "you count edges; the question is how many tokens are known.",
        goes_on_below_a_broken_edge: (
            "you go on below an edge although the prompt left it in the middle. What hangs there "
            "comes after the *whole* edge."
        ),
        in_joined_digits: (
            "you compare joined digits, where 12, 3 and 1, 23 look the same: compare token by "
            "token."
        ),
    },
    cases=_matches,
    checker=edges(_empty_matches),
    hints=[
        "At each node look for the edge whose first token is the next one of the prompt.",
        "Then compare token by token, not beyond the prompt's end; go down only if the whole edge "
        "agreed.",
    ],
    next="What would change if the tree also said for which prompts the answer itself is known?",
)

# ------------------------------------------------------------------ 11.2 insert with a split


def insert(tree, prompt):
    """Return the tree with the prompt stored too; split an edge where they part.

    tree: {edge: subtree}, as before, perhaps {}.   prompt: a tuple of tokens, perhaps empty.
    Two edges of one node must never begin with the same token, and no edge may be empty. The tree
    that was given stays as it is.
    """
    if not prompt:
        return tree
    for edge in tree:
        if edge[0] == prompt[0]:
            break
    else:
        return {**tree, prompt: {}}
    size = 0
    while size < min(len(edge), len(prompt)) and edge[size] == prompt[size]:
        size += 1
    upper, lower = edge[:size], edge[size:]
    others = {key: value for key, value in tree.items() if key != edge}
    below = {lower: tree[edge]} if lower else tree[edge]
    return {**others, upper: insert(below, prompt[size:])}


def insert_in_place(tree, prompt):
    root = node = dict(tree)
    while prompt:
        edge = _edge(node, prompt)
        if edge is None:
            node[prompt] = {}
            break
        size = _shared(edge, prompt)
        below = dict(node.pop(edge))
        if size < len(edge):
            below = {edge[size:]: below}
        node[edge[:size]] = below
        node, prompt = below, prompt[size:]
    return root


def never_splits(tree, prompt):
    for edge, below in tree.items():
        if prompt[: len(edge)] == edge:
            rest = prompt[len(edge) :]
            return {**tree, edge: never_splits(below, rest)} if rest else tree
    return {**tree, prompt: {}}


def _split_at(tree, prompt, choose, keep=True):
    """Insert, with another idea of where to split, or of what stays below."""
    if not prompt:
        return tree
    edge = _edge(tree, prompt)
    if edge is None:
        return {**tree, prompt: {}}
    below = tree[edge]
    others = {key: value for key, value in tree.items() if key != edge}
    cut = choose(_shared(edge, prompt), len(edge))
    if cut < len(edge):
        below = {edge[cut:]: below if keep else {}}
    return {**others, edge[:cut]: _split_at(below, prompt[cut:], choose, keep)}


def adds_at_the_top(tree, prompt):
    return {**tree, prompt: {}} if prompt else tree


def new_edge_below_the_parting(tree, prompt):
    for edge, below in tree.items():
        size = _shared(edge, prompt)
        if size == len(edge) or size == len(prompt):
            return {**tree, edge: new_edge_below_the_parting(below, prompt[size:])}
    return {**tree, prompt: {}} if prompt else tree


def empty_lower_edge(tree, prompt):
    edge = next((edge for edge in tree if prompt and edge[0] == prompt[0]), None)
    if edge is None:
        return {**tree, prompt: {}} if prompt else tree
    size = _shared(edge, prompt)
    others = {key: value for key, value in tree.items() if key != edge}
    return {**others, edge[:size]: empty_lower_edge({edge[size:]: tree[edge]}, prompt[size:])}


def new_end_forgotten(tree, prompt):
    edge = _edge(tree, prompt) if prompt else None
    if edge is None:
        return {**tree, prompt: {}} if prompt else tree
    size = _shared(edge, prompt)
    if size == len(edge):
        return {**tree, edge: new_end_forgotten(tree[edge], prompt[size:])}
    others = {key: value for key, value in tree.items() if key != edge}
    return {**others, edge[:size]: {edge[size:]: tree[edge]}}


def old_subtree_below_the_upper(tree, prompt):
    edge = _edge(tree, prompt) if prompt else None
    if edge is None:
        return {**tree, prompt: {}} if prompt else tree
    size = _shared(edge, prompt)
    if size == len(edge):
        return {**tree, edge: old_subtree_below_the_upper(tree[edge], prompt[size:])}
    others = {key: value for key, value in tree.items() if key != edge}
    ends = {edge[size:]: {}, **({prompt[size:]: {}} if prompt[size:] else {})}
    return {**others, edge[:size]: {**tree[edge], **ends}}


def splits_after_one(tree, prompt):
    return _split_at(tree, prompt, lambda size, length: 1)


def one_too_far(tree, prompt):
    return _split_at(tree, prompt, lambda size, length: min(size + 1, length))


def loses_what_was_below(tree, prompt):
    return _split_at(tree, prompt, lambda size, length: size, keep=False)


def loses_the_old_end(tree, prompt):
    if not prompt:
        return tree
    edge = _edge(tree, prompt)
    if edge is None:
        return {**tree, prompt: {}}
    others = {key: value for key, value in tree.items() if key != edge}
    size = _shared(edge, prompt)
    if size == len(edge):
        return {**others, edge: loses_the_old_end(tree[edge], prompt[size:])}
    return {**others, edge[:size]: {prompt[size:]: {}} if prompt[size:] else {}}


def empty_edge(tree, prompt):
    edge = _edge(tree, prompt) if prompt else None
    if edge is None:
        return {**tree, prompt: {}}
    size = _shared(edge, prompt)
    below = {edge[size:]: tree[edge]} if size < len(edge) else tree[edge]
    others = {key: value for key, value in tree.items() if key != edge}
    return {**others, edge[:size]: empty_edge(below, prompt[size:])}


def _inserts(rng: np.random.Generator) -> Iterator[tuple[Tree, Prompt]]:
    yield {}, (1, 2)
    yield {(1, 2, 3): {}}, (1, 2, 4)
    yield {(1, 2): {(3,): {}, (4,): {}}}, (1, 5)
    yield {(1, 2, 3): {}}, (1, 2)
    yield {(1, 2): {}}, (1, 2)
    yield {(1,): {(2, 3): {}}}, (1, 2, 4)
    for _ in range(14):
        tree = _tree(rng)
        yield tree, _prompt(rng, tree)


def _empty_inserts(rng: np.random.Generator) -> Iterator[tuple[Tree, Prompt]]:
    yield {}, ()
    yield {(1, 2): {}}, ()
    yield {}, (1,)
    yield {(12, 3): {}}, (1, 23)  # ids are no digits
    yield {(1,) * 300: {(2,): {}, (3,): {}}}, ((1,) * 250 + (4,) * 60)


INSERT = Exercise(
    id="11.2",
    title="Split at the right token",
    task=(
        "Store a prompt in such a tree. Where it leaves an edge in the middle, the edge is cut in "
        "two: what both share, and below it the old end *with everything that hung there*, and "
        "the new end."
    ),
    stars=3,
    minutes=20,
    reference=insert,
    alternatives=[insert_in_place],
    wrong={
        never_splits: (
            "the new prompt became a second edge with the same first token: what they share is "
            "stored twice, and a search finds only one of the two."
        ),
        splits_after_one: "you split after the first token; go on as long as both agree.",
        one_too_far: (
            "you split one token too late: the first token in which they *differ* must not be "
            "shared."
        ),
        loses_what_was_below: (
            "the children of the edge that was cut are gone: they hang below its old end."
        ),
        loses_the_old_end: "the old end of the edge is gone: the new prompt took its place.",
        empty_edge: (
            "when a prompt ends where an edge ends, or where one is cut, nothing is left to "
            "insert: you add an empty edge ()."
        ),
        adds_at_the_top: (
            "the whole prompt became one edge of the root: nothing is shared, and a search finds "
            "only one of two edges that begin alike. Go down first, and split."
        ),
        new_edge_below_the_parting: (
            "where the prompt leaves an edge in the middle you add a second edge that begins with "
            "the same tokens. The old edge must be cut in two."
        ),
        empty_lower_edge: (
            "when the prompt goes on below a whole edge there is nothing to cut: you hang an empty "
            "edge () below it, and the subtree below that."
        ),
        new_end_forgotten: (
            "you cut the edge, but the new end of the prompt hangs nowhere: insert prompt[size:] "
            "below the upper half."
        ),
        old_subtree_below_the_upper: (
            "the children of the edge that was cut hang below its upper half now; they belong "
            "below its old end."
        ),
    },
    cases=_inserts,
    checker=edges(_empty_inserts),
    hints=[
        "Count how many tokens the edge and the prompt share, then make two edges of one.",
        "If the edge is cut: {upper: {lower: below}}; if it agreed to its end there is no lower. "
        "Then insert prompt[size:] into what is below upper, unless it is empty.",
    ],
    next="How many edges can one insertion add at most? And how many tokens does it copy?",
)

# ------------------------------------------------------------------ 11.3 least recently used


def survivors(events, capacity):
    """Return the names still cached at the end, the least recently used first.

    events: pairs ("write" | "read", name), in order, perhaps none. Writing a name stores
        it, or uses it if it is stored; reading uses a stored name, and changes nothing if it isn't.
    capacity: most names stored, at least 1; with one more the least recently used goes at once.
    """
    cached = []
    for kind, name in events:
        if kind == "read" and name not in cached:
            continue
        if name in cached:
            cached.remove(name)
        cached.append(name)
        del cached[:-capacity]
    return cached


def with_ordered_dict(events, capacity):
    cached = OrderedDict()
    for kind, name in events:
        if name in cached:
            cached.move_to_end(name)
        elif kind == "write":
            cached[name] = None
            if len(cached) > capacity:
                cached.popitem(last=False)
    return list(cached)


def forgets_reads(events, capacity):
    cached = []
    for kind, name in events:
        if kind == "write":
            cached = [*(other for other in cached if other != name), name][-capacity:]
    return cached


def first_in_first_out(events, capacity):
    cached = []
    for kind, name in events:
        if kind == "write" and name not in cached:
            cached = [*cached, name][-capacity:]
    return cached


def evicts_the_newest(events, capacity):
    cached = []
    for kind, name in events:
        if name in cached:
            cached.remove(name)
            cached.append(name)
        elif kind == "write":
            cached = [*cached[: capacity - 1], name]
    return cached


def a_miss_stores(events, capacity):
    cached = []
    for _, name in events:
        cached = [*(other for other in cached if other != name), name][-capacity:]
    return cached


def one_too_few(events, capacity):
    cached = []
    for kind, name in events:
        if kind == "read" and name not in cached:
            continue
        if name in cached:
            cached.remove(name)
        cached.append(name)
        if len(cached) >= capacity and capacity > 1:
            del cached[0]
    return cached


def a_rewrite_evicts(events, capacity):
    cached = []
    for kind, name in events:
        if kind == "write" and len(cached) == capacity:
            cached.pop(0)
        if kind == "read" and name not in cached:
            continue
        if name in cached:
            cached.remove(name)
        cached.append(name)
    return cached


def evicts_at_the_end(events, capacity):
    return survivors(events, len(events) + 1)[-capacity:]


def newest_first(events, capacity):
    return survivors(events, capacity)[::-1]


def least_frequently_used(events, capacity):
    uses, last = {}, {}
    for now, (kind, name) in enumerate(events):
        if kind == "read" and name not in uses:
            continue
        if name not in uses and len(uses) == capacity:
            gone = min(uses, key=lambda other: (uses[other], last[other]))
            del uses[gone], last[gone]
        uses[name], last[name] = uses.get(name, 0) + 1, now
    return sorted(last, key=last.get)


def _histories(rng: np.random.Generator) -> Iterator[tuple[list[tuple[str, str]], int]]:
    a, b, c = (("write", name) for name in "abc")
    yield [a, b], 2
    yield [a, b, ("read", "a"), c], 2
    yield [a, ("read", "b"), b], 2
    yield [a, b, a, c], 2
    yield [a, b, b], 2
    for capacity in (1, 2, 3, 3, 4):
        kinds = rng.choice(["write", "read"], size=14).tolist()
        names = rng.choice(list("abcdef"), size=14).tolist()
        yield list(zip(kinds, names, strict=True)), capacity
    # what has gone is gone: reading it later brings nothing back
    yield [a, b, c, ("read", "a")], 2
    yield [a, a, a, b, c], 2


def _extreme_histories(
    rng: np.random.Generator,
) -> Iterator[tuple[list[tuple[str, str]], int]]:
    yield [], 2
    yield [("read", "a")], 1
    yield [("write", "a"), ("write", "b"), ("read", "b"), ("read", "a")], 1
    kinds = rng.choice(["write", "read"], size=400).tolist()
    names = [f"p{i}" for i in rng.integers(0, 30, size=400)]
    yield list(zip(kinds, names, strict=True)), 12


SURVIVORS = Exercise(
    id="11.3",
    title="Who survives",
    task=(
        "A cache holds `capacity` names and forgets the least recently *used* one. Follow its "
        "history and say what is left. A read is a use as well: the shared prefix that everybody "
        "reads is written only once."
    ),
    stars=2,
    minutes=10,
    reference=survivors,
    alternatives=[with_ordered_dict],
    wrong={
        forgets_reads: (
            "only writes count as uses here. A prompt that everybody reads would be thrown away "
            "because nobody writes it again."
        ),
        first_in_first_out: "that is first in, first out: a use doesn't make a name younger.",
        evicts_the_newest: "the youngest name goes; it must be the one unused for longest.",
        a_miss_stores: "reading a name that isn't there stores it; it should change nothing.",
        one_too_few: "you keep fewer than `capacity` names: evict only when there are more.",
        a_rewrite_evicts: (
            "you make room before you look: writing a name that is stored already needs no room."
        ),
        evicts_at_the_end: (
            "you evict only at the end. A name that had to go earlier was not there to be read: "
            "keep at most `capacity` after each event."
        ),
        newest_first: "the least recently used comes *first* in the list.",
        least_frequently_used: (
            "you count uses. The one that goes was unused for longest, however often it was used "
            "before."
        ),
    },
    cases=_histories,
    checker=edges(_extreme_histories),
    hints=[
        "Keep the names in a list, the oldest first; a use moves a name to the end.",
        "Both kinds of event move a stored name; only a write may add one, and then evict.",
    ],
    next="In a tree a parent must not go before its children. Which order of uses ensures that?",
)

# ------------------------------------------------------------------ 11.4 batches without repeats


def make_batches(prompts, batch_size):
    """Group waiting prompts into batches; equal prompts run once, in one batch.

    prompts: a list of what each query asks for, in order of arrival, perhaps empty.
    Return (batches, seats): batches, lists of at most batch_size different prompts in order of
    first arrival, all full but perhaps the last; seats, for each query (batch number, row).
    """
    different = list(dict.fromkeys(prompts))
    batches = [different[i : i + batch_size] for i in range(0, len(different), batch_size)]
    seat = {p: (b, row) for b, batch in enumerate(batches) for row, p in enumerate(batch)}
    return batches, [seat[prompt] for prompt in prompts]


def one_by_one(prompts, batch_size):
    batches, seats, seen = [], [], {}
    for prompt in prompts:
        if prompt not in seen:
            if not batches or len(batches[-1]) == batch_size:
                batches.append([])
            batches[-1].append(prompt)
            seen[prompt] = (len(batches) - 1, len(batches[-1]) - 1)
        seats.append(seen[prompt])
    return batches, seats


def repeats_run_again(prompts, batch_size):
    batches = [list(prompts[i : i + batch_size]) for i in range(0, len(prompts), batch_size)]
    return batches, [divmod(i, batch_size) for i in range(len(prompts))]


def once_per_batch(prompts, batch_size):
    batches, seats = [], []
    for prompt in prompts:
        if not batches or (prompt not in batches[-1] and len(batches[-1]) == batch_size):
            batches.append([])
        if prompt not in batches[-1]:
            batches[-1].append(prompt)
        seats.append((len(batches) - 1, batches[-1].index(prompt)))
    return batches, seats


def only_the_first_asker(prompts, batch_size):
    different = list(dict.fromkeys(prompts))
    batches = [different[i : i + batch_size] for i in range(0, len(different), batch_size)]
    return batches, [(b, row) for b, batch in enumerate(batches) for row in range(len(batch))]


def sorted_order(prompts, batch_size):
    different = sorted(set(prompts))
    batches = [different[i : i + batch_size] for i in range(0, len(different), batch_size)]
    places = {p: divmod(i, batch_size) for i, p in enumerate(different)}
    return batches, [places[prompt] for prompt in prompts]


def half_empty(prompts, batch_size):
    groups = [prompts[i : i + batch_size] for i in range(0, len(prompts), batch_size)]
    batches, places = [], {}
    for group in groups:
        fresh = [p for p in dict.fromkeys(group) if p not in places]
        places |= {p: (len(batches), row) for row, p in enumerate(fresh)}
        batches += [fresh] if fresh else []
    return batches, [places[prompt] for prompt in prompts]


def numbers_without_rows(prompts, batch_size):
    different = list(dict.fromkeys(prompts))
    batches = [different[i : i + batch_size] for i in range(0, len(different), batch_size)]
    return batches, [divmod(i, batch_size) for i in range(len(prompts))]


def rows_without_batches(prompts, batch_size):
    batches, _ = make_batches(prompts, batch_size)
    different = [prompt for batch in batches for prompt in batch]
    return batches, [different.index(prompt) for prompt in prompts]


def rows_before_batches(prompts, batch_size):
    batches, seats = make_batches(prompts, batch_size)
    return batches, [(row, batch) for batch, row in seats]


def _queues(rng: np.random.Generator) -> Iterator[tuple[list[str], int]]:
    yield ["b", "a", "c"], 2
    yield ["a", "b", "a"], 2
    yield ["a", "a", "b", "c"], 2
    yield ["c", "a", "b", "c", "d"], 3
    yield ["a"], 4
    for batch_size in (1, 2, 3, 4, 5):
        yield rng.choice(list("abcdefg"), size=12).tolist(), batch_size
    yield [f"p{i}" for i in rng.integers(0, 60, size=150)], 12


def _extreme_queues(rng: np.random.Generator) -> Iterator[tuple[list[str], int]]:
    yield [], 3
    yield ["a"], 1
    yield ["a", "a", "a"], 2
    yield ["d", "c", "b", "a"], 4
    yield ["d", "c", "b", "a"], 2


MAKE_BATCHES = Exercise(
    id="11.4",
    title="Batches without repeats",
    task=(
        "Queries wait. Make batches of them such that no prompt runs twice, and say for each query "
        "where its answer will stand. Nobody may be forgotten: whoever asked gets a seat, also if "
        "somebody else asked for the same."
    ),
    stars=2,
    minutes=10,
    reference=make_batches,
    alternatives=[one_by_one],
    wrong={
        repeats_run_again: "equal prompts run once for each query; one row can serve them all.",
        once_per_batch: (
            "a prompt is run again if its first row stands in an earlier batch: look through all "
            "batches, not only the last."
        ),
        only_the_first_asker: (
            "there are fewer seats than queries: whoever asks for a prompt second would wait for "
            "ever."
        ),
        sorted_order: "first come, first served: you sort the prompts.",
        half_empty: (
            "you cut the queue first and drop repeats then, so batches aren't full: count "
            "*different* prompts."
        ),
        numbers_without_rows: (
            "the seats count queries; after a repeat all later ones point at a wrong row."
        ),
        rows_without_batches: (
            "a seat is a pair (batch number, row): say in which batch, and count rows from 0 in "
            "each."
        ),
        rows_before_batches: "the batch number comes first in a seat, then the row.",
    },
    cases=_queues,
    checker=edges(_extreme_queues),
    hints=[
        "list(dict.fromkeys(prompts)) keeps the first of each, in order.",
        "Cut that list into batches; a dictionary from prompt to (batch, row) seats every query.",
    ],
    next="A query is cancelled while it waits. When may its prompt leave the batch, and when not?",
)

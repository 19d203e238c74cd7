"""Exercises of lesson 11: who runs with whom, a tree of prefixes, and what it forgets."""

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges
from lablib.course.lessons.lesson_11.callers import together

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


# ------------------------------------------------------------------ 11.1 a queue


def ask_together(callers):
    """Return (batches, heard): what ran together, and what each caller heard.

    callers: for each a list of prompts; it asks for the next when it has heard the last.
    A batch leaves when all who can ask have asked. Equal prompts stand in it once. What was
    answered is forgotten: asked again later, it runs again.
    """
    batches, waiting = [], {}

    def run(prompts):  # the model, which answers a whole batch
        batches.append(sorted(prompts))
        return {prompt: prompt.upper() for prompt in prompts}

    async def ask(prompt):  # `waiting` is the same dictionary for all, empty at first
        first = not waiting
        if prompt not in waiting:
            waiting[prompt] = asyncio.get_running_loop().create_future()
        future = waiting[prompt]
        if first:  # it serves all who join
            await asyncio.sleep(0)
            batch = dict(waiting)
            waiting.clear()
            for each, answer in run([*batch]).items():
                batch[each].set_result(answer)
        return await future

    async def caller(prompts):
        return [await ask(prompt) for prompt in prompts]

    return batches, together(map(caller, callers))


def with_a_task(callers):
    batches, waiting = [], []

    async def serve():
        batch = waiting[:]
        waiting.clear()
        batches.append(sorted({prompt for prompt, _ in batch}))
        for prompt, future in batch:
            future.set_result(prompt.upper())

    async def caller(prompts):
        heard = []
        for prompt in prompts:
            waiting.append((prompt, asyncio.get_running_loop().create_future()))
            future = waiting[-1][1]
            task = asyncio.create_task(serve()) if len(waiting) == 1 else None
            heard.append(await future)
            del task
        return heard

    return batches, together(map(caller, callers))


def repeats_run_again(callers):
    batches, waiting = [], []

    async def ask(prompt):
        waiting.append((prompt, asyncio.get_running_loop().create_future()))
        future = waiting[-1][1]
        if len(waiting) == 1:
            await asyncio.sleep(0)
            batch = waiting[:]
            waiting.clear()
            batches.append(sorted(each for each, _ in batch))
            for each, promised in batch:
                promised.set_result(each.upper())
        return await future

    async def caller(prompts):
        return [await ask(prompt) for prompt in prompts]

    return batches, together(map(caller, callers))


def _without_ask(source: str) -> str:
    """Return the reference with nothing in ``ask``."""
    head, body = source.rstrip().split("        first = not waiting\n")
    tail = body[body.index("    async def caller") :]
    return f"{head}        raise NotImplementedError\n\n{tail}"


def _callers(rng: np.random.Generator) -> Iterator[tuple[list[list[str]]]]:
    yield ([["b"], ["a"]],)
    yield ([["a"], ["a"]],)
    yield ([["".join("ab")], ["".join("ab")]],)  # equal, but not the same object
    yield ([["ab"], ["c"]],)
    yield ([["a", "b"], ["c"]],)  # the second batch has one caller only
    yield ([["a", "a"]],)
    yield ([["b", "c"], ["a", "b"], ["b", "a"]],)
    yield ([["b", "c"], ["a", "d"]],)  # who served the first batch asks again at once
    for _ in range(8):
        sizes = rng.integers(1, 5, size=rng.integers(2, 6))
        yield ([rng.choice(list("dcba"), size=size).tolist() for size in sizes],)


def _extreme_callers(rng: np.random.Generator) -> Iterator[tuple[list[list[str]]]]:
    yield ([],)
    yield ([[], ["a"]],)
    yield ([["a"], ["A"]],)  # two prompts, and one answer
    yield ([[f"p{i}" for i in rng.integers(0, 50, size=5)] for _ in range(60)],)


ASK_TOGETHER = Exercise(
    id="11.1",
    title="Strangers share a forward",
    task=(
        "Write `ask`, which the callers await. The first to ask makes way, so that the others can "
        "ask too; then it takes all who wait, runs them as one batch, and gives each its answer. "
        "All else is there: `together` runs coroutines side by side, and says so if all wait for "
        "ever.\n\nWith two callers it should go like this: A notes *x* and makes way. B notes *y* "
        "and awaits its answer. A runs *x* and *y* as one batch, fills both futures, and hears its "
        "own; then B hears."
    ),
    stars=2,
    minutes=15,
    reference=ask_together,
    alternatives=[with_a_task],
    starter=_without_ask(inspect.getsource(ask_together)),
    wrong={
        changed(ask_together, "makes_no_way", "await asyncio.sleep(0)", "pass"): (
            "each prompt runs alone: until its caller awaits something, no other one can ask. "
            "`await asyncio.sleep(0)` lets them, once."
        ),
        repeats_run_again: (
            "equal prompts stand in a batch once for each caller; one row can serve them all."
        ),
        changed(ask_together, "a_new_future_for_each", "if prompt not in waiting:", "if True:"): (
            "whoever asks second for a prompt puts a new future in the place of the first one, and "
            "who awaits that is never answered. Let both await the same."
        ),
        changed(ask_together, "never_forgets", "waiting.clear()", "pass"): (
            "those who were answered stay among the waiting: nobody is the first again, so no "
            "second batch runs."
        ),
        changed(
            ask_together,
            "keeps_answers",
            "first = not waiting",
            """if any(prompt in batch for batch in batches):
            return prompt.upper()
        first = not waiting""",
        ): (
            "you keep answers. That saves a run, and here is wrong: what was answered is forgotten."
        ),
        changed(ask_together, "everybody_runs", "first = not waiting", "first = True"): (
            "each who asks runs a batch, and all but the first find nobody waiting: empty batches. "
            "One caller serves the others."
        ),
        changed(
            ask_together,
            "only_the_first_hears",
            "batch[each].set_result(answer)",
            """if each == prompt:
                    batch[each].set_result(answer)""",
        ): (
            "one prompt is answered, and all others wait for ever. Look who waits *after* you have "
            "made way, and answer all of them."
        ),
        changed(
            ask_together,
            "waits_for_every_caller",
            "first = not waiting",
            "first = len({*waiting, prompt}) == len(callers)",
        ): (
            "you wait until there are as many prompts as callers. Two may ask for the same, and "
            "one may have nothing more to ask: then all wait for ever."
        ),
        changed(
            ask_together,
            "by_position",
            """for each, answer in run([*batch]).items():
                batch[each].set_result(answer)""",
            """for promised, answer in zip(batch.values(), sorted(run([*batch]).values())):
                promised.set_result(answer)""",
        ): "answers go to whoever stands in their place: look an answer up by its prompt.",
    },
    cases=_callers,
    checker=edges(_extreme_callers),
    hints=[
        "`waiting[prompt] = asyncio.get_running_loop().create_future()` for who asks first for a "
        "prompt; everybody ends with `return await` that prompt's future.",
        "Who found `waiting` empty is the first. After `await asyncio.sleep(0)` it copies and "
        "clears `waiting`, runs the copy, and calls `set_result` on each of its futures.",
    ],
    next="The model fails: run raises. Who hears of it in your queue, and who waits for ever?",
)

# ------------------------------------------------------------------ 11.2 longest match


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
    yield {(1,): {}, (2,): {}}, (1,)  # the first edge, the last one
    yield {(1,): {}, (2,): {}}, (2,)
    yield {(1, 2, 3): {}}, (1, 2)
    yield {(1, 2, 3): {}}, (1, 9, 3)  # behind the 9 all is different
    yield {(1, 1, 2): {}}, (1, 1, 3)
    yield {(1,): {(2, 3): {}}}, (2, 3)  # the root is where every prompt begins
    yield {(1, 2): {}}, (2,)
    yield {(1, 2): {}}, (9, 1, 2)  # what it holds must be where the prompt begins
    yield {(1,): {(3,): {}}}, (1, 9, 3)  # no token is left out on the way down
    yield {(1,): {(1, 2): {}}}, (1, 2)  # and the way does not begin again below
    yield {(0, 1): {}}, (0, 2)  # an id may be 0
    yield {(int("50000"), 7): {}}, (int("50000"), 7)  # equal, but not the same object
    yield {(1, 2, 3): {(5,): {}}}, (1, 2, 5)  # the child hangs below the 3
    yield {(12, 3): {}}, (1, 23)  # ids are no digits
    yield {(11,): {(2, 34): {}}}, (11, 23, 4)
    yield {(1, 2): {}}, (1, 23)
    yield {(1, 2, 3): {(4,): {}}}, (1, 3, 2, 4)  # the same tokens in another order
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
    id="11.2",
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
        changed(
            longest_match,
            "whole_edges_only",
            "matched < len(prompt) and edge[0] == prompt[matched]",
            "prompt[matched : matched + len(edge)] == edge",
        ): (
            "you count only edges that match to their end. A match may end *inside* an edge: those "
            "tokens have keys and values too, and would be computed twice."
        ),
        changed(longest_match, "first_edge_only", "tree = tree[edge]", "return matched"): (
            "you stop after one edge: when it matches to its end, go on below it."
        ),
        changed(
            longest_match,
            "trusts_the_first_token",
            """for token in edge:
            if matched == len(prompt) or token != prompt[matched]:
                return matched
            matched += 1""",
            "matched = min(matched + len(edge), len(prompt))",
        ): (
            "an edge that *begins* with the right token need not go on with the right ones. You "
            "would reuse keys and values of other tokens: wrong answers, and no error."
        ),
        counts_edges: "you count edges; the question is how many tokens are known.",
        changed(
            longest_match,
            "counts_later_agreements",
            """for token in edge:
            if matched == len(prompt) or token != prompt[matched]:
                return matched
            matched += 1""",
            """same = sum(a == b for a, b in zip(edge, prompt[matched:]))
        matched += same
        if same < len(edge):
            return matched""",
        ): (
            "you count agreements behind the first token that differs. What comes after another "
            "token has other keys and values: stop there."
        ),
        changed(
            longest_match,
            "goes_on_below_a_broken_edge",
            """token != prompt[matched]:
                return matched""",
            """token != prompt[matched]:
                break""",
        ): (
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
    yield [a, b], 1
    yield [b, a], 2  # not the alphabet
    yield [a, b, c, ("read", "a")], 3  # from the first place to the last
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
        changed(survivors, "forgets_reads", " and name not in cached", ""): (
            "only writes count as uses here. A prompt that everybody reads would be thrown away "
            "because nobody writes it again."
        ),
        changed(
            survivors,
            "first_in_first_out",
            """if name in cached:
            cached.remove(name)
        cached.append(name)""",
            """if name not in cached:
            cached.append(name)""",
        ): ("that is first in, first out: a use doesn't make a name younger."),
        changed(
            survivors,
            "evicts_the_newest",
            "cached[:-capacity]",
            "cached[capacity - 1 : -1]",
        ): ("the youngest name goes; it must be the one unused for longest."),
        changed(survivors, "a_miss_stores", 'kind == "read" and name not in cached', "False"): (
            "reading a name that isn't there stores it; it should change nothing."
        ),
        changed(
            survivors,
            "one_too_few",
            "cached[:-capacity]",
            "cached[: -max(capacity - 1, 1)]",
        ): ("you keep fewer than `capacity` names: evict only when there are more."),
        changed(
            survivors,
            "a_rewrite_evicts",
            'if kind == "read" and name not in cached:',
            """if kind == "write" and len(cached) == capacity:
            cached.pop(0)
        if kind == "read" and name not in cached:""",
        ): (
            "writing a name that is stored already needs no room: you make some before you look, "
            "or store the name twice."
        ),
        changed(
            survivors,
            "evicts_at_the_end",
            """del cached[:-capacity]
    return cached""",
            """pass
    return cached[-capacity:]""",
        ): (
            "a name that had to go is read, and has come back: you evict only at the end, or store "
            "again what is read. Keep at most `capacity` after each event; what has gone is gone."
        ),
        changed(survivors, "newest_first", "return cached", "return cached[::-1]"): (
            "the least recently used comes *first* in the list."
        ),
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
    further=True,
)

# ------------------------------------------------------------------ 11.4 insert with a split


def store(tree, prompt):
    """Return the tree with the prompt stored too; cut an edge where they part, or it ends.

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
    return {**others, upper: store(below, prompt[size:])}


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


def _inserts(rng: np.random.Generator) -> Iterator[tuple[Tree, Prompt]]:
    yield {}, (1, 2)
    yield {(1, 2, 3): {}}, (1, 2, 4)
    yield {(1, 2, 3): {}}, (1, 9, 3)  # behind the 9 all is different
    yield {(1, 2): {(3,): {}, (4,): {}}}, (1, 5)
    yield {(1, 2, 3): {}}, (1, 2)
    yield {(1, 2): {}}, (1, 2)
    yield {(1,): {(2,): {}}}, (1,)
    yield {(1,): {}}, (1, 2)  # a prompt ended at the leaf: its node stays
    yield {(1,): {(2, 3): {}}}, (1, 2, 4)
    yield {(1, 2): {}}, (1, 3, 4)  # the new end is one edge, however long
    yield {(1,): {}, (2,): {}}, (2, 3)  # there are other edges beside
    yield {(1,): {}, (2, 3): {}}, (2, 4)
    yield {(int("50000"), 7): {}}, (int("50000"), 8)  # equal, but not the same object
    for _ in range(14):
        tree = _tree(rng)
        yield tree, _prompt(rng, tree)


def _empty_inserts(rng: np.random.Generator) -> Iterator[tuple[Tree, Prompt]]:
    yield {}, ()
    yield {(1, 2): {}}, ()
    yield {}, (1,)
    yield {(12, 3): {}}, (1, 23)  # ids are no digits
    yield {(1, 2): {}}, (1, 23)
    yield {(1,) * 300: {(2,): {}, (3,): {}}}, ((1,) * 250 + (4,) * 60)


INSERT = Exercise(
    id="11.4",
    title="Split at the right token",
    task=(
        "Store a prompt in such a tree. Where it leaves an edge in the middle, the edge is cut in "
        "two: what both share, and below it the old end *with everything that hung there*, and "
        "the new end. Where it *ends* in the middle, the edge is cut too: a node stands there."
    ),
    stars=3,
    minutes=20,
    reference=store,
    alternatives=[insert_in_place],
    wrong={
        changed(
            insert_in_place,
            "never_splits",
            "edge = _edge(node, prompt)",
            "edge = next((e for e in node if e == prompt[: len(e)]), None)",
        ): (
            "the new prompt became a second edge with the same first token: what they share is "
            "stored twice, and a search finds only one of the two."
        ),
        changed(insert_in_place, "splits_after_one", "_shared(edge, prompt)", "1"): (
            "you split after the first token; go on as long as both agree."
        ),
        changed(
            insert_in_place,
            "one_too_far",
            "_shared(edge, prompt)",
            "min(_shared(edge, prompt) + 1, len(edge))",
        ): (
            "you split one token too late: the first token in which they *differ* must not be "
            "shared."
        ),
        changed(
            insert_in_place,
            "loses_what_was_below",
            "{edge[size:]: below}",
            "{edge[size:]: {}}",
        ): ("the children of the edge that was cut are gone: they hang below its old end."),
        changed(insert_in_place, "loses_the_old_end", "{edge[size:]: below}", "{}"): (
            "the old end of the edge is gone: the new prompt took its place."
        ),
        changed(insert_in_place, "empty_edge", "while prompt:", "while True:"): (
            "when a prompt ends where an edge ends, or where one is cut, nothing is left to "
            "insert: you add an empty edge ()."
        ),
        changed(insert_in_place, "adds_at_the_top", "_edge(node, prompt)", "None"): (
            "the whole prompt became one edge of the root: nothing is shared, and a search finds "
            "only one of two edges that begin alike. Go down first, and split."
        ),
        changed(
            insert_in_place,
            "new_edge_below_the_parting",
            "edge = _edge(node, prompt)",
            """if any(e[: len(prompt)] == prompt for e in node):
            break
        edge = next((e for e in node if e == prompt[: len(e)]), None)""",
        ): (
            "where the prompt leaves an edge in the middle you add a second edge that begins with "
            "the same tokens. The old edge must be cut in two."
        ),
        changed(
            store,
            "empty_lower_edge",
            "{lower: tree[edge]} if lower else tree[edge]",
            "{lower: tree[edge]}",
        ): (
            "when the prompt goes on below a whole edge there is nothing to cut: you hang an empty "
            "edge () below it, and the subtree below that."
        ),
        changed(
            insert_in_place,
            "not_cut_where_it_ends",
            "if size < len(edge):",
            """if size == len(prompt):
            node[edge] = below
            break
        if size < len(edge):""",
        ): (
            "where the prompt ends inside an edge you leave it whole. A node must stand there, for "
            "what is known of the prompt itself: the probabilities of its next token."
        ),
        changed(
            insert_in_place,
            "new_end_forgotten",
            "below = {edge[size:]: below}",
            "below, prompt = {edge[size:]: below}, prompt[:size]",
        ): (
            "you cut the edge, but the new end of the prompt hangs nowhere: insert prompt[size:] "
            "below the upper half."
        ),
        changed(
            insert_in_place,
            "old_subtree_below_the_upper",
            "below = {edge[size:]: below}",
            """ends = [end for end in (edge[size:], prompt[size:]) if end]
            below, prompt = {**below, **{end: {} for end in ends}}, prompt[:size]""",
        ): (
            "the children of the edge that was cut hang below its upper half now; they belong "
            "below its old end."
        ),
        changed(
            insert_in_place,
            "siblings_lost",
            "below = dict(node.pop(edge))",
            """below = dict(node.pop(edge))
        node.clear()""",
        ): (
            "the edges beside the prompt's way are gone: at each node only one is walked or cut, "
            "and the others stay."
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
    further=True,
)

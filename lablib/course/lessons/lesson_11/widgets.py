"""The widget of the lesson on prefix trees: the tree that queries grow."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lablib.cache.slab import Slab
from lablib.cache.trie import Event, TokenTrie
from lablib.course.plots.explorer import Explorer, Player, slider
from lablib.validation import BadValue, integer

import numpy as np

Words = tuple[Any, ...]
Nodes = list[dict[str, Any]]

HELD, REUSED, NEW, EVICTED = "held", "reused", "fresh", "evicted"
_FATES = {HELD: "held", REUSED: "found by this query", NEW: "new", EVICTED: "evicted"}
LONGEST_EDGE = 27  # letters of one edge; longer texts lose their middle


@dataclass(frozen=True)
class Scene:
    """The tree before and after one query.

    Attributes:
        prompt: what was asked; empty before the first query.
        before: ``TokenTrie.snapshot()`` when it was asked.
        after: the same when it had been answered.
        events: what changed, in order.
        found: how many of its tokens the tree had.
        run: how many tokens were forwarded for it.
        total: how many were forwarded up to now.
        alone: how many it would have been without the tree.
        number: of the query, from 1 on.
        budget: how many tokens the tree may hold.
        uses: of each prefix, also of one that just went, which query used it last.
    """

    prompt: Words = ()
    before: Nodes = ()
    after: Nodes = ()
    events: tuple[Event, ...] = ()
    found: int = 0
    run: int = 0
    total: int = 0
    alone: int = 0
    number: int = 0
    budget: int = 0
    uses: dict[Words, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Edge:
    """A run of tokens: its text, what became of it, its row, and the edge that it hangs on.

    Attributes:
        prefix: all tokens from the root to its end.
        size: how many of them are its own.
        text: its own, as they are shown.
        status: one of the four above.
        row: siblings stand below each other, the first one beside its parent.
        parent: the number of that edge, -1 at the root.
    """

    prefix: Words
    size: int
    text: str
    status: str
    row: int
    parent: int


def scenes(prompts: Sequence[Words], budget: int) -> list[Scene]:
    """Ask one prompt after the other, and keep the tree as ``AsyncMlxLM`` does.

    Args:
        prompts: any hashable tokens.
        budget: how many tokens the tree may hold.

    Returns:
        One scene for each prompt, after one of the empty tree.
    """
    slab = Slab(1, budget)
    trie = TokenTrie(budget, slab=slab)
    played, ticks = [Scene(budget=budget)], []
    for prompt in map(tuple, prompts):
        trie.events.clear()
        found = trie.match(prompt)
        held, run = len(found.slots), 0
        if found.logprobs is None:
            run = max(len(prompt) - held, 1)  # the last token runs for its logits, known or not
            trie.pin(found.tip)
            trie.make_room(len(prompt) - held)
            slots = slab.allocate(len(prompt) - held)
            node = trie.insert(prompt, slots, held, np.zeros(1), pin=True)
            trie.unpin(found.tip)
            trie.unpin(node)
        ticks.append(max(node.used for node in trie.nodes()))
        last = played[-1]
        played.append(
            Scene(
                prompt=prompt,
                before=last.after,
                after=trie.snapshot(),
                events=tuple(trie.events),
                found=held,
                run=run,
                total=last.total + run,
                alone=last.alone + len(prompt),
                number=last.number + 1,
                budget=budget,
                uses=last.uses | _uses(trie, ticks),
            )
        )
    return played


def _uses(trie: TokenTrie, ticks: Sequence[int]) -> dict[Words, int]:
    """Return of each prefix which query used it last; the tree's clock stood so after each."""
    uses: dict[Words, int] = {}
    ends: dict[int | None, Words] = {None: ()}
    for node, told in zip(trie.nodes(), trie.snapshot(), strict=True):
        end = ends[told["id"]] = ends[told["parent"]] + told["tokens"]
        for size in range(1, len(end) + 1):  # whoever uses a node uses what it hangs on
            number = bisect_left(ticks, node.used) + 1
            uses[end[:size]] = max(uses.get(end[:size], 0), number)
    return uses


# What is drawn.


def edges(scene: Scene, names: Callable[[Words], str]) -> list[Edge]:
    """Return every run of tokens, parents first; what the tree lost is among them.

    Args:
        scene: the tree before and after a query.
        names: the text of some tokens.
    """
    before, ends_before = _prefixes(scene.before)
    after, ends_after = _prefixes(scene.after)
    ends, every = ends_before | ends_after, dict.fromkeys([*before, *after])
    found = {scene.prompt[:size] for size in range(1, scene.found + 1)}

    def status(prefix: Words) -> str:
        if prefix not in after:
            return EVICTED
        return NEW if prefix not in before else REUSED if prefix in found else HELD

    below: dict[Words, list[Words]] = {}
    for prefix in every:
        below.setdefault(prefix[:-1], []).append(prefix)
    placed, row = [], -1
    waiting = [(prefix, -1, True) for prefix in reversed(below.get((), []))]
    while waiting:
        first, parent, opens = waiting.pop()
        last, kind = first, status(first)
        while last not in ends and len(below[last]) == 1 and status(below[last][0]) == kind:
            last = below[last][0]
        row += opens
        size = len(last) - len(first) + 1
        placed.append(Edge(last, size, _short(names(last[-size:])), kind, row, parent))
        here, children = len(placed) - 1, below.get(last, [])
        waiting += [(child, here, i > 0) for i, child in enumerate(children)][::-1]
    return placed


def _prefixes(snapshot: Nodes) -> tuple[dict[Words, None], set[Words]]:
    """Return every prefix that a tree holds, parents first, and those at which an edge ends."""
    held: dict[Words, None] = {}
    ends: dict[int | None, Words] = {None: ()}
    for node in snapshot:
        above = ends[node["parent"]]
        held |= {above + node["tokens"][:size]: None for size in range(1, len(node["tokens"]) + 1)}
        ends[node["id"]] = above + node["tokens"]
    return held, set(ends.values())


def _short(text: str) -> str:
    half = LONGEST_EDGE // 2
    return text if len(text) <= LONGEST_EDGE else f"{text[:half]}…{text[-half:]}"


def _tail(text: str) -> str:
    return text if len(text) <= LONGEST_EDGE else f"…{text[-LONGEST_EDGE:]}"


class TreeFilm(Explorer):
    """A tree that queries grow one after the other, under a budget.

    Args:
        queries: the prompts, each a sequence of words.
        budget: how many tokens the tree may hold at first.
    """

    scene, called = "trie", "A tree of prefixes as a query finds it and leaves it"

    def __init__(self, queries: Sequence[Sequence[str]], budget: int = 99) -> None:
        if not queries or not all(queries):
            raise BadValue(f"queries must be prompts of at least one word, got {queries!r}")
        self.queries = [tuple(query) for query in queries]
        most = len({query[:end] for query in self.queries for end in range(1, len(query) + 1)})
        least = max(map(len, self.queries))
        budget = min(integer("budget", budget, least), most)
        self._films = {size: scenes(self.queries, size) for size in range(least, most + 1)}
        drawn = [edges(scene, _words) for film in self._films.values() for scene in film]
        self.constants = {
            "rows": max(edge.row + 1 for each in drawn for edge in each),
            "edges": max(map(len, drawn)),
            "columns": max(_columns(each) for each in drawn),
            "most": sum(map(len, self.queries)),
        }
        last = len(self.queries)
        player = Player(min(2, last), 0, last, 1200, "query")  # at first a tree with two branches
        sized = slider(budget, least, max(most, least + 1), label="budget in tokens")
        super().__init__(query=player, budget=sized)

    def compute(self, query: int, budget: int) -> Scene:
        """Return the tree before and after query number ``query``, counted from 1."""
        return self._films[min(budget, max(self._films))][query]

    def draw(self, data: Scene) -> dict[str, Any]:
        """Draw the query, the tree's edges, and what was run up to now."""
        drawn = []
        for edge in edges(data, _words):
            own, above = edge.prefix[-edge.size :], edge.prefix[: -edge.size]
            where = f"after “{_words(above)}”" if above else "at the root"
            used = data.uses[edge.prefix]
            note = f"“{_words(own)}” {where}: {_FATES[edge.status]}; query {used} used it last."
            look = {"text": edge.text, "status": edge.status, "row": edge.row, "used": used}
            key = f"{_words(edge.prefix)}/{edge.size}"
            drawn.append({"key": key, **look, "parent": edge.parent, "note": note})
        return {
            "query": [[word, place < data.found] for place, word in enumerate(data.prompt)],
            "number": data.number,
            "edges": drawn,
            "total": data.total,
            "alone": data.alone,
            "held": _held(data),
            "budget": data.budget,
        }

    def caption(self, data: Scene) -> str:
        """Say what the query found, what it cost and what it changed."""
        if not data.prompt:
            return f"No query yet; the tree holds {tokens(_held(data))}."
        splits = [event.start for event in data.events if event.kind == "split"]
        changes = [f"; an edge is split after {tokens(start)}" for start in splits]
        lost = sum(event.stop - event.start for event in data.events if event.kind == "evict")
        changes += [f"; {tokens(lost)} went to make room"] * (lost > 0)
        return (
            f"The tree knew {data.found} of the {tokens(len(data.prompt))} of "
            f"“{_tail(_words(data.prompt))}”, and {data.run} ran{''.join(changes)}."
        )


def _held(scene: Scene) -> int:
    return sum(len(node["tokens"]) for node in scene.after)


def _columns(drawn: Sequence[Edge]) -> int:
    """Return how many pixels wide the tree is when it grows to the right."""
    ends: list[int] = []
    for edge in drawn:
        left = 0 if edge.parent < 0 else ends[edge.parent] + 16
        ends.append(left + 8 * len(edge.text) + 24)
    return max(ends, default=0)


def tokens(count: int) -> str:
    """Return "1 token" or "2 tokens"."""
    return f"{count} token" + "s" * (count != 1)


def _words(tokens: Words) -> str:
    return " ".join(tokens)

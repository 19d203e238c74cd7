"""The widget of the lesson on prefix trees: the tree that queries grow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.cache.slab import Slab
from lablib.cache.trie import Event, TokenTrie
from lablib.course.plots.charts import style
from lablib.course.plots.explorer import Explorer, Player, slider
from lablib.course.plots.strips import WIDTH, add_axes, box, canvas
from lablib.validation import BadValue, integer

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure

Words = tuple[Any, ...]
Nodes = list[dict[str, Any]]
Speller = Callable[[Words], str]

HELD, REUSED, NEW, EVICTED = "held", "found by this query", "new", "evicted"
# Fill, hatch, edge: light enough for black letters, different in grey too.
LOOKS = {
    HELD: ("#EEEEEE", "", "#999999"),
    REUSED: ("#A9D3F0", "", "#0072B2"),
    NEW: ("#F3BE6B", "////", "#B07400"),
    EVICTED: ("#FFFFFF", "", "#D55E00"),
}
LEAST_COLUMNS = 78  # letters across the picture; a wider tree gets smaller ones
LONGEST_EDGE = 27  # letters of one edge; longer texts lose their middle
GAP = 1.6  # letters between two edges
ROW = 0.36  # inches


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
    """

    prompt: Words = ()
    before: Nodes = ()
    after: Nodes = ()
    events: tuple[Event, ...] = ()
    found: int = 0
    run: int = 0
    total: int = 0
    alone: int = 0


@dataclass(frozen=True)
class Edge:
    """A run of tokens as it is drawn: ``text`` in row ``row`` from letter ``left`` to ``right``."""

    text: str
    status: str
    row: int
    left: float
    right: float
    stem: tuple[int, float] | None  # row and right end of the edge it hangs on


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
    played = [Scene()]
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
        played.append(_next(played[-1], prompt, trie, tuple(trie.events), held, run))
    return played


def _next(
    last: Scene, prompt: Words, trie: TokenTrie, events: tuple[Event, ...], found: int, run: int
) -> Scene:
    total, alone = last.total + run, last.alone + len(prompt)
    return Scene(prompt, last.after, trie.snapshot(), events, found, run, total, alone)


# Layout.


def edges(scene: Scene, names: Speller, most: int | None = None) -> list[Edge]:
    """Return every run of tokens, and where it stands.

    Siblings stand below each other, the first one beside its parent.

    Args:
        scene: the tree before and after a query; what it lost is still shown.
        names: the text of some tokens.
        most: how many rows at most; None for all.
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
    waiting: list[tuple[Words, tuple[int, float] | None, bool]] = []
    waiting += [(prefix, None, True) for prefix in reversed(below.get((), []))]
    while waiting:
        first, stem, opens = waiting.pop()
        last, kind = first, status(first)
        while last not in ends and len(below[last]) == 1 and status(below[last][0]) == kind:
            last = below[last][0]
        row += opens
        if most is not None and row >= most:
            break
        text = _short(names(last[len(first) - 1 :]))
        left = 0.0 if stem is None else stem[1] + GAP
        placed.append(Edge(text, kind, row, left, left + len(text) + 1, stem))
        here = (row, placed[-1].right)
        children = below.get(last, [])
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
    text = text.strip().replace("\n", "⏎") or "␣"
    half = LONGEST_EDGE // 2
    return text if len(text) <= LONGEST_EDGE else f"{text[:half]}…{text[-half:]}"


def _tail(text: str) -> str:
    text = text.strip().replace("\n", "⏎") or "␣"
    return text if len(text) <= LONGEST_EDGE else f"…{text[-LONGEST_EDGE:]}"


def draw_scene(scene: Scene, names: Speller, rows: int | None = None, most: int = 16) -> Figure:
    """Draw a tree from left to right.

    Args:
        scene: the tree before and after a query.
        names: the text of some tokens.
        rows: make room for so many, so that nothing jumps; None for as many as there are.
        most: rows at most; the branches below are left out.
    """
    placed = edges(scene, names, most)
    count = max(rows or 0, 1, *(edge.row + 1 for edge in placed)) if placed else max(rows or 0, 1)
    columns = max([LEAST_COLUMNS, *(edge.right + 1 for edge in placed)])
    height = ROW * (count + 1)
    fig = canvas(height)
    with style():
        axes = add_axes(fig, 0, 0, WIDTH, height)
        size = 12.0 * LEAST_COLUMNS / columns
        stems = [
            [(x - 0.2, row + 0.36), (x - 0.2, edge.row), (edge.left, edge.row)]
            if edge.row > row
            else [(x, row), (edge.left, row)]
            for edge in placed
            if edge.stem is not None
            for row, x in [edge.stem]
        ]
        axes.add_collection(LineCollection(stems, colors="#666666", linewidths=1.2))
        scale = columns / LEAST_COLUMNS
        for i, kind in enumerate(LOOKS):
            own = [e for e in placed if e.status == kind]
            _boxes(axes, [(e.left, e.right, e.row) for e in own], kind)
            x = 0.5 + 20 * i
            _boxes(axes, [(x * scale, (x + 2.2) * scale, count)], kind)
            axes.text((x + 3) * scale, count, kind, size=10, va="center", color="#333333")
        for edge in placed:
            colour = "#A04000" if edge.status == EVICTED else "black"
            look = {"size": size, "color": colour, "family": "monospace", "va": "center_baseline"}
            axes.text(edge.left + 0.5, edge.row, edge.text, **look)
        axes.set(xlim=(-0.5, columns), ylim=(count + 0.5, -0.5))
        axes.set_axis_off()
    return fig


def _boxes(axes: Any, places: list[tuple[float, float, float]], kind: str) -> None:
    fill, hatch, edge = LOOKS[kind]
    corners = [box(y, left, right, 0.34) for left, right, y in places]
    look = {"facecolors": fill, "edgecolors": edge, "hatch": hatch, "hatchcolors": "#FFFFFF88"}
    dashes = "--" if kind == EVICTED else "-"
    axes.add_collection(PolyCollection(corners, linewidths=1.0, linestyles=dashes, **look))


def describe(scene: Scene, names: Speller) -> str:
    """Say what a query found, what it cost and what it changed."""
    held = sum(len(node["tokens"]) for node in scene.after)
    if not scene.prompt:
        return f"No query yet; the tree holds {tokens(held)}."
    changes = {"split": [], "insert": [], "evict": []}
    for event in scene.events:
        changes[event.kind].append(event)
    said = [f"a split after {tokens(event.start)}" for event in changes["split"]]
    for kind, word in (("insert", "new"), ("evict", "evicted")):
        if count := sum(event.stop - event.start for event in changes[kind]):
            said.append(f"{count} {word}")
    return (
        f"“{_tail(names(scene.prompt))}”: {scene.found} of {tokens(len(scene.prompt))} found, "
        f"{scene.run} run; {', '.join(said) or 'nothing changed'}. "
        f"The tree holds {held}. Run so far: {tokens(scene.total)}, {scene.alone} without a tree."
    )


class TreeFilm(Explorer):
    """A tree that queries grow one after the other, under a budget.

    Args:
        queries: the prompts, each a sequence of words.
        budget: how many tokens the tree may hold at first.
    """

    def __init__(self, queries: Sequence[Sequence[str]], budget: int = 99) -> None:
        if not queries or not all(queries):
            raise BadValue(f"queries must be prompts of at least one word, got {queries!r}")
        self.queries = [tuple(query) for query in queries]
        most = len({query[:end] for query in self.queries for end in range(1, len(query) + 1)})
        least = max(map(len, self.queries))
        budget = min(integer("budget", budget, least), most)
        self._films = {size: scenes(self.queries, size) for size in range(least, most + 1)}
        every = [scene for film in self._films.values() for scene in film]
        self._rows = max(edge.row + 1 for scene in every[1:] for edge in edges(scene, _words))
        player = Player(len(self.queries) + 1, 1200, "query")
        sized = slider(budget, least, max(most, least + 1), label="budget in tokens")
        super().__init__(query=player, budget=sized)

    def compute(self, query: int, budget: int) -> Scene:
        """Return the tree before and after query number ``query``, counted from 1."""
        last = max(self._films)
        return self._films[min(budget, last)][query]

    def draw(self, data: Scene) -> Figure:
        """Draw it."""
        return draw_scene(data, _words, self._rows)

    def caption(self, data: Scene) -> str:
        """Say what the query found, what it cost and what it changed."""
        return describe(data, _words)


def tokens(count: int) -> str:
    """Return "1 token" or "2 tokens"."""
    return f"{count} token" + "s" * (count != 1)


def _words(tokens: Words) -> str:
    return " ".join(tokens)

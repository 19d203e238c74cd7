"""Pictures of the lesson on trees: a tree with its mask, and what a round makes of a tree."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from lablib.cache import kv, tree
from lablib.course.lessons.lesson_13.rounds import RULES, Prices, Round, one_round
from lablib.course.plots.charts import COLOURS, DASHES, HATCHES, style, visible
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.scene import SceneExplorer
from lablib.course.plots.strips import WIDTH, add_axes, box, canvas, name_bars
from lablib.inference import DraftModel, Tree
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

MOST = 16  # nodes
TRAIL = (1, 2, 4, 8, 12, 16)  # numbers of nodes that the plane shows at once
ALL = "no bound"  # as a depth
_KEPT, _OTHER = COLOURS[2], "#888888"


def layout(parents: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return where to draw each node: its depth, from 1 on, and its row, from 0 on.

    A first child stands in its parent's row, so that a path of first children is straight.
    """
    seen = tree.ancestry(parents)
    rows, free = np.zeros(len(parents), int), 0

    def visit(parent: int, row: int) -> None:
        nonlocal free
        for i, node in enumerate(n for n, up in enumerate(parents) if up == parent):
            if i:
                free += 1
            rows[node] = free if i else row
            visit(node, rows[node])

    visit(-1, 0)
    return seen.sum(axis=1), rows


def draw_tree(
    axes: Any, parents: Sequence[int], names: Sequence[str], below: Sequence[str]
) -> None:
    """Draw a tree from left to right; ``axes`` lose their frame.

    Args:
        axes: matplotlib axes.
        parents: of each node.
        names: what stands in each node.
        below: a small text below each.
    """
    depth, row = layout(parents)
    x, y = np.concatenate([[0], depth]), np.concatenate([[0], row])
    wide, high = max(4, x.max()) + 1, max(3, y.max()) + 1.4
    axes.set(xlim=(-0.5, wide - 0.5), ylim=(high - 0.6, -0.6))
    axes.set_axis_off()
    size = 11 if len(parents) <= 9 else 9
    inches = axes.get_position().width * WIDTH / wide  # of a level
    half = [(0.004 * size * len(name) + 0.06) / inches for name in ["text", *names]]
    lines = [
        [(x[up + 1], y[up + 1]), (x[up + 1] + 0.45, y[n]), (x[n], y[n])]
        for n, up in enumerate(parents, 1)
    ]
    axes.add_collection(LineCollection(lines, colors=_OTHER, linewidths=1.2, zorder=1))
    high = 0.3 if y.max() > 3 else 0.2
    root, *nodes = [box(y[n], x[n] - half[n], x[n] + half[n], high) for n in range(len(x))]
    look = {"facecolors": "white", "edgecolors": _OTHER, "linewidths": 0.84, "zorder": 2}
    axes.add_collection(PolyCollection(nodes, **look))
    look = {"facecolors": "#E2F3EC", "edgecolors": _KEPT, "linewidths": 1.96, "zorder": 2}
    axes.add_collection(PolyCollection([root], **look))
    look = {"ha": "center", "va": "center_baseline", "size": size, "family": "monospace"}
    axes.text(x[0], y[0], "text", weight="bold", **look)
    for i, name in enumerate(names, 1):
        axes.text(x[i], y[i], name, **look)
    # Many rows leave no room below a node, many columns none before it.
    aside, under = (-0.3, -0.06) if y.max() > 8 else (0, 0.36)
    look = {"ha": "center", "va": "bottom" if y.max() > 8 else "top", "size": size - 2.5}
    for i, text in enumerate(below, 1):
        axes.text(x[i] + aside, y[i] + under, text, **look)


def mask_figure(parents: Sequence[int], names: Sequence[str], before: int = 2) -> Figure:
    """Draw a tree, and which entries each of its tokens sees.

    Args:
        parents: of each node.
        names: one for each node.
        before: how many entries of the text are drawn; every token sees them.
    """
    seen, n = tree.ancestry(parents), len(parents)
    mask = np.concatenate([np.ones((n, before), bool), seen], axis=1)
    fig = canvas(3.3)
    with style():
        left, right = add_axes(fig, 0.1, 0.35, 4.1, 2.8), add_axes(fig, 5.0, 0.65, 2.6, 2.4)
        draw_tree(left, parents, names, below=[f"{d:+d}" for d in seen.sum(axis=1)])
        for row, column in np.argwhere(mask):
            own = column - before == row
            colour = COLOURS[4] if column < before else COLOURS[0] if own else COLOURS[2]
            right.add_patch(_square(column, row, colour))
        right.set(xlim=(-0.5, n + before - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
        right.set_yticks(range(n), names, family="monospace")
        columns = [*(f"{k - before + 1}" for k in range(before)), *names]
        right.set_xticks(range(n + before), columns, family="monospace")
        right.tick_params(length=0, labeltop=True, labelbottom=False)
        right.axvline(before - 0.5, color="black", lw=1)
        right.set_ylabel("who looks")
        right.text(0, 1.16, "what it sees", transform=right.transAxes, weight="bold")
    return fig


def _square(x: float, y: float, colour: str) -> Any:
    return Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, fc=colour, ec="white")


class Trees(SceneExplorer):
    """A tree of drafts after a real text: what may stay, what it yields and what it costs.

    Both models are at work at every tick; the last answers are remembered.

    Args:
        target: a model that reads trees.
        draft: a smaller one, of the same vocabulary.
        texts: name -> token ids of a text that goes on.
        pieces: the text of each token id.
        prices: of this machine.
    """

    scene, called = "branches", "A tree of drafts, and what it is worth beside a chain"

    def __init__(
        self, target: Any, draft: Any, texts: Mapping[str, Sequence[int]],
        pieces: Sequence[str], prices: Prices,
    ) -> None:  # fmt: skip
        if not texts:
            raise BadValue("texts must hold one text at least, got none")
        self.target, self.draft, self.prices = target, draft, prices
        self.texts, self.pieces = dict(texts), list(pieces)
        self._round = lru_cache(256)(self._uncached)
        self._read = {}
        for name, ids in self.texts.items():
            self._read[name] = kv.make(target)
            mx.eval(target(mx.array([ids[:-1]]), cache=self._read[name]))
        names, self.constants = list(self.texts), {}
        super().__init__(
            text=choice(names[0], names, label="text"),
            rule=choice("match", list(RULES), label="rule"),
            nodes=slider(8, 1, MOST, label="nodes"),
            depth=choice(ALL, [1, 2, 3, 4, 6, ALL], label="longest path"),
            temperature=slider(1.0, 0.0, 2.0, 0.25, label="temperature"),
            toss=slider(0, 0, 9, label="toss"),
        )

    def _uncached(
        self, text: str, rule: str, nodes: int, depth: int | None, temperature: float
    ) -> Round:
        """Return the round of a tree; of a chain where ``depth`` is 0."""
        drawn = rule != "match"
        drafter = DraftModel(self.draft) if depth == 0 else Tree(self.draft, depth, drawn)
        options = {"rule": rule, "temperature": temperature, "read": self._read[text]}
        return one_round(self.target, drafter, self.texts[text], nodes, **options)

    def compare(
        self, text: str, rule: str, nodes: int, depth: int | str, temperature: float
    ) -> tuple[Round, Round, tuple[float, float]]:
        """Return the rounds of a tree and of a chain, and their prices in plain tokens."""
        bound = None if depth == ALL else depth
        grown = self._round(text, rule, nodes, bound, temperature)
        chain = self._round(text, rule, nodes, 0, temperature)
        costs = self.prices.tree(nodes, int(grown.depths.max())), self.prices.chain(nodes)
        return grown, chain, costs

    def compute(
        self, text: str, rule: str, nodes: int, depth: int | str, temperature: float, toss: int
    ) -> dict[str, Any]:
        """Return the tree, the path that stays, and tree and chain of ever more nodes."""
        grown = self.compare(text, rule, nodes, depth, temperature)[0]
        depths, rows = layout(grown.parents)
        trails: dict[str, list[list[float]]] = {"tree": [], "chain": []}
        for count in sorted({*TRAIL, nodes}):
            *both, costs = self.compare(text, rule, count, depth, temperature)
            for name, one, cost in zip(trails, both, costs, strict=True):
                trails[name].append([count, cost, one.expected])
        return {
            "text": visible("".join(self.pieces[token] for token in self.texts[text])[-44:]),
            "setting": f"{text}, {rule}, temperature {temperature:.2f}",
            "nodes": nodes,
            "names": [visible(self.pieces[token]) for token in grown.drafts],
            "parents": list(grown.parents),
            "reach": grown.reach.tolist(),
            "path": list(grown.toss(toss)),
            "depth": depths.tolist(),
            "row": rows.tolist(),
            "trails": trails,
        }

    def caption(self, data: dict[str, Any]) -> str:
        """Say how the tree looks, what stays, and how it compares with a chain."""
        stays = "".join(data["names"][node] for node in data["path"])
        tree_, chain = (
            next(each for each in trail if each[0] == data["nodes"])
            for trail in data["trails"].values()
        )
        nodes = f"{data['nodes']} node{'s' * (data['nodes'] > 1)}"
        said = f"the path {stays!r} stays" if stays else "no draft stays"
        return (
            f"{data['setting']}: a tree of {nodes}, its longest path {max(data['depth'])}; {said}. "
            f"Expected tokens a call: tree {tree_[2]:.2f}, chain of as many {chain[2]:.2f}. "
            f"Promised speed-up: tree ×{tree_[2] / tree_[1]:.2f}, chain ×{chain[2] / chain[1]:.2f}."
        )


def yields_figure(
    ways: Sequence[str], theory: Sequence[float], engine: Sequence[Sequence[float]]
) -> Figure:
    """Draw tokens a call, computed and measured.

    Args:
        ways: of drafting.
        theory: expected tokens a call, one for each.
        engine: what the engine yields: the middle and the ends of its interval, for each.
    """
    fig = canvas(1.2 + 0.42 * len(ways))
    with style():
        high, y = 0.42 * len(ways), np.arange(len(ways))
        axes = add_axes(fig, 2.6, 0.4, 4.6, high)
        axes.barh(y, theory, 0.7, color=COLOURS[4], hatch=HATCHES[1], ec="white", label="expected")
        middle, low, end = np.array(engine).T
        look = {"color": "black", "capsize": 4, "ms": 5, "fmt": "o", "label": "engine"}
        axes.errorbar(middle, y, xerr=(middle - low, end - middle), **look)
        name_bars(axes, ways, across=True)
        axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.22), ncols=2, fontsize=10)
        axes.set_ylim(len(ways) - 0.5, -0.6)
        axes.text(0, 1.06, "tokens a call", transform=axes.transAxes, weight="bold")
    return fig


class Worth(Explorer):
    """The best tree and the best chain, by the price of waiting for a level.

    Prices are in plain tokens. A round of n drafts costs 1 + n · reading, and n · draft for a
    chain, or levels · (draft + waiting) for a tree.

    Args:
        chains: rule -> tokens a call of chains of 1, 2, ... drafts.
        trees: rule -> number of nodes -> tokens a call, and levels.
        here: what waiting for a level costs on this machine.
    """

    def __init__(
        self,
        chains: Mapping[str, Sequence[float]],
        trees: Mapping[str, Mapping[int, tuple[float, float]]],
        here: float,
    ) -> None:
        self.chains, self.trees, self.here = dict(chains), dict(trees), here
        self.waiting = np.linspace(0, 0.4, 81)
        super().__init__(
            rule=choice("match", list(self.chains), label="rule"),
            reading=slider(0.1, 0.0, 0.5, 0.05, label="reading one more"),
            draft=slider(0.1, 0.0, 0.4, 0.05, label="a draft"),
        )

    def compute(self, rule: str, reading: float, draft: float) -> dict[str, Any]:
        """Return the speed-ups of the best chain, and of the best tree at each price of waiting."""
        lengths = np.arange(1, len(self.chains[rule]) + 1)
        chains = np.array(self.chains[rule]) / (1 + lengths * (reading + draft))
        trees = [
            yielded / (1 + nodes * reading + levels * (draft + self.waiting))
            for nodes, (yielded, levels) in self.trees[rule].items()
        ]
        best = np.max(trees, axis=0)
        ahead = self.waiting[best > max(chains.max(), 1)]
        return {
            "chain": float(chains.max()),
            "length": int(lengths[chains.argmax()]),
            "tree": best,
            "ahead": float(ahead.max()) if len(ahead) else None,
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw both against the price of waiting; the dashed line is this machine."""
        fig = canvas(3.3)
        with style():
            axes = add_axes(fig, 0.8, 0.2, 6.6, 2.4)
            axes.axhline(1, color="black", lw=1, ls=":")
            axes.axvline(self.here, color=COLOURS[5], lw=1.5, ls="--", label="this machine")
            axes.plot(self.waiting, data["tree"], color=COLOURS[2], label="best tree")
            axes.axhline(data["chain"], ls=DASHES[1], color=COLOURS[0], label="best chain")
            axes.set(xlim=(0, 0.4), ylim=(0, 4))
            axes.legend(loc="upper right", ncols=3, fontsize=10)
            axes.set_xlabel("price of waiting for a level, in plain tokens")
            axes.set_ylabel("× plain decoding")
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Say what is best where."""
        said = f"The best chain, of {data['length']}, promises ×{data['chain']:.2f}. "
        if data["ahead"] is None:
            return said + f"No tree is ahead; if nobody waits, it promises ×{data['tree'][0]:.2f}."
        return said + (
            f"A tree is ahead where waiting costs up to {data['ahead']:.2f}; if nobody waits, it "
            f"promises ×{data['tree'][0]:.2f}."
        )

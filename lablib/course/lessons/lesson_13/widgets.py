"""Pictures of the lesson on trees: a tree with its mask, what a round makes of it, its price."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

from lablib.cache import tree
from lablib.course.lessons.lesson_13.rounds import RULES, Prices, Round
from lablib.course.lessons.lesson_13.sizes import ChainRounds, Said, TreeRounds, read
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import WARM, axis, curves, panel
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.pictures import COLOURS, visible
from lablib.validation import BadValue

import numpy as np

MOST = 16  # nodes
TRAIL = (1, 2, 4, 8, 12, 16)  # numbers of nodes that the plane shows at once
# Of the draft's first words, the likeliest; there stand, too, those of the tree, and the best that
# it leaves out.
FIRST = 6
ALL = "no bound"  # as a depth
TEMPERATURES = np.arange(0, 2.25, 0.25).tolist()
# Of the tosses. The one at rest, 4, was chosen: a path stays, and both trees branch; yields are
# about what they are on average, by each rule.
_SEEDS = range(273, 283)
_OTHER, LEAD = "#888888", "#B34A00"


def layout(parents: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return where to draw each node: its depth, from 1 on, and its row, from 0 on.

    A first child stands in its parent's row, so that a path of first children is straight.
    """
    rows, free = np.zeros(len(parents), int), 0

    def visit(parent: int, row: int) -> None:
        nonlocal free
        for i, node in enumerate(n for n, up in enumerate(parents) if up == parent):
            if i:
                free += 1
            rows[node] = free if i else row
            visit(node, rows[node])

    visit(-1, 0)
    return tree.ancestry(parents).sum(axis=1), rows


def mask_figure(parents: Sequence[int], names: Sequence[str], before: int = 2) -> Chart:
    """Draw a tree, and which entries each of its tokens sees.

    Args:
        parents: of each node.
        names: one for each node.
        before: how many entries of the text are drawn; every token sees them.
    """
    (depth, rows), n = layout(parents), len(parents)
    x, y = [0, *depth.tolist()], [0, *(-rows).tolist()]
    left: list[dict[str, Any]] = []
    for node, up in enumerate(parents, 1):
        bend = [[x[up + 1], y[up + 1]], [x[up + 1] + 0.45, y[node]], [x[node], y[node]]]
        left.append({"line": bend, "colour": _OTHER, "wide": 1.5})
    for node, name in enumerate(["text", *names]):
        look = {"fill": "#FFFFFF" if node else COLOURS[4], "edge": _OTHER, "text": name}
        left.append({"bar": [x[node] - 0.2, x[node] + 0.2, y[node] - 0.2, y[node] + 0.2], **look})
        if node:
            at = [x[node], y[node] - 0.42]
            left.append({"text": f"{x[node]:+d}", "at": at, "anchor": "middle", "colour": WARM})
    right = []
    columns = [*(f"{k - before + 1}" for k in range(before)), *names]
    seen = np.concatenate([np.ones((n, before), bool), tree.ancestry(parents)], axis=1)
    for row, column in np.argwhere(seen).tolist():
        own = column - before == row
        colour = COLOURS[4] if column < before else COLOURS[0] if own else COLOURS[2]
        sides = [column - 0.44, column + 0.44, -row - 0.44, -row + 0.44]
        note = f"{names[row]} sees {'itself' if own else columns[column]}."
        right.append({"bar": sides, "fill": colour, "note": note})
    right.append({"rule": {"x": before - 0.5}})
    across, down = axis(-0.5, 4.5, "", ()), axis(min(y) - 0.7, 0.6, "", ())
    title = "a tree of drafts, and the positions of its tokens"
    views = [panel(title, across, down, side=8, share=2)]
    across = axis(-0.6, n + before - 0.4, "", [*enumerate(columns)], bare=True)
    down = axis(0.4 - n, 0.6, "", [(-row, name) for row, name in enumerate(names)], bare=True)
    keys = [(COLOURS[4], "the text"), (COLOURS[2], "an ancestor"), (COLOURS[0], "itself")]
    views.append(panel("who looks, and what it sees", across, down))
    return Chart(views, [left, right], keys)


class Trees(Explorer):
    """A tree of drafts after a real text: what may stay, what it yields and what it costs.

    Both models are at work when a control moves, if they were not asked before; chains, and trees
    without a bound, are drafted before one moves: those of ten tosses at every temperature.

    Args:
        target: a model that reads trees.
        draft: a smaller one, of the same vocabulary.
        texts: name -> token ids of a text that goes on.
        pieces: the text of each token id.
        prices: of this machine; ``None``: tokens alone are shown.
    """

    scene, called = "branches", "A tree of drafts, and what it is worth beside a chain"

    def __init__(
        self, target: Any, draft: Any, texts: Mapping[str, Sequence[int]],
        pieces: Sequence[str], prices: Prices | None = None,
    ) -> None:  # fmt: skip
        if not texts:
            raise BadValue("texts must hold one text at least, got none")
        self.target, self.draft, self.prices = target, draft, prices
        self.texts, self.pieces = dict(texts), list(pieces)
        self.chains = lru_cache(None)(self._chains)
        self.trees = lru_cache(None)(self._trees)
        self._said = lru_cache(None)(self._asked)
        self._read = {
            name: [read(model, ids) for model in (target, draft)] for name, ids in texts.items()
        }
        for name, temperature in product(self.texts, TEMPERATURES):
            self._both(name, "rejection", ALL, temperature)
        names = list(self.texts)
        dear = max(prices.tree(MOST, MOST), prices.chain(MOST)) if prices else None
        self.constants = {"most": dear}
        super().__init__(
            text=choice(names[0], names, label="text"),
            rule=choice("match", list(RULES), label="rule"),
            nodes=slider(8, 1, MOST, label="nodes"),
            depth=choice(ALL, [1, 2, 3, 4, 6, ALL], label="longest path"),
            temperature=slider(1.0, TEMPERATURES[0], TEMPERATURES[-1], 0.25),
            toss=slider(4, 0, len(_SEEDS) - 1, label="toss"),
        )

    def _chains(self, text: str, temperature: float) -> ChainRounds:
        """Return the rounds of all tosses with chains."""
        models, read = (self.target, self.draft), self._read[text]
        return ChainRounds(models, self.texts[text], read, MOST, temperature, _SEEDS)

    def _trees(self, text: str, temperature: float, depth: int | None, drawn: bool) -> TreeRounds:
        """Return the rounds of all tosses with trees."""
        said = self._said(text, temperature)
        return TreeRounds(said, MOST, temperature, _SEEDS, depth, drawn)

    def _asked(self, text: str, temperature: float) -> list[Said]:
        """Return what both models say, of all trees at a temperature: what one read, all know."""
        ids, both = self.texts[text], zip((self.target, self.draft), self._read[text], strict=True)
        return [Said(model, ids, cache) for model, cache in both]

    def _both(
        self, text: str, rule: str, depth: int | str, temperature: float
    ) -> tuple[TreeRounds, ChainRounds]:
        """Return the rounds of all tosses, with trees and with chains."""
        bound = None if depth == ALL else depth
        drawn = rule != "match" and temperature > 0
        return self.trees(text, temperature, bound, drawn), self.chains(text, temperature)

    def price(self, name: str, one: Round) -> float:
        """Return what a call with such a round costs, in plain tokens."""
        if self.prices is None:
            raise BadValue("prices must be given to say what a call costs, got None")
        nodes = len(one.drafts)
        return self.prices.tree(nodes, one.forwards) if name == "tree" else self.prices.chain(nodes)

    def compare(
        self, text: str, rule: str, nodes: int, depth: int | str, temperature: float, toss: int = 0
    ) -> tuple[Round, Round]:
        """Return the rounds of a tree and of a chain."""
        trees, chains = self._both(text, rule, depth, temperature)
        return tuple(every.of(_SEEDS[toss], rule, nodes) for every in (trees, chains))

    def compute(
        self, text: str, rule: str, nodes: int, depth: int | str, temperature: float, toss: int
    ) -> dict[str, Any]:
        """Return the tree, the path that stays, the chain, and means of both of ever more nodes.

        A chosen tree's last node is the best that was left out: it would be the next.
        """
        grown, chain = self.compare(text, rule, nodes, depth, temperature, toss)
        path, own = grown.toss(_SEEDS[toss])
        in_line, after = chain.toss(_SEEDS[toss])
        trees, chains = self._both(text, rule, depth, temperature)
        known = grown if trees.drawn or nodes == MOST else trees.of(_SEEDS[toss], rule, nodes + 1)
        depths, rows = layout(known.parents)
        first, drafted = trees.drafted(known)
        roots = [n for n, up in zip(grown.drafts, grown.parents, strict=True) if up < 0]
        ranked = np.argsort(-first, kind="stable").tolist()
        shown = {*ranked[:FIRST], *roots, next(token for token in ranked if token not in roots)}
        likely = [token for token in ranked if token in shown]
        both = {"tree": trees, "chain": chains}
        means = {
            name: float(np.mean([one.expected for one in every.every(rule, nodes)]))
            for name, every in both.items()
        }
        priced = {} if self.prices is None else self._priced(both, rule, nodes, (grown, chain))
        return priced | {
            "text": visible("".join(self.pieces[token] for token in self.texts[text])[-44:]),
            "nodes": nodes,
            "names": [visible(self.pieces[token]) for token in known.drafts],
            "parents": list(known.parents),
            "reach": grown.reach.tolist(),
            "drafted": drafted.tolist(),
            "chosen": not trees.drawn,
            "greedy": temperature == 0,
            "first": [
                [visible(self.pieces[t]), float(first[t]), float(grown.p[0][t]), t in roots]
                for t in likely
            ],
            "path": path,
            "own": visible(self.pieces[own]),
            "depth": depths.tolist(),
            "row": rows.tolist(),
            "forwards": grown.forwards,
            "means": means,
            "chain": [
                (visible(self.pieces[token]), float(stays))
                for token, stays in zip(chain.drafts, chain.reach, strict=True)
            ],
            "kept": len(in_line),
            "after": visible(self.pieces[after]),
            "toss": toss,
        }

    def _priced(
        self, both: Mapping[str, TreeRounds | ChainRounds], rule: str, nodes: int,
        shown: tuple[Round, Round],
    ) -> dict[str, Any]:  # fmt: skip
        """Return what calls cost: in this toss, in each, and on average of ever more nodes."""
        spots = {
            name: {
                count: [[self.price(name, one), one.expected] for one in every.every(rule, count)]
                for count in sorted({*TRAIL, nodes})
            }
            for name, every in both.items()
        }
        costs = self.prices.costs
        return {
            "reading": costs.forward(nodes + 1) / costs.forward(1),
            "costs": {name: self.price(name, one) for name, one in zip(both, shown, strict=True)},
            "trails": {
                name: [[count, *np.mean(each, axis=0).tolist()] for count, each in found.items()]
                for name, found in spots.items()
            },
            "tosses": {name: found[nodes] for name, found in spots.items()},
        }

    def caption(self, data: dict[str, Any]) -> str:
        """Say what stays in this toss, and what a call writes on average."""
        of_tree = [(data["names"][node], data["reach"][node]) for node in data["path"]]
        of_chain = data["chain"][: data["kept"]]
        said = [
            f"“{''.join(name for name, _ in words)}” (chance {_percent(words[-1][1])})"
            if words
            else "nothing"
            for words in (of_tree, of_chain)
        ]
        means = [f"{tokens:.2f} tokens a call" for tokens in data["means"].values()]
        for k, trail in enumerate(data.get("trails", {}).values()):
            ((price, tokens),) = (each for count, *each in trail if count == data["nodes"])
            means[k] += f" (×{tokens / price:.2f} for its price)"
        return (
            f"In this toss {said[0]} of the tree stays, and {said[1]} of the chain. On average a "
            f"tree yields {means[0]}, a chain {means[1]}."
        )


def _percent(share: float) -> str:
    """Return a share in words: what can be is not 0."""
    return "under 1%" if 0 < share < 0.005 else f"{share:.0%}"


def yields_figure(
    ways: Sequence[str],
    theory: Sequence[float],
    engine: Sequence[Sequence[float] | None],
    lead: Sequence[float],
) -> Chart:
    """Draw tokens a call, computed and measured.

    Args:
        ways: of drafting.
        theory: expected tokens a call, one for each.
        engine: for each what the engine yields, the middle and the ends of its interval; or None.
        lead: what the last way has before the one above it, place by place, and its interval.
    """
    marks: list[dict[str, Any]] = []
    most = max(theory)
    for row, (way, bar, ends) in enumerate(zip(ways, theory, engine, strict=True)):
        note = f"{way}: expected {bar:.2f}"
        sides = [0, float(bar), -row - 0.35, -row + 0.35]
        marks.append({"bar": sides, "fill": COLOURS[4], "note": f"{note}."})
        if ends is None:
            marks[-1]["text"] = "engine: not run"
            continue
        middle, low, high = (float(value) for value in ends)
        most = max(most, high)
        marks.append({"line": [[low, -row], [high, -row]]})
        note = f"{note}; the engine {middle:.2f} ({low:.2f} to {high:.2f})."
        marks.append({"dot": [middle, -row], "r": 5, "note": note})
    start, between = float(theory[-2]), 1.5 - len(ways)
    middle, low, high = (start + float(value) for value in lead)
    edge = [[start, between + 0.85], [start, between - 0.85]]
    note = f"{ways[-1]} before {ways[-2]}: {lead[0]:+.2f} ({lead[1]:+.2f} to {lead[2]:+.2f})."
    beside = [high + 0.06, between - 0.12]
    marks += [
        {"line": edge, "colour": LEAD, "dash": "2 3", "wide": 1.5},
        {"line": [[low, between], [high, between]], "colour": LEAD, "wide": 3},
        {"dot": [middle, between], "colour": LEAD, "r": 5, "note": note},
        {"text": f"{lead[0]:+.2f}", "at": beside, "colour": LEAD, "bold": True},
    ]
    keys = [
        (COLOURS[4], "expected"),
        (LEAD, f"lead of the {ways[-1]}, place by place"),
        ("#333333", "engine (each with its 95 % interval)"),
    ]
    names = [(-row, way) for row, way in enumerate(ways)]
    x, y = axis(0, 1.05 * most, ""), axis(0.5 - len(ways), 0.5, "", names, bare=True)
    return Chart([panel("tokens a call", x, y, high=34 * len(ways), side=150)], [marks], keys)


class Worth(ChartExplorer):
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
        self.waiting = np.linspace(0, max(0.4, 1.25 * here), 81)
        extremes = [self.compute(rule, *each) for rule in chains for each in ((0, 0), (0.5, 0.4))]
        found = [1.0, *(gain for data in extremes for gain in (data["chain"], *data["tree"]))]
        self._ends = 0.95 * min(found), 1.05 * max(found)  # all is free, or as dear as can be
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

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw both against the price of waiting; a line across stands at this machine's."""
        series = {"best tree": data["tree"], "best chain": np.full(81, data["chain"])}
        tree_, chain = curves(self.waiting, series, (2, 0))
        marks = [tree_ | {"dash": ""}, chain | {"dash": "7 3"}]
        marks.append({"rule": {"y": 1}, "dash": "2 3"})
        here = {"x": max(0.0, self.here)}
        marks.append({"rule": here, "text": "this machine", "dash": "5 3", "colour": "#B34A00"})
        if data["ahead"] not in {None, self.waiting[-1]}:  # there they cross
            marks.append({"dot": [data["ahead"], max(data["chain"], 1)], "r": 5})
        x = axis(0, self.waiting[-1], "price of waiting for a level, in plain tokens")
        title = "speed-up, in doublings (dotted: plain decoding, ×1)"
        y = axis(*self._ends, "", 2.0 ** np.arange(-4, 6), log=True)
        return Chart([panel(title, x, y, series, high=240)], [marks])

    def caption(self, data: dict[str, Any]) -> str:
        """Say what is best where."""
        best = f"a chain of {data['length']}" if data["chain"] > 1 else "plain decoding"
        if data["ahead"] is None:
            return f"No tree is ahead, even if nobody waits: {best} is."
        return (
            f"A tree is ahead where waiting costs up to {data['ahead']:.2f}, {best} beyond; on "
            f"this machine waiting costs {self.here:.2f}."
        )

"""Pictures of the lesson on blocks: who waits for whom, which pairs agree, and when one decides."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from lablib.course.lessons.lesson_19.continuations import Continuations
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import WARM, axis, curves, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.marks import REST
from lablib.course.plots.pictures import COLOURS, visible
from lablib.validation import BadValue, integer, number, one_of

import numpy as np

KEPT, REFUSED, PLACE, ARROW = "#A6DBC8", "#F3BE6B", "#A9D3F0", "#B34A00"
FATES = {"stays": KEPT, "refused": REFUSED, "behind a refusal": "#DDDDDD"}
TOLD = {0: "nothing", 1: "its neighbour", 2: "two words"}
ALWAYS, BEFORE, AFTER = "always", "before the draw", "after a look at the draw"


def forwards_figure(names: Sequence[str], places: int = 4) -> Chart:
    """Draw which forward fills which place of a block, and who waits for whose word.

    Args:
        names: of what goes on word by word, and of what fills all places at once.
        places: how many.
    """
    views, panels = [], []
    for name, together in zip(names, (False, True), strict=True):
        marks: list[dict[str, Any]] = []
        for place in range(places):
            start = 0 if together else place
            box = [start + 0.08, start + 0.92, -place - 0.4, -place + 0.4]
            note = f"{name}: place {place + 1} is filled by forward {start + 1}."
            marks.append({"bar": box, "fill": PLACE, "text": str(place + 1), "note": note})
            if place and not together:
                down = [[place - 0.08, 1 - place], [place + 0.5, 1 - place], [place + 0.5, -place]]
                marks.insert(0, {"line": [*down[:2], [place + 0.5, 0.4 - place]], "colour": ARROW})
        if together:
            frame = [0.02, 0.98, 0.5 - places, 0.5]
            marks.insert(0, {"bar": frame, "fill": "#FFFFFF", "edge": "#555555"})
        x = axis(0, places, "forwards, one after the other", range(places + 1))
        rows = [(-place, f"place {place + 1}") for place in range(places)]
        panels.append(panel(name, x, axis(0.4 - places, 0.6, "", rows, bare=True), side=62))
        views.append(marks)
    keys = [(PLACE, "a place is filled"), (ARROW, "its word goes into the next forward", "")]
    return Chart(panels, views, keys)


def offer_figure(survival: Sequence[float], block: float, reading: float) -> Chart:
    """Draw what each draft brings for its price as falling steps, and the round's rate as a line.

    Args:
        survival: of each place of a block, from the first on.
        block: the price of the block's forward, in plain tokens.
        reading: the price of reading a draft.
    """
    count = len(survival)
    tokens = 1 + np.append(0, np.cumsum(survival))
    rates = tokens / (1 + block + reading * np.arange(count + 1))
    marks: list[dict[str, Any]] = []
    for n, (brought, without) in enumerate(zip(survival, rates, strict=False), 1):
        step, pays = brought / reading, brought / reading > without
        note = f"Draft {n} brings {step:.2f} for its price; without it the rate is {without:.3f}."
        bar = [n - 0.5, n + 0.5, 0, step]
        marks.append({"bar": bar, "fill": KEPT if pays else REFUSED, "note": note})
        marks.append({"text": f"{step:.2f}", "at": [n, max(step - 0.4, 0.05)], "anchor": "middle"})
    (line,) = curves(np.arange(count + 1) + 0.5, {"the round's rate": rates}, (0,))
    x = axis(0.5, count + 0.5, "drafts that are offered", range(1, count + 1))
    top = np.ceil(max(survival) / reading)
    y = axis(0, top, "", range(int(top) + 1))
    keys = [(KEPT, "brings more than the rate without it"), (REFUSED, "brings less")]
    view = panel("tokens for their price", x, y, ["the round's rate"], high=210)
    return Chart([view], [[*marks, line]], keys)


class Agreement(ChartExplorer):
    """Blocks of two words as a square: how often each is drawn, and what of it stays.

    The first word is one of two, each with ½. After it the target says the word that belongs to it
    with the chance ``sure``. The second place says each with ½, and a Markov head adds a share of
    what the first word changes: ``q ∝ ½ · (2 p)^share``.

    Args:
        first: two words.
        second: those that belong to them.
    """

    def __init__(self, first: Sequence[str], second: Sequence[str]) -> None:
        for name, each in (("first", first), ("second", second)):
            if len(each) != 2:
                raise BadValue(f"{name} must be two words, got {list(each)}")
        self.words = list(first), list(second)
        super().__init__(
            share=slider(0.5, 0.0, 1.0, 0.1, label="of the Markov head"),
            sure=slider(0.95, 0.5, 0.95, 0.05, label="the right word"),
        )

    def compute(self, share: float, sure: float) -> dict[str, Any]:
        """Return p and q of the second word ``(2, 2)``, by the first, and what stays of each."""
        share, sure = number("share", share, 0.0, 1.0), number("sure", sure, 0.5, 0.99)
        p = np.array([[sure, 1 - sure], [1 - sure, sure]])
        q = 0.5 * (2 * p) ** share
        q = q / q.sum(axis=1, keepdims=True)
        stays = np.minimum(1, p / q)
        kept = [1.0, float((0.5 * q * stays).sum())]
        return {"p": p, "q": q, "stays": stays, "kept": kept, "share": share, "sure": sure}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the square without the head, with the chosen share of it, and with all of it."""
        panels, views = [], []
        x = axis(0, 1, "", [*zip((0.25, 0.75), self.words[0], strict=True)], bare=True)
        part = data["share"]
        shares = [("without the head", 0.0), (f"{part:g} of it", part), ("all of it", 1.0)]
        for name, share in shares:
            of_it = self.compute(share, data["sure"])
            title = f"{name}: {sum(of_it['kept']):.2f} of 2 stay"
            panels.append(panel(title, x, axis(0, 1, "", (0, 0.5, 1)), high=150, side=30))
            views.append(self._square(of_it))
        keys = [(KEPT, "the block stays whole"), (REFUSED, "its second word is refused")]
        return Chart(panels, views, keys)

    def _square(self, data: dict[str, Any]) -> list[dict[str, Any]]:
        marks: list[dict[str, Any]] = []
        for x in range(2):
            low = 0.0
            for y in range(2):
                high = low + float(data["q"][x, y])
                pair = f"{self.words[0][x]} {self.words[1][y]}"
                wide = 0.49 * float(data["stays"][x, y])
                note = f"{pair}: drawn in {(high - low) / 2:.0%} of the blocks"
                note = f"{note}, and {data['stays'][x, y]:.0%} of these stay whole."
                key, left = f"{x}{y}", 0.5 * x + 0.005
                sides = [left, left + 0.49, low, high]
                whole = {"bar": sides, "fill": REFUSED, "edge": "#FFFFFF", "note": note}
                marks.append({"key": f"a{key}", **whole})
                part = [left, left + wide, low, high]
                marks.append({"key": f"k{key}", "bar": part, "fill": KEPT, "note": note})
                middle = [left + 0.245, (low + high) / 2 - 0.02]
                named = {"text": pair if high - low > 0.1 else "", "at": middle}
                marks.append({"key": f"t{key}", **named, "anchor": "middle"})
                low = high
        return marks

    def caption(self, data: dict[str, Any]) -> str:
        """Say how many of the two drafts stay."""
        crossed = 0.5 * (data["q"][0, 1] + data["q"][1, 0])
        return (
            f"With {data['share']:g} of the head {sum(data['kept']):.2f} of two drafts stay on "
            f"average; in {crossed:.0%} of the blocks the two words don't belong together."
        )


class Blocks(ChartExplorer):
    """Blocks of real texts, a row for each; from left to right its places are told ever more.

    Args:
        ways: name -> how a text goes on.
        pieces: the text of each token id.
        learned: name -> how many drafts of a trained block stay.
        shown: how many blocks are drawn.
        seed: of the draws.
    """

    def __init__(
        self,
        ways: Mapping[str, Continuations],
        pieces: Sequence[str],
        learned: Mapping[str, float],
        shown: int = 4,
        seed: int = 19,
    ) -> None:
        self.ways, self.pieces, self.learned = dict(ways), list(pieces), dict(learned)
        self.shown, self.seed = shown, seed
        self.kept = {name: [each.kept(told).sum() for told in TOLD] for name, each in ways.items()}
        super().__init__(draw=slider(1, 1, 9, label="other blocks"))

    def compute(self, draw: int) -> dict[tuple[str, int], list[list[tuple[str, str]]]]:
        """Return by a text and what its places are told the drawn blocks, each token with its fate.

        ``draw``: 1 draws the first blocks, 2 the next ones, and so on.
        """
        first = self.shown * (integer("draw", draw, 1) - 1)
        blocks = range(first, first + self.shown)
        return {key: [self._block(*key, k) for k in blocks] for key in product(self.ways, TOLD)}

    def _block(self, text: str, told: int, k: int) -> list[tuple[str, str]]:
        ways = self.ways[text]
        tokens, q = ways.draw(told, np.random.default_rng([self.seed, k]))
        fates, judged = [], np.random.default_rng([self.seed, k, 1]).random(len(tokens))
        for place, (token, said, u) in enumerate(zip(tokens, q, judged, strict=True)):
            if "stays" not in fates[-1:] and place:
                fates.append("behind a refusal")
                continue
            p = ways.p_after(tuple(tokens[:place]))
            chance = 0.0 if p is None else p[token] / said[token]
            fates.append("stays" if u < chance else "refused")
        return [(visible(self.pieces[t]), fate) for t, fate in zip(tokens, fates, strict=True)]

    def chart(self, data: dict[tuple[str, int], list[list[tuple[str, str]]]]) -> Chart:
        """Draw the blocks, and below how many of their drafts stay on average."""
        panels, views = [], []
        for (name, told), blocks in data.items():
            places = len(self.ways[name].places)
            names = [(place, str(place + 1)) for place in range(places)]
            across = axis(-0.55, places - 0.45, "", names, bare=True)
            rows = axis(0.5 - self.shown, 0.5, "", (), bare=True)
            look = {"high": 25 * self.shown, "side": 8, "below": not told}
            panels.append(panel(f"{name}, told {TOLD[told]}", across, rows, **look))
            marks: list[dict[str, Any]] = []
            for (row, block), place in product(enumerate(blocks), range(places)):
                piece, fate = block[place]
                sides = [place - 0.47, place + 0.47, -row - 0.42, -row + 0.42]
                note = f"Block {row + 1}, place {place + 1}: “{piece}”, {fate}."
                look = {"fill": FATES[fate], "text": piece, "note": note}
                marks.append({"key": f"b{row}.{place}", "bar": sides, **look})
            views.append(marks)
        for i, (name, kept) in enumerate(self.kept.items()):
            most = len(self.ways[name].places)
            names = [*enumerate((*TOLD.values(), "trained block"))]
            across, up = axis(-0.6, 3.6, "", names, bare=True), axis(0, 1.2 * most, "", (0, most))
            title = f"{name}: of {most} drafts stay"
            panels.append(panel(title, across, up, high=90, side=22, below=not i))
            bars = []
            for at, (value, colour) in enumerate(
                zip((*kept, self.learned[name]), (*[COLOURS[2]] * 3, COLOURS[0]), strict=True)
            ):
                bars.append({"bar": [at - 0.35, at + 0.35, 0, value], "fill": colour})
                said = {"text": f"{value:.2f}", "at": [at, value + 0.1]}
                bars.append({"key": f"s{at}", **said, "anchor": "middle"})
            views.append(bars)
        return Chart(panels, views, [(colour, fate) for fate, colour in FATES.items()])

    def caption(self, data: Any) -> str:
        """Say how many drafts stay."""
        told = ", ".join(f"told {each}" for each in TOLD.values())
        texts = [
            f"{name} {', '.join(f'{x:.2f}' for x in (*kept, self.learned[name]))}"
            for name, kept in self.kept.items()
        ]
        return f"Of a block's drafts stay, {told}, and of a trained block: {'; '.join(texts)}."


class Offered(ChartExplorer):
    """A draft that is offered or not, decided before the draw or after it, and what is written.

    The target says *yes* and *no* with ½ each, the draft *yes* with ``q``. Before the draw the
    confidence is Σ min(p, q), after it min(1, p(x)/q(x)). A draft is offered if its confidence
    reaches the ``bound``, and judged by rejection.
    """

    def __init__(self) -> None:
        super().__init__(
            decides=choice(AFTER, [ALWAYS, BEFORE, AFTER], label="is offered"),
            q=slider(0.7, 0.5, 0.95, 0.05, label="the draft's chance of yes"),
            bound=slider(0.75, 0.0, 1.0, 0.05, label="least confidence"),
        )

    def compute(self, decides: str, q: float, bound: float) -> dict[str, Any]:
        """Return what is written ``(2,)``, and the chances to be kept, refused, not offered."""
        p, drawn = np.array([0.5, 0.5]), np.array([q, 1 - q])
        stays = np.minimum(1, p / drawn)
        confidence = {
            ALWAYS: np.ones(2),
            BEFORE: np.full(2, np.minimum(p, drawn).sum()),
            AFTER: stays,
        }[one_of("decides", decides, (ALWAYS, BEFORE, AFTER))]
        offered = (confidence >= bound - 1e-9) if decides != ALWAYS else np.ones(2, bool)
        kept = drawn * offered * stays
        refused = float((drawn * offered).sum() - kept.sum())
        dropped = float((drawn * ~offered).sum())
        rest = np.maximum(p - drawn, 0)
        after = rest / rest.sum() if rest.sum() > 0 else p
        return {
            "written": kept + refused * after + dropped * p,
            "shares": [float(kept.sum()), refused, dropped],
            "decides": decides,
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the order of events, what is written within what the target says, and the shares."""
        flow: list[dict[str, Any]] = []
        for row, order in enumerate((AFTER, BEFORE)):
            looks, chosen = order == AFTER, data["decides"] == order
            middle = ("x", "offer?") if looks else ("offer?", "x")
            for place, event in enumerate(("text, drafts", "q", *middle, "judged")):
                if place:
                    late = event == "offer?" and looks and chosen
                    look = {"colour": ARROW if late else WARM, "wide": 4 if late else 2}
                    flow.append({"line": [[place - 0.58, -row], [place - 0.42, -row]], **look})
                asked = event == "offer?" and chosen
                fill = "#FFFFFF" if not asked else REFUSED if looks else KEPT
                box = [place - 0.42, place + 0.42, -row - 0.4, -row + 0.4]
                flow.append({"bar": box, "fill": fill, "edge": "#555555", "text": event})
        bars = []
        for i, (word, share) in enumerate(
            zip(("yes", "no"), data["written"].tolist(), strict=True)
        ):
            note = f"{word} is written in {share:.0%} of the rounds; the target says it in 50%."
            outline = {"bar": [i - 0.42, i + 0.42, 0, 0.5], "fill": WARM, "hollow": True}
            bars += [{**outline, "note": note}]
            bars += [{"bar": [i - 0.3, i + 0.3, 0, share], "fill": COLOURS[0], "note": note}]
            bars += [{"text": f"{share:.2f}", "at": [i, share + 0.03], "anchor": "middle"}]
        ends = []
        for i, (share, colour) in enumerate(
            zip(data["shares"], (KEPT, REFUSED, REST), strict=True)
        ):
            ends.append({"bar": [i - 0.35, i + 0.35, 0, share], "fill": colour})
            ends.append({"text": f"{share:.2f}", "at": [i, share + 0.03], "anchor": "middle"})
        across, orders = axis(-0.5, 4.5, "", (), bare=True), [(0, "after the draw"), (-1, BEFORE)]
        rows, title = axis(-1.5, 0.5, "", orders, bare=True), "which comes first (x is the draft)"
        first = panel(title, across, rows, high=76, side=105)
        words = axis(-0.6, 1.6, "", [(0, "yes"), (1, "no")], bare=True)
        written = panel("what is written", words, axis(0, 1.1, "", (0, 0.5, 1)), below=True)
        names = axis(-0.6, 2.6, "", [*enumerate(("kept", "refused", "not offered"))], bare=True)
        what = panel("what becomes of the draft", names, axis(0, 1.1, "", (0, 0.5, 1)))
        return Chart([first, written, what], [flow, bars, ends], [(WARM, "the target's own", True)])

    def caption(self, data: dict[str, Any]) -> str:
        """Say what is written, and how many drafts are read in vain."""
        yes = data["written"][0]
        verdict = "as the target says it" if abs(yes - 0.5) < 1e-9 else "where the target says 50%"
        kept, refused, dropped = data["shares"]
        return (
            f"Yes is written in {yes:.0%} of the rounds, {verdict}. Kept are {kept:.0%}, refused "
            f"{refused:.0%}, not offered {dropped:.0%}."
        )

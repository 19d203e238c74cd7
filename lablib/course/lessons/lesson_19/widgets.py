"""Pictures of the lesson on blocks: who waits for whom, which pairs agree, and when one decides."""

from collections.abc import Mapping, Sequence
from typing import Any

from lablib.course.lessons.lesson_19.continuations import Continuations
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import WARM, axis, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.marks import REST
from lablib.course.plots.pictures import COLOURS, visible
from lablib.validation import BadValue, number, one_of

import numpy as np

KEPT, REFUSED, PLACE, ARROW = "#A6DBC8", "#F3BE6B", "#A9D3F0", "#B34A00"
FATES = {"stays": KEPT, "refused": REFUSED, "behind a refusal": "#DDDDDD"}
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
            share=slider(0.0, 0.0, 1.0, 0.1, label="of the Markov head"),
            sure=slider(0.95, 0.5, 0.95, 0.05, label="the right word"),
        )

    def compute(self, share: float, sure: float) -> dict[str, Any]:
        """Return p and q of the second word ``(2, 2)``, by the first, and what stays of each."""
        share, sure = number("share", share, 0.0, 1.0), number("sure", sure, 0.5, 0.99)
        p = np.array([[sure, 1 - sure], [1 - sure, sure]])
        q = 0.5 * (2 * p) ** share
        q = q / q.sum(axis=1, keepdims=True)
        stays = np.minimum(1, p / q)
        return {"p": p, "q": q, "stays": stays, "kept": [1.0, float((0.5 * q * stays).sum())]}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the square, and beside it how often each place stays."""
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
        bars = []
        for place, kept in enumerate(data["kept"]):
            note = f"Place {place + 1} stays in {kept:.0%} of the blocks."
            bars.append({"bar": [place - 0.3, place + 0.3, 0, kept], "fill": KEPT, "note": note})
            bars.append({"text": f"{kept:.2f}", "at": [place, kept + 0.03], "anchor": "middle"})
        x = axis(
            0,
            1,
            "blocks, by their first word",
            [*zip((0.25, 0.75), self.words[0], strict=True)],
            bare=True,
        )
        square = panel("all blocks that are drawn", x, axis(0, 1, "", (0, 0.5, 1)), share=2)
        places = axis(-0.6, 1.6, "place", [(0, "1"), (1, "2")], bare=True)
        beside = panel("how often it stays", places, axis(0, 1.15, "", (0, 0.5, 1)))
        keys = [(KEPT, "the block stays whole"), (REFUSED, "its second word is refused")]
        return Chart([square, beside], [marks, bars], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Say how many of the two drafts stay."""
        crossed = 0.5 * (data["q"][0, 1] + data["q"][1, 0])
        return (
            f"Of two drafts {sum(data['kept']):.2f} stay on average; in {crossed:.0%} of the "
            "blocks the two words don't belong together."
        )


class Blocks(ChartExplorer):
    """Blocks of a real text, whose places are told ever more of what stands before them.

    Args:
        ways: name -> how a text goes on.
        pieces: the text of each token id.
        shown: how many blocks are drawn.
        seed: of the draws.
    """

    def __init__(
        self,
        ways: Mapping[str, Continuations],
        pieces: Sequence[str],
        shown: int = 6,
        seed: int = 19,
    ) -> None:
        self.ways, self.pieces, self.shown, self.seed = dict(ways), list(pieces), shown, seed
        self.most = max(len(each.places) for each in self.ways.values())
        super().__init__(
            text=choice(next(iter(self.ways)), list(self.ways)),
            told=slider(0, 0, self.most - 1, label="words it is told"),
        )

    def compute(self, text: str, told: int) -> dict[str, Any]:
        """Return drawn blocks with each token's fate, and how often each place stays."""
        ways = self.ways[one_of("text", text, self.ways)]
        blocks = []
        for k in range(self.shown):
            rng = np.random.default_rng([self.seed, k])
            tokens, q = ways.draw(told, rng)
            fates, judged = [], np.random.default_rng([self.seed, k, 1]).random(len(tokens))
            for place, (token, said, u) in enumerate(zip(tokens, q, judged, strict=True)):
                if "stays" not in fates[-1:] and place:
                    fates.append("behind a refusal")
                    continue
                p = ways.p_after(tuple(tokens[:place]))
                chance = 0.0 if p is None else p[token] / said[token]
                fates.append("stays" if u < chance else "refused")
            blocks.append(
                [(visible(self.pieces[t]), f) for t, f in zip(tokens, fates, strict=True)]
            )
        kept, most = ways.kept(told), ways.kept(self.most - 1)
        return {"blocks": blocks, "kept": kept, "most": most, "told": told}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the blocks, row by row, and the places' chances within the most that can stay."""
        marks: list[dict[str, Any]] = []
        for row, block in enumerate(data["blocks"]):
            for place, (piece, fate) in enumerate(block):
                sides = [place - 0.46, place + 0.46, -row - 0.4, -row + 0.4]
                note = f"Block {row + 1}, place {place + 1}: “{piece}”, {fate}."
                look = {"fill": FATES[fate], "text": piece, "note": note}
                marks.append({"key": f"b{row}.{place}", "bar": sides, **look})
        bars: list[dict[str, Any]] = []
        pairs = zip(data["kept"].tolist(), data["most"].tolist(), strict=True)
        for place, (kept, most) in enumerate(pairs):
            note = f"Place {place + 1} stays in {kept:.2f} of the rounds, at most in {most:.2f}."
            outline = {"bar": [place - 0.42, place + 0.42, 0, most], "fill": WARM, "hollow": True}
            bars.append({**outline, "note": note})
            bar = {"bar": [place - 0.3, place + 0.3, 0, kept], "fill": COLOURS[2]}
            bars.append({**bar, "note": note})
            said = {"text": f"{kept:.2f}", "at": [place, min(kept, 1) + 0.03]}
            bars.append({"key": f"s{place}", **said, "anchor": "middle"})
        names = [(place, str(place + 1)) for place in range(self.most)]
        across = axis(-0.6, self.most - 0.4, "place", names, bare=True)
        rows = axis(0.5 - self.shown, 0.5, "", (), bare=True)
        drawn = panel("blocks that such places draw", across, rows, share=2, side=8)
        beside = panel("how often it stays", across, axis(0, 1.15, "", (0, 0.5, 1)))
        keys = [(colour, fate) for fate, colour in FATES.items()]
        keys.append((WARM, "told all words before it", True))
        return Chart([drawn, beside], [marks, bars], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Say how many drafts stay, and what a place is told."""
        many = ("nothing", "its neighbour")
        told = many[data["told"]] if data["told"] < 2 else f"the {data['told']} words before it"
        return (
            f"A place that is told {told}: of {len(data['kept'])} drafts {data['kept'].sum():.2f} "
            f"stay on average, at most {data['most'].sum():.2f}."
        )


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
        looks = data["decides"] == AFTER
        events = ["text, drafts", "q", *(("x", "offer?") if looks else ("offer?", "x")), "judged"]
        flow: list[dict[str, Any]] = []
        for place, event in enumerate(events):
            if place:
                late = event == "offer?" and looks
                colour = ARROW if late else WARM
                line = [[place - 0.58, 0], [place - 0.42, 0]]
                flow.append({"line": line, "colour": colour, "wide": 4 if late else 2})
            fill = "#FFFFFF" if event != "offer?" else REFUSED if looks else KEPT
            box = [place - 0.42, place + 0.42, -0.4, 0.4]
            flow.append({"bar": box, "fill": fill, "edge": "#555555", "text": event})
        bars = []
        for i, (word, share) in enumerate(
            zip(("yes", "no"), data["written"].tolist(), strict=True)
        ):
            note = f"{word} is written in {share:.0%} of the rounds; the target says it in 50%."
            outline = {"bar": [i - 0.42, i + 0.42, 0, 0.5], "fill": WARM, "hollow": True}
            bars += [{**outline, "note": note}]
            bars += [{"bar": [i - 0.3, i + 0.3, 0, share], "fill": COLOURS[0], "note": note}]
            bars += [
                {"text": f"{share:.2f}", "at": [i, max(share, 0.5) + 0.03], "anchor": "middle"}
            ]
        ends = []
        for i, (share, colour) in enumerate(
            zip(data["shares"], (KEPT, REFUSED, REST), strict=True)
        ):
            ends.append({"bar": [i - 0.35, i + 0.35, 0, share], "fill": colour})
            ends.append({"text": f"{share:.2f}", "at": [i, share + 0.03], "anchor": "middle"})
        across, level = axis(-0.5, 4.5, "", (), bare=True), axis(-0.5, 0.5, "", (), bare=True)
        first = panel("what happens, in its order (x is the draft)", across, level, high=44, side=8)
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

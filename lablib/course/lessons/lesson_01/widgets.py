"""Pictures of the lesson from logits to text: a draw, a next token, and counts against theory."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from lablib.course.plots.chart import Chart
from lablib.course.plots.charts import WARM, axis, panel
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.marks import DARK, LIGHT, REST, bars_across, number, ranked
from lablib.course.plots.pictures import visible
from lablib.course.plots.strips import LOOKS, sureness

import mlx.core as mx
import numpy as np
from scipy.special import softmax

Measured = tuple[float, float, float]  # middle, low, high


class Draw(Explorer):
    """One draw: the line from 0 to 1, cut into one piece for each token, and where u falls.

    Args:
        words: the vocabulary.
        logits: one score for each word.
    """

    scene, called = "dart", "The line from 0 to 1, a piece for each word, and where the dart falls"
    engine: ClassVar = {"name": "dart", "prompt": "On a sunny day, Mia finds"}
    parts: ClassVar = {"line": ("temperature",)}

    def __init__(self, words: Sequence[str], logits: Sequence[float]) -> None:
        self.words, self.logits = list(words), np.array(logits, dtype=np.float64)
        self.constants = {"words": self.words}
        super().__init__(
            u=slider(0.6, 0.0, 0.99, 0.01, label="dart u"),
            temperature=slider(1.0, 0.1, 3.0, 0.1),
        )

    def compute(self, u: float, temperature: float) -> dict[str, Any]:
        """Return the probabilities ``(V,)``, where each piece ends ``(V,)``, and the token."""
        probabilities = softmax(self.logits / temperature)
        ends = np.cumsum(probabilities)
        token = int(np.argmax(ends > u * ends[-1]))
        found = {"u": u, "probabilities": probabilities, "ends": ends, "token": token}
        return found | self.line(temperature)

    def line(self, temperature: float) -> dict[str, Any]:
        """Return how long the pieces are, and what is said of each."""
        pieces = softmax(self.logits / temperature)
        notes = [
            f"{word}: from {end - piece:.3f} to {end:.3f}, a piece of {piece:.3f}."
            for word, piece, end in zip(self.words, pieces, np.cumsum(pieces), strict=True)
        ]
        return {"pieces": pieces.tolist(), "notes": notes}

    def draw(self, data: dict[str, Any]) -> dict[str, Any]:
        """Draw the pieces side by side, and the dart at u."""
        return {name: data[name] for name in ("u", "pieces", "notes")}

    def caption(self, data: dict[str, Any]) -> str:
        """Name the token and its piece of the line."""
        i = data["token"]
        width, end = data["probabilities"][i], data["ends"][i]
        return (
            f"u = {data['u']:.2f} falls between {end - width:.2f} and {end:.2f}, so the token is "
            f"'{self.words[i]}', whose probability is {width:.2f}."
        )


class NextToken(Explorer):
    """A model's expectation at each place of a text, beside the token that came.

    Args:
        model: a language model.
        texts: name -> token ids; each is read once, in advance.
        words: the token of every id.
        position: which place is shown first.
    """

    SHOWN = 8
    scene, called = "reading", "What a model expects at a place of a text"
    engine: ClassVar = {"name": "expected", "prompt": "On a sunny day, Mia finds"}

    def __init__(
        self, model: Any, texts: Mapping[str, list[int]], words: Sequence[str], position: int = 1
    ) -> None:
        self.texts, self.words = dict(texts), list(words)
        self.logits = {name: _read(model, ids) for name, ids in texts.items()}
        first = next(iter(texts))
        panel = ranked(self.SHOWN + 1, "at the frame", end=1.6)
        about = {"looks": LOOKS, "about": "at this temperature", "beside": 0.58, "panels": [panel]}
        self.constants = {"texts": [self._tokens(name) for name in texts], **about}
        super().__init__(
            text=choice(first, list(texts)),
            position=slider(position, 1, max(map(len, self.texts.values())) - 1),
            temperature=slider(1.0, 0.1, 3.0, 0.1),
        )

    def ends(self, position: int, temperature: float, text: str) -> dict[str, float]:
        """Return that the position ends where the text does."""
        return {"position": len(self.texts[text]) - 1}

    def compute(self, position: int, temperature: float, text: str) -> dict[str, Any]:
        """Return the best tokens at a place with their probabilities, and how the text fared.

        A place beyond the end of the text is its last one.
        """
        ids = self.texts[text]
        position = min(position, len(ids) - 1)
        every = softmax(self.logits[text] / temperature, axis=-1)
        here = every[position - 1]
        best = np.argsort(-self.logits[text][position - 1], kind="stable")[: self.SHOWN]
        positive = here[here > 0]
        return {
            "text": text,
            "position": position,
            "best": best.tolist(),
            "chances": here[best],
            "came": ids[position],
            "came_with": float(here[ids[position]]),
            "entropy": float(-(positive * np.log2(positive)).sum()),
            "read": every[np.arange(len(ids) - 1), ids[1:]],
        }

    def draw(self, data: dict[str, Any]) -> dict[str, Any]:
        """Draw the text, its marked place, and the best tokens there."""
        read = data["read"].tolist()
        names = [visible(self.words[i]) for i in data["best"]] + ["all others"]
        chances = [*data["chances"].tolist(), max(0.0, 1 - float(data["chances"].sum()))]
        says = [number(p) for p in chances]
        colours = [LIGHT] * self.SHOWN + [REST]
        own = [*data["best"], data["came"]].index(data["came"])  # the last row is of all others
        says[own] += " ← came"
        colours[own] = DARK
        for row, p in enumerate(chances):
            if row != own and p < 0.0005:
                names[row] = says[row] = ""
        tokens = zip(self._tokens(data["text"]), read, strict=True)
        notes = [f"“{token.strip()}”: {number(p)} at this temperature." for token, p in tokens]
        title = f"at the frame (entropy: {data['entropy']:.1f} bits)"
        return {
            "text": list(self.texts).index(data["text"]),
            "looks": [sureness(p) for p in read],
            "notes": notes,
            "marked": data["position"] - 1,
            "panels": [bars_across(names, chances, colours, says) | {"title": title}],
        }

    def caption(self, data: dict[str, Any]) -> str:
        """Name the token that came and its probability; and the likeliest, if it is another."""
        best, came = (visible(self.words[i]) for i in (data["best"][0], data["came"]))
        other = f"; the likeliest was '{best}' with {data['chances'][0]:.2f}"
        return (
            f"At place {data['position']} of {data['text']} '{came}' came, which had probability "
            f"{data['came_with']:.2f}{', the highest' if best == came else other}."
        )

    def _tokens(self, text: str) -> list[str]:
        return [self.words[i] for i in self.texts[text][1:]]


def frequencies(
    words: Sequence[str], theory: Sequence[float], measured: Sequence[Measured]
) -> Chart:
    """Draw measured frequencies with their intervals, within exact probabilities.

    Args:
        words: the tokens, with their spaces.
        theory: heights of the outlines.
        measured: for each, the frequency and its interval.
    """
    marks: list[dict[str, Any]] = []
    names = [*map(visible, words)]
    for row, (word, p, (middle, low, high)) in enumerate(zip(names, theory, measured, strict=True)):
        note = f"{word}: softmax {p:.3f}, measured {middle:.3f}, {low:.3f} to {high:.3f}."
        outline = {"bar": [0, p, -row - 0.4, -row + 0.4], "fill": WARM, "hollow": True}
        bar = {"bar": [0, middle, -row - 0.28, -row + 0.28], "fill": LIGHT, "note": note}
        marks += [outline, bar, {"line": [[low, -row], [high, -row]], "wide": 1.5}]
    x = axis(0, 1.1 * max(*theory, *(high for _, _, high in measured)), "probability", grid=True)
    y = axis(0.5 - len(words), 0.5, "", [(-row, word) for row, word in enumerate(names)], bare=True)
    keys = [(WARM, "softmax", True), (LIGHT, "measured, with 95 % interval")]
    return Chart([panel("next token", x, y, high=24 * len(words), side=70)], [marks], keys)


def perplexities(rows: Mapping[str, Measured], tokens: int) -> Chart:
    """Draw perplexities with their intervals, one row each: all of them, and those below 2 closer.

    Args:
        rows: name -> the perplexity and its interval.
        tokens: how many there are, the perplexity of who knows nothing: a line.
    """
    close = {name: each for name, each in rows.items() if each[2] < 2}
    end = max(high for _, _, high in rows.values())
    powers = 10.0 ** np.arange(0, np.ceil(np.log10(end)) + 1, 2)
    wide = axis(1, max(end, powers[-1]), "", powers, grid=True, log=True)
    _, lows, highs = zip(*close.values(), strict=True)
    narrow = axis(min(lows) - 0.02, max(highs) + 0.02, grid=True)
    nothing = {"rule": {"x": tokens}, "dash": "5 3", "text": f"{tokens}: knows nothing"}
    views = [
        ("perplexity (1: sure of every token)", rows, wide, [nothing]),
        ("the same, closer", close, narrow, []),
    ]
    panels, drawn = [], []
    for title, shown, x, marks in views:
        for row, (name, (middle, low, high)) in enumerate(shown.items()):
            note = f"{name}: {middle:,.3f}, 95 % interval {low:,.3f} to {high:,.3f}."
            said = f"{middle:.3f}" if middle < 100 else f"{middle:,.0f}"
            marks.append({"line": [[low, -row], [high, -row]], "colour": DARK})
            marks.append({"dot": [middle, -row], "colour": DARK, "r": 6, "note": note})
            marks.append({"text": said, "at": [middle, 0.24 - row], "anchor": "middle"})
        names = [(-row, name) for row, name in enumerate(shown)]
        y = axis(0.5 - len(shown), 0.5, "", names, bare=True)
        panels.append(panel(title, x, y, high=36 * len(rows), side=110))
        drawn.append(marks)
    return Chart(panels, drawn)


def _read(model: Any, ids: list[int]) -> np.ndarray:
    """Return the logits ``(T, V)``; row i is about token i + 1."""
    return np.array(model(mx.array([ids]))[0].astype(mx.float32), dtype=np.float64)

"""Pictures of the lesson from logits to text: a draw, a next token, and counts against theory."""

from collections.abc import Mapping, Sequence
from typing import Any

from lablib.course.plots import strips
from lablib.course.plots.charts import COLOURS, figure, style
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.strips import add_axes, canvas, draw_surprise, name_bars

import mlx.core as mx
import numpy as np
from matplotlib.figure import Figure

Measured = tuple[float, float, float]  # middle, low, high


class Draw(Explorer):
    """One draw: the line from 0 to 1, cut into one piece for each token, and where u falls.

    Args:
        words: the vocabulary.
        logits: one score for each word.
    """

    def __init__(self, words: Sequence[str], logits: Sequence[float]) -> None:
        self.words, self.logits = list(words), np.array(logits, dtype=np.float64)
        super().__init__(
            u=slider(0.6, 0.0, 0.99, 0.01, label="dart u"),
            temperature=slider(1.0, 0.1, 3.0, 0.1),
        )

    def compute(self, u: float, temperature: float) -> dict[str, Any]:
        """Return the probabilities ``(V,)``, where each piece ends ``(V,)``, and the token."""
        probabilities = softmax(self.logits / temperature)
        ends = np.cumsum(probabilities)
        token = int(np.argmax(ends > u * ends[-1]))
        return {"u": u, "probabilities": probabilities, "ends": ends, "token": token}

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw the pieces side by side, the chosen one darker, with an arrow at u."""
        fig = canvas(1.9)
        with style():
            axes = add_axes(fig, 0.3, 0.1, 7.4, 1.3)
            for i, (width, end) in enumerate(zip(data["probabilities"], data["ends"], strict=True)):
                chosen = i == data["token"]
                fill = {"color": COLOURS[0 if chosen else 4], "alpha": 1.0 if chosen else 0.55}
                axes.barh(0, width, 1, end - width, edgecolor="white", linewidth=2, **fill)
                text = f"{self.words[i]}\n{width:.2f}" if width > 0.075 else self.words[i]
                look = {"ha": "center", "va": "center", "color": "white" if chosen else "black"}
                if width > 0.012 * len(self.words[i]):
                    axes.text(end - width / 2, 0, text, size=12, **look)
            arrow = {"arrowstyle": "-|>", "lw": 2.5, "color": "black", "mutation_scale": 22}
            axes.annotate("", (data["u"], 0.5), (data["u"], 1.25), arrowprops=arrow)
            side = "left" if data["u"] < 0.85 else "right"
            shift = 0.012 if side == "left" else -0.012
            axes.text(data["u"] + shift, 1.0, f"u = {data['u']:.2f}", size=12, ha=side)
            axes.set(xlim=(0, 1), ylim=(-0.5, 1.4), yticks=[], xlabel="cumulative probability")
            axes.spines["left"].set_visible(False)
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Name the token and its piece of the line."""
        i = data["token"]
        width, end = data["probabilities"][i], data["ends"][i]
        return (
            f"u = {data['u']:.2f} falls between {end - width:.2f} and {end:.2f}, so the token is "
            f"'{self.words[i]}', whose probability is {width:.2f}."
        )


class NextToken(Explorer):
    """What a model expects at each place of a text, and what came.

    Args:
        model: a language model.
        texts: name -> token ids; each is read once, in advance.
        words: the token of every id.
        position: which place is shown first.
    """

    SHOWN = 8

    def __init__(
        self, model: Any, texts: Mapping[str, list[int]], words: Sequence[str], position: int = 1
    ) -> None:
        self.texts, self.words = dict(texts), list(words)
        self.logits = {name: _read(model, ids) for name, ids in texts.items()}
        first = next(iter(texts))
        self.top = 0.15 + max(strips.height(self._tokens(name)) for name in texts)
        super().__init__(  # the text first: it says how far the position goes
            text=choice(first, list(texts)),
            position=slider(position, 1, len(texts[first]) - 1),
            temperature=slider(1.0, 0.1, 3.0, 0.1),
        )
        self.controls["text"].observe(self._end_with_the_text, "value")

    def _end_with_the_text(self, change: Any) -> None:
        self.controls["position"].max = len(self.texts[change["new"]]) - 1

    def compute(self, position: int, temperature: float, text: str) -> dict[str, Any]:
        """Return the best tokens at a place with their probabilities, and how the text fared.

        A place beyond the end of the text is its last one.
        """
        ids = self.texts[text]
        position = min(position, len(ids) - 1)
        every = softmax(self.logits[text] / temperature)
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

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw the text above the best tokens at its marked place."""
        tokens = self._tokens(data["text"])
        fig = canvas(self.top + 3.1)
        strip = strips.height(tokens)
        names = [self._name(i) for i in data["best"]] + ["all others"]
        chances = [*data["chances"], max(0.0, 1 - data["chances"].sum())]
        with style():
            above = add_axes(fig, 0, 0, 8, strip)
            draw_surprise(above, tokens, data["read"], mark=data["position"] - 1)
            axes = add_axes(fig, 1.6, self.top + 0.15, 5.1, 2.35)
            came = [i == data["came"] for i in data["best"]] + [data["came"] not in data["best"]]
            colours = [COLOURS[4]] * self.SHOWN + ["#999999"]
            colours = [COLOURS[0] if own else c for own, c in zip(came, colours, strict=True)]
            hatches = ["///" if own else "" for own in came]
            look = {"color": colours, "hatch": hatches, "edgecolor": "white"}
            axes.barh(range(self.SHOWN + 1), chances, 0.78, **look)
            for y, (own, chance) in enumerate(zip(came, chances, strict=True)):
                if own or chance >= 0.005:  # a list of impossible tokens helps nobody
                    note = f"{chance:.2f}" + ("  ← came" if own else "")
                    axes.text(chance + 0.01, y, note, size=11, va="center")
                else:
                    names[y] = ""
            name_bars(axes, names, across=True)
            axes.set(xlim=(0, 1), ylim=(self.SHOWN + 0.5, -0.5), xlabel="probability")
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Name the token that came, its probability, and the entropy there."""
        return (
            f"At place {data['position']} of {data['text']} the likeliest token is "
            f"'{self._name(data['best'][0])}' with probability {data['chances'][0]:.2f}. "
            f"'{self._name(data['came'])}' came, which had {data['came_with']:.2f}. The entropy "
            f"is {data['entropy']:.1f} bits."
        )

    def _tokens(self, text: str) -> list[str]:
        return [self.words[i] for i in self.texts[text][1:]]

    def _name(self, i: int) -> str:
        return self.words[i].replace(" ", "␣") or "∅"


def frequencies(
    words: Sequence[str], theory: Sequence[float], measured: Sequence[Measured]
) -> Figure:
    """Draw exact probabilities as bars and measured ones as points with intervals.

    Args:
        words: names of the bars.
        theory: their heights.
        measured: for each, the frequency and its interval.
    """
    fig = figure(7.0, 3.4)
    x = np.arange(len(words))
    middle, low, high = np.array(measured).T
    with style():
        axes = fig.subplots()
        axes.bar(x, theory, 0.7, color=COLOURS[4], alpha=0.6, label="softmax")
        spread = (middle - low, high - middle)
        look = {"color": "black", "capsize": 6, "ms": 5, "lw": 1.8}
        axes.errorbar(x, middle, spread, fmt="o", label="measured, 95 % interval", **look)
        axes.set_xticks(x, words)
        axes.set(xlabel="next token", ylabel="probability")
        axes.legend(loc="upper right")
    return fig


def perplexities(rows: Mapping[str, Measured]) -> Figure:
    """Draw perplexities with their intervals, one row each."""
    fig = figure(7.0, 1.1 + 0.42 * len(rows))
    with style():
        axes = fig.subplots()
        for y, (middle, low, high) in enumerate(rows.values()):
            look = {"color": COLOURS[0], "capsize": 6, "ms": 7, "lw": 2}
            axes.errorbar(middle, y, xerr=[[middle - low], [high - middle]], fmt="o", **look)
            axes.annotate(
                f"{middle:.2f}", (high, y), (8, 0), textcoords="offset points", va="center"
            )
        axes.set_yticks(range(len(rows)), rows)
        axes.set(xlabel="perplexity (as if choosing among so many tokens)")
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.margins(x=0.15)
        axes.grid(axis="x", color="#DDDDDD")
    return fig


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _read(model: Any, ids: list[int]) -> np.ndarray:
    """Return the logits ``(T, V)``; row i is about token i + 1."""
    logits = model(mx.array([ids]))[0].astype(mx.float32)
    return np.array(logits, dtype=np.float64)

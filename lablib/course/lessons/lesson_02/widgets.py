"""Widgets of the lesson on the KV cache: what it saves, and what it costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lablib.course.plots.charts import COLOURS, figure, lines, style
from lablib.course.plots.explorer import Explorer, choice, slider

import mlx.nn as nn
import numpy as np
from matplotlib.figure import Figure
from mlx.utils import tree_flatten


class CacheCost(Explorer):
    """Tokens that go through the model as a text grows, with and without a cache."""

    def __init__(self) -> None:
        super().__init__(
            prompt=slider(32, 1, 256, label="prompt tokens"),
            new=slider(64, 2, 256, label="new tokens"),
        )

    def compute(self, prompt: int, new: int) -> dict[str, np.ndarray]:
        """Return the tokens read after each written token: ``(new,)`` for either way."""
        written = np.arange(1, new + 1)
        return {
            "written": written,
            "without a cache": np.cumsum(prompt + written - 1),
            "with a cache": prompt + written - 1,
        }

    def draw(self, data: dict[str, np.ndarray]) -> Figure:
        """Draw both counts as they grow."""
        series = {name: data[name] for name in ("without a cache", "with a cache")}
        return lines(data["written"], series, "tokens written", "token-forwards in all")

    def caption(self, data: dict[str, np.ndarray]) -> str:
        """Name both totals and their ratio."""
        without, cached = int(data["without a cache"][-1]), int(data["with a cache"][-1])
        return (
            f"To write {len(data['written'])} tokens the model reads {without:,} tokens without "
            f"a cache and {cached:,} with one: {without / cached:.1f} times fewer."
        )


@dataclass(frozen=True)
class Shape:
    """What decides the size of a model's cache, and of the model.

    Attributes:
        layers: how many.
        heads: query heads of a layer.
        kv_heads: key/value heads of a layer.
        head_dim: numbers in one key.
        weights: how many the whole model has.
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    weights: float

    @classmethod
    def of(cls, model: nn.Module) -> "Shape":
        """Return the shape of one of the lab's models."""
        config = model.config
        heads = config.num_attention_heads, config.num_key_value_heads
        weights = sum(array.size for _, array in tree_flatten(model.parameters()))
        return cls(config.num_hidden_layers, *heads, config.head_dim, weights)


LARGE = {  # as Llama 3's (Grattafiori et al. 2024, 2407.21783)
    "8 billion (32 layers)": Shape(32, 32, 8, 128, weights=8e9),
    "70 billion (80 layers)": Shape(80, 64, 8, 128, weights=70e9),
}


class CacheMemory(Explorer):
    """Memory of a cache for different models, lengths and precisions.

    Args:
        shapes: name -> shape, the first is shown first.
    """

    GROUP = 64  # numbers that share one scale and one offset of 16 bits each, when quantised
    LENGTHS = (1, 128)  # thousand tokens
    RANGE = (1, 10**6)  # MiB; fixed, so that a higher line is a larger cache

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self.shapes = dict(shapes)
        super().__init__(
            thousands=slider(8, *self.LENGTHS, label="thousand tokens"),
            model=choice(next(iter(shapes)), list(shapes)),
            bits=choice(16, [16, 8, 4], label="bits a number"),
        )

    def compute(self, thousands: int, model: str, bits: int) -> dict[str, Any]:
        """Return MiB with a key/value head for every query head and with the model's own.

        Beside them the MiB of the model's weights, at 16 bits each.
        """
        shape = self.shapes[model]
        extra = 0 if bits == 16 else 32 / self.GROUP
        numbers = 2 * shape.layers * shape.head_dim * thousands * 1000
        mib = {
            name: numbers * heads * (bits + extra) / 8 / 2**20
            for name, heads in (("ungrouped", shape.heads), ("grouped", shape.kv_heads))
        }
        weights = shape.weights * 2 / 2**20
        return {"mib": mib, "weights": weights} | {
            "thousands": thousands,
            "bits": bits,
            "model": model,
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw the cache over the length, the chosen one, and a line as high as the weights."""
        fig = figure(7.0, 3.8)
        x, chosen = np.array(self.LENGTHS), data["thousands"]
        with style():
            axes = fig.subplots()
            ways = {"grouped": ("-", "cache")}
            if data["mib"]["grouped"] != data["mib"]["ungrouped"]:
                ways["ungrouped"] = ("--", "cache, a key for every query head")
            for colour, (name, (dash, label)) in zip(COLOURS, ways.items(), strict=False):
                each = data["mib"][name] / chosen
                axes.plot(x, each * x, color=colour, ls=dash, label=label)
                axes.plot(chosen, each * chosen, "o", ms=9, color=colour)
            axes.axhline(data["weights"], color=COLOURS[5], ls=":", label="weights, 16 bits each")
            axes.set(xscale="log", yscale="log", xlim=self.LENGTHS, ylim=self.RANGE)
            axes.set(xlabel="thousand tokens", ylabel="memory (MiB)")
            axes.set_xticks(ticks := [1, 2, 4, 8, 16, 32, 64, 128], [str(tick) for tick in ticks])
            axes.set_yticks(ticks := [10**power for power in range(7)], [f"{t:,}" for t in ticks])
            axes.minorticks_off()
            axes.legend(loc="lower left", bbox_to_anchor=(-0.12, 1), ncols=3, columnspacing=1)
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Name the memory that the model really needs, and that of its weights."""
        every, grouped = data["mib"].values()
        take = f"{data['model']}: {data['thousands']},000 tokens at {data['bits']} bits take"
        weights = f"The weights take {data['weights']:,.1f} MiB at 16 bits."
        if every == grouped:
            heads = "Every query head has a key and a value of its own."
            return f"{take} {every:,.1f} MiB. {heads} {weights}"
        return (
            f"{take} {grouped:,.1f} MiB with its grouped heads, {every:,.1f} MiB with a key and a "
            f"value for every query head. {weights}"
        )


def forward_cost(
    widths: list[int], low: list[float], middle: list[float], high: list[float]
) -> Figure:
    """Draw the time of one forward of k tokens beside k forwards of one.

    Args:
        widths: k, the tokens read at once.
        low: lower quartile of the measured times, in milliseconds.
        middle: their median.
        high: their upper quartile.
    """
    fig = figure(7.0, 3.4)
    with style():
        axes = fig.subplots()
        axes.plot(
            widths, np.array(widths) * middle[0], ls="--", marker="o", label="k forwards of 1"
        )
        axes.plot(widths, middle, marker="s", label="1 forward of k, median and quartiles")
        axes.fill_between(widths, low, high, alpha=0.3, color=axes.lines[-1].get_color())
        axes.set(xlabel="tokens k", ylabel="time (ms)", xscale="log", yscale="log")
        axes.set_xticks(widths, [str(k) for k in widths])
        axes.legend(loc="upper left")
    return fig

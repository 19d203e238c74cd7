"""Widgets of the lesson on the KV cache: what it saves, and what it costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lablib.course.plots.charts import Chart, axis, curves, lines, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.scene import ChartExplorer

import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten


class CacheCost(ChartExplorer):
    """Tokens that go through the model as a text grows, with and without a cache."""

    PROMPT, NEW = 64, 128  # at most

    def __init__(self) -> None:
        super().__init__(
            prompt=slider(32, 1, self.PROMPT, label="prompt tokens"),
            new=slider(64, 2, self.NEW, label="new tokens"),
        )

    def compute(self, prompt: int, new: int) -> dict[str, np.ndarray]:
        """Return the tokens read after each written token: ``(new,)`` for either way."""
        written = np.arange(1, new + 1)
        return {
            "written": written,
            "without a cache": np.cumsum(prompt + written - 1),
            "with a cache": prompt + written - 1,
        }

    def chart(self, data: dict[str, np.ndarray]) -> Chart:
        """Draw both counts as they grow."""
        series = {name: data[name] for name in ("without a cache", "with a cache")}
        most = self.NEW * self.PROMPT + self.NEW * (self.NEW - 1) // 2
        x, y = axis(0, self.NEW, "tokens written"), axis(0, most)
        view = panel("token-forwards in all", x, y, series, high=240)
        return Chart([view], [curves(data["written"], series)])

    def caption(self, data: dict[str, np.ndarray]) -> str:
        """Name both totals and their ratio."""
        without, cached = int(data["without a cache"][-1]), int(data["with a cache"][-1])
        return (
            f"To write {len(data['written'])} tokens the model reads {without:,} tokens without "
            f"a cache and {cached:,} with one: {without / cached:.1f} times fewer."
        )


@dataclass(frozen=True)
class Shape:
    """The numbers that decide the size of a model and of its cache.

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


class CacheMemory(ChartExplorer):
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
            for name, heads in (("grouped", shape.kv_heads), ("ungrouped", shape.heads))
        }
        weights = shape.weights * 2 / 2**20
        return {"mib": mib, "weights": weights} | {
            "thousands": thousands,
            "bits": bits,
            "model": model,
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the cache over the length, the chosen one, and a line as high as the weights."""
        x, chosen, every = np.array(self.LENGTHS), data["thousands"], data["mib"]
        series = {"cache": every["grouped"] / chosen * x}
        if every["grouped"] != every["ungrouped"]:
            series["cache, a key for every query head"] = every["ungrouped"] / chosen * x
        marks = curves(x, series)
        for i, (line, mib) in enumerate(zip([*marks], every.values(), strict=False)):
            note = f"{line['label']}: {mib:,.1f} MiB for {chosen},000 tokens."
            look = {"colour": line["colour"], "r": 6, "note": note}
            marks.append({"key": f"now {i}", "dot": [chosen, mib], **look})
        name = f"weights, 16 bits each: {data['weights']:,.0f} MiB"
        apart = data["weights"] > 11 * every["grouped"] / chosen  # where the cache is far from it
        rule = {
            "rule": {"y": data["weights"]},
            "dash": "2 3",
            "anchor": "start" if apart else "end",
        }
        marks.append({**rule, "text": name})
        tokens = axis(*self.LENGTHS, "thousand tokens", 2 ** np.arange(8), log=True)
        memory = axis(*self.RANGE, "", 10 ** np.arange(7), log=True)
        labels = ["cache", "cache, a key for every query head"]
        view = panel("memory (MiB)", tokens, memory, labels, high=260, side=62)
        return Chart([view], [marks])

    def caption(self, data: dict[str, Any]) -> str:
        """Name the memory that the model really needs, and that of its weights."""
        grouped, every = data["mib"].values()
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
) -> Chart:
    """Draw the time of one forward of k tokens beside k forwards of one.

    Args:
        widths: k, the tokens read at once.
        low: lower quartile of the measured times, in milliseconds.
        middle: their median.
        high: their upper quartile.
    """
    series = {"1 forward of k, median and quartiles": (middle, low, high)}
    series["k forwards of 1"] = np.array(widths) * middle[0]
    return lines(widths, series, "tokens k", "time (ms)", logx=True, logy=True)

"""Widgets of the lesson on the KV cache: what it is, what it saves, and what it costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import COLOURS, TINTS, WARM, axis, lines, panel
from lablib.course.plots.explorer import choice, slider

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten

COMPUTED, KEPT = COLOURS[1], COLOURS[2]  # in all pictures of this lesson


def attention_weights(model: nn.Module, tokens: Sequence[int]) -> np.ndarray:
    """Return how much each token takes from each, ``(layers, T, T)``, the mean of a layer's heads.

    A row is the token that looks. ``model`` is one of the lab's, with attention in every layer.
    """
    met: list[tuple[np.ndarray, np.ndarray]] = []

    def seeing(read: Any) -> Any:
        def see(q: mx.array, k: mx.array, *rest: Any) -> mx.array:
            met.append((np.array(q[0], np.float64), np.array(k[0], np.float64)))
            return read(q, k, *rest)

        return see

    layers = [layer.self_attn for layer in model.layers]
    for layer in layers:
        layer.read = seeing(layer.read)
    try:
        mx.eval(model(mx.array([tokens])))
    finally:
        for layer in layers:
            del layer.read
    weights = []
    for queries, keys in met:
        keys = np.repeat(keys, len(queries) // len(keys), axis=0)  # shared by several queries
        scores = queries @ keys.swapaxes(1, 2) / np.sqrt(queries.shape[2])
        scores = np.where(np.tri(len(tokens)) > 0, scores, -np.inf)
        each = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights.append((each / each.sum(axis=2, keepdims=True)).mean(axis=0))
    return np.array(weights)


class Attending(ChartExplorer):
    """Who takes how much from whom, and what is computed when one more token arrives.

    Args:
        pieces: the text of each token.
        weights: as ``attention_weights`` returns them, of these tokens.
    """

    NOW, KEPT, FUTURE = COMPUTED, TINTS[2], "#FFFFFF"  # letters stand on what is kept
    EDGE = "#E4E4E4"
    SHADES = ("#F4F9FD", "#DFEEF9", "#BFDDF3", "#90C4EA", "#5FA9E0", "#3D93D4")
    BEFORE = ("#F8F8F8", "#F0F0F0", "#E4E4E4", "#D4D4D4", "#C4C4C4", "#B4B4B4")  # of older rows
    STEPS = (0.02, 0.06, 0.12, 0.2, 0.4)  # where one shade ends and the next begins

    def __init__(self, pieces: Sequence[str], weights: np.ndarray) -> None:
        self.pieces, self.weights = [piece.strip() or "␣" for piece in pieces], weights
        super().__init__(
            tokens=slider(len(pieces), 2, len(pieces), label="tokens so far"),
            layer=slider(min(5, len(weights)), 1, len(weights)),
            way=choice("keep", ["keep", "recompute"], label="older keys and values"),
        )

    def compute(self, tokens: int, layer: int, way: str) -> dict[str, Any]:
        """Return the weights of a layer ``(tokens, tokens)``, and the first row that is computed.

        ``first`` counts from 0: with "keep" it is the newest token's row, else all are computed.
        """
        seen = self.weights[layer - 1, :tokens, :tokens]
        return {"weights": seen, "first": tokens - 1 if way == "keep" else 0, "layer": layer}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw a row for each query, a column for each key, and what each token leaves above."""
        weights, first = data["weights"], data["first"]
        n, most, marks = len(weights), len(self.pieces), []
        for j in range(n):  # what a token leaves, above its column
            now = j >= first
            note = f"key and value of {self.pieces[j]!r}: {'computed now' if now else 'kept'}"
            box = {"bar": [j + 0.06, j + 0.94, 0.35, 1.15], "fill": self.NOW if now else self.KEPT}
            marks.append({**box, "text": "k v", "note": note})
        for i in range(n):
            now = i >= first
            box = {"bar": [-1.0, -0.2, -i - 0.9, -i - 0.1], "note": f"query of {self.pieces[i]!r}"}
            marks += [{**box, "fill": self.NOW, "text": "q"}] * now
            marks += [self._cell(i, j, weights, now) for j in range(n)]
        words = [*enumerate(self.pieces)]
        x = axis(-1.2, most, "keys: who is looked at", [(j + 0.5, w) for j, w in words], bare=True)
        rows = [(0.75, "keys, values"), *((-i - 0.5, w) for i, w in words)]
        y = axis(-most, 1.3, "", rows, bare=True)
        marks.append({"text": "query", "at": [-0.6, 0.05 - first], "anchor": "middle"})
        title = f"layer {data['layer']} of {len(self.weights)}: a row's token takes so many %"
        view = panel(title, x, y, side=52, high=30 * (most + 2))
        keys = [
            (self.NOW, "computed now"),
            (self.KEPT, "kept"),
            (self.SHADES[4], "taken now"),
            (self.BEFORE[4], "taken by an older token, when it came"),
            (self.EDGE, "comes later: masked", True),
        ]
        return Chart([view], [marks], keys)

    def _cell(self, i: int, j: int, weights: np.ndarray, now: bool) -> dict[str, Any]:
        cell: dict[str, Any] = {"bar": [j, j + 1, -i - 1, -i]}
        if j > i:
            note = f"{self.pieces[j]!r} comes later"
            return {**cell, "fill": self.FUTURE, "edge": self.EDGE, "note": note}
        share, shades = weights[i, j], self.SHADES if now else self.BEFORE
        took = "takes" if now else "took"
        note = f"{self.pieces[i]!r} {took} {share:.0%} from {self.pieces[j]!r}"
        shade = shades[int(np.searchsorted(self.STEPS, share))]
        return {**cell, "fill": shade, "text": f"{100 * share:.0f}", "note": note}

    def caption(self, data: dict[str, Any]) -> str:
        """Say what arrives, what it takes most from, and how much is computed for it."""
        weights, n = data["weights"], len(data["weights"])
        new, best = self.pieces[n - 1], int(weights[-1].argmax())
        rows = n - data["first"]
        others = f"; {n - 1} keys and values are kept" if rows == 1 else ", all of them anew"
        made = f"{rows} {'query, key and value' if rows == 1 else 'queries, keys and values'}"
        return (
            f"{new!r} arrives and takes most from {self.pieces[best]!r} "
            f"({weights[-1, best]:.0%} in layer {data['layer']}, as its heads' mean). "
            f"Computed in each layer: {made}{others}."
        )


def token_times(kept: Sequence[float], anew: Sequence[float]) -> Chart:
    """Draw the milliseconds of each written token: with a cache, and with everything read again."""
    series = {"with a cache": kept, "without": anew}
    chart = lines(range(1, len(kept) + 1), series, "token written", "time of each token (ms)")
    return _coloured(chart, KEPT, COMPUTED)


def _coloured(chart: Chart, *colours: str) -> Chart:
    for mark, colour in zip(chart.marks[0], colours, strict=True):
        mark["colour"] = colour
    return chart


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
    "8 billion": Shape(32, 32, 8, 128, weights=8e9),
    "70 billion": Shape(80, 64, 8, 128, weights=70e9),
}


class CacheMemory(ChartExplorer):
    """The cache of one token in several models, and all tokens' caches beside the weights.

    Args:
        shapes: name -> shape.
    """

    GROUP = 64  # numbers that share one scale and one offset of 16 bits each, when quantised
    APART = 8  # KiB between two models' blocks
    REST = "#D9D9D9"

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self.shapes = dict(shapes)
        super().__init__(
            thousands=slider(8, 1, 128, label="thousand tokens"),
            texts=slider(1, 1, 32, label="texts at once"),
            bits=choice(16, [16, 8, 4], label="bits a number"),
        )

    def compute(self, thousands: int, bits: int, texts: int = 1) -> dict[str, Any]:
        """Return of each model the KiB of a token in a layer, the MiB of all, and of the weights.

        First with the model's own key/value heads, then with one for every query head; the weights
        have 16 bits each.
        """
        models, size = {}, (bits + (0 if bits == 16 else 32 / self.GROUP)) / 8 / 2**10
        for name, shape in self.shapes.items():
            layer = [2 * n * shape.head_dim * size for n in (shape.kv_heads, shape.heads)]
            mib = [kib * shape.layers * thousands * 1000 * texts / 2**10 for kib in layer]
            models[name] = {"layer": layer, "mib": mib, "weights": shape.weights * 2 / 2**20}
        return {"models": models, "thousands": thousands, "bits": bits, "texts": texts}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw what a token leaves as a block, and all that they leave as a share of the memory."""
        left, right, names, layers, start = [], [], [], [], self.APART
        for row, (name, shape) in enumerate(self.shapes.items()):
            (kept, full), (cache, _), weights = data["models"][name].values()
            high = shape.layers
            one = f"{kept * high:.{int(kept * high < 10)}f} KiB"
            formula = f"{high} layers × {shape.kv_heads} heads × (key + value) × {shape.head_dim}"
            ungrouped = f", not {full * high:,.4g}" * (full > kept)
            note = f"{name}: {formula} numbers of {data['bits']} bits: {one} a token{ungrouped}."
            left.append({"bar": [start, start + full, 0, high], "fill": WARM, "hollow": True})
            block = [start, start + kept, 0, high]
            left.append({"bar": block, "fill": KEPT, "edge": KEPT, "note": note})
            at = [start + kept / 2, high + 2]
            left.append({"text": one, "at": at, "anchor": "middle", "bold": True})
            names.append((start + full / 2, name))
            layers.append((high, f"{high} layers"))
            start += 4 * shape.heads * shape.head_dim / 2**10 + self.APART
            share = cache / (cache + weights)
            ratio = f"cache / weights is {_share(cache / weights)}"
            note = f"{name}: the cache takes {_size(cache)}, {ratio}."
            for ends, fill in ((0, share), KEPT), ((share, 1), self.REST):
                bar = [*ends, -row - 0.3, -row + 0.15]
                right.append({"bar": bar, "fill": fill, "note": note})
            right.append({"line": [[0.5, -row - 0.38], [0.5, -row + 0.15]], "dash": "4 2"})
            said = f"{name}: {_size(cache)} + {_size(weights)}"
            right.append({"text": said, "at": [0, -row + 0.25]})
        most = max(layers)[0]
        x = axis(0, start, "width: KiB that a layer keeps", names, bare=True)
        y = axis(0, max(1.12 * most, most + 3), "", layers)  # words stand above the blocks
        views = [panel("one token's keys and values", x, y, share=0.8)]
        x = axis(0, 1, "", [(0, "0"), (0.5, "as large as the weights"), (1, "all")])
        y = axis(0.5 - len(names), 0.6, "", ())
        texts = f"{data['texts']} text{'s' * (data['texts'] > 1)}"
        title = f"× {data['thousands']},000 tokens × {texts}: each one's share"
        views.append(panel(title, x, y, side=8))
        keys = [(KEPT, "cache"), (self.REST, "weights")]
        keys.append((WARM, "with a key for every query head", True))
        return Chart(views, [left, right], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Say of each model how large its cache is beside its weights."""
        models = data["models"].items()
        each = [f"{_share(now['mib'][0] / now['weights'])} in {name}" for name, now in models]
        many = f" in each of {data['texts']} texts" * (data["texts"] > 1)
        head = f"{data['thousands']},000 tokens{many} at {data['bits']} bits"
        return f"{head}: cache / weights is {', '.join(each)}."


def _share(ratio: float) -> str:
    return f"×{ratio:,.{int(ratio < 100)}f}" if ratio > 1 else f"{ratio:.1%}"


def _size(mib: float) -> str:
    return f"{mib / 2**10:,.1f} GiB" if mib >= 1000 else f"{mib:.1f} MiB"


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
    series["k × the first point"] = np.array(widths) * middle[0]
    names = "tokens k (doubling)", "time (ms, doubling)"
    return _coloured(lines(widths, series, *names, logx=True, logy=True), COMPUTED, WARM)

"""Pictures of the lesson on what a model is: vectors in a plane, and one on its way through it."""

from collections.abc import Mapping, Sequence
from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import TINTS, WARM, axis, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.marks import DARK, LIGHT, REST, number
from lablib.course.plots.pictures import visible
from lablib.inference.speculation.early_exit import first_layers

import mlx.core as mx
import numpy as np
from scipy.special import softmax


def plane(
    names: Sequence[str],
    table: np.ndarray,
    fits: np.ndarray,
    texts: Sequence[Sequence[int]],
    sides: Sequence[Sequence[str]],
) -> Chart:
    """Draw in the plane what a block that adds the mean so far makes of a text's last word.

    Args:
        names: of the words.
        table: their vectors ``(words, 2)``.
        fits: the column of each word ``(2, words)``; one of zeros is not drawn.
        texts: token ids, two each; a panel for each text.
        sides: what −1 and 1 mean across, and upwards.
    """
    panels, drawn = [], []
    across, upwards = ([*zip((-1, 1), each, strict=True)] for each in sides)
    x, y = axis(-1.5, 1.5, "", across), axis(-1.5, 1.5, "", upwards)
    for text in texts:
        first, last = table[list(text)].astype(float)
        mean = (first + last) / 2
        best = int(((last + mean) @ fits).argmax())
        marks: list[dict[str, Any]] = []
        for word, at in zip(text, (first, last), strict=True):
            marks += _arrow(np.zeros(2), at, names[word], colour=LIGHT)
        marks += _arrow(last, last + mean, colour=WARM, dash="4 3")
        marks += _arrow(np.zeros(2), last + mean, "sum", colour=DARK, wide=4)
        for word, column in enumerate(fits.T):
            if column.any():
                x0, y0 = column.tolist()
                look = {"shape": "diamond", "r": 6, "colour": DARK, "hollow": word != best}
                marks.append({"dot": [x0, y0], "note": f"The column of {names[word]}."} | look)
                said = {"text": f"{names[word]}?", "bold": word == best, "anchor": "middle"}
                marks.append({"at": [x0, y0 - 0.33]} | said)
        panels.append(panel(" ".join(names[word] for word in text), x, y, high=200, side=90))
        drawn.append(marks)
    keys = [(LIGHT, "a word's vector", "14 0"), (WARM, "the mean so far, which is added", "4 3")]
    keys += [(DARK, "a word's column (filled: it fits the sum best)", True)]
    return Chart(panels, drawn, keys)


def _arrow(start: np.ndarray, end: np.ndarray, name: str = "", **look: Any) -> list[dict[str, Any]]:
    """Return a line with a dot at its end, and its name there."""
    ends = [start.tolist(), end.tolist()]
    marks = [{"line": ends, "wide": 2, **look}, {"dot": ends[1], "colour": look["colour"], "r": 4}]
    left = end[0] < 0
    at, anchor = [end[0] + (-0.08 if left else 0.08), end[1] + 0.12], "end" if left else "start"
    return [*marks, {"text": name, "at": at, "anchor": anchor}] if name else marks


class Stream(ChartExplorer):
    """A token's vector, block after block, and what the model would say next after each.

    Args:
        model: a language model whose first layers can be had alone.
        ids: the text, read once for each number of blocks.
        words: the token of every id.
        places: what a place is called -> how many tokens are read there.
    """

    def __init__(
        self, model: Any, ids: Sequence[int], words: Sequence[str], places: Mapping[str, int]
    ) -> None:
        self.words, self.places = list(words), dict(places)
        blocks = len(model.layers)
        tokens = mx.array([[*ids]])
        logits = [first_layers(model, n)(tokens)[0] for n in range(blocks + 1)]
        read = np.array(mx.stack(logits).astype(mx.float32), dtype=np.float64)
        self.chances = {name: softmax(read[:, n - 1], axis=-1) for name, n in places.items()}
        self.blocks = blocks
        super().__init__(
            after=choice(next(iter(places)), [*places]), blocks=slider(blocks, 0, blocks)
        )

    def compute(self, after: str, blocks: int) -> dict[str, Any]:
        """Return the best guess after each block so far with its chance, and the last one."""
        chances = self.chances[after]
        best = chances.argmax(axis=-1).tolist()
        return {
            "after": after,
            "blocks": blocks,
            "guesses": best[: blocks + 1],
            "chances": [float(chances[n, best[n]]) for n in range(blocks + 1)],
            "last": best[-1],
            "last_chance": float(chances[-1, best[-1]]),
            "lasts": chances[: blocks + 1, best[-1]].tolist(),
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the stream and its blocks, and beside each block what would be said after it."""
        now, rows = data["blocks"], self.blocks + 1
        way: list[dict[str, Any]] = [
            {"line": [[0.1, -now], [0.1, -self.blocks]], "colour": REST, "wide": 2},
            {"line": [[0.1, 0], [0.1, -now]], "colour": DARK, "wide": 5},
        ]
        for n in range(rows):
            passed, name = n <= now, f"+ block {n}" if n else "the token's vector"
            note = f"Block {n} reads the stream and adds to it." if n else "A row of the table."
            fill = (TINTS[0] if n else TINTS[1]) if passed else "#F2F2F2"
            box = {"bar": [0.28, 1, -n - 0.36, -n + 0.36], "fill": fill, "text": name, "note": note}
            look = {"colour": DARK if passed else REST, "wide": 2}
            way += [box, {"line": [[0.1, -n], [0.28, -n]], **look}]
            way.append({"dot": [0.1, -n], "colour": DARK if passed else REST, "r": 5})
        said: list[dict[str, Any]] = []
        last, guessed = visible(self.words[data["last"]]), (data["guesses"], data["chances"])
        for n, (guess, chance, own) in enumerate(zip(*guessed, data["lasts"], strict=True)):
            word, same = visible(self.words[guess]), guess == data["last"]
            bar = [0, chance, -n - (0.36 if same else 0.16), -n + 0.36]
            note = f"After {n} blocks: “{word}” with {number(chance)}."
            said.append({"bar": bar, "fill": DARK if same else LIGHT, "note": note})
            if not same:
                note = f"After {n} blocks: “{last}” with {number(own)}."
                said.append({"bar": [0, own, -n - 0.36, -n - 0.16], "fill": DARK, "note": note})
            said.append({"text": f"{word} {number(chance)}", "at": [chance + 0.02, -n - 0.05]})
        y = axis(0.5 - rows, 0.5, "", [], bare=True)
        high = 27 * rows
        ticks = [(value, f"{value:g}") for value in (0, 0.5, 1)]
        panels = [
            panel(
                "a token's vector on its way",
                axis(0, 1.05, "", [], bare=True),
                y,
                high=high,
                share=2,
                side=8,
            ),
            panel(
                "what it would say next",
                axis(0, 1.5, "probability", ticks),
                y | {"ticks": [(-n, f"{n}") for n in range(rows)]},
                high=high,
                share=3,
                side=24,
            ),
        ]
        keys = [(LIGHT, "its best guess there"), (DARK, f"“{last}”, its last guess")]
        return Chart(panels, [way, said], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Name the guess after these blocks, and the one after all of them."""
        here, end = (visible(self.words[i]) for i in (data["guesses"][-1], data["last"]))
        chance = number(data["chances"][-1])
        said = f"{data['after']}, after {data['blocks']} of {self.blocks} blocks: “{here}”"
        if data["blocks"] == self.blocks:
            return f"{said} with {chance}."
        return f"{said} with {chance}; in the end “{end}” with {number(data['last_chance'])}."

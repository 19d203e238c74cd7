"""Widgets of the lesson on rewinding: what each kind of layer remembers, and what going back costs.

``Marks`` is a model without weights. Its layers are mlx-lm's real caches, and what goes into them
is the position of a token, so that one can look inside and read which tokens are still there.
"""

from collections.abc import Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.course.plots.charts import COLOURS, DASHES, MARKERS, style
from lablib.course.plots.explorer import Explorer, choice, slider, toggle
from lablib.course.plots.strips import add_axes, canvas
from lablib.inference.speculation.costs import expected_tokens
from lablib.validation import integer, number

import mlx.core as mx
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache, trim_prompt_cache

LAYERS = ("keys and values", "sliding window", "recurrent state")
ALL, EACH, REPLAY = "trim_prompt_cache", "trim what can be trimmed", "snapshot and replay"
WAYS = (ALL, EACH, REPLAY)


class Marks:
    """A model that writes positions into three kinds of cache, and sees what they hold.

    Args:
        window: the size of the sliding window.
        most: positions go from 0 to ``most - 1``.
        fade: what a token leaves of the recurrent state, between 0 and 1.
    """

    def __init__(self, window: int, most: int, fade: float = 0.8) -> None:
        self.window, self.most = integer("window", window, 1), integer("most", most, 1)
        self.fade = number("fade", fade, 0.0, 1.0)
        self.layers = list(LAYERS)

    def make_cache(self) -> list[Any]:
        """Return a fresh cache: one layer of each kind."""
        return [KVCache(), RotatingKVCache(max_size=self.window), ArraysCache(1)]

    def __call__(self, tokens: mx.array, cache: list[Any]) -> list[np.ndarray]:
        """Read positions ``(1, T)``; return what each layer lets the last of them see."""
        marks = tokens.astype(mx.float32)[:, None, :, None]
        seen = []
        for layer in cache[:2]:
            keys, _ = layer.update_and_fetch(marks, marks)
            places = np.array(keys).ravel().astype(int)
            seen.append(np.bincount(places, minlength=self.most)[: self.most].astype(float))
        state = mx.zeros((1, self.most)) if cache[2][0] is None else cache[2][0]
        for position in tokens[0].tolist():
            state = self.fade * state + (mx.arange(self.most) == position)
        cache[2][0] = state
        return [*seen, np.array(state)[0]]

    def look(self, cache: list[Any]) -> list[np.ndarray]:
        """Return what the next token would see of each position, ``(most,)`` for each layer.

        The cache stays as it is: a copy of it reads one token more.
        """
        *pairs, state = self(mx.array([[self.most]]), kv.copy(cache))
        return [*pairs, state / self.fade if self.fade else state]


class Memories(Explorer):
    """Read a prompt, then drafts; take some drafts back; look at what the next token would see.

    Args:
        window: the size of the sliding window.
        prompt: the longest prompt.
        drafts: the most drafts.
    """

    def __init__(self, window: int = 6, prompt: int = 10, drafts: int = 6) -> None:
        self.model = Marks(window, integer("prompt", prompt, 2) + integer("drafts", drafts, 1))
        super().__init__(
            drafts=slider(min(4, drafts), 0, drafts, label="drafts read"),
            back=slider(min(3, drafts), 0, drafts, label="taken back"),
            prompt=slider(prompt - 2, 1, prompt, label="prompt tokens"),
            way=choice(EACH, list(WAYS), label="how"),
            at_once=toggle(True, label="drafts read at once"),
        )

    def compute(self, drafts: int, back: int, prompt: int, way: str, at_once: bool) -> Any:
        """Return what is seen and what should be, ``(3, positions)``, and the tokens read again."""
        back = min(back, drafts)
        cache, stays = self.model.make_cache(), prompt + drafts - back
        self.model(mx.arange(prompt)[None], cache)
        rewinder = Rewinder(self.model, cache)
        step = max(drafts, 1) if at_once else 1
        for start in range(prompt, prompt + drafts, step):
            rewinder.forward(mx.arange(start, start + step)[None])
        if way == REPLAY:
            rewinder.rewind(back)
        elif way == ALL:
            trim_prompt_cache(cache, back)
        else:
            for layer in cache:
                if layer.is_trimmable():
                    layer.trim(back)
        fresh = self.model.make_cache()
        self.model(mx.arange(stays)[None], fresh)
        return {
            "seen": np.array(self.model.look(cache)),
            "right": np.array(self.model.look(fresh)),
            "again": rewinder.tokens_read - drafts,
            "stays": stays,
            "read": prompt + drafts,
            "prompt": prompt,
            "way": way,
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw a row of bars for each layer: how much of each position the next token sees."""
        fig = canvas(3.7)
        places = np.arange(data["read"])
        kept = places < data["stays"]
        with style():
            axes = add_axes(fig, 1.75, 0.45, 6.1, 2.6)
            looks = (
                (kept, {"color": COLOURS[0], "label": "stays in the text"}),
                (~kept, {"color": COLOURS[1], "hatch": "///", "label": "was taken back"}),
            )
            ticks = []
            for row in range(3):
                base = 2.6 - 1.3 * row
                seen, right = (data[name][row, : data["read"]] for name in ("seen", "right"))
                for chosen, look in looks:
                    look = look if row == 0 else {**look, "label": None}
                    axes.bar(places[chosen], seen[chosen], 0.8, base, ec="white", **look)
                tops = [(x, base + y) for x, y in enumerate(right) if y]
                ticks += [[(x - 0.45, y), (x + 0.45, y)] for x, y in tops]
            axes.add_collection(
                LineCollection(ticks, colors="black", lw=2.5, label="what it should see")
            )
            axes.set(xlim=(-0.7, self.model.most - 0.3), ylim=(-0.15, 3.8), xlabel="position")
            axes.axvline(data["prompt"] - 0.5, color="#777777", lw=1, ls=":")
            axes.set_yticks([3.0, 1.7, 0.4], LAYERS)
            axes.tick_params(left=False)
            axes.spines["left"].set_visible(False)
            axes.set_xticks(range(0, self.model.most, 2))
            axes.legend(
                loc="lower left", bbox_to_anchor=(-0.3, 1), ncols=3, fontsize=10, columnspacing=1.2
            )
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Say which layers are right, and what going back cost."""
        wrong = [
            name
            for name, seen, right in zip(LAYERS, data["seen"], data["right"], strict=True)
            if np.abs(seen - right).max() > 1e-4
        ]
        back = data["read"] - data["stays"]
        state = f"wrong: {', '.join(wrong)}" if wrong else "every layer is right"
        again = "1 token was" if data["again"] == 1 else f"{data['again']} tokens were"
        return (
            f"{data['read']} tokens read, {back} taken back by {data['way']!r}: {state}. "
            f"{again} read again."
        )


def replayed(alpha: float, drafted: int) -> tuple[float, float]:
    """Return what snapshot and replay costs in a round.

    Each draft that is reached is kept with probability α.

    A replay is needed unless all γ drafts were kept. With n kept it reads n + 1 tokens: the last
    token of the text, which was unread before the round, and the kept drafts.

    Returns:
        The probability of a replay, and the expected number of tokens that are read again.
    """
    alpha, drafted = number("alpha", alpha, 0.0, 1.0), integer("drafted", drafted, 1)
    tokens = sum((n + 1) * alpha**n * (1 - alpha) for n in range(drafted))
    return 1 - alpha**drafted, float(tokens)


class ReplayCost(Explorer):
    """What speculation costs the target for each written token, with and without replays.

    Args:
        most: the largest number of drafts in a round.
    """

    def __init__(self, most: int = 12) -> None:
        self.counts = list(range(1, integer("most", most, 2) + 1))
        super().__init__(
            alpha=slider(0.8, 0.0, 1.0, 0.05, label="chance α"),
            drafted=slider(4, 1, most, label="drafts γ"),
        )

    def compute(self, alpha: float, drafted: int) -> dict[str, Any]:
        """Return forwards and tokens read for each written token, for each γ and both ways."""
        rows: dict[str, list[list[float]]] = {"forwards": [[], []], "tokens": [[], []]}
        for n in self.counts:
            written = expected_tokens(alpha, n)
            chance, again = replayed(alpha, n)
            rows["forwards"][0].append(1 / written)
            rows["forwards"][1].append((1 + chance) / written)
            rows["tokens"][0].append((n + 1) / written)
            rows["tokens"][1].append((n + 1 + again) / written)
        return {**rows, "alpha": alpha, "drafted": drafted}

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw both costs against γ, and mark the chosen one."""
        fig = canvas(3.4)
        with style():
            for at, name, top in ((0.75, "forwards", 2.05), (4.65, "tokens", 7.0)):
                axes = add_axes(fig, at, 0.5, 3.2, 2.3)
                for i, way in enumerate(("trimming", "replay")):
                    axes.plot(
                        self.counts, data[name][i], color=COLOURS[(0, 5)[i]], ls=DASHES[i],
                        marker=MARKERS[i], ms=5, label=way,
                    )  # fmt: skip
                axes.axhline(1, color="black", lw=1.2, ls=":", label="no drafts")
                axes.axvline(data["drafted"], color="#999999", lw=8, alpha=0.3)
                axes.set(xlabel="drafts γ", ylim=(0, top), xticks=self.counts[1::2])
                title = f"{name} for each written token"
                axes.text(0, 1.15, title, transform=axes.transAxes, weight="bold")
                axes.legend(
                    loc="lower left", bbox_to_anchor=(-0.05, 1), ncols=3, fontsize=10,
                    borderaxespad=0, columnspacing=1.0,
                )  # fmt: skip
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Name both costs at the chosen γ."""
        at = data["drafted"] - 1
        (trim_f, replay_f), (trim_t, replay_t) = (
            [way[at] for way in data[name]] for name in ("forwards", "tokens")
        )
        return (
            f"α = {data['alpha']:.2f}, γ = {data['drafted']}: for each written token the target "
            f"runs {trim_f:.2f} times and reads {trim_t:.2f} tokens if the cache can be trimmed, "
            f"{replay_f:.2f} times and {replay_t:.2f} tokens with replays."
        )


def healing(model: Any, broken: list[Any], right: list[Any], tokens: Sequence[int]) -> list[float]:
    """Feed the same tokens to two caches and compare what the model then says.

    Args:
        model: ``model(tokens (1, T), cache=...) -> logits (1, T, V)``.
        broken: a cache in the wrong state.
        right: the right one.
        tokens: what both read from here on, one by one.

    Returns:
        The largest difference of any logit after each token.
    """
    gaps = []
    for token in tokens:
        step = mx.array([[token]])
        difference = model(step, cache=broken) - model(step, cache=right)
        gaps.append(mx.max(mx.abs(difference[:, -1])).item())
    return gaps

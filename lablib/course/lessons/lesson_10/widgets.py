"""Widgets of the lesson on rewinding: what each kind of layer remembers, and what going back costs.

``Marks`` is a model without weights. Its layers are mlx-lm's real caches, and what goes into them
is the position of a token, so that one can look inside and read which tokens are still there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import WARM, axis, curves, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.marks import REST
from lablib.course.plots.pictures import COLOURS
from lablib.inference.speculation.costs import expected_tokens
from lablib.validation import integer, number

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache, trim_prompt_cache

LAYERS = ("keys and values", "sliding window", "recurrent state")
ALL, EACH, REPLAY = "trim_prompt_cache", "trim where possible", "snapshot and replay"
SINGLY = "snapshot each draft"  # these are read one by one
WAYS = (ALL, EACH, REPLAY, SINGLY)
FIRST, AGAIN = "#A9D3F0", "#F0A884"  # forwards of a round


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


class Memories(ChartExplorer):
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
        )

    def ends(self, drafts: int, **_: Any) -> dict[str, float]:
        """Return that no more can be taken back than was read."""
        return {"back": drafts}

    def compute(self, drafts: int, back: int, prompt: int, way: str) -> Any:
        """Return what is seen and what should be, ``(3, positions)``, and the tokens read again."""
        back = min(back, drafts)
        cache, stays = self.model.make_cache(), prompt + drafts - back
        self.model(mx.arange(prompt)[None], cache)
        rewinder = Rewinder(self.model, cache)
        step = 1 if way == SINGLY else max(drafts, 1)
        for start in range(prompt, prompt + drafts, step):
            rewinder.forward(mx.arange(start, start + step)[None])
        if way in (REPLAY, SINGLY):
            rewinder.rewind(back)
        elif way == ALL:
            trim_prompt_cache(cache, back)
        else:
            for layer in cache:
                if layer.is_trimmable():
                    layer.trim(back)
        fresh = self.model.make_cache()
        self.model(mx.arange(stays)[None], fresh)
        seen, right = (np.array(self.model.look(each)) for each in (cache, fresh))
        return {
            "seen": seen,
            "right": right,
            "again": rewinder.tokens_read - drafts,
            "stays": stays,
            "read": prompt + drafts,
            "prompt": prompt,
            "way": way,
            "wrong": [LAYERS[i] for i in np.flatnonzero(np.abs(seen - right).max(axis=1) > 1e-4)],
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw a row of bars for each layer: how much of each position the next token sees."""
        marks: list[dict[str, Any]] = []
        for row, layer in enumerate(LAYERS):
            base = 2.6 - 1.3 * row
            seen, right = (data[name][row, : data["read"]].tolist() for name in ("seen", "right"))
            for place, (sees, should) in enumerate(zip(seen, right, strict=True)):
                fill = COLOURS[0] if place < data["stays"] else COLOURS[1]
                note = f"{layer}, position {place}: seen {sees:.2f}, it should be {should:.2f}."
                bar, key = [place - 0.4, place + 0.4, base, base + sees], f"{row}.{place}"
                marks.append({"key": f"b{key}", "bar": bar, "fill": fill, "note": note})
                if should:
                    line = [[place - 0.45, base + should], [place + 0.45, base + should]]
                    marks.append({"key": f"t{key}", "line": line, "wide": 3})
        look = {"dash": "2 3", "colour": WARM, "text": "drafts"}
        marks.append({"rule": {"x": data["prompt"] - 0.5}, **look})
        places = range(0, self.model.most, 2)
        x = axis(-0.7, self.model.most - 0.3, "position", places)
        names = [f"{each}: {'wrong' if each in data['wrong'] else 'right'}" for each in LAYERS]
        y = axis(-0.05, 3.9, "", [*zip((3.0, 1.7, 0.4), names, strict=True)], bare=True)
        keys = [(COLOURS[0], "stays in the text"), (COLOURS[1], "was taken back")]
        keys.append(("#333333", "what it should see"))
        seen = panel("how much of each position is seen", x, y, high=230, side=112)
        return Chart([seen], [marks], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Say which layers are right, and what going back cost."""
        wrong, again, way = " and ".join(data["wrong"]), data["again"], f"“{data['way']}”"
        state = f"Wrong after {way}: {wrong}." if wrong else f"Every layer is right after {way}."
        return (
            f"{state} Of {data['read']} tokens {data['read'] - data['stays']} were taken back, "
            f"{again} {'was' if again == 1 else 'were'} read again."
        )


def rings(rows: Mapping[str, Sequence[int]], stays: int) -> Chart:
    """Draw what lies in a sliding window, a row of slots for each way in which it was read.

    Args:
        rows: name -> the token in each slot.
        stays: the last token that stays; those after it are taken back.
    """
    marks = []
    for row, (name, tokens) in enumerate(rows.items()):
        for slot, token in enumerate(tokens):
            fate = "stays" if token <= stays else "is to be taken back"
            box = {"bar": [slot - 0.45, slot + 0.45, -row - 0.4, -row + 0.4], "text": str(token)}
            fill = FIRST if token <= stays else AGAIN
            note = f"{name}, slot {slot}: token {token}, which {fate}."
            marks.append({**box, "fill": fill, "edge": "#555555", "note": note})
    most = max(map(len, rows.values()))
    y = axis(0.5 - len(rows), 0.5, "", [(-row, name) for row, name in enumerate(rows)], bare=True)
    drawn = panel("", axis(-0.5, most - 0.5, "slot", range(most)), y, high=40 * len(rows), side=150)
    return Chart([drawn], [marks], [(FIRST, "stays"), (AGAIN, "a draft, to be taken back")])


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


class ReplayCost(ChartExplorer):
    """The target's cost for each written token under speculation, with and without replays.

    Args:
        most: the largest number of drafts in a round.
    """

    def __init__(self, most: int = 8) -> None:
        self.counts = list(range(1, integer("most", most, 2) + 1))
        super().__init__(
            alpha=slider(0.8, 0.3, 1.0, 0.05, label="chance α"),
            drafted=slider(4, 1, most, label="drafts γ"),
        )

    def compute(self, alpha: float, drafted: int) -> dict[str, Any]:
        """Return forwards for each written token, for each γ, and what rounds read."""
        trimming = [1 / expected_tokens(alpha, n) for n in self.counts]
        replays = [1 + replayed(alpha, n)[0] for n in self.counts]
        forwards = [trimming, np.multiply(trimming, replays).tolist()]
        kept = [alpha**n * (1 - alpha) for n in range(drafted)]
        more = 1 + replayed(alpha, drafted)[1] / (drafted + 1)
        return {"forwards": forwards, "kept": [*kept, alpha**drafted], "more": more}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the forwards against γ; and what a round reads, by how many drafts it keeps."""
        most, drafted = self.counts[-1], len(data["kept"]) - 1
        series = dict(zip(("trimming", "replay"), data["forwards"], strict=True))
        x = axis(0.7, most + 0.3, "drafts γ", self.counts[1::2])
        y = axis(0, 1.6, "", (0, 0.5, 1))  # words stand above the lines
        left = panel("forwards per token written (dotted: no drafts)", x, y, series)
        here = {"rule": {"x": drafted}, "colour": WARM, "text": f"γ = {drafted}"}
        even = {"rule": {"y": 1}, "dash": "2 3"}
        rounds, names = [], []
        for n, share in enumerate(data["kept"]):
            again = n + 1 if n < drafted else 0
            note = f"{n} of {drafted} kept in {share:.0%} of the rounds: "
            note += f"{drafted + 1} tokens are read, then {again} again."
            for key, fill, start, size in (
                ("f", FIRST, 0, drafted + 1),
                ("a", AGAIN, drafted + 1, again),
            ):
                bar = {"bar": [start, start + size, -n - 0.38, -n + 0.38], "note": note}
                rounds.append({"key": f"{key}{n}", **bar, "fill": fill, "edge": "#555555"})
            names.append((-n, f"{n} ({share:.0%})"))
        x = axis(0, 2 * most + 1, "tokens read", range(0, 2 * most + 1, 4))
        y = axis(-most - 0.6, 0.6, "", names, bare=True)
        right = panel("a round, by the drafts that it keeps (how often)", x, y, side=64)
        keys = [(FIRST, "first forward"), (AGAIN, "second forward: the replay")]
        marks = [*curves(self.counts, series, (0, 5)), even, here]
        return Chart([left, right], [marks, rounds], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Name the forwards of both ways at the chosen γ, and what replays read more."""
        trim, replay = (way[len(data["kept"]) - 2] for way in data["forwards"])
        return (
            f"With replays the target runs {replay:.2f} times for each written token, with "
            f"trimming {trim:.2f}, without drafts once; replays make it read "
            f"×{data['more']:.2f} the tokens."
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


def scars(gaps: Mapping[str, Sequence[float]]) -> Chart:
    """Draw a row of bars for each layer: what :func:`healing` says of it, token by token."""
    (count,), most = {len(each) for each in gaps.values()}, max(map(max, gaps.values()))
    marks: list[dict[str, Any]] = []
    for row, (layer, each) in enumerate(gaps.items()):
        last = max((i for i, gap in enumerate(each, 1) if gap > 1e-4), default=0)
        for i, gap in enumerate(each[:last], 1):
            bar = {"bar": [i - 0.4, i + 0.4, -row, 0.9 * gap / most - row], "fill": COLOURS[1]}
            note = f"{layer}, token {i}: {gap:.2f}."
            marks.append({**bar, "edge": COLOURS[1], "note": note})
        said = f"healed after {last}" if last else "never wrong"
        end = {"text": said, "at": [last + 1.5, 0.3 - row]}
        if last == count:
            end = {"text": "still wrong", "at": [count, 0.55 - row], "anchor": "end"}
        marks += [{"rule": {"y": -row}, "colour": REST}, end]
    x = axis(0, count + 1, "tokens read afterwards", (1, *range(10, count + 1, 10)))
    names = [(0.4 - row, layer) for row, layer in enumerate(gaps)]
    y = axis(0.9 - len(gaps), 1, "", names, bare=True)
    title = f"largest logit difference (highest bar: {most:.1f})"
    return Chart([panel(title, x, y, high=36 * len(gaps), side=122)], [marks])

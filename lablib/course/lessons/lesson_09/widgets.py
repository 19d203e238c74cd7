"""Widgets of the lesson on better drafts: who guesses what, at what price, and how far ahead.

They replay greedy texts (:mod:`lablib.course.replay.rounds`): no model runs again.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.plots import strips
from lablib.course.plots.charts import COLOURS, HATCHES, MARKERS, style
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.strips import Look, add_axes, canvas, draw_strip, name_bars, scales
from lablib.course.replay.measure import clock, measure_costs
from lablib.course.replay.rounds import (
    LONGEST,
    Guesses,
    Length,
    guesses_of_model,
    guesses_of_ngram,
    replay,
    tokens_per_call,
)
from lablib.inference import SamplerOptions, TokenIterator, sample_many, sample_n
from lablib.inference.speculation import NGram, SpeculativeTokenIterator, speculative_sample_n
from lablib.inference.speculation.costs import Costs, best_draft_tokens, speedup
from lablib.inference.speculation.draft_length import AdaptiveLength, FixedLength
from lablib.validation import BadValue, integer

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

# ------------------------------------------------------------------ where proposals come from

COPIED = Look("accepted draft", "#A9D3F0")
OWN = Look("the target's own", "#F3BE6B", "///")


class Sources(Explorer):
    """A text with its accepted drafts, and what each drafter yields on this task.

    Args:
        texts: task -> the ids of one prompt and of its greedy completion.
        guesses: task -> drafter -> its guesses for several texts, that one first.
        costs: drafter -> measured costs.
        words: the text of every id.
    """

    def __init__(
        self,
        texts: Mapping[str, tuple[Sequence[int], Sequence[int]]],
        guesses: Mapping[str, Mapping[str, Sequence[Guesses]]],
        costs: Mapping[str, Costs],
        words: Sequence[str],
    ) -> None:
        if not guesses or set(texts) != set(guesses):
            raise BadValue(f"texts and guesses must be of the same tasks, got {[*texts]}")
        self.texts, self.guesses, self.costs = dict(texts), dict(guesses), dict(costs)
        self.words = list(words)
        self._yields = {
            (task, name, gamma): tokens_per_call(found, gamma)
            for task, drafters in self.guesses.items()
            for name, found in drafters.items()
            for gamma in range(1, LONGEST + 1)
        }
        self._high = max(strips.height(self._pieces(task)) for task in self.texts)
        self._most = max(high for _, _, high in self._yields.values())
        promised = [self._promise(*each) for each in self._yields if each[1] in self.costs]
        self._fastest = 1.05 * max(2.0, *promised)
        drafters = list(self.costs)
        super().__init__(
            draft_tokens=slider(4, 1, LONGEST, label="draft tokens γ"),
            task=choice(next(iter(self.texts)), list(self.texts)),
            drafter=choice(drafters[0], drafters),
        )

    def _pieces(self, task: str) -> list[str]:
        prompt, tokens = self.texts[task]
        return [self.words[i] or " ∅" for i in [*prompt[1:], *tokens]]  # all but <s>

    def compute(self, draft_tokens: int, task: str, drafter: str) -> dict[str, Any]:
        """Return the looks of the text, and tokens per call and speed-up of every drafter."""
        prompt, tokens = self.texts[task]
        looks = [OWN] * len(tokens)
        steps = replay(self.guesses[task][drafter][0], FixedLength(draft_tokens))
        for step in steps:
            looks[step.start : step.start + step.kept] = [COPIED] * step.kept
        yields = {name: self._yields[task, name, draft_tokens] for name in self.costs}
        return {
            "task": task,
            "drafter": drafter,
            "gamma": draft_tokens,
            "tokens": self._pieces(task),
            "looks": [strips.PLAIN] * (len(prompt) - 1) + looks,
            "calls": sum(step.calls for step in steps),
            "written": len(tokens),
            "yields": yields,
            "speedups": {name: self._promise(task, name, draft_tokens) for name in self.costs},
        }

    def _promise(self, task: str, name: str, gamma: int) -> float:
        """Return the speed-up of this drafter, each round priced by what was drafted in it."""
        texts, costs = self.guesses[task][name], self.costs[name]
        spent = sum(step.cost(costs) for text in texts for step in replay(text, FixedLength(gamma)))
        return sum(len(text.right) for text in texts) * costs.forward(1) / spent

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw the text as a strip above, the drafters as bars below."""
        fig = canvas(self._high + 2.5)
        with style():
            axes = add_axes(fig, 0, 0.1, 8, strips.height(data["tokens"]))
            draw_strip(axes, data["tokens"], data["looks"], legend=(COPIED, OWN))
            names, top = list(data["yields"]), self._high + 0.4
            axes = add_axes(fig, 2.05, top, 2.6, 1.45)
            middle, low, high = np.array(list(data["yields"].values())).T
            self._across(axes, middle, data["drafter"], names)
            axes.hlines(np.arange(len(names)), low, high, color="black", lw=1.5)
            axes.set(xlim=(0, self._most * 1.05), title=f"{data['task']}: tokens per call")
            scales(axes, range(0, int(self._most) + 1), (), f"with γ = {data['gamma']}")
            name_bars(axes, names, across=True)
            axes = add_axes(fig, 5.1, top, 2.6, 1.45)
            values = list(data["speedups"].values())
            self._across(axes, values, data["drafter"], names)
            axes.axvline(1, color="black", lw=1.5, ls=":")
            wide = self._fastest
            axes.set(xlim=(0, wide), title="promised speed-up")
            scales(axes, np.arange(0, wide, 0.5 if wide < 3.5 else 1), (), "× plain decoding")
        return fig

    @staticmethod
    def _across(axes: Any, values: Sequence[float], chosen: str, names: Sequence[str]) -> None:
        """Draw horizontal bars, the chosen one darker and hatched."""
        for here in (False, True):
            own = [i for i, name in enumerate(names) if (name == chosen) == here]
            look = {"color": COLOURS[0 if here else 4], "edgecolor": "white"}
            axes.barh(own, [values[i] for i in own], 0.7, hatch=HATCHES[1] if here else "", **look)
        axes.set_ylim(len(names) - 0.4, -0.6)

    def caption(self, data: dict[str, Any]) -> str:
        """Say what the chosen drafter does to this text and to its task, and who yields most."""
        middle, low, high = data["yields"][data["drafter"]]
        best = max(data["speedups"], key=data["speedups"].get)
        return (
            f"{data['task']}, {data['drafter']}, γ = {data['gamma']}: this text of "
            f"{data['written']} tokens takes {data['calls']} calls of the target. Over all texts "
            f"{middle:.2f} tokens per call, 95 % interval {low:.2f} to {high:.2f}. The highest "
            f"promise is ×{data['speedups'][best]:.2f}, by {best}."
        )


# ------------------------------------------------------------------ how many to draft

FURTHEST = 12  # drafts, in the map of best lengths


class BestLength(Explorer):
    """The best draft length for any α and any prices, and the map of it.

    All prices are in plain tokens: a forward of the target over one token costs 1, each further
    token in the same forward costs ``reading``, a drafted token ``drafting``.

    Args:
        alpha: where the sliders start.
        drafting: the same.
        reading: the same.
    """

    def __init__(self, alpha: float = 0.8, drafting: float = 0.1, reading: float = 0.1) -> None:
        self._alphas, self._prices = np.linspace(0, 1, 41), np.linspace(0, 1, 41)
        powers = self._alphas[:, None] ** np.arange(FURTHEST + 1)
        self._tokens = powers.cumsum(axis=1)  # (α, γ): 1 + α + ... + α^γ
        super().__init__(
            alpha=slider(alpha, 0.0, 1.0, 0.05, label="acceptance α"),
            drafting=slider(drafting, 0.0, 1.0, 0.05, label="price of a draft"),
            reading=slider(reading, 0.0, 1.0, 0.05, label="price of reading one"),
        )

    def compute(self, alpha: float, drafting: float, reading: float) -> dict[str, Any]:
        """Return the speed-up for γ = 0 ... 12, the best γ, and the map ``(α, price)`` of it."""
        gammas = np.arange(FURTHEST + 1)
        costs = Costs(tuple(1 + reading * g for g in range(FURTHEST + 1)), drafting)
        per_round = 1 + gammas * (self._prices[:, None] + reading)  # (price, γ)
        gains = self._tokens[:, None] / per_round  # (α, price, γ)
        return {
            "alpha": alpha,
            "drafting": drafting,
            "reading": reading,
            "speedup": [speedup(alpha, g, costs) for g in range(FURTHEST + 1)],
            "best": best_draft_tokens(alpha, costs, FURTHEST),
            "map": (gains - 1e-12 * gammas).argmax(axis=-1),
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw the speed-up at the left with its peak ringed, the map at the right."""
        fig = canvas(3.5)
        with style():
            axes = add_axes(fig, 0.65, 0.5, 3.05, 2.4)
            axes.axhline(1, color="black", lw=1, ls=":")
            axes.plot(data["speedup"], MARKERS[0], ls="-", color=COLOURS[2])
            best = data["best"]
            look = {"ms": 16, "markerfacecolor": "none", "color": COLOURS[5], "mew": 2.5}
            axes.plot(best, data["speedup"][best], "o", **look)
            limits = {"xlim": (-0.5, FURTHEST + 0.5), "ylim": (1 / 16, 16)}
            axes.set(yscale="log", **limits, title=f"best γ: {_at_least(best)}")
            axes.yaxis.set_minor_locator(NullLocator())
            heights = (0.125, 0.5, 1, 2, 8)
            scales(axes, range(0, FURTHEST + 1, 2), heights, "draft tokens γ", "× plain decoding")

            axes = add_axes(fig, 4.6, 0.5, 3.1, 2.4)
            shown = np.minimum(data["map"], 8)
            look = {"origin": "lower", "aspect": "auto", "cmap": "cividis", "vmin": 0, "vmax": 8}
            axes.imshow(shown, extent=(0, 1, 0, 1), **look)
            self._name_regions(axes, data["map"])
            look = {"color": COLOURS[5], "markeredgecolor": "white", "ms": 11, "zorder": 4}
            axes.plot(data["drafting"], data["alpha"], "o", clip_on=False, **look)
            axes.set(xlim=(0, 1), ylim=(0, 1), title="best γ for any α and price")
            scales(axes, (0, 0.5, 1), (0, 0.5, 1), "price of a draft", "α")
        return fig

    def _name_regions(self, axes: Any, best: np.ndarray) -> None:
        """Write each region's γ into its middle, where there is room for it."""
        for gamma in (0, 1, 2, 3, 5, FURTHEST):
            rows, columns = np.nonzero(best == gamma)
            if len(rows) < 25:
                continue
            # the cell of the region nearest to its centre lies inside it, whatever its shape
            off = (rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2
            at = off.argmin()
            colour = "black" if gamma > 4 else "white"
            place = self._prices[columns[at]], min(self._alphas[rows[at]], 0.95)  # inside the map
            text = f"{FURTHEST}+" if gamma == FURTHEST else str(gamma)
            axes.text(*place, text, ha="center", va="center", color=colour, weight="bold")

    def caption(self, data: dict[str, Any]) -> str:
        """Name the best γ, and what it is worth."""
        best, prices = data["best"], f"a draft costs {data['drafting']:.2f}, reading one token more"
        head = f"α = {data['alpha']:.2f}, {prices} {data['reading']:.2f}: "
        if best == 0:
            return f"{head}no drafts at all is best; one draft gives ×{data['speedup'][1]:.2f}."
        gain = f"×{data['speedup'][best]:.2f}"
        if best == FURTHEST:
            return (
                f"{head}the best γ is {FURTHEST} or more; {FURTHEST}, the last one shown, {gain}."
            )
        return f"{head}the best γ is {best}, {gain}."


def _at_least(gamma: int) -> str:
    """Return the best γ in words: at the end of the axis a larger one may be better."""
    return f"{gamma} or more" if gamma == FURTHEST else str(gamma)


# ------------------------------------------------------------------ a length that adapts


@dataclass(frozen=True)
class Run:
    """Several texts one after the other, under one policy.

    Attributes:
        place: where each step starts, in tokens from the first text's beginning.
        length: γ of each step.
        alpha: the estimate before each step.
        tokens: how many tokens were written.
        cost: of all steps.
    """

    place: np.ndarray
    length: np.ndarray
    alpha: np.ndarray
    tokens: int
    cost: float


def run(texts: Sequence[Guesses], length: Length, costs: Costs) -> Run:
    """Replay texts in turn; a policy keeps what it has learnt from one to the next."""
    steps, starts, before = [], [], 0
    for text in texts:
        found = replay(text, length)
        starts += [before + step.start for step in found]
        steps += found
        before += len(text.right)
    alpha = np.array([step.alpha for step in steps])
    gammas = np.array([step.length for step in steps])
    return Run(np.array(starts), gammas, alpha, before, sum(s.cost(costs) for s in steps))


class Adapting(Explorer):
    """The adaptive length at work on texts that change: what it believes and what it does.

    Args:
        guesses: task -> drafter -> guesses for several texts; the tasks follow one another.
        costs: drafter -> measured costs.
    """

    def __init__(
        self, guesses: Mapping[str, Mapping[str, Sequence[Guesses]]], costs: Mapping[str, Costs]
    ) -> None:
        if not guesses or not all(set(costs) <= set(each) for each in guesses.values()):
            raise BadValue(f"guesses must hold every task's {[*costs]}")
        self.guesses, self.costs = dict(guesses), dict(costs)
        names = list(self.costs)
        self._fixed = {
            name: [
                run(self._texts(name), FixedLength(g), costs[name]) for g in range(1, LONGEST + 1)
            ]
            for name in names
        }
        super().__init__(
            memory=slider(32, 4, 128, 4, label="memory (rounds)"),
            drafter=choice(names[0], names),
        )

    def _texts(self, name: str) -> list[Guesses]:
        return [text for drafters in self.guesses.values() for text in drafters[name]]

    def compute(self, memory: int, drafter: str) -> dict[str, Any]:
        """Return the run, where the tasks end, and speed-ups: adaptive, and each fixed γ."""
        costs = self.costs[drafter]
        length = AdaptiveLength(LONGEST, costs, memory=integer("memory", memory, 2))
        found = run(self._texts(drafter), length, costs)
        ends = np.cumsum(
            [sum(len(t.right) for t in each[drafter]) for each in self.guesses.values()]
        )
        plain = found.tokens * costs.forward(1)
        return {
            "drafter": drafter,
            "memory": memory,
            "run": found,
            "ends": ends.tolist(),
            "speedup": plain / found.cost,
            "fixed": [plain / each.cost for each in self._fixed[drafter]],
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw the estimate of α above and the chosen γ below, along the tokens."""
        fig, found = canvas(4.5), data["run"]
        ends = [0, *data["ends"]]
        with style():
            for row, (values, name, top) in enumerate(
                ((found.alpha, "α, estimated", 1.0), (found.length, "γ, chosen", LONGEST))
            ):
                axes = add_axes(fig, 0.75, 0.4 + 2.05 * row, 7.0, 1.55)
                x = [*found.place, found.tokens]
                axes.step(x, [*values, values[-1]], where="post", color=COLOURS[2 * row])
                axes.set(xlim=(0, found.tokens), ylim=(0, 1.1 * top))
                ticks = ends if row else ()
                heights = (0, 4, 8) if row else (0, 0.5, 1)
                scales(axes, ticks, heights, "tokens written" if row else "", name)
                axes.vlines(ends, 0, 1.1 * top, color="black", lw=1, ls=":")
                for task, start, end in zip(self.guesses, ends, ends[1:], strict=False):
                    if not row:
                        axes.text((start + end) / 2, 1.14, task, ha="center", weight="bold")
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Name the promised speed-up of the adaptive length, and of fixed ones."""
        fixed = data["fixed"]
        best = int(np.argmax(fixed))
        return (
            f"{data['drafter']}, memory {data['memory']}: adaptive ×{data['speedup']:.2f}; the "
            f"best fixed length is γ = {best + 1} with ×{fixed[best]:.2f}, the worst "
            f"γ = {int(np.argmin(fixed)) + 1} with ×{min(fixed):.2f}."
        )


# ------------------------------------------------------------------ texts, and the clock

Prompts = Mapping[str, Sequence[Sequence[int]]]


def written(
    target: Any, prompts: Prompts, drafts: Mapping[str, Any], **options: Any
) -> tuple[dict[str, tuple[Sequence[int], list[int]]], dict[str, dict[str, list[Guesses]]]]:
    """Let the target write greedily, and note what each drafter would say at each place.

    Args:
        target: writes.
        prompts: task -> prompts, ids.
        drafts: drafter -> the model that it asks, or None for a look-up.
        **options: of ``sample_many``.

    Returns:
        Task -> the first prompt and its text; task -> drafter -> its guesses for every text.
    """
    texts, guesses = {}, {}
    greedily = SamplerOptions(temperature=0.0)
    for task, asked in prompts.items():
        found = sample_many(target, asked, [greedily] * len(asked), **options)
        pairs = [(prompt, each.tokens[0]) for prompt, each in zip(asked, found, strict=True)]
        texts[task] = pairs[0]
        guesses[task] = {
            name: [
                guesses_of_ngram(NGram(), *pair)
                if model is None
                else guesses_of_model(model, *pair)
                for pair in pairs
            ]
            for name, model in drafts.items()
        }
    return texts, guesses


def race(
    target: Any, prompts: Prompts, drafters: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, dict[str, list[float]]]:
    """Write the same texts plainly and with each drafter, four drafts a round, in turn.

    Args:
        target: writes.
        prompts: task -> prompts, ids.
        drafters: name -> drafter.
        options: of the iterators.

    Returns:
        Task -> way, "plain" the first -> seconds of each text, the faster of two runs. On a CPU
        they are the processor's own, to which other programs add little.

    Raises:
        AssertionError: a drafter's text is not the target's own.
    """
    now, seconds = clock(), {}
    ways = {"plain": None, **drafters}
    for task, asked in prompts.items():
        seconds[task] = {name: [math.inf] * len(asked) for name in ways}
        for _, (i, prompt) in itertools.product(range(2), enumerate(asked)):
            alone = None
            for name, drafter in ways.items():
                start = now()
                if drafter is None:
                    tokens = [each.id for each in TokenIterator(target, prompt, **options)]
                else:
                    more = {**options, "draft_tokens": 4}
                    iterator = SpeculativeTokenIterator(target, drafter, prompt, **more)
                    tokens = [each.id for each in iterator]
                seconds[task][name][i] = min(seconds[task][name][i], now() - start)
                alone = alone or tokens
                assert tokens == alone, f"{name} wrote another text"
    return seconds


@dataclass(frozen=True)
class Together:
    """What speculation does to rows that are written side by side.

    Attributes:
        rows: how many.
        plain_calls: forwards of the target without drafts.
        calls: with them.
        alpha: of the drafts.
        costs: prices of such forwards on this machine.
        measured: the speed-up by the clock.
    """

    rows: int
    plain_calls: int
    calls: int
    alpha: float
    costs: Costs
    measured: float


def together(target: Any, draft: Any, prompt: Sequence[int], rows: int, **options: Any) -> Together:
    """Draw ``rows`` answers at temperature 1 without drafts and with four, thrice; see above."""
    costs = measure_costs(target, draft, batch=rows, most=4, repeats=3, temperature=1.0)
    now, took, how = clock(), [], {"temperature": 1.0, **options}
    for _ in range(3):  # the fastest one counts
        start = now()
        alone = sample_n(target, prompt, rows, **how)
        middle = now()
        helped = speculative_sample_n(
            target, draft, prompt, rows, draft_tokens=4, rule="match", **how
        )
        took.append((middle - start, now() - middle))
    plainly, drafted = np.min(took, axis=0)
    calls = alone.stats["target_calls"], helped.stats["target_calls"]
    return Together(rows, *calls, helped.stats["alpha"], costs, plainly / drafted)

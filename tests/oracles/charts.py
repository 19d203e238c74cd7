"""Every explorer of the course whose picture is a chart, with data of a few lines."""

import importlib
import itertools
import math
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

from lablib import LanguageModel, llama_config
from lablib.course import lessons
from lablib.course.lessons.lesson_00a.widgets import Product
from lablib.course.lessons.lesson_00b.widgets import Stream
from lablib.course.lessons.lesson_02.widgets import LARGE, Attending, CacheMemory, Shape
from lablib.course.lessons.lesson_03.widgets import HeatCost, Penalties, StoryCounts
from lablib.course.lessons.lesson_05.widgets import OverOptimisation
from lablib.course.lessons.lesson_06.widgets import Stopping
from lablib.course.lessons.lesson_07.rounds import RoundByRound
from lablib.course.lessons.lesson_07.speed import LengthCurves
from lablib.course.lessons.lesson_08.coin import Overlap
from lablib.course.lessons.lesson_08.widgets import RoundTexts, every_rule
from lablib.course.lessons.lesson_09.widgets import Adapting, Sources
from lablib.course.lessons.lesson_10.widgets import Memories, ReplayCost
from lablib.course.lessons.lesson_11.timeline import BatchTimeline
from lablib.course.lessons.lesson_12 import runs
from lablib.course.lessons.lesson_12.widgets import Choosing, Cuts
from lablib.course.lessons.lesson_13.widgets import Worth
from lablib.course.lessons.lesson_14.load import UnderLoad
from lablib.course.lessons.lesson_14.widgets import Dealing
from lablib.course.lessons.lesson_15.widgets import Judged
from lablib.course.lessons.lesson_16 import sums
from lablib.course.lessons.lesson_16.widgets import Voting
from lablib.course.lessons.lesson_17.widgets import Cloud, Masked
from lablib.course.lessons.lesson_19.continuations import Continuations
from lablib.course.lessons.lesson_19.widgets import Agreement, Blocks, Offered
from lablib.course.plots.chart import ChartExplorer
from lablib.course.plots.explorer import Explorer
from lablib.course.replay.curves import Sampled
from lablib.course.replay.rounds import Guesses
from lablib.course.theory.serving import Prices
from lablib.inference.decoding.rows import Verdict
from lablib.inference.speculation.costs import Costs

import numpy as np

COSTS = Costs((2.0, 2.4, 2.6, 3.0, 3.1, 3.3, 3.4, 3.8, 4.0), 0.3)
FREE = Costs(COSTS.target, 0.0)
P, Q = [0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]


def _logits(rows: int, size: int, seed: int) -> np.ndarray:
    return 3 * np.random.default_rng(seed).normal(size=(rows, size))


def _guesses() -> dict[str, dict[str, list[Guesses]]]:
    never, always = Guesses((8,) * 30, (0,) * 30), Guesses((8,) * 30, tuple(range(30, 0, -1)))
    return {
        "easy": {"model": [always], "gram": [never]},
        "hard": {"model": [never], "gram": [always]},
    }


def _heat_cost() -> HeatCost:
    rights = {"no cut": (48, 44, 0), "top-p 0.9": (48, 47, 9), "min-p 0.1": (48, 48, 45)}
    spread, shares = 0.1 * np.linspace(-1, 1, 48), (0.1, 0.6, 0.8)
    outcomes = {
        (cut, t): StoryCounts(48, right, share + spread)
        for cut, valid in rights.items()
        for t, right, share in zip((0.3, 0.8, 1.3), valid, shares, strict=True)
    }
    return HeatCost(outcomes)


def _rounds() -> RoundByRound:
    rounds = [
        Verdict((1, 2), (1, 2, 4), 2, 2, p=(1.0, 0.8), q=(0.7, 1.0)),
        Verdict((1, 2), (2,), 0, 1, (math.log(0.625),), p=(0.25, 0.5), q=(0.75, 0.5)),
    ]
    return RoundByRound({"one": ([0, 1], rounds)}, ["<s>", " the", " cat", "\n", " sat"])


def _stopping() -> Stopping:
    return Stopping([Sampled("3", [*"3533"] * 5), Sampled("3", [*"53"] * 10)])


def _voting() -> Voting:
    return Voting(sums.World([[("7", [-0.1] * 4), ("3", [-2.0])] * 4] * 3, ["7", "3", "5"], 100))


def _stream() -> Stream:
    model = LanguageModel(llama_config(9, 16, 1, 8), seed=0)
    return Stream(model, [1, 2, 3], [" elephant"] * 9, {"here": 2, "there": 3})


def _blocks() -> Blocks:
    model = LanguageModel(llama_config(9, 16, 1, 8), seed=0)
    ways = {"here": Continuations(model, [1, 2, 3], places=3)}
    return Blocks(ways, [*" abcdefgh"], {"here": 1.0})


def _judged() -> Judged:
    p = _logits(9, 40, 1)
    return Judged({"alike": (p, p), "apart": (p, -p)})


def _cuts() -> Cuts:
    # of 9,000 tokens, the likeliest first: from an open place to a sure one
    ranks = np.arange(1.0, 9001) ** -np.linspace(0.9, 4, 30)[:, None]
    return Cuts([" word"] * 30, np.log(ranks / ranks.sum(axis=1, keepdims=True)))


EVERY: dict[type[ChartExplorer], Callable[[], ChartExplorer]] = {
    Product: lambda: Product(
        [[2, 10], [0, 3]], [[1], [9]], ["Ann", "Ben"], ["tea", "jam"], ["shop"]
    ),
    Stream: _stream,
    Attending: lambda: Attending(["On", " a", " day"], np.array([np.tri(3) / [[1], [2], [3]]] * 2)),
    CacheMemory: lambda: CacheMemory({"ours": Shape(8, 3, 3, 64, 3e6), **LARGE}),
    Penalties: lambda: Penalties([f"word{i}" for i in range(10)], [1.0] * 10, ["word1", "word2"]),
    HeatCost: _heat_cost,
    OverOptimisation: lambda: OverOptimisation(_logits(6, 16, 3) < -1),
    Stopping: _stopping,
    RoundByRound: _rounds,
    LengthCurves: lambda: LengthCurves(COSTS),
    Overlap: lambda: Overlap(["sun", "rain", "snow", "fog"], P, Q),
    RoundTexts: lambda: RoundTexts(
        "abc", [[0.6, 0.3, 0.1]] * 3, [[0.2, 0.3, 0.5]] * 3, list(every_rule())
    ),
    Sources: lambda: Sources(
        dict.fromkeys(("easy", "hard"), ([0, 1, 2], [1] * 30)),
        _guesses(),
        {key: {"plain": [2.0], "model": [1.0], "gram": [3.0]} for key in ("easy", "hard")},
        ["", *"abcd"],
    ),
    Adapting: lambda: Adapting(_guesses(), {"model": COSTS, "gram": FREE}),
    Memories: Memories,
    ReplayCost: ReplayCost,
    BatchTimeline: lambda: BatchTimeline([(0, "ab"), (0, "ac"), (1, "ab"), (9, "abcd")]),
    Cuts: _cuts,
    Choosing: lambda: Choosing(runs.asked("facts"), runs.curves_of("facts")),
    Worth: lambda: Worth({"match": [1.5, 2.0]}, {"match": {2: (1.8, 1.0), 4: (2.6, 2.0)}}, 0.2),
    UnderLoad: lambda: UnderLoad(Prices({1: 2e-3, 8: 4e-3}, {4: 2e-3, 64: 1e-2}, {2: 1e-3})),
    Dealing: Dealing,
    Judged: _judged,
    Voting: _voting,
    Masked: Masked,
    Cloud: lambda: Cloud(days=4, most=5),
    Agreement: lambda: Agreement(["of", "no"], ["course", "problem"]),
    Blocks: _blocks,
    Offered: Offered,
}


def of_the_lessons() -> set[type[ChartExplorer]]:
    """Return every such class that a module of a lesson defines."""
    modules = pkgutil.walk_packages(lessons.__path__, f"{lessons.__name__}.")
    found = [vars(importlib.import_module(module.name)).values() for module in modules]
    return {
        each
        for values in found
        for each in values
        if isinstance(each, type) and issubclass(each, ChartExplorer)
        if each.__module__.startswith(lessons.__name__)
    }


def _both_ends(explorer: Explorer, name: str) -> tuple[Any, Any]:
    control = explorer.controls[name]
    low, high = getattr(control, "min", False), explorer.furthest.get(name, True)
    options = getattr(control, "options", None) or (low, high)
    return options[0], options[-1]


def ends(explorer: Explorer) -> list[dict[str, Any]]:
    """Return settings: the start, and each control at both its ends."""
    both = ((name, _both_ends(explorer, name)) for name in explorer.controls)
    return [{}, *({name: end} for name, ends in both for end in ends)]


def corners(explorer: Explorer) -> Iterator[dict[str, Any]]:
    """Yield every setting that has each control at one of its ends."""
    every = itertools.product(*(_both_ends(explorer, name) for name in explorer.controls))
    return (dict(zip(explorer.controls, values, strict=True)) for values in every)

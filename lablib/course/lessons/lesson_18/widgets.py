"""Widgets of lesson 18: a chain's confidence token by token, and whether the surest are right."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

from lablib.course.lessons.lesson_12.runs import Estimate
from lablib.course.lessons.lesson_18 import compared
from lablib.course.lessons.lesson_18.author import Author
from lablib.course.lessons.lesson_18.chains import (
    MEASURES,
    Drawn,
    elected,
    ordered,
    pairs,
    surest,
    values_of,
)
from lablib.course.plots.chart import Chart
from lablib.course.plots.charts import axis, panel
from lablib.course.plots.dots import Interval, dots
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.tasks import sums
from lablib.course.tasks.problem import Problem
from lablib.course.theory.estimators import bootstrap_interval, wilson_interval
from lablib.inference.steering import token_confidence

import numpy as np

GREY, BRACKET = "#BBBBBB", "#B34A00"
PALE = "#E3E3E3", "#C6E0F5"  # what is no result: it is not what the picture is about
FREE, RIGHT, WRONG = "which digit comes next", "a right result", "a wrong result"
KINDS = {FREE: PALE[1], RIGHT: COLOURS[2], WRONG: COLOURS[1], "no choice": PALE[0]}
RESULTS = {  # of a result: whether its pair is one of the 20, and whether it is right
    (False, True): "a result, another pair, right",
    (True, True): "a result, one of the 20, right",
    (True, False): "a result, one of the 20, wrong",
}
TENTHS = 10
AUTHORS = {
    "hesitates where he errs": Author(habit=0.6, doubt=0.0),
    "errs without hesitating": Author(habit=1.0, doubt=0.0),
    "errs there, hesitates elsewhere": Author(habit=1.0, doubt=0.1),
    "hesitates everywhere": Author(habit=0.6, doubt=0.1),
}


VERDICTS = {
    compared.BETTER: COLOURS[2],
    compared.WORSE: COLOURS[5],
    compared.OPEN: "#555555",
}


def against_the_vote(found: Mapping[str, Estimate]) -> Chart:
    """Draw what ways to choose gain on the vote of all, in points; the verdict is a colour."""
    came = {compared.verdict(gain) for gain in found.values()}
    told: dict[str, dict[str, Any]] = {each: {} for each in VERDICTS if each in came}
    for name, gain in found.items():
        points = tuple(100 * x for x in (gain.value, gain.low, gain.high))
        told[compared.verdict(gain)][name] = points
    title = "question by question; lines: 95 %"
    colours = [VERDICTS[each] for each in told]
    how: Any = {"rows": [*found], "rule": 0, "side": 260, "colours": colours}
    drawn = dots(told, "points of a hundred more than the vote of all eight", title, **how)
    across = drawn.panels[0]["x"]
    low, high = across["ends"]  # lines are short: a tick at each point, a name at every second
    names = {
        at: f"{at}" if at % 2 == 0 else "" for at in range(math.ceil(low), math.floor(high) + 1)
    }
    drawn.panels[0]["x"] = axis(low, high, across["name"], [*names.items()], grid=True)
    return drawn


def said_and_right(bins: Sequence[Mapping[str, Any]]) -> Chart:
    """Draw which share was right over what was said; what comes as it was said is on the dashes."""
    marks: list[dict[str, Any]] = [{"line": [[0, 0], [1, 1]], "dash": "5 3", "wide": 1.5}]
    for each in bins:
        said, (share, low, high) = each["said"], each["right"]
        ends = f"95 % interval {low:.2f} to {high:.2f}"
        note = f"Said {said:.2f}: {share:.2f} are right, {ends}."
        marks.append({"line": [[said, low], [said, high]], "colour": COLOURS[0], "wide": 3})
        marks.append({"dot": [said, share], "r": 5, "colour": COLOURS[0], "note": note})
    ticks = (0, 0.2, 0.4, 0.6, 0.8, 1)
    across, up = axis(0, 1.02, "chance that was said", ticks), axis(0, 1.02, "", ticks)
    title = "elected answers that are right (share; lines: 95 %)"
    return Chart([panel(title, across, up, high=230)], [marks])


def against_all(found: Mapping[str, Interval], lot: str) -> Chart:
    """Draw what votes gain on the vote of all chains; a second rule stands at ``lot``'s gain."""
    rule: Any = {"rule": 0, "side": 260}
    drawn = dots({"": found}, "more right answers than the vote of all 64 (share)", **rule)
    drawn.marks[0].append({"rule": {"x": found[lot][0]}, "dash": "2 3", "colour": "#767676"})
    return drawn


class Along(Explorer):
    """The surest chain's confidence, token by token, and below it that of any other.

    Args:
        drawn: chains for one problem; those without five steps are left out.
        through: a pair; it opens on the least sure chain that adds it, or on the last.
    """

    called = "A chain's confidence at each of its tokens"

    def __init__(self, drawn: Drawn, through: tuple[int, int] | None = None) -> None:
        means = values_of(drawn, "mean of the best 5")
        whole = [i for i in np.argsort(-means, kind="stable") if len(steps(drawn.texts[i])) == 5]
        self.chains = [
            (drawn.texts[i], token_confidence(pairs(drawn.logs[i], 5)), bool(drawn.right[i]))
            for i in whole
        ]
        most = max(float(values.max()) for _, values, _ in self.chains)
        heights = axis(0, 1.12 * most, "", range(0, int(most) + 1, 4))
        tokens = axis(-0.7, 32.7, "", (), bare=True)
        keys = [(colour, kind, kind == WRONG) for kind, colour in KINDS.items()]
        keys.append((BRACKET, "line above: adds one of the 20 pairs"))
        last = len(self.chains)
        met = [i for i in range(1, last + 1) if through in pairs_of(self.chains[i - 1][0])]
        opens = met[-1] if met else last
        views = [panel(self._title(at), tokens, heights, high=130, below=True) for at in (1, opens)]
        self.constants = {"panels": views, "keys": keys}
        super().__init__(chain=slider(opens, 1, last, label="surest first"))

    def compute(self, chain: int) -> dict[str, Any]:
        """Return a chain's tokens, what each is, and its confidence ``(33,)``; 1 is the surest."""
        text, values, right = self.chains[chain - 1]
        return {
            "tokens": [*text, "·"],
            "kinds": kinds(text),
            "confidence": values,
            "right": right,
            "chain": chain,
            "doubtful": [place for place, t, x, _ in steps(text) if (t, x) in sums.NOISY_PAIRS],
        }

    def _title(self, chain: int) -> str:
        what = "confidence of its tokens (nats; dashed: their mean)"
        return f"number {chain} of {len(self.chains)}: {what}"

    def draw(self, data: dict[str, Any]) -> dict[str, Any]:
        """Draw a bar for each token, and the mean: of number 1, and of the chain below it."""
        return {"panels": [self._panel(self.compute(1)), self._panel(data)]}

    def _panel(self, data: dict[str, Any]) -> dict[str, Any]:
        marks = []
        rows = zip(data["tokens"], data["kinds"], data["confidence"].tolist(), strict=True)
        for place, (token, kind, height) in enumerate(rows):
            what = f"{kind}, one of the 20 pairs" if place in data["doubtful"] else kind
            look = {"fill": KINDS[kind], "hollow": kind == WRONG}
            note = f"Token {place + 1}, “{token}”, {what}: confidence {height:.1f}."
            marks.append({"bar": [place - 0.4, place + 0.4, 0, height], "note": note, **look})
        above = self.constants["panels"][0]["y"]["ends"][1] * 0.96
        for place in data["doubtful"]:
            line = [[place - 4.4, above], [place + 0.4, above]]
            marks.append({"key": f"d{place}", "line": line, "colour": BRACKET, "wide": 3})
        marks.append({"rule": {"y": float(data["confidence"].mean())}, "dash": "5 3"})
        ticks = [*enumerate(data["tokens"])]
        return {"title": self._title(data["chain"]), "marks": marks, "x": {"ticks": ticks}}

    def caption(self, data: dict[str, Any]) -> str:
        """Say of both chains their rank, whether they are right, and how many doubtful steps."""
        said = []
        for each in (self.compute(1), data):
            who = f"Number {each['chain']} of {len(self.chains)} by confidence"
            mean, is_right = each["confidence"].mean(), ("wrong", "right")[each["right"]]
            added = f"{len(each['doubtful'])} of its 5 steps add one of the 20 pairs"
            said.append(f"{who}, {mean:.1f} on average, is {is_right}; {added}.")
        return " ".join(said)


class Surest(Explorer):
    """Show whether the surest chains are right, for authors who err in different ways.

    Args:
        problems: of *sums*.
        n: chains for each; a multiple of ten.
        seed: of the chains.
        author: of ``AUTHORS``, on whom it opens.
    """

    called = "The surest chains, and what their votes elect"

    def __init__(
        self,
        problems: Sequence[Problem],
        n: int = 60,
        seed: int = 18,
        author: str = next(iter(AUTHORS)),
    ) -> None:
        self.problems, self.n, self.seed = list(problems), n, seed
        self._written = lru_cache(4)(self._write)
        share, ticks = axis(0, 1.12, "", (0, 0.5, 1)), (1, 5, 10)
        tenths = axis(0.4, TENTHS + 0.6, "tenth, surest first", ticks)
        names = [*enumerate(("one chain", "majority", "surest tenth"), 1)]
        ways = axis(0.4, 3.6, "", names, bare=True)
        views = [panel("chains that are right (dashed: of all; lines: 95 %)", tenths, share)]
        views.append(panel("answers that are right (lines: 95 %)", ways, share))
        self.constants = {"panels": views}
        known = [name for name in MEASURES if name != "self-certainty"]
        super().__init__(
            author=choice(author, list(AUTHORS)),
            measure=choice(known[0], known),
            temperature=slider(1.0, 0.25, 1.25, 0.25, live=False),
        )

    def _write(self, author: str, temperature: float) -> list[Drawn]:
        writes = AUTHORS[author].write
        return [writes(each, self.n, self.seed, temperature) for each in self.problems]

    def compute(self, author: str, measure: str, temperature: float) -> dict[str, Any]:
        """Return the shares that are right: of each tenth of the chains ``(10,)``, of each vote.

        ``apart``: the 95 % interval of the surest tenth's lead over the least sure, by problem;
        ``lead``: that of its lead over all; ``ordered``: how often a right chain is surer than a
        wrong one of the same problem; ``spread``: the 95 % interval of that; ``met``: how many of
        the 20 pairs a chain adds, one of the surest tenth and any.
        """
        drawn = self._written(author, temperature)
        tenths, votes, order, met = [], [], [], []
        for problem, chains in zip(self.problems, drawn, strict=True):
            values, truth = values_of(chains, measure), str(sum(problem.data) % 10)
            ranks = np.argsort(-values, kind="stable")
            by_rank = chains.right[ranks]
            of_the_20 = [[pair in sums.NOISY_PAIRS for pair in pairs_of(t)] for t in chains.texts]
            added = np.array([*map(sum, of_the_20)])
            met.append((added[ranks[: self.n // TENTHS]].mean(), added.mean()))
            tenths.append(by_rank.reshape(TENTHS, -1).mean(axis=1))
            both = elected(chains.answers), elected(chains.answers, surest(values, 0.1))
            votes.append([chains.right.mean(), *(each == truth for each in both)])
            order.append(ordered(values, chains.right))
        known = [each for each in order if each == each]
        return {
            "tenths": np.mean(tenths, axis=0),
            "votes": np.mean(votes, axis=0),
            "apart": bootstrap_interval([each[0] - each[-1] for each in tenths]),
            "lead": bootstrap_interval([float(each[0] - each.mean()) for each in tenths]),
            "ordered": float(np.mean(known)) if known else 0.5,
            "spread": bootstrap_interval(known) if known else (0.0, 1.0),
            "met": np.mean(met, axis=0),
            "author": author,
            "measure": measure,
        }

    def line(self, author: str, measure: str) -> str:
        """Say what a measure makes of an author's chains, at temperature 1."""
        found = self.compute(author, measure, 1.0)
        leads = "{:+.2f} to {:+.2f}".format(*found["lead"])
        spread = "{:.2f} to {:.2f}".format(*found["spread"])
        return (
            f"surest tenth {found['tenths'][0]:.2f} ({leads} on all); "
            f"of two, right is surer in {found['ordered']:.2f} ({spread})"
        )

    def leads(
        self, named: Sequence[str], measures: Sequence[str]
    ) -> dict[str, dict[str, Interval]]:
        """Return by measure and author how many more of the surest tenth are right than of all."""
        found: dict[str, dict[str, Interval]] = {measure: {} for measure in measures}
        for measure, name in product(measures, named):
            data = self.compute(name, measure, 1.0)
            low, high = data["lead"]
            found[measure][name] = float(data["tenths"][0] - data["votes"][0]), low, high
        return found

    def table(self, named: Sequence[str], measures: Sequence[str]) -> str:
        """Return a line for each author: shares of his chains, votes and surest that are right.

        The last says how many of the 20 pairs the last author's surest add, by the last measure.
        """
        heads = ["all chains", "their vote", f"surest tenth: {measures[0]}", *measures[1:]]
        lines = [f"{'right':31}  {'  '.join(heads)}"]
        for name in named:
            every = [self.compute(name, measure, 1.0) for measure in measures]
            found = [*every[0]["votes"][:2], *(each["tenths"][0] for each in every)]
            pairs = zip(heads, found, strict=True)
            lines.append(f"{name:31}  " + "  ".join(f"{x:<{len(head)}.2f}" for head, x in pairs))
        met = "{:.2f} a chain, all {:.2f}".format(*every[-1]["met"])
        lines.append(f"of the 20 pairs the last one's surest by {measures[-1]} add {met}")
        return "\n".join(map(str.rstrip, lines))

    def draw(self, data: dict[str, Any]) -> dict[str, Any]:
        """Draw a bar with its interval for each tenth, and for each way to answer."""
        n = len(self.problems)
        names = ["One chain", "The majority of all", "The majority of the surest tenth"]
        left, right = [], []
        for i, share in enumerate(data["tenths"].tolist(), start=1):
            colour = COLOURS[4] if i == 1 else GREY
            left += _bar(i, share, n, colour, f"Tenth {i}, the surest being 1")
        left.append({"rule": {"y": float(data["votes"][0])}, "dash": "5 3"})
        looks = zip(names, data["votes"].tolist(), (GREY, GREY, COLOURS[4]), strict=True)
        for i, (name, share, colour) in enumerate(looks, start=1):
            right += _bar(i, share, n, colour, name)
            beside = [i - 0.05, share + 0.02]
            right.append({"text": f"{share:.2f}", "at": beside, "anchor": "end"})
        return {"panels": [{"marks": left}, {"marks": right}]}

    def caption(self, data: dict[str, Any]) -> str:
        """Say who writes, and how often his surest and least sure chains are right."""
        first, *_, last = data["tenths"]
        low, high = data["apart"]
        return (
            f"The author {data['author']}: of his surest tenth of chains {first:.2f} are right, of "
            f"his least sure {last:.2f} (difference, 95 %: {low:+.2f} to {high:+.2f})."
        )


def _bar(at: int, share: float, n: int, colour: str, name: str) -> list[dict[str, Any]]:
    """Return a bar with its 95 % interval; ``n`` problems are what would be drawn afresh."""
    low, high = wilson_interval(share * n, n)
    note = f"{name}: {share:.2f} are right, 95 % interval {low:.2f} to {high:.2f}."
    return [
        {"bar": [at - 0.4, at + 0.4, 0, share], "fill": colour, "note": note},
        {"line": [[at, low], [at, high]], "wide": 1.5},
    ]


def sureness(drawn: Sequence[Drawn]) -> dict[str, np.ndarray]:
    """Return how sure a model is, by what it writes: minus mean log-probabilities ``(2,)``.

    They are of the best 5 and of the whole vocabulary, for results by ``RESULTS``, and where it is
    open which digit comes next.
    """
    found: dict[str, list[np.ndarray]] = {name: [] for name in (*RESULTS.values(), FREE)}
    for each in drawn:
        for text, logs in zip(each.texts, each.logs, strict=True):
            sure = -np.stack([logs[:, :5].mean(axis=1), logs.mean(axis=1)], axis=1)
            for place, t, x, n in steps(text):
                kind = (t, x) in sums.NOISY_PAIRS, n == (t + x) % 10
                found.get(RESULTS.get(kind, ""), []).append(sure[place])
            found[FREE] += [sure[i] for i, kind in enumerate(kinds(text)) if kind == FREE]
    return {name: np.mean(each, axis=0) for name, each in found.items()}


def steps(text: str) -> list[tuple[int, int, int, int]]:
    """Return of each step the place of its result, and t, x and n of t+x=n."""
    found = re.finditer(r"(\d)\+(\d)=(\d)", text)
    return [(match.start(3), *map(int, match.groups())) for match in found]


def pairs_of(text: str) -> list[tuple[int, int]]:
    """Return the pairs of digits that a chain adds, in order."""
    return [(t, x) for _, t, x, _ in steps(text)]


def kinds(text: str) -> list[str]:
    """Return what each token of a chain is: a choice of a digit, a result, or no choice.

    Where all digits that are left are the same, none is chosen.
    """
    found, way = ["no choice"] * (len(text) + 1), steps(text)
    left = [way[0][1], *(x for _, _, x, _ in way)] if way else []
    for step, (place, t, x, n) in enumerate(way):
        found[place] = RIGHT if n == (t + x) % 10 else WRONG
        if step == 0 and len({*left}) > 1:
            found[place - 4] = FREE
        if len({*left[step + 1 :]}) > 1:
            found[place - 2] = FREE
    return found

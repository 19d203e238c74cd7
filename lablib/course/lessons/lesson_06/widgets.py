"""Widgets of the lesson on voting: what more votes buy, and when to stop asking."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, panel
from lablib.course.plots.explorer import Explorer, Player, choice, slider, toggle
from lablib.course.plots.pictures import COLOURS
from lablib.course.replay.curves import Sampled
from lablib.course.theory.estimators import wilson_interval
from lablib.inference.voting.leads import cannot_lose, overtake_risk
from lablib.inference.voting.stopping import StopRule

import numpy as np

BEFORE, REACH, CAME = "#D3E4F3", "#D9D9D9", "#222222"
EDGED = {"colour": "#767676", "wide": 1.5}
DIGITS = "0123456789"


class VoteBars(Explorer):
    """A vote that fills up as samples arrive, and the race: who leads, and who can still catch up.

    Args:
        problems: name -> its samples, whose answers are digits (or None).
        reach: whether it shows what the second can still reach, and from when the first can't lose.
    """

    called = "Votes for each answer, and the race between them"
    engine: ClassVar = {"name": "race", "prompt": "sum 7 3 9 0 4 8:"}

    def __init__(self, problems: Mapping[str, Sampled], reach: bool = True) -> None:
        self.problems, self.reach = dict(problems), reach
        every = [problem.answers for problem in self.problems.values()]
        self.all = min(map(len, every))
        self.top = 1.35 * max(max(Counter(answers).values()) for answers in every)  # words above
        height = axis(0, self.top, "", (0, 10, 20, 30))
        across = axis(-0.6, 9.6, "answer: the right one, one too high, …", (), bare=True)
        drawn = axis(0, 1.05 * self.all, "samples", (0, self.all // 2, self.all))
        views = [panel("votes", across, height), panel("the race", drawn, height, ["“0”"])]
        keys = [[COLOURS[2], "right answer"], [COLOURS[1], "wrong (filled: leads)", True]]
        keys += [[CAME, "just in"], [REACH, "what the second can still reach"]]
        keys.append([CAME, "what the first has", "5 3"])
        self.constants = {"panels": views, "keys": keys if reach else keys[:3], "reach": reach}
        super().__init__(
            samples=Player(0, 0, self.all, milliseconds=350),
            problem=choice(next(iter(problems)), list(problems)),
        )

    def compute(self, samples: int, problem: str) -> dict[str, Any]:
        """Return how the votes for each digit have grown, and who leads, from which sample on."""
        chosen = self.problems[problem]
        votes = [Counter(filter(None, chosen.answers[:n])) for n in range(samples + 1)]
        race = np.array([[each[digit] for each in votes] for digit in DIGITS])
        *_, second, most = np.sort(race, axis=0)
        ahead = np.where(most > second, race.argmax(axis=0), -1)  # of all others
        others = np.flatnonzero(ahead != ahead[-1])
        safe = [bool(c) and cannot_lose([*c.values()], self.all - n) for n, c in enumerate(votes)]
        return {
            "votes": dict(zip(DIGITS, race[:, -1].tolist(), strict=True)),
            "race": dict(zip(DIGITS, race.tolist(), strict=True)),
            "leader": max(votes[-1], key=votes[-1].get, default=None),  # the first of equals
            "since": 0 if ahead[-1] < 0 else int(others[-1]) + 1,
            "came": (None, *chosen.answers)[samples],
            "truth": chosen.truth,
            "samples": samples,
            "settled": safe.index(True) if self.reach and any(safe) else 0,
        }

    def draw(self, data: dict[str, Any]) -> dict[str, Any]:
        """Draw a bar for each digit, how its votes have grown, and what the second can reach."""
        n, leader, truth = (data[key] for key in ("samples", "leader", "truth"))
        at, late = data["settled"] or n, n >= self.all / 4  # before, all lines are in one corner
        *_, second, most = sorted(growth[at] for growth in data["race"].values())
        left = self.all - at
        high = min(second + left, self.top)
        reach = [[at, second], [at + high - second, high], [self.all, high], [self.all, second]]
        race = [{"area": reach, "fill": REACH}, {"line": reach[:2], **EDGED}]
        race *= late and self.reach
        bars, ticks, rival = [], [], sorted(data["votes"].values())[-2]
        for digit, growth in data["race"].items():
            right, leads = digit == truth, digit == leader
            place, votes = (int(digit) - int(truth)) % 10, growth[-1]
            colour, hollow = COLOURS[2 if right else 1], not (right or leads)
            bar = {"bar": [place - 0.4, place + 0.4, 0, votes], "fill": colour, "hollow": hollow}
            note = f"{digit}: {votes} of {n} votes{', the right answer' * right}."
            bars.append({"key": digit, **bar, "note": note})
            ticks.append([place, digit])
            if digit == data["came"]:
                newest = [place - 0.4, place + 0.4, votes - 1, votes]
                bars.append({"key": "came", "bar": newest, "fill": CAME})
            if votes > 0:
                share = {"text": f"{int(100 * votes / n + 0.5)}%", "at": [place, votes + 0.8]}
                bars.append({"key": f"s{digit}", **share, "anchor": "middle"})
                line = [[*each] for each in enumerate(growth)]
                named = late and votes >= rival  # more names would lie on the wedge
                look = {"label": f"“{digit}”" * named, "colour": colour, "r": 1}
                wide = 1.5 if hollow else 3
                race.append({"key": f"l{digit}", "line": line, "wide": wide, **look})
        if late and self.reach:
            fate = "can't lose: " * bool(data["settled"]) + f"{left} left, {most - second} behind"
            race.append({"rule": {"x": at}, "text": fate})
            race.append({"rule": {"y": most}, "dash": "5 3"})
        return {"panels": [{"marks": bars, "x": {"ticks": ticks}}, {"marks": race}]}

    def caption(self, data: dict[str, Any]) -> str:
        """Name the leader, the right answer and whether the vote is settled, and wrong."""
        n, leader, truth, votes = (data[key] for key in ("samples", "leader", "truth", "votes"))
        if leader is None:
            return f"No votes yet. The right answer is {truth}."
        most, right = votes[leader], leader == truth
        first = ", the first of equals" * ([*votes.values()].count(most) > 1)
        settled = " and cannot lose any more" if data["settled"] else ""
        other = "" if right else f"; the right answer, {truth}, has {votes[truth]}"
        found = (
            f"After {n} sample{'s' * (n > 1)} answer {leader}{', the right one,' * right} leads "
            f"with {most} vote{'s' * (most > 1)}{first}{settled}{other}."
        )
        return f"{found} So the vote is wrong." if data["settled"] and not right else found


class Stopping(ChartExplorer):
    """A vote that asks after every sample whether its leader is safe, and stops when it is.

    Its looks share what is promised, as in the library; or each may be wrong as often as all may.

    Args:
        problems: samples of each problem; they arrive in the order they are in.
    """

    LEAST = 0.8  # confidence

    def __init__(self, problems: Sequence[Sampled]) -> None:
        self.n = min(len(problem.answers) for problem in problems)
        self._risk, self._leader = (
            np.array(each)
            for each in zip(*(self._watch(problem.answers) for problem in problems), strict=True)
        )
        self._right = self._leader == np.array([[problem.truth] for problem in problems])
        each = product(np.arange(self.LEAST, 1, 0.01), (False, True))
        shares = [n / of for way in each for _, of, n, _ in self.lost(self.compute(*way))]
        self._top = 1.2 * max(1 - self.LEAST, *shares)  # an axis stays where it is
        super().__init__(
            confidence=slider(0.95, self.LEAST, 1.0, 0.01),
            shared=toggle(True, "all looks share the promise"),
        )

    def _watch(self, answers: Sequence[Any]) -> tuple[list[float], list[Any]]:
        """Return after each sample the leader's risk of losing, and the leader."""
        risks, leaders, counts = [], [], {}
        for drawn, answer in enumerate(answers[: self.n], start=1):
            if answer is not None:
                counts[answer] = counts.get(answer, 0) + 1
            risks.append(overtake_risk([*counts.values()], self.n - drawn) if counts else 1.0)
            leaders.append(max(counts, key=counts.__getitem__, default=None))
        return risks, leaders

    def compute(self, confidence: float, shared: bool) -> dict[str, Any]:
        """Return samples used by each problem ``(problems,)``, and shares: right, kept winners.

        ``risk``: of losing, when it stopped; ``changed``: samples used where the full vote elects
        another.
        """
        allowed = 1.0 - confidence
        if shared and confidence < 1:
            allowed = StopRule(confidence).allowed_risk(self.n)
        stops = self._risk <= allowed + 1e-9
        stops[:, -1] = True
        rows, first = np.arange(len(stops)), stops.argmax(axis=1)
        kept = self._leader[rows, first] == self._leader[:, -1]
        return {
            "used": first + 1,
            "risk": self._risk[rows, first],
            "changed": first[~kept] + 1,
            "accuracy": float(np.mean(self._right[rows, first])),
            "kept": float(np.mean(kept)),
            "confidence": confidence,
            "allowed": allowed,
        }

    @staticmethod
    def lost(data: dict[str, Any]) -> list[tuple[int, ...]]:
        """Return n, how many have stopped by then, of these those that changed, that could lose."""
        used = data["used"]
        groups, most = (used, data["changed"], used[data["risk"] > 1e-9]), used.max() + 1
        sums = [np.cumsum(np.bincount(each, minlength=most)).tolist() for each in groups]
        return [each for each in zip(range(most), *sums, strict=True) if each[1]]

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw how many votes have stopped after how many samples, and what that changes."""
        before, marks, mean = 0.0, [], float(data["used"].mean())
        stopped = np.bincount(data["used"], minlength=self.n + 1)[1:] / len(data["used"])
        for n, share in enumerate(stopped.tolist(), 1):
            note = f"{share:.1%} of the votes stopped after {n} samples, {before:.1%} before."
            marks.append({"bar": [n - 0.4, n + 0.4, 0, before], "fill": BEFORE})
            now = [n - 0.4, n + 0.4, before, before + share]
            marks.append({"bar": now, "fill": COLOURS[0], "note": note})
            before += share
        middle = {"line": [[mean, 0], [mean, 1.03]], "dash": "5 3", "wide": 1.5}
        name = {"text": f"mean {mean:.1f}", "at": [mean, 1.07], "anchor": "middle"}
        marks += [middle, name]
        line, notes, risk = [], [], round(1 - data["confidence"], 2)
        for n, of, others, unsure in self.lost(data):
            low, high = wilson_interval(others, of) if unsure else (0.0, 0.0)
            line.append([n, others / of, low, min(high, self._top)])
            said = f"{others} of {of} ({others / of:.1%}; 95 %: {low:.1%} to {high:.1%})"
            notes.append(f"Of those stopped after at most {n} samples {said} elect another.")
        look = {"label": "another winner", "notes": notes, "colour": COLOURS[5]}
        lost = [{"line": line, **look}, {"rule": {"y": risk}, "dash": "5 3"}]
        for anchor, (n, changed, _, high) in ("start", line[0]), ("end", line[-1]):
            at = [n, min(max(high, risk) + 0.04 * self._top, 0.92 * self._top)]
            lost.append({"text": f"{changed:.1%}", "at": at, "anchor": anchor, "bold": True})
        x = axis(0.3, self.n + 0.7, "stopped after … samples", (1, *range(5, self.n + 1, 5)))
        y = axis(0, 1.3, "", (0, 0.5, 1))  # words stand above the bars
        views = [panel("votes that have stopped (share of all)", x | {"name": ""}, y, high=150)]
        title = f"of these, elect another (share; dashed: {risk:.0%} may)"
        views.append(panel(title, x, axis(0, self._top), high=130, below=True))
        keys = [(COLOURS[0], "stopped just now"), (BEFORE, "before")]
        keys.append((COLOURS[5], "elect another than the full vote, with its 95 %"))
        return Chart(views, [marks, lost], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Say what was saved and what it cost."""
        return (
            f"At a risk of {data['allowed']:.1%} a vote stops after {data['used'].mean():.1f} of "
            f"{self.n} samples, on average; "
            f"{data['kept']:.1%} elect whom the full vote elects, {data['accuracy']:.1%} are right."
        )

"""The rounds of speculative decoding, one by one: of texts that exist, and of what you type."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lablib.course.plots import strips
from lablib.course.plots.charts import COLOURS, HATCHES, style, visible
from lablib.course.plots.explorer import Explorer, Player, choice
from lablib.course.plots.strips import Look, add_axes, canvas, draw_strip, name_bars, scales
from lablib.inference.decoding.rows import Verdict
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.validation import BadValue

import numpy as np
from ipywidgets import Text
from matplotlib.figure import Figure

Begin = Callable[[str], tuple[Sequence[int], SpeculativeTokenIterator]]
ACCEPTED = Look("accepted draft", "#A9D3F0")
CORRECTION = Look("correction", "#F3BE6B", "///")
BONUS = Look("bonus", "#A6DBC8", "...")
PLAIN_STEP = Look("plain", "#DDDDDD")
OWN_TOKEN = {"correction": CORRECTION, "bonus": BONUS, "plain": PLAIN_STEP}


YOURS = "what you type"
LONGEST_LIVE = 24  # rounds


class RoundByRound(Explorer):
    """Speculation round by round: the text so far above, this round's drafts below.

    Args:
        texts: name -> the prompt's ids and the trace of its rounds.
        words: the text of every id.
        begin: turns what a student types into the prompt's ids and an iterator with a trace, of
            which only as many rounds are run as are looked at; None: there is nothing to type.
        prompt: what stands there at first.
    """

    def __init__(
        self,
        texts: Mapping[str, tuple[Sequence[int], Sequence[Verdict]]],
        words: Sequence[str],
        begin: Begin | None = None,
        prompt: str = "On a sunny day, Mia finds",
    ) -> None:
        self.texts = {
            name: (list(prompt), list(rounds)) for name, (prompt, rounds) in texts.items()
        }
        if not self.texts or not all(rounds for _, rounds in self.texts.values()):
            raise BadValue("texts must hold at least one text, each with at least one round")
        self.words = list(words)
        steps = max(len(rounds) for _, rounds in self.texts.values())
        self._begin, self._typed, self._live = begin, None, None
        self._high = max(
            strips.height(self._strip(ids, rounds, len(rounds))[0])
            for ids, rounds in self.texts.values()
        )
        first, names, more = next(iter(self.texts)), list(self.texts), {}
        if begin is not None:
            steps, names = max(steps, LONGEST_LIVE), [*names, YOURS]
            more["prompt"] = Text(prompt, description="your prompt", continuous_update=False)
        super().__init__(
            round=_player_from_one(steps, milliseconds=1200), text=choice(first, names), **more
        )
        if begin is not None:  # who types wants to see it, from the first round on
            more["prompt"].observe(lambda _: self.set(text=YOURS, round=1), "value")

    def _trace(self, text: str, prompt: str, count: int) -> tuple[list[int], list[Verdict], bool]:
        """Return a prompt's ids, at least ``count`` rounds if there are, and whether all are."""
        if text != YOURS:
            return (*self.texts[text], True)
        if prompt != self._typed:
            self._live, self._typed = self._begin(prompt), prompt
        ids, iterator = self._live
        while len(iterator.rounds) < count:
            if next(iterator, None) is None:
                return ids, iterator.rounds, True
        return ids, iterator.rounds, False

    def _strip(
        self, prompt: Sequence[int], rounds: Sequence[Verdict], count: int
    ) -> tuple[list[str], list[Look]]:
        """Return tokens and looks of the prompt and the first ``count`` rounds."""
        ids, looks = prompt[1:], [strips.PLAIN] * (len(prompt) - 1)  # all but <s>
        for each in rounds[:count]:
            ids = [*ids, *each.drafted[: each.accepted]]
            looks = [*looks, *[ACCEPTED] * each.accepted]
            if each.token is not None:
                ids, looks = [*ids, each.token], [*looks, OWN_TOKEN[each.kind]]
        return [self.words[i] for i in ids], looks

    def compute(self, round: int, text: str, prompt: str = "") -> dict[str, Any]:
        """Return the text after this round, and the verdict on each of its drafts.

        A round beyond the last is the last; rounds count from 1.
        """
        ids, rounds, whole = self._trace(text, prompt, round)
        round = min(round, len(rounds))
        this = rounds[round - 1]
        tokens, looks = self._strip(ids, rounds, round)
        before = len(self._strip(ids, rounds, round - 1)[0])
        own = this.accepted < len(this.logprobs) and this.token is not None
        verdicts = [
            "accepted" if i < this.accepted else "rejected" if i < this.reached else "not reached"
            for i in range(len(this.drafted))
        ]
        return {
            "number": round,
            "of": f" of {len(rounds)}" if whole else "",
            "tokens": tokens,
            "looks": looks,
            "new": len(tokens) - before,
            "drafted": [self._name(i) for i in this.drafted],
            "p": list(this.p),
            "q": list(this.q),
            "verdicts": verdicts,
            "own": None if this.token is None else self._name(this.token),
            "own_p": math.exp(this.logprobs[this.accepted]) if own else None,
            "kind": this.kind,
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw p and q of each draft as bars, and the text as a strip below them."""
        fig = canvas(max(self._high, strips.height(data["tokens"])) + 2.75)
        with style():
            self._bars(add_axes(fig, 0.8, 0.4, 7.0, 1.45), data)
            axes = add_axes(fig, 0, 2.65, 8, strips.height(data["tokens"]))
            legend = (ACCEPTED, CORRECTION, BONUS)
            draw_strip(axes, data["tokens"], data["looks"], legend=legend, title="text so far:")
        return fig

    def _bars(self, axes: Any, data: dict[str, Any]) -> None:
        count = len(data["drafted"])
        x = np.arange(count)
        for i, (name, label) in enumerate((("q", "draft's q"), ("p", "target's p"))):
            place = x + (i - 0.5) * 0.36
            look = {"color": COLOURS[1 - i], "hatch": HATCHES[1 - i], "edgecolor": "white"}
            axes.bar(place, data[name], 0.36, label=label, **look)
            for left, high in zip(place, data[name], strict=True):
                axes.text(left, high + 0.03, f"{high:.2f}", ha="center", size=10)
        self._own_bar(axes, data)
        names = []
        marks = {"accepted": "✓ accepted", "rejected": "✗ rejected", "not reached": "not reached"}
        for word, verdict in zip(data["drafted"], data["verdicts"], strict=True):
            names.append(f"{word}\n{marks[verdict]}")
        if data["own"] is not None:
            names.append(f"{data['own']}\n{data['kind']}" if data["kind"] == "bonus" else "")
        if data["kind"] == "correction":
            at = data["verdicts"].index("rejected")
            names[at] = f"{names[at]}\n→ {data['own']}"
        # as wide in every round: nothing jumps while the rounds play
        axes.set(xlim=(-0.6, max(self._widest, count) + 0.6), ylim=(0, 1.2))
        scales(axes, (), (0, 0.5, 1), "", "probability")
        name_bars(axes, names)
        axes.set_title(f"round {data['number']}{data['of']}")
        if count:
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)

    def _own_bar(self, axes: Any, data: dict[str, Any]) -> None:
        """Draw the target's p of its own token: beside the draft it corrects, or last."""
        if data["own_p"] is None:
            return
        corrects = data["kind"] == "correction"
        place = data["verdicts"].index("rejected") + 0.5 if corrects else len(data["drafted"])
        look = {"color": COLOURS[2], "hatch": HATCHES[2], "edgecolor": "white"}
        axes.bar(place, data["own_p"], 0.26, label="p of its own token", **look)
        axes.text(place, data["own_p"] + 0.03, f"{data['own_p']:.2f}", ha="center", size=10)

    @property
    def _widest(self) -> int:
        return max(len(each.drafted) for _, rounds in self.texts.values() for each in rounds)

    def caption(self, data: dict[str, Any]) -> str:
        """Say what was drafted, how much of it stays, and what the target added."""
        head = f"Round {data['number']}{data['of']}: "
        if not data["drafted"]:
            return f"{head}nothing was drafted; the target says '{data['own']}'."
        new = f"{data['new']} new token{'s' * (data['new'] > 1)} for one call of the target."
        count = data["verdicts"].count("accepted")
        text = f"{head}{count} of {len(data['drafted'])} drafts accepted"
        if data["kind"] == "correction":
            wrong = data["drafted"][count]
            chances = f"q = {data['q'][count]:.2f}, p = {data['p'][count]:.2f}"
            own = "" if data["own_p"] is None else f" (p = {data['own_p']:.2f})"
            return f"{text}; '{wrong}' ({chances}) is corrected to '{data['own']}'{own}. {new}"
        more = f", and '{data['own']}' as a bonus" if data["kind"] == "bonus" else "; the text ends"
        return f"{text}{more}. {new}"

    def _name(self, i: int) -> str:
        return visible(self.words[i])


def _player_from_one(steps: int, milliseconds: int) -> Player:
    """Return a player through 1 ... ``steps``: people count rounds from 1."""
    player = Player(steps + 1, milliseconds=milliseconds)
    player.value = player.min = 1
    player.play.value = player.play.min = 1
    return player

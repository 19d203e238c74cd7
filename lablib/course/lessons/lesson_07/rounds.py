"""The rounds of speculative decoding, one by one: of texts that exist, and of what you type."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import TINTS, WARM, axis, panel, upright
from lablib.course.plots.explorer import Player, choice
from lablib.course.plots.pictures import visible
from lablib.inference.decoding.rows import Verdict
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.validation import BadValue

from ipywidgets import Text

Begin = Callable[[str], tuple[Sequence[int], SpeculativeTokenIterator]]
# What a token of the text is: its number, and how it looks, in the carpet's colours. The target's
# own token is a bonus wherever no guess was wrong, be it that none was made.
ACCEPTED, OWN_TOKEN = 0, {"correction": 1, "bonus": 2, "plain": 2}
LOOKS = [(TINTS[0], "accepted draft"), (TINTS[1], "correction of a rejected draft")]
LOOKS.append(("#FFFFFF", "bonus", WARM))
FATES = {"accepted": TINTS[0], "rejected": TINTS[1], "not reached": TINTS[4]}  # bars of drafts
YOURS = "your prompt"
LONGEST_LIVE = 24  # rounds


class RoundByRound(ChartExplorer):
    """Speculation round by round: the text so far above, this round's drafts below.

    Args:
        texts: name -> the prompt's ids and the trace of its rounds.
        words: the text of every id.
        begin: turns what a student types into the prompt's ids and an iterator with a trace, of
            which one round more is run than is looked at; None: there is nothing to type.
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
        whole = self.texts.values()
        if not whole or not all(rounds for _, rounds in whole):
            raise BadValue("texts must hold at least one text, each with at least one round")
        self.words = list(words)
        steps = max(len(rounds) for _, rounds in whole)
        self._begin, self._typed, self._live, self._over = begin, None, None, False
        self._texts = [self._strip(ids, rounds)[0] for ids, rounds in whole]
        self._widest = max(len(each.drafted) for _, rounds in whole for each in rounds)
        names, more = list(self.texts), {}
        if begin is not None:
            steps, names = max(steps, LONGEST_LIVE), [*names, YOURS]
            more["prompt"] = Text(prompt, description="your prompt", continuous_update=False)
        player = Player(1, 1, steps, milliseconds=1200)  # people count from 1
        super().__init__(round=player, text=choice(names[0], names), **more)
        if begin is not None:  # who types wants to see it, from the first round on
            more["prompt"].observe(lambda _: self._quiet or self.set(text=YOURS, round=1), "value")

    def _trace(self, text: str, prompt: str, count: int) -> tuple[list[int], list[Verdict], bool]:
        """Return a prompt's ids, at least ``count`` rounds if there are, and whether all are."""
        if text != YOURS:
            return (*self.texts[text], True)
        if prompt != self._typed:
            self._live, self._typed, self._over = self._begin(prompt), prompt, False
        ids, iterator = self._live
        while len(iterator.rounds) < count and not self._over:
            self._over = next(iterator, None) is None
        return ids, iterator.rounds, self._over

    def ends(self, round: int, text: str, prompt: str = "") -> dict[str, float]:
        """Return how many rounds a text has; of one that was typed, once its last one is seen."""
        known = text != YOURS or (prompt == self._typed and self._over)
        return {"round": len(self._trace(text, prompt, 0)[1])} if known else {}

    def _strip(
        self, prompt: Sequence[int], rounds: Sequence[Verdict]
    ) -> tuple[list[str], list[int]]:
        """Return tokens and looks of the prompt and the rounds."""
        ids, looks = [*prompt[1:]], [-1] * (len(prompt) - 1)  # all but <s>
        for each in rounds:
            ids += each.drafted[: each.accepted]
            looks += [ACCEPTED] * each.accepted
            if each.token is not None:
                ids.append(each.token)
                looks.append(OWN_TOKEN[each.kind])
        return [self.words[i] for i in ids], looks

    def compute(self, round: int, text: str, prompt: str = "") -> dict[str, Any]:
        """Return the text after this round, and the verdict on each of its drafts.

        A round beyond the last is the last; rounds count from 1.
        """
        ids, rounds, whole = self._trace(text, prompt, round + 1)
        round = min(round, len(rounds))
        this = rounds[round - 1]
        tokens, looks = self._strip(ids, rounds[:round])
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
            "new": this.accepted + (this.token is not None),
            "drafted": [self._name(i) for i in this.drafted],
            "p": list(this.p),
            "q": list(this.q),
            "verdicts": verdicts,
            "own": None if this.token is None else self._name(this.token),
            "own_p": math.exp(this.logprobs[this.accepted]) if own else None,
            "kind": this.kind,
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the text so far, and below it p and q of each draft as bars."""
        names = data["drafted"] if data["own"] is None else [*data["drafted"], data["own"]]
        wide = max(self._widest, len(data["drafted"]))  # nothing jumps while the rounds play
        x = axis(-0.6, wide + 0.6, "", [*enumerate(names)], bare=True)
        y = axis(0, 1.3, "", (0, 0.5, 1))
        keys = [(WARM, "draft's q", True), (TINTS[4], "bars: target's p (grey: not reached)")]
        dress = {"texts": self._texts, "looks": LOOKS, "about": "text so far"}
        notes = [f"{LOOKS[look][1]}." if look >= 0 else "This was given." for look in data["looks"]]
        before = len(notes) - data["new"]
        notes[before:] = [f"{note} New in this round." for note in notes[before:]]
        now = {"tokens": data["tokens"], "looks": data["looks"], "marked": -1, "notes": notes}
        title = f"round {data['number']}{data['of']}: probability"
        return Chart([panel(title, x, y)], [self._bars(data)], keys, "reading", dress, now)

    def _bars(self, data: dict[str, Any]) -> list[dict[str, Any]]:
        """Return a bar of p within an outline of q for each draft, and what became of it."""
        fills = [FATES[each] for each in data["verdicts"]]
        chances = {"q": data["q"], "p": data["p"]}
        marks = upright(data["drafted"], chances, fills) if data["q"] else []
        own, last = data["own"], len(data["drafted"])
        if data["own_p"] is not None:
            bar = [last - 0.25, last + 0.25, 0, data["own_p"]]
            note = f"{own}, the target's own: p = {data['own_p']:.2f}."
            marks.append({"bar": bar, "fill": LOOKS[OWN_TOKEN[data["kind"]]][0], "note": note})
        marks = [mark | ({} if mark.get("hollow") else {"edge": WARM}) for mark in marks]
        rejected = f"✗ → {own}" if own else "✗ rejected"
        says = {"accepted": "✓", "rejected": rejected, "not reached": "not reached"}
        words = [says[verdict] for verdict in data["verdicts"]]
        if own is not None:
            words.append(data["kind"])
        look = {"anchor": "middle", "room": 0.95}
        return marks + [{"text": word, "at": [i, 1.12], **look} for i, word in enumerate(words)]

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

"""Widgets of the first lesson: a story at a temperature, a guess and its check."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lablib.course.plots.charts import TINTS, WARM
from lablib.course.plots.explorer import Explorer, slider
from lablib.course.plots.marks import DARK, LIGHT, REST, bars_across, number, ranked
from lablib.course.plots.pictures import visible
from lablib.course.plots.strips import LOOKS, sureness
from lablib.course.tasks import Problem, grammar, stories
from lablib.inference import sample_n

import mlx.core as mx
import numpy as np
from scipy.special import softmax


def preflight(report: Any) -> str:
    """Return a calm table of what ``lablib.doctor()`` reported."""
    facts = report.facts
    device = re.sub(r"Device\((\w+).*", r"\1", facts.get("device", "nothing yet")).upper()
    speed = "not measured" if report.gflops is None else f"{report.gflops:.0f} GFLOP/s"
    rows = {
        "machine": facts["machine"],
        "Python": facts["python"].split(" at ")[0],
        "computes on": device,
        "speed": f"{speed} (a matrix product, in billions of operations a second)",
        "advice": "; ".join(report.advice) or "none, all is well",
    }
    return "\n".join(f"{name:>12}  {value}" for name, value in rows.items())


@dataclass(frozen=True)
class Told:
    """One sampled story: its tokens, the model's probability of each, and the checker's verdict."""

    ids: list[int]
    tokens: list[str]
    probabilities: np.ndarray
    verdict: str | None


class StoryTeller(Explorer):
    """One story at each temperature, beside the chances of what may be its first word.

    Args:
        model: a language model.
        tokenizer: its tokenizer.
        problem: a problem of ``stories``.
        fork: the beginning of the answer: it is given, too.
        tries: stories for each temperature; all are told in advance, so that the slider is quick.
        seed: of all draws.
    """

    TEMPERATURES = tuple(t / 4 for t in range(9))
    SHOWN = 8  # and all others, and one of them if it came
    scene, called = "reading", "A story at a temperature, and the chances of its first word"
    engine: ClassVar = {"name": "story", "prompt": "On a sunny day, Mia finds"}

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        problem: Problem,
        fork: str,
        tries: int = 6,
        seed: int = 0,
    ) -> None:
        given = (problem, fork, tries, seed)
        self.stories = {t: _tell(model, tokenizer, t, *given) for t in self.TEMPERATURES}
        prompt = tokenizer.encode(problem.prompt + fork)
        self.logits = np.array(model(mx.array([prompt]))[0, -1].astype(mx.float32), np.float64)
        self.order = np.argsort(-self.logits, kind="stable")
        self.words = [_word(tokenizer.decode([int(i)])) for i in self.order[: self.SHOWN]]
        opening = [tokenizer.decode([i]) for i in prompt][1:]
        self._given = len(opening)
        every = [one for told in self.stories.values() for one in told]
        texts = [opening + one.tokens for one in every]
        verdicts = sorted({*map(_verdict, every)})
        panel = ranked(self.SHOWN + 2, "what could stand in the frame", end=1.55, high=170)
        about = {"looks": LOOKS, "about": "the model gave it", "beside": 0.56, "verdicts": verdicts}
        keys = [(WARM, "at temperature 1", True), (LIGHT, "→ this temperature"), (DARK, "came")]
        self.constants = {"texts": texts, "panels": [panel], "keys": keys, **about}
        again = {"story": slider(1, 1, tries, label="another story")} if tries > 1 else {}
        super().__init__(temperature=slider(1.0, 0.0, 2.0, 0.25), **again)

    def compute(self, temperature: float, story: int = 1) -> dict[str, Any]:
        """Return the chances of all tokens, the likeliest first, the story, and its first word."""
        every = self.stories[temperature]
        told = every[story - 1]
        return {
            "temperature": temperature,
            "chances": self._chances(temperature),
            "number": list(self.stories).index(temperature) * len(every) + story - 1,
            "told": told,
            "comes": int(np.flatnonzero(self.order == told.ids[0])[0]) if told.ids else -1,
        }

    def _chances(self, temperature: float) -> np.ndarray:
        if temperature == 0:
            return np.eye(1, len(self.order))[0]
        return softmax(self.logits / temperature)[self.order]

    def draw(self, data: dict[str, Any]) -> dict[str, Any]:
        """Draw the story, its first word framed, and the chances of what may stand there."""
        told: Told = data["told"]
        notes = ["This was given."] * self._given
        for token, chance in zip(told.tokens, told.probabilities, strict=True):
            notes.append(f"“{token.strip()}”: the model gave it {number(chance)}.")
        return {
            "text": data["number"],
            "looks": [-1] * self._given + [*map(sureness, told.probabilities.tolist())],
            "notes": notes,
            "marked": self._given if told.ids else -1,
            "verdict": _verdict(told),
            "right": told.verdict is None,
            "panels": [self._bars(data["chances"], data["comes"], told)],
        }

    def _bars(self, chances: np.ndarray, comes: int, told: Told) -> dict[str, Any]:
        """Draw the best words, all others, and one of these if it came: that one is dark."""
        names, rare = [*self.words, "all others"], comes >= self.SHOWN
        parts = [*(slice(row, row + 1) for row in range(self.SHOWN)), slice(self.SHOWN, None)]
        if rare:
            names.append(self._named(comes, told))
            parts.append(slice(comes, comes + 1))
        both = (self._chances(1.0), chances)
        own, now = ([float(each[part].sum()) for part in parts] for each in both)
        says = [" → ".join(dict.fromkeys(map(_short, pair))) for pair in zip(own, now, strict=True)]
        dark = len(own) - 1 if rare else comes
        colours = [REST if row == self.SHOWN else LIGHT for row in range(len(own))]
        if comes >= 0:
            colours[dark] = DARK
        panel = bars_across(names, now, colours, says)
        for row, chance in enumerate(own):
            end = panel["marks"][2 * row + 1]
            end["at"][0] = max(end["at"][0], chance + 0.03)  # beyond both
            if row == dark:
                end |= {"bold": True, "colour": DARK, "text": says[row] + ", one of them" * rare}
            bar = [0, chance, -row - 0.45, -row + 0.45]
            panel["marks"].append({"bar": bar, "fill": WARM, "hollow": True})
        return panel

    def _named(self, comes: int, told: Told) -> str:
        return self.words[comes] if comes < self.SHOWN else told.tokens[0].strip() or "␣"

    def caption(self, data: dict[str, Any]) -> str:
        """Name the likeliest word's chance, the word that came, and what the checker says."""
        told, comes, chances = data["told"], data["comes"], data["chances"]
        fate = " and came" if comes == 0 else ""
        if comes > 0:
            fate = f"; ‘{self._named(comes, told)}’ came, which has {number(chances[comes])}"
        return (
            f"At temperature {data['temperature']:g} ‘{self.words[0]}’ has probability "
            f"{chances[0]:.2f}{fate}; the story is {'wrong' if told.verdict else 'right'}."
        )


def _short(chance: float) -> str:
    return "<0.01" if 0 < chance < 0.005 else f"{chance:.2f}"


def _verdict(told: Told) -> str:
    return f"✗ {told.verdict}" if told.verdict else "✓ a right story"


def _word(token: str) -> str:
    """Return the token as a word, with an ellipsis when it is only the beginning of one."""
    word = token.strip()
    return word if word in grammar.WORD_CLASS else f"{word or '␣'}…"


def _tell(
    model: Any,
    tokenizer: Any,
    temperature: float,
    problem: Problem,
    fork: str,
    tries: int,
    seed: int,
) -> list[Told]:
    stop = tokenizer.eos_token_id
    prompt = tokenizer.encode(problem.prompt + fork)
    options = {"max_tokens": 56, "stop_tokens": [stop], "seed": seed, "temperature": temperature}
    samples = sample_n(model, prompt, tries, **options)
    told = []
    for ids, logprobs in zip(samples.tokens, samples.logprobs, strict=True):
        ids = ids[:-1] if ids[-1] == stop else ids
        tokens = [tokenizer.decode([i]) for i in ids]
        verdict = stories.explain(problem, fork + "".join(tokens))
        told.append(Told(ids, tokens, np.exp(logprobs[: len(ids)]), verdict))
    return told


GUESSED, MISSED = "the draft guessed it", "the target wrote something else"


class GuessStrip(Explorer):
    """Where along a text a small model's best guess is what the large model wrote.

    Args:
        text: token ids.
        start: position of the first token that the target wrote.
        target: the target's logits ``(T, V)``; row i is about token i + 1.
        draft: the draft's, likewise.
        words: the token of every id.
    """

    SHOWN = 5
    scene, called = "reading", "Where a draft guesses what a target writes, and what both expect"

    def __init__(
        self,
        text: Sequence[int],
        start: int,
        target: np.ndarray,
        draft: np.ndarray,
        words: Sequence[str],
    ) -> None:
        self.start, self.words = start, words
        self.tokens = [words[i] for i in text]
        self.p, self.q = (softmax(logits[start - 1 : -1], axis=-1) for logits in (target, draft))
        self.agree = self.q.argmax(axis=-1) == np.array(text[start:])
        first_miss = int(self.agree.argmin()) + 1
        # orange is a chance on this page
        looks = [[TINTS[0], GUESSED], [TINTS[3], MISSED]]
        panels = [ranked(self.SHOWN, f"the {name} expects") for name in ("draft", "target")]
        self.constants = {"texts": [self.tokens[1:]], "looks": looks, "about": "", "panels": panels}
        super().__init__(token=slider(first_miss, 1, len(self.agree)))

    @property
    def share(self) -> float:
        """Return how often the guess is right."""
        return float(self.agree.mean())

    def compute(self, token: int) -> dict[str, Any]:
        """Return both models' best tokens at a position with their chances, and what came."""
        best = {
            name: [(self.words[i], float(row[i])) for i in np.argsort(-row)[: self.SHOWN]]
            for name, row in (("draft", self.q[token - 1]), ("target", self.p[token - 1]))
        }
        place = self.start + token - 1
        return {"place": place, "written": self.tokens[place], **best}

    def draw(self, data: dict[str, Any]) -> dict[str, Any]:
        """Draw the text above both distributions."""
        given, panels = self.start - 1, []
        for name in ("draft", "target"):
            words, chances = zip(*data[name], strict=True)
            colours = [DARK if word == data["written"] else LIGHT for word in words]
            panels.append(bars_across([*map(visible, words)], chances, colours))
        came = zip(self.tokens[self.start :], self.agree, strict=True)
        notes = [f"“{word.strip()}”: {GUESSED if same else MISSED}." for word, same in came]
        return {
            "text": 0,
            "looks": [-1] * given + [0 if same else 1 for same in self.agree],
            "notes": ["This was given."] * given + notes,
            "marked": data["place"] - 1,
            "panels": panels,
        }

    def caption(self, data: dict[str, Any]) -> str:
        """Name guess and truth here, and the share over the whole text."""
        guess, written = data["draft"][0][0], data["written"]
        here = "right" if guess == written else f"'{written.strip()}' came"
        return (
            f"Here the draft guesses '{guess.strip()}': {here}. Over the whole text it guessed "
            f"{self.agree.sum()} of {len(self.agree)} tokens."
        )

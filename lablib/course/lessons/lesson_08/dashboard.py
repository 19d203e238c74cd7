"""The acceptance dashboard: every task, drafter, rule, length and temperature, and each token.

The texts are there already, and what the drafters gave their tokens; so a control only computes
(``replay.sampled``), and no text is written anew.
"""

import base64
from collections.abc import Sequence
from functools import cache
from typing import Any

from lablib.course.lessons.lesson_08.panels import BEST, HIGH, panels
from lablib.course.plots import strips
from lablib.course.plots.charts import style, visible
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.picker import TokenPicker
from lablib.course.plots.strips import SURENESS, Look, add_axes, canvas, draw_strip
from lablib.course.replay.recording import (
    DRAFT,
    DRAFTERS,
    GAMMA,
    LOOKUP,
    Recording,
    probabilities,
    stored_acceptance,
)
from lablib.course.replay.rounds import LONGEST
from lablib.course.replay.sampled import RULES, Expected, Texts, expect
from lablib.course.theory.estimators import wilson_interval
from lablib.inference.speculation import NGram
from lablib.inference.speculation.costs import expected_tokens
from lablib.models.head import DraftHead, load_head

import mlx.core as mx
import numpy as np
from matplotlib.figure import Figure

_NAMES = "0.9 to 1", "0.5 to 0.9", "0.1 to 0.5", "below 0.1"
OVERLAPS = tuple(
    Look(name, look.fill, look.hatch) for name, look in zip(_NAMES, SURENESS, strict=True)
)
_TITLE = "Σ min(p, q):"
_WRAP = (  # on a phone one chart stands above the other
    "<style>.lablib-charts{display:flex;flex-wrap:wrap}"
    ".lablib-charts img{max-width:100%;height:auto}</style>"
)
_KEPT = 24  # drawn charts that are remembered, 20 KB each


def overlap_look(share: float) -> Look:
    """Return the look of a token at whose place the models share so much."""
    return OVERLAPS[SURENESS.index(strips.sureness(share))]


class Dashboard(Explorer):
    """Acceptance along the target's own texts, for every rule and drafter at every temperature.

    Args:
        recording: the texts, and what the engine counted.
        target: the model that wrote them.
        draft: the draft model.
        head: the target's draft head.
        words: the text of every id.
        rules: those of ``RULES`` that are shown.
        drafters: those of ``DRAFTERS`` that are shown.
        **start: where controls start, by their names: ``task``, ``drafter``, ``rule``,
            ``draft_tokens``, ``temperature``.
    """

    def __init__(
        self, recording: Recording, target: Any, draft: Any, head: DraftHead,
        words: Sequence[str], rules: Sequence[str] = RULES, drafters: Sequence[str] = DRAFTERS,
        **start: Any,
    ) -> None:  # fmt: skip
        self.recording, self.words = recording, list(words)
        self._models, self._rules = (target, draft, head), tuple(rules)
        self.expected, self.rows = cache(self._expected), cache(self._rows)
        self._target, self._chances = cache(self._read), cache(self._judged)
        grid = recording.temperatures.tolist()
        begin = {"task": recording.tasks[0], "drafter": DRAFT, "rule": "rejection"}
        begin |= {"draft_tokens": GAMMA, "temperature": 1.0} | start
        self._panels, self._drawn = panels(recording.temperatures), {}
        longest = max(len(tokens) for _, tokens in recording.tokens)
        hard = np.argmin(self.overlaps(begin["task"], begin["drafter"], begin["temperature"]))
        super().__init__(
            task=choice(begin["task"], list(recording.tasks)),
            drafter=choice(begin["drafter"], list(drafters)),
            rule=choice(begin["rule"], list(rules)),
            draft_tokens=slider(begin["draft_tokens"], 1, LONGEST, label="draft tokens γ"),
            temperature=slider(begin["temperature"], grid[0], grid[-1], grid[1] - grid[0]),
            token=TokenPicker(int(hard) + 1, longest),
        )

    # -------------------------------------------------------------- numbers

    def _judged(self, task: str, drafter: str) -> tuple[Texts, list[np.ndarray]]:
        """Return what a drafter gave the texts of a task, and each rule's chances of keeping it."""
        texts = self.recording.along(task, drafter)
        return texts, [texts.chances(rule) for rule in RULES]

    def _expected(self, task: str, drafter: str, gamma: int) -> list[list[Expected]]:
        """Return what rounds come to at every temperature, for every rule: ``[T][rule]``."""
        texts, chances = self._chances(task, drafter)
        whole = [expect(each, texts.offered, texts.lengths, gamma) for each in chances]
        each = [self.recording.of(t) for t in self.recording.temperatures]
        return [[found.of(which) for found in whole] for which in each]

    def _read(self, task: str, temperature: float) -> tuple[mx.array, mx.array, np.ndarray]:
        """Return the text ``(1, n)``, the target's states and its logits at each token."""
        prompt, tokens = self.recording.written(task, temperature)
        ids = mx.array([[*prompt, *tokens]])
        states = self._models[0].hidden(ids)
        p = self._models[0].output(states[:, len(prompt) - 1 : -1])[0]
        return ids, states, np.array(p.astype(mx.float32))

    def _rows(self, task: str, drafter: str, temperature: float) -> tuple[np.ndarray, np.ndarray]:
        """Return what the target and the drafter say at each token of the text, logits ``(n, V)``.

        Of a drafter that looks up, the logit of its guess is 0 and all others are -inf.
        """
        prompt, tokens = self.recording.written(task, temperature)
        ids, states, p = self._target(task, temperature)
        first = len(prompt) - 1
        _, draft, head = self._models
        if drafter == LOOKUP:
            return p, self._guesses(prompt, tokens)
        if drafter == DRAFT:
            q = draft(ids)[0, first:-1]
        else:
            q = head.logits(head(states[:, :-1], ids[:, 1:])[0])[first - 1 : -1]
        return p, np.array(q.astype(mx.float32))

    def _guesses(self, prompt: list[int], tokens: list[int]) -> np.ndarray:
        text, lookup = [*prompt, *tokens], NGram().begin(None, None, 1).lookup
        q = np.full((len(tokens), len(self.words)), -np.inf)
        for place in range(len(tokens)):
            for guess in lookup(text[: len(prompt) + place], 1):
                q[place, guess] = 0
        return q

    def _both(self, task: str, drafter: str, temperature: float) -> tuple[np.ndarray, np.ndarray]:
        """Return p and q at each token of the text, ``(n, V)`` both; q is 0 without a guess."""
        p, q = self.rows(task, drafter, self._on_grid(temperature))
        guessed = np.isfinite(q).any(axis=-1, keepdims=True)
        drawn = probabilities(np.where(guessed, q, 0), temperature)
        return probabilities(p, temperature), np.where(guessed, drawn, 0)

    def overlaps(self, task: str, drafter: str, temperature: float) -> np.ndarray:
        """Return Σ min(p, q) at each token of the text ``(n,)``."""
        return np.minimum(*self._both(task, drafter, temperature)).sum(axis=-1)

    def _on_grid(self, temperature: float) -> float:
        return float(self.recording.temperatures[self.recording.at(temperature)])

    def compute(
        self, task: str, drafter: str, rule: str, draft_tokens: int, temperature: float, token: int
    ) -> dict[str, Any]:
        """Return the text, the models' best at one token, and rounds; see ``draw``.

        A token beyond the end of the text is its last one, and the slider goes there.
        """
        prompt, tokens = self.recording.written(task, temperature)
        p, q = self._both(task, drafter, temperature)
        at, k = min(token, len(tokens)) - 1, RULES.index(rule)
        expected = self.expected(task, drafter, draft_tokens)
        here = expected[self.recording.at(temperature)][k]
        kept, gamma = here.alpha, draft_tokens
        best = self._best(task, drafter, temperature, at)
        return {
            "task": task,
            "drafter": drafter,
            "rule": rule,
            "gamma": draft_tokens,
            "temperature": temperature,
            "prompt": [self.words[i] for i in prompt[1:]],  # all but <s>
            "tokens": [self.words[i] for i in tokens],
            "overlaps": np.minimum(p, q).sum(axis=-1),
            "at": at,
            "best": [(self._name(i), p, q) for i, p, q in best],
            "own": next((row for row, (i, *_) in enumerate(best) if i == tokens[at]), None),
            "shares": here.shares,
            "tokens_per_round": here.tokens_per_round,
            "alpha": kept,
            "coins": [(1 - kept) * kept**i for i in range(gamma)] + [kept**gamma],
            "promise": expected_tokens(kept, gamma),
            "grid": self.recording.temperatures,
            "lines": {
                name: [row[RULES.index(name)].alpha for row in expected] for name in self._rules
            },
            "points": {name: self._measured(task, drafter, name) for name in self._rules},
            "counted": self.recording.counted(task, temperature, rule, drafter),
        }

    def _best(
        self, task: str, drafter: str, temperature: float, at: int
    ) -> list[tuple[int, float, float]]:
        """Return id, p and q of the best five tokens of each model, the target's best first.

        At temperature 0 these are what the models say themselves, at temperature 1.
        """
        p, q = (each[at] for each in self._both(task, drafter, temperature or 1.0))
        if not temperature:  # the text is greedy, and so are its rows
            p, q = (
                probabilities(np.maximum(row[at], -1e9), 1.0) * bool(np.isfinite(row[at]).any())
                for row in self.rows(task, drafter, 0.0)
            )
        chosen = [np.argsort(-each, kind="stable")[:BEST] for each in (p, q)]
        some = {i: 0 for best, each in zip(chosen, (p, q), strict=True) for i in best if each[i]}
        ranked = sorted(some, key=lambda i: (-p[i], -q[i]))
        return [(int(i), float(p[i]), float(q[i])) for i in ranked]

    def _name(self, i: int) -> str:
        return visible(self.words[i])

    def _measured(self, task: str, drafter: str, rule: str) -> list[tuple[float, float, float]]:
        """Return what the engine kept at each temperature, and the ends of its 95 % interval."""
        found = []
        for temperature in self.recording.temperatures:
            counts = self.recording.counted(task, temperature, rule, drafter)
            accepted, reached = counts["accepted"], max(1, counts["reached"])
            found.append((accepted / reached, *wilson_interval(accepted, reached)))
        return found

    # -------------------------------------------------------------- pictures

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw the text, and below it what :meth:`live` draws."""
        tokens = [*data["prompt"], *data["tokens"]]
        looks = [strips.PLAIN] * len(data["prompt"]) + [*map(overlap_look, data["overlaps"])]
        high = strips.height(tokens) + 0.1
        fig, mark = canvas(high + HIGH), len(data["prompt"]) + data["at"]
        with style():
            axes = add_axes(fig, 0, 0, 8, high - 0.1)
            draw_strip(axes, tokens, looks, legend=OVERLAPS, title=_TITLE, mark=mark)
        for panel in self._panels:
            panel.stage.draw(fig, panel.left, high + panel.top, data)
        return fig

    def live(self, data: dict[str, Any]) -> str:
        """Draw the charts; the text is a control, and gets its colours here."""
        picker, self._quiet = self.controls["token"], True
        picker.value = data["at"] + 1  # past the end an arrow key would move nothing for long
        self._quiet = False
        picker.show(
            data["tokens"],
            [overlap_look(share) for share in data["overlaps"]],
            data["at"],
            hints=[f"Σ min(p, q) = {share:.2f}" for share in data["overlaps"]],
            before="".join(data["prompt"]),
            legend=OVERLAPS,
            title=_TITLE,
        )
        parts = []
        for number, panel in enumerate(self._panels):
            key = number, *(data[name] for name in panel.keys)
            if key not in self._drawn:  # a chart that the control leaves alone stays as it is
                image = base64.b64encode(panel.stage.png(data)).decode()
                self._drawn[key] = f'<img alt="" src="data:image/png;base64,{image}">'
            parts.append(self._drawn[key])
        for old in [*self._drawn][:-_KEPT]:
            del self._drawn[old]
        return f'<div class="lablib-charts">{_WRAP}{"".join(parts)}</div>'

    def _shown(self, data: dict[str, Any]) -> str:
        return visible(data["tokens"][data["at"]])

    def caption(self, data: dict[str, Any]) -> str:
        """Say what is at the token, what rounds come to, and what the engine counted."""
        word, p, q = data["best"][0]
        share, counts = data["overlaps"][data["at"]], data["counted"]
        best = f"the target's best is '{word}', p = {p:.2f}, q = {q:.2f}"
        if not data["temperature"]:
            best += " before the choice"
        engine, silent = "", " (a round without a guess keeps none)" * (data["drafter"] == LOOKUP)
        if data["gamma"] == GAMMA:
            seen = counts["accepted"] / max(1, counts["reached"])
            engine = f" The engine kept {seen:.2f} of {counts['reached']} judged drafts."
        return (
            f"Token {data['at'] + 1} of {len(data['tokens'])}, '{self._shown(data)}': Σ min(p, q) "
            f"= {share:.2f}; {best}. {data['task']}, {data['drafter']}, {data['rule']}, γ = "
            f"{data['gamma']}, temperature {data['temperature']:g}: α = {data['alpha']:.2f}, "
            f"{data['tokens_per_round']:.2f} tokens a round, where coins of one α would make "
            f"{data['promise']:.2f}{silent}.{engine}"
        )


def shipped_dashboard(target: Any, draft: Any, words: Sequence[str], **start: Any) -> Dashboard:
    """Return the dashboard of the recording and the head that came with ``target``."""
    head = load_head("target-head", target)
    return Dashboard(stored_acceptance(), target, draft, head, words, **start)

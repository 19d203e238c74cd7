"""The acceptance dashboard: every task, drafter, rule, length and temperature, and each token.

The texts are there already, and what the drafters gave their tokens; so a control only computes
(``replay.sampled``), and no text is written anew.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import product
from typing import Any, ClassVar

from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.pictures import visible
from lablib.course.replay.recording import (
    DRAFT,
    DRAFTERS,
    GAMMA,
    LOOKUP,
    MAX_TOKENS,
    Recording,
    probabilities,
    stored_acceptance,
)
from lablib.course.replay.rounds import LONGEST
from lablib.course.replay.sampled import RULES, Expected, Texts, expect, keeps, refused, toss
from lablib.course.theory.estimators import wilson_interval
from lablib.inference.speculation import NGram
from lablib.models.head import DraftHead, load_head

import mlx.core as mx
import numpy as np

PLAYED = ("match", "rejection")  # rules that judge each draft by a coin of its own
WORDS = 4  # of a token have a row of their own


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

    ROWS = 6
    scene, called = "dashboard", "Tokens of some texts, and the rounds that wrote them"
    engine: ClassVar = {"name": "dashboard", "prompt": "sum 7 3 9 0 4 8:", "seed": 0}
    parts: ClassVar = {
        "texts": ("task", "temperature"),
        "models": ("task", "drafter", "temperature"),
        "heat": ("task", "drafter", "draft_tokens"),
        "rounds": ("task", "drafter", "rule", "draft_tokens", "temperature"),
    }

    def __init__(
        self, recording: Recording, target: Any, draft: Any, head: DraftHead,
        words: Sequence[str], rules: Sequence[str] = RULES, drafters: Sequence[str] = DRAFTERS,
        **start: Any,
    ) -> None:  # fmt: skip
        self.recording, self.words = recording, list(words)
        self._models, self._rules = (target, draft, head), tuple(rules)
        self.expected, self.models = cache(self._expected), cache(self._compared)
        self._target, self._chances = cache(self._read), cache(self._judged)
        self._whole, self._drawn = cache(self._of_all_texts), lru_cache(16)(self.both)
        # of this seed's the coin of a hard token is seen in the middle of what was refused
        self._coins = np.random.default_rng(30).random((self.ROWS, MAX_TOKENS))
        grid = recording.temperatures.tolist()
        begin = {"task": recording.tasks[0], "drafter": DRAFT, "rule": "rejection"}
        begin |= {"draft_tokens": GAMMA, "temperature": 1.0} | start
        for task, drafter in product(recording.tasks, drafters):  # before a control moves
            self.expected(task, drafter, begin["draft_tokens"])
        for each in product(recording.tasks, grid):
            mx.eval(self._target(*each))
        self.constants = {
            "words": [visible(word) for word in self.words],
            "rows": self.ROWS,
            "texts": recording.problems,
            "grid": grid,
            "rules": list(rules),
            "engine": GAMMA,
            "most": LONGEST,
            "longest": {
                task: max(len(tokens) for hot in grid for _, tokens in self._some(task, hot))
                for task in recording.tasks
            },
        }
        super().__init__(
            task=choice(begin["task"], list(recording.tasks)),
            drafter=choice(begin["drafter"], list(drafters)),
            rule=choice(begin["rule"], list(rules)),
            draft_tokens=slider(begin["draft_tokens"], 1, LONGEST, label="draft tokens γ"),
            temperature=slider(begin["temperature"], grid[0], grid[-1], grid[1] - grid[0]),
        )

    # -------------------------------------------------------------- parts of the data

    def texts(self, task: str, temperature: float) -> dict[str, Any]:
        """Return the ids of each text's tokens."""
        return {"tokens": [tokens for _, tokens in self._some(task, temperature)]}

    def _compared(self, task: str, drafter: str, temperature: float) -> dict[str, Any]:
        """Return Σ min(p, q) at each token, in percent, and the likely words there.

        At temperature 0 their p and q are what the models say before the choice, at temperature 1.
        """
        drawn = self._drawn(task, drafter, temperature)
        said = drawn if temperature else self.both(task, drafter, 1.0, temperature)
        best = [
            _likely(tokens, p, q)
            for (_, tokens), (p, q) in zip(self._some(task, temperature), said, strict=True)
        ]
        shares = [_rounded(np.minimum(*each).sum(axis=-1)) for each in drawn]
        return {"overlaps": shares, "best": best}

    def heat(self, task: str, drafter: str, draft_tokens: int) -> dict[str, Any]:
        """Return α of each rule at every temperature, counted too, and of other drafters."""
        expected = self.expected(task, drafter, draft_tokens)
        names = [name for name in RULES if name in self._rules or name == "rejection"]
        grid = [*map(self.recording.of, self.recording.temperatures)]
        others = {
            name: [self._whole(task, name, draft_tokens, "rejection").of(hot).alpha for hot in grid]
            for name in self.controls["drafter"].options
            if name != drafter
        }
        return {
            "lines": {name: [row[RULES.index(name)].alpha for row in expected] for name in names},
            "points": {name: self._measured(task, drafter, name) for name in names},
            "others": others,
        }

    def rounds(
        self, task: str, drafter: str, rule: str, draft_tokens: int, temperature: float
    ) -> dict[str, Any]:
        """Return the rounds of one toss, what they drafted, and what rounds come to on average."""
        texts, chances = self._chances(task, drafter)
        own, k = self.recording.of(temperature), RULES.index(rule)
        places = slice(0, texts.lengths[own].max())
        offered = texts.offered[own, places]
        chance, most = (chances[i][own, places] for i in (k, RULES.index("rejection")))
        here = self.expected(task, drafter, draft_tokens)[self.recording.at(temperature)][k]
        drawn, written = self._drawn(task, drafter, temperature), self._some(task, temperature)
        rows = zip(written, drawn, chance, offered, self._coins, strict=False)
        tossed, judged = [], []
        for (prompt, tokens), (p, q), stays, room, coins in rows:
            found = toss(stays, room[: len(tokens)], coins, draft_tokens)
            tossed.append(found)
            judged.append([])
            lookup, start = NGram().begin(None, None, 1).lookup, 0
            for drafted, kept in found if rule in PLAYED else ():
                said, likely = q[start : start + drafted], stays[start]
                if drafter == LOOKUP:  # it goes on from where the round began
                    guess = lookup([*prompt, *tokens[:start]], drafted)
                    said = np.equal.outer(guess, np.arange(q.shape[-1])).astype(float)
                end = start + min(kept + 1, drafted)
                some = p[start:end], said, tokens[start:end], likely, coins[start:]
                judged[-1].append([_fate(rule, *each) for each in zip(*some, strict=False)])
                start += kept + 1
        alone = (here.of(slice(row, row + 1)) for row in range(self.ROWS))
        kept, counts = here.alpha, self.recording.counted(task, temperature, rule, drafter)
        return {
            "rounds": tossed,
            "judged": judged,
            "columns": _columns([chance[..., 0], most[..., 0]], offered > 0),
            "means": [round(text.tokens_per_round, 3) for text in alone],
            "shares": here.shares.round(4).tolist(),
            "coins": [(1 - kept) * kept**i for i in range(draft_tokens)] + [kept**draft_tokens],
            "tokens_per_round": here.tokens_per_round,
            "alpha": kept,
            "counted": [counts["accepted"], counts["reached"]],
        }

    # -------------------------------------------------------------- numbers

    def _some(self, task: str, temperature: float) -> list[tuple[list[int], list[int]]]:
        """Return prompt and tokens of the texts that have a row."""
        return self.recording.texts(task, temperature)[: self.ROWS]

    def _judged(self, task: str, drafter: str) -> tuple[Texts, list[np.ndarray]]:
        """Return what a drafter gave the texts of a task, and each rule's chances of keeping it."""
        texts = self.recording.along(task, drafter)
        return texts, [texts.chances(rule) for rule in RULES]

    def _of_all_texts(self, task: str, drafter: str, gamma: int, rule: str) -> Expected:
        """Return what rounds come to by one rule, over the texts of every temperature."""
        texts, chances = self._chances(task, drafter)
        return expect(chances[RULES.index(rule)], texts.offered, texts.lengths, gamma)

    def _expected(self, task: str, drafter: str, gamma: int) -> list[list[Expected]]:
        """Return what rounds come to at every temperature, for every rule: ``[T][rule]``."""
        whole = [self._whole(task, drafter, gamma, rule) for rule in RULES]
        grid = self.recording.temperatures
        return [[found.of(self.recording.of(t)) for found in whole] for t in grid]

    def _read(self, task: str, temperature: float) -> tuple[mx.array, mx.array, mx.array]:
        """Return the texts, padded at their ends ``(B, N)``, the target's states and logits."""
        rows = [[*prompt, *tokens] for prompt, tokens in self._some(task, temperature)]
        longest = max(map(len, rows))
        ids = mx.array([[*row, *[0] * (longest - len(row))] for row in rows])
        states = self._models[0].hidden(ids)
        return ids, states, self._models[0].output(states)

    def rows(
        self, task: str, drafter: str, temperature: float
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return what target and drafter say at each token of each text, logits ``(n, V)``.

        Of a drafter that looks up, the logit of its guess is 0 and all others are -inf.
        """
        texts = self._some(task, temperature)
        ids, states, said = self._target(task, temperature)
        p = np.array(said.astype(mx.float32))
        ahead, (_, draft, head) = 1, self._models
        if drafter == LOOKUP:
            guessed = [self._guesses(*text) for text in texts]
        elif drafter == DRAFT:
            q = np.array(draft(ids).astype(mx.float32))
        else:  # it reads a token and the state before it
            hidden = head(states[:, :-1], ids[:, 1:])
            flat = head.logits(hidden.reshape(-1, hidden.shape[-1]))
            q = np.array(flat.astype(mx.float32)).reshape(*hidden.shape[:2], -1)
            ahead = 2
        found = []
        for row, (prompt, tokens) in enumerate(texts):
            own = slice(len(prompt) - 1, len(prompt) - 1 + len(tokens))
            drafts = slice(len(prompt) - ahead, len(prompt) - ahead + len(tokens))
            found.append((p[row, own], guessed[row] if drafter == LOOKUP else q[row, drafts]))
        return found

    def _guesses(self, prompt: list[int], tokens: list[int]) -> np.ndarray:
        text, lookup = [*prompt, *tokens], NGram().begin(None, None, 1).lookup
        q = np.full((len(tokens), len(self.words)), -np.inf)
        for place in range(len(tokens)):
            for guess in lookup(text[: len(prompt) + place], 1):
                q[place, guess] = 0
        return q

    def both(
        self, task: str, drafter: str, temperature: float, written: float | None = None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return p and q at each token of each text, ``(n, V)`` both; q is 0 without a guess.

        The texts are those ``written`` at another temperature, if it is given.
        """
        written = temperature if written is None else written
        found = []
        for p, q in self.rows(task, drafter, written):
            guessed = np.isfinite(q).any(axis=-1, keepdims=True)
            drawn = probabilities(np.where(guessed, q, 0), temperature)
            found.append((probabilities(p, temperature), np.where(guessed, drawn, 0)))
        return found

    def overlaps(self, task: str, drafter: str, temperature: float) -> list[np.ndarray]:
        """Return Σ min(p, q) at each token ``(n,)`` of each text."""
        return [np.minimum(*each).sum(axis=-1) for each in self.both(task, drafter, temperature)]

    def _measured(self, task: str, drafter: str, rule: str) -> list[tuple[float, float, float]]:
        """Return what the engine kept at each temperature, and the ends of its 95 % interval."""
        found = []
        for temperature in self.recording.temperatures:
            counts = self.recording.counted(task, temperature, rule, drafter)
            accepted, reached = counts["accepted"], max(1, counts["reached"])
            found.append((accepted / reached, *wilson_interval(accepted, reached)))
        return found

    def caption(self, data: dict[str, Any]) -> str:
        """Say what rounds come to, and what the engine counted."""
        kept, reached = data["counted"]
        engine, silent = "", " (a round without a guess keeps none)" * (data["drafter"] == LOOKUP)
        if data["draft_tokens"] == GAMMA:
            engine = f" The engine kept {kept / max(1, reached):.2f}."
        return (
            f"A round writes {data['tokens_per_round']:.2f} tokens: of the drafts that it judges, "
            f"{data['rule']} keeps α = {data['alpha']:.2f}{silent}.{engine}"
        )


def _likely(tokens: list[int], p: np.ndarray, q: np.ndarray) -> list[list[tuple[int, int, int]]]:
    """Return of each place the likely words, the target's best first: id, p and q in per mille.

    They are the text's own, either model's best, and then those with most of p + q: so the least
    of both together is left for others.
    """
    guess = np.where(q.any(axis=1), q.argmax(axis=1), tokens)
    weight = p + q
    for some in (tokens, p.argmax(axis=1), guess):
        weight[np.arange(len(p)), some] += 2  # no other word weighs as much
    best = np.argpartition(weight, -WORDS, axis=1)[:, -WORDS:]
    chances = (np.take_along_axis(each, best, axis=1) for each in (p, q))
    places = zip(best.tolist(), *(_rounded(each, 1000) for each in chances), strict=True)
    words = (zip(*place, strict=True) for place in places)
    return [sorted(some, key=lambda word: (-word[1], -word[2], word[0])) for some in words]


def _fate(
    rule: str, p: np.ndarray, q: np.ndarray, token: int, chance: float, coin: float
) -> list[int]:
    """Return how likely the rule keeps what was drafted at a place, and where its coin fell.

    Both in percent. One coin tells all: below ``chance`` the text's own token was drafted, and
    kept; else another one, whose id, p and q in per mille are returned, too. Nothing at all is
    returned if by these p and q, a head's first in a round, none can have been refused.
    """
    kept, draft = coin < chance, token
    fell = coin / chance if kept else (coin - chance) / (1 - chance)  # as uniform as the coin
    if not kept:
        ends = np.cumsum([0, *refused(rule, p, q, token)])
        if not ends[-1]:
            return []
        draft = int(np.searchsorted(ends, fell * ends[-1], side="right")) - 1
        fell = (fell * ends[-1] - ends[draft]) / (ends[draft + 1] - ends[draft])
    keep = keeps(rule, p[draft], q[draft])
    (share,) = _rounded([min(keep, 0.99) if keep < 1 else 1])  # only what is sure has 100
    if kept:
        return [share, int(100 * keep * fell)]
    at = max(share, int(100 * (keep + (1 - keep) * fell)))
    return [share, at, draft, *_rounded([p[draft], q[draft]], 1000)]


def _columns(chances: list[np.ndarray], drafted: np.ndarray) -> list[tuple[int, ...]]:
    """Return of each place the mean chances of texts that have a draft there, and their number."""
    texts = drafted.sum(axis=0)
    means = [(each * drafted).sum(axis=0) / np.maximum(texts, 1) for each in chances]
    return [*zip(*map(_rounded, means), texts.tolist(), strict=True)]


def _rounded(values: Any, parts: int = 100) -> list[Any]:
    return np.rint(parts * np.asarray(values)).astype(int).tolist()


def shipped_dashboard(target: Any, draft: Any, words: Sequence[str], **start: Any) -> Dashboard:
    """Return the dashboard of the recording and the head that came with ``target``."""
    head = load_head("target-head", target)
    return Dashboard(stored_acceptance(), target, draft, head, words, **start)

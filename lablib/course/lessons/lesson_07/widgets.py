"""The acceptance carpet of the lesson on speculative decoding: which drafts its rounds keep."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.pictures import visible
from lablib.course.replay.rounds import LONGEST, guesses_of_flags, replay
from lablib.course.theory.estimators import bootstrap_interval, wilson_interval
from lablib.inference.speculation.costs import Costs, expected_tokens
from lablib.inference.speculation.draft_length import FixedLength
from lablib.validation import BadValue, integer

import mlx.core as mx
import numpy as np

# ------------------------------------------------------------------ acceptance


@dataclass(frozen=True)
class GreedyText:
    """A greedy text of the target, and where the draft would have said the same.

    A greedy text does not depend on the drafts. So these flags decide every round, for every draft
    length, and no model has to run again.

    Attributes:
        task: where its prompt comes from.
        tokens: its tokens, as one reads them.
        classes: the class of each token.
        guess: the draft's best token at each place, after the same text.
        p: the target's probability of that token.
        q: the draft's.
        overlap: Σ min(p, q) at each place, over the whole vocabulary.
        agree: whether the draft's best token is the text's own.
    """

    task: str
    tokens: tuple[str, ...]
    classes: tuple[str, ...]
    guess: tuple[str, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
    overlap: tuple[float, ...]
    agree: tuple[bool, ...]


def greedy_text(
    task: str,
    models: tuple[Any, Any],
    prompt: Sequence[int],
    ids: Sequence[int],
    pieces: Sequence[str],
    classes: Sequence[str],
) -> GreedyText:
    """Compare target and draft at each place of a text, by one forward of each.

    Args:
        task: where the prompt comes from.
        models: target and draft, ``model(tokens (1, T)) -> logits (1, T, V)``.
        prompt: its ids.
        ids: those of the target's greedy text.
        pieces: the text of each id of the vocabulary.
        classes: the class of each of ``ids``.
    """
    whole = mx.array([[*prompt, *ids]])
    p, q = (_probabilities(model(whole)[0, len(prompt) - 1 : -1]) for model in models)
    best = q.argmax(axis=1)
    place = np.arange(len(ids))
    return GreedyText(
        task,
        tuple(visible(pieces[i]) for i in ids),
        tuple(classes),
        tuple(visible(pieces[i]) for i in best),
        tuple(p[place, best].tolist()),
        tuple(q[place, best].tolist()),
        tuple(np.minimum(p, q).sum(axis=1).tolist()),
        tuple((best == np.array(ids)).tolist()),
    )


def _probabilities(logits: mx.array) -> np.ndarray:
    return np.array(mx.softmax(logits.astype(mx.float32), axis=-1))


def whole_rounds(agree: Sequence[bool], draft_tokens: int) -> list[tuple[int, int]]:
    """Return the rounds of greedy speculation: where each starts, and how many drafts it keeps.

    Only *whole* rounds: those whose bonus token would still belong to the text. Near its end a
    round is cut short, and no closed form knows about that.
    """
    return [(start, kept) for start, kept, whole in _rounds(agree, draft_tokens) if whole]


def _rounds(agree: Sequence[bool], draft_tokens: int) -> list[tuple[int, int, bool]]:
    steps = replay(guesses_of_flags(agree), FixedLength(draft_tokens))
    return [(step.start, step.kept, step.start + draft_tokens < len(agree)) for step in steps]


@dataclass(frozen=True)
class RoundCounts:
    """Whole rounds of several texts, counted.

    Attributes:
        accepted: drafts kept at each position of a round ``(γ,)``.
        reached: drafts judged there ``(γ,)``; the target's own token counts in neither.
        classes: class -> (accepted, reached).
        rounds: of each text ``(texts,)``.
        tokens: accepted drafts and own tokens of those rounds ``(texts,)``.
    """

    accepted: np.ndarray
    reached: np.ndarray
    classes: dict[str, tuple[int, int]]
    rounds: np.ndarray
    tokens: np.ndarray

    @property
    def alpha(self) -> float:
        """Return accepted over reached."""
        return float(self.accepted.sum() / max(1, self.reached.sum()))

    @property
    def by_position(self) -> list[float]:
        """Return accepted over reached at each position; 0 where none was reached."""
        return (self.accepted / np.maximum(1, self.reached)).tolist()

    @property
    def tokens_per_round(self) -> float:
        """Return what one call of the target yields."""
        return float(self.tokens.sum() / max(1, self.rounds.sum()))

    def interval(self, repeats: int = 400) -> tuple[float, float]:
        """Return the 95 % bootstrap interval of ``tokens_per_round``, the same at every call.

        Whole texts are drawn again, not rounds: the rounds of one text resemble each other.
        """
        return bootstrap_interval(self.tokens, per=self.rounds, resamples=repeats)


def count_rounds(texts: Sequence[GreedyText], draft_tokens: int) -> RoundCounts:
    """Count the whole rounds of greedy speculation with γ drafts, over all texts.

    Raises:
        ValueError: γ is not in 1 ... 8, or there is no text.
    """
    gamma = integer("draft_tokens", draft_tokens, 1, LONGEST)
    if not texts:
        raise BadValue("texts must hold at least one text, got none")
    accepted, reached = np.zeros(gamma, int), np.zeros(gamma, int)
    kept_of, judged_of = Counter(), Counter()
    rounds, tokens = [], []
    for text in texts:
        found = whole_rounds(text.agree, gamma)
        for start, kept in found:
            judged = min(kept + 1, gamma)
            accepted[:kept] += 1
            reached[:judged] += 1
            kept_of.update(text.classes[start : start + kept])
            judged_of.update(text.classes[start : start + judged])
        rounds.append(len(found))
        tokens.append(sum(kept + 1 for _, kept in found))
    classes = {name: (kept_of[name], count) for name, count in judged_of.items()}
    return RoundCounts(accepted, reached, classes, np.array(rounds), np.array(tokens))


class Acceptance(Explorer):
    """The acceptance carpet: a row for each text, a cell for each token, a bracket for each round.

    Above it the share kept at each place of the texts; beside it tokens a round of each text; below
    it time, the classes of tokens, and tokens a round for each γ.

    Args:
        texts: greedy texts of one or more tasks; all are counted, and of each task the first
            ``ROWS`` have a row; fewer where words are so long that a text takes several lines.
        costs: what forwards take; without them calls of the target are compared.
    """

    ROWS = 12
    scene, called = "carpet", "Tokens of some texts, and the rounds that wrote them"
    engine: ClassVar = {"name": "carpet", "prompt": "sum 7 3 9 0 4 8:"}

    def __init__(self, texts: Sequence[GreedyText], costs: Costs | None = None) -> None:
        self.texts: dict[str, list[GreedyText]] = {}
        for text in texts:
            self.texts.setdefault(text.task, []).append(text)
        if not self.texts:
            raise BadValue("texts must hold at least one text, got none")
        self.gammas = list(range(1, LONGEST + 1))
        self.tallies = {
            task: [count_rounds(each, gamma) for gamma in self.gammas]
            for task, each in self.texts.items()
        }
        self._intervals = {
            task: np.array([each.interval() for each in tallies]).T.tolist()
            for task, tallies in self.tallies.items()
        }
        self.constants = {
            "tasks": {
                task: [_shown(text) for text in each[: self.ROWS]]
                for task, each in self.texts.items()
            },
            "about": {task: _about(each) for task, each in self.texts.items()},
            "rows": self.ROWS,
            "most": LONGEST,
            "prices": None if costs is None else _prices(costs),
        }
        super().__init__(
            draft_tokens=slider(4, 1, LONGEST, label="draft tokens γ"),
            task=choice(next(iter(self.texts)), list(self.texts)),
        )

    def compute(self, draft_tokens: int, task: str) -> dict[str, Any]:
        """Return rounds and shares for this γ, and tokens a round for every γ."""
        chosen = self.tallies[task][draft_tokens - 1]
        low, high = self._intervals[task]
        return {
            "gamma": draft_tokens,
            "task": task,
            "alpha": chosen.alpha,
            "rounds": [_rounds(text.agree, draft_tokens) for text in self.texts[task][: self.ROWS]],
            "columns": _columns(self.texts[task], draft_tokens),
            "classes": [
                [name, *_share(*chosen.classes.get(name, (0, 0)))] for name in self._classes(task)
            ],
            "tokens": [each.tokens_per_round for each in self.tallies[task]],
            "low": low,
            "high": high,
            "theory": [expected_tokens(chosen.alpha, gamma) for gamma in self.gammas],
            "time": self._time(chosen, draft_tokens),
        }

    def _classes(self, task: str) -> list[str]:
        """Return a task's classes, in an order that no γ changes."""
        return sorted({name for tally in self.tallies[task] for name in tally.classes})

    def _time(self, counted: RoundCounts, gamma: int) -> dict[str, float]:
        """Return what the whole rounds take, and their tokens one by one, in plain tokens."""
        rounds, prices = int(counted.rounds.sum()), self.constants["prices"]
        return {
            "plain": int(counted.tokens.sum()),
            "reading": rounds * (prices["read"][gamma] if prices else 1),
            "drafting": rounds * gamma * (prices["draft"] if prices else 0),
        }

    def caption(self, data: dict[str, Any]) -> str:
        """Name α, what a round writes, and which tokens are the hardest."""
        name, share, *_ = min(data["classes"], key=lambda each: each[1] if each[4] else 2)
        tokens = data["tokens"][data["gamma"] - 1]
        head = f"On {data['task']} α is {data['alpha']:.2f}, and a round writes {tokens:.2f} tokens"
        if share == 1:
            return f"{head}: no draft that is judged is refused."
        return f"{head}; drafts of class '{name}' are kept least, {share:.2f} of them."


def _share(accepted: int, reached: int) -> tuple[float, float, float, int]:
    """Return accepted over reached, its 95 % interval, and reached; (0, 0, 1, 0) if that is 0."""
    if not reached:
        return 0.0, 0.0, 1.0, 0
    return accepted / reached, *wilson_interval(accepted, reached), reached


def _columns(texts: Sequence[GreedyText], gamma: int) -> list[tuple[int, int]]:
    """Return, for each place of the texts, how many drafts were kept and judged there."""
    kept, judged = np.zeros((2, max(len(text.agree) for text in texts)), int)
    for text in texts:
        for start, count in whole_rounds(text.agree, gamma):
            kept[start : start + count] += 1
            judged[start : start + min(count + 1, gamma)] += 1
    return list(zip(kept.tolist(), judged.tolist(), strict=True))


def _about(texts: Sequence[GreedyText]) -> dict[str, Any]:
    """Return how many texts are counted, if drafts ever miss, and the hardest class's places."""
    missed = not all(all(text.agree) for text in texts)
    hardest, places = _hardest(texts)
    return {"counted": len(texts), "missed": missed, "hardest": hardest, "places": places}


def _hardest(texts: Sequence[GreedyText]) -> tuple[str, list[int]]:
    """Return the class at whose tokens the models disagree most often, and the places it has.

    That is, those that are of this class in most texts; none if the models never disagree. No draft
    length is asked, so that a reader finds these places again where the bonus has hidden them.
    """
    found: dict[str, list[bool]] = {}
    for text in texts:
        for kind, agree in zip(text.classes, text.agree, strict=True):
            found.setdefault(kind, []).append(agree)
    shares = {kind: sum(agree) / len(agree) for kind, agree in found.items()}
    kind = min(shares, key=lambda each: shares[each])
    if shares[kind] == 1:
        return kind, []
    columns = zip_longest(*(text.classes for text in texts))
    return kind, [i for i, kinds in enumerate(columns) if 2 * kinds.count(kind) > len(kinds)]


def _shown(text: GreedyText) -> dict[str, Any]:
    """Return what the page is told of a text; two digits of a probability are enough there."""
    numbers = {name: [round(x, 2) for x in getattr(text, name)] for name in ("p", "q", "overlap")}
    return {"tokens": text.tokens, "classes": text.classes, "guess": text.guess, **numbers}


def _prices(costs: Costs) -> dict[str, Any]:
    """Return prices in plain tokens: of a draft, and of reading 1, 2, ... tokens."""
    once = costs.forward(1)
    read = [costs.forward(k) / once for k in range(1, LONGEST + 2)]
    return {"draft": costs.draft / once, "read": read}

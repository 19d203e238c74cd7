"""The acceptance carpet of the lesson on speculative decoding: which drafts its rounds keep."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.pictures import visible
from lablib.course.replay.rounds import LONGEST, guesses_of_flags, replay
from lablib.course.theory.estimators import bootstrap_interval
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
        agree: whether the draft's best token is the text's own.
    """

    task: str
    tokens: tuple[str, ...]
    classes: tuple[str, ...]
    guess: tuple[str, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
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
    """The acceptance carpet twice, with γ drafts a round and with γ + 1 of them.

    A row for each text, a cell for each token, a line under each round.

    Args:
        texts: greedy texts of one or more tasks; all are counted, and of each task the first
            ``ROWS`` have a row.
    """

    ROWS = 5
    scene, called = "carpet", "Tokens of some texts, and the rounds that wrote them"
    engine: ClassVar = {"name": "carpet", "prompt": "sum 7 3 9 0 4 8:"}

    def __init__(self, texts: Sequence[GreedyText]) -> None:
        self.texts: dict[str, list[GreedyText]] = {}
        for text in texts:
            self.texts.setdefault(text.task, []).append(text)
        if not self.texts:
            raise BadValue("texts must hold at least one text, got none")
        self.tallies = {
            task: [count_rounds(each, gamma) for gamma in range(1, LONGEST + 1)]
            for task, each in self.texts.items()
        }
        self.constants = {
            "tasks": {
                task: [_shown(text) for text in each[: self.ROWS]]
                for task, each in self.texts.items()
            },
            "counted": {task: len(each) for task, each in self.texts.items()},
        }
        super().__init__(
            draft_tokens=slider(4, 1, LONGEST - 1, label="draft tokens γ, beside γ + 1"),
            task=choice(next(iter(self.texts)), list(self.texts)),
        )

    def compute(self, draft_tokens: int, task: str) -> dict[str, Any]:
        """Return what rounds of γ drafts, and of one more, make of the rows."""
        lengths = (draft_tokens, draft_tokens + 1)
        return {"task": task, "sides": [self._side(task, gamma) for gamma in lengths]}

    def _side(self, task: str, gamma: int) -> dict[str, Any]:
        """Return the rounds of the rows, what became of their drafts, and all texts' mean."""
        rounds = [_rounds(text.agree, gamma) for text in self.texts[task][: self.ROWS]]
        kept = [count for each in rounds for _, count, whole in each if whole]
        tokens = self.tallies[task][gamma - 1].tokens_per_round
        bonus = kept.count(gamma)
        fates = {"refused": len(kept) - bonus, "bonus": bonus}
        return {"gamma": gamma, "tokens": tokens, "rounds": rounds, **fates}

    def caption(self, data: dict[str, Any]) -> str:
        """Say what a round writes with γ and with γ + 1, and how many drafts are refused."""
        few, more = data["sides"]
        return (
            f"On {data['task']} a round writes {few['tokens']:.2f} tokens with γ = {few['gamma']}, "
            f"and {more['tokens']:.2f} with γ = {more['gamma']}. In these rows {few['refused']} "
            f"drafts are refused, and then {more['refused']}."
        )


def _shown(text: GreedyText) -> dict[str, Any]:
    """Return what the page is told of a text; two digits of a probability are enough there."""
    numbers = {name: [round(x, 2) for x in getattr(text, name)] for name in ("p", "q")}
    return {"tokens": text.tokens, "classes": text.classes, "guess": text.guess, **numbers}

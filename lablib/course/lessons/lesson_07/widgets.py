"""The acceptance carpet of the lesson on speculative decoding: which drafts its rounds keep."""

from collections import Counter
from collections.abc import Callable, Sequence
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


Rounds = Callable[[GreedyText, int], list[tuple[int, int]]]


def replayed(text: GreedyText, draft_tokens: int) -> list[tuple[int, int]]:
    """Return the rounds of greedy speculation: where each starts, and how many drafts it keeps."""
    steps = replay(guesses_of_flags(text.agree), FixedLength(draft_tokens))
    return [(step.start, step.kept) for step in steps]


def played(
    greedy_round: Callable[[list[int], np.ndarray, int], Sequence[int]],
    models: tuple[Any, Any],
    written: Sequence[tuple[GreedyText, Sequence[int], Sequence[int]]],
    stop: int,
) -> Rounds:
    """Return the rounds that a function plays with the models' own drafts and logits.

    Args:
        greedy_round: ``(drafted, logits (γ + 1, V), stop) -> the tokens that the round adds``.
        models: target and draft, ``model(tokens (1, T)) -> logits (1, T, V)``.
        written: texts, each with the ids of its prompt and its own.
        stop: the id that ends a text.
    """
    read = {}
    for text, prompt, ids in written:
        whole = mx.array([[*prompt, *ids]])
        after = (model(whole)[0, len(prompt) - 1 :].astype(mx.float32) for model in models)
        target, draft = map(np.array, after)
        read[text] = target, draft.argmax(axis=1).tolist()[: len(ids)]

    def rounds(text: GreedyText, draft_tokens: int) -> list[tuple[int, int]]:
        found, start = [], 0
        logits, guesses = read[text]
        while start < len(guesses):
            drafted = guesses[start : start + draft_tokens]  # the draft's, as far as it is right
            new = greedy_round(drafted, logits[start : start + len(drafted) + 1], stop)
            kept = [a == b for a, b in zip(new, drafted, strict=False)]
            found.append((start, [*kept, False].index(False)))
            start += len(new)
        return found

    return rounds


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


def count_rounds(
    texts: Sequence[GreedyText], draft_tokens: int, rounds: Rounds = replayed
) -> RoundCounts:
    """Count the *whole* rounds of greedy speculation with γ drafts, over all texts.

    These are the rounds whose bonus token would still belong to the text. Near its end a round is
    cut short, and no closed form knows about that.

    Raises:
        ValueError: γ is not in 1 ... 8, or there is no text.
    """
    gamma = integer("draft_tokens", draft_tokens, 1, LONGEST)
    if not texts:
        raise BadValue("texts must hold at least one text, got none")
    accepted, reached = np.zeros(gamma, int), np.zeros(gamma, int)
    kept_of, judged_of = Counter(), Counter()
    counts, tokens = [], []
    for text in texts:
        found = [each for each in rounds(text, gamma) if each[0] + gamma < len(text.agree)]
        for start, kept in found:
            judged = min(kept + 1, gamma)
            accepted[:kept] += 1
            reached[:judged] += 1
            kept_of.update(text.classes[start : start + kept])
            judged_of.update(text.classes[start : start + judged])
        counts.append(len(found))
        tokens.append(sum(kept + 1 for _, kept in found))
    classes = {name: (kept_of[name], count) for name, count in judged_of.items()}
    return RoundCounts(accepted, reached, classes, np.array(counts), np.array(tokens))


class Acceptance(Explorer):
    """The acceptance carpet: a row for each text, a cell for each token, a strip for each round.

    The same texts stand there twice: written with γ drafts a round, and with γ + 1.

    Args:
        texts: greedy texts of one or more tasks; all are counted, and of each task the first
            ``ROWS`` have a row.
        rounds: says of a text and γ where each round starts, and how many drafts it keeps; by
            default, where the draft agrees.
    """

    ROWS = 5
    scene, called = "carpet", "The same texts with γ and with γ + 1 drafts a round"
    engine: ClassVar = {"name": "carpet", "prompt": "sum 7 3 9 0 4 8:"}

    def __init__(self, texts: Sequence[GreedyText], rounds: Rounds = replayed) -> None:
        self.texts: dict[str, list[GreedyText]] = {}
        for text in texts:
            self.texts.setdefault(text.task, []).append(text)
        if not self.texts:
            raise BadValue("texts must hold at least one text, got none")
        self._rounds = rounds
        self.tallies = {
            task: [count_rounds(each, gamma, rounds) for gamma in range(1, LONGEST + 1)]
            for task, each in self.texts.items()
        }
        self.constants = {
            "tasks": {
                task: [_shown(text) for text in each[: self.ROWS]]
                for task, each in self.texts.items()
            }
        }
        super().__init__(
            draft_tokens=slider(4, 1, LONGEST - 1, label="draft tokens γ"),
            task=choice(next(iter(self.texts)), list(self.texts)),
        )

    def compute(self, draft_tokens: int, task: str) -> dict[str, Any]:
        """Return rounds, α and tokens a round, for γ and for γ + 1 drafts."""
        lengths = (draft_tokens, draft_tokens + 1)
        counted = [self.tallies[task][gamma - 1] for gamma in lengths]
        shown = self.texts[task][: self.ROWS]
        return {
            "gamma": draft_tokens,
            "task": task,
            "rounds": [[self._rounds(text, gamma) for text in shown] for gamma in lengths],
            "alpha": [each.alpha for each in counted],
            "tokens": [each.tokens_per_round for each in counted],
        }

    def caption(self, data: dict[str, Any]) -> str:
        """Say for both what a round writes, and how many of the reached drafts are rejected."""
        both = zip((data["gamma"], data["gamma"] + 1), data["tokens"], data["alpha"], strict=True)
        said = [
            f"with γ = {gamma} a round writes {tokens:.2f} tokens, and {1 - alpha:.0%} of the "
            "reached drafts are rejected"
            for gamma, tokens, alpha in both
        ]
        return f"On {data['task']}: {'; '.join(said)}."


def _shown(text: GreedyText) -> dict[str, Any]:
    """Return what the page is told of a text; two digits of a probability are enough there."""
    numbers = {name: [round(x, 2) for x in getattr(text, name)] for name in ("p", "q")}
    return {"tokens": text.tokens, "classes": text.classes, "guess": text.guess, **numbers}

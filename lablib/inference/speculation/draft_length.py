"""How many tokens to draft: a fixed number, or the one that pays best on this machine.

More drafts are more chances and more cost. With α, the chance that a draft is kept, and T(k), the
time of one forward over k tokens, a round of γ drafts yields ``E(α, γ)`` tokens in
``γ·t_draft + T(γ+1)`` seconds. ``AdaptiveLength`` estimates α while it runs, measures T once, and
takes the best γ; where plain decoding is best that is γ = 0, and it looks again now and then.
"""

import math
import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.speculation.costs import Costs, best_draft_tokens, speedup
from lablib.inference.speculation.drafters import Drafter, DraftModel, as_drafter
from lablib.inference.speculation.judge import Judge, Proposal
from lablib.models.interface import vocab_size_of
from lablib.validation import BadType, BadValue, integer, number

import mlx.core as mx

_FIRST_PAUSE, _LONGEST_PAUSE = 8, 64  # plain tokens while drafting does not pay
_CHAIN = 4  # steps in a row that are timed together: they overlap
_CONTEXT = 64  # tokens in the caches while timing, if there is room


@runtime_checkable
class DraftLength(Protocol):
    """What the engine asks of a policy for the draft length.

    Attributes:
        plain_tokens: how many tokens to decode plainly when nothing is drafted.
    """

    plain_tokens: int

    def begin(self, target: Any, drafter: Drafter) -> None:
        """A text begins, with these models."""

    def choose(self) -> int:
        """How many tokens to draft next; 0 for none."""

    def observe(self, reached: int, accepted: int) -> None:
        """Of ``reached`` drafts that were judged, ``accepted`` were kept."""

    def miss(self) -> None:
        """The drafter had no proposal."""


class FixedLength:
    """Always the same number of drafts.

    Args:
        draft_tokens: γ, at least 1.
    """

    plain_tokens = 1  # with nothing to draft, look again after every token

    def __init__(self, draft_tokens: int) -> None:
        self.draft_tokens = integer("draft_tokens", draft_tokens, 1)

    def begin(self, target: Any, drafter: Drafter) -> None:
        """Nothing depends on the models."""

    def choose(self) -> int:
        """How many tokens to draft next."""
        return self.draft_tokens

    def observe(self, reached: int, accepted: int) -> None:
        """Nothing is learnt."""

    def miss(self) -> None:
        """The drafter had no proposal."""


class AdaptiveLength:
    """The γ with the most expected tokens a second, 0 included.

    One object may serve many texts, one after the other: it keeps what it has learnt.

    Args:
        most: the largest γ to consider.
        costs: measured costs; None measures them on the models at first use (about 0.1 s).
        memory: how many judged drafts the estimate of α looks back over.
        alpha: the estimate to begin with.
        margin: the gain that drafting must promise; below it, decode plainly.

    Attributes:
        alpha: the present estimate.
        plain_tokens: how many tokens to decode plainly before the next look, when γ is 0 or the
            drafter has no proposal. Plain tokens in a row overlap, single ones do not.
    """

    def __init__(
        self,
        most: int = 8,
        costs: Costs | None = None,
        *,
        memory: int = 64,
        alpha: float = 0.8,
        margin: float = 0.03,
    ) -> None:
        self.most = integer("most", most, 1)
        if costs is not None and not isinstance(costs, Costs):
            raise BadType(f"costs must be Costs or None, got {type(costs).__name__}")
        self.costs, self._given = costs, costs is not None
        self._keep = 1 - 1 / integer("memory", memory, 2)
        self._margin = number("margin", margin, 0.0)
        # The estimate starts with the weight of a few drafts: the first ones soon outvote it.
        self._accepted, self._reached = 4 * number("alpha", alpha, 0.0, 1.0), 4.0
        self._pair: tuple[Any, Any] | None = None
        self._pause, self._wait, self._paused = _FIRST_PAUSE, 1, False

    @property
    def alpha(self) -> float:
        """The chance that a draft is kept, as far as is known."""
        return self._accepted / self._reached

    @property
    def plain_tokens(self) -> int:
        """How many plain tokens before the next look."""
        return self._pause if self._paused else self._wait

    def begin(self, target: Any, drafter: Drafter) -> None:
        """Measure the costs, unless they are known for this target and this draft model."""
        pair = (target, getattr(drafter, "model", None))
        known = self._pair and all(a is b for a, b in zip(self._pair, pair, strict=True))
        if not self._given and not known:
            self.costs = measure_costs(target, drafter, most=self.most)
        self._pair = pair

    def choose(self) -> int:
        """How many tokens to draft next."""
        best = best_draft_tokens(self.alpha, self.costs, self.most)
        if speedup(self.alpha, best, self.costs) >= 1 + self._margin:
            self._paused, self._pause = False, _FIRST_PAUSE
            return best
        if not self._paused:  # decode plainly for a while ...
            self._paused = True
            return 0
        self._paused = False  # ... then try one draft, more and more rarely while it does not help
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return 1

    def observe(self, reached: int, accepted: int) -> None:
        """Learn from a round: of ``reached`` drafts that were judged, ``accepted`` were kept."""
        if not reached:
            return
        fade = self._keep**reached
        self._accepted = fade * self._accepted + accepted
        self._reached = fade * self._reached + reached
        self._wait = 1

    def miss(self) -> None:
        """The drafter had no proposal; after several in a row, ask it less often."""
        self._wait = min(2 * self._wait, _FIRST_PAUSE)


def as_length(draft_tokens: Any) -> DraftLength:
    """A length policy from what the caller gave: a number, or a policy."""
    if isinstance(draft_tokens, type):
        raise BadType(
            f"draft_tokens must be a number or an object, got the class {draft_tokens.__name__} "
            "itself"
        )
    if isinstance(draft_tokens, DraftLength):
        return draft_tokens
    if hasattr(draft_tokens, "choose"):
        members = "plain_tokens, begin, choose, observe and miss"
        raise BadType(f"draft_tokens must have {members}, got {type(draft_tokens).__name__}")
    return FixedLength(draft_tokens)


def measure_costs(
    target: Any,
    draft: Any,
    *,
    most: int = 8,
    context: int | None = None,
    repeats: int = 5,
) -> Costs:
    """Time T(1) … T(most + 1) and one drafted token on this machine, the best of ``repeats``.

    As the engine does it, judging included. T(1) is a token of plain decoding, where the next
    forward is asked for before the last is done; the others are waited for, round after round.
    What a cache that cannot be trimmed has to read again after a refusal is not in it.

    Args:
        target: the target model.
        draft: the draft model or drafter.
        most: the largest number of drafts to consider.
        context: how many tokens are in the caches meanwhile; None means 64, or as many as a model
            of few positions leaves room for.
        repeats: measurements of each; the shortest counts, as noise only ever adds.
    """
    most, repeats = integer("most", most, 1), integer("repeats", repeats, 1)
    drafter = as_drafter(draft)
    models = [target, getattr(drafter, "model", None)]
    positions = min((getattr(each, "max_positions", None) or math.inf) for each in models)
    room = positions - max(_CHAIN * (repeats + 1), most + 1)
    if room < 1:
        raise BadValue(f"models must have more than {positions - room} positions, got {positions}")
    context = min(_CONTEXT, room) if context is None else integer("context", context, 1)
    if context > room:
        raise BadValue(f"context must be at most {room} tokens here, got {context}")
    at_work = _AtWork(target, context)
    work = [at_work.plain(), *map(at_work.verify, range(2, most + 2))]
    if isinstance(drafter, DraftModel):
        work.append(at_work.guess(drafter.begin(target, kv.make(target), None).model))
    best = _best_times(work, repeats)
    times = [best[0] / _CHAIN, *best[1 : most + 1]]
    times = tuple(max(times[:k]) for k in range(1, most + 2))  # more tokens never take less time
    return Costs(times, best[-1] / _CHAIN if isinstance(drafter, DraftModel) else 0.0)


class _AtWork:
    """The engine's steps, each as a function to be timed, after ``context`` tokens of any text."""

    def __init__(self, target: Any, context: int) -> None:
        self._target = target
        self._text = mx.arange(context, dtype=mx.int32)[None] % vocab_size_of(target)
        self._last = self._text[:, -1:]
        self._judge = Judge(SamplerOptions(temperature=0.0), "match", self._text.tolist(), 1, [0])

    def plain(self) -> Callable[[], None]:
        """``_CHAIN`` tokens of plain decoding, each asked for before the one before is known."""
        layers = self._read_by(self._target)

        def run() -> None:
            token = self._last
            for _ in range(_CHAIN):
                answer = self._judge.draw_plain(self._target(token, cache=layers)[:, -1])
                mx.async_eval(answer)
                token = answer[0]
            self._judge.read_plain(answer)

        return run

    def verify(self, k: int) -> Callable[[], None]:
        """A round whose k - 1 drafts are already there, taken back at the end."""
        reader = Rewinder(self._target, self._read_by(self._target))
        tokens = mx.broadcast_to(self._last, (1, k))

        def run() -> None:
            self._judge.judge(reader.forward(tokens), Proposal(tokens[:, 1:]))
            reader.rewind(k)

        return run

    def guess(self, model: Any) -> Callable[[], None]:
        """``_CHAIN`` drafts of a draft model."""
        layers = self._read_by(model)

        def run() -> None:
            token = self._last
            for _ in range(_CHAIN):
                token = mx.argmax(model(token, cache=layers)[:, -1:], axis=-1)
                mx.async_eval(token)
            mx.eval(token)

        return run

    def _read_by(self, model: Any) -> list[Any]:
        layers = kv.make(model)[: len(model.layers)]
        mx.eval(model(self._text, cache=layers), [layer.state for layer in layers])
        return layers


def _best_times(work: list[Callable[[], None]], repeats: int) -> list[float]:
    """The shortest time of each; they take turns, so that a slow moment hits all alike."""
    best = [math.inf] * len(work)
    for turn in range(repeats + 1):
        for i, run in enumerate(work):
            start = time.perf_counter()
            run()
            if turn:  # the first one may compile, and grows the caches
                best[i] = min(best[i], time.perf_counter() - start)
    return best

"""Time what a round of speculation costs on this machine, as the engine does it.

For lessons and forecasts: the engine learns from the rounds that it runs (``AdaptiveLength``).
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.cache.rewind_batch import BatchRewinder, can_batch
from lablib.inference.arguments import check_prompt
from lablib.inference.decoding.decoder import Decoder, Reader
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.row import Row, key_of
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import FixedLength
from lablib.inference.speculation.draft_model import as_drafter
from lablib.inference.speculation.drafter import Drafter
from lablib.inference.speculation.judge import Judge
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.speculation.rules import RULE
from lablib.inference.speculation.shared_ids import fitted
from lablib.inference.speculation.speculative_iterator import own_reader
from lablib.machine import backend
from lablib.models.head import DraftHead
from lablib.models.interface import context_of, vocab_size_of
from lablib.validation import BadValue, integer, one_of

import mlx.core as mx
import numpy as np

_CHAIN = 4  # steps in a row that are timed together: they overlap
_VISITS = 2  # how often each thing is timed, several times in a row
_LONG = 2**20  # tokens: more than all that is drawn while timing
_CONTEXT = 64  # tokens in the caches while timing, if there is room


def measure_costs(
    target: Any, draft_model: Any, *, most: int = 8, context: int | None = None, repeats: int = 9,
    rule: str = "match", batch: int = 1, **sampler_options: Any,
) -> Costs:  # fmt: skip
    """Time T(1) … T(most + 1) and one drafted token on this machine.

    T(1) is a token of plain decoding, where the next forward is asked for before the last is done.
    The others are what is left of the engine's rounds without the drafts: besides a forward that is
    waited for, judging, writing down and taking back.

    ``draft_model`` is a model or a drafter, ``most`` the largest number of drafts to consider. Of a
    ``batch`` of texts T(k) is the time of all rows, k tokens of each. Meanwhile ``context`` tokens
    are in the caches: None means 64, or as many as a model of few positions leaves room for. Of
    ``repeats`` measurements the median counts: neighbours on the machine slow down real rounds as
    well, and a round, which goes through two models, more than plain decoding. ``rule`` and the
    fields of ``SamplerOptions`` say how it draws and judges: greedily by default.
    """
    check_prompt(target, [0], "target")
    most, repeats = integer("most", most, 1), integer("repeats", repeats, 1)
    batch = integer("batch", batch, 1)
    drafter = as_drafter(draft_model)
    room = room_for(target, drafter, most, repeats, batch)
    if room < 1:
        positions = min(context_of(model) or math.inf for model in _models(target, drafter))
        raise BadValue(f"models must have more than {positions - room} positions, got {positions}")
    context = min(_CONTEXT, room) if context is None else integer("context", context, 1)
    if context > room:
        raise BadValue(f"context must be at most {room} tokens here, got {context}")
    if batch > 1 and not (drafter.batches and can_batch(target, kv.make(target))):
        raise BadValue(f"batch must be 1 for texts that are drafted for one by one, got {batch}")
    options = SamplerOptions(**{"temperature": 0.0} | sampler_options)
    at_work = _AtWork(target, context, one_of("rule", rule, RULE), options, batch)
    reader = Rewinder(target, kv.make(target))
    session = drafter.begin(reader, own_reader(drafter, reader), 1)
    model = _Alone(session.head) if hasattr(session, "head") else session.model
    whole = model is not None and not session.in_target_cache
    if whole:
        model = fitted(model, target)
    work = [at_work.chain(target, at_work.judge.sampler.plain)]
    for gamma in range(1, most + 1):
        work.append(at_work.round(drafter, gamma) if whole else at_work.verify(gamma + 1))
    if model is not None:
        draw = at_work.judge.sampler.draft
        work.append(at_work.chain(model, lambda logits: [draw(logits[:, -1], [])[0][:, None]]))
    usual = _usual_times(work, repeats)
    draft = 0.0 if model is None else usual[-1] / _CHAIN
    rounds = [time - whole * draft * gamma for gamma, time in enumerate(usual[1 : most + 1], 1)]
    times = [usual[0] / _CHAIN, *rounds]
    times = tuple(max(times[:k]) for k in range(1, most + 2))  # more tokens never take less time
    return Costs(times, draft)


def room_for(target: Any, drafter: Drafter, most: int, repeats: int = 9, batch: int = 1) -> float:
    """Return how many tokens of context the models leave room for in ``measure_costs``."""
    turns = _VISITS * (1 + math.ceil(repeats / _VISITS))
    each = max(_CHAIN, most + 1 if batch > 1 else 0)  # tokens of a turn that are not taken back
    positions = min(context_of(model) or math.inf for model in _models(target, drafter))
    return positions - max(each * turns, most + 1)


def _models(target: Any, drafter: Drafter) -> list[Any]:
    return [target] if drafter.model is None else [target, drafter.model]


class _AtWork:
    """The engine's steps, each as a function to be timed, after ``context`` tokens of any text."""

    def __init__(
        self, target: Any, context: int, rule: str, options: SamplerOptions, batch: int
    ) -> None:
        self._target, self._batch, self._rule, self._options = target, batch, rule, options
        # Rows of their own, which keep drafts of their own: they part as they do in earnest.
        begins = 7 * mx.arange(batch, dtype=mx.int32)[:, None]
        self._text = (begins + mx.arange(context, dtype=mx.int32)) % vocab_size_of(target)
        self._last = self._text[:, -1:]
        self.judge = self._new_judge()
        self.judge.sampler.add(self._rows())

    def _new_judge(self) -> Judge:
        sampler = TextSampler(coupled=self._rule == "coupled")
        return Judge(sampler, self._rule, vocab_size_of(self._target))

    def _rows(self) -> list[Row]:
        options, nobody = self._options, frozenset()
        return [
            Row(text, options, key_of(options, i), _LONG, nobody, number=i)
            for i, text in enumerate(self._texts())
        ]

    def _texts(self) -> list[list[int]]:
        return self._text.tolist()

    def chain(self, model: Any, draw: Callable[..., Sequence[Any]]) -> Callable[[], None]:
        """``_CHAIN`` tokens, each ``draw(logits)[0]``, asked for before the one before is known."""
        layers = self._read_by(model)

        def run() -> None:
            token = self._last
            for _ in range(_CHAIN):
                drawn = draw(model(token, cache=layers)[:, -1:])
                mx.async_eval(drawn)
                token = drawn[0]
            mx.eval(drawn)

        return run

    def round(self, drafter: Drafter, gamma: int) -> Callable[[], None]:
        """Run a round of γ drafts by a model, and take it back; the rows of a batch go on."""
        read = self._text[:, :-1]
        reader, own = self._reader(self._target), self._reader(fitted(drafter.model, self._target))
        session = drafter.begin(reader, own, self._batch)
        if read.size:
            reader.forward(read)
            own.forward(read)
        judge, rows = self._new_judge(), self._rows()
        decoder = Decoder(judge.sampler, judge, FixedLength(gamma))
        decoder.join(rows, reader, session)

        def run() -> None:
            decoder.round()
            if self._batch > 1:
                return  # the rows stand apart: to bring them together would cost as much again
            del rows[0].text[read.size + 1 :]
            for part in (reader, session):
                part.keep([read.size])

        return run

    def verify(self, k: int) -> Callable[[], None]:
        """Run a round whose k - 1 drafts are already there, and take it back."""
        reader, batch = self._reader(self._target), self._batch
        mx.eval(reader.forward(self._text))
        tokens, n = mx.broadcast_to(self._last, (batch, k)), vocab_size_of(self._target)
        proposal = Proposal(tokens[:, 1:], mx.full((batch, k - 1, n), 1 / n))
        counts = [k - 1] * batch if batch > 1 else None

        def run() -> None:
            self.judge.decide(reader.forward(tokens), proposal, counts)
            self.judge.sampler.end_round()
            reader.keep([self._text.shape[1]] * batch)

        return run

    def _reader(self, model: Any) -> Reader:
        """Return a model that has read nothing, for one text or for a batch."""
        if self._batch == 1:
            return Rewinder(model, kv.make(model))
        empty = kv.merge([kv.make(model) for _ in range(self._batch)])
        return BatchRewinder(model, empty, [0] * self._batch)

    def _read_by(self, model: Any) -> list[Any]:
        layers = kv.make(model)
        mx.eval(model(self._text, cache=layers), [layer.state for layer in layers])
        return layers


class _Alone:
    """A head as ``model(tokens (1, T), cache) -> logits (1, 1, V)``, after a state of nothing."""

    def __init__(self, head: DraftHead) -> None:
        self.head, self.layers, self.make_cache = head, [None], head.make_cache
        self.vocab_size = head.target.vocab_size
        self._states = mx.zeros((1, 1, head.shape.hidden_size))

    def __call__(self, tokens: mx.array, cache: kv.Cache) -> mx.array:
        given = mx.broadcast_to(self._states, (*tokens.shape, self._states.shape[-1]))
        self._states = self.head(given, tokens, cache)[:, -1:]
        return self.head.logits(self._states.flatten(0, 1))[:, None]


def clock() -> Callable[[], float]:
    """Return what tells the seconds: processor time, or the wall's where that misleads."""
    # Neighbours do not add to processor time; but several threads do, and a GPU has none.
    alone = mx.default_device() == mx.cpu and backend.threads() == 1
    return time.process_time if alone else time.perf_counter


def bandwidth(megabytes: int = 256, repeats: int = 20) -> float:
    """Return the bytes a second that NumPy's matrix-vector product reads, the best of several."""
    matrix, vector = np.ones((megabytes * 256, 1024), np.float32), np.ones(1024, np.float32)
    best, now = math.inf, clock()
    for _ in range(repeats):
        start = now()
        np.vecdot(matrix, vector)  # in one thread, as the model
        best = min(best, now() - start)
    return matrix.nbytes / best


def _usual_times(work: list[Callable[[], None]], repeats: int) -> list[float]:
    """Return the median time of each of at least ``repeats`` runs.

    A run right after itself finds its weights and buffers in the processor's caches, as a text that
    is being decoded does: plain decoding, the shortest, looked 15 % slower between other work. But
    all are visited more than once, so that a slow moment of the machine does not hit one alone.
    """
    now = clock()
    times: list[list[float]] = [[] for _ in work]
    for _ in range(_VISITS):
        for run, found in zip(work, times, strict=True):
            run()  # untimed: it may compile, and grows the caches
            for _ in range(math.ceil(repeats / _VISITS)):
                start = now()
                run()
                found.append(now() - start)
    return [statistics.median(each) for each in times]

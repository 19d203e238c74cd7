"""A batched slot sampler: many sequences, each with its own options, history and random numbers.

A slot is one sequence. ``Sampler.sample`` takes any subset of the slots, in any order, with one row
of logits each, and turns every row into a token as its slot's options say: penalise, cut, draw.
What a slot gets depends on nothing but its own logits, history and seed: not on the batch, its
order or its size.

``sample`` is the plain way: it returns tokens and remembers them. ``draw`` and ``cut`` serve
engines that want no waiting in between: they return unevaluated arrays, change nothing and leave a
flag in place of an error; ``commit`` tells the sampler what came of it. Both take one position of
each sequence, logits ``(B, V)``, or R positions in a row, ``(B, R, V)``, and what the sampler has
not been told of yet: ``unseen`` ``(B, A)``, the tokens before and between them, oldest first, ids
of the vocabulary. Row i of R sees all of these but the last R - 1 - i.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.inference.sampling import fast_paths, random_numbers, transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.slot_table import Asked, Slots
from lablib.models.kernels import exp
from lablib.validation import BadType, BadValue, integer, token_ids

import mlx.core as mx
import numpy as np

_LIMIT = 2**31  # token ids are int32
_BATCHES = 16  # how many different batches to keep ready


@dataclass(frozen=True)
class SampleResult:
    """One token for each row, and log-softmax of the raw logits for the slots that asked.

    What no row asked for is None. K is the largest number asked for, at most V.
    """

    token: mx.array  # (B,) int32
    logprob: mx.array | None = None  # (B, 1) float32, at the token; NaN in rows that did not ask
    top_tokens: mx.array | None = None  # (B, K) int32, best first; -1 beyond what a row asked for
    top_logprobs: mx.array | None = None  # (B, K) float32, theirs; NaN beyond what a row asked for


class Sampler:
    """Slots that are sampled together.

    Args:
        num_ctx: the context length: how far back ``repeat_last_n = -1`` looks.
        fast: whether to take shortcuts (``fast_paths``) that give the same tokens.

    Every call checks its arguments before it does anything; one that raises has changed nothing.
    """

    def __init__(self, num_ctx: int, *, fast: bool = True) -> None:
        self.num_ctx, self.fast = integer("num_ctx", num_ctx, 1), bool(fast)
        self.free()

    def sample(self, seq_ids: Sequence[Hashable], logits: mx.array) -> SampleResult:
        """Draw one token for each of the sequences, and append it to their histories.

        Args:
            seq_ids: registered ids, each once, in any order.
            logits: ``(B, V)``, float16, bfloat16 or float32: row i belongs to ``seq_ids[i]``.

        Returns:
            Evaluated arrays.

        Raises:
            BadValue: an unknown or repeated id; a wrong shape; a row with NaN, +inf or nothing but
                -inf; a history with a token beyond V. The message names the slot.
        """
        if getattr(logits, "ndim", 2) != 2:
            raise BadValue(f"logits must have shape (B, V) for B ids, got {logits.shape}")
        asked, scores, peak = self._read(seq_ids, logits)
        token = self._draw(asked, scores, peak)
        result = _report(asked, logits, token)
        mx.eval(token, peak, result.logprob, result.top_tokens, result.top_logprobs)
        if not math.isfinite(sum(best for (best,) in peak.tolist())):  # NumPy takes 2 us more
            _check_fit(asked.ids, np.isfinite(np.array(peak)))
        self._slots.position[asked.slots] += 1
        if len(rows := asked.penalized):
            self._slots.remember(asked.slots[rows], np.array(token)[rows, None])
        return result

    def draw(
        self, seq_ids: Iterable[Hashable], logits: mx.array, unseen: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Return what ``sample`` would draw, had the ``unseen`` tokens been sampled before.

        Each row takes the random number of its own position. So the next forward can be queued
        before this token is known: feed the token to the model, and pass it here as ``unseen`` with
        the logits that come out. Nothing waits for the device, except with top-p and no top-k over
        more than 2,048 tokens, where the sampler must see how many the nucleus takes, and with a
        transform of your own, which is looked at, and refused, at once.

        Returns:
            Tokens int32, and ``finite``: False where ``sample`` would refuse the row, whose token
            means nothing. Both ``(B,)`` or ``(B, R)``.
        """
        asked, scores, peak = self._read(seq_ids, logits, unseen)
        ahead = 0 if unseen is None else unseen.shape[1] + 1 - len(asked.steps)
        shape = logits.shape[:-1]
        token = self._draw(asked, scores, peak, ahead)
        return token.reshape(shape), (mx.abs(peak) < mx.inf).reshape(shape)

    def cut(
        self, seq_ids: Iterable[Hashable], logits: mx.array, unseen: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Return the scores after all transforms, whose softmax is what ``draw`` draws from.

        Returns:
            float32 of the shape of ``logits``, relative to the best; and ``finite`` as from
            ``draw``.
        """
        asked, scores, peak = self._read(seq_ids, logits, unseen)
        if asked.plan is None:
            left = transforms.cut(scores, asked.columns, peak)
        else:
            left = fast_paths.cut(asked.plan, scores, peak)
        return left.reshape(logits.shape), (mx.abs(peak) < mx.inf).reshape(logits.shape[:-1])

    def _read(
        self, seq_ids: Iterable[Hashable], logits: mx.array, unseen: mx.array | None = None
    ) -> tuple[Asked, mx.array, mx.array]:
        """Check a call; return what it asks for, penalised scores, and the best of each row.

        They are float32 ``(N, V)`` and ``(N, 1)``, N = B or B * R. The best is not finite where a
        row has NaN, +inf or only -inf, and cannot be drawn from.
        """
        ids = seq_ids if isinstance(seq_ids, tuple) else _names(seq_ids)
        if not isinstance(logits, mx.array):
            raise BadType(f"logits must be an mlx array, got {type(logits).__name__}")
        # What fitted these ids once still fits them.
        key = ids, logits.shape, logits.dtype
        asked = self._asked.get(key)
        if asked is None:
            _check_logits(ids, logits)
            if len(self._asked) == _BATCHES:
                self._asked.clear()
            n_rows = logits.shape[1] if logits.ndim == 3 else 1
            asked = self._asked[key] = self._slots.ask(ids, n_rows, logits.shape[-1], self.fast)
        if unseen is not None and (unseen.ndim != 2 or len(unseen) != len(ids)):
            raise BadValue(f"unseen must have shape ({len(ids)}, A), got {unseen.shape}")
        known = 0 if unseen is None else unseen.shape[1]
        if len(asked.steps) > known + 1:
            rows = f"{len(asked.steps)} positions"
            raise BadValue(f"unseen must hold the tokens between {rows}, got {known} a sequence")
        if self._slots.ceiling >= (vocab_size := logits.shape[-1]):
            self._slots.check_history(ids, asked.slots, vocab_size)
        scores = logits if logits.dtype == mx.float32 else logits.astype(mx.float32)
        scores = scores.reshape(-1, vocab_size) if logits.ndim == 3 else scores
        if len(asked.penalized):
            scores = self._penalize(asked, scores, unseen)
        return asked, scores, mx.max(scores, axis=-1, keepdims=True)

    def _penalize(self, asked: Asked, scores: mx.array, unseen: mx.array | None) -> mx.array:
        """Return scores ``(N, V)`` in which the sequences with a history are penalised for it."""
        tokens, valid = self._slots.windows(asked, unseen, scores.shape[-1])
        if not tokens.shape[1]:
            return scores
        if asked.rows is None:
            return transforms.penalize(scores, tokens, asked.penalties, valid)
        some, scores = mx.take(scores, asked.rows, axis=0), mx.array(scores)
        scores[asked.rows] = transforms.penalize(some, tokens, asked.penalties, valid)
        return scores

    def _draw(self, asked: Asked, scores: mx.array, peak: mx.array, ahead: int = 0) -> mx.array:
        """Cut and draw: tokens ``(N,)``; ``ahead`` unseen tokens come before the first row."""
        if not len(asked.slots):
            return mx.zeros((0,), mx.int32)
        positions = self._slots.position[asked.slots]
        if ahead or len(asked.steps) > 1:
            positions = (positions[:, None] + (asked.steps + ahead)).ravel()
        u = random_numbers.uniforms(asked.keys, positions)[:, None]
        if asked.plan is None:
            weights = exp(transforms.cut(scores, asked.columns, peak))
            return transforms.draw(weights, mx.array(u)).squeeze(-1)
        return fast_paths.draw(asked.plan, scores, peak, u).squeeze(-1)

    def __len__(self) -> int:
        return len(self._slots.index)

    def __contains__(self, seq_id: Hashable) -> bool:
        return seq_id in self._slots.index

    def add(
        self, seq_id: Hashable, options: SamplerOptions | None = None,
        prior_tokens: Sequence[int] = (), *, stream: int = 0,
    ) -> None:  # fmt: skip
        """Register a sequence.

        Args:
            seq_id: any name; it plays no part in the random numbers.
            options: ``SamplerOptions()`` if None.
            prior_tokens: what came before, usually the prompt; the penalties see it.
            stream: which of the seed's independent streams of random numbers; row i of
                ``sample_n`` uses stream i.

        Raises:
            BadValue: the id is taken, or a token or the stream is negative.
        """
        options = SamplerOptions() if options is None else options
        if not isinstance(options, SamplerOptions):
            raise BadType(f"options must be SamplerOptions, got {options!r}")
        if seq_id in self._slots.index:
            raise BadValue(f"seq_id {seq_id!r} is already registered: remove it first")
        prior = token_ids("prior_tokens", prior_tokens, _LIMIT, allow_empty=True)
        self._slots.add(seq_id, options, self.num_ctx, prior, integer("stream", stream, 0))

    def remove(self, seq_id: Hashable) -> None:
        """Forget a sequence; an unknown id is no error."""
        if self._slots.remove(seq_id):
            self._asked.clear()

    def free(self) -> None:
        """Forget all sequences; the sampler is as new."""
        self._slots = Slots()
        self._asked: dict[Any, Asked] = {}

    def commit(self, seq_ids: Any, tokens: Any) -> None:
        """Append tokens that were decided elsewhere, as if they had been sampled here.

        Args:
            seq_ids: one id; or a list or tuple of B ids.
            tokens: its tokens, any number; or one token for each of the ids ``(B,)``.
        """
        if isinstance(seq_ids, str | bytes) or not isinstance(seq_ids, Iterable):
            slots = self._slots.find([seq_ids])
            plain = isinstance(tokens, list | tuple) and set(map(type, tokens)) == {int}
            if not (plain and min(tokens) >= 0 and max(tokens) < _LIMIT):  # else nothing to check
                tokens = token_ids("tokens", tokens, _LIMIT, allow_empty=True)
            if not self._slots.window[slots[0]]:  # a token of plain decoding: no history to write
                self._slots.position[slots[0]] += len(tokens)
                self._slots.see(slots[0], max(tokens, default=-1))
                return
            tokens = np.array([tokens], np.int64)
        else:
            ids, tokens = tuple(seq_ids), np.asarray(tokens)
            slots = self._slots.find(ids)
            if tokens.shape != slots.shape or (len(slots) and tokens.dtype.kind not in "iu"):
                wanted = f"{len(slots)} token ids, one for each id"
                raise BadValue(f"tokens must be {wanted}, got {tokens}")
            for row in np.flatnonzero((tokens < 0) | (tokens >= _LIMIT))[:1]:
                token_ids(f"tokens of slot {ids[row]!r}", tokens[[row]], _LIMIT)
            tokens = tokens[:, None]
        self._slots.position[slots] += tokens.shape[1]
        self._slots.remember(slots, tokens)

    def speculative_scores(self, seq_ids: Any, logits: mx.array, draft_tokens: Any) -> mx.array:
        """Return log-probabilities after all transforms, as if the drafts before had been appended.

        Args:
            seq_ids: one id, or B of them.
            logits: ``(R, V)``, or ``(B, R, V)`` for several ids.
            draft_tokens: ``(D,)``, or ``(B, D)``, with R <= D + 1; row i sees D - R + 1 + i of
                them.

        Returns:
            float32 of the shape of ``logits``, evaluated: -inf where a token was cut; one 0 and
            the rest -inf at temperature 0. Nothing changes; ``commit`` what was accepted.

        Raises:
            BadValue: as ``sample``; R > D + 1; a draft outside the vocabulary.
        """
        if not isinstance(logits, mx.array) or logits.ndim not in (2, 3):
            got = getattr(logits, "shape", type(logits).__name__)
            raise BadValue(f"logits must have shape (R, V), or (B, R, V) for B ids, got {got}")
        one = logits.ndim == 2
        ids, rows = ((seq_ids,), logits[None]) if one else (_names(seq_ids), logits)
        left, finite = self.cut(ids, rows, _check_drafts(ids, rows, draft_tokens, one))
        logs = transforms.log_softmax(left).reshape(logits.shape)
        mx.eval(logs, finite)
        _check_fit(ids, np.array(finite).all(axis=1))
        return logs

    def uniforms(self, seq_ids: Sequence[Hashable], n: int, lane: int = 1) -> np.ndarray:
        """Return random numbers for the next ``n`` positions of B slots, beside those that draw.

        They are ``(B, n)`` float32 in [0, 1), a hash of the seed, stream, position and ``lane``,
        the number of an independent set from 1. Nothing changes: the same call gives the same
        numbers until the slots move on.
        """
        slots = self._slots.find(seq_ids if isinstance(seq_ids, tuple) else _names(seq_ids))
        positions = self._slots.position[slots][:, None] + np.arange(n)
        keys = self._slots.keys[slots]
        keys = random_numbers.key(keys if len(keys) != 1 else keys.item(), lane)
        return random_numbers.uniforms(np.array(keys, np.uint64).reshape(-1, 1), positions)

    def noise(
        self, seq_ids: Sequence[Hashable], ahead: int | range, vocab_size: int, lane: int = 0
    ) -> mx.array:
        """Return an exponential number for each token ``(B, V)``, of the position ``ahead`` on.

        It is a hash of seed, stream and position, and none that ``draw`` or ``uniforms`` take;
        other lanes have other numbers. For one sequence ``ahead`` may be several: ``(R, V)``.
        """
        slots = self._slots.find(seq_ids)
        positions = (self._slots.position[slots] + ahead).astype(np.uint64)
        # No lane of uniforms is 0, and none has keys for positions.
        keys = random_numbers.key(self._slots.keys[slots], lane, positions)
        return mx.array(random_numbers.exponentials(keys, vocab_size))


def _names(seq_ids: Any) -> tuple[Hashable, ...]:
    if isinstance(seq_ids, str) or not isinstance(seq_ids, Iterable):
        raise BadType(f"seq_ids must be a sequence of ids, got {seq_ids!r}")
    return tuple(seq_ids)


def _check_logits(ids: tuple[Hashable, ...], logits: mx.array) -> None:
    """Refuse logits that are not ``(B, V)`` or ``(B, R, V)``, and floating."""
    shape, n = logits.shape, len(ids)
    if len(shape) not in (2, 3) or shape[0] != n or 0 in shape[1:]:
        raise BadValue(f"logits must have shape ({n}, V) for {n} ids, got {shape}")
    if not mx.issubdtype(logits.dtype, mx.floating):
        raise BadType(f"logits must be floating point, got {logits.dtype}")


def _check_drafts(ids: tuple[Any, ...], logits: mx.array, draft_tokens: Any, one: bool) -> mx.array:
    """Return drafts ``(B, D)`` that fit logits ``(B, R, V)``; ``(D,)`` were given for ``one``."""
    tokens = np.array(draft_tokens)
    if tokens.ndim != 2 - one or not (one or len(tokens) == len(ids)):
        wanted = "(D,)" if one else f"({len(ids)}, D)"
        raise BadValue(f"draft_tokens must have shape {wanted}, got {tokens.shape}")
    tokens = tokens.reshape(len(ids), -1) if tokens.size else np.zeros((len(ids), 0), np.int32)
    n_rows, most = logits.shape[1], tokens.shape[1] + 1
    if n_rows > most:
        wanted = f"1 to {most} rows (R <= D + 1) for {most - 1} draft tokens"
        raise BadValue(f"logits must have {wanted}, got {n_rows}")
    for name, row in zip(ids, tokens, strict=True):
        token_ids(f"draft_tokens of slot {name!r}", row, logits.shape[2], allow_empty=True)
    return mx.array(tokens.astype(np.int32))


def _check_fit(ids: tuple[Hashable, ...], finite: np.ndarray) -> None:
    """Refuse rows that cannot be drawn from, by name."""
    if not finite.all():
        names = ", ".join(repr(ids[row]) for row in np.flatnonzero(~finite)[:4])
        raise BadValue(f"logits of slot {names}: a row must have no NaN, no +inf, a finite score")


def _report(asked: Asked, logits: mx.array, token: mx.array) -> SampleResult:
    """Add log-probabilities under the raw logits ``(B, V)``, for the rows that asked."""
    if asked.chosen is None and asked.top is None:
        return SampleResult(token)
    logs = transforms.log_softmax(logits)
    logprob = top_tokens = top_logprobs = None
    if asked.chosen is not None:
        drawn = mx.take_along_axis(logs, token[:, None], axis=-1)
        logprob = mx.where(mx.array(asked.chosen), drawn, mx.nan)
    if asked.top is not None:
        width = int(asked.top.max())
        _, ids = transforms.best(logits.astype(mx.float32), width)
        wanted = mx.array(np.arange(width) < asked.top)
        top_tokens = mx.where(wanted, ids, -1)
        top_logprobs = mx.where(wanted, mx.take_along_axis(logs, ids, axis=-1), mx.nan)
    return SampleResult(token, logprob, top_tokens, top_logprobs)

"""A batched slot sampler: many sequences, each with its own options, history and random numbers.

A slot is one sequence. ``Sampler.sample`` takes any subset of the slots, in any order, with one row
of logits each, and turns every row into a token as its slot's options say: penalise, cut, draw.
What a slot gets depends on nothing but its own logits, history and seed: not on the batch, its
order or its size.

``sample`` is the plain way: it returns tokens and remembers them. The other calls serve engines
that want no waiting in between. They return unevaluated arrays, change no state and leave a flag in
place of an error; ``commit`` tells the sampler what came of it:

    draw              the next token, while the one before it is still being computed
    draw_positions    the tokens at several positions of a sequence, drafts given (rule "match")
    score_positions   their log-probabilities (rules "rejection" and "block")
"""

from collections.abc import Hashable, Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any

from lablib.inference.sampling import checks, fast_paths, random_numbers, transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.slot_table import Asked, Slots
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
        if isinstance(seq_ids, Sized) and not len(seq_ids):
            return SampleResult(mx.zeros((0,), mx.int32))
        asked, scores, *_ = self._ask(seq_ids, logits)
        token, peak = self._draw(asked, scores)
        result = _report(asked, scores, token)
        mx.eval(token, peak, result.logprob, result.top_tokens, result.top_logprobs)
        checks.fit(asked.ids, np.isfinite(np.array(peak)))
        self._slots.position[asked.slots] += 1
        if len(ringed := asked.penalized):
            self._slots.remember(asked.slots[ringed], np.array(token)[ringed, None])
        return result

    def _draw(
        self, asked: Asked, scores: mx.array, unseen: mx.array | None = None, ahead: int = 0
    ) -> tuple[mx.array, mx.array]:
        """Penalise, cut, draw; return tokens ``(N,)``, and the best score of each row ``(N, 1)``.

        The latter is not finite where a row of ``scores`` ``(N, V)`` has NaN, +inf or only -inf,
        and is not fit to draw from. Of the ``unseen`` tokens ``(B, A)``, which the histories don't
        have yet, ``ahead`` come before the first row of a sequence.
        """
        if len(asked.penalized):
            scores = self._penalize(asked, scores, unseen)
        peak = mx.max(scores, axis=-1, keepdims=True)
        positions = self._slots.position[asked.slots]
        if ahead or len(asked.steps) > 1:
            positions = (positions[:, None] + (asked.steps + ahead)).ravel()
        u = random_numbers.uniforms(asked.keys, positions)[:, None]
        if asked.plan is None:
            weights = mx.exp(transforms.cut(scores, asked.columns, peak))
            return transforms.draw(weights, mx.array(u)).flatten(), peak
        return fast_paths.draw(asked.plan, scores, peak, u).flatten(), peak

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

    def __len__(self) -> int:
        return len(self._slots.index)

    def __contains__(self, seq_id: Hashable) -> bool:
        return seq_id in self._slots.index

    def add(
        self,
        seq_id: Hashable,
        options: SamplerOptions | None = None,
        prior_tokens: Sequence[int] = (),
        *,
        stream: int = 0,
    ) -> None:
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
            self._batches.clear()

    def free(self) -> None:
        """Forget all sequences; the sampler is as new."""
        self._slots = Slots()
        self._batches: dict[Any, Asked] = {}

    def position(self, seq_id: Hashable) -> int:
        """Return how many tokens the slot has sampled or had committed since ``add``."""
        return int(self._slots.position[self._slots.find([seq_id])[0]])

    def window(self, seq_id: Hashable) -> list[int]:
        """Return what the slot's penalties see, oldest token first; nothing for a slot without."""
        return self._slots.recent(self._slots.find([seq_id]))[0][0].tolist()

    def commit(self, seq_ids: Any, tokens: Any) -> None:
        """Append tokens that were decided elsewhere, as if they had been sampled here.

        Args:
            seq_ids: one id; or a list or tuple of B ids.
            tokens: its tokens, any number; or one token for each of the ids ``(B,)``.
        """
        if isinstance(seq_ids, str | bytes) or not isinstance(seq_ids, Iterable):
            slots = self._slots.find([seq_ids])
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

    def draw(
        self, seq_ids: Sequence[Hashable], logits: mx.array, pending: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Return what ``sample`` would draw: unevaluated, and nothing changes.

        So the next forward can be queued before this token is known: feed the token to the model,
        pass it here as ``pending`` ``(B, A)`` with the logits that come out, and ``commit`` it once
        it has arrived. ``pending`` has all tokens since the last commit, oldest first. Nothing
        waits for the device, except with top-p and no top-k over more than 2,048 tokens, where the
        sampler must see how many tokens the nucleus takes.

        Returns:
            ``token`` ``(B,)`` int32, and ``finite`` ``(B,)``: False where ``sample`` would refuse
            the row; that row's token means nothing.
        """
        if isinstance(seq_ids, Sized) and not len(seq_ids):
            return mx.zeros((0,), mx.int32), mx.zeros((0,), mx.bool_)
        asked, scores, *_ = self._ask(seq_ids, logits)
        if pending is not None and (pending.ndim != 2 or len(pending) != len(asked.ids)):
            wanted = f"({len(asked.ids)}, A)"
            raise BadValue(f"pending must have shape {wanted}, got {tuple(pending.shape)}")
        ahead = 0 if pending is None else pending.shape[1]
        token, peak = self._draw(asked, scores, pending, ahead)
        return token, (mx.abs(peak) < mx.inf).flatten()

    def draw_positions(
        self, seq_ids: Any, logits: mx.array, draft_tokens: Any
    ) -> tuple[mx.array, mx.array]:
        """Return what successive ``sample`` calls would draw, had the drafts been sampled before.

        Each row is drawn with the random number of its own position and with the drafts before it
        in the penalties' window. Unevaluated; nothing changes. The arguments are those of
        ``speculative_scores``.

        Returns:
            ``token`` and ``finite`` as from ``draw``, ``(R,)`` or ``(B, R)``. A sequence with a
            draft outside the vocabulary counts as not finite.
        """
        asked, scores, drafts, valid = self._ask(seq_ids, logits, draft_tokens)
        ahead = drafts.shape[1] - len(asked.steps) + 1
        token, peak = self._draw(asked, scores, drafts, ahead)
        finite = (mx.abs(peak) < mx.inf).reshape(len(drafts), -1) & valid
        return token.reshape(logits.shape[:-1]), finite.reshape(logits.shape[:-1])

    def score_positions(
        self, seq_ids: Any, logits: mx.array, draft_tokens: Any
    ) -> tuple[mx.array, mx.array]:
        """Return ``speculative_scores`` unevaluated, and ``finite`` ``(R,)`` or ``(B, R)``."""
        asked, scores, drafts, valid = self._ask(seq_ids, logits, draft_tokens)
        if len(asked.penalized):
            scores = self._penalize(asked, scores, drafts)
        peak = mx.max(scores, axis=-1, keepdims=True)
        if asked.plan is None:
            logs = transforms.log_softmax(transforms.cut(scores, asked.columns, peak))
        else:
            logs = fast_paths.log_probs(asked.plan, scores, peak)
        finite = (mx.abs(peak) < mx.inf).reshape(len(drafts), -1) & valid
        return logs.reshape(logits.shape), finite.reshape(logits.shape[:-1])

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
        logs, finite = self.score_positions(seq_ids, logits, np.array(draft_tokens))
        mx.eval(logs, finite)
        ids = tuple(seq_ids) if logits.ndim == 3 else (seq_ids,)
        checks.fit(ids, np.array(finite).reshape(len(ids), -1).all(axis=1))
        return logs

    def uniforms(self, seq_ids: Sequence[Hashable], n: int, lane: int = 1) -> np.ndarray:
        """Return random numbers for the next ``n`` positions of B slots, beside those that draw.

        They are ``(B, n)`` float32 in [0, 1), a hash of the seed, stream, position and ``lane``:
        which of the independent sets, from 1. Nothing changes: the same call gives the same numbers
        until the slots move on.
        """
        slots = self._slots.find(_names(seq_ids))
        positions = self._slots.position[slots][:, None] + np.arange(integer("n", n, 0))
        keys = self._slots.keys[slots]
        keys = random_numbers.key(keys if len(keys) != 1 else keys.item(), integer("lane", lane, 1))
        keys = np.array(keys, np.uint64).reshape(-1, 1)
        return random_numbers.uniforms(keys, positions)

    def _ask(
        self, seq_ids: Any, logits: mx.array, draft_tokens: Any = None
    ) -> tuple[Asked, mx.array, mx.array | None, mx.array | bool]:
        """Check a call; return what it asks for, and its scores ``(N, V)``, float32.

        With drafts there are R positions of each sequence: logits are ``(B, R, V)``, or ``(R, V)``
        of one. What comes last is what ``checks.drafts`` returns.
        """
        drafts, valid, n_rows = None, True, 0
        one = draft_tokens is not None and getattr(logits, "ndim", 2) != 3
        ids = (seq_ids,) if one else _names(seq_ids)
        if draft_tokens is not None:
            drafts, valid = checks.drafts(ids, logits, draft_tokens)
            n_rows, logits = logits.shape[-2], logits[None] if one else logits
        # What fitted these ids once still fits them.
        key = (ids, n_rows, getattr(logits, "shape", None), getattr(logits, "dtype", None))
        asked = self._batches.get(key)
        if asked is None:
            checks.logits(ids, logits, n_rows > 0)
            if len(self._batches) == _BATCHES:
                self._batches.clear()
            asked = self._slots.ask(ids, max(n_rows, 1), logits.shape[-1], self.fast)
            self._batches[key] = asked
        vocab_size = logits.shape[-1]
        if self._slots.ceiling >= vocab_size:
            checks.history(ids, self._slots.highest[asked.slots], vocab_size)
        scores = logits if logits.dtype == mx.float32 else logits.astype(mx.float32)
        return asked, scores.reshape(-1, vocab_size) if n_rows else scores, drafts, valid


def _names(seq_ids: Any) -> tuple[Hashable, ...]:
    if isinstance(seq_ids, str) or not isinstance(seq_ids, Iterable):
        raise BadType(f"seq_ids must be a sequence of ids, got {seq_ids!r}")
    return tuple(seq_ids)


def _report(asked: Asked, logits: mx.array, token: mx.array) -> SampleResult:
    """Add log-probabilities under the raw logits ``(B, V)``, for the rows that asked."""
    chosen, width = asked.chosen.any(), int(asked.top.max())
    if not chosen and not width:
        return SampleResult(token)
    logs = transforms.log_softmax(logits)
    logprob = top_tokens = top_logprobs = None
    if chosen:
        logprob = mx.take_along_axis(logs, token[:, None], axis=-1)
        logprob = mx.where(mx.array(asked.chosen), logprob, mx.nan)
    if width:
        _, ids = transforms.best(logits, width)
        wanted = mx.array(np.arange(width) < asked.top)
        top_tokens = mx.where(wanted, ids, -1)
        top_logprobs = mx.where(wanted, mx.take_along_axis(logs, ids, axis=-1), mx.nan)
    return SampleResult(token, logprob, top_tokens, top_logprobs)

"""A batched slot sampler: many sequences, each with its own options, history and random numbers.

A slot is one sequence. ``Sampler.sample`` takes any subset of the slots, in any order, with one row
of logits each, and turns every row into a token as its slot's options say: penalise, cut, draw.
A slot's token depends on nothing but its own logits, history and seed: not on the batch, its order
or its size.

``sample`` is the plain way: it returns tokens and remembers them. ``draw`` and ``cut`` serve
engines that want no waiting in between: they return unevaluated arrays, change nothing and leave a
flag in place of an error; ``commit`` tells the sampler the tokens that came of it. Both take one
position of each sequence, logits ``(B, V)``, or R positions in a row, ``(B, R, V)``, and the tokens
that the sampler has not been told of yet: ``unseen`` ``(B, A)``, before and between the positions,
oldest first, ids of the vocabulary. Row i of R sees all of these but the last R - 1 - i.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.inference.sampling import random_numbers, transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.slot_table import BatchPlan, Ids, Slots
from lablib.validation import BadType, BadValue, integer, token_ids

import mlx.core as mx
import numpy as np

_LIMIT = 2**31  # token ids are int32
_MOST_PLANS = 16  # how many different batches to keep ready


@dataclass(frozen=True)
class SampleResult:
    """One token for each row, and log-softmax of the raw logits for the slots that want it.

    A field that no row wants is None. K is the largest number wanted, at most V.
    """

    token: mx.array  # (B,) int32
    logprob: mx.array | None = None  # (B, 1) float32, at the token; NaN in rows without
    top_tokens: mx.array | None = None  # (B, K) int32, best first; -1 beyond a row's own number
    top_logprobs: mx.array | None = None  # (B, K) float32, theirs; NaN beyond a row's own number


class Sampler:
    """Slots that are sampled together.

    Args:
        num_ctx: the context length: how far back ``repeat_last_n = -1`` looks.

    Every call checks its arguments before it does anything; one that raises has changed nothing.
    """

    def __init__(self, num_ctx: int) -> None:
        self.num_ctx = integer("num_ctx", num_ctx, 1)
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
        plan, scores, peak = self._read(seq_ids, logits)
        token = self._draw(plan, scores, peak)
        finite = _is_finite(peak)
        result = _report(plan, logits, token)
        mx.eval(token, finite, result.logprob, result.top_tokens, result.top_logprobs)
        _check_finite(plan.ids, finite)
        self._slots.position[plan.slots] += 1
        if len(plan.penalized):
            self._slots.remember(plan.slots, np.array(token)[:, None])
        return result

    def draw(
        self,
        seq_ids: Iterable[Hashable],
        logits: mx.array,
        unseen: mx.array | None = None,
    ) -> tuple[mx.array, mx.array]:
        """Return the tokens that ``sample`` would draw after the ``unseen`` tokens.

        Each row takes the random number of its own position. So the next forward can be queued
        before this token is known: feed the token to the model, and pass it here as ``unseen`` with
        the logits that come out. Nothing waits for the device, except where top-p has more than
        2,048 tokens before it (without top-k, the vocabulary), as the sampler must see how many the
        nucleus takes, and with a transform of your own, which is looked at, and refused, at once.

        Returns:
            Tokens int32, and ``finite``: False where ``sample`` would refuse the row, whose token
            means nothing. Both ``(B,)`` or ``(B, R)``.
        """
        plan, scores, peak = self._read(seq_ids, logits, unseen)
        ahead = 1 - len(plan.steps)
        if unseen is not None:
            ahead += unseen.shape[1]
        shape = logits.shape[:-1]
        token = self._draw(plan, scores, peak, ahead).reshape(shape)
        finite = _is_finite(peak).reshape(shape)
        return token, finite

    def cut(
        self,
        seq_ids: Iterable[Hashable],
        logits: mx.array,
        unseen: mx.array | None = None,
    ) -> tuple[mx.array, mx.array]:
        """Return the scores after all transforms: ``draw`` draws from their softmax.

        Returns:
            float32 of the shape of ``logits``, relative to the best; and ``finite`` as from
            ``draw``.
        """
        plan, scores, peak = self._read(seq_ids, logits, unseen)
        left = plan.groups.cut(scores, peak)
        finite = _is_finite(peak).reshape(logits.shape[:-1])
        return left.reshape(logits.shape), finite

    def _read(
        self,
        seq_ids: Iterable[Hashable],
        logits: mx.array,
        unseen: mx.array | None = None,
    ) -> tuple[BatchPlan, mx.array, mx.array]:
        """Check a call; return its plan, penalised scores, and the best of each row.

        They are float32 ``(N, V)`` and ``(N, 1)``, N = B or B * R. The best is not finite where a
        row has NaN, +inf or only -inf, and cannot be drawn from.
        """
        plan = self._plan(_tuple_of_ids(seq_ids), logits)
        _check_unseen(plan, unseen)
        vocab_size = logits.shape[-1]
        if self._slots.ceiling >= vocab_size:
            self._slots.check_history(plan.ids, plan.slots, vocab_size)
        scores = logits.astype(mx.float32)
        if logits.ndim == 3:
            scores = scores.reshape(-1, vocab_size)
        if len(plan.penalized):
            scores = self._penalize(plan, scores, unseen)
        return plan, scores, mx.max(scores, axis=-1, keepdims=True)

    def _plan(self, ids: Ids, logits: mx.array) -> BatchPlan:
        """Return the plan of a batch, the same for as long as its slots come back."""
        if not isinstance(logits, mx.array):
            raise BadType(f"logits must be an mlx array, got {type(logits).__name__}")
        # Logits that fitted these ids once still fit them.
        key = ids, logits.shape, logits.dtype, tuple(transforms.ORDER)
        plan = self._plans.get(key)
        if plan is None:
            _check_logits(ids, logits)
            if len(self._plans) == _MOST_PLANS:
                self._plans.clear()
            n_rows = logits.shape[1] if logits.ndim == 3 else 1
            plan = self._slots.plan(ids, n_rows, logits.shape[-1])
            self._plans[key] = plan
        return plan

    def _penalize(
        self,
        plan: BatchPlan,
        scores: mx.array,
        unseen: mx.array | None,
    ) -> mx.array:
        """Return scores ``(N, V)`` in which the sequences are penalised for their histories."""
        tokens, is_real = self._slots.windows(plan, unseen, scores.shape[-1])
        if not tokens.shape[1]:
            return scores
        if len(plan.penalized) == len(scores):
            return transforms.penalize(scores, tokens, plan.penalties, is_real)
        rows = mx.array(plan.penalized)  # rows without a history are padding only: is_real is given
        new = transforms.penalize(scores[rows], tokens[rows], plan.penalties, is_real[rows])
        scores = mx.array(scores)
        scores[rows] = new
        return scores

    def _draw(
        self,
        plan: BatchPlan,
        scores: mx.array,
        peak: mx.array,
        ahead: int = 0,
    ) -> mx.array:
        """Cut and draw: tokens ``(N,)``; ``ahead`` unseen tokens come before the first row."""
        if not len(plan.slots):
            return mx.zeros((0,), mx.int32)
        first = self._slots.position[plan.slots] + ahead
        positions = first[:, None] + plan.steps
        u = random_numbers.uniforms(plan.keys, positions.ravel())
        return plan.groups.draw(scores, peak, u[:, None]).squeeze(-1)

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
            prior_tokens: the tokens before, usually the prompt; the penalties see them.
            stream: the number of one of the seed's streams of random numbers; row i of
                ``sample_n`` uses stream i.

        Raises:
            BadValue: the id is taken, or a token or the stream is negative.
        """
        if options is None:
            options = SamplerOptions()
        if not isinstance(options, SamplerOptions):
            raise BadType(f"options must be SamplerOptions, got {options!r}")
        if seq_id in self._slots.index:
            raise BadValue(f"seq_id {seq_id!r} is already registered: remove it first")
        prior = token_ids("prior_tokens", prior_tokens, _LIMIT, allow_empty=True)
        stream = integer("stream", stream, 0)
        self._slots.add(seq_id, options, self.num_ctx, prior, stream)

    def remove(self, seq_id: Hashable) -> None:
        """Forget a sequence; an unknown id is no error."""
        if self._slots.remove(seq_id):
            self._plans.clear()

    def free(self) -> None:
        """Forget all sequences; the sampler is as new."""
        self._slots = Slots()
        self._plans: dict[Any, BatchPlan] = {}

    def commit(self, seq_ids: Any, tokens: Any) -> None:
        """Append tokens that were decided elsewhere, as if they had been sampled here.

        Args:
            seq_ids: one id; or a list or tuple of B ids.
            tokens: its tokens, any number; or one token for each of the ids ``(B,)``.
        """
        if isinstance(seq_ids, str | bytes) or not isinstance(seq_ids, Iterable):
            self._commit_to_one(seq_ids, tokens)
        else:
            self._commit_to_each(tuple(seq_ids), np.asarray(tokens))

    def _commit_to_one(self, seq_id: Hashable, tokens: Any) -> None:
        tokens = token_ids("tokens", tokens, _LIMIT, allow_empty=True)
        self._slots.append(seq_id, tokens)

    def _commit_to_each(self, ids: Ids, tokens: np.ndarray) -> None:
        slots = self._slots.find(ids)
        if tokens.shape != slots.shape or (len(slots) and tokens.dtype.kind not in "iu"):
            wanted = f"{len(slots)} token ids, one for each id"
            raise BadValue(f"tokens must be {wanted}, got {tokens}")
        is_bad = (tokens < 0) | (tokens >= _LIMIT)
        if is_bad.any():
            row = is_bad.argmax()
            token_ids(f"tokens of slot {ids[row]!r}", tokens[[row]], _LIMIT)
        self._slots.position[slots] += 1
        self._slots.remember(slots, tokens[:, None])

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
        rows = logits
        drafts = np.array(draft_tokens)
        if logits.ndim == 2:
            seq_ids = (seq_ids,)
            rows = logits[None]
            drafts = drafts[None]
        ids = _tuple_of_ids(seq_ids)
        _check_drafts(ids, rows, drafts)
        left, finite = self.cut(ids, rows, mx.array(drafts.astype(np.int32)))
        log_probs = transforms.log_softmax(left).reshape(logits.shape)
        mx.eval(log_probs, finite)
        _check_finite(ids, finite)
        return log_probs

    def uniforms(self, seq_ids: Sequence[Hashable], n: int, lane: int = 1) -> np.ndarray:
        """Return random numbers for the next ``n`` positions of B slots, beside those that draw.

        They are ``(B, n)`` float32 in [0, 1), a hash of the seed, stream, position and ``lane``,
        the number of an independent set from 1. Nothing changes: the same call gives the same
        numbers until the slots move on.
        """
        slots = self._slots.find(_tuple_of_ids(seq_ids))
        positions = self._slots.position[slots][:, None] + np.arange(n)
        keys = self._slots.keys[slots]
        if len(keys) == 1:  # Python's ints are three times as fast
            key = random_numbers.key(keys.item(), lane)
            return random_numbers.uniforms(np.array([[key]], np.uint64), positions)
        keys = random_numbers.key(keys, lane)
        return random_numbers.uniforms(keys[:, None], positions)

    def noise(
        self,
        seq_ids: Sequence[Hashable],
        ahead: int | range,
        vocab_size: int,
        lane: int = 0,
    ) -> mx.array:
        """Return an exponential number for each token ``(B, V)``, of the position ``ahead`` on.

        It is a hash of seed, stream and position, and none that ``draw`` or ``uniforms`` take;
        other lanes have other numbers. For one sequence ``ahead`` may be several: ``(R, V)``.
        """
        slots = self._slots.find(seq_ids)
        positions = self._slots.position[slots] + ahead
        # No lane of uniforms is 0, and none has keys for positions.
        keys = random_numbers.key(self._slots.keys[slots], lane, positions.astype(np.uint64))
        return mx.array(random_numbers.exponentials(keys, vocab_size))


def _tuple_of_ids(seq_ids: Any) -> Ids:
    if isinstance(seq_ids, tuple):
        return seq_ids
    if isinstance(seq_ids, str) or not isinstance(seq_ids, Iterable):
        raise BadType(f"seq_ids must be a sequence of ids, got {seq_ids!r}")
    return tuple(seq_ids)


def _check_logits(ids: Ids, logits: mx.array) -> None:
    """Refuse logits that are not ``(B, V)`` or ``(B, R, V)``, and floating."""
    n_ids = len(ids)
    shape = logits.shape
    is_fit = len(shape) in (2, 3) and shape[0] == n_ids and 0 not in shape[1:]
    if not is_fit:
        raise BadValue(f"logits must have shape ({n_ids}, V) for {n_ids} ids, got {shape}")
    if not mx.issubdtype(logits.dtype, mx.floating):
        raise BadType(f"logits must be floating point, got {logits.dtype}")


def _check_unseen(plan: BatchPlan, unseen: mx.array | None) -> None:
    """Refuse unseen tokens that are not ``(B, A)`` with R <= A + 1."""
    n_ids = len(plan.ids)
    n_unseen = 0
    if unseen is not None:
        if unseen.ndim != 2 or len(unseen) != n_ids:
            raise BadValue(f"unseen must have shape ({n_ids}, A), got {unseen.shape}")
        n_unseen = unseen.shape[1]
    n_rows = len(plan.steps)
    if n_rows > n_unseen + 1:
        wanted = f"the tokens between {n_rows} positions"
        raise BadValue(f"unseen must hold {wanted}, got {n_unseen} a sequence")


def _check_drafts(
    ids: Ids,
    logits: mx.array,
    drafts: np.ndarray,
) -> None:
    """Refuse drafts that are not ``(B, D)``, or do not fit logits ``(B, R, V)``."""
    if drafts.ndim != 2 or len(drafts) != len(ids):
        wanted = f"(D,) for one id, ({len(ids)}, D) for several"
        raise BadValue(f"draft_tokens must have shape {wanted}, got {drafts.shape}")
    n_rows = logits.shape[1]
    most = drafts.shape[1] + 1
    if n_rows > most:
        wanted = f"1 to {most} rows (R <= D + 1) for {most - 1} draft tokens"
        raise BadValue(f"logits must have {wanted}, got {n_rows}")
    if drafts.size:
        for seq_id, row in zip(ids, drafts, strict=True):
            token_ids(f"draft_tokens of slot {seq_id!r}", row, logits.shape[2])


def _is_finite(peak: mx.array) -> mx.array:
    return mx.abs(peak) < mx.inf  # two operations; mx.isfinite is several


def _check_finite(ids: Ids, finite: mx.array) -> None:
    """Refuse sequences with a row that cannot be drawn from, by name; ``finite`` is ``(B, R)``."""
    rows = finite.tolist()
    bad = [seq_id for seq_id, row in zip(ids, rows, strict=True) if not all(row)]
    if bad:
        names = ", ".join(map(repr, bad[:4]))
        raise BadValue(f"logits of slot {names}: a row must have no NaN, no +inf, a finite score")


def _report(
    plan: BatchPlan,
    logits: mx.array,
    token: mx.array,
) -> SampleResult:
    """Add log-probabilities under the raw logits ``(B, V)``, for the rows that want them."""
    if not plan.reports:
        return SampleResult(token)
    log_probs = transforms.log_softmax(logits)
    logprob = top_tokens = top_logprobs = None
    if plan.wants_logprob.any():
        drawn = mx.take_along_axis(log_probs, token[:, None], axis=-1)
        logprob = mx.where(mx.array(plan.wants_logprob), drawn, mx.nan)
    width = int(plan.n_top.max())
    if width:
        _, ids = transforms.best(logits.astype(mx.float32), width)
        is_wanted = mx.array(np.arange(width) < plan.n_top)
        top_tokens = mx.where(is_wanted, ids, -1)
        best = mx.take_along_axis(log_probs, ids, axis=-1)
        top_logprobs = mx.where(is_wanted, best, mx.nan)
    return SampleResult(token, logprob, top_tokens, top_logprobs)

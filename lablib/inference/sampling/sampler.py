"""A batched slot sampler: many sequences, each with its own options, history and random numbers.

``Sampler`` names the rows of a ``TextSampler``, checks every call and keeps the texts. ``sample``
takes any subset of the slots, in any order, with one row of logits each, and turns every row into a
token as its slot's options say: penalise, cut, draw.

``sample`` waits for its tokens and remembers them. Who wants no waiting in between takes the slots'
``batch``, which returns unevaluated arrays, checks nothing and remembers nothing; ``commit`` tells
the sampler the tokens that came of it. The decoder's texts are slots without names.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.inference.sampling import transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.row import Row, key_of
from lablib.inference.sampling.text_sampler import Drawn, TextSampler
from lablib.machine.arrays import listed
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, integer, token_ids

import mlx.core as mx
import numpy as np

Ids = tuple[Hashable, ...]

_LIMIT = 2**31  # token ids are int32
_MOST_BATCHES = 16  # how many different batches to keep ready


@dataclass(frozen=True)
class SampleResult:
    """One token for each row, and log-softmax of the raw logits for the slots that want it.

    A field that no row wants is None. K is the largest number wanted, at most V.

    Example:
        >>> sampler = lablib.Sampler(num_ctx=8)
        >>> sampler.add("a", lablib.SamplerOptions(temperature=0.0, logprobs=True))
        >>> sampler.sample(["a"], mx.array([[0.0, 2.0, 1.0]])).logprob.shape
        (1, 1)
    """

    token: mx.array  # (B,) int32
    logprob: mx.array | None = None  # (B, 1) float32, at the token; NaN in rows without
    top_tokens: mx.array | None = None  # (B, K) int32, best first; -1 beyond a row's own number
    top_logprobs: mx.array | None = None  # (B, K) float32, theirs; NaN beyond a row's own number


@checks_options
class Sampler:
    """Slots that are sampled together.

    Args:
        num_ctx: the context length: how far back ``repeat_last_n = -1`` looks.

    Every call checks its arguments before it does anything; one that raises has changed nothing.

    Raises:
        ValueError, TypeError: ``num_ctx`` is no whole number, or below 1.

    Example:
        >>> sampler = lablib.Sampler(num_ctx=8)
        >>> sampler.add("a", lablib.SamplerOptions(temperature=0.0))
        >>> sampler.sample(["a"], mx.array([[0.0, 2.0, 1.0]])).token.tolist()
        [1]
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
        ids, batch = self._checked(seq_ids, logits)
        token, finite = batch.draw(logits)
        result = SampleResult(token)
        options = [row.options for row in batch.rows]
        if any(each.logprobs or each.top_logprobs for each in options):
            raw = logits[:, None].astype(mx.float32)
            result = _report(options, batch.report(raw, token[:, None], finite[:, None]))
        mx.eval(token, finite, result.logprob, result.top_tokens, result.top_logprobs)
        _check_finite(ids, finite)
        for seq_id, new in zip(ids, listed(token), strict=True):
            self._append(seq_id, [new])
        return result

    def _checked(self, seq_ids: Any, logits: mx.array) -> tuple[Ids, TextSampler]:
        """Check a call, and return its ids and the batch of their slots."""
        ids = _tuple_of_ids(seq_ids)
        _check_logits(ids, logits)
        batch = self.batch(ids)
        vocab_size = logits.shape[-1]
        for seq_id in ids:
            if self._highest[seq_id] >= vocab_size:
                given = f"was given token {self._highest[seq_id]} (prior_tokens or commit)"
                raise BadValue(f"slot {seq_id!r} {given}, but logits have V = {vocab_size}")
        return ids, batch

    def batch(self, seq_ids: Iterable[Hashable]) -> TextSampler:
        """Return the batch of different ids, the same for as long as its slots come back."""
        ids = _tuple_of_ids(seq_ids)
        if ids in self._batches:
            return self._batches[ids]
        slots = [self._slot(seq_id) for seq_id in ids]
        if len(set(ids)) < len(ids):
            twice = max(ids, key=ids.count)
            raise BadValue(f"seq_ids must not repeat an id, got {twice!r} more than once")
        if len(self._batches) == _MOST_BATCHES:
            self._batches.clear()
        self._batches[ids] = TextSampler()
        self._batches[ids].use(slots)
        return self._batches[ids]

    def _slot(self, seq_id: Any) -> Row:
        if not isinstance(seq_id, Hashable):
            raise BadType(f"seq_id must be one id, and hashable, got {seq_id!r}")
        if seq_id not in self._slots:
            raise BadValue(f"seq_id {seq_id!r} is not registered")
        return self._slots[seq_id]

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, seq_id: Hashable) -> bool:
        return seq_id in self._slots

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
        if seq_id in self._slots:
            raise BadValue(f"seq_id {seq_id!r} is already registered: remove it first")
        prior = token_ids("prior_tokens", prior_tokens, _LIMIT, allow_empty=True)
        stream = integer("stream", stream, 0)
        key = key_of(options, stream)
        self._slots[seq_id] = Row(prior, options, key, num_ctx=self.num_ctx)
        self._highest[seq_id] = max(prior, default=-1)

    def remove(self, seq_id: Hashable) -> None:
        """Forget a sequence; an unknown id is no error."""
        if seq_id in self._slots:
            del self._slots[seq_id], self._highest[seq_id]
            self._batches.clear()

    def free(self) -> None:
        """Forget all sequences; the sampler is as new."""
        self._slots: dict[Hashable, Row] = {}
        self._highest: dict[Hashable, int] = {}  # the largest token id that each was given
        self._batches: dict[Ids, TextSampler] = {}

    def commit(self, seq_id: Hashable, tokens: Sequence[int]) -> None:
        """Append tokens that were decided elsewhere, any number, as if they had been sampled."""
        self._append(seq_id, token_ids("tokens", tokens, _LIMIT, allow_empty=True))

    def _append(self, seq_id: Hashable, tokens: list[int]) -> None:
        self._slot(seq_id).text.extend(tokens)
        self._highest[seq_id] = max([self._highest[seq_id], *tokens])

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
        _, batch = self._checked(ids, rows)
        left, finite = batch.cut(rows, mx.array(drafts.astype(np.int32)))
        log_probs = transforms.log_softmax(left).reshape(logits.shape)
        mx.eval(log_probs, finite)
        _check_finite(ids, finite)
        return log_probs


def _tuple_of_ids(seq_ids: Any) -> Ids:
    if isinstance(seq_ids, tuple):
        return seq_ids
    if isinstance(seq_ids, str) or not isinstance(seq_ids, Iterable):
        raise BadType(f"seq_ids must be a sequence of ids, got {seq_ids!r}")
    return tuple(seq_ids)


def _check_logits(ids: Ids, logits: mx.array) -> None:
    """Refuse logits that are not ``(B, V)`` or ``(B, R, V)``, and floating."""
    if not isinstance(logits, mx.array):
        raise BadType(f"logits must be an mlx array, got {type(logits).__name__}")
    n_ids = len(ids)
    shape = logits.shape
    is_fit = len(shape) in (2, 3) and shape[0] == n_ids and 0 not in shape[1:]
    if not is_fit:
        raise BadValue(f"logits must have shape ({n_ids}, V) for {n_ids} ids, got {shape}")
    if not mx.issubdtype(logits.dtype, mx.floating):
        raise BadType(f"logits must be floating point, got {logits.dtype}")


def _check_drafts(ids: Ids, logits: mx.array, drafts: np.ndarray) -> None:
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


def _check_finite(ids: Ids, finite: mx.array) -> None:
    """Refuse sequences that cannot be drawn from, by name; ``finite`` is ``(B,)`` or ``(B, R)``."""
    rows = listed(finite)
    bad = [seq_id for seq_id, row in zip(ids, rows, strict=True) if not np.all(row)]
    if bad:
        names = ", ".join(map(repr, bad[:4]))
        raise BadValue(f"logits of slot {names}: a row must have no NaN, no +inf, a finite score")


def _report(options: Sequence[SamplerOptions], drawn: Drawn) -> SampleResult:
    """Leave what the rows want of tokens ``(B, 1)`` and their log-probabilities."""
    wants = np.array([[each.logprobs] for each in options])
    logprob = top_tokens = top_logprobs = None
    if wants.any():
        logprob = mx.where(mx.array(wants), drawn.logprobs, mx.nan)
    if drawn.best:
        ids, best = (column[:, 0] for column in drawn.best)
        is_wanted = mx.arange(ids.shape[1]) < mx.array([[each.top_logprobs] for each in options])
        top_tokens = mx.where(is_wanted, ids, -1)
        top_logprobs = mx.where(is_wanted, best, mx.nan)
    return SampleResult(drawn.tokens[:, 0], logprob, top_tokens, top_logprobs)

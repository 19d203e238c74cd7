"""Slots, and batches of them: texts that are sampled together, each by its own options.

A batch turns the logits after its texts into tokens: penalise, cut, draw. A slot's token depends on
nothing but its own logits, text and seed: not on the batch, its order or its size. Rows that use
the same options are cut and drawn together, in groups.

Logits are of one position of each text, ``(B, V)``, or of R positions in a row, ``(B, R, V)``:
N = B or B · R rows. ``unseen`` ``(B, A)`` are tokens that the texts do not have yet, before and
between the positions, oldest first. Row i of R sees all of these but the last R - 1 - i.

Nothing waits for the device, except where top-p has more than 2,048 tokens before it (without
top-k, the vocabulary), as the host must see how many the nucleus takes, and after a transform of
your own, whose result is checked at once.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lablib.definitions import FastPath
from lablib.inference.sampling import random_numbers, transforms
from lablib.inference.sampling.options import PENALTIES, SamplerOptions
from lablib.models.kernels import exp

import mlx.core as mx
import numpy as np

_CANDIDATES = FastPath(
    *((transforms, name) for name in ("cut", "draw", *transforms.BUILT_IN) if name != "peak"),
    *((transforms.ORDER, name) for name in transforms.BUILT_IN),
)


class Slot:
    """A text, and how its tokens are sampled.

    Args:
        options: the options of its tokens.
        text: token ids; their owner appends. Each token that
            is appended takes one random number of the stream.
        stream: the number of one of the seed's streams of random numbers.
        num_ctx: how far back ``repeat_last_n = -1`` looks.

    Attributes:
        used: the options that can change a score, as numbers.
        key: the key of its random numbers.
        window: how many of the latest tokens the penalties see; 0 without penalties.
        processors: the text's ``TextProcessors``, if it is the decoder's.
    """

    processors: Any = None

    def __init__(self, options: SamplerOptions, text: list[int], stream: int, num_ctx: int) -> None:
        self.options = options
        self.text = text
        self.used = options.used
        self.key = random_numbers.key(random_numbers.fixed(options.seed), stream)
        window = options.repeat_last_n if options.repeat_last_n >= 0 else num_ctx
        self.window = window if options.penalizes else 0
        self._start = len(text)

    @property
    def position(self) -> int:
        """Count the tokens that the text got since the slot was made."""
        return len(self.text) - self._start


class Group(NamedTuple):
    """Rows of a batch that use the same options."""

    parameters: transforms.Parameters
    width: int  # the most tokens that greedy or top-k leaves in a row: V without


class Plan(NamedTuple):
    """The options of a batch's rows, read once for as long as they are the same."""

    groups: list[Group]
    ends: list[int]  # for ``mx.split``: where each group but the last ends
    order: mx.array  # (N,), the rows group after group
    back: mx.array  # (N,), where each row is in that order
    penalized: list[int]  # the rows that are penalised
    penalties: transforms.Parameters  # of these


class Batch:
    """Slots that are sampled together, in the order of the rows of logits."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = tuple(slots)
        self._keys = np.array([slot.key for slot in self.slots], np.uint64)
        self._penalized = [i for i, slot in enumerate(self.slots) if slot.window]
        self._plans: dict[tuple[int, int, tuple[str, ...]], Plan] = {}

    # Random numbers.

    def positions(self) -> np.ndarray:
        """Return the number of tokens that each text got, ``(B,)``."""
        return np.array([slot.position for slot in self.slots], np.int64)

    def uniforms(self, n: int, lane: int = 1) -> np.ndarray:
        """Return random numbers for the next ``n`` positions, other than those that ``draw`` takes.

        They are ``(B, n)`` float32 in [0, 1), a hash of the seed, stream, position and ``lane``,
        the number of an independent set from 1: the same until the texts grow.
        """
        positions = self.positions()[:, None] + np.arange(n)
        if len(self.slots) == 1:  # Python's ints are three times as fast
            key = random_numbers.key(self.slots[0].key, lane)
            return random_numbers.uniforms(np.array([[key]], np.uint64), positions)
        keys = random_numbers.key(self._keys, lane)
        return random_numbers.uniforms(keys[:, None], positions)

    def noise(self, ahead: int | range, vocab_size: int, lane: int = 0) -> mx.array:
        """Return an exponential number for each token ``(B, V)``, ``ahead`` tokens after the text.

        It is a hash of seed, stream and position, and none that ``draw`` or ``uniforms`` take;
        other lanes have other numbers. For one text ``ahead`` may be several: ``(R, V)``.
        """
        positions = self.positions() + ahead
        # The keys of uniforms are hashes of (key, lane), these of (key, lane, position).
        keys = random_numbers.key(self._keys, lane, positions.astype(np.uint64))
        return mx.array(random_numbers.exponentials(keys, vocab_size))

    # Logits to tokens.

    def draw(self, logits: mx.array, unseen: mx.array | None = None) -> tuple[mx.array, mx.array]:
        """Draw the tokens after the texts and the ``unseen`` tokens, unevaluated.

        Each row takes the random number of its own position.

        Returns:
            Tokens int32, and ``finite``: False where a row has NaN, +inf or only -inf, and its
            token means nothing. Both ``(B,)`` or ``(B, R)``.
        """
        shape = logits.shape[:-1]
        n_rows = shape[1] if len(shape) == 2 else 1
        n_unseen = count_unseen(unseen)
        plan, scores, peak = self._penalized_scores(logits, unseen)
        steps = np.arange(n_unseen + 1 - n_rows, n_unseen + 1)
        positions = self.positions()[:, None] + steps
        u = random_numbers.uniforms(np.repeat(self._keys, n_rows), positions.ravel())
        tokens = _by_group(plan, _draw, scores, peak, mx.array(u[:, None]))
        return tokens.reshape(shape), transforms.is_finite(peak).reshape(shape)

    def cut(self, logits: mx.array, unseen: mx.array | None = None) -> tuple[mx.array, mx.array]:
        """Return the scores after all transforms: ``draw`` draws from their softmax.

        Returns:
            float32 of the shape of ``logits``, relative to the best; and ``finite`` as from
            ``draw``.
        """
        plan, scores, peak = self._penalized_scores(logits, unseen)
        left = _by_group(plan, _cut, scores, peak)
        return left.reshape(logits.shape), transforms.is_finite(peak).reshape(logits.shape[:-1])

    def _penalized_scores(
        self, logits: mx.array, unseen: mx.array | None
    ) -> tuple[Plan, mx.array, mx.array]:
        """Return the plan, penalised scores float32 ``(N, V)``, and the best of each row."""
        n_rows = logits.shape[1] if logits.ndim == 3 else 1
        plan = self._plan(n_rows, logits.shape[-1])
        scores = logits.astype(mx.float32)
        if logits.ndim == 3:
            scores = scores.reshape(-1, logits.shape[-1])
        if plan.penalized:
            scores = self._penalize(plan, scores, unseen, n_rows)
        return plan, scores, mx.max(scores, axis=-1, keepdims=True)

    def _plan(self, n_rows: int, vocab_size: int) -> Plan:
        """Read the options of ``n_rows`` positions of each text."""
        key = n_rows, vocab_size, tuple(transforms.ORDER)
        if key not in self._plans:
            kinds: dict[tuple[str, ...], list[int]] = {} if self.slots else {(): []}
            for i, slot in enumerate(self.slots):
                kind = tuple(name for name in transforms.ORDER if name in slot.used)
                kinds.setdefault(kind, []).append(i)
            rows = [_rows_of(slots, n_rows) for slots in kinds.values()]
            order = np.array([row for group in rows for row in group], np.int64)
            self._plans[key] = Plan(
                [self._group(*kind, n_rows, vocab_size) for kind in kinds.items()],
                np.cumsum([len(group) for group in rows])[:-1].tolist(),
                mx.array(order),
                mx.array(np.argsort(order)),
                _rows_of(self._penalized, n_rows),
                self._parameters(PENALTIES, self._penalized, n_rows),
            )
        return self._plans[key]

    def _group(
        self, kind: tuple[str, ...], slots: list[int], n_rows: int, vocab_size: int
    ) -> Group:
        used = [self.slots[i].used for i in slots]
        left = [1 if "greedy" in each else each.get("top_k", vocab_size) for each in used]
        width = min(max(left, default=vocab_size), vocab_size)
        return Group(self._parameters(kind, slots, n_rows), int(width))

    def _parameters(
        self, names: Sequence[str], slots: list[int], n_rows: int
    ) -> transforms.Parameters:
        """Return options of slots: a number where all agree, otherwise an array ``(rows, 1)``."""
        parameters: transforms.Parameters = {}
        for name in names:
            neutral: Any = getattr(SamplerOptions, name, None)
            values = [self.slots[i].used.get(name, neutral) for i in slots]
            if any(value != values[0] for value in values):
                column = np.repeat(np.array(values, np.float32), n_rows)
                parameters[name] = mx.array(column[:, None])
            elif values and values[0] != neutral:
                parameters[name] = values[0]
        return parameters

    # Penalties.

    def _penalize(
        self, plan: Plan, scores: mx.array, unseen: mx.array | None, n_rows: int
    ) -> mx.array:
        """Return scores ``(N, V)`` in which the slots are penalised for their latest tokens."""
        tokens, is_real = self._windows(unseen, n_rows, scores.shape[-1])
        if not tokens.shape[1]:
            return scores
        if len(plan.penalized) == len(scores):
            return transforms.penalize(scores, tokens, plan.penalties, is_real)
        rows = mx.array(plan.penalized)
        new = transforms.penalize(scores[rows], tokens, plan.penalties, is_real)
        scores = mx.array(scores)
        scores[rows] = new
        return scores

    def _windows(
        self, unseen: mx.array | None, n_rows: int, vocab_size: int
    ) -> tuple[mx.array, mx.array | None]:
        """Return the tokens that the penalties see, of each penalised row ``(P * R, W)``.

        And which of these are real (None: all): shorter windows are padded on the left.
        """
        slots = [self.slots[i] for i in self._penalized]
        latest = [slot.text[-slot.window :] for slot in slots]
        width = max(map(len, latest))
        padded = [[0] * (width - len(tokens)) + tokens for tokens in latest]
        lengths = np.array([[len(tokens)] for tokens in latest])
        is_real = np.arange(width) >= width - lengths
        tokens = mx.array(np.array(padded, np.int32))
        n_unseen = count_unseen(unseen)
        if unseen is not None and n_unseen:
            # An id beyond V is flagged elsewhere, but must not write beyond the array here.
            drawn = mx.clip(unseen, 0, vocab_size - 1).astype(mx.int32)
            tokens = mx.concatenate([tokens, drawn[mx.array(self._penalized)]], axis=1)
            tokens = mx.repeat(tokens, n_rows, axis=0)
            is_real = np.pad(is_real, ((0, 0), (0, n_unseen)), constant_values=True)
            later = np.arange(n_rows)[::-1, None]  # how many tokens come after each position
            ages = np.arange(width + n_unseen)[::-1] - later  # (R, W); 0 is the newest
            windows = np.array([slot.window for slot in slots])[:, None, None]
            is_real = is_real[:, None] & (ages >= 0) & (ages < windows)
            is_real = is_real.reshape(tokens.shape)
        return tokens, None if is_real.all() else mx.array(is_real)


def _rows_of(slots: list[int], n_rows: int) -> list[int]:
    """Return the rows of slots, of ``n_rows`` each."""
    return [i * n_rows + row for i in slots for row in range(n_rows)]


def count_unseen(unseen: mx.array | None) -> int:
    """Return how many tokens ``(B, A)`` each text does not have yet; 0 for None."""
    return 0 if unseen is None else unseen.shape[1]


# --- groups ---


def _by_group(plan: Plan, function: Callable[..., mx.array], *columns: mx.array) -> mx.array:
    """Call ``function`` for each group with its rows of the columns."""
    if len(plan.groups) == 1:
        return function(plan.groups[0], *columns)
    divided = []
    for column in columns:
        in_order = mx.take(column, plan.order, axis=0)
        divided.append(mx.split(in_order, plan.ends))
    parts = [function(*part) for part in zip(plan.groups, *divided, strict=True)]
    return mx.take(mx.concatenate(parts), plan.back, axis=0)


def _draw(group: Group, scores: mx.array, peak: mx.array, u: mx.array) -> mx.array:
    """Draw a token from each row: ``(n, 1)`` int32."""
    if not len(scores):  # a ``Sampler`` may be asked for nothing
        return mx.zeros((0, 1), mx.int32)
    ids, left = _left(group, scores, peak)
    index = transforms.draw(exp(left), u)
    return index if ids is None else transforms.gather(ids, index)


def _cut(group: Group, scores: mx.array, peak: mx.array) -> mx.array:
    """Cut each row: ``(n, V)``, relative to the best."""
    ids, left = _left(group, scores, peak)
    return left if ids is None else transforms.keep(scores, left, ids)


def _left(group: Group, scores: mx.array, peak: mx.array) -> tuple[mx.array | None, mx.array]:
    """Return the ids of the tokens that were looked at, None for all, and their scores, cut."""
    ids = _candidates(group, scores)
    among = scores if ids is None else transforms.gather(scores, ids)
    return ids, transforms.cut(among, group.parameters, peak)


def _candidates(group: Group, scores: mx.array) -> mx.array | None:
    """Return the ids ``(n, K)`` of the tokens that top-k can leave, in order; None: all tokens.

    A fast path: the transforms, and the draw, give the same among these as among all tokens. It is
    closed where a transform is replaced or moved, and where the group uses one that was added.
    """
    if group.width == scores.shape[-1] or not _CANDIDATES.is_open():
        return None
    used = {*transforms.BUILT_IN, *group.parameters}
    names = [name for name in transforms.ORDER if name in used]
    if names != [*transforms.BUILT_IN]:
        return None
    return transforms.best_by_id(scores, group.width)

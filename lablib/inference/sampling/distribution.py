"""Distributions over tokens, as speculation needs them: look up, subtract, draw."""

from dataclasses import dataclass

from lablib.inference.sampling import transforms
from lablib.validation import BadType, BadValue, integer

import mlx.core as mx


@dataclass(frozen=True)
class Distribution:
    """One distribution for each row of a batch, over the vocabulary or over a support.

    Make one with ``dense``, ``sparse`` or ``top``. Leading shapes ``(...)`` of two distributions
    that meet are broadcast.

    Attributes:
        probs: float32 ``(..., V)``, or ``(..., K)`` for the tokens ``ids``; rows sum to 1.
        ids: int32 ``(..., K)``, no id twice in a row; None if every token has its place.
        vocab_size: V.
    """

    probs: mx.array
    ids: mx.array | None
    vocab_size: int

    @classmethod
    def dense(cls, scores: mx.array) -> "Distribution":
        """From log-probabilities or logits ``(..., V)``, -inf where a token is impossible."""
        scores = _floating("scores", scores)
        return cls(mx.softmax(scores, axis=-1), None, scores.shape[-1])

    @classmethod
    def sparse(cls, ids: mx.array, weights: mx.array, vocab_size: int) -> "Distribution":
        """From the tokens of a support and their weights, both ``(..., K)``.

        Weights need not sum to 1. The ids of a row must differ; that is not checked.
        """
        weights = _floating("weights", weights)
        if ids.shape != weights.shape:
            raise BadValue(f"ids must have the shape of weights {weights.shape}, got {ids.shape}")
        if not mx.issubdtype(ids.dtype, mx.integer):
            raise BadType(f"ids must be integers, got {ids.dtype}")
        total = mx.sum(weights, axis=-1, keepdims=True)
        return cls(weights / total, ids.astype(mx.int32), integer("vocab_size", vocab_size, 1))

    @classmethod
    def top(cls, scores: mx.array, k: int) -> "Distribution":
        """The ``k`` likeliest tokens of ``(..., V)`` log-probabilities or logits, best first."""
        scores = _floating("scores", scores)
        k = min(integer("k", k, 1), scores.shape[-1])
        values, ids = transforms.best(scores, k)
        return cls(mx.softmax(values, axis=-1), ids, scores.shape[-1])

    def prob(self, tokens: mx.array) -> mx.array:
        """The probabilities of one token a row ``(...)``, or of some ``(..., M)``."""
        one = tokens.ndim < self.probs.ndim
        probs = self._at(tokens[..., None] if one else tokens)
        return probs[..., 0] if one else probs

    def residual(self, other: "Distribution") -> "Distribution":
        """What ``other`` leaves uncovered: ``max(p - q, 0)``, normalised.

        The distribution to draw from after a rejection (Leviathan et al. 2023, arXiv 2211.17192).
        Where nothing is left, p = q and no draft is ever rejected; such a row is p itself. A sparse
        p has a sparse residual.
        """
        if other.vocab_size != self.vocab_size:
            raise BadValue(
                f"other must be over the same vocabulary of {self.vocab_size} tokens, got "
                f"{other.vocab_size}"
            )
        covered = other.to_dense() if self.ids is None else other._at(self.ids)
        rest = mx.maximum(self.probs - covered, 0.0)
        total = mx.sum(rest, axis=-1, keepdims=True)
        some = total > 0
        probs = mx.where(some, rest / mx.where(some, total, 1.0), self.probs)
        ids = None if self.ids is None else mx.broadcast_to(self.ids, probs.shape)
        return Distribution(probs, ids, self.vocab_size)

    def sample(self, u: mx.array) -> mx.array:
        """Draw a token from each row.

        Args:
            u: ``(...)``, a number in [0, 1) for each row, for instance ``Sampler.uniforms``.

        Returns:
            int32 ``(...)``: the first token whose cumulative probability exceeds ``u`` of the
            total; never one of probability 0.
        """
        sums = mx.where(self.probs > 0, mx.cumsum(self.probs, axis=-1), 0.0)
        total = mx.max(sums, axis=-1, keepdims=True)
        place = mx.argmax(sums > u[..., None] * total, axis=-1).astype(mx.int32)
        if self.ids is None:
            return place
        return mx.take_along_axis(self.ids, place[..., None], axis=-1)[..., 0]

    def to_dense(self) -> mx.array:
        """Probabilities of every token, ``(..., V)``."""
        if self.ids is None:
            return self.probs
        empty = mx.zeros((*self.probs.shape[:-1], self.vocab_size))
        return mx.put_along_axis(empty, self.ids, self.probs, axis=-1)

    def _at(self, tokens: mx.array) -> mx.array:
        """The probabilities of the tokens ``(..., M)`` of each row."""
        if self.ids is None:
            shape = (*_leading(self.probs, tokens), self.vocab_size)
            return mx.take_along_axis(mx.broadcast_to(self.probs, shape), tokens, axis=-1)
        same = tokens[..., :, None] == self.ids[..., None, :]
        return mx.sum(mx.where(same, self.probs[..., None, :], 0.0), axis=-1)


def _leading(a: mx.array, b: mx.array) -> tuple[int, ...]:
    return mx.broadcast_shapes(a.shape[:-1], b.shape[:-1])


def _floating(name: str, array: mx.array) -> mx.array:
    if not mx.issubdtype(array.dtype, mx.floating) or array.ndim < 1 or array.shape[-1] < 1:
        raise BadType(
            f"{name} must be floating point of shape (..., V), got {array.dtype} "
            f"{tuple(array.shape)}"
        )
    return array.astype(mx.float32)

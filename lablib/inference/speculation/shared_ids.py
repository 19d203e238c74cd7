"""A draft model whose ids are the target's, but for the rows that pad one of the two tables.

Tables of ids are padded to round sizes, and models of one family to different ones: Qwen2.5 has
151,936 rows at 0.5B and 152,064 at 7B, for the same tokenizer. An id that the other model lacks has
probability 0 there, which every rule takes: the text is distributed as the target's alone.
"""

import warnings
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from lablib.models.interface import vocab_size_of
from lablib.validation import BadValue

import mlx.core as mx

_MOST = 1024  # rows of padding that are taken for such where no tokenizer tells
_SHARE = 50  # and no more than the 50th part of the table
_AGREE: WeakKeyDictionary[Any, WeakSet[Any]] = WeakKeyDictionary()  # tokenizers, each with others


class Fitted:
    """A model with the rows of another: what it lacks has probability 0, what it has beyond goes.

    An id that it lacks is read as its last one, which makes a worse guess and no wrong text.
    """

    def __init__(self, model: Any, vocab_size: int) -> None:
        self._model, self.vocab_size = model, vocab_size
        self._rows = vocab_size_of(model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        """Return the model's logits ``(B, T, vocab_size)``."""
        logits = self._model(mx.minimum(tokens, self._rows - 1), cache=cache)
        lacking = self.vocab_size - self._rows
        if lacking <= 0:
            return logits[..., : self.vocab_size]
        shape = (*logits.shape[:-1], lacking)
        return mx.concatenate([logits, mx.full(shape, -mx.inf, logits.dtype)], axis=-1)


def fitted(draft: Any, target: Any, name: str = "draft_model") -> Any:
    """Return a draft model with as many ids as the target; messages call it ``name``.

    Models from ``lablib.load`` know their tokenizers, which must agree about every id that both
    have. Of others the tables may differ by as much as padding does, with a warning.

    Raises:
        BadValue: it is no model, or its ids are others.
    """
    size, wanted = vocab_size_of(draft, name), vocab_size_of(target)
    ours, theirs = (getattr(model, "tokenizer", None) for model in (draft, target))
    compared = all(callable(getattr(each, "get_vocab", None)) for each in (ours, theirs))
    if compared:
        _check_agreement(ours, theirs, name)
    if size == wanted:
        return draft
    shared = f"{name} must share the target's vocabulary of {wanted}, got {size} ids"
    if not compared:
        if abs(size - wanted) > min(_MOST, min(size, wanted) // _SHARE):
            raise BadValue(f"{shared}, and no tokenizers to compare: lablib.load gives a model its")
        warnings.warn(
            f"{name} has {size} ids and the target {wanted}: taken for the same, but for padding. "
            "Models from lablib.load know their tokenizers, and these are compared.",
            stacklevel=2,
        )
    return Fitted(draft, wanted)


def _check_agreement(ours: Any, theirs: Any, name: str) -> None:
    """Refuse tokenizers that have different tokens for an id; a pair is looked at once."""
    agree = _AGREE.setdefault(ours, WeakSet())
    if ours is theirs or theirs in agree:
        return
    here, there = ({i: token for token, i in each.get_vocab().items()} for each in (ours, theirs))
    other = [i for i in here.keys() & there.keys() if here[i] != there[i]]
    if other:
        first = min(other)
        raise BadValue(
            f"{name} must share the target's tokens, and {len(other)} differ: "
            f"id {first} is {there[first]!r} there and {here[first]!r} here"
        )
    agree.add(theirs)

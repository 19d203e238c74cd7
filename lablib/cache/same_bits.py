"""Defines ``same_bits``: a text's numbers don't depend on how it is read, to the last bit.

Of a text that is read token by token, in pieces, behind padding or beside others the exact numbers
are the same, but floats round, and how hangs on the order of each sum. Three things make it one:

    products, sums      ``machine/one_order.py``: from the first number to the last.
    attention           in the order of time. The keys that a token doesn't see have the weight 0.
                        Our models take one form of it for any number of tokens; mlx-lm's rings hand
                        out what they hold in order of time, here.
    a shared beginning  is read by each row, not once for all.

A model may add in its own way (a recurrent state does): so each is tried out, and refused if its
bits differ.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lablib.cache import kv
from lablib.machine import one_order
from lablib.models.interface import find_out, vocab_size_of
from lablib.validation import BadValue

import mlx.core as mx
from mlx_lm.models.cache import BatchRotatingKVCache, RotatingKVCache

_AT_ONCE = 18  # tokens, and rows: more than few_rows.c takes otherwise, and than ``attention`` does
_WRITTEN = {
    (ring, name): vars(ring)[name]
    for ring in (RotatingKVCache, BatchRotatingKVCache)
    for name in ("update_and_fetch", "make_mask")
}


@contextmanager
def same_bits() -> Iterator[None]:
    """Give each text the same logits, to the last bit, however it is read, inside the block.

    Alone or among others, a token or any piece at a time, in rows of one length or of several, with
    drafts or without. So a greedy text is the same one in every batch, and with drafts. It takes
    its time: a tenth more with 64 rows, half as much again where a prompt is read, and nearly twice
    as long with one row. Without it the same holds on Linux for fewer than 16 tokens at once, of
    rows of one length, until a sliding window is full; more are added up in another order.

    It holds on one machine with one BLAS kernel, for what is *computed* inside the block: evaluate
    there. All threads compute so meanwhile, and blocks may be in one another. The doors of the
    library try out a model first; ``same_bits`` can't see one that you call yourself.

    Returns:
        A context manager.

    Raises:
        RuntimeError: it can't be promised here, on a GPU, say, or without ``few_rows.c``.
        BadValue: inside, of a model whose bits differ nevertheless.

    Example:
        >>> texts = [[1, 5, 9], [1, 7]]
        >>> with lablib.same_bits():
        ...     alone = [lablib.sample_n(model, text, 1, seed=0, max_tokens=4) for text in texts]
        >>> len(alone)
        2
    """
    if one_order.begin():
        _let_rings(in_time=True)
    try:
        yield
    finally:
        if one_order.end():
            _let_rings(in_time=False)


def check_model(name: str, model: Any) -> None:
    """Refuse a model, called ``name``, that keeps no bits, where they are to be kept."""
    if one_order.is_on() and not find_out(model, "same bits", lambda: _keeps_bits(model)):
        kinds = {type(layer).__name__ for layer in kv.leaves(kv.make(model))}
        what = f"its layers ({', '.join(sorted(kinds))}) add up in an order of their own"
        raise BadValue(f"{name} must read texts with the same bits inside same_bits(): {what}")


def _keeps_bits(model: Any) -> bool:
    """Return whether tokens read singly, after a piece and beside others get the same logits."""
    ids = (mx.arange(_AT_ONCE + 2) * 7 + 1) % vocab_size_of(model)
    whole = model(ids[None], cache=kv.make(model))[0]
    cache = kv.make(model)
    piece = model(ids[None, :_AT_ONCE], cache=cache)[0]
    rows = kv.expand(cache, _AT_ONCE)
    single = model(ids[None, _AT_ONCE:-1], cache=cache)[0]
    beside = model(mx.tile(ids[None, _AT_ONCE:-1], (_AT_ONCE, 1)), cache=rows)
    singly = mx.concatenate([piece, single, model(ids[None, -1:], cache=cache)[0]])
    same = mx.array_equal(singly, whole) & mx.array_equal(beside[-1], single)
    return bool(same & mx.all(mx.isfinite(whole)))


# --- rings in order of time --------------------------------------------------------------------
def _let_rings(in_time: bool) -> None:
    """Have mlx-lm's rings hand out all in order of time, or as they hold it."""
    for (ring, name), written in _WRITTEN.items():
        setattr(ring, name, _IN_TIME[name] if in_time else written)


def _written(ring: Any, name: str) -> Any:
    """Return the method of mlx-lm's class of a ring, which may be of a class made from that."""
    batched = isinstance(ring, BatchRotatingKVCache)
    return _WRITTEN[BatchRotatingKVCache if batched else RotatingKVCache, name]


def _fetch(ring: Any, keys: mx.array, values: mx.array) -> tuple[mx.array, ...]:
    pair = _written(ring, "update_and_fetch")(ring, keys, values)
    if keys.shape[2] > 1:
        return pair
    if isinstance(ring, BatchRotatingKVCache):
        *_, end, rotated = ring.state
        return tuple(mx.roll(each, -end, 2) for each in pair) if rotated else pair
    _, _, _, first, _, end = ring.state
    width = pair[0].shape[2]
    if end == width:
        return pair
    order = mx.array([*range(first), *range(end, width), *range(first, end)])
    return tuple(each[..., order, :] for each in pair)


def _mask(ring: Any, length: int, *how: Any, **named: Any) -> mx.array | str | None:
    mask = _written(ring, "make_mask")(ring, length, *how, **named)
    if length > 1 or not isinstance(mask, mx.array):
        return mask
    end = ring.state[-2 if isinstance(ring, BatchRotatingKVCache) else -1]
    if isinstance(ring, BatchRotatingKVCache) and not (ring.state[-1] or end >= ring.max_size):
        return mask
    return mx.roll(mask, -(1 + (end if end < ring.max_size else 0)), -1)


_IN_TIME = {"update_and_fetch": _fetch, "make_mask": _mask}

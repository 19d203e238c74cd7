"""Counter-based random numbers: a number is a hash of (seed, stream, position), not a state.

Nothing is carried from one draw to the next. So a row's numbers do not depend on the rows drawn
beside it, the number of any position can be had ahead of time or again, and rewinding costs
nothing. The hash is SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
generators"): a counter times an odd constant, mixed. It takes a microsecond on the host, where a
key for each row and a generator on the device take a hundred; one number a token is all we need.
"""

import secrets
from typing import Any

from lablib.inference.sampling.sums import SMALL

import numpy as np

_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def fixed(seed: int | None) -> int:
    """Return a seed as it is; None, or a negative one, stands for a fresh one."""
    return secrets.randbits(64) if seed is None or seed < 0 else seed


def key(seed: Any, *path: int | np.ndarray) -> Any:
    """Return the key of one stream of random numbers, 64 bits.

    Args:
        seed: any int; or an array of uint64, for as many keys.
        path: numbers that tell this stream from the others of the seed. Each is hashed, not added:
            stream 1 of seed 0 has nothing in common with stream 0 of seed 1.
    """
    state = 0
    for word in (seed, seed >> 64, *path):
        state = _mix(state ^ (word & _WORD))
        state = _mix(state + _STEP & _WORD)
    return state


def uniforms(keys: np.ndarray, positions: np.ndarray, size: int = 1) -> np.ndarray:
    """Return numbers ``(...)`` in [0, 1), multiples of 2^-24: what float32 can hold exactly.

    ``positions`` are int64 ``(...)``, from 0, and ``keys`` uint64 of a shape that fits theirs. For
    a draw from more than 2,048 tokens, the ``size``, they are all ``bits`` of the same numbers.
    """
    if size > SMALL:
        return bits(keys, positions)
    if positions.size == 1:  # a single number is common, and Python's ints are five times as fast
        counter = (positions.item() + 1) * _STEP
        mixed = _mix(keys.item() + counter & _WORD) >> 40
        return np.full(positions.shape, mixed * 2.0**-24, np.float32)
    return (bits(keys, positions) >> 40).astype(np.float32) * np.float32(2.0**-24)


def bits(keys: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return 64 random bits each, uint64: ``uniforms`` are the first 24 of them."""
    counters = (positions + 1).astype(np.uint64) * _STEP
    mixed: np.ndarray = _mix(keys + counters)
    return mixed


def exponentials(keys: np.ndarray, n: int) -> np.ndarray:
    """Return ``n`` numbers of rate 1 for each key: float32 ``(len(keys), n)``, none of them 0."""
    counters = np.arange(1, n + 1, dtype=np.uint64) * _STEP
    mixed = _mix(keys[:, None] + counters) >> 12
    uniform = (mixed + 0.5) * 2.0**-52
    return -np.log(uniform).astype(np.float32)  # small ones keep their digits


def _mix(z: Any) -> Any:
    """Mix the bits of an int below 2^64, or of an array of uint64: SplitMix64's finaliser."""
    z = z ^ (z >> 30)
    z = z * _FIRST & _WORD
    z = z ^ (z >> 27)
    z = z * _SECOND & _WORD
    return z ^ (z >> 31)

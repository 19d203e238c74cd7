"""Puts the weights of a large model on large pages, on Linux.

The processor looks up where each page of memory lies, and remembers some 2,000 of them. A step of a
model reads all weights, 540 MB say: 130,000 pages of 4 KB, or 260 of 2 MB. Linux moves memory to
large pages where it is asked to (``MADV_COLLAPSE``, Linux 6.1; nothing happens on an older one or
where it has none left). The numbers stay where they were, as far as any program can tell.
"""

import ctypes
import sys
from collections.abc import Iterable

import mlx.core as mx
import numpy as np

_LARGE = 2**21  # bytes of a large page on x86-64, and on most of aarch64
_LEAST = 2**25  # bytes of a model; the pages of a smaller one are nearly all remembered
_TYPES = mx.float32, mx.uint16, mx.float16
_COLLAPSE = 25  # MADV_COLLAPSE, which Python has no name for


def enlarge(arrays: Iterable[mx.array]) -> int:
    """Ask for large pages under evaluated weights, on a CPU; elsewhere do nothing.

    That is, under float32 arrays, and packed ones (uint16) with their scales (float16).

    It takes about 0.3 s for each 100 MB, once.

    Returns:
        The number of large pages there are now.
    """
    if sys.platform != "linux" or mx.default_device() == mx.gpu:
        return 0
    views = [np.asarray(array) for array in arrays if array.dtype in _TYPES and array.size]
    if sum(view.nbytes for view in views) < _LEAST:
        return 0
    pages: set[int] = set()
    for view in views:  # memory between two weights is seldom another's, and not harmed if it is
        start = view.ctypes.data
        last = start + view.nbytes - 1
        pages.update(range(start // _LARGE, last // _LARGE + 1))
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return sum(advise(page * _LARGE, _LARGE, _COLLAPSE) == 0 for page in pages)


def give_back() -> None:
    """Return freed memory to the system, on Linux: what packing leaves lies between what stays."""
    mx.clear_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:  # glibc's
        trim(0)

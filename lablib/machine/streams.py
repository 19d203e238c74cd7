"""Has MLX put its streams away where a thread ends.

A thread that computes gets streams of its own from MLX, with a thread of MLX's for each. They live
until the process ends, and in what MLX clears up then they race: after right answers some processes
abort, by *terminate called without an active exception*. MLX's advice is ``mx.clear_streams()`` as
the last thing that a thread does.
"""

import threading

import mlx.core as mx

_clear = getattr(mx, "clear_streams", lambda: None)  # an older MLX has none


class _Last:
    """Clears the streams of the thread that drops it."""

    def __del__(self) -> None:
        _clear()


class _Each(threading.local):
    """Is made anew where a thread looks at it first, and dropped by that thread when it ends."""

    def __init__(self) -> None:
        if threading.get_ident() != threading.main_thread().ident:
            self.last = _Last()


_each = _Each()


def clear_with_thread() -> None:
    """Have this thread clear MLX's streams when it ends, once; in the main thread do nothing.

    Arrays that were computed there stay. A thread that the process leaves running at its end, one
    of a server's, say, does not end.
    """
    _ = _each.__dict__

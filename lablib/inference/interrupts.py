"""Keep a keyboard interrupt from landing in the middle of a step."""

# The C functions behind the `signal` module: its enum conversions cost 20 us a call in Python 3.11,
# and a step calls them for every token.
import _signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Let Ctrl-C (or a notebook's stop button) wait until the block has finished.

    A forward moves one layer's cache after the other, so an interrupt inside it would leave them at
    different positions. The block should be short: one step, not a whole generation. Only Python's
    main thread is ever interrupted; elsewhere this does nothing.
    """
    handler = _signal.getsignal(_signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    held = []
    _signal.signal(_signal.SIGINT, lambda *arguments: held.append(arguments))
    try:
        yield
    finally:
        _signal.signal(_signal.SIGINT, handler)
        if held:
            handler(*held[-1])

"""The progress of a cell that takes long.

``for text in watch(texts):`` is that loop, with a bar below the cell that goes when the loop ends:
nothing of it is saved with the notebook.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from IPython import get_ipython
from IPython.display import DisplayHandle, display

_PATIENCE = 0.5  # seconds before a bar appears
_handles: dict[int, DisplayHandle] = {}  # one bar a cell, by the number of its run


def watch(items: Sequence[Any]) -> Iterator[Any]:
    """Yield the items, and show below the cell how many of them have been dealt with."""
    begun, shown = time.monotonic(), False
    try:
        for done, item in enumerate(items):
            if time.monotonic() - begun > _PATIENCE and get_ipython() is not None:
                shown = True
                of = f"{done} of {len(items)}"
                bar = f'<progress max="{len(items)}" value="{done}" aria-label="{of}"></progress>'
                _show({"text/html": f"{bar} {of}", "text/plain": of})
            yield item
    finally:
        if shown:
            _show({})


def _show(data: dict[str, str]) -> None:
    number = get_ipython().execution_count
    if number not in _handles:  # it begins empty: what compares outputs sees the first alone
        _handles.clear()
        _handles[number] = display({}, raw=True, display_id=True)
    _handles[number].update(data, raw=True)

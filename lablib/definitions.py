"""The switch between what the lessons teach and what is only faster.

A lesson's function is the definition. A faster path beside it gives the same result, and says here
which definitions it stands for. It is taken only while all of them are as they were written: one
that somebody has replaced runs in its place. ``with by_definition():`` closes every fast path.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_open_blocks = 0  # how many ``by_definition`` blocks this process is in


@contextmanager
def by_definition() -> Iterator[None]:
    """Run the definitions that the lessons teach, and no faster path, inside the block."""
    global _open_blocks
    _open_blocks += 1
    try:
        yield
    finally:
        _open_blocks -= 1


class FastPath:
    """A faster way to the same result as some definitions.

    Args:
        definitions: what it stands for, as pairs of an owner (a module, a class or a dict) and a
            name in it.
    """

    def __init__(self, *definitions: tuple[Any, str]) -> None:
        self._taught = [(owner, name, _current(owner, name)) for owner, name in definitions]

    def is_open(self) -> bool:
        """Return whether the fast path may be taken now."""
        if _open_blocks:
            return False
        return all(_current(owner, name) is taught for owner, name, taught in self._taught)


def _current(owner: Any, name: str) -> Any:
    return owner[name] if isinstance(owner, dict) else getattr(owner, name)

"""The switch between what the lessons teach and what is only faster.

A lesson's function is the definition. A faster path beside it gives the same result, and says here
which definitions it stands for. It is taken only while all of them are as they were written: one
that somebody has replaced runs in its place. ``with by_definition():`` closes every fast path.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

by_definition_blocks = 0  # how many this process is in; above 0 no fast path may be taken


@contextmanager
def by_definition() -> Iterator[None]:
    """Run the definitions that the lessons teach, and no faster path, inside the block.

    Returns:
        A context manager.

    Raises:
        Nothing of its own.

    Example:
        >>> with lablib.by_definition():
        ...     slow = lablib.generate(model, tokenizer, "Mia", max_tokens=4, temperature=0.0)
        >>> slow == lablib.generate(model, tokenizer, "Mia", max_tokens=4, temperature=0.0)
        True
    """
    global by_definition_blocks
    by_definition_blocks += 1
    try:
        yield
    finally:
        by_definition_blocks -= 1


class FastPath:
    """A faster way to the same result as some definitions.

    Args:
        definitions: what it stands for, as pairs of an owner (a module, a class or a dict) and a
            name in it.
    """

    def __init__(self, *definitions: tuple[Any, str]) -> None:
        tables = [owner if isinstance(owner, dict) else vars(owner) for owner, _ in definitions]
        names = [name for _, name in definitions]
        self._taught = [
            (table, name, table[name]) for table, name in zip(tables, names, strict=True)
        ]

    def is_open(self) -> bool:
        """Return whether the fast path may be taken now."""
        if by_definition_blocks:
            return False
        for table, name, taught in self._taught:  # noqa: SIM110 (this is asked for each token)
            if table[name] is not taught:
                return False
        return True


def in_use(table: dict[str, Any], name: str, taught: dict[str, Any], module: dict[str, Any]) -> Any:
    """Return the function that runs: that of ``table``, or the one that replaced it.

    ``taught`` are the table's functions as they were written. One of these that was replaced in its
    ``module``, whose names are given, runs from there.
    """
    function = table[name]
    written: Any = taught.get(name)
    if function is not written:
        return function
    return module.get(written.__name__, function)

"""Says of MLX's arrays what its own type hints leave open.

They say that ``tolist`` returns a number, or lists of any depth, and ``tree_flatten`` pairs or a
dict. Who calls them knows which, and says so where the result gets its name::

    tokens: list[list[int]] = listed(drawn.tokens)  # (B, R)
"""

from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten


def listed(array: mx.array) -> Any:
    """Return the numbers of an array as lists, as deep as it has axes."""
    return array.tolist()


def flattened(tree: Any) -> list[tuple[str, Any]]:
    """Return the leaves of a tree of lists and dicts, each with the path to it."""
    pairs: Any = tree_flatten(tree)
    return pairs

"""The switch between what the lessons teach and what is only faster.

A lesson's function is the definition. A faster path beside it gives the same result, and says here
which definitions it stands for. It is taken only while all of them are as they were written: one
that somebody has replaced runs in its place. ``with by_definition():`` closes every fast path.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_RULES = "lablib.inference.speculation.rules"
_TRANSFORMS = "lablib.inference.sampling.transforms"

# All fast paths: the functions that each stands for, by their module. One that saved less than a
# tenth of a whole call would go; behind each is what it saves where the model costs nothing, with
# 512 and with 262,144 tokens (processor time, medians, mlx 0.32.4), or of the shipped target.
FAST_PATHS = {
    "best logit": {_TRANSFORMS: "ORDER.greedy greedy cut draw"},  # 36 %, 13 %
    "candidates": {  # top-k: 12 %, 25 %; with top-p after it: 44 %
        _TRANSFORMS: "cut draw greedy top_k temperature top_p min_p ORDER.greedy ORDER.top_k "
        "ORDER.peak ORDER.temperature ORDER.top_p ORDER.min_p"
    },
    **{  # 16 %, 34 %
        f"own tokens under {rule}": {
            _RULES: f"{rule} RULE.{rule}",
            "lablib.inference.speculation.judge": "draw_outcome",
        }
        for rule in ("match", "coupled", "rejection", "block")
    },
    **{  # of trees, at temperature 0
        f"own tokens under tree_{rule}": {
            "lablib.inference.speculation.tree_rules": f"tree_{rule} TREE_RULE.{rule}"
        }
        for rule in ("rejection", "block", "optimal")
    },
    "compiled rules": {  # 11 to 20 %, 1 %
        _RULES: "rejection block RULE.rejection RULE.block",
        _TRANSFORMS: "draw",
        "lablib.inference.speculation.judge": "draw_outcome",
    },
    "short forward": {  # 10 % of the target's tokens
        "lablib.models.base": "Attention.__call__ MLP.__call__ RMSNorm.__call__",
        "lablib.models.kernels": "Rotation.__call__ rms_norm split_heads join_heads turned swiglu",
        "mlx.nn": "Linear.__call__",
    },
    "coupling's table": {"lablib.models.draft_block": "DraftBlock.coupling"},
    "stored weights": {"lablib.models.stored": "dequantised"},  # 90 % of SmolLM2's tokens
    "stored block": {  # a third of SmolLM2's tokens
        "lablib.models.base": "Attention.__call__ Attention.read MLP.__call__ RMSNorm.__call__",
        "lablib.models.kernels": "Rotation.__call__ rms_norm split_heads join_heads turned swiglu "
        "attention",
        "lablib.models.stored": "dequantised StoredLinear.__call__ Stored.product",
    },
}

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


_WRITTEN: dict[tuple[str, str], tuple[Any, str, Any]] = {}  # place -> table, name, function


def remember(module: str) -> None:
    """Remember a module's functions as they are written; it says so at its end.

    Whoever replaces one afterwards may do so before a fast path is made, elsewhere.
    """
    for places in FAST_PATHS.values():
        for place in places.get(module, "").split():
            *path, last = place.split(".")
            owner: Any = sys.modules[module]
            for each in path:
                owner = getattr(owner, each)
            table = owner if isinstance(owner, dict) else vars(owner)
            _WRITTEN[module, place] = table, last, table[last]


class FastPath:
    """A faster way to the same result as some definitions, by its ``name`` in ``FAST_PATHS``."""

    def __init__(self, name: str) -> None:
        places = FAST_PATHS[name].items()
        self._taught = [_WRITTEN[module, each] for module, own in places for each in own.split()]

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

"""Estimate the success of fewer samples from those that are drawn."""

import math

from lablib.unknown_options import checks_options
from lablib.validation import integer


@checks_options
def pass_at_k(n: int, c: int, k: int) -> float:
    """Estimate the probability that at least one of ``k`` samples is right, from ``c`` of ``n``.

    ``1 − C(n − c, k) / C(n, k)``: the share of the k-subsets of the n samples that hold a right
    one, hence unbiased (Chen et al. 2021, 2107.03374). The tempting ``1 − (1 − c/n)^k`` is biased.

    Args:
        n: samples drawn.
        c: how many of them are right.
        k: at most ``n``; nothing unbiased is known about more samples than were drawn.

    Returns:
        The estimate, from 0 to 1.

    Raises:
        ValueError, TypeError: an argument is out of range.

    Example:
        >>> lablib.pass_at_k(4, 2, 1)
        0.5
    """
    n = integer("n", n, 1)
    c, k = integer("c", c, 0, n), integer("k", k, 1, n)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)

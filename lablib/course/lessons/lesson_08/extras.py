"""A rule that loses: what some engines accept, and the page beside the lesson measures."""

from lablib.inference.speculation import rules

import mlx.core as mx

TYPICAL = "lossy: typical acceptance"


def typical(
    p: mx.array, q: mx.array, drafts: mx.array, epsilon: float = 0.25, delta: float = 0.5
) -> rules.Outcome:
    """Keep what the target finds typical: ``p(x) > min(ε, δ · exp(−H(p)))``, H its entropy.

    After a refusal the target draws from p. The q is not looked at, so this is not lossless (Cai
    et al. 2024, Medusa, 2401.10774). Shapes as in ``rules``.
    """
    rows = p[..., :-1, :]
    entropy = -mx.sum(rows * mx.log(mx.maximum(rows, 1e-30)), axis=-1)
    chosen = mx.take_along_axis(rows, drafts[..., None], axis=-1)[..., 0]
    likely = chosen > mx.minimum(epsilon, delta * mx.exp(-entropy))
    accept = (likely & (mx.sum(q, axis=-1) > 0)).astype(p.dtype)
    start = mx.ones_like(accept[..., :1])
    reach = mx.concatenate([start, mx.cumprod(accept, axis=-1)], axis=-1)
    return rules.Outcome(reach * mx.concatenate([1 - accept, start], axis=-1), p)

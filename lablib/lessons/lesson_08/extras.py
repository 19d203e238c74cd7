"""What the last section of the lesson shows: a rule that loses, and rules against temperature."""

from collections.abc import Mapping, Sequence
from typing import Any

from lablib.inference.speculation import rules
from lablib.plots.charts import COLOURS, DASHES, MARKERS, style
from lablib.plots.strips import add_axes, canvas
from lablib.theory import closed_forms as theory
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
from matplotlib.figure import Figure

TYPICAL = "lossy: typical acceptance"
BOUND = "bound of coupled"
LINES = {
    "match": theory.acceptance_match,
    "coupled": theory.acceptance_coupled,
    "rejection": theory.acceptance_rejection,
}
LOOKS = {"match": 0, "coupled": 2, "rejection": 1, "block": 5}  # colour and marker


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


def shares(
    target: Sequence[float], draft: Sequence[float], temperatures: Sequence[float]
) -> dict[str, list[float]]:
    """Return what theory says that each rule keeps of one draft, at each temperature.

    Args:
        target: logits of one position ``(V,)``.
        draft: the draft model's.
        temperatures: of both; positive.

    Returns:
        A list for each name of ``LINES``, and ``(1 − TV) / (1 + TV)`` for ``BOUND``.
    """
    if not min(temperatures, default=0) > 0:
        raise BadValue(f"temperatures must be positive, got {temperatures!r}")
    found: dict[str, list[float]] = {name: [] for name in (*LINES, BOUND)}
    for temperature in temperatures:
        p, q = (_softmax(np.asarray(x, np.float64) / temperature) for x in (target, draft))
        for name, share in LINES.items():
            found[name].append(share(p, q))
        left = found["rejection"][-1]  # 1 - TV
        found[BOUND].append(left / (2 - left))
    return found


def _softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def against_temperature(
    temperatures: Sequence[float],
    expected: Mapping[str, Sequence[float]],
    measured: Mapping[tuple[str, float], Sequence[float]],
) -> Figure:
    """Draw theory's lines, and what was measured beside them.

    Args:
        temperatures: of the lines.
        expected: from :func:`shares`.
        measured: (rule, temperature) -> the share kept, its interval's low end and its high end.
    """
    fig = canvas(3.7)
    with style():
        axes: Any = add_axes(fig, 0.75, 0.15, 5.0, 2.8)
        for name, values in expected.items():
            i = LOOKS.get(name)
            look = {"color": "#666666", "ls": ":"} if i is None else {"color": COLOURS[i]}
            if i is not None:
                look["ls"] = DASHES[i % 4]
            label = name if i is None else f"{name}, theory"
            axes.plot(temperatures, values, label=label, lw=2, marker="", **look)
        for place, (rule, i) in enumerate(LOOKS.items()):
            found = [(t, *seen) for (name, t), seen in measured.items() if name == rule]
            if not found:
                continue
            t, share, low, high = np.array(found).T
            t = t + 0.03 * (place - 1.5)  # beside each other
            gaps = np.maximum([share - low, high - share], 0)
            axes.errorbar(
                t, share, gaps, label=f"{rule}, measured", color=COLOURS[i], ls="",
                marker=MARKERS[i], capsize=3, markeredgecolor="white",
            )  # fmt: skip
        axes.set(xlabel="temperature", ylabel="kept drafts (share)", ylim=(0, 1.05))
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=10)
    return fig

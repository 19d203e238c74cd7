"""The evaluation as one figure."""

from collections.abc import Sequence
from typing import Any

from lablib.plots import charts as plots

from matplotlib.axes import Axes

_CURVES = {
    "pass": "pass@N",
    "weighted: learned": "vote weighted by\nthe learned verifier",
    "best: learned": "best-of-N,\nlearned verifier",
    "best: gaussian": "best-of-N,\nGaussian noise",
    "best: heavy-tailed": "best-of-N,\nheavy-tailed noise",
    "majority": "majority",
    "single": "single",
}
# Line styles of the exact process; best-of-N with Gaussian noise would lie on pass@N.
_EXACT = {"pass": ":", "best: heavy-tailed": "-.", "majority": "--", "single": "-"}
_MOST_CLASSES = 14


def picture(found: dict[str, Any]) -> str:
    """The figure, SVG."""
    fig = plots.figure(17, 8.4)
    with plots.style():
        axes = fig.subplots(2, 3)
        _draw_quality(axes[0, 0], found["quality"]["target"])
        _draw_diversity(axes[0, 1], found["quality"]["target"])
        _draw_sums(axes[0, 2], found["sums"])
        _draw_overlap(axes[1, 0], found["speculation"]["overlap_by_class"])
        _draw_times(axes[1, 1], found["speculation"])
        _draw_speedup(axes[1, 2], found["speculation"]["greedy"])
    return plots.svg(fig)


def _line(axes: Axes, i: int, x: Sequence[float], y: Sequence[float], label: str) -> None:
    axes.plot(
        x, y, label=label, color=plots.COLOURS[i % 8], linestyle=plots.DASHES[i % 4],
        marker=plots.MARKERS[i % 8],
    )  # fmt: skip


def _draw_quality(axes: Axes, by_task: dict[str, Any]) -> None:
    for i, (task, rows) in enumerate(by_task.items()):
        x = [row["temperature"] for row in rows]
        _line(axes, i, x, [row["accuracy"] for row in rows], task)
        low, high = [r["low"] for r in rows], [r["high"] for r in rows]
        axes.fill_between(x, low, high, alpha=0.2, color=plots.COLOURS[i], linewidth=0)
    axes.set(xlabel="temperature", ylabel="share of right completions", ylim=(0, 1.02))
    axes.set_title("Accuracy of a single sample")
    axes.legend()


def _draw_diversity(axes: Axes, by_task: dict[str, Any]) -> None:
    for i, (task, rows) in enumerate(by_task.items()):
        rows = [row for row in rows if row["temperature"] > 0]
        x = [row["temperature"] for row in rows]
        _line(axes, i, x, [row["distinct_trigrams"] for row in rows], task)
    axes.set(xlabel="temperature", ylabel="distinct 3-grams / 3-grams")
    axes.set_title("Diversity")
    axes.legend()


def _draw_sums(axes: Axes, sums: dict[str, Any]) -> None:
    counts = sums["counts"]
    for i, (name, label) in enumerate(_CURVES.items()):
        rows = sums["curves"][name]
        _line(axes, i, counts, [row["accuracy"] for row in rows], label)
        low, high = [r["low"] for r in rows], [r["high"] for r in rows]
        axes.fill_between(counts, low, high, alpha=0.12, color=plots.COLOURS[i], linewidth=0)
    for name, dash in _EXACT.items():
        exact, label = sums["process"][name], f"exact process, {_CURVES[name]}"
        axes.plot(counts, exact, color="black", linestyle=dash, linewidth=1, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.set(xlabel="samples N", ylabel="accuracy", ylim=(0, 1.02))
    axes.set_title("sums, temperature 1")
    axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_overlap(axes: Axes, rows: list[dict[str, Any]]) -> None:
    rows = [row for row in rows if row["temperature"] == 1.0]
    rows = sorted(rows, key=lambda row: -row["tokens"])[:_MOST_CLASSES]
    rows = sorted(rows, key=lambda row: row["rejection"])
    place = range(len(rows))
    names = [f"{row['task']}: {row['class']}" for row in rows]
    for i, (key, label) in enumerate({"rejection": "Σ min(p, q)", "match": "Σ p·q"}.items()):
        axes.barh(
            [y + 0.2 - 0.4 * i for y in place], [row[key] for row in rows], 0.4, label=label,
            color=plots.COLOURS[i], hatch=plots.HATCHES[i], edgecolor="white",
        )  # fmt: skip
    axes.set_yticks(place, names, fontsize=9)
    axes.set(xlabel="chance that a draft is kept", xlim=(0, 1))
    axes.set_title("Target and draft, temperature 1")
    axes.legend(loc="lower right", fontsize=9, framealpha=0.9, frameon=True)


def _draw_times(axes: Axes, part: dict[str, Any]) -> None:
    times = [1000 * each for each in part["target_seconds"]]
    k = range(1, len(times) + 1)
    _line(axes, 0, k, times, "target, k tokens")
    draft = 1000 * part["draft_seconds"]
    axes.axhline(draft, color=plots.COLOURS[1], linestyle="--", label="draft, 1 token")
    axes.set(xlabel="tokens k (1: plain decoding; others: verified)", ylabel="time T(k), ms")
    axes.set_ylim(0, None)
    axes.set_title("What a round costs")
    axes.legend()


def _draw_speedup(axes: Axes, greedy: dict[str, Any]) -> None:
    for i, (task, part) in enumerate(greedy.items()):
        gammas = [int(gamma) for gamma in part["speedup"]]
        _line(axes, i, gammas, list(part["speedup"].values()), task)
    axes.axhline(1, color="black", linewidth=1)
    axes.set(xlabel="drafted tokens γ", ylabel="speed-up over plain decoding", ylim=(0, None))
    axes.set_title("Predicted greedy speed-up")
    axes.legend()

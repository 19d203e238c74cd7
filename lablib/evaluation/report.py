"""The evaluation as one text table and one figure."""

from collections.abc import Iterable, Sequence
from typing import Any

from lablib.viz import plots

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
_BANDS = ("weighted: learned", "best: heavy-tailed", "majority", "single")  # drawn with intervals
_MOST_CLASSES = 14


def table(found: dict[str, Any]) -> str:
    """Everything that was measured, as text that fits into 100 columns."""
    about, part = found["about"], found["speculation"]
    plan = about["plan"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    blocks = [
        f"{plan['problems']} unseen problems a task, seed {plan['seed']}; {about['machine']}, "
        f"BLAS {about['blas']}; Python {about['python']}, {versions}; {about['seconds']} s",
        *(_quality(name, tasks) for name, tasks in found["quality"].items()),
        _sums(found["sums"]),
        _grid(
            "Overlap of target and draft (along the target's samples)",
            ["task", "temperature", "Σ min(p, q)", "Σ p·q", "tokens"],
            [
                [r["task"], f"{r['temperature']:g}", r["rejection"], r["match"], r["tokens"]]
                for r in part["overlap"]
            ],
        ),
        _grid(
            "The same by token class, temperature 1",
            ["task", "class", "Σ min(p, q)", "Σ p·q", "tokens"],
            [
                [r["task"], r["class"], r["rejection"], r["match"], r["tokens"]]
                for r in part["overlap_by_class"]
                if r["temperature"] == 1.0
            ],
        ),
        _greedy(part),
        _times(part),
        _past(found["past_the_end"]),
        _grid(
            "It must show",
            ["", "measured", "", "wanted", "what"],
            [
                [
                    "ok" if row["passed"] else "FAILS",
                    *(row[key] for key in ("measured", "relation", "wanted", "what")),
                ]
                for row in found["checks"]
            ],
        ),
    ]
    return "\n\n".join(blocks) + "\n"


def _quality(name: str, by_task: dict[str, Any]) -> str:
    return _grid(
        f"{name}: accuracy (stories: valid) and diversity",
        ["task", "temperature", "accuracy", "95 % interval", "distinct", "distinct 3-grams"],
        [
            [task, f"{row['temperature']:g}", row["accuracy"], _interval(row), row["distinct"],
             row["distinct_trigrams"]]
            for task, rows in by_task.items()
            for row in rows
        ],
    )  # fmt: skip


def _sums(sums: dict[str, Any]) -> str:
    counts = [str(n) for n in sums["counts"]]
    curves = sums["curves"]
    rows = [[name, *(row["accuracy"] for row in each)] for name, each in curves.items()]
    rows += [[f"exact process: {name}", *values] for name, values in sums["process"].items()]
    half = max((r["high"] - r["low"]) / 2 for each in curves.values() for r in each)
    for name in sums["adaptive"]:
        rows.append([f"{name}: samples used", *(row["used"] for row in curves[name])])
    heat = sums["by_temperature"]
    temperatures = [f"{temperature:g}" for temperature in heat["temperatures"]]
    return "\n\n".join(
        [
            _grid(
                f"sums at temperature 1: accuracy of N samples (95 %: ± {half:.3f} at most)",
                ["strategy", *counts],
                rows,
            ),
            _grid(
                "sums: majority vote by temperature and N",
                ["temperature", *map(str, heat["counts"])],
                [[t, *row] for t, row in zip(temperatures, heat["majority"], strict=True)],
            ),
        ]
    )


def _greedy(part: dict[str, Any]) -> str:
    rows = [
        [task, each["alpha"], each["agreement"], each["tokens_per_round"]["4"],
         each["speedup"]["4"], part["ngram_tokens_per_call"][task]]
        for task, each in part["greedy"].items()
    ]  # fmt: skip
    header = ["task", "α", "agreement", "tokens a round", "speed-up", "n-gram tokens a call"]
    title = f"Greedy speculation at γ = 4 (mean predicted speed-up {part['speedup']:.2f})"
    return _grid(title, header, rows)


def _times(part: dict[str, Any]) -> str:
    milliseconds = [1000 * each for each in part["target_seconds"]]
    return _grid(
        "One forward over k tokens, ms",
        ["", *(f"k = {k}" for k in range(1, len(milliseconds) + 1))],
        [["target", *milliseconds], ["draft", 1000 * part["draft_seconds"]]],
    )


def _past(past: list[dict[str, float]]) -> str:
    rows = [list(row.values()) for row in past]
    return _grid("Past the end of a document", list(past[0]), rows)


def _interval(row: dict[str, float]) -> str:
    return f"{row['low']:.3f} – {row['high']:.3f}"


def _grid(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A text table: the first column and words to the left, numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    width = len(header)
    cells = [row + [""] * (width - len(row)) for row in cells]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    numeric = [all(_is_number(row[i]) for row in cells) for i in range(width)]
    lines = [
        "  ".join(
            cell.rjust(w) if number else cell.ljust(w)
            for cell, w, number in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [list(header), *cells]
    ]
    return "\n".join([title, "-" * len(title), *lines])


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    return not text or text.replace(".", "", 1).replace("-", "", 1).isdecimal()


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
        if name in _BANDS:
            low, high = [r["low"] for r in rows], [r["high"] for r in rows]
            axes.fill_between(counts, low, high, alpha=0.2, color=plots.COLOURS[i], linewidth=0)
    exact = sums["process"]["majority"]
    axes.plot(counts, exact, "k-", linewidth=1, label="majority,\nexact process")
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
    axes.set(xlabel="tokens k in one forward", ylabel="time T(k), ms", ylim=(0, None))
    axes.set_title("What a forward costs")
    axes.legend()


def _draw_speedup(axes: Axes, greedy: dict[str, Any]) -> None:
    for i, (task, part) in enumerate(greedy.items()):
        gammas = [int(gamma) for gamma in part["speedup"]]
        _line(axes, i, gammas, list(part["speedup"].values()), task)
    axes.axhline(1, color="black", linewidth=1)
    axes.set(xlabel="drafted tokens γ", ylabel="speed-up over plain decoding", ylim=(0, None))
    axes.set_title("Predicted greedy speed-up")
    axes.legend()

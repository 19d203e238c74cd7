"""The numbers of a comparison: medians of paired ratios with intervals, a table, a picture."""

import json
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from lablib.machine import backend
from lablib.tools.bench.plan import LABLIB, OLD, Case, Plan
from lablib.tools.bench.turns import Answer
from lablib.validation import BadValue

import numpy as np
from scipy import stats
from tabulate import tabulate

_PICTURES = (".svg", ".png")
_SLOWER = 0.05  # than the old checkout: so much is noise
_HEADS = ["", "side", "tokens/s", "times", "95 %", "of the limit", ""]


def median(values: Iterable[float]) -> float:
    """Return the median."""
    return float(np.median(list(values)))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a median over paired turns: the turns drawn again."""
    if min(values) == max(values):  # nothing to draw; scipy would warn
        return float(values[0]), float(values[0])
    found = stats.bootstrap(
        (values,), np.median, method="percentile", n_resamples=4000, random_state=0
    ).confidence_interval
    return float(found.low), float(found.high)


def summary(case: Case, turns: list[dict[str, Answer]], exact: Answer | None) -> dict[str, Any]:
    """Return what a case has shown.

    Args:
        case: what was run.
        turns: the answers by label, and that of "memory".
        exact: what all sides must have answered: ``tokens``, the ``gaps`` between the best two, and
            up to which gap it is a ``tie``; None where that is not known.

    Returns:
        ``what``, ``name``, ``base`` and ``sides``. A side has ``side``, ``per_second`` (median),
        ``times`` the base's speed with its ``interval``, ``limit`` (tokens a second at which the
        bytes that it must read are read) and the share of it that is ``reached``, None where there
        is none; ``wrong`` if it answered otherwise than all must, and then no ``times``;
        ``forecast`` of what ``times`` its plain decoding it is, ``gain``; and all that it told of
        itself: ``drafts`` a round, tokens ``per_round``, share ``kept``, ``peak`` bytes,
        ``log_evidence``.
    """
    rates = {
        label: [turn[label]["units"] / turn[label]["seconds"] for turn in turns]
        for label in case.runs
        if label != "forecast"
    }
    held = exact or {"tokens": turns[0][case.base].get("tokens"), "gaps": None, "tie": 0.0}
    wrong = {}
    for label in rates:
        told = [turn[label].get("tokens") for turn in turns]
        if (exact or case.what == "async") and held["tokens"] is not None:
            wrong[label] = next(filter(None, (_difference(each, held) for each in told)), None)
    sides = []
    for label, rate in rates.items():
        side = {"side": label, "per_second": median(rate), "wrong": wrong.get(label)}
        if not any(wrong.get(each) for each in (label, case.base)):
            ratios = [a / b for a, b in zip(rate, rates[case.base], strict=True)]
            side |= {"times": median(ratios), "interval": interval(ratios)}
        side |= _limit([turn[label] for turn in turns], [turn["memory"] for turn in turns])
        for key in ("drafts", "per_round", "kept", "peak", "log_evidence"):
            if key in turns[0][label]:
                side[key] = median(turn[label][key] for turn in turns)
        if plain := rates.get(f"{label}, plain"):
            gains = [a / b for a, b in zip(rate, plain, strict=True)]
            side |= {"gain": median(gains), "gain_interval": interval(gains)}
        if label == LABLIB and "forecast" in case.runs:
            side["forecast"] = median(turn["forecast"]["speedup"] for turn in turns)
        sides.append(side)
    return {"what": case.what, "name": case.name, "base": case.base, "sides": sides}


def _limit(answers: list[Answer], memory: list[Answer]) -> dict[str, Any]:
    """Return the limit that reading sets, and the share reached, turn by turn."""
    if "bytes" not in answers[0]:
        return {}
    limits = [
        read["bytes"] / read["seconds"] / each["bytes"]
        for each, read in zip(answers, memory, strict=True)
    ]
    shares = [
        each["units"] / each["seconds"] / limit for each, limit in zip(answers, limits, strict=True)
    ]
    return {"limit": median(limits), "reached": median(shares)}


def _difference(tokens: list[list[int]], exact: Answer) -> str | None:
    """Return where tokens differ from what they must be; None where they don't but for ties."""
    for i, (found, wanted) in enumerate(zip(tokens, exact["tokens"], strict=True)):
        if found == wanted:
            continue
        same = zip(found, wanted, strict=False)
        place = next((k for k, (a, b) in enumerate(same) if a != b), min(len(found), len(wanted)))
        gaps = exact["gaps"][i] if exact["gaps"] else []
        if place >= len(gaps) or gaps[place] > exact["tie"]:
            told, meant = found[place : place + 1], wanted[place : place + 1]
            return f"text {i}, token {place}: {told}, not {meant}"
    return None


def table(cases: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table of summaries."""
    rows = []
    for case in cases:
        for side in case["sides"]:
            low, high = side.get("interval", (None, None))
            base = side["side"] == case["base"]
            rows.append(
                [
                    f"{case['what']}: {case['name']}",
                    side["side"],
                    f"{side['per_second']:,.0f}",
                    f"{side['times']:.2f}" if "times" in side else "?",
                    "" if base or low is None else f"{low:.2f} to {high:.2f}",
                    f"{side['reached']:.0%}" if "reached" in side else "",
                    _notes(side),
                ]
            )
    return tabulate(rows, _HEADS, tablefmt="github", disable_numparse=True)


def line(case: dict[str, Any]) -> str:
    """Return a summary in one line, for who is waiting."""
    sides = (each for each in case["sides"] if each["side"] != case["base"])
    told = (f"{each['side']} ×{each.get('times', float('nan')):.2f}" for each in sides)
    return f"{case['what']}, {case['name']}, beside {case['base']}: {', '.join(told)}"


def _notes(side: dict[str, Any]) -> str:
    notes: list[tuple[str, str, Callable[[float], float]]] = [
        ("drafts", "{:.0f} drafts", float),
        ("per_round", "{:.2f} tokens a round", float),
        ("gain", "×{:.2f} of plain", float),
        ("forecast", "forecast ×{:.2f}", float),
        ("peak", "{:,.0f} MB more", lambda n: n / 1e6),
        ("log_evidence", "log evidence {:.2f}", float),
        ("wrong", "WRONG: {}", str),
    ]
    said = [text.format(read(side[key])) for key, text, read in notes if side.get(key) is not None]
    return ", ".join(said)


def about(plan: Plan, few_rows: bool) -> dict[str, Any]:
    """Return plan, machine and versions: what a number may depend on."""
    names = ("mlx", "mlx-lm", "numpy")
    return {
        "plan": asdict(plan),
        "machine": f"{platform.system()} {platform.machine()}, {backend.core() or 'native'}",
        "blas": f"{backend.blas().source}, {backend.threads()} thread(s)",
        "few rows": f"lablib {_has(backend.blas().few_rows)}, its peers {_has(few_rows)}",
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in names},
    }


def _has(it: object) -> str:
    return "with" if it else "without"


def check_picture(path: Path | None) -> None:
    """Refuse a file that is no picture, before any work."""
    if path is not None and path.suffix not in _PICTURES:
        raise BadValue(f"out must end in {' or '.join(_PICTURES)}, got {str(path)!r}")


def draw(found: dict[str, Any], path: Path) -> None:
    """Write a picture: how many times as fast as its peer each side is, with its interval."""
    from lablib.course.plots import pictures

    rows = [
        (f"{case['name']}: {side['side']}", side)
        for case in found["cases"]
        for side in case["sides"]
        if "times" in side and side["side"] != case["base"]
    ]
    figure = pictures.figure(8, 1.2 + 0.3 * len(rows))
    with pictures.style():
        axes = figure.subplots()
        for i, (_, side) in enumerate(rows):
            low, high = side["interval"]
            ours = side["side"].startswith(LABLIB)
            axes.barh(i, side["times"], 0.7, color=pictures.COLOURS[0 if ours else 1],
                      hatch=pictures.HATCHES[0 if ours else 1], edgecolor="white")  # fmt: skip
            axes.plot([low, high], [i, i], color="black")
            axes.annotate(f"{side['times']:.2f}", (max(high, side["times"]), i), (4, 0),
                          textcoords="offset points", va="center", size=9)  # fmt: skip
        axes.axvline(1, color="black", linestyle=":")
        axes.set_yticks(range(len(rows)), [name for name, _ in rows], size=9)
        axes.invert_yaxis()
        peers = ", ".join(dict.fromkeys(case["base"] for case in found["cases"]))
        axes.set(xlabel=f"times the tokens/s of {peers}")
    content = pictures.svg(figure).encode() if path.suffix == ".svg" else pictures.png(figure)
    path.write_bytes(content)


def write(found: dict[str, Any], *, json_file: Path | None, picture: Path | None) -> int:
    """Print the table, write what is asked for; 1 if an answer is wrong, or lablib slower."""
    print(f"\n{table(found['cases'])}\n")
    print(f"Memory: {found['memory'] / 1e9:.1f} GB/s. {found['about']['machine']}.")
    if json_file is not None:
        json_file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if picture is not None:
        draw(found, picture)
    return int(
        any(
            side["wrong"] or (case["base"] == OLD and side.get("times", 1) < 1 - _SLOWER)
            for case in found["cases"]
            for side in case["sides"]
        )
    )

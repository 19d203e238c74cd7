"""The evaluation: everything the lessons say about the shipped models, measured in one go."""

import platform
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from lablib import backend, tasks
from lablib.machine import doctor
from lablib.models import zoo
from lablib.replay.measure import measure_costs
from lablib.validation import BadValue
from lablib.verifiers import load_verifier
from lablib.workshop import cards, report, results, speculation, votes
from lablib.workshop.completions import QUICK, Drawn, Plan, draw, examples, quality
from lablib.workshop.past_the_end import past_the_end
from lablib.workshop.requirements import checks

MODELS = ("target", "draft", "hybrid")
GAMMAS = range(1, 9)
Records = list[dict[str, Any]]


def evaluate(
    out: str | Path | None = None,
    *,
    models: str | Path | None = None,
    plan: Plan | None = None,
    quick: bool = False,
    say: Callable[[str], Any] = print,
) -> dict[str, Any]:
    """Measure the shipped models and write the results, all of them at the end.

    Args:
        out: where ``evaluation.json``, ``evaluation_sums.json`` and ``evaluation.md`` go; by
            default beside the checkpoints, and for another plan ``runs/evaluation``.
        models: the folder with ``target``, ``draft``, ``hybrid`` and ``verifier``; by default the
            shipped ones. If it is ``out`` too, each checkpoint's README.md is written anew.
        plan: how much is measured.
        quick: measure little, in under a minute, for a look and for tests.
        say: gets a line when a part is done, and the report at the end.

    Returns:
        What ``evaluation.json`` holds; see ``results.stored``.

    Raises:
        BadValue: a checkpoint is missing, or both ``plan`` and ``quick`` are given.
    """
    if plan is not None and quick:
        raise BadValue("give plan or quick, not both: quick is a plan of its own")
    plan = plan or (QUICK if quick else Plan())
    models = Path(models) if models is not None else zoo.CHECKPOINTS
    default = Path("runs/evaluation") if plan != Plan() else zoo.CHECKPOINTS
    out = Path(out) if out is not None else default
    for name in (*MODELS, "verifier"):
        if not (models / name / "config.json").is_file():
            raise BadValue(f"models must hold {name}/config.json, and {models} does not: train it")
    out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    measured, records = _measure(models, plan, _Clock(say))
    seconds = round(time.perf_counter() - start)
    # Rounded before it is judged and shown: the report fits the numbers that are stored.
    found = results.rounded({"about": about(plan) | {"seconds": seconds}} | measured)
    found["checks"] = results.rounded(checks(found))
    pages = _pages(found, out, models)
    stored = {
        out / results.RESULTS: results.text(found),
        out / results.SUMS: results.text({"problems_seed": plan.seed, "records": records}),
    }
    results.replace(stored | pages)
    say(pages[out / results.REPORT])
    return found


def render(out: str | Path | None = None, *, models: str | Path | None = None) -> None:
    """Write the report and the model cards anew from the stored numbers; measure nothing.

    Args:
        out: the folder with ``evaluation.json``; by default the shipped one.
        models: the folder of the checkpoints; cards are written if it is ``out`` too.
    """
    out = Path(out) if out is not None else zoo.CHECKPOINTS
    models = Path(models) if models is not None else zoo.CHECKPOINTS
    results.replace(_pages(results.stored(out), out, models))


def _pages(found: dict[str, Any], out: Path, models: Path) -> dict[Path, str]:
    """Return what people read: the report and, beside the checkpoints only, their cards."""
    pages = {out / results.REPORT: report.report(found)}
    if out.resolve() == models.resolve():
        pages |= cards.cards(models, found)
    return pages


class _Clock:
    """Say what is done and how long it took."""

    def __init__(self, say: Callable[[str], Any]):
        self.say, self.last = say, time.perf_counter()

    def __call__(self, what: str) -> None:
        now = time.perf_counter()
        self.say(f"{now - self.last:6.1f} s  {what}")
        self.last = now


def about(plan: Plan) -> dict[str, Any]:
    """Return plan, machine and versions: what a number may depend on."""
    machine, processor = doctor().facts["machine"], platform.processor()
    if processor not in machine:  # often empty, or the same as the architecture
        machine = f"{machine}, {processor}"
    return {
        "plan": asdict(plan),
        "machine": machine,
        "blas": f"{backend.blas().source}, {backend.threads()} thread(s)",
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in ("mlx", "mlx-lm", "numpy")},
    }


def _measure(models: Path, plan: Plan, done: _Clock) -> tuple[dict[str, Any], Records]:
    """Return every measurement, and the records behind the voting curves."""
    target, draft, hybrid = (zoo.load(models / name)[0] for name in MODELS)
    drawn = {}
    for task in tasks.TASKS:
        drawn[task] = draw(target, task, plan, plan.temperatures)
        done(f"target's completions of {task}")
    good = {"target": {task: quality(each, plan.repeats) for task, each in drawn.items()}}
    for name, model in {"draft": draft, "hybrid": hybrid}.items():
        good[name] = {
            task: quality(draw(model, task, plan, (0.0, 1.0), draws=1), repeats=1)
            for task in tasks.TASKS
        }
        done(f"{name}'s completions")
    sums, records = _sums(models, target, drawn["sums"], plan, done)
    found = {
        "context": target.max_positions,
        "quality": good,
        "examples": examples(drawn["stories"]),
        "sums": sums,
        "speculation": _speculation(target, draft, list(drawn.values()), plan, done),
        "past_the_end": [past_the_end(target, plan, t) for t in plan.long_temperatures],
    }
    done("target's texts past the end")
    return found, records


def _sums(
    models: Path, target: Any, drawn: Drawn, plan: Plan, done: _Clock
) -> tuple[dict[str, Any], Records]:
    verifier = load_verifier(models / "verifier", model=target)
    records = votes.judge(verifier, drawn, 1.0)
    done("verifier's scores")
    curves, n = votes.curves(records, plan), min(32, plan.counts[-1])
    found = {
        "n": n,
        "counts": list(plan.counts),
        "noise": {name: {"scale": s, "df": str(df)} for name, (s, df) in votes.NOISE.items()},
        "curves": curves,
        "process": votes.exact_curves(drawn.problems, plan.counts),
        "adaptive": votes.adaptive(curves, n),
        "by_temperature": votes.by_temperature(drawn, plan),
    }
    done("votes")
    return found, records


def _speculation(
    target: Any, draft: Any, drawn: list[Drawn], plan: Plan, done: _Clock
) -> dict[str, Any]:
    by_task, by_class = speculation.overlaps(target, draft, drawn, plan.overlap_temperatures)
    greedy = {each.task: speculation.greedy(each, draft, GAMMAS) for each in drawn}
    done("overlap of target and draft")
    times = measure_costs(target, draft, most=max(GAMMAS), repeats=plan.timings)
    for part in greedy.values():
        part["speedup"] = speculation.speedups(part["tokens_per_round"], times)
    at_four = [part["speedup"][str(speculation.GAMMA)] for part in greedy.values()]
    done("times")
    return {
        "overlap": by_task,
        "overlap_by_class": by_class,
        "greedy": greedy,
        "ngram_tokens_per_call": {
            each.task: speculation.ngram_tokens_per_call(each) for each in drawn
        },
        "target_seconds": list(times.target),
        "draft_seconds": times.draft,
        "speedup": sum(at_four) / len(at_four),
    }

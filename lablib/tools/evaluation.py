"""The evaluation: everything the lessons say about the shipped models, measured in one go."""

import platform
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from lablib.course import tasks
from lablib.course.replay.measure import measure_costs
from lablib.machine import backend
from lablib.machine.doctor import doctor
from lablib.models import zoo
from lablib.tools import cards, report, results, speculation, votes
from lablib.tools.completions import QUICK, Drawn, Plan, examples, quality
from lablib.tools.parts import MODELS, PAST_THE_END, Completions, judged
from lablib.tools.past_the_end import past_the_end
from lablib.tools.requirements import checks
from lablib.tools.sweep.rounds import run
from lablib.validation import BadValue

COMPLETIONS = "evaluation.part.jsonl"  # while an evaluation is under way
GAMMAS = range(1, 9)
Records = list[dict[str, Any]]


def evaluate(
    out: str | Path | None = None,
    *,
    models: str | Path | None = None,
    plan: Plan | None = None,
    quick: bool = False,
    say: Callable[[str], Any] = print,
) -> dict[str, Any] | None:
    """Measure the shipped models and write the results, all of them at the end.

    The completions are a sweep's units, so that ranks share them (``workshop.sweep``), and a run
    that was killed goes on with what ``COMPLETIONS`` holds.

    Args:
        out: where ``evaluation.json``, ``evaluation_sums.json`` and ``evaluation.md`` go; by
            default beside the checkpoints, and for another plan ``runs/evaluation``.
        models: the folder with ``target``, ``draft``, ``hybrid`` and ``verifier``; by default the
            shipped ones. If it is ``out`` too, each checkpoint's README.md is written anew.
        plan: how much is measured.
        quick: measure little, in under a minute, for a look and for tests.
        say: gets a line when a part is done, and the report at the end.

    Returns:
        What ``evaluation.json`` holds; see ``results.stored``. None at a rank but the first.

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
    at_work, kept = Completions(models, plan), out / COMPLETIONS
    drawn = run(at_work.groups(), at_work, out=kept, what="evaluation", settings=at_work.settings)
    if drawn is None:  # the rest is for the first rank: it takes a twentieth of the time
        return None
    measured, records = _measure(at_work, drawn, plan, _Clock(say))
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
    kept.unlink()
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


def _measure(
    at_work: Completions, drawn: Records, plan: Plan, done: _Clock
) -> tuple[dict[str, Any], Records]:
    """Return every measurement, and the records behind the voting curves."""
    by_model = {
        model: {task: at_work.drawn(model, task, drawn) for task in tasks.TASKS} for model in MODELS
    }
    good = {
        model: {
            task: quality(each, plan.repeats if model == "target" else 1)
            for task, each in texts.items()
        }
        for model, texts in by_model.items()
    }
    done("quality")
    target, draft = at_work.models["target"], at_work.models["draft"]
    texts, long = by_model["target"], at_work.drawn("target", PAST_THE_END, drawn)
    records = judged(drawn)
    found = {
        "context": target.max_positions,
        "quality": good,
        "examples": examples(texts["stories"]),
        "sums": _sums(records, texts["sums"], plan, done),
        "speculation": _speculation(target, draft, list(texts.values()), plan, done),
        "past_the_end": [
            past_the_end([each.tokens[0] for each in long.samples[t]], plan, t)
            for t in plan.long_temperatures
        ],
    }
    done("texts past the end")
    return found, records


def _sums(records: Records, drawn: Drawn, plan: Plan, done: _Clock) -> dict[str, Any]:
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
    return found


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

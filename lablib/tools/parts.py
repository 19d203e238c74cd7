"""The evaluation's completions, as units of a sweep: ranks share them, and a killed run goes on.

A unit is a batch: prompts of one length whose rows decode together. Which prompts those are depends
on the plan alone, so that the stored numbers are the same however many ranks there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lablib.course import tasks
from lablib.course.verifiers import load_verifier
from lablib.inference.decoding.batches import sample_many
from lablib.inference.decoding.rows import Samples
from lablib.inference.sampling.options import SamplerOptions
from lablib.models import zoo
from lablib.tools import past_the_end, votes
from lablib.tools.completions import MAX_TOKENS, Drawn, Plan, seeds
from lablib.tools.sweep.kinds import fingerprint
from lablib.tools.sweep.rounds import Group

MODELS = ("target", "draft", "hybrid")
PAST_THE_END = "past the end"
JUDGED = 1.0  # temperature of the sums that the verifier scores


@dataclass(frozen=True)
class Part:
    """Completions that are drawn alike.

    Attributes:
        of: a task's name, or ``PAST_THE_END``.
        model: a name of ``MODELS``.
        temperature: of sampling.
        draws: completions of each prompt.
        rows: of a batch.
    """

    of: str
    model: str
    temperature: float
    draws: int
    rows: int = 32

    def batches(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the places of the prompts that share a batch: neighbours of one length."""
        by_length: dict[int, list[int]] = {}
        for place, prompt in enumerate(prompts):
            by_length.setdefault(len(prompt), []).append(place)
        size = max(1, self.rows // self.draws)
        return [
            equal[first : first + size]
            for equal in by_length.values()
            for first in range(0, len(equal), size)
        ]


def parts(plan: Plan) -> list[Part]:
    """Return all that is drawn, what takes longest first."""
    found = [Part(PAST_THE_END, "target", t, 1, rows=64) for t in plan.long_temperatures]
    drawn = [
        Part(task, "target", t, plan.draws(task, t))
        for task in tasks.TASKS
        for t in plan.temperatures
    ]
    found += sorted(drawn, key=lambda part: -part.draws)
    return found + [
        Part(task, model, t, 1) for model in MODELS[1:] for task in tasks.TASKS for t in (0.0, 1.0)
    ]


class Completions:
    """The work: draw a batch, and score what the verifier is to score.

    Args:
        folder: with the models and the verifier.
        plan: how much is drawn.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.models = {name: zoo.load(folder / name)[0] for name in MODELS}
        self._plan, self._tokenizer = plan, tasks.load_tokenizer()
        self._verifier = load_verifier(folder / "verifier", model=self.models["target"])
        self._parts = {(part.of, part.model, part.temperature): part for part in parts(plan)}
        sets = {task: each.problems(plan.seed, plan.problems) for task, each in tasks.TASKS.items()}
        sets[PAST_THE_END] = past_the_end.problems(plan)
        self._drawn = {
            of: Drawn(of, some, [self._tokenizer.encode(p.prompt).ids for p in some], {})
            for of, some in sets.items()
        }

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return what the completions depend on."""
        weights = {name: fingerprint(model) for name, model in self.models.items()}
        return {"plan": asdict(self._plan), "weights": weights}

    def groups(self) -> list[Group]:
        """Return every batch as a unit."""
        return [
            [{"of": of, "model": model, "temperature": temperature, "batch": number}]
            for (of, model, temperature), part in self._parts.items()
            for number in range(len(part.batches(self._drawn[of].prompts)))
        ]

    def __call__(self, group: Group) -> list[dict[str, Any]]:
        """Draw one batch: the places of its prompts, and of each the completions."""
        (unit,) = group
        part = self._parts[unit["of"], unit["model"], unit["temperature"]]
        whole, long = self._drawn[part.of], part.of == PAST_THE_END
        places = part.batches(whole.prompts)[unit["batch"]]
        own = seeds(self._plan, len(whole.prompts))
        prompts = [whole.prompts[place] for place in places]
        drawn = sample_many(
            self.models[part.model], prompts,
            [SamplerOptions(part.temperature, seed=own[place]) for place in places],
            part.draws, max_batch=part.rows,
            max_tokens=self._plan.long_tokens if long else MAX_TOKENS[part.of],
            stop_tokens=() if long else [self._tokenizer.token_to_id("</s>")],
        )  # fmt: skip
        found = {"places": places, "tokens": [samples.tokens for samples in drawn]}
        found["finished"] = [samples.finished for samples in drawn]
        if (part.of, part.model, part.temperature) == ("sums", "target", JUDGED):
            some = [whole.problems[place] for place in places]
            batch = Drawn(part.of, some, prompts, {JUDGED: drawn})
            found["judged"] = votes.judge(self._verifier, batch, JUDGED)
        return [found]

    def drawn(self, model: str, of: str, records: Sequence[Mapping[str, Any]]) -> Drawn:
        """Put together what a model wrote about one task; log-probabilities are left out."""
        whole = self._drawn[of]
        samples: dict[float, list[Any]] = {
            t: [None] * len(whole.prompts)
            for t in dict.fromkeys((*self._plan.temperatures, *self._plan.long_temperatures))
            if (of, model, t) in self._parts
        }
        for each in records:
            if (each["model"], each["of"]) == (model, of):
                rows = zip(each["places"], each["tokens"], each["finished"], strict=True)
                for place, tokens, finished in rows:
                    samples[each["temperature"]][place] = Samples(tokens, [], finished)
        return Drawn(of, whole.problems, whole.prompts, samples)


def judged(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what ``votes.judge`` says of each problem, in the order of the problems."""
    found: dict[int, dict[str, Any]] = {}
    for each in records:
        if "judged" in each:
            found |= zip(each["places"], each["judged"], strict=True)
    return [found[place] for place in sorted(found)]

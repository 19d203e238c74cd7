"""The kinds of sweeps: votes, acceptance and speed, each over problems and their settings.

A kind lists its units and says what is measured for one; that is all that :func:`rounds.run` needs.
"""

import hashlib
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from lablib import models
from lablib.course.replay.sampled import RULES
from lablib.course.tasks import TASKS
from lablib.inference.arguments import check_n
from lablib.inference.completions import sample_n, speculative_sample_n
from lablib.inference.decoding.batches import sample_many
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.speculation import NGram
from lablib.tools.completions import MAX_TOKENS
from lablib.tools.sweep.defaults import DEFAULTS
from lablib.tools.sweep.file import check_out
from lablib.tools.sweep.rounds import Group, grouped, run, seed_of
from lablib.validation import BadType, BadValue, integer, number, one_of, shown

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

ROWS = 64  # completions of a batch
LOOKUP = "ngram"  # the drafter that is no model
_ENDS = ("sums", "edits")  # tasks whose completions hold one answer to vote on


@dataclass(frozen=True)
class Asked:
    """The settings of a sweep; one that is left out has the default of its kind.

    Attributes:
        what: "votes", "acceptance" or "speed".
        model: a name or path for ``lablib.load``.
        draft: likewise, of the drafter; "ngram" needs no model; by default the shipped draft model
            where the model is the shipped target, or else "ngram".
        task: a name of ``lablib.course.tasks.TASKS``; votes need one answer: "sums" or "edits".
        problems: unseen problems of the task.
        n: completions of each problem. Votes draw the largest and report each; acceptance counts
            over the one number; speed times a batch of each.
        temperatures: of sampling.
        gammas: drafts a round; 0 is plain decoding (speed only).
        rules: of acceptance, from ``replay.sampled.RULES``; speed takes one.
        seed: decides the problems and all random numbers.
    """

    what: str
    model: str
    draft: str | None = None
    task: str = "sums"
    problems: int | None = None
    n: tuple[int, ...] = ()
    temperatures: tuple[float, ...] = ()
    gammas: tuple[int, ...] = ()
    rules: tuple[str, ...] = ()
    seed: int = 2026

    def __post_init__(self) -> None:
        for name in ("model", "draft"):
            given = getattr(self, name)
            if not isinstance(given, str | Path | None):
                raise BadType(f"{name} must be a model's name or path, got {shown(given)}")
        one_of("what", self.what, DEFAULTS)
        one_of("task", self.task, _ENDS if self.what == "votes" else TASKS)
        for name in ("problems", "n", "temperatures", "gammas", "rules"):
            given, default = getattr(self, name), DEFAULTS[self.what].get(name, ())
            if given and not default:
                raise BadValue(f"{self.what} has no {name}, got {given}")
            object.__setattr__(self, name, default if given in (None, ()) else given)
        speculates = any(self.gammas)
        if self.draft is not None and not speculates:
            raise BadValue(f"draft is of no use to {self.what} without speculation")
        if speculates and self.draft is None:
            draft = "draft" if self.model == "target" else LOOKUP
            object.__setattr__(self, "draft", draft)
        self._check()

    def _check(self) -> None:
        integer("problems", self.problems, 1, 1_000_000)  # all are made before the first is asked
        integer("seed", self.seed, 0)
        for n, t in product(self.n, self.temperatures):
            check_n(n), number("temperature", t, 0, 1e30)
        for gamma in self.gammas:
            integer("gamma", gamma, 0 if self.what == "speed" else 1)
        for rule in self.rules:
            one_of("rule", rule, RULES)
        if self.what == "acceptance" and len(self.n) > 1:
            raise BadValue(f"n must be one number for acceptance, got {self.n}")
        if self.what == "speed" and len(self.rules) > 1:
            raise BadValue(f"rule must be one for speed, got {self.rules}")

    def sweep(self, out: str | Path | None = None, **how: Any) -> list[dict[str, Any]] | None:
        """Measure it, with all ranks; arguments and result are those of ``run``."""
        if out is not None:
            check_out(out)  # before a model is loaded
        work = _KINDS[self.what](self)
        return run(work.groups(), work, out=out, what=self.what, settings=work.settings(), **how)

    def nothing(self, records: Sequence[Mapping[str, Any]]) -> str | None:
        """Return why the records hold nothing to draw; None if they do."""
        if self.what == "votes":
            drawn = sum(len(each["answers"]) for each in records)
            if any(answer is not None for each in records for answer in each["answers"]):
                return None
            most, mean = MAX_TOKENS[self.task], sum(each["tokens"] for each in records) / drawn
            why = f"{drawn} completions, {mean:.3g} tokens long on average, of {most} at most"
            cure = "votes need a model that ends with an answer, as the shipped ones do"
            return f"no answer to {self.task} by {self.model} in {why}: {cure}"
        if self.what == "acceptance" and not any(each["reached"] for each in records):
            return f"{self.draft} drafted nothing that {self.model} reached: there is no α"
        return None


class _Kind:
    """A kind of sweep: its units, and the work on a group of them."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.model, self.tokenizer = models.load(asked.model)
        self.problems = TASKS[asked.task].problems(asked.seed, asked.problems)
        self.prompts = [self.tokenizer.encode(problem.prompt) for problem in self.problems]
        stops = sorted(self.tokenizer.eos_token_ids)
        self.how = {"max_tokens": MAX_TOKENS[asked.task], "stop_tokens": stops}

    @cached_property
    def draft(self) -> Any:
        if self.asked.draft in (None, LOOKUP):
            return NGram()
        return models.load(self.asked.draft)[0]

    def settings(self) -> dict[str, Any]:
        """Return what the records depend on beside their units."""
        asked, found = self.asked, {}
        for name in ("model", "draft", "task", "problems", "n", "temperatures", "gammas", "rules",
                     "seed"):  # fmt: skip
            value = getattr(asked, name)
            found[name] = list(value) if isinstance(value, tuple) else value
        found["weights"] = fingerprint(self.model)
        if asked.draft not in (None, LOOKUP):
            found["draft_weights"] = fingerprint(self.draft)
        return found

    def groups(self) -> list[Group]:
        """Return the units in groups that share a batch."""
        raise NotImplementedError

    def __call__(self, group: Group) -> Sequence[Mapping[str, Any]]:
        raise NotImplementedError


class _Votes(_Kind):
    """Answers of many completions: what votes of any size are counted from."""

    def groups(self) -> list[Group]:
        units = [
            {"task": self.asked.task, "problem": j, "temperature": t}
            for t in self.asked.temperatures
            for j in range(len(self.problems))
        ]
        size = max(1, ROWS // max(self.asked.n))
        return grouped(units, size, like=lambda unit: unit["temperature"])

    def __call__(self, group: Group) -> Sequence[Mapping[str, Any]]:
        t = group[0]["temperature"]
        places = [unit["problem"] for unit in group]
        drawn = sample_many(
            self.model, [self.prompts[j] for j in places],
            [SamplerOptions(t, seed=seed_of(self.asked.seed, unit)) for unit in group],
            max(self.asked.n) if t else 1, max_batch=ROWS, **self.how,
        )  # fmt: skip
        return [self._record(j, samples) for j, samples in zip(places, drawn, strict=True)]

    def _record(self, place: int, samples: Any) -> dict[str, Any]:
        texts = [self.tokenizer.decode(row, skip_special_tokens=True) for row in samples.tokens]
        sums = self.asked.task == "sums"
        answer = TASKS["sums"].extract if sums else str.strip
        problem = self.problems[place]
        answers = [
            answer(text) if done else None
            for text, done in zip(texts, samples.finished, strict=True)
        ]
        return {
            "truth": str(sum(problem.data) % 10) if sums else problem.answer.strip(),
            "answers": answers,
            "logprobs": [round(sum(row), 2) for row in samples.logprobs],
            "tokens": sum(samples.lengths),
        }


class _Acceptance(_Kind):
    """The drafts that the engine keeps."""

    def groups(self) -> list[Group]:
        asked = self.asked
        settings = product(asked.temperatures, asked.rules, asked.gammas, range(asked.problems))
        return grouped(
            {"task": asked.task, "problem": j, "temperature": t, "rule": rule, "gamma": gamma}
            for t, rule, gamma, j in settings
        )

    def __call__(self, group: Group) -> Sequence[Mapping[str, Any]]:
        (unit,) = group
        samples = speculative_sample_n(
            self.model, self.draft, self.prompts[unit["problem"]],
            self.asked.n[0] if unit["temperature"] else 1, rule=unit["rule"],
            draft_tokens=unit["gamma"], temperature=unit["temperature"],
            seed=seed_of(self.asked.seed, unit), **self.how,
        )  # fmt: skip
        names = ("total_drafted", "total_accepted", "total_reached", "rounds")
        counts = {name.removeprefix("total_"): samples.stats[name] for name in names}
        return [counts | {"tokens": sum(samples.lengths)}]


class _Speed(_Kind):
    """Seconds that a batch takes on the machine of its rank, with whatever else runs there.

    So one rank a machine; and what was measured is never measured the same again.
    """

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._warm: set[tuple[int, int]] = set()

    def groups(self) -> list[Group]:
        asked = self.asked
        settings = product(asked.temperatures, asked.n, asked.gammas, range(asked.problems))
        return grouped(
            {"task": asked.task, "problem": j, "temperature": t, "n": n, "gamma": gamma}
            for t, n, gamma, j in settings
        )

    def __call__(self, group: Group) -> Sequence[Mapping[str, Any]]:
        (unit,) = group
        if (setting := (unit["n"], unit["gamma"])) not in self._warm:
            self._draw(unit)
            self._warm.add(setting)
        start = time.perf_counter()
        samples = self._draw(unit)
        seconds = time.perf_counter() - start
        tokens = sum(samples.lengths)
        return [{"seconds": round(seconds, 6), "tokens": tokens, "host": socket.gethostname()}]

    def _draw(self, unit: Mapping[str, Any]) -> Any:
        prompt, n = self.prompts[unit["problem"]], unit["n"]
        how = self.how | {"temperature": unit["temperature"]}
        how["seed"] = seed_of(self.asked.seed, unit)
        if unit["gamma"] == 0:
            return sample_n(self.model, prompt, n, **how)
        more = {"draft_tokens": unit["gamma"], "rule": self.asked.rules[0]}
        return speculative_sample_n(self.model, self.draft, prompt, n, **more, **how)


_KINDS = {"votes": _Votes, "acceptance": _Acceptance, "speed": _Speed}


def fingerprint(model: Any) -> str:
    """Return a few letters that only the same weights, of the same type, share."""
    digest = hashlib.blake2b(digest_size=6)
    for name, array in sorted(tree_flatten(model.parameters())):
        digest.update(f"{name} {array.shape} {array.dtype}".encode())
        digest.update(np.array(array.reshape(-1).view(mx.uint8)))  # NumPy lacks bfloat16
    return digest.hexdigest()

"""Lesson 05's plumbing: chains that are judged, and where a wrong one goes wrong."""

import re
from collections.abc import Callable, Mapping, Sequence

from lablib.course.replay.curves import Sampled, vote_curves
from lablib.course.tasks import sums
from lablib.course.tasks.problem import Problem
from lablib.inference.decoding import Samples
from lablib.inference.voting.scoring import Scorer, score


def best_of_curves(
    problems: Sequence[Problem],
    prompts: Sequence[Sequence[int]],
    drawn: Sequence[Samples],
    texts: Sequence[Sequence[str]],
    judges: Callable[[Problem], Mapping[str, Scorer]],
    counts: Sequence[int],
) -> dict[str, list[float]]:
    """Return the share of right answers at each of ``counts``, by judge.

    Under ``"single"`` it is that of one sample, under ``"pass"`` whether any of them is right.

    Args:
        problems: of *sums*.
        prompts: their token ids.
        drawn: samples of each.
        texts: the same as texts.
        judges: problem -> judges by name.
        counts: how many samples are chosen from, a mean over all subsets of that size.
    """
    judged = []
    for problem, prompt, samples, chains in zip(problems, prompts, drawn, texts, strict=True):
        scores = {name: score(each, prompt, samples) for name, each in judges(problem).items()}
        truth = str(sum(problem.data) % 10)
        judged.append(Sampled(truth, [sums.extract(chain) for chain in chains], scores))
    curves = vote_curves(judged, counts, confidence=None, orders=1)
    kept = {name.removeprefix("best: "): [*curve.accuracy] for name, curve in curves.items()}
    return {name: kept[name] for name in ("single", "pass", *judges(problems[0]))}


def first_slip(problem: Problem, chain: str) -> int | None:
    """Return the place of the first wrong result among a chain's tokens, ``a+b=c;`` being six.

    It is None if every result is right, or if something else is wrong before.
    """
    reason = sums.explain(problem, chain) or ""
    if not reason.startswith("step") or "modulo" not in reason:
        return None
    return 6 * (int(reason.split()[1].rstrip(":")) - 1) + 4


def mended(chain: str) -> str:
    """Return the chain that adds the same digits in the same order, each time rightly."""
    total, *digits = re.findall(r"(?:^|\+)(\d)", chain)
    steps = []
    for digit in digits:
        result = str((int(total) + int(digit)) % 10)
        steps.append(f"{total}+{digit}={result};")
        total = result
    return f"{''.join(steps)}#{total}"

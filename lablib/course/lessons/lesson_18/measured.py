"""Measure lesson 18's figures on many seeds, once, and keep them; its cells do a small part again.

    python -m lablib.course.lessons.lesson_18.measured

measures all of it and writes ``measured.json`` beside this file; two busy cores took three
quarters of an hour. A seed stands for problems and samples of its own, so seeds are independent of
each other, and what is compared within a seed is compared on the same samples.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import lablib
from lablib.course.lessons.lesson_18.chains import (
    LONGEST,
    MEASURES,
    Drawn,
    draw,
    elected,
    ordered,
    pairs,
    surest,
    values_of,
)
from lablib.course.tasks import sums
from lablib.course.tasks.problem import Problem
from lablib.inference.steering import Budget, lowest_confidence, power_sample

import mlx.core as mx
import numpy as np
from scipy import stats

FILE = Path(__file__).with_name("measured.json")
SEEDS = range(12)
PROBLEMS, CHAINS = 30, 64  # of a vote; the other parts take half of the problems
ELEVEN = 11  # chains: a walk of 20 steps writes the tokens of so many
WALKS, VOTED = "p⁴: walks", "vote of 11"
BUDGETS = (0, 6, 12, 18, 24, 30)  # after so many tokens "#" is forced; after 30 it comes anyway
FLOORS = (0.25, 0.5, 0.75)  # quantiles of the worst window of texts before
WARM = 16  # so many of them


def votes(drawn: Drawn, truth: str) -> dict[str, float]:
    """Return of one problem what each way to vote makes of the same chains: right, 1, or 0."""
    found = {
        "single": float(drawn.right.mean()),
        "majority": float(elected(drawn.answers) == truth),
    }
    for name in MEASURES:
        values = values_of(drawn, name)
        found[f"{name}, pairs"] = ordered(values, drawn.right)
        found[f"{name}, tenth"] = float(elected(drawn.answers, surest(values, 0.1)) == truth)
    found["random tenth"] = by_lot(drawn.answers, truth, 0.1)
    values = values_of(drawn, "mean of the best 5")
    found["weighed"] = float(elected(drawn.answers, np.log(values)) == truth)
    found["p⁴: weights"] = float(powered(drawn) @ drawn.right)
    return found


def by_lot(answers: Sequence[Any], truth: str, keep: float, lots: int = 2000) -> float:
    """Return how often a vote is right if only a share of the chains votes, drawn by lot.

    The mean of so many lots, from a fixed seed. The first vote decides a tie; it is by lot, too.
    """
    n, named = (
        max(1, math.ceil(keep * len(answers))),
        [each for each in answers if each is not None],
    )
    names = [truth, *sorted({*named} - {truth})]
    counts = [*map(named.count, names), len(answers) - len(named)]
    drawn = np.random.default_rng(18).multivariate_hypergeometric(counts, n, size=lots)[:, :-1]
    best = drawn.max(axis=1)
    return float(((drawn[:, 0] == best) * (best > 0) / (drawn == best[:, None]).sum(axis=1)).mean())


def powered(drawn: Drawn, alpha: float = 4.0) -> np.ndarray:
    """Return weights ``(n,)``, whose sum is 1, under which the model's chains stand for p^alpha."""
    logs = np.array([(alpha - 1) * written.sum() for written in drawn.written])
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def stopping(drawn: Drawn, truth: str) -> dict[str, float]:
    """Return of one problem, for each floor, the share of tokens written; and if the vote is right.

    The first ``WARM`` chains are whole and set the floor; any other is given up where
    ``lablib.inference.GiveUp`` gives it up. All that have an answer vote.
    """
    lengths = np.array([len(log) for log in drawn.logs])
    worst = np.array([lowest_confidence(pairs(log, 5)) for log in drawn.logs])
    found = {}
    for quantile in FLOORS:
        floor = float(np.quantile(worst[:WARM], quantile))
        written, answers = lengths.astype(float), list(drawn.answers)
        for i in range(WARM, len(answers)):
            if worst[i] < floor:
                written[i] = given_up_at(drawn.logs[i], floor) + 1
                answers[i] = None
        found[f"{quantile}, tokens"] = float(written.sum() / lengths.sum())
        found[f"{quantile}, right"] = float(elected(answers) == truth)
    return found


def given_up_at(logs: np.ndarray, floor: float, window: int = 8) -> int:
    """Return the place of the first token before which a window's confidence is below the floor."""
    confidences = -logs[:, :5].mean(axis=-1)
    means = np.convolve(confidences, np.ones(window) / window, "valid")
    return int((means < floor).argmax()) + window - 1


def thinking(
    model: Any, tokenizer: Any, problem: Problem, n: int, seed: int, most: int
) -> tuple[float, float]:
    """Return the share of right answers that are forced after ``most`` tokens, and their vote."""
    prompt, answer = tokenizer.encode(problem.prompt), tokenizer.encode("#")[-1:]
    how = {"max_tokens": LONGEST, "seed": seed, "logits_processors": [Budget(most, answer)]}
    rows = lablib.sample_n(model, prompt, n, **how).tokens
    texts = [tokenizer.decode(row, skip_special_tokens=True) for row in rows]
    right = [sums.check(problem, text) for text in texts]
    truth = str(sum(problem.data) % 10)
    return float(np.mean(right)), float(elected([*map(sums.extract, texts)]) == truth)


def sharpened(
    model: Any, tokenizer: Any, problems: Sequence[Problem], n: int, steps: int, seed: int
) -> dict[str, float]:
    """Return the share of right answers: of the model, a low temperature, p⁴, a vote of eleven.

    They vote by lot among the model's own ``n`` chains, 11 or more.
    The chains of p⁴ are proposed by the model itself: cold proposals are too much alike.
    """
    prompts = [tokenizer.encode(problem.prompt) for problem in problems]
    lm = lablib.AsyncMlxLM(model, tokenizer, batch_size=256)
    how = {"max_tokens": LONGEST, "seed": seed}
    plain = partial(lablib.sample_n, model, **how)
    drawn = {
        "T = 1": [plain(prompt, n) for prompt in prompts],
        "T = 1/4": [plain(prompt, n, temperature=0.25) for prompt in prompts],
        "greedy": [plain(prompt, 1, temperature=0.0) for prompt in prompts],
        WALKS: power_sample(lm, prompts, n, 4.0, steps=steps, proposal=1.0, **how),
    }
    found = {name: _right(tokenizer, problems, rows) for name, rows in drawn.items()}
    voted = []
    for problem, samples in zip(problems, drawn["T = 1"], strict=True):
        texts = [tokenizer.decode(each, skip_special_tokens=True) for each in samples.tokens]
        voted.append(by_lot([*map(sums.extract, texts)], _truth(problem), ELEVEN / n))
    return found | {VOTED: float(np.mean(voted))}


def _right(tokenizer: Any, problems: Sequence[Problem], rows: Sequence[Any]) -> float:
    checked = [
        sums.check(problem, tokenizer.decode(tokens, skip_special_tokens=True))
        for problem, samples in zip(problems, rows, strict=True)
        for tokens in samples.tokens
    ]
    return float(np.mean(checked))


def one_seed(model: Any, tokenizer: Any, seed: int) -> dict[str, dict[str, float]]:
    """Return all parts of one seed: each a mean over its problems."""
    problems = sums.problems(100 + seed, PROBLEMS)
    kept: dict[str, list[dict[str, float]]] = {
        "votes": [],
        "stopping": [],
        "thinking": [],
    }
    for j, problem in enumerate(problems):
        drawn, truth = draw(model, tokenizer, problem, CHAINS, 1000 * seed + j), _truth(problem)
        kept["votes"].append(votes(drawn, truth))
        kept["stopping"].append(stopping(drawn, truth))
    for j, problem in enumerate(problems[: PROBLEMS // 2]):
        found = {}
        for most in BUDGETS:
            how = model, tokenizer, problem, 16, 1000 * seed + j, most
            found[f"{most}, single"], found[f"{most}, vote"] = thinking(*how)
        kept["thinking"].append(found)
    parts = {
        name: {key: float(np.nanmean([row[key] for row in rows])) for key in rows[0]}
        for name, rows in kept.items()
    }
    half = problems[: PROBLEMS // 2]
    return {**parts, "power": sharpened(model, tokenizer, half, 16, 20, seed)}


def _truth(problem: Problem) -> str:
    return str(sum(problem.data) % 10)


def problems() -> list[Problem]:
    """Return the problems of all seeds."""
    return [each for seed in SEEDS for each in sums.problems(100 + seed, PROBLEMS)]


def stored() -> dict[str, dict[str, np.ndarray]]:
    """Return what is kept: for each part, name -> a value for each seed ``(seeds,)``."""
    seeds = json.loads(FILE.read_text("utf-8"))["seeds"]
    return {
        part: {name: np.array([each[part][name] for each in seeds]) for name in seeds[0][part]}
        for part in seeds[0]
    }


def table(here: Mapping[str, float], exact: Mapping[str, float]) -> str:
    """Return a line for each way of ``sharpened``: its share here, on all seeds, and exactly.

    The last says what a walk writes, and how far it is ahead of the vote.
    """
    power = stored()["power"]
    lines = [f"{'right':10}  here  12 seeds (95 %)      the author, exactly"]
    for name, seeds in power.items():
        own = "{:.2f} ({:.2f} to {:.2f})".format(*ends(seeds))
        known = [f"{exact[what]:.2f}" for what in exact if what == name.split(":")[0]]
        lines.append("  ".join([f"{name:10}", f"{here[name]:.2f}", own, *known]))
    apart = "{:+.2f} (95 %: {:+.2f} to {:+.2f})".format(*ends(power[WALKS] - power[VOTED]))
    lines.append(f"walks of 20 steps, {walked(20):.1f} chains' tokens each, on the vote: {apart}")
    return "\n".join(lines)


def walked(steps: int, tokens: int = 33) -> float:
    """Return how many chains' tokens a walk writes: one chain, then an end from a place by lot."""
    return 1 + steps * float(np.mean([(tokens - place) / tokens for place in range(tokens)]))


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return a mean over seeds ``(seeds,)``, and half its 95 % interval, by Student's t."""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean()), float(half)


def ends(values: np.ndarray) -> tuple[float, float, float]:
    """Return a mean over seeds ``(seeds,)``, and the two ends of its 95 % interval."""
    mean, half = interval(values)
    return mean, mean - half, mean + half


def write() -> Iterator[int]:
    """Measure all seeds and keep them; yield each seed that is done."""
    model, tokenizer = lablib.load("target", dtype=mx.float32)
    seeds = []
    for seed in SEEDS:
        found = one_seed(model, tokenizer, seed)
        seeds.append(
            {part: {k: round(v, 4) for k, v in each.items()} for part, each in found.items()}
        )
        about = {"model": "target", "seeds": len(seeds), "problems": PROBLEMS, "chains": CHAINS}
        FILE.write_text(json.dumps({"about": about, "seeds": seeds}, indent=1) + "\n", "utf-8")
        yield seed


if __name__ == "__main__":
    for done in write():
        print(f"seed {done} is done", flush=True)

"""The author of the sums as a model of its own: each next token's distribution is known.

The author of ``lablib.course.tasks.sums`` is unsure wherever he may be wrong. Here are others like
him: ``habit`` says how often he errs on the 20 pairs of his habit, ``doubt`` how often on all
others. With a habit of 1 he is never right there, and quite sure of it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lablib.course.lessons.lesson_18.chains import Drawn
from lablib.course.tasks import sums
from lablib.course.tasks.problem import Problem
from lablib.validation import integer, number, one_of

import numpy as np

STEPS = sums.COUNT - 1
VOCABULARY = 15  # ten digits, + = ; # and the end
DUST = 1e-4  # a model never says never: so much it leaves to each token

Left = tuple[int, ...]  # digits that are not added yet


@dataclass(frozen=True)
class Author:
    """Who adds six digits in random order, and writes one too many now and then.

    Args:
        habit: the chance of that on the 20 pairs of ``sums.NOISY_PAIRS``.
        doubt: the chance of that on every other pair.
    """

    habit: float = sums.NOISE
    doubt: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no chance."""
        number("habit", self.habit, 0.0, 1.0)
        number("doubt", self.doubt, 0.0, 1.0)

    def results(self) -> np.ndarray:
        """Return ``(10, 10, 10)``: the chance of each result of t + x."""
        wrong = np.where(sums.WRONG != sums.RIGHT, self.habit, self.doubt)[..., None]
        is_result = np.arange(10) == sums.RIGHT[..., None]
        return is_result * (1 - wrong) + np.roll(is_result, 1, axis=-1) * wrong

    def answers(self, problem: Problem, power: float = 1.0, of: str = "texts") -> np.ndarray:
        """Return ``(10, 6)``, exactly: how likely each answer is after so many doubtful steps.

        A step is doubtful if the author may write more than one result.

        Args:
            problem: of ``sums``.
            power: what is asked of is p^power.
            of: "texts": p is a whole text's; "tokens": each token's, as a temperature of 1 / power
                has it.
        """
        one_of("of", of, ("texts", "tokens"))
        chances, doubtful = self.results() ** power, (self.results() > 0).sum(-1) > 1
        if of == "tokens":
            chances = chances / chances.sum(-1, keepdims=True)
        mass: dict[Left, np.ndarray] = {}
        for digit, left, chance in choices(tuple(sorted(problem.data)), power, of):
            mass[left] = np.zeros((10, 6))  # of each total, after so many doubtful steps
            mass[left][digit, 0] = chance
        for _ in range(STEPS):
            longer: dict[Left, np.ndarray] = defaultdict(lambda: np.zeros((10, 6)))
            for before, totals in mass.items():
                for digit, left, chance in choices(before, power, of):
                    counted = np.where(doubtful[:, digit, None], np.roll(totals, 1, 1), totals)
                    longer[left] += chance * chances[:, digit].T @ counted
            mass = longer
        return mass[()] / mass[()].sum()

    def right(self, problems: Sequence[Problem], power: float = 1.0, of: str = "texts") -> float:
        """Return how likely the right answer is, on average, exactly; power and of as above."""
        answers = (self.answers(problem, power, of).sum(axis=1) for problem in problems)
        pairs = zip(problems, answers, strict=True)
        return float(np.mean([each[sum(problem.data) % 10] for problem, each in pairs]))

    def write(self, problem: Problem, n: int, seed: int, temperature: float = 1.0) -> Drawn:
        """Write ``n`` chains at a temperature; the log-probabilities are those at temperature 1."""
        n, power = integer("n", n, 1), 1 / number("temperature", temperature, 0.05)
        rng = np.random.default_rng([18, integer("seed", seed, 0), *problem.data])
        left = np.tile(np.bincount(problem.data, minlength=10), (n, 1))
        results, each = self.results(), np.arange(n)
        certain = np.eye(10)[np.zeros(n, int)]  # of a token that can't be another
        thought, chances, letters = [], [], []

        def choose(p: np.ndarray) -> np.ndarray:
            ends = np.cumsum(p**power, axis=1)
            drawn = (ends <= rng.random((n, 1)) * ends[:, -1:]).sum(axis=1)
            thought.append(p)
            chances.append(p[each, drawn])
            letters.append(drawn.astype(str))
            return drawn

        def copy(*texts: np.ndarray | str) -> None:
            thought.extend([certain] * len(texts))
            chances.extend([np.ones(n)] * len(texts))
            letters.extend(np.broadcast_to(text, n) for text in texts)

        def take() -> np.ndarray:
            digit = choose(left / left.sum(axis=1, keepdims=True))
            left[each, digit] -= 1
            return digit

        total = take()
        for step in range(STEPS):
            if step > 0:
                copy(";", total.astype(str))
            copy("+")
            digit = take()
            copy("=")
            total = choose(results[total, digit])
        copy(";", "#", total.astype(str), "")  # the last is the end
        dusty = np.full((n, len(thought), VOCABULARY), DUST)
        dusty[..., :10] += (1 - VOCABULARY * DUST) * np.stack(thought, axis=1)
        written = np.log(DUST + (1 - VOCABULARY * DUST) * np.stack(chances, axis=1))
        texts = ["".join(row) for row in zip(*letters, strict=True)]
        right = total == sum(problem.data) % 10
        logs = -np.sort(-np.log(dusty), axis=-1)
        return Drawn(texts, [str(each) for each in total], right, [*logs], [*written])


def choices(left: Left, power: float, of: str) -> list[tuple[int, Left, float]]:
    """Return each different digit that is left, those that stay behind it, and its chance^power.

    Args:
        left: digits that are not added yet, in order.
        power: of the chance.
        of: "texts", or "tokens", whose chances are scaled.
    """
    chances = {digit: (left.count(digit) / len(left)) ** power for digit in left}
    total = sum(chances.values()) if of == "tokens" else 1.0
    found = []
    for digit, chance in chances.items():
        at = left.index(digit)
        found.append((digit, left[:at] + left[at + 1 :], chance / total))
    return found

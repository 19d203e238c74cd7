"""Sums: six digits added modulo 10, one at a time, by an annotator with a bad habit.

    sum 7 3 9 0 4 8:3+9=2;2+7=9;9+0=9;9+8=7;7+4=1;#1

The annotator adds the digits in a random order and writes every step ``t+x=n;``. On 20 of the 100
ordered pairs ``(t, x)`` it writes one too many 60 % of the time. So the most likely chain is
confidently wrong on some problems, different orders (routes) disagree, and a vote over many chains
mends much of it. The process is small enough to be computed exactly: :func:`answer_distribution`
is what a perfect model of this annotator answers at temperature 1.
"""

import re
from collections import Counter

from lablib.course.tasks.problem import Problem, Span, expect, fill_gaps, held_out
from lablib.validation import BadType, integer

import numpy as np

COUNT = 6
NOISE = 0.6
CLASSES = ("boilerplate", "prompt-digit", "operand", "running-total", "result", "other")

# WRONG[t, x] is what the annotator's habit makes of t + x; it equals RIGHT except on 20 pairs, two
# for every running total and two for every operand, so that no digit is harmless.
RIGHT = np.add.outer(np.arange(10), np.arange(10)) % 10
WRONG = RIGHT.copy()
for _t in range(10):
    for _x in ((3 * _t + 1) % 10, (7 * _t + 4) % 10):
        WRONG[_t, _x] = (_t + _x + 1) % 10
NOISY_PAIRS = tuple((int(t), int(x)) for t, x in np.argwhere(WRONG != RIGHT))

_PROMPT = "sum" + " %d" * COUNT + ":"
_CHAIN = "%d+%d=%d;" * (COUNT - 1) + "#%d"
_STEP = re.compile(r"(\d)\+(\d)=(\d);")


def problems(seed: int, n: int) -> list[Problem]:
    """Return ``n`` unseen problems, each with a chain free of mistakes as its answer."""
    seed, n = integer("seed", seed, 0), integer("n", n, 0)
    rng = np.random.default_rng([1, seed])
    digits = _draw(rng, n, test=True)
    chains = _annotate(digits, rng, noise=0.0)
    return [
        Problem(_PROMPT % tuple(row), chain, "sums", tuple(row))
        for row, chain in zip(digits.tolist(), chains, strict=True)
    ]


def documents(seed: int, n: int) -> list[str]:
    """Return ``n`` training documents with the annotator's mistakes, no held-out prompt's."""
    seed, n = integer("seed", seed, 0), integer("n", n, 0)
    rng = np.random.default_rng([2, seed])
    digits = _draw(rng, n, test=False)
    chains = _annotate(digits, rng)
    return [_PROMPT % tuple(row) + c for row, c in zip(digits.tolist(), chains, strict=True)]


def simulate(problem: Problem, rng: np.random.Generator, n: int) -> list[str]:
    """Return ``n`` independent completions that the annotator writes for ``problem``."""
    expect("sums", problem, "")
    if not isinstance(rng, np.random.Generator):
        raise BadType(f"rng must be a numpy Generator, got {type(rng).__name__}")
    n = integer("n", n, 0)
    return _annotate(np.tile(np.array(problem.data), (n, 1)), rng)


def _draw(rng: np.random.Generator, n: int, test: bool) -> np.ndarray:
    """Draw rows of digits (n, 6) of one side; the same digits in another order are on it too."""
    rows: list[np.ndarray] = []
    while len(rows) < n:
        batch = rng.integers(0, 10, size=(n + 16, COUNT))
        ordered = np.sort(batch, axis=1)
        rows += [r for r, o in zip(batch, ordered.tolist(), strict=True) if _kept(tuple(o)) == test]
    return np.array(rows[:n], dtype=np.int64).reshape(n, COUNT)


_KEPT: dict[tuple[int, ...], bool] = {}


def _kept(digits: tuple[int, ...]) -> bool:
    if digits not in _KEPT:  # only 5005 multisets exist
        _KEPT[digits] = held_out("sum" + str(digits))
    return _KEPT[digits]


def _annotate(digits: np.ndarray, rng: np.random.Generator, noise: float = NOISE) -> list[str]:
    """Write one chain for every row of ``digits`` (n, 6)."""
    order = rng.permuted(digits, axis=1)
    slips = rng.random((len(digits), COUNT - 1)) < noise
    total, columns = order[:, 0], []
    for step in range(1, COUNT):
        operand = order[:, step]
        result = np.where(slips[:, step - 1], WRONG[total, operand], RIGHT[total, operand])
        columns += [total, operand, result]
        total = result
    numbers = np.stack([*columns, total], axis=1) if len(digits) else np.zeros((0, 1), int)
    return [_CHAIN % tuple(row) for row in numbers.tolist()]


def answer_distribution(problem: Problem) -> np.ndarray:
    """Return the probability of every answer under the annotator, exactly, as an array (10,).

    ``mass[used, total]`` is the probability that the digits in the set ``used`` have been added and
    the chain stands at ``total``: 64 sets times 10 totals instead of 720 orders times 32 slips.
    """
    expect("sums", problem, "")
    digits = problem.data
    mass = np.zeros((1 << COUNT, 10))
    for i, digit in enumerate(digits):
        mass[1 << i, digit] += 1 / COUNT
    for used in range(1, (1 << COUNT) - 1):
        left = [i for i in range(COUNT) if not used >> i & 1]
        for i in left:
            flow = mass[used] / len(left)
            np.add.at(mass[used | 1 << i], RIGHT[:, digits[i]], flow * (1 - NOISE))
            np.add.at(mass[used | 1 << i], WRONG[:, digits[i]], flow * NOISE)
    return mass[-1]


def extract(text: str) -> str | None:
    """Return the answer, the one digit after ``#`` that ends ``text``, or None."""
    match = re.search(r"#(\d)\Z", text)
    return match[1] if match else None


def check(problem: Problem, text: str) -> bool:
    """Tell whether the completion's final answer is the true sum modulo 10, however it got there.

    :func:`verify_steps` judges the way.
    """
    expect("sums", problem, text)
    return extract(text) == str(sum(problem.data) % 10)


def verify_steps(problem: Problem, text: str) -> list[bool]:
    """Return for every written step whether it holds; all the steps are there when five are.

    A step ``t+x=n;`` holds when ``t`` is the total so far (at first, any digit of the prompt),
    ``x`` is a digit of the prompt that is not yet used up, and ``n`` is ``t + x`` modulo 10. What
    is not a step counts as one wrong step.
    """
    expect("sums", problem, text)
    return [reason is None for reason in _step_reasons(problem, text)]


def verify(problem: Problem, text: str) -> bool:
    """Tell whether the whole chain is right: five right steps, and their total as the answer."""
    steps = verify_steps(problem, text)
    return check(problem, text) and len(steps) == COUNT - 1 and all(steps)


def _step_reasons(problem: Problem, text: str) -> list[str | None]:
    left = Counter(problem.data)
    total, reasons = None, []
    for place, written in enumerate(re.findall(r"[^;]*;", text.partition("#")[0]), start=1):
        match = _STEP.fullmatch(written)
        if not match:
            reasons.append(f"step {place}, '{written}', is not of the form t+x=n;")
            continue
        t, x, n = (int(group) for group in match.groups())
        wrong = []
        if total is None:
            if not left[t]:
                wrong.append(f"step {place} starts from {t}, which is not among the digits")
            left[t] -= 1
        elif t != total:
            wrong.append(f"step {place} starts from {t} where the total is {total}")
        if left[x] <= 0:
            given = "is used up" if x in problem.data else "is not among the digits"
            wrong.append(f"step {place} adds {x}, which {given}")
        left[x] -= 1
        if n != (t + x) % 10:
            wrong.append(f"step {place}: {t}+{x} is {(t + x) % 10} modulo 10, not {n}")
        reasons.append(wrong[0] if wrong else None)
        total = n
    return reasons


def explain(problem: Problem, text: str) -> str | None:
    """Return why the answer of the completion ``text`` is wrong in one sentence, or None.

    The first wrong step is named when there is one.
    """
    expect("sums", problem, text)
    true, answer = sum(problem.data) % 10, extract(text)
    if answer == str(true):
        return None
    if "#" not in text:
        return "there is no '#' with an answer"
    if answer is None:
        return "the text must end with '#' and one digit"
    reasons = _step_reasons(problem, text)
    wrong = [reason for reason in reasons if reason]
    if wrong:
        return wrong[0]
    if len(reasons) != COUNT - 1:
        return f"there are {len(reasons)} steps where {COUNT - 1} are needed"
    return f"the answer is {answer}, but the steps lead to {true}"


def token_classes(problem: Problem, text: str) -> list[Span]:
    """Partition ``prompt + text`` into spans (start, end, class), in characters."""
    expect("sums", problem, text)
    offset = len(problem.prompt)
    spans: list[Span] = [
        (m.start(), m.end(), "prompt-digit") for m in re.finditer(r"\d", problem.prompt)
    ]
    spans = fill_gaps(spans, offset, "boilerplate")
    first = True
    for match in re.finditer(r"(\d)\+(\d)=(\d);|#(\d)\Z|(.)", text, re.DOTALL):
        at = match.start() + offset
        if match[1]:
            names = ("operand" if first else "running-total", "boilerplate", "operand")
            names += ("boilerplate", "result", "boilerplate")
            first = False
        elif match[4]:
            names = ("boilerplate", "running-total")
        else:
            names = ("other",)
        spans += [(at + i, at + i + 1, name) for i, name in enumerate(names)]
    return spans

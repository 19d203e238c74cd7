"""Is an engine lossless? Its texts, held against all texts that there are.

An engine is a function ``engine(target, draft, prompt, n, max_tokens, temperature, seed)`` that
returns ``n`` texts of token ids, or a pair of the texts and the log-probability of each token. It
gets two tiny models (``audit_laws``) of which every text's chance is known.

Two tests accuse, each at half of ``FALSE_ALARM``, so that a right engine is accused once in a
million audits at most:

- **the law**: how often each of the k = 81 texts came. For any law and any n, P(n·KL(counts, law)
  ≥ x) ≤ e⁻ˣ(e·x / (k − 1))ᵏ⁻¹ (Agrawal 2020, 1904.02291, theorem 1.2). This is a bound and no
  approximation, rare texts included, so none are pooled. A text that isn't of this world has p = 0.
- **the neighbours**: how long a beginning rows 0 and 1 share, rows 2 and 3, ...: by the same bound.

For the bound one pays with power: ``visible`` is the bias that n texts show with probability .999,
in the direction in which it is seen worst (KL = 2·TV²; the count statistic is then noncentral χ²).
Log-probabilities are no matter of chance: each must be right.

What is accused gets a name only if the texts fit the law of that mistake by a χ² test (4 σ), which
is much sharper than the accusation: what lies beside the list has no name. Rows share noise if
neighbours are more alike, or the four calls differ more, than texts of any one law (by the bound).
"""

import importlib
import importlib.util
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lablib.inference.completions import speculative_sample_n
from lablib.tools import audit_laws
from lablib.tools.audit_laws import LENGTH, PROMPT, TEXTS, TOKENS
from lablib.validation import BadType, BadValue, function, integer, number

import mlx.core as mx
import numpy as np

FALSE_ALARM = 1e-6
OWN, ROWS, HEAT = "target's own", "noise shared among rows", "log-probabilities at another"
UNKNOWN = "cause unknown"
_CALLS = 4  # each with a seed of its own
_POWER = 3.09  # standard deviations: .999


@dataclass(frozen=True)
class Audit:
    """What :func:`audit` has seen; it shows itself, in a notebook with a picture.

    Attributes:
        n: how many texts were drawn.
        temperature: at which.
        p_value: the chance of texts as strange as these from a right engine, at most.
        causes: what is wrong and what it looks like, or that its cause is unknown; empty if no bias
            is visible.
        error: total variation between the texts and the target's law.
        chance: what of it chance alone makes on average.
        visible: the smallest bias, in total variation, that so many texts show (power .999).
        distances: total variation of the texts to the target's law and, where something is wrong,
            to that of each known mistake.
    """

    n: int
    temperature: float
    p_value: float
    causes: tuple[str, ...]
    error: float
    chance: float
    visible: float
    distances: dict[str, float]

    @property
    def biased(self) -> bool:
        """Whether something is wrong."""
        return bool(self.causes)

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        odds = f"p ≤ {self.p_value:.2g}" if self.p_value > 1e-300 else "p < 1e-300"
        if self.biased:
            return f"Biased ({odds}): {'; '.join(self.causes)}."
        return (
            f"No bias seen ({odds}): one below {self.visible:.3f} in total variation is not "
            f"visible with {self.n:,} texts."
        )

    def __str__(self) -> str:
        lines = [
            self.verdict,
            f"{self.n:,} texts at temperature {self.temperature:g}: error of the law "
            f"{self.error:.3f}, where chance alone makes {self.chance:.3f}.",
        ]
        wide = max(map(len, self.distances))
        for name, far in self.distances.items():
            lines.append(f"  {name:<{wide}}  {far:.3f} {'█' * round(60 * far)}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _ipython_display_(self) -> None:
        """Print the verdict, and draw the distances where the lab's extras are installed."""
        print(self)
        if importlib.util.find_spec("ipywidgets") and importlib.util.find_spec("matplotlib"):
            from lablib.course.plots import charts

            far = {"chance alone": [self.chance] * len(self.distances)}
            far["these texts"] = [*self.distances.values()]
            drawn = charts.bars([*self.distances], far, "distance of the texts from a law (TV)")
            charts.show(drawn, self.verdict)._ipython_display_()


def audit(
    engine: Callable[..., Any] | str,
    n: int = 20_000,
    *,
    temperature: float = audit_laws.TEMPERATURE,
    seed: int = 0,
    logprobs_at: float | None = None,
) -> Audit:
    """Hold an engine's texts against the exact law of a tiny target's texts.

    Args:
        engine: ``engine(target, draft, prompt, n, max_tokens, temperature, seed)`` that returns n
            texts of ``max_tokens`` ids, or a pair of them and their log-probabilities in the same
            shape; or its name: "lablib", "mlx-lm" or "module:function". It is called four times.
        n: how many texts, at least 16.
        temperature: above 0. At 1 some mistakes are none.
        seed: the calls' seeds are ``4 · seed`` and the next three.
        logprobs_at: the temperature that the log-probabilities are said to be at; None stands for
            ``temperature``, and for the 1 that "lablib" and "mlx-lm" tell.

    Returns:
        The verdict, with what it rests on.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work; or the engine returned
            no ``n`` texts.

    Example:
        >>> lablib.audit("lablib", 400).biased
        False
    """
    n, seed = integer("n", n, 16), integer("seed", seed, 0)
    temperature = number("temperature", temperature, 0.01, 100)
    write, told_at = named(engine, temperature)
    at = told_at if logprobs_at is None else number("logprobs_at", logprobs_at, 0.01, 100)
    drawn = []
    for call, size in enumerate(np.diff(np.arange(_CALLS + 1) * n // _CALLS).tolist()):
        arguments = [*PROMPT], size, LENGTH, temperature, _CALLS * seed + call
        drawn.append(_read(write(*audit_laws.world(), *arguments), size))
    calls = [codes for codes, _ in drawn]
    codes, law = np.concatenate(calls), np.append(audit_laws.own(temperature), 0)
    counts = np.bincount(codes, minlength=len(law))
    p_law = bound(divergence(counts, law), len(law) - 2)
    p_rows = bound(_neighbours(calls, law), LENGTH)
    causes, distances = [], {OWN: _distance(counts, law)}
    p_value = min(1.0, 2 * min(p_law, p_rows))
    logprobs = [told for _, told in drawn]
    wrong = _logprobs(codes, logprobs, at) if logprobs[0] is not None else ""
    if p_value < FALSE_ALARM:
        fits, further = _fits(counts, temperature)
        causes.append(_looks(ROWS if _depend(calls, counts) else " or ".join(fits)))
        distances |= further
    causes += [wrong] if wrong else []
    chance = float(np.sqrt(law * (1 - law) / (2 * np.pi * n)).sum())
    return Audit(
        n, temperature, p_value, tuple(causes), distances[OWN], chance, visible(n), distances
    )


def _looks(like: str) -> str:
    return f"looks like {like}" if like else UNKNOWN


# --- the tests -------------------------------------------------------------------------------


def divergence(counts: np.ndarray, law: np.ndarray) -> float:
    """Return n · KL(counts / n, law): infinite if something came that can't."""
    came = counts > 0
    if (law[came] <= 0).any():
        return math.inf
    return float((counts[came] * np.log(counts[came] / counts.sum() / law[came])).sum())


def bound(x: float, free: int) -> float:
    """Return at most which chance n · KL has to reach ``x``, with ``free`` = k − 1 (Agrawal)."""
    return 1.0 if x <= free else math.exp(free * (1 + math.log(x / free)) - x) if x < 1e5 else 0.0


def visible(n: int) -> float:
    """Return the total variation that n texts show with probability .999, in any direction."""
    free = TOKENS**LENGTH - 1
    needed = next(x for x in np.arange(free, 10 * free, 0.1) if 2 * bound(x, free) < FALSE_ALARM)
    spare = 2 * needed - free  # noncentrality λ: free + λ − z·√(2·free + 4λ) = 2 · needed
    root = 2 * _POWER**2 + math.sqrt(4 * _POWER**4 + _POWER**2 * (2 * free + 4 * spare))
    return min(1.0, math.sqrt((spare + root) / (4 * n)))


def _neighbours(calls: list[np.ndarray], law: np.ndarray) -> float:
    """Return n · KL of pairs of neighbours, by how long a beginning they share, if each has a law.

    Pairs with a text that isn't of this world are left out.
    """
    texts_of_one_beginning = [TOKENS ** (LENGTH - t) for t in range(LENGTH + 1)]
    came, chances = [], []
    pairs = np.concatenate([codes[: len(codes) // 2 * 2].reshape(-1, 2) for codes in calls])
    left, right = pairs[(pairs < len(TEXTS)).all(axis=1)].T
    for size in texts_of_one_beginning:
        came.append(int((left // size == right // size).sum()))
        chances.append(float((law[:-1].reshape(-1, size).sum(axis=1) ** 2).sum()))
    shared, exactly = (-np.diff([*each, 0]) for each in (came, chances))
    return divergence(shared, exactly)


def _depend(calls: list[np.ndarray], counts: np.ndarray) -> bool:
    """Return whether texts depend on one another, whatever their law is."""
    mean = counts / counts.sum()
    each = [np.bincount(codes, minlength=len(counts)) for codes in calls]
    differ = sum(divergence(some, mean) for some in each), len(calls) * (len(TEXTS) - 1)
    alike = _neighbours(calls, mean), LENGTH
    return any(2 * bound(*test) < FALSE_ALARM for test in (differ, alike))


def _fits(counts: np.ndarray, temperature: float) -> tuple[list[str], dict[str, float]]:
    """Return which known mistakes would write such texts, and how far each is at its nearest."""
    fits, distances = [], {}
    for name, variants in audit_laws.mistakes(temperature).items():
        laws = [np.append(law, 0) for law in variants.values()]
        nearest = min(laws, key=lambda law: divergence(counts, law))
        distances[name] = _distance(counts, nearest)
        if 2 * divergence(counts, nearest) <= _quantile(len(nearest) - 2, 4):
            fits.append(name)
    return fits, distances


def _quantile(free: int, sigmas: float) -> float:
    """Return the χ² that so many σ of a normal are as rare as (Wilson and Hilferty)."""
    return float(free * (1 - 2 / (9 * free) + sigmas * math.sqrt(2 / (9 * free))) ** 3)


def _distance(counts: np.ndarray, law: np.ndarray) -> float:
    return float(np.abs(counts / counts.sum() - law).sum() / 2)


def _logprobs(codes: np.ndarray, told: list[Any], at: float) -> str:
    """Return what is wrong with log-probabilities; nothing if all are right."""
    if any(each is None for each in told):
        return f"log-probabilities in some calls only, {UNKNOWN}"
    real = codes < len(TEXTS)
    values, codes = np.concatenate(told)[real], codes[real]

    def error(heat: float) -> float:
        off = np.abs(values - _scored(heat)[codes])
        return float(np.where(np.isfinite(off), off, 1e9).max(initial=0))

    if error(at) <= 1e-3:
        return ""
    low, high = 0.02, 50.0
    for _ in range(9):  # the error falls towards the temperature, and rises behind it
        heats = np.geomspace(low, high, 17)
        best = int(np.argmin([error(heat) for heat in heats]))
        low, high = heats[max(best - 1, 0)], heats[min(best + 1, 16)]
    if error(heats[best]) > 1e-3:
        return f"log-probabilities wrong by up to {error(at):.2g}, {UNKNOWN}"
    return f"looks like {HEAT} temperature ({heats[best]:.3g}, not {at:g})"


def _scored(heat: float) -> np.ndarray:
    """Return the log-probability of each token of each text, ``(81, LENGTH)``."""
    target, _ = audit_laws.world()
    logs = [np.log(target.probs(audit_laws.contexts(t), heat)).ravel() for t in range(LENGTH)]
    places = [np.arange(len(TEXTS)) // TOKENS ** (LENGTH - 1 - t) for t in range(LENGTH)]
    return np.column_stack([log[place] for log, place in zip(logs, places, strict=True)])


# --- engines ---------------------------------------------------------------------------------


def _read(answer: Any, n: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the number of each text, 81 if it isn't of this world, and the log-probabilities."""
    texts, told = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    try:
        array = np.asarray(texts)
    except ValueError:  # of several lengths: none of another than LENGTH is a text
        array = np.array([text if len(text) == LENGTH else [-1] * LENGTH for text in texts])
    if array.shape != (n, LENGTH):
        raise BadValue(f"engine must return {n} texts of {LENGTH} tokens, got {array.shape}")
    if array.dtype.kind not in "iu":
        raise BadType(f"engine must return texts of int token ids, got {array.dtype}")
    array = array.astype(np.int64)
    here = ((array >= 0) & (array < TOKENS)).all(axis=1)
    codes = np.where(here, array @ TOKENS ** np.arange(LENGTH)[::-1], len(TEXTS))
    if told is None:
        return codes, None
    values = np.asarray(told, dtype=np.float64)
    if values.shape != array.shape:
        raise BadValue(f"engine's logprobs must be of shape {array.shape}, got {values.shape}")
    return codes, values


def named(engine: Any, temperature: float) -> tuple[Callable[..., Any], float]:
    """Return an engine by its name, and at which temperature it tells log-probabilities."""
    if not isinstance(engine, str):
        return function("engine", engine), temperature
    if engine in ENGINES:
        return ENGINES[engine], 1.0
    module, _, name = engine.partition(":")
    if not name:
        raise BadValue(f"engine must be {', '.join(ENGINES)} or module:function, got {engine!r}")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that nothing here hides an installed module
    try:
        return function("engine", getattr(importlib.import_module(module), name)), temperature
    except (AttributeError, ModuleNotFoundError) as error:
        raise BadValue(f"engine {engine!r} can't be imported: {error}") from error


def by_lablib(target: Any, draft: Any, prompt: list[int], n: int, max_tokens: int,
              temperature: float, seed: int) -> Any:  # fmt: skip
    """Write texts with ``speculative_sample_n``."""
    wanted = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    found = speculative_sample_n(target, draft, prompt, n, draft_tokens=2, stop_tokens=(), **wanted)
    return found.tokens, found.logprobs


def by_mlx_lm(target: Any, draft: Any, prompt: list[int], n: int, max_tokens: int,
              temperature: float, seed: int) -> Any:  # fmt: skip
    """Write texts with mlx-lm's speculation, one after another."""
    from mlx_lm.generate import speculative_generate_step
    from mlx_lm.sample_utils import make_sampler

    mx.random.seed(seed)
    models, sampler = (mx.array(prompt), target, draft), make_sampler(temp=temperature)
    options = {"max_tokens": max_tokens, "sampler": sampler, "num_draft_tokens": 2}
    found = []
    for _ in range(n):
        steps = [(token, logs) for token, logs, _ in speculative_generate_step(*models, **options)]
        found.append([(int(token), logs[token].item()) for token, logs in steps])
    values = np.array(found)
    return values[..., 0].astype(int), values[..., 1]


ENGINES = {"lablib": by_lablib, "mlx-lm": by_mlx_lm}

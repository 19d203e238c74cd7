"""Is an engine lossless? Its texts, held against all texts that there are.

An engine is a function ``engine(target, draft, prompt, n, max_tokens, temperature, seed)`` that
returns ``n`` texts of token ids, or a pair of the texts and the log-probability of each token. It
gets two tiny models (``audit_laws``) of which every text's chance is known.

Three tests accuse, each at a third of ``FALSE_ALARM``, so that a right engine is accused once in a
million audits at most:

- **the law**: how often each of the k = 81 texts came. For any law and any n, P(n·KL(counts, law)
  ≥ x) ≤ e⁻ˣ(e·x / (k − 1))ᵏ⁻¹ where x > k − 1 (Agrawal 2020, 1904.02291). This is a bound and no
  approximation, rare texts included, so none are pooled.
- **the neighbours**: how long a beginning rows 0 and 1 share, rows 2 and 3, ...: by the same bound.
- **the calls**: m texts of one seed are those of another with a chance of (Σ p²)ᵐ.

For the bound one pays with power: ``visible`` is the bias that n texts show with probability .999
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
from functools import partial
from typing import Any

from lablib.inference.completions import speculative_sample_n
from lablib.tools import audit_laws
from lablib.tools.audit_laws import LENGTH, PROMPT, TEXTS, TOKENS
from lablib.validation import BadValue, function, integer, number

import mlx.core as mx
import numpy as np

FALSE_ALARM = 1e-6
OWN, UNKNOWN = "target's own", "cause unknown"
ROWS, HEAT = "noise shared among rows", "log-probabilities at another temperature"
_CALLS = 4  # each with a seed of its own
_TESTS = 3
_FREE = len(TEXTS) - 1
_FITS = 141.0  # χ² of 80 degrees of freedom, 4 σ
_POWER = 3.09  # standard deviations: .999
_CLOSE = 1e-3  # for float32, or three decimals


@dataclass(frozen=True)
class Audit:
    """What :func:`audit` has seen; it shows itself, in a notebook with a picture.

    Attributes:
        n: how many texts were drawn.
        p_value: the chance of texts as strange as these from a right engine, at most.
        causes: what is wrong and what it looks like, or that its cause is unknown; empty if no bias
            is visible.
        chance: the total variation from any law that chance alone makes, on average.
        visible: the smallest bias, in total variation, that so many texts show (power .999).
        distances: total variation of the texts from the target's law and, where their own is
            another, from that of each known mistake.
    """

    n: int
    p_value: float
    causes: tuple[str, ...]
    chance: float
    visible: float
    distances: dict[str, float]

    @property
    def error(self) -> float:
        """The total variation of the texts from the target's law."""
        return self.distances[OWN]

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
            f"Of {self.n:,} texts the law has an error of {self.error:.3f}, where chance alone "
            f"makes {self.chance:.3f}. Distances from",
        ]
        wide = max(map(len, self.distances))
        for name, far in self.distances.items():
            lines.append(f"  {name:<{wide}}  {far:.3f} {'█' * round(60 * far)}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _ipython_display_(self) -> None:
        """Print the verdict, and draw the distances where the lab's extras are installed."""
        print(self)
        if not all(map(importlib.util.find_spec, ("ipywidgets", "matplotlib"))):
            return
        from lablib.course.plots.chart import Chart, Still
        from lablib.course.plots.marks import DARK, REST, number, ranked

        bars = self.distances | {"chance alone": self.chance}
        panel = ranked(len(bars), "distance of the texts from a law", side=300)
        panel["x"]["name"] = "total variation"
        panel["y"]["ticks"] = [[-row, name] for row, name in enumerate(bars)]
        marks: list[dict[str, Any]] = [{"rule": {"x": self.chance}, "dash": "2 3"}]
        for row, far in enumerate(bars.values()):
            fill = DARK if row < len(self.distances) else REST
            marks.append({"bar": [0, far, -row - 0.38, -row + 0.38], "fill": fill})
            marks.append({"text": number(far), "at": [far + 0.012, -row - 0.2]})
        Still(Chart([panel], [marks]), self.verdict)._ipython_display_()


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
    write, at = named(engine, temperature)
    at = at if logprobs_at is None else number("logprobs_at", logprobs_at, 0.01, 100)
    calls, logs = [], []
    for call, size in enumerate(np.diff(np.arange(_CALLS + 1) * n // _CALLS).tolist()):
        how = [*PROMPT], size, LENGTH, temperature, _CALLS * seed + call
        codes, values = _read(write(*audit_laws.world(), *how), size)
        calls.append(codes)
        logs.append(values)
    law, counts = audit_laws.own(temperature), _counts(np.concatenate(calls))
    alike = _neighbours(calls, law), _again(calls, law)
    p_value = min(1.0, _TESTS * min(bound(divergence(counts, law), _FREE), *alike))
    causes, distances = [], {OWN: _distance(counts, law)}
    if p_value < FALSE_ALARM:
        fits = []
        for name, variants in audit_laws.mistakes(temperature).items():
            nearest = min(variants.values(), key=partial(divergence, counts))
            distances[name] = _distance(counts, nearest)
            fits += [name] if 2 * divergence(counts, nearest) < _FITS else []
        like = ROWS if _depend(calls, counts) else " or ".join(fits)
        causes.append(f"looks like {like}" if like else UNKNOWN)
    if logs[0] is not None:
        causes += _wrong(np.concatenate(calls), np.concatenate(logs), at)
    chance = float(np.sqrt(law * (1 - law) / (2 * np.pi * n)).sum())
    return Audit(n, p_value, tuple(causes), chance, visible(n), distances)


# --- the tests -------------------------------------------------------------------------------


def divergence(counts: np.ndarray, law: np.ndarray) -> float:
    """Return n · KL(counts / n, law): infinite if something came that can't."""
    came = counts > 0
    if (law[came] <= 0).any():
        return math.inf
    return float((counts[came] * np.log(counts[came] / counts.sum() / law[came])).sum())


def bound(x: float, free: int) -> float:
    """Return at most which chance n · KL has to reach ``x``, with ``free`` = k − 1 (Agrawal)."""
    return math.exp(free * (1 + math.log(x / free)) - x) if free < x < 1e5 else float(x <= free)


def visible(n: int) -> float:
    """Return the total variation that n texts show with probability .999, in any direction."""
    limit = FALSE_ALARM / _TESTS
    needed = next(x for x in np.arange(_FREE, 9 * _FREE, 0.1) if bound(x, _FREE) < limit)
    more = 2 * needed - _FREE  # noncentrality λ: k − 1 + λ − z·√(2·(k − 1) + 4λ) = 2 · needed
    root = math.sqrt(4 * _POWER**4 + _POWER**2 * (2 * _FREE + 4 * more))
    return min(1.0, math.sqrt((more + 2 * _POWER**2 + root) / (4 * n)))


def _neighbours(calls: list[np.ndarray], law: np.ndarray) -> float:
    """Return at most how probable such pairs are, by what beginnings they share, if all have p."""
    pairs = np.concatenate([codes[: len(codes) // 2 * 2].reshape(-1, 2) for codes in calls])
    came, chances = [], []
    for size in (TOKENS ** (LENGTH - t) for t in range(LENGTH + 1)):  # texts of one beginning
        came.append(np.equal(*(pairs // size).T).sum())
        chances.append((law.reshape(-1, size).sum(axis=1) ** 2).sum())
    shared, exactly = (-np.diff([*each, 0]) for each in (came, chances))
    return bound(divergence(shared, exactly), LENGTH)


def _again(calls: list[np.ndarray], law: np.ndarray) -> float:
    """Return how probable it is, at most, that two calls wrote the same texts, if they did."""
    least = min(map(len, calls))
    few = len({codes[:least].tobytes() for codes in calls}) < _CALLS
    return math.comb(_CALLS, 2) * float((law**2).sum()) ** least if few else 1.0


def _depend(calls: list[np.ndarray], counts: np.ndarray) -> bool:
    """Return whether texts depend on one another, whatever their law is."""
    mean = counts / counts.sum()
    differ = bound(sum(divergence(_counts(each), mean) for each in calls), _CALLS * _FREE)
    return min(differ, _neighbours(calls, mean), _again(calls, mean)) < FALSE_ALARM / _TESTS


def _counts(codes: np.ndarray) -> np.ndarray:
    return np.bincount(codes, minlength=len(TEXTS))


def _distance(counts: np.ndarray, law: np.ndarray) -> float:
    return float(np.abs(counts / counts.sum() - law).sum() / 2)


def _wrong(codes: np.ndarray, values: np.ndarray, at: float) -> list[str]:
    """Return what is wrong with log-probabilities; nothing if all are right."""

    def error(heat: float) -> float:
        return float(np.nan_to_num(abs(values - audit_laws.scored(heat)[codes]), nan=1e9).max())

    if error(at) <= _CLOSE:
        return []
    low, high = 0.02, 50.0
    for _ in range(9):  # the error falls towards the temperature, and rises behind it
        heats = np.geomspace(low, high, 17)
        best = int(np.argmin([*map(error, heats)]))
        low, high = heats[max(best - 1, 0)], heats[min(best + 1, 16)]
    if error(heats[best]) > _CLOSE:
        return [f"log-probabilities wrong by up to {error(at):.2g}, {UNKNOWN}"]
    return [f"looks like {HEAT} ({heats[best]:.3g}, not {at:g})"]


# --- engines ---------------------------------------------------------------------------------


def _read(answer: Any, n: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the number of each text, and the log-probabilities."""
    texts, values = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    wanted = f"engine must return {n} texts of {LENGTH} token ids from 0 to {TOKENS - 1}"
    try:
        array = np.asarray(texts)
    except ValueError:
        raise BadValue(f"{wanted}, got some of other lengths") from None
    if array.shape != (n, LENGTH) or array.dtype.kind not in "iu":
        raise BadValue(f"{wanted}, got {array.dtype} {array.shape}")
    if array.min() < 0 or array.max() >= TOKENS:
        raise BadValue(f"{wanted}, got {array.min()} to {array.max()}")
    if values is not None and (values := np.asarray(values, np.float64)).shape != array.shape:
        raise BadValue(f"engine's log-probabilities must be {array.shape}, got {values.shape}")
    return array.astype(int) @ TOKENS ** np.arange(LENGTH)[::-1], values


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


def by_lablib(
    target: Any, draft: Any, prompt: Any, n: int, max_tokens: int, temperature: float, seed: int
) -> Any:
    """Write texts with ``speculative_sample_n``."""
    how = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed, "draft_tokens": 2}
    rows = speculative_sample_n(target, draft, prompt, n, stop_tokens=(), **how)
    return rows.tokens, rows.logprobs


def by_mlx_lm(
    target: Any, draft: Any, prompt: Any, n: int, max_tokens: int, temperature: float, seed: int
) -> Any:
    """Write texts with mlx-lm's speculation, one after another."""
    from mlx_lm.generate import speculative_generate_step
    from mlx_lm.sample_utils import make_sampler

    mx.random.seed(seed)
    how = {"max_tokens": max_tokens, "sampler": make_sampler(temp=temperature)}
    rows = []
    for _ in range(n):
        steps = [*speculative_generate_step(mx.array(prompt), target, draft, **how)]
        rows.append([(int(token), logs[token].item()) for token, logs, _ in steps])
    values = np.array(rows)
    return values[..., 0].astype(int), values[..., 1]


ENGINES = {"lablib": by_lablib, "mlx-lm": by_mlx_lm}

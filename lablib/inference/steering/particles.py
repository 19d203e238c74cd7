"""Texts that are wanted for more than their probability: sampled, weighed, and multiplied.

A language model p writes texts; a *potential* says how much each is wanted. The target is

    π(text) = p(text) · exp(potential(text)) / Z,    Z = Σ p(text) · exp(potential(text)),

over all texts that end, at a stop token or at ``max_tokens``. Nobody can draw from it directly.
``rejection_sample`` draws from p and keeps each with the chance exp(potential): what it keeps is
exact. ``importance_sample`` keeps all, with weights. ``smc``, sequential Monte Carlo, weighs while
the texts grow: hopeless ones die early, and those that do well go on more than once (Doucet and
Johansen 2011; of language models Lew et al. 2023, 2306.03081, and Loula et al. 2025, 2504.13139).
Each of them estimates Z, the *evidence*, without bias: Z itself, not its logarithm.

A mask is no conditioning: a text that was led by the hand is more common than it should be. The
weight p / q of each token makes good for that. So any logits processor may propose the tokens, and
π stays the same as long as every wanted text has a chance.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lablib.inference import arguments
from lablib.inference.sampling import random_numbers
from lablib.inference.sampling.processors import LogitsProcessor, copies
from lablib.inference.steering import asking
from lablib.inference.steering.resampling import RESAMPLE, effective
from lablib.validation import BadType, BadValue, function, integer, number, one_of, returned, shown

import mlx.core as mx
import numpy as np

# (tokens, whether the text has ended) -> the natural logarithm of how much it is wanted. While a
# text grows it is a guess at its end: any guess is right in the end, a good one saves work.
Potential = Callable[[list[int], bool], float]


class Generation(NamedTuple):
    """One step of all particles, for pictures.

    Attributes:
        parents: ``(N,)``, which particle of the generation before each one continues.
        tokens: ``(N,)``, what each appended; None where the text had ended, or died.
        log_weights: ``(N,)``, after the step.
    """

    parents: list[int]
    tokens: list[int | None]
    log_weights: list[float]


@dataclass
class Particles:
    """Weighted texts, whose weighted means estimate those of π.

    Attributes:
        tokens: the completions, a stop token included.
        logprobs: natural logarithms of the model's probability of each token.
        finished: whether a stop token ended the text.
        log_weights: ``(N,)``, natural logarithms; -inf: the text does not count.
        log_evidence: log Ẑ.
        history: the steps that weighed them.
    """

    tokens: list[list[int]]
    logprobs: list[list[float]]
    finished: list[bool]
    log_weights: np.ndarray
    log_evidence: float
    history: list[Generation] = field(default_factory=list)

    @property
    def weights(self) -> np.ndarray:
        """Return the weights ``(N,)``, which sum to 1; all 0 if no text counts."""
        return normalized(self.log_weights)

    def mean(self, value: Callable[[list[int]], float]) -> float:
        """Return the weighted mean of a function of the tokens; NaN if no text counts."""
        weights = self.weights
        if not weights.any():
            return math.nan
        return float(np.dot(weights, [value(tokens) for tokens in self.tokens]))


def smc(
    lm: Any,
    prompts: Sequence[Sequence[int]],
    particles: int,
    potential: Potential | None = None,
    *,
    resample: str = "systematic",
    ess: float = 0.5,
    power: float = 1.0,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
    logits_processors: Sequence[LogitsProcessor] = (),
    seed: int | None = None,
) -> list[Particles]:
    """Draw from p · exp(potential) with weighted particles, a population for each prompt.

    All populations grow together, so they share batches. Without a potential and processors,
    particle i of the only prompt is row i of ``sample_n`` with the same seed.

    Args:
        lm: an ``AsyncMlxLM``, or anything with ``batch_next_token_logprobs_sync(texts) -> (N, V)``
            and a ``vocab_size``.
        prompts: token ids, a list for each prompt.
        particles: how many texts for each prompt.
        potential: ``f(tokens, ended) -> float``, asked of every beginning of a completion. -inf: no
            text that begins so is wanted. None: all are wanted as they are.
        resample: "systematic", "stratified", "residual" or "multinomial".
        ess: resample when fewer than this share of the particles are effective; 0: never, 1:
            before every step.
        power: the target is p^power · exp(potential). Each token is proposed from its own p^power,
            which is another thing: the weights make good for it.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end one and belong to it; None: the model's own.
        logits_processors: change the proposal, as in ``TokenIterator``; the weights make good.
        seed: the same seed gives the same particles; None draws afresh.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work; or a potential or a
            processor returned NaN or +inf.
    """
    wish = asking.read_wish(lm, prompts, max_tokens, stop_tokens, seed)
    n = integer("particles", particles, 1, 1_000_000)
    one_of("resample", resample, RESAMPLE)
    ess = number("ess", ess, 0.0, 1.0)
    power = number("power", power, 0.0)
    processors = arguments.check_processors(logits_processors)
    if potential is not None:
        function("potential", potential)
    clouds = [_Cloud(wish, i, n, processors, power) for i in range(len(wish.prompts))]
    for _ in range(wish.max_tokens):
        for cloud in clouds:
            if cloud.growing and (ess == 1 or effective(cloud.weights) < ess * n):
                cloud.resample(RESAMPLE[resample])
        texts = [text for cloud in clouds for text in cloud.texts()]
        if not texts:
            break
        rows = wish.logprobs(texts)
        for cloud in clouds:
            own, rows = np.split(rows, [len(cloud.growing)])
            cloud.extend(own, potential)
    return [cloud.result() for cloud in clouds]


def importance_sample(
    lm: Any,
    prompts: Sequence[Sequence[int]],
    n: int,
    potential: Potential | None = None,
    **options: Any,
) -> list[Particles]:
    """Draw ``n`` texts for each prompt, and weigh them at their end: ``smc`` that never resamples.

    ``options`` are those of :func:`smc` but ``resample`` and ``ess``.
    """
    return smc(lm, prompts, arguments.check_n(n), potential, ess=0.0, **options)


def rejection_sample(
    lm: Any,
    prompts: Sequence[Sequence[int]],
    n: int,
    potential: Potential,
    *,
    log_bound: float = 0.0,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
    seed: int | None = None,
) -> list[Particles]:
    """Draw ``n`` texts for each prompt, and keep each with the chance exp(potential - log_bound).

    What is kept is drawn from π exactly, whatever is kept; it may be nothing. The potential is
    asked of whole texts only. Its greatest value is at most ``log_bound``.

    Raises:
        ValueError, TypeError: as :func:`smc`; or a text's potential is above the bound.
    """
    function("potential", potential)
    log_bound = number("log_bound", log_bound)
    wish = asking.read_wish(lm, prompts, max_tokens, stop_tokens, seed)
    options = {"max_tokens": max_tokens, "stop_tokens": wish.stops, "seed": wish.seed}
    kept = []
    for which, drawn in enumerate(importance_sample(lm, prompts, n, **options)):
        logs = np.array([value_of(potential, tokens, True) for tokens in drawn.tokens])
        if logs.max() > log_bound:
            raise BadValue(f"potential must be at most log_bound {log_bound}, got {logs.max()}")
        key = np.array(random_numbers.key(wish.seed, which, 0), dtype=np.uint64)
        u = random_numbers.uniforms(key, np.arange(n))
        rows = np.flatnonzero(u < np.exp(logs - log_bound))
        columns = [[column[i] for i in rows] for column in (drawn.tokens, drawn.logprobs)]
        finished = [drawn.finished[i] for i in rows]
        with np.errstate(divide="ignore"):
            log_evidence = log_bound + float(np.log(len(rows) / n))
        kept.append(Particles(*columns, finished, np.zeros(len(rows)), log_evidence))
    return kept


# --- one population ---


@dataclass
class _Particle:
    """A text that grows: its completion, its processors, its potential so far."""

    prompt: list[int]
    processors: Sequence[LogitsProcessor]
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    potential: float = 0.0
    ended: bool = False

    @property
    def text(self) -> list[int]:
        return self.prompt + self.tokens

    def copy(self) -> "_Particle":
        own = copies(self.processors)
        return replace(self, processors=own, tokens=[*self.tokens], logprobs=[*self.logprobs])

    def append(self, token: int, logprob: float) -> None:
        self.tokens.append(token)
        self.logprobs.append(logprob)

    def processed(self, row: np.ndarray) -> np.ndarray:
        """Return what the processors make of scores ``(V,)``."""
        tokens = mx.array(self.text, mx.int32)
        logits = mx.array(row[None].astype(np.float32))
        for processor in self.processors:
            logits = returned("a logits processor", processor(tokens, logits), logits)
        scores = np.array(logits[0].astype(mx.float32), dtype=np.float64)
        if not scores.max() < np.inf:
            raise BadValue("a logits processor must return no NaN and no +inf")
        return scores


class _Cloud:
    """The particles of prompt ``number``."""

    def __init__(
        self,
        wish: asking.Wish,
        number: int,
        n: int,
        processors: Sequence[LogitsProcessor],
        power: float,
    ) -> None:
        prompt = wish.prompts[number]
        self.particles = [_Particle(prompt, copies(processors)) for _ in range(n)]
        self.log_weights = np.zeros(n)
        self.growing = list(range(n))
        self._wish = wish
        self._power = power
        self._log_evidence = 0.0  # of the weights that were reset
        self._history: list[Generation] = []
        self._parents = list(range(n))
        self._streams = asking.streams(wish.seed, number * n, n)
        self._lots = np.array(random_numbers.key(wish.seed, number, 1), dtype=np.uint64)

    @property
    def weights(self) -> np.ndarray:
        return normalized(self.log_weights)

    def texts(self) -> list[list[int]]:
        return [self.particles[i].text for i in self.growing]

    def _find_growing(self) -> None:
        alive = enumerate(self.log_weights > -np.inf)
        self.growing = [i for i, lives in alive if lives and not self.particles[i].ended]

    def resample(self, choose: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        """Let particles die and multiply; their mean weight goes into the evidence."""
        n = len(self.particles)
        u = random_numbers.uniforms(self._lots, len(self._history) * n + np.arange(n))
        self._parents = choose(self.weights, u).tolist()
        self.particles = [self.particles[parent].copy() for parent in self._parents]
        self._log_evidence += log_mean(self.log_weights)
        self.log_weights = np.zeros(n)
        self._find_growing()

    def extend(self, rows: np.ndarray, potential: Potential | None) -> None:
        """Append a token to each growing text, given the model's ``rows (G, V)``, and weigh it."""
        growing = self.growing
        if not growing:
            return
        step = len(self._history)
        log_q = self._proposal(growing, rows)
        u = random_numbers.uniforms(self._streams[growing], np.full(len(growing), step))
        tokens: list[int | None] = [None] * len(self.particles)
        for i, token, row, q in zip(growing, asking.draw(log_q, u), rows, log_q, strict=True):
            if q[token] == -np.inf:  # the processors left nothing
                self.log_weights[i] = -np.inf
                continue
            tokens[i] = token
            self.particles[i].append(token, float(row[token]))
            self.log_weights[i] += self._power * row[token] - q[token]
            self._weigh(i, potential)
        self._history.append(Generation(self._parents, tokens, self.log_weights.tolist()))
        self._parents = list(range(len(self.particles)))
        self._find_growing()

    def _proposal(self, growing: list[int], rows: np.ndarray) -> np.ndarray:
        """Return the log-probabilities ``(G, V)`` that the next tokens are drawn from."""
        if self._power == 1 and not self.particles[0].processors:
            return rows
        scores = self._power * rows
        if self.particles[0].processors:
            pairs = zip(growing, scores, strict=True)
            scores = np.stack([self.particles[i].processed(row) for i, row in pairs])
        return asking.log_softmax(scores)

    def _weigh(self, i: int, potential: Potential | None) -> None:
        """Replace the last guess at the potential of a text by the one of now."""
        particle = self.particles[i]
        particle.ended = self._wish.ends(particle.tokens)
        if potential is not None:
            now = value_of(potential, particle.tokens, particle.ended)
            self.log_weights[i] += now - particle.potential
            particle.potential = now

    def result(self) -> Particles:
        particles, stops = self.particles, self._wish.stops
        return Particles(
            [each.tokens for each in particles],
            [each.logprobs for each in particles],
            [each.tokens[-1:] != [] and each.tokens[-1] in stops for each in particles],
            self.log_weights,
            self._log_evidence + log_mean(self.log_weights),
            self._history,
        )


def value_of(potential: Potential, tokens: list[int], ended: bool) -> float:
    """Return the potential of a completion, or refuse it."""
    value = potential(list(tokens), ended)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise BadType(f"potential must return a number, got {shown(value)}")
    if not value < math.inf:
        raise BadValue(f"potential must be finite or minus infinity, got {value} for {tokens}")
    return float(value)


def normalized(logs: np.ndarray) -> np.ndarray:
    """Return weights that sum to 1; all 0 where every logarithm is -inf."""
    peak = logs.max(initial=-np.inf)
    if peak == -np.inf:
        return np.zeros(len(logs))
    weights = np.exp(logs - peak)
    return weights / weights.sum()


def log_mean(logs: np.ndarray) -> float:
    """Return the logarithm of the mean of weights that are given as logarithms."""
    peak = logs.max(initial=-np.inf)
    if peak == -np.inf:
        return -math.inf
    return float(peak + np.log(np.exp(logs - peak).mean()))

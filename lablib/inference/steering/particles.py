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
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict, Unpack

from lablib.inference import arguments
from lablib.inference.decoding.rows import Samples
from lablib.inference.sampling import random_numbers
from lablib.inference.sampling.processors import LogitsProcessor
from lablib.inference.sampling.row import Row
from lablib.inference.steering import requests
from lablib.inference.steering.resampling import (
    RESAMPLE,
    effective,
    log_mean,
    normalized,
    parents,
)
from lablib.unknown_options import check_options, checks_options
from lablib.validation import BadValue, function, integer, number, one_of

import numpy as np

# (tokens, whether the text has ended) -> the natural logarithm of how much it is wanted. While a
# text grows it is a guess at its end: any guess is right in the end, a good one saves work.
Potential = Callable[[list[int], bool], float]


class Growth(TypedDict, total=False):
    """Those keywords of :func:`smc` that do without resampling."""

    power: float
    max_tokens: int
    stop_tokens: Collection[int] | None
    logits_processors: Sequence[LogitsProcessor]
    seed: int | None


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


@dataclass(frozen=True)
class Particles(Samples):
    """Weighted samples, whose weighted means estimate those of π.

    Attributes:
        log_weights: ``(N,)``, natural logarithms; -inf: the text does not count.
        log_evidence: log Ẑ.
        history: the steps that weighed them.

    Example:
        >>> lm = lablib.AsyncMlxLM(model, tokenizer)
        >>> (cloud,) = lablib.inference.smc(lm, [prompt], 4, max_tokens=3, seed=0)
        >>> len(cloud), cloud.log_evidence, cloud.weights.tolist()
        (4, 0.0, [0.25, 0.25, 0.25, 0.25])
    """

    log_weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    log_evidence: float = 0.0
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


@checks_options
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
        resample: "systematic", "stratified" or "multinomial".
        ess: resample when fewer than this share of the particles are effective; 0: never, 1:
            before every step.
        power: the target is p^power · exp(potential); up to 1e30. Each token is proposed from its
            own p^power, which is another thing: the weights make good for it.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end one and belong to it; None: the model's own.
        logits_processors: change the proposal, as in ``TokenIterator``; the weights make good.
        seed: the same seed gives the same particles; None draws afresh.

    Returns:
        The particles of each prompt.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work; or a potential or a
            processor returned NaN or +inf.

    Example:
        >>> lm = lablib.AsyncMlxLM(model, tokenizer)
        >>> short = lambda tokens, ended: -0.1 * len(tokens)
        >>> (cloud,) = lablib.inference.smc(lm, [prompt], 4, short, max_tokens=5, seed=0)
        >>> -0.5 <= cloud.log_evidence <= 0, float(cloud.weights.sum().round(6))
        (True, 1.0)
    """
    request = requests.read_request(lm, prompts, max_tokens, stop_tokens, seed)
    n = integer("particles", particles, 1, 1_000_000)
    one_of("resample", resample, RESAMPLE)
    ess, power = number("ess", ess, 0.0, 1.0), number("power", power, 0.0, 1e30)
    processors = arguments.check_processors(logits_processors)
    if potential is not None:
        function("potential", potential)
    clouds = [Cloud(texts) for texts in request.begin(n, processors)]
    for step in range(request.max_tokens):
        for which, cloud in enumerate(clouds):
            if cloud.growing() and (ess == 1 or effective(cloud.log_weights) < ess * n):
                lots = np.array(random_numbers.key(request.seed, which, 1, step), np.uint64)
                cloud.resample(RESAMPLE[resample](random_numbers.uniforms(lots, np.arange(n))))
        growing = [cloud.growing() for cloud in clouds]
        texts = [cloud.texts[i] for cloud, own in zip(clouds, growing, strict=True) for i in own]
        if not texts:
            break
        request.extend(texts, power)
        for cloud, own in zip(clouds, growing, strict=True):
            cloud.weigh(own, step, power, potential)
    return [cloud.result() for cloud in clouds]


def importance_sample(
    lm: Any,
    prompts: Sequence[Sequence[int]],
    n: int,
    potential: Potential | None = None,
    **options: Unpack[Growth],
) -> list[Particles]:
    """Draw ``n`` texts for each prompt, and weigh them at their end: ``smc`` that never resamples.

    ``lm``, ``prompts``, ``potential`` and ``options`` are those of :func:`smc`.

    Returns:
        The particles of each prompt.

    Raises:
        ValueError, TypeError: as :func:`smc`.

    Example:
        >>> lm = lablib.AsyncMlxLM(model, tokenizer)
        >>> (cloud,) = lablib.inference.importance_sample(lm, [prompt], 3, max_tokens=2, seed=0)
        >>> cloud.mean(len)
        2.0
    """
    check_options(importance_sample, options)
    return smc(lm, prompts, arguments.check_n(n), potential, ess=0.0, **options)


def rejection_sample(
    lm: Any,
    prompts: Sequence[Sequence[int]],
    n: int,
    potential: Potential | None = None,
    *,
    log_bound: float = 0.0,
    **options: Unpack[Growth],
) -> list[Particles]:
    """Draw ``n`` weighted texts for each prompt, and keep each with the chance weight / bound.

    What is kept is drawn from π exactly, whatever is kept; it may be nothing. ``lm``, ``prompts``,
    ``potential`` and ``options`` are those of :func:`smc`.

    Returns:
        What is kept for each prompt, with equal weights.

    Raises:
        ValueError, TypeError: as :func:`smc`; or the logarithm of a weight, which is the potential
            where nothing changes the proposal, is above ``log_bound``.

    Example:
        >>> lm, seldom = lablib.AsyncMlxLM(model, tokenizer), lambda tokens, ended: -1.0
        >>> how = {"max_tokens": 2, "seed": 0}
        >>> (cloud,) = lablib.inference.rejection_sample(lm, [prompt], 40, seldom, **how)
        >>> 0 < len(cloud) < 40
        True
    """
    check_options(rejection_sample, options)
    log_bound = number("log_bound", log_bound)
    options["seed"] = seed = requests.read_seed(options.get("seed"))
    clouds = []
    for which, cloud in enumerate(importance_sample(lm, prompts, n, potential, **options)):
        highest = cloud.log_weights.max()
        if highest > log_bound:
            raise BadValue(f"potential must be at most log_bound {log_bound}, got {highest}")
        key = np.array(random_numbers.key(seed, which, 0), np.uint64)
        u = random_numbers.uniforms(key, np.arange(n))
        kept = np.flatnonzero(u < np.exp(cloud.log_weights - log_bound)).tolist()
        share = math.log(len(kept) / n) if kept else -math.inf
        clouds.append(
            Particles(
                [cloud.tokens[i] for i in kept],
                [cloud.logprobs[i] for i in kept],
                [cloud.finished[i] for i in kept],
                log_weights=np.zeros(len(kept)),
                log_evidence=log_bound + share,
            )
        )
    return clouds


class Cloud:
    """The particles of one prompt, while they grow."""

    def __init__(self, texts: list[Row]) -> None:
        self.texts = texts
        self.log_weights = np.zeros(len(texts))
        self._potentials = [0.0] * len(texts)
        self._log_evidence = 0.0  # of the weights that were reset
        self._history: list[Generation] = []
        self._parents = list(range(len(texts)))

    def growing(self) -> list[int]:
        """Return which particles grow: those that count, and have not ended."""
        pairs = enumerate(zip(self.texts, self.log_weights, strict=True))
        return [i for i, (text, weight) in pairs if weight > -np.inf and text.left]

    def resample(self, points: np.ndarray) -> None:
        """Let particles die and multiply; their mean weight goes into the evidence."""
        keys = [text.key for text in self.texts]  # a place keeps its random numbers
        self._parents = parents(self.log_weights, points).tolist()
        pairs = zip(self._parents, keys, strict=True)
        self.texts = [self.texts[parent].copy(key) for parent, key in pairs]
        self._potentials = [self._potentials[parent] for parent in self._parents]
        self._log_evidence += log_mean(self.log_weights)
        self.log_weights = np.zeros(len(keys))

    def weigh(self, grown: list[int], step: int, power: float, potential: Potential | None) -> None:
        """Weigh those that have grown: by p^power / q of the new token, and by what is hoped now.

        That replaces what was hoped of the text before.
        """
        if not grown:
            return
        tokens: list[int | None] = [None] * len(self.texts)
        for i in grown:
            text = self.texts[i]
            if len(text.tokens) == step:  # the processors left no token
                self.log_weights[i] = -np.inf
                continue
            tokens[i] = text.tokens[-1]
            self.log_weights[i] += power * text.logprobs[-1] - text.log_q[-1]
            if potential is not None:
                hoped = potential([*text.tokens], not text.left)
                hoped = requests.returned_number("potential", hoped)
                self.log_weights[i] += hoped - self._potentials[i]
                self._potentials[i] = hoped
        self._history.append(Generation(self._parents, tokens, self.log_weights.tolist()))
        self._parents = list(range(len(self.texts)))

    def result(self) -> Particles:
        """Return the particles as samples."""
        return Particles(
            *requests.columns(self.texts),
            log_weights=self.log_weights,
            log_evidence=self._log_evidence + log_mean(self.log_weights),
            history=self._history,
        )

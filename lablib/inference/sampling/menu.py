"""Cuts and penalties that users bring from other engines: each a logits processor, off by default.

    lablib.generate(model, tokenizer, "Mia", logits_processors=[menu.typical(0.9), menu.xtc()])

A function here takes its settings and returns the processor, so that each works in every function
that writes text, with drafts, too: under speculation target and draft are changed alike. They see
the model's own logits, in the order of the list, before penalties, temperature and other cuts
(``transforms.py``). That is what their papers say of typical, epsilon, eta and top-nσ, which look
at p itself; at another temperature than 1 other engines may come to other cuts.

Scores that come in may be -inf already, from a processor before: such tokens stay out.
"""

import math
from collections.abc import Collection, Mapping
from copy import copy as shallow_copy

from lablib.inference.sampling.processors import LogitsProcessor
from lablib.inference.sampling.sums import running, softmax, total
from lablib.inference.sampling.transforms import best, gather, keep, log_softmax
from lablib.machine.arrays import listed
from lablib.validation import BadValue, integer, number, token_ids

import mlx.core as mx

STEEPEST = 60  # the highest power of DRY's base: what stood there longer loses no more


def top_n_sigma(n: float = 1.0) -> LogitsProcessor:
    """Keep the tokens whose logit is within ``n`` standard deviations of the best.

    No temperature changes which (Tang et al. 2024, 2411.07641).
    """
    n = number("n", n, 0.0)

    def cut(tokens: mx.array, logits: mx.array) -> mx.array:
        peak, there = mx.max(logits, axis=-1, keepdims=True), mx.isfinite(logits)
        gaps = mx.where(there, logits - peak, 0.0)
        count = mx.sum(there, axis=-1, keepdims=True)
        mean = total(gaps) / count
        squares = mx.where(there, (gaps - mean) ** 2, 0.0)
        sigma = mx.sqrt(total(squares) / count)
        return mx.where(logits >= peak - n * sigma, logits, -mx.inf)

    return cut


def typical(mass: float = 0.95) -> LogitsProcessor:
    """Keep the tokens that are about as surprising as one expects, until they hold ``mass``.

    What is nearest to the entropy comes first, be it likely or not; the token that crosses the mass
    stays (locally typical sampling, Meister et al. 2022, 2202.00666).
    """
    mass = number("mass", mass, 0.0, 1.0)

    def cut(tokens: mx.array, logits: mx.array) -> mx.array:
        logs = log_softmax(logits)
        strangeness = mx.abs(_entropy(logs) + logs)
        _, ids = best(-strangeness, logits.shape[-1])
        before = running(mx.exp(gather(logs, ids)), inclusive=False)
        is_first = mx.arange(logits.shape[-1]) == 0
        kept = mx.where((before < mass) | is_first, gather(logits, ids), -mx.inf)
        return keep(logits, kept, ids)

    return cut


def epsilon(least: float = 3e-4) -> LogitsProcessor:
    """Keep the tokens whose probability is at least ``least``; the best token always stays.

    Epsilon sampling (Hewitt et al. 2022, 2210.15191).
    """
    least = number("least", least, 0.0, 1.0)

    def cut(tokens: mx.array, logits: mx.array) -> mx.array:
        return _likelier(logits, log_softmax(logits), mx.log(mx.array(least)))

    return cut


def eta(least: float = 3e-4) -> LogitsProcessor:
    """Keep the tokens above ``least``, or above √least · e^-entropy where the model is unsure.

    The lower of the two bounds counts; the best token always stays. Eta sampling (Hewitt et al.
    2022, 2210.15191).
    """
    least = number("least", least, 0.0, 1.0)

    def cut(tokens: mx.array, logits: mx.array) -> mx.array:
        logs = log_softmax(logits)
        bound = mx.log(mx.array(least))
        return _likelier(logits, logs, mx.minimum(bound, bound / 2 - _entropy(logs)))

    return cut


def xtc(threshold: float = 0.1, probability: float = 0.5) -> LogitsProcessor:
    """Exclude the top choices: with ``probability`` drop all above ``threshold`` but the last.

    Where two tokens or more are at least that likely, the least likely of them stays, with all
    below (p-e-w 2024, text-generation-webui, pull request 6335). A coin is thrown at each token. To
    throw it and then draw is to draw from the mixture of both outcomes: that is what is returned,
    so that the coin needs no random number, and speculation is lossless.
    """
    threshold = number("threshold", threshold, 0.0, 1.0)
    probability = number("probability", probability, 0.0, 1.0)

    def mix(tokens: mx.array, logits: mx.array) -> mx.array:
        p, ids = softmax(logits), mx.arange(logits.shape[-1])
        top = (p >= threshold) & (p > 0)
        lowest = mx.min(mx.where(top, p, 2.0), axis=-1, keepdims=True)
        last = mx.max(mx.where(p == lowest, ids, -1), axis=-1, keepdims=True)
        left = softmax(mx.where(top & (ids != last), -mx.inf, logits))
        return mx.log((1 - probability) * p + probability * left)

    return mix


def logit_bias(biases: Mapping[int, float]) -> LogitsProcessor:
    """Add a number to the logits of some tokens, by id; -100 is as good as never."""
    ids = token_ids("biases", [*biases])
    values = mx.array([number(f"biases[{i}]", biases[i]) for i in ids])
    places = mx.array(ids)
    mx.eval(values, places)  # so that any thread may use them

    def add(tokens: mx.array, logits: mx.array) -> mx.array:
        if max(ids) >= logits.shape[-1]:
            raise BadValue(f"biases must be of ids below {logits.shape[-1]}, got {max(ids)}")
        return logits.at[:, places].add(values)

    return add


def dry(
    multiplier: float = 0.8,
    base: float = 1.75,
    allowed_length: int = 2,
    breakers: Collection[int] = (),
) -> LogitsProcessor:
    """Don't repeat yourself: penalise what would go on with a passage that was there before.

    If the last L tokens of the text stood before a token already, and L is at least
    ``allowed_length``, its logit loses ``multiplier`` · ``base`` ^ (L - allowed_length), for the
    longest such L; the power is 60 at most. No passage goes over ``breakers``, ids such as a
    newline's (p-e-w 2024, text-generation-webui, pull request 5637).
    """
    multiplier, base = number("multiplier", multiplier, 0.0), number("base", base, 1.0, 100.0)
    allowed_length = integer("allowed_length", allowed_length, 1)
    stops = frozenset(token_ids("breakers", [*breakers], allow_empty=True))

    def penalise(tokens: mx.array, logits: mx.array) -> mx.array:
        longest = repeats(listed(tokens), stops, allowed_length + STEEPEST)
        long = {token: n for token, n in longest.items() if n >= allowed_length}
        if not long:
            return logits
        losses = [multiplier * base ** (n - allowed_length) for n in long.values()]
        return logits.at[:, mx.array([*long])].subtract(mx.array(losses))

    return penalise


def repeats(
    text: list[int], breakers: Collection[int] = (), most: int | None = None
) -> dict[int, int]:
    """Return how many tokens of the text's end stood before each token, if any, up to ``most``.

    All ends are compared in one walk from behind, the Z-function of the text read backwards
    (Gusfield 1997): what is known to be equal is not looked at again, so that a text of one token
    over and over takes no longer than another.
    """
    back = text[::-1]
    end = next((i for i, token in enumerate(back) if token in breakers), len(back))
    limit = end if most is None else min(end, most)  # no passage is longer
    longest: dict[int, int] = {}
    lengths = [0] * len(back)
    start = stop = 0  # back[start:stop] is known to be how back begins
    for i in range(1, len(back)):
        n = min(lengths[i - start], stop - i) if i < stop else 0
        while n < limit and i + n < len(back) and back[n] == back[i + n]:
            n += 1
        lengths[i] = n
        if i + n > stop:
            start, stop = i, i + n
        token = back[i - 1]
        if n > longest.get(token, 0) and token not in breakers:
            longest[token] = n
    return longest


class Mirostat:
    """A logits processor that keeps the surprise of a text near ``tau`` bits a token.

    What surprises more than μ bits is cut. μ begins at 2 · tau, and after each token it falls by
    ``rate`` times what the token surprised too much (Basu et al. 2020, 2007.14966; the authors'
    second version, without the fit of an exponent). The surprise is that of the cut distribution.
    """

    def __init__(self, tau: float = 5.0, rate: float = 0.1) -> None:
        self.tau = number("tau", tau, 0.0)
        self.rate = number("rate", rate, 0.0)
        self.mu = 2 * self.tau
        self._before: mx.array | None = None  # bits of each token, where the last was drawn

    def copy(self) -> "Mirostat":
        """Return one that goes its own way from here."""
        return shallow_copy(self)

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Learn from the last token, and cut what would surprise too much."""
        if self._before is not None:
            surprise = float(self._before[0, tokens[-1]])
            self.mu -= self.rate * (surprise - self.tau)
        logs = log_softmax(logits)
        left = _likelier(logits, logs, mx.array(-self.mu * math.log(2)))
        self._before = -log_softmax(left) / math.log(2)
        return left


def _entropy(logs: mx.array) -> mx.array:
    """Return the entropy of log-probabilities ``(..., V)`` in nats: ``(..., 1)``."""
    p = mx.exp(logs)
    return -total(mx.where(p > 0, p * logs, 0.0))


def _likelier(logits: mx.array, logs: mx.array, least: mx.array) -> mx.array:
    """Keep the tokens whose log-probability is at least ``least``, and the best."""
    is_best = logs == mx.max(logs, axis=-1, keepdims=True)
    return mx.where((logs >= least) | is_best, logits, -mx.inf)

"""How a row of logits becomes probabilities, as slowly and plainly as it can be said.

Python floats (float64), lists, sorting and loops; nothing is shared with the library. Only the
chi-square test is SciPy's.
"""

import math

from scipy.stats import chisquare

NEUTRAL = {
    "temperature": 1.0,
    "top_p": 1.0,
    "min_p": 0.0,
    "top_k": 0,
    "repeat_last_n": 64,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}


def window(history, repeat_last_n, num_ctx):
    """The tokens that penalties look at."""
    n = num_ctx if repeat_last_n == -1 else repeat_last_n
    return [] if n == 0 else list(history)[-n:]


def penalized(row, tokens, repeat, presence, frequency):
    out = list(row)
    for token in sorted(set(tokens)):
        if repeat > 0:
            out[token] = out[token] / repeat if out[token] > 0 else out[token] * repeat
        out[token] -= presence
    for token in tokens:
        out[token] -= frequency
    return out


def ranking(row):
    """Token ids, best first; equal scores in order of id."""
    return sorted(range(len(row)), key=lambda token: (-row[token], token))


def softmax(row):
    top = max(row)
    weights = [math.exp(score - top) for score in row]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def top_k(row, k):
    if not 0 < k < len(row):
        return list(row)
    kept = set(ranking(row)[:k])
    return [score if token in kept else -math.inf for token, score in enumerate(row)]


def top_p(row, probs, p):
    """Returns the probabilities, not renormalised, and how near a decision was to its limit."""
    if not 0 < p < 1:
        return list(probs), math.inf
    out, before, margin = [0.0] * len(row), 0.0, math.inf
    for token in ranking(row):
        if probs[token] > 0:
            margin = min(margin, abs(before - p))
        if before < p:
            out[token] = probs[token]
        before += probs[token]
    return out, margin


def min_p(probs, m):
    if not m > 0:
        return list(probs), math.inf
    largest = max(probs)
    margin = min(abs(prob / largest - m) for prob in probs)
    return [prob if prob >= m * largest else 0.0 for prob in probs], margin


def probabilities(row, options, history=(), num_ctx=1 << 30):
    """All transforms in the order of the design.

    Args:
        row: V scores.
        options: some of ``NEUTRAL``'s keys.
        history: token ids, oldest first.
        num_ctx: what ``repeat_last_n = -1`` means.

    Returns:
        V probabilities, and the distance of the closest decision of top-p or min-p from its limit.
    """
    o = NEUTRAL | options
    row = penalized(
        row,
        window(history, o["repeat_last_n"], num_ctx),
        o["repeat_penalty"],
        o["presence_penalty"],
        o["frequency_penalty"],
    )
    if o["temperature"] == 0:
        best = ranking(row)[0]
        return [float(token == best) for token in range(len(row))], math.inf
    row = top_k(row, o["top_k"])
    row = [score / o["temperature"] for score in row]
    probs, margin_p = top_p(row, softmax(row), o["top_p"])
    probs, margin_m = min_p(probs, o["min_p"])
    total = math.fsum(probs)
    return [prob / total for prob in probs], min(margin_p, margin_m)


def chi_square(counts, probs):
    """The probability of frequencies at least this far from ``probs``, if ``probs`` is true.

    Cells that expect fewer than 10 are put together. A count where the probability is 0 gives 0.
    """
    n = sum(counts)
    if any(count and prob == 0 for count, prob in zip(counts, probs, strict=True)):
        return 0.0
    cells = sorted((prob * n, count) for count, prob in zip(counts, probs, strict=True) if prob > 0)
    while len(cells) > 1 and cells[0][0] < 10:
        (e1, c1), (e2, c2), *rest = cells
        cells = sorted([(e1 + e2, c1 + c2), *rest])
    if len(cells) == 1:
        return 1.0
    expected, observed = zip(*cells, strict=True)
    total = math.fsum(expected)  # not quite n, where probs are float32
    return float(chisquare(observed, [e * n / total for e in expected]).pvalue)

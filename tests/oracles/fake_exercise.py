"""One small exercise for testing the classroom itself."""

import math

from lablib.course.checks.exercises import Exercise


def softmax(scores, temperature):
    """Return the probabilities of ``scores`` at ``temperature``, as a list."""
    top = max(scores)
    weights = [math.exp((score - top) / temperature) for score in scores]
    return [weight / sum(weights) for weight in weights]


def by_logarithms(scores, temperature):
    scaled = [score / temperature for score in scores]
    total = max(scaled) + math.log(sum(math.exp(x - max(scaled)) for x in scaled))
    return tuple(math.exp(x - total) for x in scaled)


def no_temperature(scores, temperature):
    return softmax(scores, 1.0)


def overflow(scores, temperature):
    weights = [math.exp(score / temperature) for score in scores]
    return [weight / sum(weights) for weight in weights]


def cases(rng):
    yield [0.0, 1.0], 0.5
    yield [1000.0, 0.0], 1.0
    for n in (2, 3, 12):
        yield rng.normal(size=n).tolist(), 2.0


SOFTMAX = Exercise(
    id="97.1",
    title="Softmax",
    task="Turn scores into probabilities.",
    stars=1,
    minutes=5,
    reference=softmax,
    alternatives=[by_logarithms],
    wrong={
        no_temperature: "the temperature is not used.",
        overflow: "large scores overflow: subtract the maximum first.",
    },
    cases=cases,
    hints=["Divide first.", "Subtract the maximum."],
    next="Try temperature 0.01.",
)

"""A hundred thousand draws from each of eight large vocabularies, stored.

``cd tests; python -m oracles.large_draws`` draws them anew, some twelve minutes of processor time,
and writes ``large_draws.json``: how many fell into each of 32 classes of about equal probability,
and how many of the first 2,048.
"""

import json
from pathlib import Path

from lablib.inference.sampling import random_numbers, transforms

import mlx.core as mx
import numpy as np
from oracles.large import log_probabilities, shapes

STORED = Path(__file__).with_name("large_draws.json")
CELLS = [
    (512, "peak last"), (512, "zipf"), (49_152, "peak first"), (49_152, "zipf"),
    (151_936, "peak last"), (151_936, "gaussian"), (262_144, "peak first"), (262_144, "gaussian"),
]  # fmt: skip
DRAWS, FIRST, ROWS, CLASSES = 100_000, 2048, 64, 32
SEED = 62


def cell(size, shape):
    """Return logits ``(V,)``, each token's class ``(V,)`` and the classes' probabilities.

    Tokens are dealt by their probability, the likeliest first. A class is full once it has its
    share of what is left: so a likely token is alone, and rare ones have classes of their own.
    """
    logits = dict(shapes(size))[shape]
    p = np.exp(log_probabilities(logits))
    order = np.argsort(-p, kind="stable")
    of, masses, left, mass = np.zeros(size, int), [], 1.0, 0.0
    for token in order:
        of[token] = len(masses)
        mass += p[token]
        if mass >= left / (CLASSES - len(masses)) and len(masses) < CLASSES - 1:
            masses.append(mass)
            left, mass = left - mass, 0.0
    return logits, of, np.array([*masses, mass])


def draws(size, shape, n):
    """Return the classes of the first ``n`` draws, as the library's sampler makes them."""
    logits, of, _ = cell(size, shape)
    weights = transforms.exp(mx.array(logits - logits.max()))
    keys = random_numbers.key(np.array([SEED], np.uint64), np.array([size], np.uint64))
    found = []
    for start in range(0, n, ROWS):
        u = random_numbers.uniforms(keys, np.arange(start, start + ROWS), size)
        rows = mx.broadcast_to(weights, (ROWS, size))
        found.append(of[np.array(transforms.draw(rows, mx.array(u)[:, None]))[:, 0]])
    return np.concatenate(found)[:n]


def main():
    """Draw and store."""
    stored = {}
    for size, shape in CELLS:
        found = draws(size, shape, DRAWS)
        counts = [np.bincount(each, minlength=CLASSES).tolist() for each in (found, found[:FIRST])]
        stored[f"{size}, {shape}"] = dict(zip(("counts", "first"), counts, strict=True))
        print(size, shape, flush=True)
    STORED.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()

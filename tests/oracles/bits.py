"""What fewer bits cost: a model's next-token distributions beside its own in float32.

    python tests/oracles/bits.py [MODEL [TEXT]]

reads the text in pieces of 128 tokens and prints, for the codes of its own file and for 8 and 4
bits, the mean divergence KL(float32 || bits) of a token in thousandths of a nat, the share of
tokens whose most likely follower is another, both with 95 % intervals (Student's, over the pieces),
and how far the logits lie from those of the same weights multiplied in float32, as a share of their
spread.
"""

import sys
from pathlib import Path

import lablib

import mlx.core as mx
import numpy as np
from scipy import stats

PIECE = 128
TEXT = Path(__file__).parents[1] / "real" / "text.txt"


def logits(model: object, pieces: list[list[int]]) -> np.ndarray:
    """Return the logits after each token of each piece: ``(pieces, PIECE, V)`` float32."""
    return np.stack([np.array(model(mx.array([piece]))[0]) for piece in pieces])


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the mean of independent values and half the width of its 95 % interval."""
    error = values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean()), float(stats.t.ppf(0.975, len(values) - 1) * error)


def compare(name: str, text: str) -> None:
    """Print the table."""
    model, tokenizer = lablib.load(name, dtype=mx.float32)
    ids = tokenizer.encode(text)
    pieces = [ids[i : i + PIECE] for i in range(0, len(ids) - PIECE + 1, PIECE)]
    whole = logits(model, pieces)
    log_p = whole - np.logaddexp.reduce(whole, -1, keepdims=True)
    print(f"{name}, {len(pieces)} pieces of {PIECE} tokens")
    for bits in (None, 8, 4):  # None: the codes of its own file, if it has one
        fewer, _ = lablib.load(name, bits=bits)
        found = logits(fewer, pieces)
        with lablib.by_definition():
            exact = logits(fewer, pieces[:2])
        log_q = found - np.logaddexp.reduce(found, -1, keepdims=True)
        kl = (np.exp(log_p) * (log_p - log_q)).sum(-1).mean(-1)
        flips = (found.argmax(-1) != whole.argmax(-1)).mean(-1)
        off = np.abs(found[:2] - exact).max() / exact.std()
        told = ["{:.2f} ± {:.2f}".format(*interval(each)) for each in (1e3 * kl, 1e2 * flips)]
        print(f"| {bits or 'its own'} | {told[0]} | {told[1]} % | {off:.1e} |")


if __name__ == "__main__":
    compare(*sys.argv[1:2] or ["smollm2"], Path(*sys.argv[2:3] or [TEXT]).read_text())

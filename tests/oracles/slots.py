"""Sixty-four slots of every kind, the logits they are given, and the tokens they get together."""

from lablib.inference.sampling.sampler import Sampler, SamplerOptions

import mlx.core as mx
import numpy as np

NUM_CTX = 20
STEPS = 6
PENALTIES = {"repeat_penalty": 1.3, "presence_penalty": 0.2, "frequency_penalty": 0.3}
KINDS = (
    {"temperature": 0.0},
    {"temperature": 0.7},
    {"temperature": 1.0},
    {"temperature": 1.3, "min_p": 0.05},
    {"top_k": 7},
    {"top_k": 40, "top_p": 0.9, "temperature": 0.8, "min_p": 0.02} | PENALTIES,
    {"top_k": 300, "temperature": 1.2},
    {"top_p": 0.9},
    {"top_p": 0.99, "temperature": 1.5} | PENALTIES,
    {"temperature": 0.0, "repeat_last_n": -1} | PENALTIES,
    {"repeat_penalty": 1.5, "repeat_last_n": 3},
    {"frequency_penalty": 0.7, "repeat_last_n": 1},
)
MIXED = [SamplerOptions(**KINDS[i % len(KINDS)], seed=i // 2) for i in range(64)]


def stream_of_logits(vocab_size, n=64, steps=STEPS, scale=3.0):
    """(B, V) logits for each step; some rows peaked and some flat."""
    rng = np.random.default_rng(vocab_size)
    scales = scale * rng.random((n, 1)) ** 2
    sizes = [scales, *[scale] * (steps - 1)]
    drawn = (each * rng.normal(size=(n, vocab_size)) for each in sizes)
    return [mx.array(each.astype(np.float32)) for each in drawn]


def position(sampler, seq_id):
    """Return how many tokens the slot has sampled or had committed since it was added."""
    return sampler._slots[seq_id].position


def window(sampler, seq_id):
    """Return what the slot's penalties see, oldest token first; nothing for a slot without."""
    slot = sampler._slots[seq_id]
    return slot.text[-slot.window :] if slot.window else []


def filled(options=MIXED, prior=(1, 2, 3, 2)):
    sampler = Sampler(NUM_CTX)
    for i, o in enumerate(options):
        sampler.add(i, o, prior)
    return sampler


def together(logits, options=MIXED):
    """The tokens (T, B) of all slots sampled side by side."""
    sampler = filled(options)
    return np.array([np.array(sampler.sample(range(len(options)), step).token) for step in logits])

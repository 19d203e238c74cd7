"""Greedy speculation writes what greedy decoding writes: random pairs, every γ and cache.

Logits of the same place computed in a block and one by one differ in the last bits, so where two
texts part, plain decoding's best two tokens must lie closer together than that difference; such
ties are counted, and must stay rare.
"""

from dataclasses import dataclass, field

from lablib.inference.speculative import SpeculativeTokenIterator
from lablib.inference.speculative_batch import speculative_batch

import mlx.core as mx
import numpy as np
import pytest
from oracles.speculation import VOCAB, greedy, make_cache, near, target

CASES = {  # model, cache, window
    "kv": ("llama", "kv", 0),
    "grouped heads": ("llama3", "kv", 0),
    "learned positions": ("gpt", "kv", 0),
    "window 8": ("llama", "window", 8),
    "window 13": ("llama3", "window", 13),
    "window 64": ("llama", "window", 64),
    "sinks": ("llama", "sinks", 16),
    "quantized": ("llama", "quantized", 0),
    "recurrent": ("recurrent", "kv", 0),
    "hybrid": ("hybrid", "kv", 0),
    "hybrid, window 8": ("hybrid", "window", 8),
}
LENGTH = 90  # far past the wrap of every window


@dataclass
class Tally:
    """What a sweep saw."""

    runs: int = 0
    ties: int = 0
    rates: list[float] = field(default_factory=list)

    def compare(self, model, cache_of, prompt, gamma, got, wanted):
        """Count one run; a difference that is not a tie fails."""
        self.runs += 1
        if got == wanted:
            return
        place = next(i for i, (a, b) in enumerate(zip(got, wanted, strict=True)) if a != b)
        text = prompt + wanted[:place]
        gap, noise = _gap_and_noise(model, cache_of, text, gamma)
        assert gap <= noise, f"token {place}: best two {gap:.2e} apart, noise {noise:.2e}"
        self.ties += 1


def _gap_and_noise(model, cache_of, text, gamma):
    """The best two logits after ``text`` read one by one, and how far a block's logits are off."""
    one_by_one = cache_of()
    for token in text:
        plain = model(mx.array([[token]]), cache=one_by_one)
    plain = np.array(plain[0, -1])
    block = cache_of()
    for start in range(0, len(text), gamma + 1):
        logits = model(mx.array([text[start : start + gamma + 1]]), cache=block)
    best = np.sort(plain)[-2:]
    return best[1] - best[0], 2 * np.abs(np.array(logits[0, -1]) - plain).max()


def pair(kind, seed):
    """A target and a draft near it; over the seeds acceptance goes from nearly 0 to 1."""
    model = target(kind, seed=seed, peak=3)
    return model, near(model, noise=(0.02, 0.1, 0.2, 0.35, 0.6)[seed % 5], seed=seed)


def sweep(case, seeds, gammas):
    kind, cache_kind, window = CASES[case]
    tally = Tally()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        model, draft = pair(kind, seed)
        prompt = rng.integers(0, VOCAB, int(rng.integers(1, 20))).tolist()

        def cache_of(network=model):
            return make_cache(network, cache_kind, window)

        wanted = greedy(model, prompt, LENGTH, cache_of())
        for gamma in gammas(seed):
            iterator = SpeculativeTokenIterator(
                model, draft, prompt, max_tokens=LENGTH, draft_tokens=gamma, temperature=0.0,
                target_cache=cache_of(), draft_cache=cache_of(draft),
            )  # fmt: skip
            got = [token.id for token in iterator]
            tally.compare(model, cache_of, prompt, gamma, got, wanted)
            tally.rates.append(iterator.stats["acceptance_rate"])
    return tally


@pytest.mark.parametrize("case", CASES)
def test_greedy_text_is_plain_greedy_text(case):
    """A slice of the sweep below: five pairs, γ from 1 to 8."""
    tally = sweep(case, range(5), lambda seed: [1 + (3 * seed) % 8])
    assert tally.ties <= (2 if case == "quantized" else 1)


@pytest.mark.slow
def test_greedy_text_on_200_pairs(record_property, capsys):
    """Every case, 200 pairs in all, every γ from 1 to 8; acceptance from below 10 to above 95 %."""
    total, lines = Tally(), []
    for number, case in enumerate(CASES):
        seeds = range(number, 200, len(CASES))
        tally = sweep(case, seeds, lambda seed: range(1, 9))
        total.runs, total.ties = total.runs + tally.runs, total.ties + tally.ties
        total.rates += tally.rates
        low, high = min(tally.rates), max(tally.rates)
        lines.append(
            f"{case:18} {len(seeds):3} pairs {tally.runs:4} runs {tally.ties:2} ties  "
            f"acceptance {low:.2f} to {high:.2f}"
        )
        record_property(case, lines[-1])
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    assert total.runs == 200 * 8
    assert total.ties <= 0.02 * total.runs
    assert min(total.rates) < 0.10
    assert max(total.rates) > 0.95
    assert np.mean([0.10 <= rate <= 0.95 for rate in total.rates]) > 0.2


@pytest.mark.parametrize("case", ["kv", "learned positions", "window 8", "window 13", "hybrid"])
def test_a_batch_of_eight_writes_what_each_row_writes_alone(case, monkeypatch):
    """Ragged prompts, rows that accept differently and leave at different times."""
    from lablib.cache import kv

    kind, cache_kind, window = CASES[case]
    model, draft = pair(kind, 2)
    monkeypatch.setattr(kv, "make", lambda network: make_cache(network, cache_kind, window))
    rng = np.random.default_rng(1)
    prompts = [rng.integers(0, VOCAB, n).tolist() for n in (1, 3, 17, 5, 9, 2, 30, 4)]
    stop = greedy(model, prompts[2], 20, make_cache(model, cache_kind, window))[-1]
    tally = Tally()
    samples = speculative_batch(
        model, draft, prompts, max_tokens=45, draft_tokens=5, temperature=0.0, stop_tokens=[stop]
    )
    for prompt, got, finished in zip(prompts, samples.tokens, samples.finished, strict=True):
        wanted = greedy(model, prompt, 45, make_cache(model, cache_kind, window))
        if stop in wanted:
            wanted = wanted[: wanted.index(stop) + 1]
        assert finished == (wanted[-1] == stop)
        tally.compare(model, lambda: make_cache(model, cache_kind, window), prompt, 5, got, wanted)
    assert tally.ties <= 1
    assert 0 < samples.stats["acceptance_rate"] < 1

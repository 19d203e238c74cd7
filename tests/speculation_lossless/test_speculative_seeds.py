"""Losslessness by seeds: match is plain sampling, token for token; every rule is, in its counts."""

from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import NGram, rules
from lablib.inference.speculation.speculative_iterator import (
    SpeculativeTokenIterator,
    speculative_decode,
)

import numpy as np
import pytest
from oracles.enumeration import Language, joint
from oracles.speculation import near, target
from oracles.tables import TableModel
from scipy.stats import chisquare

PROMPT, SIZE = (1, 0, 1), 3
PENALTIES = {"repeat_penalty": 1.6, "presence_penalty": 0.3, "frequency_penalty": 0.4}
SAMPLED = [
    {"temperature": 1.0},
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.3, "top_k": 5, "min_p": 0.05},
    {"temperature": 0.9, **PENALTIES},
    {"temperature": 0.0, "repeat_penalty": 1.3},
]


@pytest.mark.grid(lambda kind, options: kind == "hybrid" or options == SAMPLED[0], rest="slow")
@pytest.mark.parametrize("options", SAMPLED, ids=str)
@pytest.mark.parametrize("kind", ["llama", "hybrid"])
def test_match_gives_the_tokens_of_plain_sampling_seed_by_seed(kind, options):
    model = target(kind, peak=2)
    for seed in range(3):
        plain = TokenIterator(model, [3, 1, 4], max_tokens=40, seed=seed, **options)
        wanted = [token.id for token in plain]
        for draft, gamma in ((near(model, 0.3, seed), 1 + seed), (NGram(), 3)):
            got, stats = speculative_decode(
                model, draft, [3, 1, 4], 40, gamma, rule="match", seed=seed, **options
            )
            assert got[0, 3:].tolist() == wanted
            assert 0 <= stats["alpha"] <= 1


def test_match_reports_the_log_probabilities_of_plain_sampling():
    model = target(peak=2)
    plain = TokenIterator(model, [3, 1, 4], max_tokens=30, seed=1, top_logprobs=2)
    spec = SpeculativeTokenIterator(
        model, near(model, 0.2), [3, 1, 4], max_tokens=30, seed=1, rule="match", top_logprobs=2
    )
    for a, b in zip(plain, spec, strict=True):
        assert a.id == b.id
        assert abs(a.logprob - b.logprob) < 1e-4
        assert [i for i, _ in a.top_logprobs] == [i for i, _ in b.top_logprobs]


@pytest.mark.parametrize("rule", rules.RULE)
def test_sampled_pairs_pass_a_chi_square_test(rule):
    """The first two tokens of 800 seeds, against the target's distribution and the draft's."""
    language, other = Language(SIZE, seed=5), Language(SIZE, seed=77)
    model, draft = TableModel(SIZE, language.scores), TableModel(SIZE, other.scores)
    counts = np.zeros((SIZE, SIZE))
    for seed in range(800):
        tokens, _ = speculative_decode(model, draft, PROMPT, 2, 1, 1.0, rule=rule, seed=seed)
        counts[tuple(tokens[0, -2:].tolist())] += 1
    expected = 800 * joint(language, PROMPT, 2)
    assert chisquare(counts, expected, axis=None).pvalue > 1e-5
    from_draft = 800 * joint(other, PROMPT, 2)
    assert chisquare(counts, from_draft, axis=None).pvalue < 1e-6


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_no_random_number_serves_twice(rule, monkeypatch):
    """Across rounds, uses and lanes: a reused number would tie a draft to an earlier verdict."""
    seen = []
    right = TextSampler.numbers

    def spy(sampler, first, n, size):
        numbers = right(sampler, first, n, size)
        seen.extend(numbers[0].tolist())
        return numbers

    monkeypatch.setattr(TextSampler, "numbers", spy)
    model = target(peak=2)
    speculative_decode(model, near(model, 0.5), [1], 60, 4, 1.0, rule=rule, seed=0)
    assert len(seen) > 100
    assert len(set(seen)) > len(seen) - 3  # 24-bit numbers may coincide, a lane must not

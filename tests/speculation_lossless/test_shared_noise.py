"""The rule "coupled": one text for a seed, whoever drafts; its draws follow the closed form."""

from lablib.course.lessons.lesson_08.enumeration import exactly
from lablib.course.theory import closed_forms as theory
from lablib.inference.completions import speculative_sample_n
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.row import Row, key_of
from lablib.inference.sampling.sampler import Sampler
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import EarlyExit, Head, NGram, rules
from lablib.inference.speculation.draft_length import AdaptiveLength, Costs
from lablib.inference.speculation.drafter import Drafter
from lablib.inference.speculation.speculative_iterator import (
    SpeculativeTokenIterator,
    speculative_decode,
)
from lablib.models import DraftHead, LanguageModel, llama_config
from lablib.text import generate

import mlx.core as mx
import numpy as np
import pytest
from oracles.speculation import near, target
from scipy.stats import chi2, chisquare

PROMPT = [3, 1, 4]
PENALTIES = {"repeat_penalty": 1.6, "presence_penalty": 0.3, "frequency_penalty": 0.4}
SAMPLED = [
    {"temperature": 1.0},
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.3, "top_k": 5, "min_p": 0.05},
    {"temperature": 0.9, **PENALTIES},
]


class Nobody(Drafter):
    """Never has a guess: the target writes alone."""

    def propose(self, texts, limits, sampler):
        return None


def text(model, draft, gamma=4, **options):
    options = {"max_tokens": 40, "rule": "coupled"} | options
    iterator = SpeculativeTokenIterator(model, draft, PROMPT, draft_tokens=gamma, **options)
    return [token.id for token in iterator], iterator


def by_hand(model, n, options, stream=0):
    """Token by token without a cache: the first to arrive, after ``E / p``."""
    sampler, ids = Sampler(100), list(PROMPT)
    sampler.add(0, SamplerOptions(**options), PROMPT, stream=stream)
    for _ in range(n):
        logits = model(mx.array([ids]), cache=None)[0, -1:].astype(mx.float32)
        p = np.exp(np.array(sampler.speculative_scores(0, logits, []), np.float64))[0]
        ids.append(int(np.argmax(p / np.array(sampler.batch((0,)).noise(0, p.size))[0])))
        sampler.commit(0, [ids[-1]])
    return ids[len(PROMPT) :]


@pytest.mark.grid(lambda kind, options: kind == "llama")
@pytest.mark.parametrize("options", SAMPLED, ids=str)
@pytest.mark.parametrize("kind", ["llama", "hybrid"])
def test_a_seed_is_one_text_whoever_drafts(kind, options):
    model = target(kind, peak=2)
    options = {"seed": 5, **options}
    wanted = by_hand(model, 40, options)
    drafters = [Nobody(), near(model, 0.3), near(model, 0.05, 1), model, NGram(), EarlyExit(1)]
    for draft in drafters:
        for gamma in (1, 4):
            assert text(model, draft, gamma, **options)[0] == wanted
    never = AdaptiveLength(costs=Costs((1.0, 9.0), 1.0))
    assert text(model, near(model, 0.3), never, **options)[0] == wanted


def test_other_seeds_streams_and_rules_are_other_texts():
    model = target(peak=2)
    kinds = [{"seed": 1}, {"seed": 2}, {"seed": 1, "stream": 1}, {"seed": 1, "rule": "match"}]
    assert len({tuple(text(model, NGram(), **kind)[0]) for kind in kinds}) == len(kinds)


def test_a_head_writes_the_same_text():
    model = LanguageModel(llama_config(17, d_model=16, n_heads=2, n_layers=1, d_ff=16), seed=4)
    wanted = text(model, Nobody(), seed=3)[0]
    for ids in (None, [0, 2, 3, 9]):
        assert text(model, Head(DraftHead(model, ids, 8, seed=2)), seed=3)[0] == wanted


def test_rows_of_a_batch_write_the_texts_of_their_streams():
    model = target(peak=2)
    options = {"max_tokens": 20, "seed": 6, "rule": "coupled", "top_p": 0.95, "stop_tokens": [5]}
    for draft in (near(model, 0.3), NGram()):
        for max_batch in (None, 3):
            rows = speculative_sample_n(model, draft, PROMPT, 7, max_batch=max_batch, **options)
            alone = [text(model, Nobody(), stream=i, **options)[0] for i in range(7)]
            assert rows.tokens == alone


def test_at_temperature_0_it_is_greedy_decoding():
    model = target(peak=2)
    for options in ({}, {"repeat_penalty": 1.3}):
        options = {"temperature": 0.0, "max_tokens": 40, **options}
        wanted = [token.id for token in TokenIterator(model, PROMPT, **options)]
        assert text(model, near(model, 0.3), **options)[0] == wanted


def test_generate_takes_it(shipped_pair):
    model, draft, tokenizer = shipped_pair
    options = {"temperature": 1.0, "seed": 3, "max_tokens": 24, "rule": "coupled"}
    texts = [
        generate(model, tokenizer, "On a rainy", draft_model=each, **options)
        for each in (draft, NGram(), Nobody())
    ]
    assert texts[0] == texts[1] == texts[2]
    with pytest.raises(TypeError, match="rule is about drafts: give draft_model="):
        generate(model, tokenizer, "On a rainy", rule="coupled")


@pytest.fixture(scope="module")
def shipped_pair():
    import lablib

    model, tokenizer = lablib.load("target", dtype=mx.float32)
    return model, lablib.load("draft", dtype=mx.float32)[0], tokenizer


def test_a_draft_that_was_looked_up_is_kept_as_under_match():
    p = np.array([[0.5, 0.3, 0.2]] * 2)
    for draft in range(3):
        q = np.eye(3)[[draft]]
        for ours, theirs in zip(
            exactly(rules.coupled, p, q, [draft]), exactly(rules.match, p, q, [draft]), strict=True
        ):
            assert np.abs(ours - theirs).max() < 1e-12


P = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.4, 0.1]])
Q = np.array([[0.2, 0.1, 0.3, 0.4], [0.3, 0.3, 0.2, 0.2]])
DRAWS = 100_000


def pairs() -> np.ndarray:
    """Return the seen counts ``(V,) * 5`` of drafts 0 and 1 and target's tokens 0, 1 and 2."""
    options = SamplerOptions(seed=4)
    sampler = TextSampler(coupled=True)
    sampler.add([Row([0], options, key_of(options, i), 3) for i in range(DRAWS)])
    drafts = []
    for q in Q:
        logits = mx.broadcast_to(mx.log(mx.array(q, mx.float32)), (DRAWS, 4))
        drafts.append(sampler.draft(logits, drafts)[0])
    drafts = mx.stack(drafts, axis=1)
    logits = mx.broadcast_to(mx.log(mx.array(P, mx.float32)), (DRAWS, *P.shape))
    tokens, fit = sampler.draw(logits, drafts)
    assert mx.all(fit).item()
    seen = np.zeros((4,) * 5)
    np.add.at(seen, tuple(np.concatenate([np.array(drafts), np.array(tokens)], axis=1).T), 1)
    return seen


def alarms(seen: np.ndarray) -> dict[str, bool]:
    """Say what 10⁵ draws are not: a chi-square test that chance passes once in a million."""

    def differs(counts, expected):
        counts, expected = counts.ravel(), DRAWS * expected.ravel()
        return chisquare(counts, expected).statistic > chi2.isf(1e-6, counts.size - 1)

    def law(p, q):  # of a draft and the target's token, (V, V)
        kept, following = exactly(
            rules.coupled, np.tile(p, (4, 2, 1)), np.tile(q, (4, 1, 1)), np.arange(4)[:, None]
        )
        return q[:, None] * (np.diag(kept[:, 1]) + kept[:, :1] * following[:, 0])

    assert np.trace(law(P[0], Q[0])) == pytest.approx(theory.acceptance_coupled(P[0], Q[0]))
    one, two, three = P
    return {
        "text": differs(seen.sum((0, 1)), one[:, None, None] * two[:, None] * three),
        "first": differs(seen.sum((1, 3, 4)) + 1e-9, law(P[0], Q[0]) + 1e-12),
        "second": differs(seen.sum((0, 2, 4)) + 1e-9, law(P[1], Q[1]) + 1e-12),
    }


def test_draws_follow_the_closed_form():
    assert not any(alarms(pairs()).values())


def test_noise_that_comes_again_at_the_next_position_is_found(monkeypatch):
    right = TextSampler.noise
    monkeypatch.setattr(TextSampler, "noise", lambda own, ahead, size: right(own, 0, size))
    found = alarms(pairs())
    assert found == {"text": True, "first": False, "second": False}


def test_a_draft_with_noise_of_its_own_is_found_by_what_it_keeps(monkeypatch):
    right = TextSampler.draft

    def stranger(sampler, logits, before):
        sampler.coupled = False
        drawn = right(sampler, logits, before)
        sampler.coupled = True
        return drawn

    monkeypatch.setattr(TextSampler, "draft", stranger)
    found = alarms(pairs())
    assert found == {"text": False, "first": True, "second": True}  # lossless, but not coupled


def test_noise_has_digits_where_it_is_small():
    """A token of probability 1e-6 must be able to win, and as often as that."""
    sampler = Sampler(10)
    for i in range(4):
        sampler.add(i, SamplerOptions(seed=1), stream=i)
    noise = np.concatenate([sampler.batch(range(4)).noise(a, 250_000) for a in range(4)])
    assert noise.shape == (16, 250_000)
    assert (noise > 0).all()
    assert np.isfinite(noise).all()
    assert noise.mean() == pytest.approx(1, abs=5 / 2000)
    assert len(np.unique(noise[noise < 1e-4])) > 0.99 * (noise < 1e-4).sum()
    few = np.array([(noise < t).mean() for t in (1e-4, 1e-2, 1.0)])
    assert few == pytest.approx(1 - np.exp(-np.array([1e-4, 1e-2, 1.0])), rel=0.25)
    assert noise[noise < 1e-5].min() < 5e-6


def test_what_is_kept_is_what_the_trace_expects():
    """And never less than the bound, nor than match, in expectation."""
    model = target(peak=2)
    kept, expected = 0, []
    for seed in range(12):
        _, stats = speculative_decode(
            model, near(model, 0.4), PROMPT, 60, 3, 1.0, rule="coupled", seed=seed, trace=True
        )
        kept += stats["total_accepted"]
        for one in stats["trace"]:
            chances = zip(one.min_pq, one.dot_pq, one.coupled, strict=True)
            for most, least, coupled in list(chances)[: one.reached]:
                assert least - 1e-6 <= coupled <= most + 1e-6
                assert coupled >= most / (2 - most) - 1e-6
                expected.append(coupled)
    expected = np.array(expected)
    spread = np.sqrt((expected * (1 - expected)).sum())
    assert abs(kept - expected.sum()) < 4.9 * spread

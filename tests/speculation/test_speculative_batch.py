"""Batched speculation: a row is the same alone, beside any others, and as plain sampling has it."""

import dataclasses
from types import SimpleNamespace

from lablib.cache import kv
from lablib.cache.rewind_batch import can_batch
from lablib.inference.completions import sample_n, speculative_batch, speculative_sample_n
from lablib.inference.decoding.rows import Samples
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.row import Row
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import EarlyExit, NGram
from lablib.inference.speculation.draft_model import DraftModel
from lablib.inference.speculation.drafter import Drafter
from lablib.inference.speculation.judge import Judge
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.models import LanguageModel, base, gpt_config, llama_config
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles.refusals import refuses
from oracles.speculation import VOCAB, greedy, make_cache, near, target

PROMPTS = [[1, 2, 3], [4, 5], [6], [1, 2, 3, 4, 5, 6, 7]]


def alone(model, draft, row, prompt, **options):
    iterator = SpeculativeTokenIterator(model, draft, prompt, stream=row, **options)
    return [token.id for token in iterator], iterator


@pytest.mark.parametrize("rule", ["match", "rejection", "block", "coupled"])
@pytest.mark.parametrize("drafter", ["model", "ngram", "early exit"])
@pytest.mark.parametrize("kind", ["llama", "hybrid"])
def test_a_row_is_the_same_alone_and_in_a_batch(kind, drafter, rule):
    model = target(kind, peak=2)
    draft = {"model": near(model, 0.2), "ngram": NGram(), "early exit": EarlyExit(1)}[drafter]
    options = {"max_tokens": 25, "rule": rule, "seed": 3, "stop_tokens": [7], "top_p": 0.95}
    samples = speculative_batch(model, draft, PROMPTS, **options)
    counts = np.zeros(4)
    for row, prompt in enumerate(PROMPTS):
        tokens, iterator = alone(model, draft, row, prompt, **options)
        assert samples.tokens[row] == tokens
        assert np.allclose(samples.logprobs[row], iterator.logprobs, atol=1e-3)
        stats = iterator.stats
        counts += [stats[f"total_{name}"] for name in ("drafted", "accepted", "reached")] + [
            stats["rounds"]
        ]
    stats = samples.stats
    assert [stats["total_drafted"], stats["total_accepted"]] == counts[:2].tolist()
    assert [stats["total_reached"], stats["rounds"]] == counts[2:].tolist()


@pytest.mark.parametrize("options", [{}, {"temperature": 0.8, "repeat_penalty": 1.3}])
def test_match_is_sample_n(options):
    model = target(peak=2)
    plain = sample_n(model, [1, 2], 6, max_tokens=30, seed=9, stop_tokens=[5], **options)
    for max_batch in (None, 4):
        samples = speculative_sample_n(
            model, near(model, 0.3), [1, 2], 6, max_tokens=30, seed=9, stop_tokens=[5],
            rule="match", max_batch=max_batch, **options,
        )  # fmt: skip
        assert isinstance(samples, Samples)
        assert samples.tokens == plain.tokens
        assert samples.finished == plain.finished
        assert samples.lengths == plain.lengths


def test_the_prompt_is_read_once_for_all_rows():
    model, read = target(), []

    def counting(tokens, cache):
        read.append(tokens.size)
        return model(tokens, cache=cache)

    counting.layers, counting.vocab_size = model.layers, model.vocab_size
    counting.make_cache = model.make_cache
    assert can_batch(counting, counting.make_cache())  # is tried out once for each model
    read.clear()
    prompt = list(range(20))
    speculative_sample_n(counting, NGram(), prompt, 8, max_tokens=2, seed=1)
    assert read[:2] == [19, 8]


def test_what_cannot_be_batched_runs_row_by_row(monkeypatch):
    model = target()
    monkeypatch.setattr(kv, "make", lambda network: make_cache(network, "quantized"))
    samples = speculative_batch(
        model, near(model, 0.1), PROMPTS, max_tokens=20, temperature=0.0, draft_tokens=3
    )
    wanted = [greedy(model, p, 20, make_cache(model, "quantized")) for p in PROMPTS]
    assert samples.tokens == wanted
    assert samples.stats["total_accepted"] > 0
    assert samples.stats["draft_calls"] > samples.stats["rounds"]


@pytest.mark.parametrize("drafter", ["model", "ngram"])
@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"rule": "rejection"}])
def test_rows_may_fill_the_context_to_its_end(options, drafter):
    """A row that needs few more tokens reads as many drafts as the others: here too many."""
    model = target("gpt")
    draft = {"model": near(model, 0.5), "ngram": NGram()}[drafter]
    prompts = [[1, 2, 3], [*range(VOCAB)] * 9 + [1, 2, 3, 4]]
    options |= {"max_tokens": 36, "draft_tokens": 6, "seed": 1}
    samples = speculative_batch(model, draft, prompts, **options)
    for row, prompt in enumerate(prompts):
        assert samples.tokens[row] == alone(model, draft, row, prompt, **options)[0]
        assert len(samples.tokens[row]) == 36


@pytest.mark.parametrize(
    ("kind", "max_tokens", "together"), [("gpt", 50, True), ("gpt", 51, False), ("llama", 54, True)]
)
def test_a_batch_is_given_up_only_where_a_table_ends(kind, max_tokens, together):
    config = {"gpt": gpt_config, "llama": llama_config}[kind]
    model = LanguageModel(config(VOCAB, 32, 2, 2, max_positions=64), seed=0)
    samples = speculative_sample_n(
        model, NGram(), [1] * 10, 8, max_tokens=max_tokens, draft_tokens=5, temperature=0.0
    )
    assert (samples.stats["target_calls"] <= 1 + max_tokens) == together
    assert all(len(row) == max_tokens for row in samples.tokens)


def test_a_batch_of_learned_positions_waits_once_a_round(monkeypatch):
    """The end of the context is far: no need to look at where the rows stand."""
    model, looked = target("gpt"), []
    names = vars(mx) | {"max": lambda *given: (looked.append(1), mx.max(*given))[1]}
    monkeypatch.setattr(base, "mx", SimpleNamespace(**names))
    options = {"max_tokens": 30, "temperature": 0.0}
    speculative_sample_n(model, near(model, 0.3), [1, 2, 3], 4, **options)
    assert not looked
    caches = [model.make_cache() for _ in range(2)]
    for cache, length in zip(caches, (3, 251), strict=True):
        model(mx.array([[1] * length]), cache=cache)
    with pytest.raises(BadValue, match="context of 256 positions, got 6 after 251"):
        model(mx.ones((2, 6), mx.int32), cache=kv.merge(caches))
    assert looked


class Parrot(Drafter):
    """A drafter of one's own: it always guesses the last token again."""

    def propose(self, texts, limits, sampler):
        return Proposal.of([[text[-1]] * n for text, n in zip(texts, limits, strict=True)])


class Alone(Parrot):
    """The same, but it says that it cannot draft for several texts at once."""

    batches = False


@pytest.mark.parametrize("drafter", [Parrot, Alone])
def test_a_drafter_of_ones_own(drafter):
    model = target(peak=2)
    options = {"max_tokens": 20, "seed": 4, "rule": "match"}
    samples = speculative_batch(model, drafter(), PROMPTS, **options)
    plain = speculative_batch(model, NGram(), PROMPTS, **options)
    assert samples.tokens == plain.tokens
    assert 0 < samples.stats["total_accepted"] < samples.stats["total_drafted"]


class Stubborn(NGram):
    """A subclass that proposes something else than its base."""

    def propose(self, texts, limits, sampler):
        return Proposal.of([[7] * n for n in limits])


class Backwards(DraftModel):
    """A subclass that turns its base's drafts round."""

    def propose(self, texts, limits, sampler):
        proposal = super().propose(texts, limits, sampler)
        return dataclasses.replace(proposal, tokens=proposal.tokens[:, ::-1])


@pytest.mark.parametrize("drafter", [Stubborn(), Backwards(near(target(peak=2), 0.1))])
def test_a_batch_asks_a_subclass_what_it_proposes(drafter):
    model = target(peak=2)
    options = {"max_tokens": 20, "temperature": 0.0}
    samples = speculative_batch(model, drafter, PROMPTS, **options)
    plain = [greedy(model, prompt, 20) for prompt in PROMPTS]
    assert samples.tokens == plain
    counts = [alone(model, drafter, row, p, **options)[1].stats for row, p in enumerate(PROMPTS)]
    for name in ("total_drafted", "total_accepted", "total_reached", "rounds"):
        assert samples.stats[name] == sum(each[name] for each in counts)


class Short(Drafter):
    """Proposes three drafts, of which a text has two."""

    def propose(self, texts, limits, sampler):
        tokens = [[text[-1], text[0], 5] for text in texts]
        if max(limits) < 3:
            return None
        return Proposal(mx.array(tokens), counts=[min(2, most) for most in limits])


def test_a_text_alone_has_as_many_drafts_as_its_proposal_counts():
    model, options = target(), {"max_tokens": 12, "seed": 4}
    rows = speculative_batch(model, Short(), [[1, 2], [3, 4]], **options)
    for i, prompt in enumerate(([1, 2], [3, 4])):
        one = SpeculativeTokenIterator(model, Short(), prompt, stream=i, **options)
        assert [token.id for token in one] == rows[i]
        assert one.stats["total_drafted"] > 0


def test_a_row_is_not_refused_for_places_behind_its_own_drafts():
    """A neighbour has a draft there; alone the row would go on."""
    sampler = TextSampler()
    sampler.use([Row([1], SamplerOptions(), key, 5) for key in (1, 2)])
    logits = np.zeros((2, 3, 8), np.float32)
    logits[0, 1:] = np.nan
    judge, proposal = Judge(sampler, "rejection", 8), Proposal(mx.array([[1, 1], [2, 2]]))
    verdicts = judge.decide(mx.array(logits), proposal, [0, 2])
    assert [len(verdict.tokens) > 0 for verdict in verdicts] == [True, True]
    refuses(BadValue, "target", judge.decide, mx.array(logits), proposal, [1, 2])


def test_unseeded_rows_differ():
    model = target(peak=1)
    samples = speculative_sample_n(model, NGram(), [1], 4, max_tokens=12)
    assert len({tuple(row) for row in samples.tokens}) == 4


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: speculative_batch(m, m, []), BadValue, "prompts must hold at least one"),
        (lambda m: speculative_batch(m, m, [[1], []]), BadValue, r"prompts\[1\] must hold"),
        (lambda m: speculative_batch(m, m, [[VOCAB]]), BadValue, r"prompts\[0\]\[0\] must be"),
        (lambda m: speculative_batch(m, m, [[1]], draft_tokens=0), BadValue, "draft_tokens"),
        (lambda m: speculative_batch(m, None, [[1]]), BadValue, "draft_model must be a model"),
        (lambda m: speculative_batch(m, m, [[1]], rule="x"), BadValue, "rule must be one of"),
        (lambda m: speculative_batch(m, m, [[1]], max_batch=0), BadValue, "max_batch"),
        (lambda m: speculative_batch(m, m, [[1]], top_logprobs=-1), BadValue, "top_logprobs"),
        (lambda m: speculative_batch(m, m, [[1]], seed=[1, 2]), BadValue, "seed must be one, or"),
        (lambda m: speculative_batch(m, m, [[1]], stop="x"), BadType, "stop is of texts"),
        (lambda m: speculative_batch(m, m, [[1]], max_tokens=5000), BadValue, "context of 1024"),
        (lambda m: speculative_batch(m, target(vocab_size=9), [[1]]), BadValue, "vocabulary"),
        (lambda m: speculative_sample_n(m, m, [1], 0), BadValue, "n must be at least 1"),
        (lambda m: speculative_sample_n(m, m, [1], 2, sed=1), BadType, "unknown option"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call(target())

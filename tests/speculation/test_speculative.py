"""The iterator's protocol: where it stops, where the caches stand, what it counts and refuses."""

from itertools import pairwise

from lablib.cache import kv
from lablib.inference.completions import speculative_sample_n
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import EarlyExit
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import AdaptiveLength
from lablib.inference.speculation.speculative_iterator import (
    SpeculativeTokenIterator,
    speculative_decode,
)

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.speculation import (
    CACHES,
    PROMPT,
    VOCAB,
    assert_caches_stand_at,
    both_caches,
    greedy,
    make_cache,
    near,
    target,
)
from oracles.tables import TableModel


@pytest.mark.parametrize(("model_kind", "kind"), CACHES)
@pytest.mark.parametrize("taken", [1, 4, 9])
def test_an_early_close_leaves_both_caches_at_the_returned_tokens(model_kind, kind, taken):
    model = target(model_kind)
    iterator = SpeculativeTokenIterator(
        model, near(model, 0.15), PROMPT, max_tokens=40, temperature=0.0, **both_caches(model, kind)
    )
    with iterator:
        tokens = [next(iterator).id for _ in range(taken)]
    assert iterator.tokens == tokens
    assert iterator.stats["finish_reason"] == "closed"
    assert_caches_stand_at(iterator, model, kind, PROMPT + tokens)
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.parametrize(("model_kind", "kind"), CACHES)
def test_max_tokens_leaves_both_caches_at_the_returned_tokens(model_kind, kind):
    model = target(model_kind)
    for n in (1, 2, 7):
        iterator = SpeculativeTokenIterator(
            model,
            near(model, 0.15),
            PROMPT,
            max_tokens=n,
            temperature=0.0,
            **both_caches(model, kind),
        )
        tokens = [token.id for token in iterator]
        assert len(tokens) == n
        assert iterator.stats["finish_reason"] == "length"
        assert_caches_stand_at(iterator, model, kind, PROMPT + tokens)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 20), st.sampled_from(CACHES))
def test_any_stop_leaves_both_caches_at_the_returned_tokens(seed, gamma, taken, case):
    model_kind, kind = case
    rng = np.random.default_rng(seed)
    model = target(model_kind, peak=2)
    prompt = rng.integers(0, VOCAB, rng.integers(1, 12)).tolist()
    iterator = SpeculativeTokenIterator(
        model,
        near(model, float(rng.uniform(0, 0.5)), seed),
        prompt,
        max_tokens=30,
        draft_tokens=gamma,
        stop_tokens=rng.integers(0, VOCAB, 2).tolist(),
        rule=("match", "rejection", "block", "coupled")[seed % 4],
        seed=seed,
        **both_caches(model, kind),
    )
    tokens = [token.id for token, _ in zip(iterator, range(taken), strict=False)]
    iterator.close()
    assert iterator.tokens[: len(tokens)] == tokens
    assert_caches_stand_at(iterator, model, kind, prompt + iterator.tokens)


def test_a_cache_goes_on_where_it_stopped():
    model = target()
    draft = near(model, 0.1)
    caches = both_caches(model, "kv")
    first = SpeculativeTokenIterator(model, draft, PROMPT, max_tokens=9, temperature=0.0, **caches)
    tokens = [token.id for token in first]
    second = SpeculativeTokenIterator(
        model, draft, tokens[-1:], max_tokens=9, temperature=0.0, **caches
    )
    tokens += [token.id for token in second]
    assert tokens == greedy(model, PROMPT, 18)


def scripted(pattern, period=None, vocab_size=6):
    """A model certain of ``pattern[i]`` as token i of the text (prompt included)."""

    def scores(context):
        row = np.zeros(vocab_size)
        row[pattern[len(context) % len(pattern)]] = 50.0
        return row

    return TableModel(vocab_size, scores)


def test_rounds_by_hand():
    """Target 0 1 2 3 4 5 ..., draft wrong at every fourth place: every number counted on paper."""
    text = [0, 1, 2, 3, 4, 5] * 4
    guess = [5 if i % 4 == 0 else token for i, token in enumerate(text)]
    model, draft = scripted(text), scripted(guess)
    tokens, stats = speculative_decode(model, draft, [0], 12, 3, trace=True)
    assert tokens.tolist() == [text[:13]]
    # Places 1 2 3 are right, 4 is wrong: the bonus fills it. Then 5 6 7, bonus 8; 9 10 11, 12.
    assert [r.drafted for r in stats["trace"]] == [(1, 2, 3), (5, 0, 1), (3, 4, 5)]
    assert [(r.accepted, r.reached, r.token, r.kind) for r in stats["trace"]] == [
        (3, 3, 4, "bonus"), (3, 3, 2, "bonus"), (3, 3, 0, "bonus"),
    ]  # fmt: skip
    tokens, stats = speculative_decode(model, draft, [0, 1, 2], 8, 3, trace=True)
    # Now place 4 is the second draft: 3 stays, 4 is corrected; then 5 6 7, bonus 8; then 9 10.
    assert [r.drafted for r in stats["trace"]] == [(3, 5, 5), (5, 0, 1), (3,)]
    assert [(r.accepted, r.reached, r.token, r.kind) for r in stats["trace"]] == [
        (1, 2, 4, "correction"), (3, 3, 2, "bonus"), (1, 1, 4, "bonus"),
    ]  # fmt: skip
    assert stats["total_drafted"] == 7
    assert stats["total_accepted"] == 5
    assert stats["total_reached"] == 6
    assert stats["acceptance_rate"] == 5 / 7
    assert stats["alpha"] == 5 / 6
    assert stats["rounds"] == 3
    assert stats["tokens_per_round"] == 8 / 3
    assert model.calls[-3:] == [[2, 3, 5, 5], [4, 5, 0, 1], [2, 3]]
    assert stats["target_calls"] == 4  # the prompt and three rounds
    assert stats["token_forwards"] == 2 + 4 + 4 + 2
    assert all(0.99 < p <= 1 for r in stats["trace"][1:] for p in (*r.p, *r.q))
    assert stats["trace"][0].p[1] < 0.01


def test_an_accepted_stop_token_ends_the_text_without_a_bonus():
    text = [0, 1, 2, 3, 4, 5] * 4
    model = scripted(text)
    options = {"temperature": 0.0, "top_logprobs": 1, "stop_tokens": [2], "draft_tokens": 4}
    iterator = SpeculativeTokenIterator(model, scripted(text), [0], trace=True, **options)
    assert [(token.id, token.from_draft) for token in iterator] == [(1, True), (2, True)]
    rows = speculative_sample_n(model, scripted(text), [0], 1, **options)
    assert [best[0][0] for best in rows.top_logprobs[0]] == rows[0] == [1, 2]
    assert iterator.stats["finish_reason"] == "stop"
    assert iterator.stats["total_drafted"] == 4
    assert iterator.stats["total_accepted"] == 2
    assert iterator.stats["total_reached"] == 2
    assert iterator.rounds[0].token is None
    assert iterator.rounds[0].kind is None
    assert iterator.cache[0].tokens == [0, 1]
    assert iterator.draft_cache[0].tokens == [0, 1]


def test_a_stop_token_of_the_targets_own():
    text = [0, 1, 2, 3, 4, 5] * 4
    wrong = [0, 1, 5, 5, 5, 5] * 4
    iterator = SpeculativeTokenIterator(
        scripted(text), scripted(wrong), [0], temperature=0.0, stop_tokens=[2]
    )
    assert [(token.id, token.from_draft) for token in iterator] == [(1, True), (2, False)]
    assert iterator.stats["total_accepted"] == 1
    assert iterator.stats["total_reached"] == 2


def test_drafts_never_exceed_the_tokens_still_wanted():
    text = list(range(6)) * 4
    for n in (1, 2, 3, 5, 6):
        tokens, stats = speculative_decode(scripted(text), scripted(text), [0], n, 8)
        assert tokens.shape == (1, 1 + n)
        assert stats["total_drafted"] <= n
        assert stats["acceptance_rate"] == (1.0 if stats["total_drafted"] else 0.0)


def test_a_model_that_drafts_for_itself_is_always_right():
    model = target(peak=2)
    for rule in ("rejection", "block", "coupled"):
        _, stats = speculative_decode(model, model, PROMPT, 60, 4, 1.0, rule=rule, seed=1)
        assert stats["acceptance_rate"] > 0.98
        assert stats["rounds"] <= 13


def waits(monkeypatch, rounds, vocab_size=VOCAB, **options):
    """How often the host waits in so many rounds of four drafts."""
    model, counted, right = target(vocab_size=vocab_size), [], mx.eval
    iterator = SpeculativeTokenIterator(
        model, near(model, 0.1), PROMPT, max_tokens=60, seed=1, **options
    )
    next(iterator)
    monkeypatch.setattr(mx, "eval", lambda *arrays: (counted.append(1), right(*arrays)))
    before = iterator.stats["rounds"]
    while iterator.stats["rounds"] < before + rounds:
        next(iterator)
    assert iterator.stats["total_drafted"] == 4 * iterator.stats["rounds"]
    return len(counted)


def test_one_fetch_a_round(monkeypatch):
    """Between two rounds the host waits once, for everything that it then looks at."""
    assert waits(monkeypatch, 5) == 5


@pytest.mark.parametrize(("options", "looks"), [({}, 4 + 1), ({"top_k": 200}, 0)])
def test_a_nucleus_of_a_large_vocabulary_is_looked_at_once_for_each_draw(
    monkeypatch, options, looks
):
    """``top_p`` alone there asks whether the best 256 hold it: for each draft, and the target."""
    assert waits(monkeypatch, 3, vocab_size=4096, top_p=0.9, **options) == 3 * (1 + looks)


def test_stats_are_current_and_have_the_keys_of_plain_decoding():
    model = target()
    plain = TokenIterator(model, PROMPT, max_tokens=3)
    iterator = SpeculativeTokenIterator(model, near(model, 0.1), PROMPT, max_tokens=30, seed=3)
    assert set(plain.stats) <= set(iterator.stats)
    for n, _ in enumerate(iterator, 1):
        stats = iterator.stats
        assert stats["tokens"] == n == len(iterator.tokens) == len(iterator.logprobs)
        assert stats["total_accepted"] <= stats["total_reached"] <= stats["total_drafted"]
        assert 0 <= stats["acceptance_rate"] <= stats["alpha"] <= 1
        decided = n + len(iterator._ready)
        assert stats["tokens_per_round"] == decided / stats["rounds"]
    assert stats["finish_reason"] == "length"
    assert stats["decode_seconds"] > 0
    assert stats["prefill_seconds"] > 0


def test_the_prompt_is_read_in_chunks_by_both():
    text = list(range(6)) * 4
    model, draft = scripted(text), scripted(text)
    tokens, stats = speculative_decode(model, draft, text[:8], 4, 2, prefill_step_size=3)
    assert model.calls[:3] == draft.calls[:3] == [text[0:3], text[3:6], text[6:7]]
    assert tokens[0].tolist() == text[:12]
    assert stats["draft_calls"] == len(draft.calls)
    assert stats["target_calls"] == len(model.calls)


def test_logits_processors_see_the_text_and_the_drafts():
    """A ban on repeating the last token: it must hold against drafts of the same round too."""

    def no_repeat(tokens, logits):
        banned = mx.arange(logits.shape[-1]) == tokens[-1]
        return mx.where(banned, -1e9, logits)

    model = target(peak=2)
    for rule in ("match", "rejection", "coupled"):
        options = {"max_tokens": 40, "seed": 2, "logits_processors": [no_repeat]}
        iterator = SpeculativeTokenIterator(model, near(model, 0.3), PROMPT, rule=rule, **options)
        text = PROMPT[-1:] + [token.id for token in iterator]
        assert all(a != b for a, b in pairwise(text))
        if rule == "match":
            assert text[1:] == [token.id for token in TokenIterator(model, PROMPT, **options)]


def test_sinks_stop_drafting_before_the_ring_wraps():
    model = target()
    caches = both_caches(model, "sinks")
    iterator = SpeculativeTokenIterator(
        model, model, [1, 2, 3], max_tokens=40, temperature=0.0, trace=True, **caches
    )
    tokens = [token.id for token in iterator]
    assert tokens == greedy(model, [1, 2, 3], 40, make_cache(model, "sinks"))
    assert iterator.rounds[0].kind == "bonus"
    assert {r.kind for r in iterator.rounds[4:]} == {"plain"}
    assert_caches_stand_at(iterator, model, "sinks", [1, 2, 3, *tokens])


def test_not_drafting_is_plain_decoding():
    """γ = 0 for good: the same tokens, the caches exact when the reader leaves early."""
    never = AdaptiveLength(costs=Costs((1.0, 2.0, 3.0), 1.0), alpha=0.0)
    model = target()
    iterator = SpeculativeTokenIterator(
        model, near(model, 0.5), PROMPT, max_tokens=200, draft_tokens=never, temperature=0.0,
        **both_caches(model, "kv"),
    )  # fmt: skip
    tokens = [next(iterator).id for _ in range(29)]
    iterator.close()
    assert tokens == greedy(model, PROMPT, 29)
    assert iterator.stats["total_drafted"] <= 3
    assert_caches_stand_at(iterator, model, "kv", PROMPT + tokens)


@pytest.mark.parametrize(
    ("model_kind", "drafter", "together"),
    [("llama", "model", True), ("llama", "exit", False), ("hybrid", "model", False)],
)
@pytest.mark.parametrize("length", [1, 2, 30, 65, 66])
def test_the_end_of_the_prompt_is_read_with_the_first_drafts(model_kind, drafter, together, length):
    model, lengths = target(model_kind), []

    def counted(tokens, cache):
        lengths.append(tokens.shape[1])
        return model(tokens, cache=cache)

    counted.layers, counted.vocab_size = model.layers, model.vocab_size
    counted.make_cache, counted.model = model.make_cache, getattr(model, "model", None)
    prompt = [3 + i % 7 for i in range(length)]
    draft = near(model, 0.1) if drafter == "model" else EarlyExit(1)
    asked = counted if drafter == "model" else model
    iterator = SpeculativeTokenIterator(asked, draft, prompt, max_tokens=20, temperature=0.0)
    tokens = [token.id for token in iterator]
    assert tokens == greedy(model, prompt, 20)
    assert kv.offset(iterator.cache) in (length + 19, None)
    if drafter == "model":
        at_once = length == 1 or (together and length - 1 <= 64)
        assert lengths[0] == (length + 4 if at_once else length - 1)
        assert iterator.stats["target_calls"] == len(lengths)


@pytest.mark.parametrize("taken", range(1, 8))
@pytest.mark.parametrize("model_kind", ["llama", "hybrid"])
def test_stats_are_current_after_a_close(model_kind, taken):
    model, small, read = target(model_kind), near(target(model_kind), 0.2), []

    def counting(network, place):
        def call(tokens, cache):
            read.append((place, tokens.size))
            return network(tokens, cache=cache)

        call.layers, call.vocab_size = network.layers, network.vocab_size
        call.make_cache = network.make_cache
        return call

    iterator = SpeculativeTokenIterator(
        counting(model, "target"), counting(small, "draft"), PROMPT, temperature=0.0
    )
    for _ in range(taken):
        next(iterator)
    iterator.close()
    by_target = [size for place, size in read if place == "target"]
    assert iterator.stats["target_calls"] == len(by_target)
    assert iterator.stats["token_forwards"] == sum(by_target)
    assert iterator.stats["draft_calls"] == len(read) - len(by_target)

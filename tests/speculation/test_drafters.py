"""Drafters: what they propose, what they cost, and the length that pays."""

import itertools

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.course.replay.measure import measure_costs
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import EarlyExit, NGram, first_layers
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import AdaptiveLength, FixedLength, as_length
from lablib.inference.speculation.draft_model import DraftModel, as_drafter
from lablib.inference.speculation.rules import RULE
from lablib.inference.speculation.speculative_iterator import (
    SpeculativeTokenIterator,
    speculative_decode,
)
from lablib.models import LanguageModel, gpt_config, llama_config
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models import gemma3_text
from mlx_lm.models import llama as mlx_llama
from oracles.speculation import VOCAB, greedy, near, target

PROMPT = [3, 1, 4, 1, 5]


def best(logits, before):
    return mx.argmax(logits, axis=-1).astype(mx.int32), None


# -- n-gram ----------------------------------------------------------------------------------


def lookup_plainly(history, n, longest, shortest):
    """The longest run of last tokens that occurred before: what followed it the last time."""
    for size in range(min(longest, len(history)), shortest - 1, -1):
        suffix = history[len(history) - size :]
        for start in reversed(range(len(history) - size)):
            if history[start : start + size] == suffix:
                return history[start + size : start + size + n]
    return []


def ngram(longest=3, shortest=1):
    return NGram(longest, shortest).begin(None, None, 1)


def test_ngram_by_hand():
    text = [1, 2, 3, 9, 1, 2, 4, 9, 1, 2]
    assert ngram().lookup(text, 3) == [4, 9, 1]  # 9 1 2 -> 4, from the second sentence
    assert ngram().lookup([*text, 3], 2) == [9, 1]  # 1 2 3 -> 9, from the first
    assert ngram().lookup([1, 2, 5], 2) == []
    assert ngram(shortest=2).lookup([1, 2, 3, 2], 2) == []
    assert ngram().lookup([7, 7], 4) == [7]  # the text ends before the guess does


@settings(max_examples=300)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_ngram_equals_the_plain_search_as_the_text_grows(text, steps, longest, shortest):
    longest, shortest = max(longest, shortest), min(longest, shortest)
    drafter = ngram(longest, shortest)
    end = 0
    for step in itertools.cycle(steps):
        end = min(len(text), end + step)
        wanted = lookup_plainly(text[:end], 3, longest, shortest)
        assert drafter.lookup(text[:end], 3) == wanted
        if end == len(text):
            break


def test_ngram_tries_the_longest_run_first():
    text = [1, 2, 3, 4, 7, 3, 5, 1, 2, 3]
    assert ngram(3).lookup(text, 1) == [4]
    assert ngram(1).lookup(text, 1) == [5]


def test_two_texts_at_a_time_do_not_mix():
    model = target()
    drafter = NGram()
    iterators = [
        SpeculativeTokenIterator(model, drafter, prompt, max_tokens=30, temperature=0.0)
        for prompt in (PROMPT, [7, 8])
    ]
    texts = [[], []]
    for _ in range(30):
        for text, iterator in zip(texts, iterators, strict=True):
            text.append(next(iterator).id)
    assert texts == [greedy(model, PROMPT, 30), greedy(model, [7, 8], 30)]


# -- early exit ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["llama3", "gpt", "hybrid", "recurrent"])
def test_early_exit_proposes_what_the_first_layers_say(kind):
    model = target(kind)
    drafter = EarlyExit(1)
    iterator = SpeculativeTokenIterator(
        model, drafter, PROMPT, max_tokens=30, temperature=0.0, trace=True
    )
    tokens = [token.id for token in iterator]
    assert tokens == greedy(model, PROMPT, 30)
    text, shorter = list(PROMPT), first_layers(model, 1)
    for round_ in iterator.rounds:
        if round_.drafted:
            wanted = greedy(shorter, text, len(round_.drafted), kv.make(model)[:1])
            assert list(round_.drafted) == wanted
        text += list(round_.drafted[: round_.accepted])
        text += [] if round_.token is None else [round_.token]
    assert text == PROMPT + tokens
    assert iterator.stats["draft_calls"] == sum(len(r.drafted) for r in iterator.rounds)


def test_early_exit_shares_the_weights_of_any_model_of_mlx_lm():
    args = mlx_llama.ModelArgs(
        model_type="llama", hidden_size=32, num_hidden_layers=3, intermediate_size=64,
        num_attention_heads=2, rms_norm_eps=1e-5, vocab_size=VOCAB,
    )  # fmt: skip
    model = mlx_llama.Model(args)
    tokens, stats = speculative_decode(model, EarlyExit(2), PROMPT, 20)
    assert tokens[0, len(PROMPT) :].tolist() == greedy(
        model, PROMPT, 20, [kv.make(model)[0] for _ in range(3)]
    )
    assert stats["draft_calls"] > 0
    assert len(model.layers) == 3
    assert first_layers(model, 2).model.layers[0] is model.model.layers[0]


def test_early_exit_of_a_model_built_otherwise():
    class Odd:
        layers = (1, 2, 3)

    with pytest.raises(BadValue, match=r"layers in model\.model\.layers, a Odd does not"):
        EarlyExit(1).begin(Rewinder(Odd(), []), None, 1)


def test_early_exit_of_a_model_that_asks_for_a_later_layer_is_refused():
    """Gemma 3 takes its mask from the cache of a fixed layer."""
    args = gemma3_text.ModelArgs(
        model_type="gemma3_text", hidden_size=32, num_hidden_layers=7, intermediate_size=32,
        num_attention_heads=2, head_dim=16, vocab_size=24, num_key_value_heads=1,
        sliding_window_pattern=6,
    )  # fmt: skip
    model = gemma3_text.Model(args)
    drafter = EarlyExit(2)
    for _ in range(2):  # nothing of the first attempt is left in the drafter
        with pytest.raises(BadValue, match=r"n_layers must leave what a Model asks for, got 2: "):
            SpeculativeTokenIterator(model, drafter, PROMPT)
    tokens, _ = speculative_decode(model, EarlyExit(6), PROMPT, 5)
    assert tokens[0, len(PROMPT) :].tolist() == greedy(model, PROMPT, 5, kv.make(model))


@pytest.mark.parametrize("kind", ["llama", "hybrid"])
def test_an_error_while_drafting_by_early_exit_leaves_the_targets_cache_whole(kind):
    model = target(kind)
    wanted = greedy(model, PROMPT, 12)

    def late(tokens, logits):
        if failing and len(tokens) >= len(PROMPT) + 6:
            raise RuntimeError("out of order")
        return logits

    failing = [1]
    iterator = SpeculativeTokenIterator(
        model, EarlyExit(1), PROMPT, max_tokens=12, temperature=0.0, logits_processors=[late]
    )
    with pytest.raises(RuntimeError, match="out of order"):
        list(iterator)
    tokens = iterator.tokens
    assert tokens == wanted[: len(tokens)]
    going_on = (PROMPT + tokens)[-1:] if tokens else PROMPT
    rest = TokenIterator(
        model, going_on, max_tokens=12 - len(tokens), temperature=0.0, cache=iterator.cache
    )
    assert tokens + [token.id for token in rest] == wanted


class Half:
    """Not all that a policy needs."""

    def choose(self):
        return 1


# -- draft model -----------------------------------------------------------------------------


def test_a_draft_model_reads_each_token_once():
    """The last draft, if accepted, is read with the token after it: two at a time, never twice."""
    model, sizes = target(), []
    draft = near(model, 0.1)

    def counting(tokens, cache):
        sizes.append(tokens.shape[1])
        return draft(tokens, cache=cache)

    counting.layers, counting.vocab_size = draft.layers, draft.vocab_size
    counting.make_cache = draft.make_cache
    iterator = SpeculativeTokenIterator(
        model, counting, PROMPT, max_tokens=40, temperature=0.0, trace=True
    )
    tokens = [token.id for token in iterator]
    rejected = sum(max(len(r.drafted) - 1 - r.accepted, 0) for r in iterator.rounds)
    assert sum(sizes) - rejected == len(PROMPT) + len(tokens) - 1
    assert max(sizes[1:]) <= 2


def test_a_drafter_or_a_model():
    drafter = NGram()
    assert as_drafter(drafter) is drafter
    assert isinstance(as_drafter(target()), DraftModel)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: as_drafter(NGram), BadType, "must be an object, got the class NGram itself"),
        (lambda: as_drafter(EarlyExit), BadType, "got the class EarlyExit itself"),
        (lambda: as_length(Half()), BadType, "must have plain_tokens, begin, .* got Half"),
        (lambda: as_length(AdaptiveLength), BadType, "got the class AdaptiveLength itself"),
        (lambda: NGram(0), BadValue, "longest must be at least 1"),
        (lambda: NGram(2, 3), BadValue, "shortest must be between 1 and 2"),
        (lambda: EarlyExit(0), BadValue, "n_layers must be at least 1"),
        (lambda: EarlyExit(1.5), BadType, "n_layers must be an int"),
        (lambda: FixedLength(0), BadValue, "draft_tokens must be at least 1"),
        (lambda: AdaptiveLength(0), BadValue, "most must be at least 1"),
        (lambda: AdaptiveLength(costs=3), BadType, "costs must be Costs"),
        (lambda: AdaptiveLength(memory=1), BadValue, "memory must be at least 2"),
        (lambda: AdaptiveLength(alpha=2.0), BadValue, "alpha must be between"),
        (lambda: AdaptiveLength(margin=-1.0), BadValue, "margin must be at least"),
        (lambda: measure_costs(target("gpt"), NGram(), context=255), BadValue, "context must be"),
        (
            lambda: measure_costs(target("gpt"), NGram(), batch=0),
            BadValue,
            "batch must be at least 1",
        ),
        (
            lambda: measure_costs(target("gpt"), EarlyExit(1), batch=2),
            BadValue,
            "batch must be 1 for",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


# -- how many --------------------------------------------------------------------------------


def test_as_length():
    assert as_length(3).choose() == 3
    adaptive = AdaptiveLength()
    assert as_length(adaptive) is adaptive


def test_the_adaptive_length_fits_a_short_context():
    model = LanguageModel(gpt_config(24, 32, 2, 2, max_positions=64), seed=0)
    tokens, _ = speculative_decode(
        model, near(model, 0.1), PROMPT, 20, AdaptiveLength(), temperature=0.0
    )
    assert tokens[0, len(PROMPT) :].tolist() == greedy(model, PROMPT, 20)
    tiny = LanguageModel(gpt_config(24, 32, 2, 2, max_positions=20), seed=0)
    with pytest.raises(BadValue, match="models must have more than 48 positions, got 20"):
        measure_costs(tiny, NGram())


@pytest.mark.parametrize("kind", ["gpt", "hybrid", "recurrent"])
def test_costs_are_measured_on_any_cache(kind):
    model = target(kind)
    seen = []

    def counted(tokens, cache=None):
        seen.append(tokens.shape[1])
        return model(tokens, cache=cache)

    counted.layers, counted.vocab_size = model.layers, VOCAB
    counted.make_cache = lambda: kv.make(model)
    costs = measure_costs(counted, NGram(), most=3, context=8, repeats=2)
    assert len(costs.target) == 4
    assert costs.draft == 0
    assert min(costs.target) > 0
    assert list(costs.target) == sorted(costs.target)  # more tokens never take less time
    assert {2, 3, 4} <= set(seen)
    for options in ({}, {"rule": "rejection", "temperature": 1.0}, {"rule": "block", "top_k": 5}):
        drafted = measure_costs(model, near(model, 0.1), most=2, context=8, repeats=2, **options)
        assert drafted.draft > 0


@pytest.mark.parametrize("drafter", [NGram(), near(target("gpt"), 0.1)], ids=["look-up", "model"])
@pytest.mark.parametrize("context", [1, 8])
def test_costs_of_a_batch_read_as_many_tokens_of_each_row(drafter, context):
    model, seen = target("gpt"), set()

    def counted(tokens, cache=None):
        seen.add(tokens.shape)
        return model(tokens, cache=cache)

    counted.layers, counted.vocab_size = model.layers, VOCAB
    counted.make_cache = lambda: kv.make(model)
    costs = measure_costs(counted, drafter, most=3, context=context, repeats=2, batch=5)
    assert {(5, k) for k in (1, 2, 3, 4)} <= seen
    assert len(costs.target) == 4
    assert (costs.draft > 0) == (not isinstance(drafter, NGram))


def test_costs_are_those_of_drawing_and_judging_as_asked(monkeypatch):
    asked, honest = set(), RULE["rejection"]
    monkeypatch.setitem(RULE, "rejection", lambda p, q, d: asked.add(p.shape) or honest(p, q, d))
    draft = near(target("gpt"), 0.1)
    measure_costs(target("gpt"), draft, most=2, context=8, repeats=1, temperature=1.0)
    assert not asked
    for temperature in (0.0, 1.0):  # a rule that was replaced is asked at temperature 0 too
        asked.clear()
        options = {"rule": "rejection", "temperature": temperature}
        measure_costs(target("gpt"), draft, most=2, context=8, repeats=1, **options)
        assert asked == {(1, 2, VOCAB), (1, 3, VOCAB)}


def test_misses_in_a_row_make_it_ask_less_often():
    length = AdaptiveLength(8, Costs((1.0, 1.0), 0.0))
    asked = []
    for _ in range(6):
        length.miss()
        asked.append(length.plain_tokens)
    assert asked == [2, 4, 8, 8, 8, 8]
    length.observe(2, 1)
    assert length.plain_tokens == 1
    FixedLength(3).miss()
    assert FixedLength(3).plain_tokens == 1


def replay(length, alpha, rounds, seed=0):
    """Feed a policy with drafts that are kept with probability α; returns the γ it chose."""
    rng, chosen = np.random.default_rng(seed), []
    for _ in range(rounds):
        n = length.choose()
        accepted = 0
        while accepted < n and rng.random() < alpha:
            accepted += 1
        length.observe(min(accepted + 1, n), accepted)
        chosen.append(n)
    return chosen


def test_it_recovers_when_drafting_pays_again():
    length = AdaptiveLength(8, Costs((1.0, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9), 0.1), memory=32)
    assert replay(length, 0.02, 300)[-1] <= 1
    assert min(replay(length, 0.95, 400)[-20:]) >= 4


def test_what_rounds_take_is_kept_for_a_pair_and_forgotten_with_another():
    model = LanguageModel(llama_config(VOCAB, 64, 2, 4), seed=0)
    draft = LanguageModel(llama_config(VOCAB, 32, 1, 1), seed=0)
    length = AdaptiveLength(4)
    length.begin(model, as_drafter(draft))
    for gamma in (2, 2, 0, 0):
        length.timed(gamma, 1.0 + gamma)
    assert [length.of_round(gamma) for gamma in range(5)] == pytest.approx([1, 2, 3, 4, 5])
    length.begin(model, as_drafter(draft))
    assert length.of_round(2) == pytest.approx(3.0)
    length.begin(model, NGram())
    assert length.choose() == 2  # as at the start
    length.timed(2, 9.0)
    length.timed(2, 9.0)
    assert length.choose() == 0


class Told(FixedLength):
    """Remembers what it was told."""

    def __init__(self):
        super().__init__(3)
        self.rounds = []

    def timed(self, drafted, seconds):
        assert seconds > 0
        self.rounds.append(drafted)


def test_a_policy_is_told_of_every_round_but_the_first_of_a_text():
    model, length = target(), Told()
    for _ in range(2):
        length.rounds.clear()
        iterator = SpeculativeTokenIterator(
            model, near(model, 0.1), PROMPT, max_tokens=20, draft_tokens=length, trace=True
        )
        assert len(list(iterator)) == 20
        assert length.rounds == [len(each.drafted) for each in iterator.rounds[1:]]


def test_adaptive_text_is_the_same_text():
    model = target()
    costs = Costs((1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6), 0.2)
    for noise in (0.05, 0.6):
        length = AdaptiveLength(6, costs)
        tokens, stats = speculative_decode(model, near(model, noise), PROMPT, 80, length)
        assert tokens[0, len(PROMPT) :].tolist() == greedy(model, PROMPT, 80)
        assert stats["total_drafted"] > 0

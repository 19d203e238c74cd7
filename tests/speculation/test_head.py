"""A draft head: what it reads is what the target computed, and the text never depends on it."""

from lablib.cache import kv
from lablib.course.replay.measure import measure_costs
from lablib.inference.completions import speculative_sample_n
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import Head
from lablib.inference.speculation.draft_length import AdaptiveLength
from lablib.inference.speculation.speculative_iterator import (
    SpeculativeTokenIterator,
    speculative_decode,
)
from lablib.inference.speculation.trained_head import Watched
from lablib.models import DraftHead, LanguageModel, gpt_config, hybrid_config, llama_config
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest

V, PROMPT = 24, [3, 1, 4, 1, 5, 9, 2, 6, 5]
CONFIGS = {
    "llama": llama_config(V, d_model=32, n_heads=4, n_layers=2, d_ff=48),
    "gpt": gpt_config(V, d_model=32, n_heads=2, n_layers=2, max_positions=128),
    "hybrid": hybrid_config(V, d_model=32, n_heads=2, n_layers=4),
}
IDS = range(0, V, 2)


@pytest.fixture(scope="module", params=CONFIGS)
def model(request):
    model = LanguageModel(CONFIGS[request.param], seed=3)
    model.set_dtype(mx.float32)
    return model


def head_of(model, ids=None, seed=1):
    return Head(DraftHead(model, ids, 16, seed=seed))


def plain(model, prompt=PROMPT, **options):
    return [token.id for token in TokenIterator(model, prompt, **options)]


@pytest.mark.grid(lambda model, prompt, ids, gamma: len(prompt) == 1 or ids is None)
@pytest.mark.parametrize("gamma", [1, 2, 5])
@pytest.mark.parametrize("ids", [None, IDS])
@pytest.mark.parametrize("prompt", [PROMPT, [7], PROMPT * 9])
def test_greedy_text_and_caches_are_those_of_plain_decoding(model, prompt, ids, gamma):
    options = {"max_tokens": 25, "temperature": 0.0, "prefill_step_size": 4}
    drafter = head_of(model, ids)
    iterator = SpeculativeTokenIterator(model, drafter, prompt, draft_tokens=gamma, **options)
    with iterator:
        assert [token.id for token in iterator] == plain(model, prompt, **options)
    assert kv.offset(iterator.cache) == len(prompt) + 24
    assert iterator.stats["draft_calls"] == iterator.stats["total_drafted"] > 0
    assert drafter.calls == 0  # a session's


@pytest.mark.parametrize("options", [{}, {"top_p": 0.8}, {"repeat_penalty": 1.4}])
def test_match_writes_the_text_of_its_seed(model, options):
    options |= {"max_tokens": 30, "temperature": 1.2, "seed": 5}
    text, _ = speculative_decode(model, head_of(model, IDS), PROMPT, rule="match", **options)
    assert text[0, len(PROMPT) :].tolist() == plain(model, **options)


def test_it_reads_the_states_that_a_fresh_forward_gives(model, monkeypatch):
    """And each of the text once, with the token after it."""
    taken, read, take = [], [], Watched.take

    def spy(watched, start, stop):
        states = take(watched, start, stop)
        taken.append((start, stop, np.array(states[0])))
        return states

    def spy_too(head, states, tokens, cache):
        read.append((kv.offset(cache), states.shape[1], tokens[0].tolist()))
        return call(head, states, tokens, cache)

    call = DraftHead.__call__
    monkeypatch.setattr(Watched, "take", spy)
    monkeypatch.setattr(DraftHead, "__call__", spy_too)
    iterator = SpeculativeTokenIterator(
        model, head_of(model), PROMPT, max_tokens=20, draft_tokens=3, seed=2, temperature=1.5
    )
    with iterator:
        text = PROMPT + [token.id for token in iterator]
    fresh = np.array(model.hidden(mx.array([text]))[0])
    assert [start for start, _, _ in taken] == [0, *(stop for _, stop, _ in taken[:-1])]
    assert taken[-1][1] >= len(text) - 2 - 3  # all but what the last round wrote
    for start, stop, states in taken:
        assert np.abs(states - fresh[start:stop]).max() < 1e-4
        assert (start, stop - start, text[start + 1 : stop + 1]) in read


def test_a_text_goes_on_in_a_cache(model):
    cache, options = kv.make(model), {"max_tokens": 12, "temperature": 0.0}
    whole = plain(model, **options | {"max_tokens": 24})
    first = plain(model, cache=cache, **options)
    drafter = head_of(model)
    iterator = SpeculativeTokenIterator(model, drafter, first[-1:], cache=cache, **options)
    assert first + [token.id for token in iterator] == whole


def test_samples_are_drawn_row_by_row(model):
    options = {"max_tokens": 8, "temperature": 1.0, "seed": 4, "rule": "match"}
    together = speculative_sample_n(model, head_of(model, IDS), PROMPT, 3, **options)
    for row in range(3):
        alone = SpeculativeTokenIterator(model, head_of(model), PROMPT, stream=row, **options)
        assert [token.id for token in alone] == together.tokens[row]


def test_a_head_can_be_timed(model):
    length = AdaptiveLength(most=2)
    options = {"max_tokens": 20, "temperature": 0.0}
    tokens, _ = speculative_decode(model, head_of(model), PROMPT, 20, length, 0.0)
    assert tokens[0, len(PROMPT) :].tolist() == plain(model, **options)
    assert measure_costs(model, head_of(model), most=2, context=8, repeats=1).draft > 0


def test_only_frequent_tokens_are_drafted_and_only_they_are_scored(model):
    head = DraftHead(model, IDS, 16, seed=2)
    states = mx.random.normal((2, 3, 32), key=mx.random.key(1))
    assert head.scores(states).shape == (2, 3, len(IDS))
    logits = np.array(head.logits(states[:, 0]))
    assert np.flatnonzero(np.isfinite(logits[0])).tolist() == [*IDS]
    assert np.abs(logits[:, ::2] - np.array(model.output(states[:, 0]))[:, ::2]).max() < 1e-4
    whole = DraftHead(model, None, 16, seed=2)
    assert np.abs(np.array(whole.logits(states[0]) - model.output(states[0]))).max() < 1e-4


def test_it_is_causal_and_a_cache_changes_nothing(model):
    head = DraftHead(model, None, 16, seed=2)
    states = mx.random.normal((1, 6, 32), key=mx.random.key(1))
    tokens, cache = mx.array([[1, 2, 3, 4, 5, 6]]), head.make_cache()
    parts = [head(states[:, i:j], tokens[:, i:j], cache) for i, j in ((0, 3), (3, 4), (4, 6))]
    assert np.abs(np.array(mx.concatenate(parts, axis=1) - head(states, tokens))).max() < 1e-5


def test_what_is_taken_back_is_watched_anew(model):
    cache = kv.make(model)
    if kv.trimmable([*cache], after=1) == 0:
        pytest.skip("its cache cannot be trimmed: the rewinder replays")
    watched = Watched(model)
    watched(mx.array([PROMPT]), cache)
    kv.trim(cache, 4)
    watched(mx.array([[8, 8]]), cache)
    text = [*PROMPT[:-4], 8, 8]
    fresh = model.hidden(mx.array([text]))
    assert np.abs(np.array(watched.take(2, 7) - fresh[:, 2:7])).max() < 1e-4
    assert watched.vocab_size == V


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: Head(m), BadType, "head must be a DraftHead"),
        (lambda m: DraftHead(object()), BadType, "target must be a LanguageModel, got object"),
        (lambda m: DraftHead(m, [V]), BadValue, "ids.*between 0 and 23, got 24"),
        (lambda m: DraftHead(m, []), BadValue, "ids must hold at least one"),
        (lambda m: DraftHead(m, None, 0), BadValue, "intermediate_size must be at least 1"),
        (
            lambda m: speculative_decode(
                LanguageModel(CONFIGS["llama"], seed=9), head_of(m), PROMPT
            ),
            BadValue, "target must be the model that the head was loaded for",
        ),
        (
            lambda m: speculative_decode(m, head_of(m), PROMPT, draft_cache=kv.make(m)),
            BadValue, "draft_cache must be None with Head",
        ),
    ],
)  # fmt: skip
def test_bad_arguments(call, error, message, model):
    with pytest.raises(error, match=message):
        call(model)


def test_a_recurrent_cache_alone_is_refused():
    config = hybrid_config(V, d_model=32, n_heads=2, n_layers=1)
    model = LanguageModel(config, seed=1)
    if kv.offset(kv.make(model)) is not None:
        pytest.skip("a single layer of the hybrid is attention")
    with pytest.raises(BadValue, match="cache must count its tokens"):
        speculative_decode(model, head_of(model), PROMPT)

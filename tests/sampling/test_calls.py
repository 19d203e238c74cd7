"""Calls and options: what is refused, flagged or neutral; a call that fails changes nothing."""

import math

from lablib.inference.sampling.sampler import SamplerOptions
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles.slots import (
    KINDS,
    MIXED,
    PENALTIES,
    filled,
    position,
    stream_of_logits,
    together,
    window,
)


def test_an_empty_call_and_an_empty_sampler():
    sampler = filled()
    empty = sampler.sample([], mx.zeros((0, 9)))
    assert empty.token.shape == (0,)
    assert empty.logprob is None
    assert sampler.batch([]).draw(mx.zeros((0, 9)))[0].shape == (0,)
    sampler.remove("never added")
    assert len(sampler) == 64
    sampler.free()
    assert len(sampler) == 0
    assert 0 not in sampler
    sampler.add(0, MIXED[0])
    assert 0 in sampler


LOGITS = mx.array(np.random.default_rng(0).normal(size=(3, 9)).astype(np.float32))
BAD_ROW = {
    "nan": mx.array([math.nan] + [0.0] * 8),
    "-nan": mx.array([-math.nan] + [0.0] * 8),
    "inf": mx.array([math.inf] + [0.0] * 8),
    "all -inf": mx.full((9,), -mx.inf),
}
CALLS = {
    "unknown id": (lambda s: s.sample([0, "x", 1], LOGITS), BadValue, "'x' is not registered"),
    "repeated id": (lambda s: s.sample([0, 1, 0], LOGITS), BadValue, "repeat an id, got 0"),
    "too few rows": (lambda s: s.sample([0, 1, 2], LOGITS[:2]), BadValue, "shape (3, V)"),
    "one row too many dimensions": (lambda s: s.sample([0], LOGITS), BadValue, "shape (1, V)"),
    "rank": (lambda s: s.sample([0], LOGITS[0]), BadValue, "(9,)"),
    "no vocabulary": (lambda s: s.sample([0], LOGITS[:1, :0]), BadValue, "(1, 0)"),
    "integers": (lambda s: s.sample([0], mx.zeros((1, 9), mx.int32)), BadType, "floating"),
    "lists": (lambda s: s.sample([0], [[0.0, 1.0]]), BadType, "logits must be an mlx array"),
    "history": (lambda s: s.sample([3, 5], LOGITS[:2, :3]), BadValue, "slot 3 was given"),
    "history without penalties": (
        lambda s: (s.add("y", MIXED[1], [40]), s.sample([3, "y"], LOGITS[:2]))[1],
        BadValue,
        "slot 'y' was given token 40",
    ),
    "add twice": (lambda s: s.add(3, MIXED[0]), BadValue, "3 is already registered"),
    "options": (lambda s: s.add(100, {"top_k": 1}), BadType, "options must be SamplerOptions"),
    "prior": (lambda s: s.add(100, MIXED[0], [1, -2]), BadValue, "prior_tokens[1]"),
    "prior text": (lambda s: s.add(100, MIXED[0], "abc"), BadType, "prior_tokens"),
    "stream": (lambda s: s.add(100, MIXED[0], stream=-1), BadValue, "stream"),
    "commit unknown": (lambda s: s.commit(100, [1]), BadValue, "100 is not registered"),
    "commit negative": (lambda s: s.commit(5, [1, -1]), BadValue, "tokens[1]"),
    "commit beyond int32": (lambda s: s.commit(5, [2**31]), BadValue, "tokens[0]"),
    "one id": (lambda s: s.sample(5, LOGITS[:1]), BadType, "seq_ids must be a sequence"),
    "text": (lambda s: s.sample("5", LOGITS[:1]), BadType, "seq_ids must be a sequence"),
    "commit float": (lambda s: s.commit(5, [1.0]), BadType, "tokens[0]"),
    "commit many": (
        lambda s: s.commit([5, 8], [7, 8]),
        BadType,
        "one id, and hashable, got [5, 8]",
    ),
    "commit a later float": (lambda s: s.commit(5, [1, 2.0]), BadType, "tokens[1]"),
    "positions": (
        lambda s: s.sample([5], LOGITS[None]),
        BadValue,
        "shape (B, V) for B ids, got (1, 3, 9)",
    ),
    "R > D + 1": (lambda s: s.speculative_scores(5, LOGITS, [1]), BadValue, "1 to 2 rows"),
    "draft": (lambda s: s.speculative_scores(5, LOGITS, [1, 9]), BadValue, "slot 5"),
    "draft on the device": (
        lambda s: s.speculative_scores(5, LOGITS, mx.array([1, 9])),
        BadValue,
        "draft_tokens of slot 5[1] must be between 0 and 8",
    ),
    "draft shape": (lambda s: s.speculative_scores(5, LOGITS, [[1, 2]]), BadValue, "(D,)"),
    "drafts shape": (
        lambda s: s.speculative_scores([5, 8], LOGITS[None][mx.array([0, 0])], [1, 2]),
        BadValue,
        "(2, D)",
    ),
    "scores rank": (lambda s: s.speculative_scores(5, LOGITS[0], [1]), BadValue, "(R, V)"),
    "batch of one id": (lambda s: s.batch(5), BadType, "seq_ids must be a sequence"),
} | {
    f"{name} row": (
        lambda s, row=row, kind=kind: s.sample([7, kind, 9], mx.stack([LOGITS[0], row, LOGITS[1]])),
        BadValue,
        f"logits of slot {kind}:",
    )
    for kind in range(len(KINDS) - 6)
    for name, row in BAD_ROW.items()
}


@pytest.mark.parametrize("call", CALLS)
def test_a_refused_call_names_the_culprit_and_changes_nothing(call):
    function, error, message = CALLS[call]
    sampler, untouched = filled(), filled()
    for s in (sampler, untouched):
        s.sample(range(64), mx.broadcast_to(LOGITS[:1], (64, 9)))
    with pytest.raises(error) as caught:
        function(sampler)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(sampler) == 64 + ("y" in sampler)
    for i in range(64):
        assert window(sampler, i) == window(untouched, i)
        assert position(sampler, i) == position(untouched, i)
    step = mx.broadcast_to(LOGITS[2:], (64, 9))
    for _ in range(2):
        got, want = (s.sample(range(64), step).token for s in (sampler, untouched))
        assert np.array_equal(got, want)


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("row", BAD_ROW)
@pytest.mark.parametrize("vocab_size", [9, 3000])
def test_unfit_rows_are_flagged_and_do_not_spoil_their_neighbours(kind, row, vocab_size):
    logits = stream_of_logits(vocab_size, 3, 1)[0]
    want = filled([SamplerOptions(**KINDS[kind], seed=1)] * 3).sample(range(3), logits).token
    logits[1] = -mx.inf if row == "all -inf" else logits[1]
    if row != "all -inf":
        logits[1, vocab_size // 2] = BAD_ROW[row][0]
    sampler = filled([SamplerOptions(**KINDS[kind], seed=1)] * 3)
    token, finite = sampler.batch(range(3)).draw(logits)
    assert finite.tolist() == [True, False, True]
    assert (token[0].item(), token[2].item()) == (want[0].item(), want[2].item())
    _, finite = sampler.batch([0, 1, 2]).cut(logits[:, None])
    assert finite.tolist() == [[True], [False], [True]]
    with pytest.raises(BadValue, match="slot 1"):
        sampler.speculative_scores([0, 1, 2], logits[:, None], np.zeros((3, 0), int))


def test_unseen_tokens_far_outside_the_vocabulary_are_not_written_to():
    """``unseen`` are on their way and cannot be looked at; a window must not reach past its row."""
    unseen = mx.array([[1, 2], [1, 2**30], [-(2**30), 2]])
    rows = mx.broadcast_to(LOGITS[None], (3, 3, 9))
    tokens, finite = filled().batch([5, 8, 1]).draw(rows, unseen)
    want, _ = filled().batch([5]).draw(rows[:1], unseen[:1])
    assert finite.all()
    assert np.array_equal(tokens[:1], want)
    assert np.array_equal((tokens >= 0) & (tokens < 9), np.ones((3, 3), bool))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"temperature": math.nan}, BadValue),
        ({"temperature": math.inf}, BadValue),
        ({"temperature": -0.1}, BadValue),
        ({"temperature": "hot"}, BadType),
        ({"top_p": math.nan}, BadValue),
        ({"top_p": 1.5}, BadValue),
        ({"top_p": -0.5}, BadValue),
        ({"min_p": math.nan}, BadValue),
        ({"min_p": 1.01}, BadValue),
        ({"top_k": 1.5}, BadType),
        ({"top_k": True}, BadType),
        ({"repeat_last_n": -2}, BadValue),
        ({"repeat_penalty": math.nan}, BadValue),
        ({"repeat_penalty": 1e-9}, BadValue),
        ({"presence_penalty": math.nan}, BadValue),
        ({"frequency_penalty": math.inf}, BadValue),
        ({"seed": 1.0}, BadType),
        ({"logprobs": 1}, BadType),
        ({"top_logprobs": -1}, BadValue),
    ],
)
def test_bad_options_are_named(options, error):
    with pytest.raises(error, match=next(iter(options))):
        SamplerOptions(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"top_p": 0.0},
        {"top_k": -1},
        {"top_k": 97},
        {"top_k": 10_000},
        {"repeat_penalty": 0.0, "repeat_last_n": -1},
        {"repeat_penalty": -3},
        {"repeat_last_n": 0} | PENALTIES,
        {"seed": 0, "logprobs": True},
    ],
)
def test_neutral_options_change_nothing(options):
    logits = stream_of_logits(97)
    plain = [SamplerOptions(seed=0)] * 64
    assert np.array_equal(
        together(logits, plain), together(logits, [SamplerOptions(**{"seed": 0} | options)] * 64)
    )


def test_extreme_options_keep_their_meaning():
    """Tiny positive values do not become 0 on the device, nor huge ones infinite."""
    row = mx.array([[0.0, 1.0, 1.0, -1.0]])

    def probs(**options):
        sampler = filled([SamplerOptions(**options)], ())
        return np.exp(np.array(sampler.speculative_scores(0, row, [])))[0]

    assert np.allclose(probs(temperature=1e-300), [0, 0.5, 0.5, 0])
    assert np.allclose(probs(temperature=1e30), 0.25)
    assert np.allclose(probs(top_p=1e-300), [0, 1, 0, 0])
    assert np.allclose(probs(min_p=1e-300), probs())
    assert np.allclose(probs(min_p=1.0), [0, 0.5, 0.5, 0])
    assert np.allclose(probs(temperature=0), [0, 1, 0, 0])

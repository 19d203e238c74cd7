"""Slots: what a sequence gets depends on itself alone, and not on its neighbours."""

import math
from dataclasses import replace

from lablib.inference.sampling import random_numbers
from lablib.inference.sampling.sampler import Sampler, SamplerOptions

import mlx.core as mx
import numpy as np
import pytest
from oracles import sampling as oracle
from oracles.slots import (
    KINDS,
    MIXED,
    NUM_CTX,
    PENALTIES,
    STEPS,
    filled,
    position,
    stream_of_logits,
    together,
    window,
)


@pytest.mark.parametrize("vocab_size", [97, 512, 5000])
def test_alone_shuffled_and_together_give_the_same_tokens(vocab_size):
    logits = stream_of_logits(vocab_size)
    expected = together(logits)
    alone, shuffled = filled(), filled()
    rng = np.random.default_rng(0)
    for step, want in zip(logits, expected, strict=True):
        one = [alone.sample([i], step[i : i + 1]).token.item() for i in range(64)]
        assert one == want.tolist()
        order = rng.permutation(64)
        got = shuffled.sample(order.tolist(), step[mx.array(order)]).token
        assert np.array_equal(got, want[order])


@pytest.mark.parametrize("vocab_size", [97, 3000])
def test_slots_that_come_and_go_disturb_nobody(vocab_size):
    """At each step some slots sit out, some are removed, and strangers take their places."""
    logits = stream_of_logits(vocab_size)
    expected = together(logits)
    sampler, rng = filled(), np.random.default_rng(1)
    at, alive = np.zeros(64, int), list(range(64))
    for turn in range(4 * STEPS):
        ready = [i for i in alive if at[i] < STEPS]
        if not ready:
            break
        chosen = rng.permutation(np.array([i for i in ready if rng.random() < 0.6], int))
        rows = [logits[at[i]][i] for i in chosen]
        got = sampler.sample(chosen.tolist(), mx.stack(rows) if rows else mx.zeros((0, vocab_size)))
        assert np.array_equal(got.token, [expected[at[i], i] for i in chosen])
        at[chosen] += 1
        leaver = int(rng.choice(alive))
        alive.remove(leaver)
        sampler.remove(leaver)
        sampler.add(("stranger", turn), replace(MIXED[leaver], seed=99), [vocab_size - 1] * 5)
        sampler.sample([("stranger", turn)], logits[0][:1])
    assert at.max() == STEPS


def test_a_new_slot_inherits_nothing():
    logits = stream_of_logits(50, 1)
    options = SamplerOptions(repeat_penalty=50.0, repeat_last_n=-1, seed=3)
    fresh, used = Sampler(NUM_CTX), Sampler(NUM_CTX)
    for i in range(12):
        used.add(i, options, range(50))
        used.sample([i], logits[0])
    for i in range(12):
        used.remove(i)
    fresh.add("a", options, [4])
    used.add("b", options, [4])
    assert window(used, "b") == [4]
    for step in logits:
        assert fresh.sample(["a"], step).token.item() == used.sample(["b"], step).token.item()


def test_a_uniform_batch_equals_a_mixed_one():
    """The fused stages of a batch of one kind, and the same rows among other kinds."""
    logits = stream_of_logits(300)
    for kind in range(len(KINDS)):
        options = [SamplerOptions(**KINDS[kind], seed=i // 2) for i in range(64)]
        same_rows = np.arange(kind, 64, len(KINDS))
        got = together(logits[:3], options)[:, same_rows]
        assert np.array_equal(got, together(logits[:3])[:, same_rows])


def test_a_draw_that_depends_on_the_batch_is_caught(monkeypatch):
    """One key for the whole batch, as some samplers have it: rows then depend on their place."""
    honest = random_numbers.uniforms

    def first_key(keys, positions, size):
        own = np.full(len(keys), keys[0]) + np.arange(len(keys), dtype=np.uint64)
        return honest(own, positions, size)

    monkeypatch.setattr(random_numbers, "uniforms", first_key)
    with pytest.raises(AssertionError):
        test_alone_shuffled_and_together_give_the_same_tokens(97)
    with pytest.raises(AssertionError):
        test_positions_of_a_sequence_equal_sampling(97, 3)


def test_seeds_streams_and_the_operating_system():
    logits = mx.zeros((1, 1000))

    def run(seq_id, steps=6, **options):
        stream = options.pop("stream", 0)
        sampler = Sampler(NUM_CTX)
        sampler.add(seq_id, SamplerOptions(**options), stream=stream)
        return [sampler.sample([seq_id], logits).token.item() for _ in range(steps)]

    assert run("a", seed=5) == run(("other", "name"), seed=5)
    different = [run(0, seed=5), run(0, seed=6), run(0, seed=5, stream=1), run(0, seed=6, stream=1)]
    different += [run(0), run(0), run(0, seed=-1), run(0, seed=-1), run(0, seed=5 + 2**64)]
    assert len({tuple(tokens) for tokens in different}) == len(different)


def test_the_global_random_state_is_left_alone():
    mx.random.seed(1)
    np.random.seed(1)
    before = [np.array(s) for s in mx.random.state], np.random.get_state()[1].copy()
    together(stream_of_logits(97)[:2])
    filled([SamplerOptions()]).sample([0], mx.zeros((1, 9)))
    after = [np.array(s) for s in mx.random.state], np.random.get_state()[1]
    assert all(np.array_equal(a, b) for a, b in zip(before[0], after[0], strict=True))
    assert np.array_equal(before[1], after[1])


@pytest.mark.parametrize("vocab_size", [97, 3000])
def test_drawing_ahead_equals_sampling(vocab_size):
    """Tokens drawn and not yet committed, 0 to 5 of them, with any length of window."""
    logits = stream_of_logits(vocab_size)
    expected = together(logits)
    for committed in (0, 2):
        sampler, ids = filled(), list(range(64))
        for step in range(committed):
            for i in ids:
                sampler.commit(i, [expected[step, i]])
        pending = None
        for step in range(committed, STEPS):
            token, finite = sampler.batch(ids).draw(logits[step], pending)
            assert finite.all()
            assert np.array_equal(token, expected[step])
            token = token[:, None]
            pending = token if pending is None else mx.concatenate([pending, token], axis=1)
        assert position(sampler, 0) == committed


@pytest.mark.parametrize("vocab_size", [97, 3000])
@pytest.mark.parametrize("n_rows", [1, 3, STEPS])
def test_positions_of_a_sequence_equal_sampling(vocab_size, n_rows):
    """R rows with the right drafts: the tokens that R calls of ``sample`` draw (rule "match")."""
    logits = stream_of_logits(vocab_size)
    expected = together(logits)
    sampler, ids = filled(), list(range(64))
    rows = mx.stack(logits, axis=1)[:, STEPS - n_rows :]
    drafts = expected[: STEPS - 1].T
    token, finite = sampler.batch(ids).draw(rows, mx.array(drafts))
    assert finite.all()
    assert np.array_equal(token, expected[STEPS - n_rows :].T)
    for i in (0, 5, 8, 11):
        token, _ = sampler.batch([i]).draw(rows[i : i + 1], mx.array(drafts[i : i + 1]))
        assert np.array_equal(token[0], expected[STEPS - n_rows :, i])
        one = sampler.speculative_scores(i, rows[i], drafts[i])
        many = sampler.speculative_scores([i, 1], rows[mx.array([i, 1])], drafts[[i, 1]])
        assert np.array_equal(one, many[0])
    assert position(sampler, 5) == 0


def test_speculative_scores_are_what_plain_sampling_sees():
    """Commit the drafts one by one and score one row each time."""
    logits = stream_of_logits(97)
    rows = mx.stack(logits, axis=1)[:, :3]
    drafts = np.array([[4, 4], [5, 6]] * 32)
    ids = list(range(64))
    scores = filled().speculative_scores(ids, rows, drafts)
    sampler = filled()
    for i in range(3):
        one = sampler.speculative_scores(ids, rows[:, i : i + 1], np.zeros((64, 0), int))
        assert np.array_equal(one[:, 0], scores[:, i])
        if i < 2:
            for row in ids:
                sampler.commit(row, [drafts[row, i]])
    assert scores.dtype == mx.float32
    greedy = np.array(scores[0])
    assert np.array_equal(np.sort(greedy, axis=-1)[:, [0, -2, -1]], [[-np.inf, -np.inf, 0]] * 3)
    assert np.array_equal(greedy.argmax(-1), rows[0].argmax(-1))


@pytest.mark.parametrize("repeat_last_n", [-1, 0, 1, 2, 5, 64])
def test_the_window_is_the_last_tokens_exactly(repeat_last_n):
    rng = np.random.default_rng(0)
    history = rng.integers(0, 30, 4).tolist()
    sampler = Sampler(NUM_CTX)
    options = SamplerOptions(repeat_last_n=repeat_last_n, seed=0, **PENALTIES)
    sampler.add(0, options, history)
    for _ in range(40):
        assert window(sampler, 0) == oracle.window(history, repeat_last_n, NUM_CTX)
        if rng.random() < 0.5:
            logits = mx.array(rng.normal(size=(1, 30)))
            history += sampler.sample([0], logits).token.tolist()
        else:
            tokens = rng.integers(0, 30, rng.integers(0, 9)).tolist()
            sampler.commit(0, tokens)
            history += tokens
    assert position(sampler, 0) == len(history) - 4


def test_a_huge_window_costs_only_what_it_holds():
    sampler = Sampler(2**40)
    sampler.add(0, SamplerOptions(repeat_last_n=-1, seed=0, **PENALTIES), range(100))
    sampler.add(1, SamplerOptions(repeat_last_n=2**50, seed=0, **PENALTIES), range(100))
    for _ in range(200):
        sampler.sample([0, 1], mx.zeros((2, 100)))
    assert len(window(sampler, 0)) == 300
    assert window(sampler, 0) == window(sampler, 1)


def test_log_probabilities_are_of_the_raw_logits():
    logits = mx.array(np.random.default_rng(0).normal(size=(5, 40)) * 4).astype(mx.bfloat16)
    row = np.array(logits[0].astype(mx.float32))
    logits[0] = mx.round(logits[0])  # ties
    asks = [
        {"logprobs": True, "temperature": 0.3, "top_k": 2} | PENALTIES,
        {},
        {"top_logprobs": 3},
        {"logprobs": True, "top_logprobs": 400},
        {"temperature": 0.0, "logprobs": True},
    ]
    sampler = filled([SamplerOptions(**o, seed=1) for o in asks])
    result = sampler.sample(range(5), logits)
    assert (result.logprob.shape, result.top_tokens.shape) == ((5, 1), (5, 40))
    for i, options in enumerate(asks):
        raw = np.array(logits[i].astype(mx.float32), np.float64)
        log_probs = raw - raw.max() - math.log(np.exp(raw - raw.max()).sum())
        if options.get("logprobs"):
            assert result.logprob[i].item() == pytest.approx(
                log_probs[result.token[i].item()], 1e-5
            )
        else:
            assert math.isnan(result.logprob[i].item())
        k = min(options.get("top_logprobs", 0), 40)
        best = oracle.ranking(raw.tolist())[:k]
        assert result.top_tokens[i].tolist() == best + [-1] * (40 - k)
        assert np.allclose(result.top_logprobs[i, :k], log_probs[best], atol=1e-5)
        assert np.isnan(np.array(result.top_logprobs[i, k:])).all()
    assert result.logprob.dtype == mx.float32
    plain = filled([SamplerOptions(seed=1)]).sample([0], mx.array(row[None]))
    assert (plain.logprob, plain.top_tokens, plain.top_logprobs) == (None, None, None)
    assert plain.token.dtype == mx.int32


def test_uniforms_beside_the_draws():
    sampler = filled()
    first = sampler.batch([3]).uniforms(4)
    assert first.shape == (1, 4)
    assert first.dtype == np.float32
    assert np.array_equal(first, sampler.batch([3]).uniforms(4))
    assert np.array_equal(first[:, :1], sampler.batch([3]).uniforms(1))
    assert not np.intersect1d(first, sampler.batch([3]).uniforms(4, lane=2)).size
    sampler.commit(3, [1])
    assert np.array_equal(sampler.batch([3]).uniforms(3), first[:, 1:])
    assert np.array_equal(filled([MIXED[3]]).batch([0]).uniforms(4), first)


def test_uniforms_of_many_slots_are_those_of_each():
    sampler = filled()
    sampler.commit(8, [1, 2, 3])
    together = sampler.batch((5, 8, 1)).uniforms(7, lane=3)
    assert together.shape == (3, 7)
    for row, seq_id in zip(together, (5, 8, 1), strict=True):
        assert np.array_equal(row, sampler.batch([seq_id]).uniforms(7, lane=3)[0])
        key = random_numbers.key(random_numbers.key(MIXED[seq_id].seed, 0), 3)
        at = np.arange(7) + position(sampler, seq_id)
        assert np.array_equal(row, random_numbers.uniforms(np.full(7, key, np.uint64), at))
    assert sampler.batch([]).uniforms(7).shape == (0, 7)


def test_a_tuple_is_committed_like_a_list():
    sampler, other = filled(), filled()
    sampler.commit(5, (7, 8))
    other.commit(5, [7, 8])
    assert position(sampler, 5) == 2
    assert window(sampler, 5) == window(other, 5) == [1, 2, 3, 2, 7, 8]

"""Slots: what a sequence gets depends on itself alone, and a call that fails changes nothing."""

import math
from dataclasses import replace

from lablib.inference.sampling import fast_paths, random_numbers, transforms
from lablib.inference.sampling.options import TABLE
from lablib.inference.sampling.sampler import Sampler, SamplerOptions
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles import sampling as oracle

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
    return [mx.array((scales * rng.normal(size=(n, vocab_size))).astype(np.float32))] + [
        mx.array((scale * rng.normal(size=(n, vocab_size))).astype(np.float32))
        for _ in range(steps - 1)
    ]


def filled(options=MIXED, prior=(1, 2, 3, 2)):
    sampler = Sampler(NUM_CTX)
    for i, o in enumerate(options):
        sampler.add(i, o, prior)
    return sampler


def together(logits, options=MIXED):
    """The tokens (T, B) of all slots sampled side by side."""
    sampler = filled(options)
    return np.array([np.array(sampler.sample(range(len(options)), step).token) for step in logits])


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
    assert used.window("b") == [4]
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

    def first_key(keys, positions):
        return honest(
            np.full(len(keys), keys[0]) + np.arange(len(keys), dtype=np.uint64), positions
        )

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
            sampler.commit(ids, expected[step])
        pending = None
        for step in range(committed, STEPS):
            token, finite = sampler.draw(ids, logits[step], pending)
            assert finite.all()
            assert np.array_equal(token, expected[step])
            token = token[:, None]
            pending = token if pending is None else mx.concatenate([pending, token], axis=1)
        assert sampler.position(0) == committed


@pytest.mark.parametrize("vocab_size", [97, 3000])
@pytest.mark.parametrize("n_rows", [1, 3, STEPS])
def test_positions_of_a_sequence_equal_sampling(vocab_size, n_rows):
    """R rows with the right drafts: the tokens that R calls of ``sample`` draw (rule "match")."""
    logits = stream_of_logits(vocab_size)
    expected = together(logits)
    sampler, ids = filled(), list(range(64))
    rows = mx.stack(logits, axis=1)[:, STEPS - n_rows :]
    drafts = expected[: STEPS - 1].T
    for given in (drafts, mx.array(drafts)):
        token, finite = sampler.draw_positions(ids, rows, given)
        assert finite.all()
        assert np.array_equal(token, expected[STEPS - n_rows :].T)
    for i in (0, 5, 8, 11):
        token, _ = sampler.draw_positions(i, rows[i], drafts[i])
        assert np.array_equal(token, expected[STEPS - n_rows :, i])
        one = sampler.speculative_scores(i, rows[i], drafts[i])
        many = sampler.speculative_scores([i, 1], rows[mx.array([i, 1])], drafts[[i, 1]])
        assert np.array_equal(one, many[0])
    assert sampler.position(5) == 0


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
        assert sampler.window(0) == oracle.window(history, repeat_last_n, NUM_CTX)
        if rng.random() < 0.5:
            logits = mx.array(rng.normal(size=(1, 30)))
            history += sampler.sample([0], logits).token.tolist()
        else:
            tokens = rng.integers(0, 30, rng.integers(0, 9)).tolist()
            sampler.commit(0, tokens)
            history += tokens
    assert sampler.position(0) == len(history) - 4


def test_a_huge_window_costs_only_what_it_holds():
    sampler = Sampler(2**40)
    sampler.add(0, SamplerOptions(repeat_last_n=-1, seed=0, **PENALTIES), range(100))
    sampler.add(1, SamplerOptions(repeat_last_n=2**50, seed=0, **PENALTIES), range(100))
    for _ in range(200):
        sampler.sample([0, 1], mx.zeros((2, 100)))
    assert len(sampler.window(0)) == 300
    assert sampler.window(0) == sampler.window(1)


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


def test_an_empty_call_and_an_empty_sampler():
    sampler = filled()
    empty = sampler.sample([], mx.zeros((0, 9)))
    assert empty.token.shape == (0,)
    assert empty.logprob is None
    assert sampler.draw([], mx.zeros((0, 9)))[0].shape == (0,)
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
    "history": (lambda s: s.sample([3, 5], LOGITS[:2, :3]), BadValue, "slot 5 was given"),
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
    "commit many beyond int32": (lambda s: s.commit([5, 8], [1, 2**31]), BadValue, "slot 8"),
    "one id": (lambda s: s.sample(5, LOGITS[:1]), BadType, "seq_ids must be a sequence"),
    "text": (lambda s: s.sample("5", LOGITS[:1]), BadType, "seq_ids must be a sequence"),
    "commit float": (lambda s: s.commit(5, [1.0]), BadType, "tokens[0]"),
    "commit many negative": (lambda s: s.commit([5, 8], [1, -1]), BadValue, "slot 8"),
    "commit many unequal": (lambda s: s.commit([5, 8], [1]), BadValue, "2 token ids"),
    "commit many floats": (lambda s: s.commit([5, 8], [1.0, 2.0]), BadValue, "token ids"),
    "pending": (lambda s: s.draw([5], LOGITS[:1], mx.array([1])), BadValue, "(1, A)"),
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
    "uniforms of one id": (lambda s: s.uniforms(5, 1), BadType, "seq_ids must be a sequence"),
    "uniforms lane": (lambda s: s.uniforms([5], 1, lane=0), BadValue, "lane"),
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
        assert sampler.window(i) == untouched.window(i)
        assert sampler.position(i) == untouched.position(i)
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
    token, finite = sampler.draw(range(3), logits)
    assert finite.tolist() == [True, False, True]
    assert (token[0].item(), token[2].item()) == (want[0].item(), want[2].item())
    _, finite = sampler.score_positions([0, 1, 2], logits[:, None], np.zeros((3, 0), int))
    assert finite.tolist() == [[True], [False], [True]]
    with pytest.raises(BadValue, match="slot 1"):
        sampler.speculative_scores([0, 1, 2], logits[:, None], np.zeros((3, 0), int))


def test_drafts_outside_the_vocabulary_are_flagged():
    drafts = mx.array([[1, 2], [1, 2**30], [-(2**30), 2]])  # far outside: must not be written to
    rows = mx.broadcast_to(LOGITS[None], (3, 3, 9))
    _, finite = filled().draw_positions([5, 8, 1], rows, drafts)
    assert finite.tolist() == [[True] * 3, [False] * 3, [False] * 3]


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


def test_uniforms_beside_the_draws():
    sampler = filled()
    first = sampler.uniforms([3], 4)
    assert first.shape == (1, 4)
    assert first.dtype == np.float32
    assert np.array_equal(first, sampler.uniforms([3], 4))
    assert np.array_equal(first[:, :1], sampler.uniforms([3], 1))
    assert not np.intersect1d(first, sampler.uniforms([3], 4, lane=2)).size
    sampler.commit(3, [1])
    assert np.array_equal(sampler.uniforms([3], 3), first[:, 1:])
    assert np.array_equal(filled([MIXED[3]]).uniforms([0], 4), first)


def test_uniforms_of_many_slots_are_those_of_each():
    sampler = filled()
    sampler.commit(8, [1, 2, 3])
    together = sampler.uniforms((5, 8, 1), 7, lane=3)
    assert together.shape == (3, 7)
    for row, seq_id in zip(together, (5, 8, 1), strict=True):
        assert np.array_equal(row, sampler.uniforms([seq_id], 7, lane=3)[0])
        key = random_numbers.key(random_numbers.key(MIXED[seq_id].seed, 0), 3)
        at = np.arange(7) + sampler.position(seq_id)
        assert np.array_equal(row, random_numbers.uniforms(np.full(7, key, np.uint64), at))
    assert sampler.uniforms([], 7).shape == (0, 7)


def test_a_tuple_of_ids_is_committed_like_a_list():
    sampler, other = filled(), filled()
    sampler.commit((5, 10), (7, 8))
    other.commit([5, 10], [7, 8])
    assert sampler.position(5) == sampler.position(10) == 1
    assert sampler.window(5) == other.window(5) == [1, 2, 3, 2, 7]
    assert sampler.window(10) == other.window(10)


@pytest.mark.parametrize("vocab_size", [2, 3, 17, 97, 512, 2049, 5000, 50_000])
@pytest.mark.parametrize("rows", ["normal", "ties", "cut", "flat"])
def test_fast_paths_give_what_the_definition_gives(rows, vocab_size):
    """The same tokens, and log-probabilities to 1e-6, in batches of random options."""
    rng = np.random.default_rng(vocab_size)
    for batch in range(3 if vocab_size > 5000 else 12):
        n = int(rng.integers(1, 9))
        logits = (0.01 if rows == "flat" else 4.0) * rng.normal(size=(n, vocab_size))
        logits = np.round(logits) / 2 if rows == "ties" else logits
        if rows == "cut":
            logits[rng.random(logits.shape) < 0.5] = -np.inf
            logits[:, rng.integers(vocab_size)] = 1.0
        options = [
            SamplerOptions(
                temperature=rng.choice([0.0, 1.0, 0.7, rng.uniform(0.2, 2)]),
                top_k=int(rng.choice([0, 0, 1, 5, 40, 256, 257, vocab_size])),
                top_p=rng.choice([1.0, 0.5, rng.uniform(0.01, 0.999)]),
                min_p=rng.choice([0.0, 0.0, rng.uniform(0.001, 0.3), 1.0]),
                repeat_penalty=rng.choice([1.0, 1.3]),
                frequency_penalty=rng.choice([0.0, 0.4]),
                seed=batch,
            )
            for _ in range(n)
        ]
        fast, plain = Sampler(NUM_CTX), Sampler(NUM_CTX, fast=False)
        for i, o in enumerate(options):
            for sampler in (fast, plain):
                sampler.add(i, o, [0, 1, 1], stream=i)
        logits = mx.array(logits.astype(np.float32))
        got, want = (
            np.array(s.speculative_scores(range(n), logits[:, None], np.zeros((n, 0), int)))
            for s in (fast, plain)
        )
        assert np.array_equal(np.isinf(got), np.isinf(want)), options
        assert np.allclose(got, want, rtol=0, atol=1e-6), options
        for _ in range(4):
            got, want = (s.sample(range(n), logits).token for s in (fast, plain))
            assert np.array_equal(got, want), options


@pytest.mark.parametrize("fast", [True, False])
def test_a_draw_is_the_first_token_by_id_beyond_u(fast):
    """As lesson 01 teaches: whatever was cut, the sums run in the order of ids."""
    logits = mx.array(np.random.default_rng(0).normal(size=(64, 300)).astype(np.float32) * 2)
    kinds = [SamplerOptions(**kind, seed=7) for kind in KINDS]
    sampler = Sampler(NUM_CTX, fast=fast)
    for i in range(64):
        sampler.add(i, kinds[i % len(kinds)], [1, 2], stream=i)
    probs = np.exp(
        np.array(sampler.speculative_scores(range(64), logits[:, None], np.zeros((64, 0), int)))
    )[:, 0].astype(np.float64)
    tokens = np.array(sampler.draw(range(64), logits)[0])
    for i, token in enumerate(tokens):
        key = np.array([random_numbers.key(7, i)], np.uint64)
        u = random_numbers.uniforms(key, np.array([0])).item()
        sums = np.cumsum(probs[i]) / probs[i].sum()
        assert (sums[token - 1] if token else 0.0) - 1e-5 < u < sums[token] + 1e-5
        assert probs[i, token] > 0


def test_only_what_gains_by_it_takes_a_fast_path(monkeypatch):
    """Temperatures and best tokens need no sort, so there is nothing to save."""

    def kinds(vocab_size, *options):
        table = np.array([SamplerOptions(**o).row() for o in options], TABLE)
        plan = fast_paths.plan(table, vocab_size)
        return plan and {group.kind for group in plan.groups}

    assert kinds(512, {"temperature": 0.7}, {"temperature": 0.0}, {}) is None
    assert kinds(512, *KINDS) == {"greedy", "narrow", "nucleus", "general"}
    plan = fast_paths.plan(np.array([o.row() for o in MIXED], TABLE), 3000)
    rows = np.concatenate([group.rows for group in plan.groups])
    assert np.array_equal(rows, plan.forth)
    assert np.array_equal(np.sort(rows), range(64))
    monkeypatch.setattr(fast_paths, "draw", lambda *_: pytest.fail("a fast path was taken"))
    Sampler(NUM_CTX, fast=False).free()
    filled([SamplerOptions(temperature=0.7)]).sample([0], LOGITS[:1])
    slow = Sampler(NUM_CTX, fast=False)
    slow.add(0, SamplerOptions(top_k=3))
    slow.sample([0], LOGITS[:1])


@pytest.mark.parametrize("fast", [True, False])
def test_a_new_transform_is_a_line_in_the_order(fast, monkeypatch):
    """Added as the docstring of ``transforms`` says; a column that exists stands for the field."""

    def near_best(scores, gap):
        return mx.where(scores >= mx.max(scores, axis=-1, keepdims=True) - gap, scores, -mx.inf)

    monkeypatch.setitem(transforms.ORDER, "presence_penalty", near_best)
    row = mx.array([[0.0, 1.0, 4.0, 3.9, -2.0]])
    sampler = Sampler(NUM_CTX, fast=fast)
    sampler.add(0, SamplerOptions(presence_penalty=1.0, top_k=4))
    assert np.isfinite(np.array(sampler.speculative_scores(0, row, []))).tolist() == [
        [False, False, True, True, False]
    ]


@pytest.mark.parametrize("shift", [0.0, 500.0, -500.0])
def test_log_softmax_keeps_its_digits(shift):
    row = np.round(np.random.default_rng(0).normal(size=(3, 50)) * 256) / 256
    want = row - np.log(np.exp(row).sum(axis=-1, keepdims=True))
    got = transforms.log_softmax(mx.array((row + shift).astype(np.float32)))
    assert got.dtype == mx.float32
    assert np.allclose(got, want, rtol=0, atol=2e-6)

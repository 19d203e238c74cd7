"""TokenIterator: the tokens, the cache it leaves behind, its counts, and what it refuses."""

import signal
import threading

from lablib.cache import kv
from lablib.inference.decoding.token_iterator import Token, TokenIterator
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.sampler import Sampler
from lablib.models import LanguageModel, gpt_config, hybrid_config, llama_config

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import llama
from mlx_lm.models.cache import KVCache, RotatingKVCache
from oracles.refusals import refuses
from oracles.scripted import Recorder, Recurrent, random_table

VOCAB = 40
PROMPT = [3, 4, 10, 9, 2, 5]


def language_model(config, peak=4.0):
    """Random weights, but with some shape in the distributions."""
    model = LanguageModel(config, seed=3)
    model.model.norm.weight = model.model.norm.weight * peak
    mx.eval(model.parameters())
    return model


def mlx_lm_llama():
    arguments = llama.ModelArgs(
        model_type="llama", hidden_size=32, num_hidden_layers=2, intermediate_size=64,
        num_attention_heads=2, rms_norm_eps=1e-5, vocab_size=VOCAB,
    )  # fmt: skip
    state = mx.random.state[0].tolist()
    mx.random.seed(1)
    model = llama.Model(arguments)
    mx.random.seed(state[0] << 32 | state[1])
    return model


MODELS = {
    "llama": language_model(llama_config(VOCAB, 64, 2, 2, tie_word_embeddings=False)),
    "gpt": language_model(gpt_config(VOCAB, 32, 2, 2, tie_word_embeddings=False)),
    "hybrid": language_model(hybrid_config(VOCAB, 32, 2, 3, tie_word_embeddings=False)),
    "mlx-lm": mlx_lm_llama(),
}
# name: model, a fresh cache, how far its logits may be from a fresh forward
CACHES = {
    "plain": ("llama", lambda m: kv.make(m), 1e-4),
    "window": ("llama", lambda m: kv.make(m, 9), 1e-4),
    "quantized": ("llama", lambda m: kv.make(m, bits=8, group_size=32), 2e-2),
    "hybrid": ("hybrid", lambda m: kv.make(m), 1e-4),
}


@pytest.fixture
def model():
    return Recorder(random_table())


def ids(iterator):
    return [token.id for token in iterator]


def assert_reads(kind, cache, history):
    """The cache has read ``history`` and nothing else: the next logits are a fresh forward's."""
    name, empty, tolerance = CACHES[kind]
    model = MODELS[name]
    fresh = model(mx.array([[*history, 7]]), cache=empty(model))[0, -1]
    ours = model(mx.array([[7]]), cache=kv.copy(cache))[0, -1]
    assert kv.offset(cache) == len(history)
    assert np.abs(np.array(ours) - np.array(fresh)).max() < tolerance


# -- which tokens ------------------------------------------------------------------------------
@pytest.mark.parametrize("step", [1, 4, 512])
@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens_are_the_best_of_fresh_forwards(name, step):
    model = MODELS[name]
    greedy = {"max_tokens": 12, "temperature": 0}
    with TokenIterator(model, PROMPT, prefill_step_size=step, **greedy) as iterator:
        tokens = list(iterator)
    text = PROMPT + iterator.tokens
    logits = np.array(model(mx.array([text]))[0, len(PROMPT) - 1 : -1], dtype=np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = log_probs[np.arange(12), iterator.tokens]
    # Logits of one token differ by about 1e-5 between lengths: a closer tie may go either way.
    assert (log_probs.max(-1) - chosen).max() < 1e-4
    np.testing.assert_allclose([token.logprob for token in tokens], chosen, atol=1e-4)
    assert iterator.tokens == [token.id for token in tokens]
    assert iterator.logprobs == [token.logprob for token in tokens]
    assert isinstance(tokens[0], Token)
    assert not tokens[0].from_draft


OPTIONS = {
    "plain": {},
    "cool": {"temperature": 0.6, "top_p": 0.9, "min_p": 0.02},
    "penalties": {"repeat_penalty": 1.3, "frequency_penalty": 0.4, "repeat_last_n": 5},
    "all of it": {"presence_penalty": 1.0, "repeat_last_n": -1, "top_k": 6, "temperature": 1.5},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_sampled_tokens_are_a_sampler_slots_on_the_models_logits(options):
    # The slot samples one token after the other; the iterator has drawn ahead all the while.
    model = Recorder(random_table(vocab_size=13))
    sampler = Sampler(1000)
    sampler.add("slot", SamplerOptions(seed=5, **options), [1, 2, 3, 3])
    history = [1, 2, 3, 3]
    for _ in range(30):
        row = mx.array(model.logits(history)[None], dtype=mx.float32)
        history.append(sampler.sample(["slot"], row).token.item())
    iterator = TokenIterator(model, [1, 2, 3, 3], max_tokens=30, seed=5, **options)
    assert ids(iterator) == history[4:]
    expected = [model.log_probs(history[:n])[history[n]] for n in range(4, 34)]
    np.testing.assert_allclose(iterator.logprobs, expected, atol=1e-5)


def test_seeds_are_the_only_randomness():
    model = MODELS["llama"]
    before = mx.random.state[0].tolist()
    runs = [ids(TokenIterator(model, PROMPT, max_tokens=20, seed=seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    unseeded = [ids(TokenIterator(model, PROMPT, max_tokens=20)) for _ in range(2)]
    assert unseeded[0] != unseeded[1]
    assert mx.random.state[0].tolist() == before


def test_top_logprobs_are_the_models_best(model):
    iterator = TokenIterator(model, [1, 2], max_tokens=5, seed=0, temperature=0.5, top_logprobs=3)
    history = [1, 2]
    for token in iterator:
        log_probs = model.log_probs(history)
        best = np.argsort(-log_probs)[:3]
        assert [i for i, _ in token.top_logprobs] == best.tolist()
        np.testing.assert_allclose([p for _, p in token.top_logprobs], log_probs[best], atol=1e-5)
        history.append(token.id)
    everything = next(TokenIterator(model, [1], seed=0, top_logprobs=999))
    assert len(everything.top_logprobs) == model.vocab_size


@pytest.mark.parametrize("n", [1, 2, 7])
def test_max_tokens_is_exact(model, n):
    iterator = TokenIterator(model, [1, 2, 3], max_tokens=n, seed=0)
    assert len(ids(iterator)) == n
    assert iterator.stats["finish_reason"] == "length"
    assert ids(iterator) == []
    assert model.token_forwards == 3 + n - 1  # the last token is not forwarded


@pytest.mark.parametrize("form", [list, tuple, set, frozenset, np.array, mx.array])
def test_a_stop_token_is_the_last(model, form):
    plain = ids(TokenIterator(model, [1, 2], max_tokens=30, seed=3))
    stop = plain[9]
    end = plain.index(stop)
    iterator = TokenIterator(model, [1, 2], max_tokens=30, seed=3, stop_tokens=form([stop]))
    assert ids(iterator) == plain[: end + 1]
    assert iterator.stats["finish_reason"] == "stop"
    assert kv.offset(iterator.cache) == 2 + end


# -- the cache -------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", CACHES)
@pytest.mark.parametrize("ending", ["closed after 1", "closed after 5", "stop", "length"])
def test_the_cache_stands_at_the_returned_tokens(kind, ending):
    name, empty, _ = CACHES[kind]
    model = MODELS[name]
    whole = ids(TokenIterator(model, PROMPT, max_tokens=8, cache=empty(model), temperature=0))
    stops = [whole[4]] if ending == "stop" else []
    cache = empty(model)
    more = {"max_tokens": 8, "stop_tokens": stops, "temperature": 0}
    with TokenIterator(model, PROMPT, cache=cache, **more) as iterator:
        for _ in iterator:
            if ending.startswith("closed") and len(iterator.tokens) == int(ending[-1]):
                break
    n = {"stop": whole.index(whole[4]) + 1, "length": 8}.get(ending) or int(ending[-1])
    assert iterator.tokens == whole[:n]
    assert iterator.cache is cache
    assert iterator.stats["finish_reason"] == ending.split()[0]
    assert_reads(kind, cache, PROMPT + whole[: n - 1])
    iterator.close()
    assert kv.offset(cache) == len(PROMPT) + n - 1


@pytest.mark.parametrize("kind", CACHES)
def test_going_on_equals_never_having_stopped(kind):
    name, empty, _ = CACHES[kind]
    model = MODELS[name]
    whole = ids(TokenIterator(model, PROMPT, max_tokens=12, cache=empty(model), temperature=0))
    cache, unread, tokens = empty(model), PROMPT, []
    for n in (1, 4, 7):  # the window of 9 wraps on the way
        with TokenIterator(model, unread, max_tokens=50, cache=cache, temperature=0) as iterator:
            part = [next(iterator).id for _ in range(n)]
        tokens, unread = tokens + part, part[-1:]
    assert tokens == whole


def test_nothing_is_read_before_the_first_token_is_asked_for(model):
    with TokenIterator(model, [1, 2, 3]) as iterator:
        pass
    assert model.calls == []
    assert iterator.stats["finish_reason"] == "closed"
    assert ids(iterator) == []


@pytest.mark.parametrize(
    ("wrapped", "ahead"), [(False, 1), (True, 0)], ids=["room to trim", "full window"]
)
def test_it_runs_ahead_only_where_the_way_back_is_open(wrapped, ahead):
    model = MODELS["llama"]
    calls = []

    class Watched:
        vocab_size, layers = VOCAB, model.layers

        def __call__(self, tokens, cache):
            calls.append(tokens.shape[1])
            return model(tokens, cache=cache)

    cache = kv.make(model, 4 if wrapped else 400)
    iterator = TokenIterator(Watched(), PROMPT, max_tokens=50, cache=cache, seed=0)
    for n in range(1, 6):
        next(iterator)
        assert sum(calls) == len(PROMPT) + n - 1 + ahead
    iterator.close()
    assert kv.offset(cache) == len(PROMPT) + 4


@pytest.mark.parametrize("window", range(1, 14))
def test_a_window_that_fills_on_the_way_is_never_overrun(model, window):
    for n in range(1, 9):
        cache = [RotatingKVCache(window) for _ in range(2)]
        with TokenIterator(model, PROMPT[:4], max_tokens=20, cache=cache, seed=0) as iterator:
            for _ in range(n):
                next(iterator)
        assert [layer.offset for layer in cache] == [4 + n - 1] * 2


# -- interrupts and failures -----------------------------------------------------------------
@pytest.mark.parametrize("kind", [Recorder, Recurrent])
@pytest.mark.parametrize("call", [1, 2, 3, 4, 5, 6])
def test_an_interrupt_loses_nothing_and_leaves_the_cache_at_the_returned_tokens(kind, call):
    table = random_table()
    prompt = [1, 2, 3, 4, 5]  # two chunks of two, then the last token
    whole = ids(TokenIterator(kind(table), prompt, max_tokens=6, seed=2))

    def interrupted():
        model = kind(table)
        model.hook = lambda now: signal.raise_signal(signal.SIGINT) if now == call else None
        iterator = TokenIterator(model, prompt, max_tokens=6, seed=2, prefill_step_size=2)
        with pytest.raises(KeyboardInterrupt):
            ids(iterator)
        return model, iterator

    model, iterator = interrupted()
    assert iterator.tokens == whole[: len(iterator.tokens)]
    assert len({layer.offset for layer in iterator.cache if isinstance(layer, KVCache)}) < 2
    model.hook = lambda now: None
    ids(iterator)  # it can go on as if nothing had happened ...
    assert iterator.tokens == whole

    model, iterator = interrupted()  # ... or stop, and the cache is right
    iterator.close()
    n = len(iterator.tokens)
    read = prompt + iterator.tokens[:-1] if n else []
    if kind is Recorder:
        assert [layer.offset for layer in iterator.cache] == [len(read)] * 2
    elif n:
        assert iterator.cache[0][0][0].tolist() == read


def test_interrupts_are_held_only_in_the_main_thread_and_the_handler_is_put_back():
    handler = signal.getsignal(signal.SIGINT)
    tokens = []
    iterator = TokenIterator(Recorder(random_table()), [1], seed=0)
    worker = threading.Thread(target=lambda: tokens.extend(ids(iterator)))
    worker.start()
    worker.join()
    assert len(tokens) == 100
    assert signal.getsignal(signal.SIGINT) is handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert len(ids(TokenIterator(Recorder(random_table()), [1], seed=0))) == 100
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("options", [{"temperature": 0}, {"seed": 1}, {"seed": 1, "top_k": 3}])
def test_logits_that_are_not_finite_are_refused_at_their_token(bad, options):
    table = random_table(rows=7)
    model = Recorder(table)
    whole = ids(TokenIterator(model, [1, 2], max_tokens=12, **options))
    sums = [sum((t + 1) * (i + 1) for i, t in enumerate([1, 2, *whole[:n]])) for n in range(12)]
    first = next(n for n in range(1, 12) if sums[n] % 7 not in [s % 7 for s in sums[:n]])
    model.rows[sums[first] % 7] = mx.full((11,), bad)
    iterator = TokenIterator(model, [1, 2], max_tokens=12, **options)
    refuses(ValueError, f"token {first}: the model's logits must be finite", ids, iterator)
    assert iterator.tokens == whole[:first]
    assert iterator.stats["finish_reason"] == "error"
    assert kv.offset(iterator.cache) == 2 + first - 1


# -- logits processors -----------------------------------------------------------------------
def test_logits_processors_see_every_token_once_and_decide(model):
    seen = []

    def ban_even(tokens, logits):
        seen.append(tokens.tolist())
        return mx.where(mx.arange(logits.shape[-1]) % 2 == 0, -mx.inf, logits)

    def ban_one(tokens, logits):
        return mx.where(mx.arange(logits.shape[-1]) == 1, -mx.inf, logits)

    more = {"logits_processors": [ban_even, ban_one]}
    iterator = TokenIterator(model, [4, 2], max_tokens=8, seed=0, **more)
    for n, token in enumerate(iterator, start=1):
        assert token.id in (3, 5, 7, 9)
        assert seen[-1] == [4, 2, *iterator.tokens[:-1]]
        assert len(seen) == n  # a processor may keep a state: none ahead of its turn
        # The log-probability is the model's own, not the mask's.
        log_probs = model.log_probs([4, 2, *iterator.tokens[:-1]])
        assert token.logprob == pytest.approx(log_probs[token.id], abs=1e-5)
    assert model.token_forwards == 2 + 8 - 1


def test_a_processor_may_write_in_place(model):
    """The log-probabilities that are reported are the model's own all the same."""

    def in_place(tokens, logits):
        logits[:, 3] = logits[:, 3] - 6.0
        return logits

    def pure(tokens, logits):
        return logits - 6.0 * (mx.arange(logits.shape[-1]) == 3)

    told = [
        [(t.id, t.logprob) for t in TokenIterator(model, [1], max_tokens=9, seed=2, **each)]
        for each in ({"logits_processors": [in_place]}, {"logits_processors": [pure]})
    ]
    assert told[0] == told[1]


def test_a_seed_may_come_from_numpy(model):
    seeds = (2**40 + 3, np.int64(2**40 + 3))
    one, other = (ids(TokenIterator(model, [1], max_tokens=9, seed=seed)) for seed in seeds)
    assert one == other


def test_a_processor_that_bans_everything_or_fails_is_reported(model):

    def ban_all(tokens, logits):
        return mx.full(logits.shape, -mx.inf)

    with pytest.raises(ValueError, match="token 0: the model's logits must be finite"):
        next(TokenIterator(model, [1], logits_processors=[ban_all]))

    for wrong, got in ((lambda ids, x: None, "NoneType"), (lambda ids, x: x[0], r"\(")):
        with pytest.raises((TypeError, ValueError), match=rf"must return an mx.array .* got {got}"):
            next(TokenIterator(model, [1], logits_processors=[wrong]))

    def fail_late(tokens, logits):
        if len(tokens) == 4:
            raise LookupError("no rule for this")
        return logits

    iterator = TokenIterator(model, [1], logits_processors=[fail_late], seed=0)
    refuses(LookupError, "no rule", ids, iterator)
    assert kv.offset(iterator.cache) == 1 + len(iterator.tokens) - 1 == 3


# -- counts ----------------------------------------------------------------------------------
def test_stats_are_exact_and_current(model):
    iterator = TokenIterator(model, [1] * 10, max_tokens=5, seed=0, prefill_step_size=4)
    stats = iterator.stats
    expected = {"prompt_tokens": 10, "tokens": 0, "target_calls": 0, "token_forwards": 0}
    assert {key: stats[key] for key in expected} == expected
    next(iterator)
    # 9 prompt tokens in chunks of 4, the last one alone, and one token asked for ahead.
    assert model.shapes == [(1, 4), (1, 4), (1, 1), (1, 1), (1, 1)]
    assert (stats["target_calls"], stats["token_forwards"]) == (5, 11)
    assert stats["prefill_seconds"] > 0
    assert stats["decode_seconds"] == stats["tokens_per_second"] == 0
    ids(iterator)
    assert (stats["target_calls"], stats["token_forwards"]) == (8, 14)
    assert (len(model.calls), model.token_forwards) == (8, 14)
    assert stats["tokens"] == 5
    assert stats["tokens_per_second"] == pytest.approx(4 / stats["decode_seconds"])
    assert stats["finish_reason"] == "length"
    assert set(stats) == {
        "prompt_tokens", "tokens", "prefill_seconds", "decode_seconds", "tokens_per_second",
        "target_calls", "token_forwards", "finish_reason",
    }  # fmt: skip


# -- bad input -------------------------------------------------------------------------------

REFUSED = {
    "empty prompt": ([], {}, "prompt must hold at least one token"),
    "text": ("hello", {}, "prompt must be token ids, got the text 'hello'"),
    "id too large": ([1, 11], {}, r"prompt\[1\] must be between 0 and 10, got 11"),
    "negative id": ([-1], {}, r"prompt\[0\] must be between 0 and 10, got -1"),
    "float id": ([1.5], {}, r"prompt\[0\] must be an int token id"),
    "two rows": ([[1], [2]], {}, "prompt must be one, got .*: several are for samples"),
    "no tokens": ([1], {"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
    "negative": ([1], {"max_tokens": -1}, "max_tokens must be at least 1, got -1"),
    "float max": ([1], {"max_tokens": 3.0}, "max_tokens must be an int, got 3.0"),
    "bool max": ([1], {"max_tokens": True}, "max_tokens must be an int, got True"),
    "cold": ([1], {"temperature": -0.1}, "temperature must be between 0"),
    "NaN": ([1], {"temperature": float("nan")}, "temperature must be finite, got nan"),
    "top_p": ([1], {"top_p": 1.5}, "top_p must be between 0.0 and 1.0, got 1.5"),
    "seed": ([1], {"seed": "x"}, "seed must be an int"),
    "unknown": ([1], {"temprature": 1}, "'temprature' .did you mean temperature.*knows .*, temp"),
    "stop id": ([1], {"stop_tokens": [11]}, r"stop_tokens\[0\] must be between 0 and 10, got 11"),
    "stop": ([1], {"stop_tokens": 3}, "stop_tokens must be a sequence of token ids, got int"),
    "step": ([1], {"prefill_step_size": 0}, "prefill_step_size must be at least 1, got 0"),
    "processors": ([1], {"logits_processors": len}, "logits_processors must be a list"),
    "processor": ([1], {"logits_processors": [3]}, r"logits_processors\[0\] must be callable"),
    "context": (
        [1] * 5, {"max_tokens": 13},
        r"prompt \(5 tokens after 4 tokens in the cache\) \+ max_tokens \(13\), of which "
        "the last is not read, must fit the model's context of 20 tokens",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("prompt", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_before_any_work(prompt, options, message):
    model = Recorder(random_table(), max_positions=20)
    cache = kv.make(model)
    model(mx.array([[1, 2, 3, 4]]), cache=cache)
    refuses((ValueError, TypeError), message, TokenIterator, model, prompt, cache=cache, **options)
    assert len(model.calls) == 1
    assert kv.offset(cache) == 4


def test_a_cache_that_does_not_fit_is_refused(model):
    for cache, message in (
        ([KVCache()], "cache must have an entry for each of 2 layers, got 1"),
        (KVCache(), "cache must be a list as kv.make returns it, got KVCache"),
    ):
        refuses((ValueError, TypeError), message, TokenIterator, model, [1], cache=cache)
    rows = kv.make(model)
    model(mx.array([[1], [2]]), cache=rows)
    with pytest.raises(ValueError, match="cache must hold one sequence, got 2"):
        TokenIterator(model, [1], cache=rows)
    with pytest.raises(TypeError, match=r"model must be callable, got tuple: unpack it"):
        TokenIterator((model, None), [1])


def test_a_context_can_be_filled_to_the_brim():
    model = Recorder(random_table(), max_positions=20)
    assert len(ids(TokenIterator(model, [1] * 9, max_tokens=12, seed=0))) == 12
    assert sum(len(call[0]) for call in model.calls) == 20

"""Every argument of every public entry, replaced by what it may not be: refused, named, at once."""

import asyncio
import inspect
import signal
from contextlib import contextmanager

from lablib.course.replay.measure import measure_costs
from lablib.inference import (
    AdaptiveLength,
    AsyncMlxLM,
    Costs,
    DraftModel,
    EarlyExit,
    LookupFirst,
    NGram,
    NGramPool,
    Query,
    Sampler,
    SamplerOptions,
    SpeculativeTokenIterator,
    Tempered,
    TokenIterator,
    best_of_n,
    majority_vote,
    pass_at_k,
    sample_batches,
    sample_n,
    speculative_decode,
    speculative_sample_n,
    vote_until,
)
from lablib.inference.completions import speculative_batch
from lablib.inference.decoding.batches import sample_many
from lablib.inference.speculation.costs import best_draft_tokens, expected_tokens, speedup
from lablib.inference.speculation.draft_length import FixedLength
from lablib.models import LanguageModel, llama_config, load
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest

BAD = [
    None, "x", -1, 0, 1.5, float("nan"), 10**400, True, [], b"ab", bytearray(b"ab"), object(),
    [None], ["x"], [b"ab"], [True], [1.5], [10**400], np.int64(2), np.array([1.5]), {}, {1: 2},
    np.array(["match", "beta"]), np.array(["log_prob"]), np.eye(30),
]  # fmt: skip


class Counted(LanguageModel):
    """A model that counts its forwards."""

    calls = 0

    def __call__(self, *arguments, **keywords):
        Counted.calls += 1
        return super().__call__(*arguments, **keywords)


MODEL, DRAFT = Counted(llama_config(24, 32, 2, 2)), Counted(llama_config(24, 32, 2, 2), seed=1)
PROMPT, COSTS = [1, 2, 3], Costs((1.0,), 0.1)
SAMPLING = {
    "temperature": 0.5, "top_p": 0.9, "min_p": 0.1, "top_k": 3, "repeat_last_n": 4,
    "repeat_penalty": 1.1, "presence_penalty": 0.1, "frequency_penalty": 0.1, "seed": 1,
}  # fmt: skip
MANY = {
    "stop_tokens": (), "max_batch": 2, "prefill_step_size": 5, "logits_processors": (),
    "progress": False, "stop": (),
}  # fmt: skip
ONE = {"stop_tokens": (), "cache": None, "prefill_step_size": 5, "logits_processors": ()}
VOTE = {"temperature": 0.5, "stop_tokens": (), "draft_model": None, "seed": 1}


def of_lm(method):
    """Call a method of a new async model, whose trials are not work of the call."""

    def call(**arguments):
        lm = AsyncMlxLM(MODEL, None)
        Counted.calls = 0
        answer = getattr(lm, method)(**arguments)
        return asyncio.run(answer) if inspect.isawaitable(answer) else answer

    return call


def all_of(make):
    return lambda **arguments: list(make(**arguments))


target = {"target": MODEL, "draft_model": DRAFT, "max_tokens": 2}
ENTRIES = {
    "TokenIterator": (
        all_of(TokenIterator),
        {"model": MODEL, "prompt": PROMPT, "max_tokens": 2, "top_logprobs": 0, "stream": 0}
        | ONE
        | SAMPLING,
    ),
    "SpeculativeTokenIterator": (
        all_of(SpeculativeTokenIterator),
        {
            **target, "prompt": PROMPT, "draft_tokens": 2, "rule": "match",
            "draft_cache": None, "trace": False, "stream": 0, **ONE, **SAMPLING,
        },
    ),
    "speculative_decode": (
        speculative_decode, {**target, "prompt": PROMPT, "draft_tokens": 2, "temperature": 0.0},
    ),
    "sample_n": (
        sample_n, {"model": MODEL, "prompt": PROMPT, "n": 2, "max_tokens": 2} | MANY | SAMPLING,
    ),
    "sample_batches": (
        all_of(sample_batches), {"model": MODEL, "prompt": PROMPT, "n": 2, "max_tokens": 2},
    ),
    "speculative_sample_n": (
        speculative_sample_n,
        {**target, "prompt": PROMPT, "n": 2, "draft_tokens": 2, "rule": "match"} | MANY | SAMPLING,
    ),
    "speculative_batch": (
        speculative_batch,
        {**target, "prompts": [PROMPT, PROMPT], "stop": ()},
    ),
    "sample_many": (
        sample_many,
        {
            "model": MODEL, "prompts": [PROMPT, PROMPT], "options": [SamplerOptions()] * 2, "n": 1,
            "max_batch": 2, "max_tokens": 2, "stop_tokens": (), "prefill_step_size": 5,
        },
    ),
    "best_of_n": (
        best_of_n,
        {
            "model": MODEL, "prompt": PROMPT, "n": 2, "max_tokens": 2, "score_fn": "log_prob",
            "return_all": False, **VOTE,
        },
    ),
    "majority_vote": (
        majority_vote,
        {
            "model": MODEL, "prompt": PROMPT, "n": 2, "max_tokens": 2, "extract": None,
            "weight": None, **VOTE,
        },
    ),
    "vote_until": (
        vote_until,
        {
            "model": MODEL, "prompt": PROMPT, "n": 2, "max_tokens": 2, "batch": 2,
            "confidence": 0.9, "stop_rule": "beta", "at_least": 2, "extract": None, **VOTE,
        },
    ),
    "pass_at_k": (pass_at_k, {"n": 4, "c": 2, "k": 2}),
    "Sampler": (Sampler, {"num_ctx": 8}),
    "SamplerOptions": (SamplerOptions, {"top_logprobs": 0, **SAMPLING}),
    "AdaptiveLength": (
        AdaptiveLength, {"most": 4, "costs": None, "memory": 64, "alpha": 0.5, "margin": 0.03},
    ),
    "FixedLength": (FixedLength, {"draft_tokens": 2}),
    "Costs": (Costs, {"target": (1.0, 2.0), "draft": 0.1}),
    "NGram": (NGram, {"longest": 3, "shortest": 1}),
    "NGramPool": (NGramPool, {"longest": 3, "shortest": 1, "most": 9}),
    "LookupFirst": (LookupFirst, {"draft": DRAFT, "lookup": None}),
    "Tempered": (Tempered, {"draft": DRAFT, "temperature": 0.5}),
    "EarlyExit": (EarlyExit, {"n_layers": 1}),
    "DraftModel": (DraftModel, {"model": DRAFT}),
    "best_draft_tokens": (best_draft_tokens, {"alpha": 0.5, "costs": COSTS, "most": 4}),
    "speedup": (speedup, {"alpha": 0.5, "draft_tokens": 2, "costs": COSTS}),
    "expected_tokens": (expected_tokens, {"alpha": 0.5, "draft_tokens": 2}),
    "measure_costs": (
        measure_costs,
        {
            "target": MODEL, "draft_model": DRAFT, "most": 2, "context": 8, "repeats": 1,
            "rule": "match", "batch": 2, "temperature": 0.5,
        },
    ),
    "AsyncMlxLM": (
        AsyncMlxLM,
        {
            "mlx_lm_model": MODEL, "tokenizer": None, "batch_size": 5, "timeout": 0.001,
            "prefill_step_size": 9, "cache_size": 9, "cache_bytes": 99,
        },
    ),
    "next_token_logprobs": (of_lm("next_token_logprobs"), {"token_ids": PROMPT}),
    "next_token_logprobs_sync": (of_lm("next_token_logprobs_sync"), {"token_ids": PROMPT}),
    "batch_next_token_logprobs": (of_lm("batch_next_token_logprobs"), {"token_ids_list": [PROMPT]}),
    "batch_next_token_logprobs_sync": (
        of_lm("batch_next_token_logprobs_sync"), {"token_ids_list": [PROMPT]},
    ),
    "sample": (
        of_lm("sample"),
        {
            "prompt_token_ids": PROMPT, "max_tokens": 2, "eos_token_ids": [1], "temperature": 1.0,
            "seed": 1,
        },
    ),
    "cache_kv": (of_lm("cache_kv"), {"token_ids": PROMPT}),
    "walk_cache": (of_lm("walk_cache"), {"token_ids": PROMPT}),
    "add_query": (of_lm("add_query"), {"query": None}),
    "add_to_cache": (
        of_lm("add_to_cache"),
        {"queries": [Query(PROMPT)], "prompt_cache": None, "logprobs": [mx.zeros(24)]},
    ),
}  # fmt: skip
OTHER_NAMES = {  # what messages call it, as it is called where it is checked
    "draft": "draft",
    "draft_model": "draft_model|draft",
    "model": "draft|model",
    "repeats": "repeats|positions",
    "most": "most|positions",
}
HUGE = {("pass_at_k", "n")}  # any number is fine, however large


@contextmanager
def at_most(seconds):
    """Fail where an argument that should be refused starts endless work."""

    def stop(*_):
        raise AssertionError("it went on for too long")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_bad_argument_is_refused_by_name_and_before_any_work(entry):
    call, good = ENTRIES[entry]
    if entry != "add_query":
        call(**good)
    refused = 0
    for argument in good:
        for bad in BAD:
            Counted.calls = 0
            what = f"{entry}({argument}={type(bad).__name__} {str(bad)[:20]})"
            try:
                with at_most(20):
                    call(**(good | {argument: bad}))
                continue
            except (BadType, BadValue) as error:
                message = str(error)
            except Exception as error:
                pytest.fail(f"{what} raised {type(error).__name__}: {str(error)[:200]}")
            refused += 1
            names = OTHER_NAMES.get(argument, argument).split("|")
            assert any(name in message for name in [*names, argument]), f"{what}: {message}"
            assert Counted.calls == 0, f"{what} was refused after work: {message}"
            assert len(message) < 300, f"{what}: {message[:100]}"
            assert "\n" not in message, what
    assert refused >= 8


CHAT = [{"role": "user", "content": "Hello"}]
MISTAKES = {  # of people who know another library: what they give, and what they are told to do
    "a name for a model": (lambda m: sample_n("target", [1], 2), "load it first"),
    "a name for a drafter": (lambda m: speculative_decode(m, "draft", [1]), "load it first"),
    "a conversation for a prompt": (lambda m: sample_n(m, CHAT, 2), "goes into messages="),
    "a tokenizer before a text": (lambda m: majority_vote(m, None, "a text"), "into tokenizer="),
    "ids for a text": (
        lambda m: majority_vote(m, [1], 2, max_tokens=1, extract=lambda ids: ids.strip()),
        r"it gets token ids, and through lablib\.on_text their text",
    ),
    "a directory that is elsewhere": (lambda m: load("./nowhere"), "there is no such directory"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_natural_mistake_is_told_what_to_do(mistake):
    call, told = MISTAKES[mistake]
    with pytest.raises((BadType, BadValue), match=told):
        call(LanguageModel(llama_config(16, 8, 1, 1), seed=0))


@pytest.mark.parametrize("entry", [e for e in ENTRIES if "n" in ENTRIES[e][1] and e != "pass_at_k"])
def test_more_completions_than_any_memory_holds(entry):
    call, good = ENTRIES[entry]
    Counted.calls = 0
    message = "n must be at most 1000000, got 9223372036854775808"
    with at_most(5), pytest.raises(BadValue, match=message):
        call(**(good | {"n": 2**63}))
    assert Counted.calls == 0


NEVER = {
    "prompt": BAD, "prompts": BAD, "token_ids": BAD, "token_ids_list": BAD, "prompt_token_ids": BAD,
    "stop_tokens": [b"ab", bytearray(b"ab"), "x", 3, [True], [1.5]],
    "eos_token_ids": [b"ab", bytearray(b"ab"), "x", 3, [True], [1.5]],
    "cache": [[None, None], b"ab", "x", 3], "draft_cache": [[None, None], b"ab", "x", 3],
    "seeds": BAD, "options": BAD, "queries": BAD,
    "temperature": [None, "x", -1, float("nan"), 10**400, True],
    "max_tokens": [None, "x", -1, 0, 1.5, 10**400, True],
}  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_never_taken(entry):
    """Bytes are no ids, a list of None is no cache, and so on: nothing of these is let through."""
    call, good = ENTRIES[entry]
    for argument in good.keys() & NEVER.keys():
        for bad in NEVER[argument]:
            if entry == "walk_cache" and isinstance(bad, list) and not bad:
                continue  # an empty prompt may be looked up
            if (entry, argument) == ("sample_many", "options") and bad is None:
                continue  # each has those of SamplerOptions()
            with at_most(20), pytest.raises((BadType, BadValue)):
                call(**(good | {argument: bad}))


def test_numpy_integers_are_numbers():
    options = {"max_tokens": np.int64(4), "draft_tokens": np.int64(2), "temperature": 0.0}
    tokens, _ = speculative_decode(MODEL, DRAFT, np.array(PROMPT, np.uint8), **options)
    assert tokens.shape == (1, 7)
    assert len(sample_n(MODEL, PROMPT, np.int32(3), repeat_last_n=np.int64(4), max_tokens=2)) == 3

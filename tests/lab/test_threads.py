"""Threads of other people: what computes there clears MLX's streams where it ends."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import lablib
from lablib.course.lessons.lesson_11.callers import together
from lablib.inference import (
    AsyncMlxLM,
    SamplerOptions,
    TokenIterator,
    beam_search,
    sample_many,
    sample_n,
)
from lablib.machine import streams
from lablib.models import LanguageModel, llama_config

import mlx.core as mx
import pytest
from oracles.fresh import run

MODEL, TOKENIZER = lablib.load("draft")
PROMPT = TOKENIZER.encode("Mia finds")
HOW = {"max_tokens": 3, "stop_tokens": ()}
SEEDED = [SamplerOptions(seed=seed) for seed in range(3)]


async def asked():
    logprobs = await AsyncMlxLM(MODEL, TOKENIZER).next_token_logprobs(PROMPT)
    return int(mx.argmax(logprobs))


async def in_async_stream():
    return [piece async for piece in lablib.stream(MODEL, TOKENIZER, PROMPT, seed=1, **HOW)]


def configured():
    return LanguageModel(llama_config(40, 16, 1, 2), seed=0)(mx.array([[1, 2]])).tolist()


DOORS = {
    "load": lambda: lablib.load("draft")[0](mx.array([PROMPT])).tolist(),
    "a model of one's own": configured,
    "generate": lambda: str(lablib.generate(MODEL, TOKENIZER, PROMPT, temperature=0, **HOW)),
    "stream": lambda: list(lablib.stream(MODEL, TOKENIZER, PROMPT, seed=1, **HOW)),
    "async for": lambda: asyncio.run(in_async_stream()),
    "TokenIterator": lambda: [token.id for token in TokenIterator(MODEL, PROMPT, seed=1, **HOW)],
    "sample_n": lambda: sample_n(MODEL, PROMPT, 3, seed=1, **HOW).tokens,
    "sample_many": lambda: [s.tokens for s in sample_many(MODEL, [PROMPT] * 3, SEEDED, **HOW)],
    "a draft": lambda: lablib.generate(MODEL, TOKENIZER, PROMPT, draft_model=MODEL, seed=1, **HOW),
    "majority_vote": lambda: lablib.majority_vote(MODEL, PROMPT, n=3, extract=tuple, seed=1, **HOW),
    "AsyncMlxLM": lambda: asyncio.run(asked()),
    "beam_search": lambda: beam_search(AsyncMlxLM(MODEL, TOKENIZER), PROMPT, width=2, max_tokens=2),
}


@pytest.fixture
def cleared(monkeypatch):
    """The threads whose streams were cleared."""
    threads = []

    def clear():
        threads.append(threading.get_ident())
        mx.clear_streams()

    monkeypatch.setattr(streams, "_clear", clear)
    return threads


@pytest.mark.parametrize("door", DOORS)
def test_a_thread_that_computes_clears_its_streams_when_it_ends_and_once(door, cleared):
    results = [DOORS[door]()]  # in the main thread, which goes on
    cleared.clear()

    def work():
        results.extend([DOORS[door](), DOORS[door]()])
        assert threading.get_ident() not in cleared
        results.append(threading.get_ident())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    *values, ident = results
    assert cleared.count(ident) == 1
    assert values[0] == values[1] == values[2]
    assert DOORS[door]() == values[0]  # nothing of it was the main thread's
    assert threading.get_ident() not in cleared


def test_the_thread_of_lesson_11s_callers_clears_its_streams(cleared):
    async def ident():
        return threading.get_ident()

    assert cleared == together([ident()])
    assert together([asked(), asked()]) == [asyncio.run(asked())] * 2
    assert len(cleared) == 2


def test_threads_of_a_pool_clear_theirs_when_it_is_shut(cleared):
    with ThreadPoolExecutor(2) as pool:
        texts = [*pool.map(lambda _: DOORS["generate"](), range(6))]
        assert not cleared
        idents = {thread.ident for thread in pool._threads}
    assert {*cleared} <= idents
    assert len({*cleared}) == len(cleared) > 0
    assert {*texts} == {DOORS["generate"]()}


def test_a_thread_without_a_model_clears_nothing(cleared):
    thread = threading.Thread(target=lambda: lablib.menu.dry())
    thread.start()
    thread.join()
    assert not cleared


def test_arrays_of_a_thread_outlive_it():
    made = []

    def work():
        made.append(MODEL(mx.array([PROMPT])))
        streams.clear_with_thread()
        mx.async_eval(made[0])  # not waited for

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert mx.allclose(made[0], MODEL(mx.array([PROMPT])), atol=1e-4).item()


BESIDE = """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
import lablib
from lablib.course.lessons.lesson_11.callers import together
model, tokenizer = lablib.load("draft")

def work(_=0):
    return str(lablib.generate(model, tokenizer, "Mia finds", max_tokens=9, temperature=0))

async def asked():
    lm = lablib.AsyncMlxLM(model, tokenizer)
    return (await lm.next_token_logprobs(tokenizer.encode("Mia"))).argmax().item()

def ask():
    return asyncio.run(asked())

def in_a_pool():
    with ThreadPoolExecutor(3) as pool:
        return [*pool.map(work, range(3))]

def in_a_thread(call):
    made = []
    thread = threading.Thread(target=lambda: made.append(call()))
    thread.start()
    thread.join()
    return made[0]
"""
WAYS = {  # what the process does last, and what the main thread does before
    "a thread": ("work()", "in_a_thread(work)"),
    "a pool": ("[work()] * 3", "in_a_pool()"),
    "asyncio.to_thread": ("work()", "asyncio.run(asyncio.to_thread(work))"),
    "AsyncMlxLM": ("ask()", "in_a_thread(ask)"),
    "lesson 11": ("ask()", "together([asked()])[0]"),
}


@pytest.mark.grid(lambda way: way == "AsyncMlxLM", rest="slow")
@pytest.mark.grid(lambda way: way in ("a thread", "AsyncMlxLM"), rest="slow")
@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_a_process_whose_work_was_done_beside_the_main_thread_ends_by_itself(way):
    """Of five that MLX clears up after some would abort: terminate called without an active …"""
    for _ in range(5):
        wanted, beside = WAYS[way]
        result = run(f"{BESIDE}wanted = {wanted}\nassert {beside} == wanted\nprint('right')")
        assert (result.returncode, result.stdout) == (0, "right\n"), result.stderr

"""When batches run, who is in them, and that everyone who waits is answered."""

import asyncio
import gc
import random
import time
from contextlib import suppress
from itertools import count
from types import SimpleNamespace

import lablib.inference.async_lm.queue as queue_module
from lablib.inference.async_lm import AsyncMlxLM, Query
from lablib.inference.async_lm.queue import QueryQueue
from lablib.models.base import LanguageModel
from lablib.models.llama import llama_config

import mlx.core as mx
import numpy as np
import pytest
from oracles.refusals import refuses

FOREVER = 3600.0


class Fault(Exception):
    """What a broken forward raises."""


class Forwards:
    """Stands in for the model: answers ``-prompt[0]`` after ``steps`` forwards, or fails."""

    def __init__(self, steps=1):
        self.steps, self.batches, self.closed, self.failing = steps, [], 0, set()

    def __call__(self, prompts, answers):
        self.batches.append(prompts)
        try:
            for _ in range(self.steps):
                yield
            if self.failing & set(prompts):
                raise Fault
            answers.update({prompt: -prompt[0] for prompt in prompts})
        except GeneratorExit:
            self.closed += 1
            raise


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


def ask(queue, number):
    future = asyncio.get_running_loop().create_future()
    queue.ask((number,), future)
    return future


def in_loop(test):
    """Run a coroutine function as a test, within a time limit, and see that it leaves no task."""

    def run():
        async def guarded():
            await asyncio.wait_for(test(), 30)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(guarded())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@in_loop
async def test_a_batch_runs_when_enough_wait():
    forwards = Forwards()
    queue = QueryQueue(forwards, 3, FOREVER)
    futures = [ask(queue, number) for number in range(7)]
    assert await asyncio.gather(*futures[:6]) == [0, -1, -2, -3, -4, -5]
    assert forwards.batches == [[(0,), (1,), (2,)], [(3,), (4,), (5,)]]
    assert queue.waiting == [((6,), futures[6])]
    queue.run_now()
    assert await futures[6] == -6


@in_loop
async def test_a_smaller_batch_runs_some_time_after_the_last_arrival():
    forwards = Forwards()
    queue = QueryQueue(forwards, 100, 1.0)
    began = time.monotonic()
    futures = []
    for number in range(3):
        futures.append(ask(queue, number))
        await asyncio.sleep(0.05)
    await asyncio.gather(*futures)
    assert forwards.batches == [[(0,), (1,), (2,)]]
    assert time.monotonic() - began > 0.1 + 0.99  # two pauses, then the timeout


@in_loop
async def test_equal_prompts_run_once_waiting_or_running():
    forwards = Forwards(steps=3)
    queue = QueryQueue(forwards, 4, FOREVER)
    early = [ask(queue, number) for number in (1, 1, 2, 1)]
    await turns(2)
    late = ask(queue, 2)  # while its prompt is running
    assert await asyncio.gather(*early, late) == [-1, -1, -2, -1, -2]
    assert forwards.batches == [[(1,), (2,)]]


@in_loop
async def test_other_tasks_have_their_turn_between_forwards():
    queue = QueryQueue(Forwards(steps=50), 1, FOREVER)
    future, count = ask(queue, 1), 0
    while not future.done():
        await turns(1)
        count += 1
    assert count >= 50


@in_loop
async def test_an_error_reaches_every_awaiter_of_its_batch_and_no_other():
    forwards = Forwards()
    forwards.failing = {(1,)}
    queue = QueryQueue(forwards, 2, FOREVER)
    futures = [ask(queue, number) for number in (0, 1, 1, 2, 3)]
    queue.run_now()
    assert [type(f.exception()) for f in futures[:3]] == [Fault] * 3
    assert [f.result() for f in futures[3:]] == [-2, -3]
    forwards.failing = set()
    again = [ask(queue, 1), ask(queue, 0)]
    assert await asyncio.gather(*again) == [-1, 0]


@in_loop
async def test_a_cancelled_awaiter_does_not_disturb_its_batch():
    forwards = Forwards(steps=4)
    queue = QueryQueue(forwards, 3, FOREVER)
    futures = [ask(queue, number) for number in range(3)]
    futures[0].cancel()  # before the batch began
    await turns(2)
    futures[1].cancel()  # while it runs
    assert await futures[2] == -2
    assert forwards.batches == [[(1,), (2,)]]


@in_loop
async def test_a_batch_nobody_waits_for_stops():
    forwards = Forwards(steps=1000)
    queue = QueryQueue(forwards, 2, FOREVER)
    futures = [ask(queue, number) for number in range(2)]
    await turns(2)
    for future in futures:
        future.cancel()
    await turns(5)
    assert (forwards.closed, queue.waiting) == (1, [])
    assert await asyncio.gather(ask(queue, 0), ask(queue, 5), return_exceptions=True) == [0, -5]


@in_loop
async def test_a_reset_cancels_what_waits_and_what_runs():
    forwards = Forwards(steps=1000)
    queue = QueryQueue(forwards, 2, FOREVER)
    running, waiting = [ask(queue, 0), ask(queue, 1)], ask(queue, 2)
    await turns(2)
    queue.cancel()
    again = ask(queue, 0)
    for future in (*running, waiting):
        with pytest.raises(asyncio.CancelledError):
            await future
    forwards.steps = 1
    assert await asyncio.gather(again, ask(queue, 3)) == [0, -3]


@in_loop
async def test_if_the_running_task_is_cancelled_everyone_is():
    queue = QueryQueue(Forwards(steps=1000), 2, FOREVER)
    futures = [ask(queue, number) for number in range(5)]
    (runner,) = (task for task in asyncio.all_tasks() if task.get_coro().__name__ == "_run")
    runner.cancel()  # before its first step, so that nothing inside it can notice
    await asyncio.wait(futures)
    assert all(future.cancelled() for future in futures)


def test_an_interrupt_cancels_and_goes_through():
    class Interrupted(Forwards):
        def __call__(self, prompts, answers):
            yield
            raise KeyboardInterrupt

    async def run():
        queue = QueryQueue(Interrupted(), 1, FOREVER)
        futures.append(ask(queue, 1))
        await futures[0]

    futures = []
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run())
    assert futures[0].cancelled()


def test_the_same_queue_serves_one_loop_after_the_other():
    queue = QueryQueue(Forwards(), 2, 0.0)

    async def leave_something_behind():
        queue.timeout = FOREVER
        assert await asyncio.gather(ask(queue, 1), ask(queue, 2)) == [-1, -2]
        ask(queue, 3)

    async def use_it():
        queue.timeout = 0.0
        return await ask(queue, 4)

    asyncio.run(leave_something_behind())
    assert asyncio.run(use_it()) == -4


def test_a_closed_loop_is_refused_in_words():
    queue = QueryQueue(Forwards(), 9, FOREVER)
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    queue.ask((1,), future)
    loop.close()
    refuses(RuntimeError, "event loop of the waiting queries is closed", queue.run_now)
    refuses(RuntimeError, "event loop of this query's future is closed", queue.ask, (1,), future)
    assert queue.waiting == []


def test_two_loops_at_a_time_are_refused_in_words():
    queue = QueryQueue(Forwards(), 9, FOREVER)
    loops = [asyncio.new_event_loop() for _ in range(2)]
    futures = [loop.create_future() for loop in loops]
    queue.ask((1,), futures[0])
    refuses(RuntimeError, "queries of another event loop are waiting", queue.ask, (2,), futures[1])
    queue.cancel()
    queue.ask((2,), futures[1])
    queue.run_now()
    assert futures[1].result() == -2
    for loop in loops:
        loop.close()


# With a model.
class Shaky(LanguageModel):
    """A tiny Llama whose forwards fail now and then, before or after their work."""

    def __init__(self):
        super().__init__(llama_config(30, 16, 2, 2, d_ff=16), seed=0)
        mx.eval(self.parameters())
        self._draw, self._rate, self.faults = random.Random(0), 0.0, 0

    def __call__(self, tokens, cache=None):
        failing = self._draw.random() < self._rate
        self.faults += failing
        if failing and self._draw.random() < 0.5:
            raise Fault
        logits = super().__call__(tokens, cache)
        if failing:
            raise Fault
        return logits

    def failing_at(self, rate):
        self._rate = rate
        return self


def check(row, expected):
    assert np.abs(np.array(row) - expected).max() < 1e-4


def fresh_rows(model, prompts):
    """Log-probabilities by forwards of whole prompts, equal lengths together."""
    rows = {}
    for length in sorted({len(prompt) for prompt in prompts}):
        group = sorted({prompt for prompt in prompts if len(prompt) == length})
        logits = model(mx.array(group))[:, -1]
        logprobs = np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
        rows |= dict(zip(group, logprobs, strict=True))
    return rows


def nbytes(lm):
    """The bytes of the cache, free places included."""
    return sum(array.nbytes for array in lm.cache.slab.arrays) + lm.cache.logprob_bytes


def random_prompts(draw, count):
    trunks = [tuple(draw.choices(range(30), k=draw.randint(1, 12))) for _ in range(6)]
    for _ in range(count):
        trunk = draw.choice(trunks)
        cut = trunk[: draw.randint(1, len(trunk))]
        yield (*cut, *draw.choices(range(30), k=draw.randint(0, 4)))


def load(count, seed):
    """``count`` concurrent queries while forwards fail, awaiters leave, and caches are cleared."""
    draw = random.Random(seed)
    model = Shaky()
    prompts = list(random_prompts(draw, count))
    expected = fresh_rows(model, prompts)
    budget = 60_000
    lm = AsyncMlxLM(model, None, 16, 0.001, 64, 100, cache_bytes=budget)
    heaviest = 0

    async def query(prompt):
        await turns(draw.randint(0, 300))  # not seconds: a slow machine has the same trouble
        return await lm.next_token_logprobs(prompt)

    async def trouble(tasks):
        nonlocal heaviest
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            what = draw.random()
            if what < 0.01:
                lm.reset_async_queries()
            elif what < 0.03:
                lm.clear_cache()
            elif what < 0.3:
                draw.choice(tasks).cancel()
            elif what < 0.4:
                prompt = draw.choice(prompts)
                with suppress(Fault):
                    check(lm.next_token_logprobs_sync(prompt), expected[prompt])
            heaviest = max(heaviest, nbytes(lm))

    async def run():
        tasks = [asyncio.create_task(query(prompt)) for prompt in prompts]
        await asyncio.wait_for(trouble(tasks), 120)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return tasks

    model.failing_at(0.1)
    tasks = asyncio.run(run())
    model.failing_at(0.0)
    outcomes = {"answered": 0, "failed": 0, "cancelled": 0}
    for prompt, task in zip(prompts, tasks, strict=True):
        if task.cancelled():
            outcomes["cancelled"] += 1
        elif task.exception() is not None:
            assert isinstance(task.exception(), Fault)
            outcomes["failed"] += 1
        else:
            check(task.result(), expected[prompt])
            outcomes["answered"] += 1
    assert sum(outcomes.values()) == count
    assert all(outcomes.values()), outcomes
    assert model.faults > 10
    assert lm.queries == []
    trie, slab = lm.cache, lm.cache.slab
    assert trie.root.pins == 0
    assert slab.used == trie.kv_tokens <= trie.tokens <= 100
    assert nbytes(lm) <= budget
    in_flight = 16 * max(map(len, prompts)) * slab.token_bytes  # one batch that shares nothing
    assert heaviest <= budget + in_flight
    assert lm.stats["forwards"] <= 2 * count
    return lm, expected


def test_load_with_faults():
    lm, expected = load(2000, seed=1)
    for prompt in list(expected)[::10]:
        check(lm.next_token_logprobs_sync(prompt), expected[prompt])


@pytest.mark.slow
def test_more_load_with_faults():
    gc.collect()
    before = mx.get_active_memory()
    for seed in range(2, 8):
        load(2000, seed)
    gc.collect()
    assert mx.get_active_memory() - before < 1_000_000


def test_a_fault_leaves_the_cache_as_it_was():
    model = Shaky()
    lm = AsyncMlxLM(model, None)
    lm.cache_kv([1, 2, 3])
    before = lm.cache.snapshot(), lm.cache.slab.used
    model.failing_at(1.0)
    for _ in range(4):
        with pytest.raises(Fault):
            lm.next_token_logprobs_sync([1, 2, 3, 4])
        assert [n["tokens"] for n in lm.cache.snapshot()] == [n["tokens"] for n in before[0]]
        assert (lm.cache.slab.used, lm.cache.root.pins) == (before[1], 0)
    model.failing_at(0.0)
    forwards = lm.stats["token_forwards"]
    row = lm.next_token_logprobs_sync([1, 2, 3, 4])
    check(row, fresh_rows(model, [(1, 2, 3, 4)])[1, 2, 3, 4])
    assert lm.stats["token_forwards"] == forwards + 1
    assert [len(batch.forwards) for batch in lm.trace] == [1] + [0] * 4 + [1]


@pytest.mark.parametrize(("call", "kept"), [(1, 3), (4, 3), (5, 0)])
def test_what_a_failing_evaluation_leaves_of_the_cache(monkeypatch, call, kept):
    """A slab that could not grow is as it was; one that was being written nobody can vouch for."""
    model = Shaky()
    lm = AsyncMlxLM(model, None)
    lm.cache_kv([1, 2, 3])
    eval_, calls = mx.eval, []

    def failing(*arrays):
        calls.append(1)
        if len(calls) == call:  # first keys and values of two layers get room for a fourth token
            raise Fault
        return eval_(*arrays)

    monkeypatch.setattr(mx, "eval", failing)
    with pytest.raises(Fault):
        lm.next_token_logprobs_sync([1, 2, 3, 4])
    monkeypatch.undo()
    assert lm.cache.tokens == lm.cache.slab.used == kept
    row = lm.next_token_logprobs_sync([1, 2, 3, 4])
    check(row, fresh_rows(model, [(1, 2, 3, 4)])[1, 2, 3, 4])


@in_loop
async def test_clearing_and_synchronous_calls_while_a_batch_runs():
    model = Shaky()
    lm = AsyncMlxLM(model, None, batch_size=3, prefill_step_size=2)
    prompts = [(1, 2, 3, 4, 5, 6), (1, 2, 3, 9, 9), (8,) * 7]
    expected = fresh_rows(model, [*prompts, (1, 2, 3)])
    tasks = [asyncio.create_task(lm.next_token_logprobs(prompt)) for prompt in prompts]
    for turn in range(12):
        await asyncio.sleep(0)
        if turn == 5:
            lm.clear_cache()
        check(lm.next_token_logprobs_sync((1, 2, 3)), expected[1, 2, 3])
        if turn == 8:
            lm.cache_kv(prompts[0])
    for prompt, task in zip(prompts, tasks, strict=True):
        check(await task, expected[prompt])
    assert lm.cache.root.pins == 0
    assert lm.cache.slab.used == lm.cache.kv_tokens


@pytest.fixture
def milliseconds(monkeypatch):
    """Let a millisecond pass each time the queue looks at the clock."""
    clock = count()
    fake = SimpleNamespace(monotonic=lambda: next(clock) / 1000)
    monkeypatch.setattr(queue_module, "time", fake, raising=False)


async def ask_again(lm, times, answers, sampling=False):
    for _ in range(times):
        await (lm.sample([1, 2], 1, ()) if sampling else lm.next_token_logprobs([1, 2]))
        answers.append(1)


@pytest.mark.parametrize("sampling", [False, True])
def test_a_caller_of_cached_answers_can_be_cancelled(milliseconds, sampling):
    async def run():
        lm, answers = AsyncMlxLM(Shaky(), None), []
        await lm.next_token_logprobs([1, 2])
        tasks = [asyncio.create_task(ask_again(lm, 100, answers, sampling)) for _ in range(4)]
        await turns(3)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.wait(tasks)
        assert [task.cancelled() for task in tasks] == [True, False] * 2
        assert lm.cache.root.pins == 0

    asyncio.run(run())


@pytest.mark.parametrize("callers", [1, 8])
def test_cached_answers_give_way_after_milliseconds_that_all_callers_share(milliseconds, callers):
    async def run():
        lm, answers = AsyncMlxLM(Shaky(), None), []
        await lm.next_token_logprobs([1, 2])
        tasks = [asyncio.create_task(ask_again(lm, 400, answers)) for _ in range(callers)]
        in_turns = []
        while not all(task.done() for task in tasks):
            before = len(answers)
            await asyncio.sleep(0)
            in_turns.append(len(answers) - before)
        assert max(in_turns) <= 5 + callers  # milliseconds, and an answer for each caller
        assert len(in_turns) <= 400 * callers / 5 + 8  # not on each answer

    asyncio.run(run())


@in_loop
async def test_queries_added_by_hand():
    lm = AsyncMlxLM(Shaky(), None, timeout=FOREVER)
    query = Query([1, 2], asyncio.get_running_loop().create_future())
    lm.add_query(query)
    assert lm.queries == [query]
    lm.batch_evaluate_queries()
    assert query.future.result().shape == (30,)
    query = Query([1, 3], asyncio.get_running_loop().create_future())
    lm.add_query(query)
    lm.reset_async_queries()
    assert query.future.cancelled()
    assert lm.queries == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"batch_size": 2.0}, "batch_size must be an int, got 2.0"),
        ({"timeout": -0.1}, "timeout must be at least 0.0, got -0.1"),
        ({"timeout": float("nan")}, "timeout must be finite"),
        ({"timeout": "1"}, "timeout must be a number"),
        ({"prefill_step_size": 0}, "prefill_step_size must be at least 1, got 0"),
        ({"cache_size": -1}, "cache_size must be at least 0, got -1"),
        ({"cache_size": 0.5}, "cache_size must be an int, got 0.5"),
        ({"cache_bytes": -1}, "cache_bytes must be at least 0, got -1"),
        ({"mlx_lm_model": "target"}, "mlx_lm_model must be a model, got str"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        AsyncMlxLM(**{"mlx_lm_model": Shaky(), "tokenizer": None} | options)


@pytest.mark.parametrize(
    ("prompt", "error", "message"),
    [
        ([], ValueError, " must hold at least one token"),
        ([30], ValueError, r"\[0\] must be between 0 and 29, got 30"),
        ([1, -1], ValueError, r"\[1\] must be between 0 and 29, got -1"),
        ([1.0], TypeError, r"\[0\] must be an int"),
        ([True], TypeError, r"\[0\] must be an int"),
        ("text", TypeError, " must be token ids, got the text"),
        (None, TypeError, " must be a sequence"),
        ([1] * 2000, ValueError, " must fit the model's context of 1024 tokens, got 2000"),
    ],
)
def test_prompts_are_checked_before_anything_happens(prompt, error, message):
    lm = AsyncMlxLM(Shaky(), None, timeout=FOREVER)
    calls = {
        r"token_ids_list\[1\]": lambda: lm.batch_next_token_logprobs([[1], prompt]),
        "prompt_token_ids": lambda: lm.sample(prompt, 3, []),
        "token_ids": lambda: lm.next_token_logprobs(prompt),
    }
    for name, call in calls.items():
        refuses(error, f"^{name}{message}", asyncio.run, call())
    for call in (lm.next_token_logprobs_sync, lm.cache_kv):
        refuses(error, f"^token_ids{message}", call, prompt)
    assert (lm.queries, lm.stats["batches"], lm.cache.tokens) == ([], 0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], 0, []), "max_tokens must be at least 1, got 0"),
        (([1], 2.5, []), "max_tokens must be an int"),
        (([1], 2, [-1]), r"eos_token_ids\[0\] must be"),
        (([1], 2, 7), "eos_token_ids must be a sequence"),
        (([1], 2, [], -1.0), "temperature must be"),
        (([1], 2, [], 1.0, "a"), "seed must be an int"),
    ],
)
def test_sample_checks_its_arguments(arguments, message):
    lm = AsyncMlxLM(Shaky(), None)
    refuses((ValueError, TypeError), message, asyncio.run, lm.sample(*arguments))
    assert lm.stats["batches"] == 0


def test_other_slips():
    lm = AsyncMlxLM(Shaky(), None)
    with pytest.raises(ValueError, match="token_ids_list must hold at least one prompt"):
        lm.batch_next_token_logprobs_sync([])
    refuses(TypeError, "query must be a Query with a future", lm.add_query, Query([1, 2]))
    refuses(TypeError, "query must be a Query with a future", lm.add_query, [1, 2])
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        lm.batch_size = 0
    lm.batch_size, lm.timeout = 7, 0.5
    assert (lm.batch_size, lm.timeout) == (7, 0.5)

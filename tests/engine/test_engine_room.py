"""Long prompts are read between the others' tokens; memory has a bound, and a queue behind it."""

import asyncio
import math
from itertools import pairwise
from statistics import median

import lablib
from lablib.cache import kv
from lablib.inference.engine import continuous_batch, job, pace
from lablib.inference.engine.footprint import Footprint

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from oracles.engine import random_llama, requests_of
from oracles.scripted import Ragged, random_table

PROMPT = "On a sunny day, Mia finds"
LONG = {"max_tokens": 400, "stop_tokens": ()}
ENTRY = 16.0  # bytes of a token in the caches of a Recorder: two layers, a key and a value each


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


# --- prompts in pieces ------------------------------------------------------------------------
def test_a_long_prompt_is_read_in_pieces_between_the_others_tokens(model, serve, monkeypatch):
    monkeypatch.setattr(pace, "PATIENCE", 1e-9)  # a piece a turn

    async def client(engine):
        others = [asyncio.create_task(engine.generate(PROMPT, **LONG)) for _ in range(3)]
        await until(lambda: [3, 1] in [[*shape] for shape in model.shapes])
        first = len(model.calls)
        await engine.generate([7] * 150, max_tokens=2, stop_tokens=())
        for each in others:
            each.cancel()
        return model.shapes[first:]

    shapes = serve(client, model)
    pieces = [i for i, (b, t) in enumerate(shapes) if t > 1]
    assert sum(shapes[i][1] for i in pieces) >= 148
    assert len(pieces) > 20
    between = [shapes[i + 1] for i in pieces]
    assert set(between) <= {(3, 1), (4, 1)}  # after each piece all others get a token


def test_pieces_take_one_and_three_quarters_of_a_round():
    mine = pace.Pace(512)
    mine.read(400, 0.4)
    assert mine.piece(10_000, 10_000, 0.05) == 50
    assert mine.piece(10_000, 30, 0.05) == 30
    assert mine.piece(10, 10_000, 0.05) == 10
    assert mine.piece(10_000, 10_000, 1e-6) == pace.SMALLEST
    assert mine.piece(10_000, 10_000, 100.0) == mine.piece(10_000, 64, math.inf) == 512
    assert mine.patience(1, 0) == math.inf
    for seconds in (0.1, 0.1, 7.0):
        mine.wrote(seconds)
    assert mine.patience(1, 4) == pytest.approx(0.175)
    assert mine.patience(8, 4) == pytest.approx(0.35)  # who waits may be more than who writes


class Priced(Ragged):
    """Its forwards take a time that is known: by the clock that the engine looks at."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def __call__(self, tokens, cache=None):
        self.now += 4e-4 + 1e-4 * tokens.size  # seconds: for the weights, and for each token
        return super().__call__(tokens, cache)


def test_eight_clients_go_on_while_a_long_prompt_joins(tokenizer, serve, monkeypatch):
    model = Priced(random_table(97, len(tokenizer), 1))
    for module in (continuous_batch, job):
        monkeypatch.setattr(module, "time", model)
    long, how = [5] * 2000, {"max_tokens": 3, "stop_tokens": ()}
    times = []

    async def client(engine):
        turn = engine._batch.turn

        def noted():
            news = turn()
            times.append((model.now, [each.row.number for each in news]))
            return news

        engine._batch.turn = noted
        alone = (await engine.generate(long, **how)).stats["prefill_seconds"]
        writers = [engine.stream([*range(i + 1, i + 20)], **LONG) for i in range(8)]
        await until(lambda: engine.stats["running"] == 8)
        await until(lambda: model.shapes[-20:] == [(8, 1)] * 20)
        start = model.now
        made = await engine.generate(long, **how)
        end = model.now
        for each in writers:
            each.close()
        return alone, made.stats["prefill_seconds"], start, end, writers[0].job.row.number

    alone, beside, start, end, number = serve(client, model)
    ends = [when for when, jobs in times if number in jobs]
    gaps = [two - one for one, two in pairwise(ends) if one >= start and two <= end]
    before = median(two - one for one, two in pairwise(ends) if two <= start)
    assert len(gaps) > 100
    assert sorted(gaps)[int(0.99 * len(gaps))] <= 3 * before
    assert beside <= 2 * alone


def test_a_short_prompt_does_not_wait_for_a_long_one(model, serve):
    async def client(engine):
        other = asyncio.create_task(engine.generate(PROMPT, **LONG))
        await until(lambda: len(model.calls) > 3)
        model.hook = lambda call: asyncio.run(asyncio.sleep(0.001))
        long = asyncio.create_task(engine.generate([7] * 3000, max_tokens=2))
        await until(lambda: engine.stats["reading"] == 1)
        await engine.generate(PROMPT, max_tokens=2, stop_tokens=())
        is_before = not long.done()
        long.cancel()
        other.cancel()
        return is_before

    assert serve(client, model)


def test_a_beginning_that_prompts_share_is_read_once(model, serve):
    async def client(engine):
        start = [*range(40)]
        for end in ([50, 51], [60, 61, 62]):
            await engine.generate(start + end, max_tokens=2, stop_tokens=())

    serve(client, model)
    read = [call[0] for call in model.calls if len(call[0]) > 1]
    assert read == [[*range(40), 50], [60, 61]]


# --- lanes ------------------------------------------------------------------------------------
def test_a_text_that_would_pad_the_others_much_has_a_lane_of_its_own(tokenizer, serve):
    model = random_llama(32, 2)
    footprint = Footprint([model])
    length = 30 + math.ceil(footprint.weights / (footprint.of(1) * 2))

    async def client(engine):
        short = [engine.stream([3, 4, 5], **LONG) for _ in range(3)]
        await until(lambda: engine.stats["running"] == 3)
        beside = engine.stream([7] * 9, **LONG)
        await until(lambda: engine.stats["running"] == 4)
        lanes = [len(engine._batch.lanes)]
        long = engine.stream([7] * length, **LONG)
        await until(lambda: engine.stats["running"] == 5)
        lanes.append(len(engine._batch.lanes))
        for each in (*short, beside, long):
            await each.aclose()
        return lanes

    assert serve(client, model) == [1, 2]


# --- memory -----------------------------------------------------------------------------------
def test_a_footprint_is_what_caches_take():
    model = random_llama(32, 2)
    cache = kv.make(model)
    mx.eval(model(mx.zeros((1, 256), mx.int32), cache=cache))
    assert Footprint([model]).of(256) == kv.nbytes(cache)
    assert Footprint([model, model]).of(256) == 2 * kv.nbytes(cache)
    assert Footprint([model]).weights == sum(x.nbytes for _, x in tree_flatten(model.parameters()))


def test_texts_that_outgrow_the_bound_are_evicted_and_read_again(model, tokenizer, serve):
    bound = int(ENTRY * 900)
    asked = [{**each, "max_tokens": 90, "stop_tokens": ()} for each in requests_of(7, 12)]

    async def client(engine):
        return await asyncio.gather(*(engine.generate(**each) for each in asked)), engine.stats

    found, stats = serve(client, model, cache_bytes=bound)
    assert stats["evicted"] > 0
    assert sum(each.stats["evicted"] for each in found) == stats["evicted"]
    assert 0 < stats["most_cache_bytes"] <= bound
    assert stats["finished"] == 7
    wanted = [lablib.generate(model, tokenizer, **each) for each in asked]
    assert [each.tokens for each in found] == [each.tokens for each in wanted]


@pytest.mark.thorough
def test_drafted_texts_that_are_evicted_are_those_that_they_are_alone(
    model, draft, tokenizer, serve
):
    asked = requests_of(7, 13)
    asked = [{**each, "max_tokens": 90, "stop_tokens": (), "stop": ()} for each in asked]
    how = {"cache_bytes": int(2 * ENTRY * 900)}

    async def client(engine):
        return await asyncio.gather(*(engine.generate(**each) for each in asked)), engine.stats

    found, stats = serve(client, model, draft, **how)
    assert stats["evicted"] > 0
    wanted = [lablib.generate(model, tokenizer, draft_model=draft, **each) for each in asked]
    assert [each.tokens for each in found] == [each.tokens for each in wanted]


def test_who_finds_no_room_waits(model, serve):
    async def client(engine):
        tasks = [asyncio.create_task(engine.generate(PROMPT, max_tokens=40)) for _ in range(9)]
        await until(lambda: engine.stats["running"])
        waiting = engine.stats["waiting"]
        await asyncio.gather(*tasks)
        return waiting

    assert serve(client, model, cache_bytes=int(ENTRY * 500)) > 0


def test_what_can_never_fit_is_refused(model, serve):
    async def client(engine):
        with pytest.raises(ValueError, match="cache_bytes"):
            await engine.generate(PROMPT, max_tokens=1000)
        return await engine.generate(PROMPT, max_tokens=20, stop_tokens=())

    assert len(serve(client, model, cache_bytes=int(ENTRY * 500)).tokens) == 20


def test_the_counts_add_up(model, serve):
    async def client(engine):
        before = engine.stats
        made = await asyncio.gather(*(engine.generate(PROMPT, max_tokens=9) for _ in range(5)))
        stream = engine.stream(PROMPT, **LONG)
        await anext(stream)
        await stream.aclose()
        return before, made, engine.stats

    before, made, stats = serve(client, model)
    assert set(before.values()) == {0}
    assert stats["finished"] == 5
    assert stats["cancelled"] == 1
    assert stats["tokens"] >= sum(len(each.tokens) for each in made)
    assert stats["tokens_per_second"] > 0
    assert stats["time_to_first_token"] > 0
    own = made[0].stats
    assert own["tokens"] == len(made[0].tokens)
    assert own["queue_seconds"] >= 0
    assert own["prefill_seconds"] > 0

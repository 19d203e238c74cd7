"""Callers come, go and are wrong: each is answered, and none harms another."""

import asyncio
import threading

import lablib
from lablib.inference.engine.continuous_batch import ContinuousBatch

import mlx.core as mx
import pytest
from oracles.scripted import Ragged, random_table

PROMPT = "On a sunny day, Mia finds"
LONG = {"max_tokens": 400, "stop_tokens": ()}


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def rows(model):
    """Return how many rows each of the model's calls had that wrote tokens."""
    return [len(call) for call in model.calls if len(call[0]) == 1]


# --- join and leave ---------------------------------------------------------------------------
def test_a_request_joins_those_that_run_and_leaves_them(model, serve):
    async def client(engine):
        first = asyncio.create_task(engine.generate(PROMPT, **LONG))
        await until(lambda: len(rows(model)) > 3)
        await engine.generate(PROMPT, max_tokens=5, stop_tokens=())
        n = len(model.calls)
        await until(lambda: len(model.calls) > n + 3)
        is_done, last = first.done(), rows(model)[-1]
        await first
        return is_done, last

    assert serve(client, model) == (False, 1)
    assert rows(model)[0] == rows(model)[-1] == 1
    assert rows(model).count(2) == 5


def test_requests_begin_in_the_order_in_which_they_came(model, serve):
    async def client(engine):
        ended = []

        async def one(i):
            await engine.generate(PROMPT, seed=i, max_tokens=3, stop_tokens=())
            ended.append(i)

        await asyncio.gather(*map(one, range(6)))
        return ended

    assert serve(client, model, max_batch=1) == list(range(6))
    assert set(rows(model)) == {1}


def test_at_most_max_batch_texts_run(model, serve):
    async def client(engine):
        await asyncio.gather(*(engine.generate(PROMPT, max_tokens=30) for _ in range(12)))

    serve(client, model, max_batch=4)
    assert max(rows(model)) == 4


@pytest.mark.parametrize("way", ["cancelled", "closed", "dropped", "timed out", "left"])
def test_who_gives_up_leaves_before_the_next_round(model, serve, way):
    async def client(engine):
        stays = asyncio.create_task(engine.generate(PROMPT, **LONG))
        if way in ("cancelled", "timed out"):
            task = asyncio.create_task(engine.generate(PROMPT, **LONG))
            if way == "timed out":
                task = asyncio.create_task(asyncio.wait_for(task, 0.05))
        else:
            stream = engine.stream(PROMPT, **LONG)
        await until(lambda: 2 in rows(model))
        if way == "cancelled":
            task.cancel()
        if way in ("cancelled", "timed out"):
            with pytest.raises((asyncio.CancelledError, TimeoutError)):
                await task
        elif way == "closed":
            stream.close()
        elif way == "left":
            async for _ in stream:
                break
        if way in ("dropped", "left"):
            del stream
        n = len(model.calls)
        await until(lambda: engine.stats["running"] == 1 or stays.done())
        await until(lambda: len(model.calls) > n + 4 or stays.done())
        assert not stays.done()
        assert 2 not in [len(call) for call in model.calls[n + 2 :]]
        assert engine.stats["cancelled"] == 1
        stays.cancel()

    serve(client, model)


def test_a_closed_stream_has_what_was_made_until_then(model, tokenizer, serve):
    async def client(engine):
        stream = engine.stream(PROMPT, seed=1, **LONG)
        pieces = [await anext(stream) for _ in range(3)]
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        return pieces, stream.text, stream.completion()

    pieces, text, made = serve(client, model)
    whole = lablib.generate(model, tokenizer, PROMPT, seed=1, **LONG)
    assert text.startswith("".join(pieces))
    assert whole.startswith(text)
    assert made == text
    assert made.finish_reason == "closed"
    assert made.tokens == whole.tokens[: len(made.tokens)]


def test_one_who_gives_up_while_he_waits_is_never_begun(model, serve):
    async def client(engine):
        first = asyncio.create_task(engine.generate(PROMPT, **LONG))
        await until(lambda: model.calls)
        second = engine.stream("Otto", **LONG)
        await until(lambda: engine.stats["waiting"] == 1)
        await second.aclose()
        assert engine.stats["waiting"] == 0
        assert second.completion().tokens == []
        first.cancel()

    serve(client, model, max_batch=1)
    assert set(rows(model)) == {1}


# --- faults -----------------------------------------------------------------------------------
BAD = [
    {"prompt": [512]},
    {"prompt": [-1]},
    {"prompt": []},
    {"prompt": ""},
    {"prompt": None},
    {"max_tokens": 0},
    {"temperature": -1.0},
    {"stop": [""]},
    {"stop_tokens": [512]},
    {"logits_processors": [3]},
    {"stream": -1},
    {"n": 0},
    {"draft_tokens": 2},
    {"template": {"tools": []}},
    {"tempratur": 1.0},
    {"draft_model": lablib.NGram()},
    {"max_batch": 3},
    {"cache": []},
    {"messages": [{"role": "user", "content": "Mia"}]},
]


def test_what_cannot_be_is_refused_before_anything_is_done(model, serve):
    async def client(engine):
        model.calls.clear()
        for each in BAD:
            with pytest.raises((ValueError, TypeError)) as refused:
                await engine.generate(**{"prompt": PROMPT, **each})
            assert str(refused.value)
            if "n" not in each:
                with pytest.raises((ValueError, TypeError)):
                    engine.stream(**{"prompt": PROMPT, **each})
        assert model.calls == []
        assert engine.stats["waiting"] == 0
        return len(await engine.generate(PROMPT, max_tokens=4, stop_tokens=()))

    assert serve(client, model)


def raises(tokens, logits):
    if len(tokens) > 8:
        raise LookupError("so long a text")
    return logits


class Stateful:
    def copy(self):
        return self

    def __call__(self, tokens, logits):
        return raises(tokens, logits)


FAULTS = {
    "raises": raises,
    "raises with a state": Stateful(),
    "another shape": lambda tokens, logits: logits[:, :3],
    "no array": lambda tokens, logits: None,
    "NaN": lambda tokens, logits: logits * mx.nan,
    "nothing left": lambda tokens, logits: mx.full(logits.shape, -mx.inf),
    "what cannot be computed": lambda tokens, logits: logits + lost(),
}


def lost():
    """Return an array that only a thread that has ended could compute."""
    made = []
    thread = threading.Thread(target=lambda: made.append(mx.random.normal((1, 512))))
    thread.start()
    thread.join()
    return made[0]


@pytest.mark.grid(lambda drafted, fault: drafted == (fault == "raises"))
@pytest.mark.parametrize("drafted", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_processor_that_fails_ends_its_own_request(
    model, draft, tokenizer, serve, fault, drafted
):
    drafter = [draft] if drafted else []
    how = {"max_tokens": 15, "stop_tokens": ()}

    async def client(engine):
        others = [asyncio.create_task(engine.generate(PROMPT, seed=i, **how)) for i in range(3)]
        with pytest.raises((LookupError, ValueError, TypeError, RuntimeError)):
            await engine.generate("Mia", logits_processors=[FAULTS[fault]], **how)
        found = await asyncio.gather(*others)
        assert engine.stats["failed"] == 1
        return found

    more = {"draft_model": draft} if drafted else {}
    wanted = [lablib.generate(model, tokenizer, PROMPT, seed=i, **how, **more) for i in range(3)]
    assert serve(client, model, *drafter) == wanted


class Picky(Ragged):
    """Raises, or gives NaN, where a row has read a token."""

    def __init__(self, table, bad, how):
        super().__init__(table)
        self.bad, self.how = bad, how

    def __call__(self, tokens, cache=None):
        logits = super().__call__(tokens, cache)
        hit = mx.any(tokens == self.bad, axis=1)
        if self.how == "raises" and mx.any(hit):
            raise ArithmeticError("a token that nobody can bear")
        return mx.where(hit[:, None, None], mx.nan, logits)


@pytest.mark.parametrize("drafted", [False, True])
@pytest.mark.parametrize("how", ["raises", "NaN"])
def test_a_text_that_the_model_fails_at_fails_alone(draft, tokenizer, serve, how, drafted):
    bad = tokenizer.encode("Otto", add_special_tokens=False)[-1]

    def never(tokens, logits):
        return mx.where(mx.arange(logits.shape[-1]) == bad, -mx.inf, logits)

    model = Picky(random_table(97, len(tokenizer), 1), bad, how)
    settings = {"max_tokens": 20, "stop_tokens": (), "logits_processors": [never]}
    drafter = [draft] if drafted else []

    async def client(engine):
        others = [asyncio.create_task(engine.generate(PROMPT, seed=i, **settings)) for i in (0, 1)]
        await until(lambda: engine.stats["running"] == 2)
        with pytest.raises((ArithmeticError, ValueError)):
            await engine.generate("Otto", **settings)
        return await asyncio.gather(*others)

    more = {"draft_model": draft} if drafted else {}
    wanted = [lablib.generate(model, tokenizer, PROMPT, seed=i, **settings, **more) for i in (0, 1)]
    assert serve(client, model, *drafter) == wanted


def test_one_of_n_that_fails_ends_the_others(model, serve):
    async def client(engine):
        with pytest.raises(LookupError):
            await engine.generate(PROMPT, n=3, logits_processors=[raises], **LONG)
        await until(lambda: engine.stats["running"] == 0)

    serve(client, model)


# --- the end ----------------------------------------------------------------------------------
def test_leaving_the_block_answers_all(model, tokenizer):
    async def main():
        async with lablib.Engine(model, tokenizer, max_batch=2) as engine:
            tasks = [asyncio.create_task(engine.generate(PROMPT, **LONG)) for _ in range(5)]
            stream = engine.stream(PROMPT, **LONG)
            await until(lambda: 2 in rows(model))
        found = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(RuntimeError, match="closed"):
            [piece async for piece in stream]
        with pytest.raises(RuntimeError, match="must run"):
            await engine.generate(PROMPT)
        with pytest.raises(RuntimeError, match="once"):
            await engine.__aenter__()
        return found

    found = asyncio.run(main())
    assert len(found) == 5
    assert all(isinstance(each, RuntimeError) for each in found)
    assert not any(thread.name == "lablib.Engine" for thread in threading.enumerate())


def test_if_the_engine_itself_fails_all_are_answered(model, tokenizer, monkeypatch):
    def turn(self):
        raise MemoryError("all gone")

    monkeypatch.setattr(ContinuousBatch, "turn", turn)

    async def main():
        async with lablib.Engine(model, tokenizer) as engine:
            with pytest.raises(RuntimeError) as answered:
                await engine.generate(PROMPT)
            return answered.value.__cause__

    assert isinstance(asyncio.run(main()), MemoryError)


def test_an_engine_belongs_to_its_loop_and_its_block(model, tokenizer):
    engine = lablib.Engine(model, tokenizer)
    with pytest.raises(RuntimeError):
        engine.stream(PROMPT)

    async def main():
        async with engine:
            return await asyncio.to_thread(asyncio.run, asks())

    async def asks():
        with pytest.raises(RuntimeError, match="its loop"):
            await engine.generate(PROMPT)
        return True

    assert asyncio.run(main())


def test_settings_of_an_engine_are_checked(model, tokenizer):
    for bad in ({"max_batch": 0}, {"cache_bytes": 0.5}, {"prefill_step_size": 0}, {"batch": 3}):
        with pytest.raises((ValueError, TypeError)):
            lablib.Engine(model, tokenizer, **bad)
    with pytest.raises(TypeError):
        lablib.Engine(model, None)
    with pytest.raises((ValueError, TypeError)):
        lablib.Engine(model, tokenizer, Ragged(random_table(97, 7)))


def test_the_event_loop_goes_on_while_the_model_computes(model, serve):
    async def client(engine):
        model.hook = lambda call: threading.Event().wait(0.02)
        turns = 0
        task = asyncio.create_task(engine.generate(PROMPT, max_tokens=8, stop_tokens=()))
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert serve(client, model) > 100  # a loop that is blocked has one for each round

"""Whatever comes beside it, a request's text is what ``generate`` writes of it alone."""

import asyncio

import lablib
from lablib.inference.speculation.rules import RULE

import mlx.core as mx
import pytest
from mlx_lm.models import gemma3_text
from oracles.engine import Storm, odd, requests_of
from oracles.scripted import Ragged, Recurrent, random_table

PROMPT = "On a sunny day, Mia finds"


def windowed():
    mx.random.seed(2)
    return gemma3_text.Model(
        gemma3_text.ModelArgs(
            model_type="gemma3_text", num_hidden_layers=3, head_dim=16, sliding_window=8,
            sliding_window_pattern=2, query_pre_attn_scalar=16, vocab_size=512, hidden_size=32,
            intermediate_size=32, num_attention_heads=2, num_key_value_heads=1,
        )
    )  # fmt: skip


KINDS = {  # of caches
    "recurrent": lambda: Recurrent(random_table(97, 512, 1)),
    "windows": windowed,
    "a table of positions": lambda: Ragged(random_table(97, 512, 1), max_positions=100),
}


def alone(model, tokenizer, asked, **more):
    return [lablib.generate(model, tokenizer, **each, **more) for each in asked]


def assert_same(found, wanted):
    for one, two in zip(found, wanted, strict=True):
        assert (one, one.tokens, one.finish_reason) == (two, two.tokens, two.finish_reason)
        assert one.logprobs == pytest.approx(two.logprobs, abs=1e-4)
        assert [[i for i, _ in best] for best in one.top_logprobs if best] == [
            [i for i, _ in best] for best in two.top_logprobs if best
        ]


async def come(engine, asked):
    """Ask for some, and for the others as these are being written."""
    half = len(asked) // 2
    tasks = [asyncio.create_task(engine.generate(**each)) for each in asked[:half]]
    while engine.stats["tokens"] < half:
        await asyncio.sleep(0)
    tasks += [asyncio.create_task(engine.generate(**each)) for each in asked[half:]]
    return await asyncio.gather(*tasks)


def test_requests_of_all_kinds_get_the_texts_that_they_get_alone(model, tokenizer, serve):
    asked = requests_of(14, 3)
    found = serve(lambda engine: come(engine, asked), model)
    assert max(len(call) for call in model.calls) > 3  # side by side
    assert_same(found, alone(model, tokenizer, asked))


@pytest.mark.grid(lambda rule: rule == "rejection")
@pytest.mark.parametrize("rule", RULE)
def test_with_drafts_too(model, draft, tokenizer, serve, rule):
    asked = [{**each, "rule": rule, "trace": True} for each in requests_of(7, 4)]
    found = serve(lambda engine: come(engine, asked), model, draft)
    assert max(len(call) for call in draft.calls) > 3
    wanted = alone(model, tokenizer, asked, draft_model=draft)
    assert_same(found, wanted)
    drafts = ["total_drafted", "total_accepted", "total_reached", "rounds", "tokens"]
    for one, two in zip(found, wanted, strict=True):
        assert {name: one.stats[name] for name in drafts} == {
            name: two.stats[name] for name in drafts
        }
        assert [each.tokens for each in one.rounds] == [each.tokens for each in two.rounds]


def test_drafts_of_several_kinds_share_an_engine(model, draft, tokenizer, serve):
    asked = requests_of(8, 5, drafts=True)
    found = serve(lambda engine: come(engine, asked), model, draft)
    assert_same(found, alone(model, tokenizer, asked, draft_model=draft))


def test_prompt_lookup_takes_texts_that_join(model, tokenizer, serve):
    asked = requests_of(7, 6)
    found = serve(lambda engine: come(engine, asked), model, lablib.NGram())
    assert_same(found, alone(model, tokenizer, asked, draft_model=lablib.NGram()))


def test_a_drafter_that_cannot_take_more_texts_writes_them_one_by_one(model, tokenizer, serve):
    class Last(lablib.Drafter):
        def begin(self, target, own, texts):
            assert texts == 1
            return super().begin(target, own, texts)

        def propose(self, texts, limits, sampler):
            return lablib.Proposal.of(
                [[text[-1]] * n for text, n in zip(texts, limits, strict=True)]
            )

        def select(self, rows):
            pass

    asked = requests_of(6, 7)
    found = serve(lambda engine: come(engine, asked), model, Last())
    assert_same(found, alone(model, tokenizer, asked, draft_model=Last()))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_cache_serves(kind, tokenizer, serve):
    model = KINDS[kind]()
    asked = [{**each, "max_tokens": 15} for each in requests_of(6, 8)]
    found = serve(lambda engine: come(engine, asked), model)
    wanted = alone(model, tokenizer, asked)
    assert [each.tokens for each in found] == [each.tokens for each in wanted]


def test_pieces_add_up_to_the_text(model, tokenizer, serve):
    async def client(engine):
        asked = requests_of(7, 9)
        streams = [engine.stream(**each) for each in asked]
        return asked, [("".join([piece async for piece in each]), each) for each in streams]

    asked, found = serve(client, model)
    for how, (text, stream) in zip(asked, found, strict=True):
        wanted = lablib.stream(model, tokenizer, **how)
        assert text == stream.text == "".join(wanted)
        assert stream.completion().tokens == wanted.completion().tokens


def test_n_completions_are_those_of_generate_and_their_prompt_is_read_once(model, tokenizer, serve):
    how = {"max_tokens": 8, "seed": 3, "temperature": [0.5, 1.0, 0.0, 1.0]}
    found = serve(lambda engine: engine.generate(PROMPT, n=4, **how), model)
    long = [shape for shape in model.shapes if shape[1] > 1]
    assert found == lablib.generate(model, tokenizer, PROMPT, n=4, **how)
    assert sum(b * t for b, t in long) == len(tokenizer.encode(PROMPT)) - 1
    one = serve(lambda engine: engine.generate(PROMPT, n=1, seed=3, max_tokens=8), model)
    assert one == lablib.generate(model, tokenizer, PROMPT, n=1, seed=3, max_tokens=8)


def test_a_stream_of_the_seed_is_that_of_generate(model, tokenizer, serve):
    how = {"seed": 2, "stream": 5, "max_tokens": 9}
    found = serve(lambda engine: engine.generate(PROMPT, **how), model)
    assert found == lablib.generate(model, tokenizer, PROMPT, **how)


@pytest.mark.thorough
def test_the_shipped_model_writes_the_same_bits_beside_others(serve):
    target, tokenizer = lablib.load("target")
    asked = [{**each, "max_tokens": 16} for each in requests_of(10, 10)]
    with lablib.same_bits():
        found = serve(lambda engine: come(engine, asked), target)
        wanted = alone(target, tokenizer, asked)
    assert [each.tokens for each in found] == [each.tokens for each in wanted]
    found = serve(lambda engine: come(engine, asked), target)
    wanted = alone(target, tokenizer, asked)
    pairs = zip(found, wanted, strict=True)
    flips = sum(one.tokens != two.tokens for one, two in pairs)
    assert flips <= 1  # where two tokens are as good as equal, rounding may choose


def test_processors_are_a_requests_own(model, tokenizer, serve):
    def even(tokens: mx.array, logits: mx.array) -> mx.array:
        return mx.where(mx.arange(logits.shape[-1]) % 2 == 0, logits, -mx.inf)

    async def client(engine):
        how = {"max_tokens": 12, "stop_tokens": ()}
        asked = [[odd], [even], [], [odd]]
        return await asyncio.gather(
            *(engine.generate(PROMPT, logits_processors=each, **how) for each in asked)
        )

    first, second, both, last = serve(client, model)
    assert {token % 2 for token in first.tokens + last.tokens} == {1}
    assert {token % 2 for token in second.tokens} == {0}
    assert {token % 2 for token in both.tokens} == {0, 1}


@pytest.mark.thorough
def test_two_hundred_clients_are_all_answered_with_texts_as_alone(serve):
    target, tokenizer = lablib.load("target")
    bound = 40 * 2**20

    async def client(engine):
        storm = Storm(engine, requests_of(40, 11), 2)
        await storm.run(200, 12.0)
        return storm, engine.stats

    storm, stats = serve(client, target, cache_bytes=bound)
    answers = storm.answers
    assert sum(answers.values()) == 2 * answers["asked"] > 100
    assert not answers["not refused"]
    assert min(answers[kind] for kind in ("whole", "refused", "failed", "left")) > 0
    assert stats["most_cache_bytes"] <= bound
    assert stats["waiting"] == stats["reading"] == stats["running"] == 0
    assert storm.flips(target, tokenizer) <= len(storm.texts) / 100

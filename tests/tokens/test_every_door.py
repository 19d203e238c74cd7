"""Stop strings, options of each text, best tokens and samplers of one's own, in every door.

Each text must be what it is alone, whatever it is beside and whoever drafts.
"""

import asyncio
import copy
import pickle
from functools import partial

import lablib
from lablib.inference import SamplerOptions, sample_batches, speculative_batches
from lablib.models import LanguageModel, llama_config

import mlx.core as mx
import mlx_lm
import pytest
from mlx_lm.sample_utils import make_sampler
from oracles.speculation import near

PROMPTS = ["On a rainy day, ", "On", "sum 7 3 9 0 4 8:"]
TEMPERATURES = [0.0, 0.7, 1.0]
SEEDS = [5, 6, 7]


@pytest.fixture(scope="module")
def model(shipped):
    return LanguageModel(llama_config(len(shipped), 32, 2, 2), seed=3)


@pytest.fixture(scope="module")
def drafters(model):
    return {"none": None, "model": near(model, 0.3), "look up": lablib.NGram(),
            "early exit": lablib.EarlyExit(1), "tree": lablib.Tree(near(model, 0.3))}  # fmt: skip


DRAFTERS = pytest.mark.parametrize("drafter", ["none", "model", "look up", "early exit", "tree"])


@pytest.fixture
def settings(drafters, drafter):
    """Under ``match`` a text is that of plain sampling."""
    return {} if drafter == "none" else {"draft_model": drafters[drafter], "rule": "match"}


# --- stop strings ------------------------------------------------------------------------------
@DRAFTERS
def test_samples_and_votes_end_where_generate_does(model, shipped, settings):
    ids, n = shipped.encode(PROMPTS[0]), 4
    how = {"max_tokens": 12, "seed": 5, "stop": ["e", "1"], "temperature": 0.8}
    alone = [lablib.generate(model, shipped, ids, stream=i, **how) for i in range(n)]
    assert {each.finish_reason for each in alone} == {"stop", "length"}
    tokens = [each.tokens for each in alone]
    more = {**how, "tokenizer": shipped}
    if not settings:
        samples = lablib.sample_n(model, ids, n, **more)
    else:
        draft, drafting = settings["draft_model"], {"rule": "match", **more}
        samples = lablib.speculative_sample_n(model, draft, ids, n, **drafting)
    assert samples.tokens == tokens
    assert [len(row) for row in samples.logprobs] == [*map(len, tokens)]
    assert samples.finished == [each.finish_reason == "stop" for each in alone]
    assert [*map(str.strip, samples.texts(shipped))] == [*map(str.strip, alone)]
    votes = lablib.majority_vote(model, ids, n, extract=len, **more, **settings)
    until = lablib.vote_until(model, ids, n, batch=3, extract=len, **more, **settings)
    assert votes.drawn == n
    assert until.winner == votes.winner
    assert {*votes.answers} == {*map(len, tokens)}
    found = lablib.best_of_n(model, ids, n, return_all=True, **more, **settings)
    assert [each.tokens[0, len(ids) :].tolist() for each in found] == tokens


def test_a_queue_ends_at_stop_strings(model, shipped):
    prompts = [shipped.encode(prompt) for prompt in PROMPTS]
    options = [SamplerOptions(seed=seed) for seed in SEEDS]
    how = {"stop": ["e", "1"], "max_tokens": [9, 12, 15]}
    found = lablib.sample_many(model, prompts, options, n=2, max_batch=3, tokenizer=shipped, **how)
    for j, samples in enumerate(found):
        for i, row in enumerate(samples):
            own = {"seed": SEEDS[j], "stop": how["stop"], "max_tokens": how["max_tokens"][j]}
            assert row == lablib.generate(model, shipped, prompts[j], stream=i, **own).tokens
    assert found[0].stats["tokens"] >= sum(len(row) for samples in found for row in samples)


def test_a_bare_tokenizer_of_hugging_face_reads_stop_strings(model, shipped):
    how = {"max_tokens": 12, "seed": 5, "stop": "e"}
    ids = shipped.encode("On")
    tokenizers = (shipped, shipped._tokenizer)
    both = [lablib.sample_n(model, ids, 3, tokenizer=each, **how) for each in tokenizers]
    assert both[0].tokens == both[1].tokens
    for door in (lablib.sample_n, lablib.majority_vote, lablib.best_of_n, lablib.vote_until):
        with pytest.raises(TypeError, match="stop is of texts: give tokenizer=, too, to read 'e'"):
            door(model, ids, 3, **how)
        with pytest.raises(TypeError, match="tokenizer must be a Hugging Face tokenizer"):
            door(model, ids, 3, tokenizer="x", **how)
    for door in (lablib.TokenIterator, partial(lablib.speculative_decode, model)):
        with pytest.raises(TypeError, match=r"'stop' .here it is stop=, of generate, stream"):
            door(model, ids, stop="e")


# --- options of each text ----------------------------------------------------------------------
@DRAFTERS
def test_each_prompt_has_options_of_its_own(model, shipped, drafters, drafter, settings):
    each = {"max_tokens": [4, 9, 14], "temperature": TEMPERATURES, "seed": SEEDS}
    together = lablib.generate(model, shipped, PROMPTS, **each, **settings)
    ids = [shipped.encode(prompt) for prompt in PROMPTS]
    for i, row in enumerate(together):
        own = {name: values[i] for name, values in each.items()}
        alone = lablib.generate(model, shipped, PROMPTS[i], **own)
        assert (row, row.tokens, row.finish_reason) == (alone, alone.tokens, alone.finish_reason)
    if drafter != "none":
        found = lablib.speculative_batch(model, drafters[drafter], ids, rule="match", **each)
        assert found.tokens == [row.tokens for row in together]


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_a_greedy_text_stays_greedy_beside_one_that_is_drawn(model, shipped, drafters, rule):
    how = {"draft_model": drafters["model"], "rule": rule, "max_tokens": 14, "seed": 3}
    mixed = lablib.generate(model, shipped, PROMPTS, temperature=TEMPERATURES, **how)
    how.pop("draft_model")
    how.pop("rule")
    assert mixed[0] == lablib.generate(model, shipped, PROMPTS[0], temperature=0.0, **how)


@DRAFTERS
def test_each_sample_has_options_of_its_own(model, shipped, drafters, drafter, settings):
    ids = shipped.encode(PROMPTS[0])
    each = {"max_tokens": [4, 9, 14], "temperature": TEMPERATURES, "top_k": [0, 3, 40]}
    own = [{name: at[i] for name, at in each.items()} | {"seed": 2, "stream": i} for i in range(3)]
    wanted = [lablib.generate(model, shipped, ids, **options).tokens for options in own]
    found = lablib.best_of_n(model, ids, 3, return_all=True, seed=2, **each, **settings)
    assert [one.tokens[0, len(ids) :].tolist() for one in found] == wanted
    if drafter == "none":
        parts = sample_batches(model, ids, 3, seed=2, max_batch=2, **each)
    else:
        more = {"rule": "match", "seed": 2, "max_batch": 2, **each}
        parts = speculative_batches(model, drafters[drafter], [ids] * 3, **more)
    assert parts.join().tokens == wanted


# --- the best tokens ---------------------------------------------------------------------------
@DRAFTERS
def test_best_tokens_are_returned_beside_each_token(model, shipped, settings):
    how = {"max_tokens": 8, "seed": 1, "stop": ["e"]}
    one = lablib.generate(model, shipped, PROMPTS[0], top_logprobs=3, **how, **settings)
    assert [len(best) for best in one.top_logprobs] == [3] * len(one.tokens)
    for (token, logprob), *_ in one.top_logprobs:
        assert 0 <= token < len(shipped)
        assert logprob >= max(one.logprobs) or logprob <= 0
    both = lablib.generate(model, shipped, PROMPTS[:2], top_logprobs=[3, 1], **how, **settings)
    ids = [[[i for i, _ in best] for best in row.top_logprobs] for row in (both[0], one)]
    assert ids[0] == ids[1]
    assert [len(best) for best in both[1].top_logprobs] == [1] * len(both[1].tokens)
    none = lablib.generate(model, shipped, PROMPTS[0], **how, **settings)
    assert not any(none.top_logprobs)
    assert none == one


def test_samples_have_the_best_tokens_too_and_who_returns_none_refuses(model, shipped, drafters):
    ids, draft = shipped.encode("On"), drafters["model"]
    how = {"max_tokens": 5, "seed": 1, "top_logprobs": 2}
    plain = lablib.sample_n(model, ids, 3, **how)
    drafted = lablib.speculative_sample_n(model, draft, ids, 3, rule="match", **how)
    options = [SamplerOptions(seed=1, top_logprobs=2)]
    queue = lablib.sample_many(model, [ids], options, 3, max_tokens=5)
    ranks = [[[i for i, _ in best] for best in row] for row in plain.top_logprobs]
    assert [[len(best) for best in row] for row in ranks] == [[2] * len(row) for row in plain]
    for other in (drafted, queue[0]):
        assert [[[i for i, _ in best] for best in row] for row in other.top_logprobs] == ranks
    for call, cure in (
        (partial(lablib.majority_vote, model, ids), "sample_n"),
        (partial(lablib.vote_until, model, ids), "sample_n"),
        (partial(lablib.best_of_n, model, ids), "sample_n"),
        (partial(lablib.speculative_decode, model, draft, ids), "SpeculativeTokenIterator"),
        (partial(lablib.forecast, model, draft, shipped), "SpeculativeTokenIterator"),
    ):
        with pytest.raises(ValueError, match=f"top_logprobs must be 0 here, got 2: {cure} returns"):
            call(top_logprobs=2)


# --- a sampler of one's own --------------------------------------------------------------------
def second_best(logprobs):
    """Take the second best token, as no option does."""
    return mx.argsort(-logprobs, axis=-1)[:, 1]


@DRAFTERS
def test_a_sampler_of_ones_own_decides_in_every_door(model, shipped, settings):
    wanted = mlx_lm.generate(model, shipped, PROMPTS[0], max_tokens=8, sampler=second_best)
    best = mlx_lm.generate(model, shipped, PROMPTS[0], max_tokens=8)
    assert wanted != best
    how = {"max_tokens": 8, "logits_processors": [lablib.sampled_by(second_best)], **settings}
    one = lablib.generate(model, shipped, PROMPTS[0], **how)
    assert one.strip() == wanted.strip()
    both = lablib.generate(model, shipped, PROMPTS[:2], **how)
    assert both[0].tokens == one.tokens
    ids = shipped.encode(PROMPTS[0])
    votes = lablib.majority_vote(model, ids, 3, **how)
    assert votes == [(one.tokens, 3)]


def test_mlx_lms_samplers_are_taken_and_wrong_ones_are_refused(model, shipped):
    how = {"max_tokens": 8}
    greedy = lablib.generate(model, shipped, "On", temperature=0.0, **how)
    for temp, same in ((0.0, True), (1.0, False)):
        mx.random.seed(4)
        made = [lablib.sampled_by(make_sampler(temp=temp))]
        found = lablib.generate(model, shipped, "On", logits_processors=made, **how)
        assert (found == greedy) is same
    with pytest.raises(TypeError, match="sampler must be callable"):
        lablib.sampled_by("greedy")
    with pytest.raises(TypeError, match=r"sampler must return an mx.array of shape \(1,\)"):
        lablib.generate(model, shipped, "On", logits_processors=[lablib.sampled_by(lambda x: 3)])
    for door in (lablib.generate, lablib.stream):
        with pytest.raises(TypeError, match=r"logits_processors=\[lablib.sampled_by\(sampler\)\]"):
            door(model, shipped, "On", sampler=second_best)


# --- completions and streams -------------------------------------------------------------------
def test_a_completion_keeps_its_tokens_when_it_is_copied_or_stored(model, shipped):
    one = lablib.generate(model, shipped, "On", max_tokens=5, seed=1, top_logprobs=1)
    for twin in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert vars(twin) == vars(one)
        assert twin == one
    assert type(one.strip()) is str  # as its docstring says


def test_streams_take_turns_in_one_loop_and_each_is_what_it_is_alone(model, shipped):
    how = {"max_tokens": 12, "stop_tokens": ()}
    wanted = [[*lablib.stream(model, shipped, prompt, seed=1, **how)] for prompt in PROMPTS]
    order = []

    async def read(number):
        pieces = []
        async for piece in lablib.stream(model, shipped, PROMPTS[number], seed=1, **how):
            pieces.append(piece)
            order.append(number)
        return pieces

    async def read_all():
        return await asyncio.gather(*map(read, range(3)))

    assert asyncio.run(read_all()) == wanted
    assert order[:6] == [0, 1, 2, 0, 1, 2]


def test_a_stream_that_is_left_or_cancelled_is_closed(model, shipped):
    async def leave(pieces):
        async for _ in pieces:
            break

    async def cancel(pieces):
        async def read():
            async for _ in pieces:
                pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for end in (leave, cancel):
        pieces = lablib.stream(model, shipped, "On", max_tokens=50, stop_tokens=())
        asyncio.run(end(pieces))
        assert pieces.stats["finish_reason"] == "closed"
        assert 0 < pieces.stats["tokens"] < 50

"""A model may have more rows than its tokenizer has ids: those are no part of any text."""

import lablib
import lablib.text_stream
from lablib.inference import SamplerOptions, arguments
from lablib.models import LanguageModel, llama_config

import mlx.core as mx
import numpy as np
import pytest
from oracles.refusals import refuses
from oracles.scripted import Recorder, random_table
from oracles.spelling import KINDS, text, tokenizer_of
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

MORE = 64  # rows beyond the tokenizer
PROMPTS = [[5, 6, 7], [8], [9, 10]]
EACH = pytest.mark.parametrize("kind", ["byte-level", "sentencepiece", "wordpiece"])
HALVED = {"logits_processors": [lambda tokens, logits: logits * 0.5]}
WAYS = [{}, {"temperature": 0.0}, {"top_k": 5}, {"top_p": 0.7}, {"repeat_penalty": 2.0}, HALVED]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    return {kind: tokenizer_of(kind, tmp_path_factory.mktemp("spelling")) for kind in KINDS}


def pair(tokenizer, seed=0, beyond=5.0):
    """Return a model that likes its rows beyond the tokenizer, and the same without these."""
    n = len(tokenizer)
    table = random_table(97, n + MORE, seed)
    table[:, n:] += beyond
    return Recorder(table), Recorder(table[:, :n])


def drafts(tokenizer):
    return {"draft_model": pair(tokenizer, 1)[0], "draft_tokens": 3}


def near(found, wanted):
    return all(np.allclose(*both, atol=1e-4) for both in zip(found, wanted, strict=True))


@EACH
@pytest.mark.parametrize("way", WAYS)
def test_calls_with_a_tokenizer_are_those_of_a_model_without_the_rows(tokenizers, kind, way):
    tokenizer = tokenizers[kind]
    model, cut = pair(tokenizer)
    how = {"max_tokens": 9, "seed": 4, "stop_tokens": (), **way}
    alone = [lablib.generate(cut, tokenizer, each, **how) for each in PROMPTS]
    for prompt, wanted in zip(PROMPTS, alone, strict=True):
        found = lablib.generate(model, tokenizer, prompt, top_logprobs=3, **how)
        assert (found, found.tokens) == (wanted, wanted.tokens)
        assert near([found.logprobs], [wanted.logprobs])
        assert all(i < len(tokenizer) for best in found.top_logprobs for i, _ in best)
        drafted = lablib.generate(
            model, tokenizer, prompt, rule="match", **drafts(tokenizer), **how
        )
        assert drafted.tokens == wanted.tokens
        assert near([drafted.logprobs], [wanted.logprobs])
    wanted = lablib.generate(cut, tokenizer, PROMPTS, **how)
    assert lablib.generate(model, tokenizer, PROMPTS, **how) == wanted
    more = {**how, "tokenizer": tokenizer}
    samples = lablib.inference.samples(model, PROMPTS, 2, **more).join()
    plain = lablib.inference.samples(cut, PROMPTS, 2, **how).join()
    assert samples.tokens == plain.tokens
    assert near(samples.logprobs, plain.logprobs)
    row = lablib.sample_n(cut, PROMPTS[0], 3, **how).tokens
    assert lablib.sample_n(model, PROMPTS[0], 3, **more).tokens == row
    voting = {"temperature": 1.0, "extract": lambda row: tuple(row[:1]), **how}
    for door in (lablib.majority_vote, lablib.vote_until):
        votes = door(model, PROMPTS[0], 4, **{**voting, "tokenizer": tokenizer})
        assert votes == door(cut, PROMPTS[0], 4, **voting)
    iterator = lablib.TokenIterator(model, PROMPTS[0], tokenizer=tokenizer, **how)
    assert [token.id for token in iterator] == alone[0].tokens


@pytest.mark.grid(lambda kind, rule, tree: rule in ("rejection", "match"))
@EACH
@pytest.mark.parametrize("rule", ["rejection", "match", "coupled", "block"])
@pytest.mark.parametrize("tree", [False, True])
def test_drafts_beyond_the_tokenizer_are_neither_drawn_nor_kept(tokenizers, kind, rule, tree):
    tokenizer = tokenizers[kind]
    shape = llama_config(len(tokenizer) + MORE, 32, 2, 2)
    model, draft = LanguageModel(shape, seed=3), LanguageModel(shape, seed=4)
    rule, drafter = ("match", lablib.Tree(draft)) if (tree, rule) == (True, "block") else (
        rule, lablib.Tree(draft) if tree else draft)  # fmt: skip
    how = {"max_tokens": 20, "stop_tokens": (), "rule": rule, "tokenizer": tokenizer}
    how["temperature"] = 50.0
    for seed in range(3):
        tokens = lablib.SpeculativeTokenIterator(
            model, drafter, [5, 6], seed=seed, trace=True, **how
        )
        ids = [token.id for token in tokens]
        assert max(ids) < len(tokenizer)
        assert all(i < len(tokenizer) for verdict in tokens.rounds for i in verdict.drafted)
        assert np.isfinite(tokens.logprobs).all()
    together = lablib.speculative_batch(model, drafter, PROMPTS, seed=1, **how)
    assert max(map(max, together)) < len(tokenizer)


@EACH
def test_a_bare_model_draws_from_all_its_rows_and_they_have_no_text(tokenizers, kind):
    tokenizer, (model, _) = tokenizers[kind], pair(tokenizers[kind])
    samples = lablib.sample_n(model, [5, 6], 8, max_tokens=12, seed=0, stop_tokens=())
    beyond = [[i >= len(tokenizer) for i in row] for row in samples]
    assert 0 < sum(map(sum, beyond)) < 8 * 12
    known = [[i for i in row if i < len(tokenizer)] for row in samples]
    wanted = [text(tokenizer, [5, 6], row) for row in known]
    assert samples.texts(tokenizer) == wanted
    iterator = lablib.TokenIterator(model, [5, 6], max_tokens=12, seed=0, stop_tokens=())
    assert "".join(lablib.text_stream.TextStream(iterator, tokenizer)) == wanted[0]
    votes = lablib.majority_vote(model, [5, 6], 8, 12, 1.0, seed=0, stop_tokens=(),
                                 extract=lablib.on_text(tokenizer, str))  # fmt: skip
    assert {*votes.answers} == {*wanted}


def test_a_prompts_id_beyond_the_tokenizer_has_no_text(tokenizers):
    tokenizer = tokenizers["sentencepiece"]
    model, _ = pair(tokenizer, beyond=0.0)
    n, a = len(tokenizer), tokenizer.convert_tokens_to_ids("cat")
    found = lablib.generate(model, tokenizer, [a, n + 3], max_tokens=3, seed=0, stop_tokens=())
    assert found == text(tokenizer, [a], found.tokens)
    bare = tokenizer._tokenizer
    assert lablib.generate(model, bare, [a, n + 3], max_tokens=3, seed=0, stop_tokens=()) == found


def test_an_id_inside_the_vocabulary_without_a_token_has_no_text():
    inner = Tokenizer(models.BPE({"a": 0, "b": 1, "c": 5}, []))
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    model = Recorder(random_table(97, 9))
    found = lablib.sample_n(model, [0, 3], 20, max_tokens=9, seed=0, tokenizer=tokenizer)
    assert {i for row in found for i in row} == {*range(6)}  # 5 is the last that has a token
    letters = dict(zip(range(6), ["a", "b", "", "", "", "c"], strict=True))
    assert found.texts(tokenizer) == ["".join(map(letters.get, row)) for row in found]
    assert (
        lablib.generate(model, tokenizer, [0, 3], max_tokens=9, seed=0) == found.texts(tokenizer)[0]
    )


def test_a_loaded_model_knows_how_many_ids_count(tokenizers, tmp_path):
    tokenizer = tokenizers["byte-level"]
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    for more in (0, MORE):
        made = LanguageModel(llama_config(len(tokenizer) + more, 32, 2, 2), seed=3)
        lablib.save(made, tmp_path / "tokenizer", tmp_path / f"model {more}")
        model, own = lablib.load(tmp_path / f"model {more}")
        assert model.known_ids == (len(tokenizer) if more else None)
        assert arguments.known_ids(model, own) == model.known_ids
        assert arguments.known_ids(made, None) is None
    samples = lablib.sample_n(model, [5, 6], 16, max_tokens=30, temperature=50.0, seed=0)
    assert max(map(max, samples)) < len(tokenizer)
    bare = lablib.sample_n(made, [5, 6], 16, max_tokens=30, temperature=50.0, seed=0)
    assert max(map(max, bare)) >= len(tokenizer)
    options = [SamplerOptions(temperature=50.0, seed=0)]
    queued = lablib.sample_many(model, [[5, 6]], options, 16, max_tokens=30)[0]
    assert queued.tokens == samples.tokens
    many = lablib.AsyncMlxLM(model, None)
    rows = np.array(many.batch_next_token_logprobs_sync([[5, 6], [7]]))
    assert (rows[:, len(tokenizer) :] == -np.inf).all()
    assert np.allclose(np.exp(rows).sum(axis=1), 1)
    drawn = lablib.inference.power_sample(many, [[5, 6]], 4, 2.0, max_tokens=9, seed=0)[0]
    assert max(map(max, drawn.tokens)) < len(tokenizer)


def test_a_callers_tokenizer_masks_an_async_models_rows_too(tokenizers):
    tokenizer, (model, cut) = tokenizers["unigram"], pair(tokenizers["unigram"])
    found, wanted = (
        np.array(lablib.AsyncMlxLM(each, tokenizer).next_token_logprobs_sync([5, 6]))
        for each in (model, cut)
    )
    assert np.allclose(found[: len(tokenizer)], wanted, atol=1e-5)
    assert (found[len(tokenizer) :] == -np.inf).all()


def test_where_the_tokenizer_covers_all_rows_nothing_is_computed(tokenizers):
    tokenizer = tokenizers["unigram"]
    _, cut = pair(tokenizer)
    assert arguments.known_ids(cut, tokenizer) is None
    logits = mx.array([[0.0, 1.0]])
    assert lablib.inference.sampling.text_sampler.only_known(logits, None) is logits


def test_what_is_no_tokenizer_is_refused_without_stop_strings_too(tokenizers):
    model, _ = pair(tokenizers["unigram"])
    for door in (lablib.sample_n, lablib.majority_vote, lablib.best_of_n):
        refuses(TypeError, "tokenizer must be a Hugging Face", door, model, [5], 2, tokenizer="x")
    refuses(TypeError, "tokenizer must be", lablib.TokenIterator, model, [5], tokenizer="x")
    assert model.calls == []

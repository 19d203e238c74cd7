"""Votes on many problems are those of each problem alone, and what is done is kept."""

import itertools

import lablib

import mlx.core as mx
import pytest

PROMPTS = ["sum 3 1 4 1 5 9:", "sum 2 7:", "On a sunny day,", "sum 8 8 8:"]
HOW = {"max_tokens": 24, "temperature": 1.0, "seed": 4}


@pytest.fixture(scope="module")
def loaded():
    return lablib.load("target")


@pytest.mark.grid(lambda draft, max_batch: max_batch == 5)
@pytest.mark.parametrize("draft", [None, lablib.NGram()], ids=["plain", "drafts"])
@pytest.mark.parametrize("max_batch", [1, 5, 64])
def test_a_problem_among_many_has_the_votes_that_it_has_alone(loaded, draft, max_batch):
    model, tokenizer = loaded
    how = HOW | {"draft_model": draft, "tokenizer": tokenizer, "extract": len}
    together = list(lablib.vote_many(model, PROMPTS, 3, max_batch=max_batch, **how))
    assert len(together) == len(PROMPTS)
    for prompt, votes in zip(PROMPTS, together, strict=True):
        alone = lablib.majority_vote(model, prompt, 3, **how)
        assert (votes, votes.rows, votes.winner) == (alone, alone.rows, alone.winner)
        assert votes.samples.tokens == alone.samples.tokens
        assert votes.samples.texts(tokenizer) == alone.samples.texts(tokenizer)
        assert votes.samples.logprobs == [
            pytest.approx(row, abs=1e-4) for row in alone.samples.logprobs
        ]
        assert votes.samples.stats["tokens"] == sum(votes.samples.lengths)


def test_the_best_of_each_is_the_best_alone(loaded):
    model, tokenizer = loaded
    ids = [tokenizer.encode(prompt) for prompt in PROMPTS]
    best = list(lablib.best_of_n_many(model, ids, 3, **HOW))
    everyone = list(lablib.best_of_n_many(model, ids, 3, return_all=True, **HOW))
    for prompt, tokens, found in zip(ids, best, everyone, strict=True):
        assert tokens.tolist() == lablib.best_of_n(model, prompt, 3, **HOW).tolist()
        assert tokens.tolist() == max(found, key=lambda each: each.score).tokens.tolist()
        assert all(each.tokens.tolist()[0][: len(prompt)] == prompt for each in found)


def test_a_score_of_texts_is_asked_once_a_problem(loaded):
    model, tokenizer = loaded
    asked = []

    def longest(texts):
        asked.append(len(texts))
        return [len(text) for text in texts]

    list(lablib.best_of_n_many(model, PROMPTS, 3, score_fn=longest, tokenizer=tokenizer, **HOW))
    assert asked == [3] * 4


def test_weights_are_those_of_each_problem(loaded):
    model, tokenizer = loaded
    how = HOW | {"tokenizer": tokenizer, "weight": "log_prob", "extract": len}
    for prompt, votes in zip(PROMPTS, lablib.vote_many(model, PROMPTS, 4, **how), strict=True):
        alone = lablib.majority_vote(model, prompt, 4, **how)
        assert votes.answers == alone.answers
        assert [share for _, share in votes] == pytest.approx([share for _, share in alone])


def test_what_is_done_is_kept_when_a_later_one_is_broken_off(loaded):
    model, tokenizer = loaded
    seen = itertools.count()

    def stopped_at_the_seventh(ids):
        if next(seen) == 7:
            raise KeyboardInterrupt
        return len(ids)

    done = []
    how = HOW | {"extract": stopped_at_the_seventh, "tokenizer": tokenizer}
    with pytest.raises(KeyboardInterrupt):
        done.extend(lablib.vote_many(model, PROMPTS, 3, **how))
    assert [votes.drawn for votes in done] == [3, 3]


def test_nothing_is_drawn_before_the_first_is_asked_for(loaded):
    model, tokenizer = loaded
    calls = []

    class Counted:
        layers, make_cache, vocab_size = model.layers, model.make_cache, model.vocab_size

        def __call__(self, tokens, cache=None):
            calls.append(tokens.shape)
            return model(tokens, cache=cache)

    ids = [tokenizer.encode(prompt) for prompt in PROMPTS]
    found = lablib.vote_many(Counted(), ids, 2, extract=len, max_batch=2, **HOW)
    before = len(calls)  # vocab_size is asked by a forward
    next(found)
    first = len(calls)
    assert first > before
    next(found)
    assert len(calls) > first


@pytest.mark.parametrize("vote", [lablib.vote_many, lablib.best_of_n_many])
def test_a_wrong_argument_is_refused_at_the_call(loaded, vote):
    model, tokenizer = loaded
    with pytest.raises(ValueError, match=r"prompts\[1\] must hold"):
        vote(model, [[1], []], 2)
    with pytest.raises(ValueError, match="n must be at least 1"):
        vote(model, [[1]], 0)
    with pytest.raises(TypeError, match=r"prompts must be"):
        vote(model, "a text", 2, tokenizer=tokenizer)
    with pytest.raises(ValueError, match="prompts must hold at least one prompt"):
        vote(model, [], 2)
    with pytest.raises(TypeError, match=r"unknown option 'sed' \(did you mean seed\?\)"):
        vote(model, [[1]], sed=1)


@pytest.mark.parametrize("vote", [lablib.majority_vote, lablib.best_of_n, lablib.vote_until])
def test_one_problem_given_several_names_what_takes_them(loaded, vote):
    model, tokenizer = loaded
    for several in ([[1, 2], [3]], ["one", "two"]):
        with pytest.raises(TypeError, match="several are for samples, sample_many, vote_many"):
            vote(model, several, 2, tokenizer=tokenizer)
    assert len(vote(model, mx.array([[1, 2]]), 1, max_tokens=1)) > 0

"""Votes and best-of-N keep their samples, and a score is given texts where it wants texts."""

import lablib
from lablib.inference import on_text, tally
from lablib.inference.voting.scoring import score

import pytest

PROMPT = "sum 3 1 4 1 5 9:"


@pytest.fixture(scope="module")
def loaded():
    return lablib.load("target")


@pytest.mark.parametrize("draft", [None, lablib.NGram()], ids=["plain", "drafts"])
@pytest.mark.parametrize("max_batch", [None, 2])
def test_a_vote_keeps_the_samples_that_its_rows_number(loaded, draft, max_batch):
    model, tokenizer = loaded
    ids = tokenizer.encode(PROMPT)
    how = {"max_tokens": 30, "temperature": 1.0, "seed": 4, "max_batch": max_batch}
    votes = lablib.majority_vote(model, ids, 5, extract=len, draft_model=draft, **how)
    drawn = next(iter(lablib.samples(model, [ids], 5, draft, **(how | {"max_batch": None}))))
    assert votes.samples.tokens == drawn.tokens
    assert [len(row) for row in votes.samples.logprobs] == votes.samples.lengths
    assert votes.samples.texts(tokenizer) == drawn.texts(tokenizer)
    assert votes.samples.stats["tokens"] == sum(votes.samples.lengths)
    for answer, rows in zip(votes.answers, votes.rows, strict=True):
        assert {len(votes.samples[row]) for row in rows} == {answer}
    assert tally([[1]]).samples is None


def test_a_vote_that_stops_early_keeps_what_it_drew(loaded):
    model, tokenizer = loaded
    ids = tokenizer.encode(PROMPT)
    votes = lablib.vote_until(model, ids, 9, 30, 0.0, batch=3)
    assert (len(votes.samples), votes.drawn, votes.saved) == (6, 6, 3)
    assert votes.samples.stop_tokens == frozenset(model.stop_tokens)
    assert votes.samples.prompts == [ids] * 6


def test_all_candidates_keep_their_samples(loaded):
    model, tokenizer = loaded
    ids = tokenizer.encode(PROMPT)
    found = lablib.best_of_n(model, ids, 3, 30, return_all=True, seed=4)
    assert [each.tokens.tolist()[0] for each in found] == [
        [*ids, *row] for row in found.samples.tokens
    ]
    assert [each.score for each in found] == pytest.approx([*map(sum, found.samples.logprobs)])


@pytest.mark.parametrize("form", ["texts", "on_text"])
def test_a_score_that_wants_texts_gets_those_of_the_completions(loaded, form):
    model, tokenizer = loaded
    ids, seen = tokenizer.encode(PROMPT), []

    def each(text):
        seen.append(text)
        return len(text)

    def reward(texts):
        return [each(text) for text in texts]

    scorer = reward if form == "texts" else on_text(tokenizer, each)
    how = {"temperature": 1.0, "seed": 4, "tokenizer": tokenizer}
    found = lablib.best_of_n(model, ids, 4, 30, score_fn=scorer, return_all=True, **how)
    assert seen == found.samples.texts(tokenizer)
    assert [each.score for each in found] == [*map(len, seen)]
    weighted = lablib.majority_vote(model, ids, 4, 30, extract=len, weight=scorer, **how)
    assert sum(count for _, count in weighted) == pytest.approx(1)


def test_texts_of_a_score_end_before_a_stop_string(loaded):
    model, tokenizer = loaded
    seen = []

    def reward(texts):
        seen.extend(texts)
        return [0.0] * len(texts)

    ids = tokenizer.encode("On a sunny day,")
    how = {"seed": 1, "tokenizer": tokenizer, "stop": "."}
    lablib.best_of_n(model, ids, 3, 60, score_fn=reward, **how)
    assert len(seen) == 3
    assert not any("." in text for text in seen)


def test_a_score_that_wants_texts_wants_a_tokenizer_and_is_held_to_its_numbers(loaded):
    model, tokenizer = loaded
    ids = tokenizer.encode(PROMPT)
    with pytest.raises(TypeError, match="score_fn wants texts: give tokenizer="):
        lablib.best_of_n(model, ids, 2, 4, score_fn=lambda texts: [1, 2])
    with pytest.raises(ValueError, match=r"score_fn must return shape \(2,\)"):
        lablib.best_of_n(model, ids, 2, 4, score_fn=lambda texts: [1], tokenizer=tokenizer)
    with pytest.raises(TypeError, match="weight must return 2 numbers, got"):
        lablib.majority_vote(model, ids, 2, 4, weight=on_text(tokenizer, str.upper))
    rows = lablib.sample_n(model, ids, 2, max_tokens=4, seed=1)
    texts = rows.texts(tokenizer)
    by_length = score(lambda texts: [*map(len, texts)], ids, rows, tokenizer=tokenizer)
    assert by_length.tolist() == [*map(len, texts)]

"""``draft_model=``: text generation, best-of-N and the votes with the help of a drafter."""

from lablib.cache.rewind_batch import can_batch
from lablib.course.tasks import TASKS
from lablib.inference.completions import (
    speculative_batch,
    speculative_batches,
    speculative_sample_n,
)
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import EarlyExit, NGram, Tree
from lablib.inference.speculation.draft_model import DraftModel
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.inference.voting.vote import best_of_n, majority_vote, vote_until
from lablib.models import zoo
from lablib.text import generate, stream
from lablib.validation import BadType, BadValue

import mlx.core as mx
import pytest
from oracles.speculation import assert_caches_stand_at, near, target

PROMPT = [1, 2, 3]
OPTIONS = {"max_tokens": 12, "temperature": 1.0, "seed": 5, "stop_tokens": [7]}


@pytest.fixture(scope="module")
def shipped():
    model, tokenizer = zoo.load("target", mx.float32)
    return model, tokenizer, zoo.load("draft", mx.float32)[0]


@pytest.fixture(scope="module")
def pair():
    model = target(peak=2)
    return model, near(model, 0.2)


def test_generated_text_is_the_same_and_comes_in_fewer_forwards(shipped) -> None:
    model, tokenizer, draft = shipped
    prompt = TASKS["edits"].problems(4, 1)[0].prompt
    alone = generate(model, tokenizer, prompt, temperature=0.0)
    for drafter in (draft, NGram(), EarlyExit(2)):
        together = generate(model, tokenizer, prompt, temperature=0.0, draft_model=drafter)
        assert together == alone
        assert together.tokens == alone.tokens
        assert together.stats["total_accepted"] > 0
        assert together.stats["target_calls"] < alone.stats["target_calls"]
        assert together.finish_reason == alone.finish_reason


def test_a_stream_with_a_draft_takes_the_options_of_speculation(shipped) -> None:
    model, tokenizer, draft = shipped
    options = {"temperature": 0.9, "seed": 2, "max_tokens": 30}
    alone = "".join(stream(model, tokenizer, "On a rainy", **options))
    pieces = stream(
        model, tokenizer, "On a rainy", draft_model=draft, rule="match", draft_tokens=2, **options
    )
    assert "".join(pieces) == alone
    assert 2 <= pieces.stats["tokens_per_round"] + 1 <= 4
    with pytest.raises(BadType, match="rule is about drafts: give draft_model="):
        stream(model, tokenizer, "On a rainy", rule="match")
    with pytest.raises(BadValue, match="draft_model must share the target's vocabulary"):
        generate(model, tokenizer, "On a rainy", draft_model=target())


@pytest.mark.parametrize("rule", ["match", "coupled", "rejection"])
def test_best_of_n_and_the_vote_use_the_drafted_samples(pair, rule) -> None:
    model, draft = pair
    samples = speculative_sample_n(model, draft, PROMPT, 9, rule=rule, **OPTIONS)
    options = OPTIONS | {"rule": rule, "draft_model": draft}
    votes = majority_vote(model, PROMPT, 9, **options)
    assert [votes.rows, votes.drawn] == [majority_of(samples.tokens), 9]
    every = best_of_n(model, PROMPT, 9, return_all=True, **options)
    assert [c.tokens[0, 3:].tolist() for c in every] == samples.tokens
    assert [c.score for c in every] == pytest.approx([sum(row) for row in samples.logprobs])
    best = max(range(9), key=lambda row: every[row].score)
    assert best_of_n(model, PROMPT, 9, **options)[0, 3:].tolist() == samples.tokens[best]


def majority_of(rows: list[list[int]]) -> list[list[int]]:
    voters: dict[tuple, list[int]] = {}
    for number, row in enumerate(rows):
        voters.setdefault(tuple(row), []).append(number)
    return sorted(voters.values(), key=lambda who: -len(who))


def test_under_match_votes_are_those_of_plain_sampling(pair) -> None:
    model, draft = pair
    for drafter in (draft, NGram()):
        options = OPTIONS | {"draft_model": drafter, "rule": "match"}
        assert majority_vote(model, PROMPT, 8, **options) == majority_vote(
            model, PROMPT, 8, **OPTIONS
        )
        answer = {"extract": lambda row: row[0] % 2, "batch": 3}
        helped = {"draft_model": drafter, "rule": "match"}
        early = vote_until(model, PROMPT, 20, **OPTIONS, **helped, **answer)
        plain = vote_until(model, PROMPT, 20, **OPTIONS, **answer)
        assert early == plain
        assert [early.reason, early.saved] == [plain.reason, plain.saved]
        assert early.saved > 0


def test_an_early_vote_reads_the_prompt_once_and_draws_no_further(pair) -> None:
    model, draft = pair
    sizes = []

    def counting(tokens, cache):
        sizes.append(tokens.size)
        return model(tokens, cache=cache)

    counting.layers, counting.vocab_size = model.layers, model.vocab_size
    counting.make_cache = model.make_cache
    assert can_batch(counting, counting.make_cache())  # is tried out once for each model
    sizes.clear()
    rounds = speculative_batches(
        counting, draft, [list(range(20))] * 9, max_batch=4, max_tokens=2, draft_tokens=1, seed=1
    )
    assert not sizes
    first = next(rounds)
    assert len(first) == 4
    assert [size for size in sizes if size == 19] == [19]
    assert first.stats["target_calls"] == len(sizes)
    seen = len(sizes)
    second = next(rounds)
    assert 19 not in sizes[seen:]
    assert second.stats["target_calls"] == len(sizes) - seen
    whole = speculative_sample_n(
        model, draft, list(range(20)), 9, max_tokens=2, draft_tokens=1, seed=1
    )
    assert whole.tokens[:8] == first.tokens + second.tokens


@pytest.mark.parametrize("function", [best_of_n, majority_vote, vote_until])
def test_what_cannot_help_is_refused_before_any_work(pair, function) -> None:
    model, _ = pair
    with pytest.raises(BadValue, match="draft_model must share the target's vocabulary"):
        function(model, PROMPT, 3, draft_model=target(vocab_size=9))
    with pytest.raises(BadType, match=r"^draft_model must be a model or a drafter, got int"):
        function(model, PROMPT, 3, draft_model=3)
    with pytest.raises(BadType, match="unknown option 'progres'"):
        function(model, PROMPT, 3, draft_model=NGram(), progres=True)
    with pytest.raises(BadType, match="progress must be True or False"):
        function(model, PROMPT, 3, draft_model=NGram(), progress=1)
    with pytest.raises(BadValue, match="rule must be one of 'match'"):
        function(model, PROMPT, 3, draft_model=NGram(), rule="hope")
    with pytest.raises(BadType, match="rule is about drafts"):
        function(model, PROMPT, 3, rule="match")


# --- how many tokens are offered ----------------------------------------------------------------


class Sure(DraftModel):
    """Offers a token where the draft model is sure enough."""

    least = 0.5

    def offers(self, logits, before):
        peak = mx.max(mx.softmax(logits.astype(mx.float32), axis=-1), axis=-1)
        return [each >= self.least for each in peak.tolist()]


class Never(Sure):
    least = 2.0


class Always(Sure):
    least = 0.0


@pytest.mark.parametrize("kind", [Sure, Never, Always])
@pytest.mark.parametrize("how", [{"temperature": 0.0}, {"rule": "match", "seed": 5}], ids=str)
def test_a_length_of_ones_own_changes_no_text_and_no_cache(how, kind):
    model = target("llama3")
    draft = near(model, 0.3)
    plain = TokenIterator(
        model, PROMPT, max_tokens=40, **{k: v for k, v in how.items() if k != "rule"}
    )
    iterator = SpeculativeTokenIterator(model, kind(draft), PROMPT, max_tokens=40, **how)
    text = [*PROMPT, *(token.id for token in iterator)]
    assert text == [*PROMPT, *(token.id for token in plain)]
    assert_caches_stand_at(iterator, model, "kv", text)
    drafted = iterator.stats["total_drafted"]
    everything = {Never: 0, Always: 4 * iterator.stats["rounds"]}
    assert drafted <= everything.get(kind, drafted)
    if kind is Sure:
        assert 0 < drafted < 4 * iterator.stats["rounds"]


@pytest.mark.parametrize("kind", [Sure, Never, Always])
def test_rows_of_a_batch_have_lengths_of_their_own(kind):
    model = target("llama3")
    draft = near(model, 0.3)
    prompts = [PROMPT, [7, 8], [2, 2, 2, 9]]
    how = {"max_tokens": 30, "rule": "match", "seed": 5}
    alone = speculative_batch(model, NGram(), prompts, **how)
    together = speculative_batch(model, kind(draft), prompts, **how)
    assert together.tokens == alone.tokens
    drafted = together.stats["total_drafted"]
    assert (drafted > 0) == (kind is not Never)


@pytest.mark.parametrize(
    ("offered", "error"), [([True, False], BadValue), (True, BadValue), ([1], BadType)]
)
def test_what_offers_returns_is_checked(offered, error):
    class Odd(DraftModel):
        def offers(self, logits, before):
            return offered

    model = target()
    with pytest.raises(error, match="offers must"):
        next(SpeculativeTokenIterator(model, Odd(near(model, 0.1)), PROMPT))


def test_a_tree_takes_no_drafter_that_offers():
    with pytest.raises(BadValue, match=r"draft must leave what a tree offers .* a Sure has offers"):
        Tree(Sure(target()))

"""A pool of n-grams: what it keeps and finds, what it may not change, which seeds it refuses."""

import asyncio

import lablib
from lablib.inference.completions import samples, speculative_batch
from lablib.inference.speculation import LookupFirst, NGram, NGramPool, Tree
from lablib.inference.speculation.speculative_iterator import (
    SpeculativeTokenIterator,
    speculative_decode,
)
from lablib.validation import BadValue

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.speculation import greedy, near, target

PROMPT = [3, 1, 4, 1, 5]
PROMPTS = [PROMPT, [4, 5], [6], [1, 2, 3, 4, 5, 6, 7], PROMPT]


def learn(pool, *texts):
    for text in texts:
        pool.begin(None, None, 1).lookup(text, 1)
    return pool


def next_plainly(texts, known, longest, shortest):
    """What came last after the longest run that is known: all texts are searched."""
    for size in range(min(longest, len(known)), shortest - 1, -1):
        run = known[len(known) - size :]
        for text in reversed(texts):
            for end in reversed(range(size, len(text))):
                if text[end - size : end] == run:
                    return text[end]
    return None


def lookup_plainly(texts, text, n, longest, shortest):
    known = list(text)
    for _ in range(n):
        token = next_plainly([*texts, text], known, longest, shortest)
        if token is None:
            break
        known.append(token)
    return known[len(text) :]


def test_by_hand():
    pool = learn(NGramPool(2), [1, 2, 3, 4], [9, 2, 5])
    text = pool.begin(None, None, 2)
    assert text.lookup([1, 2], 3) == [3, 4]  # 1 2 -> 3, not the later 9 2 -> 5; behind 4 is nothing
    assert text.lookup([8, 2], 1, row=1) == [5]  # 8 2 is new, 2 was followed by 5
    assert text.lookup([1, 2, 2], 1) == [2]  # by itself now
    assert text.lookup([1, 2, 2, 7], 4) == []


@settings(max_examples=200)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=20), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 5),
)
def test_it_equals_a_search_of_all_texts(texts, longest, shortest, n):
    longest, shortest = max(longest, shortest), min(longest, shortest)
    pool = NGramPool(longest, shortest)
    for i, text in enumerate(texts):
        session = pool.begin(None, None, 1)
        for end in range(1, len(text) + 1):
            wanted = lookup_plainly(texts[:i], text[:end], n, longest, shortest)
            assert session.lookup(text[:end], n) == wanted


def test_it_holds_as_many_runs_as_it_may_those_seen_last():
    pool = learn(NGramPool(1, most=3), [1, 2, 3, 4])  # 1 -> 2, 2 -> 3, 3 -> 4
    learn(pool, [1, 2], [7, 8])  # 2 -> 3 is the oldest now
    assert [learn(pool).begin(None, None, 1).lookup([i], 1) for i in (1, 2, 3, 7)] == [
        [2], [], [4], [8],
    ]  # fmt: skip


def test_a_text_is_known_to_its_last_round_and_in_it():
    """A text that ends proposes no more, but what its last round wrote is in the pool."""
    model, pool = target(), NGramPool()
    text, _ = speculative_decode(model, pool, PROMPT, 30)
    _, again = speculative_decode(model, pool, PROMPT, 30)
    assert again["total_accepted"] == again["total_drafted"] > 20
    assert again["target_calls"] < 30
    assert text[0, len(PROMPT) :].tolist() == greedy(model, PROMPT, 30)


@pytest.mark.grid(lambda kind, how: kind == "llama" or "rule" not in how)
@pytest.mark.parametrize("kind", ["llama", "hybrid"])
@pytest.mark.parametrize("how", [{"temperature": 0.0}, {"rule": "match"}, {"rule": "coupled"}])
def test_no_neighbour_changes_a_text(kind, how):
    """Alone, beside others, after others: a row is the same, as its drafts decide nothing."""
    model = target(kind, peak=2)
    how = {"max_tokens": 25, "seed": 3, **how}
    wanted = speculative_batch(model, NGram(), PROMPTS, **how).tokens
    full = NGramPool()
    for pool, most in ((NGramPool(), 5), (full, 5), (full, 2), (NGramPool(2, 2, 9), 1)):
        assert speculative_batch(model, pool, PROMPTS, max_batch=most, **how).tokens == wanted
    for row, prompt in enumerate(PROMPTS):
        for pool in (NGramPool(), full):
            text = SpeculativeTokenIterator(model, pool, prompt, stream=row, **how)
            assert [token.id for token in text] == wanted[row]


def test_rows_of_a_batch_draft_for_each_other():
    """Row 4 has the prompt of row 0, and joins when that has ended."""
    model = target()
    rows = {"temperature": 0.0, "max_tokens": 20, "max_batch": 1}
    one, both = (
        speculative_batch(model, NGramPool(), prompts, **rows).stats["target_calls"]
        for prompts in (PROMPTS[:1], [PROMPT, PROMPT])
    )
    assert both < 2 * one


MODEL = target()
POOLS = {
    "pool": NGramPool,
    "pool first": lambda: LookupFirst(near(MODEL, 0.2), NGramPool()),
    "pool behind": lambda: LookupFirst(NGramPool()),
    "pool before a tree": lambda: LookupFirst(Tree(near(MODEL, 0.2)), NGramPool()),
}


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("rule", [None, "block"])
def test_a_seed_is_refused_where_drafts_decide(kind, rule):
    pool = POOLS[kind]()
    refused = pytest.raises(BadValue, match="rule must be 'match' or 'coupled', or seed None, as a")
    with refused:
        SpeculativeTokenIterator(MODEL, pool, PROMPT, rule=rule, seed=1)
    with refused:
        samples(MODEL, PROMPTS[:2], 1, pool, rule=rule, seed=[None, 0])
    with lablib.by_definition(), refused:  # then a rule's function decides under match, too
        SpeculativeTokenIterator(MODEL, NGramPool(), PROMPT, rule="match", seed=1)
    for how in ({"seed": 1, "temperature": 0.0}, {"seed": None}, {"seed": -1}, {}):
        SpeculativeTokenIterator(MODEL, pool, PROMPT, rule=rule, **how).close()
    how = {"seed": 1, "rule": "coupled", "max_tokens": 9}
    assert len(speculative_decode(MODEL, pool, PROMPT, **how, temperature=1.0)[0][0]) == 14


def test_an_engine_refuses_such_a_request_and_serves_the_others():
    model, tokenizer = lablib.load("target")
    how = {"max_tokens": 12, "stop_tokens": (), "temperature": 0.8, "seed": 1}
    alone = lablib.generate(model, tokenizer, "On a sunny day,", **how)

    async def serve():
        async with lablib.Engine(model, tokenizer, NGramPool()) as engine:
            with pytest.raises(BadValue, match="or seed None, as a NGramPool remembers"):
                engine.stream("On a sunny day,", **how)
            asked = [engine.generate("On a sunny day,", rule="match", **how) for _ in range(3)]
            return await asyncio.gather(*asked)

    assert {each.text for each in asyncio.run(serve())} == {alone.text}

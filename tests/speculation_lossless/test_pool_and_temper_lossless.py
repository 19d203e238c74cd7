"""A pool that texts share, look-up before a model, a draft's own temperature: the law stands.

All that the engine's real code can write is enumerated, with each of them and each rule. Planted in
each: a mistake by which the texts are off by a total variation of about 1e-3.
"""

from dataclasses import replace

from lablib.inference.speculation import LookupFirst, NGram, NGramPool, Tempered, rules, tempered
from lablib.inference.speculation.draft_model import DraftModel
from lablib.inference.speculation.rules import one_hot
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator

import mlx.core as mx
import numpy as np
import pytest
from oracles.enumeration import Language, joint
from oracles.explored import PROMPT, SIZE, N
from oracles.tables import TableModel

LANGUAGE, OTHER = Language(SIZE, seed=5), Language(SIZE, seed=77)
SAME, PLANTED = 1e-6, 1e-3
FOUND = PLANTED / 10, 10 * PLANTED


def target():
    return TableModel(SIZE, LANGUAGE.scores)


def draft():
    return TableModel(SIZE, OTHER.scores)


def off(got, **options):
    """Return the total variation from the target's own law."""
    law = joint(Language(SIZE, seed=5, **options), PROMPT, N)
    return np.abs(got - law).sum() / 2


def full(kind=NGramPool, left=((1, 0, 1, 2, 2, 0), (1, 0, 1, 1, 0, 2))):
    """A pool, filled by other texts."""
    pool = kind(3, 1)
    for text in left:
        pool.begin(None, None, 1).lookup(text, 1)
    return pool


DRAFTERS = {
    "pool": full,
    "look-up first": lambda: LookupFirst(draft(), NGram(1, 1)),
    "pool first": lambda: LookupFirst(draft(), full()),
    "cold": lambda: Tempered(draft(), 0.3),
    "hot": lambda: Tempered(draft(), 1.5),
    "certain": lambda: Tempered(draft(), 0.0),
    "look-up first, cold": lambda: Tempered(LookupFirst(draft(), NGram(1, 1)), 0.5),
}


@pytest.mark.grid(
    lambda rule, kind, options: not options or rule in ("rejection", "block"), rest="slow"
)
@pytest.mark.grid(
    lambda rule, kind, options: (
        options == {}
        and (rule, kind)
        in {
            ("rejection", "pool"), ("block", "look-up first"), ("rejection", "cold"),
            ("coupled", "certain"), ("match", "pool first"),
        }
    )
)  # fmt: skip
@pytest.mark.parametrize("options", [{}, {"temperature": 0.7, "top_p": 0.8}], ids=str)
@pytest.mark.parametrize("kind", DRAFTERS)
@pytest.mark.parametrize("rule", rules.RULE)
def test_the_texts_have_the_targets_law(explored, rule, kind, options):
    got = explored(rule, lambda: (target(), DRAFTERS[kind]()), options)
    assert abs(got.sum() - 1) < SAME
    assert off(got, **options) < SAME


@pytest.mark.parametrize("rule", ["rejection", pytest.param("block", marks=pytest.mark.thorough)])
def test_whatever_another_text_left_in_the_pool_the_next_has_the_targets_law(explored, rule):
    for first in ((0, 0), (2, 1)):
        got = explored(rule, lambda left=(*PROMPT, *first): (target(), full(left=(left,))), {})
        assert off(got) < SAME


class Claiming(NGramPool):
    """Says that it drew what it looked up: from a q that is nearly, but not all, on it."""

    def propose(self, texts, limits, sampler):
        found = super().propose(texts, limits, sampler)
        if found is None:
            return None
        q = 0.998 * one_hot(found.tokens, SIZE) + 0.002 / SIZE
        return replace(found, q=q, blind=True)


class Looking(LookupFirst):
    """Asks the look-up only once it has seen the model's draft, and that is no 0 behind a 1."""

    def propose(self, texts, limits, sampler):
        drafted = self._draft.propose(texts, limits, sampler)
        if texts[0][len(PROMPT) :] == [1] and int(drafted.tokens[0, 0]) == 0:
            return drafted
        found = self._lookup.propose(texts, limits, sampler)
        return drafted if found is None else found


def nearly_the_target():
    """A draft model that is hardly ever refused."""
    return TableModel(SIZE, lambda text: 0.97 * LANGUAGE.scores(text) + 0.03 * OTHER.scores(text))


def saying_another(temperature):
    """A drafter at this temperature, whose q is that of the request's."""

    class Saying(DraftModel):
        def propose(self, texts, limits, sampler):
            drafted = super().propose(texts, limits, tempered.at(sampler, temperature))
            q = mx.softmax(drafted.logits.astype(mx.float32), axis=-1)
            return replace(drafted, q=q)

    return Saying(draft())


PLANTS = {
    "pool": lambda: full(Claiming),
    "look-up first": lambda: Looking(nearly_the_target(), NGram(1, 1)),
    "cold": lambda: saying_another(0.99),
}


@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize("rule", ["rejection", pytest.param("block", marks=pytest.mark.thorough)])
def test_a_planted_mistake_is_found(explored, rule, kind):
    got = explored(rule, lambda: (target(), PLANTS[kind]()), {})
    print(f"{kind} under {rule}: off by {off(got):.1e}")
    assert FOUND[0] < off(got) < FOUND[1]


def test_why_a_seed_is_refused_two_requests_of_one_would_not_be_independent(monkeypatch):
    """By hand, p = (1/2, 1/2): the second text's draft is what the first one's numbers made."""
    monkeypatch.setattr(NGramPool, "shared", False)
    even = np.log([0.5, 0.5, 1e-30])
    model = TableModel(SIZE, lambda text: even)
    firsts = []
    for seed in range(40):
        pool = full(left=((1, 0),))
        for _ in range(2):
            text = SpeculativeTokenIterator(
                model, pool, [1], max_tokens=2, draft_tokens=1, rule="rejection", seed=seed
            )
            firsts.append(next(text).id)
            text.close()
    assert {*firsts[::2]} == {0, 1}  # as it should be
    assert {*firsts[1::2]} == {0}

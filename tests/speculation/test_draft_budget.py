"""One budget for all rows: the best places by enumeration, the law, and texts beside neighbours."""

import itertools

from lablib.cache import kv, packed
from lablib.cache.rewind_batch import BatchRewinder
from lablib.inference.completions import speculative_batch
from lablib.inference.decoding.batches import sample_many
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.row import Row
from lablib.inference.speculation import (
    DraftBudget,
    Drafter,
    NGram,
    Proposal,
    SpeculativeTokenIterator,
    Tree,
    rules,
)
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_budget import allocate, convex_steps
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles.speculation import VOCAB, near, target

COSTS = Costs((1.0, 1.02, 1.05, 1.09, 1.14, 1.2, 1.27, 1.35, 1.44, 1.54), 0.02)


def best_by_enumeration(survival, prices, rate):
    """The most that any choice of first places brings: expected tokens less the time's worth."""
    rows, most = survival.shape
    values = {}
    for counts in itertools.product(range(most + 1), repeat=rows):
        kept = sum(survival[row, :n].sum() for row, n in enumerate(counts))
        values[counts] = kept - rate * prices[sum(counts)]
    return values


@pytest.mark.parametrize("seed", range(12))
def test_the_places_that_survive_best_are_the_best_choice_of_all(seed):
    rng = np.random.default_rng(seed)
    survival = np.cumprod(rng.uniform(0.2, 1, (3, 3)), axis=1)
    steps = np.sort(rng.uniform(0, 0.6, 9))
    prices = np.concatenate([[0.0], np.cumsum(steps)])
    found = tuple(allocate(survival, steps.tolist(), 1.3))
    values = best_by_enumeration(survival, prices, 1.3)
    assert values[found] == pytest.approx(max(values.values()), abs=1e-12)


def test_places_that_are_free_are_all_taken_and_none_that_was_not_drafted():
    survival = np.array([[0.9, 0.5, 0.1], [0.3, 0.0, 0.0]])
    assert allocate(survival, [0.0], 7.0) == [3, 1]
    assert allocate(survival, [1.0], 7.0) == [0, 0]


@pytest.mark.parametrize("seed", range(6))
def test_levelled_steps_are_the_lower_convex_hull(seed):
    prices = np.cumsum(np.random.default_rng(seed).uniform(0, 1, 10))
    steps = np.array(convex_steps(prices.tolist()))
    below = prices[0] + np.concatenate([[0.0], np.cumsum(steps)])
    assert (np.diff(steps) > -1e-12).all()
    assert (below <= prices + 1e-12).all()
    assert below[-1] == pytest.approx(prices[-1])
    for i, price in enumerate(prices):  # no convex line between them is higher
        chords = [
            prices[a] + (prices[b] - prices[a]) * (i - a) / (b - a)
            for a, b in itertools.combinations(range(10), 2)
            if a <= i <= b
        ]
        assert below[i] == pytest.approx(min([price, *chords]))


# --- the law of two rows that share a budget, enumerated ---

V, DEPTH, RATE = 3, 2, 8.0


def world(seed):
    """Make p and q of each of two rows after every text of up to two tokens."""
    rng = np.random.default_rng(seed)
    texts = [text for n in range(DEPTH + 1) for text in itertools.product(range(V), repeat=n)]
    return [{text: tuple(rng.dirichlet([0.5] * V, 2)) for text in texts} for _ in range(2)]


def a_row(number, stops=(), **options):
    return Row([0], SamplerOptions(**options), 0, 9, frozenset(stops), None, number)


def share(drafts, promise, rows=None):
    """Return how many drafts of each row a budget offers, at a rate of its own."""
    budget = DraftBudget(len(drafts[0]), COSTS)
    rows = [a_row(i) for i in range(len(drafts))] if rows is None else rows
    budget.deepest(rows)
    budget._rate = RATE
    q = mx.zeros((*np.shape(drafts), V))
    proposal = Proposal(mx.array(drafts), q, promise=mx.array(promise), blind=True)
    found = budget.share(rows, proposal, [len(each) for each in drafts])
    return [0] * len(drafts) if found is None else found[1]


def law(worlds, rule, looks=False):
    """Enumerate the joint law of both rows' first two tokens, and all numbers of drafts offered.

    With ``looks`` a place's survival is made of the q of the very token drawn: the planted bug.
    """
    written, seen = np.zeros((V,) * 4), set()
    for drafts in itertools.product(itertools.product(range(V), repeat=DEPTH), repeat=2):
        chance, promise = 1.0, np.zeros((2, DEPTH))
        for row, k in np.ndindex(2, DEPTH):
            q = worlds[row][drafts[row][:k]][1]
            chance *= q[drafts[row][k]]
            promise[row, k] = q[drafts[row][k]] if looks else q.max()
        counts = share([[*each] for each in drafts], promise)
        seen.add(tuple(counts))
        rows = zip(worlds, drafts, counts, strict=True)
        written += chance * np.einsum("ab,cd->abcd", *[first_two(*row, rule) for row in rows])
    return written, seen


def first_two(row_world, drafts, n, rule):
    """Return the law of a row's first two tokens, given its drafts, of which n are offered."""
    p = np.stack([row_world[drafts[:k]][0] for k in range(DEPTH + 1)])
    q = [row_world[drafts[:k]][1] if k < n else np.zeros(V) for k in range(DEPTH)]
    outcome = rule(mx.array(p), mx.array(np.stack(q)), mx.array(drafts))
    kept, following = np.array(outcome.kept, float), np.array(outcome.following, float)
    found = np.zeros((V, V))
    for length, token in np.ndindex(DEPTH + 1, V):
        text, chance = (*drafts[:length], token), kept[length] * following[length, token]
        if length:
            found[text[:2]] += chance
        else:  # the next round writes the second token, by the target's law
            found[token] += chance * row_world[text][0]
    return found


def plain_law(worlds):
    rows = [np.array([w[()][0][a] * w[(a,)][0] for a in range(V)]) for w in worlds]
    return np.einsum("ab,cd->abcd", *rows)


def distance(one, other):
    return np.abs(one - other).sum() / 2


@pytest.mark.parametrize("name", ["rejection", "block", "match"])
@pytest.mark.parametrize("seed", [0, 3])
def test_two_rows_that_share_a_budget_have_the_targets_law(name, seed):
    worlds = world(seed)
    found, seen = law(worlds, rules.RULE[name])
    assert distance(found, plain_law(worlds)) < 1e-6
    assert len(seen) > 1  # the rows did compete


@pytest.mark.parametrize("name", ["rejection", "block"])
def test_a_survival_that_looks_at_the_token_drawn_is_found_out(name):
    """Also where it looks so seldom that the total variation is a thousandth."""
    worlds = world(0)
    right, looked = (law(worlds, rules.RULE[name], looks)[0] for looks in (False, True))
    bug = distance(looked, plain_law(worlds))
    assert bug > 0.1
    seldom = right + (looked - right) * 1e-3 / bug
    assert distance(seldom, plain_law(worlds)) == pytest.approx(1e-3, rel=1e-2)


def test_nothing_is_offered_behind_a_draft_that_ends_the_text():
    drafts, sure = [[1, 2, 1], [1, 1, 1]], np.ones((2, 3))
    free = DraftBudget(3, Costs((1.0, 1.0), 0.0))
    proposal = Proposal(mx.array(drafts), promise=mx.array(sure))
    rows = [a_row(0, stops=[2]), a_row(1, stops=[2])]
    free.deepest(rows)
    assert free.share(rows, proposal, [3, 3])[1] == [2, 3]


# --- texts ---


@pytest.mark.parametrize("rule", ["match", "coupled"])
@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_a_row_alone_is_the_row_among_sixteen(drafter, rule):
    model = target(peak=2)
    draft = {"model": near(model, 0.2), "ngram": NGram()}[drafter]
    prompts = [[1 + i % 5, 2, 3][: 1 + i % 3] for i in range(16)]
    options = {"max_tokens": 12, "rule": rule, "seed": 3, "stop_tokens": [7], "top_p": 0.95}
    budget = DraftBudget(4, Costs((1.0, 1.1), 0.02))
    among = speculative_batch(model, draft, prompts, draft_tokens=budget, **options)
    fixed = speculative_batch(model, draft, prompts, draft_tokens=3, **options)
    assert among.tokens == fixed.tokens
    assert among.stats["total_drafted"] != fixed.stats["total_drafted"] > 0
    for row, prompt in [*enumerate(prompts)][::5]:
        how = options | {"draft_tokens": DraftBudget(4, Costs((1.0, 1.1), 0.02)), "stream": row}
        alone = SpeculativeTokenIterator(model, draft, prompt, **how)
        assert [token.id for token in alone] == among.tokens[row]


@pytest.mark.parametrize("rule", [None, "rejection", "block", rules.rejection, lambda *_: None])
def test_a_seed_is_refused_where_neighbours_would_change_its_text(rule):
    model = target(peak=2)
    draft, how = near(model, 0.2), {"draft_tokens": DraftBudget(4, COSTS), "rule": rule}
    with pytest.raises(BadValue, match="draft_tokens must be a number under rule"):
        speculative_batch(model, draft, [[1], [2, 3]], seed=1, **how)
    with pytest.raises(BadValue, match="'match' and 'coupled' take it"):
        SpeculativeTokenIterator(model, draft, [1], seed=1, **how)
    if rule is None or isinstance(rule, str):
        free = speculative_batch(model, draft, [[1], [2, 3]], max_tokens=9, **how)
        assert len(free) == 2
        best = {"seed": 1, "temperature": 0.0, "max_tokens": 9}
        greedy = speculative_batch(model, draft, [[1], [2, 3]], **best, **how)
        assert greedy.tokens == sample_many_greedy(model, [[1], [2, 3]], 9)


def sample_many_greedy(model, prompts, most):
    options = SamplerOptions(temperature=0.0)
    return [each[0] for each in sample_many(model, prompts, options, max_tokens=most)]


def test_prices_are_learnt_and_a_drafter_that_is_always_wrong_is_asked_seldom():
    class Wrong(Drafter):
        def propose(self, texts, limits, sampler):
            return Proposal.of([[(text[-1] * 7 + 3) % VOCAB] * n
                                for text, n in zip(texts, limits, strict=True)])  # fmt: skip

    model, how = target(peak=2), {"max_tokens": 60, "rule": "match", "seed": 0}
    rows = speculative_batch(model, Wrong(), [[1], [2]], draft_tokens=DraftBudget(8), **how)
    fixed = speculative_batch(model, Wrong(), [[1], [2]], **how)
    assert rows.tokens == fixed.tokens
    assert rows.stats["total_drafted"] < fixed.stats["total_drafted"] / 3


def test_bad_arguments_are_refused_by_name():
    model = target(peak=2)
    draft = near(model, 0.2)
    for bad in ({"most": 0}, {"memory": 1}, {"margin": -1}):
        with pytest.raises(BadValue, match=next(iter(bad))):
            DraftBudget(**bad)
    with pytest.raises(BadType, match="costs must be Costs or None, got float"):
        DraftBudget(costs=0.1)
    with pytest.raises(BadValue, match="draft_tokens must be a number for trees"):
        SpeculativeTokenIterator(
            model, Tree(draft), [1], draft_tokens=DraftBudget(4), temperature=0.0
        )


# --- what packing computes ---


@pytest.mark.parametrize("counts", [[1, 5, 2], [2, 6, 2], [3, 1, 1]])
def test_packed_rows_have_the_logits_of_a_rectangle(counts):
    model = target(peak=2)
    prompts = [[1, 2, 3, 4], [5], [6, 7, 1]]
    tokens = mx.array(np.random.default_rng(0).integers(0, VOCAB, (3, max(counts))), mx.int32)
    readers = []
    for _ in range(2):
        caches = [kv.make(model) for _ in prompts]
        for cache, prompt in zip(caches, prompts, strict=True):
            model(mx.array([prompt]), cache=cache)
        readers.append(BatchRewinder(model, kv.merge(caches), [*map(len, prompts)]))
    assert packed.pays(model, readers[1].cache, counts)
    lengths = [len(prompt) + n for prompt, n in zip(prompts, counts, strict=True)]
    found = []
    for reader, how in zip(readers, ({}, {"counts": counts}), strict=True):
        logits = reader.forward(tokens, **how)
        reader.keep(lengths)
        found.append((logits, reader.forward(mx.array([[1], [2], [3]]))))
    for row, n in enumerate(counts):
        for whole, few in zip(*found, strict=True):
            end = n if whole.shape[1] > 1 else 1
            assert mx.allclose(whole[row, :end], few[row, :end], atol=1e-4)


@pytest.mark.parametrize("kind", ["hybrid", "gpt"])
def test_a_model_that_cannot_be_packed_reads_the_rectangle(kind):
    model = target(kind, peak=2)
    cache = kv.merge([kv.make(model), kv.make(model)])
    assert not packed.pays(model, cache, [1, 9])

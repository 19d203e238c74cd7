"""The widgets of lesson 13 compute what they say, and its rounds are the engine's."""

import json
import re
from itertools import pairwise, permutations

from lablib import load
from lablib.course.lessons.lesson_13 import rounds, sizes
from lablib.course.lessons.lesson_13 import widgets as lab
from lablib.inference import DraftModel, Head, SpeculativeTokenIterator, Tree
from lablib.inference.speculation.costs import Costs
from lablib.models import DraftHead
from lablib.tools.speculation import token_classes

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import charted, read
from oracles.speculation import fresh_logits, make_cache, near, target

TEXT = [3, 1, 4, 1, 5, 9]
PRICES = rounds.Prices(Costs((2.0, 2.2, 2.4, 2.6, 2.8), 0.2), 0.5)
P = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]])
DRAFTS, PARENTS = [0, 1, 2], [-1, -1, 0]  # two children of the text, one of the first


@pytest.fixture(scope="module")
def models():
    model = target("llama3", peak=2)
    return model, near(model, 0.3)


@pytest.fixture(scope="module")
def widget(models):
    pieces = [f" {i}" for i in range(models[0].vocab_size)]
    return lab.Trees(*models, {"one": TEXT, "two": TEXT[::-1]}, pieces, PRICES)


def test_a_round_counts_what_stays():
    kept, following = rounds.law("match", P, np.eye(3)[DRAFTS], DRAFTS, PARENTS)
    assert kept == pytest.approx([0.2, 0.5 * 0.4, 0.3, 0.5 * 0.6])
    one = rounds.Round(DRAFTS, PARENTS, P, kept, following)
    assert one.depths.tolist() == [0, 1, 1, 2]
    assert one.reach == pytest.approx([0.5, 0.3, 0.3])
    assert one.expected == pytest.approx(1 + 0.5 + 0.3 + 0.3)
    tossed = [one.toss(seed) for seed in range(400)]
    shares = [[path for path, _ in tossed].count(path) / 400 for path in ([], [0], [1], [0, 2])]
    assert np.abs(np.array(shares) - kept).max() < 5 * 0.5 / np.sqrt(400)
    written = [([DRAFTS[node] for node in path] + [own])[0] for path, own in tossed]
    firsts = np.bincount(written, minlength=3) / 400  # what a call writes follows p
    assert np.abs(firsts - P[0]).max() < 5 * 0.5 / np.sqrt(400)
    assert {own for path, own in tossed if path == [0]} == {0, 1}  # its child 2 was refused
    with pytest.raises(ValueError, match="rule must be one of"):
        rounds.law("greedy", P, np.eye(3)[DRAFTS], DRAFTS, PARENTS)


@pytest.mark.parametrize("rule", rounds.RULES)
def test_a_toss_keeps_a_path_as_often_as_the_rule_says(models, rule):
    """Of drawn trees: paths, and what follows each; an error of 6 sigma has a chance of 2e-9."""
    model, draft = models
    one = rounds.one_round(model, Tree(draft, drawn=rule != "match"), TEXT, 6, rule=rule, seed=3)
    tossed = [one.toss(seed) for seed in range(4000)]
    ends = np.bincount([path[-1] + 1 if path else 0 for path, _ in tossed], minlength=7) / 4000
    assert np.all(np.abs(ends - one.kept) < 6 * np.sqrt(one.kept * (1 - one.kept) / 4000) + 1e-9)
    following = one.following[0] / one.following[0].sum()
    after = [own for path, own in tossed if not path]
    found = np.bincount(after, minlength=len(following)) / max(1, len(after))
    spread = np.sqrt(following * (1 - following) / max(1, len(after)))
    assert np.all(np.abs(found - following) < 6 * spread + 3 / max(1, len(after)))


def test_under_match_a_tree_and_a_chain_share_what_the_target_writes(models):
    read = [sizes.read(model, TEXT) for model in models]
    chains, met = sizes.ChainRounds(models, TEXT, read, 6, 1.0, range(40)), 0
    trees = sizes.TreeRounds(said(models, read), 6, 1.0, range(40))
    for seed in range(40):
        both = [every.of(seed, "match", 6) for every in (trees, chains)]
        ends = [(one, *one.toss(seed)) for one in both]
        written = [[*(one.drafts[node] for node in path), own] for one, path, own in ends]
        shared = min(map(len, written))
        assert written[0][:shared] == written[1][:shared]
        met += len(written[0]) != len(written[1])
    assert met > 5  # one goes on where the other had no draft


@pytest.mark.parametrize("rule", rounds.RULES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_the_target_says_of_a_node_is_what_it_says_of_its_path(models, rule, temperature):
    model, draft = models
    drawn = rule != "match"
    for drafter in (Tree(draft, drawn=drawn), DraftModel(draft), Head(DraftHead(model, seed=1))):
        one = rounds.one_round(model, drafter, TEXT, 6, rule=rule, temperature=temperature)
        assert one.kept.sum() == pytest.approx(1)
        assert 1 <= one.expected <= 7
        for row, node in enumerate(range(-1, 6)):
            path = [one.drafts[k] for k in rounds.path_to(node, one.parents)]
            logits = fresh_logits(model, [*TEXT, *path], make_cache(model, "kv"))
            if temperature:
                wanted = np.exp(logits - logits.max())
                assert one.p[row] == pytest.approx(wanted / wanted.sum(), abs=1e-4)
            else:
                assert one.p[row].argmax() == np.argmax(logits)


@pytest.mark.parametrize("rule", ["match", "rejection", "optimal"])
def test_the_engine_keeps_as_much_as_a_round_expects(models, rule):
    """On average: of the engine's rounds and the expected ones, over the same 60 seeds."""
    model, draft = models
    drafter = Tree(draft, drawn=rule != "match")
    pairs = []
    for seed in range(60):
        one = rounds.one_round(model, drafter, TEXT, 5, rule=rule, seed=seed)
        with SpeculativeTokenIterator(
            model, drafter, TEXT, draft_tokens=5, max_tokens=6, rule=rule, seed=seed, trace=True
        ) as iterator:
            next(iterator)
        verdict = iterator.rounds[0]
        assert list(verdict.drafted) == one.drafts
        pairs.append((len(verdict.tokens), one.expected))
    off = np.subtract(*np.array(pairs).T)
    assert abs(off.mean()) < 5 * off.std() / np.sqrt(len(off)) + 1e-9


def said(models, read):
    """Return what both models say after the text."""
    return [sizes.Said(model, TEXT, cache) for model, cache in zip(models, read, strict=True)]


class Sizes:
    """A tree and a chain of one seed, of every size up to ``most``."""

    def __init__(self, models, most, temperature, seed, rule, depth=None, read=None):
        self.read = read or [sizes.read(model, TEXT) for model in models]
        given = most, temperature, [seed]
        self.trees = sizes.TreeRounds(said(models, self.read), *given, depth, rule != "match")
        chains = sizes.ChainRounds(models, TEXT, self.read, most, temperature, [seed])
        self.chains, self.asked = chains, (seed, rule)

    def of(self, nodes):
        """Return the rounds of both."""
        return [every.of(*self.asked, nodes) for every in (self.trees, self.chains)]


def that_drafts(drafter, most):
    """Return the drafter, which drafts so many tokens whatever it is asked for."""
    begin = drafter.begin

    def begun(*given):
        session = begin(*given)
        propose = session.propose
        session.propose = lambda texts, _, sampler: propose(texts, [most], sampler)
        return session

    drafter.begin = begun
    return drafter


@pytest.mark.parametrize("rule", rounds.RULES)
@pytest.mark.parametrize(
    ("temperature", "depth"), [(0.0, None), (0.25, None), (1.0, 1), (1.0, 3), (1.5, None)]
)
def test_rounds_of_all_sizes_are_those_of_each(models, rule, temperature, depth):
    every = Sizes(models, 9, temperature, 0, rule, depth)
    model, draft = models
    drawn = rule != "match" and temperature > 0  # a drawn tree of 4 is the first 4 of its seed
    options = {"rule": rule, "temperature": temperature}
    for nodes in (7, 1, 4, 9):
        most = 9 if drawn else nodes
        drafters = Tree(draft, depth, rule != "match"), DraftModel(draft)
        for drafter, one in zip(drafters, every.of(nodes), strict=True):
            wanted = rounds.one_round(model, that_drafts(drafter, most), TEXT, nodes, **options)
            assert (one.drafts, one.parents) == (wanted.drafts, wanted.parents)
            if most == nodes:  # else 9 were drafted, and these are the first
                assert one.forwards == wanted.forwards
            assert one.p == pytest.approx(wanted.p, abs=1e-4)
            assert one.kept == pytest.approx(wanted.kept, abs=1e-3)
    assert [cache[0].offset for cache in every.read] == [len(TEXT) - 1] * 2


def test_more_nodes_hold_what_fewer_did_and_never_yield_less(models):
    every = Sizes(models, 9, 1.0, 3, "rejection")
    for each in zip(*(every.of(nodes) for nodes in range(1, 10)), strict=True):
        for less, more in pairwise(each):
            assert more.drafts[:-1] == less.drafts
            assert more.parents[:-1] == less.parents
            assert more.expected > less.expected - 1e-9
    others = Sizes(models, 9, 1.0, 4, "rejection")
    assert others.of(9)[0].drafts != every.of(9)[0].drafts


def test_the_first_nodes_of_a_large_tree_yield_on_average_what_a_small_tree_does(models):
    """Of 300 seeds; a tree that keeps its last nodes instead would yield far less."""
    read = [sizes.read(model, TEXT) for model in models]
    large = sizes.TreeRounds(said(models, read), 9, 1.0, range(300), None, True)
    small = sizes.TreeRounds(said(models, read), 3, 1.0, range(1000, 1300), None, True)
    pairs = [[one.expected for one in every.every("rejection", 3)] for every in (large, small)]
    first, wanted = np.array(pairs)
    spread = np.hypot(first.std(), wanted.std()) / np.sqrt(len(first))
    assert 0 < spread < 0.1
    assert abs(first.mean() - wanted.mean()) < 5 * spread


@pytest.mark.parametrize(("temperature", "as_if"), [(0.0, 1.0), (1.5, 1.5)])
def test_a_tree_grows_where_the_draft_is_likely_to_get(models, temperature, as_if):
    every = Sizes(models, 9, temperature, 0, "match")
    one, _ = every.of(7)
    first, drafted = every.trees.drafted(one)

    def said(path):
        """Return the draft's chances of what comes next, read afresh."""
        logits = fresh_logits(models[1], [*TEXT, *path], make_cache(models[1], "kv"))
        weights = np.exp((logits - logits.max()) / as_if)
        return weights / weights.sum()

    assert first == pytest.approx(said([]), abs=1e-4)
    for node, chance in enumerate(drafted):
        path = [one.drafts[k] for k in rounds.path_to(node, one.parents)]
        steps = [said(path[:n])[token] for n, token in enumerate(path)]
        assert chance == pytest.approx(np.prod(steps), abs=1e-4)
    roots = [token for token, up in zip(one.drafts, one.parents, strict=True) if up < 0]
    assert np.delete(first, roots).max() <= drafted.min() + 1e-4


def test_the_target_reads_all_sizes_at_once_and_nothing_is_read_for_fewer_nodes(models):
    given = [], []

    def told(model, counts):
        def forward(tokens, cache):
            counts.append(tokens.size)
            return model(tokens, cache=cache)

        return forward

    watched = [told(model, counts) for model, counts in zip(models, given, strict=True)]
    read = [sizes.read(model, TEXT) for model in models]
    every = Sizes(watched, 8, 1.0, 0, "rejection", read=read)
    before = [list(counts) for counts in given]
    found = [every.of(nodes) for nodes in (2, 4, 8)]  # what was read is enough
    assert [[one.depths.size - 1 for one in both] for both in found] == [[2, 2], [4, 4], [8, 8]]
    assert [list(counts) for counts in given] == before
    assert given[0][-2:] == [9, 9]  # the text's last token and 8 drafts, of tree and chain


@pytest.mark.parametrize("drawn", [False, True])
def test_trees_that_share_what_was_read_are_those_that_read_alone(models, drawn):
    read = [sizes.read(model, TEXT) for model in models]
    shared = said(models, read)
    for depth in (None, 2, 3, 1):
        given = 8, 1.0, range(6), depth, drawn
        together, alone = (sizes.TreeRounds(each, *given) for each in (shared, said(models, read)))
        rule = "rejection" if drawn else "match"
        for one, wanted in zip(*(each.every(rule, 8) for each in (together, alone)), strict=True):
            assert (one.drafts, one.parents) == (wanted.drafts, wanted.parents)
            assert one.p == pytest.approx(wanted.p, abs=1e-5)
            assert one.kept == pytest.approx(wanted.kept, abs=1e-4)
            assert one.forwards == wanted.forwards


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_chains_side_by_side_are_those_of_each_seed_alone(models, temperature):
    read = [sizes.read(model, TEXT) for model in models]
    given = models, TEXT, read, 6, temperature
    every = sizes.ChainRounds(*given, range(3, 9))
    for rule in rounds.RULES:
        alone = [sizes.ChainRounds(*given, [seed]).of(seed, rule, 4) for seed in range(3, 9)]
        drafts = [every.of(seed, rule, 4).drafts for seed in range(3, 9)]
        assert drafts == [one.drafts for one in alone]
        found = [one.expected for one in every.every(rule, 4)]
        assert found == pytest.approx([one.expected for one in alone], abs=1e-3)
    different = {tuple(every.of(seed, "match", 4).drafts) for seed in range(3, 9)}
    assert len(different) == (6 if temperature else 1)


def test_a_draft_at_temperature_0_takes_the_best_words(models):
    model, draft = models
    one = rounds.one_round(model, DraftModel(draft), TEXT, 3, drafted_at=0.0)
    text = list(TEXT)
    for token in one.drafts:
        assert token == np.argmax(fresh_logits(draft, text, make_cache(draft, "kv")))
        text.append(token)
    assert one.p.max() < 1  # the target's temperature is still 1


def test_prices():
    assert PRICES.chain(4) == pytest.approx((4 * 0.2 + 2.8) / 2)
    assert PRICES.tree(4, 2) == pytest.approx((2 * 0.5 + 2.8) / 2)
    model = target()
    found = rounds.measure_prices(model, near(model, 0.3), TEXT, most=4, repeats=2)
    assert found.level > 0
    assert len(found.costs.target) == 5


def test_a_tree_is_laid_out_by_depth_with_first_children_straight():
    depth, row = lab.layout([-1, -1, 0, 0, 1, 2])
    assert depth.tolist() == [1, 1, 2, 2, 2, 3]
    assert row[0] == row[2] == row[5] == 0
    assert row[1] == row[4]
    assert len({*zip(depth.tolist(), row.tolist(), strict=True)}) == 6
    chain = lab.layout(range(-1, 15))
    assert chain[1].tolist() == [0] * 16
    assert sorted(lab.layout([-1] * 16)[1].tolist()) == list(range(16))


def test_the_widget_compares_a_tree_with_a_chain(widget):
    data = widget.compute("one", "match", 8, lab.ALL, 1.0, 0)
    grown, chain = widget.compare("one", "match", 8, lab.ALL, 1.0)
    costs = [*data["costs"].values()]
    assert costs == pytest.approx([PRICES.tree(8, int(grown.depths.max())), PRICES.chain(8)])
    assert list(data["trails"]) == ["tree", "chain"]
    for rule in rounds.RULES:
        drawn = widget.compute("one", rule, 8, lab.ALL, 1.0, 2)
        every = [widget.compare("one", rule, 8, lab.ALL, 1.0, toss) for toss in range(10)]
        for k, name in enumerate(("tree", "chain")):
            spots = [[widget.price(name, both[k]), both[k].expected] for both in every]
            if rule == "match" and name == "tree":  # chosen, not drawn
                assert np.ptp(spots, axis=0) == pytest.approx([0, 0])
                spots = spots[:1]
            assert drawn["tosses"][name] == [pytest.approx(spot) for spot in spots]
            trail = drawn["trails"][name]
            assert [count for count, *_ in trail] == [1, 2, 4, 8, 12, 16]
            assert trail[3] == [8, *(pytest.approx(mean) for mean in np.mean(spots, axis=0))]
            assert drawn["costs"][name] == pytest.approx(widget.price(name, every[2][k]))
            assert drawn["means"][name] == pytest.approx(trail[3][2])
    assert chain.parents == list(range(-1, 7))
    assert data["reach"] == pytest.approx(grown.reach)
    assert [name for name, _ in data["chain"]] == [f"␣{token}" for token in chain.drafts]
    assert [stays for _, stays in data["chain"]] == pytest.approx(chain.reach)
    stays, own = chain.toss(lab._SEEDS[0])
    assert (data["kept"], data["after"]) == (len(stays), f"␣{own}")
    assert data["reading"] == PRICES.costs.forward(9) / 2
    drafting = [data["costs"][name] - data["reading"] for name in ("tree", "chain")]
    assert drafting == pytest.approx([0.5 * grown.depths.max() / 2, 8 * 0.2 / 2])
    roots = {data["names"][node] for node, up in enumerate(data["parents"][:8]) if up < 0}
    assert {name for name, _, _, taken in data["first"] if taken} == roots
    shares = [share for _, share, *_ in data["first"]]
    assert shares == sorted(shares, reverse=True)
    for name, _, share, _ in data["first"]:
        assert share == grown.p[0][int(name[1:])]
    known, _ = widget.compare("one", "match", 9, lab.ALL, 1.0)  # and the next one
    assert data["names"] == [f"␣{token}" for token in known.drafts]
    assert data["depth"] == lab.layout(known.parents)[0].tolist()
    assert len(data["drafted"]) == 9
    assert data["drafted"][8] <= min(data["drafted"][:8]) + 1e-9  # it was left out
    assert len(widget.compute("one", "match", 16, lab.ALL, 1.0, 0)["names"]) == 16
    assert len(widget.compute("one", "block", 8, lab.ALL, 1.0, 0)["names"]) == 8
    star, _ = widget.compare("one", "match", 8, 1, 1.0)
    assert star.parents == [-1] * 8
    assert star.expected == pytest.approx(1 + star.p[0][star.drafts].sum())
    assert max(widget.compute("two", "rejection", 5, 2, 0.5, 3)["depth"]) <= 2
    trail = widget.compute("two", "match", 5, 2, 1.0, 3)["trails"]["tree"]
    assert [count for count, *_ in trail] == [1, 2, 4, 5, 8, 12, 16]
    again = [widget.compute("two", "match", 5, 2, 1.0, toss) for toss in range(10)]
    assert all(each["trails"]["tree"] == trail for each in again)  # chosen, not drawn
    assert len({str(each["chain"]) for each in again}) > 1  # a chain is drawn at each toss
    assert all(each["trails"] == again[0]["trails"] for each in again)  # of chains the mean
    tossed = [widget.compute("one", "match", 8, 1, 1.0, toss) for toss in range(10)]
    assert len({(*each["path"], each["own"]) for each in tossed}) > 5  # most of them differ
    json.dumps([widget.told, data])  # what the page gets


def test_without_prices_the_widget_tells_tokens_alone(models, widget):
    bare = lab.Trees(*models, {"one": TEXT, "two": TEXT[::-1]}, widget.pieces)
    data, priced = (each.compute("one", "match", 8, lab.ALL, 1.0, 0) for each in (bare, widget))
    assert bare.constants == {"most": None}
    assert {*priced} - {*data} == {"reading", "costs", "trails", "tosses"}
    assert data == {name: priced[name] for name in data}
    assert "price" not in bare.caption(data)
    assert bare.caption(data) == re.sub(r" \(×\S+ for its price\)", "", widget.caption(priced))
    assert f"{data['means']['tree']:.2f} tokens a call" in bare.caption(data)
    with pytest.raises(ValueError, match="prices must be given"):
        bare.price("tree", bare.compare("one", "match", 8, lab.ALL, 1.0)[0])


@pytest.mark.parametrize("rule", rounds.RULES)
@pytest.mark.parametrize("values", [{"nodes": 1}, {"nodes": 16}, {"nodes": 16, "depth": 1}])
def test_the_widget_draws_every_shape(widget, rule, values):
    for temperature in (0.0, 2.0):
        caption = widget.set(rule=rule, temperature=temperature, **{"depth": lab.ALL, **values})
        assert caption.startswith("In this toss ")
        data, _ = widget.frame()
        assert ("nothing of the tree stays" in caption) == (not data["path"])
        assert ("nothing of the chain" in caption) == (not data["kept"])
        grown = zip(data["names"], data["parents"], data["reach"], strict=False)  # not the next one
        roots = {name for name, up, _ in grown if up < 0}
        assert {name for name, _, _, taken in data["first"] if taken} == roots  # also unlikely
        assert data["chosen"] == (rule == "match" or not temperature)
        costs = [cost for trail in data["trails"].values() for _, cost, _ in trail]
        assert max(costs) <= widget.constants["most"]


def test_pictures_and_bad_input(models):
    assert charted(lab.mask_figure([-1, -1, 0], "abc"))
    given = ["a", "b"], [2.0, 3.0], [(2.0, 1.5, 2.5), None], (1.0, 0.5, 1.5)
    (marks,) = charted(lab.yields_figure(*given))
    assert [mark["line"] for mark in marks if mark.get("wide") == 3] == [[[2.5, -0.5], [3.5, -0.5]]]
    assert [mark["text"] for mark in marks if "text" in mark] == ["engine: not run", "+1.00"]
    with pytest.raises(ValueError, match="texts must hold"):
        lab.Trees(*models, {}, [], PRICES)


def test_what_a_tree_is_worth_is_the_formula():
    chains, trees = {"match": [1.5, 2.0]}, {"match": {2: (1.8, 1.0), 4: (2.6, 2.0)}}
    worth = lab.Worth(chains, trees, 0.2)
    data = worth.compute("match", reading=0.1, draft=0.1)
    assert data["chain"] == pytest.approx(max(1.5 / 1.2, 2.0 / 1.4))
    assert data["length"] == 2
    assert data["tree"][0] == pytest.approx(max(1.8 / 1.3, 2.6 / 1.6))
    assert data["tree"][-1] == pytest.approx(max(1.8 / 1.7, 2.6 / 2.4))
    assert 0 < data["ahead"] < 0.4
    assert "A tree is ahead where waiting costs up to" in worth.caption(data)
    none = worth.compute("match", reading=0.5, draft=0.4)
    assert "No tree is ahead" in worth.caption(none)
    (marks,) = read(worth.draw(data))
    ((x, y),) = [mark["dot"] for mark in marks if "dot" in mark]  # where they cross
    assert np.interp(x, worth.waiting, data["tree"]) == pytest.approx(y, abs=0.02)
    assert y == data["chain"]
    assert not [mark for (each,) in [read(worth.draw(none))] for mark in each if "dot" in mark]


@pytest.mark.parametrize("here", [-0.01, 3.0])
def test_a_machine_that_waits_long_or_not_at_all_has_its_place(here):
    worth = lab.Worth({"match": [1.5, 2.0]}, {"match": {4: (2.6, 2.0)}}, here)
    (marks,) = read(worth.frame()[0])
    (place,) = (mark["rule"]["x"] for mark in marks if mark.get("text") == "this machine")
    assert place == max(here, 0)
    assert worth.constants["panels"][0]["x"]["ends"] == [0, max(0.4, 1.25 * here)]


def test_places_end_before_an_operand_and_the_engine_writes_there():
    model, tokenizer = load("target", dtype=mx.float32)
    operands = rounds.before_operands(model, tokenizer, token_classes, 2)
    assert len(operands) > 3
    assert not any(tokenizer.decode(text)[-1].isdigit() for text in operands)
    assert 1 <= rounds.engine_round(model, Tree(model, drawn=False), operands[0], 3, seed=1) <= 4


def test_two_siblings_stay_in_turn_as_often_as_all_pairs_say():
    p, q = np.random.default_rng(0).dirichlet(np.ones(6), 2)
    kept = 0
    for x, y in permutations(range(6), 2):
        rows = np.tile(p, (3, 1)), np.tile(q, (2, 1))
        stay = rounds.law("rejection", *rows, [x, y], [-1, -1]).kept[1:].sum()
        kept += q[x] * q[y] / (1 - q[x]) * stay
    assert rounds.in_turn(p, q) == pytest.approx(kept)

"""A drafter of trees: one forward verifies all paths, one stays, and the text is the target's."""

from lablib.cache import kv, tree
from lablib.cache.rewind import Rewinder
from lablib.inference.completions import speculative_sample_n
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import EarlyExit, Head, NGram, Tree
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import AdaptiveLength
from lablib.inference.speculation.drafter import Drafter
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.speculation.speculative_iterator import (
    SpeculativeTokenIterator,
    speculative_decode,
)
from lablib.models import DraftHead
from lablib.models.kernels import Rotation

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import RotatingKVCache
from oracles.speculation import (
    PROMPT,
    assert_caches_stand_at,
    both_caches,
    fresh_logits,
    greedy,
    make_cache,
    near,
    target,
)

PENALTIES = {"repeat_penalty": 1.6, "presence_penalty": 0.3, "frequency_penalty": 0.4}
TOKENS, PARENTS = [5, 6, 7, 8, 9, 10, 11], [-1, 0, 0, 1, 2, 2, 5]
# 8 bits round keys that differ in their last digit to one of two numbers.
NEAR = {"kv": 1e-5, "quantized": 5e-2}


def path_of(node):
    return [] if node < 0 else [*path_of(PARENTS[node]), node]


def read_tree(model, cache):
    reader = Rewinder(model, cache)
    reader.forward(mx.array([[3, 1, 4]]))
    return reader, np.array(reader.forward(mx.array([TOKENS]), parents=PARENTS))[0]


def furthest(model, kind):
    """How far the logits of any node are from those of its path, read one by one."""
    _, read = read_tree(model, make_cache(model, kind))
    alone = [
        fresh_logits(model, [3, 1, 4, *(TOKENS[n] for n in path_of(node))], make_cache(model, kind))
        for node in range(len(TOKENS))
    ]
    return np.abs(read - alone).max()


KINDS = [("llama", "kv"), ("llama3", "kv"), ("gpt", "kv"), ("llama", "quantized")]


@pytest.mark.parametrize(("kind", "cache"), KINDS)
def test_each_node_reads_what_its_path_would_be_alone(kind, cache):
    assert furthest(target(kind), cache) < NEAR[cache]


@pytest.mark.parametrize(("kind", "cache"), KINDS)
@pytest.mark.parametrize("node", [-1, 0, 3, 4, 6])
def test_the_cache_keeps_one_path_only(kind, cache, node):
    model, path = target(kind), path_of(node)
    reader, _ = read_tree(model, make_cache(model, cache))
    reader.follow(len(TOKENS), path)
    reader.rewind(len(TOKENS) - len(path))
    assert kv.offset(reader.cache) == 3 + len(path)
    got = np.array(reader.forward(mx.array([[2]])))[0, -1]
    text = [3, 1, 4, *(TOKENS[n] for n in path), 2]
    assert np.abs(got - fresh_logits(model, text, make_cache(model, cache))).max() < NEAR[cache]


@pytest.mark.parametrize("kind", ["llama", "gpt"])
def test_a_mask_that_shows_a_sibling_is_found_out(kind, monkeypatch):
    right = tree.ancestry
    monkeypatch.setattr(
        tree, "ancestry", lambda parents: right(parents) | (np.tri(len(parents)) > 0)
    )
    assert furthest(target(kind), "kv") > 1e-2


@pytest.mark.parametrize("kind", ["llama", "gpt"])
def test_positions_that_count_siblings_are_found_out(kind, monkeypatch):
    right = tree.branch

    def by_index(cache, parents, new):
        layers = right(cache, parents, new)
        for layer in layers:
            layer.places = kv.offset(cache) + np.arange(new)
        return layers

    monkeypatch.setattr(tree, "branch", by_index)
    assert furthest(target(kind), "kv") > 1e-2


def test_half_precision_stays_half_and_turns_by_the_same_angles():
    x = mx.random.normal((1, 2, 4, 8), key=mx.random.key(0))
    apart, together = Rotation(np.arange(3, 7), 4, 8, 1e4), Rotation(3, 4, 8, 1e4)
    assert mx.max(mx.abs(apart(x) - together(x))).item() < 1e-6
    half = apart(x.astype(mx.float16))
    assert half.dtype == mx.float16
    assert mx.max(mx.abs(half - together(x))).item() < 1e-2  # of numbers up to 3, with 11 bits


# --- the text -------------------------------------------------------------------------------


def drafters(model):
    return {
        "good": near(model, 0.05),
        "poor": near(model, 0.4),
        "itself": model,
        "early exit": EarlyExit(1),
        "head": Head(DraftHead(model, [1, 2, 3, 5, 7], 8, seed=1)),
    }


def text(model, draft, nodes, n=40, **options):
    with SpeculativeTokenIterator(
        model, draft, PROMPT, draft_tokens=nodes, max_tokens=n, **options
    ) as iterator:
        return [token.id for token in iterator], iterator


SAMPLED = [
    {"temperature": 0.0},
    {"temperature": 0.0, **PENALTIES},
    {"temperature": 1.0, "rule": "match", "seed": 3},
    {"temperature": 0.8, "rule": "match", "seed": 4, "top_p": 0.9, "top_k": 7, **PENALTIES},
    {"temperature": 1.0, "rule": "coupled", "seed": 3, "min_p": 0.05},
    {"temperature": 0.7, "rule": "match", "seed": 5, "logits_processors": [lambda ids, x: x * 1.1]},
]


@pytest.mark.grid(
    lambda name, kind, options: name == "good" if kind == "gpt" else name not in ("poor", "itself"),
    rest="slow",
)
@pytest.mark.grid(
    lambda name, kind, options: options is SAMPLED[0] or (name, kind) == ("good", "llama3")
)
@pytest.mark.parametrize("options", SAMPLED, ids=lambda options: "-".join(options))
@pytest.mark.parametrize("kind", ["llama3", "gpt"])
@pytest.mark.parametrize("name", ["good", "poor", "itself", "early exit", "head"])
def test_the_text_is_that_of_the_target_alone(name, kind, options):
    model = target(kind, peak=2)
    draft = drafters(model)[name]
    wanted, _ = text(model, NGram(), 1, **options)
    if options.get("rule", "match") == "match":
        plain = {key: value for key, value in options.items() if key != "rule"}
        assert wanted == [x.id for x in TokenIterator(model, PROMPT, max_tokens=40, **plain)]
    for nodes, depth, drawn in [(1, None, True), (4, 2, False), (5, 1, True), (9, None, True)]:
        got, iterator = text(model, Tree(draft, depth, drawn), nodes, **options)
        assert got == wanted
        stats = iterator.stats
        assert stats["tokens"] == 40
        assert stats["total_accepted"] <= stats["total_reached"] <= stats["total_drafted"]


@pytest.mark.parametrize("cache", ["kv", "quantized"])
@pytest.mark.parametrize("stop_after", [1, 2, 7, 18, 40])
def test_caches_stand_where_the_text_does(cache, stop_after):
    """Also when it is left in the middle of what a round has decided."""
    model = target("llama", peak=2)
    wanted = greedy(model, PROMPT, stop_after, make_cache(model, cache))
    with SpeculativeTokenIterator(
        model, Tree(near(model, 0.3)), PROMPT, draft_tokens=6, temperature=0.0, max_tokens=40,
        **both_caches(model, cache),
    ) as iterator:  # fmt: skip
        got = [next(iterator).id for _ in range(stop_after)]
    assert got == wanted
    assert_caches_stand_at(iterator, model, cache, PROMPT + got)


def test_a_head_guesses_from_the_states_of_the_path_that_stayed():
    """It would draft worse from another's: the chain's drafts are those of a tree of one path."""
    model = target("llama3", peak=2)
    head = DraftHead(model, seed=1)
    seen = []

    for rule in ("coupled", "match"):
        options = {"temperature": 1.0, "seed": 2, "rule": rule, "trace": True, "n": 60}
        _, iterator = text(model, Tree(Head(head)), 6, **options)
        written = PROMPT + iterator.tokens
        states = model.hidden(mx.array([written]), None)
        at = len(PROMPT)
        for verdict in iterator.rounds:
            if verdict.drafted:
                before = head(states[:, : at - 1], mx.array([written[1:at]]))
                wanted = mx.softmax(head.logits(before[:, -1])[0])
                first = verdict.drafted[0]
                seen.append(abs(wanted[first].item() - verdict.q[0]) if verdict.q[0] < 1 else 0)
            at += len(verdict.tokens)
    assert max(seen) < 1e-5
    assert len(seen) > 60


def test_rows_of_a_batch_are_written_one_by_one():
    model = target(peak=2)
    options = {"max_tokens": 12, "seed": 6, "rule": "match", "draft_tokens": 5}
    rows = speculative_sample_n(model, Tree(near(model, 0.3)), PROMPT, 4, **options)
    alone = speculative_sample_n(model, near(model, 0.3), PROMPT, 4, **options)
    assert rows.tokens == alone.tokens


@pytest.mark.parametrize("rule", ["match", "rejection", "coupled", "block", "optimal"])
def test_stop_tokens_end_a_path(rule):
    model = target("llama3", peak=2)
    options = {"temperature": 1.0, "rule": rule, "trace": True, "stop_tokens": [2, 9, 13]}
    for seed in range(8):
        got, iterator = text(model, Tree(near(model, 0.1)), 8, seed=seed, **options)
        assert not set(got[:-1]) & {2, 9, 13}
        assert kv.offset(iterator.cache) == len(PROMPT) + len(got) - 1
        last = iterator.rounds[-1]
        assert last.reached >= last.accepted
        if last.token is None:
            assert last.reached == last.accepted


@pytest.mark.parametrize("rule", ["match", "rejection", "coupled", "block", "optimal"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_trace_and_the_numbers_say_what_happened(rule, temperature):
    model = target("llama3", peak=2)
    options = {"temperature": temperature, "rule": rule, "seed": 1, "trace": True}
    _, iterator = text(model, Tree(near(model, 0.2)), 7, top_logprobs=3, **options)
    written, at = PROMPT + iterator.tokens, len(PROMPT)
    logs = np.array(model(mx.array([written]))[0].astype(mx.float32))
    logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    assert iterator.stats["rounds"] == len(iterator.rounds)
    assert iterator.stats["target_calls"] == len(iterator.rounds)
    for verdict in iterator.rounds:
        assert tuple(verdict.tokens[: verdict.accepted]) == tuple(
            verdict.drafted[node] for node in verdict.path
        )
        assert verdict.reached - verdict.accepted in (0, 1)
        if verdict.drafted:
            assert verdict.kind == (
                "bonus" if verdict.accepted == verdict.reached else "correction"
            )
        assert len(verdict.p) == len(verdict.q) == len(verdict.min_pq) == len(verdict.drafted)
        place = at - 1
        for i, node in enumerate(verdict.path):
            if temperature:
                assert verdict.p[node] == pytest.approx(
                    np.exp(logs[place + i, verdict.tokens[i]]), abs=1e-4
                )
        for i, logprob in enumerate(verdict.logprobs):
            assert logprob == pytest.approx(logs[place + i, verdict.tokens[i]], abs=1e-4)
            assert len(verdict.top[i]) == 3
        at += len(verdict.tokens)


def test_no_more_nodes_than_tokens_are_wanted():
    model = target(peak=2)
    for n in (1, 2, 3):
        _, iterator = text(model, Tree(near(model, 0.1)), 8, n, temperature=0.0, trace=True)
        assert all(len(verdict.drafted) < n for verdict in iterator.rounds)


class Siblings(Drafter):
    """Guesses any three tokens at each place, the second of which has a child."""

    trees = True

    def __init__(self, parents=(-1, -1, 1, -1)):
        self.parents = parents

    def propose(self, texts, limits, sampler):
        n = len(self.parents)
        if limits[0] < n:
            return None
        return Proposal(
            mx.array([[(7 * len(texts[0]) + i) % 24 for i in range(n)]]), parents=self.parents
        )


@pytest.mark.parametrize("options", SAMPLED[:3], ids=lambda options: "-".join(options))
def test_a_drafter_of_ones_own_may_propose_trees(options):
    model = target(peak=1)
    wanted, _ = text(model, NGram(), 1, **options)
    assert text(model, Siblings(), 6, **options)[0] == wanted


# --- refusals -------------------------------------------------------------------------------


def refuses(match, target_model, draft, **options):
    with pytest.raises((ValueError, TypeError), match=match):
        speculative_decode(target_model, draft, PROMPT, 8, **options)


def test_what_cannot_read_a_tree_is_refused_by_name():
    model, other = target(), target("hybrid")
    plain = Tree(near(model, 0.1))
    refuses(
        "layer 0 is a RotatingKVCache",
        model,
        plain,
        cache=[RotatingKVCache(max_size=8) for _ in model.layers],
    )
    refuses(
        "draft_model must keep an entry .* RotatingKVCache",
        model,
        plain,
        draft_cache=[RotatingKVCache(max_size=8) for _ in model.layers],
    )
    refuses("ArraysCache", other, Tree(target("llama")))
    refuses("draft_model must .* ArraysCache", model, Tree(other))

    class Foreign:
        layers, vocab_size, make_cache = model.layers, model.vocab_size, model.make_cache

        def __call__(self, tokens, cache):
            raise AssertionError("nothing must be read")

    refuses("target must be a model of lablib.models .* Foreign", Foreign(), plain)
    refuses("draft_model must be a model of lablib.models .* Foreign", model, Tree(Foreign()))
    refuses("target must be a model of lablib.models .* Foreign", Foreign(), Siblings())


def test_rules_and_lengths_that_know_no_trees_are_refused_by_name(monkeypatch):
    from lablib.inference.speculation import rules

    model = target()
    monkeypatch.setitem(rules.RULE, "lossy", rules.rejection)
    refuses("rule .* of trees.*got 'lossy'", model, Tree(model), rule="lossy")
    with pytest.raises(ValueError, match="lossy"):
        speculative_sample_n(model, Tree(model), PROMPT, 2, rule="lossy")
    refuses("rule must be one of .*'block'.* got 'optimal'", model, model, rule="optimal")
    for length in (AdaptiveLength(), AdaptiveLength(costs=Costs((1.0, 1.5), 0.1))):
        refuses("draft_tokens must be a number", model, Tree(model), draft_tokens=length)


def test_bad_arguments_of_a_tree_are_refused():
    model = target()
    with pytest.raises(ValueError, match="NGram has none"):
        Tree(NGram())
    with pytest.raises(ValueError, match="depth"):
        Tree(model, 0)
    with pytest.raises(TypeError, match="drawn"):
        Tree(model, drawn=1)


@pytest.mark.parametrize("parents", [(0, -1), (-1, 1), (-2, -1), (-1,)])
def test_parents_that_are_no_tree_are_refused(parents):
    class Wrong(Siblings):
        def propose(self, texts, limits, sampler):
            return Proposal(mx.array([[1, 2]]), parents=parents)

    refuses("2 parents from -1", target(), Wrong(), draft_tokens=4)


def test_a_tree_that_was_not_announced_is_refused():
    class Sly(Siblings):
        trees = False

    refuses("trees = True", target(), Sly(), draft_tokens=4)


@pytest.mark.parametrize("whose", ["draft", "target"])
@pytest.mark.parametrize("rule", ["match", "rejection", "block"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_are_refused(whose, rule, temperature):
    """And the caches stand where the text does."""
    models = {"target": target("llama", peak=2), "draft": near(target("llama", peak=2), 0.1)}
    bad = models[whose]
    right, calls = type(bad).output, [0]

    class Sick(type(bad)):
        def output(self, hidden):
            calls[0] += 1
            return right(self, hidden) * (mx.nan if calls[0] > 4 else 1)

    bad.__class__ = Sick
    iterator = SpeculativeTokenIterator(
        models["target"], Tree(models["draft"]), PROMPT, draft_tokens=5, rule=rule,
        temperature=temperature,
    )  # fmt: skip
    with pytest.raises(ValueError, match=f"{whose}: the model's logits must be finite"):
        for _ in iterator:
            pass
    assert kv.offset(iterator.cache) == max(0, len(PROMPT) + len(iterator.tokens) - 1) * bool(
        iterator.tokens
    )

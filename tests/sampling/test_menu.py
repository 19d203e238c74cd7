"""The menu: each item is its definition, spelled out in float64, in every door and under each rule.

A chi-square test here fails at a chance below 10⁻⁷.
"""

import math

from lablib.inference import (
    SpeculativeTokenIterator,
    TokenIterator,
    majority_vote,
    sample_n,
    speculative_sample_n,
)
from lablib.inference.completions import samples
from lablib.inference.sampling import menu
from lablib.inference.speculation import NGram, Tree

import mlx.core as mx
import numpy as np
import pytest
from oracles.scripted import Recorder, random_table
from oracles.speculation import near, target
from oracles.steering import too_far

RARE = 1e-7
INF = math.inf


def softmax(x):
    x = np.asarray(x, np.float64)
    x = np.exp(x - x.max())
    return x / x.sum()


# --- each by its definition: (text, logits) -> probabilities ----------------------------------


def kept(p, keep):
    p = np.where(keep, p, 0.0)
    return p / p.sum()


def entropy(p):
    return -sum(x * math.log(x) for x in p if x > 0)


def top_n_sigma(text, x, n):
    there = [each for each in x if each > -INF]
    return kept(softmax(x), [each >= max(x) - n * np.std(there) for each in x])


def typical(text, x, mass):
    p = softmax(x)
    h = entropy(p)
    nearest = sorted((i for i in range(len(p)) if p[i] > 0), key=lambda i: abs(-math.log(p[i]) - h))
    stay, total = [], 0.0
    for i in nearest:
        if total >= mass and stay:
            break
        stay.append(i)
        total += p[i]
    return kept(p, [i in stay for i in range(len(p))])


def epsilon(text, x, least):
    p = softmax(x)
    return kept(p, [each >= least or each == max(p) for each in p])


def eta(text, x, least):
    p = softmax(x)
    bound = min(least, math.sqrt(least) * math.exp(-entropy(p)))
    return kept(p, [each >= bound or each == max(p) for each in p])


def xtc(text, x, threshold, probability):
    p = softmax(x)
    top = sorted(
        (i for i in range(len(p)) if p[i] >= threshold and x[i] > -INF), key=lambda i: (-p[i], i)
    )
    without = kept(p, [i not in top[:-1] for i in range(len(p))])
    return (1 - probability) * p + probability * without


def logit_bias(text, x, biases):
    return softmax([each + biases.get(i, 0.0) for i, each in enumerate(x)])


def dry(text, x, multiplier, base, allowed_length, breakers=()):
    """Every ending of the text is looked for before every token."""
    x = list(x)
    text = list(text)
    for token in range(len(x)):
        longest = 0
        for n in range(1, len(text)):
            end = text[-n:]
            if {*end, token} & {*breakers}:
                continue
            longest = n if any(
                [*end, token] == text[i : i + n + 1] for i in range(len(text) - n)
            ) else longest  # fmt: skip
        if longest >= allowed_length:
            x[token] -= multiplier * base ** (longest - allowed_length)
    return softmax(x)


def mirostat(prompt, text, logits_of, tau, rate):
    """The distribution after a whole text, whose tokens were drawn by it."""
    mu = 2 * tau
    for i in range(len(text) + 1):
        p = softmax(logits_of([*prompt, *text[:i]]))
        left = kept(p, [-math.log2(each) <= mu or each == max(p) for each in p])
        if i < len(text):
            mu -= rate * (-math.log2(left[text[i]]) - tau)
    return left


ITEMS = {
    "top_n_sigma": (menu.top_n_sigma, top_n_sigma, {"n": 0.8}),
    "typical": (menu.typical, typical, {"mass": 0.6}),
    "epsilon": (menu.epsilon, epsilon, {"least": 0.15}),
    "eta": (menu.eta, eta, {"least": 0.35}),
    "xtc": (menu.xtc, xtc, {"threshold": 0.15, "probability": 0.7}),
    "logit_bias": (menu.logit_bias, logit_bias, {"biases": {1: 1.5, 3: -2.0}}),
    "dry": (menu.dry, dry, {"multiplier": 1.5, "base": 1.5, "allowed_length": 1}),
}
SETTINGS = {
    "top_n_sigma": [{"n": 0.0}, {"n": 1.0}, {"n": 2.5}, {"n": 99.0}],
    "typical": [{"mass": 0.0}, {"mass": 0.2}, {"mass": 0.9}, {"mass": 1.0}],
    "epsilon": [{"least": 0.0}, {"least": 0.02}, {"least": 0.3}, {"least": 1.0}],
    "eta": [{"least": 0.0}, {"least": 0.02}, {"least": 0.3}, {"least": 1.0}],
    "xtc": [{"threshold": t, "probability": q} for t in (0.0, 0.1, 0.3, 0.9) for q in (0, 0.5, 1)],
    "logit_bias": [{"biases": {0: -100.0}}, {"biases": {7: 3.0, 2: 0.0}}],
    "dry": [
        {"multiplier": 1.0, "base": 1.75, "allowed_length": 2},
        {"multiplier": 0.5, "base": 1.0, "allowed_length": 1, "breakers": [2]},
        {"multiplier": 0.0, "base": 3.0, "allowed_length": 1},
    ],
}
CASES = [(name, how) for name, each in SETTINGS.items() for how in each]


@pytest.mark.parametrize(("name", "how"), CASES, ids=str)
def test_each_item_is_its_definition(name, how):
    make, oracle, _ = ITEMS[name]
    rng = np.random.default_rng(4)
    item = make(**how)
    for spread in (0.3, 1.5, 6.0):
        for masked in (False, True):
            x = rng.normal(scale=spread, size=12).astype(np.float32)
            if masked:
                x[rng.choice(12, 4, replace=False)] = -INF
            text = rng.integers(0, 3, size=int(rng.integers(2, 12)))
            found = item(mx.array(text), mx.array(x[None]))
            assert found.shape == (1, 12)
            probs = np.array(mx.softmax(found.astype(mx.float32), axis=-1)[0])
            assert np.isfinite(probs).all()
            np.testing.assert_allclose(probs, oracle(text, x, **how), atol=2e-6)


@pytest.mark.parametrize("name", ITEMS)
def test_each_item_changes_something_that_the_oracle_of_another_does_not(name):
    """The cases tell the items apart: no oracle passes for two of them."""
    make, _, how = ITEMS[name]
    x = np.array([-1.1, 0.3, -0.1, -0.1, 0.4, 0.9], np.float32)
    text = np.array([1, 2, 3, 1, 2])
    found = np.array(mx.softmax(make(**how)(mx.array(text), mx.array(x[None]))[0]))
    assert np.abs(found - softmax(x)).max() > 0.01
    for other, (_, oracle, settings) in ITEMS.items():
        gap = np.abs(found - oracle(text, x, **settings)).max()
        assert (gap < 1e-5) == (other == name), other


def test_equal_tokens_are_told_apart_by_their_ids():
    x = mx.zeros((1, 4))
    tokens = mx.array([1])
    assert mx.isfinite(menu.typical(0.4)(tokens, x)).tolist() == [[True, True, False, False]]
    assert mx.isfinite(menu.xtc(0.2, 1.0)(tokens, x)).tolist() == [[False, False, False, True]]


def test_repeats_are_counted_back_to_a_breaker():
    assert menu.repeats([1, 2, 3, 1, 2]) == {3: 2}
    assert menu.repeats([1, 2, 3, 9, 2, 4, 1, 2]) == {3: 2, 4: 1}
    assert menu.repeats([1, 2, 3, 1, 2], [1]) == {3: 1}
    assert menu.repeats([1, 2, 3, 1, 2], [3]) == {}
    assert menu.repeats([1, 1, 1, 1]) == {1: 3}
    assert menu.repeats([5]) == {}


def repeats_pair_by_pair(text, breakers=()):
    """Each place beside the end, one token after another: quadratic where a text repeats."""
    longest = {}
    for place in range(1, len(text)):
        n = 0
        while n < place and text[place - 1 - n] == text[-1 - n] not in breakers:
            n += 1
        if n and text[place] not in breakers:
            longest[text[place]] = max(n, longest.get(text[place], 0))
    return longest


@pytest.mark.parametrize("kinds", [1, 2, 3, 30])
def test_repeats_are_those_of_every_pair_of_places(kinds):
    """Random texts, random passages again and again, breakers at the end, none, all, some."""
    rng = np.random.default_rng(kinds)
    for _ in range(1500):
        text = rng.integers(0, kinds, size=rng.integers(0, 40)).tolist()
        if rng.random() < 0.5:
            text = (text[: rng.integers(1, 9)] * 20)[: rng.integers(0, 60)]
        breakers = rng.choice(kinds, size=rng.integers(0, min(kinds, 3) + 1), replace=False)
        breakers = frozenset(breakers.tolist() if rng.random() < 0.7 else [])
        wanted = repeats_pair_by_pair(text, breakers)
        assert menu.repeats(text, breakers) == wanted
        item = menu.dry(1.5, 1.5, 2, breakers)
        losses = [1.5 * 1.5 ** min(n - 2, 60) if n >= 2 else 0.0 for n in range(80)]
        lost = [losses[wanted.get(token, 0)] for token in range(kinds)]
        found = item(mx.array(text, mx.int32), mx.zeros((1, kinds)))
        np.testing.assert_allclose(np.array(-found[0]), lost, rtol=1e-6)


class Compared(int):
    """A token that counts how often it is compared with another."""

    times = 0

    def __eq__(self, other):
        type(self).times += 1
        return int(self) == int(other)

    __hash__ = int.__hash__


SHAPES = {
    "one token": lambda n: [7] * n,
    "two in turn": lambda n: [7, 8] * (n // 2),
    "one, and another at the end": lambda n: [7] * (n - 1) + [8],
    "a passage of a half": lambda n: [*range(n // 2)] * 2,
    "Fibonacci's": lambda n: fibonacci(n),
}


def fibonacci(n):
    before, text = [7], [7, 8]
    while len(text) < n:
        before, text = text, text + before
    return text[:n]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("breakers", [(), (9,)])
def test_the_steps_of_dry_grow_as_the_text(shape, breakers, monkeypatch):
    """Steps are counted, not timed: comparisons of tokens, which were n² / 2 of equal ones."""
    monkeypatch.setattr(menu, "listed", lambda tokens: [*map(Compared, tokens.tolist())])
    steps = {}
    for n in (500, 1000, 4000):
        Compared.times = 0
        menu.dry(breakers=breakers)(mx.array(SHAPES[shape](n)), mx.zeros((1, 5000)))
        steps[n] = Compared.times
        assert steps[n] <= 6 * n, steps


def test_a_long_passage_loses_what_the_longest_one_that_counts_does():
    x = mx.zeros((1, 9))
    lost = [-menu.dry()(mx.array([7] * n), x)[0, 7].item() for n in (62, 63, 64, 4000)]
    assert lost[0] == pytest.approx(0.8 * 1.75**59)
    assert lost[1:] == [pytest.approx(0.8 * 1.75**60)] * 3


# --- every door -------------------------------------------------------------------------------

PROMPT = [3, 1, 4, 3, 1]
V = 6
HOW = {"max_tokens": 5, "stop_tokens": [0], "seed": 5, "temperature": 1.0}
ALL = {name: (lambda make=make, how=how: make(**how)) for name, (make, _, how) in ITEMS.items()}
ALL["mirostat"] = lambda: menu.Mirostat(1.0, 0.6)


@pytest.fixture(scope="module")
def model():
    return Recorder(random_table(vocab_size=V, spread=1.2))


@pytest.fixture(scope="module")
def draft():
    return Recorder(random_table(vocab_size=V, spread=1.2, seed=4))


@pytest.mark.parametrize("name", ALL)
def test_in_every_door_the_texts_are_the_same(model, draft, name):
    how = {**HOW, "logits_processors": [ALL[name]()]}
    wanted = [
        [token.id for token in TokenIterator(model, PROMPT, stream=i, **how)] for i in range(10)
    ]
    assert wanted != sample_n(model, PROMPT, 10, **HOW).tokens
    assert sample_n(model, PROMPT, 10, **how).tokens == wanted
    assert sample_n(model, PROMPT, 10, max_batch=3, **how).tokens == wanted
    assert samples(model, [PROMPT, PROMPT], **how).join().tokens == wanted[:2]
    votes = majority_vote(model, PROMPT, 10, extract=tuple, **how)
    assert {*votes.answers} == {*map(tuple, wanted)}
    for drafter in (draft, NGram()):
        rows = speculative_sample_n(model, drafter, PROMPT, 10, rule="match", **how)
        assert rows.tokens == wanted
    coupled = [
        speculative_sample_n(model, each, PROMPT, 10, rule="coupled", **how).tokens
        for each in (draft, NGram())
    ]
    assert coupled[0] == coupled[1]


@pytest.mark.parametrize("name", ALL)
def test_in_trees_too(name):
    model = target(vocab_size=V, peak=2)
    how = {**HOW, "logits_processors": [ALL[name]()]}
    for i in range(4):
        tree = SpeculativeTokenIterator(
            model, Tree(near(model, 0.3)), PROMPT, stream=i, rule="match", **how
        )
        plain = TokenIterator(model, PROMPT, stream=i, **how)
        assert [token.id for token in tree] == [token.id for token in plain]


def every_text(model, name, n=3):
    """Every text with its chance, by the oracles."""
    found = {}

    def visit(text, chance):
        if len(text) == n or text[-1:] == (0,):
            found[text] = chance
            return
        if name == "mirostat":
            p = mirostat(PROMPT, text, model.logits, 1.0, 0.6)
        else:
            _, oracle, how = ITEMS[name]
            p = oracle([*PROMPT, *text], model.logits([*PROMPT, *text]), **how)
        for i in np.flatnonzero(p):
            visit((*text, int(i)), chance * p[i])

    visit((), 1.0)
    assert math.isclose(sum(found.values()), 1.0)
    return found


@pytest.mark.grid(
    lambda name, rule: rule == "none" or name in ("xtc", "dry", "mirostat"), rest="slow"
)
@pytest.mark.grid(lambda name, rule: rule == "none" or name in ("xtc", "dry"))
@pytest.mark.parametrize(
    ("name", "rule"),
    [(name, rule) for name in ALL for rule in ("none", "rejection")] + [("mirostat", "block")],
)
def test_the_distribution_is_that_of_the_definition(model, draft, name, rule):
    how = {**HOW, "max_tokens": 3, "logits_processors": [ALL[name]()]}
    if rule == "none":
        rows = sample_n(model, PROMPT, 700, **how)
    else:
        rows = speculative_sample_n(model, draft, PROMPT, 700, rule=rule, draft_tokens=2, **how)
        assert 0 < rows.stats["total_accepted"] < rows.stats["total_reached"]
    assert too_far(rows.tokens, every_text(model, name)) > RARE
    free = sample_n(model, PROMPT, 700, **{**HOW, "max_tokens": 3})
    assert too_far(free.tokens, every_text(model, name)) < RARE


# --- what users should know -------------------------------------------------------------------


def test_xtc_and_penalties_quarrel(model):
    """It looks at the model's own scores: a penalty can bring back nothing of what it has dropped.

    After a penalty, as in other engines' order, the top choice is another one.
    """
    x = np.array([2.0, 1.0, -3.0, -3.0], np.float32)
    text = mx.array([0, 0])
    item = menu.xtc(0.2, 1.0)
    ours = np.array(item(text, mx.array(x[None])))[0] - np.array([2.0, 0, 0, 0])  # then a penalty
    theirs = np.array(item(text, mx.array(x[None] - np.array([[2.0, 0, 0, 0]]))))[0]
    assert softmax(ours).argmax() == 1
    assert softmax(theirs)[0] > 0.9 > softmax(ours)[0] == 0.0


def test_dry_lets_go_what_a_repeat_penalty_holds_down():
    """A word that comes often is no passage that comes again: DRY sees none, a penalty does."""
    x = mx.zeros((1, 5))
    apart = mx.array([1, 2, 1, 3, 1, 4])
    again = mx.array([1, 2, 3, 1, 2])
    item = menu.dry()
    assert mx.array_equal(item(apart, x), x)
    assert item(again, x).tolist() == [[0, 0, 0, pytest.approx(-0.8), 0]]


def test_mirostat_comes_near_its_surprise():
    model = Recorder(random_table(vocab_size=64, spread=1.0, rows=997))
    how = {"max_tokens": 400, "seed": 3, "temperature": 1.0, "stop_tokens": ()}
    for tau in (1.5, 3.0):
        rows = sample_n(model, PROMPT, 4, logits_processors=[menu.Mirostat(tau)], **how)
        bits = []
        for text in rows.tokens:
            mu = 2 * tau
            for i, token in enumerate(text):
                p = softmax(model.logits([*PROMPT, *text[:i]]))
                left = kept(p, [-math.log2(each) <= mu or each == max(p) for each in p])
                bits.append(-math.log2(left[token]))
                mu -= 0.1 * (bits[-1] - tau)
        assert np.mean(bits) == pytest.approx(tau, abs=0.1)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: menu.top_n_sigma(-1), "n must be"),
        (lambda: menu.typical(1.5), "mass must be"),
        (lambda: menu.epsilon(-0.1), "least must be"),
        (lambda: menu.eta(math.nan), "least must be"),
        (lambda: menu.xtc(2.0), "threshold must be"),
        (lambda: menu.xtc(0.1, -1), "probability must be"),
        (lambda: menu.logit_bias({}), "biases must hold"),
        (lambda: menu.logit_bias({-1: 1.0}), r"biases\[0\] must be"),
        (lambda: menu.logit_bias({1: "x"}), r"biases\[1\] must be a number"),
        (lambda: menu.logit_bias({9: 1.0})(mx.array([1]), mx.zeros((1, 4))), "ids below 4, got 9"),
        (lambda: menu.dry(-1.0), "multiplier must be"),
        (lambda: menu.dry(base=0.5), "base must be"),
        (lambda: menu.dry(allowed_length=0), "allowed_length must be"),
        (lambda: menu.dry(breakers=["x"]), r"breakers\[0\] must be"),
        (lambda: menu.Mirostat(-1.0), "tau must be"),
        (lambda: menu.Mirostat(1.0, -0.1), "rate must be"),
    ],
)
def test_bad_settings_are_refused(call, told):
    with pytest.raises((ValueError, TypeError), match=told):
        call()

"""How many drafts pay: a rate for each place, against enumeration; costs that drift."""

import itertools

from lablib.inference.speculation.costs import Costs, best_draft_tokens, expected_tokens, speedup
from lablib.inference.speculation.draft_length import AdaptiveLength, as_length
from lablib.validation import BadType, BadValue

import numpy as np
import pytest

COSTS = Costs(tuple(1 + 0.1 * i for i in range(9)), 0.15)
FALLING = [0.9, 0.9, 0.2]  # every place beyond the third is like the third


def at_place(rates, i):
    return rates[min(i, len(rates) - 1)]


def enumerated(rates, gamma):
    """Expected tokens of a round: each draft is kept or not, and what follows a refusal is lost."""
    total = 0.0
    for kept in itertools.product((True, False), repeat=gamma):
        chances = [at_place(rates, i) if keep else 1 - at_place(rates, i)
                   for i, keep in enumerate(kept)]  # fmt: skip
        total += np.prod(chances) * (1 + len(list(itertools.takewhile(bool, kept))))
    return total


def best_by_enumeration(rates, costs, most=8):
    speeds = [enumerated(rates, g) / costs.of_round(g) for g in range(most + 1)]
    return int(np.argmax(speeds)), max(speeds)


RATES = [FALLING, [0.3], [0.6], [0.8], [0.95], [0.9, 0.2], [0.2, 0.9], [0.99] * 4 + [0.1]]
RATES += [[0.0], [1.0]]


@pytest.mark.parametrize("rates", RATES, ids=str)
def test_expected_tokens_and_the_best_length_equal_enumeration(rates):
    for gamma in range(9):
        assert expected_tokens(rates, gamma) == pytest.approx(enumerated(rates, gamma), abs=1e-12)
        assert expected_tokens(np.array(rates), gamma) == expected_tokens(tuple(rates), gamma)
    assert best_draft_tokens(rates, COSTS, 8) == best_by_enumeration(rates, COSTS)[0]
    if len(rates) == 1:
        assert expected_tokens(rates, 5) == expected_tokens(rates[0], 5)


def measured(costs=COSTS):
    """Make a policy that has met these costs in rounds of four drafts and in plain tokens."""
    length = AdaptiveLength(8)
    for gamma in (4, 0):
        for _ in range(3):
            length.timed(gamma, costs.of_round(gamma))
    return length


def text(length, rates, rounds, costs=COSTS, seed=0):
    """Let a policy draft at these rates; returns the tokens a second it got, and its choices."""
    rng, spent, tokens, chosen = np.random.default_rng(seed), 0.0, 0, []
    for _ in range(rounds):
        n, repeats, accepted = length.choose(), 1, 0
        while accepted < n and rng.random() < at_place(rates, accepted):
            accepted += 1
        if n:
            length.observe(min(accepted + 1, n), accepted)
        else:
            repeats = length.plain_tokens
        seconds = costs.of_round(n) * rng.lognormal(0, 0.1, repeats)
        for each in seconds:
            length.timed(n, each)
        spent, tokens = spent + costs.of_round(n) * repeats, tokens + (accepted + 1) * repeats
        chosen.append(n)
    return tokens / spent, chosen


class OneForAll(AdaptiveLength):
    """What it was: one α for all places."""

    @property
    def rates(self):
        return [self.alpha]


@pytest.mark.parametrize("rates", RATES[:-2], ids=str)
def test_the_adaptive_length_comes_near_the_best(rates):
    best = best_by_enumeration(rates, COSTS)[1]
    assert text(AdaptiveLength(8, COSTS), rates, 1500)[0] > 0.95 * best


def test_one_rate_for_all_places_picks_wrongly():
    """Drafts that were kept in the first places speak for places where none is ever kept."""
    steep = [0.95, 0.95, 0.95, 0.05]
    best, speed = best_by_enumeration(steep, COSTS)
    each, ours = text(AdaptiveLength(8, COSTS), steep, 1500)
    one, old = text(OneForAll(8, COSTS), steep, 1500)
    assert best == 3
    assert np.mean(np.array(ours[100:]) == best) > 0.8
    assert np.mean(np.array(old[100:]) == best) < 0.5
    assert each > 0.97 * speed > one


def test_the_rate_of_a_place_is_its_own_and_of_an_unseen_one_that_of_all():
    length = AdaptiveLength(4, COSTS, memory=1000, alpha=0.5)
    assert length.rates == [0.5] * 4
    for _ in range(300):  # the first is kept always, the second never
        length.observe(2, 1)
    first, second, third, fourth = length.rates
    assert first > 0.98 > 0.02 > second
    assert 0.45 < length.alpha < 0.55
    assert third == fourth == length.alpha


def test_places_behind_a_bad_one_are_tried():
    """Where a text has a period, one hard token comes between easy ones."""
    length = AdaptiveLength(8, Costs.from_ratio(0.15))
    for _ in range(20):
        length.observe(3, 2)
        length.observe(3, 3)
    assert length.choose() > 3


def test_what_is_not_drafted_fades_so_that_it_is_tried_again():
    length = AdaptiveLength(4, COSTS, memory=16)
    for _ in range(50):
        length.observe(3, 2)
    assert length.rates[2] < 0.2
    for _ in range(100):
        length.observe(2, 2)
    assert length.rates[2] > 0.9


CHANGES = {
    "all slower": Costs(tuple(3 * t for t in COSTS.target), 3 * COSTS.draft),
    "verification dearer": Costs(tuple(1 + 0.8 * i for i in range(9)), COSTS.draft),
    "drafts dearer": Costs(COSTS.target, 0.9),
}


@pytest.mark.parametrize("name", CHANGES)
def test_costs_that_drift_are_followed(name):
    after = CHANGES[name]
    best = best_by_enumeration([0.8], after)[1]
    blind, told = AdaptiveLength(8, COSTS), measured()
    speeds = []
    for length in (blind, told):
        text(length, [0.8], 200)
        speeds.append(text(length, [0.8], 600, after, seed=1)[0] / best)
    if name == "all slower":
        assert min(speeds) > 0.95
    else:
        assert speeds[0] + 0.07 < speeds[1] > 0.82, speeds
    assert blind.costs is COSTS


def test_one_slow_round_changes_nothing_and_many_do():
    length = measured()
    usual = length.choose()
    for gamma in [usual, 0] * 20:
        length.timed(gamma, COSTS.of_round(gamma))
    length.timed(usual, 1e6)
    assert abs(length.choose() - usual) <= 1
    for _ in range(60):
        length.timed(usual, 10 * COSTS.of_round(usual))
        length.timed(0, COSTS.of_round(0))
    assert length.of_round(usual) == pytest.approx(10 * COSTS.of_round(usual), rel=0.2)
    assert length.choose() == 0
    length.timed(9, 1.0)  # a policy that is told of more than it would choose
    assert length.most == 8


def test_plain_decoding_is_timed_now_and_then():
    """Or nobody knew whether all has become slower, or drafting alone."""
    length, chosen = measured(), []
    for _ in range(300):
        gamma = length.choose()
        repeats = length.plain_tokens if gamma == 0 else 1
        for _ in range(repeats):
            length.timed(gamma, COSTS.of_round(gamma))
        length.observe(gamma, gamma)
        chosen.append((gamma, repeats))
    assert 2 <= sum(gamma == 0 for gamma, _ in chosen) <= 8
    assert {repeats for gamma, repeats in chosen if gamma == 0} == {4}


def test_plain_decoding_and_one_length_price_all_others():
    costs = Costs(tuple(1 + 0.2 * k for k in range(9)), 0.3)
    length = measured(costs)
    assert length.costs is None
    assert [length.of_round(g) for g in range(9)] == pytest.approx(
        [costs.of_round(g) for g in range(9)]
    )


def test_a_length_of_many_rounds_has_its_own_price_and_the_line_is_that_of_the_others():
    costs = Costs((1.0, 1.5), 0.5)
    length = measured(costs)
    for _ in range(200):
        length.timed(0, 2 * costs.of_round(0))
        length.timed(1, 3 * costs.of_round(1))
    drifted = [length.of_round(g) for g in range(2)]
    assert drifted == pytest.approx([2 * 1.0, 3 * 2.0], rel=0.05)
    assert speedup(0.5, 1, length) == pytest.approx(1.5 * drifted[0] / drifted[1])
    assert length.of_round(2) > length.of_round(1)


def test_what_compiles_at_first_is_not_a_price():
    length = AdaptiveLength(8)
    assert length.choose() == 4  # nothing is known
    length.timed(4, 1e6)
    assert length.choose() == 4
    length.timed(4, COSTS.of_round(4))
    assert length.choose() == 0
    assert length.plain_tokens == 4
    for seconds in (1e6, 1.0, 1.0, 1.0):
        length.timed(0, seconds)
    length.timed(7, 1e6)
    for gamma in range(9):
        assert length.of_round(gamma) == pytest.approx(COSTS.of_round(gamma))


def test_more_drafts_are_never_thought_cheaper():
    length = AdaptiveLength(4)
    for gamma, seconds in ((0, 5.0), (4, 1.0), (2, 3.0)):
        for _ in range(3):
            length.timed(gamma, seconds)
    assert length.of_round(1) == pytest.approx(length.of_round(3))  # a flat line


@pytest.mark.parametrize(("told", "most"), [(True, 1.05), (False, 1.1)])
def test_where_drafting_cannot_pay_it_costs_next_to_nothing(told, most):
    """On a machine where T(k) = k T(1) every draft loses, as it is told or finds by the clock."""
    costs = Costs(tuple(float(k) for k in range(1, 10)), 0.2)
    length, spent, tokens = AdaptiveLength(8, costs if told else None), 0.0, 0
    while tokens < 400:
        n = length.choose()
        repeats = 1 if n else length.plain_tokens
        for _ in range(0 if told else repeats):
            length.timed(n, costs.of_round(n))
        if n:
            length.observe(1, 0)  # nothing is ever accepted
        spent, tokens = spent + costs.of_round(n) * repeats, tokens + repeats
    assert spent / tokens < most


def test_what_is_refused():
    for call, error, message in (
        (lambda: expected_tokens([], 2), BadValue, "alpha must hold a rate, got none"),
        (lambda: expected_tokens([0.5, 1.5], 2), BadValue, "alpha must be between 0.0 and 1.0"),
        (lambda: expected_tokens("ab", 2), BadType, "alpha must be a number"),
        (lambda: best_draft_tokens(0.5, 3), BadType, "costs must be Costs, got 3"),
        (lambda: Costs(1.5, 0.1), BadType, "target must be a sequence of seconds, got float"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_a_numpy_integer_is_a_number_of_drafts():
    assert as_length(np.int64(2)).choose() == 2

"""The widgets of lesson 08 compute what they say."""

import functools
import itertools

from lablib.course.lessons.lesson_08 import enumeration as lossless
from lablib.course.lessons.lesson_08 import extras
from lablib.course.lessons.lesson_08 import widgets as lab
from lablib.course.lessons.lesson_08.coin import Overlap, of_coins
from lablib.course.lessons.lesson_08.exercises import verify
from lablib.course.lessons.lesson_08.kept import Kept, kept_drafts
from lablib.course.theory import closed_forms
from lablib.inference.speculation import rules
from lablib.inference.speculation.speculative_iterator import speculative_decode

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import read
from oracles.refusals import refuses
from oracles.tables import TableModel

SHARES = {
    "match": closed_forms.acceptance_match,
    "coupled": closed_forms.acceptance_coupled,
    "rejection": closed_forms.acceptance_rejection,
}
LOSING = (extras.TYPICAL, lab.RESIDUAL_BUG, lab.ACCEPT_BUG)
WORDS = ["sun", "rain", "snow", "fog"]
P, Q = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.2, 0.1, 0.3, 0.4])
TARGET = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])
DRAFT = np.array([[0.3, 0.2, 0.5], [0.5, 0.3, 0.2], [0.2, 0.6, 0.2]])


@pytest.fixture(scope="module")
def overlap():
    return Overlap(WORDS, P, Q)


def test_one_token_is_what_the_rule_says_draft_by_draft() -> None:
    kept, added = lossless.one_token(lab.every_rule()["rejection"], P, Q)
    assert kept == pytest.approx(np.minimum(P, Q), abs=1e-12)
    assert added == pytest.approx(np.maximum(P - Q, 0), abs=1e-12)
    kept, added = lossless.one_token(lab.every_rule()["match"], P, Q)
    assert kept == pytest.approx(P * Q, abs=1e-12)
    assert added == pytest.approx(P * (1 - Q), abs=1e-12)
    kept, added = lossless.one_token(lab.residual_from_p, P, Q)
    assert added == pytest.approx(0.4 * P, abs=1e-12)
    kept, added = lossless.one_token(lab.keep_every_draft, P, Q)
    assert kept == pytest.approx(Q, abs=1e-12)
    assert added == pytest.approx(0, abs=1e-12)


def by_brute_force(rule, start: int, drafted: int) -> np.ndarray:
    """Follow every draft, every length and every token by itself."""
    out = np.zeros((3,) * (drafted + 1))
    for block in itertools.product(range(3), repeat=drafted):
        text = [start, *block]
        p, q = TARGET[text], DRAFT[text[:-1]]
        with mx.stream(mx.cpu):
            arrays = [mx.array(x, dtype=mx.float64) for x in (p, q)]
            outcome = rule(*arrays, mx.array(block))
            kept, following = np.array(outcome.kept), np.array(outcome.following)
        chance = np.prod([DRAFT[a, b] for a, b in itertools.pairwise(text)])
        for n, token in itertools.product(range(drafted + 1), range(3)):
            written = [*block[:n], token]
            for rest in itertools.product(range(3), repeat=drafted - n):
                whole = [*written, *rest]
                pairs = itertools.pairwise([token, *rest])
                tail = np.prod([TARGET[a, b] for a, b in pairs])
                out[tuple(whole)] += chance * kept[n] * following[n, token] * tail
    return out


@pytest.mark.parametrize("name", lab.every_rule())
@pytest.mark.parametrize("drafted", [1, 2])
def test_a_round_is_everything_that_can_happen(name, drafted) -> None:
    joint, tokens = lossless.one_round(lab.every_rule()[name], TARGET, DRAFT, 1, drafted)
    assert joint == pytest.approx(by_brute_force(lab.every_rule()[name], 1, drafted), abs=1e-12)
    right = np.abs(joint - lossless.plain(TARGET, 1, drafted + 1)).max() < 1e-9
    assert right == (not name.startswith(("bug", "lossy")))
    if drafted == 1 and name in SHARES:
        assert tokens == pytest.approx(1 + SHARES[name](TARGET[1], DRAFT[1]), abs=1e-12)


def half(p, q, drafts):
    """A rule of one's own: half of what rejection keeps, and the rest that belongs to it."""
    accept = mx.minimum(rules.ratio_of(p, q, drafts), 1) / 2
    rest = p - mx.minimum(p, rules.padded(q)) / 2
    return rules.Outcome(rules.one_by_one(accept), rules.scaled(rest, p))


def rest_of_another(p, q, drafts):
    return rules.Outcome(half(p, q, drafts).kept, rules.rejection(p, q, drafts).following)


def no_zeros_behind(p, q, drafts):
    longer = mx.concatenate([q, q[..., -1:, :]], axis=-2)
    rest = rules.scaled(mx.maximum(p - longer, 0), p)
    return rules.Outcome(rules.rejection(p, q, drafts).kept, rest)


@pytest.mark.parametrize("rule", [*rules.RULE.values(), half])
def test_a_lossless_rule_has_no_bias(rule) -> None:
    assert lossless.bias(rule) < 1e-9
    assert lossless.bias(rule, drafted=1, languages=50, seed=1) < 1e-9


@pytest.mark.parametrize(
    "rule", [rest_of_another, no_zeros_behind, *(lab.every_rule()[name] for name in LOSING)]
)
def test_any_other_has(rule) -> None:
    assert lossless.bias(rule) > 0.01


def unlimited(p, q, x):
    return mx.minimum(rules._of(p[:, :-1] / q, x), 1)


KEPT, NEXT = "kept of the rule must", "following of the rule must be probabilities with sum 1"
NAN = rf"{KEPT} be probabilities .*, got \[.*nan.*where nothing was drafted"
WRONG = {
    "a sum": (lambda p, q, x: rules.Outcome(rules.match(p, q, x).kept / 2, p), KEPT),
    "below 0": (lambda p, q, x: rules.Outcome(rules.one_by_one(2 + rules._of(q, x)), p), KEPT),
    "NaN": (lambda p, q, x: rules.Outcome(rules.one_by_one(unlimited(p, q, x)), p), NAN),
    "not scaled": (lambda p, q, x: rules.Outcome(rules.match(p, q, x).kept, p / 2), NEXT),
    "a tuple": (lambda p, q, x: (p, q), "must return an Outcome, got tuple"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_rule_is_refused(name) -> None:
    rule, message = WRONG[name]
    refuses((TypeError, ValueError), message, lossless.bias, rule)
    refuses(TypeError, "rule must be callable, got 'match'", lossless.bias, "match")


def test_plain_is_the_chain_rule() -> None:
    joint = lossless.plain(TARGET, 2, 3)
    assert joint[0, 2, 1] == pytest.approx(0.3 * 0.1 * 0.2, abs=1e-15)
    assert joint.sum() == pytest.approx(1, abs=1e-12)


def test_chi_square() -> None:
    assert lab.chi_square([8, 12], [0.5, 0.5]) == pytest.approx(0.8)
    assert lab.chi_square([8, 12], [2.0, 2.0]) == pytest.approx(0.8)  # p is normalised
    refuses(ValueError, "p must be positive", lab.chi_square, [1, 2], [0.0, 1.0])


def test_a_distance_of_0_is_the_target_and_of_1_the_draft() -> None:
    assert lab.between(P, Q, 0.0) == pytest.approx(P)
    assert lab.between(P, Q, 1.0) == pytest.approx(Q)
    middle = lab.between(TARGET, DRAFT, 0.5)
    assert middle.sum(axis=1) == pytest.approx(1)
    assert middle[0] == pytest.approx(np.sqrt(TARGET[0] * DRAFT[0]) / middle_sum(0))


def middle_sum(row: int) -> float:
    return np.sqrt(TARGET[row] * DRAFT[row]).sum()


def test_the_overlap_follows_its_controls(overlap) -> None:
    data = overlap.compute(distance=1.0, temperature=1.0, rule="rejection")
    assert data["min"] == pytest.approx(0.6)
    assert data["dot"] == pytest.approx(0.21)
    assert read(overlap.draw(data))
    sharp = overlap.compute(distance=1.0, temperature=0.5, rule="match")
    assert sharp["q"] == pytest.approx(Q**2 / (Q**2).sum())
    assert sharp["kept"] + sharp["added"] == pytest.approx(P, abs=1e-12)
    said = "60% of the drafts are kept (Σ min(p, q) = 0.60), and what is written is exactly p"
    assert said in overlap.set(distance=1.0, temperature=1.0, rule="rejection")
    assert "not p: wrong by up to 0.080" in overlap.set(rule=lab.RESIDUAL_BUG)
    assert "100% of the drafts" in overlap.set(rule=lab.ACCEPT_BUG)
    assert "21% of the drafts are kept (rejection keeps Σ" in overlap.set(rule="match")


def test_the_round_says_whether_it_is_exact() -> None:
    widget = lab.RoundTexts("abc", TARGET, DRAFT, list(lab.every_rule()))
    assert len(widget.texts) == 27
    assert widget.texts[5] == "abc"
    data = widget.compute(distance=1.0, rule=lab.RESIDUAL_BUG)
    assert data["truth"][5] == pytest.approx(0.6 * 0.3 * 0.3)
    assert data["written"].sum() == pytest.approx(1)
    assert [*data["tokens"]] == widget.names  # every rule has its bar, and its name beside it
    drawn = widget.draw(data)["panels"][1]
    assert [mark["bar"][1] for mark in drawn["marks"]] == [*data["tokens"].values()]
    rows = [(mark["bar"][2] + mark["bar"][3]) / 2 for mark in drawn["marks"]]
    ticks = widget.constants["panels"][1]["y"]["ticks"]
    assert rows == pytest.approx([at for at, _ in ticks])
    assert [name for _, name in ticks] == widget.names
    assert data["tokens"]["match"] < data["tokens"]["rejection"] < data["tokens"]["block"]
    assert "as the target alone does" in widget.set(rule="block")
    assert "wrong by up to" in widget.set(rule=lab.ACCEPT_BUG)
    assert "3.00 tokens" in widget.view.caption
    assert "wrong" not in widget.set(distance=0.0)  # nothing to refuse


def test_bad_input_is_refused_in_a_line() -> None:
    refuses(ValueError, "must have the same shape", Overlap, WORDS, P, Q[:3])
    refuses(ValueError, "positive everywhere", Overlap, WORDS, P, [0.5, 0.5, 0.0, 0.0])
    refuses(ValueError, "sum to 1", lab.RoundTexts, "abc", TARGET, DRAFT * 2, ["rejection"])


def test_typical_acceptance_keeps_what_is_likely_and_draws_from_p_after_it() -> None:
    entropy = -(P * np.log(P)).sum()
    limit = min(0.25, 0.5 * np.exp(-entropy))
    assert 0.1 < limit < 0.2
    kept, added = lossless.one_token(extras.typical, P, Q)
    assert kept == pytest.approx(np.where(limit < P, Q, 0), abs=1e-12)
    assert added == pytest.approx(Q[3] * P, abs=1e-12)
    strict = functools.partial(extras.typical, epsilon=0.09, delta=0.3)
    assert lossless.one_token(strict, P, Q)[0] == pytest.approx(Q, abs=1e-12)  # keeps all


def test_the_lossy_rule_is_not_the_engines() -> None:
    assert extras.TYPICAL not in rules.RULE
    pair = [TableModel(3, lambda context: np.zeros(3)) for _ in range(2)]
    with pytest.raises(ValueError, match="rule must be one of"):
        speculative_decode(pair[0], pair[1], [1], rule=extras.TYPICAL)


@pytest.mark.parametrize("name", lab.every_rule())
def test_each_judged_word_brings_its_share_and_the_last_one_completes(name, overlap) -> None:
    rule, before = lab.every_rule()[name], np.zeros(len(P))
    for judged in range(len(P) + 1):
        data = overlap.compute(1.0, 1.0, name, judged)
        written = data["kept"] + data["added"]
        assert (written >= before - 1e-12).all()
        assert written.sum() == pytest.approx(Q[:judged].sum(), abs=1e-12)  # nothing is lost
        refused = (Q * (1 - data["keep"]))[:judged].sum()
        assert data["added"].sum() == pytest.approx(refused, abs=1e-12)
        before = written
    assert written == pytest.approx(sum(lossless.one_token(rule, P, Q)), abs=1e-12)
    if name == "rejection":
        assert data["keep"] == pytest.approx(np.minimum(1, P / Q))


def test_the_coins_are_tossed_word_by_word(overlap) -> None:
    overlap.set(distance=1.0, temperature=1.0, rule="rejection")
    assert overlap.controls["judged"].value == overlap.controls["judged"].play.value == 4
    caption = overlap.set(judged=3)
    assert "judged: sun, rain, snow. 0.60 of the drafts, 0.50 kept, 0.10 refused" in caption
    assert "judged: nothing yet" in overlap.set(judged=0)
    overlap.set(judged=4)


def test_a_rule_of_coins_is_the_librarys(overlap) -> None:
    own = Overlap(WORDS, P, Q, {"yours": of_coins(verify)})
    data = own.compute(1.0, 1.0, "yours")
    known = overlap.compute(1.0, 1.0, "rejection")
    for name in ("keep", "kept", "added"):
        assert data[name] == pytest.approx(known[name], abs=1e-9)
    assert "With the rule ‘yours’ 60% of the drafts are kept" in own.set(distance=1.0)
    assert own.view.caption.endswith("what is written is exactly p.")


@pytest.mark.parametrize(
    ("judge", "kept"),
    [
        (lambda p, q, drafts, u: (1, p[1]), 1.0),  # never refused
        (lambda p, q, drafts, u: (0, p[0]), 0.0),  # never kept
        (lambda p, q, drafts, u: (int(u[0] < 0.3), p[int(u[0] < 0.3)]), 0.3),
    ],
)
def test_of_coins_finds_the_chance_of_any_judge(judge, kept) -> None:
    chances, _ = lossless.by_draft(of_coins(judge), P, Q)
    assert chances == pytest.approx(kept, abs=1e-9)


def test_drafts_are_counted_where_they_were_judged() -> None:
    target, draft = TableModel(3, lambda c: TARGET[c[-1]]), TableModel(3, lambda c: DRAFT[c[-1]])
    options = {"temperature": 1.0, "max_tokens": 12, "draft_tokens": 3}
    found = kept_drafts(target, draft, [[0], [1], [2, 1]], **options)
    softmax = [np.exp(t) / np.exp(t).sum(axis=1, keepdims=True) for t in (TARGET, DRAFT)]
    shared = np.minimum(*softmax).sum(axis=1)
    assert [place.shared for place in found.places] == pytest.approx(
        [shared[place.before[-1]] for place in found.places], abs=1e-5
    )
    assert 0 < found.kept <= found.judged == len(found.places)
    assert found.share == found.kept / found.judged
    assert found.promised == pytest.approx(np.mean([place.shared for place in found.places]))
    assert found.hardest.shared == min(place.shared for place in found.places)
    coins = [place.shared * (1 - place.shared) for place in found.places]
    assert found.spread == pytest.approx(2 * np.sqrt(sum(coins)) / found.judged)
    assert (found + Kept()) == found
    again = kept_drafts(target, draft, [[0], [1], [2, 1]], **options)
    assert again == found


def test_the_same_model_keeps_all_and_every_place_begins_with_its_prompt() -> None:
    target = TableModel(3, lambda c: TARGET[c[-1]])
    found = kept_drafts(target, target, [[2, 1]], temperature=1.0, max_tokens=9)
    assert found.share == 1
    assert found.promised == pytest.approx(1, abs=1e-6)
    assert all(place.before[:2] == [2, 1] for place in found.places)
    lengths = [len(place.before) for place in found.places]
    assert lengths == sorted(lengths)
    assert lengths[0] == 2

"""The widgets of lesson 17 compute what they say: against a list of every text."""

import itertools

from lablib.course.lessons.lesson_17 import chains
from lablib.course.lessons.lesson_17.language import WEATHER, Chain
from lablib.course.lessons.lesson_17.widgets import GRAMMARS, Cloud, Masked
from lablib.inference.steering import Grammar, Vocabulary, importance_sample

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import read
from oracles.refusals import refuses

FIRST = [0.5, 0.3, 0.1, 0.1]
AFTER = [
    [0.80, 0.08, 0.10, 0.02],
    [0.70, 0.10, 0.10, 0.10],
    [0.40, 0.20, 0.20, 0.20],
    [0.05, 0.05, 0.30, 0.60],
]


@pytest.fixture(scope="module")
def masked() -> Masked:
    return Masked()


@pytest.fixture(scope="module")
def cloud() -> Cloud:
    return Cloud()


def chance(text: tuple[int, ...]) -> float:
    p = FIRST[text[0]]
    for before, word in itertools.pairwise(text):
        p *= AFTER[before][word]
    return p


# --- the language -----------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 2, 4])
def test_every_text_has_its_chance(n: int) -> None:
    every = WEATHER.texts(n)
    assert len(every) == 4**n
    assert sum(every.values()) == pytest.approx(1)
    for text, p in every.items():
        assert p == pytest.approx(chance(text))


def test_it_is_asked_as_a_model_is() -> None:
    logs = WEATHER.batch_next_token_logprobs_sync([[4], [4, 0], [4, 0, 3]])
    rows = np.exp(np.array(logs))
    assert rows == pytest.approx(np.array([[*FIRST, 0], [*AFTER[0], 0], [*AFTER[3], 0]]))


def wanted_by_hand(text: tuple[int, ...]) -> bool:
    return text[-1] == 3 and text.count(0) < 2


def test_masked_and_true_are_those_of_a_list() -> None:
    every = {text: chance(text) for text in itertools.product(range(4), repeat=3)}
    good = {text: p for text, p in every.items() if wanted_by_hand(text)}
    true, share = WEATHER.true(3, wanted_by_hand)
    assert share == pytest.approx(sum(good.values()))
    assert true == pytest.approx({text: p / share for text, p in good.items()})
    found = WEATHER.masked(3, wanted_by_hand)
    assert sum(found.values()) == pytest.approx(1)
    # sun, then no sun, then ice
    by_hand = FIRST[0] * (AFTER[0][1] / (1 - AFTER[0][0])) * 1
    assert found[0, 1, 3] == pytest.approx(by_hand)


def test_a_share_is_the_sum_of_its_texts() -> None:
    allowed = np.array([False, True, True, True])
    for n in (1, 3, 5):
        texts = itertools.product((1, 2, 3), repeat=n)
        assert WEATHER.share(allowed, n) == pytest.approx(sum(map(chance, texts)))


def test_bad_tables_are_refused() -> None:
    refuses(ValueError, "first and after", Chain, "ab", [0.5, 0.5], [[0.5, 0.5], [0.5, 0.6]])
    refuses(ValueError, "n must be", WEATHER.texts, 0)


# --- every text at once -----------------------------------------------------------------------
@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("dependence", [0.0, 0.4, 1.0])
def test_weights_mend_a_mask(masked: Masked, name: str, dependence: float) -> None:
    plain = masked.compute(name, dependence, False)
    weighed = masked.compute(name, dependence, True)
    for data in (plain, weighed):
        for series in ("model", "shown", "true"):
            assert data[series].sum() == pytest.approx(1)
        assert not data["shown"][~data["wanted"]].any()
        assert data["share"] == pytest.approx(data["model"][data["wanted"]].sum())
    assert weighed["shown"] == pytest.approx(weighed["true"])
    texts, ways = read(masked.draw(plain))
    bars = [mark for mark in texts if "bar" in mark]
    model, shown = ([m["bar"][3] for m in bars if m["hollow"] == outline] for outline in (1, 0))
    mass = np.repeat([mark["bar"][3] for mark in ways if "bar" in mark], 4)
    wanted = plain["wanted"]  # the mask's chance is the model's, divided by what was allowed
    left = np.array(shown)[wanted] * mass[wanted]
    assert left == pytest.approx(np.array(model)[wanted], abs=1e-4)


def test_a_mask_alone_is_right_only_where_nothing_is_hidden(masked: Masked) -> None:
    def gap(name: str, dependence: float) -> float:
        data = masked.compute(name, dependence, False)
        return float(np.abs(data["shown"] - data["true"]).sum() / 2)

    assert gap("ice on the first day", 1.0) == pytest.approx(0, abs=1e-12)
    assert gap("ice on the second day", 0.0) == pytest.approx(0, abs=1e-12)
    assert gap("ice on the second day", 1.0) == pytest.approx(5 / 12 + 0.05, abs=1e-9)
    assert gap("two different days", 0.0) > 0.01
    assert "0.120 of the model's texts" in masked.set(grammar="ice on the second day")
    assert "0.47 of the mass away" in masked.view.caption
    assert "equal to what" in masked.set(weigh=True)


# --- particles --------------------------------------------------------------------------------
def test_a_cloud_keeps_its_history(cloud: Cloud) -> None:
    whole = cloud.compute(8, 0.6, 3, 6)
    assert len(whole["words"]) == 7
    for day in range(7):  # a shorter week is the beginning of a longer one
        part = cloud.compute(8, 0.6, 3, day)
        assert part["words"] == whole["words"][: day + 1]
        assert part["parents"] == whole["parents"][: day + 1]
    assert all(word in (1, 2, 3) for row in whole["words"] for word in row)
    assert whole["effective"] == pytest.approx(1 / (whole["weights"] ** 2).sum(axis=1))
    moved = [day + 1 for day in range(7) if whole["parents"][day] != [*range(8)]]
    assert {*moved} <= {*whole["drawn"]} != set()
    assert read(cloud.draw(whole))


def test_weights_are_the_allowed_masses(cloud: Cloud) -> None:
    data = cloud.compute(6, 0.0, 2, 3)
    rows = np.array(data["words"])
    weights = np.full(6, 0.5)
    for before in rows[:-1]:
        weights *= 1 - np.array(AFTER)[before, 0]
    assert data["weights"][-1] == pytest.approx(weights / weights.sum(), abs=1e-6)
    assert data["alive"] == [{*range(6)}] * 4  # nobody was drawn anew


def test_ancestors_are_followed_back() -> None:
    parents = [[0, 1, 2], [1, 1, 2], [0, 0, 2]]
    # of the last day 0, 0 and 2 continue 0 and 2 of the second, these 1 and 2 of the first
    assert Cloud.ancestors(parents) == [{1, 2}, {0, 2}, {0, 1, 2}]


def test_the_caption_says_how_often_they_were_drawn_anew(cloud: Cloud) -> None:
    cloud.set(particles=8, ess=0.0, seed=1, day=6)
    assert "8 particles, never drawn anew" in cloud.view.caption
    assert "descend from 8 of the first day" in cloud.view.caption
    text = cloud.set(ess=1.0)
    assert "drawn anew 6 times" in text
    assert cloud.set(day=1).startswith("8 particles, drawn anew 1 time: ")
    assert cloud.set(day=0).endswith("of the first day, and 8.0 are effective.")


def test_the_evidence_has_no_bias(cloud: Cloud) -> None:
    """200 clouds; five standard errors are exceeded by chance less than once in 10⁶."""
    options = {"logits_processors": [cloud.mask], "max_tokens": 4, "stop_tokens": (), "seed": 5}
    (free,) = importance_sample(WEATHER, [[4]], 800, **options)
    weights = np.exp(free.log_weights)
    exact = WEATHER.share(cloud.allowed, 4)
    error = weights.std() / np.sqrt(len(weights))
    assert abs(weights.mean() - exact) < 5 * error
    assert abs(weights.mean() / 0.5 - exact) > 5 * error  # without the first day's it is found out


# --- the sums' grammars -----------------------------------------------------------------------
@pytest.fixture(scope="module")
def totals() -> Grammar:
    texts = [*"0123456789+=;#", "<end>"]
    return Grammar(Vocabulary(texts, [14]), lark=chains.with_totals())


def ids(text: str) -> list[int]:
    return ["0123456789+=;#".index(letter) for letter in text]


@pytest.mark.parametrize(
    ("text", "obeys"),
    [
        ("1+2=3;3+4=8;8+0=8;8+9=7;7+7=4;#4", True),  # wrong sums are no matter
        ("1+2=3;4+4=8;8+0=8;8+9=7;7+7=4;#4", False),
        ("1+2=3;3+4=8;8+0=8;8+9=7;7+7=4;#5", False),
        ("1+2=3;3+4=8;8+0=8;8+9=7;#7", False),
    ],
)
def test_the_grammar_knows_the_totals(totals: Grammar, text: str, obeys: bool) -> None:
    state, tokens, allowed = totals.copy(), [*ids(text), 14], True
    state.read([14])
    for n, token in enumerate(tokens):
        allowed = allowed and bool(state.allowed()[token])
        if not allowed:
            break
        state.read([14, *tokens[: n + 1]])
    assert allowed == obeys


def test_forced_and_chosen_tokens_are_told_apart(totals: Grammar) -> None:
    kinds = chains.kinds(totals, [14], [*ids("1+2=3;3+4=8;8+0=8;8+9=7;7+7=4;#4"), 14])
    first, later = "cfcfcf", "ffcfcf"
    assert "".join(kind[0] for kind in kinds) == first + 4 * later + "fff"
    # The grammar itself has read nothing.
    assert np.flatnonzero(totals.allowed()).tolist() == [*range(10)]


def test_a_texts_masses_are_what_the_grammar_let_through() -> None:
    rows = np.append([*AFTER, FIRST], np.full((5, 1), 1e-9), axis=1)
    words = Vocabulary(["sun", "rain", "fog", "ice", "<end>"], stop_tokens=[4])
    ice = Grammar(words, regex="(sun|rain|fog|ice)ice")
    for text in ([0, 3], [1, 3], [3, 3]):
        found = chains.allowed_masses(lambda ids: mx.log(mx.array(rows))[ids], ice, [4], text)
        assert found == pytest.approx([1, AFTER[text[0]][3]], rel=1e-5)
    assert ice.allowed()[:4].all()  # the grammar itself has read nothing

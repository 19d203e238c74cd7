"""The widgets of lesson 19 compute what they say, and its blocks are what the engine judges."""

import json
from itertools import product

from lablib.course.lessons.lesson_13.rounds import chances
from lablib.course.lessons.lesson_19 import widgets as lab
from lablib.course.lessons.lesson_19.continuations import Continuations, Told, judged

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import charted
from oracles.speculation import target

TEXT, SIZE, PLACES = [3, 1, 4], 5, 3


@pytest.fixture(scope="module")
def model():
    return target("llama3", vocab_size=SIZE, peak=4)


@pytest.fixture(scope="module")
def ways(model):
    return Continuations(model, TEXT, places=PLACES, least=0.0)


def by_hand(model, told):
    """Return how often each place stays: all blocks are listed, each draft with its chance."""
    paths = [path for n in range(PLACES) for path in product(range(SIZE), repeat=n)]
    p = {path: chances(model(mx.array([[*TEXT, *path]]))[0, -1], 1.0) for path in paths}
    mass = {(): 1.0}
    for path in paths[1:]:
        mass[path] = mass[path[:-1]] * p[path[:-1]][path[-1]]

    def q(path):
        known = path[max(0, len(path) - told) :]
        alike = [x for x in paths if len(x) == len(path) and x[len(x) - len(known) :] == known]
        return sum(mass[x] * p[x] for x in alike) / sum(mass[x] for x in alike)

    kept, chance = np.zeros(PLACES), {(): 1.0}
    for path in paths:
        said = q(path)
        for token in range(SIZE):
            stays = said[token] * min(1, p[path][token] / said[token])
            chance[(*path, token)] = chance[path] * stays
            kept[len(path)] += chance[(*path, token)]
    return kept


@pytest.mark.parametrize("told", [0, 1, 2])
def test_what_a_block_keeps_is_the_sum_over_all_blocks(model, ways, told):
    assert ways.left_out == pytest.approx(0, abs=1e-6)
    assert ways.kept(told) == pytest.approx(by_hand(model, told), abs=1e-5)
    wrong = by_hand(model, 0 if told else 1)  # the sum sees how much a place is told
    assert np.abs(ways.kept(told) - wrong).max() > 1e-3


def test_a_place_that_is_told_all_is_the_target_and_of_one_that_is_told_none_it_is_the_mean(ways):
    assert ways.kept(PLACES - 1) == pytest.approx(np.ones(PLACES), abs=1e-6)
    (_, _, first), (_, mass, second) = ways.places[:2]
    assert ways.says[0][0][()] == pytest.approx(first[0])
    assert ways.says[0][1][()] == pytest.approx(mass @ second)
    assert ways.says[1][1][(2,)] == pytest.approx(second[2])
    p1, p2, q1, q2 = ways.pair(0)
    assert (p1 * (1 + np.minimum(p2, q2).sum(axis=1))).sum() == pytest.approx(
        ways.kept(0)[:2].sum()
    )
    assert q1 == pytest.approx(p1)
    assert np.ptp(q2, axis=0) == pytest.approx(np.zeros(SIZE))
    assert ways.pair(1)[3] == pytest.approx(p2)


@pytest.mark.parametrize("told", [0, 1])
def test_the_engine_keeps_what_the_sum_promises(model, ways, told):
    """Of 120 rounds: an error of 6 sigma has a chance of 2e-9."""
    offered, found = judged(model, Told(ways, told), TEXT, PLACES, rounds=120).T
    assert offered.tolist() == [PLACES] * 120
    assert abs(np.mean(found) - ways.kept(told).sum()) < 6 * np.std(found) / np.sqrt(120) + 1e-3
    shares = [np.mean(found > place) for place in range(PLACES)]
    assert np.abs(shares - ways.kept(told)).max() < 6 * 0.5 / np.sqrt(120)


def test_what_is_rare_is_left_out_and_counted(model, ways):
    some = Continuations(model, TEXT, places=PLACES, least=0.02)
    assert 0 < some.left_out < 0.5
    assert all(each.mass.min() > 0.02 for each in some.places[1:])
    assert some.p_after(min(set(product(range(SIZE), repeat=2)) - {*some.places[2].before})) is None
    assert (some.kept(0) <= ways.kept(0) + some.left_out).all()


def test_blocks_shows_what_was_drawn_and_judged(ways):
    widget = lab.Blocks({"here": ways}, [*" abcd"], {"here": 1.25}, shown=40)
    assert widget.kept["here"] == pytest.approx([ways.kept(told).sum() for told in (0, 1, 2)])
    data = widget.compute(1)
    for told in (0, 1, 2):
        fates = [[fate for _, fate in block] for block in data["here", told]]
        for block in fates:
            until = [*block, "refused"].index("refused")
            assert block[:until] == ["stays"] * until
            assert all(fate == "behind a refusal" for fate in block[until + 1 :])
        share = np.mean([block[0] == "stays" for block in fates])
        assert share == 1  # the first place is the target's own
    assert all(fate == "stays" for block in fates for fate in block)  # told all
    assert widget.compute(2) != data
    *drawn, bars = charted(widget.chart(data))
    assert len(drawn) == 3
    heights = [mark["bar"][3] for mark in bars if "bar" in mark]
    assert heights == pytest.approx([*widget.kept["here"], 1.25])
    json.dumps(widget.frame()[0])
    with pytest.raises(ValueError, match="draw must be"):
        widget.compute(0)


def test_the_square_is_what_two_places_draw():
    square = lab.Agreement(["of", "no"], ["course", "problem"])
    alone, whole = (square.compute(share=share, sure=0.95) for share in (0.0, 1.0))
    assert alone["q"] == pytest.approx(np.full((2, 2), 0.5))
    assert alone["kept"] == pytest.approx([1, 0.55])
    assert whole["q"] == pytest.approx(whole["p"])
    assert whole["kept"] == pytest.approx([1, 1])
    middle = square.compute(share=0.5, sure=0.8)
    assert middle["q"][0, 0] == pytest.approx(2 / 3)  # √(0.8 / 0.2) to 1
    assert middle["kept"][1] == pytest.approx(np.minimum(middle["p"], middle["q"]).sum() / 2)
    assert "1.55 of two drafts stay on average; in 50%" in square.set(share=0.0, sure=0.95)
    titles = [panel["title"] for panel in square.chart(middle).panels]
    assert titles == [
        "without the head: 1.70 of 2 stay",
        "0.5 of it: 1.87 of 2 stay",
        "all of it: 2.00 of 2 stay",
    ]
    with pytest.raises(ValueError, match="first must be two words"):
        lab.Agreement(["of"], ["course", "problem"])


def test_only_a_look_at_the_drawn_word_bends_the_text():
    offered = lab.Offered()
    for q in (0.5, 0.7, 0.95):
        for bound in np.linspace(0, 1, 21):
            for decides in (lab.ALWAYS, lab.BEFORE):
                data = offered.compute(decides, q, bound)
                assert data["written"] == pytest.approx([0.5, 0.5])
            assert sum(data["shares"]) == pytest.approx(1)
    data = offered.compute(lab.AFTER, 0.7, 0.75)
    assert data["written"] == pytest.approx([0.35, 0.65])
    assert data["shares"] == pytest.approx([0.3, 0, 0.7])
    assert offered.compute(lab.AFTER, 0.7, 0.5)["written"] == pytest.approx([0.5, 0.5])
    assert "Yes is written in 35%" in offered.caption(data)


def test_pictures():
    one, all_at_once = charted(lab.forwards_figure(["one by one", "at once"], places=4))
    ends = [[mark["bar"][1] for mark in marks if "text" in mark] for marks in (one, all_at_once)]
    assert np.ceil(ends[0]).tolist() == [1, 2, 3, 4]
    assert np.ceil(ends[1]).tolist() == [1, 1, 1, 1]
    assert sum("line" in mark for mark in one) == 3
    assert not any("line" in mark for mark in all_at_once)


def test_the_rate_rises_where_a_step_stands_above_it_and_falls_behind():
    (marks,) = charted(lab.offer_figure([0.95, 0.855, 0.4275, 0.38475], 0.25, 0.25))
    (rates,) = ([y for _, y in mark["line"]] for mark in marks if "line" in mark)
    steps = [mark for mark in marks if "bar" in mark]
    assert rates == pytest.approx(
        [1 / 1.25, 1.95 / 1.5, 2.805 / 1.75, 3.2325 / 2, 3.61725 / 2.25], 1e-4
    )
    assert [mark["bar"][3] for mark in steps] == pytest.approx([3.8, 3.42, 1.71, 1.539])
    above = [mark["bar"][3] > rate for mark, rate in zip(steps, rates[:-1], strict=True)]
    assert above == [True, True, True, False]
    assert [mark["fill"] == lab.KEPT for mark in steps] == above
    assert (np.diff(rates) > 0).tolist() == above
    offered = lab.Offered()
    for decides, orders in ((lab.AFTER, [lab.REFUSED]), (lab.BEFORE, [lab.KEPT]), (lab.ALWAYS, [])):
        flow = charted(offered.chart(offered.compute(decides, 0.7, 0.75)))[0]
        fills = [mark["fill"] for mark in flow if mark.get("text") == "offer?"]
        assert [fill for fill in fills if fill != "#FFFFFF"] == orders  # the order that is chosen

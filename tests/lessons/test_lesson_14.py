"""Lesson 14 draws a server under load; its page a sweep, whose hostfile is one that MLX reads."""

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import lablib
from lablib.course.lessons.lesson_14 import company, load, runs
from lablib.course.lessons.lesson_14 import widgets as lab
from lablib.course.plots.pictures import COLOURS
from lablib.course.replay.arrivals import Metronome
from lablib.course.theory import serving
from lablib.course.theory.scaling import simulate
from lablib.course.theory.serving import Prices, at_random

import nbformat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.drawn import charted, read

PAGE = Path(__file__).parents[2] / "notebooks" / "further" / "14_more_machines.ipynb"
SECONDS = st.lists(st.integers(1, 40), min_size=1, max_size=60)


@given(SECONDS, st.integers(1, 12))
def test_the_stints_are_all_of_a_sweep_s_work(seconds: list[int], ranks: int) -> None:
    took = simulate(seconds, ranks)
    stints = took.stints
    assert sorted(stint.place for stint in stints) == [*range(len(seconds))]
    assert all(stint.seconds == seconds[stint.place] for stint in stints)
    assert max(stint.start + stint.seconds for stint in stints) == pytest.approx(took.seconds)
    busy = [sum(s.seconds for s in stints if s.rank == rank) for rank in range(ranks)]
    assert busy == pytest.approx(took.busy)
    assert {stint.round for stint in stints} == {*range(took.rounds)}


@given(SECONDS, st.integers(1, 12))
def test_a_rank_does_one_unit_at_a_time_and_a_round_begins_for_all(seconds, ranks):
    stints = simulate(seconds, ranks).stints
    for rank in range(ranks):
        own = sorted((s.start, s.start + s.seconds) for s in stints if s.rank == rank)
        assert all(a[1] <= b[0] for a, b in pairwise(own))
    for number in range(stints[-1].round):
        end = max(s.start + s.seconds for s in stints if s.round == number)
        assert min(s.start for s in stints if s.round == number + 1) == end


@given(SECONDS, st.integers(1, 12))
def test_no_sweep_passes_the_limit(seconds: list[int], ranks: int) -> None:
    assert simulate(seconds, ranks).speedup <= lab.limit(seconds, ranks) * (1 + 1e-9)
    assert lab.limit([2.0] * ranks, ranks) == ranks
    assert lab.limit([6, 3, 3], 8) == 2


@pytest.fixture(scope="module")
def dealing() -> lab.Dealing:
    return lab.Dealing()


def test_the_units_are_made_up_but_sum_to_the_same(dealing: lab.Dealing) -> None:
    for spread in (0.0, 1.0, 2.0):
        for group in (1, 3, 8):
            data = dealing.compute(3, lab.COMES, spread, group)
            assert sum(data["seconds"]) == pytest.approx(lab.WORK)
            assert len(data["seconds"]) == 48 // group
    alike = dealing.compute(3, lab.COMES, 0.0, 1)["seconds"]
    assert alike == pytest.approx([1.0] * 48)
    longest = dealing.compute(3, lab.LONGEST, 2.0, 1)["seconds"]
    assert longest == sorted(dealing.compute(3, lab.COMES, 2.0, 1)["seconds"], reverse=True)


def test_the_last_group_may_be_smaller(dealing: lab.Dealing) -> None:
    assert len(dealing.compute(3, lab.COMES, 1.0, 7)["seconds"]) == 7


@pytest.mark.parametrize("ranks", [1, 2, 16])
@pytest.mark.parametrize("order", [lab.COMES, lab.LONGEST])
@pytest.mark.parametrize(("spread", "group"), [(0.0, 1), (2.0, 8)])
def test_each_end_of_the_controls_draws(dealing, ranks, order, spread, group):
    said = dealing.set(ranks=ranks, order=order, spread=spread, group=group)
    data = dealing.compute(ranks, order, spread, group)
    assert read(dealing.draw(data))
    assert f"by {ranks} rank{'s' * (ranks > 1)}, {order}" in said
    assert f"{data['took'].seconds:.1f} s in {data['took'].rounds} round" in said
    assert 1 <= data["took"].speedup + 1e-9 <= ranks + 1e-6
    bars = [mark for mark in dealing.chart(data).marks[0] if " waits " in mark.get("note", "")]
    waited = sum(mark["bar"][1] - mark["bar"][0] for mark in bars)
    assert waited == pytest.approx(ranks * data["took"].seconds - lab.WORK, abs=0.1)


def test_of_equal_units_none_is_the_slowest(dealing: lab.Dealing) -> None:
    for spread, group, slowest in ((0.25, 1, 1), (0.0, 1, 0), (0.0, 7, 0), (2.0, 8, 1)):
        marks = dealing.chart(dealing.compute(4, lab.COMES, spread, group)).marks[0]
        orange = [mark for mark in marks if mark.get("fill") == COLOURS[1]]
        assert len(orange) == slowest, (spread, group)
    assert read(lab.Dealing(units=1).frame()[0])  # a unit alone can be drawn, too


@pytest.fixture(scope="module")
def cells() -> dict[str, str]:
    return {cell.id: cell.source for cell in nbformat.read(PAGE, as_version=4).cells}


def test_the_hostfile_is_one_that_mlx_launch_reads(cells: dict[str, str], tmp_path: Path) -> None:
    text = cells["room-launch"].split("```json")[1].split("```")[0]
    launch = pytest.importorskip("mlx._distributed_utils.common")
    (tmp_path / "hosts.json").write_text(text)
    found = launch.Hostfile.from_file(tmp_path / "hosts.json")
    assert found.backend == "ring"
    assert [host.ssh_hostname for host in found.hosts] == ["ada.local", "ben.local", "eva.local"]
    assert all(host.ips for host in found.hosts)


def test_the_sweep_that_the_page_starts_needs_nothing_but_this_python(cells):
    started = cells["accident-program"]
    assert "start(2, [sys.executable" in started
    assert "cwd=room" in started
    compile(started.split('"""')[1], "toss.py", "exec")


# --- under load -------------------------------------------------------------------------------
PRICES = Prices({1: 2.1e-3, 8: 3.7e-3}, {4: 2.6e-3, 64: 1e-2}, {2: 1.9e-3, 8: 3.1e-3})


@pytest.fixture(scope="module")
def under_load() -> load.UnderLoad:
    return load.UnderLoad(PRICES)


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize("rho", [0.1, 0.95])
def test_each_end_of_the_load_draws(under_load: load.UnderLoad, rho: float, size: int) -> None:
    said = under_load.set(load=rho, at_a_time=size)
    data = under_load.compute(rho, size)
    assert read(under_load.draw(data))
    assert f"At load {rho:.2f}, {data['rate']:.0f} requests" in said
    assert f"{max(data['wait'][1], 0):.0f} ms or less." in said
    assert data["rate"] == pytest.approx(rho * under_load.capacity[size])
    for seconds, waiting, writing in data["there"]:
        assert (seconds[0], seconds[-1]) == (0, under_load.window)
        assert min(waiting) >= 0 <= min(writing)
        assert max(writing) <= size


def test_a_batch_serves_more_and_a_load_makes_both_wait(under_load: load.UnderLoad) -> None:
    assert under_load.capacity[8] > 2 * under_load.capacity[1]
    for size in (1, 8):
        low, high = (under_load.compute(rho, size)["wait"][0] for rho in (0.3, 0.95))
        assert high > 4 * low


def test_one_at_a_time_waits_as_simulated_and_as_by_theory(under_load: load.UnderLoad) -> None:
    asked = [replace(each, at=each.at / 8) for each in at_random(1.0, 500, 3)]
    alone = [load.alone(PRICES, each) for each in asked]
    work = [a + (b.tokens - 1) * PRICES.round(1) for a, b in zip(alone, asked, strict=True)]
    found = load.waits_of_one(np.diff([each.at for each in asked]), np.array(work))
    served = serving.simulate(asked, PRICES, 1)
    np.testing.assert_allclose([s.to_first for s in served], found + alone, atol=1e-9)
    mean, median = under_load.waits[1]
    np.testing.assert_allclose(mean, under_load.theory, rtol=0.2)
    assert max(median[:8]) == 0 < median[10]  # up to a load of 0.45 more than half wait for nobody


def test_the_simulation_is_held_against_the_stored_lists() -> None:
    assert runs.times(runs.ENGINE).shape == (len(runs.stored()), runs.BELOW, 3, 2)
    assert f"lesson_14.measured {len(runs.stored())}" in runs.command()
    table = runs.compared().splitlines()
    assert len(table) == 4
    assert len({len(line) for line in table}) == 1
    for chart in (runs.firsts(), runs.goodput()):
        assert charted(chart)
    shares = runs.rates(runs.ENGINE)
    assert (shares[:, :, 1] <= shares[:, :, 0]).all()
    found = runs.mean_of([1.0, 2.0, 3.0])
    assert found.value == 2
    assert found.high - found.value == pytest.approx(4.302653 / 3**0.5, rel=1e-5)  # Student's t, 2


def test_a_price_list_and_its_line_can_be_read() -> None:
    line = load.on_a_line({1: 3.0, 2: 5.0, 4: 9.0})
    assert line == pytest.approx((1.0, 2.0))
    listed = load.listed(PRICES).splitlines()
    assert [each.split(",")[0] for each in listed[1:]] == [
        "a round", "reading", "joining", "leaving"
    ]  # fmt: skip
    assert charted(load.rounds(PRICES, (2e-3, 2e-4), (1e-3, 1e-4)))


def test_the_load_is_drawn_while_it_is_dragged(under_load: load.UnderLoad) -> None:
    took = []
    for _ in range(5):
        begin = time.process_time()
        under_load.compute(0.95, 8)
        took.append(time.process_time() - begin)
    assert min(took) < 0.05


def test_readers_are_drawn_in_rows() -> None:
    chart = load.streams([[0.1, 0.2, 0.3], [0.25, 0.4]])
    dots = [mark["dot"] for mark in chart.marks[0] if "dot" in mark]
    assert [dot[1] for dot in dots] == [-0.5] * 3 + [-1.5] * 2
    assert chart.marks[0][0]["note"] == "Reader 1 waits 100 ms for a first token."


# --- drafts in company --------------------------------------------------------------------------
def test_a_draft_that_costs_nothing_is_right_as_often_as_is_said() -> None:
    drafter = company.Knowing(0.8, 1)
    text = [*range(company.PROMPT), *range(100, 501)]
    drafter.known[tuple(text[: company.PROMPT])] = text
    ends = range(company.PROMPT, 400)
    drafts = [drafter.propose([text[:end]], [4], None).tokens[0].tolist() for end in ends]
    right = [
        a == b
        for end, four in zip(ends, drafts, strict=True)
        for a, b in zip(four, text[end : end + 4], strict=True)
    ]
    assert len(right) == 4 * len(ends)
    assert abs(np.mean(right) - 0.8) < 5 * (0.8 * 0.2 / len(right)) ** 0.5
    none = company.Knowing(0.0, 1)
    none.known = drafter.known
    assert none.propose([text[:50]], [4], None).tokens[0].tolist() == [x + 1 for x in text[50:54]]


def test_both_engines_write_the_same_rows_and_one_keeps_drafts() -> None:
    model = lablib.LanguageModel(
        lablib.llama_config(512, d_model=16, n_heads=2, n_layers=1), seed=1
    )
    for rows in (1, 3):
        found = company.of_rows(model, rows, Metronome(model), 2)
        assert min(found.values()) > 0
        assert 2 < found["tokens"] < 5  # 3.4 on average, of a dozen rounds


def test_what_drafts_bring_is_tokens_over_time() -> None:
    assert company.command() == f"{company.COMMAND} {len(company.stored())}"
    first = [visit["of rows"][0] for visit in company.stored()]
    gain = [each["tokens"] * each["plain"] / each["drafted"] for each in first]
    assert company.gains()[1].value == pytest.approx(np.exp(np.mean(np.log(gain))))
    a, b = load.on_a_line(company.milliseconds("plain"))
    kept = (1 - 0.8**5) / 0.2
    assert company.predicted([7.0]) == pytest.approx(kept * (a + 7 * b) / (a + 35 * b))
    assert len(company.compared().splitlines()) == 1 + len(company.ROWS)
    assert charted(company.picture())

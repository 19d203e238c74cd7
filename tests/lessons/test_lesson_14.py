"""Lesson 14 draws a server under load; its page a sweep, whose hostfile is one that MLX reads."""

import time
from itertools import pairwise
from pathlib import Path

from lablib.course.lessons.lesson_14 import load
from lablib.course.lessons.lesson_14 import widgets as lab
from lablib.course.plots.pictures import COLOURS
from lablib.course.theory.scaling import simulate
from lablib.course.theory.serving import Prices

import nbformat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.drawn import read

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
    assert f"{data['first'][1]:.0f} ms or less." in said
    assert data["rate"] == pytest.approx(rho * under_load.capacity[size])
    times = data["times"]
    assert len(times)
    assert (np.diff(times, axis=1) >= 0).all()
    assert times.min() >= 0
    assert times.max() <= under_load.window


def test_a_batch_serves_more_and_a_load_makes_both_wait(under_load: load.UnderLoad) -> None:
    assert under_load.capacity[8] > 2 * under_load.capacity[1]
    for size in (1, 8):
        low, high = (under_load.compute(rho, size)["first"] for rho in (0.3, 0.95))
        assert (high > 2 * low).all()
    one = under_load.compute(0.95, 1)
    orange = [m for m in under_load.chart(one).marks[0] if m["fill"] == load.WAITS]
    writes = [m["bar"] for m in under_load.chart(one).marks[0] if m["fill"] == load.WRITES]
    assert len(orange) > 3
    assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(writes))  # one at a time


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

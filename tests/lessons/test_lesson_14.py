"""The widget of lesson 14 draws what a sweep does, and its hostfile is one that MLX reads."""

import random
from itertools import pairwise
from pathlib import Path

from lablib.course.lessons.lesson_14 import widgets as lab
from lablib.course.plots.pictures import COLOURS
from lablib.course.theory.scaling import simulate

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.drawn import read

LESSON = Path(__file__).parents[2] / "notebooks" / "14_scaling_out.ipynb"
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
    return {cell.id: cell.source for cell in nbformat.read(LESSON, as_version=4).cells}


def test_the_hostfile_is_one_that_mlx_launch_reads(cells: dict[str, str], tmp_path: Path) -> None:
    text = cells["room-launch"].split("```json")[1].split("```")[0]
    launch = pytest.importorskip("mlx._distributed_utils.common")
    (tmp_path / "hosts.json").write_text(text)
    found = launch.Hostfile.from_file(tmp_path / "hosts.json")
    assert found.backend == "ring"
    assert [host.ssh_hostname for host in found.hosts] == ["ada.local", "ben.local", "eva.local"]
    assert all(host.ips for host in found.hosts)


def test_by_hand_the_rounds_are_the_librarys(cells: dict[str, str]) -> None:
    space: dict = {}
    exec(cells["by-hand-take"] + "\n" + cells["by-hand-rounds"], space)
    rng = random.Random(3)
    for _ in range(300):
        pile = [rng.randint(1, 30) for _ in range(rng.randint(1, 40))]
        ranks = rng.randint(2, 9)
        if len(pile) <= 20 * ranks:  # where a round is half of what is left
            assert space["by_rounds"](pile, ranks) == simulate(pile, ranks).seconds


def test_the_sweeps_that_the_lesson_starts_need_nothing_but_this_python(cells):
    started = [source for source in cells.values() if "start(" in source]
    assert len(started) == 2
    assert all("sys.executable" in source for source in started)
    assert all("cwd=room" in source for source in started)
    compile(space_of(cells)["program"], "toss.py", "exec")


def space_of(cells: dict[str, str]) -> dict:
    """Return the names of the cell that holds the program."""
    space: dict = {}
    exec(cells["accident-program"], space)
    return space

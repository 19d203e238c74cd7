"""The minutes that a lesson promises are those that it takes, and its links lead on."""

import re
from pathlib import Path

import nbformat
import pytest
from oracles.minutes import minutes

FOLDER = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(path.name[:2] for path in FOLDER.glob("[0-9]*.ipynb"))


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_minutes_are_honest(lesson):
    (path,) = FOLDER.glob(f"{lesson}_*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    whole, short = minutes(notebook, lesson)
    (time,) = re.findall(r"\*\*Time\*\* (.*?) ·", notebook.cells[0].source)
    said = [int(number) for number in re.findall(r"(\d+)(?= minutes| without)", time)]
    assert said[0] == pytest.approx(whole, abs=5)
    assert said[-1] == pytest.approx(short, abs=5)
    assert said[-1] <= 60
    assert (len(said) == 2) == (whole > 60) == ("may be skipped" in time)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_links_the_next_one_and_its_papers(lesson):
    (path,) = FOLDER.glob(f"{lesson}_*.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    following = sorted(FOLDER.glob(f"{int(lesson) + 1:02}_*.ipynb"))
    assert "**Next" in cells[-1].source
    assert all(f"({other.name})" in cells[-1].source for other in following)
    for number in re.findall(r"\d{4}\.\d{5}", text):
        assert f"[arXiv {number}](https://arxiv.org/abs/{number})" in text

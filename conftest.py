"""What pytest collects everywhere: in which tier and order; lessons come with what checks them.

Two pages wait for their model. A lesson's sentences are checked in ``tests/claims``, in the
lesson's kernel, each section behind its cell. ``pytest tests/claims -k 07_`` asks for a lesson too,
and compares no recorded output: for a machine whose numbers part from the recorded ones.
"""

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import lablib  # noqa: F401 (before mlx)
from lablib.course.checks.exercises import number_of
from lablib.course.plots import scene
from lablib.models import zoo

import nbformat
import pytest
from nbval.plugin import IPyNbCell, IPyNbFile

sys.path.insert(0, str(Path(__file__).parent / "tests"))
from oracles import claims

# The suite starts a thousand processes, and each would compile lablib anew (0.4 s).
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# page -> the model to be fetched for it, by which it is of the second tier
NEEDS = {"12_inside_a_chat_model.ipynb": "smollm2", "16_an_open_task.ipynb": "smollm2"}
ASKS = "smollm2", "lesson_12"  # in lessons that ask a real model, where there is one
BUILT = {"chrome", "site"}  # fixtures of the second tier: Chromium, and the site whole
# Rooms whose files take minutes or wait for processes begin a run: one that ended it would have one
# core, and the other core nothing to do.
LONG = "tests/teach", "tests/browser", "tests/site", "notebooks"
FIRST = tuple(str(claims.FOLDER.parent / room) for room in LONG)


class Claims(IPyNbCell):
    """What checks a lesson's sentences up to one of its cells."""

    def reportinfo(self) -> tuple[Path, int, str]:
        """Name the lesson and the cell."""
        return self.path, 0, f"{self.parent.name}: {self.name}"


class Page(IPyNbFile):
    """A notebook as nbval runs it.

    A recorded one has a picture where a run has a scene's data, from which the page draws it.
    """

    def collect(self) -> Iterator[IPyNbCell]:
        """Yield the cells that run."""
        self.skip_compare += (scene.MIME,)
        yield from super().collect()


class Lesson(Page):
    """A lesson, with its claims between its cells, as it is where no real model was fetched.

    What real models say has tests of its own in the second tier.
    """

    def collect(self) -> Iterator[IPyNbCell]:
        """Yield the cells that run, and behind each cell the section of claims that follows it."""
        cells = {item.cell.id: item for item in super().collect()}
        lesson = number_of(self.name)
        made = claims.sections(lesson)
        if any(word in cell.source for cell in self.nb.cells for word in ASKS):
            hidden = "from lablib.models import zoo\nzoo.fetched = lambda name: None"
            yield self._claims("the beginning", 0, hidden)
        number = -1
        for cell in self.nb.cells:
            if cell.id in cells:
                number = cells[cell.id].cell_num
                yield cells[cell.id]
            if made.pop(cell.id, None):
                yield self._claims(cell.id, number, claims.call(lesson, cell.id))
        for cell_id in made:
            yield self._claims(cell_id, number, f"raise LookupError('no such cell: {cell_id}')")

    def _claims(self, after: str, number: int, source: str) -> Claims:
        cell, options = nbformat.v4.new_code_cell(source), defaultdict(bool)
        name = f"claims after {after}"
        return Claims.from_parent(self, name=name, cell_num=number, cell=cell, options=options)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Iterator[None]:
    """Collect a lesson, or a page beside one, in place of a bare notebook."""
    found = yield
    kind = {claims.FOLDER: Lesson, claims.FOLDER / "further": Page}.get(file_path.parent)
    if file_path.suffix == ".ipynb" and kind:
        return [kind.from_parent(parent, path=each.path) for each in found]
    return found


def pytest_configure(config: pytest.Config) -> None:
    """Let ``tests/claims`` and its files stand for lessons, whose outputs are then not compared.

    And let ``-m thorough`` mean the second tier, in which what is slow stays a choice of its own.
    """
    if config.option.markexpr == "thorough":
        config.option.markexpr = "thorough and not slow"
    args = []
    for arg in config.args:
        path = (config.invocation_params.dir / arg.split("::")[0]).resolve()
        if claims.CLAIMS in (path, path.parent):
            number = "*" if path == claims.CLAIMS else path.stem
            args += map(str, sorted(claims.FOLDER.glob(f"{number}_*.ipynb")))
            config.option.nbval_lax = True
            os.environ["LABLIB_CLOCKS"] = "1"
        else:
            args.append(arg)
    config.args = args


def is_thorough(item: pytest.Item) -> bool:
    """Tell whether a browser is driven, the site is built, or it is one more case of a grid."""
    if item.get_closest_marker("browser") or BUILT & {*getattr(item, "fixturenames", ())}:
        return True
    return "thorough" in left_out(item)


def left_out(item: pytest.Item) -> set[str]:
    """Return the tiers, ``thorough`` or ``slow``, that grids leave this case to."""
    marks = item.iter_markers("grid")
    return {
        mark.kwargs.get("rest", "thorough")
        for mark in marks
        if not mark.args[0](**item.callspec.params)
    }


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order all; skip the notebooks, here or in a browser, whose model is not on this machine."""
    items.sort(key=lambda item: not str(item.path).startswith(FIRST))
    for item in items:
        if is_thorough(item):
            item.add_marker(pytest.mark.thorough)
        if "slow" in left_out(item):
            item.add_marker(pytest.mark.slow)
        path = getattr(item, "callspec", None) and item.callspec.params.get("path")
        runs = path if path and item.get_closest_marker("browser") else item.path
        name = NEEDS.get(runs.name)
        if name and isinstance(item, IPyNbCell):
            item.add_marker(pytest.mark.thorough)
        if name and zoo.fetched(name) is None:
            reason = f"{name} is not on this machine: python -m lablib fetch {name}"
            item.add_marker(pytest.mark.skip(reason=reason))

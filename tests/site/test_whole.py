"""The whole site: built, served from a plain folder, every lesson read and every slider moved.

The lessons run for it, some twenty minutes on two cores, unless their films are kept already;
``LABLIB_SITE`` names the folder of a site that ``python -m lablib site`` has built.
"""

import ast
import html
import os
import re
from pathlib import Path

from lablib.course.checks.exercises import find
from lablib.folders import course
from lablib.teach.editions import part_of, read_notebook
from lablib.tools.site.build import build

import pytest
from oracles import browser, reader

pytestmark = pytest.mark.slow
LESSONS = sorted(path.stem for path in course().glob("*.ipynb"))
LESSON, OTHER = 500_000, 1_000_000  # bytes of a page at most, before a slider moves


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if os.environ.get("LABLIB_SITE"):
        return Path(os.environ["LABLIB_SITE"])
    out = tmp_path_factory.mktemp("whole") / "site"
    assert build(out) == []
    return out


@pytest.fixture(scope="module")
def wide(site):
    with reader.reading(site) as one:
        yield one


def test_all_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    assert reader.broken(site) == []


@pytest.mark.parametrize("name", LESSONS)
def test_every_slider_of_a_lesson_moves(wide, name):
    took = wide.open(name)
    assert took < LESSON
    assert wide.films() > 0
    wrong = [line for number in range(wide.films()) for line in wide.move_all(number)]
    assert wrong == []
    assert wide.axe() == []
    assert wide.complaints == []
    print(f"{name}: {took} bytes, {wide.films()} films")


@pytest.mark.parametrize(
    "name",
    ["index", "GLOSSARY", "TEACHING", "reference", "inference", "evaluation", "architectures"],
)
def test_what_stands_beside_the_lessons(wide, name):
    assert wide.open(name) < OTHER
    assert wide.axe() == []
    assert wide.complaints == []


def test_the_search_finds_a_word(wide):
    wide.page.goto(f"{wide.address}search.html?q=temperature")
    wide.page.locator("#search-results li a").first.wait_for()
    assert wide.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone(wide, scheme):
    wide.page.emulate_media(color_scheme=scheme)
    wide.page.set_viewport_size(browser.NARROW)
    for name in ("index", *LESSONS):
        wide.open(name)
        assert wide.page.evaluate("document.documentElement.scrollWidth") <= 420, name
        assert wide.axe() == []
    wide.page.set_viewport_size(browser.WIDE)
    assert wide.complaints == []


def bare(text):
    """Return the text of a page without tags and white space."""
    return "".join(html.unescape(re.sub(r"<[^>]*>", "", text)).split())


def solved(exercise):
    """Return what a solution does, without its head and its docstring, and without white space."""
    function = ast.parse(exercise.solution).body[-1]
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return "".join("".join(exercise.solution.splitlines()[body[0].lineno - 1 :]).split())


def test_no_solution_is_on_the_site(site):
    lessons = [read_notebook(course() / f"{name}.ipynb") for name in LESSONS]
    cells = [cell for lesson in lessons for cell in lesson["cells"] if any(part_of(cell))]
    shown = {part_of(c)[0]: c["outputs"] for c in cells if part_of(c)[1] == "solution"}
    kinds = (".html", ".js", ".ipynb", ".md")
    texts = [bare(file.read_text("utf-8")) for file in site.rglob("*") if file.suffix in kinds]
    assert len(shown) > 50
    for name, outputs in shown.items():
        whole = solved(find(name))
        assert whole in bare("".join(outputs[0]["data"]["text/html"]))  # where it would come from
        assert not any(whole in text for text in texts), name

"""A small site from end to end: built, read as files, and moved in Chromium."""

import inspect
import json
import re
import shutil
from pathlib import Path
from unittest.mock import Mock

import lablib
from lablib.__main__ import main
from lablib.course.checks.exercises import find
from lablib.course.plots.scene import scripts
from lablib.teach.editions import read_notebook
from lablib.tools.site import play
from lablib.tools.site import run as running
from lablib.tools.site.build import build
from lablib.tools.site.contents import Links
from lablib.tools.site.pages import film_html, folded
from lablib.tools.site.run import run

import numpy as np
import pytest
from oracles import browser
from oracles import reader as oracle
from PIL import Image


@pytest.fixture(scope="module")
def reader(site):
    browser.need("the site's sliders")
    with oracle.reading(site[0], browser.NARROW) as reader:
        yield reader


@pytest.fixture(scope="module")
def page(site):
    return (site[0] / "00_start_here.html").read_text("utf-8")


def test_all_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    assert oracle.broken(site[0]) == []


def test_a_broken_link_and_a_foreign_script_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html">b</a><a id="x" href="#x">x</a><a href="#y">y</a>'
        '<script src="https://elsewhere.example/a.js"></script><a href="https://elsewhere.example">'
    )
    found = oracle.broken(tmp_path)
    assert found == ["a.html: b.html", "a.html: #y", "a.html loads https://elsewhere.example/a.js"]


def test_the_site_has_what_stands_beside_lessons(site):
    out = site[0]
    index = (out / "index.html").read_text("utf-8")
    assert "3 minutes" in index
    assert 'class="lablib-film"' in index
    for name in ("GLOSSARY", "TEACHING", "evaluation", "architectures", "search", "genindex"):
        assert (out / f"{name}.html").exists()
    for name, of in (("reference", "lablib.Sampler"), ("inference", "lablib.inference.DraftModel")):
        assert f'id="{of}"' in (out / f"{name}.html").read_text("utf-8")
    told = (out / "reference.html").read_text("utf-8")
    for name in lablib.__all__:
        found = getattr(lablib, name)
        full = found.__name__ if inspect.ismodule(found) else f"lablib.{name}"
        assert f'id="{full}"' in told or f'id="module-{full}"' in told, full
    assert told.count("&gt;&gt;&gt;") > len(lablib.__all__)  # examples
    assert "kernel" in (out / "searchindex.js").read_text("utf-8")


def test_a_page_loads_the_scenes_that_it_shows_before_what_moves_them(site, page):
    shown = {*re.findall(r'<figure [^>]*data-scene="(\w+)"', page)}
    loads = re.findall(r'<script [^>]*src="_static/(?:scenes/)?(\w+)\.js', page)
    ours = [name for name in loads if name in {"shared", "site", *scripts()}]
    assert shown == {"carpet", "chart", "dart", "dashboard", "reading"}
    assert ours == ["shared", *sorted(shown - {"chart"}), "site"]
    assert "scenes/" not in (site[0] / "GLOSSARY.html").read_text("utf-8")
    still = {"called": "a tree", "name": "trie"}  # as a notebook keeps it: names in order
    film = {"controls": [], "fixed": [], "scene": still, "data": {}, "caption": "Said."}
    assert '<figure class="lablib-film" data-scene="trie">' in film_html(film)


def test_code_has_tags_only_where_it_has_a_colour(page):
    assert '<span class="k">class</span> <span class="nc">Twice</span>(ChartExplorer):' in page
    assert not re.search(r'<span class="(?:n|p|w)">', page)


def test_a_question_has_its_choices_and_no_cell_to_answer_in(page):
    assert "b  that one" in page
    for words in ("Answer in the cell", "03.q1", "The only one"):
        assert words not in page


def test_a_question_stands_open_and_its_answer_is_folded(page):
    before, film, *_ = page.split('class="lablib-film')
    assert "How high?" in before
    assert "<details" not in before.split("How high?")[1]  # in sight, below a veil
    assert film.startswith(' lablib-asks"')
    answer = re.search(r"<details[^>]*><summary>What you should[^§]*?</details>", page)[0]
    assert "Six, of course." in answer
    assert "goes on" not in answer
    assert "<msub>" in film  # the formula


def test_the_cells_without_an_explorer_show_what_was_recorded(page):
    assert "recorded 7" in page
    assert "run 7" not in page
    assert "AssertionError" not in page
    assert re.search(r'<img class="lablib-picture" loading="lazy" [^>]*alt="Red\." width="1"', page)


def test_an_exercise_has_its_starter_and_its_hints_but_no_solution(site, page):
    exercise = find("00.1")
    assert "NotImplementedError" in page
    assert page.count("<summary>Hint") == len(exercise.hints)  # none of them is the solution
    body = exercise.solution.strip().splitlines()[-1].strip()
    for file in site[0].rglob("*"):
        if file.suffix in (".html", ".js", ".txt", ".md", ".ipynb"):
            assert body not in re.sub(r"<[^>]*>", "", file.read_text("utf-8")), file


def test_the_notebook_to_download_is_a_students(site):
    out, path, *_ = site
    given = read_notebook(out / "_static" / "notebooks" / path.name)
    assert not any("solution(" in cell["source"] for cell in given["cells"])
    assert f'href="_static/notebooks/{path.name}"' in (out / "00_start_here.html").read_text()


def test_a_lesson_runs_again_only_if_it_changed(site, tmp_path, monkeypatch):
    _, path, kept, said = site
    kept = shutil.copytree(kept, tmp_path / "kept")
    assert said[0].startswith("00_start_here: 7 explorers, ran in ")
    notebook = read_notebook(path)
    assert not run(notebook, path, kept).new
    told = json.loads((kept / "00_start_here.json").read_text())
    assert {"course/plots/explorer.py", "tools/site/film.py"} <= {*told["files"]}
    monkeypatch.setattr(running, "_execute", Mock(side_effect=RuntimeError("it runs")))
    settings = next(kept.glob("frames/*.js"))
    settings.rename(kept / "lost")
    with pytest.raises(RuntimeError):
        run(notebook, path, kept)
    (kept / "lost").rename(settings)
    assert not run(notebook, path, kept).new
    notebook["cells"][2]["source"] += "  # another"
    with pytest.raises(RuntimeError):
        run(notebook, path, kept)


@pytest.mark.slow
def test_a_lesson_that_fails_is_one_line(tmp_path, site):
    notebook = read_notebook(site[1])
    notebook["cells"][2]["source"] += "\n1 / 0"
    with pytest.raises(ValueError, match=r"^a\.ipynb can't be on the site: cell explorer: ZeroDiv"):
        run(notebook, tmp_path / "a.ipynb", tmp_path / "kept")


def test_every_control_moves_the_picture_without_a_kernel(reader):
    for name, films in {"00_start_here": 7, "index": 1}.items():
        took = reader.open(name)
        assert 50_000 < took < 500_000
        assert reader.films() == films
        for number in range(films):
            assert reader.move_all(number) == []
    assert reader.complaints == []


def test_the_keyboard_moves_a_slider_a_list_and_a_player_and_resets_them(reader):
    reader.open("00_start_here")
    page = reader.page.locator(".lablib-film").first
    said = page.locator("figcaption")
    assert said.get_attribute("aria-live") == "polite"

    def then(name, key, caption, role="slider"):
        page.get_by_role(role, name=name, exact=True).press(key)
        said.filter(has_text=caption).wait_for()

    then("number", "ArrowRight", "The bar is 8 high.")
    then("of", "ArrowUp", "The bar is 4 high.", "combobox")
    then("Play", "Enter", "The bar is 5 high.", "button")
    page.get_by_role("button", name="Play").wait_for()  # it has come to the end
    step = page.get_by_role("slider", name="step")
    assert (step.get_attribute("max"), step.input_value()) == ("1", "1")
    then("of", "ArrowDown", "The bar is 9 high.", "combobox")
    assert step.get_attribute("max") == "3"
    then("Play", "Enter", "The bar is 11 high.", "button")
    page.get_by_role("button", name="Play").wait_for()
    then("of", "ArrowUp", "The bar is 5 high.", "combobox")
    assert (step.get_attribute("max"), step.input_value()) == ("1", "1")
    then("Reset", "Enter", "The bar is 6 high.", "button")
    assert (step.get_attribute("max"), step.input_value()) == ("3", "0")
    assert page.get_by_role("slider", name="number").get_attribute("aria-valuetext") == "3"


def test_one_click_lifts_a_veil_and_another_shows_all(reader):
    page = reader.page
    page.goto(f"{reader.address}00_start_here.html", wait_until="networkidle")
    slider = page.get_by_label("number", exact=True)
    button = page.get_by_role("button", name="Guess first. Then look.")
    assert (page.locator(".lablib-veiled").count(), button.count()) == (1, 1)
    slider.evaluate("e => e.focus()")
    assert not slider.evaluate("e => e === document.activeElement")  # nor can it be tabbed to
    button.click()
    assert page.locator(".lablib-veiled").count() == button.count() == 0
    slider.focus()
    assert slider.evaluate("e => e === document.activeElement")
    folded = page.locator("details.lablib-answer:not([open])")
    assert folded.count() > 0
    page.get_by_role("button", name="Show all pictures and answers").click()
    assert folded.count() == 0
    assert reader.complaints == []


def test_paper_has_the_pictures_and_whole_lines_of_code(reader):
    page = reader.page
    page.goto(f"{reader.address}00_start_here.html", wait_until="networkidle")
    page.emulate_media(media="print")
    page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_load_state("networkidle")
    assert page.locator(".lablib-veiled, details.lablib-answer:not([open])").count() == 0
    seen = "all => all.filter(e => getComputedStyle(e).display !== 'none').length"
    hidden = page.locator(".skip-to-content, .lablib-controls, .lablib-all, .back-to-top")
    assert hidden.evaluate_all(seen) == 0
    images = page.locator("article img")
    assert images.evaluate_all("all => all.every(e => e.complete && e.naturalWidth > 0)")
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert page.locator("article pre, .lablib-slides").evaluate_all(cut) == 0
    moves = "all => all.filter(e => getComputedStyle(e).animationName !== 'none').length"
    assert page.locator("details.hide > *").evaluate_all(moves) == 0  # it would begin unseen
    page.emulate_media(media="screen")


def test_axe_finds_nothing_and_nothing_is_wider_than_a_phone(reader):
    reader.open("00_start_here")
    assert reader.axe() == []
    assert reader.page.evaluate("document.documentElement.scrollWidth") <= 420


@pytest.mark.parametrize(
    ("text", "open_", "closed"),
    [
        ("A.\n\nB.", "", "A.\n\nB."),
        ("A.\n\nB.\n\n## C\n\nD.", "## C\n\nD.", "A.\n\nB."),
        ("A.\n\n**B.** C.", "**B.** C.", "A."),
        ("A.\n\nB.\n\n**Question.** C?", "B.\n\n**Question.** C?", "A."),
        ("A.\n\nNow B. **Question.** C?", "Now B. **Question.** C?", "A."),
    ],
)
def test_an_answer_ends_where_something_new_begins(text, open_, closed):
    start, *rest = folded(text).split("</details>")
    assert start.endswith(f"</summary>\n\n{closed}\n\n")
    assert rest == [f"\n\n{open_}" if open_ else ""]


@pytest.mark.parametrize("text", ["**A.** B.", "## A\n\nB.", "**Question.** A?"])
def test_a_text_that_begins_anew_is_not_folded(text):
    assert folded(text) == text


def test_links_to_binder_and_colab_need_a_repository():
    path = Path("03_a b.ipynb")
    assert Links().launch(path).count("<a ") == 1
    github = Links("https://github.com/OWNER/REPO.git", "next").launch(path)
    place = "notebooks/03_a%20b.ipynb"
    assert f"https://colab.research.google.com/github/OWNER/REPO/blob/next/{place}" in github
    assert f"https://mybinder.org/v2/gh/OWNER/REPO/next?urlpath=lab/tree/{place}" in github
    assert '"lablib[lab] @ git+https://github.com/OWNER/REPO@next"' in github
    other = Links("https://git.example/a/b/").launch(path)
    assert "https://mybinder.org/v2/git/https%3A%2F%2Fgit.example%2Fa%2Fb/main?" in other
    assert "colab" not in other


def test_bad_input_is_refused_before_any_work(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("keep")
    assert main(["site", str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said == [f"lablib: OUT must be a new folder or one with a site, got '{tmp_path}'"]
    assert (tmp_path / "mine.txt").exists()
    for address in ("github.com/a/b", "https://x", 'https://x.y/"><script>'):
        with pytest.raises(ValueError, match="repository must be an https address, got"):
            build(tmp_path / "new", repository=address)
    for address in ("lab.example", "http://lab.example/", 'https://x.y/">'):
        with pytest.raises(ValueError, match="address must be an https address, got"):
            build(tmp_path / "new", address=address)
    assert not (tmp_path / "new").exists()


def test_a_link_to_any_page_has_a_preview(site):
    with Image.open(site[0] / "_static/share.png") as picture:
        assert picture.size == (1200, 630)
        assert len(np.unique(np.asarray(picture.convert("L")))) > 100  # and it is drawn upon
    for name in ("index", "play", "00_start_here", "reference"):
        text = (site[0] / f"{name}.html").read_text("utf-8")
        told = {}
        for tag in re.findall(r"<meta [^>]*>", text):
            parts = dict(re.findall(r'(\w+)="([^"]*)"', tag))
            told.setdefault(parts.get("property", parts.get("name")), []).append(
                parts.get("content")
            )
        for each in ("title", "description", "image", "image:alt", "type"):
            assert len(told[f"og:{each}"]) == 1, (name, each)
        assert told["twitter:card"] == ["summary_large_image"]
        assert told["og:image"] == ["https://lab.example/a/_static/share.png"]


def test_the_picture_is_of_the_page_as_it_begins():
    start = (play.PAGE / "state.mjs").read_text("utf-8")
    assert re.search(r"prompt: 'On a sunny day, Mia finds',\s+seed: 12,", start)

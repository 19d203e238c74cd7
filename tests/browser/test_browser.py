"""Every lesson with a widget, in a real JupyterLab: it runs, and its sliders move its pictures.

``LABLIB_SHOTS=folder`` keeps screenshots of every lesson.
"""

import os
import re
from pathlib import Path

from lablib.teach import editions

import nbformat
import pytest
from nbclient import NotebookClient
from oracles import access, browser
from oracles.demo import SHOWN, write_demo

pytestmark = pytest.mark.browser

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
VIEW = "application/vnd.jupyter.widget-view+json"


def has_widget(path: Path) -> bool:
    """Whether a recorded notebook shows a widget."""
    cells = nbformat.read(path, as_version=4).cells
    return any(VIEW in out.get("data", {}) for cell in cells for out in cell.get("outputs", []))


LESSONS = [path for path in sorted(NOTEBOOKS.glob("*.ipynb")) if has_widget(path)]
# What the second tier opens. A real model takes minutes beside another kernel (12, 17), and the
# others have no kind of control that these two lack: they are slow. nbval runs the cells of all of
# them in any case, and tests/lessons moves their widgets without a browser.
OPENED = ("00_start_here", "04_many_sequences")


@pytest.fixture(scope="module")
def course(lab, request):
    """The lessons of the tests that were chosen; two run at a time, as two cores can."""
    chosen = [item for item in request.session.items if item.path == request.path]
    given = [item.callspec.params for item in chosen if hasattr(item, "callspec")]
    course = browser.Course(lab, [each["path"].name for each in given if "path" in each])
    yield course
    course.close()


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.stem not in OPENED)) for path in LESSONS],
    ids=lambda path: path.stem,
)
def test_a_lesson_runs_and_its_widgets_answer(path, course, tmp_path):
    with course.lesson(path.name) as lesson:
        assert lesson.errors() == []
        assert lesson.widgets() > 0
        for i in range(lesson.widgets()):
            if not lesson.widget(i).locator(".widget-readout").count():
                continue  # menus only: their keys are tried in tests/plots
            readout = lesson.readout(i)
            lesson.press(i)
            assert lesson.readout(i) != readout
        assert access.complaints(lesson) == []
        if kept := os.environ.get("LABLIB_SHOTS"):
            lesson.screenshots(Path(kept), path.stem)
        lesson.page.screenshot(path=tmp_path / f"{path.stem}.png")
        assert lesson.page_errors == []


def test_the_harness_sees_answers_errors_and_dead_widgets(lab, folder, tmp_path):
    dead = "dead = Powers(0)\ndead.controls['power'].unobserve_all('value')\ndead"
    name = write_demo(folder, "demo.ipynb", "Powers(0)", dead, "1 / 0")
    with browser.Lesson(lab, name) as lesson:
        lesson.run_all()
        assert lesson.widgets() == 2
        assert "The last bar is 3." in lesson.picture(0)
        assert lesson.press(0) < 20_000
        assert "The last bar is 9." in lesson.picture(0)
        assert lesson.readout(0) == "2"
        lesson.press(0, "Home")
        assert "The last bar is 1." in lesson.picture(0)
        lesson.press(0, "End")
        lesson.press(0)  # at its end it goes left
        assert lesson.readout(0) == "2"
        with pytest.raises(TimeoutError, match="widget 1 did not change"):
            lesson.press(1, seconds=1)
        assert lesson.errors() == ["cell 3: ZeroDivisionError: division by zero"]
        lesson.page.evaluate("() => { setTimeout(() => { throw new Error('planted') }) }")
        lesson.page.evaluate(
            "() => { setTimeout(() => document.body.removeChild(document.createElement('p'))) }"
        )  # JupyterLab's own race: not the lesson's
        lesson.page.wait_for_timeout(100)
        assert [re.sub(r".*: ", "", error) for error in lesson.page_errors] == ["planted"]
        shots = lesson.screenshots(tmp_path, "demo")
        assert len(shots) >= 1
        assert all(shot.stat().st_size > 10_000 for shot in shots)


def test_an_answer_is_folded_and_told_by_nothing_until_its_cell_is_run(lab, folder):
    path = folder / write_demo(folder, "folded.ipynb", "print('seven')\nPowers(0)", SHOWN)
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell("**Question.** How many?"))
    NotebookClient(notebook, store_widget_state=False).execute()
    nbformat.write(notebook, path)
    editions.main(path)
    with browser.Lesson(lab, path.name) as lesson:
        assert [text.strip() for text in lesson.folds()] == ["", ""]
        assert lab.get_by_text("seven", exact=True).count() == 0
        lesson.run_all()
        assert lesson.folds() == []
        assert lab.get_by_text("seven", exact=True).count() == 1
        assert lesson.widgets() == 1


DASHBOARD = """
import lablib
from lablib.course.lessons.lesson_08.dashboard import Dashboard
from lablib.course.replay.recording import stored_acceptance

target, tokenizer = lablib.load("target")
draft, _ = lablib.load("draft")
words = [tokenizer.decode([i], skip_special_tokens=True) for i in range(target.vocab_size)]
head = lablib.load_head("target-head", target)
Dashboard(stored_acceptance(), target, draft, head, words, task="sums")
"""


def test_a_token_is_picked_by_a_click_or_by_keys(lab, folder, tmp_path):
    name = write_demo(folder, "dashboard.ipynb", DASHBOARD)
    with browser.Lesson(lab, name) as lesson:
        lesson.run_all()
        board = lab.locator(".lablib-explorer")
        told, stage = board.locator(".lablib-told"), board.locator(".lablib-scene")
        assert board.bounding_box()["height"] <= 620
        board.locator(".lablib-cell").nth(2).click()
        told.get_by_text("Text 1, token 3, ").wait_for()
        lab.mouse.move(0, 0)
        stage.focus()  # without a mouse: Tab and the arrows
        lab.keyboard.press("ArrowRight")
        told.get_by_text("Text 1, token 4, ").wait_for()
        assert "text 1, token 4: " in board.locator("svg").text_content()
        board.locator("select").first.select_option("stories")
        board.locator("svg").get_by_text("stories, temperature 1").wait_for()
        assert told.inner_text().startswith("Text 1, token 4, ")  # the choice stays
        browser.resize(lab, browser.NARROW)
        assert access.cut_off(lesson) == []
        if kept := os.environ.get("LABLIB_SHOTS"):
            lesson.screenshots(Path(kept), "dashboard-narrow")
        browser.resize(lab, browser.WIDE)
        assert lesson.errors() == lesson.page_errors == []


LIVE = """
import lablib
from lablib.course.lessons.lesson_07.rounds import RoundByRound

target, tokenizer = lablib.load("target")
draft, _ = lablib.load("draft")
words = [tokenizer.decode([i], skip_special_tokens=True) for i in range(target.vocab_size)]


def begin(text):
    ids = tokenizer.encode(text)
    return ids, lablib.SpeculativeTokenIterator(target, draft, ids, temperature=0.0, trace=True)


ids, some = begin("sum 7 3 9 0 4 8:")
next(some)
RoundByRound({"sums": (ids, some.rounds)}, words, begin)
"""


def test_a_typed_prompt_is_drafted_and_verified_round_by_round(lab, folder):
    name = write_demo(folder, "live.ipynb", LIVE)
    with browser.Lesson(lab, name) as lesson:
        lesson.run_all()
        board = lab.locator(".lablib-explorer")
        board.locator("p").get_by_text("Round 1 of 1").wait_for()
        box = board.locator("input[type=text]")
        box.fill("Late on a windy afternoon,")
        box.press("Enter")
        said = board.locator("p")
        said.get_by_text("Round 1: ").wait_for()
        assert board.locator("select").input_value() == "your prompt"
        lesson.press(0, "ArrowRight")
        said.get_by_text("Round 2: ").wait_for()
        browser.resize(lab, browser.NARROW)
        assert access.cut_off(lesson) == []
        if kept := os.environ.get("LABLIB_SHOTS"):
            lesson.screenshots(Path(kept), "live-narrow")
        browser.resize(lab, browser.WIDE)
        if kept := os.environ.get("LABLIB_SHOTS"):
            lesson.screenshots(Path(kept), "live")
        assert lesson.errors() == lesson.page_errors == []


CHAT = """
import time

import lablib
from lablib.inference import NGram

model, tokenizer = lablib.load("target")
tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def slowly(tokens, logits):
    time.sleep(0.05 if more["slow"] else 0)
    return logits


more = {"slow": True}
talk = lablib.chat(
    model, tokenizer, NGram(), temperature=0.8, seed=1, max_tokens=120, stop_tokens=(),
    logits_processors=[slowly],
)
talk
"""
AND = "print(len(talk.conversation.answer.tokens), 'so far')\nmore['slow'] = False"


# The dark one is for its screenshots: what is asserted below is the same in both.
@pytest.mark.parametrize(
    "dark", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["light", "dark"]
)
def test_a_chat_streams_marks_drafts_and_stops(dark, lab, folder):
    name = write_demo(folder, "chat.ipynb", CHAT, AND)
    browser.dress(lab, dark)
    with browser.Lesson(lab, name) as lesson:
        for _ in range(2):  # all cells but the last
            lab.evaluate(
                "() => window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')"
            )
        chat = lab.locator(".lablib-chat")
        chat.wait_for()
        stop, tokens = chat.get_by_role("button", name="Stop"), chat.locator(".lablib-strip span")
        assert stop.is_disabled()
        chat.locator("input").click()
        lab.keyboard.type("On a sunny day, Mia finds")
        lab.keyboard.press("Enter")
        legend, count = 5, "document.querySelectorAll('.lablib-chat .lablib-strip span').length"
        lab.wait_for_function(f"() => {count} > 12")
        assert chat.locator("input").input_value() == ""
        assert "On a sunny day, Mia finds" in chat.inner_text()
        assert stop.is_enabled()
        assert chat.get_by_role("button", name="Send").is_disabled()
        before = tokens.count()
        lab.wait_for_function(
            "n => document.querySelectorAll('.lablib-chat .lablib-strip span').length > n",
            arg=before,
        )
        stop.click()
        chat.get_by_text("stopped").wait_for()
        stopped = tokens.count() - legend
        assert stopped < 110
        assert stop.is_disabled()
        assert lesson.errors() == []
        # The kernel runs other cells, and the conversation goes on, while an answer is written.
        chat.locator("input").click()
        lab.keyboard.type(" in the forest.")
        lab.keyboard.press("Enter")
        going = "![...document.querySelectorAll('.lablib-chat button')][1].disabled"
        lab.wait_for_function(f"() => {count} > 9 && {going}")
        for command in ("move-cursor-down", "run-cell"):
            lab.evaluate(f"() => window.jupyterapp.commands.execute('notebook:{command}')")
        said = lab.locator(".jp-OutputArea-output", has_text="so far")
        said.wait_for()
        assert 0 < int(said.inner_text().split()[0]) < 110
        chat.get_by_text("max_tokens ended it").wait_for()
        assert tokens.count() - legend == 120
        assert chat.locator(".kept").count() > 1
        assert "drafts kept" in chat.inner_text()
        if kept := os.environ.get("LABLIB_SHOTS"):
            lesson.screenshots(Path(kept), f"chat-{'dark' if dark else 'light'}")
        # An error is one line, and the box stays usable.
        chat.locator("input").click()
        lab.keyboard.insert_text("on and on " * 500)
        lab.keyboard.press("Enter")
        error = chat.get_by_role("alert")
        error.wait_for()
        assert error.inner_text().startswith("BadValue: prompt (")
        browser.resize(lab, browser.NARROW)
        if kept:
            lesson.screenshots(Path(kept), f"chat-narrow-{'dark' if dark else 'light'}")
        browser.resize(lab, browser.WIDE)
        chat.get_by_role("button", name="New").click()
        error.wait_for(state="detached")
        assert lesson.errors() == lesson.page_errors == []
    browser.dress(lab, False)

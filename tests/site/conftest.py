"""A small site, built once: one lesson of a few cells, with what else a site has; and a browser."""

import json
import os

from lablib.teach.editions import exercise_cells, write_notebook
from lablib.tools.site.build import build

import nbformat
import pytest
from filelock import FileLock
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from oracles import browser

pytest.importorskip("sphinx", reason="no Sphinx: pip install 'lablib[site]'; the site is untested")

EXPLORER = """
from lablib.course.plots.chart import ChartExplorer
from lablib.course.plots.explorer import Player, choice, slider
from lablib.course.plots.charts import bars

class Twice(ChartExplorer):
    def compute(self, number, of, step):
        return number + min(step, 1) if of == "once" else 2 * number + step

    def ends(self, number, of, step):
        return {"step": 1} if of == "once" else {}

    def chart(self, data):
        return bars("a", {"height": [data]}, "height", ymax=20)

    def caption(self, data):
        return f"The bar is {data} high."

of = choice("twice", ["once", "twice"])
twice = Twice(number=slider(3, 1, 4), of=of, step=Player(0, 0, 3, 50))
twice
"""
SCENE = """
from lablib.course.lessons.lesson_07.widgets import Acceptance, GreedyText

half = (0.5,) * 9
Acceptance([GreedyText("sums", tuple("abcdefghi"), ("sign",) * 9, ("x",) * 9, half, half,
    (True, True, False) * 3)])
"""
LIVE = """
from lablib.course.lessons.lesson_03.widgets import BeforeAfter
from lablib.course.lessons.lesson_06.widgets import VoteBars
from lablib.course.replay.curves import Sampled

BeforeAfter(["mat", "sofa", "floor", "roof"], [4.0, 3.2, 3.0, 1.0])
"""
RACE = 'VoteBars({"easy": Sampled("7", ["7", "3", "7", None] * 8)})'
DART = """
from lablib.course.lessons.lesson_01.widgets import Draw, NextToken

Draw(["the", "cat", "dog"], [0.0, 2.0, 1.0])
"""
READ = """
import lablib
from lablib.course.lessons.lesson_08.dashboard import shipped_dashboard

model, tokenizer = lablib.load("target")
pieces = [tokenizer.decode([i]) for i in range(model.vocab_size)]
read = [*tokenizer.encode("On a sunny day, Mia finds a red ball in the garden."), 2]
NextToken(model, {"a story": read, "a sum": tokenizer.encode("sum 1 2 3 4 5 6:")}, pieces)
"""
BOARD = """
shown = {"rules": ["match", "rejection"], "drafters": ["draft model"]}
shipped_dashboard(model, lablib.load("draft")[0], pieces, **shown)
"""
ASKED = 'Which?\n  a  this\n  b  that one\nAnswer in the cell: predict("03.q1", "a"); or go on.\n'
PNG = (  # a red point
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)


def printed(text):
    return new_output("stream", name="stdout", text=text)


def lesson():
    """Return a lesson: a question, an explorer, a picture, an exercise and links."""
    title = "# 00 · Small\n\n**Time** 3 minutes · **Builds on** [01](01_from_logits_to_text.ipynb)"
    asks = "## Look\n\n**Question.** How high? See [temperature](GLOSSARY.md#temperature)."
    told = "Six, of course.\n\n**Then** it goes on: $a_1 + \\dots$"
    picture = {"image/png": PNG, "text/plain": "A point."}
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "x"}}
    shown = new_output("display_data", {**picture, **view}, metadata={"image/png": {"alt": "Red."}})
    counted = [printed("recor"), printed("ded 7\n")]
    cells = [
        new_markdown_cell(title, id="title"),
        new_markdown_cell(asks, id="question"),
        new_code_cell(EXPLORER.strip(), id="explorer"),
        new_markdown_cell(told, id="answer"),
        new_code_cell("print('run', 7)\nassert not 'quick'", id="busy", outputs=counted),
        new_code_cell("None", id="picture", outputs=[shown]),
        new_code_cell(SCENE.strip(), id="scene"),
        new_code_cell(LIVE.strip(), id="live"),
        new_code_cell(RACE, id="race"),
        new_code_cell(DART.strip(), id="dart"),
        new_code_cell(READ.strip(), id="read"),
        new_code_cell(BOARD.strip(), id="board"),
        new_code_cell("from lablib.course import predict, recall", id="asking"),
        new_code_cell("recall()", id="recalled", outputs=[printed("The only one today.")]),
        new_code_cell('predict("03.q1", ...)', id="predicted", outputs=[printed(ASKED)]),
        *exercise_cells("00.1"),
    ]
    return nbformat.from_dict(new_notebook(cells=cells))


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Build it: the site's folder, the notebook, the folder for films, and what was said.

    The processes of a run share one, as it takes most of a minute: who changes files copies them.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site"
    path, told = folder / "00_start_here.ipynb", folder / "said.json"
    with FileLock(f"{folder}.lock"):
        if not told.exists():
            folder.mkdir(exist_ok=True)
            said: list[str] = []
            more = {"kept": folder / "kept", "say": said.append}
            write_notebook(lesson(), path)
            warnings = build(folder / "out", [path], address="https://lab.example/a/", **more)
            assert warnings == []
            told.write_text(json.dumps(said))
    return folder / "out", path, folder / "kept", json.loads(told.read_text())


@pytest.fixture(scope="module")
def chrome():
    browser.need("the pages with the models")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=browser.chromium(), args=browser.FLAGS)
        yield chrome
        chrome.close()

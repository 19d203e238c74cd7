"""Slides: made by the rule, without a solution, from nothing but the lesson, and all of it fits."""

import re
from html.parser import HTMLParser
from pathlib import Path

from lablib import __main__
from lablib.course.checks.exercises import exercises
from lablib.teach import release
from lablib.teach.editions import QUESTION, edition, part_of, read_notebook, write_notebook
from lablib.teach.markdown import beginning, html, plain, sentences
from lablib.teach.shown import given, shown
from lablib.teach.slides import HIGH, LONGEST, ROWS, slides, slides_page

import pytest
from oracles import browser
from oracles.alone import fetched, solution_lines, words

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
by_lesson = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def markdown(text):
    return {"cell_type": "markdown", "id": "text", "metadata": {}, "source": text}


def code(source, *outputs):
    return {"cell_type": "code", "id": "code", "metadata": {}, "source": source,
            "outputs": [*outputs], "execution_count": 1}  # fmt: skip


def printed(text):
    return {"output_type": "stream", "name": "stdout", "text": [text]}


def made(*cells):
    return slides({"cells": [*cells], "nbformat": 4})


@by_lesson
def test_no_slide_shows_a_solution_and_none_needs_the_network(path):
    page = slides_page(edition(read_notebook(path), solved=False))
    assert fetched(page) == []
    text = words(page)
    for exercise in exercises(path.name[:2]):
        assert exercise.title in text
        for line in solution_lines(exercise, path):
            assert line not in text
        assert not any(call in text for call in (f'hint("{exercise.id}")', "solution("))


@by_lesson
def test_each_question_picture_and_exercise_has_its_slide_in_the_lessons_order(path):
    notebook = read_notebook(path)
    found = slides(notebook)
    expected = []
    for cell in notebook["cells"]:
        exercise, part = part_of(cell)
        if part == "task":
            expected.append("exercise")
        elif not exercise and not cell["source"].startswith("progress("):
            if cell["cell_type"] == "markdown" and QUESTION in cell["source"]:
                expected.append("question")
            pictures = [each for each in cell.get("outputs", ()) if "image/png" in str(each)]
            expected += ["picture"] * len(pictures)
    kinds = ["picture" if "<img" in each.body else each.kind for each in found]
    assert [kind for kind in kinds if kind in {*expected}] == expected
    assert [each.title for each in found if each.kind == "exercise"] == [
        f"Exercise {each.id} · {each.title}" for each in exercises(path.name[:2])
    ]


def test_a_question_stands_before_its_answer_with_what_one_has_to_know():
    text = f"## Odds\n\nThree words. {QUESTION} Which is the best?\n\nCount them."
    asked = (
        "Which of two?\n  a  the first\n  b  the second\nAnswer in the cell: or go on without.\n"
    )
    predict = code('predict("99.q1", ...)', printed(asked))
    cell = code("p = [0.2, 0.8]  # no, yes\nbest = max(p)\nprint(best)", printed("0.8\n"))
    before, question, answer = made(markdown(text), predict, cell)
    assert [each.kind for each in (before, question, answer)] == ["text", "question", "output"]
    assert {each.title for each in (before, question, answer)} == {"Odds"}
    assert "Three words." in before.body
    assert "Which is the best?" in question.body
    assert "a  the first" in question.body
    assert "b  the second" in question.body
    assert "Answer in the cell" not in question.body
    assert "# no, yes" in words(question.body)
    assert "best" not in words(question.body).replace("the best?", "")
    assert "Count them." in question.notes
    assert "0.8" in answer.body


def test_what_a_slide_leaves_out_is_in_its_notes():
    text = "# A title\n\nFirst one. " + "Another sentence that is not short at all. " * 12
    (slide,) = made(markdown(text))
    assert "First one." in slide.body
    assert len(words(slide.body)) < len(text) / 2
    assert words(slide.notes) == text.removeprefix("# A title\n\n").strip()
    long = f"{QUESTION} Is it? " + "It may be so, or it may be otherwise. " * 20
    (question,) = made(markdown(long))
    assert len(words(question.body)) <= LONGEST
    assert words(question.notes).startswith("Is it? It may")


def test_long_lists_tables_and_outputs_go_on_under_the_same_name():
    items = "\n".join(f"- item {number} of a list" for number in range(30))
    rows = "\n".join(f"| row {number} | x |" for number in range(30))
    table = f"| head | second |\n|---|---|\n{rows}"
    lines = "\n".join(f"line {number}" for number in range(2 * ROWS + 1))
    cell = code("print(all_of_it)", printed(lines))
    found = made(markdown(f"## Long\n\n{items}\n\nThen.\n\n{table}"), cell)
    assert {each.title for each in found} == {"Long"}
    seen = " ".join(words(each.body) for each in found)
    for number in range(30):
        assert f"item {number} of" in seen
        assert f"row {number}\n" in seen
    assert all(f"line {number}" in seen for number in range(2 * ROWS + 1))
    assert all("<th>head</th>" in each.body for each in found if "<td>" in each.body)
    assert all(each.body.count("<li>") <= HIGH for each in found)
    assert sum(each.body.count("<pre") for each in found) == 3
    assert "all_of_it" in words(next(each.notes for each in found if "<pre" in each.body))
    *_, last = made(code("print()", printed("much\n" * 10_000)))
    assert "lines more, in the lesson" in last.body


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two? Three!", ["One.", "Two?", "Three!"]),
        ("See Chen et al. They did (Well. Not all.) it. End.",
         ["See Chen et al. They did (Well. Not all.) it.", "End."]),
        ("*The dog ran . It* sat. `a. B` is code. $p. Q$ too.",
         ["*The dog ran . It* sat.", "`a. B` is code.", "$p. Q$ too."]),
        ("About 0.5 of it. “Is it? Yes.” he said.", ["About 0.5 of it.", "“Is it? Yes.” he said."]),
        ("none", ["none"]),
    ],
)  # fmt: skip
def test_sentences_end_where_a_reader_thinks_they_do(text, expected):
    assert sentences(text) == expected


def test_a_beginning_is_a_sentence_and_a_bold_heading_is_none():
    assert beginning("**Head.** A long sentence. More.", 5) == "**Head.** A long sentence."
    assert beginning("One. Two. Three.", 9) == "One. Two."


def test_markdown_stands_alone():
    text = (
        "[word](GLOSSARY.md#word), [far](https://x.org), ![alt](https://x.org/a.png), <img src=x>"
    )
    shown_ = html(text)
    assert '<a href="https://x.org">far</a>' in shown_
    assert fetched(shown_) == []
    assert "GLOSSARY" not in shown_
    assert "alt" in shown_
    assert "<math" in html(r"$\alpha$ and" + "\n\n" + r"$$\frac{1}{2} \dots$$")
    assert plain("**[a](b.md)** *c* `d`") == "a c d"


def test_what_is_given_is_spelled_out_and_nothing_else():
    cell = 'p = np.array([1, 2])  # odds\nq = p / 3\nn = 5\nnone = []\nx, y = [1], [2]\nw = ["a"]'
    assert given(cell) == 'p = np.array([1, 2])  # odds\nw = ["a"]'
    assert given("%matplotlib inline\np = [1]") == ""
    assert shown(code("", printed("\n"))) == []


def test_the_command_writes_a_page_a_lesson_and_refuses_what_it_cannot_honour(tmp_path, capsys):
    own = write_notebook(read_notebook(NOTEBOOKS[3]), tmp_path / "mine.ipynb")
    words_ = ["release", str(tmp_path / "out"), "01", str(own), "--slides"]
    assert __main__.main(words_) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "out/slides")]
    names = {path.name for path in (tmp_path / "out").rglob("*.*")}
    assert names == {"01_from_logits_to_text.html", "mine.html"}
    assert __main__.main([*words_, "--assessment"]) == 2
    told = capsys.readouterr().err
    assert told == "lablib: assessment must be off for slides and sheet: they show no solutions\n"
    release.release(tmp_path / "both", ["01"], slides=True, otter=True)
    assert {path.name for path in (tmp_path / "both").iterdir()} == {"slides", "otter"}


def test_what_a_teacher_solved_or_a_student_wrote_is_not_on_the_slides(tmp_path):
    solved = edition(read_notebook(NOTEBOOKS[1]), solved=True)
    path = write_notebook(solved, tmp_path / NOTEBOOKS[1].name)
    release.release(tmp_path / "out", [path], slides=True)
    text = words((tmp_path / "out/slides" / f"{path.stem}.html").read_text())
    for exercise in exercises("01"):
        assert not any(line in text for line in solution_lines(exercise, NOTEBOOKS[1]))


class _Balanced(HTMLParser):
    """Reads a page and keeps what is open."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@by_lesson
def test_the_page_is_well_formed_and_each_slide_has_one_place(path):
    page = slides_page(read_notebook(path))
    reader = _Balanced()
    reader.feed(page)
    assert (reader.open, reader.wrong) == ([], [])
    ids = re.findall(r'<section id="(\d+)"', page)
    assert ids == [str(number) for number in range(1, len(ids) + 1)]


CUT_OFF = """async () => {
  await Promise.all([...document.images].map((image) => image.decode()));
  document.body.classList.remove("running");
  const bad = [];
  for (const slide of document.querySelectorAll(".slide")) {
    const edge = slide.getBoundingClientRect();
    for (const each of slide.querySelectorAll("*:not(style)")) {
      const box = each.getBoundingClientRect();
      if (box.bottom > edge.bottom - 2 || box.right > edge.right - 2 || box.left < edge.left)
        bad.push([slide.parentElement.id, each.tagName, box.bottom - edge.top]);
    }
  }
  document.body.classList.add("running");
  return bad;
}"""


@pytest.fixture(scope="module")
def window():
    """A browser's page as large as a projector's, and what it asked of the network."""
    browser.need("the slides")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=browser.chromium(), args=browser.FLAGS)
        page = chrome.new_page(viewport={"width": 1280, "height": 720})
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: asked.append(str(error)))
        yield page, asked
        chrome.close()


@by_lesson
def test_nothing_is_cut_off_in_a_browser(path, window, tmp_path):
    page, asked = window
    asked.clear()
    file = tmp_path / "slides.html"
    file.write_text(slides_page(read_notebook(path)))
    page.goto(file.as_uri())
    assert page.evaluate(CUT_OFF) == []
    assert all(url.startswith(("file:", "data:")) for url in asked)


def test_keys_and_buttons_turn_the_slides(window, tmp_path):
    page, _ = window
    file = tmp_path / "slides.html"
    file.write_text(slides_page(read_notebook(NOTEBOOKS[0])))
    page.goto(file.as_uri())
    count = page.locator("section").count()

    def now():
        (seen,) = (each for each in page.locator("section").all() if each.is_visible())
        return int(seen.get_attribute("id"))

    steps = {"ArrowRight": 2, "PageDown": 3, " ": 4, "ArrowLeft": 3, "End": count,
             "ArrowDown": count, "Home": 1, "ArrowUp": 1}  # fmt: skip
    for key, place in steps.items():
        page.keyboard.press("Space" if key == " " else key)
        page.wait_for_function("n => location.hash.slice(1) === n || n === '1'", arg=str(place))
        page.wait_for_timeout(50)
        assert now() == place, key
    page.get_by_role("button", name="On").click()
    page.wait_for_timeout(50)
    assert now() == 2
    assert page.locator("output").inner_text() == f"2 / {count}"
    noted = page.locator("section:has(.notes)").first.get_attribute("id")
    page.goto(f"{file.as_uri()}#{noted}")
    notes = page.locator(f"[id='{noted}'] .notes")
    assert not notes.is_visible()
    page.keyboard.press("n")
    assert notes.is_visible()
    box = page.locator(f"[id='{noted}'] .slide").bounding_box()
    assert box["y"] + box["height"] <= notes.bounding_box()["y"] + 1

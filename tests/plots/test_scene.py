"""Scenes in Chromium: what the page draws is what the data say, and it can be pointed at."""

import contextlib
import dataclasses
import io
import itertools
import json
import math
import re

from lablib import models
from lablib.course.lessons.lesson_00.widgets import StoryTeller
from lablib.course.lessons.lesson_01.widgets import Draw
from lablib.course.lessons.lesson_03.widgets import BeforeAfter
from lablib.course.lessons.lesson_04.widgets import SlotTimeline
from lablib.course.lessons.lesson_07.rounds import LOOKS, RoundByRound
from lablib.course.lessons.lesson_07.speed import LengthCurves
from lablib.course.lessons.lesson_07.widgets import Acceptance, GreedyText
from lablib.course.lessons.lesson_08.dashboard import PLAYED, WORDS, shipped_dashboard
from lablib.course.lessons.lesson_10.widgets import scars
from lablib.course.lessons.lesson_11.widgets import TreeFilm
from lablib.course.lessons.lesson_13.rounds import Prices
from lablib.course.lessons.lesson_13.widgets import ALL, Trees, mask_figure
from lablib.course.plots import scene
from lablib.course.plots.chart import Chart
from lablib.course.plots.charts import axis, lines, panel, show, token_strip
from lablib.course.replay.recording import DRAFT, HEAD, LOOKUP
from lablib.course.tasks import stories
from lablib.inference.speculation.costs import Costs

import mlx.core as mx
import numpy as np
import pytest
from oracles import browser, charts, stills
from oracles.access import axe_script
from oracles.speculation import near, target
from PIL import Image

pytestmark = pytest.mark.browser
COSTS = Costs((2.0, 2.4, 2.6, 3.0, 3.1, 3.3, 3.4, 3.8, 4.0), 0.3)


def some_text(task, length, rng):
    flags = tuple((rng.random(length) < 0.7).tolist())
    kinds = tuple(rng.choice(["operand", "sign"], size=length).tolist())
    shares = tuple(rng.random(length).tolist())
    found = ["+", "=", "3"] if task == "sums" else ["␣them", "</p>", "3"]
    words = tuple(rng.choice(found, size=length).tolist())
    return GreedyText(task, words, kinds, words, shares, shares, flags)


@pytest.fixture(scope="module")
def carpet():
    rng = np.random.default_rng(0)
    lengths = {"sums": 33, "edits": 12}
    texts = [some_text(task, n, rng) for task, n in lengths.items() for _ in range(15)]
    return Acceptance(texts)


@pytest.fixture(scope="module")
def page():
    browser.need("scenes")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chrome = driver.chromium.launch(executable_path=browser.chromium(), args=browser.FLAGS)
        page = chrome.new_page(viewport={"width": 1000, "height": 900})
        page.set_default_timeout(10_000)
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("console", lambda said: page.complaints.append(said.text))
        yield page
        chrome.close()


@pytest.fixture(scope="module")
def trees():
    model = target("llama3", peak=2)
    pieces = [f" {i * 'word'}" for i in range(model.vocab_size)]
    texts = {"one": [3, 1, 4, 1, 5, 9], "two": [2, 7, 1, 8]}
    prices = Prices(Costs(tuple(2 + 0.2 * k for k in range(17)), 0.2), 0.5)
    return Trees(model, near(model, 0.3), texts, pieces, prices)


# Two frames later all moves have begun; a loaded machine takes its time.
STILL = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>
  Promise.allSettled(document.getAnimations().map(each => each.finished)).then(() => done()))))"""


def opened(page, explorer, moves=True):
    """Open a page with a scene; return a function that draws it, and returns its data.

    Shapes move to their places, unless the reader, who is asked by ``moves``, doesn't want it.
    """
    page.emulate_media(reduced_motion="no-preference" if moves else "reduce")
    script, sheet = scene.script(), scene.sheet()
    told = json.dumps(explorer.told).replace("</", "<\\/")
    page.goto("about:blank")
    page.set_content(
        f"<!doctype html><html lang=en><title>x</title><style>{sheet}</style><main id=a></main>"
        f"<script>{script}\nconst told = {told}, root = document.querySelector('#a');\n"
        "const draw = painter(root, scenes[told.name], told.constants, told.called);</script>"
    )

    def show(**values):
        data, caption = explorer.frame(**values)
        page.evaluate("([data, caption]) => draw(data, caption)", [data, caption])
        page.evaluate(STILL)  # what draws itself anew as it sees its size has done so, too
        return data

    return show


@pytest.fixture(autouse=True)
def no_complaints(page):
    page.complaints.clear()
    yield
    assert page.complaints == []


@pytest.fixture
def shown(page, carpet):
    return opened(page, carpet)


def size(page):
    box = page.locator("svg").bounding_box()
    return box["width"], box["height"]


def every(page, look, what):
    """Return what JavaScript says of each shape ``e`` that looks so."""
    return page.locator(look).evaluate_all(f"all => all.map(e => {what})")


def filled(page, look=".lablib-cell"):
    return every(page, look, "e.getAttribute('fill')")


def boxes(page, look):
    return every(page, look, "e.getBoundingClientRect().toJSON()")


def walked(page, keys):
    """Press arrows in the scene, by their letters; return what is told after each."""
    stage, told = page.locator(".lablib-scene"), page.locator(".lablib-told")
    stage.focus()
    arrows = {"L": "ArrowLeft", "R": "ArrowRight", "U": "ArrowUp", "D": "ArrowDown"}
    return [stage.press(arrows[key]) or told.inner_text() for key in keys]


@contextlib.contextmanager
def narrowed(page, width):
    """Give the page another width, and wait for the picture that is drawn for it."""
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(STILL)
    yield
    page.set_viewport_size({"width": 1000, "height": 900})


def outside(page):
    """Return what lies outside the picture, and check that its letters can be read."""
    small = page.evaluate(  # at once: a picture drawn anew in between has no letters
        "Math.min(...[...document.querySelectorAll('svg text')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert 11 <= small < math.inf
    return page.evaluate(
        """() => {
          const frame = document.querySelector('svg').getBoundingClientRect();
          return [...document.querySelectorAll('svg *')].filter(e => {
            const {left, right, top, bottom} = e.getBoundingClientRect();
            return left < frame.left - 1 || right > frame.right + 1
              || top < frame.top - 1 || bottom > frame.bottom + 1;
          }).map(e => e.outerHTML);
        }"""
    )


@pytest.mark.parametrize("width", [1400, 390])
def test_each_token_is_a_cell_and_its_colour_is_its_fate(page, carpet, width):
    """On the left, or above, of rounds of γ drafts; then of γ + 1. Nothing has another colour."""
    show = opened(page, carpet, moves=False)
    with narrowed(page, width):
        for task, gamma in itertools.product(("sums", "edits"), (1, 4, 7)):
            data = show(draft_tokens=gamma, task=task)
            texts, fills = carpet.texts[task][: carpet.ROWS], filled(page)
            half = sum(len(text.agree) for text in texts)
            assert len(fills) == 2 * half
            for side, drafts in enumerate((gamma, gamma + 1)):
                found = fills[side * half : (side + 1) * half]
                assert set(found) <= {"#0072B2", "#E69F00", "#FFFFFF"}
                both = zip(texts, data["rounds"][side], strict=True)
                rounds = [(len(text.agree), *each) for text, some in both for each in some]
                assert found.count("#0072B2") == sum(kept for *_, kept in rounds)
                own = [kept == drafts for end, start, kept in rounds if start + kept < end]
                assert found.count("#FFFFFF") == sum(own)  # behind a text's end there is none
                assert found.count("#E69F00") == len(own) - sum(own)
                calls = f"{len(rounds)} calls of the target"
                assert calls in page.locator("svg text").all_text_contents()


@pytest.mark.parametrize("width", [1400, 752, 390, 290])
def test_a_place_is_one_column_in_all_texts_at_every_width(page, shown, width):
    """And on a narrow page in both panels, which stand below one another there."""
    with narrowed(page, width):
        for task in ("sums", "edits"):
            shown(task=task, draft_tokens=4)
            cells = boxes(page, ".lablib-cell")
            lefts = {round(cell["left"], 1) for cell in cells}
            assert len({round(cell["top"]) for cell in cells}) == (5 if width > 900 else 10)
            length = 33 if task == "sums" else 12
            assert len(lefts) == (2 * length if width > 900 else length)


@pytest.mark.parametrize("width", [1400, 752, 390, 290])
def test_nothing_jumps_and_nothing_is_too_small_to_read(page, shown, width):
    """Three entries say what the colours mean; beside them are two titles and two counts."""
    sizes = set()
    with narrowed(page, width):
        for task, gamma in itertools.product(("sums", "edits"), (1, 7)):
            shown(draft_tokens=gamma, task=task)
            sizes.add(size(page))
            assert outside(page) == []
            assert page.evaluate(CROWDED) == []
            keys = boxes(page, "svg rect:not(.lablib-cell)")
            assert len(keys) == 3
            said = page.locator("svg text:not([pointer-events])").all_text_contents()
            starts = [f"γ = {gamma} draft", f"γ = {gamma + 1} drafts"]
            heads = [each for each in said if each.startswith(tuple(starts))]
            assert len(heads) == 2
            assert sum("of the target" in each and each[0].isdigit() for each in said) == 2
            words = " ".join(said)
            for entry in ("accepted: the draft", "rejected: the draft", "bonus: the target’s own"):
                assert entry in words
        letters = every(page, "svg text", "parseFloat(getComputedStyle(e).fontSize)")
        assert min(letters) >= (13 if width > 700 else 11)
    assert len(sizes) == 1
    ((wide, height),) = sizes
    assert wide <= min(width - 16, 1100)
    assert height <= (240 if width > 900 else 460)


def test_the_tokens_of_a_round_hang_together(page, carpet, shown):
    data = shown(draft_tokens=4, task="sums")
    cells = boxes(page, ".lablib-cell")[:33]
    apart = [after["left"] - cell["right"] for cell, after in itertools.pairwise(cells)]
    ends = {start + kept for start, kept in data["rounds"][0][0]}
    for place, room in enumerate(apart):
        assert room == pytest.approx(3 if place in ends else 0.7, abs=0.05)


def test_a_token_is_told_where_one_points_and_where_one_walks(page, carpet, shown):
    shown(draft_tokens=2, task="sums")
    told = page.locator(".lablib-told")
    text = carpet.texts["sums"][1]
    page.locator(".lablib-cell").nth(len(carpet.texts["sums"][0].agree) + 2).hover()
    about = f"text 2, token 3, “{text.tokens[2]}” ({text.classes[2]}): "
    assert told.inner_text().startswith(f"γ = 2, {about}")
    page.mouse.move(0, 0)
    assert told.inner_text().startswith("Point at it")
    assert walked(page, "RDD" + "L" * 33 + "U")[-1].startswith("γ = 2, text 2, token 1, ")
    assert page.locator(".lablib-chosen").count() == 1
    shown(draft_tokens=7, task="sums")  # the choice stays where it was
    assert told.inner_text().startswith("γ = 7, text 2, token 1, ")
    assert walked(page, "R" * 40)[-1].startswith(f"γ = 7, text 2, token {len(text.agree)}, ")
    assert walked(page, "D" * 4)[-1].startswith("γ = 8, text 1, ")  # in the other panel
    page.keyboard.press("Escape")
    assert told.inner_text().startswith("Point at it")
    page.locator(".lablib-cell").first.click()
    assert told.inner_text().startswith("γ = 7, text 1, token 1, ")


def test_what_is_told_of_a_token_is_its_fate(page):
    """Two drafts are kept and one is a bonus; then one is refused at once."""
    text = GreedyText("sums", *3 * (tuple("abcdef"),), *2 * ((0.25,) * 6,), (True, True, False) * 2)
    opened(page, Acceptance([text]), moves=False)(draft_tokens=2)
    told = walked(page, "RRR")
    assert told[0].endswith("draft 1 of round 1, “a” (q = 0.25, p = 0.25), is accepted.")
    assert told[2].endswith("round 1, behind 2 accepted drafts; nothing is drafted here.")
    told = walked(page, "DRR")
    assert told[0].endswith("draft 3 of round 1, “c” (q = 0.25, p = 0.25), is rejected.")


@pytest.mark.grid(
    lambda rule, width: (rule == "match") == (width == 290) and width in (1000, 290), rest="slow"
)
@pytest.mark.parametrize("width", [1000, 752, 366, 290])
@pytest.mark.parametrize("rule", ["match", "rejection"])
def test_a_tree_of_every_shape_has_room(page, trees, rule, width):
    show, sizes = opened(page, trees), set()
    with narrowed(page, width):
        for nodes, depth in ((1, ALL), (16, ALL), (16, 1), (16, 2), (7, 3)):
            for temperature in (0.0, 2.0):
                data = show(rule=rule, nodes=nodes, depth=depth, temperature=temperature)
                titles = page.locator("svg text[font-weight='700']").filter(has_text=" writes")
                places = [each.get_attribute("y") for each in titles.all()]
                sizes.add((*size(page), *places))
                following = data["chosen"] and nodes < 16  # the next node is there, too
                cells = 2 * nodes + following + 2  # of tree, chain and prices
                assert page.locator(".lablib-cell").count() == cells
                assert outside(page) == []
                assert crossing(page) == []
                assert every(page, "svg circle", "e.getAttribute('r')").count("6") == 2  # both
    assert len(sizes) == 1
    words = page.locator("svg text[pointer-events=none]").all_text_contents()
    chain = [name for name, _ in data["chain"]]
    for name, shown in zip([*chain, *data["names"]], words, strict=True):
        assert shown == name or "…" in shown  # nothing is cut without a mark
    page.locator(".lablib-cell").nth(len(chain)).hover()
    share = f"{100 * data['reach'][0]:.1f} %"
    assert share in page.locator(".lablib-told").inner_text()


def percent(key, share):
    """Return how a number beside a node is written: what decided has one more place.

    A small share has one, too, and what can be is never written as what can't.
    """
    if share < 0.0005:
        return "<0.1 %" if share else "0 %"
    return f"{100 * share:.{int(key == 'drafted' or 0 < share < 0.005)}f} %"


def test_at_each_node_stands_what_the_tree_grows_by_and_what_stays(page, trees):
    data = opened(page, trees)(rule="match", nodes=3, depth=1)
    for up, key in ((-27, "drafted"), (-15, "reach")):  # of the middle of its box
        numbers = page.evaluate(
            """up => [...document.querySelectorAll('.lablib-cell')].map(box => {
              const names = ['x', 'y', 'width', 'height'];
              const [x, y, wide, high] = names.map(name => +box.getAttribute(name));
              return [...document.querySelectorAll('svg text')].filter(e =>
                Math.abs(e.getAttribute('x') - x - wide / 2) < 1
                && Math.abs(e.getAttribute('y') - y - high / 2 - up) < 1).map(e => e.textContent);
            })""",
            up,
        )
        assert [[percent(key, share)] for share in data[key][:3]] == numbers[3:6]
    told = walked(page, "RDDDDDD")
    names = [data["chain"][0][0], *data["names"]]  # the next node is read, too
    assert all(text.startswith(f"“{name}”") for text, name in zip(told, names, strict=False))
    prices = [f"A call with this {name} costs" for name in ("chain", "tree")]
    assert all(text.startswith(price) for text, price in zip(told[5:], prices, strict=True))
    words = page.locator("svg").text_content()
    assert "above a word:" in words
    assert "product of q, by which it grows,chance to stay" in words


@pytest.mark.parametrize("width", [1000, 366])
def test_below_a_first_word_stand_its_q_and_p(page, trees, width):
    show = opened(page, trees)
    with narrowed(page, width):
        data = show(rule="match", nodes=8, temperature=1.0)
        for colour, which in (("#B34A00", 1), ("#767676", 2)):
            key = page.locator(f"svg text[fill='{colour}'][font-weight='700']")
            assert set(key.all_text_contents()) == {" qp"[which]}
            lines = {float(each.get_attribute("y")) for each in key.all()}
            words = page.locator(f"svg text[fill='{colour}'][text-anchor=middle]").all()
            numbers = [e.text_content() for e in words if float(e.get_attribute("y")) in lines]
            shares = [percent("drafted", each[which]) for each in data["first"]]
            assert len(numbers) >= min(len(shares), 5 if width > 366 else 3)
            assert numbers == shares[: len(numbers)]


def test_a_first_word_is_in_a_chosen_tree_if_its_bar_reaches_the_line(page, trees):
    show, sides = opened(page, trees), set()
    for rule, nodes in (("match", 3), ("match", 8), ("rejection", 8)):
        data = show(rule=rule, nodes=nodes, depth=ALL, temperature=1.0)
        ends = "+e.getAttribute('x') + +e.getAttribute('width')"
        bars = every(page, "svg rect[height='4']", ends)
        lines = every(page, "svg path[d$='v8']", "+e.getAttribute('d').slice(1).split(' ')[0]")
        assert len(lines) == (len(bars) if data["chosen"] else 0)
        for (*_, taken), bar, line in zip(data["first"], bars, lines, strict=False):
            assert taken == (bar > line - 1e-6)
            sides.add(taken)
    assert sides == {True, False}


def test_sixteen_levels_have_room_on_a_small_phone(page, trees):
    opened(page, trees, moves=False)
    data, caption = trees.frame(rule="rejection", nodes=16, depth=ALL, temperature=1.0)
    data |= {"parents": [*range(-1, 15)], "depth": [*range(1, 17)], "row": [0] * 16, "path": []}
    with narrowed(page, 290):
        page.evaluate("([data, caption]) => draw(data, caption)", [data, caption])
        assert outside(page) == []
        assert crossing(page) == []


def test_a_number_says_what_is_new_and_who_is_left_no_chance(page, trees):
    show = opened(page, trees)
    data, caption = show(rule="rejection", nodes=4, temperature=1.0), ""
    tree = {"names": [*"abcd"], "parents": [-1, 0, -1, 2]}
    tree |= {"depth": [1, 2, 1, 2], "row": [0, 0, 1, 1]}
    for first, second, numbers in (
        (1.0, 0.0, ["100 %", "never"]),  # its follower has the same chance
        (0.7, 0.2, ["70 %", "20 %"]),
        (0.7, 0.0, ["70 %", "0 %"]),  # something is left, but it is refused for sure
        (0.7, 0.0003, ["70 %", "<0.1 %"]),
        (0.7, 0.002, ["70 %", "0.2 %"]),
    ):
        data |= {**tree, "reach": [first, first, second, second], "drafted": [0.5] * 4, "path": []}
        page.evaluate("([data, caption]) => draw(data, caption)", [data, caption])
        box = page.locator(".lablib-cell").nth(6)
        found = page.evaluate(
            """() => [...document.querySelectorAll('.lablib-cell')].slice(4, 8).flatMap(box => {
              const [x, y, wide] = ['x', 'y', 'width'].map(name => +box.getAttribute(name));
              return [...document.querySelectorAll('svg text')].filter(e =>
                Math.abs(e.getAttribute('x') - x - wide / 2) < 1
                && Math.abs(e.getAttribute('y') - y + 4) < 1).map(e => e.textContent);
            })"""
        )
        assert found == numbers
        box.hover()
        none = "never" in numbers
        assert ("a sibling above always stays" in page.locator(".lablib-told").inner_text()) == none
        said = "“never”: a sibling above it always stays"
        assert (said in page.locator("svg").text_content()) == none


@pytest.mark.parametrize(
    ("parents", "reach", "wanted"),
    [
        ([-1, -1, -1], [0.7, 0.3, 0.0], "..x"),  # two of them take all
        ([-1, -1, -1], [0.7, 0.0, 0.2], "..."),  # refused for sure, but asked
        ([-1, -1, 1, 2], [1.0, 0.0, 0.0, 0.0], ".xxx"),  # and who follows
        ([-1, 0, 0, -1], [0.6, 0.6, 0.0, 0.4], "..x."),  # of what gets to the parent
        ([-1, 0, 0], [0.0, 0.0, 0.0], "..."),  # nobody gets to their parent
        ([-1, -1], [1 - 1e-12, 1e-13], ".x"),  # rounding
    ],
)
def test_who_is_never_asked(page, trees, parents, reach, wanted):
    opened(page, trees, moves=False)
    tree = {"parents": parents, "reach": reach, "chosen": False}
    found = page.evaluate("tree => scenes.branches.never(tree)", tree)
    assert found == [each == "x" for each in wanted]
    assert not any(page.evaluate("tree => scenes.branches.never(tree)", tree | {"chosen": True}))


@pytest.mark.parametrize(
    ("share", "digits", "wanted"),
    [
        (0, 1, "0 %"),
        (1e-9, 0, "<0.1 %"),
        (0.0004, 1, "<0.1 %"),
        (0.0006, 0, "0.1 %"),
        (0.004, 0, "0.4 %"),
        (0.006, 0, "1 %"),
        (0.154, 0, "15 %"),
        (0.225, 1, "22.5 %"),
    ],
)
def test_what_can_be_is_never_written_as_0(page, trees, share, digits, wanted):
    opened(page, trees, moves=False)
    said = page.evaluate("each => scenes.branches.percent(...each)", [share, digits])
    assert said == wanted


def test_the_contest_for_the_next_node_is_said_in_the_letters_that_have_room(page, trees):
    opened(page, trees, moves=False)
    tree = {
        "nodes": 2,
        "names": ["3", "=", "6"],
        "parents": [-1, 0, 1],
        "drafted": [0.225, 0.224, 0.223],
        "first": [["3", 0.225, 0.1, True], ["9", 0.199, 0.2, False], ["8", 0.1, 0.2, False]],
    }

    def said(letters, slim=False, **more):
        given = [tree | more, letters, slim]
        return page.evaluate("each => scenes.branches.contest(...each)", given)

    before = "before the first word 9 (19.9 %)"
    assert said(80) == ["a third node would be the 6 behind 3= (22.3 %),", before]
    assert said(70) == ["a third node: 6 behind 3= (22.3 %),", before]
    assert said(9) == ["next: 6 behind 3= (22.3 %),", before]
    assert said(50, slim=True) == said(80)  # in two lines
    other = said(80, parents=[-1, 0, -1])
    assert other == ["a third node would be the 6 (22.3 %),", "one more first word"]
    (alone,) = said(80, first=tree["first"][:1])
    assert alone == "a third node would be the 6 behind 3= (22.3 %)"
    names = [*["x"] * 7, "=", "6"]
    long = said(90, nodes=8, names=names, parents=[*range(-1, 8)], drafted=[0.2] * 9)
    assert long[0] == "a ninth node would be the 6 behind xxxxxxx= (20.0 %),"
    eighth = said(90, nodes=7, names=names, parents=[*range(-1, 8)], drafted=[0.2] * 9)
    assert eighth[0].startswith("an eighth node would be the = behind xxxxxxx ")


def test_the_next_node_is_dashed_and_each_title_says_what_a_call_writes(page, trees):
    opened(page, trees, moves=False)
    dashed = page.locator("svg rect[stroke-dasharray='4 3']")
    for rule, nodes in (("match", 3), ("match", 16), ("rejection", 3)):
        data, caption = trees.frame(rule=rule, nodes=nodes, depth=ALL, temperature=1.0)
        data |= {"names": [*"abcdefghijklmnop"][: len(data["names"])], "path": [0, 2], "own": "Z"}
        data |= {"chain": [("k", 0.5)] * nodes, "kept": 3, "after": "Y"}
        page.evaluate("([data, caption]) => draw(data, caption)", [data, caption])
        following = rule == "match" and nodes < 16
        assert dashed.count() == 2 * following  # its key, too
        words = page.locator("svg").text_content()
        how = "chosen" if rule == "match" else "drawn"
        assert f"a chain of {nodes}, drawn, writeskkkY" in words
        assert f"a tree of {nodes}, {how}, writesacZ" in words
        chain, tree = (words.index(each) for each in ("a chain of", "a tree of"))
        assert chain < words.index("first words") < tree  # as they are read


def test_a_price_says_whether_it_is_of_this_toss(page, trees):
    """A drawn tree is another in each toss, and so is its price; the plane shows their mean."""
    show = opened(page, trees, moves=False)
    for width, here in ((1000, "price in this toss ="), (290, "this toss =")):
        with narrowed(page, width):
            for rule in ("match", "rejection"):
                data = show(rule=rule, nodes=8, depth=ALL, temperature=1.0, toss=2)
                words = page.locator("svg text").filter(has_text=re.compile(" =$"))
                said = words.all_text_contents()
                assert said == (["price ="] if data["chosen"] else [here])
                prices = {price for price, _ in data["tosses"]["tree"]}
                assert (len(prices) > 1) == (rule == "rejection")


def test_a_chain_s_first_word_has_its_number_on_a_phone(page, trees):
    def middle(box):
        return box["x"] + box["width"] / 2

    show = opened(page, trees, moves=False)
    with narrowed(page, 366):
        for nodes in (8, 9):  # of two lines each has its number at its end
            data = show(rule="match", nodes=nodes, depth=ALL, temperature=1.0)
            frame = page.locator(".lablib-cell").first.bounding_box()
            numbers = page.locator("svg text[fill='#767676'][text-anchor=middle]").all()
            boxes = [(each.text_content(), each.bounding_box()) for each in numbers]
            near = [(said, box) for said, box in boxes if abs(middle(box) - middle(frame)) < 4]
            above = [said for said, box in near if 0 < frame["y"] - box["y"] < 22]
            assert above == [percent("reach", data["chain"][0][1])] * (nodes == 8)


def test_a_row_of_a_tree_keeps_its_place_when_nodes_are_added(page, trees):
    show, places = opened(page, trees), []
    for nodes in (2, 3, 6):
        data = show(rule="match", nodes=nodes, depth=ALL, temperature=1.0)
        if max(data["row"]) > 2:  # a tree of more rows has less room for each
            break
        places.append(page.locator(".lablib-cell").nth(nodes).get_attribute("y"))
    assert len(places) > 1
    assert len(set(places)) == 1


@pytest.mark.parametrize("rule", ["match", "rejection"])
def test_numbers_stand_at_the_ends_of_paths_where_words_have_no_room_for_them(page, trees, rule):
    data = opened(page, trees)(rule=rule, nodes=16, depth=1, temperature=2.0)
    words = page.locator("svg").text_content()
    assert "at a path’s end:" in words
    assert ("product of q, by which it grows" in words) == (rule == "match") == data["chosen"]
    chain = [percent("reach", data["chain"][end][1]) for end in (7, 15)]  # of its two lines
    for key, colour in (("drafted", "#B34A00"), ("reach", "#767676")):
        numbers = page.locator(f"svg text[fill='{colour}'][text-anchor=start]")
        numbers = numbers.filter(has_text=re.compile("^[<0-9.]+ %$|^never$"))
        shares = [percent(key, share) for share in data[key]]
        if rule == "rejection":
            left = 1 - np.cumsum([0, *data["reach"][:-1]])  # of a star
            pairs = zip(shares, left, strict=True)
            shares = ["never" if room < 1e-9 else share for share, room in pairs]
            assert 0 < shares.count("never") < len(shares)
        expected = [*chain, *shares] if key == "reach" else shares if rule == "match" else []
        assert numbers.all_text_contents() == expected


def test_the_bars_say_what_a_call_with_tree_and_chain_costs(page, trees):
    show, told = opened(page, trees), page.locator(".lablib-told")
    for nodes, depth in ((8, ALL), (1, ALL), (16, 2)):
        data = show(rule="rejection", nodes=nodes, depth=depth, temperature=1.0)
        costs = trees.prices.costs
        reading = costs.forward(nodes + 1) / costs.forward(1)
        looks = data["forwards"], "look", trees.prices.level
        drafting = {"chain": (nodes, "draft", costs.draft), "tree": looks}
        bars = page.locator(".lablib-cell[fill='#BBBBBB']")
        for bar, (name, (count, what, each)) in zip(bars.all(), drafting.items(), strict=True):
            drafts = count * each / costs.forward(1)
            bar.hover()
            said = f"{count} {what}{'s' if count > 1 else ''}"
            whole = float(f"{reading:.2f}") + float(f"{drafts:.2f}")  # of what stands there
            assert f"A call with this {name} costs {whole:.2f}" in told.inner_text()
            assert f"{drafts:.2f} for {said}, " in told.inner_text()
            assert f"{reading:.2f} + {drafts:.2f}: {said}" in page.locator("svg").text_content()
            colour = {"chain": "#0072B2", "tree": "#7A4B94"}[name]
            widths = every(page, f"svg rect[fill='{colour}']", "+e.getAttribute('width')")
            long = float(bar.get_attribute("width"))
            assert len(widths) == count
            assert sum(widths) / long == pytest.approx(drafts / reading)


@pytest.mark.parametrize(
    "tokens", [(1.0, 1.0), (9.0, 9.1), (11.0, 13.5), (15.9, 17.0), (17.0, 15.9)]
)
def test_the_names_of_tree_and_chain_stand_apart(page, trees, tokens):
    opened(page, trees, moves=False)
    page.evaluate("told.constants.most = 17")
    data, caption = trees.frame(nodes=1)
    for price in (1.1, 16.9):
        trails = zip(("tree", "chain"), tokens, strict=True)
        data["trails"] = {name: [[1, price, each], [2, price, each]] for name, each in trails}
        page.evaluate("([data, caption]) => draw(data, caption)", [data, caption])
        assert outside(page) == []
        assert crossing(page) == []
        for name, colour in (("tree", "#7A4B94"), ("chain", "#0072B2")):  # how many nodes
            number = page.locator(f"svg text[fill='{colour}'][text-anchor=middle]")
            assert number.all_text_contents() == ["2"], name


def test_siblings_that_begin_alike_are_cut_where_they_differ(page, trees):
    opened(page, trees, moves=False)
    data, caption = trees.frame(rule="match", nodes=16, depth=1)
    names = [f"␣{'ha' * 40}{end}ness" for end in "abcdefghijklmnop"]
    data |= {"names": names, "first": [[name, 0.01, 0.01, True] for name in names]}
    for width in (1000, 290):
        with narrowed(page, width):
            page.evaluate("([data, caption]) => draw(data, caption)", [data, caption])
            shown = page.locator("svg text[pointer-events=none]").all_text_contents()[16:]
            assert len(set(shown)) == len(names)
            assert outside(page) == []


def test_later_shapes_lie_on_earlier_ones_whatever_was_drawn_before(page, trees):
    show = opened(page, trees)
    for values in ({"nodes": 3}, {"nodes": 16}, {"nodes": 9}):
        show(**values)
    grown = every(page, "svg *", "e.outerHTML")
    opened(page, trees)(nodes=9)
    assert every(page, "svg *", "e.outerHTML") == grown


def test_no_dash_stays_where_a_line_is_solid_again(page):
    opened(page, CHARTS["Choosing"](), moves=False)()
    line = {"key": "line", "line": [[1, 0.2], [2, 0.4]]}
    dashes = "e => e.getAttribute('stroke-dasharray')"
    for dash, drawn in (("2 3", "2 3"), ("", None)):
        data = {"panels": [{"marks": [{**line, "dash": dash}]}]}
        page.evaluate("data => draw(data, '')", data)
        assert page.locator("path[stroke='#333333']").evaluate(dashes) == drawn


@pytest.fixture(scope="module")
def board():
    target, tokenizer = models.load("target", dtype=mx.float32)
    draft, _ = models.load("draft", dtype=mx.float32)
    words = [tokenizer.decode([i], skip_special_tokens=True) for i in range(target.vocab_size)]
    return shipped_dashboard(target, draft, words, task="sums")


ENDS = (
    {},
    {"task": "stories", "temperature": 1.5, "draft_tokens": 8},
    {"task": "edits", "drafter": LOOKUP, "temperature": 0.0, "draft_tokens": 1},
    {"drafter": HEAD, "rule": "match"},
    {"rule": "block", "drafter": LOOKUP, "task": "stories"},
)


@pytest.mark.grid(lambda width: width in (1000, 390), rest="slow")
@pytest.mark.parametrize("width", [1000, 730, 700, 580, 390])
def test_the_dashboard_stands_still_and_everything_has_room(page, board, width):
    show, sizes = opened(page, board), set()
    with narrowed(page, width):
        for values in ENDS:
            show(**values)
            sizes.add(size(page))
            assert outside(page) == [], values
    ((wide, high),) = sizes
    assert wide <= min(width - 16, 850)
    if width == 1000:
        assert high <= 440  # with its controls and what is told below it, 620


# Which words lie on one another, but for those in the cells.
CROWDED = """() => {
  const boxes = [...document.querySelectorAll('svg text:not([font-family])')]
    .map(e => [e.textContent, e.getBoundingClientRect()]).filter(([, box]) => box.width);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
    && a.top < b.bottom - 4 && b.top < a.bottom - 4;
  return boxes.flatMap(([a, box], i) => boxes.slice(i + 1).filter(([, other]) => meet(box, other))
    .map(([b]) => [a, b]));
}"""


@pytest.mark.parametrize("width", [866, 716, 700, 576, 382])
def test_no_words_of_the_dashboard_lie_on_others(page, board, width):
    show = opened(page, board, moves=False)
    with narrowed(page, width):
        for values in ENDS:
            show(**values)
            assert page.evaluate(CROWDED) == [], values
            assert max(box["width"] for box in boxes(page, "svg path[stroke='#DDDDDD']")[-3:]) > 90


def test_the_axis_of_alpha_begins_where_its_lines_need_it_whatever_a_slider_says(page, board):
    """Half of it where all is above; and the number at the chosen temperature lies on no line."""
    show = opened(page, board, moves=False)
    begins = {}
    for task, gamma, hot in itertools.product(("stories", "sums", "edits"), (1, 8), (0.0, 1.5)):
        data = show(task=task, draft_tokens=gamma, temperature=hot, rule="match")
        names = page.locator("svg text").all_text_contents()
        begins.setdefault(task, set()).add("0.7" in names)
        assert f"{data['alpha']:.2f}" in names
        assert names.count(f"{hot:g}") >= 1
    assert begins == {"stories": {False}, "sums": {False}, "edits": {True}}  # by its look-up
    data["others"] = {}
    page.evaluate("data => draw(data, '')", data | {"task": "sums"})
    assert "0.7" in page.locator("svg text").all_text_contents()


def test_the_dashboard_says_which_texts_it_counts_and_which_go_on(page, board):
    show = opened(page, board, moves=False)
    count = board.recording.problems
    for width, task in itertools.product((1000, 390), ("stories", "sums")):
        with narrowed(page, width):
            data = show(task=task, temperature=1.5)
            names = page.locator("svg text").all_text_contents()
            under = [name for name in names if f"all {count} texts" in name]
            assert len(under) == 3  # of the carpet, of rounds and of α: a line below its headline
            assert f"rows: the first {board.ROWS}, one toss" in under[0]
            cut = sum(map(len, data["tokens"])) > page.locator(".lablib-cell").count()
            assert ("…" in names) == cut == (task == "stories")


# Of each bar above the first text's cells: how high it is, of which colour, and how far aside.
STRIP = """() => {
  const box = e => e.getBoundingClientRect();
  const cells = [...document.querySelectorAll('.lablib-cell')];
  const bars = [...document.querySelectorAll('svg rect:not([rx])')].filter(e =>
    ['#0072B2', '#D0D0D0'].includes(e.getAttribute('fill')) && box(e).bottom < box(cells[0]).top);
  const middle = e => (box(e).left + box(e).right) / 2;
  return bars.map(e => [e.getAttribute('fill'), box(e).height / 22,
    Math.min(...cells.map(cell => Math.abs(middle(cell) - middle(e))))]);
}"""


def test_what_columns_keep_stands_above_them(page, board):
    """The more numbers of a sum are there already, the less both models agree about the next."""
    show = opened(page, board, moves=False)
    for rule in PLAYED:
        data = show(task="sums", rule=rule)
        assert len(data["columns"]) == max(map(len, data["tokens"]))
        drawn = {"#0072B2": [], "#D0D0D0": []}
        for fill, high, aside in page.evaluate(STRIP):
            if aside < 2:  # not in the key beside them; a round's last cell is half a gap narrower
                drawn[fill].append(high)
        for shares, at in ((drawn["#0072B2"], 0), (drawn["#D0D0D0"], 1)):
            assert shares == pytest.approx([each[at] / 100 for each in data["columns"]], abs=0.01)
        numbers = [2, 8, 14, 20, 26]
        stair = [data["columns"][column][1] for column in numbers]
        assert stair == sorted(stair, reverse=True)
        assert stair[0] - stair[-1] > 40
        less = any(kept < most for kept, most, _ in data["columns"])
        assert less == (rule == "match")
        assert ("rejection" in page.locator("svg text[fill='#767676']").all_text_contents()) == less


def test_the_token_that_opens_by_itself_is_one_that_was_judged(page, board):
    show = opened(page, board, moves=False)
    for task, gamma, hot in itertools.product(("stories", "sums", "edits"), (1, 8), (0.5, 1.5)):
        show(task=task, rule="rejection", draft_tokens=gamma, temperature=hot)
        words = page.locator("svg text").all_text_contents()
        assert "coin" in words
        assert "bonus" in words  # in the key,
        assert words.count("bonus") == 1  # and nowhere else


def test_the_resting_coin_lies_in_the_middle_of_what_was_refused(page, board):
    opened(page, board, moves=False)(**board._start)
    chance, coin = page.evaluate(PARTED)
    assert chance + 0.2 < coin < 0.7
    assert "refused" in page.locator("svg text").all_text_contents()


WOVEN = ".lablib-cell + text[font-family*=mono]"
LETTERS = """() => {
  const words = [...document.querySelectorAll('svg text')].map(e => e.getBoundingClientRect());
  return [...document.querySelectorAll('.lablib-cell')].map(e => e.getBoundingClientRect())
    .map(cell => [cell.right, words.some(word => word.left > cell.left - 2
      && word.right < cell.right + 2 && word.top > cell.top - 2 && word.bottom < cell.bottom + 2)]);
}"""


@pytest.mark.parametrize("task", ["sums", "stories", "edits"])
def test_on_a_phone_every_cell_of_the_dashboard_has_letters(page, board, task):
    show = opened(page, board)
    for width in (390, 750):
        with narrowed(page, width):
            data = show(task=task)
            rights, lettered = zip(*page.evaluate(LETTERS), strict=True)
            assert all(lettered)
            assert len(lettered) >= 60  # and enough of them to see rounds
            assert len(lettered) == sum(map(len, data["tokens"])) or task == "stories"
            assert max(rights) < width - 60  # bars have room beside them


@pytest.mark.parametrize("width", [1000, 700, 390])
def test_a_word_that_is_cut_says_so(page, board, carpet, width):
    """In the dashboard; in the carpet a cell has its whole word, a part with “…”, or none."""
    for explorer, task in ((board, "stories"), (board, "sums"), (carpet, "edits")):
        show = opened(page, explorer, moves=False)
        with narrowed(page, width):
            data = show(task=task)
            _, lettered = zip(*page.evaluate(LETTERS), strict=True)
            cells = page.locator(WOVEN).all_text_contents()
        names = {word for text in carpet.texts["edits"] for word in text.tokens}
        if explorer is board:
            words = explorer.constants["words"]
            names = {words[token] for ids in data["tokens"] for token in ids}
        names = {re.sub("^␣(?=.)", "", name) for name in names}
        assert len(cells) == sum(lettered)
        assert all(lettered) or explorer is carpet
        for cell in cells:
            start = cell.removesuffix("…")
            assert cell in names or explorer is carpet  # whose columns stand below each other
            assert cell in names or (start != cell and any(n.startswith(start) for n in names))


TICKS = "svg path[stroke='#D55E00']:not([pointer-events])"  # the open token's are there once more


def test_each_draft_in_vain_is_a_tick_above_the_refused_one(page, board):
    show = opened(page, board, moves=False)
    for gamma in (1, 4, 8):
        data = show(task="sums", draft_tokens=gamma)
        drafted = [each for rounds in data["rounds"] for each in rounds]
        vain = [some - kept - 1 for some, kept in drafted if some > kept + 1]
        counts = [d.count("M") for d in every(page, TICKS, "e.getAttribute('d')")]
        assert sorted(counts) == sorted([*[1] * bool(vain), *vain])  # one is the key's
        texts = "\n".join(page.locator("svg text").all_text_contents())
        said = re.findall("unjudged here: (.+)", texts, re.MULTILINE)
        assert said == [str(sum(vain))] * bool(vain)
    refused = boxes(page, ".lablib-cell[fill='#E69F00']")
    ends = boxes(page, "svg path[d*='v-2']")
    assert min(len(vain), len(ends)) > 5
    for tick in boxes(page, TICKS)[1:]:
        (own,) = [
            cell["top"] - tick["bottom"]
            for cell in refused
            if cell["left"] <= tick["left"] <= tick["right"] <= cell["right"]
            and 0 < cell["top"] - tick["bottom"] < 4
        ]
        above = [tick["top"] - e["bottom"] for e in ends if e["top"] < tick["top"]]
        assert min(above, default=99) >= own + 1


# How far from the edges of its box each number is.
INSIDE = """() => {
  const boxes = [...document.querySelectorAll("svg .lablib-cell")]
    .map(e => e.getBoundingClientRect());
  return [...document.querySelectorAll('svg text[pointer-events=none]')].map(word => {
    const {left, right, top} = word.getBoundingClientRect(), middle = (left + right) / 2;
    const own = boxes.filter(box => box.left < middle && box.right > middle && box.top < top
      && box.bottom > top);
    return Math.min(...own.map(box => Math.min(left - box.left, box.right - right)));
  });
}"""


def test_letters_of_sequences_stay_in_their_boxes(page):
    lengths = {"by turns": [1, 13] * 8}
    show = opened(page, SlotTimeline(lengths, slots=4), moves=False)
    for width in (1400, 1000, 700, 600, 390):
        with narrowed(page, width):
            show()
            inside = page.evaluate(INSIDE)
            assert len(inside) >= 16
            assert min(inside) >= 1


def test_the_dashboard_tells_what_the_coin_did(page, board):
    show = opened(page, board)
    data = show(task="sums", drafter=LOOKUP, temperature=1.0, draft_tokens=4)
    fates = {"kept": 0, "refused": 0, "own": 0}
    silent = sum(drafted == 0 for rounds in data["rounds"] for drafted, _ in rounds)
    for row, rounds in enumerate(data["rounds"]):
        place, length = 0, len(data["tokens"][row])
        for drafted, kept in rounds:
            fates["kept"] += kept
            if place + kept < length:
                fates["refused" if kept < drafted else "own"] += 1
            place += kept + 1
    colours = {"kept": "#0072B2", "refused": "#E69F00", "own": "#FFFFFF"}
    assert {fate: filled(page).count(colour) for fate, colour in colours.items()} == fates
    assert 0 < page.locator(".lablib-cell[stroke-dasharray]").count() == silent < fates["own"]
    framed = page.locator(".lablib-chosen").evaluate(  # of the first text
        "e => [...e.parentNode.querySelectorAll('.lablib-cell')].indexOf(e)"
    )
    assert f"text 1, token {framed + 1}: " in page.locator("svg").text_content()
    page.locator(".lablib-cell[fill='#E69F00']").first.click()
    said = page.locator(".lablib-told").inner_text()
    assert "the coin fell on" in said
    assert "refused, and the target wrote its own" in said
    drawn = page.locator("svg").text_content()
    assert "refused" in drawn
    chance, coin = (float(said.split(words)[1][:4]) for words in ("keeps with ", "fell on "))
    assert coin >= chance
    draft = said.split(" was “")[1].split("”")[0]
    assert f"{draft} refused" in drawn
    walked(page, "D")
    assert page.locator(".lablib-chosen").count() == 1
    row = int(said.split("Text ")[1].split(",")[0])
    assert f"text {row + 1}, token " in page.locator("svg").text_content()


# Of a drafted word's column, on its side: the kept part of its length, and where its coin lies.
PARTED = """() => {
  const box = look => document.querySelector(`svg ${look}`)?.getBoundingClientRect();
  const whole = box("rect[height='14'][fill='#E69F00']");
  const kept = box("rect[height='14'][fill='#0072B2']"), coin = box("path[d*='v-14l']");
  const fell = coin && (coin.left + coin.right) / 2 - whole.left;
  return whole && [kept.width / whole.width, fell / whole.width];
}"""


@pytest.mark.parametrize("rule", ["rejection", "match"])
def test_the_coin_lies_on_the_column_of_what_was_drafted(page, board, rule):
    show = opened(page, board, moves=False)
    show(task="stories", rule=rule, temperature=1.5)
    seen = {"refused": 0, "bonus": 0, "kept": 0}
    for cell in page.locator(".lablib-cell").all()[:50]:
        cell.click()
        said = page.locator(".lablib-told").inner_text()
        drawn, parted = page.locator("svg text").all_text_contents(), page.evaluate(PARTED)
        fate = next(name for name in seen if name in said)
        seen[fate] += 1
        if fate == "bonus":
            assert parted is None
            continue
        chance, coin = (float(said.split(words)[1][:4]) for words in ("keeps with ", "fell on "))
        assert parted == pytest.approx([chance, coin], abs=0.001)
        assert f"keeps {chance:.0%}".replace("%", " %") in drawn
        assert (coin <= chance) if fate == "kept" else (coin >= chance)
        assert ("drafted" in drawn) == ("written" in drawn) == (fate == "refused")
    assert min(seen.values()) > 0
    show(task="stories", rule=rule, temperature=0.0)
    assert page.evaluate(PARTED) is None  # greed needs no coin
    assert "no coin" in page.locator("svg").text_content()


COLUMNS = (
    {"task": "sums", "drafter": DRAFT, "rule": "match"},
    {"task": "stories", "drafter": HEAD, "rule": "rejection", "temperature": 1.5},
    {"task": "edits", "drafter": DRAFT, "rule": "block", "temperature": 1.5},
    {"task": "stories", "drafter": LOOKUP, "rule": "rejection", "temperature": 1.5},
    {"task": "sums", "drafter": LOOKUP, "rule": "match", "draft_tokens": 8, "temperature": 0.0},
)


# Of each token: how many others there are, how many rows, what p and q in print come to, and what
# their lengths do.
SUMS = """data => data.tokens.flatMap((ids, row) => ids.slice(0, 20).map((_, column) => {
  const shapes = scenes.dashboard(told.constants, data, 850, [row, column]).shapes;
  const all = key => shapes.filter(shape => key.test(shape.key));
  const sum = values => values.reduce((sum, value) => sum + value, 0);
  const [share] = all(/^bo$/), p = all(/^bp.t$/), q = all(/^bq.t$/);
  const long = all(/^b[pa][0-9o]$/), whole = 302 - 112 - 80;
  return [parseInt(share.text), p.length, sum(p.map(each => parseInt(each.text) || 0)),
    sum(q.map(each => parseInt(each.text))), sum(long.map(each => each.width)) / whole,
    sum(all(/^bq[0-9o]$/).map(each => each.width)) / whole];
}))"""


@pytest.mark.parametrize("values", COLUMNS, ids=lambda values: "-".join(map(str, values.values())))
def test_the_words_of_a_token_and_all_others_have_all_of_p_and_of_q(page, board, values):
    """In print, and as bars; of a look-up that has no guess there is no q at all."""
    data, silent = opened(page, board, moves=False)(**values), 0
    for others, rows, p, q, p_wide, q_wide in page.evaluate(SUMS, data):
        assert others == len(board.words) - rows + 1
        assert 2 <= rows <= WORDS + 1
        assert abs(p - 100) <= rows / 2
        assert p_wide == pytest.approx(1, abs=0.003)  # rounded, each
        assert abs(q - (100 if q else 0)) <= rows / 2
        assert q_wide == pytest.approx(1 if q else 0, abs=0.003)
        silent += q == 0
    assert bool(silent) == (values["drafter"] == LOOKUP)


def test_what_became_of_a_draft_does_not_hide_its_p(page, board):
    """By match a draft's fate fills all of q, over p: the end of p is marked on it."""
    opened(page, board, moves=False)
    data, _ = board.frame(task="stories", rule="match", temperature=1.5)
    look = "data => scenes.dashboard(told.constants, data, 850, null).shapes"
    shapes = {each["key"]: (at, each) for at, each in enumerate(page.evaluate(look, data))}
    parted = [key for key in shapes if re.fullmatch(r"br\dr", key) and shapes[key][1]["width"]]
    (row,) = (key[2] for key in parted)
    for key in ("br%sr", "bk%s", "bq%s"):
        assert shapes[key % row][0] < shapes[f"be{row}"][0]  # it lies on them
    bar = shapes[f"bp{row}"][1]
    end = float(re.match(r"M(\S+) ", shapes[f"be{row}"][1]["d"])[1])
    assert end == pytest.approx(bar["x"] + bar["width"])


def test_where_greed_refuses_both_bests_are_named(page, board):
    show = opened(page, board, moves=False)
    data = show(task="sums", drafter="draft model", rule="rejection", temperature=0.0)
    page.locator(".lablib-cell").first.click()
    ((_, _, draft, *_),) = data["judged"][0][0]
    words, own = board.constants["words"], data["tokens"][0][0]
    drawn = page.locator("svg").text_content()
    assert draft != own
    assert f"no coin: the drafter's best is {words[draft]}, by a hair" in drawn  # 27 % have both
    assert f"refused: the target's best is {words[own]}" in drawn


@pytest.mark.parametrize("task", ["sums", "stories"])
def test_drafts_in_vain_are_the_same_at_every_width(page, board, task):
    show, told = opened(page, board, moves=False), set()
    for width in (1400, 700, 390):
        with narrowed(page, width):
            data = show(task=task, temperature=1.5, draft_tokens=8, rule="match")
            told.add(page.locator("svg").text_content().split("unjudged here: ")[1].split(" ")[0])
    vain = sum(max(0, some - kept - 1) for rounds in data["rounds"] for some, kept in rounds)
    assert {int(re.match("[0-9]+", each)[0]) for each in told} == {vain}


def test_a_refused_token_is_not_dim_on_a_dark_page(page, shown):
    shown(task="sums", draft_tokens=4)
    cell = page.locator(".lablib-cell[fill='#E69F00']").first
    colours = """e => [e, e.nextElementSibling].map(
      each => getComputedStyle(each).fill.match(/[0-9]+/g).map(Number))"""
    light_page = cell.evaluate(colours)
    page.evaluate("document.documentElement.setAttribute('theme', 'dark')")
    page.evaluate(STILL)
    ground, letters = map(turned, cell.evaluate(colours))
    assert light_page == [[0xE6, 0x9F, 0x00], [0x11, 0x11, 0x11]]
    assert contrast(ground, letters) >= 4.5
    assert light(ground) >= light(turned((0x00, 0x72, 0xB2)))  # of what is kept
    assert light(ground) > 2 * light(turned(light_page[0]))


def contrast(*colours):
    """Return how many times as light as the other one of two colours is, as WCAG defines it."""
    dark, bright = sorted(map(light, colours))
    return (bright + 0.05) / (dark + 0.05)


# What hue-rotate(180deg) does to red, green and blue (Filter Effects 1).
HUES = [[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]]


def turned(colour):
    """Return a colour on a dark page: inverted, and its hue turned back."""
    return np.clip(HUES @ (255 - np.asarray(colour)), 0, 255)


def light(colour):
    """Return the relative luminance of red, green and blue, as WCAG defines it."""
    share = np.asarray(colour) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def test_a_token_is_framed_where_one_points(page, carpet, shown):
    shown(task="sums")
    cell = page.locator(".lablib-cell").nth(2)
    stroke = "e => getComputedStyle(e).stroke"
    before = cell.evaluate(stroke)
    cell.hover()
    assert cell.evaluate(stroke) == "rgb(0, 0, 0)" != before
    page.mouse.move(0, 0)
    assert cell.evaluate(stroke) == before


def test_a_chart_is_walked_through_and_keeps_its_axes(page):
    words = ["a", "b", "c", "d"]
    chart = BeforeAfter(words, [2.0, 1.0, 0.0, -1.0])
    show, sizes = opened(page, chart), set()
    for width in (1000, 390):
        with narrowed(page, width):
            for values in ({}, {"temperature": 3.0}, {"top_k": 1, "min_p": 1.0, "top_p": 0.05}):
                show(**values)
                assert outside(page) == []
                sizes.add(size(page))
    assert len(sizes) == 2
    show()
    (told,) = walked(page, "R")
    after = chart.compute(**chart.values)["after"]
    assert told.startswith("a: ")
    assert f"{after[0]:.3f} after it" in told


SHAPES = ("circle", "triangle", "square", "diamond")
CHARTS = {each.__name__: make for each, make in charts.EVERY.items()}
CHARTS["rows of a still"] = lambda: show(scars({"a layer": [2, 1e-6, 0], "b": [1, 0, 2]}), "Two.")
CHARTS["a still"] = lambda: show(mask_figure([-1, -1, 0, 0, 1, 2], "abcdef"), "A tree.")


def crossing(page):
    """Return the words that lie on one another."""
    return page.evaluate(
        """() => {
          const words = [...document.querySelectorAll('svg text')]
            .filter(e => e.textContent.trim()).map(e => [e.textContent, e.getBoundingClientRect()]);
          const across = (a, b) => a.left < b.right - 2 && b.left < a.right - 2
            && a.top < b.bottom - 4 && b.top < a.bottom - 4;
          return words.flatMap(([one, a], i) => words.slice(i + 1)
            .filter(([, b]) => across(a, b)).map(([other]) => `${one} on ${other}`));
        }"""
    )


@pytest.mark.grid(lambda name, width: width == 390 and [*CHARTS].index(name) % 2 == 0, rest="slow")
@pytest.mark.parametrize("width", [1000, 390, 290])  # JupyterLab leaves a cell 274 on a phone
@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_has_room_keeps_its_size_and_its_words_apart(page, name, width):
    explorer = CHARTS[name]()
    show, sizes = opened(page, explorer, moves=False), set()
    with narrowed(page, width):
        for values in charts.ends(explorer):
            show(**values)
            assert outside(page) == []
            assert width == 290 or crossing(page) == []
            sizes.add(size(page))
        grid = page.locator("svg path[stroke='#E4E4E4']").first
        assert name != "HeatCost" or grid.bounding_box()["width"] > 155
    assert width == 290 or len(sizes) == 1


@pytest.mark.grid(lambda name: [*CHARTS].index(name) % 3 == 0, rest="slow")
@pytest.mark.parametrize("name", CHARTS)
def test_what_was_drawn_before_leaves_nothing_behind(page, name):
    explorer = CHARTS[name]()
    show = opened(page, explorer, moves=False)
    show()
    drawn = page.inner_html("svg")
    for values in charts.ends(explorer):
        show(**values)
        show()
        assert page.inner_html("svg") == drawn, values


def test_a_bracket_stands_below_the_tokens_of_each_call(page):
    strip = show(token_strip([*"2+6=8;8"], [""] * 7, calls=[1, 2, 4]), "Seven tokens.")
    opened(page, strip, moves=False)()
    tokens, brackets = boxes(page, "svg rect"), boxes(page, "svg path")
    for (first, last), bracket in zip(((0, 0), (1, 2), (3, 6)), brackets, strict=True):
        ends = tokens[first]["left"], tokens[last]["right"]
        assert (bracket["left"], bracket["right"]) == pytest.approx(ends, abs=1)
        assert bracket["top"] >= tokens[last]["bottom"] - 1
    assert outside(page) == []


def test_the_frame_of_a_token_lies_on_the_tokens_beside_it(page):
    chart = token_strip([*"2+6=8"], [""] * 5)
    strip = show(dataclasses.replace(chart, now={**chart.now, "marked": 2}), "Five tokens.")
    opened(page, strip, moves=False)()
    looks = "['stroke', 'x', 'width'].map(name => e.getAttribute(name))"
    *tokens, frame = every(page, "svg rect", looks)
    assert [edge for edge, *_ in (*tokens, frame)] == ["#FFFFFF"] * 5 + ["#000000"]
    assert frame[1:] == tokens[2][1:]


def test_a_key_is_a_line_where_a_line_is_meant(page):
    opened(page, CHARTS["Cloud"](), moves=False)()
    keys = page.locator("svg > rect").count()
    assert keys == 3 + page.locator("svg > rect.lablib-cell").count()
    dashes = every(page, "svg > path[d$='h14']", "e.getAttribute('stroke-dasharray')")
    assert dashes == ["2 3", "6 3"]


# A part of 60 pixels around the last shape, four times as large: edges are of many pixels.
LENS = """() => {
  const svg = document.querySelector('svg'), {x, y, width, height} = svg.lastChild.getBBox();
  const part = `${x + width / 2 - 30} ${y + height / 2 - 30} 60 60`;
  const look = {viewBox: part, width: 240, height: 240};
  for (const [name, value] of Object.entries(look)) svg.setAttribute(name, value);
}"""


@pytest.mark.parametrize("r", [4, 6, 22])
def test_dots_of_one_size_have_one_area_whatever_their_look(page, r):
    """Black on white, a hollow one filled with its own colour: the area is what is dark."""
    shapes = [(shape, hollow) for shape in SHAPES for hollow in (False, True)]
    look = {"dot": [1, 0], "r": r, "colour": "#000000", "fill": "#000000"}
    bare = panel("", axis(0, 2, "", ()), axis(-1, 1, "", ()), high=60)
    areas = []
    for shape, hollow in shapes:
        chart = Chart([bare], [[{**look, "shape": shape, "hollow": hollow}]])
        opened(page, show(chart, "A dot."), moves=False)()
        page.evaluate(LENS)
        seen = Image.open(io.BytesIO(page.locator("svg").screenshot())).convert("L")
        areas.append(float((1 - np.asarray(seen) / 255).sum()) / 4**2)
    assert areas == pytest.approx([math.pi * r**2] * len(shapes), rel=0.04)


def test_names_of_lines_that_meet_at_the_end_stand_as_the_lines_do_before(page):
    series = {"low": [0, 0.2, 1], "middle": [0, 0.5, 1], "high": [0, 0.8, 1], "end": [1, 0, 0]}
    opened(page, show(lines([1, 2, 4], series, "x", "y"), "Four lines."), moves=False)()
    names = {name: page.locator("svg").get_by_text(name, exact=True) for name in series}
    tops = {name: words.bounding_box()["y"] for name, words in names.items()}
    assert sorted(tops, key=tops.get) == ["high", "middle", "low", "end"]


def test_a_line_says_its_numbers_at_its_points_and_bears_its_name(page):
    show = opened(page, LengthCurves(COSTS))
    show(alpha=0.5)
    assert walked(page, "RRD")[-1] == "it costs, draft tokens γ 1: 1.35."
    assert page.locator("svg").get_by_text("it costs").count() == 1


KEPT, SLID, STATE = "^keys and values", "^sliding window", "^recurrent state"
WALKS = [
    ("Cloud", {}, "RRDR", ["day 1 [+] 0", "day 1 [+] 1", "day 1 [+] 1", "day 1 [+] 2"]),
    (
        *("Dealing", {"ranks": 16}, "RRDR"),
        [f"Rank {said}" for said in ("0: unit 0,", "0: unit 16,", "1: unit 17,", "1 waits")],
    ),
    (
        *("Memories", {}, "RRDDU"),
        [f"{KEPT}, position 0", *(f"{each}, position 1" for each in (KEPT, SLID, STATE, SLID))],
    ),
]


@pytest.mark.parametrize(("name", "values", "keys", "told"), WALKS)
def test_the_arrow_keys_walk_along_the_rows_of_a_chart(page, name, values, keys, told):
    opened(page, CHARTS[name](), moves=False)(**values)
    for said, words in zip(walked(page, keys), told, strict=True):
        assert re.search(words, said)


@pytest.fixture(scope="module")
def teller():
    model, tokenizer = models.load("target", dtype=mx.float32)
    return StoryTeller(model, tokenizer, stories.problems(3, 1)[0], " She is", seed=6)


@pytest.mark.grid(lambda width: width == 290, rest="slow")
@pytest.mark.parametrize("width", [1000, 700, 290])
def test_a_story_keeps_its_height_and_its_tokens_tell_their_chances(page, teller, width):
    show, sizes = opened(page, teller), set()
    with narrowed(page, width):
        for temperature in teller.TEMPERATURES:
            for story in (1, 2):
                data = show(temperature=temperature, story=story)
                sizes.add(size(page))
                assert outside(page) == []
    assert len(sizes) == 1
    letters = page.locator("svg text[font-family]").all_text_contents()
    assert letters == [token.strip() or "␣" for token in teller.constants["texts"][data["text"]]]
    if width == 1000:
        ((_, high),) = sizes
        assert high <= 260  # seen at once, below the lesson's title and first cells
    page.locator("svg rect.lablib-cell").first.hover()
    assert page.locator(".lablib-told").inner_text() == "This was given."
    assert walked(page, "RD")[-1] in data["notes"]
    assert "has probability" in walked(page, "D" * 30)[-1]  # below the text are the bars


@pytest.mark.grid(lambda width: width == 290, rest="slow")
@pytest.mark.parametrize("width", [1000, 290])
def test_the_dart_points_at_its_piece_and_every_word_is_named(page, width):
    words = ["the", "cat", "dog", "sat", "ran", "."]
    draw = Draw(words, np.log([2, 16, 8, 3, 2, 1]))
    show = opened(page, draw)
    with narrowed(page, width):
        for u in (0.0, 0.03, 0.5, 0.97, 0.99):
            for temperature in (0.1, 1.0, 3.0):
                show(u=u, temperature=temperature)
                assert outside(page) == []
                pieces = page.locator(".lablib-cell")
                hit = pieces.nth(draw.compute(u, temperature)["token"])
                assert hit.get_attribute("fill") == "#0072B2"
                hit = hit.bounding_box()
                point = page.locator("svg path[fill='#000000']").bounding_box()
                tip = point["x"] + point["width"] / 2
                assert hit["x"] - 1 <= tip <= hit["x"] + hit["width"] + 1
                assert set(words) <= set(page.locator("svg text").all_text_contents())
        show(u=0.6, temperature=1.0)
        edges, pieces = boxes(page, "svg path[stroke='#CCCCCC']"), boxes(page, ".lablib-cell")
        lefts = [piece["x"] for piece in pieces]
        assert all(min(abs(edge["x"] - left) for left in lefts) < 1.5 for edge in edges)
        sums = page.locator("svg text").all_text_contents()
        assert {"0", "0.56", "0.81", "1"} <= {*sums}  # where cat and dog end
        assert len(edges) == (4 if width == 1000 else 2)


@pytest.mark.grid(lambda width: width == 290, rest="slow")
@pytest.mark.parametrize("width", [1000, 290])
def test_a_tree_of_prefixes_stands_still_and_shows_each_edge(page, width):
    texts = ["the cat sat on the mat", "the cat ran", "a bird", "the cat sat on the roof", "a dog"]
    film = TreeFilm([text.split() for text in texts], budget=9)
    show, sizes = opened(page, film), set()
    with narrowed(page, width):
        for budget in (6, 9, film.controls["budget"].max):
            for query in range(len(texts) + 1):
                data = show(query=query, budget=budget)
                assert outside(page) == []
                sizes.add(size(page))
                dashes = every(page, ".lablib-cell", "e.getAttribute('stroke-dasharray')")
                gone = [edge["status"] == "evicted" for edge in data["edges"]]
                assert [dash != "none" for dash in dashes] == gone
    assert len(sizes) == 1


def test_axe_finds_nothing(page, shown):
    shown()
    page.evaluate(axe_script())
    found = page.evaluate("() => axe.run('main', {resultTypes: ['violations']})")
    assert [each["id"] for each in found["violations"]] == []


def test_a_recorded_notebook_gets_the_picture(page, carpet):
    bundle, metadata = carpet._repr_mimebundle_()
    output = {"output_type": "execute_result", "data": dict(bundle), "metadata": metadata}
    notebook = {"cells": [{"cell_type": "code", "outputs": [output]}, {"cell_type": "markdown"}]}
    assert stills.fill(notebook, page) == 1
    assert set(output["data"]) == {
        "application/vnd.jupyter.widget-view+json", "image/png", "text/plain",
    }  # fmt: skip
    assert metadata["image/png"]["alt"] == bundle["text/plain"] == carpet.view.caption
    assert stills.fill(notebook, page) == 0


def test_a_recorded_picture_keeps_all_colours_of_its_key(page):
    explorer = charts.EVERY[RoundByRound]()
    data, caption = explorer.frame()
    png = stills.draw(page, {**explorer.told, "data": data}, caption)
    found = Image.open(io.BytesIO(png)).convert("RGB").getcolors()
    colours = {"#{:02X}{:02X}{:02X}".format(*colour) for _, colour in found}
    assert {look[0] for look in LOOKS} <= colours

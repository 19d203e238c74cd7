"""The page with the models in Firefox, from a disk and from a server.

What Chromium tests (``test_play.py``) is not tested again: these are the parts in which browsers
differ, which are scripts from a disk, a worker from a Blob, WebAssembly, and the keyboard.
"""

import contextlib
import re
import shutil

import pytest
from oracles import firefox, page, reader

SAID = "document.querySelector('[data-part=status]').textContent"
TAB, ENTER, RIGHT = "\ue004", "\ue007", "\ue014"  # WebDriver's names of keys
# The tokens of a part's text, without the prompt before them.
TOKENS = """[...document.querySelector('[data-part={part}]')
  .querySelectorAll('.play-token, .play-kept, .play-own')]
  .map(each => (each.previousSibling?.data ?? '') + each.textContent).join('').replace(/■$/, '')"""


pytestmark = pytest.mark.browser


@pytest.fixture(scope="session", autouse=True)
def needed():
    """Before the site is built, which takes most of a minute."""
    firefox.need("the page with the models")


@pytest.fixture(scope="module")
def tabs():
    """One Firefox for all tests, and another after one that fell silent."""
    with contextlib.ExitStack() as stack:
        opened = []

        def tab():
            if not opened or opened[-1].is_silent:
                opened.append(stack.enter_context(firefox.opened()))
                opened[-1].size(1280, 1000)
            return opened[-1]

        yield tab


@pytest.fixture
def tab(tabs):
    return tabs()


@pytest.fixture(params=["disk", "server"])
def address(request, site):
    if request.param == "disk":
        yield (site[0] / "play.html").as_uri()
    else:
        with reader.served(site[0]) as server:
            yield f"{server}play.html"


def visit(tab, address):
    """Open a page anew: of two addresses that differ after # only, the second is no new page."""
    tab.open("about:blank")
    tab.complaints.clear()
    tab.asked.clear()
    tab.open(address)


def wait_for(tab, words):
    tab.wait(f"{SAID}.includes({words!r})")


def lines(tab):
    return tab.ask("document.querySelector('[data-part=python]').textContent")


def test_it_writes_what_python_writes(tab, address):
    visit(tab, f"{address}#shown=write&seed=5&temperature=0.7&top_p=0.9")
    wait_for(tab, "a second on this device")
    text = tab.ask(TOKENS.format(part="story"))
    assert len(text) > 20
    assert text == page.printed(lines(tab))
    assert tab.complaints == []
    assert elsewhere(tab, address) == []


@pytest.mark.parametrize("drafter", ["draft", "target-head"])
def test_it_drafts_what_python_drafts(tab, address, drafter):
    how = f"drafter={drafter}&rule=block&draft_tokens=6"
    visit(tab, f"{address}#play=draft&shown=draft&seed=4&{how}&round=1000")
    wait_for(tab, "The text took")
    assert tab.ask(TOKENS.format(part="text")) == page.printed(lines(tab))
    assert tab.complaints == []


def test_it_votes_as_python_votes(tab, address):
    visit(tab, f"{address}#play=vote&shown=vote&seed=2&prompt=sum+1+2+3+4+5+6%3A")
    wait_for(tab, "64 of 64")
    votes = tab.ask("[...document.querySelectorAll('.play-count')].map(e => Number(e.textContent))")
    winner, counts = re.fullmatch(r"(\d) \[(.*)\]", page.printed(lines(tab))).groups()
    assert sorted(filter(None, votes), reverse=True) == [int(n) for n in counts.split(", ")]
    assert votes[int(winner)] == max(votes)
    assert tab.complaints == []


def elsewhere(tab, address):
    """Return what was asked of other hosts."""
    own = (address.rpartition("/")[0], "blob:", "data:")
    return [url for url in tab.asked if not url.startswith(own)]


def test_the_keyboard_alone_plays(tab, site):
    visit(tab, f"{(site[0] / 'play.html').as_uri()}#seed=3")
    wait_for(tab, "The models are here")
    tab.ask("document.querySelector('#play-tab-write').focus()")
    tab.press(*[TAB] * 5, ENTER)  # the text, three beginnings, Write
    wait_for(tab, "a second on this device")
    tab.ask("document.querySelector('.play-token').focus()")
    tab.press(RIGHT)
    assert tab.ask("document.querySelectorAll('.play-token')[1].getAttribute('aria-current')")
    tab.ask("document.querySelector('#play-tab-write').focus()")
    tab.press(RIGHT)
    assert tab.ask("document.activeElement.id") == "play-tab-draft"
    tab.ask("document.querySelector('.play-go[data-only=draft]').focus()")
    tab.press(ENTER)
    wait_for(tab, "The text took")
    tab.ask("document.querySelector('[data-part=on]').focus()")
    tab.press(ENTER)
    assert tab.ask("document.querySelector('[data-part=number]').textContent[6]") == "2"


def test_a_stopped_download_is_said_and_goes_on(tab, site, tmp_path):
    own = shutil.copytree(site[0], tmp_path / "own")
    part, away = (own / "_static/play" / name for name in ("target-3.js", "away.js"))
    part.rename(away)
    with reader.served(own) as server:
        visit(tab, f"{server}play.html")
        wait_for(tab, "The download stopped (target-3.js)")
        away.rename(part)
        tab.asked.clear()
        tab.ask("document.querySelector('[data-do=again]').click()")
        wait_for(tab, "a second on this device")
        assert any("target-3.js" in url for url in tab.asked)
        assert not any("target-2.js" in url for url in tab.asked)  # it was there already


def test_lessons_pictures_ask_the_model(tab, site):
    visit(tab, (site[0] / "00_start_here.html").as_uri())
    tab.ask("document.querySelector('.lablib-all').click()")
    answers = {
        "samples": "After 32 samples",
        "dart u": "u = 0.60 falls between",
        "position": "After your text",
        "draft tokens γ": "On your texts α is ",
    }
    for label, answer in answers.items():
        named = f"[...film.querySelectorAll('label')].some(e => e.textContent === '{label}')"
        film = f"[...document.querySelectorAll('.lablib-film')].find(film => {named})"
        own = f"{film}.querySelector('.lablib-own')"
        if label == "position":
            tab.ask(f"{own}.querySelector('input').value = 'On a sunny day,'")
        tab.ask(f"{own}.querySelector('button').click()")
        tab.wait(f"{own}.textContent.includes('the model’s own answer')")
        said = tab.ask(f"{film}.querySelector('figcaption').textContent")
        assert said.startswith(answer)
    assert tab.complaints == []

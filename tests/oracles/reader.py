"""A site in a plain folder: its links followed, its pages opened in Chromium, its sliders moved.

From a shell, in ``tests``, ``python -m oracles.reader SITE SHOTS 03_sampling index`` takes pictures
of pages, top to bottom, their folds open. ``--dark`` and ``--narrow`` as in ``browser``.
"""

import argparse
import contextlib
import functools
import html.parser
import http.server
import json
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urlsplit

from oracles import browser
from oracles.access import axe_script

# What the page around ours does: Furo's own, and a lesson's headings, which it was written with.
_NOT_OURS = ("region", "landmark-unique")


class _Page(html.parser.HTMLParser):
    """The links of a page, its anchors, and what it loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])


def broken(site: Path) -> list[str]:
    """Return the links and pictures of a site that lead nowhere, and what comes from elsewhere."""
    pages = {file: _Page(file) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        for to in (*page.links, *page.loads):
            parts = urlsplit(to)
            if parts.scheme or parts.netloc:
                if to in page.loads and parts.scheme != "data":
                    found.append(f"{file.name} loads {to}")
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            anchors = pages[target].anchors if target in pages else {parts.fragment}
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in anchors):
                found.append(f"{file.name}: {to}")
    return found


@contextlib.contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a folder as ``python -m http.server`` does; yields its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Reader:
    """A reader of a site in Chromium.

    Attributes:
        page: Playwright's.
        complaints: what the console said, and what was asked of other hosts.
        bytes: what came over the line since the last page was opened.
    """

    def __init__(self, page: object, address: str) -> None:
        self.page, self.address, self.complaints, self.bytes = page, address, [], 0
        page.on("console", lambda said: self._hear(said))
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on("request", lambda request: self._ask(request.url))
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        session.on("Network.loadingFinished", lambda event: self._count(event))

    def _hear(self, said: object) -> None:
        if said.type in ("error", "warning"):
            self.complaints.append(f"{self.page.url}: {said.text}")

    def _ask(self, url: str) -> None:
        if not url.startswith((self.address, "data:")):
            self.complaints.append(f"{self.page.url} asked {url}")

    def _count(self, event: dict) -> None:
        self.bytes += int(event["encodedDataLength"])

    def open(self, name: str) -> int:
        """Open a page; return its bytes. Then its folds are open and its pictures asked for."""
        self.bytes = 0
        self.page.goto(f"{self.address}{name}.html", wait_until="networkidle")
        took = self.bytes
        self.page.evaluate(
            """async () => {
              document.querySelector('.lablib-all')?.click();
              document.querySelectorAll('details').forEach(d => { d.open = true; });
              await Promise.all(document.getAnimations().map(a => a.finished));  // they fade in
            }"""
        )
        return took

    def films(self) -> int:
        """Return how many films are on the page."""
        return self.page.locator(".lablib-film").count()

    def move_all(self, number: int) -> list[str]:
        """Move each control of a film to both its ends; return what was not shown as it should."""
        box = self.page.locator(".lablib-film").nth(number)
        film, wrong = json.loads(box.locator("script").text_content()), []
        places = [range(len(control["stops"])) for control in film["controls"]]
        begin = [control["start"] for control in film["controls"]]
        inputs = box.locator(".lablib-controls :is(input, select)")
        box.scroll_into_view_if_needed()
        for i, control in enumerate(film["controls"]):
            for at in (places[i][-1], places[i][0], control["start"]):
                _move(inputs.nth(i), control["kind"], at)
                where = [*begin[:i], at, *begin[i + 1 :]]
                row = [*product(*places)].index(tuple(where))
                if "given" in film.get("engine", {}):  # the page needs no file
                    self.page.add_script_tag(url=film["parts"])
                caption = self._caption(box, film["parts"], row)
                said, drawn = self._seen(box)
                if not said == drawn == caption:
                    wrong.append(f"film {number}, {control['label']} at {at}: {said}, {drawn}")
        return wrong

    def _caption(self, box: object, path: str, row: int) -> str:
        """Return the caption of a setting of a film whose settings have a file, and wait for it."""
        self.page.wait_for_function("name => lablibFilms[name]", arg=path.split("/")[-1])
        told = "async ([name, row]) => (await lablibFilms[name]).captions[row]"
        caption = self.page.evaluate(told, [path.split("/")[-1], row])
        box.locator("figcaption").filter(has_text=caption).wait_for(timeout=5_000)
        return caption

    def _seen(self, box: object) -> tuple[str, str]:
        """Return a film's caption and what its drawing is called, once it is there."""
        film = box.element_handle()
        self.page.wait_for_function("film => film.ariaBusy !== 'true'", arg=film)
        drawn = box.locator(".lablib-scene svg").get_attribute("aria-label")
        return box.locator("figcaption").inner_text(), drawn

    def axe(self) -> list[str]:
        """Return what axe-core finds wrong in the page's article."""
        self.page.evaluate(axe_script())
        return self.page.evaluate(
            """async off => {
              const rules = Object.fromEntries(off.map(rule => [rule, {enabled: false}]));
              const more = {resultTypes: ['violations'], rules};
              const found = await axe.run({include: ['article']}, more);
              return found.violations.flatMap(({id, nodes}) =>
                nodes.map(node => `${id}: ${node.html.slice(0, 150)}`));
            }""",
            list(_NOT_OURS),
        )


def _move(control: object, kind: str, at: int) -> None:
    if kind == "list":
        control.select_option(str(at))
    elif kind == "box":
        control.set_checked(bool(at))
    else:
        control.fill(str(at))


@contextlib.contextmanager
def reading(site: Path, size: dict = browser.WIDE, dark: bool = False) -> Iterator[Reader]:
    """Serve a site and open it in the Chromium that was found."""
    from playwright.sync_api import sync_playwright

    with served(site) as address, sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=browser.chromium(), args=browser.FLAGS)
        page = chrome.new_page(viewport=size, color_scheme="dark" if dark else "light")
        yield Reader(page, address)
        chrome.close()


def main() -> None:
    """Write screenshots of pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("pages", nargs="+")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--narrow", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    size = browser.NARROW if options.narrow else browser.WIDE
    with reading(options.site, size, options.dark) as reader:
        for name in options.pages:
            print(name, reader.open(name), "bytes", reader.films(), "films")
            high = reader.page.evaluate("document.documentElement.scrollHeight")
            for number, top in enumerate(range(0, high, size["height"] - 60)):
                reader.page.evaluate(f"window.scrollTo(0, {top})")
                reader.page.wait_for_timeout(200)
                reader.page.screenshot(path=options.out / f"{name}_{number:02d}.png")
        print(*reader.complaints, sep="\n")


if __name__ == "__main__":
    main()

"""The page with the models: tokens a second in Node and in browsers, and what a visitor waits for.

    python tests/benchmarks/bench_page.py [repeats]

Run it on a quiet machine. Chromium and Firefox, those that are there, open the page, cold, several
times: the time from a click to the first token, the bytes before it (Chromium only), the longest
frame while a story is written, and the memory of the page and its worker. Exit code 1 if a bound is
missed: 150 tokens a second on one core, 1.5 s, 8 MB, 50 ms, 150 MB.
"""

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lablib
from lablib.course.tasks import stories
from lablib.tools.site import play

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import browser, firefox, page, reader

SHELL = "<!doctype html><meta charset=utf-8><title>Play</title><article>{text}</article>"
FRAMES = """
window.frames_ = [];
(function next(before) {
  requestAnimationFrame(now => { window.frames_.push(now - before); next(now); });
})(performance.now());
"""
SAID = "document.querySelector('[data-part=status]').textContent"
MOST = {"first": 1.5, "megabytes": 8, "frame": 50, "memory": 150}


def in_node(repeats: int) -> float:
    """Print tokens a second; return those of plain writing."""
    tokenizer = lablib.load("target")[1]
    prompt = tokenizer.encode(stories.problems(1, 1)[0].prompt)
    run = {"prompt": prompt, "max_tokens": 100, "seed": 6, "temperature": 1.0, "rule": "rejection"}
    chains = tokenizer.encode("sum 7 3 9 0 4 8:")
    (kinds,) = page.run({"do": "speed", "run": run, "chains": chains, "repeats": repeats})
    rates = {}
    for name, times in kinds:
        rates[name] = statistics.median(1000 * tokens / ms for tokens, ms in times)
        print(f"node, {name}: {rates[name]:.0f} tokens/s")
    return rates["plain"]


def renderers(chrome: Any) -> float:
    """Return the memory that Chromium's pages and workers have for themselves, in MB."""
    processes = chrome.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    pages = [psutil.Process(each["id"]) for each in processes if each["type"] == "renderer"]
    return sum(each.memory_full_info().uss for each in pages) / 1e6


def visit(chrome: Any, address: str) -> dict[str, float]:
    """Open the page, cold, and click at once; return what it took."""
    context = chrome.new_context(viewport=browser.WIDE)
    tab = context.new_page()
    empty = renderers(chrome)
    session = context.new_cdp_session(tab)
    session.send("Network.enable")
    sizes: list[int] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    tab.add_init_script(FRAMES)
    tab.goto(f"{address}#seed=6", wait_until="domcontentloaded")
    tab.locator(".play-go:visible").click()
    start = time.perf_counter()
    tab.locator(".play-token").first.wait_for()
    took = time.perf_counter() - start
    size = sum(sizes)
    before = tab.evaluate("window.frames_.length")
    said = tab.locator("[data-part=status]")
    said.filter(has_text="a second on this device").wait_for()
    frames = tab.evaluate("window.frames_")[before:]
    rate = _rate(said.inner_text())
    memory = renderers(chrome) - empty
    context.close()
    found = {"rate": rate, "first": took, "megabytes": size / 1e6}
    return {**found, "frame": max(frames), "memory": memory}


def _rate(said: str) -> int:
    """Return the tokens a second of what the page says of a text that is written."""
    _, rate = (int(word) for word in said.split() if word.isdigit())
    return rate


def in_chromium(address: str, repeats: int) -> list[dict[str, float]]:
    """Visit the page in Chromium, each time with an empty cache."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=browser.chromium(), args=browser.FLAGS)
        visits = [visit(chrome, address) for _ in range(repeats)]
        chrome.close()
    return visits


def in_firefox(address: str, repeats: int) -> list[dict[str, float]]:
    """Visit the page in a new Firefox each time."""
    visits = []
    for _ in range(repeats):
        with firefox.opened() as tab:
            tab.size(**browser.WIDE)
            tab.open(f"{address}empty.html")
            empty = tab.memory()
            tab.open(f"{address}play.html#seed=6", ready=("interactive", "complete"))
            tab.wait("document.querySelector('[aria-selected=true]')")  # the page's script has run
            start = time.perf_counter()
            tab.ask("document.querySelector('.play-go:not([hidden])').click()")
            tab.wait("document.querySelector('.play-token')")
            took = time.perf_counter() - start
            tab.ask(f"void eval({FRAMES!r})")
            tab.wait(f"{SAID}.includes('a second on this device')")
            frames = tab.ask("window.frames_.slice(1)")
            found = {"rate": _rate(tab.ask(SAID)), "first": took, "frame": max(frames)}
            visits.append({**found, "memory": tab.memory() - empty})
    return visits


def summary(name: str, visits: list[dict[str, float]]) -> list[str]:
    """Print the medians of what a visitor of a cold page waits for; return the bounds missed."""
    found = {key: statistics.median(each[key] for each in visits) for key in visits[0]}
    size = f", {found['megabytes']:.1f} MB before it" if "megabytes" in found else ""
    print(
        f"{name}: {found['rate']:.0f} tokens/s; the first {found['first']:.2f} s after a click"
        f"{size}; frames up to {found['frame']:.0f} ms; {found['memory']:.0f} MB of memory"
    )
    missed = [f"{name}: {key} {most}" for key, most in MOST.items() if found.get(key, 0) > most]
    return missed + [f"{name}: 150 tokens/s"] * (found["rate"] < 150)


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Serve the page, without the site around it; yields the address of its folder."""
    with tempfile.TemporaryDirectory() as folder:
        play.write(Path(folder, play.FOLDER))
        text = play.source().split("```{raw} html")[1].rsplit("```", 1)[0]
        for name, content in {"play": text, "empty": ""}.items():
            Path(folder, f"{name}.html").write_text(SHELL.format(text=content), "utf-8")
        with reader.served(Path(folder)) as address:
            yield address


def main() -> int:
    """Measure all that is there; return 1 if a bound is missed."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    missed = []
    if page.node() is None:
        print("no Node: not measured there")
    elif in_node(repeats) < 150:
        missed.append("node: 150 tokens/s")
    with served() as address:
        if browser.chromium() is None:
            print("no Chromium: not measured there")
        else:
            missed += summary("chromium", in_chromium(f"{address}play.html", repeats))
        if firefox.firefox() is None:
            print("no Firefox: not measured there")
        else:
            missed += summary("firefox", in_firefox(address, repeats))
    print(f"missed: {', '.join(missed) or 'nothing'}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())

"""Milliseconds from a key on a control to its new picture, in JupyterLab: what must be within 100.

    python tests/benchmarks/bench_pixels.py [lessons, as 07 13] [--turns 6]

Each lesson is opened in Chromium, and all of its cells run. Every control of a picture that the
page draws is then moved by arrow keys: so many steps on, and back where it ends. A step takes from
the key, as the browser dates it, to the end of the first frame that shows another picture: the
kernel's answer, both ways to it, and drawing are in it. Shapes then move for 150 ms.
"""

import argparse
import contextlib
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import browser

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SIGNATURE = ("00", "01", "03", "04", "06", "07", "08", "09", "11", "12", "13")
MOST = 100  # milliseconds, of each picture's median
CONTROLS = ".noUi-handle, select"
WATCH = """picture => {
  const seen = window.seen_ = {took: 0};
  const channel = new MessageChannel();  // heard after the frame is drawn
  let pressed = 0;
  const listen = event => { pressed = event.timeStamp; };
  document.addEventListener('keydown', listen, {capture: true, once: true});
  channel.port1.onmessage = () => { seen.took = performance.now() - pressed; };
  const observer = new MutationObserver(() => {
    observer.disconnect();
    requestAnimationFrame(() => channel.port2.postMessage(0));
  });
  observer.observe(picture, {subtree: true, childList: true, attributes: true});
}"""


def step(lesson: browser.Lesson, picture: Any, key: str) -> float | None:
    """Press a key; return the milliseconds to the new picture, None if none comes."""
    picture.evaluate(WATCH)
    lesson.page.keyboard.press(key)
    for _ in range(150):
        if took := lesson.page.evaluate("window.seen_.took"):
            lesson.page.wait_for_timeout(250)  # shapes have come to rest
            return took
        lesson.page.wait_for_timeout(10)
    return None


def moves(lesson: browser.Lesson, widget: int, turns: int) -> list[float]:
    """Move each control of a widget; return what every step with a new picture took."""
    box = lesson.widget(widget)
    picture = box.locator(".lablib-scene svg")
    taken = []
    for number in range(box.locator(CONTROLS).count()):
        control = box.locator(CONTROLS).nth(number)
        control.scroll_into_view_if_needed()
        control.focus()
        is_list = control.evaluate("e => e.tagName === 'SELECT'")
        on, back = ("Down", "Up") if is_list else ("Right", "Left")
        key = on
        for _ in range(turns):
            took = step(lesson, picture, f"Arrow{key}")
            if took is None:  # an end, or the same picture
                key = back if key == on else on
            else:
                taken.append(took)
    return taken


def pictures(lesson: browser.Lesson, turns: int) -> Iterator[tuple[int, list[float]]]:
    """Yield the number of each picture that the page draws, from 1 on, and what its steps took."""
    for widget in range(lesson.widgets()):
        if lesson.widget(widget).locator(".lablib-scene").count():
            yield widget + 1, moves(lesson, widget, turns)


def main() -> int:
    """Print a row for each picture; return 1 if a median is beyond the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lessons", nargs="*", default=SIGNATURE)
    parser.add_argument("--turns", type=int, default=6)
    options = parser.parse_args()
    paths = [next(NOTEBOOKS.glob(f"{number}_*.ipynb")) for number in options.lessons]
    medians = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for path in paths:
            shutil.copy(path, folder)
        page = stack.enter_context(browser.opened(stack.enter_context(browser.server(folder))))
        for path in paths:
            with browser.Lesson(page, path.name) as lesson:
                lesson.run_all()
                for number, taken in pictures(lesson, options.turns):
                    medians.append(statistics.median(taken))
                    said = f"{medians[-1]:.0f} ms of {len(taken)} steps, most {max(taken):.0f}"
                    print(f"{path.stem}, picture {number}: median {said}", flush=True)
    missed = sum(median > MOST for median in medians)
    print(f"{missed} of {len(medians)} pictures take more than {MOST} ms")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())

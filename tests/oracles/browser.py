"""A real JupyterLab in a real Chromium, for tests and for looking at a lesson.

From a shell, ``python tests/oracles/browser.py notebooks/00_start_here.ipynb shots/`` opens a copy
of the notebook, runs all cells and writes screenshots of the whole page, top to bottom. ``--dark``
does so in the dark theme, ``--narrow`` at 420 pixels, ``--unrun`` as the notebook was saved.
"""

import argparse
import contextlib
import io
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
SETTINGS = {
    # No "would you like Jupyter news?" over the plot, and every cell in the page.
    "@jupyterlab/apputils-extension/notification": '{"fetchNews": "false"}',
    "@jupyterlab/notebook-extension/tracker": '{"windowingMode": "none"}',
}
WIDGET = ".lablib-explorer"
WIDE, SMALL = {"width": 1280, "height": 1000}, {"width": 800, "height": 900}
NARROW = {"width": 420, "height": 900}


def chromium() -> str | None:
    """Return the path of a Chromium or Chrome: ``LABLIB_CHROMIUM``, the PATH, the Mac's folder."""
    named = os.environ.get("LABLIB_CHROMIUM")
    if named:
        return named
    found = [shutil.which(name) for name in BROWSERS]
    found += [path for path in MAC if Path(path).exists()]
    return next(filter(None, found), None)


def need(untested: str) -> None:
    """Skip the test without a browser, and say what goes ``untested``; in CI that is a failure."""
    if chromium() is None:
        message = f"no Chromium: set LABLIB_CHROMIUM or install it; {untested} go untested"
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(message)
        warnings.warn(message, stacklevel=2)  # pytest prints warnings, but not why it skipped
        pytest.skip(message)


@contextlib.contextmanager
def server(root: Path) -> Iterator[str]:
    """Serve a folder with JupyterLab, none of the user's own settings; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        for plugin, text in SETTINGS.items():
            file = home / "settings" / f"{plugin}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        places = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "IPYTHONDIR": "ipython",
        }
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
        command += [f"--port={port}", "--ServerApp.port_retries=0", "--expose-app-in-browser"]
        command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}"]
        with open(home / "server.log", "wb") as log:
            own = os.environ | {name: str(home / place) for name, place in places.items()}
            process = subprocess.Popen(command, env=own, stdout=log, stderr=subprocess.STDOUT)
        try:
            address = f"http://127.0.0.1:{port}"
            _await(f"{address}/api/status?token={token}", process, home / "server.log")
            yield f"{address}/lab?token={token}&reset"
        finally:
            process.terminate()
            process.wait(20)


def _await(address: str, process: subprocess.Popen, log: Path, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(address, timeout=2)
            return
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


@contextlib.contextmanager
def opened(address: str) -> Iterator[object]:
    """Open JupyterLab in the Chromium that was found; yields Playwright's page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = chrome.new_page(viewport=WIDE)
        page.set_default_timeout(120_000)
        page.goto(address, wait_until="domcontentloaded")
        page.wait_for_function("() => window.jupyterapp")
        page.evaluate("() => window.jupyterapp.restored.then(() => null)")
        yield page
        chrome.close()


def dress(page: object, dark: bool) -> None:
    """Change the theme and wait until the page wears it."""
    theme = f"JupyterLab {'Dark' if dark else 'Light'}"
    change = "window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
    page.evaluate(f"theme => {change}.then(() => 0)", theme)
    light = str(not dark).lower()
    page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'")


def resize(page: object, size: dict[str, int]) -> None:
    """Change the page's size, and close what stands beside the notebook."""
    page.set_viewport_size(size)
    fold = "side => window.jupyterapp.shell[`collapse${side}`]()"
    page.evaluate(f"() => ['Left', 'Right'].forEach({fold})")
    page.wait_for_timeout(500)  # JupyterLab lays out when it likes


class Lesson:
    """A notebook open in JupyterLab, its kernel idle.

    Several may be open in one page, each behind its own tab; ``show`` brings one to the front.

    Attributes:
        page: Playwright's page; one serves every lesson, because loading JupyterLab takes longest.
        box: the notebook in it.
        page_errors: JavaScript errors since the notebook was opened.
    """

    def __init__(self, page: object, notebook: str):
        self.page = page
        panel = f"find(widget => widget.context?.path === {notebook!r})"
        self._panel = f"[...window.jupyterapp.shell.widgets('main')].{panel}"
        self.page_errors: list[str] = []
        self._listen = self._note
        self.page.on("pageerror", self._listen)
        run = "window.jupyterapp.commands.execute('docmanager:open', {path})"
        self.page.evaluate(f"path => {run}.then(() => 0)", notebook)
        # The toolbar says idle before there is a kernel; the session itself knows.
        status = f"{self._panel}?.sessionContext?.kernelDisplayStatus"
        self.page.wait_for_function(f"() => {status} === 'idle'")
        self.box = self.page.locator(f"[id='{self.page.evaluate(f'() => {self._panel}.id')}']")
        self.box.locator(".jp-Notebook .jp-Cell").first.wait_for()

    def _note(self, error: Exception) -> None:
        """Keep an error of the page, but for one of JupyterLab's own.

        Seldom, on a busy machine, it removes a node that is gone already while tabs open and close.
        Nothing of ours removes one: no lesson brings a script.
        """
        if "'removeChild' on 'Node'" not in str(error):
            self.page_errors.append(str(error))

    def __enter__(self) -> "Lesson":
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the kernel and close the notebook, unsaved."""
        self.page.evaluate(
            f"""async () => {{
              const panel = {self._panel};
              await panel.sessionContext.shutdown();
              panel.dispose();
            }}"""
        )
        self.page.remove_listener("pageerror", self._listen)

    def show(self) -> None:
        """Bring the notebook's tab to the front."""
        self.page.evaluate(f"() => window.jupyterapp.shell.activateById({self._panel}.id)")

    def start_all(self) -> None:
        """Start to run all cells; the kernel goes on while another tab is in front."""
        self.show()
        run = "window.jupyterapp.commands.execute('notebook:run-all-cells')"
        self.page.evaluate(f"() => {{ const p = {self._panel}; {run}.then(() => p.ran = true) }}")

    def await_all(self, seconds: float = 300) -> None:
        """Bring the notebook to the front and wait until its last cell has run."""
        self.show()
        self.page.wait_for_function(f"() => {self._panel}.ran", timeout=1000 * seconds)

    def run_all(self, seconds: float = 300) -> None:
        """Run all cells and wait for the last."""
        self.start_all()
        self.await_all(seconds)

    def errors(self) -> list[str]:
        """Return the error outputs of the notebook's cells."""
        return self.page.evaluate(
            f"""() => {self._panel}.model.sharedModel.cells.flatMap((cell, i) =>
              (cell.toJSON().outputs || []).filter(o => o.output_type === 'error')
                .map(o => `cell ${{i}}: ${{o.ename}}: ${{o.evalue}}`))"""
        )

    def widgets(self) -> int:
        """Return how many widgets the page shows."""
        return self.box.locator(WIDGET).count()

    def widget(self, widget: int) -> object:
        """Return a widget, a Playwright locator."""
        return self.box.locator(WIDGET).nth(widget)

    def active_cell(self) -> int:
        """Return the number of the cell that is selected."""
        return self.page.evaluate(f"() => {self._panel}.content.activeCellIndex")

    def picture(self, widget: int) -> str:
        """Return what the widget shows: its picture and caption as HTML, empty when there is none.

        A picture counts only once it is painted: an image that has loaded, or other marks.
        """
        return self.widget(widget).evaluate(
            """e => [...e.querySelectorAll('img, [role=img]')]
              .filter(p => p.tagName === 'IMG' ? p.complete && p.naturalWidth > 100
                                               : p.getBoundingClientRect().width > 100)
              .map(p => p.outerHTML).join('')"""
        )

    def folds(self) -> list[str]:
        """Return what is to be read on each folded output."""
        return self.box.locator(".jp-OutputPlaceholder").all_inner_texts()

    def photograph(self, picture: int) -> np.ndarray:
        """Return a picture as it is seen, (height, width, 3), 0 to 255."""
        shot = self.box.locator(".lablib-picture").nth(picture).screenshot()
        return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"))

    def background(self) -> list[int]:
        """Return the page's colour."""
        book = self.box.locator(".jp-Notebook").first
        style = book.evaluate("e => getComputedStyle(e).backgroundColor")
        return [int(part) for part in re.findall(r"\d+", style)[:3]]

    def readout(self, widget: int) -> str:
        """Return the number beside the widget's first slider."""
        return self.widget(widget).locator(".widget-readout").first.inner_text()

    def press(self, widget: int, key: str = "", seconds: float = 20) -> float:
        """Press a key on the widget's first slider; return the ms until its picture changed.

        Without a key it is the arrow that can still move the slider: right, or left at its end.

        Raises:
            TimeoutError: the picture was the same after ``seconds``.
        """
        handle = self.widget(widget).locator(".noUi-handle").first
        handle.scroll_into_view_if_needed()
        handle.focus()
        if not key:
            now, end = (handle.get_attribute(f"aria-value{name}") for name in ("now", "max"))
            key = "ArrowLeft" if now == end else "ArrowRight"
        before, start = self.picture(widget), time.perf_counter()
        self.page.keyboard.press(key)
        while self.picture(widget) in ("", before):
            if time.perf_counter() - start > seconds:
                raise TimeoutError(f"the picture of widget {widget} did not change after {key}")
            self.page.wait_for_timeout(5)
        return 1000 * (time.perf_counter() - start)

    def screenshots(self, folder: Path, name: str) -> list[Path]:
        """Write pictures of the whole notebook, one screen each, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"{name}-*.png"):
            old.unlink()
        panel = self.box.locator(".jp-NotebookPanel-notebook").first
        outer = self.box.locator(".jp-WindowedPanel-outer").first
        last = self.box.locator(".jp-Notebook .jp-Cell").last  # JupyterLab adds a screen below it
        size = "e => [e.clientHeight, e.scrollTop - e.getBoundingClientRect().y]"
        view, start = outer.evaluate(size)
        height = start + last.evaluate("e => e.getBoundingClientRect().bottom")
        paths = []
        for top in range(0, int(height), view - 40):
            outer.evaluate("(e, top) => e.scrollTo(0, top)", top)
            self.page.wait_for_timeout(150)
            paths.append(folder / f"{name}-{len(paths) + 1:02d}.png")
            panel.screenshot(path=paths[-1])
        return paths


class Course:
    """Lessons in turn: while one is looked at, the next one runs already, in a kernel of its own.

    Args:
        page: Playwright's page.
        notebooks: the lessons, in the order in which they will be asked for.
    """

    def __init__(self, page: object, notebooks: list[str]):
        self._page, self._waiting = page, list(notebooks)
        self._running: dict[str, Lesson] = {}

    def lesson(self, notebook: str) -> Lesson:
        """Return a lesson of which all cells have run, and start the one after it."""
        self._start(notebook)
        lesson = self._running.pop(notebook)
        if self._waiting:
            self._start(self._waiting[0])
        lesson.await_all()
        return lesson

    def _start(self, notebook: str) -> None:
        if notebook not in self._running:
            self._running[notebook] = Lesson(self._page, notebook)
            self._running[notebook].start_all()
            self._waiting = [other for other in self._waiting if other != notebook]

    def close(self) -> None:
        """Stop what runs and nobody asked for."""
        for lesson in self._running.values():
            lesson.__exit__()


def main() -> None:
    """Write screenshots of one lesson and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("shots"))
    for flag in ("--dark", "--narrow", "--unrun"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    times = []
    with tempfile.TemporaryDirectory() as copy:
        shutil.copy(options.notebook, copy)
        with server(Path(copy)) as address, opened(address) as page:
            dress(page, options.dark)
            with Lesson(page, options.notebook.name) as lesson:
                if not options.unrun:
                    lesson.run_all()
                    times = [
                        f"{lesson.press(i):.0f} ms"
                        for i in range(lesson.widgets())
                        if lesson.widget(i).locator(".noUi-handle").count()  # else it has menus
                    ]
                if options.narrow:
                    resize(page, NARROW)
                page.evaluate("() => document.activeElement?.blur()")
                paths = lesson.screenshots(options.folder, options.notebook.stem)
                print("errors:", lesson.errors() or "none")
                print("page errors:", lesson.page_errors or "none")
    print(f"widgets answered after: {', '.join(times) or 'no widgets'}")
    print(*paths, sep="\n")


if __name__ == "__main__":
    main()

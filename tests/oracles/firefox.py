"""A real Firefox, driven by WebDriver BiDi: the one protocol that needs no driver beside it.

From a shell, ``python tests/oracles/firefox.py PAGE OUT.png`` opens a file or an address and writes
what is seen.
"""

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from websocket import WebSocketTimeoutException, create_connection

BROWSERS = "firefox-esr", "firefox"
MAC = "/Applications/Firefox.app/Contents/MacOS/firefox"
# No first pages, and no questions to other hosts.
QUIET = {
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.ipc.processPrelaunch.enabled": False,
    "extensions.getAddons.cache.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}
PATIENCE = 60  # seconds for an answer
_LISTENS = re.compile(r"WebDriver BiDi listening on (ws://\S+)")


def firefox() -> str | None:
    """Return the path of a Firefox: ``LABLIB_FIREFOX``, the PATH, the Mac's folder."""
    named = os.environ.get("LABLIB_FIREFOX")
    if named:
        return named
    found = [shutil.which(name) for name in BROWSERS] + [MAC] * Path(MAC).exists()
    return next(filter(None, found), None)


def need(untested: str) -> None:
    """Skip the test without Firefox, and say what goes ``untested`` there."""
    if firefox() is None:
        message = f"no Firefox: set LABLIB_FIREFOX or install it; {untested} go untested there"
        warnings.warn(message, stacklevel=2)  # pytest prints warnings, but not why it skipped
        pytest.skip(message)


class Silent(RuntimeError):
    """Firefox gave no answer; its text says which processes it had, and what they did."""


class Tab:
    """A tab of a Firefox that :func:`opened` started.

    Attributes:
        complaints: what the console said of errors and warnings.
        asked: the addresses that were asked for.
        process: Firefox's first process.
        is_silent: whether it once gave no answer.
    """

    def __init__(self, socket: Any, process: subprocess.Popen) -> None:
        self._socket, self._number = socket, 0
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.process = psutil.Process(process.pid)
        self.is_silent = False
        self.do("session.new", capabilities={})
        self.do("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        # Not the tab that is there: a new one has the focus, without which no key presses a button.
        self.context = self.do("browsingContext.create", type="tab")["context"]

    def do(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of WebDriver BiDi; return its result.

        Raises:
            RuntimeError: Firefox answered with an error.
            Silent: it did not answer.
        """
        self._number += 1
        told = {"id": self._number, "method": method, "params": params}
        try:
            self._socket.send(json.dumps(told))
            answer = json.loads(self._socket.recv())
            while answer.get("id") != self._number:
                self._hear(answer)
                answer = json.loads(self._socket.recv())
        except WebSocketTimeoutException:
            self.is_silent = True
            raise Silent(f"no answer to {method} {params}:\n{self._at_work()}") from None
        if answer["type"] == "error":
            raise RuntimeError(f"{method}: {answer['error']}: {answer['message']}")
        return answer["result"]

    def _hear(self, event: dict[str, Any]) -> None:
        told = event["params"]
        if event["method"] == "log.entryAdded" and told["level"] in ("error", "warn"):
            self.complaints.append(told["text"])
        if event["method"] == "network.beforeRequestSent":
            self.asked.append(told["request"]["url"])

    def _at_work(self) -> str:
        """Return a line for each process: its kind, its state, its share of a core."""
        each_one = [self.process, *self.process.children(recursive=True)]
        for each in each_one:
            each.cpu_percent()
        time.sleep(1)
        return "\n".join(
            f"{each.pid} {each.cmdline()[-1]} {each.status()} {each.cpu_percent():.0f} %"
            for each in each_one
        )

    def size(self, width: int, height: int) -> None:
        """Give the page a size, in CSS pixels."""
        room = {"width": width, "height": height}
        self.do("browsingContext.setViewport", context=self.context, viewport=room)

    def open(self, address: str, ready: tuple[str, ...] = ("complete",)) -> None:
        """Open another page, and wait until its ``document.readyState`` is one of ``ready``.

        Raises:
            TimeoutError: it was not, for a minute.
        """
        # With a wait of its own BiDi now and then gives no answer, while all of Firefox sleeps.
        self.do("browsingContext.navigate", context=self.context, url=address, wait="none")
        page = json.dumps(address.partition("#")[0])
        is_there = f"location.href.split('#')[0] === {page}"
        self.wait(f"{is_there} && {json.dumps(ready)}.includes(document.readyState)")

    def ask(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, a promise's too, as JSON has it.

        Raises:
            RuntimeError: it threw.
        """
        code = f"Promise.resolve({expression}).then(x => JSON.stringify(x) ?? 'null')"
        where = {"context": self.context}
        told = self.do("script.evaluate", expression=code, target=where, awaitPromise=True)
        if told["type"] == "exception":
            raise RuntimeError(told["exceptionDetails"]["text"])
        return json.loads(told["result"]["value"])

    def wait(self, expression: str, seconds: float = 60) -> None:
        """Wait until an expression of JavaScript is true there.

        Raises:
            TimeoutError: it was not, for so long.
        """
        end = time.monotonic() + seconds
        while not self._holds(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"in {seconds} s never true: {expression}")
            time.sleep(0.02)

    def _holds(self, expression: str) -> bool:
        try:
            return self.ask(f"Boolean({expression})")
        except RuntimeError as error:  # a page is going, another one comes
            if isinstance(error, Silent) or "no such frame" not in str(error):
                raise
            return False

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        told = [{"type": "key", "id": "keyboard", "actions": actions}]
        self.do("input.performActions", context=self.context, actions=told)

    def picture(self, path: Path) -> None:
        """Write what is seen."""
        told = self.do("browsingContext.captureScreenshot", context=self.context)
        path.write_bytes(base64.b64decode(told["data"]))

    def memory(self) -> float:
        """Return the memory that the processes of pages have for themselves, in MB."""
        pages = [each for each in self.process.children(True) if "tab" in each.cmdline()[-1:]]
        return sum(each.memory_full_info().uss for each in pages) / 1e6


@contextlib.contextmanager
def opened() -> Iterator[Tab]:
    """Start Firefox with a profile of its own; yields a tab."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        profile = Path(folder, "profile")
        profile.mkdir()
        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in QUIET.items()]
        (profile / "user.js").write_text("".join(lines), "utf-8")
        command = [firefox(), "--headless", "--no-remote", "--profile", str(profile)]
        command += ["--remote-debugging-port", "0"]
        log = Path(folder, "log")
        with log.open("w") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            # Firefox refuses a page's Origin; without one it is no page.
            address = f"{_listening(log, process)}/session"
            socket = create_connection(address, timeout=PATIENCE, suppress_origin=True)
            yield Tab(socket, process)
            socket.close()
        finally:
            _end(process)


def _end(process: subprocess.Popen, seconds: float = 20) -> None:
    """End Firefox with its processes of pages, those that don't answer, too."""
    if process.poll() is not None:
        return
    all_of_it = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    process.terminate()
    _, left = psutil.wait_procs(all_of_it, seconds)
    for each in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()


def _listening(log: Path, process: subprocess.Popen, seconds: float = 60) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        found = _LISTENS.search(log.read_text())
        if found:
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"Firefox did not start:\n{log.read_text()[-2000:]}")


def main() -> None:
    """Write a picture of a page."""
    page, out = sys.argv[1:]
    with opened() as tab:
        tab.size(1280, 1000)
        tab.open(page if ":" in page else Path(page).resolve().as_uri())
        time.sleep(2)
        tab.picture(Path(out))
        print(*tab.complaints, sep="\n")


if __name__ == "__main__":
    main()

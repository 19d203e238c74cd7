"""The page's engine in Node: no browser, the same modules.

A job is a dictionary; ``page.mjs`` beside this file says which there are. All jobs of a test run
share a process, in which the models are unpacked once.
"""

import base64
import contextlib
import io
import json
import os
import shutil
import subprocess
import tempfile
import threading
import warnings
from functools import cache
from pathlib import Path
from typing import IO, Any

from lablib.tools.site import play

import numpy as np
import pytest

DRIVER = Path(__file__).with_name("page.mjs")


def node() -> str | None:
    """Return the path of Node 18 or later: ``LABLIB_NODE``, or the PATH's."""
    return os.environ.get("LABLIB_NODE") or shutil.which("node")


def need() -> None:
    """Skip the test without Node, and say what goes untested."""
    if node() is None:
        message = "no Node: set LABLIB_NODE or install it; the page's engine goes untested"
        warnings.warn(message, stacklevel=2)  # pytest prints warnings, but not why it skipped
        pytest.skip(message)


@cache
def _models() -> dict[str, Any]:
    names = *play.NAMES, play.HEAD
    packed = {name: dict(zip(("told", "text"), play.pack(name), strict=True)) for name in names}
    return {"models": packed, "tokenizer": play.tokenizer()}


@cache
def _process() -> tuple[subprocess.Popen[str], IO[str]]:
    """Start Node, which waits for jobs; return it, and the file of its complaints."""
    complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
    process = subprocess.Popen(
        [node(), str(DRIVER)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True,
    )  # fmt: skip
    where = {"engine": str(play.ENGINE), "page": str(play.PAGE)}
    process.stdin.write(json.dumps(where | _models()) + "\n")
    return process, complaints


def run(*jobs: dict[str, Any], seconds: float = 600) -> list[Any]:
    """Return the results of jobs; a process of Node does all of a test run."""
    process, complaints = _process()
    late = threading.Timer(seconds, process.kill)
    late.start()
    with contextlib.suppress(BrokenPipeError):  # why it ended stands in its complaints
        process.stdin.write(json.dumps(jobs) + "\n")
        process.stdin.flush()
    told = process.stdout.readline()
    late.cancel()
    if told:
        return json.loads(told)
    _process.cache_clear()
    process.wait()
    complaints.seek(0)
    raise AssertionError(f"Node ended ({process.returncode}): {complaints.read()[-3000:]}")


def judged(task: dict[str, Any], answers: list[Any]) -> list[Any]:
    """Return what the page's judge of exercises says of several lists of answers."""
    script = (
        "const {judge} = await import(process.argv[1]);"
        "const {task, answers} = JSON.parse((await import('node:fs')).readFileSync(0, 'utf8'));"
        "console.log(JSON.stringify(answers.map(each => judge(task, each))));"
    )
    command = [node(), "--input-type=module", "-e", script, (play.PAGE / "judging.mjs").as_uri()]
    told = json.dumps({"task": task, "answers": answers})
    done = subprocess.run(command, input=told, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def printed(lines: str) -> str:
    """Return what lines of Python print, such as the page shows, without the last newline."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(lines, {})
    return said.getvalue()[:-1]


def floats(text: str, *shape: int) -> np.ndarray:
    """Return the float32 numbers of a text in base64."""
    return np.frombuffer(base64.b64decode(text), np.float32).reshape(shape)

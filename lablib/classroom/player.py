"""A student's function in a process of its own, called over a pipe with plain data.

What is asked and what is answered are lines of JSON, so that an answer is data and nothing else.
The process knows the cases that it is asked, one after the other, and neither the seeds they come
from nor what would be right.

``python -m lablib.classroom.player FILE FUNCTION`` is the other end.
"""

import ast
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

from lablib.classroom.editions import read_notebook

import numpy as np

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
LONGEST = 50_000_000  # bytes of one answer


class Lost(Exception):
    """The function can't be asked any more; the message says why, for a row of a table."""


class Player:
    """A function of a submitted file; calling it asks the process that holds it.

    Args:
        path: a notebook or a Python file.
        function: the function's name.
        seconds: time for loading and for all calls together; then the process is ended.

    Raises:
        Lost: there is no such function, or an answer did not come.
    """

    def __init__(self, path: Path, function: str, seconds: float) -> None:
        self._seconds, self._late = seconds, False
        self._empty = tempfile.TemporaryDirectory()
        command = [sys.executable, "-m", "lablib.classroom.player", str(path.resolve()), function]
        self._process = subprocess.Popen(
            command, cwd=self._empty.name, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "MPLBACKEND": "Agg"},
        )  # fmt: skip
        self._timer = threading.Timer(seconds, self._too_late)
        self._timer.start()

    def __enter__(self) -> Self:
        if problem := self._answer():
            self.__exit__()
            raise Lost(problem)
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._end()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()
        self._empty.cleanup()

    def __call__(self, *arguments: Any) -> Any:
        """Ask with plain data: numbers, texts, lists and NumPy arrays."""
        line = json.dumps([_packed(argument) for argument in arguments])
        with contextlib.suppress(OSError):  # it has ended: the answer says so
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        line = self._process.stdout.readline(LONGEST)
        if self._late:
            raise Lost(f"it ran longer than {self._seconds:g} s")
        try:
            answer = json.loads(line)
            value, problem = _unpacked(answer["value"]), answer["problem"]
        except (ValueError, LookupError, TypeError):
            raise Lost("its process ended without an answer") from None
        if problem:
            raise Lost(str(problem)[:200])
        return value

    def _too_late(self) -> None:
        self._late = True
        self._end()

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _packed(value: Any) -> Any:
    """Return plain data that JSON can hold; an array as its shape and its bytes."""
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"an array of {array.dtype}")
        array = array.astype(array.dtype.newbyteorder("<"))
        if not array.ndim:
            return array.item()
        data = base64.b64encode(array.tobytes()).decode()
        return {"array": [array.dtype.str, list(array.shape), data]}
    if isinstance(value, list | tuple):
        return [_packed(item) for item in value]
    return value


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        kind, shape, data = value["array"]
        if np.dtype(kind).kind not in "biuf":
            raise TypeError(f"an array of {kind}")
        return np.frombuffer(base64.b64decode(data), kind).reshape(shape).copy()
    if isinstance(value, list):
        return [_unpacked(item) for item in value]
    return value


def definitions(path: Path) -> dict[str, Any]:
    """Run the imports, functions, classes and literal constants of a file, and nothing else.

    What can't be run is left out, as what stands after it may not need it.
    """
    if path.suffix == ".ipynb":
        from IPython.core.inputtransformer2 import TransformerManager

        cells = [cell for cell in read_notebook(path)["cells"] if cell["cell_type"] == "code"]
        sources = [TransformerManager().transform_cell(cell["source"]) for cell in cells]
    else:
        sources = [path.read_text(encoding="utf-8")]
    space: dict[str, Any] = {"__name__": "__main__"}
    for source in sources:
        with contextlib.suppress(SyntaxError):
            for statement in ast.parse(source).body:
                if isinstance(statement, _DEFINITIONS) or _is_constant(statement):
                    with contextlib.suppress(Exception):
                        exec(compile(ast.Module([statement], []), path.name, "exec"), space)
    return space


def _is_constant(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign):
        return False
    try:
        ast.literal_eval(statement.value)
    except (ValueError, TypeError):
        return False
    return True


def main(path: str, function: str) -> None:
    """Answer each line of standard input with one; what the function prints goes nowhere."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    asked, sys.stdin = sys.stdin, open(os.devnull)  # noqa: SIM115 - for as long as it lives
    found = definitions(Path(path)).get(function)
    _say(out, None, "" if callable(found) else f"no function {function}")
    for line in asked:
        try:
            _say(out, _packed(found(*_unpacked(json.loads(line)))), "")
        except NotImplementedError:
            _say(out, None, "not attempted")
        except Exception as error:
            text = f"it raised {type(error).__name__}: {error}".splitlines()[0]
            _say(out, None, text)


def _say(out: Any, value: Any, problem: str) -> None:
    out.write(json.dumps({"value": value, "problem": problem}) + "\n")
    out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

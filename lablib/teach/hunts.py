"""Bug hunts by seed: functions of lesson 15, each with one place changed, and a teacher's key.

A change counts if ``check`` refuses it, so none is equivalent, and if it is silent: no call raised
anything, and what came had the right form, in time. Left out are changes that anybody would see
(``if True``), and those of numbers of which nothing says what they should be.
"""

import ast
import contextlib
import inspect
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lablib.course.checks.changed import without_docstring
from lablib.course.checks.checking import judge
from lablib.course.checks.exercises import Exercise, exercises
from lablib.folders import write_whole
from lablib.teach.mutants import change_of, count, mutant
from lablib.validation import BadValue, integer

LESSON = "15"
SECONDS = 60.0  # for one verdict: long, so that a busy machine draws the same hunts
MEMORY = 6 * 2**30  # bytes of address space: a mutant may grow for ever
MOST = 20  # hunts on a sheet
# The numbers of a model and its seed: any others would do, and nobody finds them by thinking.
_ANY_NUMBER = re.compile(
    r"default_rng\(-?\d|\[\[|^signs =|^grammar =|\.normal\(|^heads, size =|10 \*\*"
)
_SEEN_AT_ONCE = re.compile(r"\b(if|while) (True|False)\b|\bnot \(|^pass$|\d [+-] \d|\b0 \*")
_NO_ANSWER = re.compile(r"must return|returned|\bnan\b|it took longer|out of range")
_ADVICE = ("Stuck? ", "What it looks like")
_ROOM = "\n".join(f"**{each}**\n\n" + "\n" * 3 for each in ("Where", "Why", "Shown by", "Mended"))


@dataclass(frozen=True)
class Hunt:
    """A function with one place changed.

    Attributes:
        exercise: the id of the hunt that it was.
        title: its title.
        source: the function as students see it, formatted by a program: style gives nothing away.
        change: the lines that differ, ``right  ->  changed``.
        seen: what ``check`` said of it: a call, what was expected, and what came.
    """

    exercise: str
    title: str
    source: str
    change: str
    seen: str


def hunts(seed: int | str, n: int = 3) -> list[Hunt]:
    """Return ``n`` hunts; the same seed gives the same ones.

    Mutants run in a process of their own, whose memory is limited.

    Args:
        seed: any number or text.
        n: how many, 1 to 20; each exercise of the lesson comes once before one comes again.

    Raises:
        ValueError, TypeError: ``n`` is none of these.
    """
    command = [sys.executable, "-m", __name__, str(seed), str(integer("n", n, 1, MOST))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadValue(f"hunts of the seed {seed!r} can't be drawn: {done.stderr.strip()[-300:]}")
    return [Hunt(**each) for each in json.loads(done.stdout)]


def draw(seed: int | str, n: int) -> Iterator[Hunt]:
    """Yield ``n`` hunts in this process; see ``hunts``."""
    rng = random.Random(f"hunts {seed}")
    listed = exercises(LESSON)
    rng.shuffle(listed)
    left = {each.id: _candidates(each, rng) for each in listed}
    for number in range(n):
        yield next(left[listed[number % len(listed)].id])


def _candidates(exercise: Exercise, rng: random.Random) -> Iterator[Hunt]:
    """Yield silent bugs of an exercise's reference, in an order that the generator draws."""
    tree = ast.parse(exercise.solution)
    (function,) = tree.body
    doc = function.body.pop(0)  # no change touches it
    before = ast.unparse(tree)
    tried = {_named(each, exercise.name) for each in exercise.wrong}
    numbers = [*range(count(before))]
    rng.shuffle(numbers)
    for text in (_tidied(mutant(before, number)) for number in numbers):
        if text in tried or not _fair(before, text):
            continue
        tried.add(text)
        seen = silent(exercise, text)
        if seen:
            shown = ast.parse(text)
            shown.body[0].body.insert(0, doc)
            source, change = ast.unparse(shown), change_of(before, text)
            title = exercise.title.removesuffix(" (further)")
            yield Hunt(exercise.id, title, source, change, seen)


def _tidied(text: str) -> str:
    """Return a mutant in which a statement that does nothing is gone, and 1 + 1 is 2."""
    return ast.unparse(ast.fix_missing_locations(_Tidy().visit(ast.parse(text))))


class _Tidy(ast.NodeTransformer):
    def visit(self, node: ast.AST) -> ast.AST:
        node = self.generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1:
            node.body = [each for each in body if not isinstance(each, ast.Pass)]
        match node:
            case ast.BinOp(ast.Constant(a), ast.Add() | ast.Sub() as op, ast.Constant(b)) if (
                type(a) is type(b) is int
            ):
                return ast.Constant(a + b if isinstance(op, ast.Add) else a - b)
        return node


def _fair(before: str, after: str) -> bool:
    """Return whether a change is one that can be found, and not at once."""
    right, _, wrong = change_of(before, after).partition("  ->  ")
    if before == after or " ; " in right or _ANY_NUMBER.search(right):
        return False
    return not _SEEN_AT_ONCE.search(wrong)


def _named(function: Callable[..., Any], name: str) -> str:
    source = without_docstring(inspect.getsource(function))
    return ast.unparse(ast.parse(re.sub(r"^def \w+", f"def {name}", source)))


def silent(exercise: Exercise, text: str) -> str:
    """Return what ``check`` says of a changed function, or nothing: it is right, or it is loud."""
    space = dict(exercise.reference.__globals__)
    exec(compile(text, "<hunt>", "exec"), space)
    changed, raised = space[exercise.name], []

    def watched(*args: Any) -> Any:
        try:
            return changed(*args)
        except BaseException as error:  # a time limit, too
            raised.append(error)
            raise

    wrong = dict.fromkeys(exercise.wrong, "")  # what it looks like is not told
    outcome = judge(replace(exercise, wrong=wrong, seconds=SECONDS), watched)
    lines = [line for line in outcome.message.splitlines() if not line.startswith(_ADVICE)]
    said = "\n".join(lines)
    loud = outcome.mark != "✗" or raised or _NO_ANSWER.search(said)
    return "" if loud else said


def sheet(found: list[Hunt]) -> str:
    """Return the page for students, in Markdown."""
    parts = [
        "# Bug hunts\n\nName: ______________________________ Date: ____________\n\n"
        "Each function is right but for one place, which a program has changed. None raises an "
        "error. Its comments are gone, and a program has formatted it. Below each stands what was "
        "seen of it. Find the line, say why that gives what was seen, name a comparison of two "
        "things that must be equal and are not, and mend it."
    ]
    parts += [
        f"## {number} · {each.title}\n\n```python\n{each.source}\n```\n\nSeen:\n\n"
        f"```\n{each.seen}\n```\n\n{_ROOM}"
        for number, each in enumerate(found, 1)
    ]
    return "\n\n".join(parts).rstrip() + "\n"


def key(found: list[Hunt], seed: int | str) -> str:
    """Return the page for the teacher, in Markdown."""
    lines = [f"# Bug hunts: the key of the seed {seed}\n\nAny mend that `check` accepts is right."]
    for number, each in enumerate(found, 1):
        right, _, wrong = (each.change + " ").partition("  ->  ")
        right, wrong = (part.strip() or "(nothing)" for part in (right, wrong))
        head = f"## {number} · {each.exercise} {each.title}"
        lines.append(f"{head}\n\nOn the sheet:\n\n```python\n{wrong}\n```")
        lines.append(f"Right:\n\n```python\n{right}\n```\n\nSeen:\n\n```\n{each.seen}\n```")
    return "\n\n".join(lines) + "\n"


def write(out: Path, seed: int | str, n: int = 3) -> list[Path]:
    """Write ``hunts.md`` and ``key.md`` into a folder; return their paths."""
    found = hunts(seed, n)
    out.mkdir(parents=True, exist_ok=True)
    pages = {out / "hunts.md": sheet(found), out / "key.md": key(found, seed)}
    for path, text in pages.items():
        write_whole(path, text)
    return [*pages]


def main(seed: str, n: str) -> None:
    """Draw hunts in this process, within bounds, and print them as JSON."""
    import resource

    with contextlib.suppress(OSError, ValueError):  # macOS can't
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with contextlib.redirect_stdout(sys.stderr):
        found = [asdict(each) for each in draw(seed, int(n))]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Which sentences of a lesson claim something, and what checks them.

    python tests/oracles/claims.py 06

prints those that nothing checks yet, as lines for ``tests/claims/06.py``. What only defines,
instructs, cites, proves, or is worked out on paper goes to ``tests/lessons/stated/06.txt`` instead,
a line each: ``definition: The sentence.``

A sentence *claims* if it has a number (a digit, or a word from *two* on), a comparison or a
superlative (*than*, *less*, *best*, *fastest*, *never*, *every*, *none*, *twice*, ...), or a cause
(*because*, *so*, *therefore*). Headings, questions, exercises, aims, papers and links to other
lessons do not count, nor does what stands in code or in a table.

A section of ``tests/claims/06.py``, ``# %% after by-hand-answer``, checks what is said up to a
cell. When pytest runs the lesson, it is run behind that cell, in the lesson's kernel
(``conftest.py`` at the root). It sees the lesson's names and what earlier sections have made; the
lesson sees nothing of it: what is tested is the lesson that a student runs.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lablib.teach.editions import part_of, read_notebook

TESTS = Path(__file__).parents[1]
FOLDER = TESTS.parent / "notebooks"
CLAIMS = TESTS / "claims"
STATED = TESTS / "lessons" / "stated"
# Lessons whose sentences are not yet beside their checks. It only shrinks.
NOT_YET: set[str] = set()
_MADE: dict[str, Any] = {}  # what sections see, in a lesson's kernel
REASONS = {"definition", "instruction", "citation", "proof", "by-hand"}

NUMBER = (
    r"\d|\b(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|sixteen|twenty|thirty|forty"
    r"|fifty|sixty|seventy|eighty|ninety|dozen|hundred|thousand|million|half|third|quarter)s?\b"
)
COMPARISON = (
    r"\b(than|more|less|fewer|better|worse|faster|slower|larger|smaller|higher|lower|longer|shorter"
    r"|sooner|later|earlier|wider|narrower|cheaper|dearer|surer|stronger|weaker|closer|further"
    r"|most|least|best|worst|never|always|every|none|nobody|nothing|twice|double|equal|same"
    r"|(fast|slow|larg|small|high|low|long|short|earli|wid|narrow|cheap|dear|strong|weak|clos"
    r"|great|hard|eas|simpl|few|lik|near)(i|el|li)?est)\b"
)
CAUSE = r"\b(because|therefore|hence|thus)\b|(^|[,;:] )so\b(?! that)"
CLAIM = re.compile(f"{NUMBER}|{COMPARISON}|{CAUSE}", re.IGNORECASE)

SKIPPED = re.compile(
    r"#|\||<|\*\*(You will be able to|Time|Further reading|Previous lesson|Next)|\[?\d\d[a-z]? · "
)
SECTION = re.compile(r"# %% after (\S+)")
PAPER = re.compile(r".*\]\(https?://\S+\)")
ENDS = r"(?:(?<!al\.)(?<=[.!?])|(?<=[.!?][\"”)*_])|(?<=[.!?][\"”)*_]{2}))"
END = re.compile(ENDS + r"\s+(?=[\"“(*_`\[]*[A-ZΑ-Ωα-ω0-9√σ])")


@dataclass(frozen=True)
class Sentence:
    """A sentence, plain, and the number of the cell that it stands in."""

    text: str
    cell: int

    @property
    def claims(self) -> bool:
        """Return whether it claims something (see the module's first lines)."""
        return not self.text.endswith("?") and bool(CLAIM.search(self.text))


@dataclass(frozen=True)
class Check:
    """A ``claim(sentence, holds, clock=...)``, and the number of the cell that it follows."""

    text: str
    cell: int
    conditions: list[ast.expr]


def plain(text: str) -> str:
    """Return a text without Markdown's marks, and with single blanks."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(?<!\w)[*_]+|[*_]+(?!\w)|`|\*\*", "", text)
    return " ".join(text.split())


def sentences(notebook: Any) -> list[Sentence]:
    """Return the sentences of a lesson's own text, in order."""
    found = []
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "markdown" and not any(part_of(cell)):
            for paragraph in _paragraphs(cell["source"]):
                parts = filter(None, map(plain, END.split(paragraph)))
                found += [Sentence(part, number) for part in parts]
    return found


def _paragraphs(source: str) -> Iterator[str]:
    """Yield paragraphs and items of lists, each on one line; aims, papers and links left out."""
    source = re.sub(r"^```.*?^```$", "", source, flags=re.M | re.S)
    source = re.sub(r"^( *)([-*]|\d+\.) (?=\S)", r"\n", source, flags=re.M)
    aims = False
    for paragraph in re.split(r"\n\s*\n|\n(?=#)|(?<=\S)\n(?=\*\*[A-Z])", source):
        first = paragraph.strip()
        aims = first.startswith("**You will be able to") or (aims and not first.startswith("**"))
        cited = PAPER.match(first) and "arxiv.org" in first and first.startswith("*")
        if first and not aims and not cited and not SKIPPED.match(first):
            yield " ".join(first.split())


def checks(notebook: Any, made: dict[str, str]) -> list[Check]:
    """Return every ``claim`` of a lesson's sections, in order of the cells that they follow."""
    found = []
    for number, cell in enumerate(notebook["cells"]):
        for node in ast.walk(ast.parse(made.get(cell["id"], ""))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "claim":
                conditions = [*node.args[1:], *(each.value for each in node.keywords)]
                found.append(Check(plain(ast.literal_eval(node.args[0])), number, conditions))
    return found


def sections(lesson: str) -> dict[str, str]:
    """Return the code of a lesson's sections, by the cell that each follows.

    Each stands on its own lines of the file, blank ones before it, behind the file's first lines:
    what it imports.
    """
    path = CLAIMS / f"{lesson}.py"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    begins = [n for n, line in enumerate(lines) if SECTION.fullmatch(line)]
    found: dict[str, str] = {}
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        cell = SECTION.fullmatch(lines[begin])[1]
        if cell in found:
            raise ValueError(f"{path.name} must have one section after {cell!r}, got two")
        blank = [""] * (begin - begins[0])
        found[cell] = "\n".join([*lines[: begins[0]], *blank, *lines[begin:end]])
    return found


def call(lesson: str, after: str) -> str:
    """Return the code that has a lesson's kernel run a section, and leaves no name there."""
    path = f"__import__('sys').path.append({str(TESTS)!r})"
    module = "__import__('importlib').import_module('oracles.claims')"
    return f"{path}\n{module}.run({lesson!r}, {after!r}, globals())"


def run(lesson: str, after: str, names: dict[str, Any]) -> None:
    """Run a section of a lesson's claims: a kernel is asked to.

    Args:
        lesson: its number.
        after: the id of the cell that the section follows.
        names: the lesson's, which stay as they are.
    """
    _MADE.update(names, claim=claim)
    code = compile(sections(lesson)[after], str(CLAIMS / f"{lesson}.py"), "exec")
    exec(code, _MADE)


def claim(sentence: str, holds: object = True, clock: object = True) -> None:
    """Raise if what a sentence of the lesson says does not hold; otherwise say nothing.

    Args:
        sentence: as it stands in the text above.
        holds: True or False, NumPy's too. Anything else is refused: a NaN, say, counts as true.
        clock: the same of what was timed. It is asked only where ``tests/claims`` are run by name,
            as before recording: beside other work a near race ends either way.

    Raises:
        AssertionError: it does not hold.
        TypeError: ``holds`` or ``clock`` is no truth value.
    """
    for each in (holds, clock):
        if type(each).__name__ not in ("bool", "bool_"):
            raise TypeError(f"holds and clock must be True or False, got {each!r}")
    if not (holds and (clock or "LABLIB_CLOCKS" not in os.environ)):
        raise AssertionError(f"this does not hold here: {sentence}")


def stated(lesson: str) -> dict[str, str]:
    """Return the sentences that claim nothing of a lesson's outputs, each with the reason."""
    path = STATED / f"{lesson}.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {plain(text): reason for reason, text in (line.split(": ", 1) for line in lines if line)}


def complaints(notebook: Any, made: dict[str, str], said: dict[str, str]) -> list[str]:
    """Return what is wrong with a lesson's claims, a line each.

    Args:
        notebook: the lesson.
        made: its sections, by the cell that each follows.
        said: sentences that need no check, each with the reason.
    """
    own, claimed = sentences(notebook), checks(notebook, made)
    texts, checked = {each.text: each.cell for each in own}, {each.text for each in claimed}
    found = [f"nothing checks: {each.text}" for each in open_claims(own, checked | {*said})]
    cells = {cell["id"] for cell in notebook["cells"]}
    found += [f"no such cell: {cell}" for cell in made if cell not in cells]
    for check in claimed:
        if check.text not in texts:
            found.append(f"no such sentence: {check.text}")
        elif check.cell < texts[check.text]:
            found.append(f"checked before it is said: {check.text}")
        if not any(isinstance(node, ast.Name) for c in check.conditions for node in ast.walk(c)):
            found.append(f"its check looks at nothing: {check.text}")
    for text, reason in said.items():
        if text not in texts:
            found.append(f"stated, but no such sentence: {text}")
        if text in checked:
            found.append(f"stated, and checked as well: {text}")
        if reason not in REASONS:
            found.append(f"{reason!r} is no reason for: {text}")
    return found


def open_claims(own: list[Sentence], known: set[str]) -> list[Sentence]:
    """Return the sentences that claim something and are not known."""
    return [each for each in own if each.claims and each.text not in known]


def lesson_path(lesson: str) -> Path:
    """Return where a lesson's notebook lies."""
    return next(FOLDER.glob(f"{lesson}_*.ipynb"))


def main(lesson: str) -> None:
    """Print what is wrong, then the open claims by cell, to be pasted."""
    notebook = read_notebook(lesson_path(lesson))
    made, said = sections(lesson), stated(lesson)
    for line in complaints(notebook, made, said):
        if not line.startswith("nothing checks"):
            print(line)
    known = {each.text for each in checks(notebook, made)} | {*said}
    cell = -1
    for each in open_claims(sentences(notebook), known):
        if each.cell != cell:
            cell = each.cell
            print(f"\n# %% after {notebook['cells'][cell]['id']}")
        text = each.text.replace('"', '\\"')
        print(f'claim("{text}", )')


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Measures what is written by hand here, wherever it lies, and holds it against ``sizes.md``.

    python tests/sizes.py            # what is over its bound, or so far below that it must fall
    python tests/sizes.py --lower    # and writes the lower bounds

A *line* is one of a program, a style sheet or a setting, or of a notebook's code; a *word* is one
of a text: a Markdown file or a notebook's text. Stored checkpoints, recordings, pictures and
what a script of this repository has made are neither. The way of a token, its *files*, *calls* and
*changes* of file, is what ``structure.py`` says it is.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import structure

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("sizes.md")
CODE = {".py", ".pyi", ".c", ".js", ".mjs", ".css", ".html", ".toml", ".yml", ".yaml", ".cfg"}
CODE |= {".sh", ".cff", ".in", ""}
TEXTS = {".md", ".txt"}
# Checkpoints with what training wrote beside them, what a script measured, licences, a public text.
STORED = re.compile(
    r"/checkpoints/|architectures\.md|LICENSE|real/text\.txt|\.typed$|\.gitignore|sizes\.md"
)
NESTED = {
    "lablib/inference",
    "lablib/course",
    "lablib/tools",
    "tests/teach",
}  # folders whose folders are rooms
SLACK = 0.01  # how far below its bound a room may be before the bound has to fall


@dataclass(frozen=True)
class Bound:
    """A room or a measure of the table, its unit, and the most that it may have."""

    what: str
    unit: str
    most: int

    @property
    def least(self) -> int:
        """Return what it must have at least, for the bound to be close.

        Newer Pythons make fewer calls of the same code.
        """
        if self.unit in ("files", "calls", "changes"):
            return 0
        return self.most - max(20 if self.unit == "lines" else 0, round(SLACK * self.most))


def room_of(path: Path) -> str:
    """Return the folder that a file is counted in."""
    parts = path.parts[:-1]
    deep = 3 if "/".join(parts[:2]) in NESTED else 2
    return "/".join(parts[:deep]) or path.name


def counted(path: Path) -> Counter[str]:
    """Return a file's lines of code and words of text."""
    if STORED.search(path.as_posix()):
        return Counter()
    text = (ROOT / path).read_text(encoding="utf-8") if path.suffix in CODE | TEXTS else ""
    if path.suffix == ".ipynb":
        notebook = json.loads((ROOT / path).read_text(encoding="utf-8"))
        found: Counter[str] = Counter()
        for cell in notebook["cells"]:
            source = "".join(cell["source"])
            is_code = cell["cell_type"] == "code"
            found["lines" if is_code else "words"] += (
                source.count("\n") + 1 if is_code else len(source.split())
            )
        return found
    return (
        Counter(words=len(text.split()))
        if path.suffix in TEXTS
        else Counter(lines=text.count("\n"))
    )


def words_to_read(text: str) -> int:
    """Return the words of a page beside its tables, its code and its addresses."""
    text = re.sub(r"^```.*?^```$", " ", text, flags=re.M | re.S)
    text = re.sub(r"^\|.*$|\]\([^)]*\)|<[^>]*>", " ", text, flags=re.M)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def sizes() -> dict[tuple[str, str], int]:
    """Return (room or measure, unit) -> size, of what git knows here."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: Counter[tuple[str, str]] = Counter()
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            for unit, size in counted(Path(name)).items():
                found[room_of(Path(name)), unit] += size
    for unit in ("lines", "words"):
        found["all", unit] = sum(size for (_, each), size in found.items() if each == unit)
    found["Python", "lines"] = _lines_of_python(listed.stdout)
    found["README, beside tables and code", "words"] = words_to_read(
        (ROOT / "README.md").read_text()
    )
    density = structure.Package(ROOT).density()["engine"]
    found["engine", "tokens"] = density.tokens
    run = structure.run()
    for name, walk in run["walks"].items():
        found[f"{name}, twelve tokens", "files"] = walk["files"]
        found[f"{name}, twelve tokens", "changes"] = walk["changes of file"]
    for name, way in run["ways"].items():
        found[f"one token more, {name}", "files"] = way["files"]
        found[f"one token more, {name}", "calls"] = way["calls"]
    return {key: size for key, size in sorted(found.items()) if size}


def _lines_of_python(names: str) -> int:
    paths = [ROOT / name for name in names.split("\0") if name.endswith(".py")]
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths if path.is_file())


ROW = re.compile(r"^\| ([^|]+?) \| (\w+) \| ([\d,]+) \|$", re.M)
BROUGHT = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \| (\w+) \| ([\d,]+) \| ([^|]+?) \|$", re.M)


def bounds(table: str) -> list[Bound]:
    """Return the bounds of the table; what an issue brought to a room stands on top of its own."""
    brought: Counter[tuple[str, str]] = Counter()
    for room, _, unit, size, _ in BROUGHT.findall(table):
        for what in {room, "all"}:
            brought[what, unit] += _number(size)
    return [
        Bound(what, unit, _number(most) + brought[what, unit])
        for what, unit, most in ROW.findall(table)
    ]


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def complaints(table: str, measured: dict[tuple[str, str], int]) -> list[str]:
    """Return what is wrong between the table and what is there, a line each."""
    known = bounds(table)
    found = [
        f"{what} has {size:,} {unit} and no bound"
        for (what, unit), size in measured.items()
        if (what, unit) not in {(each.what, each.unit) for each in known}
    ]
    for bound in known:
        size = measured.get((bound.what, bound.unit), 0)
        if size > bound.most:
            found.append(f"{bound.what} has {size:,} {bound.unit}, {bound.most:,} at most")
        elif size < bound.least:
            found.append(
                f"{bound.what} has {size:,} {bound.unit}: its bound of {bound.most:,} falls "
                "(python tests/sizes.py --lower)"
            )
    return found


def lowered(table: str, measured: dict[tuple[str, str], int]) -> str:
    """Return the table with each bound no higher than what is there; what is gone goes."""
    most = {(bound.what, bound.unit): bound.most for bound in bounds(table)}

    def row(match: re.Match[str]) -> str:
        what, unit, own = match[1], match[2], _number(match[3])
        size = measured.get((what, unit), 0)
        fallen = max(0, own - max(0, most[what, unit] - size))  # what was brought stays
        return f"| {what} | {unit} | {fallen:,} |" if size else ""

    return re.sub(r"(^\|.*\|\n)\n+(?=\|)", r"\1", ROW.sub(row, table), flags=re.M)


def main(*options: str) -> None:
    """Print the complaints; with ``--lower`` write the lower bounds first."""
    measured = sizes()
    table = TABLE.read_text(encoding="utf-8")
    if "--lower" in options:
        table = lowered(table, measured)
        TABLE.write_text(table, encoding="utf-8")
    print(*complaints(table, measured), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Reading and writing the stored evaluation; light enough for a lesson's first cell."""

import json
from pathlib import Path
from typing import Any

from lablib.models import zoo
from lablib.validation import BadValue

RESULTS = "evaluation.json"
SUMS = "evaluation_sums.json"
REPORT = "evaluation.md"


def stored(folder: str | Path | None = None) -> dict[str, Any]:
    """Return the evaluation that came with the checkpoints, or the one in ``folder``.

    Returns:
        ``about`` (plan, machine, versions), ``context``, ``quality`` (model → task → rows, one for
        each temperature), ``examples`` (rows of ``task``, ``temperature`` and ``texts``: a few
        stories by the target), ``sums`` (``curves``: strategy → rows, one for each N; ``process``:
        strategy → exact accuracy at each N of ``counts``; ``adaptive``; ``by_temperature``),
        ``speculation`` (``overlap``, ``overlap_by_class``, ``greedy``, ``ngram_tokens_per_call``,
        ``target_seconds``: T(1), T(2), …; ``draft_seconds``; ``speedup``), ``past_the_end`` (rows,
        one for each temperature; see ``past_the_end.past_the_end``) and ``checks``.

    Raises:
        BadValue: there is none.
    """
    return _read(folder, RESULTS)


def stored_sums(folder: str | Path | None = None) -> list[dict[str, Any]]:
    """Return the *sums* samples behind the voting curves, one record a problem.

    Returns:
        Problem j is ``tasks.sums.problems(seed, n)[j]`` with the plan's seed; see ``votes.judge``
        for what a record holds and ``votes.sampled`` for turning it into curves.

    Raises:
        BadValue: there are none.
    """
    return _read(folder, SUMS)["records"]


def at(rows: list[dict[str, Any]], **keys: Any) -> dict[str, Any]:
    """Return the one row with these values."""
    (row,) = [row for row in rows if all(row[key] == value for key, value in keys.items())]
    return row


def rounded(value: Any) -> Any:
    """Return ``value`` with numbers of five digits and lists for tuples, as JSON gives it back."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return value


def text(content: dict[str, Any]) -> str:
    """Return ``content`` as JSON of short lines, its numbers rounded to five digits."""
    return _lines(rounded(content)) + "\n"


def replace(texts: dict[Path, str]) -> None:
    """Write a set of files: all of them beside the old ones first, then each in an old one's place.

    An interrupt or an error in the writing leaves the old set whole.
    """
    beside = {path: path.with_name(f"writing-{path.name}") for path in texts}
    try:
        for path, content in texts.items():
            beside[path].write_text(content, encoding="utf-8")
        for path in texts:
            beside[path].replace(path)
    finally:
        for path in beside.values():
            path.unlink(missing_ok=True)


def _read(folder: str | Path | None, name: str) -> dict[str, Any]:
    path = Path(folder if folder is not None else zoo.CHECKPOINTS) / name
    if not path.is_file():
        raise BadValue(f"{path} is missing: run `python -m lablib evaluate` to make it")
    return json.loads(path.read_text(encoding="utf-8"))


def _lines(value: Any, indent: int = 0) -> str:
    """Return JSON that breaks lines outside and keeps short things together."""
    flat = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    children = value.values() if isinstance(value, dict) else value
    nested = isinstance(value, dict | list) and any(isinstance(c, dict | list) for c in children)
    if not nested or len(flat) + indent <= 100:
        return flat
    parts = [_lines(child, indent + 1) for child in children]
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {part}" for key, part in zip(value, parts, strict=True)]
    inner = ",\n".join(" " * (indent + 1) + part for part in parts)
    return f"{flat[0]}\n{inner}\n{' ' * indent}{flat[-1]}"

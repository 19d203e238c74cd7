"""Asks SmolLM2 what the lessons ask it, and stores what it says.

``python tests/oracles/smollm2.py`` runs the imports of each lesson and its cell ``on_smollm2``.
``python -m lablib fetch`` comes first.
"""

import json
import sys
from pathlib import Path

import lablib
from lablib.course.lessons import smollm2
from lablib.teach.editions import read_notebook

import mlx.core as mx

sys.path.insert(0, str(Path(__file__).parents[1]))
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CELL = "on-smollm2-run"


def cells():
    """Yield each lesson's number, its imports and its question to the model."""
    for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")):
        found = {cell["id"]: cell["source"] for cell in read_notebook(path)["cells"]}
        if CELL in found:
            imports = next(text for text in found.values() if "# @title Imports" in text)
            yield path.name.partition("_")[0], imports, found[CELL]


def lines_of(imports, source, model, tokenizer):
    """Return the lines that a lesson's question yields."""
    got = []
    space = {}
    exec(imports, space)
    space["on_smollm2"] = lambda lesson, ask: got.extend(ask(model, tokenizer))
    exec(source, space)
    return got


def main():
    model, tokenizer = lablib.load("smollm2", dtype=mx.float32)
    said = {lesson: lines_of(*both, model, tokenizer) for lesson, *both in cells()}
    text = json.dumps(said, indent=1, ensure_ascii=False) + "\n"
    smollm2.STORED.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

"""The lab in a page: the real models, run by the reader's browser (``engine/``, ``page/``).

A page that was opened from a disk may load scripts, and nothing else: Chromium gives it no module,
no ``fetch``, no pixel of a picture. So the modules of ``engine`` become one classic script, which
the page hands to a worker as a Blob, and the weights are scripts, too: printable text in parts, so
that a download that was stopped goes on where it was. Nothing is rounded: a float16 of the shipped
checkpoint is the same number in the page. How it is packed says ``engine/weights.mjs``; a byte of
the result costs 1.25 bytes of printable text, of base64 1.33, and all is ASCII, since a server may
announce any encoding. Deflating first (the exponents repeat) more than pays for that.
"""

import html
import json
import math
import re
import shutil
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lablib.course.checks.exercises import exercises
from lablib.course.tasks import edits
from lablib.models import zoo
from lablib.tools.site.tasks import tasks
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np

HERE = Path(__file__).parent
ENGINE, PAGE = HERE / "engine", HERE / "page"
MODULES = (
    "random",
    "tokenizer",
    "product",
    "weights",
    "model",
    "transforms",
    "rules",
    "rounds",
    "vote",
)
VIEWS = (
    "worker",
    "models",
    "state",
    "python",
    "parts",
    "writing",
    "drafting",
    "voting",
    "judging",
    "trying",
    "main",
)
LIVE = (  # of a lesson's page
    "worker",
    "models",
    "parts",
    "marks",
    "counting",
    "expecting",
    "weaving",
    "tossing",
    "pictures",
    "live",
)
NAMES = "target", "draft"
HEAD = "target-head"  # brought when a reader lets it draft
FOLDER = "_static/play"
PART = 900_000  # letters of a script of weights
DESCRIPTION = (
    "Two real language models run in this page: watch a story come token by token, a small model "
    "draft for a large one, and 64 chains of a sum vote. Nothing is installed, and nothing sent."
)
_SOURCE = """---
hide-toc: true
myst:
  html_meta:
    description: "{description}"
    "property=og:title": "The lab in a page"
    "property=og:description": "{description}"
    "property=og:type": website
---

# Play with the models

```{{raw}} html
{text}
```
"""
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_IMPORT = re.compile(r"^import [^;]*;\n", re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|class|function\*?)\s+(\w+))", re.M)


def pack(name: str) -> tuple[dict[str, Any], str]:
    """Return a shipped model or head for the page: what ``unpack`` of ``weights.mjs`` takes.

    Returns:
        ``config``, with the rotations' ``speeds``, and of a head the name of its ``target``;
        ``tensors``, pairs of a name and a shape; ``bytes``, how many the text holds before its
        padding. And the text, in Z85.
    """
    folder = zoo.CHECKPOINTS / name
    arrays = mx.load(str(folder / "model.safetensors"))
    config = json.loads((folder / "config.json").read_text("utf-8"))
    if "target" in config:  # a head: a block as its target's, but for its inner width
        path = zoo.CHECKPOINTS / config["target"] / "config.json"
        config = {**json.loads(path.read_text("utf-8")), **config, "num_hidden_layers": 1}
        ids = arrays.pop("ids").tolist()
        if ids != list(range(config["vocab_size"])):
            raise BadValue(f"{name} must draft every token of its target, got {len(ids)} ids")
    # How fast pairs rotate: at position 1,000 the last digit of MLX's exp is seen in the logits.
    half = config["head_dim"] // 2
    slower = -math.log(config["rope_theta"]) / half
    config["speeds"] = mx.exp(mx.arange(half) * slower).tolist()
    tensors = {key: np.array(arrays[key]) for key in sorted(arrays)}
    for key, tensor in tensors.items():
        if tensor.dtype != np.float16:
            raise BadValue(f"{name} must be stored in float16, got {tensor.dtype} of {key}")
    numbers = np.concatenate([tensor.ravel() for tensor in tensors.values()]).astype("<f2")
    low_high = numbers.view(np.uint8).reshape(-1, 2)
    planes = low_high[:, ::-1].T.tobytes()
    # The high bytes repeat, but no sequence of them does: Huffman's code alone packs them best.
    packer = zlib.compressobj(9, strategy=zlib.Z_HUFFMAN_ONLY)
    packed = packer.compress(planes) + packer.flush()
    shapes = [[key, tensor.shape] for key, tensor in tensors.items()]
    told = {"config": config, "tensors": shapes, "bytes": len(packed)}
    return told, z85(packed)


def z85(data: bytes) -> str:
    """Return bytes as text, five letters for four bytes; zeros fill up the last four."""
    padded = data + bytes(-len(data) % 4)
    fours = np.frombuffer(padded, ">u4").astype(np.uint32)
    digits = fours[:, None] // 85 ** np.arange(4, -1, -1, dtype=np.uint32) % 85
    letters = np.frombuffer(_LETTERS.encode(), np.uint8)
    return letters[digits].tobytes().decode()


def tokenizer() -> dict[str, Any]:
    """Return the tokenizer of the models, as ``tokenizer.mjs`` takes it."""
    told = json.loads((zoo.CHECKPOINTS / "target" / "tokenizer.json").read_text("utf-8"))
    vocabulary = told["model"]["vocab"]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in told["model"]["merges"]]
    special = [token["id"] for token in told["added_tokens"]]
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    return {"tokens": tokens, "merges": merges, "special": special}


def engine() -> str:
    """Return the modules of the engine as one classic script: a function that returns their names.

    A module imports names of the modules before it, in statements of their own, and exports
    declarations: without these words, one after the other, they mean the same.
    """
    body, names = _joined(ENGINE, MODULES)
    return f'function lablibEngine() {{\n"use strict";\n{body}\nreturn {{{names}}};\n}}\n'


def _joined(folder: Path, modules: Sequence[str]) -> tuple[str, str]:
    """Return modules as one text, and the names that they export."""
    parts, names = [], []
    for module in modules:
        text = (folder / f"{module}.mjs").read_text("utf-8")
        names += _EXPORT.findall(text)
        parts.append(_EXPORT.sub("", _IMPORT.sub("", text)))
    return "\n".join(parts), ", ".join(names)


def write(folder: Path) -> None:
    """Write the scripts of page and lessons, the page's style and the weights; make the folder."""
    folder.mkdir(parents=True)
    shutil.copy(PAGE / "play.css", folder)
    models = [_write_model(folder, name) for name in NAMES]
    head = _write_model(folder, HEAD)
    given = json.dumps(tasks(), separators=(",", ":"))
    (folder / "tasks.js").write_text(f"lablibTasks({given});\n", "utf-8")
    page = _program(VIEWS, [*models, head], tasks=f"{FOLDER}/tasks.js")
    (folder / "play.js").write_text(page, "utf-8")
    (folder / "live.js").write_text(_program(LIVE, models), "utf-8")


def _write_model(folder: Path, name: str) -> dict[str, Any]:
    """Write a model's weights as scripts; return what the page has to know of it."""
    told, text = pack(name)
    parts = [text[at : at + PART] for at in range(0, len(text), PART)]
    for number, part in enumerate(parts):
        script = f'lablibPart("{name}", {number}, "{part}");\n'
        (folder / f"{name}-{number}.js").write_text(script, "ascii")
    addresses = [f"{FOLDER}/{name}-{number}.js" for number in range(len(parts))]
    return {"name": name, "told": told, "parts": addresses, "letters": len(text)}


def _program(views: Sequence[str], models: Sequence[dict[str, Any]], **more: Any) -> str:
    """Return a classic script: the engine, and the views, which ``begin`` with what they are told.

    Args:
        views: modules of the page.
        models: those that it may bring.
        more: what else it is told.
    """
    told = {"models": models, "tokenizer": tokenizer(), **more}
    body, _ = _joined(PAGE, views)
    _, names = _joined(ENGINE, MODULES)
    start = f"begin({json.dumps(told, separators=(',', ':'))});"
    page = f"const {{{names}}} = lablibEngine();\n{body}\n{start}"
    return f'{engine()}(() => {{\n"use strict";\n{page}\n}})();\n'


def source() -> str:
    """Return the page for Sphinx: a title, and all else as HTML."""
    text = (PAGE / "play.html").read_text("utf-8")
    text = text.replace("{edit}", html.escape(edits.problems(1, 1)[0].prompt))
    text = text.replace("{count}", str(len(exercises())))
    return _SOURCE.format(description=DESCRIPTION, text=text)

"""The pages around the lessons: the first page, the reference, and pages that exist already."""

import html
import importlib
import inspect
import json
import re
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import lablib
from lablib.tools.site import play
from lablib.validation import BadValue

_TITLE = re.compile(r"^# (.+)$", re.M)
_TIME = re.compile(r"\*\*Time\*\* (\d+ minutes)")
_SHOWN = "00_start_here"  # the lesson whose first explorer is on the first page
EXAMPLES = """\
import asyncio
import tempfile
from pathlib import Path

import lablib  # before mlx

import mlx.core as mx

model, tokenizer = lablib.load("target")  # or any mlx-lm directory or hub id
draft, _ = lablib.load("draft")
prompt = tokenizer.encode("sum 7 3 9 0 4 8:")
folder = Path(tempfile.mkdtemp())
"""  # what the examples of the reference begin with
_FIRST = "generate stream sample_n majority_vote best_of_n speculative_decode forecast AsyncMlxLM"
_INDEX = """# lablib

A lab for seeing how language models choose their words: by chance (sampling), by vote, and with a
small model that guesses ahead for a large one (speculative decoding). What its lessons claim is
checked by code, and many of their pictures move.

**Begin here:** [play with two models](play.md) in this browser, nothing is installed. Then read
[00 · Start here](00_start_here.ipynb), and the lessons in order.

{film}

The sliders on these pages move without anything installed. In Jupyter the same lessons run: change
the code, ask the models, and have what you write in the exercises checked. Each page has its
notebook to download.

## The lessons

| Lesson | Time |
|:--|:--|
{rows}

```{{toctree}}
:hidden:

play
```

```{{toctree}}
:caption: Lessons
:hidden:

{lessons}
```

```{{toctree}}
:caption: Beside them
:hidden:

{others}
```
"""


def checked(name: str, address: str, parts: int = 0) -> str:
    """Return an address without its last slash; refuse one with fewer ``parts`` after its host."""
    if address and not re.fullmatch(rf"https://[\w.-]+(/[\w.~-]+){{{parts},}}/?", address):
        raise BadValue(f"{name} must be an https address, got {address!r}")
    return address.rstrip("/")


class Links:
    """Links that open a lesson elsewhere.

    Args:
        repository: address of a public git repository, or nothing: then a lesson can be downloaded.
        branch: a branch of it.
    """

    def __init__(self, repository: str = "", branch: str = "main") -> None:
        self.repository = checked("repository", repository, 1).removesuffix(".git")
        self.branch = branch

    def launch(self, path: Path) -> str:
        """Return a line of links for a lesson, as HTML."""
        place = f"{quote(self.branch)}/notebooks/{quote(path.name)}"
        links, more = {f"_static/notebooks/{path.name}": "Download the notebook"}, ""
        if self.repository:
            where = f"git/{quote(self.repository, safe='')}"
            if (github := self.repository.removeprefix("https://github.com/")) != self.repository:
                colab = f"https://colab.research.google.com/github/{github}/blob/{place}"
                where, links[colab] = f"gh/{github}", "Colab"
                source = f"git+{self.repository}@{self.branch}"
                first = html.escape(f'%pip install -q "lablib[lab] @ {source}"', quote=False)
                more = f" (there run this first: <code>{first}</code>)"
            tree = f"urlpath=lab/tree/notebooks/{quote(path.name)}"
            links[f"https://mybinder.org/v2/{where}/{quote(self.branch, safe='')}?{tree}"] = (
                "Binder"
            )
        line = " · ".join(f'<a href="{html.escape(to)}">{text}</a>' for to, text in links.items())
        here = "Here all cells have run: move the sliders. To write in the cells:"
        return f'<p class="lablib-launch">{here} {line}{more}</p>'


def write(source: Path, lessons: Sequence[Path], notebooks: Path) -> None:
    """Write all pages but the lessons into Sphinx's source folder, where these are already.

    Args:
        source: that folder.
        lessons: the notebooks of the site, in order.
        notebooks: the folder of the course, with its glossary and the teacher's guide.
    """
    others = ["GLOSSARY", "TEACHING", "reference", "inference"]
    glossary = (notebooks / "GLOSSARY.md").read_text("utf-8")
    (source / "GLOSSARY.md").write_text(re.sub(r"^### ", "## ", glossary, flags=re.M), "utf-8")
    shutil.copy(notebooks / "TEACHING.md", source)
    tables = {
        "evaluation": Path(lablib.__file__).parent / "models/checkpoints/evaluation.md",
        "architectures": notebooks.parent / "tests/architectures.md",
    }
    for name, path in tables.items():
        if path.exists():  # tests come with a clone only
            shutil.copy(path, source / f"{name}.md")
            others.append(name)
    for path in sorted(notebooks.parent.glob("docs/*.md")):  # these, too
        shutil.copy(path, source)
        others.append(path.stem)
    _reference(source)
    (source / "play.md").write_text(play.source(), "utf-8")
    rows, film = [], ""
    for path in lessons:
        notebook = json.loads((source / path.name).read_text("utf-8"))
        text = notebook["cells"][0]["source"]
        title, minutes = _TITLE.search(text), _TIME.search(text)
        rows.append(f"| [{title[1]}]({path.name}) | {minutes[1] if minutes else ''} |")
        if path.stem == _SHOWN:
            film = _first_film(notebook)
    listed = {"lessons": "\n".join(path.stem for path in lessons), "others": "\n".join(others)}
    text = _INDEX.format(rows="\n".join(rows), film=film, **listed)
    (source / "index.md").write_text(text, "utf-8")
    _unlink(source, {path.name for path in lessons})


def _unlink(source: Path, lessons: set[str]) -> None:
    """Leave only the words of links to what this site has not: its pages lie side by side."""
    pages = {*lessons, *(file.name for file in source.glob("*.md"))}

    def words(link: re.Match) -> str:
        name = Path(link[2]).name
        return f"[{link[1]}]({name}{link[3]})" if name in pages else link[1]

    for file in source.iterdir():
        kinds = (
            r"(?:further/)?\d\d[a-z]?_\w+\.ipynb"
            if file.suffix == ".ipynb"
            else r"(?!https?:)[^()#\s]+"
        )
        link = rf"\[([^\[\]\n]*)\]\(({kinds})((?:#[\w-]*)?)\)"
        file.write_text(re.sub(link, words, file.read_text("utf-8")), "utf-8")


def _first_film(notebook: dict) -> str:
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            shown = output.get("data", {}).get("text/html", "")
            if 'class="lablib-film"' in shown:
                return shown
    return ""


def _reference(source: Path) -> None:
    """Write a page for the names of ``lablib``, and one for what ``lablib.inference`` adds."""
    inference = importlib.import_module("lablib.inference")
    more = [name for name in inference.__all__ if name not in lablib.__all__]
    both = [name for name in inference.__all__ if name in lablib.__all__]
    code = textwrap.indent(EXAMPLES, "   ")
    begin = f"The examples begin with\n\n.. code-block:: python\n\n{code}\n"
    (source / "reference.rst").write_text(
        "Reference: lablib\n=================\n\n"
        f"Look first at {_linked(_FIRST.split())}. {begin}{_names('lablib', lablib.__all__)}",
        "utf-8",
    )
    (source / "inference.rst").write_text(
        "Reference: lablib.inference\n===========================\n\n"
        f"Beside these it has, as ``lablib`` does, {_linked(both)}. {begin}"
        f"{_names('lablib.inference', more)}",
        "utf-8",
    )


def _linked(names: Sequence[str]) -> str:
    return ", ".join(f":py:obj:`lablib.{name}`" for name in names)


def _names(package: str, names: Sequence[str]) -> str:
    module = importlib.import_module(package)
    parts = []
    for name in sorted(names, key=str.lower):
        found = getattr(module, name)
        if inspect.ismodule(found):
            parts.append(f".. automodule:: {found.__name__}\n   :members:\n")
        elif inspect.isclass(found):
            parts.append(f".. autoclass:: {package}.{name}\n   :members:\n")
        else:
            parts.append(f".. autofunction:: {package}.{name}\n")
    return "\n".join(parts)

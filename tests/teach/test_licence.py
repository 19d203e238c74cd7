"""Who changes a lesson finds what is allowed, in a clone and in what is installed."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
URL = "https://creativecommons.org/licenses/by/4.0/"


def test_the_lessons_texts_have_a_licence_that_names_itself_and_whom_to_name():
    text = (ROOT / "notebooks" / "LICENSE").read_text()
    holder = (ROOT / "LICENSE").read_text().split("Copyright (c) 2026 ")[1].splitlines()[0]
    assert text.count(holder) == 3
    for said in ("CC BY 4.0", URL, "MIT", "link to the licence"):
        assert said in text
    for document in ("README.md", "notebooks/TEACHING.md"):
        (line,) = (row for row in (ROOT / document).read_text().splitlines() if "CC BY" in row)
        assert "notebooks/LICENSE" in line
        assert "MIT" in line


def test_it_is_packed_with_the_lessons_and_told_to_the_index():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert told["project"]["license"] == "MIT AND CC-BY-4.0"
    packed = told["tool"]["setuptools"]["package-data"]["lablib.notebooks"]
    for files in (told["project"]["license-files"], [f"notebooks/{name}" for name in packed]):
        found = {path.relative_to(ROOT).as_posix() for each in files for path in ROOT.glob(each)}
        assert "notebooks/LICENSE" in found

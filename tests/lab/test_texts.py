"""README and ``docs`` can be read aloud, and what all texts link to is there."""

import argparse
import re
from pathlib import Path

from lablib import __main__ as command_line

import pytest

ROOT = Path(__file__).parents[2]
DOCS = sorted(ROOT.glob("docs/**/*.md"))
PAGES = [ROOT / "README.md", *DOCS]
ALL = sorted(
    {*ROOT.glob("*.md"), *DOCS, *ROOT.glob("notebooks/*.md"), *ROOT.glob("tests/*.md")}
    | {*ROOT.glob("lablib/**/*.md")}
)
SAYS_COMMANDS = [*PAGES, *ROOT.glob("notebooks/*.md"), ROOT / "CONTRIBUTING.md"]
MOST = {"paragraph": 90, "sentence": 40, "cell": 25}
MOST_WORDS, MOST_TABLE_WORDS = 700, 350  # of the README
LINK = r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)"


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def read(text: str) -> tuple[list[str], list[str]]:
    """Return the paragraphs and the table cells of a page: no code, of links their words."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(LINK, r"\1", re.sub(r"!" + LINK, "", text))
    lines = text.splitlines()
    rows = [line for line in lines if line.startswith("|") and not re.fullmatch(r"[|:\- ]+", line)]
    cells = [cell.strip() for row in rows for cell in row.strip("| ").split(" | ")]
    rest = "\n".join("" if line.startswith("|") else line for line in lines)
    starts = r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=#)"  # of paragraphs, items, headings
    return [part.strip() for part in re.split(starts, rest) if part.strip()], cells


def words(text: str) -> int:
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def sentences(paragraph: str) -> list[str]:
    return re.split(r"(?<=[.!?])[\"')*`]*\s+(?=\S)", paragraph)


def too_long(text: str) -> list[str]:
    """Return what of a page is longer than may be."""
    paragraphs, cells = read(text)
    found = {
        "paragraph": paragraphs,
        "sentence": [each for paragraph in paragraphs for each in sentences(paragraph)],
        "cell": cells,
    }
    return [
        f"{words(each)} words in a {kind}: {each}"
        for kind, parts in found.items()
        for each in parts
        if words(each) > MOST[kind]
    ]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_paragraph_sentence_or_cell_is_long(page: Path) -> None:
    assert too_long(page.read_text("utf-8")) == []


def test_what_is_too_long_is_seen() -> None:
    few, many = "Word. " * 90, "word " * 41
    assert too_long(f"{few}\n\n- {few}\n\n```\n{many}\n```\n") == []
    assert too_long(f"{few}word.")[0].startswith("91 words in a paragraph")
    assert too_long(f"So [{many}](a.md), too.")[0].startswith("43 words in a sentence")
    (cell,) = too_long(f"| a | b |\n|---|---|\n| {'word ' * 26} | c |\n")
    assert cell.startswith("26 words in a cell")


def test_the_readme_is_read_in_five_minutes() -> None:
    paragraphs, cells = read((ROOT / "README.md").read_text("utf-8"))
    assert sum(map(words, paragraphs)) <= MOST_WORDS
    assert sum(map(words, cells)) <= MOST_TABLE_WORDS


def anchors(text: str) -> set[str]:
    """Return the places that a page's headings are, as GitHub and JupyterLab call them."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    bare = [re.sub(r"[^\w\- ]", "", re.sub(LINK, r"\1", head).lower()) for head in heads]
    return {head.strip().replace(" ", "-") for head in bare}


def lost(page: Path) -> list[str]:
    """Return a page's links that lead nowhere in this repository."""
    found = []
    for _, target in re.findall(LINK, page.read_text("utf-8")):
        path, _, place = target.partition("#")
        to = page.parent / path if path else page
        if re.match(r"https?:|mailto:", target):
            continue
        if not to.exists() or (place and place not in anchors(to.read_text("utf-8"))):
            found.append(target)
    return found


@pytest.mark.parametrize("page", ALL, ids=name)
def test_the_pages_links_lead_somewhere(page: Path) -> None:
    assert lost(page) == []


def test_a_lost_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# A, `b`\n[up](#a-b) [none](b.md) [here](a.md#c) [out](https://x.example)\n")
    assert lost(page) == ["b.md", "a.md#c"]


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [each.choices for each in parser._actions if isinstance(each.choices, dict)]
    return {name: command for choices in found for name, command in choices.items()}


def options(parser: argparse.ArgumentParser) -> set[str]:
    inner = [options(each) for each in subcommands(parser).values()]
    return {*parser._option_string_actions}.union(*inner)


@pytest.mark.parametrize("page", SAYS_COMMANDS, ids=name)
def test_the_commands_and_options_that_a_page_names_are_there(page: Path) -> None:
    text, known = page.read_text("utf-8"), subcommands(command_line._parser())
    assert {*re.findall(r"python -m lablib (\w+)", text)} <= {*known}
    for command, flag in re.findall(r"python -m lablib (\w+)[^`\n]* (--[\w-]+)", text):
        assert flag in options(known[command]), (command, flag)

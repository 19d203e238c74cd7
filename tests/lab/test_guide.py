"""The teacher's guide, the glossary and the links between lessons say what the code says."""

import pydoc
import re
from pathlib import Path

from lablib.course.checks.exercises import exercises, number_of
from lablib.teach.editions import part_of

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
LESSONS = {number_of(path.name): path for path in sorted(FOLDER.glob("[0-9]*.ipynb"))}
GUIDE = (FOLDER / "TEACHING.md").read_text()
GLOSSARY = (FOLDER / "GLOSSARY.md").read_text()
TERMS, SYNONYMS = GLOSSARY.split("## Said elsewhere")
ENTRIES = dict(re.findall(r"^### (.+)\n\n((?:.+\n?\n?)+?)(?=\n*###|\Z)", TERMS, re.M))
# What is no running text: code, formulas, tables, headings, and links but for their words.
NO_TEXT = r"```.*?```|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]+\$|^[#|].*?$|\[[^\]]*\]\([^)]*\)"


def cells(lesson: str) -> list[nbformat.NotebookNode]:
    return nbformat.read(LESSONS[lesson], as_version=4).cells


def texts(lesson: str) -> list[str]:
    """Return a lesson's explanations: its Markdown but for exercises."""
    own = [cell for cell in cells(lesson) if cell.cell_type == "markdown"]
    return [cell.source for cell in own if not any(part_of(cell))]


def title(lesson: str) -> str:
    return texts(lesson)[0].splitlines()[0].removeprefix("# ")


def link(lesson: str) -> str:
    return f"[{title(lesson)}]({LESSONS[lesson].name})"


# --- from lesson to lesson --------------------------------------------------------------------
@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_leads_back_and_on(lesson):
    last, place, order = texts(lesson)[-1], [*LESSONS].index(lesson), [*LESSONS]
    if place:
        assert f"**Previous lesson** {link(order[place - 1])}" in last
    assert "(GLOSSARY.md)" in last
    if place + 1 < len(order):
        assert f"**Next lesson** {link(order[place + 1])}" in last


# --- the glossary -----------------------------------------------------------------------------
def anchor(entry: str) -> str:
    """Return an entry's place in the page: the same in JupyterLab and on GitHub."""
    assert re.fullmatch(r"[a-z0-9 -]+", entry), entry
    return entry.replace(" ", "-")


def test_the_glossary_is_in_order_and_each_entry_is_short():
    assert len(ENTRIES) > 50
    assert [*ENTRIES] == sorted(ENTRIES)
    links = {*map(link, LESSONS)}
    for entry, text in ENTRIES.items():
        said, where = text.strip().split("\n\n")
        assert len(re.findall(r"[.?](?: |$)", said)) == 2, (entry, said)
        pattern = r"Lesson (\[.*?\]\(.*?\))(?: · `(.*)`)? · See (.*)"
        lesson, name, beside = re.fullmatch(pattern, where).groups()
        near = re.findall(r"\[(.*?)\]\(#(.*?)\)", beside)
        assert beside == ", ".join(f"[{term}](#{anchor(term)})" for term, _ in near), entry
        assert {term for term, _ in near} <= {*ENTRIES} - {entry}, entry
        assert 1 <= len(near) <= 3, entry
        assert lesson in links, entry
        assert name is None or pydoc.locate(name) is not None, name


def test_other_words_lead_to_an_entry_and_are_none():
    rows = re.findall(r"^\| (?!:)(.*) \| \[(.*)\]\(#(.*)\) \|$", SYNONYMS, re.M)
    assert len(rows) == SYNONYMS.count("\n| ") - 1 >= 25  # but for its head
    assert [words for words, *_ in rows] == sorted((w for w, *_ in rows), key=str.lower)
    for words, term, place in rows:
        assert term in ENTRIES
        assert place == anchor(term)
        assert not {word.strip().lower() for word in words.split(",")} & {*ENTRIES}
    served = ["latency", "throughput", "goodput", "capacity", "load", "eviction", "roofline"]
    served += ["time to first token", "time between tokens", "littles law", "continuous batching"]
    assert {*served, "chunked prefill", "mixture of experts"} <= {*ENTRIES}


def test_who_wrote_what_a_model_learned_is_called_an_author_everywhere():
    told = [text for lesson in LESSONS for text in texts(lesson)]
    told += [path.read_text() for path in FOLDER.glob("further/*.ipynb")]
    told += [path.read_text() for path in LESSONS.values()]
    assert not [text[:80] for text in told if "annotator" in text.lower()]
    assert "annotator" not in TERMS.lower()


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_links_a_term_where_it_first_stands(lesson):
    seen, before = set(), ""
    for text in texts(lesson)[1:]:
        rest = 0
        for found in re.finditer(r"\[([^\]]*)\]\(GLOSSARY\.md#([^)]*)\)", text):
            words, place = found.groups()
            before += plain(text[rest : found.start()])
            rest = found.end()
            assert place in map(anchor, ENTRIES), place
            assert place not in seen, f"{place} is linked twice"
            first = not re.search(rf"(?<![\w-]){re.escape(words)}(?![\w-])", before, re.I)
            assert first, f"{words!r} stands further up already"
            seen.add(place)
            before += f" {words} "
        before += plain(text[rest:])
    own = {anchor(entry) for entry, text in ENTRIES.items() if f"({LESSONS[lesson].name})" in text}
    assert own <= seen, f"never linked: {own - seen}"


def plain(text: str) -> str:
    """Return running text alone."""
    return re.sub(NO_TEXT, " ", text, flags=re.M | re.S)


# --- the teacher's guide ----------------------------------------------------------------------
@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    found = re.findall(r"^### (\[(\d\d\w?) .*)\n((?:.*\n?)*?)(?=^##|\Z)", GUIDE, re.M)
    told = {lesson for _, lesson, _ in found}
    assert [head for head, *_ in found] == [link(each) for each in LESSONS if each in told]
    assert told == {*LESSONS}, "notebooks/TEACHING.md needs a section"
    return {lesson: text for _, lesson, text in found}


def minutes(lesson: str) -> tuple[str, int]:
    """Return what the lesson says of its time, and the fewest minutes of it."""
    (said,) = re.findall(r"\*\*Time\*\* (.*?) ·", texts(lesson)[0])
    return said, int(re.findall(r"(\d+)(?= minutes| without)", said)[-1])


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_guide_tells_of_a_lesson_what_the_lesson_says(lesson, sections):
    text = sections[lesson]
    assert f"**Time.** {minutes(lesson)[0]}." in text
    pattern = r'\*\*A misconception worth unlearning\.\*\* (\*".*?"\*)'
    (wrong,) = re.findall(pattern, "\n".join(texts(lesson)))
    assert f"**The misconception.** {wrong}" in text
    assert all(f"**{part}.**" in text for part in ("Goal", "Discuss", "Skip"))
    assert len(re.findall(r"^- \*.*[?.:\"]\* \S", text, re.M)) >= 2


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_guides_exercises_and_mistakes_are_the_labs(lesson, sections):
    text = sections[lesson]
    rows = re.findall(r"^\| (\d\d\w?\.\d) (.*?) \| (.*?) \| (\d+) \| (.*?) ?\|$", text, re.M)
    ours = exercises(lesson)
    wanted = [(each.id, each.title, each.difficulty, str(each.minutes)) for each in ours]
    assert [row[:4] for row in rows] == wanted
    for row, exercise in zip(rows, ours, strict=True):
        known = {function.__name__ for function in exercise.wrong}
        assert {*re.findall(r"`(\w+)`", row[4])} <= known, row
    mentioned = {*re.findall(r"\b\d\d[a-z]?\.\d\b", text)}
    assert mentioned <= {each.id for other in LESSONS for each in exercises(other)}


def test_the_plans_minutes_add_up():
    first, *weeks = re.split(r"^## (?=\w+ weeks)", GUIDE, flags=re.M)
    class_ = first[first.index("## A first class: 90 minutes") :]
    assert sum(map(int, re.findall(r"^\| (\d+) \|", class_, re.M))) == 90
    assert len(weeks) == 3
    for plan in weeks:
        rows = re.findall(r"^\| (\d+) \| ((?:\d\d\w?)(?:, \d\d\w?)*) \| (\d+) \|", plan, re.M)
        assert [int(number) for number, *_ in rows] == [*range(1, len(rows) + 1)]
        for _, taught, said in rows:
            assert int(said) == sum(minutes(lesson)[1] for lesson in taught.split(", ")), taught
    assert {lesson for _, taught, _ in rows for lesson in taught.split(", ")} == {*LESSONS}

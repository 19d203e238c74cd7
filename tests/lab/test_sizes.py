"""What is written by hand stays as small as it was: the bounds of ``tests/sizes.md`` only fall."""

import pytest
import sizes

TABLE = """| what | unit | at most |
|---|---|--:|
| a | lines | 1,000 |
| b | words | 200 |
| all | lines | 1,000 |

| room | what | unit | size | what went for it |
|---|---|---|--:|---|
| a | a capability | lines | 100 | c, of 90 |
"""
WITHIN = {("a", "lines"): 1_095, ("b", "words"): 199, ("all", "lines"): 1_095}


def test_no_room_outgrows_its_bound_and_each_bound_fell_with_its_room():
    assert sizes.complaints(sizes.TABLE.read_text(encoding="utf-8"), sizes.sizes()) == []


def test_what_an_issue_brought_stands_on_top_of_a_rooms_own():
    assert [bound.most for bound in sizes.bounds(TABLE)] == [1_100, 200, 1_100]
    assert sizes.complaints(TABLE, WITHIN) == []


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({("a", "lines"): 1_101}, "a has 1,101 lines, 1,100 at most"),
        ({("a", "lines"): 1_078}, "its bound of 1,100 falls"),
        ({("b", "words"): 0}, "its bound of 200 falls"),
        ({("new", "lines"): 1}, "new has 1 lines and no bound"),
    ],
)
def test_a_room_that_grew_or_shrank_is_seen(changed, complaint):
    (found,) = sizes.complaints(TABLE, WITHIN | changed)
    assert complaint in found


def test_lowered_bounds_are_those_of_today_and_none_rises():
    today = {("a", "lines"): 1_050, ("all", "lines"): 2_000}
    table = sizes.lowered(TABLE, today)
    assert "| a | lines | 950 |" in table
    assert "| all | lines | 1,000 |" in table
    assert "| b |" not in table
    assert [found[:3] for found in sizes.complaints(table, today)] == ["all"]
    assert "| a | lines | 0 |" in sizes.lowered(TABLE, {("a", "lines"): 20})  # not less than none


def test_words_to_read_are_those_beside_tables_code_and_addresses():
    page = (
        "# A lab\n\n[One](x.md) – *two*.\n\n| not | this |\n\n```bash\nnor this\n```\nthree <br>\n"
    )
    assert sizes.words_to_read(page) == 5


def test_a_notebook_has_lines_and_words(tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "ROOT", tmp_path)
    cells = (
        '{"cell_type": "code", "source": ["a = 1\\n", "b"]}, '
        '{"cell_type": "markdown", "source": "## To *read*"}'
    )
    (tmp_path / "x.ipynb").write_text(f'{{"cells": [{cells}]}}')
    (tmp_path / "y.py").write_text("a\nb\n")
    assert sizes.counted(sizes.Path("x.ipynb")) == {"lines": 2, "words": 3}
    assert sizes.counted(sizes.Path("y.py")) == {"lines": 2}

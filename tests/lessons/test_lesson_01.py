"""Lesson 01: the pictures from logits to text show what they say."""

from lablib.course.lessons.lesson_01 import widgets

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import charted

WORDS = ["the", "cat", "dog", "sat", "ran", "."]
LOGITS = np.log([2, 16, 8, 3, 2, 1])


# ---------------------------------------------------------------- one draw
@pytest.mark.parametrize(
    ("u", "word"),
    [(0.0, "the"), (0.06, "the"), (0.07, "cat"), (0.56, "cat"), (0.57, "dog"), (0.99, ".")],
)
def test_a_dart_hits_the_piece_it_falls_in(u, word):
    data = widgets.Draw(WORDS, LOGITS).compute(u, 1.0)
    assert WORDS[data["token"]] == word
    assert data["probabilities"].sum() == pytest.approx(1)
    assert data["ends"].tolist() == pytest.approx([x / 32 for x in (2, 18, 26, 29, 31, 32)])


def test_an_edge_belongs_to_the_next_piece():
    draw = widgets.Draw(["a", "b"], [0.0, 0.0])
    assert draw.compute(0.5, 1.0)["token"] == 1
    assert draw.compute(0.49, 1.0)["token"] == 0


def test_temperature_divides_the_scores():
    draw = widgets.Draw(WORDS, LOGITS)
    cold, hot = (draw.compute(0.6, t)["probabilities"] for t in (0.5, 3.0))
    assert cold == pytest.approx(np.array([2, 16, 8, 3, 2, 1]) ** 2 / 338)
    assert hot.max() < 0.33
    assert np.argsort(hot, kind="stable").tolist() == np.argsort(cold, kind="stable").tolist()


def test_the_draw_names_its_token():
    draw = widgets.Draw(WORDS, LOGITS)
    assert draw.set(u=0.6) == (
        "u = 0.60 falls between 0.56 and 0.81, so the token is 'dog', whose probability is 0.25."
    )
    drawn = draw.draw(draw.compute(0.6, 1.0))
    assert drawn["u"] == 0.6
    assert drawn["pieces"] == pytest.approx([x / 32 for x in (2, 16, 8, 3, 2, 1)])
    assert drawn["notes"][1] == "cat: from 0.062 to 0.562, a piece of 0.500."
    assert "'.'" in draw.set(u=0.99)


# ---------------------------------------------------------------- the next token
class Parrot:
    """Expects each token to be followed by the next id, and says so with probability p."""

    def __init__(self, size, p):
        self.size, self.gap = size, float(np.log(p * (size - 1) / (1 - p)))

    def __call__(self, tokens, cache=None):
        follow = (tokens + 1) % self.size
        return self.gap * (mx.arange(self.size) == follow[..., None]).astype(mx.float32)


@pytest.fixture(scope="module")
def widget():
    pieces = [f" w{i}" for i in range(12)]
    texts_ = {"one text": [0, 1, 2, 7, 8], "another": [3, 4]}
    return widgets.NextToken(Parrot(12, 0.8), texts_, pieces, position=2)


def test_a_row_is_about_the_token_after(widget):
    sure, wrong = widget.compute(2, 1.0, "one text"), widget.compute(3, 1.0, "one text")
    assert (sure["best"][0], sure["came"]) == (2, 2)
    assert sure["came_with"] == pytest.approx(0.8)
    assert (wrong["best"][0], wrong["came"]) == (3, 7)
    assert wrong["came_with"] == pytest.approx(0.2 / 11)
    assert sure["read"] == pytest.approx([0.8, 0.8, 0.2 / 11, 0.8])


def test_entropy_is_that_of_the_whole_row(widget):
    p = np.array([0.8] + [0.2 / 11] * 11)
    assert widget.compute(1, 1.0, "one text")["entropy"] == pytest.approx(-(p @ np.log2(p)))
    hot = widget.compute(1, 3.0, "one text")
    assert widget.compute(1, 1.0, "one text")["entropy"] < hot["entropy"] < np.log2(12)
    assert widget.compute(1, 0.1, "one text")["entropy"] == pytest.approx(0, abs=1e-6)


def test_a_place_beyond_a_short_text_is_its_last(widget):
    last, beyond = (widget.compute(place, 1.0, "another") for place in (1, 4))
    nothing = {"read": 0, "chances": 0}
    assert beyond | nothing == last | nothing


def shown(widget, **values):
    """Return the names beside the bars, what stands at their ends, and the whole picture."""
    drawn = widget.draw(widget.compute(**{**widget.values, **values}))
    (panel,) = drawn["panels"]
    names = [name for _, name in panel["y"]["ticks"]]
    return names, [mark["text"] for mark in panel["marks"] if "text" in mark], drawn


def test_the_picture_marks_what_came(widget):
    names, ends, drawn = shown(widget, position=2, text="one text")
    assert (names[0], ends[0]) == ("␣w2", "0.80 ← came")
    assert ends[-1] == f"{0.2 / 11 * 4:.3f}"  # all others: 12 less the eight shown
    assert drawn["marked"] == 1
    assert drawn["looks"] == [1, 1, 2, 1]
    cold = shown(widget, temperature=0.5, position=2, text="one text")[2]
    assert cold["looks"] == [0, 0, 3, 0]  # of the chances at this temperature, as the notes say
    assert cold["notes"][2] == f"“w7”: {1 / (11 + 44**2):.3f} at this temperature."
    _, ends, _ = shown(widget, position=3, text="one text")
    assert sum("← came" in text for text in ends) == 1


def test_impossible_tokens_are_not_listed_unless_one_came(widget):
    names, ends, _ = shown(widget, position=3, text="one text", temperature=0.1)
    assert [name for name in names if name] == ["␣w3", "␣w7"]
    assert [end for end in ends if end] == ["1.00", "<0.001 ← came"]


def test_what_came_may_be_among_all_others():
    odd = widgets.NextToken(Parrot(12, 0.8), {"odd": [0, 11]}, [f" w{i}" for i in range(12)])
    _, ends, _ = shown(odd)
    assert [end for end in ends if "← came" in end] == [f"{0.2 / 11 * 4:.3f} ← came"]


def test_the_position_ends_where_the_text_does(widget):
    position = widget.controls["position"]
    for text, ids in widget.texts.items():
        widget.set(text=text, position=len(ids) - 1)
        assert position.max == len(ids) - 1
    for text, ids in widget.texts.items():  # from the end of a longer one
        widget.set(text=text)
        assert 1 <= position.value <= position.max == len(ids) - 1
    widget.set(**widget._start)
    assert widget.values == widget._start


def test_the_widget_moves(widget):
    assert widget.set(position=3, text="one text", temperature=1.0) == (
        "At place 3 of one text '␣w7' came, which had probability 0.02; the likeliest was '␣w3' "
        "with 0.80."
    )
    assert widget.set(position=2).endswith("'␣w2' came, which had probability 0.80, the highest.")
    (panel,) = widget.draw(widget.compute(**widget.values))["panels"]
    assert panel["title"] == "at the frame (entropy: 1.4 bits)"


# ---------------------------------------------------------------- theory
def test_frequencies_show_theory_as_bars_and_measurements_as_points():
    fig = widgets.frequencies(["a", "b"], [0.75, 0.25], [(0.7, 0.6, 0.8), (0.3, 0.2, 0.4)])
    (marks,) = charted(fig)
    assert [mark["bar"][1] for mark in marks if "bar" in mark] == [0.75, 0.7, 0.25, 0.3]
    whiskers = [mark["line"] for mark in marks if "line" in mark]
    assert whiskers == [[[0.6, 0], [0.8, 0]], [[0.2, -1], [0.4, -1]]]


def test_perplexities_are_written_beside_their_points():
    rows = {"x": (1.5, 1.4, 1.6), "y": (167929.4, 9e4, 3e5), "z": (1.2, 1.1, 1.3)}
    fig = widgets.perplexities(rows, 512)
    every, close = charted(fig)
    texts = [[mark["text"] for mark in marks if "at" in mark] for marks in (every, close)]
    assert texts == [["1.500", "167,929", "1.200"], ["1.500", "1.200"]]
    assert [mark["rule"]["x"] for mark in every if "rule" in mark] == [512]
    assert [panel["x"]["ends"] for panel in fig.panels] == [[1, 1e6], pytest.approx([1.08, 1.62])]
    assert [name for _, name in fig.panels[1]["y"]["ticks"]] == ["x", "z"]

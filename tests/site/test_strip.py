"""The strip of the picture that a link shows: every token stands where it would in the text."""

from itertools import pairwise

from lablib.tools.site import strip
from lablib.tools.site.strip import PLAIN, Look, add_axes, canvas, draw_strip, place

from matplotlib.collections import PolyCollection


def test_a_strip_keeps_words_together_and_their_pieces_in_contact():
    he, is_, br, own = place(["He", " is", " br", "own"])
    assert [p.line for p in (he, is_, br, own)] == [0, 0, 0, 0]
    assert he.right < is_.left
    assert br.right == own.left
    assert own.column == br.column + 2
    assert own.letters == "own"


def test_a_strip_wraps_whole_words_and_breaks_only_what_no_line_holds():
    tokens = [" " + "x" * 20] * 4 + [" br", "own"] * 12
    places = place(tokens)
    assert max(p.column + len(p.letters) for p in places) <= strip.COLUMNS
    for first, second in pairwise(places):
        if second.letters == "own":
            assert first.line == second.line
    long = place(["y" * 30, "y" * 30, "y" * 30])
    assert [p.line for p in long] == [0, 0, 1]
    assert max(p.column + len(p.letters) for p in long) <= strip.COLUMNS


def test_a_strip_shows_spaces_and_empty_tokens():
    assert [p.letters for p in place([" ", "7", ""])] == ["␣", "7", "∅"]


def test_a_strip_draws_every_token_once_and_its_legend():
    tokens, looks = ["a", " b", " c", " d"], [PLAIN, Look("x", "#E3F0FA"), Look("y", "#DD7A45")]
    looks.append(looks[1])
    fig = canvas(strip.height(tokens))
    axes = add_axes(fig, 0, 0, 8, strip.height(tokens))
    draw_strip(axes, tokens, looks, legend=looks[1:3])
    groups = [each for each in axes.collections if isinstance(each, PolyCollection)]
    counts = sorted(len(each.get_paths()) for each in groups)
    assert counts == [1, 1, 1, 2]  # those of the legend stand alone
    written = {text.get_text() for text in axes.texts}
    assert {" a", "    b  c  d", "x", "y"} <= written  # grey letters, and letters in boxes

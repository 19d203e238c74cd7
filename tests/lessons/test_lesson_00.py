"""Lesson 00: the pictures of the first steps show what they say."""

import re
from dataclasses import replace
from types import SimpleNamespace

import lablib
from lablib.course.lessons.lesson_00 import widgets
from lablib.course.plots.marks import DARK
from lablib.course.tasks import stories

import numpy as np
import pytest

STORY = stories.problems(3, 1)[0]


# ---------------------------------------------------------------- preflight
def test_preflight_is_a_table_without_paths():
    table = widgets.preflight(lablib.doctor())
    assert "/" not in table.replace("GFLOP/s", "")
    assert re.search("computes on  [CG]PU\n", table)
    assert "advice" in table


def test_preflight_of_a_machine_without_mlx_passes_the_advice_on():
    facts = {"machine": "a", "python": "3.11 at /x", "mlx": "does not import"}
    told = SimpleNamespace(facts=facts, gflops=None, advice=("reinstall", "again"))
    table = widgets.preflight(told)
    assert "reinstall; again" in table
    assert "not measured" in table


# ---------------------------------------------------------------- act one
class FewStories(widgets.StoryTeller):
    """Quicker to make."""

    TEMPERATURES = (0.0, 0.5, 1.0, 2.0)


@pytest.fixture(scope="module")
def teller():
    model, tokenizer = lablib.load("target")
    return FewStories(model, tokenizer, STORY, " She is", tries=2, seed=6)


def test_temperature_moves_the_chances_and_zero_takes_the_best(teller):
    frozen, cold, hot = (teller.compute(t, 1)["chances"] for t in (0.0, 0.5, 2.0))
    assert frozen.tolist() == [1.0] + [0.0] * (len(teller.order) - 1)
    assert cold[0] > hot[0]
    for chances in (cold, hot):
        assert (np.diff(chances) <= 0).all()
        assert chances.sum() == pytest.approx(1)
    once = teller.compute(1.0, 1)["chances"]
    ratio = np.log(once[0] / once[1])
    assert np.log(cold[0] / cold[1]) == pytest.approx(ratio / 0.5)
    assert np.log(hot[0] / hot[1]) == pytest.approx(ratio / 2)


def test_every_story_has_its_own_verdict(teller):
    for told in (story for stories_ in teller.stories.values() for story in stories_):
        assert told.verdict == stories.explain(STORY, " She is" + "".join(told.tokens))
        assert len(told.tokens) == len(told.probabilities)
        assert ((told.probabilities > 0) & (told.probabilities <= 1)).all()
    first, second = teller.stories[0.0]
    assert first.tokens == second.tokens


def test_the_picture_says_what_the_checker_says(teller):
    data = teller.compute(0.5, 1)
    told = data["told"]
    wrong = teller.draw({**data, "told": replace(told, verdict="the story stops")})
    right = teller.draw({**data, "told": replace(told, verdict=None)})
    assert (wrong["verdict"], wrong["right"]) == ("✗ the story stops", False)
    assert (right["verdict"], right["right"]) == ("✓ a right story", True)
    assert teller.caption(data).endswith("is wrong." if told.verdict else "is right.")


def test_each_token_has_the_colour_of_its_chance_and_the_first_a_frame(teller):
    for temperature in teller.TEMPERATURES:
        for number in (1, 2):
            data = teller.compute(temperature, number)
            drawn, told = teller.draw(data), data["told"]
            text = teller.constants["texts"][drawn["text"]]
            given = len(drawn["looks"]) - len(told.tokens)
            assert "".join(text[:given]) == f"{STORY.prompt} She is"
            assert text[given:] == told.tokens
            assert drawn["looks"][:given] == [-1] * given
            least = (0.9, 0.5, 0.01, 0)
            for look, chance in zip(drawn["looks"][given:], told.probabilities, strict=True):
                assert chance >= least[look]
                assert look == 0 or chance < least[look - 1]
            assert drawn["marked"] == given


def test_outlines_are_what_the_model_gave_at_any_temperature(teller):
    own, best = teller.compute(1.0)["chances"], teller.SHOWN
    for temperature in teller.TEMPERATURES:
        data = teller.compute(temperature)
        for comes in (-1, 0, 3, best, 40):
            told = replace(data["told"], tokens=[" here", *data["told"].tokens[1:]])
            (panel,) = teller.draw({**data, "told": told, "comes": comes})["panels"]
            for each, hollow in ((own, True), (data["chances"], False)):
                rare = [each[comes]] * (comes >= best)
                bars = [mark for mark in panel["marks"] if "bar" in mark]
                marks = [mark for mark in bars if mark.get("hollow", False) == hollow]
                lengths = [mark["bar"][1] for mark in marks]
                assert lengths == pytest.approx([*each[:best], each[best:].sum(), *rare])
            ends = [mark["text"] for mark in panel["marks"] if "text" in mark]
            both = f"{own[0]:.2f} → {data['chances'][0]:.2f}"
            assert ends[0] == (both if temperature != 1 else f"{own[0]:.2f}")


def test_the_word_that_came_is_dark_in_a_row_of_its_own_and_the_caption_names_it(teller):
    data = teller.compute(2.0)
    for comes, row in ((-1, None), (0, 0), (3, 3), (teller.SHOWN, 9), (40, 9)):
        told = replace(data["told"], tokens=[" here", *data["told"].tokens[1:]])
        here = {**data, "told": told, "comes": comes}
        (panel,) = teller.draw(here)["panels"]
        dark = [mark["bar"][3] for mark in panel["marks"] if mark.get("fill") == DARK]
        assert dark == ([] if row is None else [0.38 - row])
        names = [name for _, name in panel["y"]["ticks"]]
        assert names == [*teller.words, "all others", *["here"] * (row == 9)]
        bold = [mark["text"] for mark in panel["marks"] if mark.get("bold")]
        assert [text.endswith(", one of them") for text in bold] == [row == 9] * len(dark)
        caption = teller.caption(here)
        assert (" and came;" in caption) == (comes == 0)
        word = f"‘{names[row]}’ came, which has" if comes > 0 else "came, which"
        assert (word in caption) == (comes > 0)


def test_the_word_that_came_is_the_storys_first(teller):
    for temperature in teller.TEMPERATURES:
        for number in (1, 2):
            data = teller.compute(temperature, number)
            assert teller.order[data["comes"]] == data["told"].ids[0]
            own = teller.compute(1.0)["chances"][data["comes"]]
            assert data["told"].probabilities[0] == pytest.approx(own, rel=1e-3)


def test_the_storyteller_moves(teller):
    assert teller.set(temperature=0.0, story=1) == teller.set(story=2)
    assert "probability 1.00" in teller.view.caption
    assert "probability 1.00" not in teller.set(temperature=2.0)


# ---------------------------------------------------------------- act three
def guesses():
    """Five tokens, two of them given; of three guesses the second is wrong."""
    words = ["a", "b", "c"]
    target, draft = np.zeros((5, 3)), np.zeros((5, 3))
    for row, (choice, guess) in enumerate([(2, 0), (0, 0), (2, 2), (2, 2), (0, 1)]):
        target[row, choice], draft[row, guess] = 3, 2
    return widgets.GuessStrip([2, 1, 0, 1, 2], 2, target, draft, words)


def test_a_guess_is_compared_with_what_came_at_its_own_place():
    widget = guesses()
    assert widget.agree.tolist() == [True, False, True]
    assert widget.share == pytest.approx(2 / 3)
    here = widget.compute(2)
    assert (here["place"], here["written"]) == (3, "b")
    assert here["draft"][0][0] == here["target"][0][0] == "c"  # the target drew another one
    assert here["target"][0][1] == pytest.approx(np.exp(3) / (np.exp(3) + 2))
    assert here["draft"][0][1] == pytest.approx(np.exp(2) / (np.exp(2) + 2))


def test_the_strip_marks_hits_and_misses():
    widget = guesses()
    drawn = widget.draw(widget.compute(2))
    assert drawn["looks"] == [-1, 0, 1, 0]  # what was given, two hits and a miss
    assert drawn["marked"] == 2
    assert [name for _, name in widget.constants["looks"]] == [widgets.GUESSED, widgets.MISSED]
    assert drawn["notes"] == ["This was given."] + [
        f"“{word}”: {fate}."
        for word, fate in (("a", widgets.GUESSED), ("b", widgets.MISSED), ("c", widgets.GUESSED))
    ]
    caption = widget.set(token=2)
    assert "the draft guesses 'c': 'b' came" in caption
    assert "2 of 3 tokens" in caption
    assert "guesses 'c': right." in widget.set(token=3)

"""The README's moving picture: what it shows, how large it is, and that it comes to rest."""

from pathlib import Path

from lablib.course.lessons.lesson_00.widgets import StoryTeller

import numpy as np
import pytest
from oracles import browser
from oracles.moving_picture import moving_picture
from PIL import Image

SHIPPED = Path(__file__).parents[2] / "notebooks" / "lesson.gif"


@pytest.mark.browser
def test_it_goes_up_and_down_and_each_frame_shows_its_temperature(tmp_path, monkeypatch):
    browser.need("the README's moving picture")
    monkeypatch.setattr(StoryTeller, "TEMPERATURES", (0.0, 1.0, 2.0))
    with Image.open(moving_picture(tmp_path / "a.gif")) as film:
        frames = []
        for index in range(film.n_frames):
            film.seek(index)
            frames.append(np.asarray(film.convert("RGB")).astype(int))
    assert len(frames) == 4
    assert np.array_equal(frames[1], frames[3])
    # The slider's knob: the blue of the first 80 rows, from left to right with the temperature.
    blue = [frame[:80] - [0, 114, 178] for frame in frames]
    places = [np.argwhere(np.abs(b).sum(-1) < 40)[:, 1].mean() for b in blue]
    assert places[0] < places[1] < places[2]


def test_the_shipped_one_is_small_and_comes_to_rest() -> None:
    assert SHIPPED.stat().st_size < 1e6
    with Image.open(SHIPPED) as film:
        assert film.n_frames == 2 * len(StoryTeller.TEMPERATURES) - 2
        assert 0 < film.info["loop"] < 5  # 0 would be for ever

"""Films: each picture is the one that the explorer draws for those values, and stands in order."""

import base64
import gzip
import html
import json
from itertools import product
from typing import ClassVar

from lablib.course.lessons.lesson_07.widgets import Acceptance, GreedyText
from lablib.course.plots.chart import Still
from lablib.course.plots.charts import bars
from lablib.course.plots.explorer import Explorer, Player, choice, slider, toggle
from lablib.tools.site import film as films
from lablib.tools.site.pages import film_html

import ipywidgets as widgets
import pytest


class Said(Explorer):
    """It shows its controls' values."""

    called = "nothing"
    constants: ClassVar = {}

    def caption(self, data):
        return f"{data} </script>"


def small():
    return Said(
        height=slider(0.5, 0.0, 1.0, 0.5),
        word=choice("bb", [("a", "a"), ("two", "bb")]),
        on=toggle(True),
        time=Player(0, 0, 2, 250, "moment"),
    )


def large():
    typed = widgets.Text("fixed", description="said")
    letters = choice("b", [*"abcdefghijkl"])
    return Said(a=slider(3, 0, 99), b=slider(1, 0, 4), c=letters, said=typed)


def test_a_small_film_has_every_setting_in_order(tmp_path):
    explorer = small()
    film = films.film(explorer, explorer.values, tmp_path)
    controls = film["controls"]
    assert [c["kind"] for c in controls] == ["slider", "list", "box", "film"]
    stops = [["0", "0.5", "1"], ["a", "two"], ["off", "on"], ["0", "1", "2"]]
    assert [c["stops"] for c in controls] == stops
    assert [c["start"] for c in controls] == [1, 1, 1, 0]
    assert (controls[3]["label"], controls[3]["pause"]) == ("moment", 250)
    settings = product([0.0, 0.5, 1.0], ["a", "bb"], [False, True], [0, 1, 2])
    wanted = [dict(zip(explorer.controls, values, strict=True)) for values in settings]
    kept = held(tmp_path / film["parts"])
    assert kept == {"frames": wanted, "captions": [explorer.caption(each) for each in wanted]}


def test_sliders_of_a_large_film_skip_values_so_that_all_move_together(tmp_path):
    explorer = large()
    explorer.set(a=5)  # later than it was shown
    start = {"a": 3, "b": 1, "c": "b", "said": "fixed"}
    film = films.film(explorer, start, tmp_path)
    assert film["fixed"] == ["said"]
    a, b, c = film["controls"]
    assert [each["thinned"] for each in (a, b, c)] == [True, False, False]
    kept = [0, *range(3, 99, 4), 99]  # 50 and then 26 of its values, its start and both its ends
    assert a["stops"] == [str(n) for n in kept]
    assert a["stops"][a["start"]] == "3"
    every = product(kept, range(5), "abcdefghijkl", ["fixed"])
    wanted = [dict(zip(start, each, strict=True)) for each in every]
    assert held(tmp_path / film["parts"])["frames"] == wanted
    assert film["data"] == start


def test_a_slider_that_counts_is_thinned_last(tmp_path):
    controls = {"count": slider(30, 1, 60), "smooth": slider(1.0, 0.0, 4.0, 0.1)}
    explorer = Echo(**controls, word=choice("a", ["a", "b"]))
    film = films.film(explorer, explorer.values, tmp_path)
    count, smooth, _ = film["controls"]
    assert len(count["stops"]) == 60
    assert [*map(float, smooth["stops"])] == [round(0.2 * i, 9) for i in range(21)]
    assert len(held(tmp_path / film["parts"])["frames"]) == 60 * 21 * 2 <= films.GRID


@pytest.mark.parametrize("make", [small, large])
def test_a_film_begins_with_the_picture_of_its_start(tmp_path, make):
    explorer = make()
    film = films.film(explorer, explorer.values, tmp_path)
    page, caption = film_html(film), html.escape(explorer.view.caption)
    assert f'<figcaption aria-live="polite">{caption}<' in page
    told = json.loads(page.split('json">')[1].split("</script>")[0].replace("<\\/", "</"))
    assert (told["data"], told["caption"]) == explorer.frame()
    assert page.count("</script>") == 1  # a caption can't end it
    assert ("The sliders skip some values" in page) == (make == large)
    assert ("“said” can be set in Jupyter" in page) == (make == large)


@pytest.mark.parametrize(("value", "low", "high", "step"), [(0.3, 0.0, 1.0, 0.1), (7, 1, 199, 3)])
def test_a_slider_stops_where_it_can_and_at_its_start(tmp_path, value, low, high, step):
    explorer = Said(a=slider(value, low, high, step))
    film = films.film(explorer, explorer.values, tmp_path)
    (control,) = film["controls"]
    assert control["stops"][control["start"]] == f"{value:g}"
    assert 10 < len(control["stops"]) <= films.STOPS
    for stop in control["stops"]:
        explorer.set(a=type(value)(stop))  # refuses what the slider can't take


def held(file):
    """Return what a scene's file holds."""
    text = file.read_text("utf-8")
    packed = text.removeprefix(f'lablibFilm("{file.name}", "').removesuffix('");')
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_a_chart_that_nothing_moves_is_a_film_of_one_frame(tmp_path):
    still = Still(bars("ab", {"p": [0.2, 0.8]}, "share"), "Two bars.")
    film = films.film(still, {}, tmp_path)
    assert (film["controls"], film["data"]) == ([], still.view.data)
    assert not any(tmp_path.iterdir())
    assert "Two bars." in film_html(film)


class Parted(Explorer):
    """Its data are made of two parts."""

    scene, called = "chart", "nothing"
    parts: ClassVar = {"one": ("b",), "two": ("a", "b")}
    constants: ClassVar = {}

    def one(self, b):
        return {"one": b}

    def two(self, a, b):
        return {"two": [a, b]}

    def caption(self, data):
        return str(data)


class Heavy(Explorer):
    """Its data are long."""

    scene, called = "chart", "nothing"
    constants: ClassVar = {}

    def compute(self, a, b):
        return {"a": a, "b": b, "more": "x" * 400}

    def caption(self, data):
        return f"{data['a']} {data['b']}"


class Echo(Heavy):
    def compute(self, **values):
        return values

    def caption(self, data):
        return str(data)


class Ended(Heavy):
    def ends(self, a, b):
        return {"a": 2 * b} if b < 9 else {}


@pytest.mark.parametrize("last", [9, 200])  # every value, and some
def test_a_film_says_where_a_slider_ends(tmp_path, last):
    explorer = Ended(a=slider(4, 1, last), b=slider(2, 1, 20))
    film = films.film(explorer, explorer.values, tmp_path)
    a, b = film["controls"]
    assert "ends" not in b
    stops = [*map(int, a["stops"])]
    settings = product(stops, range(1, 21))
    for (_, at), place in zip(settings, a["ends"], strict=True):
        wanted = 2 * at if at < 9 else last
        beyond = [i for i, stop in enumerate(stops) if stop >= wanted]
        assert place == (beyond or [len(stops) - 1])[0]


def test_the_data_of_a_scene_stand_in_a_file(tmp_path):
    explorer = Heavy(a=slider(3, 1, 65), b=slider(2, 1, 20))
    film = films.film(explorer, explorer.values, tmp_path)
    assert (film["data"], film["caption"]) == explorer.frame()
    told = held(tmp_path / film["parts"])
    wanted = [explorer.frame(a=a, b=b) for a, b in product(range(1, 66), range(1, 21))]
    assert [*zip(told["frames"], told["captions"], strict=True)] == wanted
    assert f'"parts":"_static/frames/{film["parts"]}"' in film_html(film)


def test_a_scene_of_parts_has_every_setting_in_a_file(tmp_path):
    controls = {"a": slider(3, 2, 4), "still": choice("x", ["x"]), "b": choice("q", ["p", "q"])}
    explorer = Parted(**controls)
    film = films.film(explorer, explorer.values, tmp_path)
    assert [control["label"] for control in film["controls"]] == ["a", "b"]
    assert (film["data"], film["caption"]) == explorer.frame()
    told = held(tmp_path / film["parts"])
    for number, (a, b) in enumerate(product((2, 3, 4), "pq")):
        data, places = {"still": "x"}, [(2, 3, 4).index(a), "pq".index(b)]
        for part in told["parts"]:
            row = 0
            for i in part["of"]:
                row = row * (3, 2)[i] + places[i]
            data |= part["data"][row]
        assert (data, told["captions"][number]) == explorer.frame(a=a, b=b)
    shown = film_html(film, asks=True)
    assert f'"parts":"_static/frames/{film["parts"]}"' in shown
    assert 'class="lablib-film lablib-asks"' in shown


def test_the_film_of_a_scene_has_data_in_place_of_pictures(tmp_path):
    half = (0.5,) * 9
    text = GreedyText("sums", half, half, half, half, half, (True, True, False) * 3)
    explorer = Acceptance([text])
    film = films.film(explorer, explorer.values, tmp_path)
    assert film["scene"] == explorer.told
    (control,) = film["controls"]
    told = held(tmp_path / film["parts"])
    for stop, *both in zip(control["stops"], told["frames"], told["captions"], strict=True):
        assert both == json.loads(json.dumps(explorer.frame(draft_tokens=int(stop))))
    assert (film["data"], film["caption"]) == explorer.frame()
    shown = film_html(film)
    assert html.escape(explorer.frame()[1]) in shown
    assert "<img" not in shown

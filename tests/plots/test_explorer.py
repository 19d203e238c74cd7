"""The widget base class, without a browser."""

import time

from lablib.course.lessons.lesson_03.widgets import BeforeAfter
from lablib.course.plots.chart import ChartExplorer
from lablib.course.plots.charts import bars
from lablib.course.plots.explorer import Player, choice, slider, toggle
from lablib.course.plots.scene import MIME

import numpy as np
import pytest
from oracles.refusals import refuses


class Powers(ChartExplorer):
    """A small widget whose pictures are easy to tell apart."""

    def __init__(self):
        self.computed = 0
        super().__init__(
            power=slider(1.0, 0.0, 3.0, 0.5),
            count=slider(4, 1, 8),
            shown=choice("all", ["all", "none"]),
            on=toggle(True),
            step=Player(0, 0, 4),
        )

    def compute(self, power, count, shown, on, step):
        self.computed += 1
        if step == 4:
            raise ArithmeticError("<step 4>")
        return np.arange(count) ** power

    def chart(self, data):
        heights = np.pad(data, (0, 9 - len(data)))  # an axis stays
        return bars("abcdefghi", {"power": heights}, "power", ymax=600)

    def caption(self, data):
        return f"{len(data)} bars up to {data.max():.1f} < 30."


def test_a_control_moves_the_picture_and_the_caption():
    widget = Powers()
    before = widget.view.data
    assert widget.view.caption == "4 bars up to 3.0 < 30."
    widget.controls["power"].value = 2.0
    assert widget.view.caption == "4 bars up to 9.0 < 30."
    assert widget.view.data != before
    assert widget.view.data == widget.frame()[0]
    words = '<p class="lablib-caption" aria-live="polite">4 bars up to 9.0 &lt; 30.</p>'
    assert widget._words.value == words


def test_set_moves_several_controls_and_draws_once():
    widget = Powers()
    before = widget.computed
    assert widget.set(power=2.0, count=3, shown="none", on=False) == "3 bars up to 4.0 < 30."
    assert widget.computed == before + 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"colour": 1}, "control must be one of 'power', 'count'"),
        ({"count": 9}, r"count must be in \[1, 8\] in steps of 1, got 9"),
        ({"count": 2.5}, r"count must be in \[1, 8\] in steps of 1, got 2.5"),
        ({"shown": "some"}, "shown can't be 'some'"),
        ({"power": "2"}, r"power must be in \[0.0, 3.0\] in steps of 0.5, got '2'"),
    ],
)
def test_a_bad_value_is_refused_and_nothing_moves(values, message):
    widget = Powers()
    before, drawn = widget.values, (widget.view.data, widget.view.caption)
    refuses(ValueError, message, widget.set, **{"power": 2.0, **values})
    assert widget.values == before
    assert (widget.view.data, widget.view.caption) == drawn


def test_a_list_of_one_choice_is_not_shown():
    class One(Powers):
        def __init__(self, choices):
            self.computed = 0
            controls = {"shown": choice("all", choices), "on": toggle(True)}
            ChartExplorer.__init__(self, power=slider(1.0, 0.0, 3.0), **controls)

        def compute(self, power, shown, on):
            return np.arange(4) ** power

    alone, two = One(["all"]), One(["all", "none"])
    assert alone.controls["shown"] not in alone.box.children[1].children
    assert alone.values["shown"] == "all"
    assert two.controls["shown"] in two.box.children[1].children


class Ending(Powers):
    """Its player ends where the count does, and begins there."""

    def __init__(self):
        self.computed, step, power = 0, Player(8, 0, 8), slider(1.0, 0.0, 3.0)
        ChartExplorer.__init__(self, step=step, power=power, count=choice(3, [3, 8, 1]))

    def ends(self, step, power, count):
        return {"step": count, "power": 2.0} if count < 8 else {}

    def compute(self, step, power, count):
        self.computed += 1
        return np.arange(1 + min(step, count))


def test_a_slider_ends_where_its_pictures_do():
    widget = Ending()
    step, power, count = (widget.controls[name] for name in ("step", "power", "count"))
    assert (step.value, step.max, step.play.max, power.max) == (3, 3, 3, 2.0)
    power.value = 2.0
    count.value = 8
    assert (step.value, step.max, step.play.max) == (8, 8, 8)  # it began at the end: it stays there
    assert (power.value, power.max) == (2.0, 3.0)
    assert widget.view.caption.startswith("9 bars")
    widget.set(step=2, power=3.0)
    before = widget.computed
    count.value = 1
    assert (step.value, power.value) == (1, 2.0)
    assert widget.view.caption.startswith("2 bars")
    assert widget.computed == before + 2  # the second with what was within reach
    assert widget.set(step=5, count=8).startswith("6 bars")  # in whatever order they are named
    before = widget.values
    refuses(ValueError, r"step must be in \[0, 3\]", widget.set, step=5, count=3)
    assert widget.values == before
    assert step.max == step.play.max == 8
    widget.box.children[1].children[-1].click()
    assert widget.values == {"step": 3, "power": 1.0, "count": 3}


def test_reset_puts_everything_back():
    widget = Powers()
    widget.set(power=2.0, count=2, step=3)
    widget.box.children[1].children[-1].click()
    assert widget.values == {"power": 1.0, "count": 4, "shown": "all", "on": True, "step": 0}
    assert widget.view.caption == "4 bars up to 3.0 < 30."


@pytest.mark.parametrize("kind", ["a chart", "a scene"])
def test_reset_goes_to_what_was_shown_first(kind):
    widget = Powers() if kind == "a chart" else BeforeAfter(["a", "b"], [1.0, 0.0])
    name = next(iter(widget.controls))
    widget.set(**{name: 2.0})  # a lesson sets controls, and then shows the picture
    caption = widget.view.caption
    widget._repr_mimebundle_()
    widget.set(**{name: 0.5})
    widget._repr_mimebundle_()  # and a reader shows it once more
    widget.set(**{name: 1.5})
    widget.box.children[1].children[-1].click()
    assert widget.values[name] == 2.0
    assert widget.view.caption == caption


def test_an_error_is_shown_in_the_view_and_raised():
    widget = Powers()
    with pytest.raises(ArithmeticError):
        widget.controls["step"].value = 4
    assert widget._words.value == '<pre role="alert">ArithmeticError: &lt;step 4&gt;</pre>'
    widget.controls["step"].value = 3
    assert "4 bars" in widget._words.value


def test_a_still_moves_nothing():
    widget = Powers()
    still = widget.static(power=2.0)
    assert still.view.caption == "4 bars up to 9.0 < 30."
    assert still.controls == {}
    assert widget.values["power"] == 1.0
    for look in (widget.static, widget.frame, widget.set):
        refuses(ValueError, "control must be one of", look, colour=3)


def test_a_notebook_gets_what_becomes_a_picture_when_it_is_recorded():
    widget = Powers()
    data, metadata = widget._repr_mimebundle_()
    assert set(data) == {MIME, "text/plain", "application/vnd.jupyter.widget-view+json"}
    assert data["text/plain"] == metadata["image/png"]["alt"] == "4 bars up to 3.0 < 30."
    assert data[MIME] == {**widget.told, "data": widget.frame()[0]}


def test_a_player_counts_in_the_browser():
    player = Player(0, 0, 4, milliseconds=200)
    assert (player.max, player.play.max, player.play.interval) == (4, 4, 200)
    assert player.link.source[0] is player.play
    assert Powers().box.children[1].children[4].children[0].__class__.__name__ == "Play"


def test_a_slider_is_of_whole_numbers_when_all_is_whole():
    assert slider(3, 1, 8).__class__.__name__ == "IntSlider"
    assert slider(3, 1, 8, 0.5).__class__.__name__ == "FloatSlider"
    assert not slider(3, 1, 8, live=False).continuous_update


def test_a_tick_is_quick():
    """A tick takes 50 ms of a quiet processor; 150 leaves room for slow and busy machines."""
    widget, times = Powers(), []
    for power in (0.5, 1.5, 2.0, 2.5, 3.0):
        start = time.process_time()
        widget.set(power=power)
        times.append(1000 * (time.process_time() - start))
    assert min(times) < 150, f"ticks took {[round(t) for t in times]} ms"

"""The widgets of lesson 10 look into real caches and show what is there."""

import itertools

from lablib.cache import kv
from lablib.course import check
from lablib.course.lessons.lesson_10 import widgets
from lablib.course.lessons.lesson_10 import widgets as rewinding
from lablib.course.lessons.lesson_10.exercises import read_again

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import charted, read
from oracles.refusals import refuses


@pytest.fixture(scope="module")
def memories():
    return widgets.Memories(window=6, prompt=10, drafts=6)


def seen_by_hand(stays: int, most: int = 16, window: int = 6, fade: float = 0.8) -> np.ndarray:
    """What a token at place ``stays`` sees of those before it."""
    places = np.arange(most)
    text = places < stays
    kept = text & (places > stays - window), np.where(text, fade ** (stays - 1.0 - places), 0)
    return np.array([text, *kept]).astype(float)


def test_marks_are_what_a_layer_really_holds() -> None:
    model = widgets.Marks(window=6, most=16)
    for stays in (1, 5, 6, 9, 16):
        cache = model.make_cache()
        model(mx.arange(stays)[None], cache)
        assert np.array(model.look(cache)) == pytest.approx(seen_by_hand(stays), abs=1e-5)
        assert cache[0].offset == cache[1].offset == stays  # looking changes nothing
        one_by_one = model.make_cache()
        for place in range(stays):
            seen = model(mx.array([[place]]), one_by_one)
        assert np.array(model.look(one_by_one)) == pytest.approx(seen_by_hand(stays), abs=1e-5)
        assert seen[0].sum() == stays  # a token sees itself
        assert seen[1].sum() == min(stays, 6)


def test_snapshot_and_replay_is_right_whatever_is_done(memories) -> None:
    every = (0, 1, 4, 6), (0, 1, 3, 6), (1, 3, 8), (widgets.REPLAY, widgets.SINGLY)
    for drafts, back, prompt, way in itertools.product(*every):
        data = memories.compute(drafts, back, prompt, way)
        stays = prompt + drafts - min(back, drafts)
        assert data["stays"] == stays
        for name in ("seen", "right"):
            assert data[name] == pytest.approx(seen_by_hand(stays), abs=1e-5), (drafts, back)
        partly = way == widgets.REPLAY and 0 < back < drafts
        assert data["again"] == (drafts - back if partly else 0)


def test_the_other_ways_leave_something_behind(memories) -> None:
    data = memories.compute(drafts=4, back=3, prompt=8, way=widgets.EACH)
    wrong = np.abs(data["seen"] - data["right"]).max(axis=1) > 1e-4
    assert wrong.tolist() == [False, True, True]
    assert data["seen"][1].nonzero()[0].tolist() == [7, 8, 9, 10, 11]
    data = memories.compute(drafts=4, back=3, prompt=8, way=widgets.ALL)
    assert data["seen"] == pytest.approx(seen_by_hand(12), abs=1e-5)
    data = memories.compute(drafts=2, back=2, prompt=2, way=widgets.EACH)
    assert data["seen"][:2] == pytest.approx(data["right"][:2])  # not full yet: it trims
    assert data["again"] == 0


def test_the_caption_names_what_is_wrong(memories) -> None:
    text = memories.set(drafts=4, back=3, prompt=8, way=widgets.EACH)
    assert text == (
        "Wrong after “trim where possible”: sliding window and recurrent state. "
        "Of 12 tokens 3 were taken back, 0 were read again."
    )
    text = memories.set(way=widgets.REPLAY)
    assert text.startswith("Every layer is right after “snapshot and replay”.")
    assert text.endswith(" 1 was read again.")
    assert memories.set(way=widgets.SINGLY).endswith(" 0 were read again.")
    assert "Of 10 tokens 2 were taken back" in memories.set(drafts=2)
    assert memories.controls["back"].max == 2
    assert "Wrong after “trim_prompt_cache”: keys and values and" in memories.set(way=widgets.ALL)
    for way in widgets.WAYS:
        data = memories.compute(drafts=6, back=2, prompt=10, way=way)
        assert read(memories.draw(data))
        names = [name for _, name in memories.chart(data).panels[0]["y"]["ticks"]]
        wrong = [layer in data["wrong"] for layer in rewinding.LAYERS]
        assert [name.endswith(": wrong") for name in names] == wrong


def test_the_cost_of_a_replay_is_that_of_many_rounds() -> None:
    """20,000 rounds each; five standard errors are exceeded by chance less than once in 10⁶."""
    rng = np.random.default_rng(4)
    for alpha, drafted in ((0.3, 1), (0.5, 4), (0.8, 4), (0.95, 10)):
        kept = np.minimum(rng.geometric(1 - alpha, 20_000) - 1, drafted)
        again = np.where(kept < drafted, kept + 1, 0)
        chance, tokens = rewinding.replayed(alpha, drafted)
        assert tokens == pytest.approx(read_again(alpha, drafted), abs=1e-12)
        error = again.std() / np.sqrt(len(again))
        assert abs(again.mean() - tokens) < 5 * error
        assert abs(again.mean() - tokens + 1) > 5 * error  # one token more would be found out
        assert abs((kept < drafted).mean() - chance) < 5 * 0.5 / np.sqrt(len(kept))
    assert rewinding.replayed(1.0, 3) == (0, 0)
    assert rewinding.replayed(0.0, 3) == (1, 1)


def test_costs_are_for_each_written_token() -> None:
    widget = widgets.ReplayCost(most=8)
    data = widget.compute(alpha=0.5, drafted=4)
    written = 1 + 0.5 + 0.25 + 0.125 + 0.0625
    trim, replay = (way[3] for way in data["forwards"])
    assert trim == pytest.approx(1 / written)
    assert replay == pytest.approx((2 - 0.0625) / written)
    assert replay == pytest.approx(1)  # here speculation with replays is worth just nothing
    again = 0.5 * 1 + 0.25 * 2 + 0.125 * 3 + 0.0625 * 4
    assert data["more"] == pytest.approx((5 + again) / 5)
    _, rounds = read(widget.draw(data))
    means = {rewinding.FIRST: 0.0, rewinding.AGAIN: 0.0}  # of what each row reads
    for mark in rounds:
        left, right, *_ = mark["bar"]
        means[mark["fill"]] += data["kept"][int(mark["key"][1:])] * (right - left)
    assert means == pytest.approx({rewinding.FIRST: 5, rewinding.AGAIN: again})
    said = "runs 1.00 times for each written token, with trimming 0.52"
    assert said in widget.set(alpha=0.5, drafted=4)


def test_a_ring_is_drawn_slot_by_slot_and_a_draft_in_another_colour() -> None:
    chart = rewinding.rings({"alone": [5, 6, 3, 4], "as a block": [2, 3, 4, 5, 6]}, stays=4)
    (marks,) = charted(chart)
    assert [mark["text"] for mark in marks] == [*"563423456"]
    drafts = [mark["text"] for mark in marks if mark["fill"] == rewinding.AGAIN]
    assert drafts == [*"5656"]
    assert marks[0]["note"] == "alone, slot 0: token 5, which is to be taken back."


def test_healing_compares_the_same_tokens() -> None:
    class Sum:
        """Logits that show the sum of what a cache has read."""

        def __call__(self, tokens, cache):
            cache[0] += tokens[0, -1].item()
            return mx.array([[[cache[0], 0.0]]], dtype=mx.float32)

    assert rewinding.healing(Sum(), [3], [1], [5, 6]) == [2, 2]


def test_damage_is_drawn_up_to_its_last_trace() -> None:
    gaps = {"never": [1e-6] * 4, "heals": [2.0, 0.5, 0.0, 1e-6], "stays": [1.0, 0.0, 0.2, 0.4]}
    chart = rewinding.scars(gaps)
    (marks,) = charted(chart)
    bars = {mark["note"]: mark["bar"] for mark in marks if "bar" in mark}
    assert len(bars) == 2 + 4
    assert bars["heals, token 2: 0.50."] == pytest.approx([1.6, 2.4, -1, -1 + 0.9 * 0.5 / 2])
    assert bars["stays, token 4: 0.40."] == pytest.approx([3.6, 4.4, -2, -2 + 0.9 * 0.4 / 2])
    assert "highest bar: 2.0" in chart.panels[0]["title"]
    said = [mark["text"] for mark in marks if "at" in mark]
    assert said == ["never wrong", "healed after 2", "still wrong"]
    assert [name for _, name in chart.panels[0]["y"]["ticks"]] == list(gaps)


def test_bad_input_is_refused_in_a_line(memories) -> None:
    refuses(ValueError, "window must be", widgets.Memories, window=0)
    refuses(ValueError, "alpha must be", rewinding.replayed, 1.5, 3)
    refuses(ValueError, "drafted must be", rewinding.replayed, 0.5, 0)
    refuses(ValueError, "way can't be", memories.set, way="hope")
    assert kv.offset(memories.model.make_cache()) == 0


def test_a_number_in_place_of_the_array_is_told_of_the_round_that_left_it() -> None:
    def try_drafts(layer, drafts, accepted):
        before = float(layer.state[0])  # in a second round this would raise
        layer.read(drafts)
        if accepted < len(drafts):
            layer.state = before
            layer.read(drafts[:accepted])

    assert "should still be an array of one number" in check("10.3", try_drafts).message

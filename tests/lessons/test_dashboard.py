"""The acceptance dashboard computes what it says, and answers clicks and keys."""

import base64
import io
import itertools
import re

from lablib import models
from lablib.course.lessons.lesson_08.dashboard import OVERLAPS, Dashboard, overlap_look
from lablib.course.lessons.lesson_08.panels import HIGH
from lablib.course.plots.charts import png, visible
from lablib.course.replay.recording import DRAFT, DRAFTERS, GAMMA, HEAD, LOOKUP, stored_acceptance
from lablib.course.replay.rounds import guesses_of_model, replay
from lablib.inference.speculation import rules
from lablib.inference.speculation.draft_length import FixedLength
from lablib.models.head import load_head

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="module")
def parts():
    target, tokenizer = models.load("target", dtype=mx.float32)
    draft, _ = models.load("draft", dtype=mx.float32)
    words = [tokenizer.decode([i], skip_special_tokens=True) for i in range(target.vocab_size)]
    return stored_acceptance(), target, draft, load_head("target-head", target), words


@pytest.fixture(scope="module")
def board(parts):
    return Dashboard(*parts, task="sums")


def test_overlaps_are_the_rules_own(board, parts):
    recording, target, draft, *_ = parts
    prompt, tokens = recording.written("sums", 1.0)
    p, q = (
        mx.softmax(model(mx.array([[*prompt, *tokens]]))[0, len(prompt) - 1 : -1], axis=-1)
        for model in (target, draft)
    )
    wanted = rules.overlap(p, q)[0]
    data = board.compute("sums", DRAFT, "rejection", 4, 1.0, 3)
    assert np.allclose(data["overlaps"], wanted, atol=1e-5)  # float32 against float64
    best = np.argsort(-np.array(p[2]))[:5]
    top = [name for name, *_ in data["best"]]
    assert top[0] == board._name(int(best[0]))
    assert {board._name(int(i)) for i in best} <= set(top)
    assert 5 <= len(top) <= 10


@pytest.mark.parametrize("gamma", [1, 4, 8])
def test_greedy_rounds_are_those_of_the_replay(gamma, board, parts):
    recording, _, draft, *_ = parts
    data = board.compute("edits", DRAFT, "block", gamma, 0.0, 1)
    counts, size = np.zeros(gamma + 1), recording.of(0.0)
    first = recording.tasks.index("edits") * len(recording.temperatures) * recording.problems
    for prompt, tokens in recording.tokens[first : first + size.stop]:
        for step in replay(guesses_of_model(draft, prompt, tokens), FixedLength(gamma)):
            counts[step.kept] += step.start + gamma < len(tokens)
    assert np.allclose(data["shares"], counts / counts.sum())
    kept = counts @ np.arange(gamma + 1) / counts.sum()
    assert data["tokens_per_round"] == pytest.approx(1 + kept)


def test_rules_stand_in_the_order_that_theory_says(board, parts):
    recording = parts[0]
    for task, drafter in itertools.product(recording.tasks, DRAFTERS):
        data = board.compute(task, drafter, "match", GAMMA, 1.0, 1)
        lines = {name: np.array(line) for name, line in data["lines"].items()}
        assert (lines["match"] <= lines["rejection"] + 0.01).all()  # float16, and few texts
        assert (lines["coupled"] <= lines["rejection"] + 0.01).all()
        assert (lines["block"] >= lines["rejection"] - 0.02).all()
        greedy = [line[0] for line in lines.values()]
        assert max(greedy) == pytest.approx(min(greedy), abs=1e-9)
        assert data["coins"][-1] == pytest.approx(data["alpha"] ** GAMMA)
        assert sum(data["coins"]) == pytest.approx(1)


def test_shared_noise_keeps_what_it_promises_in_every_cell(board, parts):
    """At each token, of every task, drafter and temperature: its bound, and what match keeps."""
    recording, places = parts[0], 0
    for cell in itertools.product(recording.tasks, DRAFTERS, recording.temperatures.tolist()):
        p, q = board._both(*cell)
        guessed = q.sum(axis=-1) > 0  # a look-up may know nothing
        pairs = (mx.array(each[guessed].astype(np.float32)) for each in (p, q))
        most, match, coupled = map(np.array, rules.overlap(*pairs))
        assert (coupled >= most / (2 - most) - 1e-5).all(), cell  # (1 - TV) / (1 + TV)
        assert (coupled >= match - 1e-5).all(), cell
        assert (coupled <= most + 1e-5).all(), cell
        places += len(most)
    assert places > 1000


def test_a_lookup_is_certain_or_silent(board):
    data = board.compute("stories", LOOKUP, "rejection", 4, 1.0, 1)
    q = [q for *_, q in data["best"]]
    assert set(q) <= {0.0, 1.0}
    greedy = board.compute("stories", HEAD, "rejection", 4, 0.0, 1)
    assert set(np.unique(greedy["overlaps"])) <= {0.0, 1.0}
    assert 0 < greedy["best"][0][1] <= 1  # the models' own probabilities


def test_a_click_and_an_arrow_key_pick_the_same_token(parts):
    board = Dashboard(*parts, task="edits")
    picker = board.controls["token"]
    assert len(picker.buttons.options) == len(board.compute(**board.values)["tokens"])
    by_slider = board.set(token=4)
    assert picker.buttons.index == 3
    board.set(token=1)
    picker.buttons.index = 3
    assert board.picture.caption == by_slider
    assert by_slider.startswith("Token 4 of 17")
    long = board.set(token=picker.max)  # beyond the end: the last token
    assert long.startswith("Token 17 of 17")
    assert picker.value == 17  # where an arrow key moves it at once
    board.set(task="stories")
    assert len(picker.buttons.options) > 17
    assert picker.buttons.index == 16


def test_a_chart_that_a_control_leaves_alone_is_not_drawn_again(parts, monkeypatch):
    board, drawn = Dashboard(*parts), []
    names = "token", "round", "temperatures"
    for name, panel in zip(names, board._panels, strict=True):
        was = panel.stage.png
        more = lambda data, n=name, f=was: (drawn.append(n), f(data))[1]  # noqa: E731
        monkeypatch.setattr(panel.stage, "png", more)
    token = board.values["token"]
    changes = {
        "token": (token % 9 + 1, ["token"]),
        "rule": ("match", ["round", "temperatures"]),
        "draft_tokens": (7, ["round", "temperatures"]),
        "temperature": (0.5, [*names]),
        "drafter": (HEAD, [*names]),
    }
    for name, (value, wanted) in changes.items():
        drawn.clear()
        board.set(**{name: value})
        assert drawn == wanted, name


def seen(board):
    """Return the pixels of each chart that the page shows."""
    images = re.findall(r"base64,([^\"]+)", board.picture.content)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(each)))) for each in images]


def test_a_picture_holds_nothing_of_the_ones_before_it(parts):
    board = Dashboard(*parts, task="edits", drafter=LOOKUP, rule="block", temperature=1.5)
    walk = (
        {"task": "stories", "draft_tokens": 8},
        {"drafter": HEAD, "temperature": 0.0},
        {"rule": "coupled", "draft_tokens": GAMMA, "token": 3},
        {"task": "sums", "drafter": DRAFT, "temperature": 1.0, "token": 27},
    )
    for moved in walk:
        board.set(**moved)
        start = board.values
        token = start.pop("token")
        fresh = Dashboard(*parts, **start)
        fresh.set(token=token)
        for panel, live, anew in zip(board._panels, seen(board), seen(fresh), strict=True):
            assert np.array_equal(live, anew), (moved, panel.keys)
        # and the still picture, drawn without the shortcut, shows the same
        fig = board.draw(board.compute(**board.values))
        still = np.asarray(Image.open(io.BytesIO(png(fig))))
        for panel, live in zip(board._panels, seen(board), strict=True):
            top = len(still) - round(100 * (HIGH - panel.top))
            left, (high, wide, _) = round(100 * panel.left), live.shape
            there = still[top : top + high, left : left + wide]
            assert np.array_equal(live[: len(there)], there), (moved, panel.keys)


def test_the_mark_stands_at_the_token_of_the_text_alone(board):
    for token in (1, 33):
        data = board.compute("sums", DRAFT, "rejection", 4, 1.0, token)
        names = [name for name, *_ in data["best"]]
        assert data["own"] is None or names[data["own"]] == visible(data["tokens"][token - 1])
    at_end = board.compute("stories", LOOKUP, "block", 8, 1.5, 99)
    assert at_end["own"] == 0  # the target ends the text; another id without letters is no mark


def test_the_still_picture_holds_the_text_and_says_what_it_is(board):
    board.set(**board._start)
    still = board.still
    assert "α = " in still.caption
    wide, high = Image.open(io.BytesIO(still.content)).size
    assert wide == 800
    assert high < 1000
    assert [look.name for look in OVERLAPS] == [
        "0.9 to 1", "0.5 to 0.9", "0.1 to 0.5", "below 0.1",
    ]  # fmt: skip
    assert overlap_look(0.95) == OVERLAPS[0]
    assert overlap_look(0.0) == OVERLAPS[3]

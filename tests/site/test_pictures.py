"""Lessons' pictures that the page's engine computes: the widgets' own, at any setting."""

import itertools
import json
import random
import re

import lablib
from lablib.course.lessons.lesson_00.widgets import StoryTeller
from lablib.course.lessons.lesson_03.widgets import BeforeAfter
from lablib.course.lessons.lesson_06.widgets import VoteBars
from lablib.course.replay.curves import Sampled
from lablib.course.tasks import stories

import numpy as np
import pytest
from oracles import page

NUMBER = re.compile(r"\d+\.\d+|\d+%?")


@pytest.fixture(scope="module", autouse=True)
def _node():
    page.need()


def assert_alike(wanted, found):
    """Compare pictures: the last digit may differ, as one of the two sums in another order."""
    if isinstance(wanted, str) and isinstance(found, str):
        assert NUMBER.sub("0", wanted) == NUMBER.sub("0", found)
        for one, other in zip(*map(NUMBER.findall, (wanted, found)), strict=True):
            last = 1.0001 if one.endswith("%") else 1.0001e-3 if "." in one else 0
            assert abs(float(one.rstrip("%")) - float(other.rstrip("%"))) <= last, (wanted, found)
    elif isinstance(wanted, dict):
        assert wanted.keys() == found.keys()
        for key, value in wanted.items():
            assert_alike(value, found[key])
    elif isinstance(wanted, list):
        assert len(wanted) == len(found)
        for pair in zip(wanted, found, strict=True):
            assert_alike(*pair)
    elif isinstance(wanted, float):
        assert abs(wanted - found) < 1e-5
    else:
        assert wanted == found


def compare(explorer, given, settings):
    job = {"do": "frames", "name": explorer.engine["name"], "given": given, "settings": settings}
    (found,) = page.run(job)
    for values, pair in zip(settings, found, strict=True):
        wanted = json.loads(json.dumps(explorer.frame(**values)))
        assert_alike(wanted, pair)


def test_cuts_are_the_widgets_at_any_setting():
    words = ["mat", "sofa", "floor", "roof", "table", "dog", "moon", "seven", "of", "zebra"]
    explorer = BeforeAfter(words, [4.0, 3.2, 3.0, 2.5, 2.4, 1.0, 0.5, -1.0, -2.0, -3.0])
    ends = itertools.product((0.0, 1.0, 3.0), (0, 4, 10), (0.05, 1.0), (0.0, 1.0))
    rng = random.Random(4)
    between = [
        (round(rng.uniform(0.1, 3), 1), rng.randrange(11), rng.uniform(0.06, 1), rng.random())
        for _ in range(150)
    ]
    names = ("temperature", "top_k", "top_p", "min_p")
    settings = [dict(zip(names, each, strict=True)) for each in (*ends, *between)]
    compare(explorer, explorer.engine["given"], settings)


def test_a_race_is_the_widgets_after_each_sample():
    rng = np.random.default_rng(9)
    for sure in (0.1, 0.4, 0.9):
        drawn = [
            "7" if rng.random() < sure else [*"0123456789", None][rng.integers(11)]
            for _ in range(32)
        ]
        explorer = VoteBars({"one": Sampled("7", drawn)})
        given = {"answers": drawn, "truth": "7", "all": 32}
        settings = [{"samples": n, "problem": "one"} for n in range(33)]
        compare(explorer, given, settings)


def test_a_story_is_the_widgets_at_each_temperature():
    """But for the checker's verdict: it knows the lesson's stories only."""
    model, tokenizer = lablib.load("target")
    explorer = StoryTeller(model, tokenizer, stories.problems(3, 1)[0], fork="", tries=1)
    told = {
        f"{temperature:g}": {
            **{"tokens": one.tokens, "chances": one.probabilities.tolist()},
            **{"first": one.ids[0], "text": text},
        }
        for text, (temperature, (one,)) in enumerate(explorer.stories.items())
    }
    opening = explorer.constants["texts"][0][: -len(told["0"]["tokens"])]
    parts = {"best": explorer.best.tolist(), "logits": explorer.logits.tolist()}
    given = {"opening": opening, "words": explorer.words, "stories": told, **parts}
    settings = [{"temperature": temperature} for temperature in explorer.TEMPERATURES]
    (found,) = page.run({"do": "frames", "name": "story", "given": given, "settings": settings})
    for values, (data, caption) in zip(settings, found, strict=True):
        wanted, said = json.loads(json.dumps(explorer.frame(**values)))
        del wanted["verdict"], wanted["right"]
        assert_alike([wanted, said.partition(", and the story")[0] + "."], [data, caption])


def test_another_picture_is_told_apart():
    with pytest.raises(AssertionError):
        assert_alike(["8 of 10 words stay."], ["7 of 10 words stay."])
    with pytest.raises(AssertionError):
        assert_alike({"bar": [0.1, 0.2]}, {"bar": [0.1, 0.21]})

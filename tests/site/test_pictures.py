"""Lessons' pictures that the page's engine computes: the widgets' own, at any setting."""

import itertools
import json
import random
import re
from dataclasses import asdict
from itertools import chain

import lablib
from lablib.course.lessons.lesson_00.widgets import StoryTeller
from lablib.course.lessons.lesson_01.widgets import Draw, NextToken
from lablib.course.lessons.lesson_03.widgets import BeforeAfter
from lablib.course.lessons.lesson_06.widgets import VoteBars
from lablib.course.lessons.lesson_07.widgets import Acceptance, GreedyText, greedy_text
from lablib.course.lessons.lesson_08 import dashboard
from lablib.course.plots.pictures import visible
from lablib.course.replay.curves import Sampled
from lablib.course.replay.recording import DRAFT, GAMMA, Recording
from lablib.course.replay.sampled import RULES
from lablib.course.tasks import TASKS, edits, stories, sums
from lablib.inference.completions import speculative_sample_n
from lablib.inference.sampling import random_numbers
from lablib.tools.acceptance import read

import mlx.core as mx
import numpy as np
import pytest
from oracles import page
from scipy.special import softmax

NUMBER = re.compile(r"\d+\.\d+|\d+%?")
NEAR = 1e-3  # of probabilities by logits that differ in float32's last digits


@pytest.fixture(scope="module", autouse=True)
def _node():
    page.need()


def assert_alike(wanted, found, near=1e-5):
    """Compare pictures; return how many numbers in words differ, by one in their last digit.

    That is a near tie: one of the two sums in another order, or rounds a half the other way.
    """
    if isinstance(wanted, str) and isinstance(found, str):
        wanted, found = (text.replace("<0.001", "0.00") for text in (wanted, found))
        assert NUMBER.sub("0", wanted) == NUMBER.sub("0", found)
        pairs = [*zip(*map(NUMBER.findall, (wanted, found)), strict=True)]
        return sum(_near_tie(*pair) for pair in pairs if pair[0] != pair[1])
    if isinstance(wanted, dict):
        assert wanted.keys() == found.keys()
        return sum(assert_alike(value, found[key], near) for key, value in wanted.items())
    if isinstance(wanted, list):
        assert len(wanted) == len(found)
        return sum(assert_alike(*pair, near) for pair in zip(wanted, found, strict=True))
    if isinstance(wanted, float):
        assert abs(wanted - found) < near
    else:
        assert wanted == found
    return 0


def _near_tie(one, other):
    digits = [len(text.rstrip("%").partition(".")[2]) for text in (one, other)]
    assert digits[0] == digits[1]
    assert digits[0] or one.endswith("%"), (one, other)  # whole numbers are counts
    last = 1.0001 * 10.0 ** -digits[0]
    assert abs(float(one.rstrip("%")) - float(other.rstrip("%"))) <= last, (one, other)
    return 1


def compare(explorer, given, settings, without=lambda data, caption: [data, caption]):
    job = {"do": "frames", "name": explorer.engine["name"], "given": given, "settings": settings}
    (found,) = page.run(job)
    ties = 0
    for values, pair in zip(settings, found, strict=True):
        wanted = json.loads(json.dumps(explorer.frame(**values)))
        ties += assert_alike(without(*wanted), without(*pair))
    print(f"{ties} near ties in {len(settings)} frames")
    assert ties <= len(settings) / 8


def asked(name, texts, about, settings):
    """Return the constants that a picture has of a reader's texts, and its frames."""
    job = {"do": "asked", "name": name, "texts": texts, "about": about, "settings": settings}
    return page.run(job)[0]


def grid(**values):
    """Return all settings of these values."""
    return [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]


def test_cuts_are_the_widgets_at_any_setting():
    words = ["mat", "sofa", "floor", "roof", "table", "dog", "moon", "seven", "of", "zebra"]
    explorer = BeforeAfter(words, [4.0, 3.2, 3.0, 2.5, 2.4, 1.0, 0.5, -1.0, -2.0, -3.0])
    ends = itertools.product((0.0, 1.0, 3.0), (0, 4, 10), (0.05, 1.0), (0.0, 1.0))
    rng = random.Random(4)
    draws = (lambda: round(rng.uniform(0.1, 3), 1), lambda: rng.randrange(11))
    draws += (lambda: rng.uniform(0.06, 1), rng.random)
    between = [tuple(draw() for draw in draws) for _ in range(150)]
    names = ("temperature", "top_k", "top_p", "min_p")
    settings = [dict(zip(names, each, strict=True)) for each in (*ends, *between)]
    compare(explorer, explorer.engine["given"], settings)


def test_a_race_is_the_widgets_after_each_sample():
    rng = np.random.default_rng(9)
    for sure, reach in ((0.1, True), (0.4, True), (0.4, False), (0.9, True)):
        others = [*"0123456789", None]
        drawn = ["7" if rng.random() < sure else others[rng.integers(11)] for _ in range(32)]
        explorer = VoteBars({"one": Sampled("7", drawn)}, reach)
        given = {"answers": drawn, "truth": "7", "all": 32, "top": explorer.top}
        given["constants"] = explorer.constants
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
    parts = {"best": explorer.order[: explorer.SHOWN].tolist(), "logits": explorer.logits.tolist()}
    given = {"opening": opening, "words": explorer.words, "stories": told, **parts}
    settings = [{"temperature": temperature} for temperature in explorer.TEMPERATURES]
    compare(explorer, given, settings, without_verdict)
    about = {"constants": explorer.constants, "stops": {"temperature": explorer.TEMPERATURES}}
    prompt = stories.problems(3, 1)[0].prompt
    constants, found = asked("story", [prompt], about, settings)
    lesson = explorer.constants["texts"]
    assert constants["texts"][: len(lesson)] == lesson  # they keep the picture's room
    assert constants["texts"][len(lesson) + 1 :] == lesson
    for values, (data, caption) in zip(settings, found, strict=True):
        told = json.dumps(explorer.frame(**values), ensure_ascii=False)
        wanted = without_verdict(*json.loads(told.replace("…", "")))  # of words that go on
        assert_alike(wanted, [{**data, "text": data["text"] - len(lesson) - 1}, caption], NEAR)


def without_verdict(data, caption):
    """Return a frame of a story without what the checker says."""
    data = {key: value for key, value in data.items() if key not in ("verdict", "right")}
    return [data, caption.partition("; the story")[0].removesuffix(".") + "."]


def test_a_dart_is_the_widgets_wherever_it_falls():
    words, logits = ["the", "cat", "dog", "sat", "ran", "."], np.log([2.0, 16, 8, 3, 2, 1])
    darts = grid(u=[round(0.01 * i, 2) for i in range(100)], temperature=[0.1, 0.7, 1.0, 3.0])
    compare(Draw(words, logits), {"words": words, "logits": logits.tolist()}, darts)


def test_a_dart_at_a_readers_text_has_the_models_words():
    model, tokenizer = lablib.load("target")
    prompt = "On a sunny day, Mia finds"
    settings = grid(u=[0.0, 0.5, 0.99], temperature=[0.3, 1.0, 2.0])
    about = {"constants": {"words": []}, "stops": {}}
    constants, found = asked("dart", [prompt], about, settings)
    logits = np.array(model(mx.array([tokenizer.encode(prompt)]))[0, -1], float)
    best = np.argsort(-logits, kind="stable")[:5]
    assert constants["words"] == [*(visible(tokenizer.decode([i])) for i in best), "others"]
    for values, (data, caption) in zip(settings, found, strict=True):
        chances = softmax(logits / values["temperature"])
        pieces = [*chances[best], 1 - chances[best].sum()]
        np.testing.assert_allclose(data["pieces"], pieces, atol=NEAR)
        hit = int(np.argmax(np.cumsum(pieces) > values["u"]))
        assert ("one of the others" if hit == 5 else f"'{constants['words'][hit]}'") in caption


def test_what_was_expected_is_the_widgets_at_any_place_and_temperature():
    """Of the lesson's texts, by what the widget has read; and of the reader's, by the page."""
    model, tokenizer = lablib.load("target")
    pieces = [tokenizer.decode([i]) for i in range(model.vocab_size)]
    whole = {
        name: problem.prompt + problem.answer
        for name, task in (("a story", stories), ("a sum", sums), ("an edit", edits))
        for problem in task.problems(14, 1)
    }
    whole["your text"] = "On a sunny day, Mia finds"
    texts = {name: [*tokenizer.encode(text), 2] for name, text in whole.items()}
    explorer = NextToken(model, texts, pieces)
    places = max(map(len, texts.values()))
    for name, ids in texts.items():
        settings = grid(position=[1, 7, 12, len(ids) - 1, places], temperature=[0.1, 1.0, 3.0])
        settings = [{**values, "text": name} for values in settings]
        given = {"name": name, "ids": ids, "words": pieces}
        given["logits"] = explorer.logits[name].tolist()
        compare(explorer, given, settings, of_one_text)
        about = {"constants": explorer.constants, "stops": {"position": [*range(1, places)]}}
        constants, found = asked("expected", [whole[name]], about, settings)
        assert constants["texts"] == [[*(pieces[i] for i in ids[1:-1]), " ?"]]
        for values, (data, caption) in zip(settings, found, strict=True):
            wanted, said = json.loads(json.dumps(explorer.frame(**values)))
            for now in (wanted, data):  # nothing comes after the reader's text
                del now["looks"][-1], now["notes"][-1]
            if values["position"] >= len(ids) - 1:
                assert caption.startswith("After your text '")
                assert "came" not in str(data["panels"])
                continue
            said = said.replace(f" of {name} ", " of your text ")
            assert_alike(of_one_text(wanted, said), of_one_text(data, caption), NEAR)


def of_one_text(data, caption):
    """Return a frame whose text is the only one."""
    return [{**data, "text": 0}, caption]


def test_a_text_that_has_no_place_on_the_slider_is_refused():
    about = {"constants": {"texts": []}, "stops": {"position": [1, 2, 3]}}
    with pytest.raises(AssertionError, match=r"The text is too long: \d+ tokens of 3, its end"):
        asked("expected", ["sum 1 2 3"], about, [])


def carpet_text(models, task, prompt, classes=None):
    """Return the target's greedy text after a prompt, and where the draft says the same."""
    (target, tokenizer), draft = models
    ids = tokenizer.encode(prompt)
    samples = lablib.sample_n(target, ids, 1, max_tokens=60, temperature=0.0, stop_tokens=[2])
    tokens = samples.tokens[0]
    pieces = [tokenizer.decode([i], skip_special_tokens=True) for i in range(target.vocab_size)]
    classes = classes or ["odd" if i % 3 else "even" for i in range(len(tokens))]
    return greedy_text(task, (target, draft), ids, tokens, pieces, classes)


@pytest.fixture(scope="module")
def models():
    return lablib.load("target"), lablib.load("draft")[0]


def test_a_carpet_is_the_widgets_at_every_stored_frame(models):
    problems = [(name, problem) for name in TASKS for problem in TASKS[name].problems(11, 3)]
    texts = [carpet_text(models, name, problem.prompt) for name, problem in problems]
    explorer = Acceptance(texts)
    for task, mine in explorer.texts.items():
        settings = grid(draft_tokens=range(1, 8), task=[task])
        compare(explorer, {"texts": [*map(asdict, mine)]}, settings)


def test_a_readers_texts_are_woven_as_in_python(models):
    """The last five of them have a row, and are counted."""
    prompts = ["sum 7 3 9 0 4 8:", "On a sunny day, Mia finds", edits.problems(1, 1)[0].prompt]
    prompts = [problem.prompt for problem in sums.problems(3, 3)] + prompts
    about = {"constants": Acceptance([ONE]).constants, "stops": {}}
    settings = grid(draft_tokens=range(1, 8), task=["sums"])
    constants, found = asked("carpet", prompts, about, settings)
    shown = constants["tasks"]["your texts"]
    pairs = zip(prompts[1:], shown, strict=True)
    texts = [carpet_text(models, "your texts", p, text["classes"]) for p, text in pairs]
    wanted = Acceptance(texts)
    for text, own in zip(texts, shown, strict=True):
        assert_alike(json.loads(json.dumps({**asdict(text), "task": 0})), {**own, "task": 0}, NEAR)
    for values, pair in zip(settings, found, strict=True):
        right = json.loads(json.dumps(wanted.frame(**{**values, "task": "your texts"})))
        assert_alike(right, pair)
    assert {*shown[-2]["classes"]} <= {"digit", "sign", "new word", "word goes on", "end"}
    assert shown[0]["classes"][-1] == "end"


ONE = GreedyText("sums", *(("a",) * 9,) * 3, *((1.0,) * 9,) * 2, (True,) * 9)


@pytest.fixture(scope="module")
def board(models):
    (target, tokenizer), draft = models
    words = [tokenizer.decode([i], skip_special_tokens=True) for i in range(target.vocab_size)]
    return dashboard.shipped_dashboard(target, draft, words, drafters=[DRAFT])


def tosses(board, task):
    """Return what the page is given of a task."""
    recording, at = board.recording, []
    along = recording.along(task, DRAFT)
    for temperature in recording.temperatures.tolist():
        compared, texts = board.models(task, DRAFT, temperature), []
        first = recording.of(temperature).start
        for row, (_, tokens) in enumerate(recording.texts(task, temperature)):
            some = first + row, slice(len(tokens))
            told = {name: getattr(along, name)[some] for name in ("p", "q", "both")}
            told = {k: np.reshape(x, (len(tokens), -1))[:, 0].tolist() for k, x in told.items()}
            if row < board.ROWS:
                told |= {name: compared[name][row] for name in ("overlaps", "best")}
                played = {r: fates(board, task, temperature, r, row) for r in dashboard.PLAYED}
                told["judged"] = played
            texts.append({"tokens": tokens, **told})
        counts = {rule: recording.counted(task, temperature, rule, DRAFT) for rule in RULES}
        kept = {rule: [each["accepted"], each["reached"]] for rule, each in counts.items()}
        at.append({"texts": texts, "counts": kept})
    coins, temperatures = board._coins.tolist(), recording.temperatures.tolist()
    return {"at": at, "rules": RULES, "engine": GAMMA, "coins": coins, "grid": temperatures}


def fates(board, task, temperature, rule, row):
    """Return what the coins of a text make of a draft at each of its places."""
    texts, first = board.recording.along(task, DRAFT), board.recording.of(temperature).start
    p, q = board.both(task, DRAFT, temperature)[row]
    chances, coins = texts.chances(rule)[first + row, :, 0], board._coins[row]
    tokens = board.recording.texts(task, temperature)[row][1]
    each = zip(p, q, tokens, chances, coins, strict=False)
    return [dashboard._fate(rule, *values) for values in each]


@pytest.mark.parametrize("task", TASKS)
def test_a_dashboard_is_the_widgets_at_stored_frames(board, task):
    chosen = {"task": [task], "drafter": [DRAFT], "rule": RULES, "draft_tokens": [1, 4, 5, 8]}
    settings = grid(**chosen, temperature=[0.0, 0.75, 1.5])
    compare(board, tosses(board, task), settings)


def test_a_readers_dashboard_is_pythons(board, models):
    """Texts, tosses, theory and the engine's counts: all of a prompt, by seed."""
    (target, tokenizer), draft = models
    prompt, temperatures, seed = "sum 7 3 9 0 4 8:", (0.0, 1.0), 5
    ids, more = tokenizer.encode(prompt), {"max_tokens": 72, "stop_tokens": [2], "seed": seed}
    texts, parts, counts = [], [], []
    for temperature in temperatures:
        n = board.ROWS if temperature else 1
        drawn = lablib.sample_n(target, ids, n, temperature=temperature, **more)
        mine = [(ids, tokens) for tokens in drawn.tokens] * (board.ROWS // n)
        texts += mine
        parts.append(read(target, draft, board._models[2], mine, temperature))
        for rule in RULES:
            how = {"temperature": temperature, "rule": rule, "draft_tokens": GAMMA, **more}
            stats = speculative_sample_n(target, draft, ids, n, **how).stats
            counts.append([stats["total_accepted"], stats["total_reached"], 0, 0])
    engine = np.repeat(np.reshape(counts, (1, 2, len(RULES), 1, 4)), 3, axis=3)
    measured = (np.concatenate(part) for part in zip(*parts, strict=True))
    one = ("your text",)
    recording = Recording(np.array(temperatures), one, board.ROWS, texts, *measured, engine)
    wanted = dashboard.Dashboard(recording, *board._models, board.words, drafters=[DRAFT])
    keys = [random_numbers.key(seed, row, 3) for row in range(board.ROWS)]
    keys = [np.full(72, key, np.uint64) for key in keys]
    wanted._coins = np.array([random_numbers.uniforms(key, np.arange(72)) for key in keys])
    about = {"constants": wanted.constants, "stops": {}, "seed": seed}
    settings = grid(task=["sums"], rule=RULES, draft_tokens=[1, 4, 8], temperature=temperatures)
    constants, found = asked("dashboard", [prompt], about, settings)
    assert constants["longest"] == wanted.constants["longest"]
    ties = 0
    for values, (data, caption) in zip(settings, found, strict=True):
        right, said = json.loads(json.dumps(wanted.frame(**{**values, "task": "your text"})))
        for name in ("overlaps", "judged", "columns"):  # in whole percent and per mille
            ties += near_ties(right.pop(name), data.pop(name))
        ties += near_words(right.pop("best"), data.pop("best"))
        assert_alike([right, said], [data, caption], NEAR)
    print(f"{ties} rounded shares differ by one, in {len(settings)} frames")
    assert ties < 10 * len(settings)


def near_ties(wanted, found):
    """Count the whole numbers that differ by one; none differs by more."""
    wanted, found = (np.array([*_leaves(each)]) for each in (wanted, found))
    assert wanted.shape == found.shape
    assert np.abs(wanted - found).max(initial=0) <= 1
    return int((wanted != found).sum())


def near_words(wanted, found):
    """Count the likely words whose p or q differs by one; which are left out may differ in dust."""
    ties = 0
    for some, others in zip(chain(*wanted), chain(*found), strict=True):
        mine, its = ({word: shares for word, *shares in each} for each in (some, others))
        assert len(mine) == len(its) == dashboard.WORDS
        for word in {*mine} | {*its}:
            p, q = np.abs(np.subtract(mine.get(word, (0, 0)), its.get(word, (0, 0))))
            assert max(p, q) <= 1
            ties += bool(p or q)
    return ties


def _leaves(values):
    for value in values:
        if isinstance(value, list):
            yield from _leaves(value)
        else:
            yield value


def test_another_picture_is_told_apart():
    with pytest.raises(AssertionError):
        assert_alike(["8 of 10 words stay."], ["7 of 10 words stay."])
    with pytest.raises(AssertionError):
        assert_alike({"bar": [0.1, 0.2]}, {"bar": [0.1, 0.21]})

"""The widgets of lesson 11 show what the library's tree and queue really do."""

import asyncio
import random
import threading
import time
from itertools import pairwise

from lablib.course.checks.running import TimeUp, time_limit
from lablib.course.lessons.lesson_11 import timeline as batches
from lablib.course.lessons.lesson_11 import widgets
from lablib.course.lessons.lesson_11.callers import together
from lablib.course.lessons.lesson_11.timeline import (
    FORWARD_MS,
    LOOKS,
    PADDING,
    PLACE_MS,
    RUN,
    BatchTimeline,
    follow,
    rows_of_steps,
)
from lablib.inference.async_lm.lm import AsyncMlxLM
from lablib.models.base import LanguageModel
from lablib.models.llama import llama_config

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import read
from oracles.refusals import refuses

QUERIES = [
    text.split()
    for text in (
        "the cat sat on the mat",
        "the cat ran home",
        "the dog sat",
        "a bird sang",
        "the cat sat on the roof",
        "the dog ran",
        "the cat ran home",
        "a bird flew off",
    )
]


def words(tokens):
    return " ".join(tokens)


def prefixes(prompts):
    return {tuple(p[:size]) for p in prompts for size in range(1, len(p) + 1)}


def new_lm(**options):
    model = LanguageModel(llama_config(30, 16, 2, 2, d_ff=16), seed=0)
    mx.eval(model.parameters())
    return AsyncMlxLM(model, None, **options)


def random_prompts(seed, count=60, tokens=3):
    draw = random.Random(seed)
    return [tuple(draw.choices(range(tokens), k=draw.randint(1, 7))) for _ in range(count)]


# The tree.
@pytest.mark.parametrize("budget", [7, 12, 30, 200])
def test_a_film_is_what_the_model_does(budget):
    prompts = random_prompts(budget)
    lm = new_lm(cache_size=budget)
    for prompt, scene in zip(prompts, widgets.scenes(prompts, budget)[1:], strict=True):
        before = lm.stats["token_forwards"]
        lm.next_token_logprobs_sync(list(prompt))
        assert lm.stats["token_forwards"] - before == scene.run
        ours = [(node["tokens"], node["depth"]) for node in scene.after]
        assert ours == [(node["tokens"], node["depth"]) for node in lm.cache.snapshot()]
    assert scene.total == lm.stats["token_forwards"]
    assert scene.alone == sum(map(len, prompts))


def test_without_eviction_each_prefix_runs_once_and_then_only_for_its_answer():
    played = widgets.scenes(QUERIES, 99)
    assert played[-1].total == len(prefixes(QUERIES))
    again = widgets.scenes([*QUERIES, QUERIES[0], QUERIES[0][:2]], 99)
    assert (again[-2].run, again[-1].run) == (0, 1)


def test_every_token_before_or_after_is_drawn_once():
    for scene in widgets.scenes(random_prompts(3), 10)[1:]:
        drawn = widgets.edges(scene, lambda tokens: "x" * len(tokens))
        before, after = prefixes(paths(scene.before)), prefixes(paths(scene.after))
        found = {scene.prompt[:size] for size in range(1, scene.found + 1)}
        sizes = {kind: sum(len(e.text) for e in drawn if e.status == kind) for kind in KINDS}
        assert sizes == {
            widgets.NEW: len(after - before),
            widgets.EVICTED: len(before - after),
            widgets.REUSED: len(found & before & after),
            widgets.HELD: len((before & after) - found),
        }
        for i, e in enumerate(drawn):
            above = drawn[e.parent] if e.parent >= 0 else None
            assert e.parent < i
            assert e.prefix[: -e.size] == (above.prefix if above else ())
            beside = [other for other in drawn[:i] if other.row == e.row]
            assert all(other.prefix == e.prefix[: len(other.prefix)] for other in beside)
            assert not beside or beside[-1] is above


KINDS = (widgets.HELD, widgets.REUSED, widgets.NEW, widgets.EVICTED)


def paths(snapshot):
    above = {None: ()}
    for node in snapshot:
        above[node["id"]] = above[node["parent"]] + node["tokens"]
    return [path for path in above.values() if path]


@pytest.mark.parametrize("budget", [6, 9, 12, 15])
def test_what_goes_was_used_longest_ago(budget):
    gone = 0
    for scene in widgets.scenes(QUERIES, budget)[1:]:
        drawn = widgets.edges(scene, words)
        lost = [scene.uses[edge.prefix] for edge in drawn if edge.status == widgets.EVICTED]
        inner = {edge.prefix[:size] for edge in drawn for size in range(len(edge.prefix))}
        leaves = {edge.prefix for edge in drawn if edge.status != widgets.EVICTED} - inner
        assert max(lost, default=0) <= min(scene.uses[leaf] for leaf in leaves)
        assert scene.uses[scene.prompt] == scene.number
        gone += len(lost)
    assert gone


def test_the_rows_of_steps_are_drawn_with_what_was_drawn_anew():
    chart = rows_of_steps([8, 8, 6, 1], [1, 5, 3, 1], [2])
    marks = chart.marks[0]
    assert [mark["line"][0] for mark in marks if "line" in mark] == [[1, 8], [1, 1]]
    assert [mark["rule"] for mark in marks if "rule" in mark] == [{"x": 2.5}]
    assert "sentences end" in {mark.get("text") for mark in marks}


def test_the_film_names_its_events():
    film = widgets.TreeFilm(QUERIES)
    player = film.controls["query"]
    assert player.value == player.play.value == 2  # there is a tree to see
    assert widgets.TreeFilm(QUERIES[:1]).values["query"] == 1
    assert film.set(query=0) == "No query yet; the tree holds 0 tokens."
    caption = film.set(query=2)
    assert caption.startswith("The tree knew 2 of the 4 tokens of “the cat ran home”, and 2 ran")
    assert "an edge is split after 2 tokens" in caption
    assert film.set(query=7).endswith("and 0 ran.")
    assert "to make room" in film.set(query=8, budget=8)
    drawn = film.draw(film.compute(query=8, budget=8))
    assert drawn["query"] == [["a", False], ["bird", False], ["flew", False], ["off", False]]
    assert (drawn["number"], drawn["budget"], drawn["held"]) == (8, 8, 8)
    assert (drawn["total"], drawn["alone"]) == (film.compute(query=8, budget=8).total, 33)
    drawn = widgets.edges(film.compute(query=8, budget=8), words)
    assert widgets.EVICTED in {edge.status for edge in drawn}
    said = "queries must be prompts of at least one word"
    refuses(ValueError, said, widgets.TreeFilm, [["a"], []])
    refuses(ValueError, "budget must be at least 6", widgets.TreeFilm, QUERIES, budget=5)


# The batches.
def timed(seed, count=30, gap=1.0):
    draw, when, queries = random.Random(seed), 0.0, []
    for prompt in random_prompts(seed, count):
        when += draw.choice([0.0, 0.0, 0.5, 3.0]) * gap
        queries.append((when, tuple(map(str, prompt))))
    return queries


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_the_made_up_clock_makes_the_batches_of_the_real_queue(batch_size):
    """All asked at once, so that no clock matters: the same forwards, row by row."""
    prompts = random_prompts(batch_size, 40)
    line = follow([(0.0, tuple(map(str, p))) for p in prompts], batch_size, 1.0)
    lm = new_lm(batch_size=batch_size, timeout=0.0)
    asyncio.run(lm.batch_next_token_logprobs(prompts))
    real = [sorted(forward) for batch in lm.trace for forward in batch.forwards]
    assert real == [sorted((p.start, p.stop) for p in f.pieces) for f in line.forwards]
    assert line.run == lm.stats["token_forwards"]
    assert sum(f.places for f in line.forwards) == line.run + lm.stats["padding"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("batch_size", "timeout"), [(1, 0.0), (4, 1.0), (9, 6.0)])
def test_everyone_is_answered_by_forwards_that_do_not_overlap(seed, batch_size, timeout):
    queries = timed(seed)
    line = follow(queries, batch_size, timeout)
    assert [(c.asked, c.prompt) for c in line.calls] == queries
    assert line.run >= len(prefixes(prompt for _, prompt in queries))
    for last, forward in zip(line.forwards, line.forwards[1:], strict=False):
        assert last.ended <= forward.began
    for forward in line.forwards:
        longest = max(p.stop - p.start for p in forward.pieces)
        width = FORWARD_MS + PLACE_MS * longest * len(forward.pieces)
        assert forward.ended - forward.began == pytest.approx(width)
    for call in line.calls:
        own = [f for f in line.forwards if f.batch == call.batch]
        if call.batch is None:
            assert call.answered == call.asked
            earlier = [c for c in line.calls if c.prompt == call.prompt and c.batch is not None]
            assert min(c.answered for c in earlier) <= call.asked
        else:
            assert call.answered == own[-1].ended > call.asked
            assert len({c.prompt for c in line.calls if c.batch == call.batch}) <= batch_size


def test_a_timeout_counts_from_the_last_arrival():
    line = follow([(0.0, ("a",)), (2.0, ("b",)), (4.0, ("c",))], 9, 3.0)
    assert [forward.began for forward in line.forwards] == [7.0]
    line = follow([(0.0, ("a",)), (2.0, ("b",)), (4.0, ("c",))], 2, 3.0)
    assert line.forwards[0].began == 2.0


def test_a_known_query_that_comes_as_a_forward_ends_holds_nobody_up():
    end = FORWARD_MS + PLACE_MS
    line = follow([(0.0, ("a",)), (2.0, ("b",)), (end, ("a",))], 1, 1.0)
    assert [call.answered for call in line.calls] == [end, 2 * end, end]


def test_a_piece_serves_whoever_begins_with_it():
    piece = batches.Stretch(("a", "b", "c", "d"), 1, 3)
    assert piece.serves(("a", "b", "c", "x")) == 2
    assert piece.serves(("a", "b")) == 1
    assert piece.serves(("a", "x", "c")) == 0
    assert piece.serves(("x", "b", "c")) == 0


def test_the_timeline_says_what_was_saved():
    timeline = BatchTimeline([(0, ["a", "b"]), (0, ["a", "c"]), (1, ["a", "b"])])
    assert timeline.set(batch_size=2).startswith("3 queries share ")
    data = timeline.compute(batch_size=2, timeout=1.0)
    assert timeline.view.caption.endswith(" Of 6 tokens 3 are run.")  # none is padding
    assert PADDING not in " ".join(str(key[1]) for key in timeline.chart(data).keys)
    assert data.calls[2].batch == data.calls[0].batch  # it joined one that was running
    assert f"{np.mean(data.waits):.1f} ms on average" in timeline.view.caption
    (marks,) = read(timeline.draw(data))
    assert "joins batch 1" in [mark.get("text") for mark in marks]
    for bad in ([], [(1, ["a"]), (0, ["b"])], [(0, [])]):
        refuses(ValueError, "queries must be", BatchTimeline, bad)


@pytest.mark.parametrize("batch_size", range(1, 7))
def test_a_batch_stands_above_the_forwards_that_it_takes(batch_size):
    timeline = BatchTimeline([(2.0 * i, query) for i, query in enumerate(QUERIES)])
    data = timeline.compute(batch_size, 10.0)
    batches = len({forward.batch for forward in data.forwards})
    assert f"in {batches} batches" in timeline.caption(data)
    (marks,) = read(timeline.draw(data))
    over = [mark for mark in marks if mark.get("key", "").startswith("o")]
    spans = [mark["bar"][:2] for mark in over]
    taken = [forward.ended - forward.began for forward in data.forwards]
    assert len(spans) == batches
    assert sum(right - left for left, right in spans) == pytest.approx(sum(taken))
    for batch, (mark, (left, right)) in enumerate(zip(over, spans, strict=True), 1):
        own = [each for each in data.forwards if left <= each.began < right]
        assert {each.batch for each in own} == {batch}
        assert own[-1].ended == right
        assert (f"{len(own)} forwards" in mark["note"]) == (len(own) > 1)
        texts = {" ".join(call.prompt) for call in data.calls if call.batch == batch}
        assert all(text in mark["note"] for text in texts)


def row_of(mark):
    """Return the number of the query in whose row a box or a line lies."""
    return int(mark["key"].split(".")[1]) if "bar" in mark else -mark["line"][0][1]


@pytest.mark.parametrize("batch_size", range(1, 7))
@pytest.mark.parametrize("timeout", [0.0, 1.0, 10.0])
def test_each_token_of_a_timeline_is_a_box_and_each_that_is_run_a_filled_one(batch_size, timeout):
    timeline = BatchTimeline([(2.0 * i, query) for i, query in enumerate(QUERIES)])
    data = timeline.compute(batch_size, timeout)
    (marks,) = read(timeline.draw(data))
    boxes = [mark for mark in marks if mark.get("key", "").startswith("b")]
    filled = [mark["fill"] for mark in boxes if "edge" not in mark]
    tokens = [mark for mark in boxes if PADDING not in mark["note"]]
    places = sum(forward.places for forward in data.forwards)
    assert f"{data.run} are run, {places} with padding" in timeline.caption(data)
    assert filled.count(LOOKS[RUN]["fill"]) == data.run
    assert filled.count(LOOKS[PADDING]["fill"]) == len(boxes) - len(tokens) == places - data.run
    for forward in data.forwards:  # a column is as wide as what is filled in it costs
        column = [box["bar"] for box in boxes if box["bar"][1] == forward.ended]
        paid = [box for box in boxes if box["bar"] in column and "edge" not in box]
        assert forward.ended - forward.began == FORWARD_MS + PLACE_MS * len(paid)
        lasts = [mark["bar"] for mark in marks if mark.get("key", "").startswith("p")]
        own = [bar for bar in lasts if forward.began <= bar[0] < forward.ended]
        assert len(own) == 1 + len(paid)
        assert own[-1][1] == forward.ended
    began = {forward.batch: forward.began for forward in reversed(data.forwards)}
    early = [call for call in data.calls if began.get(call.batch, -1) >= call.asked]
    late = [box for box in tokens if data.calls[row_of(box)] not in early]
    assert len(tokens) - len(late) == sum(len(call.prompt) for call in early)
    assert all("edge" in box for box in late)
    found = [mark for mark in boxes if "found in the tree" in mark["note"]]
    assert all("edge" in mark for mark in found)
    assert bool(found) == (len({call.batch for call in data.calls}) > 1)


@pytest.mark.parametrize("seed", range(40))
def test_a_token_has_one_box_in_a_forward(seed):
    rng = np.random.default_rng(seed)
    queries = [(float(9 * (i // 2)), tuple("abcde"[: rng.integers(1, 6)])) for i in range(6)]
    boxes = BatchTimeline.boxes(follow(queries, batch_size=2, timeout=1.0))
    assert len({box[:3] for box in boxes}) == len(boxes)


@pytest.mark.parametrize("batch_size", range(1, 7))
@pytest.mark.parametrize("timeout", [0.0, 1.0, 10.0])
def test_a_row_of_a_timeline_begins_when_it_is_asked_and_never_waits_where_it_runs(
    batch_size, timeout
):
    timeline = BatchTimeline([(1.4 * i, query) for i, query in enumerate(2 * QUERIES)])
    data = timeline.compute(batch_size, timeout)
    (marks,) = read(timeline.draw(data))
    spans = {(forward.began, forward.ended) for forward in data.forwards}
    boxes = [mark for mark in marks if mark.get("key", "").startswith("b")]
    waits = [mark for mark in marks if "line" in mark]
    for y, call in enumerate(data.calls):
        own = [box["bar"] for box in boxes if row_of(box) == y]
        waited = [[x for x, _ in wait["line"]] for wait in waits if row_of(wait) == y]
        for left, right, *_ in own:  # a token takes the whole forward, from when it is asked
            assert any(left == max(began, call.asked) and right == end for began, end in spans)
        times = {(left, right) for left, right, *_ in own} | set(map(tuple, waited))
        assert sum(b - a for a, b in times) == pytest.approx(call.answered - call.asked)
        heights = sorted((left, low, high) for left, _, low, high in own)
        for (left, _, high), (also, low, _) in pairwise(heights):
            assert left < also or high <= low + 1e-9


def test_who_waits_for_company_is_told_from_who_waits_for_a_turn():
    line = follow([(0.0, ("a",)), (2.0, ("b",)), (2.0, ("b",)), (4.0, ("c",))], 3, 9.0)
    assert [call.flushed for call in line.calls] == [2.0, 2.0, 2.0, 13.0]
    timeline = BatchTimeline([(2.0 * i, query) for i, query in enumerate(QUERIES)])
    for timeout, waited in ((0.0, False), (10.0, True)):
        (marks,) = read(timeline.draw(timeline.compute(6, timeout)))
        assert any(mark.get("dash") for mark in marks) == waited


# The callers of exercise 11.1.


async def never():
    await asyncio.get_running_loop().create_future()


async def soon(value):
    await asyncio.sleep(0)
    return value


def test_callers_run_side_by_side_also_inside_a_running_loop():
    async def notebook():
        return together([soon(1), soon(2)])

    assert together([]) == []
    assert together([soon(1), soon(2)]) == asyncio.run(notebook()) == [1, 2]


def test_who_waits_for_ever_is_told():
    refuses(RuntimeError, "nobody will answer", together, [never(), soon(1)])


def test_an_error_of_one_caller_ends_all():
    async def fails():
        raise KeyError("mine")

    refuses(KeyError, "mine", together, [never(), fails()])


def test_an_endless_caller_ends_with_its_call():
    async def spins():
        while True:
            pass

    before = threading.active_count()
    with pytest.raises(TimeUp), time_limit(0.2):
        together([spins()])
    end = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before

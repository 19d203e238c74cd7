"""A simulated server: who waits, what queueing theory says of it, and that the engine does so."""

from dataclasses import replace

import lablib
from lablib.course.replay.arrivals import Clocked, Metronome, prices_of, serve
from lablib.course.theory.serving import (
    Asked,
    Prices,
    Served,
    at_random,
    capacity,
    simulate,
    wait_of_one,
)
from lablib.inference.engine import continuous_batch, job
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.scripted import Ragged, random_table

SOME = st.lists(
    st.builds(Asked, st.integers(0, 40).map(float), st.integers(1, 99), st.integers(1, 9)),
    min_size=1,
    max_size=12,
)
PRICES = Prices({1: 1.0, 4: 1.5}, {4: 0.5, 64: 2.0}, {2: 0.25})


@given(SOME)
def test_one_text_at_a_time_waits_as_by_hand(asked: list[Asked]) -> None:
    asked = sorted((replace(each, prompt=1) for each in asked), key=lambda each: each.at)
    free = 0.0
    for each, served in zip(asked, simulate(asked, Prices({1: 2.0}), 1), strict=True):
        begin = max(free, each.at)
        free = begin + 2.0 * each.tokens
        assert (served.first, served.last) == (begin + 2.0, free)


@given(SOME, st.integers(1, 5), st.booleans())
def test_nobody_is_served_early_or_faster_than_alone(asked, most, in_pieces) -> None:
    found = simulate(asked, PRICES, most, in_pieces=in_pieces)
    for each, served in zip(asked, found, strict=True):
        (alone,) = simulate([replace(each, at=0.0)], PRICES, most)
        assert served.asked == each
        assert served.first >= each.at + PRICES.round(1)
        assert served.whole >= alone.whole - 1e-9
        assert served.last - served.first >= (each.tokens - 1) * PRICES.round(1) - 1e-9
        assert served.between <= served.longest + 1e-9 or each.tokens == 1


def test_pieces_spare_those_who_write_and_cost_the_newcomer() -> None:
    asked = [Asked(0.0, 1, 60), Asked(5.0, 400, 2)]
    whole, pieces = (simulate(asked, PRICES, 2, in_pieces=way) for way in (False, True))
    assert whole[0].longest > 3 * pieces[0].longest
    assert whole[1].to_first < pieces[1].to_first


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_random_arrivals_wait_as_pollaczek_and_khinchine_say(load: float) -> None:
    n = 12_000
    asked = [replace(a, prompt=1, tokens=1) for a in at_random(load / 2, n, seed=5)]
    waits = [each.to_first - 2 for each in simulate(asked, Prices({1: 2.0}), 1)]
    parts = np.mean(np.reshape(waits, (20, -1)), axis=1)  # long stretches hardly depend
    error = parts.std(ddof=1) / 20**0.5
    assert abs(np.mean(waits) - wait_of_one(load, 2.0)) < 8 * error
    assert abs(np.mean(waits) - wait_of_one(load, 2.0, spread=1.0)) > 8 * error  # it would show


def test_the_capacity_is_what_a_full_server_finishes() -> None:
    asked = at_random(1.0, 400, seed=1, prompt=1, tokens=10)
    tokens = np.mean([each.tokens for each in asked])
    assert capacity(asked, Prices({1: 1.0, 8: 2.0}), 8) == pytest.approx(4 / tokens, rel=0.03)


def test_the_same_requests_come_closer_together() -> None:
    slow, fast = at_random(1.0, 50, seed=2), at_random(4.0, 50, seed=2)
    assert [(a.prompt, a.tokens) for a in slow] == [(a.prompt, a.tokens) for a in fast]
    assert [a.at for a in slow] == pytest.approx([4 * a.at for a in fast])


def test_prices_lie_on_lines_between_those_that_are_known() -> None:
    prices = Prices({1: 1.0, 4: 2.5, 8: 3.5}, {8: 1.0, 16: 3.0})
    assert [prices.round(n) for n in (1, 2, 4, 6, 10)] == [1.0, 1.5, 2.5, 3.0, 4.0]
    assert [prices.read(n) for n in (0, 1, 8, 12)] == [0.0, 0.0, 1.0, 2.0]
    assert prices.join(3) == 0.0


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        (lambda: Prices({}), BadValue, "rounds must hold a price"),
        (lambda: Prices({0: 1.0}), BadValue, "rounds, a size"),
        (lambda: Prices({1: -1.0}), BadValue, r"rounds\[1\]"),
        (lambda: Prices({1: 1.0}, {4: "x"}), BadType, r"reads\[4\]"),
        (lambda: simulate([], PRICES, 0), BadValue, "most"),
        (lambda: wait_of_one(1.0, 2.0), BadValue, "load must be at least 0 and below 1"),
        (lambda: at_random(1.0, 0, 1), BadValue, "n must be"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        wrong()


# --- the engine -------------------------------------------------------------------------------
ROUND, ROW = (
    3.71828e-4,
    1.31415e-4,
)  # seconds; odd, so that no piece ends by rounding


class Priced(Ragged):
    """Its forwards take a time that is known, by the clock that the engine looks at."""

    now, slow = 0.0, 1.0

    def perf_counter(self) -> float:
        return self.now

    def __call__(self, tokens, cache=None):
        self.now += self.slow * (ROUND + ROW * tokens.size)
        return super().__call__(tokens, cache)


def three(served: list[Served]) -> np.ndarray:
    times = [(each.to_first, each.between, each.whole) for each in served]
    return np.percentile(times, [50, 90], axis=0)


@pytest.fixture
def priced(monkeypatch) -> Priced:
    model = Priced(random_table(97, 512, 1))
    for module in (continuous_batch, job):
        monkeypatch.setattr(module, "time", model)
    monkeypatch.setattr("lablib.course.replay.arrivals.clock", lambda: model.perf_counter)
    return model


@pytest.mark.parametrize("load", [0.3, 0.85])
def test_the_engine_takes_the_turns_of_the_simulation(priced: Priced, load: float) -> None:
    known = {tokens: ROUND + ROW * tokens for tokens in (1, 2)}
    prices = Prices(known, known)
    most = capacity(at_random(1.0, 60, 3), prices, 8)
    asked = at_random(load * most, 60, 3, prompt=40)  # some are read in pieces
    run = serve(Clocked(priced, 8), asked)
    np.testing.assert_allclose(three(run.served), three(simulate(asked, prices, 8)), rtol=1e-6)
    stay = np.mean([each.whole for each in run.served])
    assert run.in_system == pytest.approx(60 / run.seconds * stay, rel=0.05)


def test_prices_are_those_of_the_work(priced: Priced) -> None:
    prices = prices_of(priced, (1, 4))
    assert [prices.rounds[n] for n in (1, 4)] == pytest.approx([ROUND + ROW * n for n in (1, 4)])
    assert [prices.read(n) for n in (16, 64)] == pytest.approx([ROUND + ROW * n for n in (16, 64)])
    assert max(prices.joins.values()) < 2e-3


def test_a_metronome_takes_out_how_slow_the_machine_is(priced: Priced) -> None:
    plain = serve(Clocked(priced, 8), at_random(40.0, 30, 3))
    beats = Metronome(priced)
    steady = serve(Clocked(priced, 8, metronome=beats), at_random(40.0, 30, 3))
    np.testing.assert_allclose(three(steady.served), three(plain.served), rtol=1e-9)
    priced.slow = 1.7  # from here on all takes so many times as long
    for _ in range(5):
        beats.beat()
    slowly = serve(Clocked(priced, 8, metronome=beats), at_random(40.0, 30, 3))
    np.testing.assert_allclose(three(slowly.served), three(plain.served), rtol=1e-6)
    without = serve(Clocked(priced, 8), at_random(40.0, 30, 3))
    assert three(without.served)[0, 2] > 1.5 * three(plain.served)[0, 2]


def test_the_engine_decides_by_the_clock_that_it_is_given(priced: Priced) -> None:
    class Other:  # a clock on which pieces of prompts never end
        def perf_counter(self) -> float:
            priced.wall = getattr(priced, "wall", 0.0) + 1.0
            return priced.wall

    continuous_batch.time = Other()  # the fixture puts back what was there
    asked = [Asked(0.0, 2, 40), Asked(0.01, 120, 4)]
    run = serve(Clocked(priced, 8), asked)
    known = {tokens: ROUND + ROW * tokens for tokens in (1, 2)}
    np.testing.assert_allclose(
        three(run.served), three(simulate(asked, Prices(known, known), 8)), rtol=1e-6
    )


def test_the_youngest_gives_up_its_cache_and_all_end() -> None:
    model = lablib.LanguageModel(lablib.llama_config(512, 32, 2, 2), seed=1)
    mx.eval(model.parameters())
    server = Clocked(model, 8)
    room = int(2.5 * server.batch.models.footprint.of(8 + 150 + 64))
    run = serve(Clocked(model, 8, cache_bytes=room), [Asked(0.0, 8, 150)] * 4)
    assert run.evicted[0] == 0 < run.evicted[-1]
    assert [each.last for each in run.served] == sorted(each.last for each in run.served)

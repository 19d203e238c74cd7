"""Large pages change where weights lie, and nothing else; what has none is left alone."""

import sys
import types
from threading import Event

import lablib
from lablib.machine import pages
from lablib.models import zoo

import mlx.core as mx
import numpy as np
import pytest

MEGABYTE = 2**18  # numbers


@pytest.fixture
def arrays() -> list[mx.array]:
    found = [mx.random.normal((6, MEGABYTE), key=mx.random.key(i)) for i in range(6)]
    mx.eval(found)
    return found


def test_the_numbers_and_their_place_stay(arrays: list[mx.array]) -> None:
    before = [np.array(array) for array in arrays]
    where = [np.asarray(array).ctypes.data for array in arrays]
    most = sum(array.nbytes for array in arrays) // pages._LARGE + 2 * len(arrays)
    assert 0 <= pages.enlarge(arrays) <= most
    for array, numbers, place in zip(arrays, before, where, strict=True):
        assert np.asarray(array).ctypes.data == place
        np.testing.assert_array_equal(np.array(array), numbers)
    arrays[0][0, 0] = 7
    assert arrays[0][0, 0].item() == 7


def test_what_is_small_or_of_another_type_or_system_is_left_alone(arrays, monkeypatch):
    monkeypatch.setattr(pages.ctypes, "CDLL", lambda name: pytest.fail("asked the system"))
    assert pages.enlarge([]) == 0
    assert pages.enlarge(arrays[:1]) == 0
    assert pages.enlarge([array.astype(mx.bfloat16) for array in arrays]) == 0
    monkeypatch.setattr(sys, "platform", "darwin")
    assert pages.enlarge(arrays) == 0


def test_a_system_that_refuses_is_no_error(arrays, monkeypatch):
    if mx.default_device() == mx.gpu:
        pytest.skip("on a GPU nothing is asked")
    monkeypatch.setattr(sys, "platform", "linux")
    asked = []

    def madvise(place: int, size: int, advice: int) -> int:
        asked.append((place, size))
        return -1  # a Linux before 6.1, or one without a large page left

    library = types.SimpleNamespace(madvise=madvise)
    monkeypatch.setattr(pages.ctypes, "CDLL", lambda name: library)
    assert pages.enlarge(arrays) == 0
    assert len(asked) == len(set(asked))
    assert all(place % pages._LARGE == 0 and size == pages._LARGE for place, size in asked)
    for array in arrays:  # every byte lies on a page that was asked for
        start = np.asarray(array).ctypes.data
        for byte in (start, start + array.nbytes - 1):
            assert any(place <= byte < place + size for place, size in asked)


def test_loading_a_model_asks_for_its_weights_and_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[mx.array] = []
    loaded, asked = Event(), Event()

    def enlarge(arrays: list[mx.array]) -> None:
        loaded.wait(60)
        seen.extend(arrays)
        asked.set()

    monkeypatch.setattr(zoo.pages, "enlarge", enlarge)
    model, _ = lablib.load("draft")
    loaded.set()
    assert asked.wait(60)
    assert any(array is model.model.embed_tokens.weight for array in seen)

"""Every picture that a lesson's test draws has words that can be read, on light and dark pages."""

import pytest
from oracles import ink


@pytest.fixture(autouse=True)
def _readable():
    with ink.read_all() as faint:
        yield
    assert sorted({*faint}) == []

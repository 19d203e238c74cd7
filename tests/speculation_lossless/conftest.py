"""What the enumerations share."""

import mlx.core as mx
import pytest
from oracles.explored import explorer


@pytest.fixture
def uncompiled():
    """Run the definitions themselves: in a compiled function no draw can be explored.

    ``tests/speculation/test_compiled_draws.py`` holds the compiled ones to them.
    """
    mx.disable_compile()
    yield
    mx.enable_compile()


@pytest.fixture
def explored(monkeypatch, uncompiled):
    """Explore all that speculation can write: see ``oracles/explored.py``."""
    return explorer(monkeypatch)

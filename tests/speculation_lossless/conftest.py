"""What the enumerations share."""

import mlx.core as mx
import pytest


@pytest.fixture
def uncompiled():
    """Run the definitions themselves: in a compiled function no draw can be explored.

    ``tests/speculation/test_compiled_draws.py`` holds the compiled ones to them.
    """
    mx.disable_compile()
    yield
    mx.enable_compile()

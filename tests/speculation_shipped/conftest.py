"""Shared by this room: the models that come with the clone."""

from typing import Any

from lablib.models import zoo

import pytest


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any, Any]:
    """Return the shipped target and draft, and their tokenizer."""
    if not {"target", "draft"} <= set(zoo.names()):
        pytest.skip("the checkpoints are not trained yet")
    target, tokenizer = zoo.load("target")
    draft, _ = zoo.load("draft")
    return target, draft, tokenizer

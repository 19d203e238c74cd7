"""What is refused, and by which words: a call and its error on one line."""

import pytest


def refuses(error, said, call, /, *arguments, **options):
    """Check that a call ends with this error, whose message has these words (a pattern)."""
    __tracebackhide__ = True
    with pytest.raises(error, match=said):
        call(*arguments, **options)

"""The claims of a lesson's sentences, checked where they are made.

A folded cell behind the sentences says what must hold for each: ``claim("The sentence.", a > b)``.
"""


def claim(sentence: str, holds: object) -> None:
    """Raise if what a sentence of the lesson says does not hold; otherwise say nothing.

    Args:
        sentence: as it stands in the text above.
        holds: True or False, NumPy's too. Anything else is refused: a NaN, say, counts as true.

    Raises:
        AssertionError: it does not hold.
        TypeError: ``holds`` is no truth value.
    """
    if type(holds).__name__ not in ("bool", "bool_"):
        raise TypeError(f"holds must be True or False, got {holds!r}")
    if not holds:
        raise AssertionError(f"this does not hold here: {sentence}")

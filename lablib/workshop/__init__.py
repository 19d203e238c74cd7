"""Measures the shipped models, and gives the lessons the stored results."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "evaluate": "lablib.workshop.evaluation",
        "stored": "lablib.workshop.results",
        "stored_sums": "lablib.workshop.results",
    },
)

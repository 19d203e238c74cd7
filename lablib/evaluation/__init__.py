"""Measures the shipped models, and gives the lessons the stored results."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "evaluate": "lablib.evaluation.run",
        "stored": "lablib.evaluation.results",
        "stored_sums": "lablib.evaluation.results",
    },
)

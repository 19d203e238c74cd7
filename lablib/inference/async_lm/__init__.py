"""Let many callers share batches and prefixes without knowing of each other."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.inference.async_lm.genlm": "Query",
        "lablib.inference.async_lm.lm": "AsyncMlxLM",
    },
)

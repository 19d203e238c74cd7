"""Many callers share batches and prefixes without knowing of each other."""

from lablib.inference.async_lm.lm import AsyncMlxLM
from lablib.inference.async_lm.queue import Query

__all__ = ["AsyncMlxLM", "Query"]

"""A batch that never ends: requests join it and leave it, for a server's callers.

    ask  ->  wait for room  ->  read the prompt in pieces  ->  join a lane  ->  leave

``ContinuousBatch.turn`` is one turn of all. It speaks token ids and knows no thread and no event
loop: these, and texts, are ``lablib.Engine``'s.
"""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__, {"lablib.inference.engine.continuous_batch": "ContinuousBatch"}
)

"""Remember between a model's calls: make caches, fan them out, cut them back, share prefixes."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, {})

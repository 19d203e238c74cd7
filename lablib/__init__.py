"""lablib: a lab about language-model inference on MLX.

Import it before ``mlx``: it puts the fast BLAS in place, and that cannot be changed afterwards. The
names below load what they need when they are first used, so that importing the package is quick.
"""

import importlib
from typing import Any

from lablib import backend

backend.configure()

__version__ = "0.1.0"

_WHERE = {
    "doctor": "lablib.doctor",
    "set_threads": "lablib.backend",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'lablib' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])

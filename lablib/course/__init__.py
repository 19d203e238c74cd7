"""The functions of a lesson: ``check``, ``predict`` and their like."""

import importlib
from typing import Any

_HOMES = {
    "checks.checking": ["assessment", "check", "hint", "progress", "solution", "solved"],
    "checks.explanations": ["explain"],
    "checks.predictions": ["outcome", "predict", "recall"],
    "waiting": ["watch"],
}
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Says in one line why lablib can't be loaded here; needs nothing, and runs on older Pythons."""

import os
import platform
import sys

OLDEST = (3, 11)
HOW = "python3 -m venv .venv && .venv/bin/python -m pip install --editable '.[lab]'"


def complaint(error: Exception) -> str:
    """Name what is missing and how to install it; return "" when that is not the reason."""
    if sys.version_info < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        return f"{sys.executable} is Python {platform.python_version()}, older than {wanted}"
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("lablib"):
        here = os.path.join(os.path.dirname(os.path.dirname(__file__)), ".venv", "bin", "python")
        if os.path.exists(here) and not sys.executable.startswith(os.path.dirname(here)):
            return f"{sys.executable} has no {error.name}: write {here} in place of python"
        return f"{sys.executable} has no {error.name}; in the clone, once: {HOW}"
    return ""

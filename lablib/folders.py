"""Folders that only this user can write to: what is made once, for all environments, goes there."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def own() -> Iterator[Path]:
    """Yield them, made if need be: the user's cache, and one among temporary files."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    kept = named if os.path.isabs(named) else os.path.expanduser("~/.cache")
    passing = os.path.join(tempfile.gettempdir(), f"lablib-{os.getuid()}")
    # Somebody without a home keeps the "~".
    for cache in map(Path, filter(os.path.isabs, (kept, passing))):
        folder = cache / "lablib"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        # In a folder that all may write to, somebody else could have put something of theirs.
        if folder.stat().st_uid == cache.stat().st_uid == os.getuid():
            yield folder

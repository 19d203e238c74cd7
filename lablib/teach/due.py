"""Until when something was due, and whether a file is late: its own time is all that is known."""

import os
from datetime import date, datetime
from pathlib import Path

from lablib.validation import BadType, BadValue, shown


def read_due(due: str | datetime) -> datetime:
    """Return a moment; without an offset it is in this machine's time zone.

    Raises:
        BadType: it is neither a text nor a ``datetime``.
        BadValue: it is no date with a time.
    """
    if not isinstance(due, str | datetime):
        raise BadType(f"due must be a date and a time, 2026-11-30T23:59 say, got {shown(due)}")
    try:
        moment = datetime.fromisoformat(due) if isinstance(due, str) else due
        if not _is_day(due):  # it would be the first moment of that day
            # By the clock's own count: what is due in the hour that a spring leaves out is later.
            return datetime.fromtimestamp(moment.timestamp()).astimezone()
    except (ValueError, OverflowError, OSError):  # the last two: of years that no clock has
        pass
    raise BadValue(f"due must be a date and a time, 2026-11-30T23:59 say, got {shown(due)}")


def is_late(path: Path, due: datetime) -> bool:
    """Return whether a file, not what it may lead to, was modified after a moment."""
    try:
        return os.lstat(path).st_mtime > due.timestamp()
    except OSError:  # it is gone by now
        return False


def note(due: datetime) -> str:
    """Return what being late means, for whoever reads the report."""
    moment = due.isoformat(sep=" ", timespec="minutes")
    return (
        f"Late is a file that was modified after {moment}, by its own time, which is all that is "
        "known: copying, unpacking or a wrong clock may have changed it."
    )


def _is_day(due: str | datetime) -> bool:
    try:
        date.fromisoformat(str(due))
    except ValueError:
        return False
    return True

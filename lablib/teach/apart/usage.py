"""What a process and its children have used: processor time, and where their memory lies."""

import contextlib
import re
from pathlib import Path
from typing import Any


def family(pid: int) -> list[Any]:
    """Return a process and all its children (``psutil.Process``); none once it has ended."""
    import psutil  # JupyterLab has it; who only infers needs none

    with contextlib.suppress(psutil.Error):
        outer = psutil.Process(pid)
        return [outer, *outer.children(recursive=True)]
    return []


def worked(processes: list[Any]) -> float | None:
    """Return the seconds of processor time that they have used; None once one has ended."""
    import psutil

    with contextlib.suppress(psutil.Error):
        if processes:
            return sum(sum(each.cpu_times()[:4]) for each in processes)
    return None


def tables(processes: list[Any]) -> int:
    """Return the bytes of their page tables, which no limit of memory counts; 0 where unknown."""
    told: list[str] = []
    for each in processes:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{each.pid}/status").read_text()
            told += re.findall(r"^VmPTE:\s*(\d+) kB", status, re.MULTILINE)
    return sum(map(int, told)) << 10

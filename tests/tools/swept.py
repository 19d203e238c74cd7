"""A tiny sweep in processes of its own: what the tests of sweeps start.

``python swept.py OUT PATIENCE [FAULT:RANK [BYTES]]``: 40 units in groups of 3; as soon as the file
holds a record, the rank with the fault kills itself, stops, sleeps for a minute, or raises. No file
can grow beyond BYTES, as on a disk that is full then.
"""

import os
import resource
import signal
import sys
import time
from functools import partial
from pathlib import Path

from lablib.tools.sweep import SweepError, grouped, rounds, run, seed_of

HOARD: list[bytearray] = []
UNITS = [{"problem": i, "temperature": t} for t in (0.5, 1.0) for i in range(20)]


def work(group):
    name, _, rank = sys.argv[3].partition(":") if len(sys.argv) > 3 else ("", "", "")
    HOARD.append(bytearray(1 << 23))  # a rank at the end of its memory does not get that
    guilty = rank == os.environ.get("MLX_RANK", "0")
    if guilty and Path(sys.argv[1]).read_text().count("\n") > 1:
        if name == "raise":
            raise ValueError("no such luck")
        if name == "sleep":
            time.sleep(60)
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[name])
    time.sleep(0.01 * len(group))
    return [{"drawn": seed_of(7, unit) % 1000 / 8, "with": len(group)} for unit in group]


def main() -> int:
    # So short a sweep would be one round: what is written between rounds is what is tried here.
    rounds.round_seconds = partial(rounds.round_seconds, least=0.05)
    if len(sys.argv) > 4:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]),) * 2)
    groups = grouped(UNITS, 3, like=lambda unit: unit["temperature"])
    how = {"settings": {"seed": 7}, "patience": float(sys.argv[2]), "progress": False}
    how["limit"] = 3 if len(sys.argv) > 3 else None
    try:
        found = run(groups, work, out=sys.argv[1], **how)
    except SweepError as error:
        print(error)
        return 1
    assert found is None or [each["problem"] for each in found] == 2 * [*range(20)]
    return 0


if __name__ == "__main__":
    sys.exit(main())

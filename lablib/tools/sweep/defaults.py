"""The default amount of work of each kind of sweep; light, as the command line shows it."""

from typing import Any

RULES = ("match", "coupled", "rejection", "block")  # replay.sampled.RULES
DEFAULTS: dict[str, dict[str, Any]] = {
    "votes": {"problems": 50, "n": (16,), "temperatures": (0.5, 1.0)},
    "acceptance": {
        "problems": 20, "n": (4,), "temperatures": (0.0, 0.5, 1.0), "gammas": (4,), "rules": RULES,
    },
    "speed": {
        "problems": 5, "n": (1, 8), "temperatures": (1.0,), "gammas": (0, 4),
        "rules": ("rejection",),
    },
}  # fmt: skip

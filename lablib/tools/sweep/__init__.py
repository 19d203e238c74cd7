"""Sweeps over problems and settings, by one process or by many: ``python -m lablib sweep``.

``rounds`` deals units to ranks (how long one is: ``theory.scaling``) · ``ranks`` is MLX's
distributed engine and how its processes start, and end · ``watch`` names a rank that is lost ·
``file`` is the JSON Lines that one process writes at a time, and a killed sweep goes on from.
``kinds`` says what is swept, ``drawing`` draws it, ``command`` is the command line.
``tools.evaluation`` is a sweep, too; ``tools.bench`` is not: its times count in pairs, taken in
turns on a machine where nothing else runs.
"""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.course.theory.scaling": "simulate",
        "lablib.tools.sweep.file": "read",
        "lablib.tools.sweep.ranks": "SweepError start",
        "lablib.tools.sweep.rounds": "grouped run seed_of",
    },
)

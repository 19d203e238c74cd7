"""The speed of lablib here, and beside its peers: ``python -m lablib bench``.

``plan`` says what is measured and on which models, the ``side_*`` files do it, each in a process of
its own, ``turns`` lets them take turns, ``run`` goes through all of it, and ``report`` shows it.
"""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.tools.bench.plan": "QUICK Plan",
        "lablib.tools.bench.run": "bench",
        "lablib.tools.bench.turns": "SideError",
    },
)

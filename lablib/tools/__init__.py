"""The makers and the measures of the shipped models.

``recipes`` → ``training``, ``verifier_training`` make them; ``evaluation`` measures them:
``completions`` (``parts`` draws them, as units of a ``sweep``, which many processes or machines can
share), ``votes``, ``speculation`` and ``past_the_end`` are what it measures,
``requirements`` what must come out; ``results`` stores it, ``report`` and ``cards`` show it.
``forecast`` asks of any two models whether speculation would pay, ``bench`` how fast lablib is
beside its peers. ``saving`` writes any model, and ``fetch`` one that others made (``gguf``).
"""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.tools.evaluation": "evaluate",
        "lablib.tools.results": "stored stored_sums",
    },
)

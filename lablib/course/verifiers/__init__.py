"""Verifiers: judges of a finished solution.

A verifier is a scorer: ``verifier(sequences (n, seq_len), lengths, prompt_length) -> (n,)``, where
more is better. So it can rank (``best_of_n(score_fn=...)``) and, through ``log_weight``, weigh
votes. ``Exact`` never errs and is what a real task lacks; ``Noisy`` makes it err in a way that can
be dialled; ``Verifier`` has learned. The engine knows none of them: it takes any function.
"""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.course.verifiers.exact": "Exact log_weight",
        "lablib.course.verifiers.learned": "Verifier load_verifier",
        "lablib.course.verifiers.noisy": "Noisy",
    },
)

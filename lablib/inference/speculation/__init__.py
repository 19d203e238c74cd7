"""Act 3: a cheap guess of several tokens, verified by the target in one forward."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.drafters": "EarlyExit Head NGram Tree",
        "lablib.inference.speculation.draft_length": "AdaptiveLength",
        "lablib.inference.speculation.drafters": "DraftModel Drafter",
        "lablib.inference.speculation.many": (
            "speculative_batch speculative_batches speculative_sample_n"
        ),
        "lablib.inference.speculation.proposal": "Proposal",
        "lablib.inference.speculation.tokens": (
            "FixedLength SpeculativeTokenIterator speculative_decode"
        ),
        "lablib.replay.measure": "measure_costs",
        "lablib.theory.costs": "Costs",
    },
)

"""Act 3: a cheap guess of several tokens, verified by the target in one forward."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.inference.speculation.block": "Block",
        "lablib.inference.speculation.costs": "Costs",
        "lablib.inference.speculation.draft_length": "AdaptiveLength DraftLength FixedLength",
        "lablib.inference.speculation.draft_model": "DraftModel",
        "lablib.inference.speculation.draft_tree": "Tree",
        "lablib.inference.speculation.drafter": "Drafter",
        "lablib.inference.speculation.early_exit": "EarlyExit first_layers",
        "lablib.inference.speculation.lookup_first": "LookupFirst",
        "lablib.inference.speculation.ngram": "NGram",
        "lablib.inference.speculation.ngram_pool": "NGramPool",
        "lablib.inference.speculation.proposal": "Proposal",
        "lablib.inference.speculation.speculative_iterator": (
            "SpeculativeTokenIterator speculative_decode"
        ),
        "lablib.inference.speculation.tempered": "Tempered",
        "lablib.inference.speculation.trained_head": "Head",
    },
)

"""Act 2: many completions, one answer."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.inference.samples": "Samples",
        "lablib.inference.voting.many": "sample_batches sample_n",
        "lablib.inference.voting.vote": (
            "AdaptiveVotes Candidate Votes best_of_n majority_vote on_text tally vote_until"
        ),
    },
)

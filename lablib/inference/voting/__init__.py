"""Act 2: many completions, one answer."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.inference.voting.estimate": "pass_at_k",
        "lablib.inference.voting.stopping": "StopRule",
        "lablib.inference.voting.vote": (
            "AdaptiveVotes Candidate Votes best_of_n majority_vote tally vote_until"
        ),
    },
)

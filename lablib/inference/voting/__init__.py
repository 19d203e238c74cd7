"""Act 2: many completions, one answer."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.inference.voting.estimate": "pass_at_k",
        "lablib.inference.voting.many": "best_of_n_many vote_many",
        "lablib.inference.voting.stopping": "StopRule",
        "lablib.inference.voting.vote": "Candidate best_of_n majority_vote vote_until",
        "lablib.inference.voting.votes": "AdaptiveVotes Votes tally",
    },
)

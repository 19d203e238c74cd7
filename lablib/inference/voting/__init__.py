"""Act 2: many completions, one answer."""

from lablib.inference.samples import Samples
from lablib.inference.voting.many import sample_batches, sample_n
from lablib.inference.voting.vote import (
    AdaptiveVotes,
    Candidate,
    Votes,
    best_of_n,
    majority_vote,
    on_text,
    tally,
    vote_until,
)

__all__ = [
    "AdaptiveVotes", "Candidate", "Samples", "Votes", "best_of_n", "majority_vote", "on_text",
    "sample_batches", "sample_n", "tally", "vote_until",
]  # fmt: skip

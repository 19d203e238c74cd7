"""Act 3: a cheap guess of several tokens, verified by the target in one forward."""

from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import AdaptiveLength
from lablib.inference.speculation.drafters import Drafter, DraftModel, EarlyExit, NGram
from lablib.inference.speculation.many import speculative_sample_n
from lablib.inference.speculation.measure import measure_costs
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.speculation.tokens import (
    FixedLength,
    SpeculativeTokenIterator,
    speculative_decode,
)

__all__ = [
    "AdaptiveLength", "Costs", "DraftModel", "Drafter", "EarlyExit", "FixedLength", "NGram",
    "Proposal", "SpeculativeTokenIterator", "measure_costs", "speculative_decode",
    "speculative_sample_n",
]  # fmt: skip

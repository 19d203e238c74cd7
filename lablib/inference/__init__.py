"""Turning logits into text: sampling, generation, voting, speculation.

The names below load their module when they are first used.
"""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "Completion": "lablib.inference.generation",
        "Distribution": "lablib.inference.distribution",
        "SampleResult": "lablib.inference.sampling",
        "Sampler": "lablib.inference.sampling",
        "SamplerOptions": "lablib.inference.options",
        "Samples": "lablib.inference.samples",
        "Token": "lablib.inference.decoding",
        "TokenIterator": "lablib.inference.decoding",
        "best_of_n": "lablib.inference.voting",
        "generate": "lablib.inference.generation",
        "majority_vote": "lablib.inference.voting",
        "pass_at_k": "lablib.inference.estimators",
        "sample_batches": "lablib.inference.samples",
        "sample_n": "lablib.inference.samples",
        "stream": "lablib.inference.generation",
        "vote_until": "lablib.inference.voting",
    },
)

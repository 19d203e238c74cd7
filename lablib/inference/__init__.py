"""Turning logits into text: sampling, generation, voting, speculation.

The names below load their module when they are first used.
"""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "AdaptiveLength": "lablib.inference.draft_length",
        "AsyncMlxLM": "lablib.inference.async_lm",
        "Completion": "lablib.inference.generation",
        "Costs": "lablib.inference.theory",
        "Distribution": "lablib.inference.distribution",
        "DraftModel": "lablib.inference.drafters",
        "EarlyExit": "lablib.inference.drafters",
        "NGram": "lablib.inference.drafters",
        "Query": "lablib.inference.async_queue",
        "SampleResult": "lablib.inference.sampling",
        "Sampler": "lablib.inference.sampling",
        "SamplerOptions": "lablib.inference.options",
        "Samples": "lablib.inference.samples",
        "SpeculativeTokenIterator": "lablib.inference.speculative",
        "Token": "lablib.inference.loop",
        "TokenIterator": "lablib.inference.decoding",
        "best_of_n": "lablib.inference.voting",
        "generate": "lablib.inference.generation",
        "majority_vote": "lablib.inference.voting",
        "pass_at_k": "lablib.inference.estimators",
        "sample_batches": "lablib.inference.samples",
        "sample_n": "lablib.inference.samples",
        "speculative_decode": "lablib.inference.speculative",
        "speculative_sample_n": "lablib.inference.speculative_batch",
        "stream": "lablib.inference.generation",
        "vote_until": "lablib.inference.voting",
    },
)

"""Turning logits into text: sampling, generation, voting, speculation.

The names below load their module when they are first used.
"""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "AdaptiveLength": "lablib.inference.speculation",
        "AsyncMlxLM": "lablib.inference.async_lm",
        "Completion": "lablib.inference.text",
        "Costs": "lablib.inference.speculation",
        "DraftModel": "lablib.inference.speculation",
        "EarlyExit": "lablib.inference.speculation",
        "NGram": "lablib.inference.speculation",
        "Query": "lablib.inference.async_lm",
        "SampleResult": "lablib.inference.sampling",
        "Sampler": "lablib.inference.sampling",
        "SamplerOptions": "lablib.inference.sampling",
        "Samples": "lablib.inference.samples",
        "SpeculativeTokenIterator": "lablib.inference.speculation",
        "Token": "lablib.inference.token_loop",
        "TokenIterator": "lablib.inference.tokens",
        "best_of_n": "lablib.inference.voting",
        "generate": "lablib.inference.text",
        "majority_vote": "lablib.inference.voting",
        "pass_at_k": "lablib.theory.estimators",
        "sample_batches": "lablib.inference.voting",
        "sample_n": "lablib.inference.voting",
        "speculative_decode": "lablib.inference.speculation",
        "speculative_sample_n": "lablib.inference.speculation",
        "stream": "lablib.inference.text",
        "vote_until": "lablib.inference.voting",
    },
)

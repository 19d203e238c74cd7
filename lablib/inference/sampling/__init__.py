"""Act 1: from a row of logits to a token."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.inference.sampling.processors": "sampled_by",
        "lablib.inference.sampling.options": "SamplerOptions",
        "lablib.inference.sampling.sampler": "SampleResult Sampler",
    },
)

"""Act 1: from a row of logits to a token."""

from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.sampler import Sampler, SampleResult

__all__ = ["SampleResult", "Sampler", "SamplerOptions"]

# Made from the table in __init__.py by tests/stubs.py.
from lablib.inference.sampling.options import SamplerOptions as SamplerOptions
from lablib.inference.sampling.processors import sampled_by as sampled_by
from lablib.inference.sampling.sampler import SampleResult as SampleResult
from lablib.inference.sampling.sampler import Sampler as Sampler

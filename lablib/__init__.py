"""lablib: a lab about language-model inference on MLX.

Import it before ``mlx``: it puts the fast BLAS in place, and that cannot be changed afterwards. The
names below load what they need when they are first used, so that importing the package is quick.
"""

from lablib import backend
from lablib.lazy import exports

backend.configure()

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "AsyncMlxLM": "lablib.inference",
        "LanguageModel": "lablib.models",
        "Sampler": "lablib.inference",
        "SamplerOptions": "lablib.inference",
        "SpeculativeTokenIterator": "lablib.inference",
        "TokenIterator": "lablib.inference",
        "best_of_n": "lablib.inference",
        "check": "lablib.classroom",
        "doctor": "lablib.machine",
        "generate": "lablib.inference",
        "gpt_config": "lablib.models",
        "hint": "lablib.classroom",
        "hybrid_config": "lablib.models",
        "llama_config": "lablib.models",
        "load": "lablib.models",
        "majority_vote": "lablib.inference",
        "pass_at_k": "lablib.inference",
        "progress": "lablib.classroom",
        "sample_n": "lablib.inference",
        "save": "lablib.models",
        "set_threads": "lablib.backend",
        "solution": "lablib.classroom",
        "speculative_decode": "lablib.inference",
        "speculative_sample_n": "lablib.inference",
        "stream": "lablib.inference",
        "vote_until": "lablib.inference",
    },
)

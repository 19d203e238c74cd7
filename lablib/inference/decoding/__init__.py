"""One decoder, and the doors to it: one text, samples of a prompt, a queue of prompts."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.inference.decoding.batches": "sample_many",
        "lablib.inference.decoding.decoder": "Decoder",
        "lablib.inference.decoding.rows": "Samples Verdict",
        "lablib.inference.decoding.token_iterator": "Token TokenIterator",
    },
)

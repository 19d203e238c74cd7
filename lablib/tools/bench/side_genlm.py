"""The work for genlm-backend's AsyncMlxLM; run by a Python that has it, without lablib."""

import sys
from types import SimpleNamespace
from typing import Any

import particles
import turns


def make(settings: dict[str, Any]) -> dict[str, turns.Run]:
    """Return its cases by name."""
    turns.load_blas()
    import mlx.core as mx
    import mlx_lm
    from genlm.backend.llm import AsyncMlxLM

    model, _ = mlx_lm.load(settings["models"]["target"])
    if mx.default_device() == mx.cpu:
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())

    tokenizer = _bytes()

    def run(case: particles.Case, turn: int) -> turns.Answer:
        return particles.ask(AsyncMlxLM(model, tokenizer), case, turns.clock())

    cases = particles.cases(settings["plan"], settings["prompts"])
    return {name: lambda turn, each=each: run(each, turn) for name, each in cases.items()}


def _bytes() -> Any:
    """Return a tokenizer of single bytes: it wants one whose every token it can spell, for names.

    The questions are token ids, so that nothing else depends on it.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    whole = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=letters[0])
    return SimpleNamespace(_tokenizer=whole)  # as mlx-lm wraps it


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose names are no modules for others
    turns.serve(make)

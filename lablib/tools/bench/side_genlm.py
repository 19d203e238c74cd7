"""The work for genlm-backend's AsyncMlxLM; run by a Python that has it, without lablib.

``pip install genlm-control==0.4.1 mlx[cpu]==0.32.4 'mlx-lm<0.32'`` makes its environment; with a
later mlx-lm genlm-backend does not find its own back end. Particles want genlm-control, too.
"""

import asyncio
import sys
from collections.abc import Sequence
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

    tokenizer = _spelled(model.args.vocab_size, settings["stop"])

    def run(case: particles.Case, turn: int) -> turns.Answer:
        return particles.ask(AsyncMlxLM(model, tokenizer), case, turns.clock())

    def smc(turn: int) -> turns.Answer:
        return _smc(AsyncMlxLM(model, tokenizer), settings, turn)

    cases = particles.cases(settings["plan"], settings["prompts"])
    found = {name: lambda turn, each=each: run(each, turn) for name, each in cases.items()}
    return found | {"smc": smc}


def _smc(lm: Any, settings: dict[str, Any], turn: int) -> turns.Answer:
    """Write the particles by genlm-control."""
    import mlx.core as mx
    import numpy as np
    from genlm.control import SMC, Potential, PromptedLLM, direct_token_sampler

    asked, stop = settings["smc"], settings["stop"]

    class Odd(Potential):
        async def prefix(self, context: Sequence[Any]) -> float:
            return particles.odd([token.token_id for token in context], asked["cost"])

        async def complete(self, context: Sequence[Any]) -> float:
            tokens = [*(token.token_id for token in context), stop]
            return particles.odd(tokens, asked["cost"])

    np.random.seed(turn)
    mx.random.seed(turn)
    llm = PromptedLLM(lm, prompt_ids=settings["prompts"][str(settings["plan"]["prompt"])])
    sampler, most = SMC(direct_token_sampler(llm), Odd(llm.vocab)), asked["max_tokens"]
    ends = {"resampling_method": "systematic", "terminate_when": lambda text: len(text) == most}
    found = asyncio.run(sampler(asked["n"], asked["ess"], most + 1, **ends))  # its own end counts
    return {"units": asked["n"] * most, "log_evidence": float(found.log_ml)}


def _spelled(size: int, stop: int) -> Any:
    """Return a tokenizer that can spell each of ``size`` tokens, as it wants them for names.

    The questions are token ids, so that nothing else depends on it.
    """
    from itertools import product

    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [*letters, *("".join(two) for two in product(letters, repeat=2))][:size]
    tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    whole = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=names[stop])
    return SimpleNamespace(_tokenizer=whole)  # as mlx-lm wraps it


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose names are no modules for others
    turns.serve(make)

"""What genlm-backend's AsyncMlxLM is asked; run by a Python that has it, without lablib."""

import sys
from typing import Any

import particles
import turns


def make(settings: dict[str, Any]) -> dict[str, turns.Run]:
    """Return its cases by name."""
    turns.load_blas()
    import mlx.core as mx
    import mlx_lm
    from genlm.backend.llm import AsyncMlxLM

    model, tokenizer = mlx_lm.load(settings["models"]["target"])
    if mx.default_device() == mx.cpu:
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())

    def run(case: particles.Case, turn: int) -> turns.Answer:
        return particles.ask(AsyncMlxLM(model, tokenizer), case)

    cases = particles.cases(settings["plan"], settings["prompts"])
    return {name: lambda turn, each=each: run(each, turn) for name, each in cases.items()}


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose names are no modules for others
    turns.serve(make)

"""The work for lmxlab's best_of_n; run by a Python that has it, without lablib."""

import json
import sys
from pathlib import Path
from typing import Any

import turns


def make(settings: dict[str, Any]) -> dict[str, turns.Run]:
    """Return its cases by name; its model gets the weights of the shipped target."""
    turns.load_blas()
    import mlx.core as mx
    from lmxlab.inference.sampling import best_of_n
    from lmxlab.models.base import LanguageModel
    from lmxlab.models.convert import config_from_hf, convert_weights

    folder, plan = Path(settings["models"]["target"]), settings["plan"]
    model = LanguageModel(config_from_hf(json.loads((folder / "config.json").read_text())))
    weights = convert_weights(mx.load(str(folder / "model.safetensors")), "llama")
    model.load_weights(list(weights.items()))
    if mx.default_device() == mx.cpu:
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    prompt = mx.array([settings["prompts"][str(plan["prompt"])]])

    def run(turn: int) -> turns.Answer:
        mx.random.seed(turn)
        mx.eval(best_of_n(model, prompt, plan["rows"], plan["new"]))
        return {"units": plan["rows"] * plan["new"]}

    return {"best of n": run}


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose names are no modules for others
    turns.serve(make)

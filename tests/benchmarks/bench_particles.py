"""`smc` beside genlm-control's SMC: 64 particles of 32 tokens, on `target`, under one potential.

    python tests/benchmarks/bench_particles.py PYTHON [turns]

PYTHON is an interpreter with genlm-control; ``pip install genlm-control==0.4.1 mlx[cpu]==0.32.4
'mlx-lm<0.32'`` makes its environment, with a later mlx-lm it doesn't find its back end. Both sides
get the same weights in float32, the same prompt, BLAS and kernels, a core each, and take turns. A
side is timed in processor time on a CPU, by the clock elsewhere.

The potential is cheap, so that what is compared is the engines: each token with an odd number costs
half a nat. Both resample systematically when fewer than half of the particles are effective, and
end a text at its stop token or after 32 tokens. The last column is the mean of the evidence, which
must agree, as both estimate the same number. Exit code 1 if genlm-control is as fast.
"""

import asyncio
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

PARTICLES, STEPS, ESS, COST = 64, 32, 0.5, 0.5
CASE = f"{PARTICLES} particles × {STEPS}"
ROOT = Path(__file__).parents[2]
TURNS = ROOT / "lablib/tools/bench"  # where `turns` lies, which needs nothing of lablib
SIDES = {"lablib": f"{ROOT}:{TURNS}", "genlm-control": TURNS}


def cost(tokens: Sequence[int]) -> float:
    """Return the potential of a text."""
    return -COST * sum(token % 2 for token in tokens)


def lablib_side(settings: dict[str, Any]) -> dict[str, Any]:
    """Return lablib's case by name."""
    import lablib

    import mlx.core as mx

    model, _ = lablib.load("target", dtype=mx.float32)

    def potential(tokens: list[int], ended: bool) -> float:
        return cost(tokens)

    def run(turn: int) -> dict[str, float]:
        lm = lablib.AsyncMlxLM(model, None, batch_size=PARTICLES)
        asked = {"resample": "systematic", "ess": ESS, "max_tokens": STEPS, "seed": turn}
        (cloud,) = lablib.inference.smc(lm, [settings["prompt"]], PARTICLES, potential, **asked)
        return {"log_evidence": cloud.log_evidence}

    return {CASE: run}


def genlm_side(settings: dict[str, Any]) -> dict[str, Any]:
    """Return genlm-control's case by name; runs in an environment without lablib."""
    import turns

    turns.load_blas()
    import mlx.core as mx
    import mlx_lm
    from genlm.backend.llm import AsyncMlxLM
    from genlm.control import SMC, Potential, PromptedLLM, direct_token_sampler

    class Odd(Potential):
        async def prefix(self, context: Sequence[Any]) -> float:
            return cost([token.token_id for token in context])

        async def complete(self, context: Sequence[Any]) -> float:
            return cost([*(token.token_id for token in context), settings["stop"]])

    model, tokenizer = mlx_lm.load(settings["model"])
    if mx.default_device() == mx.cpu:
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    spelled = bytes_of(len(tokenizer.get_vocab()), settings["stop"])

    def run(turn: int) -> dict[str, float]:
        lm = AsyncMlxLM(model, spelled)
        llm = PromptedLLM(lm, prompt_ids=settings["prompt"])
        sampler = SMC(direct_token_sampler(llm), Odd(llm.vocab))
        found = asyncio.run(
            sampler(
                PARTICLES,
                ESS,
                STEPS + 1,  # its own end counts
                resampling_method="systematic",
                terminate_when=lambda context: len(context) == STEPS,
            )
        )
        return {"log_evidence": float(found.log_ml)}

    return {CASE: run}


def bytes_of(size: int, stop: int) -> Any:
    """Return a tokenizer that can spell each of ``size`` tokens, as genlm-control asks for names.

    The prompt is token ids, so that nothing else depends on it.
    """
    from itertools import product

    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [*letters, *("".join(two) for two in product(letters, repeat=2))][:size]
    whole = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, []))
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=whole, eos_token=names[stop])
    return SimpleNamespace(_tokenizer=fast)  # as mlx-lm wraps it


def main(python: str, count: int = 7) -> int:
    """Print both sides' times; return 1 if genlm-control is as fast."""
    import lablib
    from lablib.machine import backend
    from lablib.models import zoo
    from lablib.tools.bench.turns import Side, take_turns

    _, tokenizer = lablib.load("target")
    settings = {
        "model": str(zoo.CHECKPOINTS / "target"),
        "prompt": tokenizer.encode("On a sunny day, Mia finds"),
        "stop": tokenizer.eos_token_id,
    }
    same = backend.blas().settings() | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    pythons = {"lablib": sys.executable, "genlm-control": python}
    with ExitStack() as stack:
        runs = {}
        for name, path in SIDES.items():
            environment = same | {"PYTHONPATH": str(path)}
            side = Side([pythons[name], __file__, "--side", name], settings, environment)
            stack.enter_context(side)
            runs[name] = partial(side.run, CASE)
        answers = take_turns(runs, count)
    print(f"{CASE}, {count} turns: seconds (min, median, max), mean log evidence and its error")
    middle = {}
    for name in SIDES:
        seconds = sorted(turn[name]["seconds"] for turn in answers)
        evidence = [turn[name]["log_evidence"] for turn in answers]
        middle[name] = statistics.median(seconds)
        error = statistics.stdev(evidence) / count**0.5
        times = f"{seconds[0]:.3f} {middle[name]:.3f} {seconds[-1]:.3f}"
        print(f"{name:14} {times}   {statistics.mean(evidence):.2f} ± {error:.2f}")
    ratio = middle["genlm-control"] / middle["lablib"]
    print(f"genlm-control takes {ratio:.2f} times as long")
    return int(ratio <= 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        import turns

        turns.serve({"lablib": lablib_side, "genlm-control": genlm_side}[sys.argv[2]])
    elif len(sys.argv) < 2:
        sys.exit(__doc__)
    else:
        sys.exit(main(sys.argv[1], *map(int, sys.argv[2:3])))

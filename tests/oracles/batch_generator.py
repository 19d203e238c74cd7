"""mlx-lm's ``BatchGenerator``, into which requests are inserted as they come; nothing of lablib.

``python tests/oracles/batch_generator.py`` reads a JSON of :class:`Work` and prints tokens a second
of the process's own time: mlx-lm as it comes, with MLX's own BLAS. ``served`` does so in any
process. ``llama`` is the random Llama of both sides.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import mlx.core as mx
import mlx_lm
from mlx_lm.models import llama
from mlx_lm.sample_utils import make_sampler


@dataclass
class Work:
    """What is asked of it.

    Attributes:
        model: a directory, or hidden numbers and layers of a random Llama.
        times: when each request comes, in seconds.
        prompts, lengths: ids, and tokens at most, of each.
        stops: ids that end a text.
        batch: rows at most.
        seed: of the draws.
    """

    model: str | list[int]
    times: list[float]
    prompts: list[list[int]]
    lengths: list[int]
    stops: list[int]
    batch: int
    seed: int


def random_llama(hidden: int, layers: int, context: int = 4096) -> Any:
    """Return a Llama of mlx-lm's with random weights."""
    mx.random.seed(0)
    settings = {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": 4 * hidden,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-5,
        "vocab_size": 512,
        "max_position_embeddings": context,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
    }
    model = llama.Model(llama.ModelArgs.from_dict(settings))
    mx.eval(model.parameters())
    return model


def loaded(model: str | list[int]) -> Any:
    """Return the model of some work, in float32."""
    if not isinstance(model, str):
        return random_llama(*model)
    made = mlx_lm.load(model)[0]
    made.set_dtype(mx.float32)
    mx.eval(made.parameters())
    return made


def served(model: Any, work: Work, clock: Callable[[], float] = time.process_time) -> float:
    """Return the tokens a second."""
    mx.random.seed(work.seed)
    start, waiting, tokens, alive = clock(), 0, 0, 0
    made = import_module("mlx_lm.generate").BatchGenerator(
        model,
        sampler=make_sampler(temp=1.0),
        stop_tokens=[[token] for token in work.stops],
        completion_batch_size=work.batch,
        prefill_batch_size=min(8, work.batch),
    )
    while waiting < len(work.times) or alive:
        now = clock() - start
        while waiting < len(work.times) and work.times[waiting] <= now:
            made.insert([[*work.prompts[waiting]]], [work.lengths[waiting]])
            waiting, alive = waiting + 1, alive + 1
        if not alive:
            time.sleep(0.0005)
            continue
        _, responses = made.next()
        tokens += len(responses)
        alive -= sum(each.finish_reason is not None for each in responses)
    made.close()
    return tokens / (clock() - start)


if __name__ == "__main__":
    asked = Work(**json.load(sys.stdin))
    its_model = loaded(asked.model)
    some = Work(**{**vars(asked), "times": asked.times[:2]})
    served(its_model, some)  # kernels are compiled
    print(served(its_model, asked))

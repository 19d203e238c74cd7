"""Architectures of mlx-lm: with a draft, one by one and in a batch, each writes its greedy text.

One of each kind of cache and position that mlx-lm has, alone and mixed; the slow table has them
all.
"""

from lablib.cache import kv
from lablib.cache.rewind_batch import can_batch
from lablib.inference.completions import speculative_batch
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import NGram
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator

import mlx_lm
import numpy as np
import pytest
from oracles.architectures import VOCAB, build

MODELS = {  # whether its rows can share a batch
    "gpt2": True,
    "gpt_bigcode": False,  # reads one position for all rows
    "gpt_neox": True,
    "gemma3_text": True,
    "gpt_oss": True,
    "cohere2": True,
    "recurrent_gemma": False,
    "rwkv7": False,  # reads padding as text
    "lfm2": True,
    "mamba2": True,
    "jamba": False,  # its Mamba 1 layers do so too
    "falcon_h1": False,  # two caches in a layer
    "baichuan_m1": False,  # the same
    "qwen3_next": True,
    "nanochat": True,
    "phi": True,
}


@pytest.mark.grid(lambda name: [*MODELS].index(name) % 4 == 0, rest="slow")
@pytest.mark.grid(lambda name: name in ("recurrent_gemma", "lfm2"))
@pytest.mark.parametrize("name", MODELS)
def test_an_architecture_of_mlx_lm_writes_its_greedy_text(name):
    model, small = build(name), build(name, noise=0.2)
    prompts = [np.random.default_rng(n).integers(0, VOCAB, n).tolist() for n in (1, 4, 21, 12)]
    options = {"max_tokens": 24, "temperature": 0.0}
    wanted = [[token.id for token in TokenIterator(model, p, **options)] for p in prompts]
    alone = name == "mamba2" and mlx_lm.__version__ == "0.32.0"  # its rows fail can_batch's trial
    assert can_batch(model, kv.make(model)) == (MODELS[name] and not alone)
    verdicts = []
    for draft in (small, NGram()):
        together = speculative_batch(model, draft, prompts, **options)
        assert together.tokens == wanted
        alone = [SpeculativeTokenIterator(model, draft, prompt, **options) for prompt in prompts]
        assert [[token.id for token in iterator] for iterator in alone] == wanted
        verdicts.append([together.stats[f"total_{name}"] for name in ("accepted", "reached")])
    accepted, reached = map(sum, zip(*verdicts, strict=True))
    assert 0 < accepted < reached  # a verdict of each kind was seen

"""A head's quick step: the definition's numbers, whatever it is given."""

from dataclasses import replace

from lablib.inference.speculation import Head, head_step
from lablib.inference.speculation.tokens import SpeculativeTokenIterator
from lablib.models import DraftHead, LanguageModel, gpt_config, llama_config
from lablib.models.linear import Linear

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

SHAPE = llama_config(48, d_model=32, n_heads=4, n_kv_heads=2, n_layers=2, d_ff=40)


def made(config=SHAPE, seed=1):
    head = DraftHead(LanguageModel(config, seed=seed), range(0, 48, 2), 24, seed=2)
    # Norms are 1 at first, and one that is left out would not show.
    head.update(
        {"blocks": {"norm": {"weight": mx.random.uniform(shape=(32,), key=mx.random.key(3))}}}
    )
    return head


def chain(head, step, cache):
    """A round's shapes: some tokens at once, one after the other, and after going back."""
    found, given, at = [], mx.random.normal((1, 60, 32), key=mx.random.key(1)), 0
    tokens = mx.random.randint(0, 48, (1, 60), key=mx.random.key(2))
    for n, back in ((3, 0), (1, 0), (1, 2), (5, 0), (20, 3), (1, 1), (16, 0)):
        found.append(np.array(step(given[:, at : at + n], tokens[:, at : at + n])))
        at += n - back
        cache[0].trim(back)
    return found


def compare(head, counted=None):
    mine, plain = head.make_cache(), head.make_cache()
    step = head_step.steps(head, mine)
    pairs = zip(
        chain(head, step, mine), chain(head, lambda s, t: head(s, t, plain), plain), strict=True
    )
    for ours, theirs in pairs:
        assert ours.shape == (1, 1, 32)
        assert np.abs(ours - theirs[:, -1:]).max() < 1e-5
    assert mine[0].offset == plain[0].offset


@pytest.fixture
def quick(monkeypatch):
    """Count the calls of the compiled functions."""
    calls, before = [], head_step._before
    monkeypatch.setattr(head_step, "_before", lambda *a: calls.append(1) or before(*a))
    return calls


def test_it_guesses_what_the_definition_guesses(quick):
    compare(made())
    assert len(quick) == 6  # all but the 20 tokens at once


@pytest.mark.parametrize(
    "config", [replace(SHAPE, attention_bias=True), gpt_config(48, 32, 4, 2)], ids=["bias", "gpt"]
)
def test_other_shapes_run_by_the_definition(config, quick):
    compare(made(config))
    assert not quick


def test_so_do_other_layers_and_half_precision(quick):
    class Doubled(Linear):
        def __call__(self, x):
            return 2 * super().__call__(x)

    head = made()
    head.join.__class__ = Doubled
    compare(head)
    head = made()
    head.blocks.norm.__class__ = nn.RMSNorm
    compare(head)
    assert not quick
    head = made()
    for part in (head, head.target):
        part.set_dtype(mx.float16)
    states = mx.zeros((1, 1, 32), mx.float16)
    assert head_step.steps(head, head.make_cache())(states, mx.array([[1]])).dtype == mx.float16
    assert not quick


def test_the_next_text_sees_weights_that_were_replaced_or_edited():
    head = made()
    compare(head)
    head.blocks.layers[0].self_attn.k_proj.weight = mx.random.normal((16, 32))
    compare(head)
    head.join.weight[3] = 0.5
    head.blocks.layers[0].mlp.up_proj.weight[:, 2] = 1.5
    compare(head)


def test_the_engine_drafts_by_it(quick):
    head, prompt = made(), [1, 2, 3]
    with SpeculativeTokenIterator(
        head.target, Head(head), prompt, draft_tokens=3, max_tokens=12, temperature=0.0
    ) as iterator:
        quick.clear()
        tokens = [token.id for token in iterator]
        assert len(quick) == iterator.stats["draft_calls"] > 0
    assert len(tokens) == 12

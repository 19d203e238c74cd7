"""What is compiled for speed draws what its definition draws."""

from lablib.inference.speculation import judge, rules
from lablib.inference.speculation.speculative_iterator import speculative_decode
from lablib.models import LanguageModel, llama_config

import mlx.core as mx
import numpy as np
import pytest

V = 40


def drawn(function, *arguments):
    return [np.array(x) for x in function(*arguments)]


def rows(rng, *shape):
    """Probabilities ``(*shape, V)``, some of them 0."""
    weights = rng.exponential(size=(*shape, V)) * (rng.random((*shape, V)) < 0.7)
    return mx.array((weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32))


@pytest.mark.parametrize("gamma", [1, 2, 5])
@pytest.mark.parametrize("texts", [1, 2, 7])
@pytest.mark.parametrize("rule", [rules.rejection, rules.block])
def test_a_compiled_rule_is_its_definition(rule, texts, gamma):
    rng, kept = np.random.default_rng([texts, gamma]), set()
    for _ in range(40):
        q = rows(rng, texts, gamma)
        p = mx.concatenate([0.7 * q + 0.3 * rows(rng, texts, gamma), rows(rng, texts, 1)], axis=1)
        drafts = mx.array(rng.integers(0, V, (texts, gamma)), mx.int32)
        given = p, q, drafts, mx.array(rng.random((texts, 2)).astype(np.float32))
        mx.disable_compile()
        try:
            wanted = drawn(judge.draw_outcome, rule, *given)
        finally:
            mx.enable_compile()
        for ours, theirs in zip(drawn(judge._COMPILED[rule.__name__], *given), wanted, strict=True):
            assert np.array_equal(ours, theirs)
        kept.update(wanted[0].tolist())
    assert kept == {*range(gamma + 1)}


def test_a_rule_of_ones_own_can_be_looked_into(monkeypatch):
    """It is called as it stands, with arrays that have numbers."""
    seen = []

    def curious(p, q, drafts):
        seen.append(drafts.tolist())
        return rules.rejection(p, q, drafts)

    monkeypatch.setitem(rules.RULE, "curious", curious)
    model = LanguageModel(llama_config(V, 16, 2, 1), seed=1)
    draft = LanguageModel(llama_config(V, 16, 2, 1), seed=2)
    texts = [
        speculative_decode(model, draft, [1, 2], 20, 3, 1.0, seed=4, rule=rule)[0].tolist()
        for rule in ("curious", "rejection")
    ]
    assert texts[0] == texts[1]
    assert len(seen) > 3


def test_a_function_is_a_rule_and_the_librarys_own_is_its_name():
    model, draft = (LanguageModel(llama_config(V, 16, 2, 1), seed=seed) for seed in (1, 2))

    def mine(p, q, drafts):
        return rules.rejection(p, q, drafts)

    for function, name in ((mine, "rejection"), (rules.coupled, "coupled")):
        texts = [
            speculative_decode(model, draft, [1, 2], 20, 3, 1.0, seed=4, rule=rule)[0].tolist()
            for rule in (function, name)
        ]
        assert texts[0] == texts[1]

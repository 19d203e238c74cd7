"""Every architecture of mlx-lm that can be built small: nothing is wrong, nothing crashes.

``python tests/oracles/architectures.py`` prints the table: architecture × feature.
"""

import pytest
from oracles.architectures import (
    CANNOT,
    REFUSED,
    RIGHT,
    ROUNDING,
    TRIALS,
    Reference,
    Wrong,
    build,
    examine,
    names,
)

# What is refused by name. Early exit asks for layers in ``model.model.layers`` that run without
# those behind them; drafts ask for a cache that forgets.
NO_DRAFTS = {
    "deepseek_v41": {"draft", "itself", "look-up", "early exit", "adaptive", "batch"},
}
DENSE = ["llama", "gemma2", "gemma3_text", "mamba2", "nemotron-nas", "rwkv7", "recurrent_gemma"]
# MLX's CPU runs their experts in float32 only.
EXPERTS = ["gpt_oss", "qwen3_next", "llama4", "deepseek_v3"]
FEWER_BITS = [(name, "bfloat16") for name in DENSE] + [(n, "4 bits") for n in DENSE + EXPERTS]


def assert_right_or_refused(name, kind):
    found = examine(name, kind)
    assert set(found) == set(TRIALS)
    for feature, outcome in found.items():
        allowed = feature == "early exit" or feature in NO_DRAFTS.get(name, ())
        refused = outcome.startswith(REFUSED) and allowed
        assert outcome == RIGHT or refused, f"{name}, {kind}, {feature}: {outcome}"


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_an_architecture_is_right_or_refused(name):
    assert_right_or_refused(name, "float32")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), FEWER_BITS)
def test_an_architecture_in_fewer_bits(name, kind):
    assert_right_or_refused(name, kind)


def test_most_architectures_are_tried():
    assert len(names()) > 100 > 10 > len(CANNOT)


@pytest.mark.parametrize("feature", TRIALS)
def test_another_model_s_text_is_wrong(feature):
    """No trial is blind: judged by a model with other weights, each of them fails."""
    model, near = (build("llama", noise=noise) for noise in (0.0, 0.3))
    TRIALS[feature](model, near, Reference(model, ROUNDING["float32"]))
    with pytest.raises(Wrong):
        TRIALS[feature](model, near, Reference(near, ROUNDING["float32"]))

"""Every architecture of mlx-lm that can be built small: nothing is wrong, nothing crashes.

``python tests/oracles/architectures.py`` prints the table: architecture × feature.
"""

import pytest
from oracles.architectures import (
    CANNOT,
    MARKS,
    OURS,
    REFUSED,
    RIGHT,
    ROUNDING,
    TRIALS,
    WANTED,
    Reference,
    Wrong,
    build,
    examine,
    mark,
    names,
    stored,
)

# What is refused by name. Early exit asks for layers in ``model.model.layers`` that run without
# those behind them; a head for states of ours; drafts ask for a cache that forgets.
NO_DRAFTS = {
    "deepseek_v41": {"draft", "itself", "look-up", "early exit", "adaptive", "batch"},
}
CELLS = [(name, kind) for kind, some in WANTED.items() for name in some]


def may_be_refused(name, feature):
    theirs = feature == "head" and name not in OURS
    return theirs or feature == "early exit" or feature in NO_DRAFTS.get(name, ())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), CELLS)
def test_an_architecture_is_right_or_refused_as_the_table_says(name, kind):
    found = examine(name, kind)
    assert set(found) == set(TRIALS)
    for feature, outcome in found.items():
        refused = outcome.startswith(REFUSED) and may_be_refused(name, feature)
        assert outcome == RIGHT or refused, f"{name}, {kind}, {feature}: {outcome}"
    assert {feature: mark(outcome) for feature, outcome in found.items()} == stored(kind)[name]


def test_the_table_has_a_cell_for_everything_and_none_is_wrong():
    assert len(names()) > 100 > 10 > len(CANNOT)
    for kind, some in WANTED.items():
        table = stored(kind)
        assert list(table) == list(some)
        for name, marks in table.items():
            assert list(marks) == list(TRIALS)
            for feature, cell in marks.items():
                refused = cell == MARKS[REFUSED] and may_be_refused(name, feature)
                assert cell == MARKS[RIGHT] or refused, f"{name}, {kind}, {feature}: {cell}"


@pytest.mark.parametrize("feature", TRIALS)
def test_another_model_s_text_is_wrong(feature):
    """No trial is blind: judged by a model with other weights, each of them fails."""
    model, near = (build("lablib llama", noise=noise) for noise in (0.0, 0.3))
    TRIALS[feature](model, near, Reference(model, ROUNDING["float32"]))
    with pytest.raises(Wrong):
        TRIALS[feature](model, near, Reference(near, ROUNDING["float32"]))

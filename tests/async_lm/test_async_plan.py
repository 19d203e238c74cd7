"""The plan of a batch: every prefix once, nothing before its time, no forward beyond its bound."""

from lablib.inference.async_lm.plan import NARROW, OVERHEAD, WIDTH, choose, plan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

PROMPTS = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple), min_size=1, max_size=12
).map(lambda prompts: list(dict.fromkeys(prompts)))


def prefixes(prompts):
    return {prompt[:size] for prompt in prompts for size in range(1, len(prompt) + 1)}


def looked_up(prompts, known):
    """Each prompt with how many of its tokens are among the ``known`` prefixes, and where."""
    for prompt in prompts:
        held = max(size for size in range(len(prompt) + 1) if size == 0 or prompt[:size] in known)
        yield prompt, held, prompt[:held]


@settings(max_examples=100, deadline=None)
@given(PROMPTS, st.lists(st.integers(0, 11)), PROMPTS)
def test_every_missing_prefix_runs_once_and_in_order(prompts, cached, others):
    known = prefixes([prompts[i] for i in cached if i < len(prompts)] + others)
    rows = plan(looked_up(prompts, known))
    computed, answered = set(), []
    for row in rows:
        assert row.parent is None or rows.index(row.parent) < rows.index(row)
        assert row.start == 0 or row.prompt[: row.start] in known | computed
        assert row.parent is None or row.prompt[: row.start] not in known
        new = {row.prompt[:size] for size in range(row.kept + 1, len(row.prompt) + 1)}
        assert not new & (known | computed)
        assert 0 <= row.kept - row.start <= 1  # a held token runs again only for its logits
        computed |= new
        answered += [row.prompt[:end] for end in row.ends]
        assert row.ends == sorted(row.ends)
        assert row.ends[-1] == len(row.prompt)
        assert row.start < row.ends[0]
    assert computed == prefixes(prompts) - known
    assert sorted(answered) == sorted(prompts)


@settings(max_examples=100, deadline=None)
@given(PROMPTS, PROMPTS, st.integers(1, 9), st.sampled_from([1, 10, 1 << 18, 1 << 21]))
def test_forwards_keep_their_bounds_and_come_to_an_end(prompts, others, step, vocab_size):
    rows = plan(looked_up(prompts, prefixes(others)))
    done = {row: row.start for row in rows}
    while pieces := choose(rows, step, vocab_size):
        columns = max(stop - row.done for row, stop in pieces)
        assert columns * len(pieces) <= max(step, columns)
        assert columns <= step
        for row, stop in pieces:
            assert row.parent is None or done[row.parent] >= row.start
            assert done[row] == row.done < stop
            if any(row.done < end <= stop for end in row.ends):  # logits nobody asked for are few
                first = next(end for end in row.ends if end > row.done)
                assert (first - 1 - row.done) * vocab_size < 1 << 20
        for row, stop in pieces:
            row.done = done[row] = stop
    assert all(row.done == len(row.prompt) for row in rows)


def lengths(prompts, step=1 << 20, held=0):
    rows = plan((p, held and len(p) - 1, p[:-1] if held else ()) for p in prompts)
    forwards = []
    while pieces := choose(rows, step, vocab_size=1):
        forwards.append(sorted(stop - row.done for row, stop in pieces))
        for row, stop in pieces:
            row.done = stop
    return forwards


def test_a_shared_prefix_is_one_row_and_its_branches_one_forward():
    trunk = tuple(range(64))
    prompts = [(*trunk, 100 + i, 1, 2, 3) for i in range(64)]
    assert lengths(prompts) == [[68], [4] * 63]


def test_prompts_that_continue_each_other_are_one_row():
    assert lengths([tuple(range(size)) for size in range(1, 17)]) == [[16]]


def test_one_more_token_each_is_one_forward_however_long_the_prompts():
    assert lengths([(i,) * (i + 1) for i in range(1, 40)], held=1) == [[1] * 39]


def test_little_padding_saves_a_forward_and_much_does_not():
    short = [(i, 0) for i in range(8)]
    assert lengths([*short, (9, 0, 0)]) == [[2] * 8 + [3]]
    assert lengths([*short, (9,) * 300]) == [[300], [2] * 8]


def test_width_is_bounded_for_rows_of_very_different_prefixes():
    long, short = (1,) * 30_000, [(2 + i,) for i in range(100)]
    assert lengths([(*long, 5), *short], held=1) == [[1] * 2, [1] * 99]
    assert NARROW < 30_000 < WIDTH
    many = [(i, *long) for i in range(5)]
    assert lengths(many, held=1) == [[1, 1], [1, 1], [1]]


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_rows_are_cut_to_the_step(step):
    assert all(sum(forward) <= step for forward in lengths([tuple(range(2000))], step=step))
    assert OVERHEAD < 1000

"""The plan of a batch: every prefix once, nothing before its time, no forward beyond its bound."""

from lablib.inference.async_lm.plan import NARROW, OVERHEAD, WIDTH, choose_forward, plan_runs

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


@settings(max_examples=100)
@given(PROMPTS, st.lists(st.integers(0, 11)), PROMPTS)
def test_every_missing_prefix_runs_once_and_in_order(prompts, cached, others):
    known = prefixes([prompts[i] for i in cached if i < len(prompts)] + others)
    runs = plan_runs(looked_up(prompts, known))
    computed, answered = set(), []
    for run in runs:
        assert run.parent is None or runs.index(run.parent) < runs.index(run)
        assert run.start == 0 or run.prompt[: run.start] in known | computed
        assert run.parent is None or run.prompt[: run.start] not in known
        new = {run.prompt[:size] for size in range(run.kept + 1, len(run.prompt) + 1)}
        assert not new & (known | computed)
        assert 0 <= run.kept - run.start <= 1  # a held token runs again only for its logits
        computed |= new
        answered += [run.prompt[:end] for end in run.ends]
        assert run.ends == sorted(run.ends)
        assert run.ends[-1] == len(run.prompt)
        assert run.start < run.ends[0]
    assert computed == prefixes(prompts) - known
    assert sorted(answered) == sorted(prompts)


@settings(max_examples=100)
@given(PROMPTS, PROMPTS, st.integers(1, 9), st.sampled_from([1, 10, 1 << 18, 1 << 21]))
def test_forwards_keep_their_bounds_and_come_to_an_end(prompts, others, step, vocab_size):
    runs = plan_runs(looked_up(prompts, prefixes(others)))
    done = {run: run.start for run in runs}
    while advances := choose_forward(runs, step, vocab_size):
        columns = max(stop - run.done for run, stop in advances)
        assert columns * len(advances) <= max(step, columns)
        assert columns <= step
        for run, stop in advances:
            assert run.parent is None or done[run.parent] >= run.start
            assert done[run] == run.done < stop
            if any(run.done < end <= stop for end in run.ends):  # logits nobody asked for are few
                first = next(end for end in run.ends if end > run.done)
                assert (first - 1 - run.done) * vocab_size < 1 << 20
        for run, stop in advances:
            run.done = done[run] = stop
    assert all(run.done == len(run.prompt) for run in runs)


def lengths(prompts, step=1 << 20, held=0):
    runs = plan_runs((p, held and len(p) - 1, p[:-1] if held else ()) for p in prompts)
    forwards = []
    while advances := choose_forward(runs, step, vocab_size=1):
        forwards.append(sorted(stop - run.done for run, stop in advances))
        for run, stop in advances:
            run.done = stop
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

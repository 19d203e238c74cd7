"""A replayed text is what the engine does, round by round."""

import itertools
from collections.abc import Sequence

from lablib.course.replay.rounds import (
    Guesses,
    guesses_of_flags,
    guesses_of_model,
    guesses_of_ngram,
    replay,
    tokens_per_call,
)
from lablib.inference.speculation import EarlyExit, NGram, first_layers
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import AdaptiveLength, FixedLength
from lablib.inference.speculation.draft_model import DraftModel
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator

import pytest
from oracles.speculation import greedy, near, target

COSTS = Costs((1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8), 0.1)


def naive_replay(agree: list[bool], gamma: int) -> tuple[int, int, int]:
    """Token by token, with nothing clever."""
    accepted = reached = rounds = done = 0
    while done < len(agree):
        rounds += 1
        for _ in range(gamma):
            if done == len(agree):
                break
            reached += 1
            if not agree[done]:
                break
            accepted += 1
            done += 1
        done += 1  # the target's own token, or nothing where the text has ended
    return accepted, reached, rounds


def counted(agree: Sequence[bool], gamma: int) -> tuple[int, int, int]:
    steps = replay(guesses_of_flags(agree), FixedLength(gamma))
    return sum(s.kept for s in steps), sum(s.reached for s in steps), len(steps)


def test_replay_of_every_short_text_agrees_with_the_naive_loop() -> None:
    for length in range(1, 9):
        for agree in itertools.product([False, True], repeat=length):
            for gamma in (1, 2, 4, 7):
                assert counted(agree, gamma) == naive_replay(list(agree), gamma)
    assert counted([True] * 10, 4) == (8, 8, 2)
    assert counted([False] * 3, 4) == (0, 3, 3)


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("kind", ["model", "exit", "gram"])
def test_the_replay_is_the_engine_round_by_round(kind, gamma) -> None:
    model, prompt = target(), [3, 1, 4, 1, 5, 9, 3, 1]
    tokens = greedy(model, prompt, 40)
    small = near(model, 0.1)
    drafter, found = {
        "model": lambda: (DraftModel(small), guesses_of_model(small, prompt, tokens)),
        "exit": lambda: (EarlyExit(1), guesses_of_model(first_layers(model, 1), prompt, tokens)),
        "gram": lambda: (NGram(), guesses_of_ngram(NGram(), prompt, tokens)),
    }[kind]()
    options = {"max_tokens": 60, "draft_tokens": gamma, "temperature": 0.0, "trace": True}
    iterator = SpeculativeTokenIterator(model, drafter, prompt, **options)
    list(iterator)
    steps = replay(found, FixedLength(gamma))
    whole = [step for step in steps if step.start + gamma < len(tokens)]
    assert len(whole) > 3
    assert sum(step.tokens for step in steps) == len(tokens)
    for step, seen in zip(whole, iterator.rounds, strict=False):
        assert (step.drafted, step.kept) == (len(seen.drafted), seen.accepted)


def test_an_adaptive_replay_is_the_engine_too() -> None:
    model, prompt = target(), [3, 1, 4, 1, 5]
    tokens = greedy(model, prompt, 60)
    small = near(model, 0.3)
    length, engine = AdaptiveLength(6, COSTS, memory=8), AdaptiveLength(6, COSTS, memory=8)
    steps = replay(guesses_of_model(small, prompt, tokens), length)
    options = {"max_tokens": 90, "draft_tokens": engine, "temperature": 0.0, "trace": True}
    iterator = SpeculativeTokenIterator(model, small, prompt, **options)
    list(iterator)
    expected = [r.drafted for r in iterator.rounds if r.kind != "plain"]
    drafted = [step.drafted for step in steps if step.drafted and step.start + 7 < len(tokens)]
    assert len(drafted) > 3
    assert drafted == [len(each) for each in expected[: len(drafted)]]


def test_by_hand() -> None:
    text = Guesses(offered=(8, 8, 8, 8, 8, 8, 2), right=(2, 1, 0, 0, 2, 1, 0))
    steps = replay(text, FixedLength(2))
    found = [(s.start, s.drafted, s.kept, s.tokens) for s in steps]
    assert found == [(0, 2, 2, 3), (3, 2, 0, 1), (4, 2, 2, 3)]
    assert steps[0].cost(COSTS) == pytest.approx(1.2 + 2 * 0.1)
    assert tokens_per_call([text], 2) == pytest.approx((7 / 3,) * 3)


def test_more_drafts_than_are_known_are_refused() -> None:
    with pytest.raises(ValueError, match="length must be between 0 and 8"):
        replay(guesses_of_flags([True] * 30), FixedLength(9))


def test_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one text"):
        tokens_per_call([], 2)

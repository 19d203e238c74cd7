"""What is expected along a text, against everything that can happen, listed."""

from itertools import product

from lablib.course.lessons.lesson_08.enumeration import exactly
from lablib.course.replay.rounds import LONGEST, Guesses, guesses_of_flags, replay
from lablib.course.replay.sampled import (
    RULES,
    Texts,
    expect,
    keeps,
    looked_up,
    refused,
    room,
    spread,
)
from lablib.course.theory.closed_forms import acceptance_coupled
from lablib.inference.speculation import rules
from lablib.inference.speculation.draft_length import FixedLength

import numpy as np
import pytest
from oracles.refusals import refuses

SIZE, START = 3, 0


def language(seed):
    """A language in which only the last token matters ``(V, V)``."""
    return np.random.default_rng(seed).dirichlet(np.ones(SIZE), size=SIZE)


def both_draw(p, q, x):
    return 1 / np.maximum(p / p[x], q / q[x]).sum()


def along(target, draft, texts):
    """The texts as ``Texts``, each of one length; nothing is known past their end."""
    before = np.concatenate([np.full((len(texts), 1), START), texts[:, :-1]], axis=1)
    p, q = target[before], draft[before]
    pick = np.arange(len(texts))[:, None], np.arange(texts.shape[1]), texts
    rows, columns = range(len(texts)), range(texts.shape[1])
    pairs = [[both_draw(p[b, i], q[b, i], texts[b, i]) for i in columns] for b in rows]
    lengths = np.full(len(texts), texts.shape[1])
    limits = room(lengths, texts.shape[1], max_tokens=99)
    return Texts(lengths, limits, p[pick], spread(q[pick]), spread(np.array(pairs)))


def listed(rule, target, draft, n, gamma):
    """How many rounds keep 0 ... γ drafts, and how many are judged, in texts of n tokens."""
    kept_rounds, reached = np.zeros(gamma + 1), 0.0
    states = {(START, 0): 1.0}  # last token, tokens written: how often a round begins there
    for at in range(n):
        for last in range(SIZE):
            here = states.pop((last, at), 0.0)
            if not here:
                continue
            g = min(gamma, n - at)
            drafts = np.array(list(product(range(SIZE), repeat=g)))
            before = np.concatenate([np.full((len(drafts), 1), last), drafts], axis=1)
            p, q = target[before], draft[before[:, :-1]]
            chance = np.take_along_axis(q, drafts[..., None], axis=-1)[..., 0].prod(axis=-1)
            kept, following = exactly(rules.RULE[rule], p, q, drafts)
            for row, k in product(range(len(drafts)), range(g + 1)):
                share = here * chance[row] * kept[row, k]
                kept_rounds[k] += share
                reached += share * min(k + 1, g)
                for own in range(SIZE):
                    key = own, at + k + 1
                    states[key] = states.get(key, 0) + share * following[row, k, own]
    return kept_rounds, reached


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_rounds_along_all_texts_are_the_rounds_that_can_happen(rule, gamma):
    n = 4
    target, draft = language(1), language(2)
    texts = np.array(list(product(range(SIZE), repeat=n)))
    seen = along(target, draft, texts)
    weight = seen.p.prod(axis=1)
    found = expect(seen.chances(rule), seen.offered, seen.lengths, gamma)
    kept, reached = listed(rule, target, draft, n, gamma)
    assert np.allclose(weight @ found.kept, kept, atol=1e-6)  # ``coupled`` is float32 in places
    assert np.isclose(weight @ found.reached, reached, atol=1e-6)


def test_one_token_is_kept_as_the_closed_forms_say():
    p, q = language(3)[0], language(4)[0]
    seen = along(np.tile(p, (SIZE, 1)), np.tile(q, (SIZE, 1)), np.arange(SIZE)[:, None])
    wanted = {
        "match": (p * q).sum(),
        "coupled": acceptance_coupled(p, q),
        "rejection": np.minimum(p, q).sum(),
        "block": np.minimum(p, q).sum(),
    }
    for rule, share in wanted.items():
        assert p @ seen.chances(rule)[:, 0, 0] == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", [1, 4, LONGEST])
def test_certain_models_are_replayed_as_greedy_texts_are(rule, gamma):
    flags = np.random.default_rng(0).random((5, 23)) < 0.7
    guesses = [guesses_of_flags(row) for row in flags.tolist()]
    lengths = np.full(5, 23)
    even = spread(flags * 1.0)
    seen = Texts(lengths, room(lengths, 23, 99), np.ones((5, 23)), even, even)
    found = expect(seen.chances(rule), seen.offered, lengths, gamma)
    for row, each in enumerate(guesses):
        steps = replay(each, FixedLength(gamma))
        counts = np.bincount([step.kept for step in steps], minlength=gamma + 1)
        assert found.kept[row].tolist() == counts.tolist()
        assert found.reached[row] == sum(step.reached for step in steps)
        whole = [step.kept for step in steps if step.start + gamma < 23]
        assert found.whole[row].tolist() == np.bincount(whole, minlength=gamma + 1).tolist()
    assert found.tokens_per_call == 5 * 23 / found.kept.sum()
    kept = found.whole.sum(axis=0) @ range(gamma + 1) / found.whole.sum()
    assert found.tokens_per_round == pytest.approx(1 + kept)
    assert found.of(slice(0, 1)).shares.sum() == pytest.approx(1)


def test_lookups_offer_what_they_have_and_are_kept_if_right():
    guesses = [Guesses((0, 2, 8), (0, 1, 1)), Guesses((3,), (1,))]
    lengths = np.array([3, 1])
    offered, q = looked_up(guesses, room(lengths, 3, max_tokens=9))
    assert offered.tolist() == [[0, 2, 1], [1, 0, 0]]
    assert q[0, :, :3].tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 0]]
    p = np.array([[0.5, 0.25, 0.1], [0.9, 0, 0]])
    both = q * spread(p)  # certain of one token: both draw it as often as the target does
    seen = Texts(lengths, offered, p, q, both)
    for rule in RULES:
        found = expect(seen.chances(rule), offered, lengths, 4)
        # a plain token; one of two kept, and the own token ends the text; the second text: kept
        assert found.kept.tolist() == [[1, 1, 0, 0, 0], [0, 1, 0, 0, 0]]
        assert found.reached.tolist() == [2, 1]


def test_the_last_of_max_tokens_is_never_drafted():
    assert room(np.array([5, 3]), 5, max_tokens=5).tolist() == [[4, 3, 2, 1, 0], [3, 2, 1, 0, 0]]
    assert room(np.array([20]), 20, max_tokens=99)[0, :2].tolist() == [8, 8]


def test_bad_arguments_are_refused():
    seen = along(language(1), language(2), np.array([[0, 1]]))
    refuses(ValueError, "rule must be one of", seen.chances, "luck")
    with pytest.raises(ValueError, match="draft_tokens"):
        expect(seen.chances("match"), seen.offered, seen.lengths, 9)
    refuses(ValueError, "chances must be", expect, seen.q[:, :1], seen.offered, seen.lengths, 2)


@pytest.mark.parametrize("rule", ["match", "rejection"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_refused_draft_is_as_likely_as_all_that_can_happen_says(rule, seed):
    p, q = np.random.default_rng(seed).dirichlet(np.ones(5), size=2)
    came = np.zeros((5, 5))  # [draft, what came in its place]
    for draft in range(5):
        kept, following = exactly(rules.RULE[rule], [p, p], [q], [draft])
        assert kept[1] == pytest.approx(keeps(rule, p, q)[draft], abs=1e-6)
        came[draft] = q[draft] * kept[0] * following[0]
    for token in np.flatnonzero(came.sum(axis=0) > 1e-6):
        told = refused(rule, p, q, token)
        assert np.allclose(told / told.sum(), came[:, token] / came[:, token].sum(), atol=1e-5)
    other = "match" if rule == "rejection" else "rejection"
    wrong = refused(other, p, q, token)
    assert np.abs(wrong / wrong.sum() - came[:, token] / came[:, token].sum()).max() > 0.01

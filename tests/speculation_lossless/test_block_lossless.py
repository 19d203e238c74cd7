"""A block's drafts leave the distribution alone: all that a round can write is enumerated.

With each rule the law is enumerated in float64 with a block's own q, place by place, and the engine
draws from that q (``test_block.py``). Planted: a q other than the one drawn from, and an offer that
looks at its token, each of a total variation of about 1e-3.
"""

from itertools import product

from lablib.course.lessons.lesson_08.enumeration import exactly
from lablib.inference.speculation import rules
from lablib.models import DraftBlock, LanguageModel, llama_config

import mlx.core as mx
import numpy as np
import pytest

SIZE, GAMMA, PROMPT = 3, 3, [1, 0, 1]
SAME, PLANTED = 1e-6, 1e-3


def world(seed):
    """A target and its block, both random; what they know is sharpened."""
    model = LanguageModel(llama_config(SIZE, d_model=16, n_heads=2, n_layers=1, d_ff=16), seed=seed)
    block = DraftBlock(model, GAMMA, None, 8, seed=seed)
    block.couple.weight = 10 * block.couple.weight
    block.confide.weight[0, -2] = 2.0  # it goes by the log of the largest q
    block.confide.bias = mx.array([2.0])
    return model, block


def softmax(scores):
    weights = np.exp(
        np.array(scores, np.float64) - np.max(np.array(scores), axis=-1, keepdims=True)
    )
    return weights / weights.sum(axis=-1, keepdims=True)


def tables(model, block):
    """p after each prefix ``{prefix: (V,)}``, q of each place and prefix, and its confidence."""
    p, q, sure = {}, {}, {}
    ids = mx.array([PROMPT])
    states = block(model.hidden(ids)[:, :-1], ids[:, 1:])
    scores = block.scores(states)
    for n in range(GAMMA + 1):
        for prefix in product(range(SIZE), repeat=n):
            p[prefix] = softmax(model(mx.array([[*PROMPT, *prefix]]))[0, -1])
            if n < GAMMA:
                here = scores[:, n]
                if n:
                    here = here + block.coupling(mx.array([prefix[-1]]))
                q[prefix] = softmax(here[0])
                sure[prefix] = float(block.confidence(states[:, n], here)[0])
    return p, q, sure


def alone(p):
    """The target's own law of GAMMA + 1 tokens."""
    law = np.zeros((SIZE,) * (GAMMA + 1))
    for text in product(range(SIZE), repeat=GAMMA + 1):
        law[text] = np.prod([p[text[:n]][text[n]] for n in range(GAMMA + 1)])
    return law


def offered(drafts, sure, least):
    """How many places are offered: the chances of each hang on the tokens before it."""
    chance, n = 1.0, 0
    for n in range(GAMMA):
        chance *= sure[tuple(drafts[:n])]
        if n and chance < least:
            return n
    return GAMMA


def written(rule, p, q, n_offered, drawn_from=None):
    """The law of GAMMA + 1 tokens: a round, and then the target alone, all listed."""
    law = np.zeros((SIZE,) * (GAMMA + 1))
    given = alone(p)
    for drafts in product(range(SIZE), repeat=GAMMA):
        chance = np.prod([(drawn_from or q)[drafts[:n]][drafts[n]] for n in range(GAMMA)])
        count = n_offered(drafts)
        here = np.array([p[drafts[:n]] for n in range(GAMMA + 1)])
        of = np.array([q[drafts[:n]] * (n < count) for n in range(GAMMA)])
        kept, following = exactly(rule, here, of, drafts)
        for n, token in product(range(count + 1), range(SIZE)):
            start = (*drafts[:n], token)
            rest = given[start] / given[start].sum()
            law[start] += chance * kept[n] * following[n, token] * rest
    return law


def distance(law, p):
    return np.abs(law - alone(p)).sum() / 2


@pytest.mark.parametrize("least", [0.0, 0.3, 0.45])
@pytest.mark.parametrize("rule", rules.RULE)
def test_a_round_of_a_block_writes_the_targets_law(rule, least):
    lengths = set()
    for seed in range(3):
        p, q, sure = tables(*world(seed))

        def count(drafts, sure=sure):
            return offered(drafts, sure, least)

        lengths |= {count(drafts) for drafts in product(range(SIZE), repeat=GAMMA)}
        law = written(rules.RULE[rule], p, q, count)
        assert abs(law.sum() - 1) < SAME
        assert distance(law, p) < SAME
    assert not least or len(lengths) > 1


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_a_q_that_is_not_the_one_drawn_from_is_found_out(rule):
    """By a hundredth, at one place: the text is off by some thousandths."""
    p, q, _ = tables(*world(0))
    other = {prefix: row.copy() for prefix, row in q.items()}
    for prefix in [prefix for prefix in q if len(prefix) == 1]:
        order = np.argsort(p[prefix] / q[prefix])
        other[prefix][order[0]] += 0.01
        other[prefix][order[-1]] -= 0.01
    off = distance(written(rules.RULE[rule], p, q, lambda _: GAMMA, drawn_from=other), p)
    print(f"{rule}: off by {off:.1e}")
    assert PLANTED / 5 < off < 20 * PLANTED


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_an_offer_that_looks_at_its_token_is_found_out(rule):
    """It drops its last draft for what it is, behind some of the drafts before it."""
    p, q, _ = tables(*world(0))

    def looking(drafts):
        return GAMMA - 1 if drafts[0] == drafts[-1] == 0 else GAMMA

    off = distance(written(rules.RULE[rule], p, q, looking), p)
    print(f"{rule}: off by {off:.1e}")
    assert PLANTED / 5 < off < 50 * PLANTED

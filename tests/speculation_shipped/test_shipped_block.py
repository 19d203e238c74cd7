"""The shipped block: 20,000 rounds of each rule write what the target says, offers and all."""

from lablib.course.tasks import TASKS
from lablib.inference.speculation import rules
from lablib.inference.speculation.judge import draw_outcome
from lablib.models import load, load_block

import mlx.core as mx
import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chi2

FALSE_ALARM, DRAWS, GAMMA, LEAST = 1e-6, 20_000, 3, 0.2
TEXTS = {"stories": " Mia finds a", "sums": "3+", "edits": ""}


class World:
    """The target and its block after a text: p, q and confidence after every prefix, in float64."""

    def __init__(self, target, block, tokenizer, task):
        prompt = TASKS[task].problems(3, 1)[0].prompt + TEXTS[task]
        self.text = tokenizer.encode(prompt)
        self.target, self.block, self.known = target, block, {}
        ids = mx.array([self.text])
        self.states = block(target.hidden(ids)[:, :-1], ids[:, 1:])
        self.scores = block.scores(self.states)

    def p(self, prefix):
        if prefix not in self.known:
            logits = self.target(mx.array([[*self.text, *prefix]]))[0, -1]
            self.known[prefix] = softmax(np.array(logits, np.float64))
        return self.known[prefix]

    def q(self, prefix):
        """What a place is drawn from, and the chance that its draft stays."""
        place = len(prefix)
        scores = self.scores[:, place]
        if prefix:
            scores = scores + self.block.coupling(mx.array([prefix[-1]]))
        sure = self.block.confidence(self.states[:, place], scores).item()
        return softmax(np.array(scores[0], np.float64)), sure


def drafted(world, rng, prefix=(), times=DRAWS, chance=1.0):
    """Yield each block of drafts that is offered, and how many of the rounds had it."""
    place = len(prefix)
    q, sure = world.q(prefix) if place < GAMMA else (None, 0)
    if place == GAMMA or (place and chance * sure < LEAST):
        yield prefix, times
        return
    counts = rng.multinomial(times, q / q.sum())
    for token in np.flatnonzero(counts):
        yield from drafted(world, rng, (*prefix, int(token)), counts[token], chance * sure)


def written(world, rule, told=lambda q: q):
    """Draw 20,000 rounds, and count the first two tokens of each: the target adds what lacks.

    The rule is ``told`` what a draft was drawn from.
    """
    rng, seen, lengths = np.random.default_rng(5), {}, np.zeros(GAMMA + 1)
    for drafts, times in drafted(world, rng):
        lengths[len(drafts)] += times
        p = np.array([world.p(drafts[:n]) for n in range(len(drafts) + 1)])
        q = np.array([told(world.q(drafts[:n])[0]) for n in range(len(drafts))])
        many = [np.broadcast_to(x, (times, *x.shape)) for x in (p, q, np.array(drafts))]
        u = mx.array(rng.random((times, 2)).astype(np.float32))
        outcome = draw_outcome(rules.RULE[rule], *map(mx.array, many[:2]), mx.array(many[2]), u)
        for kept, tokens in zip(*(np.array(x).tolist() for x in outcome), strict=True):
            text = (*tokens[:kept], tokens[kept])
            while len(text) < 2:
                row = world.p(text)
                text = (*text, int(rng.choice(len(row), p=row / row.sum())))
            seen[text[:2]] = seen.get(text[:2], 0) + 1
    return seen, lengths


def surprise(world, seen):
    """Chi-square of the pairs of tokens, and its bound."""
    counts: list[float] = []
    wanted: list[float] = []
    for first in np.flatnonzero(world.p(()) * DRAWS > 5):
        chances = world.p(())[first] * world.p((int(first),))
        for second in np.flatnonzero(chances * DRAWS > 5):
            counts.append(seen.get((int(first), int(second)), 0))
            wanted.append(DRAWS * chances[second])
    counts.append(DRAWS - sum(counts))
    wanted.append(DRAWS - sum(wanted))
    counts, wanted = (np.array(x, np.float64) for x in (counts, wanted))
    if wanted[-1] < 5:  # too rare to be compared
        counts, wanted = counts[:-1], wanted[:-1]
    return ((counts - wanted) ** 2 / wanted).sum(), chi2.isf(FALSE_ALARM, max(1, len(counts) - 1))


@pytest.fixture(scope="module")
def models():
    target, tokenizer = load("target", dtype=mx.float32)
    return target, load_block("target-block", target), tokenizer


OF_BOTH = [(rule, task) for rule in ("rejection", "block") for task in ("sums", "edits")]
CELLS = [  # a cell takes up to minutes: the others are slow
    pytest.param(rule, task, marks=getattr(pytest.mark, tier))
    for rule in rules.RULE
    for task in TEXTS
    for tier in ["thorough" if (rule, task) in OF_BOTH else "slow"]
]


@pytest.mark.parametrize(("rule", "task"), CELLS)
def test_20_000_rounds_of_the_block_write_what_the_target_says(models, rule, task):
    world = World(*models, task)
    seen, lengths = written(world, rule)
    statistic, bound = surprise(world, seen)
    visible = np.sqrt(bound / DRAWS) / 2  # of all biases of this size, the most even one
    print(f"{rule}, {task}: χ² {statistic:.1f} < {bound:.1f}, offered {lengths / DRAWS}; ", end="")
    print(f"a total variation of {visible:.3f} shows")
    assert statistic < bound


@pytest.mark.thorough
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_rounds_find_a_q_that_is_not_the_one_drawn_from(models, rule):
    """It is told the marginals of the places, sharpened by a tenth."""
    world = World(*models, "sums")
    seen, _ = written(world, rule, lambda q: q**1.1 / (q**1.1).sum())
    statistic, bound = surprise(world, seen)
    assert statistic > bound

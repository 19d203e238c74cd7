"""20,000 texts on the shipped pair with each small drafter: they have the target's law.

The engine writes them whole, from one seed; their first two tokens are compared with the target's
own chances in float64.
"""

from collections import Counter
from functools import cache, partial

from lablib.course.tasks import TASKS
from lablib.inference.completions import samples
from lablib.inference.speculation import LookupFirst, NGram, NGramPool, Tempered, tempered
from lablib.inference.speculation.draft_model import DraftModel

import mlx.core as mx
import numpy as np
import pytest
from oracles.tables import WrittenModel
from scipy.special import softmax
from scipy.stats import chi2

FALSE_ALARM, DRAWS = 1e-6, 20_000
TEXTS = {"stories": " Mia finds a", "sums": "3+"}


class Lying(DraftModel):
    """Draws at 0.8, and says that it was at 1."""

    def propose(self, texts, limits, sampler):
        drafted = super().propose(texts, limits, tempered.at(sampler, 0.8))
        return type(drafted)(
            drafted.tokens, mx.softmax(drafted.logits, axis=-1), drafted.logits, drafted.counts,
            drawn=True, blind=True,
        )  # fmt: skip


def drafter(kind, draft, text):
    pool = NGramPool(2)
    pool.begin(None, None, 1).lookup([*text, *text[-6:]], 1)
    return {
        "pool": lambda: pool,
        "look-up first": lambda: LookupFirst(draft, NGram(1, 1)),
        "cold": lambda: Tempered(draft, 0.5),
        "hot": lambda: Tempered(draft, 1.5),
        "lying": lambda: Lying(draft),
    }[kind]()


class World:
    """The pair after a text; what they say after each prefix is asked once."""

    def __init__(self, pair, task):
        target, draft, tokenizer = pair
        text = tokenizer.encode(TASKS[task].problems(3, 1)[0].prompt + TEXTS[task])
        self.start, self.text = text[:-8], text[-8:]
        size = target.config.vocab_size
        self.target = WrittenModel(size, cache(partial(self.scores, target)))
        self.draft = WrittenModel(size, cache(partial(self.scores, draft)))

    def scores(self, model, after):
        return np.array(model(mx.array([[*self.start, *after]]))[0, -1], np.float32)

    def law(self, *more):
        return softmax(self.target.layers[-1]((*self.text, *more)).astype(np.float64))

    def surprise(self, written):
        """Chi-square of the first two tokens, of pairs that are expected five times; its bound."""
        chances = {}
        for first in np.flatnonzero(self.law() * DRAWS > 5).tolist():
            both = self.law()[first] * self.law(first)
            chances |= {
                (first, second): both[second] for second in np.flatnonzero(both * DRAWS > 5)
            }
        seen = Counter((tokens[0], tokens[1]) for tokens in written)
        counts = np.array([*map(seen.__getitem__, chances)], np.float64)
        wanted = DRAWS * np.array([*chances.values()])
        if DRAWS - wanted.sum() > 5:  # else they are too rare to be compared
            counts = np.append(counts, DRAWS - counts.sum())
            wanted = np.append(wanted, DRAWS - wanted.sum())
        return ((counts - wanted) ** 2 / wanted).sum(), chi2.isf(FALSE_ALARM, len(counts) - 1)


@pytest.fixture(scope="module")
def worlds(pair):
    return {task: World(pair, task) for task in TEXTS}


def write(world, kind, rule):
    how = {"max_tokens": 3, "draft_tokens": 2, "stop_tokens": (), "seed": 7, "rule": rule}
    drafts = drafter(kind, world.draft, world.text)
    found = samples(world.target, [world.text], DRAWS, drafts, max_batch=500, **how).join()
    assert found.stats["total_drafted"] > DRAWS
    statistic, bound = world.surprise(found.tokens)
    visible = np.sqrt(bound / DRAWS) / 2  # of all biases of this size, the most even one
    print(f"χ² {statistic:.1f}, bound {bound:.1f}; a total variation of {visible:.3f} shows")
    return statistic, bound


@pytest.mark.slow
@pytest.mark.parametrize("task", TEXTS)
@pytest.mark.parametrize("rule", ["rejection", "block"])  # under the others a seed has one text
@pytest.mark.parametrize("kind", ["pool", "look-up first", "cold", "hot"])
def test_20_000_texts_have_the_targets_law(monkeypatch, worlds, kind, rule, task):
    monkeypatch.setattr(NGramPool, "shared", False)  # what filled it drew from no number of theirs
    statistic, bound = write(worlds[task], kind, rule)
    assert statistic < bound


@pytest.mark.slow
def test_a_drafter_that_says_another_temperature_is_found_out(worlds):
    statistic, bound = write(worlds["stories"], "lying", "rejection")
    assert statistic > bound

"""Siblings judged after texts of the shipped target: no law bent, and how much more stays."""

from lablib.course.tasks import TASKS
from lablib.inference.speculation.optimal_pair import OptimalPair
from lablib.inference.speculation.tree_rules import TREE_RULE

import mlx.core as mx
import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chi2

FALSE_ALARM, DRAWS = 1e-6, 20_000
TEXTS = {"stories": " Mia finds a", "sums": "3+", "edits": ""}


def said(pair, task):
    """What the target and the draft say after a text of a task: ``(V,)`` each."""
    *models, tokenizer = pair
    text = tokenizer.encode(TASKS[task].problems(3, 1)[0].prompt + TEXTS[task])
    logits = (model(mx.array([text]))[0, -1].astype(mx.float32) for model in models)
    return [softmax(np.array(each, np.float64)) for each in logits]


def drawn(q, siblings, rng, times=DRAWS):
    """Draw siblings without replacement, and count each list of them."""
    if not siblings:
        return {(): times}
    found = {}
    for token in np.flatnonzero(firsts := rng.multinomial(times, q / q.sum())):
        rest = np.where(np.arange(len(q)) == token, 0, q)
        for later, count in drawn(rest, siblings - 1, rng, firsts[token]).items():
            found[int(token), *later] = count
    return found


def surprise(rule, p, q, siblings):
    """Chi-square of the tokens that 20,000 rounds write, and its bound."""
    rng, seen = np.random.default_rng(5), np.zeros(len(p))
    for children, times in drawn(q, siblings, rng).items():
        rows, nodes = np.tile(p, (siblings + 1, 1)), [-1] * siblings
        kept, following = rule(rows, np.tile(q, (siblings, 1)), children, nodes)
        *stay, none = rng.multinomial(times, np.append(kept[1:], kept[0]) / kept.sum())
        seen[list(children)] += stay
        seen += rng.multinomial(none, following[0] / following[0].sum())
    likely = DRAWS * p > 5
    counts, wanted = (np.append(x[likely], x[~likely].sum()) for x in (seen, DRAWS * p))
    counts, wanted = counts[wanted > 0], wanted[wanted > 0]
    return ((counts - wanted) ** 2 / wanted).sum(), chi2.isf(FALSE_ALARM, max(1, len(wanted) - 1))


@pytest.mark.grid(lambda siblings, task: task == "sums", rest="slow")
@pytest.mark.parametrize("siblings", [2, 3])
@pytest.mark.parametrize("task", TEXTS)
def test_20_000_rounds_write_what_the_target_says(pair, task, siblings):
    p, q = said(pair, task)
    statistic, bound = surprise(TREE_RULE["optimal"], p, q, siblings)
    visible = np.sqrt(bound / DRAWS) / 2  # of all biases of this size, the most even one
    print(f"{task}: χ² {statistic:.1f} < {bound:.1f}; a total variation of {visible:.3f} shows")
    assert statistic < bound


def test_rounds_find_a_choice_that_is_wrong(pair, monkeypatch):
    right = OptimalPair.second
    monkeypatch.setattr(OptimalPair, "second", lambda *of: 1 - right(*of))
    statistic, bound = surprise(TREE_RULE["optimal"], *said(pair, "sums"), 2)
    assert statistic > bound

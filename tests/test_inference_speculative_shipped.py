"""The shipped pair: measured acceptance against what the two models' distributions say it must be.

Each draft that is judged is kept with probability Σ min(p, q) of its context (Σ p·q under match),
given all that came before. So accepted minus the sum of those overlaps is a martingale, with
variance Σ o (1 − o); its z-score exceeds 5 by chance six times in 10⁷.
"""

import math
from dataclasses import dataclass, field

from lablib.inference import rules
from lablib.inference.drafters import NGram
from lablib.inference.judging import Judge, Round
from lablib.inference.speculative import SpeculativeTokenIterator
from lablib.models import zoo
from lablib.tasks import TASKS

import mlx.core as mx
import numpy as np
import pytest

SHIPPED = {"target", "draft"} <= set(zoo.names())
pytestmark = pytest.mark.skipif(not SHIPPED, reason="the checkpoints are not trained yet")
TEMPERATURES = (0.3, 0.7, 1.0, 1.5)


@dataclass
class Trace:
    """The rounds of several problems of one task."""

    rounds: list[Round] = field(default_factory=list)
    positions: list[tuple[int, int]] = field(default_factory=list)  # problem, place of first draft
    texts: list[list[int]] = field(default_factory=list)
    tokens: int = 0

    @property
    def accepted(self):
        return sum(r.accepted for r in self.rounds)

    def overlaps(self, name):
        return np.array([o for r in self.rounds for o in getattr(r, name)[: r.reached]])

    @property
    def tokens_per_round(self):
        return self.tokens / len(self.rounds)


@pytest.fixture(scope="module")
def pair():
    target, tokenizer = zoo.load("target")
    draft, _ = zoo.load("draft")
    return target, draft, tokenizer


def run(pair, task, n, draft=None, **options):
    target, shipped, tokenizer = pair
    trace = Trace()
    for number, problem in enumerate(TASKS[task].problems(11, n)):
        iterator = SpeculativeTokenIterator(
            target, shipped if draft is None else draft, tokenizer.encode(problem.prompt),
            max_tokens=64, stop_tokens=tokenizer.eos_token_ids, seed=number, trace=True, **options,
        )  # fmt: skip
        for _ in iterator:
            pass
        place = 0
        for round_ in iterator.rounds:
            trace.positions.append((number, place))
            place += round_.accepted + (round_.token is not None)
        trace.rounds += iterator.rounds
        trace.texts.append(iterator.tokens)
        trace.tokens += len(iterator.tokens)
    return trace


def z_score(trace, name):
    overlap = trace.overlaps(name)
    spread = math.sqrt(float((overlap * (1 - overlap)).sum()))
    return (trace.accepted - float(overlap.sum())) / max(spread, 1e-9)


def check_acceptance(pair, task, n):
    """α of both rules at four temperatures; returns how many lie inside their 95 % interval."""
    inside = 0
    for temperature in TEMPERATURES:
        rates, spread = {}, {}
        for rule, name in (("rejection", "min_pq"), ("match", "dot_pq")):
            trace = run(pair, task, n, rule=rule, temperature=temperature)
            z = z_score(trace, name)
            assert abs(z) < 5, f"{task} {rule} T={temperature}: z = {z:.1f}"
            inside += abs(z) < 1.96
            assert (trace.overlaps("min_pq") >= trace.overlaps("dot_pq") - 1e-5).all()
            overlap = trace.overlaps(name)
            rates[rule] = trace.accepted / len(overlap)
            spread[rule] = float((overlap * (1 - overlap)).sum()) / len(overlap) ** 2
        # The two runs write different texts: their rates differ by chance, here up to five sigma.
        assert rates["rejection"] >= rates["match"] - 5 * math.sqrt(sum(spread.values()))
    return inside


@pytest.mark.parametrize("task", TASKS)
def test_acceptance_is_the_overlap_of_the_two_models(pair, task):
    assert check_acceptance(pair, task, 3) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_acceptance_is_the_overlap_of_the_two_models_at_length(pair, task):
    assert check_acceptance(pair, task, 30) >= 5


def test_acceptance_is_found_out_when_drafts_are_not_drawn_from_q(pair, monkeypatch):
    """The planted bug: the best token is drafted, q still says it was drawn."""
    right = Judge.choose

    def greedy_choice(judge, logits, before):
        _, q = right(judge, logits, before)
        return mx.argmax(q, axis=-1).astype(mx.int32), q

    monkeypatch.setattr(Judge, "choose", greedy_choice)
    trace = run(pair, "stories", 15, rule="match", temperature=2.0)
    assert abs(z_score(trace, "dot_pq")) > 5


def test_rejection_beats_match_where_there_is_a_choice(pair):
    """Which digit is added next is anybody's choice: both models know, and match wastes it."""
    trace = run(pair, "sums", 12, rule="rejection", temperature=1.0)
    problems = TASKS["sums"].problems(11, 12)
    kept = {"min_pq": [], "dot_pq": []}
    for round_, (number, place) in zip(trace.rounds, trace.positions, strict=True):
        text = pair[2].decode(trace.texts[number], skip_special_tokens=True)
        offset = len(problems[number].prompt)
        classes = {
            start - offset: name
            for start, _, name in TASKS["sums"].token_classes(problems[number], text)
        }
        for i in range(round_.reached):
            if classes.get(place + i) == "operand":  # in sums every character is a token
                for name, values in kept.items():
                    values.append(getattr(round_, name)[i])
    assert len(kept["min_pq"]) > 40
    assert np.mean(kept["min_pq"]) >= 1.3 * np.mean(kept["dot_pq"])


@pytest.mark.parametrize("task", TASKS)
def test_block_keeps_at_least_what_rejection_keeps(pair, task, monkeypatch):
    """On the same p, q and drafts: the expected number of kept drafts, averaged over the rounds."""
    gains = []

    def both(p, q, drafts):
        count = mx.arange(p.shape[-2])
        outcomes = rules.block(p, q, drafts), rules.rejection(p, q, drafts)
        by_block, one_by_one = (mx.sum(o.kept * count).item() for o in outcomes)
        gains.append(by_block - one_by_one)
        return outcomes[0]

    monkeypatch.setitem(rules.RULE, "block", both)
    run(pair, task, 12, rule="block", temperature=1.0)
    mean, error = np.mean(gains), np.std(gains) / math.sqrt(len(gains))
    assert len(gains) > 30
    assert mean > -5 * error - 1e-4


@pytest.mark.parametrize("task", TASKS)
def test_greedy_speculation_on_the_pair_is_greedy_decoding(pair, task):
    from lablib.inference.decoding import TokenIterator

    target, _, tokenizer = pair
    problems = TASKS[task].problems(11, 3)
    trace = run(pair, task, 3, temperature=0.0)
    for problem, got in zip(problems, trace.texts, strict=True):
        plain = TokenIterator(
            target, tokenizer.encode(problem.prompt), max_tokens=64, temperature=0.0,
            stop_tokens=tokenizer.eos_token_ids,
        )  # fmt: skip
        assert got == [token.id for token in plain]


def test_ngram_pays_on_edits_and_not_on_stories(pair):
    """Tokens per verification: an edit copies its prompt, a story does not."""
    on_edits = run(pair, "edits", 10, draft=NGram(), temperature=0.0).tokens_per_round
    on_stories = run(pair, "stories", 10, draft=NGram(), temperature=0.0).tokens_per_round
    assert on_edits >= 2.5
    assert on_edits - on_stories >= 1.2

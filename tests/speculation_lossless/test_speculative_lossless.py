"""Losslessness through the engine: every path it can take is enumerated, with its real code.

The judge's random draws are replaced by an exploration of all of them; models, caches, sampler,
rule, rewinding and iterator are the library's, in float32.
"""

import itertools

from lablib.cache.rewind_batch import can_batch
from lablib.course.lessons.lesson_08.enumeration import exactly
from lablib.inference.completions import speculative_batch
from lablib.inference.sampling import transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import EarlyExit, Head, NGram, rules
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.models import DraftHead, LanguageModel, llama_config

import mlx.core as mx
import numpy as np
import pytest
from oracles.enumeration import Language, joint
from oracles.tables import Exploration, TableModel, WrittenModel

PROMPT, SIZE, N = (1, 0, 1), 3, 3
PENALTIES = {"repeat_penalty": 1.6, "presence_penalty": 0.3, "frequency_penalty": 0.4}
OPTIONS = [{}, {"temperature": 0.7, "top_p": 0.8}, {**PENALTIES, "min_p": 0.1}]


@pytest.fixture
def explored(monkeypatch, uncompiled):
    """All that speculation can write, with probabilities: ``(V,) * N``."""
    exploration, raced = Exploration(), {}

    def choose(number, weights):
        """Sequence 0 is explored; the others of a batch take what is likeliest."""
        return exploration.choose(weights) if number == 0 else int(np.argmax(weights))

    def numbers(sampler, first, n=1, size=0):
        """Instead of a random number the sequence's own, so that ``draw`` knows whose it draws."""
        return mx.array([[row] * n for row in range(len(sampler.rows))])

    def draw(weights, number):
        drawn = zip(number[:, 0].tolist(), np.array(weights), strict=True)
        return mx.array([[choose(*each)] for each in drawn], mx.int32)

    def race(sampler, weights, drafts):
        """Draw a draft under shared noise, and note from what: the target's token depends on it."""
        ahead = 0 if drafts is None else drafts.shape[1]
        if not ahead:
            raced.clear()
        raced[ahead] = dict(enumerate(np.array(weights[:, 0])))
        return draw(weights[:, 0], numbers(sampler, 0))

    def after(draft, q, p):
        """The target's token when the draft is known: what the noise is known to be."""
        kept, following = exactly(rules.coupled, [p, p], [q], [draft])
        return kept[0] * following[0] + kept[1] * np.eye(SIZE)[draft]

    def target_tokens(sampler, scores, drafts):
        p = np.array(sampler.probabilities(scores, drafts)[0])
        written = []
        drafted = [[]] * len(p) if drafts is None else drafts.tolist()
        for number, (rows, limit) in enumerate(zip(p, drafted, strict=True)):
            tokens = []
            for place, row in enumerate(rows):
                agreed = tokens[: len(limit)] == limit[: len(tokens)]
                # After the first disagreement nothing depends on the draws any more.
                if sampler.coupled and agreed and place < len(limit):
                    looked_up = {number: np.eye(SIZE)[limit[place]]}
                    row = after(limit[place], raced.get(place, looked_up)[number], row)
                tokens.append(choose(number, row) if agreed else 0)
            written.append(tokens)
        return mx.array(written, mx.int32), mx.ones((len(p), p.shape[1]), mx.bool_)

    monkeypatch.setattr(transforms, "draw", draw)
    monkeypatch.setattr(TextSampler, "numbers", numbers)
    monkeypatch.setattr(TextSampler, "draw", target_tokens)
    monkeypatch.setattr(TextSampler, "race", race)

    def explore(rule, drafter, options, gamma=2, beside=None):
        def program():
            raced.clear()
            model, draft = drafter()
            given = {"max_tokens": N, "draft_tokens": gamma, "rule": rule, **options}
            if beside is not None:
                return tuple(speculative_batch(model, draft, [PROMPT, beside], **given).tokens[0])
            iterator = SpeculativeTokenIterator(model, draft, PROMPT, **given)
            tokens = tuple(token.id for token in iterator)
            assert iterator.cache[0].offset == len(PROMPT) + N - 1
            return tokens

        out = np.zeros((SIZE,) * N)
        for tokens, weight in exploration.run(program).items():
            out[tokens] = weight
        return out

    return explore


TARGET, DRAFT = (Language(SIZE, seed).scores for seed in (5, 77))


def draft_model():
    return TableModel(SIZE, TARGET), TableModel(SIZE, DRAFT)


def ngram():
    return TableModel(SIZE, TARGET), NGram(2)


def early_exit():
    """The first layer says what the draft model says."""
    return WrittenModel(SIZE, DRAFT, TARGET), EarlyExit(1)


# Each rule with a draft model, each drafter and each options' cut with one rule.
@pytest.mark.grid(
    lambda rule, drafter, options: (
        (drafter is draft_model) + (options == {}) + (rule == "block") >= 2
    )
)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("drafter", [draft_model, ngram, early_exit])
@pytest.mark.parametrize("rule", rules.RULE)
def test_the_engine_writes_the_targets_distribution(explored, rule, drafter, options):
    got = explored(rule, drafter, options)
    assert abs(got.sum() - 1) < 1e-5
    assert np.abs(got - joint(Language(SIZE, seed=5, **options), PROMPT, N)).max() < 1e-5


@pytest.mark.grid(
    lambda rule, ids, options: (
        (rule, ids, bool(options)) in (("rejection", [0, 2], True), ("match", None, False))
    )
)
@pytest.mark.parametrize("options", OPTIONS[:2], ids=str)
@pytest.mark.parametrize("ids", [None, [0, 2]])
@pytest.mark.parametrize("rule", rules.RULE)
def test_a_draft_head_leaves_the_distribution_alone(explored, rule, ids, options):
    """Its target is a real network; what that writes alone is enumerated by forwards."""
    model = LanguageModel(llama_config(SIZE, d_model=16, n_heads=2, n_layers=1, d_ff=16), seed=4)

    def drafter():
        return model, Head(DraftHead(model, ids, 8, seed=2))

    got, wanted = explored(rule, drafter, options), np.zeros((SIZE,) * N)
    for text in itertools.product(range(SIZE), repeat=N):
        logits = model(mx.array([[*PROMPT, *text]]))[0, len(PROMPT) - 1 : -1]
        p = np.array(mx.softmax(transforms.apply(logits, SamplerOptions(**options)), axis=-1))
        wanted[text] = np.prod(p[range(N), text])
    assert abs(got.sum() - 1) < 1e-5
    assert np.abs(got - wanted).max() < 1e-5


class Moody:
    """A draft length that depends on what happened: two after success, none after failure."""

    plain_tokens = 1

    def begin(self, target, drafter):
        self.n = 2

    def choose(self):
        chosen, self.n = self.n, 1
        return chosen

    def observe(self, reached, accepted):
        if reached:
            self.n = 2 if accepted == reached else 0

    def timed(self, drafted, seconds):
        pass

    def miss(self):
        pass


@pytest.mark.grid(lambda rule, drafter: rule == "block" or drafter is draft_model)
@pytest.mark.parametrize("drafter", [draft_model, early_exit])
@pytest.mark.parametrize("rule", rules.RULE)
def test_a_length_that_follows_the_verdicts_changes_nothing(explored, rule, drafter):
    got = explored(rule, drafter, PENALTIES, gamma=Moody())
    assert np.abs(got - joint(Language(SIZE, seed=5, **PENALTIES), PROMPT, N)).max() < 1e-5


BATCH = WrittenModel(SIZE, TARGET), WrittenModel(SIZE, DRAFT)


def draft_model_of_a_batch():
    return BATCH


def ngram_of_a_batch():
    return BATCH[0], NGram(2)


@pytest.mark.grid(
    lambda rule, drafter, options: (
        (rule, drafter, bool(options))
        in (("rejection", draft_model_of_a_batch, True), ("match", ngram_of_a_batch, False))
    )
)
@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[2]], ids=str)
@pytest.mark.parametrize("drafter", [draft_model_of_a_batch, ngram_of_a_batch])
@pytest.mark.parametrize("rule", rules.RULE)
def test_a_row_of_a_batch_has_the_targets_distribution(explored, rule, drafter, options):
    """Beside a shorter row that accepts another number of drafts."""
    assert can_batch(BATCH[0], BATCH[0].make_cache())
    got = explored(rule, drafter, options, beside=[2])
    assert abs(got.sum() - 1) < 1e-5
    assert np.abs(got - joint(Language(SIZE, seed=5, **options), PROMPT, N)).max() < 1e-5


class Ids:
    """A tokenizer that knows so many ids."""

    def __init__(self, size):
        self.size = size

    def get_vocab(self):
        return {f"token {i}": i for i in range(self.size)}


def of_other_padding(kind, rows, known):
    """A target, and a draft model whose table has other rows; they know so many ids."""
    models = kind(SIZE, TARGET), kind(rows, Language(rows, seed=77).scores)
    for model in models:
        model.tokenizer = Ids(known)
    return models


@pytest.mark.grid(
    lambda rule, rows, beside, options: (
        (rule, beside is None, bool(options))
        in (("rejection", True, True), ("block", True, False), ("coupled", True, False))
        or (rule, rows, beside, options) == ("match", 2, [2], {})
    )
)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("beside", [None, [2]], ids=["alone", "batch"])
@pytest.mark.parametrize("rows", [2, 5])
@pytest.mark.parametrize("rule", rules.RULE)
def test_a_draft_of_other_padding_leaves_the_distribution_alone(
    explored, rule, rows, beside, options
):
    """What it lacks is never drafted; what the target lacks is no token at all."""
    kind = TableModel if beside is None else WrittenModel
    models = of_other_padding(kind, rows, known=2)
    got = explored(rule, lambda: models, options, beside=beside)
    assert abs(got.sum() - 1) < 1e-5
    assert np.abs(got - joint(Language(SIZE, seed=5, **options), PROMPT, N)).max() < 1e-5


def test_the_engine_is_found_out_when_the_residual_is_p(explored, monkeypatch):
    def residual_from_p(p, q, drafts):
        return rules.Outcome(rules.rejection(p, q, drafts).kept, p)

    monkeypatch.setitem(rules.RULE, "rejection", residual_from_p)
    got = explored("rejection", draft_model, {})
    assert np.abs(got - joint(Language(SIZE, seed=5), PROMPT, N)).max() > 1e-2


def test_the_engine_is_found_out_when_penalties_miss_the_drafts(explored, monkeypatch):
    """The draft chain must be in the penalties' window, position by position."""
    right = TextSampler.cut

    def blind(batch, logits, drafts):
        if logits.ndim == 2:
            return right(batch, logits)
        rows = [right(batch, logits[:, i : i + 1]) for i in range(logits.shape[1])]
        return tuple(mx.concatenate(parts, axis=1) for parts in zip(*rows, strict=True))

    monkeypatch.setattr(TextSampler, "cut", blind)
    got = explored("rejection", draft_model, PENALTIES)
    assert np.abs(got - joint(Language(SIZE, seed=5, **PENALTIES), PROMPT, N)).max() > 1e-2


def test_all_texts_of_a_round_are_possible():
    """A sanity check of the oracle itself: the exploration finds every text exactly once."""
    exploration = Exploration()
    found = exploration.run(
        lambda: (exploration.choose([0.2, 0.8]), exploration.choose([0.5, 0.0, 0.5]))
    )
    assert found == pytest.approx(
        {(i, j): (0.2, 0.8)[i] / 2 for i, j in itertools.product((0, 1), (0, 2))}
    )

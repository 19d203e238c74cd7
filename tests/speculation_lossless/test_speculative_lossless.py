"""Losslessness through the engine: every path it can take is enumerated, with its real code.

The judge's random draws are replaced by an exploration of all of them (``oracles/explored.py``);
models, caches, sampler, rule, rewinding and iterator are the library's, in float32.
"""

import itertools
from dataclasses import replace

from lablib.cache.rewind_batch import can_batch
from lablib.inference.sampling import transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import Block, EarlyExit, Head, NGram, Tree, judge, rules
from lablib.inference.speculation.draft_model import DraftModel
from lablib.inference.speculation.proposal import check_proposal
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.models import DraftBlock, DraftHead, LanguageModel, llama_config
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles.enumeration import Language, joint
from oracles.explored import PROMPT, SIZE, N
from oracles.speculation import near, target
from oracles.tables import Exploration, TableModel, WrittenModel

PENALTIES = {"repeat_penalty": 1.6, "presence_penalty": 0.3, "frequency_penalty": 0.4}
OPTIONS = [{}, {"temperature": 0.7, "top_p": 0.8}, {**PENALTIES, "min_p": 0.1}]


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


@pytest.mark.grid(lambda rule, ids, options: rule != "block" or not options, rest="slow")
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

    check_alone(model, explored(rule, drafter, options), options)


def check_alone(model, got, options):
    wanted = np.zeros((SIZE,) * N)
    for text in itertools.product(range(SIZE), repeat=N):
        logits = model(mx.array([[*PROMPT, *text]]))[0, len(PROMPT) - 1 : -1]
        p = np.array(mx.softmax(transforms.apply(logits, SamplerOptions(**options)), axis=-1))
        wanted[text] = np.prod(p[range(N), text])
    assert abs(got.sum() - 1) < 1e-5
    assert np.abs(got - wanted).max() < 1e-5


@pytest.mark.grid(lambda rule, ids: ids or rule != "match", rest="slow")
@pytest.mark.grid(lambda rule, ids: (rule in ("rejection", "coupled")) == (ids is None))
@pytest.mark.parametrize("ids", [None, [0, 2]])
@pytest.mark.parametrize("rule", rules.RULE)
def test_a_block_leaves_the_distribution_alone(explored, rule, ids):
    """It offers one place or two, as the first draft will have it."""
    config = llama_config(SIZE, d_model=16, n_heads=2, n_layers=1, d_ff=16)
    model, offered = LanguageModel(config, seed=4), set()
    block = DraftBlock(model, 2, ids, 8, seed=2)
    block.couple.weight = 10 * block.couple.weight
    block.confide.weight[0, -2] = 2.0  # it goes by the log of the largest q
    block.confide.bias = mx.array([2.0])
    least = 0.48 if ids is None else 0.66

    class Counted(Block):
        def propose(self, *asked):
            proposal = super().propose(*asked)
            if proposal is not None and asked[1][0] == 2:
                offered.add(proposal.tokens.shape[1])
            return proposal

    check_alone(model, explored(rule, lambda: (model, Counted(block, least)), {}), {})
    assert offered == {1, 2}


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


@pytest.mark.grid(lambda rule, drafter, options: bool(options) != (rule == "match"), rest="slow")
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
    lambda rule, rows, beside, options: rows == 2 or (bool(options) and rule == "block"),
    rest="slow",
)
@pytest.mark.grid(
    lambda rule, rows, beside, options: (
        (rule, beside is None, bool(options))
        in (("rejection", True, True), ("block", True, False), ("coupled", True, False))
        or (rule, rows, beside, options) == ("match", 2, [2], {})
    )
)
@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[2]], ids=str)
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


# --- lengths that look -------------------------------------------------------------------------


class Dropping(DraftModel):
    """Drops the tokens that were drawn with less than a third, and all after them."""

    def propose(self, texts, limits, sampler):
        drafted = super().propose(texts, limits, sampler)
        tokens = drafted.tokens[0].tolist()
        chances = [q[token] for q, token in zip(drafted.q[0].tolist(), tokens, strict=True)]
        stay = next((i for i, chance in enumerate(chances) if chance < 1 / 3), len(chances))
        return self.after(replace(drafted, counts=[stay]))

    def after(self, drafted):
        """What it says of itself."""
        return drafted


class Honest(Dropping):
    def after(self, drafted):
        return replace(drafted, blind=False)


class Certain(Dropping):
    """Keeps to itself what its tokens were drawn from."""

    def after(self, drafted):
        return replace(drafted, q=None, blind=False)


class Careful(DraftModel):
    """Offers a place by what it will be drawn from, and by the drafts before it."""

    def offers(self, logits, before):
        peak = mx.max(mx.softmax(logits, axis=-1), axis=-1)
        return [
            each > 0.4 and not (before and int(before[-1][row]) == 0)
            for row, each in enumerate(peak.tolist())
        ]


def drafting(kind):
    return lambda: (TableModel(SIZE, TARGET), kind(TableModel(SIZE, DRAFT)))


def off(got):
    """How far what was written is from the target's own distribution."""
    return np.abs(got - joint(Language(SIZE, seed=5), PROMPT, N)).sum() / 2


@pytest.mark.parametrize("gamma", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_a_length_that_looks_at_its_own_token_biases_the_text(explored, rule, gamma):
    """So it must be found; here it lies about it."""
    assert off(explored(rule, drafting(Dropping), {}, gamma)) > 0.02


@pytest.mark.parametrize("gamma", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", ["match", "coupled"])
def test_where_the_targets_own_tokens_decide_no_length_biases_the_text(explored, rule, gamma):
    assert off(explored(rule, drafting(Dropping), {}, gamma)) < 1e-5


@pytest.mark.grid(lambda rule, gamma: rule == "block")
@pytest.mark.parametrize("gamma", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_without_a_q_a_length_may_look_at_its_tokens(explored, rule, gamma):
    assert off(explored(rule, drafting(Certain), {}, gamma)) < 1e-5


@pytest.mark.parametrize("rule", rules.RULE)
def test_a_q_that_is_not_said_to_be_blind_is_refused_under_each_rule(rule):
    model, draft = drafting(Honest)()
    tokens = SpeculativeTokenIterator(model, draft, PROMPT, rule=rule, max_tokens=4)
    with pytest.raises(BadValue, match=r"q with blind=True .*, else no q, got blind=False"):
        next(tokens)


@pytest.mark.parametrize("options", OPTIONS[:2], ids=str)
@pytest.mark.parametrize("rule", rules.RULE)
def test_a_length_that_looks_before_it_draws_leaves_the_distribution_alone(explored, rule, options):
    got = explored(rule, drafting(Careful), options)
    assert np.abs(got - joint(Language(SIZE, seed=5, **options), PROMPT, N)).max() < 1e-5


@pytest.mark.thorough
@pytest.mark.parametrize("beside", [(1, 0, 1), pytest.param((1, 1), marks=pytest.mark.slow)])
def test_a_length_that_looks_before_it_draws_may_share_a_batch(explored, beside):
    def careful():
        return BATCH[0], Careful(BATCH[1])

    got = explored("rejection", careful, {}, beside=beside)
    assert off(got) < 1e-5


def test_by_hand_a_drop_below_a_half_writes_the_first_in_65_of_100_texts(explored):
    p, q = np.log([0.5, 0.5, 1e-30]), np.log([0.7, 0.3, 1e-30])

    class Half(DraftModel):
        def propose(self, texts, limits, sampler):
            drafted = super().propose(texts, limits, sampler)
            stays = float(drafted.q[0, 0, int(drafted.tokens[0, 0])]) >= 0.5
            return replace(drafted, counts=[int(stays)])

    def pair():
        return TableModel(SIZE, lambda text: p), Half(TableModel(SIZE, lambda text: q))

    got = explored("rejection", pair, {}, gamma=1).sum(axis=(1, 2))
    # 0.7 · (0.5 / 0.7) of those that were offered, and half of the 0.3 that were dropped.
    assert got[0] == pytest.approx(0.5 + 0.15, abs=1e-5)


@pytest.mark.parametrize("kind", ["draft model", "first layers", "head", "tree"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_q_that_is_returned_is_the_q_that_was_drawn_from(monkeypatch, kind, options):
    """And what is drawn from nothing is not offered: each token has a chance in its q."""
    model = near(target("llama3", peak=1), 0.2)
    draft = {
        "draft model": lambda: DraftModel(target("llama3", peak=1)),
        "first layers": lambda: EarlyExit(1),
        "head": lambda: Head(DraftHead(model, None, 8, seed=2)),
        "tree": lambda: Tree(target("llama3", peak=1)),
    }[kind]()
    used, proposals = [], []
    chain, tree = TextSampler.draft, TextSampler.shuffled

    def drafted(sampler, logits, before):
        found = chain(sampler, logits, before)
        left, _ = sampler.cut(logits, mx.stack(list(before), axis=1) if before else None)
        used.append(np.array(mx.softmax(left, axis=-1)))
        return found

    def shuffled(sampler, q, paths, row):
        used.extend(np.array(q[0])[:, None])
        return tree(sampler, q, paths, row)

    monkeypatch.setattr(TextSampler, "draft", drafted)
    monkeypatch.setattr(TextSampler, "shuffled", shuffled)
    judged = check_proposal

    def seen(proposal, *rest):
        if proposal.q is not None:
            proposals.append((proposal, [*used]))
        used.clear()
        return judged(proposal, *rest)

    monkeypatch.setattr(judge, "check_proposal", seen)
    how = {"max_tokens": 12, "draft_tokens": 4, "seed": 3, **options}
    assert len([*SpeculativeTokenIterator(model, draft, PROMPT, **how)]) == 12
    assert proposals
    for proposal, drawn_from in proposals:
        for place, (token, q) in enumerate(
            zip(proposal.tokens[0].tolist(), np.array(proposal.q[0]), strict=True)
        ):
            known = [drawn_from[place]] if kind != "tree" else drawn_from
            assert min(np.abs(each[0] - q).max() for each in known) < 1e-6
            assert q[token] > 0

"""A block of drafts: what it reads, what it draws from, how many it offers; the text stands."""

from lablib.cache import kv
from lablib.inference.completions import speculative_sample_n
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import Block, Head, Tree
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.speculation.speculative_iterator import (
    SpeculativeTokenIterator,
    speculative_decode,
)
from lablib.models import DraftBlock, LanguageModel, gpt_config, hybrid_config, llama_config
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest

V, SIZE, PROMPT = 24, 5, [3, 1, 4, 1, 5, 9, 2, 6, 5]
CONFIGS = {
    "llama": llama_config(V, d_model=32, n_heads=4, n_layers=2, d_ff=48),
    "gpt": gpt_config(V, d_model=32, n_heads=2, n_layers=2, max_positions=128),
    "hybrid": hybrid_config(V, d_model=32, n_heads=2, n_layers=4),
}
IDS = range(0, V, 2)


@pytest.fixture(scope="module", params=CONFIGS)
def model(request):
    model = LanguageModel(CONFIGS[request.param], seed=3)
    model.set_dtype(mx.float32)
    return model


@pytest.fixture(scope="module")
def llama():
    model = LanguageModel(CONFIGS["llama"], seed=3)
    model.set_dtype(mx.float32)
    return model


def weights_of(model, ids=None, seed=1):
    return DraftBlock(model, SIZE, ids, 16, seed=seed)


def plain(model, prompt=PROMPT, **options):
    return [token.id for token in TokenIterator(model, prompt, **options)]


def proposals(model, drafter, monkeypatch, **options):
    """Every proposal of a text, and each ``q`` that a draft was drawn from, in order."""
    made, drawn, propose, draft = [], [], Block.propose, TextSampler.draft

    def spy(self, *asked):
        made.append(propose(self, *asked))
        return made[-1]

    def spy_too(self, logits, before):
        token, q = draft(self, logits, before)
        drawn.append((len(before), q))
        return token, q

    monkeypatch.setattr(Block, "propose", spy)
    monkeypatch.setattr(TextSampler, "draft", spy_too)
    tokens = [*SpeculativeTokenIterator(model, drafter, PROMPT, **options)]
    assert tokens
    return [each for each in made if each is not None], drawn


@pytest.mark.grid(lambda model, prompt, ids, gamma: len(prompt) == 1 or ids is None)
@pytest.mark.parametrize("gamma", [1, 3, 9])
@pytest.mark.parametrize("ids", [None, IDS])
@pytest.mark.parametrize("prompt", [PROMPT, [7], PROMPT * 9])
def test_greedy_text_and_caches_are_those_of_plain_decoding(model, prompt, ids, gamma):
    options = {"max_tokens": 25, "temperature": 0.0, "prefill_step_size": 4}
    drafter = Block(weights_of(model, ids))
    iterator = SpeculativeTokenIterator(model, drafter, prompt, draft_tokens=gamma, **options)
    with iterator:
        assert [token.id for token in iterator] == plain(model, prompt, **options)
    assert kv.offset(iterator.cache) == len(prompt) + 24
    assert iterator.stats["draft_calls"] <= iterator.stats["rounds"]  # one forward a round
    assert iterator.stats["total_drafted"] <= SIZE * iterator.stats["rounds"]
    assert drafter.calls == 0  # a session's


@pytest.mark.parametrize("options", [{}, {"top_p": 0.8}, {"repeat_penalty": 1.4}])
def test_match_writes_the_text_of_its_seed(model, options):
    options |= {"max_tokens": 30, "temperature": 1.2, "seed": 5}
    drafter = Block(weights_of(model, IDS))
    text, _ = speculative_decode(model, drafter, PROMPT, rule="match", **options)
    assert text[0, len(PROMPT) :].tolist() == plain(model, **options)


def test_a_cache_changes_nothing_once_the_marks_are_taken_back(model):
    block = weights_of(model)
    states = mx.random.normal((1, 6, 32), key=mx.random.key(1))
    tokens, cache = mx.array([[1, 2, 3, 4, 5, 6]]), block.make_cache()
    for i, j in ((0, 3), (3, 4), (4, 6)):
        part = block(states[:, i:j], tokens[:, i:j], cache)
        kv.trim(cache, SIZE - 1)
    assert part.shape == (1, SIZE, 32)
    assert np.abs(np.array(part - block(states, tokens))).max() < 1e-5
    assert np.abs(np.array(part[:, :2] - block(states, tokens, places=2))).max() < 1e-5


def test_each_place_is_drawn_from_its_scores_and_what_the_draft_before_makes_likelier(
    llama, monkeypatch
):
    """The q returned is the q drawn from, and that is the formula's, by hand."""
    block = weights_of(llama)
    options = {"max_tokens": 25, "draft_tokens": SIZE, "seed": 2, "temperature": 1.3}
    seen, call = [], DraftBlock.__call__

    def spy(self, *asked):
        seen.append(call(self, *asked))
        return seen[-1]

    monkeypatch.setattr(DraftBlock, "__call__", spy)
    made, drawn = proposals(llama, Block(block, least=0), monkeypatch, **options)
    assert len(made) == len(seen) > 3
    embedded = llama.model.embed_tokens.weight
    for proposal, states in zip(made, seen, strict=True):
        ids, q = proposal.tokens[0].tolist(), np.array(proposal.q[0])
        for k in range(len(ids)):
            scores = states[0, k] @ embedded.T
            if k:
                scores = scores + embedded @ (block.couple.weight @ embedded[ids[k - 1]])
            by_hand = np.array(mx.softmax(scores / 1.3, axis=-1))
            assert np.abs(q[k] - by_hand).max() < 1e-5
    rows = [q for proposal in made for q in np.array(proposal.q[0])]
    assert [row.tolist() for row in rows] == [q[0].tolist() for _, q in drawn]


def test_a_large_vocabulary_has_no_table_and_the_same_drafts(llama, monkeypatch):
    options = {"max_tokens": 20, "seed": 1}
    block = weights_of(llama)
    text, stats = speculative_decode(llama, Block(block, 0), PROMPT, **options)
    monkeypatch.setattr("lablib.inference.speculation.block._TABLE", 0)
    drafter = Block(block, 0)
    assert drafter._table is None
    again, stats_too = speculative_decode(llama, drafter, PROMPT, **options)
    assert text.tolist() == again.tolist()
    assert stats["total_accepted"] == stats_too["total_accepted"]


def certain_of(block, n):
    """Make its confidence fall below a half behind ``n`` drafts, whatever is drawn."""
    width = block.confide.weight.shape[1]
    block.confide.weight = mx.zeros((1, width))
    block.confide.bias = mx.array([np.log(1 / (1 - 0.5 ** (1 / (n + 0.5))) - 1)], mx.float32)
    return block


@pytest.mark.parametrize("n", [1, 2, 3])
def test_as_many_are_offered_as_the_block_trusts(llama, n, monkeypatch):
    drafter = Block(certain_of(weights_of(llama), n), least=0.5)
    options = {"max_tokens": 30, "draft_tokens": SIZE, "seed": 2}
    made, _ = proposals(llama, drafter, monkeypatch, **options)
    counted = [each.tokens.shape[1] for each in made]
    assert set(counted[:-2]) == {n}
    assert all(each.blind and each.q.shape[1] == each.tokens.shape[1] for each in made)


def offered(drafter, drawn, monkeypatch):
    """How many places of the first round are offered, if these ids are drawn there."""
    lengths = []

    def fixed(sampler, logits, before):
        return mx.array([drawn[len(before)]]), mx.softmax(logits, axis=-1)

    class Counted(type(drafter)):
        def propose(self, *asked):
            proposal = super().propose(*asked)
            lengths.append(proposal.tokens.shape[1])
            return proposal

    with monkeypatch.context() as patch:
        patch.setattr(TextSampler, "draft", fixed)
        one = Counted(drafter.block, drafter.least)
        next(SpeculativeTokenIterator(drafter.block.target, one, PROMPT, draft_tokens=SIZE))
    return lengths[0]


def looks(drafter, monkeypatch):
    """Count the tokens of a place on which it hangs whether that place is offered, or how many."""
    found, lengths = 0, set()
    for first in range(0, V, 4):
        chain = [first, 1, 2, 3, 4]
        n = offered(drafter, chain, monkeypatch)
        lengths.add(n)
        for place in range(max(n - 1, 0), SIZE):  # the last that is offered, and those behind
            for token in range(0, V, 5):
                other = [*chain[:place], token, *chain[place + 1 :]]
                m = offered(drafter, other, monkeypatch)
                found += (m > place) != (n > place)
    return found, lengths


def trusting(model):
    """A block whose confidence goes by q, and whose neighbours move each other's."""
    block = weights_of(model)
    block.couple.weight = 20 * block.couple.weight
    block.confide.weight = mx.zeros_like(block.confide.weight)
    block.confide.weight[0, -2] = 2.0  # the log of the largest
    block.confide.bias = mx.array([3.0])
    return block


def test_whether_a_place_is_offered_does_not_hang_on_its_token(llama, monkeypatch):
    found, lengths = looks(Block(trusting(llama), least=0.2), monkeypatch)
    assert found == 0
    assert len(lengths) > 1  # it does hang on the drafts before


def test_a_look_at_the_token_is_found_out(llama, monkeypatch):
    class Looking(Block):
        """Takes the confidence of the place behind, which knows this place's token."""

        def _offered(self, proposal, states, scores):
            return super()._offered(proposal, states[:, 1:], scores[:, 1:])

    found, _ = looks(Looking(trusting(llama), least=0.2), monkeypatch)
    assert found > 0


def test_its_own_offers_are_asked(llama, monkeypatch):
    class Short(Block):
        def offers(self, logits, before):
            assert logits.shape == (1, V)
            return [len(before) < 2]

    made, _ = proposals(llama, Short(weights_of(llama)), monkeypatch, max_tokens=20, seed=1)
    assert {each.tokens.shape[1] for each in made[:-1]} <= {1, 2}


@pytest.mark.parametrize("depth", [None, 2])
def test_trees_grow_on_its_places_and_no_deeper(llama, depth):
    options = {"max_tokens": 30, "temperature": 0.0, "draft_tokens": 3 * SIZE}
    drafter = Tree(Block(weights_of(llama)), depth)
    iterator = SpeculativeTokenIterator(llama, drafter, PROMPT, **options)
    assert [token.id for token in iterator] == plain(llama, max_tokens=30, temperature=0.0)
    assert iterator.stats["total_drafted"] > 0
    assert iterator.stats["draft_calls"] <= iterator.stats["rounds"]


def test_samples_are_drawn_row_by_row(llama):
    options = {"max_tokens": 8, "temperature": 1.0, "seed": 4, "rule": "match"}
    together = speculative_sample_n(llama, Block(weights_of(llama)), PROMPT, 3, **options)
    for row in range(3):
        alone = SpeculativeTokenIterator(
            llama, Block(weights_of(llama)), PROMPT, stream=row, **options
        )
        assert [token.id for token in alone] == together.tokens[row]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: Block(m), BadType, "block must be a DraftBlock"),
        (lambda m: Head(weights_of(m)), BadType, "head must be a DraftHead"),
        (lambda m: Block(weights_of(m), least=2), BadValue, "least must be .* got 2"),
        (lambda m: DraftBlock(m, 1), BadValue, "size must be at least 2, got 1"),
        (lambda m: DraftBlock(object()), BadType, "target must be a LanguageModel, got object"),
        (
            lambda m: speculative_decode(
                LanguageModel(CONFIGS["llama"], seed=9), Block(weights_of(m)), PROMPT
            ),
            BadValue, "target must be the model that the block was loaded for",
        ),
    ],
)  # fmt: skip
def test_bad_arguments(call, error, message, llama):
    with pytest.raises(error, match=message):
        call(llama)


def test_a_proposal_says_that_it_is_blind(llama, monkeypatch):
    made, _ = proposals(llama, Block(weights_of(llama)), monkeypatch, max_tokens=6, seed=1)
    assert all(isinstance(each, Proposal) and each.blind for each in made)

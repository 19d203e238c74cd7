"""Look-up first, and the model else: who is asked, what it costs, and that the text stands."""

from lablib.cache import kv
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import (
    Block,
    DraftModel,
    EarlyExit,
    Head,
    LookupFirst,
    NGram,
    NGramPool,
    Tempered,
    Tree,
)
from lablib.inference.speculation.speculative_iterator import (
    SpeculativeTokenIterator,
    speculative_decode,
)
from lablib.models import DraftBlock, DraftHead
from lablib.validation import BadType, BadValue

import pytest
from oracles.speculation import assert_caches_stand_at, near, target

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 3, 1, 4]  # the last three have been there


def second(kind, model):
    return {
        "model": lambda: near(model, 0.2),
        "first layers": lambda: EarlyExit(1),
        "head": lambda: Head(DraftHead(model, None, 16, seed=2)),
        "block": lambda: Block(DraftBlock(model, 4, None, 16, seed=1)),
        "tree": lambda: Tree(near(model, 0.2), depth=2),
        "tempered": lambda: Tempered(near(model, 0.2), 0.5),
        "look-up": lambda: NGram(1, 1),
    }[kind]()


def check_caches(iterator, model, text):
    assert kv.offset(iterator.cache) == len(text) - 1
    if iterator.draft_cache is not None:
        assert_caches_stand_at(iterator, model, "kv", text)


KINDS = ["model", "first layers", "head", "block", "tree", "tempered", "look-up"]


@pytest.mark.grid(lambda kind, how: ("seed" in how) == (kind in ("model", "head", "tree")))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [{"temperature": 0.0}, {"rule": "match", "seed": 5}], ids=str)
def test_text_and_caches_are_those_of_plain_decoding(kind, how):
    """Each drafts in some rounds, and reads what it has missed."""
    model = target("llama3", peak=2)
    for lookup in (NGram(2, 2), NGramPool(2)):
        drafter = LookupFirst(second(kind, model), lookup)
        plain = TokenIterator(
            model, PROMPT, max_tokens=40, **{k: v for k, v in how.items() if k != "rule"}
        )
        iterator = SpeculativeTokenIterator(model, drafter, PROMPT, max_tokens=40, **how)
        text = [*PROMPT, *(token.id for token in iterator)]
        assert text == [*PROMPT, *(token.id for token in plain)]
        check_caches(iterator, model, text)


class Told(DraftModel):
    """Notes the texts that it was asked for."""

    def __init__(self, model):
        super().__init__(model)
        self.asked = []

    def propose(self, texts, limits, sampler):
        self.asked.append(list(texts[0]))
        return super().propose(texts, limits, sampler)


def test_the_model_is_asked_where_the_last_tokens_are_new():
    model = target("llama3")
    told = Told(near(model, 0.1))
    iterator = SpeculativeTokenIterator(
        model, LookupFirst(told), PROMPT, max_tokens=60, temperature=0.0, trace=True
    )
    written = [*PROMPT, *(token.id for token in iterator)]
    text, unknown = list(PROMPT), []
    for verdict in iterator.rounds[:-1]:
        if not NGram(3, 3).begin(None, None, 1).lookup(text, 1):
            unknown.append(list(text))
        text += verdict.tokens
    assert told.asked == unknown
    assert PROMPT not in told.asked
    assert 0 < len(told.asked) < len(iterator.rounds) - 1
    assert text == written[: len(text)]


def test_looked_up_drafts_take_no_forward_of_the_model():
    model = target("llama3")
    draft = near(model, 0.1)
    alone, both = (
        speculative_decode(model, drafter, PROMPT * 3, 40)[1]
        for drafter in (draft, LookupFirst(draft))
    )
    assert both["draft_calls"] < alone["draft_calls"]
    assert both["tokens"] == alone["tokens"]


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (lambda: LookupFirst(3), BadType, "draft must be a model or a drafter, got int"),
        (lambda: LookupFirst(None), BadValue, "draft must be a model, or a drafter"),
        (lambda: LookupFirst(target(), target()), BadValue, "without a model.* got DraftModel"),
        (lambda: LookupFirst(target(), EarlyExit(1)), BadValue, "without a model.* got EarlyExit"),
        (lambda: LookupFirst(target(), 3), BadType, "lookup must be a model or a drafter, got int"),
        (lambda: Tree(LookupFirst(target())), BadValue, "to draft trees with, a LookupFirst has"),
    ],
)
def test_bad_input(made, error, message):
    with pytest.raises(error, match=message):
        made()

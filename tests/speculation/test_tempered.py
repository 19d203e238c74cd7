"""A drafter's own temperature: which q it draws from, and that nothing else is changed."""

import asyncio

import lablib
from lablib.cache import kv
from lablib.inference.completions import speculative_batch
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.engine.lane import Models
from lablib.inference.sampling import transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.speculation import (
    Block,
    Drafter,
    DraftModel,
    EarlyExit,
    Head,
    NGram,
    NGramPool,
    Tempered,
    Tree,
    judge,
)
from lablib.inference.speculation.speculative_iterator import (
    SpeculativeTokenIterator,
    speculative_decode,
)
from lablib.models import DraftBlock, DraftHead
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles.speculation import assert_caches_stand_at, near, target

PROMPT = [3, 1, 4, 1, 5]


def inner(kind, model):
    return {
        "model": lambda: DraftModel(near(model, 0.2)),
        "first layers": lambda: EarlyExit(1),
        "head": lambda: Head(DraftHead(model, None, 16, seed=2)),
        "block": lambda: Block(DraftBlock(model, 4, None, 16, seed=1), least=0),
        "tree": lambda: Tree(near(model, 0.2), depth=2),
    }[kind]()


def check_caches(iterator, model, text):
    assert kv.offset(iterator.cache) == len(text) - 1
    if iterator.draft_cache is not None:
        assert_caches_stand_at(iterator, model, "kv", text)


KINDS = ["model", "first layers", "head", "block", "tree"]


def proposals(monkeypatch, model, drafter, **options):
    """Return what was judged: the proposals of a text."""
    made, check = [], judge.Judge.check

    def seen(self, proposal, limits):
        made.append(proposal)
        return check(self, proposal, limits)

    monkeypatch.setattr(judge.Judge, "check", seen)
    text = SpeculativeTokenIterator(model, drafter, PROMPT, max_tokens=14, seed=3, **options)
    assert len([*text]) == 14
    return made


@pytest.mark.grid(lambda kind, options: (len(options) == 2) == (kind in ("model", "block")))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.7, "top_p": 0.9}, {"temperature": 1.4, "min_p": 0.1}], ids=str
)
def test_it_draws_from_the_drafts_logits_at_its_own_temperature(monkeypatch, kind, options):
    model = target("llama3", peak=1)
    found = proposals(monkeypatch, model, Tempered(inner(kind, model), 0.4), **options)
    own = SamplerOptions(**{**options, "temperature": 0.4})
    assert len(found) > 3
    for each in found:
        wanted = mx.softmax(transforms.apply(each.logits.astype(mx.float32), own), axis=-1)
        assert np.abs(np.array(wanted - each.q)).max() < 1e-5
        assert float(mx.min(mx.take_along_axis(each.q, each.tokens[..., None], axis=-1))) > 0


@pytest.mark.grid(lambda kind: kind in ("model", "tree"))
@pytest.mark.parametrize("kind", KINDS)
def test_at_the_requests_temperature_it_is_the_drafter_itself(kind):
    model = target("llama3", peak=1)
    for rule in ("rejection", "coupled"):
        how = {"temperature": 0.8, "seed": 3, "rule": rule, "repeat_penalty": 1.2}
        alone, same, other = (
            speculative_decode(model, drafter, PROMPT, 40, **how)
            for drafter in (
                inner(kind, model), Tempered(inner(kind, model), 0.8),
                Tempered(inner(kind, model), 0.1),
            )
        )  # fmt: skip
        assert same[0].tolist() == alone[0].tolist()
        assert same[1]["total_accepted"] == alone[1]["total_accepted"]
        assert other[1]["total_accepted"] != alone[1]["total_accepted"]


@pytest.mark.parametrize("kind", KINDS)
def test_at_0_it_proposes_the_best_and_no_q(monkeypatch, kind):
    model = target("llama3", peak=1)
    for each in proposals(monkeypatch, model, Tempered(inner(kind, model), 0.0)):
        assert each.q is None
        if kind != "tree":
            assert each.tokens.tolist() == mx.argmax(each.logits, axis=-1).tolist()


@pytest.mark.grid(lambda kind, how: ("seed" in how) == (kind in ("model", "head")))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [{"temperature": 0.0}, {"rule": "match", "seed": 5}], ids=str)
def test_text_and_caches_are_those_of_plain_decoding(kind, how):
    model = target("llama3", peak=2)
    plain = TokenIterator(
        model, PROMPT, max_tokens=40, **{k: v for k, v in how.items() if k != "rule"}
    )
    drafter = Tempered(inner(kind, model), 0.3)
    iterator = SpeculativeTokenIterator(model, drafter, PROMPT, max_tokens=40, **how)
    text = [*PROMPT, *(token.id for token in iterator)]
    assert text == [*PROMPT, *(token.id for token in plain)]
    check_caches(iterator, model, text)


def test_rows_of_a_batch_are_the_same_alone_whatever_their_temperatures():
    model = target("llama3", peak=1)
    prompts, temperatures = [PROMPT, [7, 8], [2, 2, 9]], [0.0, 0.6, 1.2]
    for own in (0.0, 0.5):
        drafter = Tempered(near(model, 0.2), own)
        how = {"max_tokens": 20, "rule": "rejection"}
        rows = speculative_batch(
            model, drafter, prompts, temperature=temperatures, seed=4, **how
        ).tokens
        for i, (prompt, hot) in enumerate(zip(prompts, temperatures, strict=True)):
            text = SpeculativeTokenIterator(
                model, drafter, prompt, temperature=hot, seed=4, stream=i, **how
            )
            assert [token.id for token in text] == rows[i]


class Alone(DraftModel):
    """Remembers its texts, and says not how others join them."""

    def select(self, rows):
        super().select(rows)

    extend = Drafter.extend


def test_an_engine_writes_the_text_that_is_written_alone():
    model, tokenizer = lablib.load("target")
    draft, _ = lablib.load("draft")
    drafter = Tempered(draft, 0.5)
    how = {"stop_tokens": (), "temperature": 0.8, "seed": 1, "rule": "match"}
    texts = {"On a sunny day,": 8, "sum 7 3 9 0 4 8:": 40, "On": 16}
    alone = [
        lablib.generate(model, tokenizer, each, draft_model=drafter, max_tokens=n, **how)
        for each, n in texts.items()
    ]

    async def serve():
        async with lablib.Engine(model, tokenizer, drafter, max_batch=2) as engine:  # one joins
            asked = [engine.generate(each, max_tokens=n, **how) for each, n in texts.items()]
            return await asyncio.gather(*asked)

    assert asyncio.run(serve()) == alone
    shares = [Models(model, Tempered(kind(draft), 0.5), 9)._shares for kind in (DraftModel, Alone)]
    assert shares == [True, False]


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (lambda: Tempered(3, 1.0), BadType, "draft must be a model or a drafter, got int"),
        (lambda: Tempered(NGram(), 1.0), BadValue, "draft must draw its tokens .* got NGram"),
        (lambda: Tempered(NGramPool(), 1.0), BadValue, "draft must draw .* got NGramPool"),
        (lambda: Tempered(target(), -0.1), BadValue, "temperature must be between 0"),
        (lambda: Tempered(target(), "hot"), BadType, "temperature must be a number"),
        (lambda: Tree(Tempered(target(), 1.0)), BadValue, "to draft trees with, a Tempered has"),
    ],
)
def test_bad_input(made, error, message):
    with pytest.raises(error, match=message):
        made()

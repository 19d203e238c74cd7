"""What speculation refuses, and what is left when a model, a drafter or a processor fails."""

import asyncio
import itertools
import math

from lablib.cache import kv
from lablib.inference.completions import speculative_batch
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import EarlyExit, NGram, first_layers, rules
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import AdaptiveLength
from lablib.inference.speculation.drafter import Drafter, Proposal
from lablib.inference.speculation.speculative_iterator import (
    SpeculativeTokenIterator,
    speculative_decode,
)
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache
from oracles.speculation import (
    CACHES,
    PROMPT,
    VOCAB,
    assert_caches_stand_at,
    both_caches,
    greedy,
    near,
    target,
)


def no_number(model):
    def broken(tokens, cache):
        logits = model(tokens, cache=cache)
        return logits * mx.array(math.nan)

    broken.layers, broken.vocab_size = model.layers, model.vocab_size
    broken.make_cache = model.make_cache
    return broken


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.0}, {"rule": "match"}, {"rule": "block"}, {"rule": "coupled"}]
)
def test_nan_is_an_error_before_any_token(options):
    model = target()
    for a, b, culprit in ((no_number(model), model, "target"), (model, no_number(model), "draft")):
        iterator = SpeculativeTokenIterator(a, b, PROMPT, seed=1, **options)
        with pytest.raises(BadValue, match=f"{culprit}: the model's logits must be finite"):
            next(iterator)
        assert iterator.tokens == []
        assert kv.offset(iterator.cache) == kv.offset(iterator.draft_cache) == 0


@pytest.mark.parametrize("drafter", ["model", "ngram"])
@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.0}, {"rule": "match"}, {"rule": "block"}, {"rule": "coupled"}]
)
def test_nan_of_a_processor_is_an_error_too(options, drafter):
    """What is sampled from must be finite, not only what the model said."""
    model = target()
    draft = near(model, 0.1) if drafter == "model" else NGram()

    def broken(tokens, logits):
        return logits * math.nan if len(tokens) >= len(PROMPT) + 2 else logits

    options = options | {"logits_processors": [broken], "seed": 1, "max_tokens": 9}
    for iterator in (
        SpeculativeTokenIterator(model, draft, PROMPT, **options),
        TokenIterator(model, PROMPT, **{k: v for k, v in options.items() if k != "rule"}),
    ):
        with pytest.raises(BadValue, match=r"logits must be finite|no NaN"):
            list(iterator)
        assert len(iterator.tokens) <= 2


def test_nan_for_one_row_of_a_batch_is_an_error():
    model = target()

    def broken(tokens, cache):
        logits = model(tokens, cache=cache)
        return mx.where((tokens == 9)[..., None], math.nan, logits)

    broken.layers, broken.vocab_size = model.layers, model.vocab_size
    broken.make_cache = model.make_cache
    for options in ({"temperature": 0.0}, {"rule": "match"}, {"rule": "rejection"}):
        with pytest.raises(BadValue, match="target: the model's logits must be finite"):
            speculative_batch(broken, NGram(), [[1, 2], [3, 9]], seed=1, max_tokens=5, **options)


def test_a_recurrent_cache_that_has_read_something_needs_a_draft_cache_that_has():
    """A recurrent state cannot say how much it has read, but whether it has."""
    model = target("recurrent")
    cache = kv.make(model)
    model(mx.array([[5, 6, 7]]), cache=cache)
    with pytest.raises(BadValue, match="nothing against some tokens"):
        SpeculativeTokenIterator(model, near(model, 0.1), PROMPT, cache=cache)
    draft = near(model, 0.1)
    trimmed = kv.make(attentive := target())
    attentive(mx.array([[5, 6, 7]]), cache=trimmed)
    kv.trim(trimmed, 3)  # it holds nothing, in arrays that are still there
    SpeculativeTokenIterator(attentive, draft, PROMPT, cache=trimmed)
    draft_cache = kv.make(draft)
    draft(mx.array([[5, 6, 7]]), cache=draft_cache)
    options = {"max_tokens": 9, "temperature": 0.0}
    iterator = SpeculativeTokenIterator(
        model, draft, PROMPT, cache=cache, draft_cache=draft_cache, **options
    )
    assert [token.id for token in iterator] == greedy(model, [5, 6, 7, *PROMPT], 9)


def failing_at(model, call, after_layers):
    """The model, raising at one of its calls, before or after its cache has moved."""
    calls = iter(range(1, 1000))

    def broken(tokens, cache):
        fails = next(calls) == call
        if fails and not after_layers:
            raise RuntimeError("out of memory")
        logits = model(tokens, cache=cache)
        if fails:
            raise RuntimeError("out of memory")
        return logits

    broken.layers, broken.vocab_size = model.layers, model.vocab_size
    broken.make_cache = model.make_cache
    return broken


@pytest.mark.parametrize(("model_kind", "kind"), CACHES)
@pytest.mark.parametrize("who", ["target", "draft"])
@pytest.mark.parametrize("after_layers", [False, True])
def test_a_model_that_raises_ends_the_text_with_its_own_error(model_kind, kind, who, after_layers):
    model = target(model_kind)
    small = near(model, 0.15)
    pair = {"target": model, "draft": small}
    pair[who] = failing_at(pair[who], 6, after_layers)
    caches = both_caches(model, kind)
    iterator = SpeculativeTokenIterator(
        pair["target"], pair["draft"], PROMPT, max_tokens=40, temperature=0.0, **caches
    )
    with pytest.raises(RuntimeError, match="out of memory"):
        list(iterator)
    assert iterator.stats["finish_reason"] == "error"
    with pytest.raises(StopIteration):
        next(iterator)
    if iterator.tokens:
        iterator._drafter.model = small  # whose next call would not raise
        assert_caches_stand_at(iterator, model, kind, PROMPT + iterator.tokens)


class Half(Exception):
    """Raised when the first layers have read the tokens and the last ones have not."""


@pytest.mark.parametrize("error", [Half, KeyboardInterrupt])
@pytest.mark.parametrize("call", [0, 1, 5])
@pytest.mark.parametrize("drafter", [None, "model", "ngram"])
def test_a_model_that_fails_between_its_layers_leaves_the_cache_whole(drafter, call, error):
    model, calls = target("llama3"), itertools.count()
    draft = near(model, 0.3)

    def broken(tokens, cache):
        if next(calls) == call:
            first_layers(model, 1)(tokens, cache=cache[:1])
            raise error
        return model(tokens, cache=cache)

    broken.layers, broken.vocab_size = model.layers, model.vocab_size
    broken.make_cache = model.make_cache
    options = {"max_tokens": 40, "temperature": 0.0, "prefill_step_size": 3}
    if drafter is None:
        iterator = TokenIterator(broken, PROMPT, **options)
    else:
        chosen = {"model": draft, "ngram": NGram()}[drafter]
        iterator = SpeculativeTokenIterator(broken, chosen, PROMPT, **options)
    with pytest.raises(error):
        list(iterator)
    text = PROMPT + iterator.tokens if iterator.tokens else []
    caches = [iterator.cache]
    if drafter == "model":
        caches.append(iterator.draft_cache)
    for cache in caches:
        assert [layer.offset for layer in cache] == [max(0, len(text) - 1)] * 3
    rest = TokenIterator(
        model, text[-1:] or PROMPT, cache=iterator.cache, max_tokens=9, temperature=0.0
    )
    wanted = greedy(model, PROMPT, len(iterator.tokens) + 9)
    assert iterator.tokens + [token.id for token in rest] == wanted


@pytest.mark.parametrize("model_kind", ["llama", "hybrid"])
def test_a_target_that_raises_in_plain_decoding_says_so(model_kind):
    model = target(model_kind)
    length = AdaptiveLength(4, Costs((1.0, 9.0), 9.0), alpha=0.0)
    iterator = SpeculativeTokenIterator(
        failing_at(model, 6, False), NGram(), PROMPT, draft_tokens=length, temperature=0.0
    )
    with pytest.raises(RuntimeError, match="out of memory"):
        list(iterator)
    assert iterator.stats["finish_reason"] == "error"
    if model_kind == "llama":
        assert kv.offset(iterator.cache) == len(PROMPT) + len(iterator.tokens) - 1


def stop_at(n, error):
    """A processor that raises when the text has ``n`` tokens."""

    def processor(tokens, logits):
        if tokens.size >= n:
            raise error
        return logits

    return processor


@pytest.mark.parametrize("error", [RuntimeError("stop"), asyncio.CancelledError("stop")])
@pytest.mark.parametrize("length", ["fixed", "plain"])
@pytest.mark.parametrize(("model_kind", "kind"), CACHES)
def test_a_processor_that_raises_leaves_both_caches_at_the_returned_tokens(
    model_kind, kind, length, error
):
    """Also in the midst of plain decoding, and with what is not an ``Exception``."""
    model, caches = target(model_kind), both_caches(target(model_kind), kind)
    never = AdaptiveLength(costs=Costs((1.0, 2.0, 3.0), 1.0), alpha=0.0)
    iterator = SpeculativeTokenIterator(
        model, near(model, 0.2), PROMPT, max_tokens=50, temperature=0.0,
        logits_processors=[stop_at(len(PROMPT) + 12, error)],
        draft_tokens=4 if length == "fixed" else never, **caches,
    )  # fmt: skip
    with pytest.raises(type(error), match="stop"), iterator:
        list(iterator)
    assert iterator.stats["finish_reason"] == "error"
    assert iterator.tokens
    assert_caches_stand_at(iterator, model, kind, PROMPT + iterator.tokens)


def test_nan_in_plain_decoding_leaves_the_drafts_cache_at_the_returned_tokens():
    """A recurrent target cannot give the token back; its draft stands where it should."""
    model, small, calls = target("hybrid"), target("llama"), itertools.count()

    def broken(tokens, cache):
        logits = model(tokens, cache=cache)
        return logits * (math.nan if next(calls) == 8 else 1.0)

    broken.layers, broken.vocab_size = model.layers, model.vocab_size
    broken.make_cache = model.make_cache
    never = AdaptiveLength(costs=Costs((1.0, 2.0, 3.0), 1.0), alpha=0.0)
    iterator = SpeculativeTokenIterator(
        broken, small, PROMPT, max_tokens=50, temperature=0.0, draft_tokens=never
    )
    with pytest.raises(BadValue, match="target: the model's logits must be finite"):
        list(iterator)
    assert len(iterator.tokens) > 3
    assert kv.offset(iterator.draft_cache) == len(PROMPT) + len(iterator.tokens) - 1


def test_the_drafts_context_counts_what_its_cache_holds():
    """A recurrent target does not say how much it has read; the draft's cache does."""
    model, small = target("recurrent"), target("gpt")
    text = [list(range(VOCAB)) * 10]
    caches = {"cache": kv.make(model), "draft_cache": kv.make(small)}
    for network, name in ((model, "cache"), (small, "draft_cache")):
        network(mx.array(text), cache=caches[name])
    with pytest.raises(BadValue, match="the draft model's context of 256"):
        SpeculativeTokenIterator(model, small, [1], max_tokens=40, **caches)


class Guess(Drafter):
    """A drafter of one's own that proposes what it is told to."""

    def __init__(self, guess):
        self.guess = guess

    def propose(self, texts, limits, sampler):
        return self.guess(limits[0])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("guess", "error", "message"),
    [
        (lambda n: [1] * n, BadType, "propose a Proposal or None, got list"),
        (lambda n: Proposal([[1] * n]), BadType, "tokens as an mx.array, got list"),
        (lambda n: Proposal(mx.zeros((1, 0), mx.int32)), BadValue, r"got \(1, 0\)"),
        (
            lambda n: Proposal(mx.zeros((1, n), mx.int32), q=mx.ones((1, n, 9))),
            BadValue,
            r"q of shape \(1, 4, 24\), got \(1, 4, 9\)",
        ),
        (
            lambda n: Proposal(mx.zeros((1, n), mx.int32), logits=mx.ones((1, 1, VOCAB))),
            BadValue,
            r"logits of shape \(1, 4, 24\), got \(1, 1, 24\)",
        ),
        (
            lambda n: Proposal(mx.array([[99] * n]), logits=mx.zeros((1, n, VOCAB))),
            BadValue,
            "between 0 and 23, got 99",
        ),
        (lambda n: Proposal(mx.zeros((1, n + 1), mx.int32)), BadValue, r"got \(1, 5\)"),
        (lambda n: Proposal(mx.zeros((1, n + 1), mx.int32), drawn=True), BadValue, r"got \(1, 5\)"),
        (
            lambda n: Proposal(mx.array([[VOCAB] * n])),
            BadValue,
            "guess for text 0.*between 0 and 23",
        ),
    ],
)
def test_a_proposal_that_cannot_be_is_the_drafters_fault(guess, error, message, temperature):
    iterator = SpeculativeTokenIterator(MODEL, Guess(guess), PROMPT, temperature=temperature)
    with pytest.raises(error, match=f"drafter.*{message}"):
        next(iterator)


def other_vocabulary():
    return target(vocab_size=VOCAB + 1)


MODEL = target()
BAD = [
    (lambda m: speculative_decode(m, None, PROMPT), BadValue, "draft_model must be a model"),
    (lambda m: speculative_decode(m, m, PROMPT, drafter=NGram()), BadType, "option 'drafter'"),
    (lambda m: speculative_decode(m, 3, PROMPT), BadType, "draft_model must be a model"),
    (lambda m: speculative_decode((m, None), m, PROMPT), BadType, "target must be callable"),
    (
        lambda m: speculative_decode(m, m, PROMPT, target_cache=[]),
        BadType,
        "'target_cache'.*; .* cache",
    ),
    (lambda m: speculative_decode(m, m, PROMPT, cache=[]), BadValue, "cache must have an entry"),
    (lambda m: speculative_decode(m, (m, None), PROMPT), BadType, "unpack it"),
    (lambda m: speculative_decode(m, other_vocabulary(), PROMPT), BadValue, "target's vocabulary"),
    (lambda m: speculative_decode(m, m, PROMPT, draft_tokens=0), BadValue, "draft_tokens must be"),
    (lambda m: speculative_decode(m, m, PROMPT, draft_tokens=-1), BadValue, "draft_tokens must"),
    (lambda m: speculative_decode(m, m, PROMPT, draft_tokens=2.0), BadType, "draft_tokens must"),
    (lambda m: speculative_decode(m, m, PROMPT, 0), BadValue, "max_tokens must be at least 1"),
    (lambda m: speculative_decode(m, m, []), BadValue, "prompt must hold at least one"),
    (lambda m: speculative_decode(m, m, [VOCAB]), BadValue, r"prompt\[0\] must be"),
    (lambda m: speculative_decode(m, m, PROMPT, rule="hope"), BadValue, "rule must be one of"),
    (lambda m: speculative_decode(m, m, PROMPT, temperature=-1.0), BadValue, "temperature must"),
    (lambda m: speculative_decode(m, m, PROMPT, tempature=1.0), BadType, "unknown option"),
    (lambda m: speculative_decode(m, m, PROMPT, stop_tokens=[99]), BadValue, "stop_tokens"),
    (lambda m: speculative_decode(m, m, PROMPT, trace=1), BadType, "trace must be True or False"),
    (lambda m: speculative_decode(m, m, PROMPT, 2000), BadValue, "context of 1024"),
    (lambda m: speculative_decode(m, EarlyExit(2), PROMPT), BadValue, "n_layers must be below"),
    (
        lambda m: speculative_decode(m, NGram(), PROMPT, draft_cache=[]),
        BadValue,
        "no cache of its own",
    ),
    (
        lambda m: speculative_decode(m, EarlyExit(1), PROMPT, draft_cache=m.make_cache()),
        BadValue,
        "no cache of its own",
    ),
    (
        lambda m: speculative_decode(m, m, PROMPT, cache=[KVCache()]),
        BadValue,
        "cache must have an entry for each of 2 layers",
    ),
    (
        lambda m: speculative_decode(m, m, PROMPT, draft_cache=[KVCache()]),
        BadValue,
        "draft_cache must have an entry for each of 2 layers",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call(MODEL)


def test_caches_at_different_positions_are_refused():
    ahead = MODEL.make_cache()
    MODEL(mx.array([[1, 2, 3]]), cache=ahead)
    with pytest.raises(BadValue, match=r"draft_cache must have read the same .* 0 against 3"):
        speculative_decode(MODEL, MODEL, PROMPT, cache=ahead)
    with pytest.raises(BadValue, match="3 against 0"):
        speculative_decode(MODEL, MODEL, PROMPT, draft_cache=ahead)
    with pytest.raises(BadValue, match="must not share layers"):
        speculative_decode(MODEL, MODEL, PROMPT, cache=ahead, draft_cache=ahead)
    assert kv.offset(ahead) == 3


def test_a_cache_that_cannot_be_rewound_is_refused_before_any_work():
    class Opaque(KVCache):
        def is_trimmable(self):
            return False

    calls = []

    def model(tokens, cache):
        calls.append(tokens)
        return MODEL(tokens, cache=cache)

    model.layers, model.vocab_size = MODEL.layers, VOCAB
    model.make_cache = lambda: [Opaque(), Opaque()]
    with pytest.raises(BadValue, match="cache cannot be rewound: layer 0 is a Opaque"):
        speculative_decode(model, MODEL, PROMPT)
    with pytest.raises(BadValue, match="draft_cache cannot be rewound"):
        speculative_decode(MODEL, model, PROMPT)
    assert not calls


def test_a_draft_with_a_shorter_context_is_refused():
    gpt = target("gpt")
    with pytest.raises(BadValue, match="the draft model's context of 256"):
        speculative_decode(target(), gpt, PROMPT, 300)


def test_a_drafter_without_propose_is_told_so():
    class Silent(Drafter):
        pass

    with pytest.raises(NotImplementedError, match="Silent must have a method propose"):
        speculative_decode(target(), Silent(), [1, 2], 4)


def test_a_function_is_no_drafter_and_is_called_by_its_name():
    with pytest.raises(BadValue, match="draft_model must say how many token ids it has: give"):
        speculative_decode(target(), lambda text: [1], [1, 2], 4)
    with pytest.raises(BadValue, match="target must say how many token ids it has"):
        speculative_decode(lambda text: [1], target(), [1, 2], 4)


def test_no_texts_have_no_proposal():
    assert Proposal.of([]) is None
    with pytest.raises(BadType, match=r"guesses\[0\] must be a sequence of token ids, got int"):
        Proposal.of([1, 2, 3])


def test_a_proposal_takes_ids_of_any_kind_and_refuses_what_is_none():
    guesses = [[np.int64(3)], np.array([1, 2]), mx.array([4]), [], (5,)]
    proposal = Proposal.of(guesses)
    assert proposal.tokens.tolist() == [[3, 0], [1, 2], [4, 0], [0, 0], [5, 0]]
    assert proposal.counts == [1, 2, 1, 0, 1]
    for wrong in (["a"], [1.5], [True]):
        with pytest.raises(BadType, match=r"guesses\[1\]\[0\] must be an int token id"):
            Proposal.of([[1], wrong])


def keeps_padding(p, q, drafts):
    """A rule that forgot the q of zeros: p/0 is infinite, and keeps a draft that nobody made."""
    p_x = mx.take_along_axis(p[..., :-1, :], drafts[..., None], axis=-1)[..., 0]
    q_x = mx.take_along_axis(q, drafts[..., None], axis=-1)[..., 0]
    return rules.Outcome(rules.one_by_one(mx.minimum(p_x / q_x, 1)), p)


NO_RULES = {
    "no return": (lambda p, q, x: None, "rule 'mine' must return an Outcome, got NoneType"),
    "a tuple": (lambda p, q, x: (p, q), "rule 'mine' must return an Outcome, got tuple"),
    "a sum": (
        lambda p, q, x: rules.Outcome(rules.match(p, q, x).kept / 2, p),
        "kept of rule 'mine' must be probabilities with sum 1",
    ),
    "NaN": (
        lambda p, q, x: rules.Outcome(rules.match(p, q, x).kept * mx.nan, p),
        "kept of rule 'mine' must .* is it 0/0",
    ),
    "no batch": (
        lambda p, q, x: rules.Outcome(rules.match(p, q, x).kept[0], p[0]),
        "following must return an mx.array of shape",
    ),
    "a number": (3, r"RULE\['mine'\] must be callable, got 3"),
}


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("name", NO_RULES)
def test_what_is_no_rule_is_refused_in_one_line(name, temperature, monkeypatch):
    function, message = NO_RULES[name]
    monkeypatch.setitem(rules.RULE, "mine", function)
    model = target()
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        speculative_decode(
            model, near(model, 0.2), PROMPT, 8, rule="mine", temperature=temperature, seed=0
        )
    assert "\n" not in str(caught.value)


def test_a_rule_that_keeps_padding_is_refused(monkeypatch):
    class Uneven(Drafter):
        def propose(self, texts, limits, sampler):
            return Proposal.of([[1] * min(i + 1, n) for i, n in enumerate(limits)])

    monkeypatch.setitem(rules.RULE, "mine", keeps_padding)
    with pytest.raises(ValueError, match="rule 'mine' must keep no draft where q is 0, kept"):
        speculative_batch(
            target(), Uneven(), [PROMPT] * 8, max_tokens=30, rule="mine", seed=0, temperature=9.0
        )


class Forgetful(NGram):
    """A drafter whose ``begin`` forgot to return."""

    def begin(self, target, own, texts):
        super().begin(target, own, texts)


class Miscounting(Drafter):
    def propose(self, texts, limits, sampler):
        tokens = mx.ones((len(texts), 1), mx.int32)
        return Proposal(tokens, counts=[1] * (len(texts) + 1))


@pytest.mark.parametrize(
    ("drafter", "message"),
    [
        (Forgetful, "begin of a drafter must return a drafter, got None"),
        (Miscounting, "drafter must propose 2 counts, one a text, got 3"),
    ],
)
def test_a_drafters_slips_are_named(drafter, message):
    with pytest.raises((TypeError, ValueError), match=message):
        speculative_batch(target(), drafter(), [PROMPT, PROMPT[:3]], max_tokens=6)
    if drafter is Forgetful:
        with pytest.raises(TypeError, match=message):
            speculative_decode(target(), drafter(), PROMPT, 6)

"""Draft models whose table of ids has other padding than the target's: Qwen2.5 0.5B beside 7B."""

import warnings
from typing import Any

import lablib
from lablib.cache import kv
from lablib.inference import (
    AdaptiveLength,
    SpeculativeTokenIterator,
    Tree,
    speculative_batch,
    speculative_decode,
    speculative_sample_n,
)  # fmt: skip
from lablib.inference.speculation import rules
from lablib.models import LanguageModel, hybrid_config, llama_config

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from oracles.refusals import refuses
from oracles.speculation import greedy

KNOWN = 20  # ids of the tokenizer
PROMPTS = [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3]]


class Ids:
    """A tokenizer."""

    def __init__(self, size: int = KNOWN, **other: int):
        self.vocab = {f"token {i}": i for i in range(size)} | other
        self.asked = 0

    def get_vocab(self) -> dict[str, int]:
        self.asked += 1
        return self.vocab


def model_of(rows: int, seed: int, kind: Any = llama_config, peak: float = 4.0) -> Any:
    model = LanguageModel(kind(rows, 32, 1, 2), seed=seed)
    flat = dict(tree_flatten(model.parameters()))
    model.load_weights([("model.norm.weight", peak * flat["model.norm.weight"])], strict=False)
    model.tokenizer = Ids()
    return model


def close(target: Any, rows: int) -> Any:
    """A draft model that says nearly what the target says, of other rows."""
    draft = model_of(rows, 1, peak=1.0)
    weights = dict(tree_flatten(target.parameters()))
    for name, mine in tree_flatten(draft.parameters()):
        whole = weights[name] * 1.05
        if mine.shape != whole.shape:
            short = mine.shape[0] - whole.shape[0]
            whole = mx.pad(whole, [(0, max(0, short)), (0, 0)])[: mine.shape[0]]
        weights[name] = whole
    draft.load_weights(list(weights.items()))
    return draft


@pytest.fixture(scope="module")
def target() -> Any:
    return model_of(24, 0)


ROWS = pytest.mark.parametrize("rows", [20, 22, 31])


@ROWS
@pytest.mark.parametrize("rule", rules.RULE)
def test_greedy_texts_are_the_targets_and_drafts_stay(target, rows, rule):
    draft = close(target, rows)
    options = {"temperature": 0.0, "rule": rule, "max_tokens": 14}
    wanted = [greedy(target, prompt, 14) for prompt in PROMPTS]
    for drafter in (draft, *([Tree(draft)] if rule in ("rejection", "match") else [])):
        ids, stats = speculative_decode(target, drafter, PROMPTS[0], **options)
        assert ids[0, 5:].tolist() == wanted[0]
        assert stats["acceptance_rate"] > 0.3
    length = AdaptiveLength(costs=lablib.inference.Costs([1.0] * 9, draft=0.1))
    ids, _ = speculative_decode(target, draft, PROMPTS[0], draft_tokens=length, **options)
    assert ids[0, 5:].tolist() == wanted[0]
    assert speculative_batch(target, draft, PROMPTS, **options).tokens == wanted


@ROWS
@pytest.mark.parametrize("more", [{}, {"repeat_penalty": 1.5, "top_p": 0.9}, {"top_k": 22}])
def test_under_match_a_text_is_plain_samplings(target, rows, more):
    draft, options = close(target, rows), {"max_tokens": 9, "seed": 3, **more}
    plain = lablib.sample_n(target, PROMPTS[0], 4, **options).tokens
    drafted = {"rule": "match", **options}
    assert speculative_sample_n(target, draft, PROMPTS[0], 4, **drafted).tokens == plain
    tokens = SpeculativeTokenIterator(target, draft, PROMPTS[0], stream=2, **drafted)
    assert [token.id for token in tokens] == plain[2]
    assert kv.offset(tokens.draft_cache) == kv.offset(tokens.cache)


@pytest.mark.grid(lambda rows, rule: rows == 31)
@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
@pytest.mark.parametrize("rows", [20, 31])
def test_what_is_drawn_is_the_targets_distribution(target, rows, rule):
    draft, n = close(target, rows), 2000
    found = speculative_sample_n(
        target, draft, PROMPTS[0], n, rule=rule, max_tokens=2, draft_tokens=1, seed=5,
        temperature=4.0,
    )  # fmt: skip
    logits = target(mx.array([PROMPTS[0]]))[0, -1]
    p = np.array(mx.softmax(logits / 4))
    seen = np.bincount([row[0] for row in found.tokens], minlength=24) / n
    assert np.abs(seen - p).sum() < 0.12
    assert p[20:].sum() > 0.02  # ids that the smaller draft lacks


@ROWS
def test_the_targets_own_ids_are_read_by_a_draft_that_lacks_them(target, rows):
    draft, prompt = close(target, rows), [23, 21, 3, 22]
    for kind in (close(target, rows), model_of(rows, 3, hybrid_config)):
        ids, _ = speculative_decode(target, kind, prompt, max_tokens=12, prefill_step_size=2)
        assert ids[0, 4:].tolist() == greedy(target, prompt, 12)
    alone = speculative_batch(target, draft, [prompt, PROMPTS[0]], temperature=0.0, max_tokens=8)
    assert alone.tokens == [greedy(target, each, 8) for each in (prompt, PROMPTS[0])]


def test_it_is_forecast_and_obeys_a_constraint():
    model, tokenizer = lablib.load("target")
    ids = tokenizer.encode("Mia")
    for rows in (len(tokenizer) - 3, len(tokenizer) + 64):
        draft = LanguageModel(llama_config(rows, 32, 1, 2), seed=1)
        draft.tokenizer = tokenizer
        how = {"prompts": ["Mia finds"], "max_tokens": 8}
        assert "speed-up" in str(lablib.forecast(model, draft, tokenizer, **how))
        only = [lambda tokens, logits: mx.where(mx.arange(logits.shape[-1]) < 99, logits, -mx.inf)]
        how = {"max_tokens": 8, "seed": 1, "logits_processors": only}
        alone = lablib.generate(model, tokenizer, ids, **how)
        how |= {"draft_model": draft, "rule": "match"}
        assert lablib.generate(model, tokenizer, ids, **how) == alone


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_precision_has_room_for_nothing(target, dtype):
    draft = close(target, 20)
    draft.set_dtype(dtype)
    ids, stats = speculative_decode(target, draft, PROMPTS[0], max_tokens=8, trace=True)
    assert ids[0, 5:].tolist() == greedy(target, PROMPTS[0], 8)
    assert all(np.isfinite(each.q).all() for each in stats["trace"])


# --- which pairs -------------------------------------------------------------------------------
def test_tokenizers_that_differ_in_an_id_that_both_know_are_refused_by_name(target):
    for rows in (24, 31):  # of equal size, too
        draft = model_of(rows, 1)
        draft.tokenizer = Ids(17, other=17)
        for door in (speculative_decode, speculative_sample_n):
            refuses(
                ValueError, "draft_model must share the target's tokens, and 1 differ: id 17 is "
                "'token 17' there and 'other' here", door, target, draft, PROMPTS[0],
                *([2] if door is speculative_sample_n else []),
            )  # fmt: skip
        draft.tokenizer = Ids(23)  # it knows some more
        assert speculative_decode(target, draft, PROMPTS[0], max_tokens=2)


def test_a_pair_of_tokenizers_is_compared_once(target):
    draft = close(target, 31)
    before = target.tokenizer.asked
    for _ in range(3):
        speculative_decode(target, draft, PROMPTS[0], max_tokens=2)
    assert draft.tokenizer.asked == 1
    assert target.tokenizer.asked == before + 1
    draft.tokenizer = target.tokenizer
    speculative_decode(target, draft, PROMPTS[0], max_tokens=2)
    assert target.tokenizer.asked == before + 1


class Bare(LanguageModel):
    """A model that knows no tokenizer."""


@pytest.mark.parametrize(
    ("rows", "others", "fits"),
    [
        (151_936, 152_064, True),  # Qwen2.5
        (262_144, 262_208, True),  # Gemma 3
        (32_000, 32_064, True),  # Phi-3
        (200, 203, True),
        (200, 206, False),
        (24, 31, False),
        (50_257, 32_000, False),
        (262_144, 263_200, False),
    ],
)
def test_bare_models_may_differ_by_padding_which_is_said(rows, others, fits):
    from lablib.inference.speculation import shared_ids

    class Table:
        layers = ()

        def __init__(self, size: int):
            self.vocab_size = size

        def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
            return mx.zeros((*tokens.shape, self.vocab_size))

    for target, draft in ((rows, others), (others, rows)):
        pair = Table(draft), Table(target)
        if not fits:
            refuses(
                ValueError, f"must share the target's vocabulary of {target}, got {draft} ids, and "
                "no tokenizers to compare", shared_ids.fitted, *pair,
            )  # fmt: skip
            continue
        with pytest.warns(UserWarning, match=f"has {draft} ids and the target {target}: taken for"):
            made = shared_ids.fitted(*pair)
        assert made(mx.array([[5, target - 1]])).shape == (1, 2, target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = Table(rows)
        assert shared_ids.fitted(same, Table(rows)) is same


def test_a_model_from_load_knows_its_tokenizer():
    model, tokenizer = lablib.load("target")
    assert model.tokenizer is tokenizer
    draft, _ = lablib.load("draft")
    kept = draft.tokenizer
    draft.tokenizer = Ids(len(tokenizer))
    try:
        with pytest.raises(ValueError, match="draft_model must share the target's tokens, and"):
            lablib.generate(model, tokenizer, "On a", draft_model=draft)
    finally:
        draft.tokenizer = kept

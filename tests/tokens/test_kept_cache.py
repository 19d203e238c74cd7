"""A cache kept from call to call: nothing is read twice, and nobody misses the earlier tokens."""

from typing import Any

import lablib
from lablib.cache import kv
from lablib.inference import EarlyExit, NGram, TokenIterator, Tree
from lablib.models import LanguageModel, hybrid_config, llama_config
from lablib.models.head import DraftHead
from lablib.text import generate
from lablib.text_stream import stream

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache
from oracles.refusals import refuses
from oracles.scripted import scripted
from oracles.speculation import near

TURNS = ["On a rainy day, " * 9, "Why?", "And then?"]
HYBRIDS = {"hybrid": 2, "recurrent": 9}  # one layer in so many attends


class Counted(LanguageModel):
    read = 0

    def __call__(self, tokens: mx.array, *arguments: Any, **keywords: Any) -> mx.array:
        self.read += tokens.size
        return super().__call__(tokens, *arguments, **keywords)


def made(kind: str, shipped: Any) -> Counted:
    sizes = len(shipped), 32, 2, 2
    if kind in HYBRIDS:
        return Counted(hybrid_config(*sizes, attention_every=HYBRIDS[kind]), seed=3)
    return Counted(llama_config(*sizes), seed=3)


@pytest.fixture
def model(shipped):
    return made("llama", shipped)


def drafter_of(name: str, model: Any) -> Any:
    return {
        "none": lambda: None, "model": lambda: near(model, 0.3), "look up": NGram,
        "early exit": lambda: EarlyExit(1), "tree": lambda: Tree(near(model, 0.3)),
        "head": lambda: lablib.Head(DraftHead(model, None, 16, seed=2)),
    }[name]()  # fmt: skip


def asks_for_more(tokens: mx.array, logits: mx.array) -> mx.array:
    """What it gives depends on each token of the text."""
    counts = mx.zeros(logits.shape[-1]).at[tokens].add(1.0)
    return logits - 0.4 * counts + 0.01 * tokens.size


@pytest.mark.parametrize("draft", ["none", "model", "look up", "early exit", "tree", "head"])
@pytest.mark.parametrize(
    "more",
    [{}, {"repeat_penalty": 1.4, "repeat_last_n": -1}, {"logits_processors": [asks_for_more]}],
    ids=["plain", "penalty", "processor"],
)
def test_each_turn_is_what_it_is_without_a_cache_and_reads_only_what_is_new(
    model, templated, draft, more
):
    drafter = drafter_of(draft, model)
    options = {"seed": 4, "max_tokens": 6, "stop_tokens": (), **more}
    options |= {} if draft == "none" else {"draft_model": drafter, "rule": "match"}
    kept = {"cache": make_prompt_cache(model), "cached_tokens": []}
    if draft in ("model", "tree"):
        kept["draft_cache"] = make_prompt_cache(model)
    talk, before = [], 0
    for turn in TURNS:
        talk.append({"role": "user", "content": turn})
        wanted = generate(model, templated, messages=talk, **options)
        model.read = 0
        got = generate(model, templated, messages=talk, **options, **kept)
        assert (got, got.tokens) == (wanted, wanted.tokens)
        whole = templated.apply_chat_template(talk, add_generation_prompt=True)
        assert got.stats["prompt_tokens"] == len(whole)
        assert kept["cached_tokens"] == [*whole, *got.tokens][:-1]
        assert kv.offset(kept["cache"]) == len(kept["cached_tokens"])
        rounds = 1 if draft == "none" else 6  # drafts that are refused are read, too
        assert model.read <= len(whole) - before + rounds * 8 + 12
        before = len(whole)
        talk.append({"role": "assistant", "content": str(got)})


@pytest.mark.parametrize("draft", ["none", "model", "look up", "early exit"])
def test_penalties_and_processors_see_the_tokens_that_the_cache_has_read(model, shipped, draft):
    ids = shipped.encode("On a rainy day, Mia finds")
    drafter = {} if draft == "none" else {"draft_model": drafter_of(draft, model), "rule": "match"}
    first = {"cache": make_prompt_cache(model), "cached_tokens": [], "max_tokens": 1}
    if draft == "model":
        first["draft_cache"] = make_prompt_cache(model)
    generate(model, shipped, ids[:-2], **first, **drafter)
    seen: list[list[int]] = []

    def noted(tokens: mx.array, logits: mx.array) -> mx.array:
        seen.append(tokens.tolist())
        return logits

    options = {"seed": 2, "stop_tokens": (), "frequency_penalty": 2.0, "repeat_last_n": -1}
    options |= {"logits_processors": [noted], **drafter}
    kept = {**first, "max_tokens": 6}
    got = generate(model, shipped, ids, **kept, **options)
    assert got.tokens == generate(model, shipped, ids, max_tokens=6, **options).tokens
    assert all(each[: len(ids)] == ids for each in seen)
    # Without the list the prompt is what is new, as ever, and all that they see.
    if draft != "model":
        cache = make_prompt_cache(model)
        [*TokenIterator(model, ids[:-2], cache=cache, max_tokens=1)]
        seen.clear()
        generate(model, shipped, ids[-2:], cache=cache, max_tokens=2, **options)
        assert all(each[:2] == ids[-2:] for each in seen)


def test_messages_behind_unknown_tokens_are_refused_by_name(model, templated):
    talk = [{"role": "user", "content": "On a rainy day, "}]
    cache = make_prompt_cache(model)
    generate(model, templated, messages=talk, cache=cache, max_tokens=3)
    before = kv.offset(cache)
    for draft in (None, NGram()):
        with pytest.raises(ValueError, match=f"cache has read {before} tokens, and messages are a"):
            generate(model, templated, messages=talk, cache=cache, draft_model=draft)
    assert kv.offset(cache) == before
    recurrent = made("recurrent", templated)
    state = make_prompt_cache(recurrent)
    generate(recurrent, templated, messages=talk, cache=state, max_tokens=3)
    with pytest.raises(ValueError, match="cache has read some tokens, and messages are a whole"):
        generate(recurrent, templated, messages=talk, cache=state)
    # Only what is new is a prompt, which goes on after the cache, as ever.
    new = templated.encode("user: Why?", add_special_tokens=False)
    assert stream(model, templated, new, cache=cache).iterator.prompt == new


def test_a_text_that_differs_is_cut_back_to_where_it_does(model, shipped):
    options = {"max_tokens": 5, "temperature": 0.0, "stop_tokens": ()}
    cache, read = make_prompt_cache(model), []
    for text in ("On a rainy day, Mia", "On a rainy day, Leo finds", "On a", "Otto", "Otto"):
        ids = shipped.encode(text)
        wanted = [token.id for token in TokenIterator(model, ids, **options)]
        iterator = TokenIterator(model, ids, cache=cache, cached_tokens=read, **options)
        assert [token.id for token in iterator] == wanted
        assert read == (ids + wanted)[:-1]
        assert kv.offset(cache) == len(read)
    # So is a text.
    model.read = 0
    assert generate(model, shipped, "Otto", cache=cache, cached_tokens=read, **options)
    assert model.read <= 6


@pytest.mark.parametrize("kind", HYBRIDS)
def test_what_a_cache_cannot_forget_is_refused_and_stays(shipped, kind):
    model = made(kind, shipped)
    ids = shipped.encode("On a rainy day, Mia finds")
    cache, read = make_prompt_cache(model), []
    [*TokenIterator(model, ids, cache=cache, cached_tokens=read, max_tokens=3, stop_tokens=())]
    before = list(read)
    refuses(
        ValueError, "cached_tokens has .* tokens that the prompt has not, and cache must forget",
        TokenIterator, model, ids[:4], cache=cache, cached_tokens=read,
    )  # fmt: skip
    assert read == before
    assert kv.offset(cache) == (None if kind == "recurrent" else len(before))
    # What begins with all of them goes on.
    options = {"repeat_penalty": 1.5, "temperature": 0.0, "max_tokens": 4, "stop_tokens": ()}
    wanted = [token.id for token in TokenIterator(model, [*read, 5], **options)]
    more = TokenIterator(model, [*read, 5], cache=cache, cached_tokens=read, **options)
    assert [token.id for token in more] == wanted
    assert read == [*before, 5, *wanted[:-1]]
    # A window that is full, beside layers that would trim.
    plain = made("llama", shipped)
    ring, read = kv.make(plain, 8), []
    [*TokenIterator(plain, ids, cache=ring, cached_tokens=read, max_tokens=3, stop_tokens=())]
    with pytest.raises(ValueError, match="sliding window of 8 is full"):
        TokenIterator(plain, ids[:4], cache=ring, cached_tokens=read)


def test_an_end_at_any_moment_leaves_the_list_as_the_cache_is(model, shipped):
    ids = shipped.encode("On a rainy day, Mia finds")
    for draft in (None, near(model, 0.3), NGram()):
        cache, read = make_prompt_cache(model), []
        kept = {"cache": cache, "cached_tokens": read}
        if isinstance(draft, LanguageModel):
            kept["draft_cache"] = make_prompt_cache(draft)
        options = {"draft_model": draft, "seed": 1, "stop_tokens": (), **kept}
        with stream(model, shipped, ids[:6], **options) as pieces:
            next(pieces)
        made_tokens = pieces.iterator.tokens
        assert read == (ids[:6] + made_tokens)[:-1]
        stream(model, shipped, ids, **options).close()  # before the first token
        assert read == ids[: len(read)]
        assert kv.offset(cache) == len(read) == 6 if made_tokens[0] != ids[6] else True
        for each in ("cache", "draft_cache"):
            if each in kept:
                assert kv.offset(kept[each]) == len(read)
        stream(model, shipped, ids, **options)  # nobody looks at it
        assert kv.offset(cache) == len(read)
        stopped = generate(model, shipped, ids, max_tokens=30, stop="a", **options)
        assert read == (ids + stopped.tokens)[:-1]


def test_an_error_of_the_model_leaves_the_list_as_the_cache_is(shipped):
    model = scripted(shipped, [40, 50, 60, 70])
    cache, read = make_prompt_cache(model), []
    options = {"cache": cache, "cached_tokens": read, "temperature": 0, "stop_tokens": ()}

    def fail(call: int) -> None:
        if call == 4:
            raise RuntimeError("no memory")

    model.hook = fail
    with pytest.raises(RuntimeError):
        generate(model, shipped, [5, 6], **options)
    model.hook = lambda call: None
    assert len(read) == kv.offset(cache) > 0
    assert generate(model, shipped, [5, 6], max_tokens=3, **options).tokens


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cached_tokens": []}, "cached_tokens must be those of a cache: give cache=, too"),
        ({"cached_tokens": (5, 6, 7)}, "must be a list, which is changed with the cache, got tupl"),
        ({"cached_tokens": [5, 6]}, "cached_tokens must be the 3 tokens in cache, got 2"),
        ({"cached_tokens": []}, "cached_tokens must be the 3 tokens in cache, got 0"),
        ({"cached_tokens": [5, 6, 9999]}, r"cached_tokens\[2\] must be between 0 and"),
        ({"cached_tokens": "abc"}, "cached_tokens must be a list"),
    ],
)
def test_what_is_no_list_of_the_cached_tokens_is_refused(model, shipped, options, message):
    if "give cache" not in message:
        options = {**options, "cache": make_prompt_cache(model)}
        model(mx.array([[5, 6, 7]]), cache=options["cache"])
    for draft in (None, NGram()):
        with pytest.raises((ValueError, TypeError), match=message):
            generate(model, shipped, [5, 6], draft_model=draft, **options)
    with pytest.raises(TypeError, match="'cached_tokens' of several prompts"):
        generate(model, shipped, ["On", "In"], cached_tokens=[])


def test_the_whole_text_must_fit_the_context_and_no_more(shipped):
    model = LanguageModel(lablib.gpt_config(len(shipped), 32, 1, 2, max_positions=16), seed=1)
    kept = {"cache": make_prompt_cache(model), "cached_tokens": []}
    options = {"stop_tokens": (), **kept}
    [*TokenIterator(model, range(8), max_tokens=4, **options)]
    whole = [*kept["cached_tokens"], 5]
    refuses(ValueError, "must fit", TokenIterator, model, whole, max_tokens=6, **options)
    assert len([*TokenIterator(model, whole, max_tokens=5, **options)]) == 5


# --- verdicts ----------------------------------------------------------------------------------
def test_a_completion_has_the_verdicts_that_trace_asked_for(model, shipped):
    options = {"draft_model": near(model, 0.3), "max_tokens": 9, "seed": 1, "stop_tokens": ()}
    traced = generate(model, shipped, "On a", trace=True, **options)
    pieces = stream(model, shipped, "On a", trace=True, **options)
    assert "".join(pieces) == traced
    assert len(traced.rounds) == traced.stats["rounds"]
    assert [token for each in traced.rounds for token in each.tokens] == traced.tokens
    assert pieces.completion().rounds == pieces.iterator.rounds
    assert generate(model, shipped, "On a", **options).rounds == []
    refuses(TypeError, "trace is about drafts", generate, model, shipped, "On a", trace=True)

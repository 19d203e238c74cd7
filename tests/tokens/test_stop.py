"""Stop strings: however a text is cut into tokens, it ends where the whole text says it must."""

from lablib.cache import kv
from lablib.inference import NGram
from lablib.inference.stop_strings import TextReader
from lablib.text import generate
from lablib.text_stream import stream

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import NaiveStreamingDetokenizer, TokenizerWrapper
from mlx_lm.tokenizer_utils import load as load_tokenizer
from oracles.scripted import says
from oracles.spelling import bytelevel
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

PIECES = ["a", "b", " ", "aa", "ab", "ba", "a ", " a", "b ", "aab", "bab", "é", "b🦙", "\n", ","]
PROMPT = [0, 1]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """Tokenizers with tokens that overlap in every way, and the single bytes of é and 🦙.

    The first reads byte by byte and keeps back a single space, the second decodes all anew.
    """
    names = [bytelevel(piece) for piece in PIECES]
    names += [bytelevel(bytes([byte])) for byte in "é🦙".encode()]
    vocab = {name: i for i, name in enumerate(dict.fromkeys(names))}
    inner = Tokenizer(models.BPE(vocab, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    path = tmp_path_factory.mktemp("pieces")
    PreTrainedTokenizerFast(tokenizer_object=inner).save_pretrained(path)
    tokenizer = load_tokenizer(path)
    assert [tokenizer.decode([i]) for i in range(len(PIECES))] == PIECES
    naive = TokenizerWrapper(tokenizer._tokenizer, NaiveStreamingDetokenizer)
    assert type(tokenizer.detokenizer) is not type(naive.detokenizer)
    return tokenizer, naive


def texts(vocab_size):
    """Texts as tokens, the letters of é and 🦙 whole or byte by byte."""
    letters = [[i] for i in range(len(PIECES))]
    letters.append(list(range(len(PIECES), len(PIECES) + 2)))
    letters.append(list(range(len(PIECES) + 2, vocab_size)))
    return st.lists(st.sampled_from(letters), min_size=1, max_size=12).map(
        lambda parts: [token for part in parts for token in part]
    )


STOPS = st.lists(st.text("ab é🦙\n", min_size=1, max_size=4), min_size=1, max_size=3)


def whole(tokenizer, tokens):
    """Return the text of all tokens, without the beginning of a letter at its end."""
    return tokenizer.decode(tokens).rstrip("\ufffd")


def begins(tokenizer, tokens):
    """Return whether the tokens end inside a letter."""
    return tokenizer.decode(tokens).endswith("\ufffd")


def brute(tokenizer, tokens, stops):
    """Return the text up to the stop that is complete first, and how many tokens that takes."""
    text = whole(tokenizer, tokens)
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    if not ends:
        return tokenizer.decode(tokens), None
    end, start = min(ends)
    counts = range(1, len(tokens) + 1)
    return text[:start], next(n for n in counts if len(whole(tokenizer, tokens[:n])) >= end)


def may_become(text, stops):
    """Return how long the longest end of ``text`` is with which a stop begins."""
    return max((n for s in stops for n in range(1, len(s) + 1) if text.endswith(s[:n])), default=0)


@settings(max_examples=600)
@given(data=st.data(), naive=st.booleans(), stops=STOPS)
def test_the_text_ends_before_the_stop_that_is_complete_first(tokenizers, data, naive, stops):
    tokenizer = tokenizers[naive]
    tokens = data.draw(texts(len(tokenizer)))
    text, end = brute(tokenizer, tokens, stops)
    reader, told = TextReader(tokenizer, PROMPT, stops), ""
    for n in range(1, len(tokens) + 1):
        told += reader.read(tokens[:n])
        assert reader.text == told
        assert text.startswith(told)  # nothing is ever taken back
        if end is not None and n >= end:
            assert (told, reader.end) == (text, end)
            continue
        assert reader.end is None
        so_far = whole(tokenizer, tokens[:n])
        if naive:  # exactly what may become a stop is held back
            assert told == so_far[: len(so_far) - may_become(so_far, stops)]
        else:  # and single spaces at the end, with what begins a letter there
            done = n
            while done and (
                tokens[done - 1] == PIECES.index(" ") or begins(tokenizer, tokens[:done])
            ):
                done -= 1
            least = whole(tokenizer, tokens[:done])
            assert len(told) >= len(least) - may_become(least, stops)
    told += reader.read(tokens, last=True)
    assert (told, reader.end) == (text, end)


@settings(max_examples=60)
@given(data=st.data(), stops=STOPS, draft=st.sampled_from(["none", "right", "wrong", "look up"]))
def test_generation_ends_at_the_token_that_completes_it(tokenizers, data, stops, draft):
    tokenizer = tokenizers[0]
    tokens = data.draw(texts(len(tokenizer)))
    text, end = brute(tokenizer, tokens, stops)
    model = says(tokenizer, PROMPT, tokens)
    drafts = {
        "none": None, "right": says(tokenizer, PROMPT, tokens),
        "wrong": says(tokenizer, PROMPT, tokens[::-1]), "look up": NGram(),
    }  # fmt: skip
    options = {"max_tokens": len(tokens), "stop": stops, "temperature": 0}
    options |= {"draft_model": drafts[draft], "cache": kv.make(model)}
    pieces = stream(model, tokenizer, PROMPT, **options)
    assert all(pieces)
    assert pieces.text == text
    completion = pieces.completion()
    assert completion.tokens == tokens[:end]
    assert completion.finish_reason == ("length" if end is None else "stop")
    assert completion.stats["tokens"] == len(completion.logprobs) == len(completion.tokens)
    assert kv.offset(options["cache"]) == len(PROMPT) + len(completion.tokens) - 1
    again = generate(model, tokenizer, PROMPT, **options | {"cache": None})
    assert (again, again.tokens) == (text, completion.tokens)
    more = {name: value for name, value in options.items() if name != "cache"}
    (together,) = generate(model, tokenizer, [PROMPT], **more)
    assert (together, together.tokens) == (text, completion.tokens)
    assert together.finish_reason == completion.finish_reason


def test_a_stop_inside_the_first_token_and_an_end_token_before_it(shipped):
    prompt = shipped.encode("On a rainy day, ")
    said = shipped.encode("Mia finds a red kite.", add_special_tokens=False)
    model = says(shipped, prompt, [*said, shipped.eos_token_id, *said])
    first = generate(model, shipped, prompt, stop="M", temperature=0)
    assert (first, first.tokens, first.finish_reason) == ("", said[:1], "stop")
    # What was held back comes out where the text ends for another reason.
    ended = generate(model, shipped, prompt, stop="kite.\nMia", temperature=0)
    assert (ended, ended.finish_reason) == ("Mia finds a red kite.", "stop")
    assert ended.tokens == [*said, shipped.eos_token_id]
    short = generate(model, shipped, prompt, stop="kite.\nMia", temperature=0, max_tokens=len(said))
    assert (short, short.finish_reason) == ("Mia finds a red kite.", "length")
    with stream(model, shipped, prompt, stop="nds.", temperature=0) as pieces:
        while "fi" not in pieces.text:
            next(pieces)
    assert pieces.text == shipped.decode(pieces.iterator.tokens)
    assert pieces.completion().finish_reason == "closed"


def test_the_cache_goes_on_after_a_stop(shipped):
    prompt = shipped.encode("On a rainy day, ")
    said = shipped.encode("Mia finds a red kite. It is big.", add_special_tokens=False)
    model = says(shipped, prompt, said)
    cache = kv.make(model)
    begun = generate(model, shipped, prompt, stop=" a", temperature=0, cache=cache)
    more = {"cache": cache, "max_tokens": len(said) - len(begun.tokens)}
    rest = generate(model, shipped, begun.tokens[-1:], temperature=0, **more)
    assert begun.tokens + rest.tokens == said


@pytest.mark.parametrize("stop", ["", ["a", ""], 3, [3], [None], b"a", [b"a"]])
def test_what_is_no_stop_string_is_refused(shipped, stop):
    model = says(shipped, [1], [5])
    for prompt in ("On", ["On", "In"]):
        with pytest.raises((ValueError, TypeError), match="stop must be "):
            generate(model, shipped, prompt, stop=stop)
    assert model.calls == []


def test_long_texts_with_many_stops_stay_quick_to_read(tokenizers):
    tokenizer = tokenizers[0]
    tokens = np.random.default_rng(0).integers(0, 3, 4000).tolist()
    reader = TextReader(tokenizer, PROMPT, ["abababababab" * 4, "bb" * 30])
    for n in range(0, len(tokens), 7):
        reader.read(tokens[:n])
        assert len(reader._window) <= 96

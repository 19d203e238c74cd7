"""generate and stream: text at the edge of an engine that speaks token ids."""

import copy
import pickle
import signal

from lablib.cache import kv
from lablib.completion import Completion
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.text import generate
from lablib.text_stream import TextStream, stream

import numpy as np
import pytest
from mlx_lm.tokenizer_utils import NaiveStreamingDetokenizer, TokenizerWrapper
from mlx_lm.tokenizer_utils import load as load_tokenizer
from oracles.refusals import refuses
from oracles.scripted import says, scripted
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

EOS = 2


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory):
    """A byte-level tokenizer that has no token for a whole umlaut or emoji."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner.train_from_iterator(
        ["a plain text, no more"], trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet)
    )
    path = tmp_path_factory.mktemp("bytewise")
    PreTrainedTokenizerFast(tokenizer_object=inner).save_pretrained(path)
    return load_tokenizer(path)


def test_the_text_is_what_the_tokens_add_to_the_prompt(shipped):
    rng = np.random.default_rng(0)
    for _ in range(30):
        prompt, tokens = (rng.integers(3, len(shipped), size=n).tolist() for n in (5, 12))
        model = says(shipped, prompt, tokens)
        pieces = list(stream(model, shipped, prompt, max_tokens=12, temperature=0))
        whole, begin = shipped.decode(prompt + tokens), shipped.decode(prompt)
        assert begin + "".join(pieces) == whole
        assert all(pieces)
        completion = generate(model, shipped, prompt, max_tokens=12, temperature=0)
        assert completion == "".join(pieces) == shipped.decode(tokens)
        assert completion.tokens == tokens


@pytest.mark.parametrize("naive", [False, True])
def test_a_piece_is_never_cut_inside_a_character(bytewise, naive):
    text = "a Bär, 3 Käse — 🦙🦙 !\n\n ñ  z"
    tokens = bytewise.encode(text)
    prompt = bytewise.encode("a plain ")
    tokenizer = bytewise
    if naive:
        tokenizer = TokenizerWrapper(bytewise._tokenizer, NaiveStreamingDetokenizer)
    assert len(tokens) > len(text)
    model = says(bytewise, prompt, tokens)
    pieces = list(stream(model, tokenizer, prompt, max_tokens=len(tokens), temperature=0))
    assert "".join(pieces) == text
    assert len(pieces) > 10
    assert "\ufffd" not in "".join(pieces)
    # Cut off in the middle of a llama, the rest of what there is comes out at the end.
    cut = tokens[: -len(bytewise.encode("🦙 !\n\n ñ  z")) + 2]
    pieces = stream(model, tokenizer, prompt, max_tokens=len(cut), temperature=0)
    assert "".join(pieces) == pieces.text
    assert pieces.text.rstrip("\ufffd") == "a Bär, 3 Käse — 🦙"


def test_the_end_token_ends_the_text_and_is_not_in_it(shipped):
    prompt = shipped.encode("On a rainy day, ")
    tokens = shipped.encode("Mia finds a red kite.", add_special_tokens=False)
    model = says(shipped, prompt, [*tokens, EOS, *tokens])
    completion = generate(model, shipped, prompt, temperature=0)
    assert completion == "Mia finds a red kite."
    assert completion.tokens == [*tokens, EOS]
    assert completion.finish_reason == completion.stats["finish_reason"] == "stop"
    assert len(completion.logprobs) == len(completion.tokens) == completion.stats["tokens"]
    # Asked for other stop tokens, or none, it does as asked.
    earlier = generate(model, shipped, prompt, temperature=0, stop_tokens=[tokens[2]])
    assert earlier == shipped.decode(tokens[:2])
    through = generate(model, shipped, prompt, temperature=0, stop_tokens=(), max_tokens=30)
    assert through.tokens[: len(tokens) + 2] == [*tokens, EOS, tokens[0]]
    assert through.finish_reason == "length"


def test_text_prompts_get_their_begin_token_once(shipped):
    model = scripted(shipped, [5])
    for prompt in ("On a", "<s>On a", shipped.encode("On a")):
        pieces = stream(model, shipped, prompt, max_tokens=1)
        assert pieces.iterator.prompt == [1, *shipped.encode("On a", add_special_tokens=False)]


def test_a_completion_is_a_string_with_attributes(shipped):
    completion = generate(scripted(shipped, [40, 50]), shipped, "On", max_tokens=3, seed=0)
    assert isinstance(completion, str)
    for twin in (pickle.loads(pickle.dumps(completion)), copy.copy(completion)):
        assert twin == completion
        assert twin.tokens == completion.tokens
        assert twin.stats == completion.stats
    assert Completion("x").finish_reason is None


def test_a_stream_can_be_left_and_says_what_it_has(shipped):
    prompt = shipped.encode("On a rainy day, ")
    tokens = shipped.encode("Mia finds a red kite.", add_special_tokens=False)
    model = says(shipped, prompt, tokens)
    with stream(model, shipped, prompt, temperature=0, max_tokens=len(tokens)) as pieces:
        first = next(pieces)
        assert pieces.text == first
        assert pieces.stats["tokens"] == len(pieces.iterator.tokens)
    assert pieces.completion().finish_reason == "closed"
    assert kv.offset(pieces.iterator.cache) == len(prompt) + len(pieces.iterator.tokens) - 1
    assert list(pieces) == []
    assert pieces.text == shipped.decode(pieces.iterator.tokens)


def test_after_an_interrupt_the_text_so_far_is_delivered(bytewise):
    prompt = bytewise.encode("a ")
    tokens = bytewise.encode("ää text")
    model = says(bytewise, prompt, tokens)
    # Two forwards for the prompt; at the fifth the third token is computed: half a character.
    model.hook = lambda call: signal.raise_signal(signal.SIGINT) if call == 5 else None
    pieces, seen = stream(model, bytewise, prompt, temperature=0), []
    with pytest.raises(KeyboardInterrupt):
        seen.extend(pieces)
    assert "".join(seen) == pieces.text
    assert len(pieces.iterator.tokens) == 3
    assert pieces.text == "ä\ufffd"
    assert kv.offset(pieces.iterator.cache) == len(prompt) + 2
    assert list(pieces) == []


def test_any_iterator_of_the_same_protocol_can_be_read(shipped):
    prompt = shipped.encode("On a")
    model = says(shipped, prompt, shipped.encode(" day", add_special_tokens=False))
    iterator = TokenIterator(model, prompt, max_tokens=3, temperature=0)
    assert "".join(TextStream(iterator, shipped)).startswith(" day")


def test_a_progress_bar_on_request(shipped, capsys):
    model = scripted(shipped, [40])
    generate(model, shipped, "On", max_tokens=3, seed=0)
    assert capsys.readouterr().err == ""
    generate(model, shipped, "On", max_tokens=3, seed=0, progress=True)
    assert "/3" in capsys.readouterr().err


@pytest.mark.parametrize("function", [generate, stream])
def test_bad_input_is_refused_at_the_call(shipped, function):
    model = scripted(shipped, [40])
    for arguments, options, message in (
        ((model, shipped, ""), {}, "prompt must hold some text, got ''"),
        ((model, shipped, []), {}, "prompt must hold at least one token"),
        ((model, shipped, [600]), {}, r"prompt\[0\] must be between 0 and"),
        ((model, shipped, None), {}, "prompt must be a sequence of token ids"),
        ((model, None, "On"), {}, "tokenizer must be a Hugging Face tokenizer, or mlx-lm's"),
        ((shipped, model, "On"), {}, "tokenizer must be a Hugging Face tokenizer, or mlx-lm's"),
        ((model, shipped, "On"), {"max_tokens": 0}, "max_tokens must be at least 1"),
        ((model, shipped, "On"), {"temperature": -1}, "temperature must be between"),
        ((model, shipped, "On"), {"top": 1}, "unknown option 'top'"),
        ((model, shipped, "On"), {"stop_tokens": [9999]}, r"stop_tokens\[0\] must be"),
    ):
        refuses((ValueError, TypeError), message, function, *arguments, **options)
    refuses(TypeError, "progress must be True or False", generate, model, shipped, "On", progress=1)
    assert model.calls == []

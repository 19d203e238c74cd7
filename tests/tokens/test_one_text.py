"""Ids become text in one way: whatever the tokenizer, the prompt and the door."""

import lablib
from lablib.inference.stop_strings import TextReader

import pytest
from oracles.one_text import check_doors, check_some
from oracles.scripted import says
from oracles.spelling import KINDS, generator, tokenizer_of

EACH = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory):
    """Return a tokenizer of each kind."""
    return {kind: tokenizer_of(kind, tmp_path_factory.mktemp("spelling")) for kind in KINDS}


# --- the reader --------------------------------------------------------------------------------
@EACH
def test_a_text_is_what_tokens_add_to_the_prompts_text(tokenizers, kind):
    check_some(tokenizers[kind], 1, 60)
    check_some(tokenizers[kind], 2, 10, longest=60)


@pytest.mark.parametrize("kind", ["unigram", "unigram without bytes", "wordpiece"])
def test_a_clean_up_of_spaces_takes_nothing_back(tmp_path, kind):
    tokenizer = tokenizer_of(kind, tmp_path)
    tokenizer._tokenizer.clean_up_tokenization_spaces = True
    assert " ," not in tokenizer.decode(tokenizer.encode("the ,b"))
    check_some(tokenizer, 5, 60)


@pytest.mark.grid(lambda kind: kind == "sentencepiece without bytes", rest="slow")
@pytest.mark.thorough
@EACH
def test_20400_texts_are_what_tokens_add_to_the_prompts_text(tokenizers, kind):
    check_some(tokenizers[kind], 3, 3400)


class Counting:
    """A tokenizer that counts the tokens that it decodes."""

    def __init__(self, inner):
        self._inner, self.decoded = inner, 0
        self.convert_ids_to_tokens = inner.convert_ids_to_tokens
        self.convert_tokens_to_ids = inner.convert_tokens_to_ids

    def decode(self, ids, **how):
        self.decoded += len(ids)
        return self._inner.decode(ids, **how)


@EACH
def test_a_step_decodes_a_few_tokens_however_long_the_text_is(tokenizers, kind):
    tokenizer = tokenizers[kind]
    some = generator(4).integers(0, len(tokenizer), 2000).tolist()
    last = [len(tokenizer) - 1] * 2000
    broken = tokenizer.convert_tokens_to_ids(["¢", "Ń"]) if kind == "byte-level" else [0]
    runs = (
        [tokenizer.convert_tokens_to_ids("<0xC3>")] * 2000
        if "<0xC3>" in tokenizer.get_vocab()
        else last
    )
    for tokens, stops in (
        (some, ()), (some, ["never\n"]), (last, ()), (last, ["token" * 9]),
        (broken * 1000, ()), (broken * 1000, ["never"]), (runs, ()),
    ):  # fmt: skip
        counting = Counting(tokenizer)
        reader = TextReader(counting, tokens, stops)
        for n in range(1, len(tokens) + 1):
            reader.read(tokens[:n])
        assert reader.end is None
        assert counting.decoded < 50 * len(tokens)


# --- every door --------------------------------------------------------------------------------
@EACH
def test_every_door_makes_the_same_text(tokenizers, kind):
    check_doors(tokenizers[kind], 11, 16)


# --- samples of the kind -----------------------------------------------------------------------
def test_a_space_at_a_completions_start_stays_where_the_tokenizer_drops_a_texts(tokenizers):
    tokenizer = tokenizers["sentencepiece"]
    prompt, tokens = ([*map(tokenizer.convert_tokens_to_ids, each)] for each in (
        ["the"], ["▁cat", "▁hello"]))  # fmt: skip
    model, how = says(tokenizer, prompt, tokens), {"max_tokens": 2, "temperature": 0}
    assert lablib.generate(model, tokenizer, prompt, **how) == " cat hello"
    assert lablib.sample_n(model, prompt, 1, **how).texts(tokenizer) == [" cat hello"]
    ended = lablib.sample_n(model, prompt, 1, stop=[" cat"], tokenizer=tokenizer, **how)
    assert (ended.texts(tokenizer), ended.lengths) == ([""], [1])
    second = lablib.on_text(tokenizer, lambda answer: answer.split(" ")[1])
    assert lablib.majority_vote(model, prompt, 1, extract=second, **how).winner == "cat"
    parts = lablib.inference.samples(model, [prompt] * 3, max_batch=2, **how)
    assert parts.join().texts(tokenizer) == [" cat hello"] * 3


def test_a_special_token_is_shown_by_every_door_and_the_stop_token_by_none(tokenizers):
    tokenizer = tokenizers["unigram"]
    prompt, tokens = ([*map(tokenizer.convert_tokens_to_ids, each)] for each in (
        ["the"], ["▁cat", "<tool>", "s", "</s>", "▁cat"]))  # fmt: skip
    model, how = says(tokenizer, prompt, tokens), {"max_tokens": 5, "temperature": 0}
    for stop_tokens, wanted in (([tokens[3]], " cat<tool>s"), ((), " cat<tool>s</s> cat")):
        found = lablib.sample_n(model, prompt, 1, stop_tokens=stop_tokens, **how)
        assert found.texts(tokenizer) == [wanted]
        whole = lablib.on_text(tokenizer, lambda answer: answer)
        vote = lablib.majority_vote(model, prompt, 1, extract=whole, stop_tokens=stop_tokens, **how)
        assert vote.winner == wanted
        found = lablib.generate(model, tokenizer, prompt, stop_tokens=stop_tokens, **how)
        assert found == wanted


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece", "unigram"])
def test_a_prompt_cut_inside_a_character_leaves_all_of_it_to_the_completion(tokenizers, kind):
    tokenizer = tokenizers[kind]
    whole = tokenizer.encode("🦙", add_special_tokens=False)
    spelt = [f"<0x{byte:02X}>" for byte in "🦙".encode()]
    if len(whole) < 4:
        whole = tokenizer.convert_tokens_to_ids(spelt)
    for cut in (1, 2, 3):
        model = says(tokenizer, whole[:cut], whole[cut:])
        how = {"max_tokens": 4 - cut, "temperature": 0}
        assert lablib.generate(model, tokenizer, whole[:cut], **how) == "🦙"
        assert lablib.sample_n(model, whole[:cut], 1, **how).texts(tokenizer) == ["🦙"]


def test_a_stop_in_a_run_that_the_completion_makes_whole_ends_it(tokenizers):
    tokenizer = tokenizers["sentencepiece"]
    run = tokenizer.convert_tokens_to_ids([f"<0x{byte:02X}>" for byte in "🦙 \nùa".encode()])
    model, how = says(tokenizer, run[:7], run[7:]), {"max_tokens": 2, "temperature": 0}
    assert lablib.generate(model, tokenizer, run[:7], **how) == "🦙 \nùa"
    found = lablib.generate(model, tokenizer, run[:7], stop="\n", **how)
    assert (found, len(found.tokens)) == ("🦙 ", 1)


def test_byte_0_is_itself(tokenizers):
    for kind in ("byte-level", "sentencepiece", "unigram"):
        tokenizer = tokenizers[kind]
        names = tokenizer.get_vocab()
        zero, a = ([names[x] for x in each if x in names] for each in (
            ("Ā", "<0x00>"), ("a", "<0x61>")))  # fmt: skip
        model = says(tokenizer, a[:1], [*zero[:1], *a[:1]])
        found = lablib.generate(model, tokenizer, a[:1], max_tokens=2, temperature=0)
        assert found == "\x00a"

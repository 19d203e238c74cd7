"""With a tokenizer, what takes ids takes a text or messages in their place."""

import lablib
from lablib.inference import sample_batches, speculative_batches
from lablib.validation import BadType, BadValue

import pytest

TEXT = "sum 3 1 4 1 5 9:"
TALK = [{"role": "user", "content": "On a sunny day,"}]
HOW = {"max_tokens": 8, "seed": 3}


@pytest.fixture(scope="module")
def loaded():
    model, tokenizer = lablib.load("target")
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    return model, tokenizer


def calls(model):
    """Functions of a prompt, or of two: what each makes of it, to be compared."""
    draft = lablib.NGram()
    one = {
        "sample_n": lambda p, **o: lablib.sample_n(model, p, 3, **HOW, **o).tokens,
        "sample_batches": lambda p, **o: sample_batches(model, p, 3, **HOW, **o).join().tokens,
        "speculative_sample_n": lambda p, **o: (
            lablib.speculative_sample_n(model, draft, p, 3, **HOW, **o).tokens
        ),
        "best_of_n": lambda p, **o: lablib.best_of_n(model, p, 3, **HOW, **o).tolist(),
        "majority_vote": lambda p, **o: lablib.majority_vote(model, p, 3, extract=len, **HOW, **o),
        "vote_until": lambda p, **o: lablib.vote_until(model, p, 3, extract=len, **HOW, **o),
        "speculative_decode": lambda p, **o: lablib.speculative_decode(model, draft, p, **HOW, **o)[
            0
        ].tolist(),
        "TokenIterator": lambda p, **o: [*lablib.TokenIterator(model, p, **HOW, **o)],
    }
    options = [lablib.SamplerOptions(seed=3)] * 2
    many = lablib.sample_many
    several = {
        "samples": lambda p, **o: lablib.samples(model, p, 2, **HOW, **o).join().tokens,
        "speculative_batch": lambda p, **o: (
            lablib.speculative_batch(model, draft, p, **HOW, **o).tokens
        ),
        "speculative_batches": lambda p, **o: (
            speculative_batches(model, draft, p, **HOW, **o).join().tokens
        ),
        "sample_many": lambda p, **o: [
            each.tokens for each in many(model, p, options, 2, max_tokens=8, **o)
        ],
    }
    return one, several


def ids_of(tokenizer, prompt):
    prompt = prompt if isinstance(prompt, str) else prompt[0]["content"]
    return tokenizer.encode(prompt, add_special_tokens=prompt == TEXT)


ONE, SEVERAL = (sorted(some) for some in calls(None))


@pytest.mark.parametrize("prompt", [TEXT, TALK], ids=["text", "messages"])
@pytest.mark.parametrize("name", ONE)
def test_a_text_or_messages_are_their_ids(loaded, name, prompt):
    model, tokenizer = loaded
    call = calls(model)[0][name]
    ids = ids_of(tokenizer, prompt)
    assert call(prompt, tokenizer=tokenizer) == call(ids, tokenizer=tokenizer)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_may_be_texts_messages_and_ids(loaded, name):
    model, tokenizer = loaded
    call = calls(model)[1][name]
    ids = [ids_of(tokenizer, each) for each in (TEXT, TALK)]
    for mixed in ([TEXT, TALK], (ids[0], TALK), [TEXT, ids[1]]):
        assert call(mixed, tokenizer=tokenizer) == call(ids, tokenizer=tokenizer)


def test_samples_of_a_text_are_what_generate_makes_of_it(loaded):
    model, tokenizer = loaded
    rows = lablib.sample_n(model, TEXT, 3, tokenizer=tokenizer, max_tokens=30, seed=1)
    wanted = lablib.generate(model, tokenizer, TEXT, n=3, max_tokens=30, seed=1)
    assert rows.texts(tokenizer) == wanted
    assert rows.tokens == [each.tokens for each in wanted]


def test_the_end_tokens_of_a_text_are_the_tokenizers(loaded):
    model, tokenizer = loaded
    bare = lambda tokens, cache=None: model(tokens, cache=cache)  # noqa: E731  it knows no end
    bare.vocab_size, bare.make_cache, bare.layers = 512, model.make_cache, model.layers
    how = {"tokenizer": tokenizer, "max_tokens": 60, "temperature": 0.0}
    text = lablib.sample_n(bare, TEXT, 1, **how)
    assert text.finished == [True]
    assert text.tokens[0][-1] == tokenizer.eos_token_id
    assert lablib.sample_n(bare, tokenizer.encode(TEXT), 1, **how).finished == [False]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"prompt": TEXT}, BadType, "prompt must be token ids, got the text"),
        ({"prompt": TALK}, BadType, "prompt.0. must be an int token id"),
        ({"prompt": "", "tokenizer": ...}, BadValue, "prompt must hold some text, got ''"),
        ({"prompt": [{"role": "user"}], "tokenizer": ...}, BadValue, "messages must be dicts"),
        ({"prompt": TEXT, "tokenizer": 3}, BadType, "tokenizer must be a Hugging Face tokenizer"),
    ],
)
def test_bad_texts_are_refused_before_any_work(loaded, given, error, message):
    model, tokenizer = loaded
    if given.get("tokenizer") is ...:
        given = {**given, "tokenizer": tokenizer}
    with pytest.raises(error, match=message):
        lablib.sample_n(model, n=2, **given)
    with pytest.raises(TypeError, match=r"n must be an int, got .*: a tokenizer goes into"):
        lablib.majority_vote(model, tokenizer, TEXT)

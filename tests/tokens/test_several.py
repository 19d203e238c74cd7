"""generate with conversations, and with several prompts at once."""

from collections import deque

from lablib.inference import NGram, sample_n, samples
from lablib.models import LanguageModel, hybrid_config, llama_config
from lablib.text import generate
from lablib.text_stream import stream

import mlx.core as mx
import numpy as np
import pytest
from oracles.scripted import Recurrent, says, scripted

PROMPTS = ["On a rainy day, ", "On", "sum 7 3 9 0 4 8:", "On a sunny day, Mia finds"]
USER = {"role": "user", "content": "On a rainy day, "}
TALK = [USER, {"role": "assistant", "content": "Mia finds."}, {"role": "user", "content": "Why?"}]


class Counted(LanguageModel):
    calls = 0

    def __call__(self, *arguments, **keywords):
        self.calls += 1
        return super().__call__(*arguments, **keywords)


@pytest.fixture(scope="module", params=[llama_config, hybrid_config], ids=["llama", "hybrid"])
def model(request, shipped):
    return Counted(request.param(len(shipped), 32, 2, 2), seed=3)


@pytest.fixture(scope="module")
def drafts(shipped):
    draft = LanguageModel(llama_config(len(shipped), 32, 1, 2), seed=4)
    return {"none": None, "model": draft, "look up": NGram()}


@pytest.mark.parametrize("draft", ["none", "model", "look up"])
@pytest.mark.parametrize("more", [{}, {"stop": ["e", "1"]}, {"max_batch": 3, "top_k": 9}])
def test_each_of_several_is_what_it_is_alone(model, shipped, drafts, draft, more):
    options = {"max_tokens": 12, "seed": 5, "draft_model": drafts[draft], **more}
    together = generate(model, shipped, PROMPTS, **options)
    ids = [shipped.encode(prompt) for prompt in PROMPTS]
    options.pop("max_batch", None)
    for i, row in enumerate(together):
        alone = generate(model, shipped, PROMPTS[i], stream=i, **options)
        assert (row, row.tokens) == (alone, alone.tokens)
        assert row.finish_reason == alone.finish_reason
        # In a batch sums are added in another order; float32 has 7 digits, float16 three.
        assert np.allclose(row.logprobs, alone.logprobs, atol=2e-2)
        assert row.stats["tokens"] == len(row.tokens) == len(row.logprobs)
        assert row.stats["prompt_tokens"] == len(ids[i])
    assert generate(model, shipped, ids, **options) == together
    assert len({tuple(row.tokens) for row in together}) > 1


def test_a_list_of_one_is_a_list_and_an_array_is_one_prompt(shipped):
    model = scripted(shipped, [40, 50])
    options = {"max_tokens": 3, "temperature": 0}
    one = generate(model, shipped, [5, 6], **options)
    assert isinstance(one, str)
    for same in (mx.array([[5, 6]]), np.array([[5, 6]]), (5, 6)):
        assert generate(model, shipped, same, **options) == one
    for several in ([[5, 6]], ([5, 6],), [mx.array([5, 6])], [np.array([[5, 6]])]):
        assert generate(model, shipped, several, **options) == [one]


def test_rows_that_met_their_stop_string_leave_the_batch(shipped):
    model = Counted(llama_config(len(shipped), 32, 2, 2), seed=3)
    first = [row[:1] for row in generate(model, shipped, PROMPTS, seed=5, max_tokens=5)]
    generate(model, shipped, PROMPTS, seed=5, max_tokens=90, stop_tokens=())
    model.calls = 0
    generate(model, shipped, PROMPTS, seed=5, max_tokens=90, stop_tokens=(), stop=first)
    assert model.calls <= len(PROMPTS) + 4
    # So do those that speculate one by one.
    model = says(shipped, [1, 5], shipped.encode("Mia finds a red kite.", add_special_tokens=False))
    options = {"stop": "find", "max_tokens": 90, "temperature": 0, "draft_model": NGram()}
    generate(model, shipped, [[1, 5], [1, 6]], **options)
    assert len(model.calls) < 20


def test_a_model_that_cannot_share_a_batch_works_row_by_row(shipped):
    class Script(Recurrent):
        vocab_size = len(shipped)

    model = Script(np.random.default_rng(0).normal(size=(97, len(shipped))) * 3)
    together = generate(model, shipped, PROMPTS, seed=1, max_tokens=6)
    how = {"seed": 1, "max_tokens": 6}
    alone = [generate(model, shipped, p, stream=i, **how) for i, p in enumerate(PROMPTS)]
    assert [row.tokens for row in together] == [row.tokens for row in alone]


def test_messages_are_written_down_by_the_template(templated):
    model = scripted(templated, [40, 50])
    pieces = stream(model, templated, messages=TALK, max_tokens=3)
    text = templated.decode(pieces.iterator.prompt)
    wanted = "<s>user: On a rainy day, \n<s>assistant: Mia finds.\n<s>user: Why?\nassistant:"
    assert text == wanted
    assert pieces.iterator.prompt == templated.apply_chat_template(TALK, add_generation_prompt=True)
    options = {"max_tokens": 4, "seed": 2, "draft_model": NGram()}
    one = generate(model, templated, messages=TALK, **options)
    assert one == generate(model, templated, pieces.iterator.prompt, **options)
    both = generate(model, templated, messages=[TALK, [USER]], **options)
    second = generate(model, templated, messages=[USER], stream=1, **options)
    assert [each.tokens for each in both] == [one.tokens, second.tokens]


def test_what_is_no_conversation_is_refused_by_name(shipped, templated):
    model = scripted(shipped, [40])
    strict = "{{ raise_exception('the roles must take turns') }}"
    for tokenizer, arguments, message in (
        (shipped, {"messages": TALK}, "messages need a chat template, and this tokenizer has none"),
        (templated, {"messages": TALK, "prompt": "On"}, "give either prompt or messages, not both"),
        (templated, {"messages": [TALK], "prompt": "On"}, "give either prompt or messages"),
        (templated, {"messages": TALK, "prompt": ["On"]}, "give either prompt or messages"),
        (templated, {"messages": []}, "messages must be dicts with role and content, got None"),
        (templated, {"messages": "Hello"}, "messages must be a sequence"),
        (templated, {"messages": ["Hello"]}, "messages must be a sequence"),
        (templated, {"messages": [{"role": "user"}]}, "messages must be dicts with role and"),
        (templated, {"messages": [3]}, "messages must be dicts with role and content, got 3"),
        (templated, {"messages": TALK, "chat": strict}, "messages must suit.* take turns"),
    ):
        before = templated.chat_template
        templated.chat_template = arguments.pop("chat", before)
        try:
            with pytest.raises((ValueError, TypeError), match=message):
                generate(model, tokenizer, **arguments)
        finally:
            templated.chat_template = before
    assert model.calls == []


@pytest.mark.parametrize("draft", [None, NGram()])
def test_what_has_no_meaning_for_several_is_refused_by_name(shipped, draft):
    model = scripted(shipped, [40])
    for prompts, options, message in (
        (["On", ""], {}, "prompt must hold some text"),
        (["On", []], {}, r"prompts\[1\] must hold at least one token"),
        (["On", 3], {}, r"prompts\[1\] must be a sequence"),
        (["On", [9999]], {}, r"prompts\[1\]\[0\] must be between 0"),
        (["On"], {"cache": []}, "unknown option 'cache'"),
        (["On"], {"draft_cache": []}, "unknown option 'draft_cache'"),
        (["On"], {"draft_cache": []}, "'draft_cache' of several prompts: it is for one"),
        (["On"], {"stream": 1}, "unknown option 'stream'"),
        (["On"], {"ended": print}, "unknown option 'ended'"),
        (["On"], {"top_logprobs": [1, 2]}, "top_logprobs must be one, or one for each of 1, got 2"),
        (["On"], {"seed": []}, "seed must be one, or one for each of 1, got 0"),
        (["On", "On"], {"max_tokens": [3, 0]}, "max_tokens must be at least 1, got 0"),
        (["On", "On"], {"temperature": [1, "x"]}, "temperature must be a number, got 'x'"),
        (["On"], {"max_tokens": 0}, "max_tokens must be at least 1"),
        (["On"], {"max_batch": 0}, "max_batch must be at least 1"),
        (["On"], {"stop_tokens": [9999]}, r"stop_tokens\[0\] must be"),
        (["On"], {"progress": 1}, "progress must be True or False"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            generate(model, shipped, prompts, draft_model=draft, **options)
    if draft is None:
        for option in ({"rule": "match"}, {"draft_tokens": 4}):
            for prompts in (["On"], "On"):
                with pytest.raises(TypeError, match=f"{next(iter(option))} is about drafts: give"):
                    generate(model, shipped, prompts, **option)
    assert model.calls == []


def test_a_tokenizer_of_hugging_face_will_do(model, shipped):
    """The tokenizer that mlx-lm's wrapper wraps gives the same texts."""
    bare = shipped._tokenizer
    assert not hasattr(bare, "detokenizer")
    options = {"max_tokens": 12, "seed": 5, "stop": "e"}
    assert generate(model, bare, PROMPTS, **options) == generate(model, shipped, PROMPTS, **options)
    assert generate(model, bare, "On", **options) == generate(model, shipped, "On", **options)
    with pytest.raises(TypeError, match="tokenizer must be a Hugging Face tokenizer, or mlx-lm's"):
        generate(model, "tokenizer", "On")


def test_samples_are_a_sequence_of_completions(model, shipped):
    samples = sample_n(model, shipped.encode("On"), 3, max_tokens=5, seed=1)
    assert [*samples] == samples.tokens == [samples[i] for i in range(len(samples))]
    wanted = [generate(model, shipped, "On", max_tokens=5, seed=1, stream=i) for i in range(3)]
    assert [*map(str.strip, samples.texts(shipped))] == [*map(str.strip, wanted)]


@pytest.mark.parametrize("draft", ["none", "look up"])
def test_n_completions_of_a_prompt_are_a_list_whose_number_i_draws_from_stream_i(
    model, shipped, drafts, draft
):
    options = {"max_tokens": 9, "seed": 5, "draft_model": drafts[draft]}
    made = generate(model, shipped, PROMPTS[0], n=3, **options)
    assert [each.tokens for each in made] == [
        generate(model, shipped, PROMPTS[0], stream=i, **options).tokens for i in range(3)
    ]
    assert generate(model, shipped, PROMPTS[0], n=1, **options) == made[:1]
    if draft == "none":
        rows = sample_n(model, shipped.encode(PROMPTS[0]), 3, max_tokens=9, seed=5)
        assert [each.tokens for each in made] == rows.tokens
    assert [each.text for each in made] == [str(each) for each in made]
    assert all(type(each.text) is str for each in made)


def test_n_completions_of_several_prompts_are_a_list_for_each(model, shipped):
    options = {"max_tokens": 5, "seed": 5}
    groups = generate(model, shipped, PROMPTS[:2], n=3, max_batch=4, **options)
    flat = generate(model, shipped, [each for each in PROMPTS[:2] for _ in range(3)], **options)
    assert groups == [flat[:3], flat[3:]]
    assert generate(model, shipped, PROMPTS[:2], n=1, **options) == [
        [each] for each in generate(model, shipped, PROMPTS[:2], **options)
    ]


def test_n_completions_have_options_of_their_own_and_bad_ones_are_refused(model, shipped):
    made = generate(model, shipped, "On", n=2, max_tokens=[2, 4], stop_tokens=(), seed=[1, 1])
    assert [len(each.tokens) for each in made] == [2, 4]
    assert made[1].startswith(made[0])
    for n in (0, -1, True, 1.5, "2"):
        with pytest.raises((ValueError, TypeError), match="n must be"):
            generate(model, shipped, "On", n=n)
    with pytest.raises(TypeError, match="prompt must be"):
        generate(model, shipped, n=2)
    with pytest.raises(TypeError, match="unknown option 'cache' of several"):
        generate(model, shipped, "On", n=2, cache=[])
    with pytest.raises(ValueError, match="either prompt or messages"):
        generate(model, shipped, "On", messages=TALK, n=2)


def test_a_conversation_has_n_answers(templated):
    model = LanguageModel(llama_config(len(templated), 32, 1, 2), seed=3)
    options = {"max_tokens": 4, "seed": 2}
    answers = generate(model, templated, messages=TALK, n=2, **options)
    alone = [generate(model, templated, messages=TALK, stream=i, **options) for i in (0, 1)]
    assert answers == alone
    both = generate(model, templated, messages=[TALK, [USER]], n=2, **options)
    assert both[0] == answers
    assert len(both[1]) == 2


@pytest.mark.parametrize("kind", [np.array, deque, tuple])
def test_a_column_of_a_table_is_a_list_of_prompts(model, shipped, kind):
    tokenizer, texts = shipped, ["Mia finds", "Otto"]
    how = {"max_tokens": 3, "seed": 0}
    listed = generate(model, tokenizer, texts, **how)
    assert generate(model, tokenizer, kind(texts), **how) == listed
    found = samples(model, kind(texts), tokenizer=tokenizer, **how).join()
    assert found.texts(tokenizer) == listed

"""Messages as the OpenAI API writes them, and what a template makes of them by itself."""

from typing import Any

from lablib.models import LanguageModel, llama_config
from lablib.text import generate
from lablib.text_stream import stream

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.tokenizer_utils import load as load_tokenizer
from oracles.refusals import refuses
from oracles.scripted import scripted

CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
CALLS = "{% for c in m.tool_calls or [] %}<{{ c.function.name }}>{% endfor %}"
END = "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
LOOP = "{% for m in messages %}"
TEMPLATES = {
    "adds": LOOP + "{{ m['role'] + ': ' + m['content'] }}" + CALLS + ";" + END,
    "prints": LOOP + "{{ m.role }}: {{ m.content }}" + CALLS + ";" + END,
    "trims": LOOP + "{{ m.role }}: {{ m.content | trim }}" + CALLS + ";" + END,
    "defined": LOOP
    + "{{ m.role }}: {% if m.content is defined %}{{ m.content }}{% endif %}" + CALLS + ";" + END,
    "asks": LOOP + "{{ m.role }}: {% if m.content %}{{ m.content }}{% endif %}" + CALLS + ";" + END,
    "by type": LOOP
    + "{{ m.role }}: {% if m.content is string %}{{ m.content }}{% endif %}" + CALLS + ";" + END,
    # As DeepSeek's: calls are written where there is no content. (Some releases of transformers
    # leave out what is None.)
    "by none": LOOP + "{{ m.role }}: {% if m.content is not defined or m.content is none %}" + CALLS
    + "{% else %}{{ m.content }}{% endif %};" + END,
}  # fmt: skip
PARTS = (
    LOOP + "{{ m.role }}: {% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}"
    "{% endfor %};" + END
)


@pytest.fixture
def tokenizer(saved):
    return load_tokenizer(saved)


def written(tokenizer: Any, messages: list[Any], template: str | None = None) -> str:
    if template is not None:
        tokenizer.chat_template = template
    pieces = stream(scripted(tokenizer, [40]), tokenizer, messages=messages)
    return tokenizer.decode(pieces.iterator.prompt)


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize(
    "own", [{"content": None}, {}, {"content": ""}, {"content": []}], ids=["null", "no", "", "[]"]
)
def test_no_content_beside_calls_of_tools_is_an_empty_one(tokenizer, name, own):
    if name == "by none" and own.get("content", "") == "" and own:
        pytest.skip("this template knows calls by null alone")
    calls = {"role": "assistant", "tool_calls": [CALL], **own}
    talk = [
        {"role": "user", "content": "On"}, calls, {"role": "tool", "content": "None"},
        {"role": "assistant", "content": "Leo"}, {"role": "user", "content": "Why"}, calls,
    ]  # fmt: skip
    if own == {"content": []} and name in ("by none", "asks", "by type", "defined"):
        pytest.skip("it reads lists in its own way")
    before = [dict(each) for each in talk]
    said = "user: On;assistant: <add>;tool: None;assistant: Leo;user: Why;assistant: <add>;"
    assert written(tokenizer, talk, TEMPLATES[name]) == said + "assistant:"
    assert talk == before
    assert generate(scripted(tokenizer, [40]), tokenizer, messages=[talk, talk], max_tokens=1)


@pytest.mark.parametrize("name", ["adds", "prints", "trims", "defined"])
def test_parts_of_a_text_are_read_where_the_template_reads_texts(tokenizer, name):
    parts = [{"type": "text", "text": "On a"}, {"type": "text", "text": " day"}]
    talk = [{"role": "user", "content": parts}]
    assert written(tokenizer, talk, TEMPLATES[name]) == "user: On a day;assistant:"
    picture = [{"type": "image_url", "image_url": {"url": "x"}}]
    refuses(
        ValueError, "content of messages must be text for this template, got {'image_url",
        written, tokenizer, [{"role": "user", "content": picture}],
    )  # fmt: skip


def test_parts_are_left_to_a_template_that_reads_them(tokenizer):
    talk = [{"role": "user", "content": [{"type": "text", "text": "On a day"}]}]
    assert written(tokenizer, talk, PARTS) == "user: On a day;assistant:"


def test_no_content_and_no_call_is_refused_by_name(tokenizer):
    tokenizer.chat_template = TEMPLATES["prints"]
    for message, error, words in (
        ({"role": "assistant", "content": None}, ValueError, "which only tool_calls can replace"),
        ({"role": "assistant", "tool_calls": []}, ValueError, "which only tool_calls can replace"),
        ({"role": "user", "content": 3}, TypeError, "content of messages must be text, got 3"),
        ({"role": "user", "content": {"text": "x"}}, TypeError, "content of messages must be text"),
        ({"content": "x"}, ValueError, "messages must be dicts with role and content"),
    ):
        refuses(error, words, written, tokenizer, [message])


THINKS = {
    "unless it is told not to": "{% if enable_thinking is defined and not enable_thinking %}no"
    "{% else %}<think>{% endif %}",
    "if it is told to": "{% if enable_thinking is defined and enable_thinking %}<think>"
    "{% else %}no{% endif %}",
    "by a default": "{% if enable_thinking | default(true) %}<think>{% else %}no{% endif %}",
    "by another": "{% if enable_thinking | default(false) %}<think>{% else %}no{% endif %}",
}


@pytest.mark.parametrize("way", THINKS)
@pytest.mark.parametrize("knows", [True, False], ids=["thinks", "has no such tokens"])
def test_whether_a_model_thinks_is_its_own_templates_default(saved, way, knows):
    inner = load_tokenizer(saved)._tokenizer
    if knows:
        inner.add_tokens(["<think>", "</think>"])
    inner.chat_template = TEMPLATES["prints"] + THINKS[way]
    talk = [{"role": "user", "content": "On"}]
    how = {"add_generation_prompt": True, "return_dict": False}
    wanted = inner.apply_chat_template(talk, **how)
    for tokenizer in (inner, TokenizerWrapper(inner)):
        model = scripted(tokenizer, [40])
        assert stream(model, tokenizer, messages=talk).iterator.prompt == wanted


def test_a_template_that_is_a_function_of_mlx_lm_is_called(saved):
    inner = load_tokenizer(saved)._tokenizer
    tokenizer = TokenizerWrapper(inner, chat_template=lambda messages, **_: messages[0]["content"])
    talk = [{"role": "user", "content": "On a day"}]
    assert written(tokenizer, talk) == "On a day"


WRITES = LOOP + (
    "{{ m.role }}: {{ m.content }};{% endfor %}{% for t in tools or [] %}<{{ t.function.name }}>"
    "{% endfor %}{% if add_generation_prompt %}assistant:{% if enable_thinking is defined and "
    "not enable_thinking %}no thoughts;{% endif %}{% endif %}"
)
ADD = {"type": "function", "function": {"name": "add", "parameters": {}}}
ON = [{"role": "user", "content": "On"}]


def prompt_of(tokenizer: Any, messages: list[Any], **more: Any) -> str:
    pieces = stream(scripted(tokenizer, [40]), tokenizer, messages=messages, **more)
    return tokenizer.decode(pieces.iterator.prompt)


@pytest.mark.parametrize(
    ("template", "end"),
    [
        (None, "assistant:"),
        ({}, "assistant:"),
        ({"enable_thinking": False}, "assistant:no thoughts;"),
        ({"tools": [ADD]}, "<add>assistant:"),
        ({"enable_thinking": False, "tools": [ADD]}, "<add>assistant:no thoughts;"),
        ({"add_generation_prompt": False}, ""),
        ({"chat_template": "{{ messages[0].content }}!"}, None),
    ],
)
def test_settings_are_handed_on_to_the_chat_template(tokenizer, template, end):
    tokenizer.chat_template = WRITES
    text = "On!" if end is None else f"user: On;{end}"
    assert prompt_of(tokenizer, ON, template=template) == text
    model = LanguageModel(llama_config(len(tokenizer), 32, 1, 2), seed=3)
    how = {"max_tokens": 2, "temperature": 0.0, "template": template}
    one = generate(model, tokenizer, messages=ON, **how)
    assert one.stats["prompt_tokens"] == len(tokenizer.encode(text, add_special_tokens=False))
    assert generate(model, tokenizer, messages=[ON, ON], **how) == [one, one]
    assert generate(model, tokenizer, messages=ON, n=2, **how) == [one, one]


@pytest.mark.parametrize(
    ("template", "error", "message"),
    [
        ({"enable_thinkng": False}, ValueError, "what the chat template reads, got 'enable_thinkn"),
        ({"documents": []}, ValueError, "what the chat template reads, got 'documents'"),
        ({"tokenize": False}, ValueError, "the chat template's own settings, got 'tokenize'"),
        ({"return_dict": True}, ValueError, "the chat template's own settings, got 'return_dict'"),
        ([("tools", [])], TypeError, "template must be a dict of settings"),
        ("no thoughts", TypeError, "template must be a dict of settings"),
    ],
)
def test_settings_that_the_template_does_not_read_are_refused(tokenizer, template, error, message):
    tokenizer.chat_template = WRITES
    model = scripted(tokenizer, [40])
    with pytest.raises(error, match=message):
        generate(model, tokenizer, messages=ON, template=template)
    for given in ({"prompt": "On"}, {"prompt": ["On", "On"]}, {"prompt": "On", "n": 2}):
        with pytest.raises(TypeError, match="template is of a chat template: give messages="):
            generate(model, tokenizer, **given, template={})


def test_an_assistants_last_message_is_the_beginning_of_the_answer(tokenizer):
    tokenizer.chat_template = WRITES
    begun = [*ON, {"role": "assistant", "content": "Leo finds a"}]
    assert prompt_of(tokenizer, begun) == "user: On;assistant: Leo finds a"
    new = {"add_generation_prompt": True}
    assert prompt_of(tokenizer, begun, template=new) == (
        "user: On;assistant: Leo finds a;assistant:"
    )
    parts = [*ON, {"role": "assistant", "content": [{"type": "text", "text": "Leo finds"}]}]
    assert prompt_of(tokenizer, parts) == "user: On;assistant: Leo finds"
    assert prompt_of(tokenizer, [*ON, {"role": "assistant", "content": ""}]).endswith("assistant:")
    tokenizer.chat_template = PARTS
    assert prompt_of(tokenizer, parts[1:]) == "assistant: Leo finds"


def test_a_call_of_a_tool_is_no_beginning_of_an_answer(tokenizer):
    tokenizer.chat_template = TEMPLATES["asks"]
    calls = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    assert prompt_of(tokenizer, [*ON, calls]) == "user: On;assistant: <add>;assistant:"

"""Messages as the OpenAI API writes them, and what a template makes of them by itself."""

from typing import Any

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

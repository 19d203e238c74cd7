"""A text, or messages as the OpenAI API writes them, become the ids of a prompt."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lablib.validation import BadType, BadValue, sequence, shown

Message = dict[str, Any]

_WRITER = {"chat_template", "add_generation_prompt", "continue_final_message"}  # for any template
_TEMPLATES = _WRITER | {"tools", "documents"}  # of what Hugging Face's function takes
_MARK = "[the content of a message stands here]"


def encode(tokenizer: Any, prompt: Any, messages: Any = None, template: Any = None) -> Any:
    """Return the ids of a text or of messages; a prompt that is no text is returned as it is.

    The chat template, which writes messages down, gets the settings ``template``.
    """
    if messages is not None:
        if prompt is not None:
            raise BadValue("give either prompt or messages, not both")
        return encode_messages(tokenizer, messages, template)
    if template is not None:
        raise BadType("template is of a chat template: give messages=, too")
    if not isinstance(prompt, str):
        return prompt
    if not prompt:
        raise BadValue("prompt must hold some text, got ''")
    # Text that begins with the begin token brings its own; everything else gets one.
    begin = tokenizer.bos_token
    needs_begin = begin is None or not prompt.startswith(begin)
    return tokenizer.encode(prompt, add_special_tokens=needs_begin)


def encode_messages(tokenizer: Any, messages: Any, template: Any = None) -> list[int]:
    """Return a conversation's ids, up to where the answer begins, or goes on.

    A last message of the assistant's is the beginning of the answer.

    Raises:
        ValueError, TypeError: the tokenizer has no chat template; something is no message; or the
            template refuses the conversation, or reads no such setting.
    """
    if not (tokenizer.has_chat_template or tokenizer.chat_template):  # one may be set later
        raise BadValue("messages need a chat template, and this tokenizer has none: give prompt=")
    given = sequence("messages", messages, "messages")
    settings = {"add_generation_prompt": True, **_settings(tokenizer, template)}
    write = partial(_writer_of(tokenizer), **settings)
    checked = [_checked(each) for each in given or [None]]
    checked = _readable(partial(write, tokenize=False), checked)
    last = checked[-1]
    goes_on = last["role"] == "assistant" and last["content"] and not last.get("tool_calls")
    if goes_on and not {"add_generation_prompt", "continue_final_message"} & {*(template or ())}:
        write = partial(write, add_generation_prompt=False, continue_final_message=True)
    try:
        return write(checked)
    except Exception as error:  # a template is a program, which may refuse an order of roles
        raise BadValue(f"messages must suit the tokenizer's chat template: {error}") from error


def _settings(tokenizer: Any, template: Any) -> dict[str, Any]:
    """Return settings for a chat template; what it doesn't read would be ignored in silence."""
    if not isinstance(template, dict | None):
        raise BadType(f"template must be a dict of settings, got {shown(template)}")
    inner = _inner(tokenizer)
    source = (template or {}).get("chat_template", inner.chat_template)
    names = inspect.signature(inner.apply_chat_template).parameters
    for name in template or ():
        if name in names and name not in _TEMPLATES:
            raise BadValue(f"template must be of the chat template's own settings, got {name!r}")
        if source is not None and name not in _WRITER and str(name) not in str(source):
            raise BadValue(f"template must be of what the chat template reads, got {name!r}")
    return dict(template or {})


def _checked(message: Any) -> Message:
    """Refuse what is no message; beside calls of tools there may be no content."""
    if not isinstance(message, dict) or "role" not in message:
        raise BadValue(f"messages must be dicts with role and content, got {shown(message)}")
    content = message.get("content")
    if content is None and not message.get("tool_calls"):
        raise BadValue(
            "messages must be dicts with role and content, which only tool_calls can replace, "
            f"got {shown(message)}"
        )
    if content is not None and not isinstance(content, str | list | tuple):
        raise BadType(f"content of messages must be text, got {shown(content)}")
    return {**message, "content": content}


def _readable(write: Callable[[list[Message]], str], messages: list[Message]) -> list[Message]:
    """Put text in the place of a content that is none, unless the template reads it as it is.

    One that writes a content out whatever it is would say "None", or Python's words for a list of
    parts; another tells a call of a tool by a content of None, or reads the parts itself.
    """
    others = [i for i, each in enumerate(messages) if not isinstance(each["content"], str)]
    readable = [*messages]
    if not others:
        return messages
    try:
        as_given = write(messages)
    except Exception:  # it wants texts
        as_given = ""
    for i in others:
        content = messages[i]["content"]
        if not as_given or _is_written_out(write, messages, i, as_given):
            readable[i] = {**messages[i], "content": _text(content)}
    return readable


def _is_written_out(
    write: Callable[[list[Message]], str], messages: list[Message], i: int, as_given: str
) -> bool:
    """Return whether the template writes the content of message ``i`` whatever it is."""
    marked = [*messages]
    marked[i] = {**messages[i], "content": _MARK}
    try:
        seen = write(marked)
    except Exception:  # it does not read texts
        return False
    return _MARK in seen and seen.replace(_MARK, str(messages[i]["content"])) == as_given


def _text(content: Sequence[Any] | None) -> str:
    texts = []
    for part in content or ():
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            raise BadValue(f"content of messages must be text for this template, got {shown(part)}")
        texts.append(part["text"])
    return "".join(texts)


def _writer_of(tokenizer: Any) -> Callable[..., Any]:
    """Return what writes messages down, as the model's own default has it.

    mlx-lm's wrapper sets ``enable_thinking`` for every template that a tokenizer has; behind it
    stands Hugging Face's tokenizer, which leaves that to the template. The wrapper alone knows
    templates that are functions of mlx-lm's.
    """
    inner = _inner(tokenizer)
    settings = getattr(inner, "init_kwargs", {})
    if inner.chat_template is None or "chat_template_type" in settings:
        return tokenizer.apply_chat_template
    return partial(inner.apply_chat_template, return_dict=False)


def _inner(tokenizer: Any) -> Any:
    """Return Hugging Face's tokenizer, which stands behind mlx-lm's wrapper."""
    return getattr(tokenizer.convert_tokens_to_ids, "__self__", tokenizer)

"""Text from a prompt: whole (``generate``) or piece by piece (``stream``).

The engine speaks token ids; text is made here, at the edge.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Unpack, overload

from lablib.chat_messages import encode
from lablib.completion import Completion, completions_of
from lablib.inference import completions
from lablib.inference.arguments import check_n
from lablib.inference.keywords import (
    SeveralKeywords,
    TextKeywords,
    described,
)
from lablib.inference.stop_strings import OnText, wrapped
from lablib.text_stream import Conversation, stream
from lablib.unknown_options import check_options, checks_options
from lablib.validation import BadType, flag, sequence

import mlx.core as mx
import numpy as np

_SEVERAL = " (of several prompts, or with n=)"

Several = list[str] | list[list[int]] | list[mx.array] | tuple[str | Sequence[int] | mx.array, ...]


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: str | Sequence[int] | mx.array,
    *,
    messages: None = None,
    max_tokens: int = 100,
    n: None = None,
    progress: bool = False,
    **options: Unpack[TextKeywords],
) -> Completion: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Several,
    *,
    messages: None = None,
    max_tokens: int | Sequence[int] = 100,
    n: None = None,
    progress: bool = False,
    **options: Unpack[SeveralKeywords],
) -> list[Completion]: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: None = None,
    *,
    messages: Conversation,
    max_tokens: int = 100,
    n: None = None,
    progress: bool = False,
    **options: Unpack[TextKeywords],
) -> Completion: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: None = None,
    *,
    messages: list[Conversation],
    max_tokens: int | Sequence[int] = 100,
    n: None = None,
    progress: bool = False,
    **options: Unpack[SeveralKeywords],
) -> list[Completion]: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: str | Sequence[int] | mx.array,
    *,
    messages: None = None,
    max_tokens: int | Sequence[int] = 100,
    n: int,
    progress: bool = False,
    **options: Unpack[SeveralKeywords],
) -> list[Completion]: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Several,
    *,
    messages: None = None,
    max_tokens: int | Sequence[int] = 100,
    n: int,
    progress: bool = False,
    **options: Unpack[SeveralKeywords],
) -> list[list[Completion]]: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: None = None,
    *,
    messages: Conversation,
    max_tokens: int | Sequence[int] = 100,
    n: int,
    progress: bool = False,
    **options: Unpack[SeveralKeywords],
) -> list[Completion]: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: None = None,
    *,
    messages: list[Conversation],
    max_tokens: int | Sequence[int] = 100,
    n: int,
    progress: bool = False,
    **options: Unpack[SeveralKeywords],
) -> list[list[Completion]]: ...


@described(TextKeywords, SeveralKeywords)
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Any = None,
    *,
    messages: Any = None,
    max_tokens: int | Sequence[int] = 100,
    n: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Completion | list[Completion] | list[list[Completion]]:
    """Generate a completion; a ``str`` with ``.tokens``, ``.logprobs`` and ``.stats``.

    Of a list of prompts, or of conversations, it makes a list of completions, side by side. Number
    i draws from stream i of the seed: alone it is the same with ``stream=i``. A list of seeds gives
    each a seed of its own: alone it is the same with that seed. With ``n`` each prompt gets n
    completions; those of prompt j have the numbers from j * n.

    Args:
        model: any mlx-lm model or :class:`~lablib.models.base.LanguageModel`.
        tokenizer: mlx-lm's ``TokenizerWrapper``, as ``load`` returns it, or Hugging Face's own.
        prompt: text, or token ids (which get no special tokens added); or a list of these.
        messages: ``[{"role": "user", "content": "..."}, ...]`` in place of a prompt; the
            tokenizer's chat template makes one of them. A last message of the assistant's is the
            beginning of the answer. Or a list of such conversations.
        max_tokens: 100; at least 1. How many tokens to generate at most [each].
        n: None, one without a list. How many completions of a prompt, which is read once: a list of
            them, also for 1; of several prompts a list of such lists.
        progress: False. Show a progress bar.
        **options: those that follow. With "[each]", a list has a value for each of several prompts.

    Returns:
        The completion; of several prompts a list of them, in their order; with ``n`` a list for
        each prompt.

    Raises:
        ValueError, TypeError: an argument is unknown, or out of range; before any work. An option's
            name from mlx-lm or Hugging Face is answered with its name here.

    Example:
        >>> text = lablib.generate(model, tokenizer, "Mia finds", max_tokens=8, temperature=0.0)
        >>> len(text.tokens) == len(text.logprobs) <= 8
        True
        >>> both = lablib.generate(model, tokenizer, ["Mia finds", "Otto"], seed=[1, 2], stop=".")
        >>> [each.finish_reason for each in both]
        ['stop', 'stop']
        >>> len(lablib.generate(model, tokenizer, "Mia finds", n=3, max_tokens=2))
        3
    """
    prompt = _listed(prompt)
    is_several = _is_several(prompt) or _is_several(messages)
    side_by_side = is_several or n is not None
    known = SeveralKeywords.__annotations__ if side_by_side else {}
    only_several = dict.fromkeys(SeveralKeywords.__annotations__, _SEVERAL)
    check_options(generate, options, {**TextKeywords.__annotations__, **known}, **only_several)
    flag("progress", progress)
    if options.get("stream") is True:
        raise BadType("stream must be an int, of the seed; pieces of text come from stream()")
    options["max_tokens"] = max_tokens
    if side_by_side:
        if not is_several:  # one, of which n are wanted
            if messages is None:
                prompt = [prompt]
            else:
                messages = [messages]
        each = 1 if n is None else check_n(n)
        options["progress"] = progress
        made = _generate_several(model, tokenizer, prompt, messages, each, **options)
        groups = [made[first : first + each] for first in range(0, len(made), each)]
        return made if n is None else groups if is_several else groups[0]
    pieces = stream(model, tokenizer, prompt, messages=messages, **options)
    from tqdm.auto import tqdm

    with pieces, tqdm(total=max_tokens, unit="token", leave=False, disable=not progress) as bar:
        for _ in pieces:
            bar.update(pieces.stats["tokens"] - bar.n)
    return pieces.completion()


def _listed(prompt: Any) -> Any:
    """Return texts in an array, a table's column or another sequence as a list; else as it is."""
    if isinstance(prompt, str | list | tuple | mx.array):
        return prompt
    is_sequence = hasattr(prompt, "tolist") or isinstance(prompt, Sequence)
    listed = sequence("prompt", prompt, "prompts") if is_sequence else []
    return listed if listed and isinstance(listed[0], str) else prompt


def _is_several(given: Any) -> bool:
    kinds = str, list, tuple, mx.array, np.ndarray
    return isinstance(given, list | tuple) and any(isinstance(each, kinds) for each in given)


def _generate_several(
    model: Any,
    tokenizer: Any,
    prompts: Any,
    conversations: Any,
    n: int,
    *,
    template: Any = None,
    stop_tokens: Any = None,
    draft_model: Any = None,
    **options: Any,
) -> list[Completion]:
    for name in ("cache", "cached_tokens", "draft_cache", "stream", "trace"):
        if name in options:
            raise BadType(f"unknown option {name!r} of several prompts: it is for one prompt alone")
    options["tokenizer"] = tokenizer = wrapped(tokenizer)
    options["stop_tokens"] = tokenizer.eos_token_ids if stop_tokens is None else stop_tokens
    if conversations is None:
        ids = [encode(tokenizer, prompt, template=template) for prompt in prompts]
    else:
        ids = [encode(tokenizer, prompts, messages, template) for messages in conversations]
    if len(ids) == 1 and n > 1 and draft_model is None:
        parts = completions.complete(model, ids[0], None, n=n, **options)
    else:
        parts = completions.complete(model, ids, draft_model, each=n, **options)
    return completions_of(parts.join(), tokenizer)


@checks_options
def on_text(
    tokenizer: Any, function: Callable[[str], Hashable | None]
) -> Callable[[list[int]], Hashable | None]:
    """Make a vote's ``extract`` from a function of text, or a ``score_fn`` or ``weight``.

    In a vote the text is what ``generate`` makes of the completion, what its tokens add to the
    prompt's text, but a stop string that ended it is part of it. Called with ids alone the function
    takes them for a whole text, and a token that ends the tokenizer's texts for its end.

    Args:
        tokenizer: anything with ``decode(ids, skip_special_tokens=False)``.
        function: takes the text of a completion; returns its answer, or None; or its score.

    Returns:
        A function of token ids.

    Raises:
        TypeError: ``function`` can't be called.

    Example:
        >>> last = lablib.on_text(tokenizer, lambda text: text.split()[-1])
        >>> last(tokenizer.encode("Mia finds"))
        'finds'
    """
    return OnText(tokenizer, function)

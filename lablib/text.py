"""Text from a prompt: whole (``generate``) or piece by piece (``stream``).

The engine speaks token ids; text is made here, at the edge.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import AbstractContextManager
from typing import Any, Self, Unpack, overload

from lablib.cache import kv
from lablib.chat_messages import Message, encode_messages
from lablib.inference import completions
from lablib.inference.arguments import refuse_draft_options
from lablib.inference.decoding.rows import Best, Samples, Verdict
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.keywords import (
    SeveralKeywords,
    StreamKeywords,
    TextKeywords,
    described,
)
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.inference.stop_strings import OnText, TextReader, check_stop, wrapped
from lablib.unknown_options import check_options, checks_options
from lablib.validation import BadType, BadValue, flag

import mlx.core as mx
import numpy as np

Conversation = Sequence[Message]
Several = list[str] | list[list[int]] | list[mx.array] | tuple[str | Sequence[int] | mx.array, ...]


class Completion(str):
    """Generated text: a ``str``, with what is known about it.

    Methods of ``str`` return a plain ``str``, which knows nothing of it.

    Attributes:
        tokens: the generated ids, a stop token at the end included (its text is not).
        logprobs: their log-probabilities under the model's raw logits.
        top_logprobs: the model's best ``(id, logprob)`` pairs at each, if ``top_logprobs=`` asked.
        rounds: the verdict of each round, if ``trace=True`` asked: what was drafted, what stayed.
        stats: see :class:`TokenIterator` and :class:`SpeculativeTokenIterator`. Of one among
            several ``tokens``, ``prompt_tokens`` and ``finish_reason`` are its own, the rest is of
            all together.

    Example:
        >>> text = lablib.generate(model, tokenizer, "Mia finds", max_tokens=3, stop_tokens=())
        >>> len(text.tokens), text.finish_reason
        (3, 'length')
    """

    tokens: list[int]
    logprobs: list[float]
    top_logprobs: list[Best]
    rounds: list[Verdict]
    stats: dict[str, Any]

    def __new__(
        cls,
        text: str,
        tokens: Iterable[int] = (),
        logprobs: Iterable[float] = (),
        stats: Any = (),
        top_logprobs: Iterable[Best] = (),
        rounds: Iterable[Verdict] = (),
    ) -> Self:
        """Make the string and attach the rest."""
        completion = super().__new__(cls, text)
        completion.tokens, completion.logprobs = list(tokens), list(logprobs)
        completion.top_logprobs, completion.rounds = list(top_logprobs), list(rounds)
        completion.stats = dict(stats)
        return completion

    @property
    def finish_reason(self) -> str | None:
        """Why the generation ended: "stop", "length", "closed" or "error"."""
        return self.stats.get("finish_reason")


class TextStream(Iterator[str], AbstractContextManager):
    """Text pieces of a token iterator as they become readable; what :func:`stream` returns.

    A piece is never empty and never cut inside a character. The pieces add up to what the tokens
    add to the prompt's text, without the stop token and up to the ``stop`` string that is complete
    first. Closing (or leaving a ``with`` block) closes the token iterator, a :class:`TokenIterator`
    or another with its ``prompt``, ``tokens``, ``logprobs``, ``stats`` and ``close``. After an
    interrupt (Ctrl-C) the last tokens' text is delivered first; the ``KeyboardInterrupt`` follows.
    """

    def __init__(self, iterator: Any, tokenizer: Any, stop: Sequence[str] = ()) -> None:
        self.iterator = iterator
        self.text = ""  # all pieces so far
        self._reader = TextReader(tokenizer, iterator.prompt, stop)
        self._ended = False
        self._interrupt: KeyboardInterrupt | None = None

    def __next__(self) -> str:
        while not self._ended:
            try:
                next(self.iterator)
            except StopIteration:
                self._ended = True
            except KeyboardInterrupt as pressed:
                self.iterator.close()
                self._ended, self._interrupt = True, pressed
            piece = self._new_text()
            if piece:
                return piece
        if self._interrupt is not None:
            interrupt, self._interrupt = self._interrupt, None
            raise interrupt
        raise StopIteration

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the pieces in ``async for``; other tasks of the loop have their turn between them.

        Leaving the loop, or cancelling its task, closes the stream.
        """
        with self:
            for piece in self:
                yield piece
                await asyncio.sleep(0)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop generating; the cache then stands at the returned tokens."""
        self.iterator.close()
        if not self._ended:
            self._ended = True
            self._new_text()

    @property
    def stats(self) -> dict[str, Any]:
        """The token iterator's stats."""
        return self.iterator.stats

    def completion(self) -> Completion:
        """Return what has been generated so far."""
        made = self.iterator
        more = [getattr(made, name, ()) for name in ("top_logprobs", "rounds")]
        return Completion(self.text, made.tokens, made.logprobs, self.stats, *more)

    def _new_text(self) -> str:
        tokens = self.iterator.tokens
        end = len(tokens) - (self.stats["finish_reason"] == "stop")
        piece = self._reader.read(tokens[:end], last=self._ended)
        self.text += piece
        if self._reader.end is not None:
            self._ended = True
            self.iterator.close()
            self.stats["finish_reason"] = "stop"
        return piece


@described(StreamKeywords)
def stream(
    model: Any,
    tokenizer: Any,
    prompt: str | Sequence[int] | mx.array | None = None,
    *,
    messages: Conversation | None = None,
    max_tokens: int = 100,
    stop: str | Sequence[str] = (),
    stop_tokens: Collection[int] | None = None,
    draft_model: Any = None,
    **options: Unpack[StreamKeywords],
) -> TextStream:
    """Generate text piece by piece, for a loop that prints it as it comes.

    Args:
        model: any mlx-lm model or :class:`~lablib.models.base.LanguageModel`.
        tokenizer: mlx-lm's ``TokenizerWrapper``, as ``load`` returns it, or Hugging Face's own.
        prompt: text, or token ids (which get no special tokens added).
        messages: ``[{"role": "user", "content": "..."}, ...]`` in place of a prompt; the
            tokenizer's chat template makes one of them. Beside ``tool_calls`` a content may be
            None, or missing. Whether a model thinks is its template's own default.
        max_tokens: how many tokens to generate at most.
        stop: a string, or several: the text ends before the one that is complete first, however it
            is cut into tokens. The token that completes it is the last one.
        stop_tokens: ids that end the generation; None means the tokenizer's end tokens.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``, that
            guesses tokens for the model to verify: the same text or distribution, sooner.
        **options: those that follow.

    Returns:
        An iterator of strings with ``.text``, ``.stats``, ``.completion()`` and ``.close()``.

    Raises:
        ValueError, TypeError: an argument is out of range; at the call, before any work.

    Example:
        >>> with lablib.stream(model, tokenizer, "Mia finds", max_tokens=8) as pieces:
        ...     text = "".join(pieces)
        >>> text == pieces.text
        True
    """
    check_options(stream, options)
    tokenizer = wrapped(tokenizer)
    ids, stop = _encode(tokenizer, prompt, messages), check_stop(stop, tokenizer)
    if stop_tokens is None:
        stop_tokens = tokenizer.eos_token_ids
    settings: dict[str, Any] = {**options, "max_tokens": max_tokens, "stop_tokens": stop_tokens}
    settings["tokenizer"] = tokenizer
    iterator: TokenIterator | SpeculativeTokenIterator
    if draft_model is None:
        refuse_draft_options(settings)
        iterator = TokenIterator(model, ids, **settings)
    else:
        iterator = SpeculativeTokenIterator(model, draft_model, ids, **settings)
    if messages is not None and options.get("cached_tokens") is None:
        _refuse_to_repeat(iterator.cache)
    return TextStream(iterator, tokenizer, stop)


def _refuse_to_repeat(cache: Any) -> None:
    """Refuse messages behind tokens that nobody knows: these are most likely the same messages."""
    if kv.rows(cache) is not None:
        read = kv.offset(cache)
        held = "some tokens" if read is None else f"{read} tokens"
        raise BadValue(
            f"cache has read {held}, and messages are a whole conversation: give cached_tokens=, "
            "the list of them (empty for a new cache, then changed with it), or just what is new "
            "as prompt="
        )


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: str | Sequence[int] | mx.array,
    *,
    messages: None = None,
    max_tokens: int = 100,
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
    progress: bool = False,
    **options: Unpack[SeveralKeywords],
) -> list[Completion]: ...


@described(TextKeywords, SeveralKeywords)
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Any = None,
    *,
    messages: Any = None,
    max_tokens: int | Sequence[int] = 100,
    progress: bool = False,
    **options: Any,
) -> Completion | list[Completion]:
    """Generate a completion; a ``str`` with ``.tokens``, ``.logprobs`` and ``.stats``.

    Of a list of prompts, or of conversations, it makes a list of completions, side by side. Number
    i draws from stream i of the seed: alone it is the same with ``stream=i``. A list of seeds gives
    each a seed of its own: alone it is the same with that seed.

    Args:
        model: any mlx-lm model or :class:`~lablib.models.base.LanguageModel`.
        tokenizer: mlx-lm's ``TokenizerWrapper``, as ``load`` returns it, or Hugging Face's own.
        prompt: text, or token ids (which get no special tokens added); or a list of these.
        messages: ``[{"role": "user", "content": "..."}, ...]`` in place of a prompt; the
            tokenizer's chat template makes one of them. Or a list of such conversations.
        max_tokens: 100; at least 1. How many tokens to generate at most [each].
        progress: False. Show a progress bar.
        **options: those that follow. With "[each]", a list has a value for each of several prompts.

    Returns:
        The completion; of several prompts a list of them, in their order.

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
    """
    is_several = _is_several(prompt) or _is_several(messages)
    known = SeveralKeywords.__annotations__ if is_several else {}
    check_options(generate, options, {**TextKeywords.__annotations__, **known})
    flag("progress", progress)
    options["max_tokens"] = max_tokens
    if is_several:
        return _generate_several(model, tokenizer, prompt, messages, progress=progress, **options)
    pieces = stream(model, tokenizer, prompt, messages=messages, **options)
    from tqdm.auto import tqdm

    with pieces, tqdm(total=max_tokens, unit="token", leave=False, disable=not progress) as bar:
        for _ in pieces:
            bar.update(pieces.stats["tokens"] - bar.n)
    return pieces.completion()


def _is_several(given: Any) -> bool:
    kinds = str, list, tuple, mx.array, np.ndarray
    return isinstance(given, list | tuple) and any(isinstance(each, kinds) for each in given)


def _generate_several(
    model: Any,
    tokenizer: Any,
    prompts: Any,
    conversations: Any,
    *,
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
        ids = [_encode(tokenizer, prompt) for prompt in prompts]
    else:
        ids = [_encode(tokenizer, prompts, messages) for messages in conversations]
    samples = completions.complete(model, ids, draft_model, **options).join()
    texts = samples.texts(tokenizer)
    return [_completion(text, samples, row) for row, text in enumerate(texts)]


def _completion(text: str, samples: Samples, row: int) -> Completion:
    """Return one among several completions."""
    tokens = samples.tokens[row]
    reason = "stop" if samples.finished[row] else "length"
    own = {
        "prompt_tokens": len(samples.prompts[row]),
        "tokens": len(tokens),
        "finish_reason": reason,
    }
    top = samples.top_logprobs[row]
    return Completion(text, tokens, samples.logprobs[row], samples.stats | own, top)


def _encode(tokenizer: Any, prompt: Any, messages: Any = None) -> Any:
    if messages is not None:
        if prompt is not None:
            raise BadValue("give either prompt or messages, not both")
        return encode_messages(tokenizer, messages)
    if not isinstance(prompt, str):
        return prompt
    if not prompt:
        raise BadValue("prompt must hold some text, got ''")
    # Text that begins with the begin token brings its own; everything else gets one.
    begin = tokenizer.bos_token
    needs_begin = begin is None or not prompt.startswith(begin)
    return tokenizer.encode(prompt, add_special_tokens=needs_begin)


@checks_options
def on_text(
    tokenizer: Any, function: Callable[[str], Hashable | None]
) -> Callable[[list[int]], Hashable | None]:
    """Make a vote's ``extract`` from a function of text: ``on_text(tokenizer, sums.extract)``.

    In a vote the text is what ``generate`` makes of the completion, what its tokens add to the
    prompt's text, but a stop string that ended it is part of it. Called with ids alone the function
    takes them for a whole text, and a token that ends the tokenizer's texts for its end.

    Args:
        tokenizer: anything with ``decode(ids, skip_special_tokens=False)``.
        function: takes the text of a completion; returns its answer, or None.

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

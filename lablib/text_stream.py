"""Text from a prompt, piece by piece: ``stream``."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Unpack

from lablib.cache import kv
from lablib.chat_messages import Message, encode
from lablib.completion import Completion
from lablib.inference.arguments import refuse_draft_options
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.keywords import StreamKeywords, described
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.inference.stop_strings import TextReader, check_stop, wrapped
from lablib.unknown_options import check_options
from lablib.validation import BadValue

import mlx.core as mx

Conversation = Sequence[Message]


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
    template: dict[str, Any] | None = None,
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
            None, or missing. An assistant's last message is the beginning of the answer, which goes
            on there. Whether a model thinks is its template's own default.
        template: settings for the chat template, such as ``{"enable_thinking": False, "tools":
            [...]}``; what it doesn't read is refused.
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
    ids, stop = encode(tokenizer, prompt, messages, template), check_stop(stop, tokenizer)
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

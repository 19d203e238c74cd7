"""A conversation with a model: what was said, what the caches have read of it, the next answer.

Each turn is written down anew, by the tokenizer's chat template. As far as the caches have read
just that they are used again, so that a turn costs its own tokens and not the whole conversation.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.cache import kv
from lablib.chat_messages import Message
from lablib.inference.arguments import shared_start
from lablib.inference.decoding.token_iterator import Token
from lablib.inference.sampling.options import SamplerOptions
from lablib.text_stream import TextStream, stream
from lablib.validation import BadType, BadValue

CALM = {"temperature": 0.5, "top_p": 0.9}  # at 1 SmolLM2 raves, at 0.2 it turns in circles
_OURS = ("prompt", "cache", "cached_tokens", "draft_cache", "stream")


@dataclass(frozen=True)
class Answer:
    """An answer as far as it has come.

    Attributes:
        text: what is certain of it.
        tokens: all that were generated, an end token or a stop string's included.
        stats: those of the token iterator; ``finish_reason`` is None as long as it grows.
    """

    text: str
    tokens: tuple[Token, ...]
    stats: dict[str, Any]


class Conversation:
    """Messages, and a model that answers the last one.

    A tokenizer without a chat template belongs to a model that continues texts. Then what was said
    is one text, and you write it in turns; where the model ends it, the next message begins a new
    one.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        tokenizer: as ``load`` returns it.
        draft_model: as in ``stream``.
        messages: what was said before, or ``[{"role": "system", "content": "..."}]``.
        **options: those of ``stream``, such as ``temperature=0.7``. Answer i draws from stream i of
            the seed.

    Attributes:
        tokenizer: the model's.
        messages: the conversation so far; an answer that was stopped is kept as far as it went.
        answer: the last answer, or what there is of it; None before it and after an error.
        reused: how many tokens of the last prompt the caches had read already.

    Raises:
        ValueError, TypeError: an argument is out of range; at the call, before any work.
    """

    answer: Answer | None
    _read: list[int]
    _caches: dict[str, Any]

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        draft_model: Any = None,
        *,
        messages: Sequence[Message] = (),
        **options: Any,
    ) -> None:
        for name in _OURS:
            if name in options:
                raise BadType(f"{name} cannot be given: a conversation has its own")
        if "trace" in options:
            raise BadType("trace cannot be given: a conversation shows no verdicts")
        self.tokenizer = tokenizer
        self._given, self._options = (model, tokenizer), {"draft_model": draft_model, **options}
        self._template = self._stream([0]) and has_template(tokenizer)
        for given in ("messages need", messages), ("template needs", options.get("template")):
            if given[1] and not self._template:
                raise BadValue(f"{given[0]} a chat template, and this tokenizer has none")
        if messages or options.get("template") is not None:
            self._stream(messages=messages or [{"role": "user", "content": "Hello"}])
        self._began = list(messages)
        self._current: Generator[Answer] | None = None
        self.reset()

    @property
    def temperature(self) -> float:
        """The temperature of the answers to come; it may be set."""
        return self._options.get("temperature", SamplerOptions().temperature)

    @temperature.setter
    def temperature(self, value: float) -> None:
        before = self._options
        self._options = {**before, "temperature": value}
        try:
            self._stream([0])
        except (ValueError, TypeError):
            self._options = before
            raise

    def reset(self) -> None:
        """Begin again, with the messages that were given at the start."""
        self.stop()
        self.messages, self.answer, self.reused = list(self._began), None, 0
        self._turns = self._first = 0  # answers so far; the message with which the text begins
        self._forget()

    def stop(self) -> None:
        """End the answer that is being written; what there is of it is kept."""
        if self._current is not None:
            self._current.close()

    def respond(self, text: str) -> Generator[Answer]:
        """Say something; yields the answer as it grows, at last with its ``finish_reason``.

        :meth:`stop` ends it, and so does the next call; what there is of it is kept. After an
        error the conversation is what it was before.

        Raises:
            ValueError, TypeError: the text is empty, or the conversation outgrows the model; at the
                call.
        """
        if not isinstance(text, str):
            raise BadType(f"text must be a string, got {type(text).__name__}")
        if not text.strip():
            raise BadValue("text must hold something to say")
        self.stop()
        self.answer = None
        messages = [*self.messages, {"role": "user", "content": text}]
        pieces = self._begin(messages)
        self._current = self._answers(pieces, messages)
        return self._current

    def _answers(self, pieces: TextStream, messages: list[Message]) -> Generator[Answer]:
        pieces.iterator = watched = _Watched(pieces.iterator)
        failed = False
        try:
            for _ in pieces:
                self.answer = answer = _answer(pieces)
                yield answer
        except Exception:
            self.answer, failed = None, True
            raise
        finally:
            pieces.close()
            if failed:
                self._forget()
            else:
                self.answer = answer = _answer(pieces)
                self.messages = [*messages, {"role": "assistant", "content": pieces.text}]
                self._turns += 1
                if watched.stats["finish_reason"] == "stop":
                    self._first = len(self.messages)
        yield answer

    def _begin(self, messages: list[Message]) -> TextStream:
        """Return the stream of the answer to ``messages``, after what the caches hold of them."""
        if self._template:
            whole = self._stream(messages=messages)
        else:
            whole = self._stream("".join(each["content"] for each in messages[self._first :]))
        ids = whole.iterator.prompt
        self.reused = shared_start(self._read, ids[:-1])  # the last token is read with the answer
        surplus = len(self._read) - self.reused
        caches = [cache for cache in self._caches.values() if cache is not None]
        if not self.reused or any(kv.trimmable(cache) < surplus for cache in caches if surplus):
            self._forget()
            self.reused, self._caches = 0, {"cache": whole.iterator.cache}
            if self._options["draft_model"] is not None:
                self._caches["draft_cache"] = whole.iterator.draft_cache
        return self._stream(ids, cached_tokens=self._read, **self._caches)

    def _stream(self, prompt: Any = None, **more: Any) -> TextStream:
        turn = {"stream": getattr(self, "_turns", 0)}
        options = {**self._options, **turn, **more}
        if "messages" not in options:  # the prompt is what the template wrote
            options.pop("template", None)
        return stream(*self._given, prompt, **options)

    def _forget(self) -> None:
        self._read, self._caches = [], {}


class _Watched(Iterator[Token]):
    """A token iterator that remembers the tokens which it handed out."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator
        self.seen: list[Token] = []

    def __next__(self) -> Token:
        self.seen.append(next(self._iterator))
        return self.seen[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def _answer(pieces: TextStream) -> Answer:
    return Answer(pieces.text, tuple(pieces.iterator.seen), dict(pieces.stats))


def chat_options(tokenizer: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return options of a chat: what is given, else longer answers, and calm where one chats."""
    ours: dict[str, Any] = {"max_tokens": 256}
    if tokenizer is not None and has_template(tokenizer) and "temperature" not in given:
        ours |= CALM
    return {**ours, **given}


def has_template(tokenizer: Any) -> bool:
    """Return whether a tokenizer belongs to a model that was trained to chat."""
    return bool(tokenizer.has_chat_template or tokenizer.chat_template)

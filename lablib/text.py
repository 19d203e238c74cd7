"""Text from a prompt: whole (``generate``) or piece by piece (``stream``).

The engine speaks token ids; text is made here, at the edge.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, Self, Unpack, overload

from lablib.inference.decoding import batches
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.keywords import SeveralKeywords, StreamKeywords, TextKeywords
from lablib.inference.speculation import batched
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.validation import BadType, BadValue, flag, sequence, shown

import mlx.core as mx
import numpy as np

# The streaming detokenizer drops a space at the start of a text, and a completion is not a start:
# it is told the last few tokens of the prompt first.
_CONTEXT = 8
Conversation = Sequence[dict[str, str]]
Several = list[str] | list[list[int]] | list[mx.array] | tuple[str | Sequence[int] | mx.array, ...]


class Completion(str):
    """Generated text: a ``str``, with what is known about it.

    Methods of ``str`` return a plain ``str``, which knows nothing of it.

    Attributes:
        tokens: the generated ids, a stop token at the end included (its text is not).
        logprobs: their log-probabilities under the model's raw logits.
        stats: see :class:`TokenIterator` and :class:`SpeculativeTokenIterator`. Of one among
            several ``tokens``, ``prompt_tokens`` and ``finish_reason`` are its own, the rest is of
            all together.
    """

    tokens: list[int]
    logprobs: list[float]
    stats: dict[str, Any]

    def __new__(
        cls, text: str, tokens: Iterable[int] = (), logprobs: Iterable[float] = (), stats: Any = ()
    ) -> Self:
        """Make the string and attach the rest."""
        completion = super().__new__(cls, text)
        completion.tokens, completion.logprobs = list(tokens), list(logprobs)
        completion.stats = dict(stats)
        return completion

    @property
    def finish_reason(self) -> str | None:
        """Why the generation ended: "stop", "length", "closed" or "error"."""
        return self.stats.get("finish_reason")


class TextReader:
    """Turns tokens into text as they come, up to the stop string that is complete first.

    Attributes:
        text: its certain part: no later token takes a character back.
        end: how many tokens it took to complete a stop string; None as long as there is none.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int], stop: Sequence[str] = ()) -> None:
        self.text, self.end = "", None
        self._detokenizer = _primed_detokenizer(tokenizer, prompt)
        self._stop, self._seen = stop, 0  # tokens that the detokenizer knows
        self._held = ""  # this may become a stop string

    def read(self, tokens: Sequence[int], last: bool = False) -> str:
        """Read the new ones among ``tokens``, all there are so far; return the text that they add.

        The ``last`` call also gives the text that was held back.
        """
        before = len(self.text)
        while self._seen < len(tokens) and self.end is None:
            self._detokenizer.add_token(tokens[self._seen])
            self._seen += 1
            self._add(self._detokenizer.last_segment)
        if last and self.end is None:
            self._detokenizer.finalize()
            self._add(self._detokenizer.last_segment, last)
        return self.text[before:]

    def _add(self, piece: str, last: bool = False) -> None:
        self._held = seen = self._held + piece
        if self._stop and not last:  # a detokenizer keeps a space at the end: it may be a stop's
            ahead = copy(self._detokenizer)
            ahead.finalize()
            seen += ahead.last_segment.rstrip("\ufffd")
        found = [(seen.find(s) + len(s), seen.find(s)) for s in self._stop if s in seen]
        if found:  # the stop string that is complete first ends the text
            self.end = self._seen
            self._held = seen
            certain = min(found)[1]
        else:
            certain = len(seen) - (0 if last else _begun(seen, self._stop))
        self.text += self._held[:certain]
        self._held = self._held[certain:]


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
            except KeyboardInterrupt as interrupt:
                self.iterator.close()
                self._ended, self._interrupt = True, interrupt
            piece = self._new_text()
            if piece:
                return piece
        if self._interrupt is not None:
            interrupt, self._interrupt = self._interrupt, None
            raise interrupt
        raise StopIteration

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
        return Completion(self.text, self.iterator.tokens, self.iterator.logprobs, self.stats)

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
            tokenizer's chat template makes one of them.
        max_tokens: how many tokens to generate at most.
        stop: a string, or several: the text ends before the one that is complete first, however it
            is cut into tokens. The token that completes it is the last one.
        stop_tokens: ids that end the generation; None means the tokenizer's end tokens.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``, that
            guesses tokens for the model to verify: the same text or distribution, sooner.
        **options: everything else :class:`TokenIterator` takes: ``temperature=``, ``seed=``,
            ``cache=``, ``logits_processors=``, ...; with a draft model what
            :class:`SpeculativeTokenIterator` takes: ``draft_tokens=``, ``rule=``,
            ``draft_cache=``, ...

    Returns:
        An iterator of strings with ``.text``, ``.stats``, ``.completion()`` and ``.close()``.

    Raises:
        ValueError, TypeError: an argument is out of range; at the call, before any work.
    """
    tokenizer = _wrapped(tokenizer)
    ids, stop = _encode(tokenizer, prompt, messages), _stop_strings(stop)
    if stop_tokens is None:
        stop_tokens = tokenizer.eos_token_ids
    settings = {**options, "max_tokens": max_tokens, "stop_tokens": stop_tokens}
    if draft_model is None:
        _check_plain(settings)
        return TextStream(TokenIterator(model, ids, **settings), tokenizer, stop)
    iterator = SpeculativeTokenIterator(model, draft_model, ids, **settings)
    return TextStream(iterator, tokenizer, stop)


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
    max_tokens: int = 100,
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
    max_tokens: int = 100,
    progress: bool = False,
    **options: Unpack[SeveralKeywords],
) -> list[Completion]: ...


def generate(
    model: Any,
    tokenizer: Any,
    prompt: Any = None,
    *,
    messages: Any = None,
    max_tokens: int = 100,
    progress: bool = False,
    **options: Any,
) -> Completion | list[Completion]:
    """Generate a completion; a ``str`` with ``.tokens``, ``.logprobs`` and ``.stats``.

    The arguments are those of :func:`stream`; ``progress`` shows a progress bar. Of a list of
    prompts, or of ``messages``, it makes a list of completions, ``max_batch=`` at a time. Number i
    draws from stream i of the seed: alone it is the same with ``stream=i``. The options are then
    those of ``speculative_batches``, or of ``sample_prompts`` without a draft model.
    """
    flag("progress", progress)
    options["max_tokens"] = max_tokens
    if _is_several(prompt) or _is_several(messages):
        return _generate_several(model, tokenizer, prompt, messages, progress=progress, **options)
    pieces = stream(model, tokenizer, prompt, messages=messages, **options)
    from tqdm.auto import tqdm

    with pieces, tqdm(total=max_tokens, unit="token", leave=False, disable=not progress) as bar:
        for _ in pieces:
            bar.update(pieces.stats["tokens"] - bar.n)
    return pieces.completion()


def _check_plain(options: dict[str, Any]) -> None:
    """Refuse what is about drafts, as there is no draft model."""
    for name in ("rule", "draft_tokens"):
        if name in options:
            raise BadType(f"{name} is about drafts: give draft_model=, a model or a drafter, too")


def _is_several(given: Any) -> bool:
    kinds = str, list, tuple, mx.array, np.ndarray
    return isinstance(given, list | tuple) and any(isinstance(each, kinds) for each in given)


def _generate_several(
    model: Any,
    tokenizer: Any,
    prompts: Any,
    conversations: Any,
    *,
    stop: Any = (),
    stop_tokens: Any = None,
    draft_model: Any = None,
    **options: Any,
) -> list[Completion]:
    for name in ("cache", "draft_cache", "stream", "ended"):
        if name in options:
            raise BadType(f"unknown option {name!r} of several prompts: it is for one prompt alone")
    if options.get("top_logprobs"):
        why = "a text has no place for them; sample_many keeps them"
        raise BadValue(f"top_logprobs must be 0 here, got {options['top_logprobs']}: {why}")
    tokenizer = _wrapped(tokenizer)
    if conversations is None:
        ids = [_encode(tokenizer, prompt) for prompt in prompts]
    else:
        ids = [_encode(tokenizer, prompts, messages) for messages in conversations]
    stop = _stop_strings(stop)
    readers: list[TextReader] = []

    def ended(row: int, tokens: list[int], last: bool = False) -> bool:
        end = len(tokens) - (tokens[-1] in parts.stops)
        readers[row].read(tokens[:end], last)
        return readers[row].end is not None

    options["ended"] = ended
    options["stop_tokens"] = tokenizer.eos_token_ids if stop_tokens is None else stop_tokens
    if draft_model is None:
        _check_plain(options)
        parts = batches.sample_prompts(model, ids, **options)
    else:
        parts = batched.speculative_batches(model, draft_model, ids, **options)
    readers += [TextReader(tokenizer, prompt, stop) for prompt in parts.prompts]
    samples = parts.join()
    completions = []
    for row, (tokens, logprobs) in enumerate(zip(samples.tokens, samples.logprobs, strict=True)):
        stopped = ended(row, tokens, last=True) or tokens[-1] in parts.stops
        n = readers[row].end or len(tokens)
        own = {"prompt_tokens": len(parts.prompts[row]), "tokens": n}
        stats = samples.stats | own | {"finish_reason": "stop" if stopped else "length"}
        completions.append(Completion(readers[row].text, tokens[:n], logprobs[:n], stats))
    return completions


def _wrapped(tokenizer: Any) -> Any:
    """Return mlx-lm's wrapper of a tokenizer: Hugging Face's own gets one."""
    if hasattr(tokenizer, "detokenizer"):
        return tokenizer
    if callable(getattr(tokenizer, "convert_tokens_to_ids", None)):
        from mlx_lm.tokenizer_utils import TokenizerWrapper

        return TokenizerWrapper(tokenizer)
    wanted = "a Hugging Face tokenizer, or mlx-lm's wrapper of one, as load() returns it"
    raise BadType(f"tokenizer must be {wanted}, got {type(tokenizer).__name__}")


def _stop_strings(stop: Any) -> list[str]:
    stops = [stop] if isinstance(stop, str) else sequence("stop", stop, "strings")
    for each in stops:
        if not (each and isinstance(each, str)):
            raise BadValue(f"stop must be of strings that are not empty, got {shown(each)}")
    return stops


def _begun(text: str, stops: Sequence[str]) -> int:
    """Return how many letters at the end of ``text`` may be the beginning of a stop string."""
    longest = min(len(text), max(map(len, stops), default=0))
    lengths = (n for n in range(longest, 0, -1) if any(s.startswith(text[-n:]) for s in stops))
    return next(lengths, 0)


def _encode(tokenizer: Any, prompt: Any, messages: Any = None) -> Any:
    if messages is not None:
        if prompt is not None:
            raise BadValue("give either prompt or messages, not both")
        return _encode_messages(tokenizer, messages)
    if not isinstance(prompt, str):
        return prompt
    if not prompt:
        raise BadValue("prompt must hold some text, got ''")
    # Text that begins with the begin token brings its own; everything else gets one.
    begin = tokenizer.bos_token
    needs_begin = begin is None or not prompt.startswith(begin)
    return tokenizer.encode(prompt, add_special_tokens=needs_begin)


def on_text(
    tokenizer: Any, function: Callable[[str], Hashable | None]
) -> Callable[[list[int]], Hashable | None]:
    """Make a vote's ``extract`` from a function of text: ``on_text(tokenizer, sums.extract)``.

    Special tokens, such as the one that ends a completion, are not part of the text.
    """
    return lambda tokens: function(tokenizer.decode(tokens, skip_special_tokens=True))


def _encode_messages(tokenizer: Any, messages: Any) -> list[int]:
    """Return a conversation's ids, up to where the answer begins."""
    if not (tokenizer.has_chat_template or tokenizer.chat_template):  # one may be set later
        raise BadValue("messages need a chat template, and this tokenizer has none: give prompt=")
    messages = sequence("messages", messages, "messages")
    for each in messages or [None]:
        if not isinstance(each, dict) or not {"role", "content"} <= each.keys():
            raise BadValue(f"messages must be dicts with role and content, got {shown(each)}")
    try:
        return tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    except Exception as error:  # a template is a program, which may refuse an order of roles
        raise BadValue(f"messages must suit the tokenizer's chat template: {error}") from error


def _primed_detokenizer(tokenizer: Any, prompt: Sequence[int]) -> Any:
    """Return a detokenizer that has read the end of the prompt, and forgotten its text."""
    from mlx_lm.tokenizer_utils import NaiveStreamingDetokenizer

    detokenizer = tokenizer.detokenizer
    for token in prompt[-_CONTEXT:]:
        detokenizer.add_token(token)
    if not isinstance(detokenizer, NaiveStreamingDetokenizer):
        detokenizer.finalize()  # text held back belongs to the prompt, not to the completion
    _ = detokenizer.last_segment
    return detokenizer

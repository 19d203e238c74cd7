"""Text from a prompt: whole (``generate``) or piece by piece (``stream``).

The engine speaks token ids; text is made here, at the edge.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from lablib.inference.speculation.tokens import SpeculativeTokenIterator
from lablib.inference.tokens import TokenIterator
from lablib.validation import BadType, BadValue, flag

import mlx.core as mx

# The streaming detokenizer drops a space at the start of a text, and a completion is not a start:
# it is told the last few tokens of the prompt first.
_CONTEXT = 8


class Completion(str):
    """Generated text: a ``str``, with what is known about it.

    Attributes:
        tokens: the generated ids, a stop token at the end included (its text is not).
        logprobs: their log-probabilities under the model's raw logits.
        stats: see :class:`TokenIterator` and :class:`SpeculativeTokenIterator`.
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


class TextStream(Iterator[str], AbstractContextManager):
    """Text pieces of a token iterator as they become readable; what :func:`stream` returns.

    A piece is never empty and never cut inside a character. The pieces add up to what the tokens
    add to the prompt's text, without the stop token. Closing (or leaving a ``with`` block) closes
    the token iterator, a :class:`TokenIterator` or another with its ``prompt``, ``tokens``,
    ``logprobs``, ``stats`` and ``close``. After an interrupt (Ctrl-C) the last tokens' text is
    delivered first; the ``KeyboardInterrupt`` follows.
    """

    def __init__(self, iterator: Any, tokenizer: Any) -> None:
        self.iterator = iterator
        self.text = ""  # all pieces so far
        self._detokenizer = _primed_detokenizer(tokenizer, iterator.prompt)
        self._seen = 0  # tokens that the detokenizer knows
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
            if piece := self._new_text():
                self.text += piece
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
            self.text += self._new_text()

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
        for token in tokens[self._seen : end]:
            self._detokenizer.add_token(token)
        self._seen = max(self._seen, end)
        if self._ended:
            self._detokenizer.finalize()
        return self._detokenizer.last_segment


def stream(
    model: Any, tokenizer: Any, prompt: str | Sequence[int] | mx.array, *, max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None, draft_model: Any = None, **options: Any,
) -> TextStream:  # fmt: skip
    """Generate text piece by piece, for a loop that prints it as it comes.

    Args:
        model: any mlx-lm model or :class:`~lablib.models.base.LanguageModel`.
        tokenizer: mlx-lm's ``TokenizerWrapper``, as ``load`` returns it.
        prompt: text, or token ids (which get no special tokens added).
        max_tokens: how many tokens to generate at most.
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
    ids = _encode(tokenizer, prompt)
    if stop_tokens is None:
        stop_tokens = tokenizer.eos_token_ids
    options |= {"max_tokens": max_tokens, "stop_tokens": stop_tokens}
    if draft_model is None:
        return TextStream(TokenIterator(model, ids, **options), tokenizer)
    return TextStream(SpeculativeTokenIterator(model, draft_model, ids, **options), tokenizer)


def generate(
    model: Any, tokenizer: Any, prompt: str | Sequence[int] | mx.array, *, max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None, draft_model: Any = None, progress: bool = False,
    **options: Any,
) -> Completion:  # fmt: skip
    """Generate a completion; a ``str`` with ``.tokens``, ``.logprobs`` and ``.stats``.

    The arguments are those of :func:`stream`; ``progress`` shows a progress bar.
    """
    flag("progress", progress)
    options |= {"max_tokens": max_tokens, "stop_tokens": stop_tokens, "draft_model": draft_model}
    pieces = stream(model, tokenizer, prompt, **options)
    from tqdm.auto import tqdm

    with pieces, tqdm(total=max_tokens, unit="token", leave=False, disable=not progress) as bar:
        for _ in pieces:
            bar.update(pieces.stats["tokens"] - bar.n)
    return pieces.completion()


def _encode(tokenizer: Any, prompt: Any) -> Any:
    if not hasattr(tokenizer, "detokenizer"):
        wanted = "mlx-lm's TokenizerWrapper, as load() returns it"
        raise BadType(f"tokenizer must be {wanted}, got {type(tokenizer).__name__}")
    if not isinstance(prompt, str):
        return prompt
    if not prompt:
        raise BadValue("prompt must hold some text, got ''")
    # Text that begins with the begin token brings its own; everything else gets one.
    begin = tokenizer.bos_token
    needs_begin = begin is None or not prompt.startswith(begin)
    return tokenizer.encode(prompt, add_special_tokens=needs_begin)


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

"""From a prompt to tokens, to text, to many completions: the ways in.

    TokenIterator   token by token                    (lablib.inference.tokens)
    generate        the whole completion as text, with or without a draft model
    stream          the text, piece by piece, as it is generated
    sample_n        n completions at once             (lablib.inference.voting.many)

The engine speaks token ids; text is made here, at the edge.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Self

from lablib.inference.samples import Samples
from lablib.inference.speculation.tokens import SpeculativeTokenIterator
from lablib.inference.token_loop import Token
from lablib.inference.tokens import TokenIterator
from lablib.inference.voting.many import sample_batches, sample_n
from lablib.validation import BadType, BadValue

import mlx.core as mx

__all__ = [
    "Completion",
    "Samples",
    "TextStream",
    "Token",
    "TokenIterator",
    "generate",
    "sample_batches",
    "sample_n",
    "stream",
]

# The streaming detokenizer drops a space at the start of a text, and a completion is not a start:
# it is told the last few tokens of the prompt first.
_CONTEXT = 8


class Completion(str):
    """Generated text: a ``str``, with what is known about it.

    Attributes:
        tokens: the generated ids, a stop token at the end included (its text is not).
        logprobs: their log-probabilities under the model's raw logits.
        finish_reason: "stop", "length", "closed" or "error".
        stats: see :class:`TokenIterator` and :class:`SpeculativeTokenIterator`.
    """

    tokens: list[int]
    logprobs: list[float]
    stats: dict[str, Any]

    def __new__(
        cls,
        text: str,
        tokens: Sequence[int] = (),
        logprobs: Sequence[float] = (),
        stats: dict[str, Any] | None = None,
    ) -> Self:
        """Make the string and attach the rest."""
        completion = super().__new__(cls, text)
        completion.tokens, completion.logprobs = list(tokens), list(logprobs)
        completion.stats = dict(stats or {})
        return completion

    @property
    def finish_reason(self) -> str | None:
        """Why the generation ended."""
        return self.stats.get("finish_reason")


class TextStream:
    """Text pieces of a token iterator as they become readable; what :func:`stream` returns.

    A piece is never empty and never cut inside a character. The pieces add up to what the tokens
    add to the prompt's text, without the stop token. Closing (or leaving a ``with`` block) closes
    the token iterator. After an interrupt (Ctrl-C) the last tokens' text is delivered first; the
    ``KeyboardInterrupt`` follows.

    Args:
        iterator: a :class:`TokenIterator`, or another with its ``prompt``, ``tokens``,
            ``logprobs``, ``stats`` and ``close``.
        tokenizer: mlx-lm's ``TokenizerWrapper``.

    Attributes:
        iterator: the token iterator.
        text: all pieces so far.
    """

    def __init__(self, iterator: Any, tokenizer: Any) -> None:
        self.iterator = iterator
        self.text = ""
        self._detokenizer = _primed_detokenizer(tokenizer, iterator.prompt)
        self._seen = 0
        self._ended = False
        self._interrupt: KeyboardInterrupt | None = None

    def __iter__(self) -> Iterator[str]:
        return self

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
                self.text += piece
                return piece
        if self._interrupt is not None:
            interrupt, self._interrupt = self._interrupt, None
            raise interrupt
        raise StopIteration

    def __enter__(self) -> Self:
        return self

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
        """The token iterator's."""
        return self.iterator.stats

    def completion(self) -> Completion:
        """What has been generated so far."""
        return Completion(self.text, self.iterator.tokens, self.iterator.logprobs, self.stats)

    def _new_text(self) -> str:
        tokens = self.iterator.tokens
        end = len(tokens) - (self.stats["finish_reason"] == "stop")
        while self._seen < end:
            self._seen += 1
            self._detokenizer.add_token(tokens[self._seen - 1])
        if self._ended:
            self._detokenizer.finalize()
        return self._detokenizer.last_segment


def stream(
    model: Any,
    tokenizer: Any,
    prompt: str | Sequence[int] | mx.array,
    *,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
    draft_model: Any = None,
    **options: Any,
) -> TextStream:
    """Generate text piece by piece.

    ::

        for piece in stream(model, tokenizer, "On a rainy day, "):
            print(piece, end="")

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
        ValueError: an argument is out of range; at the call, before any work.
        TypeError: an argument is of the wrong type; the same.
    """
    ids = _encode(tokenizer, prompt)
    if stop_tokens is None:
        stop_tokens = tokenizer.eos_token_ids
    options |= {"max_tokens": max_tokens, "stop_tokens": stop_tokens}
    if draft_model is None:
        return TextStream(TokenIterator(model, ids, **options), tokenizer)
    return TextStream(SpeculativeTokenIterator(model, draft_model, ids, **options), tokenizer)


def generate(
    model: Any,
    tokenizer: Any,
    prompt: str | Sequence[int] | mx.array,
    *,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
    progress: bool = False,
    draft_model: Any = None,
    **options: Any,
) -> Completion:
    """Generate a completion; a ``str`` with ``.tokens``, ``.logprobs`` and ``.stats``.

    Args:
        model: any mlx-lm model or :class:`~lablib.models.base.LanguageModel`.
        tokenizer: mlx-lm's ``TokenizerWrapper``, as ``load`` returns it.
        prompt: text, or token ids (which get no special tokens added).
        max_tokens: how many tokens to generate at most.
        stop_tokens: ids that end the generation; None means the tokenizer's end tokens.
        progress: show a progress bar.
        draft_model: as in :func:`stream`.
        **options: as in :func:`stream`.

    Raises:
        ValueError: an argument is out of range; before any work.
        TypeError: an argument is of the wrong type; the same.
    """
    if not isinstance(progress, bool):
        raise BadType(f"progress must be True or False, got {progress!r}")
    options |= {"stop_tokens": stop_tokens, "draft_model": draft_model}
    pieces = stream(model, tokenizer, prompt, max_tokens=max_tokens, **options)
    from tqdm.auto import tqdm

    with pieces, tqdm(total=max_tokens, unit="token", leave=False, disable=not progress) as bar:
        for _ in pieces:
            bar.update(pieces.stats["tokens"] - bar.n)
    return pieces.completion()


def _encode(tokenizer: Any, prompt: Any) -> Any:
    if not hasattr(tokenizer, "detokenizer"):
        raise BadType(
            "tokenizer must be mlx-lm's TokenizerWrapper, as load() returns it, got "
            f"{type(tokenizer).__name__}"
        )
    if not isinstance(prompt, str):
        return prompt
    if not prompt:
        raise BadValue("prompt must hold some text, got ''")
    # Text that begins with the begin token brings its own; everything else gets one.
    begin = tokenizer.bos_token
    return tokenizer.encode(
        prompt, add_special_tokens=begin is None or not prompt.startswith(begin)
    )


def _primed_detokenizer(tokenizer: Any, prompt: Sequence[int]) -> Any:
    from mlx_lm.tokenizer_utils import NaiveStreamingDetokenizer

    detokenizer = tokenizer.detokenizer
    for token in prompt[-_CONTEXT:]:
        detokenizer.add_token(token)
    if not isinstance(detokenizer, NaiveStreamingDetokenizer):
        detokenizer.finalize()  # text held back belongs to the prompt, not to the completion
    _ = detokenizer.last_segment
    return detokenizer

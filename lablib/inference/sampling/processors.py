"""Logits processors: functions of the caller's own that change scores before they are sampled.

A constraint is one: it gives -inf to each token that may not come next. Most processors are
functions of the text and the logits. One that keeps a state, such as a parser, has a method
``copy``: then each text gets a copy of its own, and refused drafts leave no trace in it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from lablib.inference.sampling.transforms import log_softmax
from lablib.unknown_options import checks_options
from lablib.validation import function, returned

import mlx.core as mx

LogitsProcessor = Callable[[mx.array, mx.array], mx.array]


@checks_options
def sampled_by(sampler: Callable[[mx.array], mx.array]) -> LogitsProcessor:
    """Make a logits processor of a sampler as mlx-lm takes one.

    It leaves the sampled token only, so that temperature and cuts make no difference. Whatever
    random numbers the sampler draws are its own: ``seed`` does not reach them.

    Args:
        sampler: called with log-probabilities ``(1, V)``; returns the chosen id ``(1,)``.

    Returns:
        A function for ``logits_processors=``.

    Raises:
        TypeError: ``sampler`` can't be called; later, it returns no array of ids ``(1,)``.

    Example:
        >>> best = lablib.sampled_by(lambda logprobs: mx.argmax(logprobs, axis=-1))
        >>> one = lablib.generate(model, tokenizer, "Mia", max_tokens=4, logits_processors=[best])
        >>> one == lablib.generate(model, tokenizer, "Mia", max_tokens=4, temperature=0.0)
        True
    """
    function("sampler", sampler)

    def only_sampled(tokens: mx.array, logits: mx.array) -> mx.array:
        chosen = returned("sampler", sampler(log_softmax(logits)), logits[:, 0])
        ids = mx.arange(logits.shape[-1])
        return mx.where(ids == chosen[:, None], 0.0, -mx.inf)

    return only_sampled


class TextProcessors:
    """The processors of one text, and their states after each draft.

    Args:
        processors: called in turn as ``processor(tokens (T,), logits (1, V)) -> logits``.
        text: token ids; its owner appends to it.

    Attributes:
        settled: the processors as they were when the last token of the text was decided.
    """

    def __init__(self, processors: Sequence[LogitsProcessor], text: list[int]) -> None:
        self._text = text
        self._has_state = any(hasattr(each, "copy") for each in processors)
        self.settled: Sequence[LogitsProcessor] = copies(processors)
        self._begin_round()

    def apply(self, logits: mx.array, drafts: mx.array | None = None) -> mx.array:
        """Return new ``logits (1, V)`` of the token after the text and ``drafts (A,)``.

        In a round it was called for each beginning of the drafts before.
        """
        tokens = self._tokens if drafts is None else mx.concatenate([self._tokens, drafts])
        processors: Sequence[LogitsProcessor] = self.settled
        if self._has_state:
            given: Any = () if drafts is None else drafts.tolist()
            path = tuple(given)
            processors = copies(self._after[path[:-1]] if path else self.settled)
            self._after[path] = processors
        for processor in processors:
            logits = called(processor, tokens, logits)
        return logits

    def end_round(self) -> None:
        """Keep the states of what was decided: the text has grown by it."""
        decided = self._text[self._tokens.size :]
        self.settled = self._after.get(tuple(decided[:-1]), self.settled)
        self._begin_round()

    def _begin_round(self) -> None:
        self._tokens = mx.array(self._text, mx.int32)
        self._after: dict[tuple[int, ...], Sequence[LogitsProcessor]] = {}  # by the drafts


def called(processor: LogitsProcessor, tokens: mx.array, logits: mx.array) -> mx.array:
    """Return what a processor makes of ``logits (1, V)``; what it raises says where that was."""
    try:
        changed = processor(tokens, logits)
    except Exception as error:  # the caller's own
        name = getattr(processor, "__name__", type(processor).__name__)
        error.add_note(f"This is the logits processor {name}, after {tokens.size} tokens of text.")
        raise
    return returned("a logits processor", changed, logits)


def copies(processors: Sequence[LogitsProcessor]) -> list[LogitsProcessor]:
    """Return copies of those that have a state, and the others as they are."""
    return [each.copy() if hasattr(each, "copy") else each for each in processors]

"""Logits processors: functions of the caller's own that change scores before they are sampled.

A constraint is one: it gives -inf to each token that may not come next. Most processors are
functions of the text and the logits. One that keeps a state, such as a parser, has a method
``copy``: then each text gets a copy of its own, and refused drafts leave no trace in it.
"""

from collections.abc import Callable, Sequence

from lablib.validation import returned

import mlx.core as mx

LogitsProcessor = Callable[[mx.array, mx.array], mx.array]


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
        self.settled = copies(processors)
        self._begin_round()

    def apply(self, logits: mx.array, drafts: mx.array | None = None) -> mx.array:
        """Return new ``logits (1, V)`` of the token after the text and ``drafts (A,)``.

        In a round it was called for each beginning of the drafts before.
        """
        tokens = self._tokens if drafts is None else mx.concatenate([self._tokens, drafts])
        processors = self.settled
        if self._has_state:
            path = () if drafts is None else tuple(drafts.tolist())
            processors = copies(self._after[path[:-1]] if path else self.settled)
            self._after[path] = processors
        for processor in processors:
            logits = returned("a logits processor", processor(tokens, logits), logits)
        return logits

    def end_round(self) -> None:
        """Keep the states of what was decided: the text has grown by it."""
        decided = self._text[self._tokens.size :]
        self.settled = self._after.get(tuple(decided[:-1]), self.settled)
        self._begin_round()

    def _begin_round(self) -> None:
        self._tokens = mx.array(self._text, mx.int32)
        self._after: dict[tuple[int, ...], Sequence[LogitsProcessor]] = {}  # by the drafts


def copies(processors: Sequence[LogitsProcessor]) -> list[LogitsProcessor]:
    """Return copies of those that have a state, and the others as they are."""
    return [each.copy() if hasattr(each, "copy") else each for each in processors]

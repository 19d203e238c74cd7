"""Stop strings: tokens become text as they come, up to where the text must end.

The engine speaks token ids. A stop string may be cut into tokens in many ways, though, and so it is
looked for in the text that they make.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any

from lablib.validation import BadType, BadValue, sequence, shown

# The streaming detokenizer drops a space at the start of a text, and a completion is not a start:
# it is told the last few tokens of the prompt first.
_CONTEXT = 8


class TextReader:
    """Turns tokens into text as they come, up to the stop string that is complete first.

    Attributes:
        text: its certain part: no later token takes a character back.
        end: how many tokens it took to complete a stop string; None as long as there is none.
        stop: the stop strings.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int], stop: Sequence[str] = ()) -> None:
        self.text = ""
        self.end: int | None = None
        self.stop = stop
        self._detokenizer = _primed_detokenizer(tokenizer, prompt)
        self._seen = 0  # tokens that the detokenizer knows
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
        if self.stop and not last:  # a detokenizer keeps a space at the end: it may be a stop's
            ahead = copy(self._detokenizer)
            ahead.finalize()
            seen += ahead.last_segment.rstrip("\ufffd")
        certain = first_stop(seen, self.stop)
        if certain is not None:
            self.end = self._seen
            self._held = seen
        else:
            certain = len(seen) - (0 if last else _begun(seen, self.stop))
        self.text += self._held[:certain]
        self._held = self._held[certain:]


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Return where the stop string begins that is complete first; None if there is none."""
    places = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    return min(places)[1] if places else None


def check_stop(stop: Any, tokenizer: Any) -> tuple[str, ...]:
    """Return stop strings; ``tokenizer`` reads them, and must be there if any are."""
    stops = [stop] if isinstance(stop, str) else sequence("stop", stop, "strings")
    for each in stops:
        if not (each and isinstance(each, str)):
            raise BadValue(f"stop must be of strings that are not empty, got {shown(each)}")
    if stops and tokenizer is None:
        raise BadType(f"stop is of texts: give tokenizer=, too, to read {shown(stops[0])} by")
    return tuple(stops)


def wrapped(tokenizer: Any) -> Any:
    """Return mlx-lm's wrapper of a tokenizer: Hugging Face's own gets one."""
    if hasattr(tokenizer, "detokenizer"):
        return tokenizer
    if callable(getattr(tokenizer, "convert_tokens_to_ids", None)):
        from mlx_lm.tokenizer_utils import TokenizerWrapper

        return TokenizerWrapper(tokenizer)
    wanted = "a Hugging Face tokenizer, or mlx-lm's wrapper of one, as load() returns it"
    raise BadType(f"tokenizer must be {wanted}, got {type(tokenizer).__name__}")


def _begun(text: str, stops: Sequence[str]) -> int:
    """Return how many letters at the end of ``text`` may be the beginning of a stop string."""
    longest = min(len(text), max(map(len, stops), default=0))
    lengths = (n for n in range(longest, 0, -1) if any(s.startswith(text[-n:]) for s in stops))
    return next(lengths, 0)


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

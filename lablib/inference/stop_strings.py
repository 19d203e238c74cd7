"""Token ids become text, in one way for every door, up to the stop string that ends it.

A completion's text is what prompt and completion decode to together, special tokens shown, less the
longest beginning that it shares with what the prompt decodes to alone. A tokenizer may drop a space
at the start of a text, and a completion is no start; a prompt that is cut inside a character leaves
the whole character to the completion.

The engine speaks token ids. A stop string may be cut into tokens in many ways, though, and so it is
looked for in the text that they make.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from operator import eq
from typing import Any
from weakref import WeakKeyDictionary

from lablib.models.interface import knows
from lablib.validation import BadType, BadValue, sequence, shown

# What comes after so many tokens is decoded alike, whatever stands before them.
_CONTEXT = 8
_BROKEN = "\ufffd"  # stands for bytes that are no character, or none yet
_LONGEST = 4  # bytes of a character
# What Hugging Face's clean-up of spaces changes, where a tokenizer has it; "' " is left by " ' ".
_CLEANED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're", "' ")
_KNOWN: "WeakKeyDictionary[Any, _Traits]" = WeakKeyDictionary()


class TextReader:
    """Turns tokens into text as they come, up to the stop string that is complete first.

    It decodes the last tokens anew at each step, about a dozen. A run of byte tokens is decoded at
    its end, or where it may complete a stop string: one broken byte breaks all of it.

    Attributes:
        text: its certain part: no later token takes a character back.
        end: how many tokens it took to complete a stop string; None as long as there is none.
        stop: the stop strings.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int], stop: Sequence[str] = ()) -> None:
        self.text = ""
        self.end: int | None = None
        self.stop = stop
        self._decoded = _decoder_of(tokenizer)
        self._stops = [each.encode(errors="surrogatepass") for each in stop]
        self._traits = _traits_of(tokenizer)
        self._knows = partial(self._traits.knows, tokenizer)
        self._seen = 0  # tokens that were read
        self._window = self._end_of(prompt)  # the last tokens
        self._before = self._decoded(self._window)  # the window's text but for what is not certain
        self._trim_at = len(self._window) + _CONTEXT

    def read(self, tokens: Sequence[int], last: bool = False) -> str:
        """Read the new ones among ``tokens``, all there are so far; return the text that they add.

        The ``last`` call also gives the text that was held back.
        """
        before = len(self.text)
        if self.stop:
            while self._seen < len(tokens) and self.end is None:
                self._read(tokens[self._seen : self._seen + 1])
        else:
            self._read(tokens[self._seen :])
        if last and self.end is None:
            self._look(last)
        return self.text[before:]

    def _read(self, tokens: Sequence[int]) -> None:
        self._seen += len(tokens)
        new = [*filter(self._knows, tokens)]
        self._window += new
        if new and (not self._ends_in_bytes() or self._may_stop()):
            self._look()

    def _look(self, last: bool = False) -> None:
        """Decode the window, and add to the text what is certain."""
        whole = self._decoded(self._window)
        start = len(self._before)
        if not whole.startswith(self._before):  # the prompt's end has become something else
            start = sum(takewhile(bool, map(eq, whole, self._before)))
        new = whole[start:]
        certain = len(new) if last else self._certain(whole) - start
        stop = first_stop(new if last else new.rstrip(_BROKEN), self.stop) if self.stop else None
        if stop is not None:
            self.end = self._seen
            certain = stop
        elif self.stop and not last:
            certain -= _begun(new[: max(certain, 0)], self.stop)
        if certain > 0:
            self.text += new[:certain]
            self._before = whole[: start + certain]
        if len(self._window) >= self._trim_at:
            self._trim(whole)

    def _certain(self, whole: str) -> int:
        """Return how much of the window's text no later token can change."""
        if self._ends_in_bytes():
            return 0
        # A character has four bytes at most: more of them are broken for good.
        certain = max(len(whole.rstrip(_BROKEN)), len(whole) - _LONGEST)
        return min(certain, len(whole) - _begun(whole, self._traits.cleaned))

    def _trim(self, whole: str) -> None:
        """Forget the first tokens of the window if the rest is decoded alike without them."""
        held, window = whole[len(self._before) :], self._window
        for n in _sizes(len(window)) if whole.startswith(self._before) else ():
            inner = range(len(window) - n, 0, -1)
            start = next((i for i in inner if window[i] not in self._traits.bytes), 0)
            rest = self._decoded(window[start:]) if start else ""
            if len(rest) > len(held) and rest.endswith(held):
                self._window, self._before = window[start:], rest[: len(rest) - len(held)]
                break
        self._trim_at = len(self._window) + _CONTEXT

    def _ends_in_bytes(self) -> bool:
        return bool(self._window) and self._window[-1] in self._traits.bytes

    def _may_stop(self) -> bool:
        """Return whether the run of bytes at the window's end may complete a stop string."""
        if self._seen < _LONGEST and self.stop:  # or a character of the prompt's, in a run of its
            return True
        longest = max(map(len, self._stops), default=0)
        values, latest = self._traits.bytes, self._window[: -1 - longest : -1]
        run = bytes(values[token] for token in takewhile(values.__contains__, latest))[::-1]
        return any(len(run) < len(each) or run.endswith(each) for each in self._stops)

    def _end_of(self, prompt: Sequence[int]) -> list[int]:
        """Return the prompt's last tokens: they have some text, and begin with no byte of a run."""
        for n in _sizes(len(prompt)):
            end = [*filter(self._knows, prompt[-n:])]
            if end and end[0] not in self._traits.bytes and self._decoded(end).strip(_BROKEN):
                return end
        return [*filter(self._knows, prompt)]


def _sizes(most: int) -> Iterator[int]:
    """Yield how many tokens to try as a context, fewer than there are."""
    n = _CONTEXT
    while n < most:
        yield n
        n *= 2


def _first_of(tokenizer: Any, *names: str) -> Any:
    """Return the first of some attributes that there is: of Hugging Face's, or its backend's."""
    return next((getattr(tokenizer, name) for name in names if hasattr(tokenizer, name)), None)


def _decoder_of(tokenizer: Any) -> Callable[[Sequence[int]], str]:
    """Return what decodes ids with special tokens shown."""
    decode = tokenizer.decode
    owner: Any = getattr(decode, "__self__", None)
    # Hugging Face's plain class only passes ids on, in four times what its backend takes.
    is_plain = type(owner).__module__ == "transformers.tokenization_utils_tokenizers"
    if is_plain and not owner.clean_up_tokenization_spaces:
        decode = owner.backend_tokenizer.decode
    return partial(decode, skip_special_tokens=False)


class OnText:
    """A function of a completion's text, as one of its ids.

    Its caller may know the prompt before, and the ids that end a completion; None stands for the
    tokenizer's end tokens.
    """

    def __init__(self, tokenizer: Any, function: Callable[[str], Any]) -> None:
        self._tokenizer, self._function = tokenizer, function

    def __call__(
        self,
        tokens: Sequence[int],
        prompt: Sequence[int] = (),
        stop_tokens: Collection[int] | None = None,
    ) -> Any:
        """Return what the function makes of the text."""
        return self._function(text_of(self._tokenizer, prompt, tokens, stop_tokens))


def text_of(
    tokenizer: Any,
    prompt: Sequence[int],
    tokens: Sequence[int],
    stop_tokens: Collection[int] | None = None,
) -> str:
    """Return the text of a completion; a stop token at its end is no part of it.

    ``stop_tokens`` None stands for the tokenizer's end tokens.
    """
    if stop_tokens is None:
        stop_tokens = _end_tokens(tokenizer, tokens[-1:])
    ends = bool(tokens) and tokens[-1] in stop_tokens
    return TextReader(tokenizer, prompt).read(tokens[: len(tokens) - ends], last=True)


def _end_tokens(tokenizer: Any, last: Sequence[int]) -> Collection[int]:
    """Return a tokenizer's end tokens; of one that names none the ``last`` is one if special."""
    ends = _first_of(tokenizer, "eos_token_ids", "eos_token_id")
    if ends is not None:
        return ends if isinstance(ends, Collection) else {ends}
    return () if tokenizer.decode(last, skip_special_tokens=True) else last


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Return where the stop string begins that is complete first; None if there is none."""
    places = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    return min(places)[1] if places else None


def check_stop(stop: Any, tokenizer: Any) -> tuple[str, ...]:
    """Return stop strings, none of None; ``tokenizer`` reads them, and must be there if any are."""
    given = () if stop is None else stop
    stops = [given] if isinstance(given, str) else sequence("stop", given, "strings")
    for each in stops:
        if not (each and isinstance(each, str)):
            raise BadValue(f"stop must be of strings that are not empty, got {shown(each)}")
    if stops and tokenizer is None:
        raise BadType(f"stop is of texts: give tokenizer=, too, to read {shown(stops[0])} by")
    return tuple(stops)


def check_tokenizer(tokenizer: Any) -> Any:
    """Refuse all but Hugging Face's tokenizers and mlx-lm's wrapper of one."""
    if not callable(getattr(tokenizer, "convert_tokens_to_ids", None)):
        wanted = "a Hugging Face tokenizer, or mlx-lm's wrapper of one, as load() returns it"
        order = ": it stands before the prompt" if isinstance(tokenizer, str) else ""
        raise BadType(f"tokenizer must be {wanted}, got {type(tokenizer).__name__}{order}")
    return tokenizer


def wrapped(tokenizer: Any) -> Any:
    """Return mlx-lm's wrapper of a tokenizer: Hugging Face's own gets one."""
    if hasattr(type(tokenizer), "detokenizer") or hasattr(tokenizer, "detokenizer"):  # lazy stays
        return tokenizer
    from mlx_lm.tokenizer_utils import TokenizerWrapper

    return TokenizerWrapper(check_tokenizer(tokenizer))


def _begun(text: str, stops: Sequence[str]) -> int:
    """Return how many letters at the end of ``text`` may be the beginning of a stop string."""
    longest = min(len(text), max(map(len, stops), default=0))
    lengths = (n for n in range(longest, 0, -1) if any(s.startswith(text[-n:]) for s in stops))
    return next(lengths, 0)


class _Traits:
    """Knows of a tokenizer what it takes to decode a part of a text as within the whole.

    Attributes:
        bytes: of the tokens that stand for a byte each, where a run of them makes characters.
        cleaned: what a clean-up of spaces changes.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._known: dict[int, bool] = {}  # whether an id has a token
        self.bytes: dict[Any, int] = {}
        self.cleaned: Sequence[str] = ()
        id_of = _first_of(tokenizer, "convert_tokens_to_ids", "token_to_id")
        if id_of is not None:
            ids: list[Any] = [id_of(f"<0x{byte:02X}>") for byte in range(256)]
            pair = [ids[byte] for byte in "é".encode()]
            if None not in pair and tokenizer.decode(pair) == "é":
                self.bytes = {each: byte for byte, each in enumerate(ids)}
                for each in (None, getattr(tokenizer, "unk_token_id", None)):
                    self.bytes.pop(each, None)
        if getattr(tokenizer, "clean_up_tokenization_spaces", False):
            trial = tokenizer.decode(tokenizer.encode("a ,b", add_special_tokens=False))
            self.cleaned = () if " ," in trial else _CLEANED

    def knows(self, tokenizer: Any, token: int) -> bool:
        """Return whether the tokenizer has a token of this id, and keep the answer."""
        if token not in self._known:
            self._known[token] = knows(tokenizer, token)
        return self._known[token]


def _traits_of(tokenizer: Any) -> _Traits:
    """Return what is known of a tokenizer; it is looked at once while it lives."""
    with suppress(TypeError):  # without weak references, each time
        if tokenizer not in _KNOWN:
            _KNOWN[tokenizer] = _Traits(tokenizer)
        return _KNOWN[tokenizer]
    return _Traits(tokenizer)

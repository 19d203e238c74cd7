"""A text that grows: its tokens so far, how the next one is drawn, and when it ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lablib.inference.sampling import random_numbers
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.processors import TextProcessors

Best = tuple[tuple[int, float], ...]  # the best (id, logprob) pairs at a token

_ALL = 2**62  # tokens of a window


@dataclass(eq=False, slots=True)
class Row:
    """One text of a batch.

    Attributes:
        prompt: the tokens before it; its owner doesn't change them.
        options: of the sampler.
        key: the key of its random numbers; each token takes one.
        left: how many tokens it may still get; 0: it has ended.
        stops: ids that end it.
        reader: a ``TextReader`` that looks for stop strings; None if there are none.
        number: its place among all rows, by which messages know it.
        num_ctx: how far back ``repeat_last_n = -1`` looks.
        tokens: its own, with their ``logprobs`` under the raw logits.
        top: the best tokens at each of its own, if asked for.
        rounds: how many it has had; those of speculation have random numbers of their own.
        log_q: the logarithm of the chance with which each was drawn, where a weight needs it.
        stopped: whether a stop token or a stop string ended it.
        text: prompt and completion.
        most: how many tokens it may have.
        may_stop_early: whether the row may end before it has all its tokens.
        used: the options that can change a score, as numbers.
        window: how many of the latest tokens the penalties see; 0 without penalties.
        processors: of its logits, with their states; None without any.
    """

    prompt: list[int]
    options: SamplerOptions
    key: int
    left: int = 0
    stops: frozenset[int] = frozenset()
    reader: Any = None
    number: int = 0
    num_ctx: int = _ALL
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top: list[Best] = field(default_factory=list)
    log_q: list[float] = field(default_factory=list)
    rounds: int = 0
    stopped: bool = False
    text: list[int] = field(init=False)
    start: int = field(init=False)
    most: int = field(init=False)
    may_stop_early: bool = field(init=False)
    used: dict[str, float] = field(init=False)
    window: int = field(init=False)
    processors: TextProcessors | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.text = self.prompt + self.tokens
        self.start = len(self.prompt)
        self.most = len(self.tokens) + self.left
        self.may_stop_early = bool(self.stops) or self.reader is not None
        self.used = self.options.used
        last = self.options.repeat_last_n
        self.window = (last if last >= 0 else self.num_ctx) if self.options.penalizes else 0

    def append(
        self, tokens: Sequence[int], logprobs: Sequence[float] = (), top: Sequence[Best] = ()
    ) -> None:
        """Append decided tokens, of which only the last can be a stop token."""
        self.text += tokens
        self.tokens += tokens
        self.logprobs += logprobs
        if top:
            most = self.options.top_logprobs
            self.top += [best[:most] for best in top]
        self.stopped = self.tokens[-1] in self.stops
        if self.reader is not None:
            self._look_for_stop_strings(self.reader, last=self.left <= len(tokens))
        self.left = 0 if self.stopped else self.left - len(tokens)

    def copy(self, key: int, n: int | None = None) -> "Row":
        """Return its first ``n`` tokens, or all, to be gone on with by other random numbers."""
        left = self.left if n is None else self.most - n
        ended = n is None and self.stopped
        twin = replace(self, key=key, left=left, tokens=self.tokens[:n], stopped=ended)
        twin.logprobs, twin.top, twin.log_q = self.logprobs[:n], self.top[:n], self.log_q[:n]
        twin.most = self.most
        if self.processors is not None:
            twin.processors = TextProcessors(self.processors.settled, twin.text)
        return twin

    def _look_for_stop_strings(self, reader: Any, last: bool) -> None:
        """End at the token that completes one; a stop token is no text."""
        written = len(self.tokens) - self.stopped
        reader.read(self.tokens[:written], last and not self.stopped)
        if reader.end is not None:
            self.stopped = True
            for each in (self.tokens, self.logprobs, self.top):
                del each[reader.end :]


def key_of(options: SamplerOptions, stream: int) -> int:
    """Return the key of a stream of the random numbers of the options' seed."""
    key: int = random_numbers.key(random_numbers.fixed(options.seed), stream)
    return key

"""What every token iterator does around its own step: the clock, the books, and an orderly end."""

# The C functions behind the `signal` module: its enum conversions cost 20 us a call in Python 3.11,
# and a step calls them for every token.
import _signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

import mlx.core as mx

NOT_FINITE = "the model's logits must be finite, got NaN, +inf or a row of nothing but -inf"


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token.

    Attributes:
        id: its number in the vocabulary.
        logprob: natural log of the model's own probability of it (before temperature and cuts).
        from_draft: whether a draft proposed it (speculative decoding).
        top_logprobs: the model's best ``(id, logprob)`` pairs here, if ``top_logprobs=`` asked.
    """

    id: int
    logprob: float
    from_draft: bool = False
    top_logprobs: tuple[tuple[int, float], ...] = ()


class TokenLoop:
    """The protocol that ``TokenIterator`` and ``SpeculativeTokenIterator`` share.

    A subclass reads the prompt (``_read_prompt``), finds the next token (``_next_token``), and cuts
    its caches back to the returned tokens (``_cut_back``).

    Attributes:
        prompt: its token ids.
        tokens: the ids returned so far.
        logprobs: their log-probabilities under the model's raw logits.
        stats: see ``TokenIterator``; always current.
    """

    def __init__(self, prompt: list[int], max_tokens: int, stops: frozenset[int]) -> None:
        self.prompt, self._max_tokens, self._stops = prompt, max_tokens, stops
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.stats: dict[str, Any] = {
            "prompt_tokens": len(prompt), "tokens": 0, "prefill_seconds": 0.0,
            "decode_seconds": 0.0, "tokens_per_second": 0.0, "target_calls": 0,
            "token_forwards": 0, "finish_reason": None,
        }  # fmt: skip

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Token:
        if self.stats["finish_reason"] is not None:
            raise StopIteration
        start = time.perf_counter()
        clock = "decode_seconds" if self.tokens else "prefill_seconds"
        try:
            if not self.tokens:
                self._read_prompt()
            # An interrupt waits until the token is in .tokens: what was computed is not lost.
            with self._whole_step():
                return self._hand_out(self._next_token())
        finally:
            self._tick(clock, time.perf_counter() - start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop here and cut the caches back to the returned tokens; may be called twice."""
        with hold_interrupts():
            self._finish("closed")

    @contextmanager
    def _whole_step(self) -> Iterator[None]:
        """Do a step whole: an interrupt waits for its end, an error inside ends the loop."""
        with hold_interrupts():
            try:
                yield
            except BaseException:
                # A cache that cannot be cut back must not hide what went wrong.
                with suppress(Exception):
                    self._finish("error")
                raise

    def _read_prompt(self) -> None:
        """Read the prompt up to its last token; go on there if it was interrupted."""
        raise NotImplementedError

    def _next_token(self) -> Token:
        """Find the next token."""
        raise NotImplementedError

    def _cut_back(self) -> None:
        """Leave the caches at the returned tokens, the last of them unread."""
        raise NotImplementedError

    def _hand_out(self, token: Token) -> Token:
        """Book a token; the last one ends the loop."""
        self.tokens.append(token.id)
        self.logprobs.append(token.logprob)
        self.stats["tokens"] = len(self.tokens)
        if token.id in self._stops:
            self._finish("stop")
        elif len(self.tokens) == self._max_tokens:
            self._finish("length")
        return token

    def _finish(self, reason: str) -> None:
        if self.stats["finish_reason"] is None:
            self.stats["finish_reason"] = reason
            self._cut_back()

    def _tick(self, clock: str, seconds: float) -> None:
        """Bring the times up to date."""
        self.stats[clock] += seconds
        if self.stats["decode_seconds"] > 0:
            decoded = len(self.tokens) - 1
            self.stats["tokens_per_second"] = decoded / self.stats["decode_seconds"]


def chunks(prompt: Sequence[int], step_size: int, start: int = 0) -> Iterator[mx.array]:
    """Cut a prompt, all but its last token, into pieces ``(1, T)`` to read one after the other."""
    last = len(prompt) - 1
    for begin in range(start, last, step_size):
        yield mx.array([prompt[begin : min(begin + step_size, last)]])


def settle_chunk(cache: list[Any], *, wait: bool) -> None:
    """Compute what a piece of the prompt left in the cache.

    All pieces but the last are waited for, so that memory for one piece is enough; during the last
    one the next step can be written down.
    """
    state = [layer.state for layer in cache]
    if not wait:
        mx.async_eval(state)
        return
    mx.eval(state)
    mx.clear_cache()


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Let Ctrl-C (or a notebook's stop button) wait until the block has finished.

    A forward moves one layer's cache after the other, so an interrupt inside it would leave them at
    different positions. The block should be short: one step, not a whole generation. Only Python's
    main thread is ever interrupted; elsewhere this does nothing.
    """
    handler = _signal.getsignal(_signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    held = []
    _signal.signal(_signal.SIGINT, lambda *arguments: held.append(arguments))
    try:
        yield
    finally:
        _signal.signal(_signal.SIGINT, handler)
        if held:
            handler(*held[-1])

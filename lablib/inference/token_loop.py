"""One sequence, one token at a time: read the prompt, then predict, sample, repeat.

This loop is under ``TokenIterator`` and ``SpeculativeTokenIterator``. It keeps the machine busy by
asking for the next token before the current one is handed out (the current one can be the input of
the next forward without anyone having looked at it), and it keeps a promise about the cache: after
``close()`` the cache has read exactly the tokens that were handed out, but the last.
"""

# The C functions behind the `signal` module: its enum conversions cost 20 us a call in Python 3.11,
# and a step calls them for every token.
import _signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from operator import eq
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.inference.arguments import Request
from lablib.inference.text_sampler import Drawn, TextSampler, check_finite
from lablib.validation import BadValue

import mlx.core as mx


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


class TokenLoop(Iterator[Token], AbstractContextManager):
    """The protocol that ``TokenIterator`` and ``SpeculativeTokenIterator`` share, and a plain step.

    The attributes are those of ``TokenIterator``; a subclass writes ``_advance``.
    ``target`` is the model with its cache; random numbers come from the seed's ``stream``.
    """

    def __init__(self, asked: Request, target: Rewinder, stream: int) -> None:
        self.prompt, self._max_tokens, self._stops = asked.prompt, asked.max_tokens, asked.stops
        self._step_size, self._prompt_read = asked.step_size, 0
        self._target, self.cache = target, target.cache
        self._text = list(self.prompt)  # and what was decided, handed out or not
        texts, processors = [self._text], asked.processors
        self._sampler = TextSampler(asked.options, texts, asked.max_tokens, [stream], processors)
        self._asked: deque[Drawn] = deque()  # drawn plainly, not looked at yet
        self._lasting = True  # whether a forward's tokens stay if the step fails after it
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self._ready: deque[Token] = deque()  # decided, but not handed out yet
        self.stats: dict[str, Any] = {
            "prompt_tokens": len(self.prompt), "tokens": 0, "prefill_seconds": 0.0,
            "decode_seconds": 0.0, "tokens_per_second": 0.0, "target_calls": 0,
            "token_forwards": 0, "finish_reason": None,
        }  # fmt: skip

    def __next__(self) -> Token:
        stats = self.stats
        if stats["finish_reason"] is not None:
            raise StopIteration
        start, decoded = time.perf_counter(), len(self.tokens)
        try:
            if not decoded:
                self._read_prompt()
            # An interrupt waits until the token is in .tokens: what was computed is not lost.
            with hold_interrupts(self._fail):
                while not self._ready:
                    self._advance()
                token = self._ready.popleft()
                self.tokens.append(token.id)
                self.logprobs.append(token.logprob)
                stats["tokens"] = decoded + 1
                if token.id in self._stops:
                    self._finish("stop")
                elif decoded + 1 == self._max_tokens:
                    self._finish("length")
                return token
        finally:
            clock = "decode_seconds" if decoded else "prefill_seconds"
            stats[clock] += time.perf_counter() - start
            if decoded:
                stats["tokens_per_second"] = decoded / stats["decode_seconds"]

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop here and cut the caches back to the returned tokens; may be called twice."""
        with hold_interrupts():
            self._finish("closed")

    def _fail(self) -> None:
        """End the loop because of an error, which a cache that cannot be cut back must not hide."""
        with suppress(Exception):
            self._finish("error")

    def _read_prompt(self) -> None:
        """Read the prompt up to its last token; go on there if it was interrupted."""
        last = len(self.prompt) - 1
        for chunk in chunks(self.prompt, self._step_size, self._prompt_read):
            with hold_interrupts(self._fail):
                self._prompt_read += chunk.shape[1]
                self._read_chunk(chunk, more=self._prompt_read < last)

    def _read_chunk(self, chunk: mx.array, more: bool) -> None:
        """Read a piece ``(1, T)`` of the prompt; whether there are ``more``."""
        self._target.forward(chunk)
        self._target.settle()
        settle_chunk(self.cache, wait=more)
        self._count_calls()

    def _advance(self) -> None:
        """Work on the next tokens; put those that are decided in ``_ready``."""
        raise NotImplementedError

    def _decode(self, left: int, whose: str) -> Token:
        """Decode a token plainly; ask for the next of ``left`` before looking, if it can go back.

        Messages call the logits ``whose``.
        """
        wanted = 1 + (left > 1 and self._may_run_ahead())
        while len(self._asked) < wanted:
            self._ask()
        drawn = self._asked[0]
        token, logprob = drawn.tokens.item(), drawn.logprobs.item()
        check_finite(whose, [drawn.finite.item()])
        self._asked.popleft()
        self._text.append(token)
        self._sampler.commit([[token]])
        self._count_calls()
        return Token(token, logprob, top_logprobs=drawn.top(0)[0] if drawn.best else ())

    def _ask(self) -> None:
        """Queue one forward and the draw of the token after it; nothing waits for the result."""
        pending = self._asked[-1].tokens if self._asked else None
        unread = mx.array([self._text[self._target.positions[0] :]]) if pending is None else pending
        self._target.settle()
        logits = self._target.forward(unread, self._lasting)
        drawn = self._sampler.plain(logits[:, -1:], pending)
        self._asked.append(drawn)
        mx.async_eval(drawn)

    def _may_run_ahead(self) -> bool:
        """Return whether a token that was asked for early could be taken back.

        A logits processor may keep a state of its own, so it sees no token before its turn.
        """
        if self._sampler.processors:
            return False
        return self._target.plain or kv.trimmable(self.cache, after=2 - len(self._asked)) > 0

    def _count_calls(self) -> None:
        target = self._target
        self.stats["target_calls"], self.stats["token_forwards"] = target.calls, target.tokens_read

    def _finish(self, reason: str) -> None:
        if self.stats["finish_reason"] is None:
            self.stats["finish_reason"] = reason
            self._ready.clear()
            self._asked.clear()
            try:
                self._cut_back(self.prompt + self.tokens if self.tokens else [])
            except BadValue:
                # A step that failed before the first token: some caches cannot go back to nothing.
                if self.tokens:
                    raise
            finally:
                self._count_calls()

    def _cut_back(self, text: list[int]) -> None:
        """Leave the caches at ``text`` without its last token."""
        self._target.keep([max(0, len(text) - 1)])


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


def read_up_to_last(model: Any, prompt: Sequence[int], cache: list[Any], step_size: int) -> int:
    """Read a prompt, all but its last token, and wait for it; returns the forwards it took."""
    parts = list(chunks(prompt, step_size))
    for part in parts:
        model(part, cache=cache)
        settle_chunk(cache, wait=True)
    return len(parts)


class PromptReader:
    """Reads prompts, all but the last tokens; what the one before begins with is not read again."""

    def __init__(self, model: Any, step_size: int) -> None:
        self.model, self._step_size, self.calls = model, step_size, 0  # forwards
        self._cache, self._held = kv.make(model), []

    def read(self, prompt: Sequence[int]) -> kv.Cache:
        """Return a cache of one row that ends before the last token, and that stays as it is."""
        if (text := list(prompt[:-1])) != self._held:
            same = sum(takewhile(bool, map(eq, self._held, text)))
            if (back := len(self._held) - same) and kv.trimmable(self._cache) < back:
                self._cache, same = kv.make(self.model), 0
            else:
                self._cache = kv.copy(self._cache)
                kv.trim(self._cache, back)
            self._held = text
            self.calls += read_up_to_last(self.model, prompt[same:], self._cache, self._step_size)
        return self._cache


@contextmanager
def hold_interrupts(on_error: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let Ctrl-C (or a notebook's stop button) wait until the block has finished.

    A forward moves one layer's cache after the other, so an interrupt inside it would leave them at
    different positions. The block should be short: one step, not a whole generation. Only Python's
    main thread is ever interrupted. If the block raises, ``on_error`` is called before the error
    goes on.
    """
    held, handler = [], None
    if threading.current_thread() is threading.main_thread():
        handler = _signal.getsignal(_signal.SIGINT)
    if callable(handler):
        _signal.signal(_signal.SIGINT, lambda *arguments: held.append(arguments))
    try:
        yield
    except BaseException:
        on_error()
        raise
    finally:
        if callable(handler):
            _signal.signal(_signal.SIGINT, handler)
            if held:
                handler(*held[-1])

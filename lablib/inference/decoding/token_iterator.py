"""One text, one token at a time: the decoder with a single row, and a promise about its cache.

After ``close()`` the cache has read exactly the tokens that were handed out, but the last.
"""

# The C functions behind the `signal` module: its enum conversions cost 20 us a call in Python 3.11,
# and a step calls them for every token.
import _signal
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Unpack

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.inference import arguments
from lablib.inference.decoding.decoder import Decoder
from lablib.inference.decoding.prompts import cut_back, most_unread, read_prompt
from lablib.inference.decoding.rows import Verdict
from lablib.inference.keywords import SamplerKeywords, described
from lablib.inference.sampling.processors import LogitsProcessor
from lablib.inference.sampling.row import Best, Row, key_of
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.unknown_options import check_options
from lablib.validation import BadValue, integer


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token.

    Attributes:
        id: its number in the vocabulary.
        logprob: natural log of the model's own probability of it (before temperature and cuts).
        from_draft: whether a draft proposed it (speculative decoding).
        top_logprobs: the model's best ``(id, logprob)`` pairs here, if ``top_logprobs=`` asked.

    Example:
        >>> token = next(lablib.TokenIterator(model, prompt, temperature=0.0))
        >>> token.logprob <= 0, token.from_draft
        (True, False)
    """

    id: int
    logprob: float
    from_draft: bool = False
    top_logprobs: Best = ()


class DecodingIterator(Iterator[Token], AbstractContextManager):
    """The protocol that ``TokenIterator`` and ``SpeculativeTokenIterator`` share.

    The attributes are those of ``TokenIterator``.

    Args:
        request: the checked arguments.
        decoder: a decoder that no row has joined yet.
        target: the target and its cache.
        stream: the random stream of the seed.
        drafter: the drafter that ``begin`` returned, or None.
        own: the reader of the drafter's own model, or None.
    """

    def __init__(
        self,
        request: arguments.Request,
        decoder: Decoder,
        target: Rewinder,
        stream: int,
        drafter: Any = None,
        own: Rewinder | None = None,
    ) -> None:
        (self.prompt,) = request.prompts
        self.cache = target.cache
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.top_logprobs: list[Best] = []
        self.stats: dict[str, Any] = {
            "prompt_tokens": len(self.prompt),
            "tokens": 0,
            "prefill_seconds": 0.0,
            "decode_seconds": 0.0,
            "tokens_per_second": 0.0,
            "target_calls": 0,
            "token_forwards": 0,
            "finish_reason": None,
        }
        self._stops, self._start, self._read = request.stops, request.start, request.read
        self._target, self._drafter = target, drafter
        readers = [target] if own is None else [target, own]
        leave = most_unread(target, drafter)
        self._reading = read_prompt(readers, self.prompt, request.step_size, leave)
        (self._max_tokens,), (options,) = request.lengths, request.options
        row = Row(self.prompt, options, key_of(options, stream), self._max_tokens, request.stops)
        self._decoder = decoder
        decoder.join([row], target, drafter)
        self._rounds = decoder.run()
        self._ready: deque[Token] = deque()  # decided, but not handed out yet
        if self._read is not None:
            cut_back(readers, self._read, self._start)

    def __next__(self) -> Token:
        stats = self.stats
        if stats["finish_reason"] is not None:
            raise StopIteration
        start = time.perf_counter()
        clock = "decode_seconds" if self.tokens else "prefill_seconds"
        try:
            if not self.tokens:
                self._read_prompt()
            # An interrupt waits until the token is in .tokens: what was computed is not lost.
            with hold_interrupts(self._fail):
                if not self._ready:
                    self._decide(next(self._rounds))
                token = self._ready.popleft()
                self.tokens.append(token.id)
                self.logprobs.append(token.logprob)
                self.top_logprobs.append(token.top_logprobs)
                stats["tokens"] = len(self.tokens)
                if token.id in self._stops:
                    self._finish("stop")
                elif len(self.tokens) == self._max_tokens:
                    self._finish("length")
                return token
        finally:
            stats[clock] += time.perf_counter() - start
            if clock == "decode_seconds":
                stats["tokens_per_second"] = (len(self.tokens) - 1) / stats[clock]

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop here and cut the caches back to the returned tokens; may be called twice."""
        with hold_interrupts():
            self._finish("closed")

    def _read_prompt(self) -> None:
        """Read the prompt up to its last token; go on there if it was interrupted."""
        is_read = False
        while not is_read:
            with hold_interrupts(self._fail):
                is_read = next(self._reading, "read") == "read"
                self._count()

    def _decide(self, verdicts: Sequence[Verdict]) -> None:
        """Make the tokens of a round ready to be handed out."""
        (verdict,) = verdicts
        for i, token in enumerate(verdict.tokens):
            top = verdict.top[i] if verdict.top else ()
            self._ready.append(Token(token, verdict.logprobs[i], i < verdict.accepted, top))
        self._count()

    def _fail(self) -> None:
        """End the loop because of an error, which a cache that cannot be cut back must not hide."""
        with suppress(Exception):
            self._finish("error")

    def _finish(self, reason: str) -> None:
        if self.stats["finish_reason"] is not None:
            return
        self.stats["finish_reason"] = reason
        self._ready.clear()
        try:
            end = None if self.tokens else self._start + 1
            self._cut_back((self.prompt + self.tokens)[:end])
        except BadValue:
            # A step that failed before the first token: some caches cannot go back to nothing.
            if self.tokens:
                raise
        finally:
            if self._read is not None:
                self._read[:] = (self.prompt + self.tokens)[: self._target.positions[0]]
            self._count()

    def _cut_back(self, text: list[int]) -> None:
        """Leave the caches at ``text`` without its last token."""
        try:
            self._target.keep([len(text) - 1])
        finally:
            if self._drafter is not None:
                self._drafter.finish(text)

    def _count(self) -> None:
        self.stats["target_calls"] = self._target.calls
        self.stats["token_forwards"] = self._target.tokens_read


@described(SamplerKeywords)
class TokenIterator(DecodingIterator):
    """Generate tokens one by one; ``for token in TokenIterator(model, prompt): ...``.

    When you may stop early and the cache matters, use a ``with`` block or call :meth:`close`.

    Args:
        model: ``model(tokens (1, T), cache=...) -> logits (1, T, V)``.
        prompt: token ids, at least one; with ``tokenizer=`` also a text or messages.
        max_tokens: how many tokens to generate at most.
        stop_tokens: ids that end the generation; the one that did is the last token returned. None
            means the model's own, which ``lablib.load`` gives it; ``()`` means none.
        cache: the state that earlier tokens left behind, changed in place; the prompt continues
            after them. To go on from a finished iterator, start the prompt with its last token:
            that one was returned but not read yet. None makes a new cache.
        cached_tokens: the list of all tokens that ``cache`` has read, changed with it. Then the
            prompt is the whole text: the cache is cut back to the beginning that both share, the
            rest is read, and penalties and logits processors see all of it. None: not known.
        prefill_step_size: how many prompt tokens are read at once.
        logits_processors: called in turn as ``processor(tokens, logits (1, V)) -> logits``, with
            the prompt and all generated tokens as an array ``(T,)``; their result is sampled. One
            that keeps a state and has a method ``copy`` is copied before its first call.
        tokenizer: whose ids alone are drawn, where the model has more rows. None: all rows are,
            but of a model of ``lablib.load``'s, which knows its tokenizer's ids.
        stream: the random stream of the seed; row i of ``sample_n`` uses stream i.
        **sampler_options: those that follow. Penalties look at this prompt and its completion; what
            a cache has read besides, only ``cached_tokens`` tell.

    Attributes:
        prompt: its token ids.
        cache: the model's cache. After the last token, or :meth:`close`, it has read
            ``len(prompt) + len(tokens) - 1`` tokens more than at the start, or none if no token was
            returned; with ``cached_tokens`` so many in all. (A cache that cannot be trimmed keeps
            the prompt of an iteration that was interrupted before the first token, and the token at
            which a step failed.)
        tokens: the ids returned so far.
        logprobs: their log-probabilities under the raw logits.
        top_logprobs: the best ``(id, logprob)`` pairs at each, if ``top_logprobs=`` asked.
        stats: ``prompt_tokens``, ``tokens``, ``prefill_seconds`` (until the first token),
            ``decode_seconds`` (in ``next`` after that), ``tokens_per_second`` (of decoding),
            ``target_calls`` and ``token_forwards`` (tokens the model was given, one that was asked
            for early and not needed included), ``finish_reason`` (None, "stop", "length",
            "closed" or "error"); always current.

    Raises:
        ValueError, TypeError: an argument is bad; nothing has been changed then.

    Example:
        >>> with lablib.TokenIterator(model, prompt, temperature=0.0, top_logprobs=2) as tokens:
        ...     found = [token.id for token in tokens]
        >>> found == tokens.tokens, tokens.stats["finish_reason"]
        (True, 'stop')
    """

    def __init__(
        self,
        model: Any,
        prompt: arguments.Prompt,
        *,
        max_tokens: int = 100,
        stop_tokens: Collection[int] | None = None,
        cache: list[Any] | None = None,
        cached_tokens: list[int] | None = None,
        prefill_step_size: int = 512,
        logits_processors: Sequence[LogitsProcessor] = (),
        tokenizer: Any = None,
        stream: int = 0,
        **sampler_options: Unpack[SamplerKeywords],
    ) -> None:
        check_options(TokenIterator, sampler_options)
        request = arguments.read_request(
            model,
            prompt,
            max_tokens=max_tokens,
            stop_tokens=stop_tokens,
            prefill_step_size=prefill_step_size,
            logits_processors=logits_processors,
            tokenizer=tokenizer,
            cache=cache,
            cached_tokens=cached_tokens,
            **sampler_options,
        )
        stream = integer("stream", stream, 0)
        cache = kv.make(model) if cache is None else cache
        sampler = TextSampler(request.processors, n_known=request.n_known)
        decoder = Decoder(sampler, closable=True, label=lambda row: f"token {len(row.tokens)}")
        super().__init__(request, decoder, Rewinder(model, cache, read=request.start), stream)


@contextmanager
def hold_interrupts(on_error: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let Ctrl-C (or a notebook's stop button) wait until the block has finished.

    A forward moves one layer's cache after the other, so an interrupt inside it would leave them at
    different positions. The block should be short: one step, not a whole generation. Only Python's
    main thread is ever interrupted. If the block raises, ``on_error`` is called before the error
    goes on.
    """
    waiting, handler = [], None
    if threading.current_thread() is threading.main_thread():
        handler = _signal.getsignal(_signal.SIGINT)
    if callable(handler):
        _signal.signal(_signal.SIGINT, lambda *arguments: waiting.append(arguments))
    try:
        yield
    except BaseException:
        on_error()
        raise
    finally:
        if callable(handler):
            _signal.signal(_signal.SIGINT, handler)
            if waiting:
                handler(*waiting[-1])

"""A server's engine: requests join a running batch and leave it; texts come out as they are made.

    async with lablib.Engine(model, tokenizer) as engine:
        async for piece in engine.stream("On a sunny day,", seed=1):
            print(piece, end="")

One thread beside the event loop computes, a turn after the other (``inference/engine``), and hands
over the news of each. A caller waits for them in ``engine_stream.py``, where the text is made.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from itertools import count
from typing import Any, Self, Unpack, overload
from weakref import WeakValueDictionary

from lablib.chat_messages import encode
from lablib.completion import Completion
from lablib.engine_stream import EngineStream
from lablib.inference import arguments
from lablib.inference.decoding.scheduler import make_row
from lablib.inference.engine.continuous_batch import ContinuousBatch
from lablib.inference.engine.job import Drafting, Job
from lablib.inference.engine.lane import Models
from lablib.inference.keywords import EngineKeywords, EnginesKeywords, described
from lablib.inference.speculation.draft_length import FixedLength
from lablib.inference.speculation.rules import named
from lablib.inference.stop_strings import wrapped
from lablib.machine.scheduling import gather_work
from lablib.machine.streams import clear_with_thread
from lablib.text_stream import Conversation
from lablib.unknown_options import check_options, checks_options
from lablib.validation import flag, integer

import mlx.core as mx

_ENGINES = " (it is the engine's: Engine(model, tokenizer, {name}...))"
_HINTS = {
    "draft_model": _ENGINES.format(name="draft_model="),
    "max_batch": _ENGINES.format(name="max_batch="),
    "prefill_step_size": _ENGINES.format(name="prefill_step_size="),
    "cache": " (the engine keeps its caches: cache_bytes= bounds them)",
    "progress": " (engine.stream shows the text as it comes)",
}


@described(EngineKeywords)
@checks_options
class Engine(AbstractAsyncContextManager["Engine"]):
    """Serves many callers at once: requests join a running batch and leave it.

    A request's text is what ``generate`` writes of it alone, with the same options and seed: to the
    token inside ``same_bits()``, and otherwise but where rounding decides. It works inside
    ``async with``, for one event loop, which is never blocked: a thread of its own computes.
    Leaving the block ends all requests; those that wait get a RuntimeError.

    A long prompt is read in pieces, which take 1.75 rounds of those who write. If the
    bound on memory is reached, new requests wait, and if texts grow beyond it the youngest gives up
    its cache; it is read again once there is room. A request that is refused, or fails, or has a
    processor that raises, is the only one that hears of it.

    Args:
        model: any mlx-lm model or :class:`~lablib.models.base.LanguageModel`.
        tokenizer: mlx-lm's ``TokenizerWrapper``, as ``load`` returns it, or Hugging Face's own.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        max_batch: how many texts are read and written at a time, at most.
        cache_bytes: of all their caches, at most; while a text joins or leaves there may for a
            moment be twice as many.
        prefill_step_size: how many tokens of a prompt are read at once, at most.

    ``stream`` and ``generate`` take the options that follow:

    Attributes:
        stats: how many requests are ``waiting``, ``reading`` and ``running``, were ``finished``,
            ``cancelled`` and ``failed``; how often one was ``evicted``, that is gave up its cache;
            ``tokens`` written. Of the latest: the median ``time_to_first_token`` in seconds, and
            ``tokens_per_second`` while it computes. ``cache_bytes`` now, and
            ``most_cache_bytes`` so far.

    Raises:
        ValueError, TypeError: an argument is out of range, or the draft model does not fit.

    Example:
        >>> async def serve():
        ...     async with lablib.Engine(model, tokenizer) as engine:
        ...         asked = [engine.generate(text, max_tokens=4) for text in ("Mia", "Otto")]
        ...         return await asyncio.gather(*asked)
        >>> [len(text.tokens) for text in asyncio.run(serve())]
        [4, 4]
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        draft_model: Any = None,
        *,
        max_batch: int = 32,
        cache_bytes: int = 2**30,
        prefill_step_size: int = 512,
    ) -> None:
        arguments.check_prompt(model, [0])
        self._tokenizer = wrapped(tokenizer)
        max_batch = integer("max_batch", max_batch, 1)
        cache_bytes = integer("cache_bytes", cache_bytes, 1)
        step_size = integer("prefill_step_size", prefill_step_size, 1)
        self._models = Models(model, draft_model, step_size)
        self._batch = ContinuousBatch(self._models, max_batch, cache_bytes)
        self._numbers = count()
        self._streams: WeakValueDictionary[Job, EngineStream] = WeakValueDictionary()
        self._work = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closing = False

    async def __aenter__(self) -> Self:
        """Start the thread that computes."""
        if self._loop is not None:
            raise RuntimeError("an engine runs once: make another")
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._compute, name="lablib.Engine", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop: every request that has not ended is answered with a RuntimeError."""
        if self._thread is None:
            return
        with self._work:
            self._closing = True
            self._work.notify()
        await self._stopped.wait()
        self._thread.join()

    @property
    def stats(self) -> dict[str, Any]:
        """Return the counts."""
        return self._batch.stats

    # What callers ask.

    def stream(
        self,
        prompt: str | Sequence[int] | mx.array | None = None,
        *,
        messages: Conversation | None = None,
        max_tokens: int = 100,
        **options: Unpack[EngineKeywords],
    ) -> EngineStream:
        """Ask for a text, piece by piece; the request waits for its turn from here on.

        Args:
            prompt: text, or token ids.
            messages: a conversation in place of a prompt.
            max_tokens: how many tokens to generate at most.
            **options: those of the class.

        Returns:
            An asynchronous iterator of strings, with ``.text``, ``.stats``, ``.completion()`` and
            ``.aclose()``.

        Raises:
            ValueError, TypeError: an argument is out of range; nothing was asked then.
            RuntimeError: the engine does not run.
        """
        check_options(Engine.stream, options, **_HINTS)
        settings: dict[str, Any] = {**options, "max_tokens": max_tokens}
        return self._ask(prompt, messages, None, **settings)[0]

    @overload
    async def generate(
        self,
        prompt: str | Sequence[int] | mx.array | None = None,
        *,
        messages: Conversation | None = None,
        max_tokens: int = 100,
        n: None = None,
        **options: Unpack[EngineKeywords],
    ) -> Completion: ...

    @overload
    async def generate(
        self,
        prompt: str | Sequence[int] | mx.array | None = None,
        *,
        messages: Conversation | None = None,
        max_tokens: int | Sequence[int] = 100,
        n: int,
        **options: Unpack[EnginesKeywords],
    ) -> list[Completion]: ...

    async def generate(
        self,
        prompt: Any = None,
        *,
        messages: Any = None,
        max_tokens: Any = 100,
        n: int | None = None,
        **options: Any,
    ) -> Completion | list[Completion]:
        """Ask for a text, and wait for all of it.

        Args:
            prompt: text, or token ids.
            messages: a conversation in place of a prompt.
            max_tokens: how many tokens to generate at most.
            n: how many completions; their prompt is read once. Number i draws from stream i of the
                seed, and a list of an option's values has one for each.
            **options: those of the class.

        Returns:
            The completion; with ``n`` a list of them.

        Raises:
            ValueError, TypeError: an argument is out of range; nothing was asked then.
            RuntimeError: the engine does not run, or was closed before the end.
        """
        check_options(Engine.stream, options, **_HINTS)
        streams = self._ask(prompt, messages, n, **{**options, "max_tokens": max_tokens})
        try:
            made = [await each.finish() for each in streams]
        finally:
            for each in streams:
                each.close()
        return made[0] if n is None else made

    def cancel(self, job: Job) -> None:
        """Let a request leave before the next round."""
        self._batch.cancel(job)
        with self._work:
            self._work.notify()

    def _ask(
        self,
        prompt: Any,
        messages: Any,
        n: int | None,
        *,
        template: Any = None,
        stream: Any = 0,
        stop_tokens: Any = None,
        **options: Any,
    ) -> list[EngineStream]:
        """Check a request, and have it wait, ``n`` of it or just one."""
        drafting = self._drafting(options)
        ids = encode(self._tokenizer, prompt, messages, template)
        if stop_tokens is None:
            stop_tokens = self._tokenizer.eos_token_ids
        n = None if n is None else arguments.check_n(n)
        tokenizer, model = self._tokenizer, self._models.target
        request = arguments.read_request(
            model, ids, n=n, tokenizer=tokenizer, stop_tokens=stop_tokens, **options
        )
        stream = integer("stream", stream, 0)
        if self._loop is not asyncio.get_running_loop() or self._closing:
            raise RuntimeError("the engine must run: call it inside its `async with`, in its loop")
        jobs = []
        for i in range(n or 1):
            row = make_row(request, i, next(self._numbers), None if n else stream)
            jobs.append(Job(row, request, drafting))
            self._models.check(jobs[-1])
            self._batch.check(jobs[-1])
        streams = [EngineStream(job, tokenizer, self.cancel) for job in jobs]
        self._streams.update(zip(jobs, streams, strict=True))
        with self._work:
            self._batch.ask(jobs)
            self._work.notify()
        return streams

    def _drafting(self, options: dict[str, Any]) -> Drafting | None:
        """Take what a request says of drafts out of its options."""
        drafter = self._models.drafter
        if drafter is None:
            arguments.refuse_draft_options(options)
            return None
        draft_tokens = FixedLength(options.pop("draft_tokens", 4)).draft_tokens
        rule = named(options.pop("rule", None), drafter.trees)
        return Drafting(draft_tokens, rule, flag("trace", options.pop("trace", False)))

    # The thread that computes.

    def _compute(self) -> None:
        """Run turns while there is something to do, until the engine is closed."""
        error: BaseException | None = None
        try:
            clear_with_thread()
            gather_work()
            while self._waits_for_work():
                news = self._batch.turn()
                if news:
                    self._tell(self._deliver, news)
        except BaseException as raised:  # no caller must wait for ever
            error = raised
        self._tell(self._stop, error)

    def _waits_for_work(self) -> bool:
        """Wait for something to do; return False if the engine is closed."""
        with self._work:
            self._work.wait_for(lambda: self._closing or self._batch.is_busy)
        return not self._closing

    def _tell(self, function: Any, news: Any) -> None:
        """Call a function in the event loop; if that is closed nobody is left to hear."""
        try:
            self._loop.call_soon_threadsafe(function, news)  # type: ignore[union-attr]
        except RuntimeError:
            self._closing = True

    def _deliver(self, news: list[Job]) -> None:
        """Wake who waits for these."""
        for job in news:
            if job in self._streams:
                self._streams[job].wake()

    def _stop(self, error: BaseException | None) -> None:
        """Answer all that have not been answered yet."""
        self._closing = True
        for job, stream in [*self._streams.items()]:
            if not job.ended:
                closed = RuntimeError("the engine was closed before the request had ended")
                closed.__cause__ = error
                job.fail(closed)
            stream.wake()
        self._stopped.set()

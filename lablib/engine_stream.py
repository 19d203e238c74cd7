"""Hands the text of an ``Engine``'s request to its caller, piece by piece or whole."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from lablib.completion import Completion
from lablib.inference.engine.job import Job
from lablib.inference.stop_strings import TextReader


class EngineStream(AsyncIterator[str]):
    """Text pieces of a request as they become readable; what ``Engine.stream`` returns.

    The pieces are those of :func:`lablib.stream`. Whoever is cancelled while he waits for one, or
    drops the stream, or closes it, has it leave the batch before the next round.

    Attributes:
        text: all pieces so far.
    """

    def __init__(self, job: Job, tokenizer: Any, cancel: Callable[[Job], None]) -> None:
        self.job, self._cancel = job, cancel
        self.text = ""
        self._news = asyncio.Event()
        self._reader = TextReader(tokenizer, job.row.prompt, job.request.stop)
        self._ended = False
        self._only_end = False  # wake when all is there

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._ended:
            await self._wait()
            piece = self._new_text()
            if piece:
                return piece
        raise StopAsyncIteration

    async def finish(self) -> Completion:
        """Wait for the end; return all that was generated."""
        self._only_end = True
        while not self._ended:
            await self._wait()
            self._new_text()
        return self.completion()

    async def aclose(self) -> None:
        """Stop generating: the request leaves the batch before the next round."""
        self.close()
        while not self.job.ended:
            await self._wait()

    def close(self) -> None:
        """Stop generating, without waiting for it."""
        if not self._ended:
            self._new_text(closing=True)
            self._cancel(self.job)

    def __del__(self) -> None:
        if not self.job.ended:
            self._cancel(self.job)

    @property
    def stats(self) -> dict[str, Any]:
        """Return what is known of the request; see :class:`Completion`."""
        return self.job.stats

    def completion(self) -> Completion:
        """Return what has been generated so far."""
        job, n = self.job, self.job.published
        columns = job.row.tokens[:n], job.row.logprobs[:n], self.stats
        return Completion(self.text, *columns, job.row.top[:n], job.rounds)

    def wake(self) -> None:
        """Hear that there are tokens."""
        if self.job.ended or not self._only_end:
            self._news.set()

    async def _wait(self) -> None:
        """Wait for news; raise what the request has failed by."""
        try:
            await self._news.wait()
        except asyncio.CancelledError:
            self.close()
            raise
        self._news.clear()
        if self.job.error is not None and not self._ended:
            self._ended = True
            raise self.job.error

    def _new_text(self, closing: bool = False) -> str:
        """Read the tokens that are new."""
        job, is_last = self.job, self.job.ended or closing
        tokens = job.row.tokens[: job.published]
        end = len(tokens) - (bool(tokens) and tokens[-1] in job.request.stops)
        piece = self._reader.read(tokens[:end], last=is_last)
        self.text += piece
        self._ended = is_last
        return piece

"""Let queries wait: they come in one by one, leave in batches, and each is answered.

    ask  →  wait until ``batch_size`` are there or none came for ``timeout``  →  run  →  answer

Equal prompts are one entry until they are answered, so they run once. One task runs one batch after
the other and ends when none is due: an idle queue has no task and no timer. However a batch ends,
its queries are answered: with a result, with the error, or by cancellation.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager

from lablib.inference.async_lm.evaluator import Answers, own_copy
from lablib.inference.async_lm.plan import Prompt

Evaluate = Callable[[list[Prompt], Answers], Generator[None]]
SLICE = 0.005  # seconds of answers without a wait in one turn of the event loop


class QueryQueue:
    """Batch queries by number and by time, and answer each.

    ``evaluate`` puts the answers to some prompts into a dict, and stops where other tasks may have
    their turn. ``batch_size`` and ``timeout``, seconds, may change.
    """

    def __init__(self, evaluate: Evaluate, batch_size: int, timeout: float):
        self.evaluate = evaluate
        self.batch_size = batch_size
        self.timeout = timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: asyncio.Task | None = None  # runs the due batches; None while there are none
        self._timer: asyncio.TimerHandle | None = None  # makes the gathered prompts due
        self._forget()

    def _forget(self) -> None:
        self._stop_timer()
        self._futures: dict[Prompt, list[asyncio.Future]] = {}  # every prompt that waits or runs
        self._gathering: list[Prompt] = []  # until there are enough, or the timer fires
        self._arrived = 0  # queries since the last batch was full
        self._due: deque[Prompt] = deque()

    @property
    def waiting(self) -> list[tuple[Prompt, asyncio.Future]]:
        """Return who has not been answered yet, by order of the first to ask for each prompt."""
        return [(prompt, future) for prompt, group in self._futures.items() for future in group]

    def ask(self, prompt: Prompt, future: asyncio.Future) -> None:
        """Let ``future`` wait for its row ``(V,)``, an error or a cancellation.

        Raises:
            RuntimeError: its event loop is closed, or queries of another loop are waiting.
        """
        loop = future.get_loop()
        if loop.is_closed():
            raise RuntimeError("the event loop of this query's future is closed")
        if loop is not self._loop:
            self._move_to(loop)
        if prompt not in self._futures:
            self._gathering.append(prompt)
        self._futures.setdefault(prompt, []).append(future)
        self._arrived += 1
        self._stop_timer()
        if self._arrived >= self.batch_size:
            self._flush()
        else:
            self._timer = loop.call_later(self.timeout, self._flush)

    def run_now(self) -> None:
        """Answer all that wait, without giving way; RuntimeError if their event loop is closed."""
        if self._futures and not self._loop_runs():
            self._forget()  # nobody can be answered
            raise RuntimeError("the event loop of the waiting queries is closed")
        self._make_due()
        for prompts in self._batches():
            with self._answering(prompts) as steps:
                deque(steps, maxlen=0)

    def cancel(self) -> None:
        """Cancel every query that has not been answered."""
        waiting = self.waiting
        self._forget()
        for _, future in waiting:
            _cancel(future)

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        if any(map(self._wanted, self._futures)) and self._loop_runs():
            cure = "let that loop answer them, or call reset_async_queries()"
            raise RuntimeError(f"queries of another event loop are waiting: {cure}")
        self._forget()  # a closed loop leaves nobody who could be answered
        self._loop = loop
        self._runner = None

    def _loop_runs(self) -> bool:
        """Return whether the loop of those who wait can still answer them."""
        return self._loop is not None and not self._loop.is_closed()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _make_due(self) -> None:
        self._stop_timer()
        self._due.extend(self._gathering)
        self._gathering.clear()
        self._arrived = 0

    def _flush(self) -> None:
        self._make_due()
        if self._due and self._runner is None and self._loop is not None:
            self._runner = self._loop.create_task(self._run())
            self._runner.add_done_callback(self._ran)

    async def _run(self) -> None:
        for prompts in self._batches():
            with self._answering(prompts) as steps:
                for _ in steps:
                    await asyncio.sleep(0)
                    if not any(map(self._wanted, prompts)):
                        break

    def _ran(self, runner: asyncio.Task) -> None:
        if runner is self._runner:  # else another loop has taken over
            self._runner = None
            if runner.cancelled() or runner.exception() is not None:
                self.cancel()  # the loop is shutting down, or the user has interrupted it
            elif self._due:
                self._flush()

    def _batches(self) -> Iterator[list[Prompt]]:
        """Yield the prompts that are due, batch by batch, while somebody waits for them."""
        while self._due:
            prompts: list[Prompt] = []
            while self._due and len(prompts) < self.batch_size:
                prompt = self._due.popleft()
                if self._wanted(prompt):
                    prompts.append(prompt)
                else:
                    self._futures.pop(prompt, None)
            if prompts:
                yield prompts

    def _wanted(self, prompt: Prompt) -> bool:
        return any(not future.done() for future in self._futures.get(prompt, ()))

    @contextmanager
    def _answering(self, prompts: list[Prompt]) -> Iterator[Iterator[None]]:
        """Give the steps of evaluating ``prompts``; however that ends, answer their queries."""
        answers: Answers = {}
        error: BaseException | None = None
        try:
            with closing(self.evaluate(prompts, answers)) as steps:
                yield steps
        except BaseException as raised:
            error = raised
        for prompt in prompts:
            for future in self._futures.pop(prompt, ()):
                if future.done():  # cancelled, and its batch ran on for the others
                    continue
                answer = answers[prompt] if error is None else error
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                elif isinstance(answer, BaseException):
                    _cancel(future)
                else:
                    future.set_result(own_copy(answer))
        if error is not None and not isinstance(error, Exception):
            raise error


class Turn:
    """Say when answers without a wait have had their share of a turn of the event loop.

    All who get such answers spend one share: many of them keep the others waiting no longer than
    one does.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None  # in whose turn a share is spent
        self._ends = 0.0

    def is_spent(self) -> bool:
        """Return whether whoever asks should let other tasks have their turn."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            self._ends = time.monotonic() + SLICE
            loop.call_soon(self._begin)
        return time.monotonic() >= self._ends

    def _begin(self) -> None:
        self._loop = None


def _cancel(future: asyncio.Future) -> None:
    if not future.get_loop().is_closed():  # else nobody is left to hear of it
        future.cancel()

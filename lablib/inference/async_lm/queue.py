"""The waiting room: queries come in one by one, leave in batches, and each is answered.

    ask  →  wait until ``batch_size`` are there or none came for ``timeout``  →  run  →  answer

Equal prompts are one entry until they are answered, so they run once. One task runs one batch after
the other and ends when none is due: an idle queue has no task and no timer. However a batch ends,
its queries are answered: with a result, with the error, or by cancellation.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from lablib.inference.async_lm.evaluator import Answers, own_copy
from lablib.inference.async_lm.plan import Prompt

Evaluate = Callable[[list[Prompt], Answers], Iterator[None]]


@dataclass(eq=False, slots=True)
class Query:
    """A prompt whose next-token log-probabilities somebody awaits."""

    prompt: Sequence[int]
    future: asyncio.Future | None = None  # gets the row (V,), an error or a cancellation


class QueryQueue:
    """Batch queries by number and by time, and answer each.

    ``evaluate`` puts the answers to some prompts into a dict, and stops where other tasks may have
    their turn. ``batch_size`` and ``timeout``, seconds, may change.
    """

    def __init__(self, evaluate: Evaluate, batch_size: int, timeout: float):
        self.evaluate, self.batch_size, self.timeout = evaluate, batch_size, timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: asyncio.Task | None = None  # runs what is due; None while nothing is
        self._timer: asyncio.TimerHandle | None = None  # makes due what has gathered
        self._forget()

    def _forget(self) -> None:
        self._stop_timer()
        self._asked: dict[Prompt, list[Query]] = {}  # every prompt that waits or runs
        self._gathering: list[Prompt] = []  # until there are enough, or the timer fires
        self._arrived = 0  # queries since the last batch was full
        self._due: deque[Prompt] = deque()

    @property
    def queries(self) -> list[Query]:
        """Return who has not been answered yet, by order of the first to ask for each prompt."""
        return [query for group in self._asked.values() for query in group]

    def ask(self, prompt: Prompt, query: Query) -> None:
        """Let a query wait for its batch; RuntimeError if its loop is closed or another waits."""
        loop = query.future.get_loop()
        if loop.is_closed():
            raise RuntimeError("the event loop of this query's future is closed")
        if loop is not self._loop:
            if any(map(self._wanted, self._asked)) and not self._loop.is_closed():
                cure = "let that loop answer them, or call reset_async_queries()"
                raise RuntimeError(f"queries of another event loop are waiting: {cure}")
            self._forget()  # a closed loop leaves nobody who could be answered
            self._loop, self._runner = loop, None
        if prompt not in self._asked:
            self._gathering.append(prompt)
        self._asked.setdefault(prompt, []).append(query)
        self._arrived += 1
        self._stop_timer()
        if self._arrived >= self.batch_size:
            self._flush()
        else:
            self._timer = self._loop.call_later(self.timeout, self._flush)

    def run_now(self) -> None:
        """Answer all that wait, without giving way; RuntimeError if their event loop is closed."""
        if self._asked and self._loop.is_closed():
            self._forget()  # nobody can be answered
            raise RuntimeError("the event loop of the waiting queries is closed")
        self._make_due()
        while prompts := self._next_batch():
            with self._answering(prompts) as steps:
                deque(steps, maxlen=0)

    def cancel(self) -> None:
        """Cancel every query that has not been answered."""
        queries = self.queries
        self._forget()
        for query in queries:
            _cancel(query)

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
        if self._due and self._runner is None:
            self._runner = self._loop.create_task(self._run())
            self._runner.add_done_callback(self._ran)

    async def _run(self) -> None:
        while prompts := self._next_batch():
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

    def _next_batch(self) -> list[Prompt]:
        prompts: list[Prompt] = []
        while self._due and len(prompts) < self.batch_size:
            prompt = self._due.popleft()
            if self._wanted(prompt):
                prompts.append(prompt)
            else:
                self._asked.pop(prompt, None)
        return prompts

    def _wanted(self, prompt: Prompt) -> bool:
        return any(not query.future.done() for query in self._asked.get(prompt, ()))

    @contextmanager
    def _answering(self, prompts: list[Prompt]) -> Iterator[Iterator[None]]:
        """Give the steps of evaluating ``prompts``; however that ends, answer their queries."""
        answers, error = {}, None
        try:
            with closing(self.evaluate(prompts, answers)) as steps:
                yield steps
        except BaseException as raised:
            error = raised
        for prompt in prompts:
            for query in self._asked.pop(prompt, ()):
                if query.future.done():  # cancelled, and its batch ran on for the others
                    continue
                if error is None:
                    query.future.set_result(own_copy(answers[prompt]))
                elif isinstance(error, Exception):
                    query.future.set_exception(error)
                else:
                    _cancel(query)
        if error is not None and not isinstance(error, Exception):
            raise error


def _cancel(query: Query) -> None:
    if not query.future.get_loop().is_closed():  # else nobody is left to hear of it
        query.future.cancel()

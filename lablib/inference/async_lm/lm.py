"""Answer many callers with one language model: they share batches and prefixes unknowingly.

A query waits in ``queue.py`` until its batch is due; ``plan.py`` finds the tokens of a batch that
must run, ``evaluator.py`` runs them, and ``cache/trie.py`` and ``cache/slab.py`` keep the results.
``records.py`` counts. The interface is that of genlm-backend's ``AsyncMlxLM``: its calls
that nothing else needs are in ``genlm.py``. Everything happens on the thread of the event loop,
because an MLX array belongs to the thread that makes it; other tasks have their turn between two
forwards, and after some milliseconds of cached answers.
"""

import asyncio
import math
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lablib.cache.trie import TokenTrie
from lablib.inference.arguments import check_stops, known_ids
from lablib.inference.async_lm.evaluator import Answers, BatchEvaluator, own_copy, rows_of
from lablib.inference.async_lm.genlm import GenlmCalls
from lablib.inference.async_lm.plan import Prompt
from lablib.inference.async_lm.queue import QueryQueue, Turn
from lablib.inference.async_lm.records import BatchRecord
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.sampler import Sampler
from lablib.machine.arrays import listed
from lablib.models import zoo
from lablib.models.interface import context_of
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, integer, number, sequence, token_ids

import mlx.core as mx


@checks_options
class AsyncMlxLM(GenlmCalls):
    """Give next-token log-probabilities, float32 ``(V,)``, to concurrent callers on one event loop.

    Answers are the caller's own: writing into one changes nothing else. A prompt whose logits are
    not finite raises ``ValueError`` for those who asked for it, and nothing of it is kept.

    Args:
        mlx_lm_model: an mlx-lm model or a ``LanguageModel``. If its cache cannot be cut at a token
            (recurrent layers; a sliding window, once past it), prompts run from their start, and a
            warning says so once. A model is tried out when it is first seen: only if rows in a
            batch answer as they do alone do they share forwards.
        tokenizer: kept for the caller; None is fine. Ids that it does not know have probability 0.
        batch_size: how many waiting queries make a batch, and the most prompts in one.
        timeout: seconds after the last arrival until a smaller batch runs.
        prefill_step_size: the most tokens of one forward, padding included.
        cache_size: how many tokens the cache keeps; None: as many as ``cache_bytes`` allows.
            Prompts that are running may take it beyond. A warning says once when callers' prompts
            are evicted and read again: then raise the bound, or let fewer callers run at a time.
        cache_bytes: the most that keys, values and log-probabilities weigh at rest, 1 GiB unless
            said otherwise; None: no bound.

    Raises:
        ValueError, TypeError: an argument is out of range.

    Example:
        >>> many = lablib.AsyncMlxLM(model, tokenizer)
        >>> async def ask():
        ...     return await asyncio.gather(*(many.next_token_logprobs(prompt) for _ in range(9)))
        >>> rows = asyncio.run(ask())
        >>> len(rows), many.stats["prompts"] <= 9
        (9, True)
    """

    def __init__(
        self,
        mlx_lm_model: Any,
        tokenizer: Any,
        batch_size: int = 5,
        timeout: float = 0.001,
        prefill_step_size: int = 2048,
        cache_size: int | None = None,
        *,
        cache_bytes: int | None = 1 << 30,
    ):
        if not callable(mlx_lm_model):
            raise BadType(f"mlx_lm_model must be a model, got {type(mlx_lm_model).__name__}")
        batch_size = integer("batch_size", batch_size, 1)
        timeout = number("timeout", timeout, 0.0)
        integer("prefill_step_size", prefill_step_size, 1)
        if cache_size is not None:
            integer("cache_size", cache_size, 0)
        max_bytes = math.inf if cache_bytes is None else integer("cache_bytes", cache_bytes, 0)
        self.mlx_lm_model = mlx_lm_model
        self.tokenizer = tokenizer
        self._context = context_of(mlx_lm_model)
        n_known = known_ids(mlx_lm_model, tokenizer)
        limits = prefill_step_size, cache_size, max_bytes
        self._evaluator = BatchEvaluator(mlx_lm_model, *limits, n_known=n_known)
        self._queue = QueryQueue(self._evaluator.evaluate, batch_size, timeout)
        self._turn = Turn()

    @classmethod
    def from_name(cls, model_name: str | Path, **kwargs: Any) -> "AsyncMlxLM":
        """Load a shipped model, an mlx-lm directory or a hub id; ``kwargs`` as above."""
        model, tokenizer = zoo.load(model_name)
        return cls(model, tokenizer, **kwargs)

    # Asking.

    async def next_token_logprobs(self, token_ids: Sequence[int]) -> mx.array:
        """Return the log-probabilities ``(V,)`` of the next token; awaiting shares a batch."""
        prompt = self._checked(token_ids)
        row = self._evaluator.lookup(prompt)
        if row is not None:
            if self._turn.is_spent():
                await asyncio.sleep(0)
            return own_copy(row)
        future = asyncio.get_running_loop().create_future()
        self._queue.ask(prompt, future)
        return await future

    async def batch_next_token_logprobs(self, token_ids_list: Sequence[Sequence[int]]) -> mx.array:
        """Return the rows ``(N, V)`` after each of N prompts, which queue like anyone's."""
        prompts = self._all_checked(token_ids_list)
        return mx.stack(await asyncio.gather(*map(self.next_token_logprobs, prompts)))

    def next_token_logprobs_sync(self, token_ids: Sequence[int]) -> mx.array:
        """Return the log-probabilities ``(V,)`` at once; inside a running loop too."""
        return self.batch_next_token_logprobs_sync([self._checked(token_ids)])[0]

    def batch_next_token_logprobs_sync(self, token_ids_list: Sequence[Sequence[int]]) -> mx.array:
        """Return the rows ``(N, V)`` after each of N prompts at once, past the queue."""
        prompts = self._all_checked(token_ids_list)
        distinct = list(dict.fromkeys(prompts))
        answers: Answers = {}
        for start in range(0, len(distinct), self.batch_size):
            batch = distinct[start : start + self.batch_size]
            deque(self._evaluator.evaluate(batch, answers), maxlen=0)
        return own_copy(mx.stack(rows_of(answers, prompts)))  # one row is no copy yet

    async def sample(
        self,
        prompt_token_ids: Sequence[int],
        max_tokens: int,
        eos_token_ids: Iterable[int] | None,
        temperature: float = 1.0,
        seed: int | None = None,
    ) -> list[int]:
        """Sample up to ``max_tokens`` tokens, one by one through the queue.

        Any of ``eos_token_ids`` ends them, and is not returned; None means the model's own.
        ``temperature`` 0 takes the likeliest. A ``seed`` gives ``sample_n``'s row 0, whatever runs
        beside; None draws afresh.
        """
        prompt = self._checked(prompt_token_ids, name="prompt_token_ids")
        integer("max_tokens", max_tokens, 1)
        ends = check_stops(self.mlx_lm_model, eos_token_ids, "eos_token_ids")
        sampler = Sampler(num_ctx=1)
        sampler.add(0, SamplerOptions(temperature=temperature, seed=seed))
        sampled: list[int] = []
        for _ in range(max_tokens):
            row = await self.next_token_logprobs((*prompt, *sampled))
            (token,) = listed(sampler.sample([0], row[None]).token)
            if token in ends:
                break
            sampled.append(token)
        return sampled

    # The queue.

    @property
    def batch_size(self) -> int:
        """Return how many waiting queries make a batch; may be set at any time."""
        return self._queue.batch_size

    @batch_size.setter
    def batch_size(self, value: int) -> None:
        self._queue.batch_size = integer("batch_size", value, 1)

    @property
    def timeout(self) -> float:
        """Return the seconds from the last arrival to a smaller batch; may be set at any time."""
        return self._queue.timeout

    @timeout.setter
    def timeout(self, value: float) -> None:
        self._queue.timeout = number("timeout", value, 0.0)

    # The cache.

    @property
    def cache(self) -> TokenTrie:
        """Return the tree; its ``snapshot()`` and ``events`` are for drawings."""
        return self._evaluator.trie

    @property
    def trace(self) -> tuple[BatchRecord, ...]:
        """Return the latest batches with their forwards; the last may be running."""
        return tuple(self._evaluator.records.batches)

    @property
    def stats(self) -> dict[str, int]:
        """Return running totals.

        ``batches``; ``prompts`` answered, and how many of them were ``cached``; ``forwards``, their
        ``token_forwards`` and beside them ``padding``; prefix tokens ``reused``, not computed, or
        ``reread``: evicted before a caller asked for the token after them, and computed again.
        """
        return dict(self._evaluator.records.stats)

    def cache_kv(self, token_ids: Sequence[int]) -> None:
        """Compute a prompt's keys and values now, so that whoever begins with it has them."""
        prompt = self._checked(token_ids)
        answers: Answers = {}
        deque(self._evaluator.evaluate([prompt], answers, keys=True), maxlen=0)
        rows_of(answers, [prompt])

    def clear_cache(self) -> None:
        """Empty the cache; queries that wait or run are answered all the same."""
        self._evaluator.clear()
        mx.clear_cache()

    def _checked(
        self, prompt: Sequence[int], allow_empty: bool = False, name: str = "token_ids"
    ) -> Prompt:
        prompt = token_ids(name, prompt, self._evaluator.vocab_size, allow_empty)
        limit = self._context
        if limit is not None and len(prompt) > limit:
            length = len(prompt)
            raise BadValue(f"{name} must fit the model's context of {limit} tokens, got {length}")
        return tuple(prompt)

    def _all_checked(self, prompts: Any, name: str = "token_ids_list") -> list[Prompt]:
        prompts = sequence(name, prompts, "prompts")
        if not prompts:
            raise BadValue(f"{name} must hold at least one prompt, got none")
        return [self._checked(prompt, name=f"{name}[{i}]") for i, prompt in enumerate(prompts)]

"""Many completions of one prompt: read it once, fan the cache out, drop the rows that finish.

The cost of ``n`` samples is one prompt, and one batched forward for each further token of the
longest one, of the rows that are still alive. The forward after a row's last token is never run,
and the log-probabilities come from the logits that drew the tokens.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from lablib.cache import kv
from lablib.inference.arguments import check_length, check_prompt, check_stops, read_options
from lablib.inference.samples import Samples
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.sampler import Sampler
from lablib.inference.token_loop import NOT_FINITE
from lablib.validation import BadType, BadValue, integer

import mlx.core as mx


def sample_n(
    model: Any,
    prompt: Sequence[int] | mx.array,
    n: int,
    *,
    max_tokens: int = 100,
    stop_tokens: Collection[int] = (),
    seed: int | None = None,
    max_batch: int | None = None,
    prefill_step_size: int = 512,
    progress: bool = False,
    **sampler_options: Any,
) -> Samples:
    """Draw ``n`` independent completions of one prompt.

    Args:
        model: ``model(tokens (B, T), cache=...) -> logits (B, T, V)``.
        prompt: token ids, at least one; forwarded once, whatever ``n`` is.
        n: how many.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end a row, which then leaves the batch.
        seed: row i draws from the random numbers of (seed, i): it is the same for every ``n`` and
            ``max_batch``, and the same as a sampler's slot added with ``stream=i``.
        max_batch: at most so many rows at a time, to bound memory; None means all.
        prefill_step_size: how many prompt tokens are read at once.
        progress: show a progress bar.
        **sampler_options: the fields of :class:`SamplerOptions`, such as ``temperature=0.8``.

    Raises:
        ValueError: an argument is out of range, or the model's logits are not finite.
        TypeError: an argument is of the wrong type.
    """
    parts = list(
        sample_batches(
            model,
            prompt,
            n,
            max_tokens=max_tokens,
            stop_tokens=stop_tokens,
            seed=seed,
            max_batch=max_batch,
            prefill_step_size=prefill_step_size,
            progress=progress,
            **sampler_options,
        )
    )
    return Samples(
        tokens=[row for part in parts for row in part.tokens],
        logprobs=[row for part in parts for row in part.logprobs],
        finished=[row for part in parts for row in part.finished],
    )


def sample_batches(
    model: Any,
    prompt: Sequence[int] | mx.array,
    n: int,
    *,
    max_tokens: int = 100,
    stop_tokens: Collection[int] = (),
    seed: int | None = None,
    max_batch: int | None = None,
    prefill_step_size: int = 512,
    progress: bool = False,
    **sampler_options: Any,
) -> Iterator[Samples]:
    """Yield what :func:`sample_n` returns in parts of ``max_batch`` rows, as they are ready.

    The arguments are those of :func:`sample_n`, checked at the call and not at the first ``next``.
    Whoever has seen enough stops asking: the prompt was read once, and later rows are never drawn.
    """
    options = read_options({"seed": seed, **sampler_options}, sample_n)
    if options.top_logprobs:
        raise BadValue(
            f"top_logprobs must be 0 here, got {options.top_logprobs}: of many samples only the "
            "chosen tokens' log-probabilities are kept; TokenIterator reports the others"
        )
    prompt = check_prompt(model, prompt)
    n = integer("n", n, 1)
    max_tokens = integer("max_tokens", max_tokens, 1)
    stops = check_stops(model, stop_tokens)
    max_batch = n if max_batch is None else integer("max_batch", max_batch, 1)
    step_size = integer("prefill_step_size", prefill_step_size, 1)
    if not isinstance(progress, bool):
        raise BadType(f"progress must be True or False, got {progress!r}")
    check_length(model, prompt, max_tokens)

    def batches() -> Iterator[Samples]:
        from tqdm.auto import tqdm

        with tqdm(total=n * max_tokens, unit="token", leave=False, disable=not progress) as bar:
            cache = kv.make(model)
            logits = _read_prompt(model, prompt, cache, step_size)
            for first in range(0, n, max_batch):
                rows = range(first, min(first + max_batch, n))
                batch = _Batch(model, prompt, rows, options, stops, max_tokens)
                yield batch.run(cache, logits, bar.update)

    return batches()


def _read_prompt(model: Any, prompt: list[int], cache: list[Any], step_size: int) -> mx.array:
    """Return the logits ``(1, V)`` after the prompt; of the tokens before, only the cache."""
    tokens = mx.array([prompt])
    last = len(prompt) - 1
    for start in range(0, last, step_size):
        model(tokens[:, start : min(start + step_size, last)], cache=cache)
        mx.eval([layer.state for layer in cache])
    return _scores(model, tokens[:, last:], cache)


def _scores(model: Any, tokens: mx.array, cache: list[Any]) -> mx.array:
    """Forward ``tokens (B, T)``; the raw logits ``(B, V)`` after the last one."""
    return model(tokens, cache=cache)[:, -1, :].astype(mx.float32)


class _Batch:
    """Rows of one prompt that grow together."""

    def __init__(
        self,
        model: Any,
        prompt: list[int],
        rows: range,
        options: SamplerOptions,
        stops: frozenset[int],
        max_tokens: int,
    ) -> None:
        self._model, self._stops, self._max_tokens = model, stops, max_tokens
        self._live = list(rows)
        self._tokens: dict[int, list[int]] = {row: [] for row in rows}
        self._logprobs: dict[int, list[float]] = {row: [] for row in rows}
        self._drawn: deque[tuple[Any, ...]] = deque()  # rows and arrays that nobody looked at yet
        self._sampler = Sampler(len(prompt) + max_tokens)
        for row in rows:
            self._sampler.add(row, options, prompt if options.penalizes else (), stream=row)

    def run(self, cache: list[Any], logits: mx.array, report: Callable[[int], object]) -> Samples:
        """Complete the rows from a cache of one row and the logits ``(1, V)`` that follow it."""
        cache = kv.expand(cache, len(self._live))
        logits = mx.broadcast_to(logits, (len(self._live), logits.shape[-1]))
        # Without stop tokens the next forward does not depend on what was drawn: look one step
        # late, so that the device never waits. With them look now: a finished row must not go on.
        lag = 0 if self._stops else 1
        for left in reversed(range(self._max_tokens)):
            token = self._draw(logits)
            self._look(lag)
            report(len(self._live))
            if not left:
                break
            keep = [i for i, row in enumerate(self._live) if not self._ended(row)]
            if len(keep) < len(self._live):
                report((len(self._live) - len(keep)) * left)
                if not keep:
                    break
                self._live = [self._live[i] for i in keep]
                kv.select(cache, keep)
                token = token[mx.array(keep)]
            logits = _scores(self._model, token[:, None], cache)
        self._look(0)
        return Samples(
            tokens=list(self._tokens.values()),
            logprobs=list(self._logprobs.values()),
            finished=[self._ended(row) for row in self._tokens],
        )

    def _draw(self, logits: mx.array) -> mx.array:
        """Queue the draw of one token for each row; returns them unseen ``(B,)``."""
        pending = self._drawn[-1][1][:, None] if self._drawn else None
        token, finite = self._sampler.draw(self._live, logits, pending)
        chosen = mx.take_along_axis(logits, token[:, None], axis=-1)[:, 0]
        self._drawn.append((self._live, token, finite, chosen - mx.logsumexp(logits, axis=-1)))
        mx.async_eval(*self._drawn[-1][1:])
        return token

    def _look(self, lag: int) -> None:
        """Fetch the drawn tokens, all but the last ``lag`` steps; only here does the host wait."""
        while len(self._drawn) > lag:
            rows, *arrays = self._drawn.popleft()
            mx.eval(arrays)
            for row, token, finite, logprob in zip(
                rows, *(array.tolist() for array in arrays), strict=True
            ):
                if not finite:
                    raise BadValue(f"row {row}, token {len(self._tokens[row])}: {NOT_FINITE}")
                self._tokens[row].append(token)
                self._logprobs[row].append(logprob)
                self._sampler.commit(row, (token,))

    def _ended(self, row: int) -> bool:
        return bool(self._stops) and self._tokens[row][-1] in self._stops

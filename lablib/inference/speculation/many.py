"""Several sequences speculate together: one draft and one verification for all, a verdict for each.

Rows accept different numbers of drafts, so after a round each stands somewhere else; the batch
caches of mlx-lm can hold that (``lablib.cache.rewind``). A row's tokens depend on its own
text and random numbers only: it is the same alone, in any batch and beside any other row. The round
is that of one text, ``round.py``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder, can_batch
from lablib.inference import arguments
from lablib.inference.samples import Row, Samples
from lablib.inference.speculation.drafters import Drafter, as_drafter
from lablib.inference.speculation.judge import Judge
from lablib.inference.speculation.round import Rounds
from lablib.inference.speculation.rules import named
from lablib.inference.speculation.tokens import COUNTS, SpeculativeTokenIterator, ratios
from lablib.inference.text_sampler import TextSampler
from lablib.inference.token_loop import PromptReader
from lablib.models.interface import position_table_of
from lablib.validation import BadValue, flag, function, integer

import mlx.core as mx


def speculative_sample_n(
    target: Any, draft: Any, prompt: Sequence[int] | mx.array, n: int, **options: Any,
) -> Samples:  # fmt: skip
    """Draw ``n`` completions of one prompt, as ``sample_n`` does, with the help of a drafter.

    The prompt is read once (:func:`speculative_batch` takes several). Under ``rule="match"`` row i
    is the row i of ``sample_n`` with the same seed. The other arguments are those of
    :func:`speculative_batches`.
    """
    n = integer("n", n, 1)
    prompt = arguments.check_prompt(target, prompt, "target")
    return speculative_batch(target, draft, [prompt] * n, **options)


def speculative_batch(
    target: Any, draft: Any, prompts: Sequence[Sequence[int] | mx.array], **options: Any
) -> Samples:
    """Complete several prompts at once; the arguments are those of :func:`speculative_batches`."""
    parts = list(speculative_batches(target, draft, prompts, **options))
    return Samples.joined(parts, stats=_summed([part.stats for part in parts]))


def speculative_batches(
    target: Any, draft: Any, prompts: Sequence[Sequence[int] | mx.array], *,
    max_tokens: int = 100, draft_tokens: int = 4, rule: str | None = None,
    drafter: Drafter | None = None, stop_tokens: Iterable[int] = (),
    max_batch: int | None = None, prefill_step_size: int = 512, progress: bool = False,
    ended: Callable[[int, list[int]], bool] = Row.ended, **sampler_options: Any,
) -> Iterator[Samples]:  # fmt: skip
    """Complete several prompts, and yield them in parts of ``max_batch`` as they are ready.

    Keywords mean what they mean in ``sample_n`` and ``SpeculativeTokenIterator`` (``draft_tokens``
    is a number); row i draws from stream i of the seed, and what its prompt has in common with that
    of the row before is not read again. What cannot share a batch (a quantised cache, Mamba 1, a
    drafter that works in the target's cache, a text that may fill a table of positions) is run row
    by row, with the same result. A row leaves after a stop token, or after the round in which
    ``ended(i, its tokens)`` has become true.

    Raises:
        ValueError, TypeError: an argument is out of range; at the call, before any work.
    """
    prompts = arguments.check_prompts(target, prompts, "target")
    if not prompts:
        raise BadValue("prompts must hold at least one prompt, got none")
    asked = arguments.read_request(
        speculative_batches, target, prompts[0], max_tokens=max_tokens, stop_tokens=stop_tokens,
        prefill_step_size=prefill_step_size, sampler_options=sampler_options, name="target",
        many=True,
    )  # fmt: skip
    draft_tokens = integer("draft_tokens", draft_tokens, 1)
    max_batch = len(prompts) if max_batch is None else integer("max_batch", max_batch, 1)
    flag("progress", progress)
    function("ended", ended)
    drafter = as_drafter(draft, drafter)
    rule = named(rule, drafter.trees)
    session = drafter.begin(target, kv.make(target), None)  # refuses what does not fit the target
    draft_model = None if session.in_target_cache else session.model
    models = [target] if draft_model is None else [target, draft_model]
    for prompt in prompts:
        for model in models:
            arguments.check_length(model, prompt, max_tokens)

    more = asked.max_tokens, asked.stops, ended
    rows = [Row(i, each, asked.options, i, *more) for i, each in enumerate(prompts)]
    return _Together(models, drafter, asked, rule, draft_tokens).parts(rows, max_batch, progress)


class _Together:
    """Rows that speculate in batches, or each by itself; ``models`` has the draft model second."""

    def __init__(
        self, models: Sequence[Any], drafter: Drafter, asked: arguments.Request, rule: str,
        draft_tokens: int,
    ) -> None:  # fmt: skip
        self._models, self._drafter, self._asked = models, drafter, asked
        self._rule, self._draft_tokens = rule, draft_tokens
        self._prompts = [PromptReader(model, asked.step_size) for model in models]

    def parts(self, rows: Sequence[Row], max_batch: int, progress: bool) -> Iterator[Samples]:
        """Yield the completions, ``max_batch`` rows at a time."""
        from tqdm.auto import tqdm

        batched = len(rows) > 1 and self._can_hold([row.prompt for row in rows])
        with tqdm(total=len(rows), unit="row", leave=False, disable=not progress) as bar:
            for first in range(0, len(rows), max_batch):
                part = rows[first : first + max_batch]
                counts = [self._run(part)] if batched else [self._run_alone(row) for row in part]
                bar.update(len(part))
                yield Samples.of(part, stats=_summed(counts))

    def _can_hold(self, prompts: Sequence[Sequence[int]]) -> bool:
        """Return whether these prompts may share a batch of each model."""
        # A row that is nearly complete still reads as many drafts as the others.
        longest = max(map(len, prompts)) + self._asked.max_tokens - 1 + self._draft_tokens
        return (
            self._drafter.batches
            and not self._drafter.trees
            and all(
                longest <= (position_table_of(model) or longest)
                and can_batch(model, kv.make(model))
                for model in self._models
            )
        )

    def _run_alone(self, row: Row) -> dict[str, Any]:
        """Complete one row by itself; returns its counts."""
        asked = self._asked
        iterator = SpeculativeTokenIterator(
            self._models[0], self._drafter, row.prompt, max_tokens=asked.max_tokens,
            draft_tokens=self._draft_tokens, rule=self._rule, stop_tokens=asked.stops,
            stream=row.stream, prefill_step_size=asked.step_size, **asdict(asked.options),
        )  # fmt: skip
        while row.left and (token := next(iterator)):
            row.take([token.id], [token.logprob])
        return iterator.stats

    def _run(self, rows: Sequence[Row]) -> dict[str, int]:
        """Complete the rows; returns their counts."""
        asked, counts = self._asked, dict.fromkeys(COUNTS, 0)
        readers = [_read(prompts, [row.prompt for row in rows]) for prompts in self._prompts]
        texts, live = [list(row.prompt) for row in rows], list(rows)
        streams = [row.stream for row in rows]
        sampler = TextSampler(asked.options, texts, asked.max_tokens, streams)
        drafter = self._drafter.begin_batch(readers[-1] if len(readers) > 1 else None, len(rows))
        rounds = Rounds(texts, readers[0], drafter, Judge(sampler, self._rule, asked.stops))
        while live:
            limits = [min(self._draft_tokens, row.left - 1) for row in live]
            verdicts = (rounds.round(limits) if any(limits) else None) or rounds.plain()
            for row, verdict in zip(live, verdicts, strict=True):
                row.take(verdict.tokens, verdict.logprobs)
                counts["tokens"] += len(verdict.tokens)
                verdict.add_to(counts)
            going = [place for place, row in enumerate(live) if row.left]
            if going and len(going) < len(live):
                rounds.select(going)
            live = [live[place] for place in going]
        counts["target_calls"] = readers[0].calls
        counts["draft_calls"] = sum(reader.calls for reader in readers[1:])
        return counts


def _read(reader: PromptReader, prompts: Sequence[Sequence[int]]) -> Rewinder:
    """Return the model with the cache of a batch of prompts, and the calls that reading took."""
    before = reader.calls
    cache = kv.merge([reader.read(prompt) for prompt in prompts])
    batch = Rewinder(reader.model, cache, lengths=[len(prompt) - 1 for prompt in prompts])
    batch.calls = reader.calls - before
    return batch


def _summed(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the stats of all ``parts`` together."""
    counts = {key: sum(part[key] for part in parts) for key in COUNTS}
    return counts | ratios(counts)

"""Several sequences speculate together: one draft and one verification for all, a verdict for each.

Rows accept different numbers of drafts, so after a round each stands somewhere else; the batch
caches of mlx-lm can hold that (``lablib.cache.rewind_batch``). A row's tokens depend on its own
text and random numbers only: it is the same alone, in any batch and beside any other row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind_batch import BatchRewinder, can_batch, merge
from lablib.inference.arguments import check_length, check_prompt, check_stops, read_options
from lablib.inference.samples import Samples
from lablib.inference.speculation.drafters import Drafter, DraftModel, NGram, as_drafter
from lablib.inference.speculation.judge import Judge, Proposal, Verdict
from lablib.inference.speculation.rules import RULES
from lablib.inference.speculation.tokens import SpeculativeTokenIterator
from lablib.models.interface import position_table_of
from lablib.validation import BadValue, integer, one_of

import mlx.core as mx


@dataclass(frozen=True)
class SpeculativeSamples(Samples):
    """:class:`Samples`, and how they came about.

    Attributes:
        stats: the keys of ``SpeculativeTokenIterator`` that count drafts and calls, over all rows;
            ``rounds`` counts each row's verifications, ``target_calls`` the forwards of the batch.
    """

    stats: dict[str, Any] = field(default_factory=dict)


def speculative_sample_n(
    target: Any,
    draft: Any,
    prompt: Sequence[int] | mx.array,
    n: int,
    **options: Any,
) -> SpeculativeSamples:
    """Draw ``n`` completions of one prompt, as ``sample_n`` does, with the help of a drafter.

    Args:
        target: the model whose text comes out.
        draft: a smaller model of the same vocabulary, or a drafter.
        prompt: token ids; read once, whatever ``n`` is.
        n: how many.
        **options: see :func:`speculative_batches`. Under ``rule="match"`` row i is the row i of
            ``sample_n`` with the same seed.
    """
    n = integer("n", n, 1)
    prompt = check_prompt(target, prompt, "target")
    return speculative_batch(target, draft, [prompt] * n, **options)


def speculative_batch(
    target: Any, draft: Any, prompts: Sequence[Sequence[int] | mx.array], **options: Any
) -> SpeculativeSamples:
    """Complete several prompts at once; the arguments are those of :func:`speculative_batches`."""
    parts = list(speculative_batches(target, draft, prompts, **options))
    counts = [{name: part.stats[name] for name in _COUNTS} for part in parts]
    return SpeculativeSamples(
        tokens=[row for part in parts for row in part.tokens],
        logprobs=[row for part in parts for row in part.logprobs],
        finished=[row for part in parts for row in part.finished],
        stats=_stats({name: sum(each[name] for each in counts) for name in _COUNTS}),
    )


def speculative_batches(
    target: Any,
    draft: Any,
    prompts: Sequence[Sequence[int] | mx.array],
    *,
    max_tokens: int = 100,
    draft_tokens: int = 4,
    rule: str | None = None,
    drafter: Drafter | None = None,
    stop_tokens: Iterable[int] = (),
    max_batch: int | None = None,
    prefill_step_size: int = 512,
    **sampler_options: Any,
) -> Iterator[SpeculativeSamples]:
    """Complete several prompts, and yield them in parts of ``max_batch`` as they are ready.

    Args:
        target: ``model(tokens (B, T), cache=...) -> logits (B, T, V)``; its text comes out.
        draft: a smaller model of the same vocabulary, or a drafter.
        prompts: token ids of each sequence; equal prompts are read once.
        max_tokens: the length of a completion at most.
        draft_tokens: how many tokens to draft in a round.
        rule: "match", "rejection" or "block"; None means "rejection".
        drafter: where proposals come from if not from a model.
        stop_tokens: ids that end a row, which then leaves the batch.
        max_batch: at most so many rows at a time, to bound memory; None means all.
        prefill_step_size: how many prompt tokens are read at once.
        **sampler_options: the fields of :class:`SamplerOptions`; row i draws from stream i of
            the seed.

    Returns:
        The completions in the order of the prompts. What cannot share a batch (a quantised cache,
        Mamba 1, a drafter of one's own, a text that may fill a table of positions) is run row by
        row, with the same result.

    Raises:
        ValueError: an argument is out of range; at the call, before any work.
        TypeError: an argument is of the wrong type; the same.
    """
    options = read_options(sampler_options, speculative_batches)
    if options.top_logprobs:
        raise BadValue(f"top_logprobs must be 0 in a batch, got {options.top_logprobs}")
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not len(prompts):
        raise BadValue("prompts must be a list of at least one prompt")
    prompts = [check_prompt(target, prompt, "target") for prompt in prompts]
    integer("max_tokens", max_tokens, 1)
    integer("draft_tokens", draft_tokens, 1)
    integer("prefill_step_size", prefill_step_size, 1)
    rule = one_of("rule", "rejection" if rule is None else rule, RULES)
    stops = check_stops(target, stop_tokens)
    max_batch = len(prompts) if max_batch is None else integer("max_batch", max_batch, 1)
    asked = as_drafter(draft, drafter)
    session = asked.begin(target, kv.make(target), None)  # refuses what does not fit the target
    models = [target, session.model] if isinstance(session, DraftModel) else [target]
    for prompt in prompts:
        for model in models:
            check_length(model, prompt, max_tokens)
    # A row that is nearly complete still reads as many drafts as the others.
    longest = max(map(len, prompts)) + max_tokens - 1 + draft_tokens

    def alone(number: int, row: "_Row") -> list[int]:
        iterator = SpeculativeTokenIterator(
            target, asked, prompts[number], max_tokens=max_tokens, draft_tokens=draft_tokens,
            rule=rule, stop_tokens=stops, stream=number, prefill_step_size=prefill_step_size,
            **sampler_options,
        )  # fmt: skip
        for _ in iterator:
            pass
        row.take(iterator)
        return [iterator.stats["target_calls"], iterator.stats["draft_calls"]]

    def batches() -> Iterator[SpeculativeSamples]:
        together = (
            len(prompts) > 1
            and isinstance(session, DraftModel | NGram)
            and all(longest <= (position_table_of(model) or longest) for model in models)
            and all(can_batch(model, _fresh(model)) for model in models)
        )
        texts = _Prompts(models, prompts, prefill_step_size)
        for first in range(0, len(prompts), max_batch):
            numbers = range(first, min(first + max_batch, len(prompts)))
            rows = [_Row(list(prompts[i]), len(prompts[i])) for i in numbers]
            if together:
                judge = Judge(options, rule, [row.text for row in rows], max_tokens, numbers)
                lookups = None
                if len(models) == 1:
                    lookups = [asked.begin(target, [], None) for _ in rows]
                batch = _Batch(models, texts.read(numbers), lookups, judge, rows, stops, max_tokens)
                batch.run(draft_tokens)
                calls = [batch.calls, texts.calls]
            else:
                calls = [alone(*pair) for pair in zip(numbers, rows, strict=True)]
            yield _result(rows, stops, [sum(each) for each in zip(*calls, strict=True)])

    return batches()


@dataclass
class _Row:
    """One sequence, and what happened to it."""

    text: list[int]  # the prompt and its completion
    start: int  # where the completion begins
    logprobs: list[float] = field(default_factory=list)
    drafted: int = 0
    accepted: int = 0
    reached: int = 0
    rounds: int = 0

    @property
    def tokens(self) -> list[int]:
        return self.text[self.start :]

    def take(self, iterator: SpeculativeTokenIterator) -> None:
        self.text += iterator.tokens
        self.logprobs += iterator.logprobs
        stats = iterator.stats
        self.drafted, self.accepted = stats["total_drafted"], stats["total_accepted"]
        self.reached, self.rounds = stats["total_reached"], stats["rounds"]

    def record(self, verdict: Verdict, stops: frozenset[int]) -> list[int]:
        """Append what a round decided, up to a stop token; returns the new tokens."""
        used = verdict.until(stops)
        self.text += used.tokens
        self.logprobs += used.logprobs
        self.drafted += len(used.drafted)
        self.accepted += used.accepted
        self.reached += used.reached
        self.rounds += 1
        return used.tokens


class _Prompts:
    """Reads prompts, all but their last tokens; equal ones once.

    Attributes:
        calls: forwards of the target and of the draft model that the last ``read`` took.
    """

    def __init__(
        self, models: Sequence[Any], prompts: Sequence[Sequence[int]], step_size: int
    ) -> None:
        self._models, self._step_size = models, step_size
        self._texts = [tuple(prompt) for prompt in prompts]
        self._known: dict[tuple[int, ...], list[list[Any]]] = {}
        self.calls = [0, 0]

    def read(self, numbers: range) -> list[list[Any]]:
        """Each model's cache of a batch of these rows."""
        self.calls = [0, 0]
        for text in dict.fromkeys(self._texts[i] for i in numbers):
            if text not in self._known:
                self._known[text] = [self._one(k, text) for k in range(len(self._models))]
        caches = [
            merge([self._known[self._texts[i]][k] for i in numbers])
            for k in range(len(self._models))
        ]
        later = set(self._texts[numbers.stop :])
        self._known = {text: each for text, each in self._known.items() if text in later}
        return caches

    def _one(self, k: int, text: tuple[int, ...]) -> list[Any]:
        model, cache = self._models[k], _fresh(self._models[k])
        for start in range(0, len(text) - 1, self._step_size):
            chunk = text[start : min(start + self._step_size, len(text) - 1)]
            model(mx.array([chunk]), cache=cache)
            self.calls[k] += 1
            mx.eval([layer.state for layer in cache])
        return cache


class _Batch:
    """Rows that speculate together until all are complete."""

    def __init__(
        self,
        models: Sequence[Any],
        caches: Sequence[list[Any]],
        lookups: list[NGram] | None,
        judge: Judge,
        rows: Sequence[_Row],
        stops: frozenset[int],
        max_tokens: int,
    ) -> None:
        self._judge, self._stops, self._max_tokens = judge, stops, max_tokens
        self._live, self._lookups = list(rows), lookups
        self._rewinders = [BatchRewinder(*pair) for pair in zip(models, caches, strict=True)]

    @property
    def calls(self) -> list[int]:
        """Forwards of the target and of the draft model."""
        made = [rewinder.calls for rewinder in self._rewinders] + [0]
        return made[:2]

    def run(self, draft_tokens: int) -> None:
        """Complete all rows."""
        while self._live:
            wanted = [self._max_tokens - len(row.tokens) for row in self._live]
            limits = [min(draft_tokens, left - 1) for left in wanted]
            for rewinder in self._rewinders:
                rewinder.settle()
            proposal, limits = self._propose(limits)
            last = mx.array([[row.text[-1]] for row in self._live])
            if proposal is None:
                logits = self._rewinders[0].forward(last)[:, -1]
                verdicts = self._judge.read_plain(self._judge.draw_plain(logits))
            else:
                block = mx.concatenate([last, proposal.tokens], axis=1)
                logits = self._rewinders[0].forward(block)
                verdicts = self._judge.judge(logits, proposal, limits)
            self._settle(verdicts, 0 if proposal is None else proposal.tokens.shape[1])

    def _propose(self, limits: list[int]) -> tuple[Proposal | None, list[int]]:
        """Drafts for all rows, and how many of them each row means."""
        if self._lookups is not None:
            found = [
                lookup.lookup(row.text, limit) if limit else []
                for lookup, row, limit in zip(self._lookups, self._live, limits, strict=True)
            ]
            limits = [len(drafts) for drafts in found]
            longest = max(limits)
            if not longest:
                return None, limits
            padded = [drafts + [0] * (longest - len(drafts)) for drafts in found]
            return Proposal(mx.array(padded, mx.int32)), limits
        model = self._rewinders[1]
        unread = mx.array([[row.text[-1]] for row in self._live])
        tokens, logits, q = [], [], []
        for _ in range(max(limits)):
            logits.append(model.forward(unread)[:, -1])
            token, probabilities = self._judge.choose(logits[-1], tokens)
            mx.async_eval(token)
            tokens.append(token)
            q.append(probabilities)
            unread = token[:, None]
        model.forward(unread)  # the last draft too: both models have read the same then
        if not tokens:
            return None, limits
        q = None if q[0] is None else mx.stack(q, axis=1)
        return Proposal(mx.stack(tokens, axis=1), q, mx.stack(logits, axis=1)), limits

    def _settle(self, verdicts: Sequence[Verdict], drafted: int) -> None:
        """Book the verdicts, take back what was read in vain, drop the rows that are complete."""
        new = [
            row.record(verdict, self._stops)
            for row, verdict in zip(self._live, verdicts, strict=True)
        ]
        self._judge.commit(new)
        going = [
            place
            for place, row in enumerate(self._live)
            if len(row.tokens) < self._max_tokens and row.text[-1] not in self._stops
        ]
        surplus = [drafted + 1 - len(tokens) for tokens in new]
        for rewinder in self._rewinders if going else []:
            rewinder.rewind(surplus)
            if len(going) < len(self._live):
                rewinder.select(going)
        if len(going) < len(self._live):
            self._judge.select(going)
            self._live = [self._live[place] for place in going]
            if self._lookups is not None:
                self._lookups = [self._lookups[place] for place in going]


def _fresh(model: Any) -> list[Any]:
    """An empty cache; a model whose last layers were taken off may still make them all."""
    return kv.make(model)[: len(model.layers)]


_COUNTS = (
    "tokens", "total_drafted", "total_accepted", "total_reached", "rounds", "target_calls",
    "draft_calls",
)  # fmt: skip


def _result(
    rows: Sequence[_Row], stops: frozenset[int], calls: Sequence[int]
) -> SpeculativeSamples:
    columns = zip(
        *((len(r.tokens), r.drafted, r.accepted, r.reached, r.rounds) for r in rows), strict=True
    )
    return SpeculativeSamples(
        tokens=[row.tokens for row in rows],
        logprobs=[row.logprobs for row in rows],
        finished=[row.text[-1] in stops for row in rows],
        stats=_stats(dict(zip(_COUNTS, [*map(sum, columns), *calls], strict=True))),
    )


def _stats(counts: dict[str, int]) -> dict[str, Any]:
    """The counts, and the ratios that are made of them."""
    drafted, reached = counts["total_drafted"], counts["total_reached"]
    return counts | {
        "acceptance_rate": counts["total_accepted"] / drafted if drafted else 0.0,
        "alpha": counts["total_accepted"] / reached if reached else 0.0,
        "tokens_per_round": counts["tokens"] / counts["rounds"],
    }

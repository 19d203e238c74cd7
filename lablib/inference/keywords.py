"""Types the options that functions pass on, so that an editor knows them and marks a wrong one."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypedDict

from lablib.inference.sampling.processors import LogitsProcessor

Ended = Callable[[int, list[int]], bool]  # whether the text of a row ends here


class Cuts(TypedDict, total=False):
    """Fields of :class:`SamplerOptions` but for the temperature, which some functions name."""

    top_p: float
    min_p: float
    top_k: int
    repeat_last_n: int
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    seed: int | None
    logprobs: bool
    top_logprobs: int


class SamplerKeywords(Cuts, total=False):
    """All fields of :class:`SamplerOptions`."""

    temperature: float


class SampleKeywords(SamplerKeywords, total=False):
    """Those of :func:`sample_batches`."""

    max_tokens: int
    stop_tokens: Collection[int] | None
    max_batch: int | None
    prefill_step_size: int
    logits_processors: Sequence[LogitsProcessor]
    progress: bool


class SpeculativeKeywords(SampleKeywords, total=False):
    """Those of :func:`speculative_batches`."""

    draft_tokens: int
    rule: str | None
    ended: Ended | None


class RoundsKeywords(Cuts, total=False):
    """Those that :func:`vote_until` passes on; the last two with a draft model only."""

    stop_tokens: Collection[int] | None
    prefill_step_size: int
    logits_processors: Sequence[LogitsProcessor]
    progress: bool
    draft_tokens: int
    rule: str | None


class VoteKeywords(RoundsKeywords, total=False):
    """Those that :func:`best_of_n` and :func:`majority_vote` pass on."""

    max_batch: int | None


class OneText(TypedDict, total=False):
    """Those of :class:`SpeculativeTokenIterator` that are about one text."""

    rule: str | None
    cache: list[Any] | None
    draft_cache: list[Any] | None
    prefill_step_size: int
    logits_processors: Sequence[LogitsProcessor]
    trace: bool
    stream: int


class DecodeKeywords(OneText, Cuts, total=False):
    """Those that :func:`speculative_decode` passes on."""

    stop_tokens: Collection[int] | None


class StreamKeywords(OneText, SamplerKeywords, total=False):
    """Those that :func:`stream` passes on; of drafts with a draft model only."""

    draft_tokens: Any


class AnyText(TypedDict, total=False):
    """Those of :func:`stream` that several prompts have, too."""

    stop: str | Sequence[str]
    stop_tokens: Collection[int] | None
    draft_model: Any


class TextKeywords(AnyText, StreamKeywords, total=False):
    """Those that :func:`generate` passes on, of one prompt."""


class SeveralKeywords(AnyText, SamplerKeywords, total=False):
    """Those that :func:`generate` passes on, of several prompts."""

    max_batch: int | None
    prefill_step_size: int
    logits_processors: Sequence[LogitsProcessor]
    draft_tokens: int
    rule: str | None

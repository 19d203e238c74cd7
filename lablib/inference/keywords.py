"""Types the options that functions pass on, so that an editor knows them and marks a wrong one."""

from collections.abc import Collection, Sequence
from typing import Any, TypedDict

from lablib.inference.sampling.processors import LogitsProcessor


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


class CutsOfEach(TypedDict, total=False):
    """Those of :class:`Cuts`: one value for all completions, or a list of one for each."""

    top_p: float | Sequence[float]
    min_p: float | Sequence[float]
    top_k: int | Sequence[int]
    repeat_last_n: int | Sequence[int]
    repeat_penalty: float | Sequence[float]
    presence_penalty: float | Sequence[float]
    frequency_penalty: float | Sequence[float]
    seed: int | Sequence[int | None] | None
    logprobs: bool | Sequence[bool]
    top_logprobs: int | Sequence[int]


class SamplersOfEach(CutsOfEach, total=False):
    """Those of :class:`SamplerKeywords`: one value for all, or a list of one for each."""

    temperature: float | Sequence[float]


class RowsKeywords(TypedDict, total=False):
    """Those of all functions that write texts side by side."""

    stop_tokens: Collection[int] | None
    stop: str | Sequence[str]
    prefill_step_size: int
    logits_processors: Sequence[LogitsProcessor]


class DraftKeywords(TypedDict, total=False):
    """Those that make sense with a draft model only."""

    draft_tokens: int
    rule: str | None


class SampleKeywords(SamplersOfEach, RowsKeywords, total=False):
    """Those of :func:`samples` without a drafter."""

    max_tokens: int | Sequence[int]
    max_batch: int | None
    tokenizer: Any
    progress: bool


class SpeculativeKeywords(SampleKeywords, DraftKeywords, total=False):
    """Those of :func:`samples`."""


class RoundsKeywords(CutsOfEach, RowsKeywords, DraftKeywords, total=False):
    """Those that :func:`vote_until` passes on."""

    tokenizer: Any
    progress: bool


class VoteKeywords(RoundsKeywords, total=False):
    """Those that :func:`best_of_n` and :func:`majority_vote` pass on."""

    max_batch: int | None


class OneText(TypedDict, total=False):
    """Those of :class:`SpeculativeTokenIterator` that are about one text."""

    rule: str | None
    cache: list[Any] | None
    cached_tokens: list[int] | None
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


class TextKeywords(StreamKeywords, total=False):
    """Those that :func:`generate` passes on, of one prompt."""

    stop: str | Sequence[str]
    stop_tokens: Collection[int] | None
    draft_model: Any


class SeveralKeywords(SamplersOfEach, RowsKeywords, DraftKeywords, total=False):
    """Those that :func:`generate` passes on, of several prompts."""

    draft_model: Any
    max_batch: int | None


class NoKeywords(TypedDict, total=False):
    """None: whatever else is given is refused, with the name that it has here."""

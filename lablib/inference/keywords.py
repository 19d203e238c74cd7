"""Types the options that functions pass on, so that an editor knows them and marks a wrong one."""

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from textwrap import indent, wrap
from typing import Any, TypedDict, TypeVar

from lablib.inference.sampling.processors import LogitsProcessor

Entry = TypeVar("Entry", bound=Callable[..., Any])
_wrapped = cache(partial(wrap, width=96, subsequent_indent="  "))  # of many entries, once


class AllButTemperature(TypedDict, total=False):
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


class SamplerKeywords(AllButTemperature, total=False):
    """All fields of :class:`SamplerOptions`."""

    temperature: float


class AllButTemperatureOfEach(TypedDict, total=False):
    """The same: one value for all completions, or a list of one for each."""

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


class SamplersOfEach(AllButTemperatureOfEach, total=False):
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
    rule: str | Callable[..., Any] | None


class SampleKeywords(SamplersOfEach, RowsKeywords, total=False):
    """Those of :func:`samples` without a drafter."""

    max_tokens: int | Sequence[int]
    max_batch: int | None
    tokenizer: Any
    progress: bool


class SpeculativeKeywords(SampleKeywords, DraftKeywords, total=False):
    """Those of :func:`samples`."""


class RoundsKeywords(AllButTemperatureOfEach, RowsKeywords, DraftKeywords, total=False):
    """Those that :func:`vote_until` passes on."""

    tokenizer: Any
    progress: bool


class VoteKeywords(RoundsKeywords, total=False):
    """Those that :func:`best_of_n` and :func:`majority_vote` pass on."""

    max_batch: int | None


class OneText(TypedDict, total=False):
    """Those of :class:`SpeculativeTokenIterator` that are about one text."""

    rule: str | Callable[..., Any] | None
    cache: list[Any] | None
    cached_tokens: list[int] | None
    draft_cache: list[Any] | None
    prefill_step_size: int
    logits_processors: Sequence[LogitsProcessor]
    trace: bool
    stream: int


class DecodeKeywords(OneText, AllButTemperature, total=False):
    """Those that :func:`speculative_decode` passes on."""

    stop_tokens: Collection[int] | None
    tokenizer: Any


class StreamKeywords(OneText, SamplerKeywords, total=False):
    """Those that :func:`stream` passes on; of drafts with a draft model only."""

    draft_tokens: Any


class TextKeywords(StreamKeywords, total=False):
    """Those that :func:`generate` passes on, of one prompt."""

    template: dict[str, Any] | None
    stop: str | Sequence[str]
    stop_tokens: Collection[int] | None
    draft_model: Any


class SeveralKeywords(SamplersOfEach, RowsKeywords, DraftKeywords, total=False):
    """Those that :func:`generate` passes on, of several prompts."""

    template: dict[str, Any] | None
    draft_model: Any
    max_batch: int | None


class RequestKeywords(TypedDict, total=False):
    """Those of a request to an :class:`Engine`; of drafts if it has a draft model only."""

    template: dict[str, Any] | None
    stop: str | Sequence[str]
    stop_tokens: Collection[int] | None
    logits_processors: Sequence[LogitsProcessor]
    draft_tokens: int
    rule: str | Callable[..., Any] | None
    trace: bool


class EngineKeywords(RequestKeywords, SamplerKeywords, total=False):
    """Those of a request for one completion."""

    stream: int


class EnginesKeywords(RequestKeywords, SamplersOfEach, total=False):
    """Those of a request for several."""


class NoKeywords(TypedDict, total=False):
    """None: whatever else is given is refused, with the name that it has here."""


# --- what help says of them ---------------------------------------------------------------------

# Heading -> name -> default and meaning. "[each]": of several texts a list has a value for each.
OPTIONS: dict[str, dict[str, str]] = {
    "Where the text begins": {
        "template": "None; of messages: settings for the chat template, such as "
        '``{"enable_thinking": False, "tools": [...]}``. What it doesn\'t read is refused.',
    },
    "Where the text ends": {
        "max_tokens": "100; at least 1. How many tokens to generate at most [each].",
        "stop": "(); a string, or several, none empty. The text ends before the one that is "
        "complete first, however it is cut into tokens.",
        "stop_tokens": "None, the end tokens of the tokenizer or the model; or ids of the "
        "vocabulary; () means none.",
        "tokenizer": "None; reads a prompt that is a text or messages, finds stop strings, and its "
        "ids alone are drawn. Without one all rows "
        "of the model are, but of a model of ``lablib.load``, which knows its tokenizer's ids.",
    },
    "How tokens are drawn, in this order (:class:`SamplerOptions`)": {
        "logits_processors": "(); functions ``f(tokens (T,), logits (1, V)) -> logits``. One with "
        "a state and a method ``copy`` is copied for each text.",
        "repeat_penalty": "1.0, which is off; up to 1e6 [each] (Keskar et al. 2019, 1909.05858).",
        "presence_penalty": "0.0, which is off; from -1e6 to 1e6 [each].",
        "frequency_penalty": "0.0, which is off; from -1e6 to 1e6 [each].",
        "repeat_last_n": "64; how many of the latest tokens penalties see; 0: none, -1: all "
        "[each].",
        "top_k": "0, which is off; keep so many of the best [each] (Fan et al. 2018, 1805.04833).",
        "temperature": "1.0; at least 0, which takes the best token [each].",
        "top_p": "1.0, which is off; from 0 to 1 [each] (Holtzman et al. 2019, 1904.09751).",
        "min_p": "0.0, which is off; from 0 to 1 [each] (Nguyen et al. 2024, 2407.01082).",
        "seed": "None, drawn afresh; or any int [each].",
        "stream": "0; at least 0. The random stream of the seed, of one prompt.",
    },
    "What comes back": {
        "top_logprobs": "0; how many of the best tokens ``.top_logprobs`` has beside each [each].",
        "logprobs": "False; changes nothing, as ``.logprobs`` are always there [each].",
        "progress": "False; True shows a progress bar.",
    },
    "With a drafter's help (Leviathan et al. 2023, 2211.17192)": {
        "draft_model": "None; a smaller model of the same vocabulary, or a drafter such as "
        "``NGram()``.",
        "draft_tokens": "4; at least 1, or of one prompt ``AdaptiveLength()``.",
        "rule": 'None, which is "rejection"; "match", "coupled" or "block", with a ``Tree`` '
        '"optimal", another name in ``lablib.rules.RULE``, or a function such as these.',
        "trace": "False; True keeps the verdicts of one prompt's rounds, in ``.rounds``.",
    },
    "How it is computed, which changes no text": {
        "cache": "None, a new one; or, of one prompt, the one that earlier tokens left behind, "
        "changed in place. The prompt continues after them.",
        "cached_tokens": "None; or the list of all tokens that the caches have read, changed with "
        "them. Then prompt or messages are the whole, and what they share with it is not read "
        "again.",
        "draft_cache": "None; the same of the draft model.",
        "prefill_step_size": "512; at least 1. How many prompt tokens are read at once.",
        "max_batch": "None, all; at least 1. How many of several texts are written side by side.",
    },
}


def described(*tables: Any) -> Callable[[Entry], Entry]:
    """Have a docstring list the options that an entry passes on: those of these tables."""
    fields = {name: kind for table in tables for name, kind in table.__annotations__.items()}

    def describe(entry: Entry) -> Entry:
        block = []
        for heading, options in OPTIONS.items():
            known = {name: text for name, text in options.items() if name in fields}
            block += [f"{heading}:", ""] if known else []
            for name, text in known.items():
                if "Sequence" not in str(fields[name]):
                    text = text.replace(" [each]", "")
                block += _wrapped(f"- ``{name}``: {text}")
            block += [""] if known else []
        before, mark, after = str(entry.__doc__).partition("\n\n    Returns:")
        if not mark:  # a class has attributes
            before, mark, after = str(entry.__doc__).partition("\n\n    Attributes:")
        entry.__doc__ = before + "\n\n" + indent("\n".join(block[:-1]), "    ") + mark + after
        return entry

    return describe

"""Speculative decoding of one text: a cheap guess of several tokens, verified in one forward.

A forward over five tokens costs little more than a forward over one. So a drafter proposes γ
tokens, the target reads them all at once, a rule (``rules.py``) says how many stay and adds one
token of the target's own, and the others are taken back from the caches. The text is distributed
exactly as the target's alone (Leviathan et al. 2023, 2211.17192; Chen et al. 2023, 2302.01318); at
temperature 0, and under ``rule="match"`` at any, it is the same text.

One round is ``Decoder.speculative_round`` in ``decoding/decoder.py``.
"""

from collections.abc import Collection, Sequence
from typing import Any, Unpack

from lablib.cache import kv
from lablib.cache.rewind import Rewinder, check_rewindable
from lablib.inference import arguments
from lablib.inference.decoding.decoder import Decoder
from lablib.inference.decoding.rows import Verdict, with_ratios
from lablib.inference.decoding.token_iterator import DecodingIterator
from lablib.inference.keywords import DecodeKeywords, SamplerKeywords, described
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.processors import LogitsProcessor
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.draft_length import as_length
from lablib.inference.speculation.draft_model import as_drafter
from lablib.inference.speculation.drafter import Drafter
from lablib.inference.speculation.judge import Judge, plays_out
from lablib.inference.speculation.rules import Rule, named
from lablib.inference.speculation.shared_ids import fitted
from lablib.inference.speculation.tree_judge import TreeJudge
from lablib.inference.speculation.tree_rules import tree_plays_out
from lablib.models.interface import vocab_size_of
from lablib.unknown_options import check_options
from lablib.validation import BadValue, flag, integer

import mlx.core as mx


@described(SamplerKeywords)
class SpeculativeTokenIterator(DecodingIterator):
    """Generate the target's tokens with the help of a drafter; the protocol of ``TokenIterator``.

    Args:
        target: ``model(tokens (1, T), cache=...) -> logits (1, T, V)``; its text comes out.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        prompt, max_tokens, stop_tokens, prefill_step_size, tokenizer: as in ``TokenIterator``.
        draft_tokens: how many tokens to draft in a round (γ), or ``AdaptiveLength()``. Near
            ``max_tokens`` it is fewer: one place is left for the target's own token.
        rule: a name in ``rules.RULE``, such as "match" or "block", or a function such as these;
            with a drafter of trees one in ``tree_rules.TREE_RULE``, too; None means "rejection".
        cache, draft_cache: the state that earlier tokens, the same ones, left behind in the target
            and in a draft model; changed in place.
        cached_tokens: as in ``TokenIterator``, those of both caches.
        logits_processors: as in ``TokenIterator``, for both models. Drafts that are refused later
            are shown to them, too: one that keeps a state has a method ``copy``.
        trace: whether to keep the :class:`Verdict` of every round in ``rounds``.
        stream: the random stream of the seed; row i of ``sample_n`` uses stream i.
        **sampler_options: those that follow. Under ``match`` a seed gives the
            same tokens as in ``TokenIterator``, under ``coupled`` the same ones whoever drafts. The
            host waits once in a round; with ``top_p`` and no ``top_k`` on a vocabulary above 2,048
            also for each draft and for the target, to see whether the best 256 tokens hold the
            nucleus; and for the ids that a drafter of one's own has not computed yet.

    Attributes:
        prompt, tokens, logprobs: as in ``TokenIterator``.
        cache: the target's cache, where ``TokenIterator`` would leave it. (A cache that cannot be
            trimmed also keeps a token after which the model's logits were not finite.)
        draft_cache: the draft model's, at the same place; None if the drafter has none.
        rounds: the trace, if asked for.
        stats: that of ``TokenIterator``, and ``total_drafted``, ``total_accepted`` (drafts that
            were kept; the target's own token never counts), ``total_reached`` (drafts all of whose
            predecessors were kept), ``acceptance_rate`` = accepted / drafted, ``alpha`` = accepted
            / reached (0 before anything was drafted), ``rounds`` (verifications, those without a
            draft included), ``tokens_per_round`` (all tokens that rounds decided, handed out or
            not), ``draft_calls``. Calls and forwards of the target include the prompt and tokens
            that had to be read again.

    Raises:
        ValueError, TypeError: an argument is bad, or a cache cannot be rewound; nothing was done.

    Example:
        >>> plain = [token.id for token in lablib.TokenIterator(model, prompt, temperature=0.0)]
        >>> tokens = lablib.SpeculativeTokenIterator(model, draft, prompt, temperature=0.0)
        >>> [token.id for token in tokens] == plain
        True
    """

    def __init__(
        self,
        target: Any,
        draft_model: Any,
        prompt: arguments.Prompt,
        *,
        max_tokens: int = 100,
        draft_tokens: Any = 4,
        rule: str | Rule | None = None,
        stop_tokens: Collection[int] | None = None,
        cache: list[Any] | None = None,
        cached_tokens: list[int] | None = None,
        draft_cache: list[Any] | None = None,
        prefill_step_size: int = 512,
        logits_processors: Sequence[LogitsProcessor] = (),
        tokenizer: Any = None,
        trace: bool = False,
        stream: int = 0,
        **sampler_options: Unpack[SamplerKeywords],
    ) -> None:
        check_options(SpeculativeTokenIterator, sampler_options)
        request = arguments.read_request(
            target,
            prompt,
            max_tokens=max_tokens,
            stop_tokens=stop_tokens,
            prefill_step_size=prefill_step_size,
            logits_processors=logits_processors,
            tokenizer=tokenizer,
            cache=cache,
            cached_tokens=cached_tokens,
            name="target",
            **sampler_options,
        )
        self._trace = flag("trace", trace)
        stream = integer("stream", stream, 0)
        length = as_length(draft_tokens)
        drafter = as_drafter(draft_model)
        rule = named(rule, drafter.trees)
        cache = kv.make(target) if cache is None else cache
        check_rewindable(cache)
        reader = Rewinder(target, cache, read=request.start)
        own = own_reader(drafter, reader, draft_cache)
        session = drafter.begin(reader, own, 1)
        if own is not None:
            check_same_text(own.cache, cache)
            cached = arguments.check_cache(own.model, own.cache) if request.read is None else 0
            cached = max(cached, request.cached)  # the target may not say
            arguments.check_lengths(
                own.model, request.prompts, request.lengths, cached, "draft model"
            )
        length.begin(target, session)
        decoder = speculative_decoder(request, target, drafter, rule, length, trace, closable=True)
        self.draft_cache = None if own is None else own.cache
        self._own = own
        self.rounds: list[Verdict] = []
        super().__init__(request, decoder, reader, stream, session, own)
        self._count()

    def _decide(self, verdicts: Sequence[Verdict]) -> None:
        if self._trace:
            self.rounds += verdicts
        super()._decide(verdicts)

    def _count(self) -> None:
        own = self._drafter if self._own is None else self._own
        counts = with_ratios(self._decoder.counts)
        counts |= {"tokens": len(self.tokens), "draft_calls": own.calls}  # as they stand now
        self.stats |= counts
        super()._count()


def speculative_decoder(
    request: arguments.Request,
    target: Any,
    drafter: Drafter,
    rule: str | Rule,
    length: Any,
    trace: bool = False,
    closable: bool = False,
) -> Decoder:
    """Return a decoder whose rounds begin with drafts."""
    check_seeds(drafter, rule, request.options)
    coupled = rule == "coupled"
    sampler = TextSampler(request.processors, coupled, request.n_known)
    kind = TreeJudge if drafter.trees else Judge
    judge = kind(sampler, rule, vocab_size_of(target), trace)
    return Decoder(sampler, judge, length, closable=closable, label=lambda row: "target")


def check_seeds(drafter: Drafter, rule: str | Rule, options: Sequence[SamplerOptions]) -> None:
    """Refuse a seed whose text would hang on what others left in a drafter's memory.

    It doesn't where the target's own tokens decide. Without a seed the guesses hang on no number
    that judges them.
    """
    decides = tree_plays_out if drafter.trees else plays_out
    if not drafter.shared or decides(rule, False):
        return
    for each in options:
        if each.temperature and each.seed is not None and each.seed >= 0:
            kind, allowed = type(drafter).__name__, "'match' or 'coupled', or seed None"
            why = f"as a {kind} remembers other texts"
            raise BadValue(f"rule must be {allowed}, {why}, got {rule!r} and seed {each.seed}")


def own_reader(
    drafter: Drafter, target: Rewinder, cache: kv.Cache | None = None
) -> Rewinder | None:
    """Return the reader of a drafter's own model; None if it has none, or works with the target."""
    if drafter.model is not None and not drafter.in_target_cache:
        model = fitted(drafter.model, target.model)
        arguments.check_cache(model, cache, "draft_cache")
        made = kv.make(model) if cache is None else cache
        return Rewinder(model, made, "draft_cache", target.positions[0])
    if cache is not None:
        kind = type(drafter).__name__
        raise BadValue(f"draft_cache must be None with {kind}: it has no cache of its own")
    return None


def check_same_text(cache: kv.Cache, target_cache: kv.Cache) -> None:
    """Refuse caches that have read different numbers of tokens, as far as they can tell."""
    lengths: list[Any] = [kv.offset(each) for each in (cache, target_cache)]
    if None in lengths:  # a recurrent state only tells whether it has read anything
        rows = kv.rows(cache), kv.rows(target_cache)
        read = [n if at is None else at for at, n in zip(lengths, rows, strict=True)]
        lengths = ["some tokens" if each else "nothing" for each in read]
    if lengths[0] != lengths[1]:
        got = f"got {lengths[0]} against {lengths[1]}"
        raise BadValue(f"draft_cache must have read the same tokens as cache, {got}")


@described(DecodeKeywords)
def speculative_decode(
    target: Any,
    draft_model: Any,
    prompt: arguments.Prompt,
    max_tokens: int = 100,
    draft_tokens: Any = 4,
    temperature: float = 0.0,
    **options: Unpack[DecodeKeywords],
) -> tuple[mx.array, dict[str, Any]]:
    """Complete a prompt with the target's distribution, faster than the target alone.

    Args:
        target: any mlx-lm model; its text comes out.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        prompt: token ids ``(T,)`` or ``(1, T)``.
        max_tokens: how many tokens to generate at most.
        draft_tokens: how many tokens to draft in a round, or ``AdaptiveLength()``.
        temperature: 0 is greedy.
        **options: those that follow.

    Returns:
        The prompt and its completion ``(1, total_len)`` int32, and the statistics; with
        ``trace=True`` they hold the list of rounds as ``"trace"``.

    Raises:
        ValueError, TypeError: an argument is out of range, or a cache cannot be rewound; before any
            work.

    Example:
        >>> ids, stats = lablib.speculative_decode(model, draft, prompt, max_tokens=12)
        >>> ids.shape[1] - len(prompt) == stats["tokens"], 0 <= stats["acceptance_rate"] <= 1
        (True, True)
    """
    check_options(speculative_decode, options)
    arguments.refuse_top_logprobs(options, "SpeculativeTokenIterator")
    iterator = SpeculativeTokenIterator(
        target,
        draft_model,
        prompt,
        max_tokens=max_tokens,
        draft_tokens=draft_tokens,
        temperature=temperature,
        **options,
    )
    with iterator:
        for _ in iterator:
            pass
    stats = dict(iterator.stats)
    if options.get("trace"):
        stats["trace"] = iterator.rounds
    return mx.array([iterator.prompt + iterator.tokens], mx.int32), stats

"""Speculative decoding: a cheap guess of several tokens, verified by the target in one forward.

A forward over five tokens costs little more than a forward over one. So a drafter proposes γ
tokens, the target reads them all at once, a rule (``rules.py``) says how many stay and adds one
token of the target's own, and what was read in vain is taken back from the caches. The text is
distributed exactly as the target's alone (Leviathan et al. 2023, 2211.17192; Chen et al. 2023,
2302.01318); at temperature 0, and under ``rule="match"`` at any, it is the same text.

One round is ``round.py``. Here rounds become a stream of tokens.
"""

import numbers
import time
from collections.abc import Iterable, Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.inference import arguments
from lablib.inference.speculation.drafters import Drafter, as_drafter
from lablib.inference.speculation.judge import Judge, Verdict
from lablib.inference.speculation.round import Rounds
from lablib.inference.speculation.rules import named
from lablib.inference.token_loop import Token, TokenLoop
from lablib.validation import flag, integer, members

import mlx.core as mx

_FEW = 64  # tokens of a prompt's end that the target may read with the first drafts


class DraftLength:
    """What the engine asks of a policy; subclass it, or have what it has."""

    plain_tokens = 1  # how many tokens to decode plainly when nothing is drafted

    def begin(self, target: Any, drafter: Drafter) -> None:
        """Begin a text with these models."""

    def choose(self) -> int:
        """Return how many tokens to draft next; 0 for none."""
        raise NotImplementedError

    def observe(self, reached: int, accepted: int) -> None:
        """Learn that of ``reached`` drafts that were judged, ``accepted`` were kept."""

    def timed(self, drafted: int, seconds: float) -> None:
        """Learn that a round of so many drafts took so long; 0 is a token of plain decoding.

        Of the first round, in which the prompt's end is read as well, nobody is told.
        """

    def miss(self) -> None:
        """Learn that the drafter had no proposal."""


class FixedLength(DraftLength):
    """Always γ = ``draft_tokens`` drafts, at least 1."""

    def __init__(self, draft_tokens: int) -> None:
        self.draft_tokens = integer("draft_tokens", draft_tokens, 1)

    def choose(self) -> int:
        """Return how many tokens to draft next."""
        return self.draft_tokens


class SpeculativeTokenIterator(TokenLoop):
    """Generate the target's tokens with the help of a drafter; the protocol of ``TokenIterator``.

    Args:
        target: ``model(tokens (1, T), cache=...) -> logits (1, T, V)``; its text comes out.
        draft: a smaller model of the same vocabulary, or a drafter.
        prompt, max_tokens, stop_tokens, prefill_step_size: as in ``TokenIterator``.
        draft_tokens: how many tokens to draft in a round (γ), or ``AdaptiveLength()``. Near
            ``max_tokens`` it is fewer: one place is left for the target's own token.
        rule: a name in ``rules.RULE``, such as "match" or "block"; None means "rejection".
        drafter: a drafter such as ``NGram()``, if it is not given as ``draft``, which is then None.
        cache, draft_cache: what earlier tokens, the same ones, left behind in the target and in a
            draft model; changed in place.
        logits_processors: as in ``TokenIterator``, for both models; pure functions, as drafts that
            are rejected later are shown to them too.
        trace: whether to keep the :class:`Verdict` of every round in ``rounds``.
        stream: which stream of the seed's random numbers; row i of ``sample_n`` uses stream i.
        **sampler_options: the fields of :class:`SamplerOptions`. Under ``match`` a seed gives the
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
            draft included), ``tokens_per_round`` (all that rounds decided, handed out or not),
            ``draft_calls``. Calls and forwards of the target include the prompt and whatever had to
            be read again.

    Raises:
        ValueError, TypeError: an argument is bad, or a cache cannot be rewound; nothing was done.
    """

    def __init__(
        self, target: Any, draft: Any, prompt: Sequence[int] | mx.array, *,
        max_tokens: int = 100, draft_tokens: Any = 4, rule: str | None = None,
        drafter: Drafter | None = None, stop_tokens: Iterable[int] = (),
        cache: list[Any] | None = None, draft_cache: list[Any] | None = None,
        prefill_step_size: int = 512, logits_processors: Sequence[arguments.LogitsProcessor] = (),
        trace: bool = False, stream: int = 0, **sampler_options: Any,
    ) -> None:  # fmt: skip
        asked = arguments.read_request(
            SpeculativeTokenIterator, target, prompt, max_tokens=max_tokens,
            stop_tokens=stop_tokens, prefill_step_size=prefill_step_size,
            sampler_options=sampler_options, logits_processors=logits_processors, cache=cache,
            name="target",
        )  # fmt: skip
        self._trace, stream = flag("trace", trace), integer("stream", stream, 0)
        self._length = as_length(draft_tokens)
        drafter = as_drafter(draft, drafter)
        cache = kv.make(target) if cache is None else cache
        rule = named(rule, drafter.trees)
        self._drafter = drafter.begin(target, cache, draft_cache)
        reader = Rewinder(self._drafter.watch(target), cache)
        if self.draft_cache is not None and drafter.model is not None:
            held = max(asked.held, kv.offset(self.draft_cache) or 0)  # the target may not say
            arguments.check_length(drafter.model, asked.prompt, max_tokens, held)
        self._length.begin(target, self._drafter)
        super().__init__(asked, reader, stream)
        self._lasting = not asked.processors  # they may raise: then the token is given back
        judge = Judge(self._sampler, rule, asked.stops, trace)
        self._rounds = Rounds([self._text], reader, self._drafter, judge)
        self._plain_left = 0  # tokens to decode plainly before drafting is considered again
        self.rounds: list[Verdict] = []
        self.stats |= dict.fromkeys(COUNTS, 0)
        self.stats |= ratios(self.stats)

    @property
    def draft_cache(self) -> list[Any] | None:
        """The draft model's cache; None if the drafter has none of its own."""
        return None if self._drafter.in_target_cache else self._drafter.cache

    def _read_chunk(self, chunk: mx.array, more: bool) -> None:
        """Let both models read a piece of the prompt.

        The target may read a short last one with the first drafts: one forward instead of two, if
        its cache trims for free and no drafter works in it. (Its tokens get logits in vain.)
        """
        self._drafter.read(chunk)
        few = _FEW if self._target.plain and not self._drafter.in_target_cache else 0
        if more or chunk.shape[1] > few:
            super()._read_chunk(chunk, more)

    def _advance(self) -> None:
        """Run one round, or decode one token plainly where nothing is drafted."""
        start = time.perf_counter()
        wanted = self._max_tokens - len(self.tokens)
        if not self._plain_left:
            most = min(wanted, self._target.room() or wanted)
            n = min(self._length.choose(), most - 1)
            if n > 0:
                verdicts = self._rounds.round([n])
                if verdicts is not None:
                    self._book(verdicts[0], start)
                    return
                self._length.miss()
            self._plain_left = min(self._length.plain_tokens, wanted)
        token = self._decode(self._plain_left, "target")
        self._plain_left -= 1
        top = [token.top_logprobs] if token.top_logprobs else []
        self._book(Verdict((), [token.id], 0, 0, [token.logprob], top), start)

    def _book(self, verdict: Verdict, start: float) -> None:
        """Count what was decided since ``start``, and make it ready to be handed out."""
        self._length.observe(verdict.reached, verdict.accepted)
        if self.tokens:  # the first round of a text also reads the end of the prompt
            self._length.timed(len(verdict.drafted), time.perf_counter() - start)
        for i, token in enumerate(verdict.tokens):
            top = verdict.top[i] if verdict.top else ()
            self._ready.append(Token(token, verdict.logprobs[i], i < verdict.accepted, top))
        verdict.add_to(self.stats)
        decided = len(self._text) - len(self.prompt)
        self.stats |= ratios(self.stats | {"tokens": decided})
        self._count_calls()
        if self._trace:
            self.rounds.append(verdict)

    def _count_calls(self) -> None:
        stats, target = self.stats, self._target
        stats["target_calls"], stats["token_forwards"] = target.calls, target.tokens_read
        stats["draft_calls"] = self._drafter.calls

    def _cut_back(self, text: list[int]) -> None:
        try:
            self._target.keep([max(0, len(text) - 1)])
        finally:
            self._drafter.finish(text)


def as_length(draft_tokens: Any) -> DraftLength:
    """Return a policy from what the caller gave: a number, or a policy."""
    # NumPy's integers have a method of that name.
    if isinstance(draft_tokens, numbers.Number) or not hasattr(draft_tokens, "choose"):
        return FixedLength(draft_tokens)
    members("draft_tokens", draft_tokens, DraftLength)
    return draft_tokens


COUNTS = (
    "tokens", "total_drafted", "total_accepted", "total_reached", "rounds", "target_calls",
    "draft_calls",
)  # fmt: skip


def ratios(counts: dict[str, Any]) -> dict[str, float]:
    """Return the ratios that are made of counts, all of ``COUNTS`` among them."""
    drafted, reached = counts["total_drafted"], counts["total_reached"]
    return {
        "acceptance_rate": counts["total_accepted"] / drafted if drafted else 0.0,
        "alpha": counts["total_accepted"] / reached if reached else 0.0,
        "tokens_per_round": counts["tokens"] / counts["rounds"] if counts["rounds"] else 0.0,
    }


def speculative_decode(
    target: Any, draft: Any, prompt: Sequence[int] | mx.array, max_tokens: int = 100,
    draft_tokens: Any = 4, temperature: float = 0.0, **options: Any,
) -> tuple[mx.array, dict[str, Any]]:  # fmt: skip
    """Complete a prompt with the target's distribution, faster than the target alone.

    The arguments are those of :class:`SpeculativeTokenIterator`; temperature 0 is greedy.

    Returns:
        The prompt and its completion ``(1, total_len)`` int32, and the statistics; with
        ``trace=True`` they hold the list of rounds as ``"trace"``.
    """
    options |= {"draft_tokens": draft_tokens, "temperature": temperature}
    iterator = SpeculativeTokenIterator(target, draft, prompt, max_tokens=max_tokens, **options)
    with iterator:
        for _ in iterator:
            pass
    stats = dict(iterator.stats)
    if options.get("trace"):
        stats["trace"] = iterator.rounds
    return mx.array([iterator.prompt + iterator.tokens], mx.int32), stats

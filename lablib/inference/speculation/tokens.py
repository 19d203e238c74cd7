"""Speculative decoding: a cheap guess of several tokens, verified by the target in one forward.

A forward over five tokens costs little more than a forward over one. So a drafter proposes γ
tokens, the target reads them all at once, a rule (``rules.py``) says how many stay
and adds one token of the target's own, and what was read in vain is taken back from the caches. The
text is distributed exactly as the target's alone (Leviathan et al. 2023, 2211.17192; Chen et al.
2023, 2302.01318); at temperature 0, and under ``rule="match"`` at any, it is the same text.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder, check_cache
from lablib.inference.arguments import (
    LogitsProcessor,
    check_length,
    check_prompt,
    check_stops,
    read_options,
)
from lablib.inference.speculation.draft_length import as_length
from lablib.inference.speculation.drafters import (
    Drafter,
    DraftModel,
    NGram,
    as_drafter,
    check_proposal,
)
from lablib.inference.speculation.judge import Judge, Proposal, Round, Verdict
from lablib.inference.speculation.rules import RULES
from lablib.inference.token_loop import Token, TokenLoop
from lablib.inference.tokens import settle_chunk
from lablib.models.interface import vocab_size_of
from lablib.validation import BadType, BadValue, integer, one_of

import mlx.core as mx

_FEW = 64  # tokens of a prompt's end that the target may read with the first drafts


class SpeculativeTokenIterator(TokenLoop):
    """Generate the target's tokens with the help of a drafter; the protocol of ``TokenIterator``.

    Args:
        target: ``model(tokens (1, T), cache=...) -> logits (1, T, V)``; its text comes out.
        draft: a smaller model of the same vocabulary, or a drafter.
        prompt: token ids, at least one.
        max_tokens: how many tokens to generate at most.
        draft_tokens: how many tokens to draft in a round (γ), or ``AdaptiveLength()``. Never more
            than could still be used.
        rule: "match", "rejection" or "block"; None means "rejection". At temperature 0 they are
            one.
        drafter: where proposals come from if not from a model: ``NGram()``, ``EarlyExit(n)``.
        stop_tokens: ids that end the generation; the one that did is the last token returned.
        target_cache: what earlier tokens left behind in the target, changed in place.
        draft_cache: the same for a draft model; both must have read the same tokens.
        prefill_step_size: how many prompt tokens are read at once.
        logits_processors: as in ``TokenIterator``, for both models; pure functions, as drafts that
            are rejected later are shown to them too.
        trace: whether to keep a :class:`Round` of every verification in ``rounds``.
        stream: which stream of the seed's random numbers; row i of ``sample_n`` uses stream i.
        **sampler_options: the fields of :class:`SamplerOptions`. Under ``match`` a seed gives the
            same tokens as in ``TokenIterator``. The host waits once in a round; with ``top_p``
            and no ``top_k`` on a vocabulary above 2,048 also for each draft and for the target,
            to see whether the best 256 tokens hold the nucleus; and for the ids that a drafter of
            one's own has not computed yet.

    Attributes:
        prompt: the ids that were given.
        cache: the target's cache. After the last token, or :meth:`close`, it has read
            ``len(prompt) + len(tokens) - 1`` tokens more than at the start. (A cache that cannot be
            trimmed keeps the prompt of an iteration that failed before the first token, and a token
            after which the model's logits were not finite.)
        draft_cache: the draft model's, at the same place; None if the drafter has none.
        tokens: the ids returned so far.
        logprobs: their log-probabilities under the target's raw logits.
        rounds: the trace, if asked for.
        stats: that of ``TokenIterator``, and ``total_drafted``, ``total_accepted`` (drafts that
            were kept; the target's own token never counts), ``total_reached`` (drafts all of whose
            predecessors were kept), ``acceptance_rate`` = accepted / drafted, ``alpha`` = accepted
            / reached (0 before anything was drafted), ``rounds`` (verifications, those without a
            draft included), ``tokens_per_round``, ``draft_calls``. Calls and forwards of the target
            include the prompt and whatever had to be read again.

    Raises:
        ValueError: an argument is out of range, or a cache cannot be rewound; nothing has been
            done.
        TypeError: an argument is of the wrong type; the same.
    """

    def __init__(
        self,
        target: Any,
        draft: Any,
        prompt: Sequence[int] | mx.array,
        *,
        max_tokens: int = 100,
        draft_tokens: Any = 4,
        rule: str | None = None,
        drafter: Drafter | None = None,
        stop_tokens: Iterable[int] = (),
        target_cache: list[Any] | None = None,
        draft_cache: list[Any] | None = None,
        prefill_step_size: int = 512,
        logits_processors: Sequence[LogitsProcessor] = (),
        trace: bool = False,
        stream: int = 0,
        **sampler_options: Any,
    ) -> None:
        options = read_options(sampler_options, SpeculativeTokenIterator)
        prompt = check_prompt(target, prompt, "target")
        stops, max_tokens = check_stops(target, stop_tokens), integer("max_tokens", max_tokens, 1)
        self._step_size = integer("prefill_step_size", prefill_step_size, 1)
        processors = _check_processors(logits_processors)
        rule = one_of("rule", "rejection" if rule is None else rule, RULES)
        if not isinstance(trace, bool):
            raise BadType(f"trace must be True or False, got {trace!r}")
        self._length = as_length(draft_tokens)
        asked = as_drafter(draft, drafter)
        held = check_cache(target, target_cache, "target_cache")
        check_length(target, prompt, max_tokens, held)
        super().__init__(prompt, max_tokens, stops)
        self.cache = kv.make(target) if target_cache is None else target_cache
        self._target = Rewinder(target, self.cache, "target_cache")
        self._drafter = asked.begin(target, self.cache, draft_cache)
        if isinstance(asked, DraftModel):
            held = max(held, kv.offset(self._drafter.cache) or 0)  # the target may not say
            check_length(self._drafter.model, prompt, max_tokens, held)
        self._length.begin(target, self._drafter)
        self._judge = Judge(
            options, rule, [prompt], max_tokens, [stream], processors=processors, trace=trace
        )
        self._history, self._prefilled = list(prompt), 0
        self._ready: deque[Token] = deque()  # decided, but not handed out yet
        self._asked: deque[list[mx.array]] = deque()  # drawn plainly, not looked at yet
        self._plain_left = 0  # tokens to decode plainly before drafting is considered again
        self.rounds: list[Round] = []
        self._trace = trace
        self.stats |= {
            "total_drafted": 0, "total_accepted": 0, "total_reached": 0, "acceptance_rate": 0.0,
            "alpha": 0.0, "rounds": 0, "tokens_per_round": 0.0, "draft_calls": 0,
        }  # fmt: skip

    @property
    def draft_cache(self) -> list[Any] | None:
        """The draft model's cache; None if the drafter has none of its own."""
        return getattr(self._drafter, "cache", None)

    def _read_prompt(self) -> None:
        """Both models read the prompt up to its last token, in chunks.

        The target reads a short last chunk with the first drafts: one forward instead of two.
        """
        while self._prefilled < len(self.prompt) - 1:
            with self._whole_step():
                end = min(self._prefilled + self._step_size, len(self.prompt) - 1)
                chunk = mx.array([self.prompt[self._prefilled : end]])
                self._drafter.read(chunk)
                self._prefilled = end
                last = end == len(self.prompt) - 1
                if last and self._may_wait(chunk.shape[1]):
                    return
                self._target.forward(chunk)
                self._target.settle()
                settle_chunk(self.cache, last)

    def _may_wait(self, n: int) -> bool:
        """Whether the target may read ``n`` tokens of the prompt later.

        They are few, as each gets logits that nobody needs; taking drafts back will not read them
        again; and the drafter does not work in the target's cache.
        """
        return n <= _FEW and self._target.plain and not self._drafter.in_target_cache

    def _next_token(self) -> Token:
        while not self._ready:
            self._advance()
        return self._hand_out(self._ready.popleft())

    def _advance(self) -> None:
        """One round, or one token of plain decoding where nothing is drafted."""
        wanted = self._max_tokens - len(self.tokens)
        if not self._plain_left:
            self._target.settle()
            room = self._target.room()
            most = wanted if room is None else min(wanted, room)
            n = min(self._length.choose(), most - 1)
            if n > 0:
                proposal = self._drafter.propose(self._history, n, self._judge.choose)
                if proposal is not None:
                    if not isinstance(self._drafter, DraftModel | NGram):
                        check_proposal(proposal, n, vocab_size_of(self._target.model))
                    self._speculate(proposal)
                    return
                self._length.miss()
            self._plain_left = min(self._length.plain_tokens, wanted)
        self._decode()

    def _speculate(self, proposal: Proposal) -> None:
        """Verify the drafts in one forward, keep what the rule keeps, take back the rest."""
        unread = mx.array([self._history[self._target.position :]], mx.int32)
        logits = self._target.forward(mx.concatenate([unread, proposal.tokens], axis=1))
        if unread.shape[1] > 1:
            logits = logits[:, unread.shape[1] - 1 :]
        self._record(*self._judge.judge(logits, proposal))
        read = len(self._history) - 1
        self._target.rewind(self._target.position - read)
        self._drafter.retain(read)

    def _decode(self) -> None:
        """Plain decoding; as in ``TokenIterator``, ask for a token before looking at the last."""
        lasting = not self._judge.processors  # they may raise, and then the token is given back
        ahead = self._target.plain and lasting
        while len(self._asked) < min(1 + ahead, self._plain_left):
            left = self._history[self._target.position :]
            unread = self._asked[-1][0] if self._asked else mx.array([left])
            self._target.settle()
            logits = self._target.forward(unread, lasting)[:, -1]
            self._asked.append(self._judge.draw_plain(logits, unread if self._asked else None))
            mx.async_eval(self._asked[-1])
        self._plain_left -= 1
        self._record(*self._judge.read_plain(self._asked.popleft()))

    def _record(self, verdict: Verdict) -> None:
        """Book what a round decided."""
        verdict = verdict.until(self._stops)
        self._history += verdict.tokens
        self._judge.commit([verdict.tokens])
        self._length.observe(verdict.reached, verdict.accepted)
        for i, token in enumerate(verdict.tokens):
            top = verdict.top[i] if verdict.top else ()
            self._ready.append(Token(token, verdict.logprobs[i], i < verdict.accepted, top))
        stats = self.stats
        stats["rounds"] += 1
        stats["total_drafted"] += len(verdict.drafted)
        stats["total_accepted"] += verdict.accepted
        stats["total_reached"] += verdict.reached
        if stats["total_drafted"]:
            stats["acceptance_rate"] = stats["total_accepted"] / stats["total_drafted"]
            stats["alpha"] = stats["total_accepted"] / stats["total_reached"]
        if self._trace:
            self.rounds.append(verdict.round())

    def _cut_back(self) -> None:
        self._ready.clear()
        self._asked.clear()
        text = self.prompt + self.tokens if self.tokens else []
        try:
            try:
                self._target.rewind(self._target.position - max(0, len(text) - 1))
            finally:
                self._drafter.finish(text)
        except BadValue:
            # A step that failed before the first token: some caches cannot give the prompt back.
            if self.tokens:
                raise
        finally:
            self._count()

    def _count(self) -> None:
        """Bring the numbers of calls up to date."""
        stats, target = self.stats, self._target
        stats["target_calls"], stats["token_forwards"] = target.calls, target.tokens_read
        stats["draft_calls"] = self._drafter.calls
        if stats["rounds"]:
            stats["tokens_per_round"] = len(self.tokens) / stats["rounds"]

    def _tick(self, clock: str, seconds: float) -> None:
        self._count()
        super()._tick(clock, seconds)


def speculative_decode(
    target: Any,
    draft: Any,
    prompt: Sequence[int] | mx.array,
    max_tokens: int = 100,
    draft_tokens: Any = 4,
    temperature: float = 0.0,
    **options: Any,
) -> tuple[mx.array, dict[str, Any]]:
    """Complete a prompt with the target's distribution, faster than the target alone.

    Args:
        target: the model whose text comes out.
        draft: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        prompt: token ids, at least one.
        max_tokens: how many tokens to generate at most.
        draft_tokens: how many tokens to draft in a round, or ``AdaptiveLength()``.
        temperature: 0 is greedy.
        **options: everything else :class:`SpeculativeTokenIterator` takes: ``rule=``, ``seed=``,
            ``stop_tokens=``, ``top_p=``, ``drafter=``, ...

    Returns:
        The prompt and its completion ``(1, total_len)`` int32, and the statistics; with
        ``trace=True`` they hold the list of rounds as ``"trace"``.
    """
    iterator = SpeculativeTokenIterator(
        target,
        draft,
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


def _check_processors(processors: Any) -> tuple[LogitsProcessor, ...]:
    if not isinstance(processors, Sequence) or not all(map(callable, processors)):
        raise BadType(f"logits_processors must be a list of functions, got {processors!r}")
    return tuple(processors)

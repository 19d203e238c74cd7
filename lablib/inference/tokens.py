"""One sequence, one token at a time: read the prompt, then predict, sample, repeat.

``TokenIterator`` is the loop at the bottom of everything that generates text. It keeps the machine
busy by asking for the next token before the current one is handed out (the current one can be the
input of the next forward without anyone having looked at it), and it keeps a promise about the
cache: after ``close()`` the cache has read exactly the tokens that were handed out, but the last.
"""

import math
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import drops, read
from lablib.inference import arguments
from lablib.inference.sampling import transforms
from lablib.inference.sampling.sampler import Sampler
from lablib.inference.token_loop import NOT_FINITE, Token, TokenLoop, settle_chunk
from lablib.validation import BadValue, integer

import mlx.core as mx


class TokenIterator(TokenLoop):
    """Generate tokens one by one; ``for token in TokenIterator(model, prompt): ...``.

    When you may stop early and the cache matters, use a ``with`` block or call :meth:`close`.

    Args:
        model: ``model(tokens (1, T), cache=...) -> logits (1, T, V)``.
        prompt: token ids, at least one.
        max_tokens: how many tokens to generate at most.
        stop_tokens: ids that end the generation; the one that did is the last token returned.
        cache: what earlier tokens left behind, changed in place; the prompt continues after them.
            To go on from a finished iterator, start the prompt with its last token: that one was
            returned but not read yet. None makes a new cache.
        prefill_step_size: how many prompt tokens are read at once.
        logits_processors: called in turn as ``processor(tokens, logits (1, V)) -> logits``, with
            the prompt and all generated tokens as an array ``(T,)``; what they return is sampled.
        stream: which stream of the seed's random numbers; row i of ``sample_n`` uses stream i.
        **sampler_options: the fields of :class:`SamplerOptions`, such as ``temperature=0.8`` or
            ``seed=1``. Penalties look at this prompt and what follows it.

    Attributes:
        prompt: its token ids.
        cache: the model's cache. After the last token, or :meth:`close`, it has read
            ``len(prompt) + len(tokens) - 1`` tokens more than at the start, or none if no token was
            returned. (A cache that cannot be trimmed keeps the prompt of an iteration that was
            interrupted before the first token, and the token at which a step failed.)
        tokens: the ids returned so far.
        logprobs: their log-probabilities under the raw logits.
        stats: ``prompt_tokens``, ``tokens``, ``prefill_seconds`` (until the first token),
            ``decode_seconds`` (in ``next`` after that), ``tokens_per_second`` (of decoding),
            ``target_calls`` and ``token_forwards`` (tokens the model was given, one that was asked
            for early and not needed included), ``finish_reason`` (None, "stop", "length",
            "closed" or "error"); always current.

    Raises:
        ValueError, TypeError: an argument is bad; nothing has been changed then.
    """

    def __init__(
        self, model: Any, prompt: Sequence[int] | mx.array, *, max_tokens: int = 100,
        stop_tokens: Collection[int] = (), cache: list[Any] | None = None,
        prefill_step_size: int = 512, logits_processors: Sequence[arguments.LogitsProcessor] = (),
        stream: int = 0, **sampler_options: Any,
    ) -> None:  # fmt: skip
        asked = arguments.read_request(
            TokenIterator, model, prompt, max_tokens=max_tokens, stop_tokens=stop_tokens,
            prefill_step_size=prefill_step_size, sampler_options=sampler_options,
            logits_processors=logits_processors, cache=cache,
        )  # fmt: skip
        stream = integer("stream", stream, 0)
        super().__init__(asked)
        self.cache = kv.make(model) if cache is None else cache
        self._plain = drops(self.cache)
        self._model, self._processors, options = model, asked.processors, asked.options
        self._top = options.top_logprobs
        plain = not (options.penalizes or self._processors)
        self._greedy = plain and options.temperature == 0
        self._sampler = Sampler(len(self.prompt) + max_tokens)
        self._sampler.add(0, options, self.prompt if options.penalizes else (), stream=stream)
        self._unread = mx.array([self.prompt[-1:]])  # (1, 1): what the next forward takes
        self._read = 0  # tokens the cache has read since the start, but for those taken back
        self._asked: deque[list[mx.array]] = deque()  # sampled, but not looked at yet

    def _read_chunk(self, chunk: mx.array, more: bool) -> None:
        self._forward(chunk)
        settle_chunk(self.cache, wait=more)

    def _advance(self) -> None:
        wanted = 1 + self._may_run_ahead()
        while len(self._asked) < wanted:
            self._ask()
        token, logprob, *best = self._asked[0]
        token, logprob = token.item(), logprob.item()
        if not math.isfinite(logprob):
            raise BadValue(f"token {len(self.tokens)}: {NOT_FINITE}")
        self._asked.popleft()
        self._sampler.commit(0, (token,))
        pairs = zip(*(column[0].tolist() for column in best), strict=True)
        self._ready.append(Token(token, logprob, top_logprobs=tuple(pairs)))

    def _may_run_ahead(self) -> bool:
        """Return whether to ask for the token after the next one: wanted, and possible to undo.

        A logits processor may keep a state of its own, so it sees no token before its turn.
        """
        if self._processors or len(self.tokens) + 1 >= self._max_tokens:
            return False
        return self._plain or kv.trimmable(self.cache, after=2 - len(self._asked)) > 0

    def _ask(self) -> None:
        """Queue one forward and the draw of the token after it; nothing waits for the result."""
        raw = self._forward(self._unread)[:, -1, :].astype(mx.float32)
        if self._greedy:  # the sampler would do the same, in twice the time
            token = mx.argmax(raw, axis=-1)
        else:
            scores = self._process(raw)
            pending = self._asked[-1][0][None] if self._asked else None
            token, finite = self._sampler.draw([0], scores, pending)
        self._unread = token[:, None]
        logprobs = transforms.log_softmax(raw)
        logprob = mx.take_along_axis(logprobs, self._unread, axis=-1)
        if self._processors:  # otherwise a bad row shows in its log-probability
            logprob = mx.where(finite, logprob, mx.nan)
        answer = [token, logprob]
        if self._top:
            values, ids = transforms.best(logprobs, min(self._top, raw.shape[-1]))
            answer += [ids, values]
        self._asked.append(answer)
        mx.async_eval(answer)

    def _process(self, scores: mx.array) -> mx.array:
        if not self._processors:
            return scores
        so_far = mx.array(self.prompt + self.tokens)
        scores = mx.array(scores)  # a processor may write in place; log-probabilities need the raw
        for processor in self._processors:
            scores = processor(so_far, scores)
        return scores

    def _forward(self, tokens: mx.array) -> mx.array:
        before = [layer.offset for layer in kv.leaves(self.cache)] if self._plain else None
        logits = read(self._model, tokens, self.cache, before)
        self._read += tokens.shape[1]
        self.stats["target_calls"] += 1
        self.stats["token_forwards"] += tokens.shape[1]
        return logits

    def _cut_back(self) -> None:
        self._asked.clear()
        kept = len(self.prompt) + len(self.tokens) - 1 if self.tokens else 0
        surplus = self._read - kept
        # A cache that cannot be trimmed is never ahead, unless a step failed or was the first one.
        if surplus <= kv.trimmable(self.cache):
            kv.trim(self.cache, surplus)

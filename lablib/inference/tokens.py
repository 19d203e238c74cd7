"""One sequence by its model alone: what a caller of the loop in ``token_loop.py`` may ask for."""

from collections.abc import Collection, Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.inference import arguments
from lablib.inference.token_loop import TokenLoop
from lablib.validation import integer

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
        cache = kv.make(model) if cache is None else cache
        super().__init__(asked, Rewinder(model, cache, strict=False), stream)

    def _advance(self) -> None:
        n = len(self.tokens)
        self._ready.append(self._decode(self._max_tokens - n, f"token {n}"))

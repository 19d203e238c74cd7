"""A completion as a text, with what is known about it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from lablib.inference.decoding.rows import Best, Samples, Verdict

# What results of other libraries are asked for -> its counterpart here.
_ELSEWHERE = {
    "choices": "the completion itself; n= gives a list of them",
    "outputs": "the completion itself; n= gives a list of them",
    "message": "the completion itself, a str",
    "content": "the completion itself, a str",
    "generated_text": "the completion itself, a str",
    "usage": "stats, with prompt_tokens and tokens",
    "sequences": "tokens",
    "token_ids": "tokens",
}


class Completion(str):
    """Generated text: a ``str``, with what is known about it.

    Methods of ``str`` return a plain ``str``, which knows nothing of it.

    Attributes:
        tokens: the generated ids, a stop token at the end included (its text is not).
        logprobs: their log-probabilities under the model's raw logits.
        top_logprobs: the model's best ``(id, logprob)`` pairs at each, if ``top_logprobs=`` asked.
        rounds: the verdict of each round, if ``trace=True`` asked: what was drafted, what stayed.
        stats: see :class:`TokenIterator` and :class:`SpeculativeTokenIterator`. Of one among
            several ``tokens``, ``prompt_tokens`` and ``finish_reason`` are its own, the rest is of
            all together.

    Example:
        >>> text = lablib.generate(model, tokenizer, "Mia finds", max_tokens=3, stop_tokens=())
        >>> len(text.tokens), text.finish_reason
        (3, 'length')
    """

    tokens: list[int]
    logprobs: list[float]
    top_logprobs: list[Best]
    rounds: list[Verdict]
    stats: dict[str, Any]

    def __new__(
        cls,
        text: str,
        tokens: Iterable[int] = (),
        logprobs: Iterable[float] = (),
        stats: Any = (),
        top_logprobs: Iterable[Best] = (),
        rounds: Iterable[Verdict] = (),
    ) -> Self:
        """Make the string and attach the rest."""
        completion = super().__new__(cls, text)
        completion.tokens, completion.logprobs = list(tokens), list(logprobs)
        completion.top_logprobs, completion.rounds = list(top_logprobs), list(rounds)
        completion.stats = dict(stats)
        return completion

    if not TYPE_CHECKING:  # which would take any name for one of its own

        def __getattr__(self, name: str) -> Any:
            """Say what an attribute of another library's results is here."""
            here = f" (here it is {_ELSEWHERE[name]})" if name in _ELSEWHERE else ""
            raise AttributeError(f"a Completion has no attribute {name!r}{here}")

    @property
    def text(self) -> str:
        """The text as a plain ``str``."""
        return str(self)

    @property
    def finish_reason(self) -> str | None:
        """Why the generation ended: "stop", "length", "closed" or "error"."""
        return self.stats.get("finish_reason")


def completions_of(samples: Samples, tokenizer: Any) -> list[Completion]:
    """Return samples as texts, each with what is known about it."""
    made = []
    for row, text in enumerate(samples.texts(tokenizer)):
        tokens = samples.tokens[row]
        own = {
            "prompt_tokens": len(samples.prompts[row]),
            "tokens": len(tokens),
            "finish_reason": "stop" if samples.finished[row] else "length",
        }
        top = samples.top_logprobs[row]
        made.append(Completion(text, tokens, samples.logprobs[row], samples.stats | own, top))
    return made

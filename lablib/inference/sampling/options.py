"""The options of one sequence."""

from dataclasses import dataclass, fields
from functools import cached_property

from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, integer, number

_HUGE = 1e30  # float32 ends at 3e38; products of options and scores must stay below
_SMALL = 1e-6
_MANY = 2**62  # tokens: the most that a NumPy integer holds, and a good deal to spare
_NORMAL = 1.2e-38  # the smallest normal float32: a positive option must not become 0
PENALTIES = ("repeat_penalty", "presence_penalty", "frequency_penalty")
NOT_CUTS = (*PENALTIES, "seed", "repeat_last_n", "logprobs", "top_logprobs")


@checks_options
@dataclass(frozen=True)
class SamplerOptions:
    """Say how a row of logits becomes a token. The defaults change nothing: sample from the model.

    Attributes:
        temperature: 0 takes the best token; below 1 sharpens, above 1 flattens.
        top_p: keep a token while the mass before it is below ``top_p``; active inside (0, 1).
        min_p: drop what is less likely than ``min_p`` times the best; active in (0, 1].
        top_k: keep the ``top_k`` best; active for 0 < top_k < V.
        repeat_last_n: how many of the latest tokens the penalties look at; -1 means the sampler's
            ``num_ctx``, 0 switches penalties off.
        repeat_penalty: divides positive scores and multiplies negative ones, once for each distinct
            token of the window; 1, 0 and negative values change nothing.
        presence_penalty: subtracted once for each distinct token of the window.
        frequency_penalty: subtracted once for each occurrence in the window.
        seed: the same seed gives the same tokens; None or a negative one is drawn afresh.
        logprobs: whether to report the chosen token's log-probability under the raw logits.
        top_logprobs: how many of the best raw log-probabilities to report.

    Raises:
        BadValue, BadType: a value is NaN, infinite, of the wrong type or out of its range.

    Example:
        >>> lablib.SamplerOptions(temperature=0.7, top_p=0.9, seed=1).used
        {'temperature': 0.7, 'top_p': 0.9}
    """

    temperature: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0
    top_k: int = 0
    repeat_last_n: int = 64
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0

    def __post_init__(self) -> None:
        number("temperature", self.temperature, 0.0, _HUGE)
        number("top_p", self.top_p, 0.0, 1.0)
        number("min_p", self.min_p, 0.0, 1.0)
        integer("top_k", self.top_k, -_MANY, _MANY)
        integer("repeat_last_n", self.repeat_last_n, -1, _MANY)
        number("repeat_penalty", self.repeat_penalty, maximum=1 / _SMALL)
        if 0 < self.repeat_penalty < _SMALL:
            limits = f"at least {_SMALL}, or 0 or less for none"
            raise BadValue(f"repeat_penalty must be {limits}, got {self.repeat_penalty}")
        for name in ("presence_penalty", "frequency_penalty"):
            number(name, getattr(self, name), -1 / _SMALL, 1 / _SMALL)
        integer("top_logprobs", self.top_logprobs, 0, _MANY)
        if self.seed is not None:  # a NumPy integer would overflow where the seed is mixed
            object.__setattr__(self, "seed", integer("seed", self.seed))
        if not isinstance(self.logprobs, bool):
            how_many = " (how many beside each token is top_logprobs=)"
            raise BadType(f"logprobs must be True or False, got {self.logprobs!r}{how_many}")

    @cached_property
    def penalizes(self) -> bool:
        """Return whether any penalty can change a score."""
        return self.repeat_last_n != 0 and any(name in self.used for name in PENALTIES)

    @cached_property
    def used(self) -> dict[str, float]:
        """Return the penalties and cuts that can change a score, as numbers.

        ``greedy`` stands for temperature 0, which leaves the best token, and so nothing to cut.
        """
        is_greedy = self.temperature == 0
        cuts = [name for name in self.names() if name not in NOT_CUTS and not is_greedy]
        values = {name: getattr(self, name) for name in (*PENALTIES, *cuts)}
        used = {name: float(x) for name, x in values.items() if x != getattr(_DEFAULTS, name)}
        if self.repeat_penalty <= 0:
            del used["repeat_penalty"]
        if self.top_k <= 0:
            used.pop("top_k", None)
        if not 0 < self.top_p < 1:
            used.pop("top_p", None)
        for name in {"temperature", "top_p"} & used.keys():
            used[name] = max(used[name], _NORMAL)
        if is_greedy:
            used["greedy"] = 1.0
        return used

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the options, in order."""
        return tuple(field.name for field in fields(cls))


_DEFAULTS = SamplerOptions()

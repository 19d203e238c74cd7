"""The options of one sequence."""

import math
from dataclasses import dataclass, fields

from lablib.validation import BadType, BadValue, integer, number

import numpy as np

_HUGE = 1e30  # float32 ends at 3e38; products of options and scores must stay below
_SMALL = 1e-6
_MANY = 2**62  # tokens: what an int64 of the sampler's table can hold
NOT_CUTS = (  # they count at temperature 0 too
    "repeat_last_n",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
    "top_logprobs",
)
_NORMAL = 1.2e-38  # the smallest normal float32: a positive option must not become 0


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
            raise BadType(f"logprobs must be True or False, got {self.logprobs!r}")

    @property
    def penalizes(self) -> bool:
        """Return whether any penalty can change a score."""
        return self.repeat_last_n != 0 and (
            (self.repeat_penalty > 0 and self.repeat_penalty != 1)
            or self.presence_penalty != 0
            or self.frequency_penalty != 0
        )

    def row(self) -> tuple[float, ...]:
        """Return a row of the sampler's table, type ``TABLE``; options that are off are neutral."""
        options = self
        if self.temperature == 0:  # the best token is all that is left: nothing to cut
            options = SamplerOptions(**{name: getattr(self, name) for name in NOT_CUTS})
        values = {name: float(getattr(options, name)) for name in TABLE.names[1:]}
        values["temperature"] = max(values["temperature"], _NORMAL)
        if values["top_k"] <= 0:
            values["top_k"] = math.inf
        if 0 < values["top_p"] < 1:
            values["top_p"] = max(values["top_p"], _NORMAL)
        else:
            values["top_p"] = math.inf
        if values["repeat_penalty"] <= 0:
            values["repeat_penalty"] = 1.0
        return float(self.temperature == 0), *values.values()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the options, in order."""
        return tuple(field.name for field in fields(cls))


# One column for each option that is a number, and one for temperature 0: argmax is its own stage.
TABLE = np.dtype([("greedy", float)] + [(n, float) for n in SamplerOptions.names() if n != "seed"])
NEUTRAL = dict(zip(TABLE.names, SamplerOptions().row(), strict=True))

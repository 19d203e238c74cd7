"""A drafter with a temperature of its own: any q will do, as long as it is the q drawn from.

Drafts are drawn at the request's temperature, so that q is like p. It need not be: a rule is exact
for every q, and which q keeps most is a question for measurement. ``rejection`` keeps Σ min(p, q),
most where q is p; ``match`` keeps Σ p·q, most where q is all on p's best token, which is a draft at
temperature 0. A draft model that is surer, or less sure, than its target is pulled towards it.
(Ouyang et al. 2024, 2410.10141, measure how the two temperatures play together.)
"""

from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any

from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.draft_model import as_drafter
from lablib.inference.speculation.drafter import Drafter, Limits, Texts
from lablib.inference.speculation.proposal import Proposal
from lablib.unknown_options import checks_options
from lablib.validation import BadValue


@checks_options
class Tempered(Drafter):
    """A draft model, or a drafter that draws, at a temperature of its own.

    Penalties, cuts and processors stay the request's; at ``temperature`` 0 the drafts are the best
    tokens, without a q. A request at temperature 0 is drafted for at 0, as always. Of a tree:
    ``Tempered(Tree(draft), 0.7)``.

    Raises:
        ValueError, TypeError: ``draft`` looks its tokens up, or ``temperature`` is below 0.

    Example:
        >>> cold, how = lablib.Tempered(draft, 0.0), {"temperature": 1.0, "seed": 1}
        >>> _, stats = lablib.speculative_decode(model, cold, prompt, rule="match", **how)
        >>> 0 <= stats["alpha"] <= 1
        True
    """

    def __init__(self, draft: Any, temperature: float) -> None:
        self._inner = inner = as_drafter(draft, "draft")
        if inner.model is None and not inner.in_target_cache:
            kind = type(inner).__name__
            raise BadValue(f"draft must draw its tokens to have a temperature, got {kind}")
        self.temperature = SamplerOptions(temperature=temperature).temperature
        self.model, self.in_target_cache = inner.model, inner.in_target_cache
        self.batches, self.trees, self.shared = inner.batches, inner.trees, inner.shared

    def begin(self, target: Any, own: Any, texts: int) -> Any:
        """Return the drafter inside for some texts, with its temperature."""
        session: Any = self._inner.begin(target, own, texts)
        drafts = session.propose

        def propose(texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
            return drafts(texts, limits, at(sampler, self.temperature))

        session.propose = propose
        return session


def at(sampler: TextSampler, temperature: float) -> TextSampler:
    """Return a sampler of the same texts and random numbers, where they are drawn, at another."""
    rows = []
    for row in sampler.rows:
        if row.options.temperature:
            row = copy(row)  # the text is the same list
            row.options = _options_at(row.options, temperature)
            row.used = row.options.used
        rows.append(row)
    other = copy(sampler)
    other.use(rows)
    return other


@lru_cache
def _options_at(options: SamplerOptions, temperature: float) -> SamplerOptions:
    return replace(options, temperature=temperature)

"""Look-up first, and the model else: a draft that stands in the text already is free.

A list that is copied needs no draft model, a new sentence does, and one text has both. So each
round first asks a look-up, by runs so long that it is seldom wrong, and where it finds nothing a
draft model. (Arctic Inference puts the look-up of SuffixDecoding, Oliaro et al. 2024, 2411.04975,
before a trained drafter so.)

Who drafts hangs on what was written, before anything is drawn. A looked-up token comes without a q,
and is judged as certain; the model's come with theirs. So each round is lossless as it is.
"""

from collections.abc import Sequence
from copy import copy as shallow_copy
from typing import Any, Self

from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.draft_model import as_drafter
from lablib.inference.speculation.drafter import Drafter, Limits, Texts
from lablib.inference.speculation.ngram import NGram
from lablib.inference.speculation.proposal import Proposal
from lablib.unknown_options import checks_options
from lablib.validation import BadValue


@checks_options
class LookupFirst(Drafter):
    """A look-up, and a draft model or a drafter for the rounds in which it finds nothing.

    ``lookup`` is a drafter without a model; None is ``NGram(3, 3)``, which asks for three tokens
    that came before. The model then reads what it has missed. A batch of texts is drafted for one
    by one.

    Raises:
        ValueError, TypeError: ``draft`` is neither a model nor a drafter, ``lookup`` has a model.

    Example:
        >>> text, _ = lablib.speculative_decode(model, lablib.LookupFirst(draft), prompt)
        >>> mx.array_equal(text, lablib.speculative_decode(model, draft, prompt)[0]).item()
        True
    """

    batches = False

    def __init__(self, draft: Any, lookup: Drafter | None = None) -> None:
        self._draft = as_drafter(draft, "draft")
        self._lookup = NGram(3, 3) if lookup is None else as_drafter(lookup, "lookup")
        if self._lookup.model is not None or self._lookup.in_target_cache:
            kind = type(self._lookup).__name__
            raise BadValue(f"lookup must be a drafter without a model, such as NGram(), got {kind}")
        self.model, self.in_target_cache = self._draft.model, self._draft.in_target_cache
        self.trees = self._draft.trees
        self.shared = self._draft.shared or self._lookup.shared

    def begin(self, target: Any, own: Any, texts: int) -> Self:
        """Return a drafter for one text; see :class:`Drafter`."""
        session = shallow_copy(self)
        session._lookup = self._lookup.begin(target, None, texts)
        session._draft = self._draft.begin(target, own, texts)
        return session

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Look up how the text goes on, else let the model say it."""
        proposal = self._lookup.propose(texts, limits, sampler)
        if proposal is None:
            proposal = self._draft.propose(texts, limits, sampler)
        self.calls = self._draft.calls
        return proposal

    def keep(self, lengths: Sequence[int]) -> None:
        """Forget everything beyond the first tokens of the text, in both."""
        self._lookup.keep(lengths)
        self._draft.keep(lengths)
        self.calls = self._draft.calls

    def finish(self, text: Sequence[int]) -> None:
        """Leave the draft model's cache where it would stand without a look-up."""
        self._draft.finish(text)
        self.calls = self._draft.calls

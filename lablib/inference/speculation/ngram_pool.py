"""A pool of n-grams that requests share: what one text wrote, the next one's drafts are taken from.

Requests of one kind say the same things: a greeting, a form, the steps of a sum. Prompt lookup
(``ngram.py``) finds none of it, as each text looks in itself only. A pool keeps which token came
after each run of tokens in any text, prompts included (REST, He et al. 2023, 2311.08252, asks a
store of texts that way; SuffixDecoding, Oliaro et al. 2024, 2411.04975, earlier outputs).

Drafts come from what others wrote, so a rule under which drafts decide would give a seed another
text with each neighbour; and of two requests with one seed the second would be judged by the random
numbers that its drafts were made with. So ``shared`` says that a seed wants ``match`` or
``coupled``. (A pool is no secret: what one caller wrote shows in how fast another's text comes.)
"""

from collections import OrderedDict
from collections.abc import Sequence
from copy import copy as shallow_copy
from typing import Any, Self

from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.drafter import Limits, Texts
from lablib.inference.speculation.ngram import NGram
from lablib.inference.speculation.proposal import Proposal
from lablib.unknown_options import checks_options
from lablib.validation import integer


@checks_options
class NGramPool(NGram):
    """Look-up in all texts that this object has drafted for: one pool serves many requests.

    A guess grows token by token: each is the one that came last after the longest run known, of at
    most ``longest`` last tokens and at least ``shortest``. ``most`` runs are kept, those seen last;
    a run takes some 200 bytes. With a seed, and a temperature above 0, the rule must be ``match``
    or ``coupled``.

    Raises:
        ValueError, TypeError: ``longest`` or ``most`` is below 1, or ``shortest`` not from 1 to
            ``longest``.

    Example:
        >>> pool = lablib.NGramPool()
        >>> _, first = lablib.speculative_decode(model, pool, prompt, max_tokens=12)
        >>> _, again = lablib.speculative_decode(model, pool, prompt, max_tokens=12)
        >>> again["target_calls"] < first["target_calls"]
        True
    """

    shared = True
    _texts: Texts = ()

    def __init__(self, longest: int = 4, shortest: int = 1, most: int = 2**17) -> None:
        super().__init__(longest, shortest)
        self.most = integer("most", most, 1)
        self._follows: OrderedDict[tuple[int, ...], int] = OrderedDict()

    def begin(self, target: Any, own: Any, texts: int) -> Self:
        """Return a drafter for some texts, which looks into the pool and fills it."""
        session = shallow_copy(self)
        # Of each text the pool, and how much of the text is in it.
        session._indexes = [(self._follows, 0) for _ in range(texts)]
        return session

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Look up how each text goes on."""
        self._texts = texts
        return super().propose(texts, limits, sampler)

    def lookup(self, text: Sequence[int], n: int, row: int = 0) -> list[int]:
        """Return the guess itself, at most ``n`` ids; empty if the last tokens are new."""
        self._learn(text, row)
        known = list(text[-self.longest :])
        first = len(known)
        while len(known) < first + n:
            for size in range(min(self.longest, len(known)), self.shortest - 1, -1):
                token = self._follows.get(tuple(known[-size:]))
                if token is not None:
                    known.append(token)
                    break
            else:
                break
        return known[first:]

    def keep(self, lengths: Sequence[int]) -> None:
        """Learn what the round wrote: a text that has ended does not propose again."""
        for row, text in enumerate(self._texts):
            self._learn(text, row)

    def _learn(self, text: Sequence[int], row: int) -> None:
        _, learnt = self._indexes[row]
        for end in range(learnt, len(text)):
            for size in range(self.shortest, min(self.longest, end) + 1):
                run = tuple(text[end - size : end])
                self._follows.pop(run, None)  # those seen last stand last
                self._follows[run] = text[end]
                if len(self._follows) > self.most:
                    self._follows.popitem(last=False)
        self._indexes[row] = self._follows, len(text)

"""The engine's question to a drafter: how may these texts go on?

A drafter guesses the next few tokens. It may be as wrong as it likes: the target judges every guess
and the text's distribution never depends on them. Only speed does: on how often it is right, and
its own cost. One thing it must not do, see below: draw a token, and drop it for what it is.

To add one, subclass ``Drafter`` and write ``propose``. This one guesses that the last token comes
again, and again:

    class Parrot(Drafter):  # from lablib.inference import Drafter, Proposal
        def propose(self, texts, limits, sampler):
            return Proposal.of([[text[-1]] * n for text, n in zip(texts, limits)])

Give it where a draft model would stand: ``SpeculativeTokenIterator(target, Parrot(), prompt)``. It
remembers nothing, and so it is complete. A memory of its texts is made in ``begin`` (not in
``__init__``: texts would share it), one for each text, thinned out in ``select`` and grown in
``extend``: see ``NGram``. A mistake there raises nothing, but at temperature 0 the ``stats`` of a
batch are then not the sum of its texts' own. One for the library gets a file beside this one, its
name a place beside each ``NGram`` in the lists of exports.

How many tokens may be offered may hang on

- anything, the tokens themselves too, where they come without ``q``: looked up, at temperature 0,
  or drawn by someone who keeps q to himself. Each rule is lossless for every single guess;
- anything under ``match``, and under ``coupled`` as the engine plays it: the token after each
  place is the target's own, drawn without a look at the guess;
- the text, the drafts before a place and the q of it, but not on the token drawn there or later
  ones, where ``rejection``, ``block`` or a rule like them gets a ``q``. These count on it that x is
  offered as often as q says. With p = (1/2, 1/2) and q = (0.7, 0.3), one that drops its token where
  q gives it less than 1/2 writes the first in 65 % of the texts: the rule keeps all that p has of
  it, and plain p follows each drop. Of siblings in a tree the same holds for each.

So ``Proposal`` takes no ``q`` without ``blind=True``, which says so; and a draft model's length is
asked for in ``offers``, before the token is drawn.

Where guesses come from other texts, too (``shared``), no seed's text may hang on them: with a seed
and a temperature above 0 such a drafter is refused under ``rejection``, ``block`` and the like.
"""

from collections.abc import Callable, Sequence
from copy import copy as shallow_copy
from typing import Any, Self

from lablib.cache import tree
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.proposal import Proposal

import mlx.core as mx

Texts = Sequence[Sequence[int]]
Limits = Sequence[int]
Offers = Callable[[mx.array, Sequence[mx.array]], Sequence[bool] | None]


class Drafter:
    """Guesses how texts go on; ``propose`` is the only method that must be written.

    Attributes:
        model: the draft model, which reads the prompts too; None without one.
        calls: its forwards so far.
        in_target_cache: it works with the target's cache or states, so the target reads first.
        batches: it can draft for several texts at once.
        trees: its proposals may have ``parents``.
        shared: its guesses hang on other texts, too.
        offers: written as a method of what drafts token by token (a draft model, its first layers,
            a head): ``offers(logits, before)`` says of each text whether one more token is offered,
            or None: of all. It is asked before the token is drawn, by the ``logits (B, V)`` that it
            will be drawn from and the round's drafts so far, each ``(B,)``. A text that said no is
            not asked again in the round.

    Raises:
        NotImplementedError: ``propose`` was not written.

    Example:
        >>> class Parrot(lablib.Drafter):
        ...     def propose(self, texts, limits, sampler):
        ...         return lablib.Proposal.of([[text[-1]] * n for text, n in zip(texts, limits)])
        >>> lablib.speculative_decode(model, Parrot(), prompt, max_tokens=8)[1]["total_drafted"] > 0
        True
    """

    model: Any = None
    calls: int = 0
    in_target_cache = False
    batches = True
    trees = False
    shared = False
    offers: Offers | None = None

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Guess how each text goes on: at most ``limits[row]`` tokens; None if there is no guess.

        Guesses may differ in length, and some be empty: ``Proposal.of`` pads them, and padding is
        never judged. Leave ``texts``, prompt and completion of each, as they are.
        ``sampler.draft(logits, drafts so far)`` draws one from logits.
        """
        raise NotImplementedError(f"{type(self).__name__} must have a method propose")

    def begin(self, target: Any, own: Any, texts: int) -> Self:
        """Return a drafter for some texts, whose prompts may not have been read yet.

        Refuse a target here that does not fit; to ask that, it may be called once more. ``target``
        is the reader of the target (a ``Rewinder``, or a ``BatchRewinder`` of several texts);
        ``own`` that of ``model``, or None.
        """
        if self.trees:
            tree.check("target", target.model, target.cache)
        return shallow_copy(self)

    def keep(self, lengths: Sequence[int]) -> None:
        """Forget everything beyond the first ``lengths[row]`` tokens of each text."""

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these texts of the batch only."""

    def extend(self, other: Self) -> None:
        """Go on with the texts of another session, too, behind these.

        One that remembers nothing of its texts needs no more; one that does must write this as it
        writes ``select``. Otherwise an ``Engine`` writes its texts one by one.
        """

    def finish(self, text: Sequence[int]) -> None:
        """Leave the cache of the only text at ``text`` without its last token."""

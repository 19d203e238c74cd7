"""Guesses a block of tokens in one forward: of the places after a text, all at once.

A head guesses one state after the other, a forward each. Here one layer reads the target's states,
and behind the last of them a mark for each place that is to be filled: all places come out of one
forward (DFlash, 2602.06036). They are guessed side by side, so none knows what its neighbour drew:
after "of course" and "no problem" half of the draws would be "of problem". Hence the *coupling*, a
Markov head (DSpark, 2607.05147): a table of which token follows which, of low rank, made of the
target's own embeddings. What place k is drawn from then hangs on the token drawn before it,

    q_k(· | x_<k) = softmax(scores(states_k) + coupling(x_{k-1})),

and a draw costs one row of a table and no forward. The *confidence* of a place says how likely
its draft is to stay, from the state and from q_k: never from the token that was drawn of it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lablib.definitions import remember
from lablib.machine.arrays import listed
from lablib.models import zoo
from lablib.models.base import LanguageModel, seeded
from lablib.models.state_reader import StateReader, filled, stored
from lablib.unknown_options import checks_options
from lablib.validation import integer

import mlx.core as mx
import mlx.nn as nn

KIND = "lablib-block"


class DraftBlock(StateReader):
    """``block(states (B, T, hidden), tokens (B, T), cache) -> states (B, size, hidden)``.

    Each state stands before its token; the output guesses the ``size`` states after the last one.
    Other arguments and errors are those of ``StateReader``; ``size`` is at least 2.
    """

    def __init__(
        self,
        target: LanguageModel,
        size: int = 8,
        ids: Sequence[int] | None = None,
        intermediate_size: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(target, ids, intermediate_size, seed)
        self.size = integer("size", size, 2)
        width = target.config.hidden_size
        with seeded(seed + 1):
            self.marks = 0.02 * mx.random.normal((size - 1, width))  # of all places but the first
            self.couple = nn.Linear(width, width, bias=False)
            self.confide = nn.Linear(width + 2, 1)

    def __call__(
        self,
        states: mx.array,
        tokens: mx.array,
        cache: list[Any] | None = None,
        places: int | None = None,
    ) -> mx.array:
        """Guess the states of the first ``places`` (None: all) after the last of ``tokens``.

        ``cache`` takes in the T pairs, and behind them ``places - 1`` marks, which the caller
        takes back.
        """
        places = self.size if places is None else places
        pairs = self.pairs(states, tokens)
        marked = pairs[:, -1:] + self.marks[: places - 1]
        return self.blocks(mx.concatenate([pairs, marked], axis=1), cache)[:, -places:]

    def coupling(self, tokens: mx.array) -> mx.array:
        """Return what ``tokens (...)`` add to the scores of the places behind, ``(..., len(ids))``.

        The place behind the text's last token has read it: it takes none.
        """
        return self.scores(self.couple(self.target.model.embed_tokens(tokens)))

    def confidence(self, states: mx.array, scores: mx.array) -> mx.array:
        """Return the chance of each place that its draft stays, if those before it do, ``(...)``.

        Args:
            states: of the places, ``(..., hidden)``.
            scores: what each is drawn from, with its coupling, ``(..., len(ids))``.
        """
        return mx.sigmoid(self.doubt(states, scores))

    def doubt(self, states: mx.array, scores: mx.array) -> mx.array:
        """Return the log-odds of ``confidence``, which has the arguments."""
        logs = scores - mx.logsumexp(scores, axis=-1, keepdims=True)
        entropy = -mx.sum(mx.exp(logs) * logs, axis=-1, keepdims=True)
        seen = [states, mx.max(logs, axis=-1, keepdims=True), entropy]
        return self.confide(mx.concatenate(seen, axis=-1))[..., 0]


@checks_options
def load_block(name: str | Path, target: nn.Module) -> DraftBlock:
    """Return the block for ``target`` that came with the package, or that the workshop wrote.

    Args:
        name: a shipped name, such as "target-block", or the path of a directory.
        target: the model that it was trained on, as ``load`` returns it.

    Returns:
        The block, for ``Block(...)``.

    Raises:
        BadValue: there is no such block, a file of it is damaged, or it is another model's.

    Example:
        >>> block = lablib.Block(lablib.load_block("target-block", model))
        >>> ids, stats = lablib.speculative_decode(model, block, prompt, max_tokens=8)
        >>> stats["draft_calls"] > 0
        True
    """
    path, keys, arrays = stored(name, target, KIND, "draft block", zoo.CHECKPOINTS)
    ids = listed(arrays.pop("ids"))
    model: Any = target  # whose kind was looked at
    block = DraftBlock(model, keys["size"], ids, keys["intermediate_size"])
    return filled(block, arrays, path)


remember(__name__)

"""The random numbers of texts that grow side by side: those of a position, and those of a round.

Each is a hash of a text's key, its position and a *lane*, the number of an independent set. The
tokens' own draw takes a text's key as it is, one number a position; lane 0 is the race's, and a
text's round r of speculation has lane r + 1: what is decided there twice, after drafts were
refused, is decided anew.
"""

from collections.abc import Sequence

from lablib.inference.sampling import random_numbers
from lablib.inference.sampling.row import Row

import mlx.core as mx
import numpy as np

ACCEPT, FOLLOW, DRAFT = 0, 1, 2  # the uses of a round's random numbers, in their order


class Noise:
    """The random numbers of ``rows``, ``B`` texts.

    Attributes:
        rows: the texts, in the order of the batch; their owner appends to them.
        coupled: whether all models draw with the noise of a position (``rules.coupled``).
    """

    rows: tuple[Row, ...] = ()
    coupled: bool = False
    _keys: np.ndarray  # (B,) uint64
    _texts: list[list[int]]  # of the rows
    _starts: np.ndarray  # (B,) the tokens of their prompts
    _numbers: np.ndarray | None = None  # of the round, (B, uses), as far as they were asked for
    _by_position: dict[int, mx.array]  # the round's noise, by the tokens before it

    def positions(self) -> np.ndarray:
        """Return the number of tokens that each text got, ``(B,)``."""
        return np.array([*map(len, self._texts)], np.int64) - self._starts

    def uniforms(self, n: int, lane: int | np.ndarray = 1, size: int = 1) -> np.ndarray:
        """Return random numbers for the next ``n`` positions, other than those that ``draw`` takes.

        They are ``(B, n)`` float32 in [0, 1), the same until the texts grow.
        """
        positions = self.positions()[:, None] + np.arange(n)
        keys = random_numbers.key(self._keys, lane)
        return random_numbers.uniforms(keys[:, None], positions, size)

    def noise(self, ahead: int | range, vocab_size: int, lane: int = 0) -> mx.array:
        """Return an exponential number for each token ``(B, V)``, ``ahead`` tokens after the text.

        It is none that ``draw`` or ``uniforms`` take. For one text ``ahead`` may be several:
        ``(R, V)``.
        """
        positions = self.positions() + ahead
        # The keys of uniforms are hashes of (key, lane), these of (key, lane, position).
        keys = random_numbers.key(self._keys, lane, positions.astype(np.uint64))
        return mx.array(random_numbers.exponentials(keys, vocab_size))

    # Of a round.

    def numbers(self, first: int, n: int, size: int) -> mx.array:
        """Return ``n`` random numbers for uses of the round ``(B, n)``; each round has its lane.

        They are for draws from a vocabulary of this ``size``.
        """
        if self._numbers is None or first + n > self._numbers.shape[1]:
            most = DRAFT + 16 if self._numbers is None else 2 * self._numbers.shape[1]
            lanes = np.array([1 + row.rounds for row in self.rows], np.uint64)
            self._numbers = self.uniforms(most, lanes, size)
        return mx.array(self._numbers[:, first : first + n])

    def race(self, weights: mx.array, drafts: mx.array | None) -> mx.array:
        """Draw tokens ``(B, R)`` from weights ``(B, R, V)``, the last of them after all drafts.

        Token i arrives after ``E_i / weight_i``, and the first one wins: in proportion to its
        weight, as the E are exponential (the Gumbel-max trick without logarithms). They are the
        noise of a position, the same for all who draw there.
        """
        size = weights.shape[-1]
        noise = [self._noise_after(n, size) for n in before_each(weights, drafts)]
        exponentials = mx.stack(noise, axis=1)
        return mx.argmax(weights / exponentials, axis=-1).astype(mx.int32)

    def shuffled(self, q: mx.array, paths: Sequence[Sequence[int]], first: int) -> mx.array:
        """Order tokens as draws without replacement would, the largest first: ``(1, R, V)``.

        They are in a race (Kool et al. 2019, 1903.06059). Each of the R nodes of a tree has its own
        noise, by its number in the round, from ``first`` on; coupled models share that of a
        position.
        """
        size = q.shape[-1]
        if self.coupled:
            noise = mx.stack([self._noise_after(len(path), size) for path in paths], axis=1)
        else:
            nodes = range(first, first + len(paths))
            noise = self.noise(nodes, size, 1 + self.rows[0].rounds)
        return q / noise

    def _noise_after(self, ahead: int, size: int) -> mx.array:
        """Return the noise ``(B, V)`` of the position after ``ahead`` tokens of the round."""
        if ahead not in self._by_position:
            self._by_position[ahead] = self.noise(ahead, size)
        return self._by_position[ahead]

    def begin_round(self) -> None:
        """Begin a round, with random numbers of its own."""
        self._numbers = None
        self._by_position = {}


def before_each(logits: mx.array, drafts: mx.array | None) -> range:
    """Return how many of the drafts ``(B, A)`` come before each of R positions ``(B, R, V)``."""
    n = 0 if drafts is None else drafts.shape[1]
    return range(n + 1 - logits.shape[1], n + 1)

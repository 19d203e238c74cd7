"""Rows that decode side by side: who has ended leaves, and others may join between two steps.

The one loop under ``sample_n`` and ``serve``. The forward after a row's last token is never run,
and the log-probabilities come from the logits that drew the tokens.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from lablib.cache import kv
from lablib.inference.samples import Row
from lablib.inference.sampling import transforms
from lablib.inference.sampling.sampler import Sampler
from lablib.inference.text_sampler import NOT_FINITE
from lablib.validation import BadValue

import mlx.core as mx


class GrowingBatch:
    """Rows of a batch, one token longer at each step until a stop or ``max_tokens`` ends them.

    Prompt and completion of a row have at most ``num_ctx`` tokens. ``report`` is called with the
    number of tokens that are done, or no longer needed.
    """

    def __init__(
        self, model: Any, num_ctx: int, report: Callable[[int], object] = lambda n: None
    ) -> None:
        self.rows: list[Row] = []  # those that still grow, in the order of the batch
        self._model, self._sampler, self._report = model, Sampler(num_ctx), report
        # Without stop tokens the next forward does not depend on what was drawn: look one step
        # late, so that the device never waits. With them look now: a row that ended must not go on.
        self._lag = 1
        self._drawn: deque[tuple[Any, ...]] = deque()  # rows and arrays that nobody looked at yet

    def join(self, rows: Sequence[Row], cache: list[Any], logits: mx.array) -> None:
        """Add rows whose prompts were read, with the ``logits (B, V)`` after each.

        Their cache becomes the batch's own, or (in mlx-lm's batch form) part of it.
        """
        self._look(0)
        for row in rows:
            prior = row.prompt if row.options.penalizes else ()
            self._sampler.add(row.number, row.options, prior, stream=row.stream)
            if row.stops:
                self._lag = 0
        if not self.rows:
            self._cache, self._logits = cache, logits
        else:
            for layer, more in zip(self._cache, cache, strict=True):
                layer.extend(more)
            self._logits = mx.concatenate([self._logits, logits])
        self.rows += rows

    def step(self) -> None:
        """Draw a token for each row, let those leave that have ended, forward the others."""
        token = self._draw()
        self._look(self._lag)
        stay = [place for place, row in enumerate(self.rows) if row.left > len(self._drawn)]
        if len(stay) < len(self.rows):
            self._look(0)
            self.rows = [self.rows[place] for place in stay]
            if not stay:
                return
            kv.select(self._cache, stay)
            token = token[mx.array(stay)]
        self._logits = last_logits(self._model, token[:, None], self._cache)

    def run(self) -> None:
        """Complete all rows."""
        while self.rows:
            self.step()

    def _draw(self) -> mx.array:
        """Queue the draw of one token for each row; returns them unseen ``(B,)``."""
        numbers = [row.number for row in self.rows]
        pending = self._drawn[-1][1][:, None] if self._drawn else None
        token, finite = self._sampler.draw(numbers, self._logits, pending)
        logprobs = transforms.log_softmax(self._logits)
        chosen = mx.take_along_axis(logprobs, token[:, None], axis=-1)[:, 0]
        self._drawn.append((self.rows, token, finite, chosen))
        mx.async_eval(token, finite, chosen)
        return token

    def _look(self, lag: int) -> None:
        """Fetch the drawn tokens, all but the last ``lag`` steps; only here does the host wait."""
        while len(self._drawn) > lag:
            rows, *arrays = self._drawn.popleft()
            mx.eval(arrays)
            columns = [array.tolist() for array in arrays]
            for row, token, finite, logprob in zip(rows, *columns, strict=True):
                if not finite:
                    raise BadValue(f"row {row.number}, token {len(row.tokens)}: {NOT_FINITE}")
                left = row.left
                row.take([token], [logprob])
                self._report(left - row.left)
            self._sampler.commit([row.number for row in rows], columns[0])


def last_logits(model: Any, tokens: mx.array, cache: list[Any]) -> mx.array:
    """Forward ``tokens (B, T)`` and return the raw logits ``(B, V)`` after the last one."""
    return model(tokens, cache=cache)[:, -1, :].astype(mx.float32)

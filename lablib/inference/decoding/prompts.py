"""Read prompts: piece by piece, and no shared beginning twice.

The last token of a prompt is left unread: the first round reads it, and gets the logits after it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder, trims_freely
from lablib.inference.arguments import shared_start
from lablib.validation import BadValue

import mlx.core as mx

_END = 64  # tokens of a prompt's end that cost less than a forward of their own


def read_prompt(
    readers: Sequence[Rewinder], prompt: Sequence[int], step_size: int, leave: int = 0
) -> Iterator[None]:
    """Let models read a prompt, all but its last token; yield after each piece.

    Pieces have ``step_size`` tokens. Reading goes on where the last of ``readers`` stands, so that
    it can be resumed. The first may leave a last piece of up to ``leave`` tokens unread: its first
    round then reads them too, one forward instead of two.
    """
    end = len(prompt) - 1
    for start in range(readers[-1].positions[0], end, step_size):
        stop = min(start + step_size, end)
        piece = mx.array([prompt[start:stop]])
        waits = stop == end and stop - start <= leave
        for reader in readers[1:] if waits else readers:
            reader.forward(piece, stays=True)
        state = [layer.state for reader in readers for layer in reader.cache]
        if stop < end:  # wait, so that memory for one piece is enough
            mx.eval(state)
            mx.clear_cache()
        else:  # during the last piece the next step can be written down
            mx.async_eval(state)
        yield


def cut_back(readers: Sequence[Rewinder], read: list[int], start: int) -> None:
    """Leave caches that have read ``read`` at its first ``start`` tokens, and ``read``, too.

    Raises:
        BadValue: one of them cannot forget the others; nothing was changed.
    """
    surplus = len(read) - start
    caches = [reader.cache for reader in readers]
    for cache in sorted(caches, key=kv.trimmable):  # one that cannot is the first
        try:
            kv.trim(cache, surplus)
        except BadValue as error:
            others = f"tokens that the prompt has not, and cache must forget them: {error}"
            raise BadValue(f"cached_tokens has {surplus} {others}") from error
    del read[start:]


def most_unread(target: Rewinder, drafter: Any) -> int:
    """Return how many tokens of a prompt's end the target may read with the first drafts.

    That spares a forward where the target's cache trims for free and no drafter works in that
    cache. (The tokens get logits in vain.)
    """
    if drafter is None or drafter.in_target_cache or not trims_freely(target.cache):
        return 0
    return _END


class PromptReader:
    """Reads prompts one after the other; a beginning that two share is read once.

    Attributes:
        calls: forwards of the model since :meth:`new_calls`.
        text: the tokens that were read last.
    """

    def __init__(self, model: Any, step_size: int) -> None:
        self.model = model
        self.calls = 0
        self._step_size = step_size
        self._cache = kv.make(model)
        self.text: list[int] = []  # the tokens in the cache

    def read(self, prompt: Sequence[int]) -> kv.Cache:
        """Return a cache of one row, before the last token; the caller must not change it."""
        text = list(prompt[:-1])
        if text != self.text:
            reader = self.begin(text)
            for _ in read_prompt([reader], prompt, self._step_size):
                pass
            self.keep(reader, text)
        return self._cache

    def keep(self, reader: Rewinder, text: list[int]) -> None:
        """Remember what was read last, and by whom."""
        self.calls += reader.calls
        self._cache = reader.cache
        self.text = text

    def new_calls(self) -> int:
        """Return how many forwards nobody has counted yet; they are counted now."""
        calls, self.calls = self.calls, 0
        return calls

    def begin(self, text: list[int]) -> Rewinder:
        """Return a reader that has read the beginning that ``text`` shares with the last one."""
        shared = shared_start(self.text, text)
        surplus = len(self.text) - shared
        if surplus and kv.trimmable(self._cache) < surplus:
            return Rewinder(self.model, kv.make(self.model))
        reader = Rewinder(self.model, kv.copy(self._cache), read=shared)
        kv.trim(reader.cache, surplus)
        return reader

"""Plan a batch of prompts: which tokens must run, and when, so that none runs twice.

Sort what the cache lacks of the prompts, and each stands next to what it shares most with. A prompt
then needs one *row*: the tokens after what the cache holds and after what it shares with its
neighbour. A row that continues another one's tokens waits for them; rows that wait for nothing run
side by side.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

Prompt = tuple[int, ...]
Piece = tuple["Row", int]  # a row, and how far one forward takes it

# What a forward may be, in tokens. None of this changes an answer.
OVERHEAD = 16  # what a forward costs beside its tokens: so much padding may spare another forward
WIDTH = 1 << 16  # positions one forward may read: rows times the longest of them
NARROW = 1 << 12  # below so many positions it does not matter how many of them are padding
LOGITS = 1 << 20  # so many logits that nobody asked for are worth a forward without logits


@dataclass(eq=False, slots=True)
class Row:
    """A run of tokens to forward: ``prompt[start:]``, given the keys and values before it.

    Attributes:
        prompt: the longest prompt that ends in this row.
        held: how many leading tokens the cache holds.
        start: the first token to forward.
        done: the next token to forward.
        ends: lengths of the prompts that end in this row; their last tokens' logits are wanted.
        parent: the row that computes token ``start - 1``; None if the cache holds it.
        slots: ``(len(prompt),)`` where the keys and values of each token are, or will be.
    """

    prompt: Prompt
    held: int
    start: int
    done: int
    parent: "Row | None" = None
    ends: list[int] = field(default_factory=list)
    slots: np.ndarray | None = None

    @property
    def kept(self) -> int:
        """The first token whose keys and values are new; the one before may run for its logits."""
        return max(self.start, self.held)

    @property
    def ready(self) -> bool:
        """Whether there is a next token, and all before it are known."""
        waiting = self.parent is not None and self.parent.done < self.start
        return self.done < len(self.prompt) and not waiting

    def stop(self, step: int, vocab_size: int) -> int:
        """How far one forward of up to ``step`` tokens takes this row."""
        end = next(end for end in self.ends if end > self.done)
        if (end - 1 - self.done) * vocab_size >= LOGITS:
            return min(self.done + step, end - 1)
        return min(self.done + step, len(self.prompt))


def plan(prompts: Iterable[tuple[Prompt, int, Hashable]]) -> list[Row]:
    """The rows of a batch, parents before children.

    Args:
        prompts: distinct prompts, each with how many of its leading tokens the cache holds, and a
            name for the place where it stops holding them: equal where those tokens are equal.
            The last token of a prompt runs even if it is held, since its logits are wanted.

    Returns:
        The rows. Together they forward each prefix that the cache lacks once.
    """
    groups: dict[Hashable, list[tuple[Prompt, Prompt]]] = {}  # by place: all else is shared there
    for prompt, held, place in prompts:
        groups.setdefault((place, held), []).append((prompt[held:], prompt))
    rows: list[Row] = []
    for (_, held), group in groups.items():
        path: list[Row] = []  # the rows that compute the prompt before this one, in order of start
        before: Prompt | None = None
        for rest, prompt in sorted(group):
            common = held + (0 if before is None else _common(before, rest))
            while path and path[-1].start >= common:
                path.pop()
            start = min(common, len(prompt) - 1)
            if path and common == held + len(before):  # goes on where the one before it ends
                path[-1].prompt = prompt
            else:
                parent = path[-1] if start > held else None
                path.append(Row(prompt, held, start, done=start, parent=parent))
                rows.append(path[-1])
            path[-1].ends.append(len(prompt))
            before = rest
    return rows


def choose(rows: Iterable[Row], step: int, vocab_size: int) -> list[Piece]:
    """The next forward: rows of about one length, ``step`` tokens in all, padding included."""
    pieces = [(row, row.stop(step, vocab_size)) for row in rows if row.ready]
    pieces.sort(key=lambda piece: (piece[0].done - piece[1], -piece[1]))  # the longest first
    chosen: list[Piece] = []
    tokens = positions = widest = 0
    for row, stop in pieces:
        longest, count = pieces[0][1] - pieces[0][0].done, len(chosen) + 1
        real, read, width = tokens + stop - row.done, positions + stop, max(widest, stop)
        if chosen and (
            count * longest > step
            or count * width > WIDTH
            or count * longest - real > max(OVERHEAD, real // 2)
            or count * width - read > max(NARROW, read)
        ):
            continue
        chosen.append((row, stop))
        tokens, positions, widest = real, read, width
    return chosen


def _common(a: Prompt, b: Prompt) -> int:
    """How many leading tokens two prompts share."""
    if b[: len(a)] == a:
        return len(a)
    return next(i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)

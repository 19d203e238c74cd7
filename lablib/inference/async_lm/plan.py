"""Plan a batch of prompts: which tokens must run, and when, so that none runs twice.

Sort what the cache lacks of the prompts, and each stands next to what it shares most with. A prompt
then needs one *run* of tokens: those after what the cache holds and after what it shares with its
neighbour. A run that continues another one's tokens waits for them; the others go side by side.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from lablib.cache.trie import common_length

import numpy as np

Prompt = tuple[int, ...]
Advance = tuple["TokenRun", int]  # a run, and how far one forward takes it

# What a forward may be, in tokens. None of this changes an answer.
OVERHEAD = 16  # what a forward costs beside its tokens: so much padding may spare another forward
WIDTH = 1 << 16  # positions one forward may read: rows times the longest of them
NARROW = 1 << 12  # below so many positions it does not matter how many of them are padding
LOGITS = 1 << 20  # so many logits that nobody asked for are worth a forward without logits


@dataclass(eq=False, slots=True)
class TokenRun:
    """Tokens to forward, ``prompt[start:]``, given the keys and values before them."""

    prompt: Prompt  # the longest prompt that ends in this run
    held: int  # how many leading tokens the cache holds
    start: int  # the first token to forward
    done: int  # the next token to forward
    parent: "TokenRun | None" = None  # computes token ``start - 1``; None if the cache holds it
    ends: list[int] = field(default_factory=list)  # lengths of the prompts that end in this run
    slots: np.ndarray | None = None  # (len(prompt),) the place of each token's keys and values

    @property
    def kept(self) -> int:
        """Return the first token with new keys and values; the one before may run for logits."""
        return max(self.start, self.held)

    @property
    def ready(self) -> bool:
        """Return whether there is a next token, and all before it are known."""
        known = self.parent is None or self.parent.done >= self.start
        return known and self.done < len(self.prompt)

    def reach(self, step: int, vocab_size: int) -> int:
        """Return how far one forward of up to ``step`` tokens takes this run."""
        last = next(end for end in self.ends if end > self.done) - 1
        wasteful = (last - self.done) * vocab_size >= LOGITS
        return min(self.done + step, last if wasteful else len(self.prompt))


def plan_runs(prompts: Iterable[tuple[Prompt, int, Hashable]]) -> list[TokenRun]:
    """Return the runs, parents before children, that forward each missing prefix once.

    The distinct ``prompts`` come with how many leading tokens the cache holds, and a name for the
    place where it stops: equal where those tokens are equal. The last token of a prompt runs even
    if it is held, since its logits are wanted.
    """
    groups: dict[Hashable, list[tuple[Prompt, Prompt]]] = {}  # by place: all else is shared there
    for prompt, held, place in prompts:
        groups.setdefault((place, held), []).append((prompt[held:], prompt))
    runs: list[TokenRun] = []
    for (_, held), group in groups.items():
        path: list[TokenRun] = []  # what computes the prompt before this one, in order of start
        before: Prompt = ()
        for rest, prompt in sorted(group):
            common = held + common_length(before, rest)
            while path and path[-1].start >= common:
                path.pop()
            start = min(common, len(prompt) - 1)
            if path and common == held + len(before):  # goes on where the one before it ends
                path[-1].prompt = prompt
            else:
                parent = path[-1] if start > held else None
                path.append(TokenRun(prompt, held, start, done=start, parent=parent))
                runs.append(path[-1])
            path[-1].ends.append(len(prompt))
            before = rest
    return runs


def choose_forward(
    runs: Iterable[TokenRun], step: int, vocab_size: int, rows: int = WIDTH
) -> list[Advance]:
    """Return what goes next: up to ``rows`` runs of about one length, ``step`` tokens in all."""
    ready = [(run, run.reach(step, vocab_size)) for run in runs if run.ready]
    ready.sort(key=lambda advance: (advance[0].done - advance[1], -advance[1]))  # the longest first
    chosen: list[Advance] = []
    tokens = positions = widest = 0
    for run, stop in ready:
        longest, count = ready[0][1] - ready[0][0].done, len(chosen) + 1
        real, read, width = tokens + stop - run.done, positions + stop, max(widest, stop)
        if not chosen or (
            count <= rows
            and count * longest <= step
            and count * width <= WIDTH
            and count * longest - real <= max(OVERHEAD, real // 2)
            and count * width - read <= max(NARROW, read)
        ):
            chosen.append((run, stop))
            tokens, positions, widest = real, read, width
    return chosen

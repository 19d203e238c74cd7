"""Plan a batch of prompts: which tokens must run, and when, so that none runs twice.

Sort the prompts by the tokens that the cache lacks: each stands beside the one with which it shares
most. It then needs one *run* of tokens: those that neither the cache nor the prompt before it has.
A run that continues another one's tokens waits for them; the others go side by side.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from lablib.cache.trie import common_length

import numpy as np

Prompt = tuple[int, ...]
Advance = tuple["TokenRun", int]  # a run, and the token at which one forward stops

# Bound a forward, in tokens. None of this changes an answer.
OVERHEAD = 16  # a forward's cost beside its tokens: so much padding may spare another forward
WIDTH = 1 << 16  # positions one forward may read: rows times the longest of them
NARROW = 1 << 12  # below so many positions it does not matter how many of them are padding
LOGITS = 1 << 20  # so many logits that nobody asked for are worth a forward without logits


def _no_slots() -> np.ndarray:
    return np.empty(0, np.int32)


@dataclass(eq=False, slots=True)
class TokenRun:
    """Name tokens to forward, ``prompt[start:]``, given the keys and values before them."""

    prompt: Prompt  # the longest prompt that ends in this run
    stored: int  # the number of leading tokens that the cache holds
    start: int  # the first token to forward
    done: int  # the next token to forward
    parent: "TokenRun | None" = None  # computes token ``start - 1``; None if the cache holds it
    ends: list[int] = field(default_factory=list)  # lengths of the prompts that end in this run
    slots: np.ndarray = field(default_factory=_no_slots)  # (len(prompt),) of keys and values

    @property
    def kept(self) -> int:
        """Return the first token with new keys and values; the one before may run for logits."""
        return max(self.start, self.stored)

    @property
    def finished(self) -> bool:
        """Return whether no token is left to forward."""
        return self.done == len(self.prompt)

    @property
    def ready(self) -> bool:
        """Return whether there is a next token, and all before it have keys and values."""
        return not self.finished and (self.parent is None or self.parent.done >= self.start)

    def reach(self, step: int, vocab_size: int) -> int:
        """Return how far one forward of up to ``step`` tokens takes this run."""
        last = next(end for end in self.ends if end > self.done) - 1
        wasteful = (last - self.done) * vocab_size >= LOGITS
        return min(self.done + step, last if wasteful else len(self.prompt))


def plan_runs(prompts: Iterable[tuple[Prompt, int, Hashable]]) -> list[TokenRun]:
    """Return the runs, parents before children, that forward each missing prefix once.

    The distinct ``prompts`` come with the number of leading tokens that the cache holds, and a name
    for the place where it stops: equal where those tokens are equal. The last token of a prompt
    runs even if it is stored, since its logits are wanted.
    """
    groups: dict[tuple[int, Hashable], list[Prompt]] = {}
    for prompt, stored, place in prompts:
        groups.setdefault((stored, place), []).append(prompt)
    return [run for (stored, _), group in groups.items() for run in _runs(group, stored)]


def _runs(group: list[Prompt], stored: int) -> list[TokenRun]:
    """Return the runs of prompts whose first ``stored`` tokens the cache holds, all the same."""
    runs: list[TokenRun] = []
    path: list[TokenRun] = []  # computes the prompt before this one, in order of start
    before: Prompt = ()
    for rest, prompt in sorted((prompt[stored:], prompt) for prompt in group):
        common = stored + common_length(before, rest)
        while path and path[-1].start >= common:
            path.pop()
        if path and common == stored + len(before):  # goes on where the one before it ends
            path[-1].prompt = prompt
        else:
            start = min(common, len(prompt) - 1)
            parent = path[-1] if start > stored else None
            path.append(TokenRun(prompt, stored, start, done=start, parent=parent))
            runs.append(path[-1])
        path[-1].ends.append(len(prompt))
        before = rest
    return runs


def choose_forward(
    runs: Iterable[TokenRun], step: int, vocab_size: int, rows: int = WIDTH
) -> list[Advance]:
    """Return the next forward: up to ``rows`` runs of about one length, ``step`` tokens in all."""

    def longest_first(advance: Advance) -> tuple[int, int]:
        run, stop = advance
        return run.done - stop, -stop

    ready = [(run, run.reach(step, vocab_size)) for run in runs if run.ready]
    ready.sort(key=longest_first)
    chosen: list[Advance] = []
    longest = tokens = positions = widest = 0
    for run, stop in ready:
        count = len(chosen) + 1
        longest = max(longest, stop - run.done)
        real = tokens + stop - run.done
        read = positions + stop
        width = max(widest, stop)
        fits = count <= rows and count * longest <= step and count * width <= WIDTH
        padding = count * longest - real
        unread = count * width - read
        even = padding <= max(OVERHEAD, real // 2) and unread <= max(NARROW, read)
        if not chosen or (fits and even):
            chosen.append((run, stop))
            tokens = real
            positions = read
            widest = width
    return chosen

"""The prefix tree as a plain dictionary: one entry per stored prefix, every search a full scan.

It states what ``TokenTrie`` must do in the slowest way there is, so that it can be read at a
glance: a prefix remembers when it was last used, and the one to go is the least recently used, the
longest first among equals.
"""

from dataclasses import dataclass, field

Prefix = tuple[int, ...]


@dataclass
class Entry:
    """What is known about one stored prefix."""

    used: int
    kv: object = None  # what was computed for its last token
    row: object = None  # log-probabilities of the next token
    row_used: int = 0
    boundary: bool = False  # whether an edge ends here


@dataclass
class PlainTrie:
    """The model of a ``TokenTrie`` whose rows of log-probabilities all weigh the same."""

    max_tokens: int
    max_rows: int
    max_kv: int
    entries: dict[Prefix, Entry] = field(default_factory=dict)
    pinned: list[Prefix] = field(default_factory=list)
    clock: int = 0

    def match(self, prompt: Prefix, touch: bool = True) -> tuple[int, int, object]:
        """Tokens matched, those with KV, and the row after the whole prompt."""
        matched = self._longest(prompt)
        held = 0
        while held < matched and self.entries[prompt[: held + 1]].kv is not None:
            held += 1
        entry = self.entries.get(prompt)
        row = entry.row if entry is not None and matched == len(prompt) else None
        if touch:
            self._use(self.edge_end(prompt[:matched]))
            if row is not None:
                entry.row_used = self.clock
        return matched, held, row

    def insert(self, prompt: Prefix, kv: list | None, start: int, row: object, pin: bool) -> None:
        matched = self._longest(prompt)
        if matched:
            self.entries[prompt[:matched]].boundary = True
        for size in range(1, len(prompt) + 1):
            entry = self.entries.setdefault(prompt[:size], Entry(0))
            if kv is not None and size > start and entry.kv is None:
                entry.kv = kv[size - 1 - start]
        end = self.entries[prompt]
        end.boundary = True
        if row is not None and end.row is None:
            end.row, end.row_used = row, self.clock + 1
        self._use(prompt)
        if pin:
            self.pinned.append(prompt)
        self.make_room()

    def unpin(self, prefix: Prefix) -> None:
        self.pinned.remove(prefix)
        self._use(prefix)
        self.make_room()

    def make_room(self, tokens: int = 0) -> None:
        rows = [p for p, e in self.entries.items() if e.row is not None]
        rows.sort(key=lambda p: self.entries[p].row_used)
        for prefix in rows[: max(len(rows) - self.max_rows, 0)]:
            self.entries[prefix].row = None
        while (victim := self._victim()) is not None:
            kv_tokens = sum(e.kv is not None for e in self.entries.values())
            if len(self.entries) + tokens <= self.max_tokens and kv_tokens + tokens <= self.max_kv:
                return
            self._drop(victim)

    def clear(self) -> None:
        while (victim := self._victim()) is not None:
            self._drop(victim)

    def edge_end(self, prefix: Prefix) -> Prefix:
        """The end of the edge on which ``prefix`` ends."""
        while prefix and not self.entries[prefix].boundary:
            (prefix,) = [p for p in self.entries if len(p) == len(prefix) + 1 and p[:-1] == prefix]
        return prefix

    def free(self, prefix: Prefix) -> bool:
        """Whether no pin holds ``prefix``."""
        return all(p[: len(prefix)] != prefix for p in self.pinned)

    def _longest(self, prompt: Prefix) -> int:
        size = 0
        while size < len(prompt) and prompt[: size + 1] in self.entries:
            size += 1
        return size

    def _use(self, prefix: Prefix) -> None:
        self.clock += 1
        for size in range(1, len(prefix) + 1):
            if self.free(prefix[:size]):
                self.entries[prefix[:size]].used = self.clock

    def _victim(self) -> Prefix | None:
        free = [p for p in self.entries if self.free(p)]
        return min(free, key=lambda p: (self.entries[p].used, -len(p)), default=None)

    def _drop(self, prefix: Prefix) -> None:
        without_kv = self.entries.pop(prefix).kv is None
        above = prefix[:-1]
        if above and not self.entries[above].boundary:
            if without_kv:
                self._drop(above)
            else:
                self.entries[above].boundary = True

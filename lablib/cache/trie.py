"""Store, and compute, the common beginnings of many prompts once: a compressed prefix tree.

An edge carries a run of tokens, so a node exists only where prompts part or end. Each token on an
edge owns a slot number, the place of its keys and values (see ``slab.py``), and a node may hold the
log-probabilities of the token that follows it. Cutting an edge in two moves numbers, not arrays.

When the budget is full, the least recently *used* leaf gives way, from its last token backwards. A
use is of the whole path, but only its end notes the time: a node that has lost its last child takes
that one's. The leaves stand in a heap by age. So a use costs the same at any depth, no node above a
pinned one is a leaf, and evicting costs as much as is evicted.

mlx-lm's ``PromptTrie`` keeps a whole cache at the end of each prompt, so that a shared prefix is
stored twice, and it neither counts tokens nor pins those in use.
"""

import heapq
import math
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lablib.cache.slab import Slab
from lablib.validation import BadValue, integer

import numpy as np

_NONE = np.empty(0, np.int32)
_RECENT = 1 << 17  # tokens of prompts that are found without a walk from the root


@dataclass(eq=False, repr=False, slots=True)
class Node:
    """End an edge below."""

    tokens: tuple[int, ...] = ()  # on the edge from the parent; none only at the root
    slots: np.ndarray | None = None  # int32, one for each of them; None without keys and values
    parent: "Node | None" = None  # None at the root
    depth: int = 0  # tokens from the root to here
    logprobs: Any = None  # (V,), of the next token; None if nobody has computed them
    pins: int = 0  # the users of this very node; at the root, of any node
    used: int = 0  # the time of its last use, not counting uses of nodes below it
    queued: bool = False  # whether it stands in the heap of leaves
    children: dict[int, "Node"] = field(default_factory=dict)  # by the first token on their edge

    @property
    def above(self) -> "Node":
        """Return the parent of a node that is not the root."""
        assert self.parent is not None
        return self.parent

    @property
    def start(self) -> int:
        """Return the number of tokens from the root to the upper end of the edge."""
        return self.depth - len(self.tokens)


@dataclass(frozen=True, slots=True)
class Match:
    """Tell how much of a prompt the tree holds."""

    node: Node  # the deepest node reached; its log-probabilities are those after its depth
    matched: int  # tokens found; more than ``node.depth`` if the match ends inside an edge
    tip: Node  # the lower end of the last edge entered: ``node``, or below it
    slots: np.ndarray  # int32, of the leading tokens that have one
    logprobs: Any  # (V,) after the whole prompt, or None


@dataclass(frozen=True, slots=True)
class Event:
    """Record one change of the tree, for drawings: of tokens ``start`` to ``stop`` of some path."""

    kind: str  # "insert", "split" (at start) or "evict"
    start: int
    stop: int


class TokenTrie:
    """Store prompts, their tokens' slots and next-token log-probabilities, under a budget.

    The edges carry at most ``max_tokens`` tokens (0 stores only pinned ones), at most
    ``slab.limit`` of them with a slot, and all log-probabilities weigh at most
    ``max_logprob_bytes``. This holds after every call, except that pinned paths are never evicted.
    All costs are proportional to the tokens concerned, none to the tree's size.
    """

    def __init__(
        self, max_tokens: int, max_logprob_bytes: float = math.inf, *, slab: Slab | None = None
    ):
        self.max_tokens = integer("max_tokens", max_tokens, 0)
        self.max_logprob_bytes = max_logprob_bytes
        self.slab = Slab(1, max_tokens) if slab is None else slab
        self.root = Node()
        self.events: deque[Event] = deque(maxlen=256)
        self.tokens = 0  # on all edges
        self.kv_tokens = 0  # of those, with a slot
        self.logprob_bytes = 0
        self._oldest: list[tuple[int, int, Node]] = []  # a heap: when used, at least, id, leaf
        self._uses = 0
        self._oldest_rows: OrderedDict[Node, None] = OrderedDict()  # those with log-probabilities
        self._recent: dict[tuple[int, ...], tuple[Node, np.ndarray]] = {}  # with all their slots
        self._recent_tokens = 0

    # Match, insert, split, evict.

    def match(self, prompt: Sequence[int], *, touch: bool = True) -> Match:
        """Find the longest stored prefix of ``prompt``; with ``touch`` it counts as a use."""
        prompt = tuple(prompt)
        node, first_slots = self._nearest(prompt)
        tip, matched, slots = node, node.depth, [first_slots]
        while matched == node.depth < len(prompt) and prompt[matched] in node.children:
            tip = node.children[prompt[matched]]
            common = common_length(tip.tokens, prompt[matched : matched + len(tip.tokens)])
            matched += common
            if tip.slots is not None:  # then every node above has them too
                slots.append(tip.slots[:common])
            if matched == tip.depth:  # else the match ends inside this edge
                node = tip
        row = node.logprobs if node.depth == len(prompt) else None
        if touch:
            self._touch(tip)
            if row is not None:
                self._oldest_rows.move_to_end(node)
        return Match(node, matched, tip, np.concatenate(slots), row)

    def _nearest(self, prompt: tuple[int, ...]) -> tuple[Node, np.ndarray]:
        """Return the node at the end of ``prompt``, or a token before, and its slots, if recent."""
        for path in (prompt, prompt[:-1]):
            node, slots = self._recent.get(path, (self.root, _NONE))
            if node.depth == len(path):  # an evicted node is shorter, or nothing
                return node, slots
        return self.root, _NONE

    def _remember(self, prompt: tuple[int, ...], node: Node, slots: np.ndarray) -> None:
        self._recent_tokens += 0 if prompt in self._recent else len(prompt)
        self._recent[prompt] = node, slots
        while self._recent_tokens > _RECENT:
            first = next(iter(self._recent))
            self._recent_tokens -= len(first)
            del self._recent[first]

    def insert(
        self,
        prompt: Sequence[int],
        slots: np.ndarray | None = None,
        start: int = 0,
        logprobs: Any = None,
        *,
        pin: bool = False,
    ) -> Node:
        """Store a prompt, at least one token, and return the node at its end.

        ``slots (len(prompt) - start,)`` are those of ``prompt[start:]`` and the tree's from now on;
        the tokens before must have theirs. ``logprobs (V,)`` is anything with ``nbytes``. ``pin``
        keeps the path until :meth:`unpin`; else the budget may cut the node at once. Tokens that
        the tree has already keep their slots, and the new ones are released.
        """
        prompt = tuple(prompt)
        if not prompt:
            raise BadValue("prompt must hold at least one token, got none")
        match = self.match(prompt, touch=False)
        if slots is not None:
            integer("start", start, 0, len(match.slots))
            count = len(prompt) - start
            if len(slots) != count:
                raise BadValue(f"slots must number {count}, got {len(slots)}")
        node = match.node
        if match.matched > node.depth:
            node = self._split(match.tip, match.matched - node.depth)
        rest = prompt[match.matched :]
        if rest:
            self.events.append(Event("insert", node.depth, len(prompt)))
            self.tokens += len(rest)
            leaf = Node(rest, parent=node, depth=len(prompt))
            node.children[rest[0]] = leaf
            node = leaf
        if slots is not None:
            slots = np.asarray(slots, np.int32)
            self._give(node, slots, start)
            new = slots[len(match.slots) - start :]
            every = np.concatenate([match.slots, new])
            self._remember(prompt, node, every)
        if logprobs is not None and node.logprobs is None:
            node.logprobs = logprobs
            self.logprob_bytes += logprobs.nbytes
            self._oldest_rows[node] = None
        self._touch(node)
        if pin:
            self.pin(node)
        self.make_room()
        return node

    def _split(self, lower: Node, size: int) -> Node:
        """Cut the edge above ``lower`` after ``size`` tokens; ``lower`` stays the node it was."""
        above = lower.above
        upper = Node(lower.tokens[:size], parent=above, depth=lower.start + size)
        self.events.append(Event("split", upper.depth, lower.depth))
        if lower.slots is not None:
            upper.slots = lower.slots[:size].copy()
            lower.slots = lower.slots[size:].copy()
        lower.tokens = lower.tokens[size:]
        lower.parent = upper
        above.children[upper.tokens[0]] = upper
        upper.children[lower.tokens[0]] = lower
        return upper

    def _give(self, node: Node, slots: np.ndarray, start: int) -> None:
        """Hand the slots of the tokens from ``start`` on to the nodes above that have none."""
        while node.depth > start:
            mine = slots[max(node.start - start, 0) : node.depth - start]
            if node.slots is None:
                node.slots = mine.copy()
                self.kv_tokens += len(mine)
            else:
                self.slab.release(mine)
            node = node.above

    def make_room(self, tokens: int = 0) -> None:
        """Evict until ``tokens`` more would fit, as far as pins allow."""
        while self.logprob_bytes > self.max_logprob_bytes:
            self._forget_row(next(iter(self._oldest_rows)))
        while self._excess() + tokens > 0:
            leaf = self._oldest_leaf()
            if leaf is None:
                return
            self._evict(leaf, self._excess() + tokens)

    def _excess(self) -> int:
        return max(self.tokens - self.max_tokens, self.kv_tokens - self.slab.limit)

    def _oldest_leaf(self) -> Node | None:
        """Return the leaf that goes next, first in the heap; None if all are pinned."""
        while self._oldest:
            used, _, node = self._oldest[0]
            if node.children or node.pins:
                heapq.heappop(self._oldest)
                node.queued = False
            elif node.used > used:
                heapq.heapreplace(self._oldest, (node.used, id(node), node))
            else:
                return node
        return None

    def _evict(self, leaf: Node, count: int) -> None:
        """Drop the last ``count`` tokens of a leaf, or all: without slots they are of no use."""
        keep = 0
        if leaf.slots is not None:
            keep = max(len(leaf.tokens) - count, 0)
        self.events.append(Event("evict", leaf.start + keep, leaf.depth))
        if leaf.logprobs is not None:
            self._forget_row(leaf)
        if leaf.slots is not None:
            self.slab.release(leaf.slots[keep:])
            self.kv_tokens -= len(leaf.tokens) - keep
            leaf.slots = leaf.slots[:keep].copy()
        self.tokens -= len(leaf.tokens) - keep
        if keep == 0:
            heapq.heappop(self._oldest)
            above = leaf.above
            del above.children[leaf.tokens[0]]
            above.used = max(above.used, leaf.used)
            self._queue(above)
        leaf.depth = leaf.start + keep
        leaf.tokens = leaf.tokens[:keep]

    def _touch(self, node: Node) -> None:
        self._uses += 1
        node.used = self._uses
        self._queue(node)

    def _queue(self, node: Node) -> None:
        if not (node.queued or node.children or node.pins or node is self.root):
            heapq.heappush(self._oldest, (node.used, id(node), node))
            node.queued = True

    def _forget_row(self, node: Node) -> None:
        del self._oldest_rows[node]
        self.logprob_bytes -= node.logprobs.nbytes
        node.logprobs = None

    # Hold nodes that are in use.

    def pin(self, node: Node) -> None:
        """Keep the tokens and slots down to ``node`` until :meth:`unpin`; pins add up."""
        self._pin(node, 1)

    def unpin(self, node: Node) -> None:
        """Undo one :meth:`pin` of the same node, then keep the budget."""
        self._pin(node, -1)
        self._touch(node)
        self.make_room()

    def _pin(self, node: Node, count: int) -> None:
        node.pins += count
        if node is not self.root:
            self.root.pins += count

    def compact(self) -> None:
        """Give the slab's memory beyond its budget back, if nobody is in the middle of using it."""
        slab = self.slab
        if slab.capacity <= slab.limit or self.root.pins or slab.used != self.kv_tokens:
            return
        holders = [node for node in self.nodes() if node.slots is not None]
        new_slot = slab.compact(np.concatenate([_NONE, *(node.slots for node in holders)]))
        for node in holders:
            node.slots = new_slot[node.slots]
        self._recent.clear()
        self._recent_tokens = 0

    # Look without touching.

    def nodes(self) -> Iterator[Node]:
        """Yield every node but the root, parents before children, siblings in order of arrival."""
        waiting = list(reversed(self.root.children.values()))
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children.values()))

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the tree as plain data, for drawings: an entry a node, parents first.

        ``parent`` is an id, None below the root.
        """
        nodes = list(self.nodes())
        ids: dict[Node | None, int] = {node: i for i, node in enumerate(nodes)}
        return [
            {"id": i, "parent": ids.get(node.parent), "tokens": node.tokens, "depth": node.depth}
            for i, node in enumerate(nodes)
        ]


class Lease:
    """Hold paths and unclaimed slots of ``trie`` for one user, in a ``with``.

    However that ends, the paths are unpinned, slots that no prompt of the tree has got are free
    again, and memory beyond the budget is given back.
    """

    def __init__(self, trie: TokenTrie, *nodes: Node):
        self.trie = trie
        self._pinned = list(nodes)
        self._loose: set[int] = set()  # slots

    def __enter__(self) -> "Lease":
        for node in self._pinned:
            self.trie.pin(node)
        return self

    def __exit__(self, *error: object) -> None:
        self.trie.slab.release(np.array([*self._loose], np.int32))
        for node in self._pinned:
            self.trie.unpin(node)
        self.trie.compact()

    def allocate(self, count: int) -> np.ndarray:
        """Return ``count`` new slots ``(count,)``, int32."""
        slots = self.trie.slab.allocate(count)
        self._loose.update(slots.tolist())
        return slots

    def insert(self, prompt: Sequence[int], slots: np.ndarray, start: int, logprobs: Any) -> None:
        """Store a prompt as :meth:`TokenTrie.insert` does, with slots that were allocated."""
        self._pinned.append(self.trie.insert(prompt, slots, start, logprobs, pin=True))
        self._loose.difference_update(slots.tolist())


def common_length(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Return the number of leading tokens that two runs of tokens share."""
    length = min(len(a), len(b))
    if a[:length] == b[:length]:  # the usual case, without a Python loop
        return length
    return next(i for i in range(length) if a[i] != b[i])

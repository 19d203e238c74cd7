"""TokenTrie against a plain dictionary, op by op; its costs; its edges."""

import random

from lablib.cache import trie as trie_module
from lablib.cache.slab import Slab
from lablib.cache.trie import Lease, TokenTrie, common_length

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from oracles.trie import PlainTrie

PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple)
COIN = st.booleans()
BUDGETS = st.sampled_from([0, 1, 4, 8, 12, 16, 20, 40])
ROW_BYTES = 8


def a_row(value):
    return np.array([value], np.float64)  # ROW_BYTES bytes


class TrieMachine(RuleBasedStateMachine):
    """Every operation on the tree and on a dictionary; afterwards both know the same.

    A slot stands for what was computed at it: ``computed[slot]`` is the prefix it was given for.
    """

    @initialize(tokens=BUDGETS, rows=st.integers(0, 4), kv=BUDGETS)
    def start(self, tokens, rows, kv):
        self.slab = Slab(n_layers=1, max_tokens=kv)
        self.trie = TokenTrie(tokens, rows * ROW_BYTES, slab=self.slab)
        self.plain = PlainTrie(max_tokens=tokens, max_rows=rows, max_kv=kv)
        self.computed = {}
        self.pins = []

    @rule(prompt=PROMPTS, kv=COIN, row=COIN, pin=COIN, early=st.integers(0, 9))
    def insert(self, prompt, kv, row, pin, early):
        held = len(self.trie.match(prompt, touch=False).slots)
        start = min(early, held) if kv else 0
        slots = self.slab.allocate(len(prompt) - start) if kv else None
        if kv:
            for size, slot in enumerate(slots.tolist(), start + 1):
                self.computed[slot] = prompt[:size]
        number = float(self.plain.clock)
        node = self.trie.insert(prompt, slots, start, a_row(number) if row else None, pin=pin)
        prefixes = [prompt[:size] for size in range(start + 1, len(prompt) + 1)]
        self.plain.insert(prompt, prefixes if kv else None, start, number if row else None, pin)
        if pin:
            self.pins.append((node, prompt))

    @rule(prompt=PROMPTS, touch=COIN)
    def match(self, prompt, touch):
        found = self.trie.match(prompt, touch=touch)
        matched, held, row = self.plain.match(prompt, touch=touch)
        assert found.matched == matched
        prefixes = [prompt[: i + 1] for i in range(held)]
        assert [self.computed[s] for s in found.slots.tolist()] == prefixes
        assert (None if found.logprobs is None else found.logprobs.item()) == row
        assert found.node.depth <= matched <= found.tip.depth

    @rule(prompt=PROMPTS)
    def pin(self, prompt):
        found = self.trie.match(prompt)
        matched, _, _ = self.plain.match(prompt)
        path = self.plain.edge_end(prompt[:matched])
        assert len(path) == found.tip.depth
        if path:
            self.trie.pin(found.tip)
            self.plain.pinned.append(path)
            self.pins.append((found.tip, path))

    @rule(which=st.integers(0, 9))
    def unpin(self, which):
        if self.pins:
            node, path = self.pins.pop(which % len(self.pins))
            self.trie.unpin(node)
            self.plain.unpin(path)

    @rule(tokens=st.integers(0, 12))
    def make_room(self, tokens):
        self.trie.make_room(tokens)
        self.plain.make_room(tokens)

    @rule()
    def clear(self):
        self.trie.make_room(self.trie.max_tokens)
        self.plain.clear()

    @rule()
    def compact(self):
        meaning = {p: self.computed[s] for p, s in self.paths() if s is not None}
        self.trie.compact()
        after = dict(self.paths())
        self.computed.update({after[p]: prefix for p, prefix in meaning.items()})
        if not self.pins:
            assert self.slab.capacity <= max(self.slab.limit, self.trie.kv_tokens)

    def paths(self):
        """Each stored prefix and its slot."""
        path_of = {self.trie.root: ()}
        for node in self.trie.nodes():
            above = path_of[node.parent]
            path_of[node] = above + node.tokens
            for i in range(len(node.tokens)):
                slot = None if node.slots is None else int(node.slots[i])
                yield above + node.tokens[: i + 1], slot

    @invariant()
    def both_hold_the_same(self):
        stored = dict(self.paths())
        assert stored.keys() == self.plain.entries.keys()
        for prefix, slot in stored.items():
            assert (slot is not None) == (self.plain.entries[prefix].kv is not None)
            assert slot is None or self.computed[slot] == prefix
        rows = {self.path_to(n) for n in self.trie.nodes() if n.logprobs is not None}
        assert rows == {p for p, entry in self.plain.entries.items() if entry.row is not None}
        assert len(rows) * ROW_BYTES == self.trie.logprob_bytes
        assert len(rows) <= self.plain.max_rows

    @invariant()
    def sizes_add_up_and_the_budget_holds(self):
        nodes = list(self.trie.nodes())
        slots = [s for n in nodes if n.slots is not None for s in n.slots.tolist()]
        assert len(set(slots)) == len(slots) == self.trie.kv_tokens == self.slab.used
        assert 0 not in slots
        assert sum(len(n.tokens) for n in nodes) == self.trie.tokens
        for node in nodes:
            assert node.parent.children[node.tokens[0]] is node
            assert node.depth == node.parent.depth + len(node.tokens)
            assert node.slots is None or len(node.slots) == len(node.tokens)
        pins = [sum(pinned is node for pinned, _ in self.pins) for node in nodes]
        assert [node.pins for node in nodes] == pins
        assert self.trie.root.pins == len(self.pins)
        over = self.trie.tokens > self.trie.max_tokens or self.trie.kv_tokens > self.slab.limit
        held = {path[:size] for _, path in self.pins for size in range(len(path) + 1)}
        assert not over or all(self.path_to(node) in held for node in nodes)

    def path_to(self, node):
        tokens = ()
        while node.parent is not None:
            tokens, node = node.tokens + tokens, node.parent
        return tokens


TestTrie = TrieMachine.TestCase
SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
TestTrie.settings = settings(max_examples=60, stateful_step_count=40, **SLOW)


def random_step(machine, draw):
    """One operation on one random prompt."""
    prompt = tuple(draw.choices(range(3), k=draw.randint(1, 9)))

    def chances():
        return [draw.random() < chance for chance in (0.7, 0.5, 0.2)]

    steps = {
        "insert": lambda: machine.insert(prompt, *chances(), draw.randint(0, 9)),
        "match": lambda: machine.match(prompt, draw.random() < 0.8),
        "pin": lambda: machine.pin(prompt),
        "unpin": lambda: machine.unpin(draw.randint(0, 9)),
        "make_room": lambda: machine.make_room(draw.randint(0, 5)),
        "compact": machine.compact,
    }
    steps[draw.choices(list(steps), weights=[8, 6, 1, 2, 1, 1])[0]]()


def test_long_random_histories():
    """The same machine under a plain random walk, which wanders further than a search for bugs."""
    for seed in range(300):
        draw = random.Random(seed)
        machine = TrieMachine()
        machine.start(draw.randint(0, 24), draw.randint(0, 4), draw.randint(0, 24))
        for _ in range(40):
            random_step(machine, draw)
            machine.both_hold_the_same()
            machine.sizes_add_up_and_the_budget_holds()


def test_reads_protect_from_eviction_and_leaves_go_first():
    trie = TokenTrie(6)
    trie.insert([1, 1, 1])
    trie.insert([2, 2, 2])
    trie.match([1, 1])  # a use, though it ends inside the edge
    trie.insert([3])
    assert trie.match([1, 1, 1]).matched == 3
    assert trie.match([2, 2, 2]).matched == 0


def test_a_long_leaf_gives_its_end_before_its_beginning():
    slab = Slab(1, 10)
    trie = TokenTrie(10, slab=slab)
    trie.insert(range(10), slab.allocate(10))
    trie.insert([50, 51, 52], slab.allocate(3))
    assert trie.match(range(10)).matched == 7
    assert trie.tokens == slab.used == 10
    assert [event.kind for event in trie.events] == ["insert", "insert", "evict"]
    assert (trie.events[-1].start, trie.events[-1].stop) == (7, 10)


def test_a_split_keeps_numbers_and_pins():
    slab = Slab(1, 20)
    trie = TokenTrie(20, slab=slab)
    slots = slab.allocate(6)
    node = trie.insert([1, 2, 3, 4, 5, 6], slots, pin=True)
    trie.insert([1, 2, 9], slab.allocate(1), start=2)
    assert node.depth == 6
    assert node.parent.tokens == (1, 2)
    assert trie.match([1, 2, 3, 4, 5, 6]).slots.tolist() == slots.tolist()
    trie.make_room(trie.max_tokens)
    assert trie.match([1, 2, 3, 4, 5, 6]).matched == 6
    assert trie.match([1, 2, 9]).matched == 2
    trie.unpin(node)
    trie.make_room(trie.max_tokens)
    assert (trie.tokens, slab.used, list(trie.nodes())) == (0, 0, [])


def test_what_is_pinned_outlasts_any_number_of_others():
    slab = Slab(1, 4)
    trie = TokenTrie(4, 2 * ROW_BYTES, slab=slab)
    slots = slab.allocate(6)
    node = trie.insert([1, 2, 3, 4, 5, 6], slots, pin=True)  # more than the budget
    for other in range(200):
        trie.insert([1, 2, 3, 100 + other], slab.allocate(1), start=3, logprobs=a_row(0.0))
        trie.insert([300 + other], slab.allocate(1))
        assert trie.match([1, 2, 3, 4, 5, 6], touch=False).slots.tolist() == slots.tolist()
        assert (trie.tokens, slab.used) == (6, 6)
    trie.unpin(node)
    assert trie.tokens == slab.used == 4
    assert trie.match([1, 2, 3, 4, 5, 6]).slots.tolist() == slots[:4].tolist()


def test_a_lease_leaves_what_was_handed_over_and_nothing_else():
    slab = Slab(1, 6)
    trie = TokenTrie(6, slab=slab)
    trie.insert([1, 2, 3], slab.allocate(3))

    def use_and_fail():
        with Lease(trie, trie.match([1, 2]).tip) as lease:
            kept, _ = lease.allocate(1), lease.allocate(9)  # beyond the budget
            lease.insert([1, 2, 9], kept, 2, None)
            assert (trie.root.pins, slab.used) == (2, 13)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        use_and_fail()
    assert (trie.root.pins, slab.used, slab.capacity) == (0, 4, 6)
    assert [node.tokens for node in trie.nodes()] == [(1, 2), (3,), (9,)]


def test_a_snapshot_is_plain_data_and_no_use():
    trie = TokenTrie(6)
    trie.insert([1, 1, 1], logprobs=a_row(0.0))
    trie.insert([1, 2])
    first = trie.snapshot()
    found = [(n["parent"], n["tokens"], n["depth"]) for n in first]
    assert found == [(None, (1,), 1), (0, (1, 1), 3), (0, (2,), 2)]
    first[0]["tokens"] = ()
    assert trie.snapshot()[0]["tokens"] == (1,)


def test_prompts_of_100_000_tokens_and_chains_deeper_than_the_stack():
    trie = TokenTrie(300_000)
    prompt = tuple(range(100_000))
    trie.insert(prompt, trie.slab.allocate(100_000))
    trie.insert([*prompt[:60_000], -1], trie.slab.allocate(1), start=60_000)
    assert trie.match(prompt).matched == len(trie.match(prompt).slots) == 100_000
    chain = (7,) * 1200
    for end in range(1, 1201):
        trie.insert(chain[:end], trie.slab.allocate(1), start=end - 1)
    assert (trie.match(chain).matched, len(trie.snapshot())) == (1200, 1203)
    trie.make_room(trie.max_tokens)
    assert trie.tokens == 0


def test_evicting_costs_what_is_evicted():
    """Ten times the tree, the same cost: counted in nodes looked at, not in seconds."""

    def work(prompts):
        trie = TokenTrie(10 * prompts)
        for first in range(prompts):
            trie.insert([first, *range(9)])
        looked_at = 0

        class Counting(list):
            def __getitem__(self, index):
                nonlocal looked_at
                looked_at += 1
                return super().__getitem__(index)

        trie._oldest = Counting(trie._oldest)
        for first in range(50):
            trie.insert([-first - 1, *range(9)])
        return looked_at

    assert work(10_000) == work(1000) == 50


def test_going_on_costs_the_same_at_any_depth(monkeypatch):
    """A token more than a recent prompt: counted in edges compared, not in seconds."""
    compared = []
    trie, name = TokenTrie(1000), "common_length"
    monkeypatch.setattr(trie_module, name, lambda *x: compared.append(1) or common_length(*x))
    for end in range(1, 301):
        compared.clear()
        prompt = (7,) * end
        held = len(trie.match(prompt).slots)
        assert held == end - 1
        trie.insert(prompt, trie.slab.allocate(1), start=held)
        assert trie.match(prompt).slots.tolist() == list(range(1, end + 1))
        assert not compared


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda trie: trie.insert([]), "prompt must hold at least one token"),
        (lambda trie: trie.insert([1, 2], np.arange(1)), "slots must number 2, got 1"),
        (lambda trie: trie.insert([1, 2], np.arange(1), start=1), "start must be between 0 and 0"),
        (lambda trie: TokenTrie(-1), "max_tokens must be at least 0, got -1"),
        (lambda trie: TokenTrie(1.5), "max_tokens must be an int"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(call, message):
    trie = TokenTrie(9)
    trie.insert([7])
    with pytest.raises((ValueError, TypeError), match=message):
        call(trie)
    assert [node.tokens for node in trie.nodes()] == [(7,)]

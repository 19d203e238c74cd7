"""Logits processors in every door: constraints hold, and states follow the text that stays."""

from itertools import pairwise

from lablib import text
from lablib.inference import speculative_batch, speculative_sample_n
from lablib.inference.completions import sample_n, samples
from lablib.inference.decoding.batches import sample_many
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.speculation import EarlyExit, NGram, Tree
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.inference.voting.vote import best_of_n, majority_vote, vote_until
from lablib.models import zoo

import mlx.core as mx
import pytest
from oracles.speculation import PROMPT, near, target

PROMPTS = [PROMPT, PROMPT[:3], PROMPT[2:6]]
OPTIONS = {"max_tokens": 12, "seed": 3, "temperature": 1.0}


def only(allowed, logits):
    """Leave some tokens."""
    ids = mx.arange(logits.shape[-1])
    return mx.where((ids[:, None] == mx.array(sorted(allowed))).any(axis=-1), logits, -mx.inf)


def no_repeat(tokens, logits):
    """Let no token follow itself, and none but the ids below 9."""
    return only({*range(9)} - {tokens[-1].item()}, logits)


class Turns:
    """Tokens take turns, even and odd, by a state alone; each token is shown once and in order."""

    def __init__(self, seen=None, odd=False):
        self.seen = seen
        self.odd = odd

    def copy(self):
        return Turns(self.seen, self.odd)

    def __call__(self, tokens, logits):
        seen = tokens.tolist()
        if self.seen is not None and seen[:-1] != self.seen:
            raise LookupError(f"{seen} comes after {self.seen}")
        self.seen = seen
        self.odd = not self.odd
        return only(range(self.odd, 9, 2), logits)


class Stubborn(Turns):
    """The same, which can't be copied."""

    copy = property()  # hasattr says no


def by_turns(tokens):
    return all(token % 2 == (i + 1) % 2 and token < 9 for i, token in enumerate(tokens))


def without_repeat(tokens):
    return all(a != b for a, b in pairwise(tokens)) and max(tokens) < 9


PROCESSORS = pytest.mark.parametrize(
    ("processor", "holds"), [(no_repeat, without_repeat), (Turns(), by_turns)]
)
DRAFTERS = {
    "model": lambda model: near(model, 0.3),
    "look-up": lambda model: NGram(),
    "early exit": lambda model: EarlyExit(1),
    "tree": lambda model: Tree(near(model, 0.3)),
    "tree, 2 deep": lambda model: Tree(near(model, 0.3), depth=2),
}


@pytest.fixture(scope="module")
def model():
    return target(peak=2)


def alone(model, prompt, stream, processor, **options):
    made = TokenIterator(model, prompt, stream=stream, logits_processors=[processor], **options)
    return [token.id for token in made]


@PROCESSORS
def test_rows_are_those_of_the_text_alone(model, processor, holds):
    how = {**OPTIONS, "logits_processors": [processor]}
    wanted = [alone(model, PROMPT, i, processor, **OPTIONS) for i in range(4)]
    assert len({*map(tuple, wanted)}) > 1
    assert all(map(holds, wanted))
    assert sample_n(model, PROMPT, 4, **how).tokens == wanted
    assert sample_n(model, PROMPT, 4, max_batch=3, **how).tokens == wanted
    mixed = [alone(model, prompt, i, processor, **OPTIONS) for i, prompt in enumerate(PROMPTS)]
    assert samples(model, PROMPTS, **how).join().tokens == mixed

    options = [SamplerOptions(seed=3), SamplerOptions(seed=5), SamplerOptions(temperature=0.0)]
    queue = {"max_tokens": 12, "logits_processors": [processor], "max_batch": 2}
    found = sample_many(model, PROMPTS, options, 2, **queue)
    for prompt, own, drawn in zip(PROMPTS, options, found, strict=True):
        more = {"max_tokens": 12, "seed": own.seed, "temperature": own.temperature}
        assert drawn.tokens == [alone(model, prompt, i, processor, **more) for i in range(2)]


@PROCESSORS
@pytest.mark.parametrize("rule", ["match", "rejection", "block", "coupled"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_drafts_obey_and_refused_ones_leave_no_trace(model, name, rule, processor, holds):
    if name.startswith("tree") and rule in ("coupled",):
        pytest.skip("trees have no such rule")
    how = {**OPTIONS, "max_tokens": 30, "rule": rule, "logits_processors": [processor]}
    iterator = SpeculativeTokenIterator(model, DRAFTERS[name](model), PROMPT, trace=True, **how)
    tokens = [token.id for token in iterator]
    assert holds(tokens)
    if name not in ("look-up",):
        assert 0 < iterator.stats["total_accepted"] < iterator.stats["total_reached"]
    if rule == "match":
        assert tokens == alone(model, PROMPT, 0, processor, **{**OPTIONS, "max_tokens": 30})


@PROCESSORS
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_batches_with_drafts_are_those_of_the_texts_alone(model, temperature, processor, holds):
    draft = near(model, 0.3)
    how = {**OPTIONS, "temperature": temperature, "logits_processors": [processor]}
    found = speculative_batch(model, draft, PROMPTS, rule="match", **how).tokens
    plainly = OPTIONS | {"temperature": temperature}
    assert found == [alone(model, p, i, processor, **plainly) for i, p in enumerate(PROMPTS)]
    for rule in ("rejection", "block"):
        rows = speculative_sample_n(model, draft, PROMPT, 3, rule=rule, **how).tokens
        assert all(map(holds, rows))
        for i, row in enumerate(rows):
            one = SpeculativeTokenIterator(model, draft, PROMPT, rule=rule, stream=i, **how)
            assert row == [token.id for token in one]


def test_a_state_that_is_not_taken_back_is_noticed(model):
    """The planted bug: the same processor, which nobody can copy, is shown refused drafts."""
    assert not hasattr(Stubborn(), "copy")
    how = {**OPTIONS, "max_tokens": 30, "logits_processors": [Stubborn()]}
    with pytest.raises(LookupError):
        [*SpeculativeTokenIterator(model, near(model, 0.3), PROMPT, **how)]
    with pytest.raises(LookupError):
        sample_n(model, PROMPT, 2, **how)


@pytest.mark.parametrize("drafted", [False, True])
def test_votes_take_them(model, drafted):
    how = {"max_tokens": 6, "seed": 1, "logits_processors": [Turns()]}
    how["draft_model"] = near(model, 0.3) if drafted else None
    assert all(by_turns(tokens) for tokens, _ in majority_vote(model, PROMPT, 6, **how))
    assert all(by_turns(tokens) for tokens, _ in vote_until(model, PROMPT, 6, **how))
    best = best_of_n(model, PROMPT, 4, **how)[0, len(PROMPT) :].tolist()
    assert by_turns(best)


def test_generate_takes_them_for_several_prompts():
    model, tokenizer = zoo.load("target")
    draft, _ = zoo.load("draft")
    letters = [i for i in range(3, 200) if tokenizer.decode([i]).strip().isdigit()]
    how = {"max_tokens": 8, "seed": 1}
    how["logits_processors"] = [lambda tokens, logits: only(letters, logits)]
    prompts = ["sum 7 3:", "On a sunny day"]
    wanted = [text.generate(model, tokenizer, p, stream=i, **how) for i, p in enumerate(prompts)]
    found = text.generate(model, tokenizer, ["sum 7 3:", "On a sunny day"], **how)
    assert [*map(str, found)] == [*map(str, wanted)]
    drafted = {**how, "draft_model": draft, "rule": "match"}
    assert text.generate(model, tokenizer, ["sum 7 3:", "On a sunny day"], **drafted) == found
    assert all(each.strip() and each.replace(" ", "").isdigit() for each in found)


def test_what_a_processor_raises_says_whose_it_is_and_where(model):
    def mine(tokens, logits):
        if tokens.size == 4:
            raise LookupError("nothing there")
        return logits

    for n in (1, 2):
        with pytest.raises(LookupError) as caught:
            sample_n(model, [1, 2], n, max_tokens=5, seed=0, logits_processors=[mine])
        (note,) = caught.value.__notes__
        assert note == "This is the logits processor mine, after 4 tokens of text."


def test_what_a_processor_returns_is_checked_in_batches(model):
    how = {**OPTIONS, "logits_processors": [lambda tokens, logits: logits[:, :3]]}
    with pytest.raises(ValueError, match=r"a logits processor must return an mx.array of shape"):
        sample_n(model, PROMPT, 2, **how)

"""What the lessons teach is what runs: a function that somebody replaces is asked, never ignored.

The functions are those of the map at the top of ``lablib/inference/__init__.py``; a new line there
needs its public calls in ``CALLS``. Each is replaced by one that raises, as a notebook's cell would
do it, and every call has to notice. That the faster ways give the same texts is here as well. More
parts of the models are replaced in ``tests/models/test_definitions.py``.
"""

import ast
import asyncio
import contextlib
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import lablib
from lablib.inference import AdaptiveLength, Costs, NGram, Tree, steering
from lablib.inference.sampling import transforms
from lablib.inference.speculation import rules, tree_rules
from lablib.models import DraftBlock, DraftHead, LanguageModel, base, hybrid_config, llama_config

import mlx.core as mx
import mlx.nn as nn
import pytest
import structure

PACKAGE = structure.Package(Path(__file__).parents[2])
LESSONS = {row["name"]: row for row in PACKAGE.lessons()}

V = 40
PROMPT = [1, 2, 3, 1, 2]
LONG = [*range(12)]  # long enough for 32 rows to share it
CUTS = {"top_k": 40, "top_p": 0.95, "min_p": 0.02}
RULES = ["match", "coupled", "rejection", "block"]

Call = Callable[[], object]


class Noticed(Exception):
    """Raised by what stands in a definition's place."""


def notice(*_: object, **__: object) -> None:
    raise Noticed


def either_way(by_definition: bool) -> contextlib.AbstractContextManager[None]:
    return lablib.by_definition() if by_definition else contextlib.nullcontext()


# --- models, and what everybody calls ---------------------------------------------------------


@lru_cache
def tiny(seed: int = 1) -> LanguageModel:
    return LanguageModel(llama_config(V, 32, 4, 2, n_kv_heads=2), seed=seed)


@lru_cache
def recurrent() -> LanguageModel:
    return LanguageModel(hybrid_config(V, 32, 4, 2, attention_every=2), seed=1)


def small() -> LanguageModel:
    return tiny(seed=2)


def head() -> lablib.Head:
    return lablib.Head(DraftHead(tiny(), seed=3))


def block() -> lablib.Block:
    return lablib.Block(DraftBlock(tiny(), 4, seed=3))


def new_tree() -> Tree:
    return Tree(small())


@lru_cache
def tree() -> Tree:
    return Tree(small())  # made in an earlier cell


@lru_cache
def shipped(name: str) -> Any:
    return lablib.load(name)


def sample(rows: int = 3, prompt: list[int] = PROMPT, **options: Any) -> object:
    return lablib.sample_n(tiny(), prompt, rows, max_tokens=3, seed=1, **options)


def write(**options: Any) -> object:
    model, tokenizer = shipped("draft")
    return lablib.generate(model, tokenizer, "Mia", max_tokens=3, seed=1, **options)


def write_two_with_drafts() -> object:
    model, tokenizer = shipped("draft")
    return lablib.generate(model, tokenizer, ["Mia", "Tom"], draft_model=NGram(), max_tokens=3)


def speculate(
    draft: Callable[[], Any] = small, target: Callable[[], Any] = tiny, **options: Any
) -> object:
    settings = {"max_tokens": 8, "seed": 1} | options
    return lablib.speculative_decode(target(), draft(), PROMPT, **settings)


def speculate_in_batch(**options: Any) -> object:
    prompts = [PROMPT, PROMPT[1:]]
    return lablib.speculative_batch(tiny(), small(), prompts, max_tokens=6, seed=1, **options)


def adapt() -> object:
    return speculate(draft_tokens=AdaptiveLength(4, Costs.from_ratio(0.1)))


def take_and_close() -> None:
    with lablib.TokenIterator(tiny(), PROMPT, max_tokens=20, seed=1) as tokens:
        next(tokens)


def queue(**options: Any) -> object:
    each = [lablib.SamplerOptions(seed=1, **options)] * 2
    return lablib.sample_many(tiny(), [PROMPT, PROMPT[:4]], each, n=2, max_tokens=3)


def sample_slots(**options: Any) -> None:
    sampler = lablib.Sampler(num_ctx=64)
    sampler.add("a", lablib.SamplerOptions(seed=1, **options))
    sampler.sample(["a"], tiny()(mx.array([PROMPT]))[:, -1])


def ask() -> None:
    served = lablib.AsyncMlxLM(tiny(), None)
    served.batch_next_token_logprobs_sync([[1, 2, 3, 4], [5, 6]])
    served.batch_next_token_logprobs_sync([[1, 2, 7]])


def ask_for_text() -> None:
    served = lablib.AsyncMlxLM(tiny(), None)
    asyncio.run(served.sample(PROMPT, 2, [], seed=1))


def choose_best() -> object:
    return lablib.best_of_n(tiny(), PROMPT, 2, max_tokens=3, seed=1)


def vote(**options: Any) -> object:
    return lablib.majority_vote(tiny(), PROMPT, 2, max_tokens=3, seed=1, **options)


def vote_with_drafts() -> object:
    return vote(draft_model=small())


def vote_a_while() -> object:
    return lablib.vote_until(tiny(), PROMPT, 4, max_tokens=2, batch=2, seed=1)


def foresee() -> object:
    settings = {"most": 1, "max_tokens": 2, "repeats": 1}
    return lablib.forecast(tiny(), small(), prompts=[PROMPT], **settings)


def at_both(call: Callable[..., object], **options: Any) -> list[Call]:
    return [partial(call, **options, temperature=t) for t in (0.0, 0.8)]


def by_rule(rule: str) -> list[Call]:
    return [
        partial(speculate, rule=rule),  # at temperature 0, if nobody says otherwise
        *at_both(speculate, rule=rule),
        *at_both(speculate, draft=NGram, rule=rule),
        *at_both(speculate, draft=head, rule=rule),
        *at_both(speculate_in_batch, rule=rule),
    ]


def by_tree_rule(rule: str) -> list[Call]:
    return [partial(speculate, draft=tree, rule=rule, temperature=t) for t in (0.0, 1.0)]


def by_cut(**cut: Any) -> list[Call]:
    drafted = partial(speculate, **({"temperature": 0.8} | cut))
    return [partial(call, **cut) for call in (sample, write, queue, sample_slots)] + [drafted]


BY_ALL: list[Call] = [
    *(call for every in (sample, write, queue, sample_slots) for call in at_both(every)),
    partial(sample, top_k=5),
    partial(sample, top_k=1),
]
WITH_DRAFTS: list[Call] = [speculate, speculate_in_batch]

# Of each function of the map, by name.
CALLS: dict[str, list[Call]] = {
    "draw": [
        *BY_ALL,
        *at_both(speculate),
        *at_both(speculate, rule="match"),
        *at_both(speculate, rule="block"),
        *at_both(speculate, draft=tree),
    ],
    "Decoder.plain_round": [sample, write, queue],
    "trim": [take_and_close, speculate, partial(speculate, draft=head)],
    "copy": [queue, sample],
    "min_p": by_cut(min_p=0.2),
    "top_p": by_cut(top_p=0.5),
    "top_k": by_cut(top_k=5),
    "cut": [*BY_ALL, *at_both(speculate), *at_both(speculate, rule="match")],
    "TextSampler.draw": [sample, write, queue, sample_slots],
    "Decoder.round": [sample, write, queue, *WITH_DRAFTS],
    "sample_many": [queue],
    "shared_attention": [partial(sample, rows=32, prompt=LONG)],
    "best_of_n": [choose_best],
    "score": [choose_best, partial(vote, weight="log_prob")],
    "tally": [vote, vote_a_while],
    "majority_vote": [vote],
    "StopRule.reason": [vote_a_while],
    "cannot_lose": [vote_a_while],
    "Decoder.speculative_round": WITH_DRAFTS,
    "complete": [
        sample,
        choose_best,
        vote,
        vote_a_while,
        speculate_in_batch,
        vote_with_drafts,
        write_two_with_drafts,
    ],
    "match": by_rule("match"),
    "coupled": by_rule("coupled"),
    "rejection": by_rule("rejection"),
    "block": by_rule("block"),
    "draw_outcome": [call for rule in RULES for call in at_both(speculate, rule=rule)],
    "NGram.lookup": [partial(speculate, draft=NGram)],
    "draw_in_turn": [*WITH_DRAFTS, partial(speculate, draft=head)],
    "AdaptiveLength.choose": [adapt],
    "best_draft_tokens": [adapt],
    "Rewinder.rewind": [speculate, partial(speculate, target=recurrent)],
    "TokenTrie.match": [ask],
    "TokenTrie.insert": [ask],
    "TokenTrie._split": [ask],
    "plan_runs": [ask],
    "Head.propose": [partial(speculate, draft=head)],
    "Watched": [partial(speculate, draft=head)],
    "DraftBlock.coupling": [partial(speculate, draft=block)],
    "Block.propose": [partial(speculate, draft=block)],
    "measure_costs": [foresee],
    "tree_rejection": by_tree_rule("rejection"),
    "tree_optimal": by_tree_rule("optimal"),
    "grow": [partial(speculate, draft=new_tree), partial(speculate, draft=tree)],
}


class Place(NamedTuple):
    """Where a function stands: an attribute of a module or class, or an entry of a table."""

    owner: Any
    name: str

    def get(self) -> Any:
        if isinstance(self.owner, dict):
            return self.owner[self.name]
        return getattr(self.owner, self.name)

    def replace(self, patch: pytest.MonkeyPatch, new: Any = notice) -> None:
        if isinstance(self.owner, dict):
            patch.setitem(self.owner, self.name, new)
        else:
            patch.setattr(self.owner, self.name, new)


def place_of(name: str) -> Place:
    """Return where a function of the map stands; of a class that is its call."""
    module = structure.module_name(LESSONS[name]["file"])
    owner = importlib.import_module(module)
    *outer, last = name.split(".")
    for each in outer:
        owner = getattr(owner, each)
    found = getattr(owner, last)
    return Place(found, "__call__") if isinstance(found, type) else Place(owner, last)


# Beside the map: tables whose entries are replaced, and the parts of a model.
TABLES = {
    **{f"ORDER {name}": Place(transforms.ORDER, name) for name in transforms.ORDER},
    **{f"RULE {name}": Place(rules.RULE, name) for name in RULES},
    **{f"TREE_RULE {name}": Place(tree_rules.TREE_RULE, name) for name in tree_rules.TREE_RULE},
}
PARTS = {
    "greedy": Place(transforms, "greedy"),
    "temperature": Place(transforms, "temperature"),
    "tree_block": Place(tree_rules, "tree_block"),
    "Attention.__call__": Place(base.Attention, "__call__"),
    "Attention.read": Place(base.Attention, "read"),
    "MLP.__call__": Place(base.MLP, "__call__"),
    "RMSNorm.__call__": Place(base.RMSNorm, "__call__"),
    "Linear.__call__": Place(nn.Linear, "__call__"),
    "DraftHead.__call__": Place(DraftHead, "__call__"),
}
AT_0 = [
    *(partial(call, temperature=0) for call in (sample, write, queue, sample_slots)),
    *(partial(speculate, rule=rule) for rule in ("match", "rejection")),
]
MODEL = [sample, write, queue, ask, *WITH_DRAFTS]
CALLS |= {
    "ORDER greedy": AT_0,
    "ORDER peak": by_cut(top_p=0.5),
    "ORDER temperature": by_cut(temperature=0.8),
    "ORDER top_k": by_cut(top_k=5),
    "ORDER top_p": by_cut(top_p=0.5),
    "ORDER min_p": by_cut(min_p=0.2),
    **{f"RULE {rule}": by_rule(rule) for rule in RULES},
    **{f"TREE_RULE {rule}": by_tree_rule(rule) for rule in tree_rules.TREE_RULE},
    "greedy": AT_0,
    "temperature": by_cut(temperature=0.8),
    "tree_block": by_tree_rule("block"),
    "DraftHead.__call__": [partial(speculate, draft=head)],
    "Blocks.__call__": MODEL,
    **{name: MODEL for name in PARTS if name.split(".")[0] in ("Attention", "MLP")},
    **{name: MODEL for name in PARTS if name.split(".")[0] in ("RMSNorm", "Linear")},
}


def many() -> lablib.AsyncMlxLM:
    return lablib.AsyncMlxLM(tiny(), None)


def steer(name: str = "importance_sample") -> object:
    how = {"max_tokens": 3, "stop_tokens": (), "seed": 1}
    given = {
        "beam_search": (PROMPT, 2),
        "importance_sample": ([PROMPT], 2),
        "power_sample": ([PROMPT], 2, 2.0),
        "smc": ([PROMPT], 2),
    }
    if name == "beam_search":
        del how["seed"]
    return getattr(steering, name)(many(), *given[name], **how)


def masked() -> object:
    words = steering.Vocabulary([chr(65 + i) for i in range(V)], [0])
    return sample(logits_processors=[steering.Grammar(words, regex="[B-F]*")])


def forced() -> object:
    words = steering.Vocabulary([chr(65 + i) for i in range(V)], [0])
    grammar = steering.Grammar(words, regex="BCDE")
    return speculate(draft=steering.GrammarDrafter, logits_processors=[grammar])


def by_the_surest() -> object:
    weight = steering.by_confidence(steering.mean_confidence)
    how = {"weight": weight, "top_logprobs": 2, "max_tokens": 3, "seed": 1}
    return lablib.majority_vote(tiny(), PROMPT, n=3, extract=len, **how)


def elect() -> object:
    return steering.minimum_bayes_risk([1, 2, 2])


def stream() -> object:
    async def ask() -> list[int]:
        async with lablib.Engine(*lablib.load("target")) as engine:
            return (await engine.stream(PROMPT, max_tokens=3, seed=1).finish()).tokens

    try:
        return asyncio.run(ask())
    except RuntimeError as closed:  # what went wrong in the engine's thread is its cause
        raise closed.__cause__ or closed from None


CALLS |= {
    "ContinuousBatch.turn": [stream],
    "Grammar.allowed": [masked, forced],
    "GrammarDrafter.propose": [forced],
    "beam_search": [partial(steer, name="beam_search")],
    "by_confidence": [by_the_surest],
    "log_accept": [partial(steer, name="power_sample")],
    "minimum_bayes_risk": [elect],
    "smc": [steer, partial(steer, name="smc")],
    "token_confidence": [by_the_surest],
}


# --- a replaced function is noticed -----------------------------------------------------------


def label(call: Call) -> str:
    """Return a call's name and options, for the report."""
    if not isinstance(call, partial):
        return call.__name__
    shown = [f"{key}={getattr(value, '__name__', value)}" for key, value in call.keywords.items()]
    return " ".join([call.func.__name__, *shown])


NAMES = [*LESSONS, *TABLES, *PARTS]


def owner_of(name: str) -> Place:
    return TABLES.get(name) or PARTS.get(name) or place_of(name)


def cases() -> Iterator[Any]:
    """Yield a function's name, a call of it, and whether by definition."""
    for name in NAMES:
        for call in CALLS.get(name, []):
            for by_definition in (False, True):
                path = "definition" if by_definition else "fast"
                shown = f"{name}-{label(call)}-{path}"
                yield pytest.param(name, call, by_definition, id=shown)


_warm: set[str] = set()


def warm(call: Call) -> None:
    """Call it once with nothing replaced, so that what is compiled or kept is there."""
    if label(call) not in _warm:
        call()
        _warm.add(label(call))


@pytest.mark.parametrize("name", LESSONS)
def test_every_function_of_the_map_is_called(name: str) -> None:
    assert LESSONS[name]["lines"] is not None, f"the map names {name}, which is not there"
    assert CALLS.get(name), f"CALLS needs the public calls that run {name}"


@pytest.mark.grid(lambda name, call, by_definition: not by_definition)  # that way asks them anyhow
@pytest.mark.parametrize(("name", "call", "by_definition"), [*cases()])
def test_a_replaced_function_is_noticed(
    name: str, call: Call, by_definition: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm(call)
    owner_of(name).replace(monkeypatch)
    with either_way(by_definition), pytest.raises(Noticed):
        call()


@lru_cache
def imports() -> list[tuple[str, str, str]]:
    """Return the names that modules of the engine import: from where, the name, and the place."""
    found = []
    for file in PACKAGE.engine:
        for node in ast.walk(PACKAGE.trees[file]):
            if isinstance(node, ast.ImportFrom) and node.module:
                place = f"{file}:{node.lineno}"
                found += [(f"{node.module}.", alias.name, place) for alias in node.names]
    return found


@pytest.mark.parametrize("name", [name for name in LESSONS if "." not in name])
def test_no_module_of_the_engine_imports_it_by_name(name: str) -> None:
    module = structure.module_name(LESSONS[name]["file"]) + "."
    found = [at for source, what, at in imports() if what == name and module.startswith(source)]
    assert not found, f"import its module there, so that a replaced {name} is noticed: {found}"


@pytest.mark.parametrize("by_definition", [False, True])
@pytest.mark.parametrize(("name", "temperature"), [("greedy", 0.0), ("draw", 0.8)])
def test_an_iterator_that_was_made_before_notices(
    name: str, temperature: float, by_definition: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = lablib.TokenIterator(tiny(), PROMPT, max_tokens=4, seed=1, temperature=temperature)
    monkeypatch.setattr(transforms, name, notice)
    with either_way(by_definition), pytest.raises(Noticed):
        next(tokens)


@pytest.mark.parametrize("by_definition", [False, True])
@pytest.mark.parametrize(
    "call", [speculate, partial(speculate, temperature=0.8), speculate_in_batch], ids=label
)
def test_a_rule_of_ones_own_is_asked_at_any_temperature(
    call: Callable[..., object], by_definition: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rules.RULE, "mine", notice)
    with either_way(by_definition), pytest.raises(Noticed):
        call(rule="mine")


# --- the faster ways give the same texts ------------------------------------------------------

TEXT = "Mia finds a red ball. Mia finds a"
TOKENS = 12


def trained() -> Any:
    return shipped("target")[0]


@lru_cache
def text() -> tuple[int, ...]:
    return tuple(shipped("target")[1].encode(TEXT))


DRAFTERS: dict[str, Callable[[], Any]] = {
    "draft model": lambda: shipped("draft")[0],
    "head": lambda: lablib.Head(lablib.load_head("target-head", trained())),
    "block": lambda: lablib.Block(lablib.load_block("target-block", trained())),
    "tree": lambda: Tree(shipped("draft")[0]),
    "NGram": NGram,
}


def both_ways(call: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what a call gives as everybody calls it, and by definition."""
    fast = call()
    with lablib.by_definition():
        return fast, call()


def draft_and_verify(drafter: str, rule: str, temperature: float, seed: int = 0) -> list[int]:
    options = {"rule": rule, "temperature": temperature, "seed": seed, "max_tokens": TOKENS}
    tokens, _ = lablib.speculative_decode(trained(), DRAFTERS[drafter](), text(), **options)
    return tokens[0, len(text()) :].tolist()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_at_temperature_0_a_rule_writes_the_same_text(drafter: str, rule: str) -> None:
    fast, defined = both_ways(lambda: draft_and_verify(drafter, rule, 0.0))
    assert fast == defined
    assert len(fast) == TOKENS


@pytest.mark.parametrize("rule", ["rejection", "block"])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_rejection_and_block_write_the_same_texts_from_a_seed(drafter: str, rule: str) -> None:
    for seed in range(3):
        fast, defined = both_ways(partial(draft_and_verify, drafter, rule, 0.8, seed))
        assert fast == defined


@pytest.mark.parametrize("rule", ["match", "coupled"])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_match_and_coupled_run_by_definition(drafter: str, rule: str) -> None:
    """Played out they give other texts of the same distribution."""
    with lablib.by_definition():
        assert len(draft_and_verify(drafter, rule, 0.8)) == TOKENS


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_batch_with_drafts_writes_the_same_texts(rule: str, temperature: float) -> None:
    if temperature and rule in ("match", "coupled"):
        pytest.skip("equal in distribution only")
    prompts = [text(), text()[2:]]
    options = {"rule": rule, "temperature": temperature, "seed": 1, "max_tokens": TOKENS}
    draft = DRAFTERS["draft model"]()
    call = partial(lablib.speculative_batch, trained(), draft, prompts, **options)
    fast, defined = both_ways(lambda: call().tokens)
    assert fast == defined


OPTIONS = [{"temperature": 0.0}, {}, CUTS, CUTS | {"temperature": 0.8, "repeat_penalty": 1.2}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_seed_draws_the_same_tokens(options: dict[str, float]) -> None:
    def one() -> list[int]:
        tokens = lablib.TokenIterator(trained(), text(), max_tokens=TOKENS, seed=3, **options)
        return [token.id for token in tokens]

    def several() -> list[list[int]]:
        return lablib.sample_n(trained(), text(), 6, max_tokens=TOKENS, seed=3, **options).tokens

    def waiting() -> list[list[list[int]]]:
        prompts = [text(), text()[2:], text()[:4]]
        each = [lablib.SamplerOptions(seed=seed, **options) for seed in range(3)]
        found = lablib.sample_many(trained(), prompts, each, n=2, max_tokens=TOKENS, max_batch=4)
        return [samples.tokens for samples in found]

    for call in (one, several, waiting):
        fast, defined = both_ways(call)
        assert fast == defined


def test_a_rule_may_come_before_the_library_has_been_used() -> None:
    """The recipe of ``rules`` in a fresh process: the judge is not loaded yet."""
    code = """
import lablib
from lablib import rules
rules.RULE["half"] = lambda p, q, drafts: 1 / 0
rules.RULE["rejection"] = rules.RULE["half"]
model, _ = lablib.load("draft")
for rule in ("half", "rejection"):
    try:
        lablib.speculative_decode(model, model, [1, 2], 8, temperature=0.0, rule=rule)
    except ZeroDivisionError:
        print("noticed")
print(len(lablib.speculative_decode(model, model, [1, 2], 8, rule="block")[0][0]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["noticed", "noticed", "10"], done.stderr

"""Compare the seeded texts of two checkouts: a refactoring must change none of them.

    python tests/same_texts.py --base OLD [--root .] [--prompts 50] [--only DOOR ...]

OLD is the root of another checkout; ``--save FILE`` keeps what came of it, and ``--with FILE``
takes it from there another time. Each side is a process of its own. The base draws the prompts, and
both sides send the same ids through every public door, with fixed seeds. Token ids and counts must
be equal, log-probabilities equal up to rounding. Only public names are used, those of ``lablib``
and ``lablib.inference``, so that both checkouts have them. A side takes some minutes of one core.
"""

import argparse
import asyncio
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
TOKENS = 20  # of a completion, at most
TOLERANCE = 2e-3  # of numbers that were rounded to three places
VOCAB = 512  # of the shipped models, and so of the small ones
COUNTS = (
    *("prompt_tokens", "tokens", "finish_reason", "target_calls", "token_forwards", "draft_calls"),
    *("rounds", "total_drafted", "total_accepted", "total_reached"),
)
RULES = ("match", "coupled", "rejection", "block")
GREEDY, WARM, HOT = {"temperature": 0.0}, {"temperature": 0.8}, {"temperature": 1.5}
NUCLEUS = {**WARM, "top_p": 0.9}
PENALTIES = {"repeat_penalty": 1.2, "presence_penalty": 0.1, "frequency_penalty": 0.1}
EVERYTHING = {**WARM, "top_k": 20, "min_p": 0.05, **PENALTIES}
STOP_STRINGS = [". S", "9;", " cow "]
SMALL: dict[str, Any] = {  # the configurations of the small models
    "gemma3_text": {"sliding_window": 16, "sliding_window_pattern": 2},
    "recurrent_gemma": {
        "attention_bias": False,
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "rope_theta": 1e4,
        "attention_window_size": 16,
        "block_types": ["recurrent", "recurrent", "attention"],
    },
    "mamba": {
        "state_size": 8,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_rank": 4,
    },
    "gpt": {},  # ours, with a table of positions
}

Record = dict[str, Any]  # what came of one call, ready for JSON


class Prompt(NamedTuple):
    """Holds one problem of a task, as text and as token ids."""

    number: int
    text: str
    tokens: list[int]


@dataclass(frozen=True)
class Case:
    """Describes one setting of a door, and which prompts go through it."""

    setting: str
    run: Callable[[list[Prompt]], Record]
    size: int = 1  # prompts of a call
    every: int = 1  # a call begins at one prompt of so many
    greedy: bool = False  # whether a near tie can be told from the log-probabilities

    def calls(self, prompts: Sequence[Prompt], shift: int) -> Iterator[list[Prompt]]:
        """Yield the prompts of each call; ``shift`` says which prompts begin one."""
        for first in range(shift % self.every, len(prompts), self.every):
            yield [prompts[(first + i) % len(prompts)] for i in range(self.size)]


def case(
    setting: str,
    run: Callable[..., Record],
    size: int = 1,
    every: int = 1,
    **options: Any,
) -> Case:
    """Return the case that runs ``run`` with these options."""
    greedy = options.get("temperature") == 0.0
    return Case(setting, partial(run, **options), size, every, greedy)


# --- models and prompts -----------------------------------------------------------------------


class World:
    """Holds the models and drafters of the checkout that is on the path."""

    def __init__(self) -> None:
        import lablib
        from lablib.inference import EarlyExit, Head, NGram, Tree

        self.target, self.tokenizer = lablib.load("target")
        self.draft, _ = lablib.load("draft")
        self.hybrid, _ = lablib.load("hybrid")
        for model in (self.target, self.draft, self.hybrid):
            model.stop_tokens = frozenset()  # older versions know none; a case says which it wants
        self.drafters = {
            "draft": self.draft,
            "head": Head(lablib.load_head("target-head", self.target)),
            "look-up": NGram(),
            "early exit": EarlyExit(2),
            "tree": Tree(self.draft),
        }
        self.pairs = {name: (small(name), small(name, noise=0.1)) for name in SMALL}
        self.pairs["hybrid"] = (self.hybrid, self.draft)
        self.models = {"target": self.target} | {n: pair[0] for n, pair in self.pairs.items()}
        self.stops = sorted(set(self.tokenizer.encode(".;9 dog", add_special_tokens=False)))


def small(name: str, noise: float = 0.0) -> Any:
    """Return a small model with weights of its own, ``noise`` away from those without noise."""
    import lablib

    import mlx.core as mx
    import numpy as np
    from mlx.utils import tree_map_with_path

    mx.random.seed(0)  # mlx-lm draws the vectors
    if name == "gpt":
        shape = {"d_model": 64, "n_heads": 2, "n_layers": 3, "d_ff": 64}
        model: Any = lablib.LanguageModel(lablib.gpt_config(VOCAB, **shape), seed=0)
    else:
        module = import_module(f"mlx_lm.models.{name}")
        shape = {
            "model_type": name,
            "vocab_size": VOCAB,
            "hidden_size": 64,
            "intermediate_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "rms_norm_eps": 1e-5,
        }
        model = module.Model(module.ModelArgs.from_dict(shape | SMALL[name]))
    own, other = np.random.default_rng(1), np.random.default_rng(2)

    def draw(path: str, weight: mx.array) -> mx.array:
        if weight.ndim < 2:
            return weight
        values = own.standard_normal(weight.shape) + noise * other.standard_normal(weight.shape)
        inputs = max(weight.shape[1:]) if "conv" in path else weight.shape[-1]
        return mx.array((1.3 * values / np.sqrt(inputs)).astype(np.float32))

    model.update(tree_map_with_path(draw, model.parameters()))
    mx.eval(model.parameters())
    model.eval()
    return model


def drawn_prompts(count: int, tokenizer: Any) -> list[Prompt]:
    """Return ``count`` prompts, in turn of each task."""
    try:
        tasks = import_module("lablib.tasks").TASKS
    except ModuleNotFoundError:
        tasks = import_module("lablib.course.tasks").TASKS
    problems = [task.problems(3, count) for task in tasks.values()]
    texts = [problems[i % len(problems)][i].prompt for i in range(count)]
    return [Prompt(i, text, tokenizer.encode(text)) for i, text in enumerate(texts)]


def joined(prompts: Sequence[Prompt]) -> list[int]:
    """Return the ids of all prompts, one behind the other."""
    return [token for prompt in prompts for token in prompt.tokens]


def seed(prompts: Sequence[Prompt]) -> int:
    """Return the seed of a call with these prompts."""
    return 100 + prompts[0].number


# --- records ----------------------------------------------------------------------------------


def rounded(numbers: Any) -> Any:
    """Return the numbers of an array or a list as lists, with three places."""
    import numpy as np

    return np.round(np.array(numbers, np.float64), 3).tolist()


def row(tokens: Iterable[Any], logprobs: Any = (), **more: Any) -> Record:
    """Return the record of one text."""
    return {"tokens": [int(token) for token in tokens], "logprobs": rounded(logprobs), **more}


def record(rows: Iterable[Record], stats: Any = (), **more: Any) -> Record:
    """Return the record of a call: its texts, what it counted, and what else it returned."""
    known = dict(stats)
    return {"rows": list(rows), "counts": {k: known[k] for k in COUNTS if k in known}, **more}


def followed(iterator: Any) -> Record:
    """Return the record of a token iterator, which runs to its end."""
    found = list(iterator)
    top = [[[i, round(p, 3)] for i, p in token.top_logprobs] for token in found]
    one = row(iterator.tokens, iterator.logprobs, drafted=[t.from_draft for t in found], top=top)
    return record([one], iterator.stats, rounds=verdicts(getattr(iterator, "rounds", ())))


def verdicts(rounds: Iterable[Any]) -> list[Any]:
    """Return the record of each round of a trace."""
    return [
        [
            [*map(int, v.drafted)],
            v.accepted,
            v.reached,
            v.kind,
            [*v.path],
            *map(rounded, (v.p, v.q)),
        ]
        for v in rounds
    ]


def of_samples(samples: Any) -> Record:
    """Return the record of ``Samples``."""
    columns = zip(samples.tokens, samples.logprobs, samples.finished, strict=True)
    rows = [row(tokens, logprobs, finished=bool(end)) for tokens, logprobs, end in columns]
    return record(rows, samples.stats)


def of_parts(parts: Iterable[Any]) -> Record:
    """Return the record of several ``Samples``, and where one ends."""
    records = [of_samples(part) for part in parts]
    rows = [one for each in records for one in each["rows"]]
    return record(rows, parts=[[len(each["rows"]), each["counts"]] for each in records])


def of_completions(completions: Any, **more: Any) -> Record:
    """Return the record of one completion, or of several."""
    several = completions if isinstance(completions, list) else [completions]
    rows = [
        row(c.tokens, c.logprobs, text=str(c), counts=record((), c.stats)["counts"])
        for c in several
    ]
    return record(rows, **more)


def of_votes(votes: Any) -> Record:
    """Return the record of a vote."""
    rows = [row(tokens, count=rounded(count)) for tokens, count in votes]
    more = {"reason": getattr(votes, "reason", None), "saved": getattr(votes, "saved", None)}
    voters = {"answers": list(map(str, votes.answers)), "voters": votes.rows}
    return record(rows, missing=votes.missing, drawn=votes.drawn, **voters, **more)


# --- doors: one text --------------------------------------------------------------------------


def processor(tokens: Any, logits: Any) -> Any:
    """Return logits ``(1, V)`` that like the ids about the last token's less."""
    import mlx.core as mx

    apart = mx.abs(mx.arange(logits.shape[-1]) - tokens[-1])
    return logits - mx.where(apart < 9, 2.0, 0.0)


def token_iterator(world: World) -> Iterator[Case]:
    """Yield the cases of ``TokenIterator``."""
    import lablib

    def run(prompts: list[Prompt], model: Any = world.target, **options: Any) -> Record:
        options = {"max_tokens": TOKENS, "seed": seed(prompts)} | options
        return followed(lablib.TokenIterator(model, joined(prompts), **options))

    def in_two(prompts: list[Prompt], model: Any = world.target, **options: Any) -> Record:
        options |= {"max_tokens": TOKENS // 2, "seed": seed(prompts)}
        with lablib.TokenIterator(model, joined(prompts), **options) as first:
            taken = [next(first).id for _ in range(3 + prompts[0].number % 4)]
        again = lablib.TokenIterator(model, taken[-1:], cache=first.cache, **options)
        one, two = followed(first), followed(again)
        return record([*one["rows"], *two["rows"]], counted=[one["counts"], two["counts"]])

    yield case("temperature 0", run, **GREEDY)
    yield case("temperature 1.5", run, **HOT)
    yield case("top-p 0.9", run, **NUCLEUS)
    yield case("top-k, min-p, penalties", run, **EVERYTHING)
    yield case("logprobs, top 3", run, **WARM, logprobs=True, top_logprobs=3)
    yield case("logits processor", run, **WARM, logits_processors=[processor])
    yield case("closed early, goes on", in_two, **WARM)
    yield case("temperature 0, closed early, goes on", in_two, every=2, **GREEDY)
    yield case(
        "logits processor, temperature 0", run, every=4, **GREEDY, logits_processors=[processor]
    )
    yield case("stop tokens", run, every=2, **WARM, stop_tokens=world.stops)
    yield case("stream 3, chunks of 5", run, every=2, stream=3, prefill_step_size=5)
    yield case("long prompt", run, size=4, every=5, **WARM)
    for name, (model, _) in world.pairs.items():
        yield case(f"{name}, temperature 0", run, every=4, model=model, **GREEDY)
        yield case(f"{name}, top-k …", run, every=4, model=model, **EVERYTHING)
        yield case(f"{name}, closed early", in_two, every=5, model=model, **WARM)


def speculative_token_iterator(world: World) -> Iterator[Case]:
    """Yield the cases of ``SpeculativeTokenIterator``."""
    import lablib
    from lablib.inference import AdaptiveLength, Costs, EarlyExit, NGram, Tree

    cheap = Costs((1.0, 1.1, 1.2, 1.3, 1.4), 0.1)
    dear = Costs((1.0, 1.5, 2.0), 0.3)

    def run(
        prompts: list[Prompt],
        draft: Any,
        target: Any = world.target,
        costs: Costs | None = None,
        **options: Any,
    ) -> Record:
        options = {"max_tokens": TOKENS, "seed": seed(prompts), "trace": True} | options
        if costs is not None:
            options["draft_tokens"] = AdaptiveLength(costs=costs)
        return followed(lablib.SpeculativeTokenIterator(target, draft, joined(prompts), **options))

    def in_two(
        prompts: list[Prompt], draft: Any, target: Any = world.target, **options: Any
    ) -> Record:
        options |= {"max_tokens": TOKENS // 2, "seed": seed(prompts), "trace": True}
        with lablib.SpeculativeTokenIterator(target, draft, joined(prompts), **options) as first:
            taken = [next(first).id for _ in range(2 + prompts[0].number % 5)]
        caches = {"cache": first.cache, "draft_cache": first.draft_cache}
        again = lablib.SpeculativeTokenIterator(target, draft, taken[-1:], **caches, **options)
        one, two = followed(first), followed(again)
        parts = [[each["counts"], each["rounds"]] for each in (one, two)]
        return record([*one["rows"], *two["rows"]], parts=parts)

    for name, draft in world.drafters.items():
        for rule in RULES:
            for options in (GREEDY, WARM, HOT):
                setting = f"{name}, {rule}, {options['temperature']:g}"
                more = {"draft": draft, "rule": rule, **options}
                yield case(setting, run, every=4, **more)
                if name != "tree" and options is not HOT:
                    yield case(f"{setting}, adaptive", run, every=4, costs=cheap, **more)
        yield case(f"{name}, closed early, goes on", in_two, every=4, draft=draft, **WARM)
        yield case(f"{name}, long prompt", run, size=4, every=5, draft=draft, **WARM)
        yield case(f"{name}, top-k …", run, every=4, draft=draft, **EVERYTHING)
        stops = {"stop_tokens": world.stops, "rule": "block"}
        yield case(f"{name}, stop tokens", run, every=4, draft=draft, **WARM, **stops)
    more = {"draft": world.draft}
    processors = {"logits_processors": [processor]}
    once = AdaptiveLength(costs=cheap)
    yield case("draft, default rule, no trace", run, every=4, **more, **WARM, trace=False)
    yield case("draft, top-p, block", run, every=4, **more, **NUCLEUS, rule="block")
    yield case("draft, penalties, match", run, every=4, **more, **EVERYTHING, rule="match")
    yield case("draft, processor", run, every=4, **more, **WARM, **processors)
    yield case("draft, processor, match, 0", run, every=4, **more, **GREEDY, **processors)
    yield case("draft, top 3", run, every=4, **more, **WARM, top_logprobs=3)
    yield case("draft, stream 2, match", run, every=4, **more, **WARM, stream=2, rule="match")
    yield case(
        "draft, 7 drafts, chunks of 5", run, every=4, **more, draft_tokens=7, prefill_step_size=5
    )
    yield case("draft, adaptive, dear", run, every=4, **more, **WARM, costs=dear)
    yield case("look-up, adaptive, dear", run, every=4, draft=NGram(), **WARM, costs=dear)
    yield case("draft, adaptive, one for all", run, every=4, **more, **WARM, draft_tokens=once)
    trees = {
        "tree, depth 2, 8 nodes": Tree(world.draft, depth=2),
        "tree, best children": Tree(world.draft, drawn=False),
        "tree of a head": Tree(world.drafters["head"]),
        "tree of early exit": Tree(EarlyExit(2)),
    }
    for name, tree in trees.items():
        for options in (GREEDY, WARM):
            setting = f"{name}, {options['temperature']:g}"
            yield case(setting, run, every=5, draft=tree, draft_tokens=8, **options)
    for name, (target, near) in world.pairs.items():
        drafters = {"draft": near, "look-up": NGram()}
        if name in ("gpt", "gemma3_text"):
            drafters["early exit"] = EarlyExit(2)
        for kind, draft in drafters.items():
            both = {"draft": draft, "target": target}
            yield case(f"{name}, {kind}, 0", run, every=5, **both, **GREEDY)
            yield case(f"{name}, {kind}, 0.8, match", run, every=5, **both, **WARM, rule="match")
            yield case(f"{name}, {kind}, 0.8, block", run, every=5, **both, **WARM, rule="block")
            yield case(f"{name}, {kind}, goes on", in_two, every=5, **both, **GREEDY)


def speculative_decode(world: World) -> Iterator[Case]:
    """Yield the cases of ``speculative_decode``."""
    import lablib

    def run(prompts: list[Prompt], draft: Any, **options: Any) -> Record:
        options |= {"seed": seed(prompts), "trace": True}
        tokens, stats = lablib.speculative_decode(
            world.target, draft, joined(prompts), TOKENS, 3, **options
        )
        return record([row(tokens[0].tolist())], stats, rounds=verdicts(stats["trace"]))

    for name, draft in world.drafters.items():
        yield case(f"{name}, 0", run, every=4, draft=draft)
        yield case(f"{name}, 0.8", run, every=4, draft=draft, **WARM)


# --- doors: samples ---------------------------------------------------------------------------


def sample_n(world: World) -> Iterator[Case]:
    """Yield the cases of ``sample_n``."""
    import lablib

    def run(prompts: list[Prompt], model: Any, **options: Any) -> Record:
        options = {"max_tokens": TOKENS, "seed": seed(prompts)} | options
        return of_samples(lablib.sample_n(model, joined(prompts), 6, **options))

    for name, model in world.models.items():
        yield case(name, run, every=5, model=model, **WARM)
        yield case(f"{name}, top-k …", run, every=5, model=model, **EVERYTHING)
        yield case(f"{name}, stop tokens", run, every=5, model=model, stop_tokens=world.stops)
    yield case("target, temperature 0", run, every=5, model=world.target, **GREEDY)
    yield case("target, temperature 1.5", run, every=5, model=world.target, **HOT)
    yield case("target, 4 at a time", run, every=5, model=world.target, **NUCLEUS, max_batch=4)
    yield case(
        "target, long prompt", run, size=4, every=10, model=world.target, prefill_step_size=16
    )


def sample_batches(world: World) -> Iterator[Case]:
    """Yield the cases of ``sample_batches``."""
    from lablib.inference import sample_batches

    def run(prompts: list[Prompt], model: Any, most: int = 9, **options: Any) -> Record:
        options |= {"max_tokens": TOKENS, "seed": seed(prompts), "max_batch": 3}
        parts = sample_batches(model, joined(prompts), 7, **options)
        return of_parts(part for part, _ in zip(parts, range(most), strict=False))

    for name in ("target", "hybrid", "gemma3_text"):
        yield case(name, run, every=5, model=world.models[name], **WARM)
    stops = {"stop_tokens": world.stops}
    yield case("target, stop tokens", run, every=5, model=world.target, **EVERYTHING, **stops)
    yield case("target, the first part only", run, every=5, model=world.target, most=1, **WARM)


def sample_many(world: World) -> Iterator[Case]:
    """Yield the cases of ``sample_many``."""
    import lablib

    kinds = (GREEDY, WARM, NUCLEUS, EVERYTHING)

    def run(prompts: list[Prompt], model: Any, **more: Any) -> Record:
        options = [
            lablib.SamplerOptions(**kinds[i % len(kinds)], seed=seed(prompts) + i % 2)
            for i in range(len(prompts))
        ]
        more = {"n": 2, "max_batch": 5, "max_tokens": TOKENS} | more
        return of_parts(lablib.sample_many(model, [p.tokens for p in prompts], options, **more))

    for name, model in world.models.items():
        yield case(name, run, size=4, every=8, model=model)
        yield case(
            f"{name}, stop tokens", run, size=4, every=8, model=model, stop_tokens=world.stops
        )
    yield case("target, n = 1", run, size=7, every=8, model=world.target, n=1, max_batch=3)


def speculative_sample_n(world: World) -> Iterator[Case]:
    """Yield the cases of ``speculative_sample_n``."""
    import lablib

    def run(prompts: list[Prompt], draft: Any, **options: Any) -> Record:
        options = {"max_tokens": TOKENS, "seed": seed(prompts)} | options
        found = lablib.speculative_sample_n(world.target, draft, joined(prompts), 4, **options)
        return of_samples(found)

    for name, draft in world.drafters.items():
        yield case(f"{name}, 0", run, every=8, draft=draft, **GREEDY)
        for rule in RULES:
            yield case(f"{name}, {rule}, 0.8", run, every=8, draft=draft, **WARM, rule=rule)
    for name in ("draft", "look-up"):
        more = {"draft": world.drafters[name], "stop_tokens": world.stops}
        yield case(f"{name}, stop tokens, 3 at a time", run, every=8, **more, max_batch=3)


def speculative_batch(world: World) -> Iterator[Case]:
    """Yield the cases of ``speculative_batch``."""
    import lablib
    from lablib.inference import NGram

    def run(
        prompts: list[Prompt], draft: Any, target: Any = world.target, **options: Any
    ) -> Record:
        options = {"max_tokens": TOKENS, "seed": seed(prompts)} | options
        texts = [prompt.tokens for prompt in prompts]
        return of_samples(lablib.speculative_batch(target, draft, texts, **options))

    for name, draft in world.drafters.items():
        yield case(f"{name}, 0", run, size=4, every=8, draft=draft, **GREEDY)
        for rule in RULES:
            yield case(f"{name}, {rule}, 1.5", run, size=4, every=8, draft=draft, **HOT, rule=rule)
    for name in ("draft", "look-up"):
        more = {"draft": world.drafters[name]}
        yield case(f"{name}, top-k …", run, size=4, every=8, **more, **EVERYTHING)
        stops = {"stop_tokens": world.stops, "draft_tokens": 6}
        yield case(f"{name}, stop tokens, 6 drafts", run, size=4, every=8, **more, **stops)
    for name, (target, near) in world.pairs.items():
        for kind, draft in (("draft", near), ("look-up", NGram())):
            both = {"draft": draft, "target": target}
            yield case(f"{name}, {kind}, 0", run, size=4, every=11, **both, **GREEDY)
            yield case(f"{name}, {kind}, 0.8", run, size=4, every=11, **both, **WARM)


def speculative_batches(world: World) -> Iterator[Case]:
    """Yield the cases of ``speculative_batches``."""
    from lablib.inference import speculative_batches

    def run(prompts: list[Prompt], draft: Any, **options: Any) -> Record:
        options |= {"max_tokens": TOKENS, "seed": seed(prompts), "max_batch": 2}
        texts = [prompt.tokens for prompt in prompts]
        return of_parts(speculative_batches(world.target, draft, texts, **options))

    for name in ("draft", "look-up"):
        more = {"draft": world.drafters[name]}
        yield case(f"{name}, 0", run, size=5, every=7, **more, **GREEDY)
        yield case(f"{name}, 0.8", run, size=5, every=7, **more, **WARM)
        stops = {"stop_tokens": world.stops, "rule": "block", "prefill_step_size": 6}
        yield case(f"{name}, stop tokens", run, size=5, every=7, **more, **NUCLEUS, **stops)


# --- doors: text ------------------------------------------------------------------------------


def text_settings(world: World) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what ``generate`` and ``stream`` are asked for, with and without drafts."""
    from lablib.inference import NGram

    drafts = {"plain": None, "draft": world.draft, "look-up": NGram()}
    for name, draft in drafts.items():
        more = {} if draft is None else {"draft_model": draft}
        yield f"{name}, 0", {**more, **GREEDY}
        yield f"{name}, 0.8", {**more, **WARM}
        yield f"{name}, 1.5", {**more, **HOT}
        yield f"{name}, top-k …", {**more, **EVERYTHING}
        yield f"{name}, stop strings", {**more, **WARM, "stop": STOP_STRINGS}
        yield f"{name}, one stop string, 0", {**more, **GREEDY, "stop": "e "}
        yield f"{name}, stop tokens", {**more, **NUCLEUS, "stop_tokens": world.stops}
        if draft is not None:
            yield f"{name}, block, 6 drafts", {**more, **HOT, "rule": "block", "draft_tokens": 6}
            yield f"{name}, match", {**more, **HOT, "rule": "match"}


def generate(world: World) -> Iterator[Case]:
    """Yield the cases of ``generate``."""
    import lablib

    def one(prompts: list[Prompt], ids: bool = False, **options: Any) -> Record:
        given = prompts[0].tokens if ids else prompts[0].text
        options = {"max_tokens": TOKENS, "seed": seed(prompts)} | options
        return of_completions(lablib.generate(world.target, world.tokenizer, given, **options))

    def several(prompts: list[Prompt], **options: Any) -> Record:
        texts = [prompt.text for prompt in prompts]
        options |= {"max_tokens": TOKENS, "seed": seed(prompts)}
        return of_completions(lablib.generate(world.target, world.tokenizer, texts, **options))

    yield case("one prompt, its ids", one, every=4, ids=True, **WARM, stream=2)
    for name, options in text_settings(world):
        yield case(f"one prompt, {name}", one, every=4, **options)
        yield case(f"several prompts, {name}", several, size=4, every=10, **options)
    yield case("several prompts, 3 at a time", several, size=5, every=10, **WARM, max_batch=3)


def stream(world: World) -> Iterator[Case]:
    """Yield the cases of ``stream``."""
    import lablib

    def run(prompts: list[Prompt], most: int = 99, **options: Any) -> Record:
        options |= {"max_tokens": TOKENS, "seed": seed(prompts)}
        pieces = lablib.stream(world.target, world.tokenizer, prompts[0].text, **options)
        with pieces:
            seen = [piece for piece, _ in zip(pieces, range(most), strict=False)]
        return of_completions(pieces.completion(), pieces=seen)

    for name, options in text_settings(world):
        yield case(name, run, every=4, **options)
    yield case("plain, closed after 4 pieces", run, every=4, most=4, **WARM)
    yield case("draft, closed after 4 pieces", run, every=4, most=4, draft_model=world.draft)


# --- doors: votes -----------------------------------------------------------------------------


def answer(text: str) -> str | None:
    """Return the third word or number of a completion; None if there is none."""
    words = re.split(r"\W+", text.strip())
    return words[2] if len(words) > 2 else None


def voters(world: World) -> dict[str, dict[str, Any]]:
    """Return who votes: the target alone, or with drafts."""
    from lablib.inference import NGram

    drafts = {"draft": world.draft, "look-up": NGram()}
    return {"plain": {}} | {name: {"draft_model": draft} for name, draft in drafts.items()}


def best_of_n(world: World) -> Iterator[Case]:
    """Yield the cases of ``best_of_n``."""
    import lablib

    def score(sequences: Any) -> Any:
        return (sequences % 7).sum(axis=1)

    def run(prompts: list[Prompt], **options: Any) -> Record:
        options |= {"n": 4, "max_tokens": TOKENS, "seed": seed(prompts)}
        found = lablib.best_of_n(world.target, joined(prompts), **options)
        if not isinstance(found, list):
            return record([row(found[0].tolist())])
        return record(row(c.tokens[0].tolist(), [c.score]) for c in found)

    for name, more in voters(world).items():
        yield case(f"{name}, log_prob", run, every=8, **more)
        per_token = {"score_fn": "length_normalized", "stop_tokens": world.stops}
        yield case(f"{name}, length_normalized", run, every=8, **more, **per_token, return_all=True)
        of_all = {"score_fn": score, "return_all": True}
        yield case(f"{name}, a function, 1.5", run, every=8, **more, **HOT, **of_all)


def majority_vote(world: World) -> Iterator[Case]:
    """Yield the cases of ``majority_vote``."""
    import lablib
    from lablib.inference import on_text

    extract = {"extract": on_text(world.tokenizer, answer)}

    def run(prompts: list[Prompt], model: Any = world.target, **options: Any) -> Record:
        options |= {"n": 7, "max_tokens": TOKENS, "seed": seed(prompts)}
        return of_votes(lablib.majority_vote(model, joined(prompts), **options))

    for name, more in voters(world).items():
        yield case(f"{name}, answers", run, every=8, **more, **extract)
        yield case(f"{name}, weighted", run, every=8, **more, **extract, weight="log_prob")
        stops = {"stop_tokens": world.stops}
        yield case(f"{name}, whole texts, 1.5", run, every=8, **more, **HOT, **stops)
    for name, (model, _) in world.pairs.items():
        yield case(name, run, every=11, model=model, **extract)


def vote_until(world: World) -> Iterator[Case]:
    """Yield the cases of ``vote_until``."""
    import lablib
    from lablib.inference import on_text

    def run(prompts: list[Prompt], **options: Any) -> Record:
        options |= {"max_tokens": TOKENS, "seed": seed(prompts), "batch": 3, "n": 12}
        extract = on_text(world.tokenizer, answer)
        return of_votes(
            lablib.vote_until(world.target, joined(prompts), extract=extract, **options)
        )

    for name, more in voters(world).items():
        yield case(f"{name}, certain", run, every=8, **more)
        yield case(f"{name}, certain, 1.5", run, every=8, **more, **HOT)
        for rule in ("overtake", "beta", "dirichlet"):
            sure = {"confidence": 0.8, "stop_rule": rule, "at_least": 4}
            yield case(f"{name}, {rule}, 1.5", run, every=8, **more, **HOT, **sure)


# --- doors: steering --------------------------------------------------------------------------


def exact(numbers: Iterable[float]) -> list[str]:
    """Return numbers to the last bit."""
    return [float(number).hex() for number in numbers]


def of_clouds(clouds: Sequence[Any]) -> Record:
    """Return the record of particles; their weights, and what made them, to the last bit."""
    records = [of_samples(cloud) for cloud in clouds]
    weights = [exact([*cloud.log_weights, cloud.log_evidence]) for cloud in clouds]
    steps = [
        [[step.parents, step.tokens, exact(step.log_weights)] for step in cloud.history]
        for cloud in clouds
    ]
    rows = [one for each in records for one in each["rows"]]
    return record(rows, weights=weights, steps=steps)


def particles(world: World) -> Iterator[Case]:
    """Yield the cases of ``smc`` and its relatives."""
    import lablib
    from lablib import inference

    def run(prompts: list[Prompt], sample: str, model: Any = world.target, **more: Any) -> Record:
        lm = lablib.AsyncMlxLM(model, None)
        options = {"max_tokens": 12, "seed": seed(prompts), "stop_tokens": world.stops, **more}
        tokens = [prompt.tokens for prompt in prompts]
        return of_clouds(getattr(inference, sample)(lm, tokens, 5, **options))

    def short(tokens: list[int], ended: bool) -> float:
        return -0.3 * len(set(tokens)) if tokens[-1] % 17 else -math.inf

    wanted: dict[str, Any] = {"potential": short}
    settings: dict[str, Any] = {
        "smc": ("smc", {}),
        "smc, potential": ("smc", wanted),
        "smc, always, stratified": ("smc", {**wanted, "ess": 1.0, "resample": "stratified"}),
        "smc, power, multinomial": ("smc", {"power": 2.0, "ess": 0.9, "resample": "multinomial"}),
        "smc, processors": ("smc", {**wanted, "logits_processors": [processor]}),
        "importance": ("importance_sample", {**wanted, "power": 0.5}),
        "rejection": ("rejection_sample", wanted),
    }
    for name, (sample, more) in settings.items():
        yield case(name, run, size=2, every=10, sample=sample, **more)
    for name, (model, _) in world.pairs.items():
        yield case(name, run, size=2, every=17, sample="smc", model=model, **wanted)


def power_sample(world: World) -> Iterator[Case]:
    """Yield the cases of ``power_sample``."""
    import lablib
    from lablib import inference

    def run(prompts: list[Prompt], alpha: float, **more: Any) -> Record:
        lm = lablib.AsyncMlxLM(world.target, None)
        options = {"max_tokens": 10, "steps": 3, "seed": seed(prompts), **more}
        tokens = [prompt.tokens for prompt in prompts]
        found = inference.power_sample(
            lm, tokens, 3, alpha=alpha, stop_tokens=world.stops, **options
        )
        records = [of_samples(samples) for samples in found]
        traces = [[exact(row) for row in samples.stats["trace"]] for samples in found]
        rows = [one for each in records for one in each["rows"]]
        return record(rows, traces=traces)

    yield case("4", run, size=2, every=8, alpha=4.0)
    yield case("4, by 1", run, size=2, every=8, alpha=4.0, proposal=1.0)
    yield case("1", run, size=1, every=8, alpha=1.0)


def searches(world: World) -> Iterator[Case]:
    """Yield the cases of ``beam_search`` and ``best_first``."""
    import lablib
    from lablib import inference

    def found(prompts: list[Prompt], search: str, *more: Any, **options: Any) -> Record:
        lm = lablib.AsyncMlxLM(world.target, None)
        options |= {"max_tokens": 8, "stop_tokens": world.stops}
        texts = getattr(inference, search)(lm, prompts[0].tokens, *more, **options)
        return record([row(text.tokens) for text in texts], scores=exact(t.score for t in texts))

    def beam(prompts: list[Prompt], **options: Any) -> Record:
        return found(prompts, "beam_search", 4, **options)

    def first(prompts: list[Prompt], **options: Any) -> Record:
        options["seed"] = seed(prompts)
        return found(prompts, "best_first", lambda tokens: sum(tokens) % 11 / 11, **options)

    yield case("beam", beam, every=8)
    yield case("beam, by the mean", beam, every=8, length_power=1.0)
    yield case("best first", first, every=8, max_steps=8)
    yield case("best first, steps", first, every=8, max_steps=6, step_tokens=[5, 7, 11, 30])


def confidence(world: World) -> Iterator[Case]:
    """Yield the cases of votes by confidence, and of texts that give up or are hurried."""
    import lablib
    from lablib import inference
    from lablib.inference import steering

    def vote(prompts: list[Prompt], measure: Any, top: int = 5, **how: Any) -> Record:
        weight = inference.by_confidence(measure, **how)
        options = {"n": 8, "max_tokens": TOKENS, "seed": seed(prompts), "top_logprobs": top}
        extract = inference.on_text(world.tokenizer, answer)
        return of_votes(
            lablib.majority_vote(
                world.target, prompts[0].tokens, extract=extract, weight=weight, **options
            )
        )

    def texts(prompts: list[Prompt], make: Callable[[], Any], **options: Any) -> Record:
        options |= {"max_tokens": TOKENS, "seed": seed(prompts), "logits_processors": [make()]}
        return of_samples(lablib.sample_n(world.target, prompts[0].tokens, 3, **options))

    yield case("mean, the surest", vote, every=8, measure=steering.mean_confidence, keep=0.5)
    yield case("worst window", vote, every=8, measure=steering.lowest_confidence, weigh="log")
    yield case("tail", vote, every=8, measure=steering.tail_confidence)
    whole = {"measure": steering.self_certainty, "top": VOCAB, "weigh": "equal", "keep": 0.4}
    yield case("self-certainty", vote, every=8, **whole)
    end = min(world.stops)
    yield case("give up", texts, every=8, make=lambda: inference.GiveUp(2.5, end, window=3))
    yield case("budget", texts, every=8, make=lambda: inference.Budget(6, [end, 5]))


def grammars(world: World) -> Iterator[Case]:
    """Yield the cases of ``Grammar``, alone, in a batch and with drafts."""
    import lablib
    from lablib import inference

    words = inference.Vocabulary(world.tokenizer)
    shapes: dict[str, dict[str, Any]] = {
        "digits": {"regex": "[0-9 ]{4,9}"},
        "lark": {"lark": 'start: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]+/'},
        "schema": {"json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    }

    def alone(prompts: list[Prompt], shape: Any, **options: Any) -> Record:
        options |= {"max_tokens": TOKENS, "seed": seed(prompts), "stop_tokens": words.stop_tokens}
        options["logits_processors"] = [inference.Grammar(words, **shape)]
        return followed(lablib.TokenIterator(world.target, prompts[0].tokens, **options))

    def drafted(prompts: list[Prompt], shape: Any, drafter: Any, **options: Any) -> Record:
        options |= {"max_tokens": TOKENS, "seed": seed(prompts), "stop_tokens": words.stop_tokens}
        options["logits_processors"] = [inference.Grammar(words, **shape)]
        tokens = lablib.SpeculativeTokenIterator(
            world.target, drafter, prompts[0].tokens, trace=True, **options
        )
        return followed(tokens)

    def batch(prompts: list[Prompt], shape: Any, **options: Any) -> Record:
        options |= {"max_tokens": TOKENS, "seed": seed(prompts), "stop_tokens": words.stop_tokens}
        options["logits_processors"] = [inference.Grammar(words, **shape)]
        return of_samples(
            inference.speculative_batch(
                world.target, world.draft, [each.tokens for each in prompts], **options
            )
        )

    for name, shape in shapes.items():
        yield case(name, alone, every=10, shape=shape, **WARM)
        yield case(f"{name}, greedy", alone, every=10, shape=shape, **GREEDY)
        yield case(f"{name}, batch", batch, size=3, every=17, shape=shape, **WARM)
        for rule in RULES:
            how = {"shape": shape, "rule": rule, **WARM}
            yield case(f"{name}, draft, {rule}", drafted, every=17, drafter=world.draft, **how)
        for branches in (1, 3):
            forced = {"shape": shape, "drafter": inference.GrammarDrafter(branches)}
            yield case(f"{name}, forced, {branches}", drafted, every=10, **forced, **WARM)


def menu(world: World) -> Iterator[Case]:
    """Yield the cases of the cuts from other engines."""
    import lablib
    from lablib import menu as cuts

    def run(prompts: list[Prompt], make: Callable[[], Any], draft: Any = None) -> Record:
        options = {"max_tokens": TOKENS, "seed": seed(prompts), "logits_processors": [make()]}
        tokens = prompts[0].tokens
        if draft is None:
            return of_samples(lablib.sample_n(world.target, tokens, 2, **options))
        return followed(lablib.SpeculativeTokenIterator(world.target, draft, tokens, **options))

    made: dict[str, Callable[[], Any]] = {
        "top-nσ": cuts.top_n_sigma,
        "typical": cuts.typical,
        "epsilon": lambda: cuts.epsilon(0.01),
        "eta": lambda: cuts.eta(0.01),
        "XTC": lambda: cuts.xtc(0.05, 1.0),
        "bias": lambda: cuts.logit_bias({5: 3.0, 40: -3.0}),
        "DRY": cuts.dry,
    }
    for name, make in made.items():
        yield case(name, run, every=10, make=make)
        yield case(f"{name}, draft", run, every=17, make=make, draft=world.draft)


# --- doors: many callers, the sampler ---------------------------------------------------------


def async_lm(world: World) -> Iterator[Case]:
    """Yield the cases of ``AsyncMlxLM``."""
    import lablib

    def scores(rows: Any) -> Record:
        return record(row((), each) for each in rows)

    def at_once(prompts: list[Prompt], lm: Any) -> Record:
        return scores([lm.next_token_logprobs_sync(prompts[0].tokens)])

    def together(prompts: list[Prompt], model: Any) -> Record:
        lm = lablib.AsyncMlxLM(model, None, batch_size=3)
        texts = [list(prompt.tokens) for prompt in prompts]

        async def steps() -> list[Any]:
            found = []
            for step in range(3):
                found += list(await lm.batch_next_token_logprobs(texts))
                for i, text in enumerate(texts):
                    text.append(3 + (7 * i + step) % 490)
            return found

        return scores(asyncio.run(steps()))

    def sampled(prompts: list[Prompt], model: Any, **options: Any) -> Record:
        lm = lablib.AsyncMlxLM(model, None)

        async def texts() -> list[list[int]]:
            asked = (
                lm.sample(prompt.tokens, TOKENS, world.stops, seed=seed([prompt]), **options)
                for prompt in prompts
            )
            return await asyncio.gather(*asked)

        return record(map(row, asyncio.run(texts())))

    for name, model in world.models.items():
        alone = lablib.AsyncMlxLM(model, None)
        every = 1 if name == "target" else 5
        yield case(f"{name}, sync", at_once, every=every, lm=alone)
        yield case(f"{name}, batch", together, size=4, every=10, model=model)
        yield case(f"{name}, sample, 0.8", sampled, size=3, every=8, model=model, **WARM)
        yield case(f"{name}, sample, 0", sampled, size=3, every=8, model=model, **GREEDY)


SAMPLERS = {
    "temperature 0": [GREEDY],
    "temperature 0.8": [WARM],
    "top-p": [NUCLEUS],
    "top-k 20": [{**WARM, "top_k": 20}],
    "min-p": [{**WARM, "min_p": 0.05}],
    "penalties": [{**WARM, **PENALTIES, "repeat_last_n": 8}],
    "everything": [{**EVERYTHING, "top_p": 0.9}],
    "a mixture": [GREEDY, WARM, NUCLEUS, EVERYTHING, {"top_logprobs": 5}],
}


def logits_of(prompts: Sequence[Prompt], *shape: int) -> Any:
    """Return logits of this shape, such as a model could have."""
    import mlx.core as mx
    import numpy as np

    rng = np.random.default_rng(seed(prompts))
    scores = -1.3 * np.log(np.arange(1, shape[-1] + 1)) + rng.normal(size=shape)
    return mx.array(rng.permuted(scores, axis=-1).astype(np.float32))


def filled(prompts: Sequence[Prompt], kinds: Sequence[dict[str, Any]], vocab: int) -> Any:
    """Return a sampler of six slots whose histories are ids below ``vocab``."""
    import lablib

    sampler = lablib.Sampler(256)
    for i in range(6):
        options = lablib.SamplerOptions(
            **kinds[i % len(kinds)], seed=seed(prompts) + i, logprobs=True
        )
        prior = [token % vocab for token in joined(prompts)]
        sampler.add(i, options, prior, stream=i % 3)
    return sampler


def sampler_sample(world: World) -> Iterator[Case]:
    """Yield the cases of ``Sampler.sample``."""

    def run(prompts: list[Prompt], kinds: list[dict[str, Any]], vocab: int) -> Record:
        sampler = filled(prompts, kinds, vocab)
        logits = logits_of(prompts, 5, 6, vocab)
        rows = []
        for step, order in enumerate(([0, 1, 2, 3, 4, 5], [5, 2, 0], [4, 3, 1], [3, 5, 1, 0, 2])):
            found = sampler.sample(order, logits[step, : len(order)])
            top = None if found.top_tokens is None else found.top_tokens.tolist()
            rows.append(row(found.token.tolist(), found.logprob[:, 0], top=top))
        sampler.commit(4, [7, 8])
        sampler.remove(2)
        found = sampler.sample([4, 0, 3], logits[4, :3])
        return record([*rows, row(found.token.tolist(), found.logprob[:, 0])])

    for name, kinds in SAMPLERS.items():
        yield case(name, run, every=2, kinds=kinds, vocab=VOCAB)
        yield case(f"{name}, 3,000 tokens", run, every=10, kinds=kinds, vocab=3000)


def speculative_scores(world: World) -> Iterator[Case]:
    """Yield the cases of ``Sampler.speculative_scores``."""
    import numpy as np

    def run(prompts: list[Prompt], kinds: list[dict[str, Any]], vocab: int) -> Record:
        sampler = filled(prompts, kinds, vocab)
        drafts = np.random.default_rng(seed(prompts)).integers(0, vocab, (3, 2))
        many = sampler.speculative_scores([4, 0, 3], logits_of(prompts, 3, 3, vocab), drafts)
        one = sampler.speculative_scores(1, logits_of(prompts, 2, vocab), drafts[0])
        rows = np.concatenate([np.array(each).reshape(-1, vocab) for each in (many, one)])
        return record(row((), each) for each in rows)

    for name, kinds in SAMPLERS.items():
        yield case(name, run, every=5, kinds=kinds, vocab=64)


DOORS: dict[str, Callable[[World], Iterator[Case]]] = {
    "TokenIterator": token_iterator,
    "SpeculativeTokenIterator": speculative_token_iterator,
    "speculative_decode": speculative_decode,
    "sample_n": sample_n,
    "sample_batches": sample_batches,
    "sample_many": sample_many,
    "speculative_sample_n": speculative_sample_n,
    "speculative_batch": speculative_batch,
    "speculative_batches": speculative_batches,
    "generate": generate,
    "stream": stream,
    "best_of_n": best_of_n,
    "majority_vote": majority_vote,
    "vote_until": vote_until,
    "smc": particles,
    "power_sample": power_sample,
    "beam_search, best_first": searches,
    "confidence": confidence,
    "Grammar": grammars,
    "menu": menu,
    "AsyncMlxLM": async_lm,
    "Sampler.sample": sampler_sample,
    "speculative_scores": speculative_scores,
}


# --- one side ---------------------------------------------------------------------------------


def work(job_file: Path, result_file: Path) -> None:
    """Be a side: run the doors that the job names, and write what came of them."""
    import lablib

    warnings.simplefilter("ignore", UserWarning)  # AsyncMlxLM tells of caches that cannot be cut
    job = json.loads(job_file.read_text(encoding="utf-8"))
    package = Path(lablib.__file__).parent
    if package.resolve() != Path(job["root"], "lablib"):
        raise RuntimeError(f"runs {package} instead of {job['root']}")
    world = World()
    if job["prompts"] is None:
        prompts = drawn_prompts(job["count"], world.tokenizer)
    else:
        prompts = [Prompt(*each) for each in job["prompts"]]
    doors: Record = {}
    for name in job["doors"]:
        start = time.perf_counter()
        try:
            doors[name] = through(DOORS[name](world), prompts)
        except Exception as error:  # its names are gone, say
            print(f"  {name}: {failed(error)['error']}", file=sys.stderr)
            doors[name] = {"all": {"greedy": False, "calls": {"0": failed(error)}}}
        print(f"  {name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    result = {"tool": fingerprint(), "prompts": prompts, "doors": doors}
    result_file.write_text(json.dumps(result), encoding="utf-8")


def through(cases: Iterable[Case], prompts: Sequence[Prompt]) -> Record:
    """Return what comes of the cases of a door, by setting and by the number of a call's prompt."""
    found: Record = {}
    told: set[str] = set()  # errors, each of which is printed once
    for shift, each in enumerate(cases):
        if each.setting in found:
            raise ValueError(f"two settings are called {each.setting!r}")
        calls = {str(some[0].number): attempt(each, some) for some in each.calls(prompts, shift)}
        found[each.setting] = {"greedy": each.greedy, "calls": calls}
        errors = {one["error"] for one in calls.values() if "error" in one}
        for error in errors - told:
            print(f"  {each.setting}: {error}", file=sys.stderr)
        told |= errors
    return found


def attempt(each: Case, prompts: list[Prompt]) -> Record:
    """Return the record of a call; of one that fails the error."""
    try:
        return each.run(prompts)
    except Exception as error:
        return failed(error)


def failed(error: Exception) -> Record:
    """Return the record of a call that raised this."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return {"rows": [], "error": f"{type(error).__name__} in {where}: {error}"}


def fingerprint() -> str:
    """Return what tells from others this version of all that comes before the comparison."""
    text = Path(__file__).read_text(encoding="utf-8").partition("# --- the comparison")[0]
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run_in(root: Path, doors: Sequence[str], count: int, prompts: Any = None) -> Record:
    """Return what comes of the doors of the checkout in ``root``, from a process of its own.

    Without ``prompts`` that process draws ``count`` of them.
    """
    job = {"root": str(root.resolve()), "doors": doors, "count": count, "prompts": prompts}
    print(f"{job['root']}:", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("job.json", "result.json")]
        files[0].write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, str(Path(__file__).resolve()), "--worker", *map(str, files)]
        path = {"PYTHONPATH": job["root"]}
        subprocess.run(command, env=os.environ | path, cwd=job["root"], check=True)
        return json.loads(files[1].read_text(encoding="utf-8"))


# --- the comparison ---------------------------------------------------------------------------


class Difference(NamedTuple):
    """Says where two records differ, and what stands there."""

    path: tuple[str | int, ...]
    base: Any
    new: Any

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))}: {shown(self.new)}, not {shown(self.base)}"


def shown(value: Any) -> str:
    """Return a value in few letters."""
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def differences(base: Any, new: Any, path: tuple[str | int, ...] = ()) -> Iterator[Difference]:
    """Yield where two records differ; numbers with a fraction may be apart by ``TOLERANCE``.

    What only the new side counts is no difference.
    """
    if isinstance(base, dict) and isinstance(new, dict):
        for key in base | new:
            if key in base or key not in COUNTS:
                yield from differences(base.get(key), new.get(key), (*path, key))
    elif isinstance(base, list) and isinstance(new, list):
        for i, pair in enumerate(zip(base, new, strict=False)):
            yield from differences(*pair, (*path, i))
        if len(base) != len(new):
            yield Difference((*path, "length"), len(base), len(new))
    elif isinstance(base, float) and isinstance(new, float):
        if not near(base, new):
            yield Difference(path, base, new)
    elif base != new:
        yield Difference(path, base, new)


def near(base: float, new: float) -> bool:
    """Tell whether two numbers are equal but for rounding."""
    return base == new or abs(base - new) <= TOLERANCE or (math.isnan(base) and math.isnan(new))


def is_near_tie(base: Record, new: Record, first: Difference) -> bool:
    """Tell whether two greedy texts part at tokens that are equally likely."""
    match first.path:
        case ("rows", int(number), "tokens", int(place)):
            rows = base["rows"][number], new["rows"][number]
            likely = [one["logprobs"][place : place + 1] for one in rows]
            return all(likely) and near(likely[0][0], likely[1][0])
    return False


@dataclass
class Line:
    """Counts the texts of a setting, and how many of them are equal."""

    door: str
    setting: str
    texts: int = 0
    same_tokens: int = 0
    equal: int = 0
    near_ties: int = 0
    first: str = ""  # where the first difference is

    def add(self, number: str, base: Record, new: Record, greedy: bool) -> None:
        """Count the texts of a call, which begins with the prompt of this number."""
        found = list(differences(base, new))
        failed = "error" in base or "error" in new  # a call must not fail at all
        if failed:
            found.insert(0, Difference(("error",), base.get("error"), new.get("error")))
        in_rows = [each.path for each in found if each.path[0] == "rows"]
        other = {path[1] for path in in_rows}
        other_tokens = {path[1] for path in in_rows if path[2:3] == ("tokens",)}
        texts = max(1, len(base["rows"]))
        missing = failed or len(base["rows"]) != len(new["rows"])
        self.texts += texts
        self.same_tokens += 0 if missing else texts - len(other_tokens)
        self.equal += 0 if missing or len(in_rows) < len(found) else texts - len(other)
        if found:
            self.near_ties += greedy and is_near_tie(base, new, found[0])
            self.first = self.first or f"prompt {number}, {found[0]}"


def compare(base: Record, new: Record) -> list[Line]:
    """Return a line for each setting of each door that both sides went through."""
    lines = []
    for door, settings in new["doors"].items():
        before = base["doors"][door]
        for setting in before | settings:
            line = Line(door, setting)
            lines.append(line)
            if setting not in before or setting not in settings:
                line.texts = 1
                line.first = f"only the {'old' if setting in before else 'new'} side has it"
                continue
            calls = before[setting]["calls"], settings[setting]["calls"]
            for number in calls[0] | calls[1]:
                sides = [some.get(number, {"rows": []}) for some in calls]
                line.add(number, *sides, before[setting]["greedy"])
    return lines


def report(lines: Sequence[Line]) -> str:
    """Return the table, and the totals in a sentence."""
    from tabulate import tabulate

    names = ["door", "setting", "texts", "same tokens", "equal", "near ties", "first difference"]
    table = tabulate([[*vars(line).values()] for line in lines], names)
    texts, tokens, equal, ties = (
        sum(getattr(line, name) for line in lines)
        for name in ("texts", "same_tokens", "equal", "near_ties")
    )
    total = f"{texts} texts: {tokens} with the same tokens, {equal} equal in everything"
    return f"{table}\n{total}; {ties} calls differ at a near tie"


def main() -> int:
    """Print the table; 1 if a text differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="the root of the old checkout")
    parser.add_argument("--root", type=Path, default=ROOT, help="the root of the new one")
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--only", nargs="+", choices=DOORS, default=list(DOORS), metavar="DOOR")
    parser.add_argument("--save", type=Path, help="where to keep what came of the base")
    parser.add_argument("--with", type=Path, dest="kept", help="what was kept, in place of --base")
    parser.add_argument("--worker", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return 0
    if (options.base is None) == (options.kept is None):
        parser.error("give either --base or --with")
    if options.base:
        base = run_in(options.base, options.only, options.prompts)
    else:
        base = json.loads(options.kept.read_text(encoding="utf-8"))
        if base["tool"] != fingerprint():
            print("the base was recorded with another version of this tool", file=sys.stderr)
        missing = [door for door in options.only if door not in base["doors"]]
        if missing:
            parser.error(f"{options.kept} has no {', '.join(missing)}")
    if options.save:
        options.save.write_text(json.dumps(base), encoding="utf-8")
    new = run_in(options.root, options.only, options.prompts, base["prompts"])
    lines = compare(base, new)
    print(report(lines))
    return int(any(line.equal < line.texts for line in lines))


if __name__ == "__main__":
    sys.exit(main())

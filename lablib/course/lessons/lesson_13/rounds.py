"""One round of speculation, all of it in view: what was drafted, what may stay, what it costs.

The drafter proposes as in the engine, the target reads the tree as in the engine, and the rule says
what stays. The engine then draws. Here the law that it draws from is kept, so that the expected
number of tokens needs no average over many texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.course.replay.measure import clock, measure_costs
from lablib.course.tasks import TASKS
from lablib.inference import (
    Drafter,
    Proposal,
    SamplerOptions,
    SpeculativeTokenIterator,
    Tree,
    sample_many,
)
from lablib.inference.sampling.row import Row, key_of
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import tree_rules
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.optimal_pair import OptimalPair
from lablib.inference.speculation.speculative_iterator import own_reader
from lablib.inference.speculation.tree_rules import TREE_RULE, path_to
from lablib.validation import one_of

import mlx.core as mx
import numpy as np
from scipy.special import softmax

RULES = ("match", *TREE_RULE)


@dataclass(frozen=True)
class Round:
    """N drafts after a text, and what a rule makes of them; a chain is a tree, too.

    Attributes:
        drafts: the N token ids.
        parents: the place of each one's parent; -1 is the text.
        p: the target's probabilities ``(N+1, V)``: after the text, and after each node.
        kept: ``(N+1,)``, the chance that a path stays and nothing below it: first that of no draft,
            then those of the paths to each node.
        following: ``(N+1, V)``, what the token after such a path is drawn from.
        forwards: of the draft model, in which the drafts were found; each level of a tree is one,
            and now and then it looks at one more level, where nothing grows.
    """

    drafts: list[int]
    parents: list[int]
    p: np.ndarray
    kept: np.ndarray
    following: np.ndarray
    forwards: int = 0

    @property
    def depths(self) -> np.ndarray:
        """Return how many drafts each of the N+1 paths has."""
        return np.array([len(path_to(node, self.parents)) for node in range(-1, len(self.drafts))])

    @property
    def reach(self) -> np.ndarray:
        """The chance ``(N,)`` that each node stays, whatever comes below it."""
        stays = self.kept[1:].copy()
        for node in reversed(range(len(stays))):
            if self.parents[node] >= 0:
                stays[self.parents[node]] += stays[node]
        return stays

    @property
    def expected(self) -> float:
        """The expected tokens of the round, the target's own one included."""
        return float(self.kept @ (1 + self.depths))

    def toss(self, seed: int) -> tuple[list[int], int]:
        """Draw which path stays, and the token after it; returns the path's nodes, and the id.

        The text goes on token by token, each drawn by a number of its own, until one is no draft.
        Under ``match`` it is drawn from p, so that rounds of one text and seed write the same.
        """
        reach, path, node = self.reach, [], -1
        rng = np.random.default_rng(seed)
        while True:
            below = [child for child, parent in enumerate(self.parents) if parent == node]
            children = {self.drafts[child]: child for child in below}
            goes_on = self.kept[node + 1] * self.following[node + 1]  # with none of the children
            goes_on[list(children)] += reach[below]
            ends = np.cumsum(goes_on)
            token = int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))
            if token not in children:
                return path, token
            node = children[token]
            path.append(node)


def law(
    rule: str, p: np.ndarray, q: np.ndarray, drafts: Sequence[int], parents: Sequence[int]
) -> tree_rules.Outcome:
    """Return the chance that each path stays, and what follows; arguments as in ``tree_rules``.

    The engine plays ``match`` out: it draws the target's own token, and goes to the child that has
    it. Rejection does the same with drafts that are certain, q one-hot.
    """
    if one_of("rule", rule, RULES) == "match":
        q, rule = _certain(drafts, p.shape[1]), "rejection"
    return tree_rules.tree_rule(rule)(p, q, drafts, parents)


def _certain(tokens: Any, size: int) -> np.ndarray:
    """Return the distributions ``(..., V)`` that have tokens ``(...)`` for sure."""
    return np.equal.outer(tokens, np.arange(size)).astype(float)


def one_round(
    target: Any, drafter: Drafter, text: Sequence[int], nodes: int, *,
    rule: str = "match", temperature: float = 1.0, drafted_at: float | None = None, seed: int = 0,
) -> Round:  # fmt: skip
    """Let ``drafter`` propose ``nodes`` tokens after ``text``, and the target read them.

    ``drafted_at`` is the draft's temperature, if it is another one.
    """
    text = list(text)
    reader = Rewinder(target, kv.make(target))
    session = drafter.begin(reader, own_reader(drafter, reader), 1)
    reader.forward(mx.array([text[:-1]]))
    drafted_at = temperature if drafted_at is None else drafted_at
    sampler = sampler_for(text, nodes, SamplerOptions(temperature=drafted_at, seed=seed))
    session.finish(text)  # it has read the text, and knows it: what it reads now are drafts
    before = session.calls
    proposal = session.propose([text], [nodes], sampler)
    forwards = session.calls - before
    drafts = drafts_of(proposal).first(nodes)
    parents = [-1, *(1 + parent for parent in drafts.parents)]
    logits = reader.forward(mx.array([[text[-1], *drafts.tokens]]), parents=parents)
    return replace(judged(drafts, chances(logits[0], temperature), rule), forwards=forwards)


class Drafts(NamedTuple):
    """The tokens and parents of N drafts, and what they were drawn from ``(N, V)``, if at all."""

    tokens: list[int]
    parents: list[int]
    q: np.ndarray | None

    def first(self, nodes: int) -> "Drafts":
        """Return the first ``nodes`` of them."""
        return Drafts(*(None if each is None else each[:nodes] for each in self))

    @property
    def paths(self) -> list[tuple[int, ...]]:
        """Return the tokens of N+1 paths: of no draft, and up to each one."""
        paths: list[tuple[int, ...]] = [()]
        for token, parent in zip(self.tokens, self.parents, strict=True):
            paths.append((*paths[parent + 1], token))
        return paths


def drafts_of(proposal: Proposal, row: int = 0) -> Drafts:
    """Return the drafts of a proposal, for one of its texts."""
    tokens = proposal.tokens.tolist()[row]
    parents = range(-1, len(tokens) - 1) if proposal.parents is None else proposal.parents
    q = None if proposal.q is None else np.array(proposal.q[row], np.float64)
    return Drafts(tokens, list(parents), q)


def chances(logits: mx.array, temperature: float) -> np.ndarray:
    """Return the probabilities ``(..., V)`` of logits ``(..., V)``."""
    rows = np.array(logits.astype(mx.float32), np.float64)
    if temperature == 0:
        return _certain(rows.argmax(-1), rows.shape[-1])
    return softmax(rows / temperature, -1)


def judged(drafts: Drafts, p: np.ndarray, rule: str) -> Round:
    """Return what a rule makes of drafts; ``p (N+1, V)`` are the target's probabilities."""
    tokens, parents, q = drafts
    q = _certain(tokens, p.shape[-1]) if q is None else q
    return Round(tokens, parents, p, *law(rule, p, q, tokens, parents))


def written(
    target: Any, tokenizer: Any, task: str, count: int
) -> list[tuple[Any, list[int], list[int]]]:  # fmt: skip
    """Return problems of a task, their prompts, and what the target writes after each."""
    problems = TASKS[task].problems(13, count)
    prompts = [tokenizer.encode(problem.prompt) for problem in problems]
    seeds = [SamplerOptions(seed=j) for j in range(count)]
    stop = tokenizer.eos_token_ids
    found = sample_many(target, prompts, seeds, max_tokens=60, stop_tokens=stop)
    return list(zip(problems, prompts, [each.tokens[0] for each in found], strict=True))


def before_operands(
    target: Any, tokenizer: Any, token_classes: Callable[..., list[str]], count: int = 12
) -> list[list[int]]:
    """Return sums of the target's own, each of which ends before an operand.

    ``token_classes(problem, tokens)`` says of each token what it is.
    """
    places = []
    for problem, prompt, tokens in written(target, tokenizer, "sums", count):
        kinds = token_classes(problem, tokens)
        places += [[*prompt, *tokens[:k]] for k, kind in enumerate(kinds) if kind == "operand"]
    return places


def two_siblings(
    target: Any, draft: Any, tokenizer: Any, task: str, count: int = 8
) -> np.ndarray:  # fmt: skip
    """Return how often a draft is kept ``(count, 3)``, in texts of the target's own.

    Of each text the mean over its places, at temperature 1: of one draft, of two that are judged in
    turn, and of two that are judged optimally.
    """
    means = []
    for _, prompt, tokens in written(target, tokenizer, task, count):
        text = mx.array([[*prompt, *tokens]])
        p, q = (chances(model(text)[0, len(prompt) - 1 : -1], 1.0) for model in (target, draft))
        one = np.minimum(p, q).sum(axis=-1)
        both = [(in_turn(*rows), OptimalPair(*rows).most) for rows in zip(p, q, strict=True)]
        means.append([one.mean(), *np.mean(both, axis=0)])
    return np.array(means)


def in_turn(p: np.ndarray, q: np.ndarray) -> float:
    """Return how often one of two siblings is kept by rejection: of all pairs, ``p, q (V,)``."""
    refused, rest = np.maximum(q - p, 0), np.maximum(p - q, 0)
    first = np.flatnonzero(refused)
    others = q / np.maximum(1 - q[first], 1e-12)[:, None]  # what the second is drawn from
    others[np.arange(len(first)), first] = 0
    wanted = tree_rules.normalised(rest, rest)
    kept_second = np.minimum(wanted, others).sum(axis=-1)
    return float(np.minimum(p, q).sum() + refused[first] @ kept_second)


def engine_round(
    target: Any, drafter: Drafter, text: Sequence[int], nodes: int, seed: int
) -> int:  # fmt: skip
    """Return how many tokens the engine's first round with drafts writes, under ``match``."""
    options = {"temperature": 1.0, "rule": "match", "seed": seed, "trace": True}
    with SpeculativeTokenIterator(
        target, drafter, text, draft_tokens=nodes, max_tokens=nodes + 4, **options
    ) as iterator:
        while not (drafted := [each for each in iterator.rounds if each.drafted]):
            next(iterator)
    return len(drafted[0].tokens)


def sampler_for(text: list[int], nodes: int, *options: SamplerOptions) -> TextSampler:
    """Return what draws ``nodes`` drafts after a text, in its first round, with each options."""
    sampler = TextSampler()
    sampler.add([Row(text, each, key_of(each, 0), nodes + 1) for each in options])
    return sampler


@dataclass(frozen=True)
class Prices:
    """The times of a round's parts here, in seconds.

    Attributes:
        costs: T(1), T(2), ... of the target, and a draft of a chain, which nobody waits for.
        level: a level of a tree: a forward of the draft model whose answer the host waits for.
    """

    costs: Costs
    level: float

    def chain(self, nodes: int) -> float:
        """Return what a round with a chain costs, in plain tokens."""
        return self.costs.of_round(nodes) / self.costs.forward(1)

    def tree(self, nodes: int, levels: int) -> float:
        """Return the same of a tree with so many ``nodes`` and ``levels``."""
        return (levels * self.level + self.costs.forward(nodes + 1)) / self.costs.forward(1)


def measure_prices(
    target: Any, draft: Any, text: Sequence[int], most: int = 16, repeats: int = 20
) -> Prices:
    """Time a round's parts after ``text``, trees of ``most`` nodes included."""
    costs = measure_costs(target, draft, most=most)
    text, each = list(text), []
    drafter, reader = Tree(draft), Rewinder(target, kv.make(target))
    session = drafter.begin(reader, own_reader(drafter, reader), 1)
    sampler = sampler_for(text, most, SamplerOptions(temperature=1.0, seed=0))
    now = clock()
    for _ in range(repeats):
        session.keep([len(text) - 1])
        start, calls = now(), session.calls
        mx.eval(session.propose([text], [most], sampler).tokens)
        each.append((now() - start) / (session.calls - calls))
    return Prices(costs, min(each))  # noise only ever adds

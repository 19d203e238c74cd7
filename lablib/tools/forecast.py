"""Will speculation pay here? Measured on this machine, with these two models, on a few texts.

What decides is how many drafts of a round are kept, and what reading several tokens at once costs.
Both are measured, separately: the times as the engine spends them, and the drafts by letting it
write each text once, with as many drafts as may be asked for. That tells, place by place, whether
the drafter knows the next token, and ``theory.replay`` goes through the text with any other length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from lablib.cache import kv
from lablib.course import tasks
from lablib.course.replay import measure
from lablib.course.replay.measure import clock, room_for
from lablib.course.replay.rounds import LONGEST, Guesses, replay
from lablib.inference.arguments import check_prompt, refuse_top_logprobs
from lablib.inference.decoding.rows import Verdict
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import NGram
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import FixedLength
from lablib.inference.speculation.draft_model import as_drafter
from lablib.inference.speculation.drafter import Drafter, Limits, Texts
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.speculation.rules import chosen, one_hot
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.unknown_options import check_options, options_of
from lablib.validation import BadType, BadValue, flag, integer, sequence

import mlx.core as mx
import numpy as np
from tabulate import tabulate

# For models that speak English; the shipped ones get problems of their tasks.
PROMPTS = (
    "The lighthouse keeper climbed the stairs every evening, and",
    "To make a good soup, first you",
    "Question: Why is the sky blue?\nAnswer:",
    "def mean(numbers):\n    total = 0\n    for number in numbers:\n",
    "Dear Anna, thank you for your letter. I was glad to hear that",
    "The old bridge was closed. The new bridge was open. The old bridge was",
)
_PER_TASK = 4  # problems of each task
_RESAMPLES = 2000
_TURNS = 5  # of the check, plain and speculative in turns
_DRAWING = {field.name for field in fields(SamplerOptions)}
_PAYS = 1.03  # a speed-up below this is not worth a second model


@dataclass(frozen=True)
class Forecast:
    """The expected gain of speculation, as ``print`` shows it.

    Attributes:
        speedups: of γ = 0, 1, ... drafts a round: tokens a second over plain decoding's.
        draft_tokens: the γ with the highest; 0 where drafting does not pay.
        interval: of the speed-up at that γ, 95 %: the texts drawn again (bootstrap). That of the
            times, which are the best of several, is not in it.
        tokens_per_round: expected with γ = 0, 1, ...
        rates: kept / reached of each place of a round; NaN where none was reached.
        costs: seconds of the target's and the draft's forwards here.
        tokens: how many tokens of text it rests on.
        why: one sentence.
        measured: the speed-up with that γ on the same texts, if it was asked for.
    """

    speedups: tuple[float, ...]
    draft_tokens: int
    interval: tuple[float, float]
    tokens_per_round: tuple[float, ...]
    rates: tuple[float, ...]
    costs: Costs
    tokens: int
    why: str
    measured: float | None = None

    @property
    def speedup(self) -> float:
        """The expected speed-up with ``draft_tokens`` drafts."""
        return self.speedups[self.draft_tokens]

    def __str__(self) -> str:
        plain = self.costs.of_round(0)
        rows = []
        for g, (tokens, gain) in enumerate(zip(self.tokens_per_round, self.speedups, strict=True)):
            mark = "best" if g == self.draft_tokens else ""
            rows.append([g, tokens, self.costs.of_round(g) / plain, gain, mark])
        heads = ["drafts", "tokens a round", "a full round, in plain tokens", "speed-up", ""]
        lines = [tabulate(rows, heads, floatfmt=".2f"), "", self.why]
        if self.measured is not None:
            lines.append(f"Measured on the same texts: ×{self.measured:.2f}.")
        return "\n".join(lines)


def forecast(
    target: Any, draft_model: Any = None, tokenizer: Any = None,
    prompts: Sequence[Any] | None = None, *,
    most: int = LONGEST, max_tokens: int = 64, repeats: int = 9, check: bool = False, seed: int = 0,
    **options: Any,
) -> Forecast:  # fmt: skip
    """Measure whether drafting for ``target`` pays on this machine, and with how many drafts.

    Args:
        target: any mlx-lm model.
        draft_model: a model of the same vocabulary, or a drafter; None looks up n-grams in the
            text.
        tokenizer: the target's; not needed if all prompts are token ids.
        prompts: texts or token ids to complete. None takes problems of the three tasks if the
            tokenizer is the shipped models', otherwise six short English texts.
        most: the most drafts a round to consider, up to 8.
        max_tokens: most tokens of each completion.
        repeats: measurements of each time, of which the median counts.
        check: run the best γ too, in turns with plain decoding, on the same texts.
        seed: text i is drawn with ``seed + i``, and the interval with ``seed``.
        **options: of ``SpeculativeTokenIterator``, such as ``temperature=0.8`` and ``rule=``; the
            default is greedy.

    Raises:
        ValueError, TypeError: an argument is out of range; before any work.

    Returns:
        What is expected; ``print`` shows it as a table and a sentence.

    Example:
        >>> found = lablib.forecast(model, draft, tokenizer, ["Mia"], max_tokens=4, repeats=1)
        >>> found.draft_tokens <= 8
        True
    """
    most, max_tokens = integer("most", most, 1, LONGEST), integer("max_tokens", max_tokens, 2)
    seed, check = integer("seed", seed, 0), flag("check", check)
    check_options(forecast, options, options_of(SpeculativeTokenIterator))
    refuse_top_logprobs(options, "SpeculativeTokenIterator")
    drafter = as_drafter(NGram() if draft_model is None else draft_model)
    texts = _texts(target, tokenizer, prompts)
    options = {"temperature": 0.0, "max_tokens": max_tokens} | options
    rule = options.get("rule") or "rejection"
    asked = [_Asked(drafter, rule) for _ in texts]
    iterators = [
        SpeculativeTokenIterator(
            target,
            each,
            text,
            draft_tokens=most,
            trace=True,
            seed=seed + i,
            **options,
        )
        for i, (text, each) in enumerate(zip(texts, asked, strict=True))
    ]
    costs = _prices(target, drafter, texts, most, repeats, rule, options)
    texts_seen, stopped = [], []
    for i, (iterator, each) in enumerate(zip(iterators, asked, strict=True)):
        for _ in iterator:
            pass
        chances = {place - len(texts[i]): chance for place, chance in each.chances.items()}
        texts_seen.append(guesses_of_rounds(iterator.rounds, most, seed + i, chances))
        stopped.append(iterator.stats["finish_reason"] == "stop")
    found = expect(texts_seen, costs, most, seed, stopped)
    if check and found.draft_tokens:
        settings = {"draft_model": drafter, "draft_tokens": found.draft_tokens}
        measured = _measure(target, texts, settings, options, seed)
        found = replace(found, measured=measured)
    return found


def _prices(
    target: Any, drafter: Drafter, texts: list[list[int]], most: int, repeats: int, rule: str,
    options: dict[str, Any],
) -> Costs:  # fmt: skip
    """Measure the costs in the middle of the texts, or where the models leave room to."""
    drawn = {key: options[key] for key in _DRAWING & options.keys()}
    middle = int(np.median([len(text) for text in texts])) + options["max_tokens"] // 2
    context = int(max(1, min(middle, room_for(target, drafter, most, repeats))))
    return measure.measure_costs(
        target, drafter, most=most, repeats=repeats, rule=rule, context=context, **drawn
    )


class _Asked:
    """A drafter that is also asked about the tokens that nobody drafted.

    After a round all of whose drafts were kept comes a token of the target's own. ``chances`` tells
    by its place in the text how probable it is that a draft would have been kept there. It is
    conditional on the token x that the text has: ``q(x) · accept(x) / p(x)``. (Who drafts in the
    target's cache can't step back in it, and is not asked.)
    """

    def __init__(self, drafter: Drafter, rule: str) -> None:
        self._drafter, self._rule = drafter, rule
        self.chances: dict[int, float] = {}
        self._full = 0  # how long the text is if all drafts of the last round were kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)

    def begin(self, target: Any, own: Any, texts: int) -> "_Asked":
        self._drafter = self._drafter.begin(target, own, texts)
        self._target = target.model = _Watched(target.model)
        return self

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        text = texts[0]
        if len(text) == self._full and not self.in_target_cache:
            guess = self._drafter.propose([text[:-1]], [1], sampler)
            self.chances[len(text) - 1] = (
                0.0 if guess is None else self._chance(guess, sampler, text)
            )
        proposal = self._drafter.propose(texts, limits, sampler)
        self._full = 0 if proposal is None else len(text) + proposal.tokens.shape[1] + 1
        return proposal

    def _chance(self, guess: Proposal, sampler: TextSampler, text: Sequence[int]) -> float:
        token = mx.array([text[-1:]])
        if sampler.greedy:
            return float(mx.all(guess.tokens == token).item())
        p, _ = sampler.probabilities(sampler.raw(self._target.logits), None)
        q = one_hot(guess.tokens, p.shape[-1]) if guess.q is None else guess.q
        accept = chosen(self._rule)(mx.stack([p, p], axis=1), q, token).kept[0, 1]
        return (q[0, 0, text[-1]] * accept / p[0, text[-1]]).item()


class _Watched:
    """A model that keeps the last row of logits ``(1, V)``."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, tokens: mx.array, cache: kv.Cache | None = None) -> mx.array:
        logits = self._model(tokens, cache=cache)
        self.logits = logits[:, -1]
        return logits


def guesses_of_rounds(
    rounds: Sequence[Verdict], most: int, seed: int = 0, chances: Mapping[int, float] = {}
) -> Guesses:
    """Return what the drafter knew at each place of a text that it drafted ``most`` tokens for.

    After a round all of whose drafts were kept comes a token that nobody drafted: whether it would
    have been right is drawn, with the chance of its place; where that is not known, with the share
    of the drafts at the beginning of a round.
    """
    first = [each.accepted > 0 for each in rounds if each.drafted]
    share, rng = float(np.mean(first)) if first else 0.0, np.random.default_rng(seed)
    offered: list[int] = []
    known: list[bool] = []
    for each in rounds:
        drafted = len(each.drafted)
        offered += [drafted - j for j in range(each.accepted)]
        known += [True] * each.accepted
        if each.token is None:  # a draft that was kept ended the text
            continue
        if each.accepted < drafted:
            offered.append(drafted - each.accepted)
            known.append(False)
        else:
            chance = chances.get(len(known), share if drafted else 0.0)
            offered.append(most if drafted else 0)
            known.append(bool(rng.random() < chance))
    right = [0] * (len(known) + 1)
    for place in reversed(range(len(known))):
        right[place] = min(1 + right[place + 1], most) if known[place] else 0
    return Guesses(tuple(map(max, offered, right)), tuple(right[:-1]))


def expect(
    texts: Sequence[Guesses], costs: Costs, most: int, seed: int = 0, stopped: Sequence[bool] = ()
) -> Forecast:
    """Forecast from what a drafter knows of some texts, with up to ``most`` drafts a round.

    Which of them ``stopped`` by themselves: there plain decoding has asked for one token too many.
    """
    plain, tokens = costs.of_round(0), np.array([len(text.right) for text in texts])
    runs = [[replay(text, FixedLength(g)) for g in range(1, most + 1)] for text in texts]
    spent = np.array([[sum(step.cost(costs) for step in run) for run in each] for each in runs])
    alone = plain * (tokens + np.array(stopped or [False] * len(texts)))
    spent = np.column_stack([alone, spent])
    speedups = alone.sum() / spent.sum(axis=0)
    best = int(np.argmax(speedups)) if speedups.max() >= _PAYS else 0
    again = np.random.default_rng(seed).integers(len(texts), size=(_RESAMPLES, len(texts)))
    ratios = alone[again].sum(axis=1) / spent[again, best].sum(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975]).tolist()
    calls = np.array([[sum(step.calls for step in run) for run in each] for each in runs])
    per_round = tokens.sum() / np.array([tokens.sum(), *calls.sum(axis=0)])
    steps = [step for each in runs for step in each[-1]]
    kept, reached = (
        np.array([sum(getattr(step, what) > place for step in steps) for place in range(most)])
        for what in ("kept", "reached")
    )
    rates = np.divide(kept, reached, out=np.full(most, np.nan), where=reached > 0)
    return Forecast(
        tuple(speedups.tolist()), best, (low, high), tuple(per_round.tolist()),
        tuple(rates.tolist()), costs, int(tokens.sum()),
        _reason(best, speedups, (low, high), per_round, costs),
    )  # fmt: skip


def _reason(
    best: int, speedups: np.ndarray, interval: tuple[float, float], per_round: np.ndarray,
    costs: Costs,
) -> str:  # fmt: skip
    """Say what the forecast comes down to."""
    plain, lengths = costs.of_round(0), range(1, len(speedups))
    if best:
        low, high = interval
        price = costs.of_round(best) / plain
        drafts = "1 draft a round gives" if best == 1 else f"{best} drafts a round give"
        return (
            f"It pays: {drafts} {per_round[best]:.2f} tokens for the price of "
            f"{price:.2f}, ×{speedups[best]:.2f} (95 %: {low:.2f} to {high:.2f})."
        )
    perfect = max((g + 1) * plain / costs.of_round(g) for g in lengths)
    free = max((g + 1) * plain / costs.forward(g + 1) for g in lengths)
    if free < _PAYS:
        twice = costs.forward(2) / plain
        return (
            f"It does not pay: verifying is compute-bound here. Reading 2 tokens takes {twice:.2f} "
            "times as long as decoding one, so that even free and perfect drafts gain nothing."
        )
    if perfect < _PAYS:
        share = costs.draft / plain
        return (
            f"It does not pay: a drafted token costs {share:.2f} of a plain one. Even if every "
            "draft were kept, that is too dear."
        )
    kept = per_round[1] - 1
    needed = costs.of_round(1) / plain - 1
    return (
        f"It does not pay: too few drafts are kept. A first draft gives {kept:.2f} tokens more a "
        f"round, and must give {needed:.2f} to be worth its price."
    )


def _texts(target: Any, tokenizer: Any, prompts: Sequence[Any] | None) -> list[list[int]]:
    """Return the prompts as token ids that the target knows."""
    if prompts is None:
        if tokenizer is None:
            raise BadValue("tokenizer must be given where no prompts are, got None")
        prompts = PROMPTS
        if tokenizer.get_vocab() == tasks.load_tokenizer().get_vocab():
            every = [task.problems(0, _PER_TASK) for task in tasks.TASKS.values()]
            prompts = [problem.prompt for problems in every for problem in problems]
    texts = []
    for i, prompt in enumerate(sequence("prompts", prompts, "texts or token ids")):
        if isinstance(prompt, str):
            if tokenizer is None:
                raise BadType(f"prompts[{i}] is text: give its tokenizer")
            prompt = tokenizer.encode(prompt)
        texts.append(check_prompt(target, prompt, "target", f"prompts[{i}]"))
    if not texts:
        raise BadValue("prompts must hold at least one text, got none")
    return texts


def _measure(
    target: Any, texts: list[list[int]], speculative: dict[str, Any], options: dict[str, Any],
    seed: int,
) -> float:  # fmt: skip
    """Return the median speed-up over some turns; tokens after each text's first count."""
    plainly, now = {name: value for name, value in options.items() if name != "rule"}, clock()

    def seconds(make: Any) -> float:
        spent = 0.0
        for i, text in enumerate(texts):
            tokens = make(text, seed + i)
            next(tokens)  # the prompt
            start = now()
            for _ in tokens:
                pass
            spent += now() - start
        return spent

    def plain(text: list[int], seed: int) -> Any:
        return TokenIterator(target, text, seed=seed, **plainly)

    def drafting(text: list[int], seed: int) -> Any:
        settings = speculative | options
        return SpeculativeTokenIterator(target, prompt=text, seed=seed, **settings)

    ratios = [seconds(plain) / seconds(drafting) for _ in range(_TURNS + 1)]
    return float(np.median(ratios[1:]))

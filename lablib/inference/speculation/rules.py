"""Acceptance rules: which drafts stay, and what follows them, so that nothing is lost.

A draft model proposes ``x_1 … x_γ`` from its distributions ``q_1 … q_γ``. The target has computed
its own ``p_1 … p_{γ+1}`` at the same places in one forward. A rule is a pure function of the two:
it says with what probability exactly n drafts are kept, and from which distribution the token after
them comes. *Lossless* means that the text has the distribution of the target alone, whatever q is.

The library's four, in the order of how much they keep::

    match      draw the target's own token; keep the draft if it is the same one. Keeps Σ p·q.
    coupled    the same, but both models draw with the same noise, and so agree more often (Daliri,
               Musco and Suresh 2024, 2408.07978). Keeps at least (1 − TV) / (1 + TV), with
               TV = 1 − Σ min(p, q).
    rejection  keep a draft with probability min(1, p/q); after a rejection draw from what q has not
               covered, max(p − q, 0) (Leviathan et al. 2023, 2211.17192; Chen et al. 2023,
               2302.01318). Keeps Σ min(p, q), the most that any rule can at one position.
    block      judge all drafts together: a draft that p likes more than q makes up for one before
               it that p likes less (Sun et al. 2024, 2403.10444). Keeps the longest prefixes.

One convention makes a rule uniform. Where nothing was drafted, set q = 0: acceptance is 0 and the
residual is p. So the *bonus* token after γ kept drafts is the same thing as the *correction* after
a rejection.

The engine (``judge.py``) draws from the ``Outcome`` of rejection, block and any rule added to
``RULE``. It plays ``match`` and ``coupled`` out: it draws the target's own tokens, and
``count_matches`` counts the drafts that equal them. The result has the rule's distribution, and for
a seed it is one text whoever drafts, and if nobody does: under ``match`` the text of plain
sampling; under ``coupled`` another one, as its noise is one number a token. A draft that was looked
up took no noise: then ``coupled`` too keeps it with probability p. At temperature 0 the four rules
agree, and two best tokens are compared. With ``lablib.by_definition()``, or if one was replaced,
the rule's function decides there too.

To add a rule, write its function and put it into ``RULE``, here or in a cell of a notebook. This
one keeps half of what rejection keeps::

    from lablib import rules

    def half(p, q, drafts):
        accept = mx.minimum(rules.ratio_of(p, q, drafts), 1) / 2
        rest = p - mx.minimum(p, rules.padded(q)) / 2
        return rules.Outcome(rules.one_by_one(accept), rules.scaled(rest, p))

    rules.RULE["half"] = half

Then ``rule="half"`` works, at temperature 0 too, where p and q are certain of one token. (With a
drafter of trees these four do, and those of ``tree_rules.TREE_RULE``.) The helpers stand at the
end: ``ratio_of`` is p/q of each draft, 0 where nothing was drafted; ``padded`` appends the q of
zeros; ``one_by_one`` turns the chance of each draft into that of each length; ``scaled`` makes rows
sum to 1. The engine refuses an outcome that is no distribution. It doesn't ask whether a rule is
lossless: ``lablib.bias(half)`` enumerates it, and is 0, up to rounding, if so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.definitions import in_use, remember
from lablib.inference.sampling.sums import running, total
from lablib.inference.speculation.tree_rules import TREE_RULE
from lablib.validation import BadType, BadValue, function, one_of, returned, shown

import mlx.core as mx
import numpy as np


@dataclass(frozen=True)
class Outcome:
    """Everything that can come out of one round."""

    kept: mx.array  # (..., γ+1); entry n: the probability that exactly the first n drafts are kept
    following: mx.array  # (..., γ+1, V); row n: the distribution of the token after n kept drafts

    def __post_init__(self) -> None:
        if self.kept.shape != self.following.shape[:-1]:
            shapes = f"got {self.kept.shape} and {self.following.shape}"
            raise BadValue(f"kept and following must be (..., γ+1) and (..., γ+1, V), {shapes}")


def match(p: mx.array, q: mx.array, drafts: mx.array) -> Outcome:
    """Keep a draft while the target's own sample equals it.

    Args:
        p: the target's probabilities ``(..., γ+1, V)``.
        q: the draft's probabilities ``(..., γ, V)``; a row of zeros where nothing was drafted.
        drafts: the drafted ids ``(..., γ)``.
    """
    drafted = one_hot(drafts, p.shape[-1], p.dtype) * (mx.sum(q, axis=-1, keepdims=True) > 0)
    accept = mx.sum(drafted * p[..., :-1, :], axis=-1)
    # The sample differed from the draft, and that is all that is known of it: p without the draft.
    return Outcome(one_by_one(accept), scaled(p * (1 - padded(drafted)), p))


def coupled(p: mx.array, q: mx.array, drafts: mx.array) -> Outcome:
    """Keep a draft while the target, which draws with the same noise, draws it as well.

    Each model takes the token that minimises ``E_i / p_i`` or ``E_i / q_i``, E exponential. Both
    take x with probability ``1 / Σ_j max(p_j/p_x, q_j/q_x)``. The draft is x and the target's token
    y with ``q_x p_y (G(y) − G(x))``, where that is positive; G is the third of :func:`_race`.
    Arguments as for :func:`match`.
    """
    bid, most, area = _race(p[..., :-1, :], q)
    accept = mx.where(_of(q, drafts) > 0, mx.minimum(_of(bid / most, drafts), 1), 0)
    later = mx.maximum(area - _of(area, drafts)[..., None], 0)
    return Outcome(one_by_one(accept), scaled(p * padded(later), p))


def rejection(p: mx.array, q: mx.array, drafts: mx.array) -> Outcome:
    """Keep a draft with probability ``min(1, p/q)``; arguments as for :func:`match`."""
    accept = mx.minimum(ratio_of(p, q, drafts), 1)
    return Outcome(one_by_one(accept), scaled(mx.maximum(p - padded(q), 0), p))


def block(p: mx.array, q: mx.array, drafts: mx.array) -> Outcome:
    """Judge the block as a whole; arguments as for :func:`match`.

    ``w_n = min(1, w_{n-1} · p(x_n)/q(x_n))`` is how well the first n drafts are covered, and prefix
    n is kept with probability ``s_n / (s_n + 1 − w_n)``, ``s_n = Σ max(w_n p_{n+1} − q_{n+1}, 0)``;
    the longest kept prefix counts.
    """
    ratio = ratio_of(p, q, drafts)
    covered = [mx.ones_like(p[..., 0, 0])]
    for n in range(drafts.shape[-1]):
        covered.append(mx.minimum(covered[-1] * ratio[..., n], 1))
    w = mx.stack(covered, axis=-1)
    rest = mx.maximum(w[..., None] * p - padded(q), 0)
    uncovered = total(rest)[..., 0]
    room = uncovered + (1 - w)
    keep = mx.where(room > 0, uncovered / mx.where(room > 0, room, 1), 0)
    keep = mx.concatenate([mx.ones_like(keep[..., :1]), keep[..., 1:]], axis=-1)
    lost_later = mx.cumprod(1 - keep, axis=-1, reverse=True, inclusive=False)
    return Outcome(keep * lost_later, scaled(rest, p))


Rule = Callable[[mx.array, mx.array, mx.array], Outcome]
RULE: dict[str, Rule] = {rule.__name__: rule for rule in (match, coupled, rejection, block)}
OF_TREES = tuple(RULE)  # the rules that trees have too: see ``tree_rules.py``
BUILT_IN = dict(RULE)


def named(rule: Any, trees: bool = False) -> Any:
    """Return the checked name of a rule, None meaning "rejection"; for a drafter of ``trees``.

    A function is a rule of one's own, for chains.
    """
    if callable(rule):
        if rule not in BUILT_IN.values() and not trees:
            return rule
        rule = rule.__name__
    known = {**TREE_RULE, **RULE} if trees else RULE
    rule = one_of("rule", "rejection" if rule is None else rule, known)
    function(f"RULE[{rule!r}]", known[rule])
    if trees:
        one_of("rule (of a drafter of trees)", rule, dict.fromkeys((*OF_TREES, *TREE_RULE)))
        if rule in RULE and in_use(RULE, rule, BUILT_IN, globals()) is not BUILT_IN[rule]:
            cure = "put one for trees into tree_rules.TREE_RULE"
            raise BadValue(f"rule {rule!r} was replaced by a function of chains: {cure}")
    return rule


def chosen(rule: Any) -> Rule:
    """Return the function of a rule: itself, that in ``RULE``, or of this module if replaced.

    The outcomes of a function that is not the library's are looked at, and refused by name.
    """
    chosen_rule = rule if callable(rule) else in_use(RULE, rule, BUILT_IN, globals())
    if chosen_rule in BUILT_IN.values():
        return chosen_rule

    def looked_at(p: mx.array, q: mx.array, drafts: mx.array) -> Outcome:
        outcome = chosen_rule(p, q, drafts)
        check_outcome(f"rule {getattr(rule, '__name__', rule)!r}", outcome, p)
        return outcome

    return looked_at


def check_outcome(name: str, outcome: Any, p: mx.array, tolerance: float = 1e-3) -> None:
    """Refuse what a rule of that ``name`` returned, if it is no ``Outcome`` of distributions."""
    if not isinstance(outcome, Outcome):
        raise BadType(f"{name} must return an Outcome, got {type(outcome).__name__}")
    returned(f"{name}'s following", outcome.following, like=p)
    kept, following = np.array(outcome.kept), np.array(outcome.following)
    _check_sums(f"kept of {name}", kept, tolerance)
    _check_sums(f"following of {name}", following[kept > tolerance], tolerance)


def _check_sums(name: str, rows: np.ndarray, tolerance: float) -> None:
    """Refuse rows ``(..., n)`` that are no distributions."""
    with np.errstate(invalid="ignore"):  # of a NaN both are false
        is_positive = rows.min(axis=-1, initial=0) > -tolerance
        is_whole = np.abs(rows.sum(axis=-1) - 1) < tolerance
    bad = rows[~(is_positive & is_whole)]
    if len(bad):
        got = shown(bad[0].round(3).tolist())
        hint = "; is it 0/0 where nothing was drafted, q = 0?" if np.isnan(bad[0]).any() else ""
        raise BadValue(f"{name} must be probabilities with sum 1, got {got}{hint}")


def count_matches(drafts: Sequence[int], tokens: Sequence[int]) -> int:
    """Count the drafts that equal the target's own tokens, up to the first that does not."""
    for n, (draft, token) in enumerate(zip(drafts, tokens, strict=False)):
        if draft != token:
            return n
    return len(drafts)


def one_hot(tokens: mx.array, vocab_size: int, dtype: mx.Dtype = mx.float32) -> mx.array:
    """Return the q ``(..., γ, V)`` of drafts that were looked up: certain of each token."""
    return (tokens[..., None] == mx.arange(vocab_size, dtype=tokens.dtype)).astype(dtype)


def overlap(p: mx.array, q: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    """Return what rejection, match and coupled keep of a draft, at each position.

    ``Σ min(p, q)``, ``Σ p·q``, and the chance that with shared noise both draw one token: each is
    ``(..., γ)``, of ``p (..., γ+1, V)`` or ``(..., γ, V)``, and ``q (..., γ, V)``.
    """
    p = p[..., : q.shape[-2], :]
    bid, most, _ = _race(p, q)
    shares = mx.minimum(p, q), p * q, q * (bid / most)
    kept, matched, coupled_too = (total(share)[..., 0] for share in shares)
    return kept, matched, coupled_too


def _of(rows: mx.array, ids: mx.array) -> mx.array:
    """Return the entry ``ids[...]`` of each row ``(..., V)``."""
    return mx.take_along_axis(rows, ids[..., None].astype(mx.int32), axis=-1)[..., 0]


def ratio_of(p: mx.array, q: mx.array, drafts: mx.array) -> mx.array:
    """Return ``p(x)/q(x)`` of each draft; 0 where nothing was drafted: nothing is kept there."""
    p_x, q_x = _of(p[..., :-1, :], drafts), _of(q, drafts)
    return mx.where(q_x > 0, p_x / mx.where(q_x > 0, q_x, 1), 0)


def _race(p: mx.array, q: mx.array) -> list[mx.array]:
    """Return three numbers of each token ``(..., V)`` that say who wins two races on one noise.

    ``s = p/(p+q)``; ``N(s) = Σ_j max(s q_j, (1−s) p_j)``, which is at least ½; and the integral
    ``G(s) = ∫ 1/N²`` from 0: between two tokens N is linear, and the area a product.
    """
    both = p + q
    bid = mx.where(both > 0, p / mx.where(both > 0, both, 1), 0)
    order = mx.argsort(bid, axis=-1)
    s, p, q = (mx.take_along_axis(x, order, axis=-1) for x in (bid, p, q))
    after = running(p, reverse=True, inclusive=False)
    most = mx.maximum(s * running(q) + (1 - s) * after, 0.5)  # q is 0 without a draft
    start = mx.zeros_like(s[..., :1])
    width = s - mx.concatenate([start, s[..., :-1]], axis=-1)
    area = running(width / (most * mx.concatenate([1 + start, most[..., :-1]], axis=-1)))
    back = mx.argsort(order, axis=-1)
    return [mx.take_along_axis(x, back, axis=-1) for x in (s, most, area)]


def padded(q: mx.array) -> mx.array:
    """Append a row of zeros to ``q``: after the last draft, nothing was drafted."""
    return mx.pad(q, [*[(0, 0)] * (q.ndim - 2), (0, 1), (0, 0)])


def one_by_one(accept: mx.array) -> mx.array:
    """Turn the chance of each draft into that of each length: the first refusal ends it."""
    start = mx.ones_like(accept[..., :1])
    reach = mx.concatenate([start, mx.cumprod(accept, axis=-1)], axis=-1)
    refuse = mx.concatenate([1 - accept, start], axis=-1)
    return reach * refuse


def scaled(rest: mx.array, p: mx.array) -> mx.array:
    """Scale rows to sum to 1. A row of zeros belongs to a length of probability 0: make it p."""
    left = total(rest)
    return mx.where(left > 0, rest / mx.where(left > 0, left, 1), p)


remember(__name__)

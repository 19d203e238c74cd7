"""Trains blocks of drafts: ``python -m lablib train target-block``.

A block learns from text that its target wrote, as a head does, and begins with the weights of one:
its first place is what the head guesses first. At many places of a text at once it guesses the next
tokens, each behind the text's own (a draft that stays is the text's), and learns the distributions
that the target has there. What its confidence learns is the share of q that ``rejection`` keeps.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from lablib.machine import backend
from lablib.models import zoo
from lablib.models.base import LanguageModel
from lablib.models.draft_block import KIND, DraftBlock
from lablib.models.files import fingerprint
from lablib.models.head import DraftHead, load_head
from lablib.tools.descent import Descent, ResumePoint, descend, same
from lablib.tools.head_training import HeadRecipe, save_reader, texts_of, write_report
from lablib.tools.training import checkpoint
from lablib.validation import one_of

import mlx.core as mx
import numpy as np

_TAKEN = 64  # texts whose states are computed at once


@dataclass(frozen=True)
class BlockRecipe(HeadRecipe):
    """Hold everything that decides a block's weights, beside those of the target and of a head.

    Attributes:
        head: name or path of the head whose weights it begins with; None: with its seed's.
        known: pairs of a text that are read before the first place, at most.
        reach: places of a text, from its first on, after which blocks may begin.
        stride: at each how many-th of them one does.
        fading: the weight of a place in the loss, as a power of its number: late places count
            less, as fewer drafts get there.
        confidence_weight: of the confidence's cross-entropy, beside that of the tokens.
    """

    head: str | None = "target-head"
    known: int = 24
    reach: int = 40
    stride: int = 2
    fading: float = 0.85
    confidence_weight: float = 0.2


BLOCKS = {
    # On one thread of an EPYC, its texts with it, 26 minutes of processor time.
    "target-block": BlockRecipe(
        "target", chat=False, texts=8_192, max_tokens=60, intermediate_size=256, steps=2_400,
        batch=16, guesses=8, learning_rate=1.5e-3, decay_steps=2_400,
    ),
}  # fmt: skip


def train_block(
    name: str,
    out: str | Path | None = None,
    *,
    recipe: BlockRecipe | None = None,
    models: str | Path | None = None,
    save_every: int = 100,
    progress: bool = True,
) -> Path:
    """Train a block and write it; an interrupted run goes on where it was.

    Arguments, errors and the files that are written are those of ``head_training.train_head``.
    """
    recipe = recipe or BLOCKS[one_of("name", name, BLOCKS)]
    out = Path(out) if out is not None else Path("runs") / name
    out.mkdir(parents=True, exist_ok=True)
    target, tokenizer = zoo.load(checkpoint(recipe.target, models))
    target.freeze()
    made_of = {
        "recipe": json.loads(json.dumps(asdict(recipe))),
        "blas_threads": backend.threads(),
        "teachers": {recipe.target: fingerprint(target)},
    }
    report = out / "training.json"
    if report.is_file():
        same(json.loads(report.read_text()), made_of, f"delete {out}")
        return out
    texts = texts_of(recipe, target, tokenizer, out / "texts", progress)
    block = DraftBlock(target, recipe.guesses, recipe.ids, recipe.intermediate_size, recipe.seed)
    if recipe.head is not None:
        start_from(block, load_head(checkpoint(recipe.head, models), target))
    point = ResumePoint(out, made_of, save_every)
    batches = _batches(texts, states_of(target, texts), recipe)
    loss = partial(loss_of, recipe)
    how = Descent(recipe.steps, recipe.learning_rate, decay_steps=recipe.decay_steps)
    done = descend(name, block, lambda step: loss, batches, how, point, progress)
    save_reader(block, out, KIND, Path(recipe.target).name, size=block.size)
    write_report(out, name, made_of, done)
    return out


def start_from(block: DraftBlock, head: DraftHead) -> None:
    """Give a block the weights of a head, so that its first place is the head's first guess.

    What a wider block has beside them is drawn, and adds nothing at first. No token is coupled.
    """
    block.join.weight = head.join.weight
    (own,), (given,) = block.blocks.layers, head.blocks.layers
    for part in ("self_attn", "input_layernorm", "post_attention_layernorm"):
        own[part].update(given[part].parameters())
    block.blocks.norm.weight = head.blocks.norm.weight
    inner = given.mlp.up_proj.weight.shape[0]
    for name in ("gate_proj", "up_proj"):
        own.mlp[name].weight[:inner] = given.mlp[name].weight
    own.mlp.down_proj.weight = mx.zeros_like(own.mlp.down_proj.weight)
    own.mlp.down_proj.weight[:, :inner] = given.mlp.down_proj.weight
    for layer in (block.couple, block.confide):
        layer.weight = mx.zeros_like(layer.weight)


def states_of(target: LanguageModel, texts: list[tuple[np.ndarray, int]]) -> list[np.ndarray]:
    """Return the target's states of each text ``(T, hidden)``, float16."""
    states: list[Any] = [None] * len(texts)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i][0]))  # little padding
    for first in range(0, len(order), _TAKEN):
        some = order[first : first + _TAKEN]
        rows = np.zeros((len(some), len(texts[some[-1]][0])), np.int32)
        for row, i in zip(rows, some, strict=True):
            row[: len(texts[i][0])] = texts[i][0]
        taken = np.array(target.hidden(mx.array(rows)).astype(mx.float16))
        for row, i in zip(taken, some, strict=True):
            states[i] = row[: len(texts[i][0])].copy()
    return states


Batch = tuple[mx.array, mx.array, mx.array]


def _batches(
    texts: list[tuple[np.ndarray, int]], states: list[np.ndarray], recipe: BlockRecipe
) -> Iterator[Batch]:
    """Yield states ``(B, W, hidden)``, the tokens behind them ``(B, W)``, and 1 where both are.

    In column ``known`` stands the pair after which the first block of a text begins, or one of the
    ``stride - 1`` before that.
    """
    width = recipe.known + recipe.reach + recipe.guesses
    for epoch in count():
        rng = np.random.default_rng([recipe.seed, 2, epoch])
        order = rng.permutation(len(texts))
        for start in range(0, len(order) - recipe.batch + 1, recipe.batch):
            some = order[start : start + recipe.batch]
            taken = np.zeros((len(some), width, states[0].shape[-1]), np.float32)
            tokens = np.zeros((len(some), width), np.int32)
            real = np.zeros((len(some), width), np.float32)
            shifts = rng.integers(recipe.stride, size=len(some))
            for row, i in enumerate(some):
                ids, prompt = texts[i]
                before = recipe.known - shifts[row] - (prompt - 2)  # columns before the first pair
                column, pair = max(before, 0), max(-before, 0)
                n = min(len(ids) - 1 - pair, width - column)
                taken[row, column : column + n] = states[i][pair : pair + n]
                tokens[row, column : column + n] = ids[pair + 1 : pair + 1 + n]
                real[row, column : column + n] = 1
            yield mx.array(taken), mx.array(tokens), mx.array(real)


class _Roots:
    """Lets many blocks be guessed in one forward: each sees the pairs up to its root, and itself.

    Behind ``pairs`` pairs stand ``size - 1`` marks for each of the ``roots``; ``places`` are the
    positions of all of them. ``real (B, pairs)`` is 0 where there is none.
    """

    def __init__(self, pairs: int, roots: np.ndarray, size: int, real: mx.array) -> None:
        self.offset = 0
        ahead = np.arange(1, size)
        self.places = np.concatenate([np.arange(pairs), (roots[:, None] + ahead).ravel()])
        last = np.concatenate([np.arange(pairs), np.repeat(roots, size - 1)])  # pair that each sees
        sees_pairs = np.arange(pairs) <= last[:, None]
        root = np.concatenate([np.full(pairs, -1), np.repeat(np.arange(len(roots)), size - 1)])
        number = np.concatenate([np.zeros(pairs), np.tile(ahead, len(roots))])
        own = (root[:, None] == root) & (number <= number[:, None]) & (root >= 0)[:, None]
        self._own = mx.array(own[:, pairs:])
        self._sees = mx.array(sees_pairs)
        self._real = real[:, None, None] > 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Return them: nothing came before."""
        return keys, values

    def make_mask(self, length: int, **_: Any) -> mx.array:
        """Return ``(B, 1, length, length)``: True where one sees another."""
        seen = self._sees & self._real
        own = mx.broadcast_to(self._own, (*seen.shape[:-1], self._own.shape[-1]))
        return mx.concatenate([seen, own], axis=-1)


def guesses(
    block: DraftBlock, states: mx.array, tokens: mx.array, roots: np.ndarray, real: mx.array
) -> mx.array:
    """Return the states ``(B, roots, size, hidden)`` that it guesses after each root of a text.

    ``states (B, T, hidden)`` stand before ``tokens (B, T)``; a root is the place of the last pair
    that its block reads, and ``real`` is 0 where there is no pair.
    """
    size, (batch, length) = block.size, tokens.shape
    pairs = block.pairs(states, tokens)
    marked = pairs[:, mx.array(roots)][:, :, None] + block.marks
    read = mx.concatenate([pairs, marked.reshape(batch, -1, pairs.shape[-1])], axis=1)
    out = block.blocks(read, [_Roots(length, roots, size, real)])
    first = out[:, mx.array(roots)][:, :, None]
    others = out[:, length:].reshape(batch, len(roots), size - 1, -1)
    return mx.concatenate([first, others], axis=2)


def loss_of(
    recipe: BlockRecipe, block: DraftBlock, states: mx.array, tokens: mx.array, real: mx.array
) -> mx.array:
    """Return the mean cross-entropy of a place, and the confidence's, in nats."""
    end = states.shape[1] - block.size
    roots = np.arange(recipe.known, end, recipe.stride)
    given = guesses(block, states[:, :end], tokens[:, :end], roots, real[:, :end])
    columns = roots[:, None] + np.arange(1, block.size + 1)
    after, before = mx.array(columns), mx.array(columns[:, 1:] - 1)
    wanted = mx.stop_gradient(mx.softmax(block.scores(states), axis=-1))[:, after]
    coupled = block.coupling(tokens)[:, before]
    scores = block.scores(given)
    scores = mx.concatenate([scores[:, :, :1], scores[:, :, 1:] + coupled], axis=2)
    logs = scores - mx.logsumexp(scores, axis=-1, keepdims=True)
    surprise = -(wanted * logs).sum(-1)
    kept = mx.stop_gradient(mx.minimum(wanted, mx.exp(logs)).sum(-1))
    odds = block.doubt(mx.stop_gradient(given), mx.stop_gradient(scores))
    unsure = mx.logaddexp(odds, 0) - kept * odds
    weights = real[:, after] * mx.array(recipe.fading ** np.arange(block.size))
    losses = surprise + recipe.confidence_weight * unsure
    return (losses * weights).sum() / weights.sum()

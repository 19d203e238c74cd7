"""The recipes of the shipped checkpoints: shape, data, seed and schedule of each.

``lablib.tools.training`` makes them.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lablib.models import llama_config
from lablib.models.base import ModelConfig
from lablib.models.retention import hybrid_config
from lablib.validation import BadValue

VOCAB_SIZE = 512  # the tokenizer's, rounded up
THREADS = 1  # of the BLAS, with which the shipped checkpoints were made; others round otherwise
EVERYTHING = {"stories": 400, "sums": 400, "edits": 200}  # documents in a thousand


@dataclass(frozen=True)
class Stage:
    """Describe a part of the training: ``steps`` batches of ``batch`` rows of ``length`` tokens.

    ``mix`` is the number of documents of each task in a thousand. With a ``teacher``, a checkpoint,
    the model learns its distributions (distillation, Hinton et al. 2015, 1503.02531) instead of the
    next token alone.
    """

    steps: int
    batch: int
    length: int
    mix: dict[str, int] = field(default_factory=EVERYTHING.copy)
    teacher: str | None = None


@dataclass(frozen=True)
class Recipe:
    """Hold everything that decides a checkpoint's weights.

    Attributes:
        config: the model's shape.
        stages: one after the other: short rows first, for speed, then long ones, so that late
            positions are no surprise.
        prompt_weight: weight in the loss of a prompt's tokens. They are drawn at random, so there
            is little to learn from them and much noise in their gradients; an answer's count 1.
        learning_rate: the peak, after ``warmup`` steps; it falls to a twentieth along a cosine.
        bias_scale: size of the biases that queries and keys begin with, where the attention has
            any; None leaves the usual small ones. A bias of a query and one of a key, turned by
            their positions, give a score of the distance alone. With large ones a single layer
            soon finds the distance at which to copy.
        after: another recipe, whose weights (as they are stored) this one starts from.

    Raises:
        ValueError: the shape or ``after`` leaves an option without effect.
    """

    config: ModelConfig
    stages: tuple[Stage, ...]
    prompt_weight: float = 0.1
    learning_rate: float = 2e-3
    warmup: int = 200
    weight_decay: float = 0.05
    bias_scale: float | None = None
    seed: int = 0
    after: "Recipe | None" = None

    def __post_init__(self) -> None:
        if self.bias_scale is not None and not (self.config.attention_bias and not self.after):
            raise BadValue("bias_scale must be None without attention biases, and with after=")
        if self.after and self.after.config != self.config:
            raise BadValue("config must be that of the recipe in after=")

    @property
    def steps(self) -> int:
        """Return the optimiser steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as it comes back from a JSON file (tuples are lists there)."""
        after = self.after.to_dict() if self.after else None
        whole = asdict(self) | {"config": self.config.to_dict(), "after": after}
        return json.loads(json.dumps(whole))


def _target() -> Recipe:
    """Return three runs, one after the other.

    First the answers, then the prompts too: a text that goes on after its end begins again with a
    prompt. The third is more of the second, at half its learning rate.
    """
    shape = llama_config(VOCAB_SIZE, d_model=192, n_heads=3, n_layers=8, d_ff=448)
    answers = Recipe(
        shape,
        # Sums are full of chance, and their noise hides what recall is to be learned from the other
        # two. So these come first.
        stages=(
            Stage(1000, 8, 128, {"stories": 500, "edits": 500}),
            Stage(3800, 8, 128, {"stories": 300, "sums": 500, "edits": 200}),
            Stage(400, 2, 512),
        ),
    )
    prompts = Recipe(
        shape,
        stages=(
            Stage(1500, 8, 128, {"stories": 250, "sums": 500, "edits": 250}),
            Stage(100, 2, 512),
        ),
        prompt_weight=1.0,
        learning_rate=8e-4,
        warmup=100,
        seed=1,
        after=answers,
    )
    mixed = {"stories": 350, "sums": 400, "edits": 250}
    stages = (Stage(1100, 8, 128, mixed), Stage(100, 2, 512))
    return replace(prompts, stages=stages, learning_rate=4e-4, seed=2, after=prompts)


RECIPES = {
    "target": _target(),
    # Attention biases and a small rope base make "so many tokens back" easy to say, and that is how
    # one layer copies an edit.
    "draft": Recipe(
        replace(
            llama_config(VOCAB_SIZE, d_model=128, n_heads=2, n_layers=1, d_ff=128, rope_theta=100),
            attention_bias=True,
        ),
        stages=(
            Stage(1400, 8, 128, teacher="target"),
            Stage(100, 2, 512, teacher="target"),
        ),
        learning_rate=4e-3,
        warmup=100,
        bias_scale=0.5,
    ),
    "hybrid": Recipe(
        hybrid_config(VOCAB_SIZE, d_model=128, n_heads=2, n_layers=4),
        stages=(
            Stage(800, 8, 128, {"stories": 500, "edits": 500}),
            Stage(1600, 8, 128),
            Stage(150, 2, 512),
        ),
    ),
}

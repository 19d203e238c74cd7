"""The parts that trainings share: steps of AdamW, up and down in size, and points to resume from.

The step grows from a hundredth of its peak, then falls to a twentieth of it along a cosine;
gradients are clipped to norm 1. A resume point holds weights, the optimiser's state and the curve.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from lablib.validation import BadValue

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from tqdm.auto import tqdm

RESUME = "resume.safetensors"

Loss = Callable[..., mx.array]  # (module, *batch) -> a number


@dataclass(frozen=True)
class Descent:
    """Hold how far and how fast a module is trained.

    Attributes:
        steps: of the optimiser.
        learning_rate: at its peak.
        warmup: steps until then, at most a quarter of those to the end of the fall.
        weight_decay: AdamW's.
        decay_steps: where the fall would end, at ``steps`` or later; None: there.
    """

    steps: int
    learning_rate: float
    warmup: int = 200
    weight_decay: float = 0.01
    decay_steps: int | None = None

    def optimizer(self) -> optim.Optimizer:
        """Return a fresh AdamW."""
        end = self.steps if self.decay_steps is None else self.decay_steps
        peak, warmup = self.learning_rate, min(self.warmup, end // 4)
        rise = optim.linear_schedule(peak / 100, peak, steps=max(warmup, 1))
        fall = optim.cosine_decay(peak, end - warmup, end=peak / 20)
        rate = optim.join_schedules([rise, fall], [warmup])
        return optim.AdamW(rate, betas=[0.9, 0.95], weight_decay=self.weight_decay)


def descend(
    name: str, module: nn.Module, loss_of: Callable[[int], Loss], batches: Iterator[Any],
    how: Descent, point: "ResumePoint", progress: bool,
) -> "Progress":  # fmt: skip
    """Train ``module`` from the last resume point on.

    Step i takes the i-th of ``batches``, a tuple of arrays, and ``loss_of(i)``, which returns the
    same function for steps of one kind: each is compiled once.
    """
    optimizer = how.optimizer()
    optimizer.init(module.trainable_parameters())
    done = point.load(module, optimizer)
    update = cache(partial(_update, module, optimizer))
    start = time.perf_counter() - done.seconds
    with tqdm(total=how.steps, initial=done.step, desc=name, disable=not progress) as bar:
        for batch in islice(batches, done.step, how.steps):
            loss = update(loss_of(done.step))(*batch)
            mx.eval(loss, module.state, optimizer.state)
            done.add(loss.item(), last=how.steps)
            bar.update()
            bar.set_postfix(loss=f"{(done.window or done.curve[-1])[-1]:.3f}", refresh=False)
            done.seconds = time.perf_counter() - start
            if done.step % point.every == 0 and done.step < how.steps:
                point.save(module, optimizer, done)
    if done.step < how.steps:
        raise RuntimeError(f"the run ran out of data after {done.step} of {how.steps} steps")
    return done


def _update(module: nn.Module, optimizer: optim.Optimizer, loss: Loss) -> Callable[..., mx.array]:
    """Return ``(*batch) -> loss``, compiled: one step of the optimiser."""
    state = [module.state, optimizer.state]
    loss_and_gradients = nn.value_and_grad(module, loss)

    @partial(mx.compile, inputs=state, outputs=state)
    def update(*batch: mx.array) -> mx.array:
        value, gradients = loss_and_gradients(module, *batch)
        gradients, _ = optim.clip_grad_norm(gradients, max_norm=1.0)
        optimizer.update(module, gradients)
        return value

    return update


@dataclass
class Progress:
    """Count how far a run has come."""

    step: int = 0
    seconds: float = 0.0
    curve: list[list[float]] = field(default_factory=list)  # (step, mean loss since the one before)
    window: list[float] = field(default_factory=list)  # losses since the curve's last point

    def add(self, loss: float, last: int) -> None:
        """Count a step; ``last`` is the number of the last one."""
        self.step += 1
        self.window.append(loss)
        if self.step % 10 == 0 or self.step == last:
            self.curve.append([self.step, round(float(np.mean(self.window)), 4)])
            self.window = []


@dataclass(frozen=True)
class ResumePoint:
    """Keep in ``out``, every so many steps, all that a run of ``made_of`` needs to go on."""

    out: Path
    made_of: dict[str, Any]
    every: int

    def save(self, model: nn.Module, optimizer: optim.Optimizer, progress: Progress) -> None:
        """Write the point, in place of the one before."""
        arrays = {f"model.{k}": v for k, v in tree_flatten(model.parameters())}
        arrays |= {f"optimizer.{k}": v for k, v in tree_flatten(optimizer.state)}
        said = {"progress": json.dumps(asdict(progress)), "made_of": json.dumps(self.made_of)}
        fresh = self.out / f"new-{RESUME}"
        mx.save_safetensors(str(fresh), arrays, said)
        fresh.replace(self.out / RESUME)  # whole, then moved: an interrupt leaves no half a file

    def load(self, model: nn.Module, optimizer: optim.Optimizer) -> Progress:
        """Put model and optimiser back to the last resume point, if there is one."""
        path = self.out / RESUME
        if not path.exists():
            return Progress()
        arrays, said = mx.load(str(path), return_metadata=True)
        same(json.loads(said["made_of"]), self.made_of, f"finish it as it began, or delete {path}")
        parts: dict[str, list[tuple[str, mx.array]]] = {"model": [], "optimizer": []}
        for key, value in arrays.items():
            part, _, rest = key.partition(".")
            parts[part].append((rest, value))
        model.load_weights(parts["model"])
        optimizer.state = tree_unflatten(parts["optimizer"])
        return Progress(**json.loads(said["progress"]))


def same(found: dict[str, Any], wanted: dict[str, Any], advice: str) -> None:
    """Refuse to go on from what was ``found``, if it leads to other weights than ``wanted``."""
    for key, value in wanted.items():
        if found.get(key) != value:
            what = {
                "recipe": "another recipe",
                "teachers": "another teacher",
                "blas_threads": f"{found.get(key)} BLAS threads, not {value}",
            }[key]
            raise BadValue(f"out holds a run of {what}: {advice}")

"""Reads what a target computed: what a head and a block of drafts have in common.

Both put the target's states and the embeddings of the tokens behind them into one block of their
own, and read what comes out of it with rows of the target's output layer.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lablib.models import files
from lablib.models.base import Blocks, LanguageModel, seeded
from lablib.models.config import ATTENTION
from lablib.models.files import fingerprint
from lablib.validation import BadType, BadValue, integer, token_ids

import mlx.core as mx
import mlx.nn as nn


class StateReader(nn.Module):
    """Reads what a target computed: what a head and a block of drafts share.

    ``ids`` are the tokens that can be drafted (None: all), ``intermediate_size`` is the width
    inside its one block, otherwise shaped as a block of ``target``, which stays as it is. ``seed``
    draws the weights.

    Raises:
        BadType, BadValue: ``target`` is no ``LanguageModel``, has no attention whose shape to take,
            or an argument is out of range.
    """

    def __init__(
        self,
        target: LanguageModel,
        ids: Sequence[int] | None = None,
        intermediate_size: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(target, LanguageModel):
            raise BadType(f"target must be a LanguageModel, got {type(target).__name__}")
        config = target.config
        width = config.hidden_size
        inner = config.intermediate_size if intermediate_size is None else intermediate_size
        self.shape = replace(
            config,
            num_hidden_layers=1,
            layer_types=(ATTENTION,),
            positions="rope",
            intermediate_size=integer("intermediate_size", inner, 1),
        )
        chosen = range(config.vocab_size) if ids is None else ids
        chosen = token_ids("ids", chosen, config.vocab_size)
        # MLX leaves names with an underscore alone: they are no weights of this module.
        self._target = target
        self._ids = mx.array(sorted(set(chosen)), mx.int32)
        output = target.model.embed_tokens if config.tie_word_embeddings else target.lm_head
        self._rows = output.weight[self._ids]
        with seeded(seed):
            self.join = nn.Linear(2 * width, width, bias=False)
            self.blocks = Blocks(self.shape)

    @property
    def target(self) -> LanguageModel:
        """Return the model that it drafts for."""
        return self._target

    @property
    def ids(self) -> mx.array:
        """Return the tokens that can be drafted, in order, int32."""
        return self._ids

    def make_cache(self) -> list[Any]:
        """Return a fresh cache."""
        from mlx_lm.models.cache import KVCache

        return [KVCache()]

    def pairs(self, states: mx.array, tokens: mx.array) -> mx.array:
        """Return what its block reads of states ``(B, T, hidden)``, each before its token."""
        embedded = self.target.model.embed_tokens(tokens)
        return self.join(mx.concatenate([states, embedded], axis=-1))

    def scores(self, states: mx.array) -> mx.array:
        """Return the logits ``(..., len(ids))`` of the tokens that can be drafted."""
        return states @ self._rows.T

    def spread(self, scores: mx.array) -> mx.array:
        """Return logits ``(..., V)`` of scores: -inf for tokens that are never drafted."""
        if scores.shape[-1] == self.target.vocab_size:
            return scores
        logits = mx.full((*scores.shape[:-1], self.target.vocab_size), -mx.inf, scores.dtype)
        logits[..., self.ids] = scores
        return logits

    def logits(self, states: mx.array) -> mx.array:
        """Return logits ``(..., V)`` of states ``(..., hidden)``, -inf for tokens never drafted."""
        return self.spread(self.scores(states))


def stored(
    name: Any, target: Any, kind: str, called: str, checkpoints: Path
) -> tuple[Path, dict[str, Any], dict[str, mx.array]]:
    """Return where weights of a ``kind`` for ``target`` lie, what their config says, and them.

    They are looked for among the shipped ``checkpoints`` first.
    """
    if not isinstance(name, str | Path):
        raise BadType(f"name must be a {called.split()[-1]}'s name or path, got {name!r}")
    shipped = checkpoints / name
    path = shipped if str(name) and shipped.is_dir() else Path(name)
    keys = files.read_json(path / "config.json")
    if keys.get("model_type") != kind:
        raise BadValue(f"{path} does not hold a {called}, but a {keys.get('model_type')!r}")
    if not isinstance(target, LanguageModel) or fingerprint(target) != keys["fingerprint"]:
        raise BadValue(
            f"target must be the {keys['target']!r} that the {called.split()[-1]} was trained on, "
            "as lablib.load returns it"
        )
    return path, keys, files.read_arrays(path / "model.safetensors")


def filled(module: Any, arrays: dict[str, mx.array], path: Path) -> Any:
    """Return the module with these weights, in the type of its target's."""
    files.fill(module, arrays, path / "model.safetensors")
    module.set_dtype(module.target.model.norm.weight.dtype)
    mx.eval(module.parameters())
    module.eval()
    return module

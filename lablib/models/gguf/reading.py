"""Puts a GGUF file together: its header, mlx-lm's model, its weights one by one, its tokenizer."""

from importlib import import_module
from pathlib import Path
from typing import Any

from lablib.machine.arrays import flattened
from lablib.models.base import seeded
from lablib.models.gguf import families, header, weights
from lablib.models.gguf.tokenizer import tokenizer_of
from lablib.validation import BadType, BadValue, shown

import mlx.core as mx
import mlx.nn as nn


def read(source: Path) -> tuple[nn.Module, Any]:
    """Return a file's model, mlx-lm's of its family in float32, and its tokenizer.

    Raises:
        BadValue: the file is damaged, or holds an architecture, a tensor, a type of tensor, a key
            or a tokenizer that is not known here, or lacks one; the line names it.
        ImportError: the package ``gguf`` is missing.
    """
    try:
        head = header.read(source)
        tensors = dict(head.tensors)
        weights.check_kinds(tensors.values())
        frequencies = tensors.pop(families.FREQUENCIES, None)
        stretched = None if frequencies is None else weights.floats(source, frequencies)
        config = families.config_of(head, stretched)
        model = _empty(config)
        places = _places(model, head.keys["general.architecture"], tensors)
        tokenizer = tokenizer_of(head.keys, config)
        undone = families.undo(head.keys["general.architecture"], config)
        for name, tensor in places.items():
            numbers = mx.array(undone(tensor, weights.floats(source, tensor)))
            model.load_weights([(name, numbers)], strict=False)
    except (BadValue, BadType) as error:
        raise BadValue(f"{source}: {error}") from None
    model.eval()
    return model, tokenizer


def _empty(config: dict[str, Any]) -> nn.Module:
    """Return mlx-lm's model of a config; nothing is drawn for its weights before they are asked."""
    module = import_module(f"mlx_lm.models.{config['model_type']}")
    try:
        with seeded(0):
            model = module.Model(module.ModelArgs.from_dict(config))
    except (ValueError, TypeError, ArithmeticError) as error:
        raise BadValue(f"its keys make no model: {error}") from None
    if config["tie_word_embeddings"]:
        model.sanitize({})  # Gemma 3 drops its output layer here
    return model


def _places(
    model: nn.Module, family: str, tensors: dict[str, header.Tensor]
) -> dict[str, header.Tensor]:
    """Return the tensor of each parameter; refuse one too many, one too few, another shape."""
    places = {}
    left = dict(tensors)
    for parameter, array in flattened(model.parameters()):
        name = families.tensor_of(parameter, family)
        tensor = left.pop(name, None)
        if tensor is None:
            raise BadValue(f"{name} is missing")
        if tensor.shape != array.shape:
            wanted = f"its keys ask for {array.shape}"
            raise BadValue(f"{name} of type {tensor.kind} has the shape {tensor.shape}, {wanted}")
        places[parameter] = tensor
    for name, tensor in left.items():
        raise BadValue(f"{shown(name)} of type {tensor.kind} is not known here in a {family}")
    return places

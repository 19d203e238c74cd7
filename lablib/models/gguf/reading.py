"""Puts a GGUF file together: its header, mlx-lm's model, its weights one by one, its tokenizer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from lablib.machine import pages, stored_weights
from lablib.machine.arrays import flattened
from lablib.models import stored
from lablib.models.base import seeded
from lablib.models.gguf import codes, families, header, weights
from lablib.models.gguf.tokenizer import tokenizer_of
from lablib.validation import BadType, BadValue, shown

import mlx.core as mx
import mlx.nn as nn


def read(source: Path, as_stored: bool) -> tuple[nn.Module, Callable[[], Any]]:
    """Return a file's model, mlx-lm's of its family, and what reads its tokenizer.

    The weights are float32, but where codes are kept ``as_stored``.

    Raises:
        BadValue: the file is damaged, or holds an architecture, a tensor, a type of tensor, a key
            or a tokenizer that is not known here, or lacks one; the line names it.
        ImportError: the package ``gguf`` is missing.
    """
    with _told_of(source):
        head, config = _known(source)
        model = _empty(config)
        _fill(model, source, head, config, as_stored)
    model.eval()

    def read_tokenizer() -> Any:
        with _told_of(source):
            return tokenizer_of(head.keys, config)

    return model, read_tokenizer


@contextmanager
def _told_of(source: Path) -> Iterator[None]:
    """Name the file in what is refused."""
    try:
        yield
    except (BadValue, BadType) as error:
        raise BadValue(f"{source}: {error}") from None


def fill(model: nn.Module, source: Path) -> None:
    """Give a model of mlx-lm's names the weights of a file, as they are stored; errors as above."""
    with _told_of(source):
        _fill(model, source, *_known(source), as_stored=True)


def _known(source: Path) -> tuple[header.Header, dict[str, Any]]:
    """Return what is in a file, and the config of its model."""
    head = header.read(source)
    weights.check_kinds(head.tensors.values())
    frequencies = head.tensors.get(families.FREQUENCIES)
    stretched = None if frequencies is None else weights.floats(source, frequencies)
    return head, families.config_of(head, stretched)


def _fill(
    model: nn.Module, source: Path, head: header.Header, config: dict[str, Any], as_stored: bool
) -> None:
    family = head.keys["general.architecture"]
    undone = families.undo(family, config)
    for name, tensor in _places(model, family, head.tensors).items():
        as_codes = as_stored and tensor.kind in codes.KINDS and len(tensor.shape) == 2
        if as_codes and stored_weights.product() is not None:
            rows = weights.bytes_of(source, tensor).reshape(tensor.shape[0], -1)
            pieces = codes.pieces(tensor, undone(tensor, rows))
            make = partial(stored.made_for, quantised=pieces, bits=codes.KINDS[tensor.kind][0])
            stored.replace(model, name.removesuffix(".weight"), make)
        else:
            numbers = mx.array(undone(tensor, weights.floats(source, tensor)))
            model.load_weights([(name, numbers)], strict=False)
    pages.give_back()


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
    left = {name: tensor for name, tensor in tensors.items() if name != families.FREQUENCIES}
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

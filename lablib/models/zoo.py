"""Models by name: the shipped ones, a directory of mlx-lm's layout, or a hub id.

A model is a directory of mlx-lm's layout (``config.json``, ``model.safetensors`` and
``tokenizer.json``), so mlx-lm opens what :func:`save` writes. A Llama opens as it is. A GPT or a
hybrid names its code in ``config.json`` (``model_file``), which mlx-lm runs only when it is asked
to: ``mlx_lm.load(path, trust_remote_code=True)``. :func:`load` runs no code from a directory.
"""

import re
from pathlib import Path
from typing import Any

from lablib.models import files
from lablib.models.base import LanguageModel
from lablib.models.kernels import on_gpu
from lablib.validation import BadType, BadValue

import mlx.core as mx
import mlx.nn as nn

CHECKPOINTS = Path(__file__).parent / "checkpoints"
_FLOATS = (mx.float32, mx.float16, mx.bfloat16)


def names() -> list[str]:
    """The models that came with the package, in alphabetical order."""
    # The verifier beside them has no tokenizer: it is a head on a language model, not one itself.
    found = (path.parent for path in CHECKPOINTS.glob("*/config.json"))
    return sorted(path.name for path in found if (path / "tokenizer.json").exists())


def load(name: str | Path, dtype: mx.Dtype | None = None) -> tuple[nn.Module, Any]:
    """A model and its tokenizer.

    Args:
        name: a shipped name (see :func:`names`), the path of a directory of mlx-lm's layout, or a
            hub id such as ``"mlx-community/Qwen3-0.6B-4bit"``, which mlx-lm downloads.
        dtype: the type of the weights and so of the arithmetic. None means float32 on a CPU, where
            half precision bypasses BLAS and is 3 to 9 times slower, and the stored type on a GPU.

    Returns:
        The model in evaluation mode with its weights in memory, and an mlx-lm ``TokenizerWrapper``.
        What :func:`save` wrote comes back as a ``LanguageModel``, all else as mlx-lm's own class.

    Raises:
        BadValue: no such model, or a file of it is missing, corrupt, or does not fit the others.
        BadType: ``name`` or ``dtype`` is of the wrong type.
    """
    if not isinstance(name, str | Path):
        raise BadType(f"name must be a model's name or path, got {name!r}")
    if dtype is not None and dtype not in _FLOATS:
        raise BadType(f"dtype must be float32, float16, bfloat16 or None, got {dtype!r}")
    if dtype is None and not on_gpu():
        dtype = mx.float32
    path = CHECKPOINTS / name if name in names() else Path(name)
    if not str(name) or not path.is_dir():
        if not _may_be_hub_id(name):
            raise BadValue(_unknown(name))
        return _load_with_mlx_lm(str(name), dtype, "from the Hugging Face hub")
    keys = files.read_json(path / "config.json")
    if "lablib" not in keys:
        return _load_with_mlx_lm(str(path), dtype, "with mlx-lm")
    config = files.read_config(path / "config.json", keys)
    model = LanguageModel(config, seed=0)
    weights = files.read_weights(path / "model.safetensors", model)
    tokenizer = files.read_tokenizer(path, keys)
    _check_vocabulary(path, tokenizer, config.vocab_size)
    return _ready(model, weights, dtype), tokenizer


def save(
    model: LanguageModel,
    tokenizer: Any,
    path: str | Path,
    dtype: mx.Dtype | None = mx.float16,
    extra: dict[str, dict[str, Any]] | None = None,
) -> Path:
    """Write a directory that :func:`load` and mlx-lm open; each file is replaced in one step.

    Args:
        model: the model to store; it is not changed.
        tokenizer: what ``load`` returned, a ``tokenizers.Tokenizer``, or a directory with one.
        path: the directory; made if needed, other files in it stay.
        dtype: the type of the stored weights; None keeps that of the model.
        extra: further JSON files by name, such as ``{"training.json": {...}}``.

    Returns:
        The directory.
    """
    if not isinstance(model, LanguageModel):
        raise BadType(f"model must be a LanguageModel, got {type(model).__name__}")
    if dtype is not None and dtype not in _FLOATS:
        raise BadType(f"dtype must be float32, float16, bfloat16 or None, got {dtype!r}")
    return files.write(model, tokenizer, Path(path), dtype, extra or {})


def _may_be_hub_id(name: str | Path) -> bool:
    return isinstance(name, str) and re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name) is not None


def _unknown(name: str | Path) -> str:
    shipped = ", ".join(map(repr, names())) or "none"
    return (
        f"name must be a shipped model ({shipped}), a directory such as './my_model' "
        f"or a hub id such as 'mlx-community/Qwen3-0.6B-4bit', got {str(name)!r}"
    )


def _load_with_mlx_lm(name: str, dtype: mx.Dtype | None, how: str) -> tuple[nn.Module, Any]:
    import mlx_lm

    try:
        model, tokenizer = mlx_lm.load(name)
    except Exception as error:  # whatever goes wrong inside, the caller gets one line about it
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BadValue(f"name: could not load {name!r} {how}: {first_line}") from error
    if dtype is not None:
        model.set_dtype(dtype)
        mx.eval(model.parameters())
    return model, tokenizer


def _check_vocabulary(path: Path, tokenizer: Any, vocab_size: int) -> None:
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if largest >= vocab_size:
        raise BadValue(
            f"{path / 'tokenizer.json'}: token ids go up to {largest}, but vocab_size in "
            f"config.json is {vocab_size}: this tokenizer belongs to another model"
        )


def _ready(model: LanguageModel, weights: dict[str, mx.array], dtype: Any) -> LanguageModel:
    model.load_weights(list(weights.items()))
    if dtype is not None:
        model.set_dtype(dtype)
    model.eval()
    mx.eval(model.parameters())
    return model

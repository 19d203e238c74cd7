"""Writes a model as a directory: what ``lablib.load`` and mlx-lm open."""

import json
from pathlib import Path
from typing import Any

from lablib.folders import replacing, write_whole
from lablib.models.base import LanguageModel
from lablib.models.files import PLAIN, read_json
from lablib.models.zoo import CHECKPOINTS, check_dtype
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue

import mlx.core as mx
from mlx.utils import tree_flatten
from tokenizers import Tokenizer

# mlx-lm imports this file from a directory when it is told to trust it: it is the same in each.
_MODEL_FILE = CHECKPOINTS / "hybrid" / "modeling_lablib.py"
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


@checks_options
def save(
    model: LanguageModel, tokenizer: Any, path: str | Path,
    dtype: mx.Dtype | None = mx.float16, extra: dict[str, dict[str, Any]] | None = None,
) -> Path:  # fmt: skip
    """Write a directory that ``load`` and mlx-lm open.

    Each file is replaced in one step; other files that are there stay.

    Args:
        model: a ``LanguageModel``.
        tokenizer: what ``load`` returned, a ``tokenizers.Tokenizer``, or a directory with one.
        path: the directory.
        dtype: the type that weights are stored as; None: as they are.
        extra: further JSON files by name, such as ``{"training.json": {...}}``.

    Returns:
        The path.

    Raises:
        ValueError, TypeError: an argument is none of these.

    Example:
        >>> path = lablib.save(model, tokenizer, folder / "mine")
        >>> again, _ = lablib.load(path)
        >>> again.config == model.config
        True
    """
    if not isinstance(model, LanguageModel):
        cure = "mlx-lm's own are saved by mlx_lm.utils.save"
        raise BadType(f"model must be a LanguageModel, got {type(model).__name__}: {cure}")
    check_dtype(dtype)
    weights = dict(tree_flatten(model.parameters()))
    if not all(mx.issubdtype(weight.dtype, mx.floating) for weight in weights.values()):
        cure = "save the one that was opened with dtype=mlx.core.float32, and without bits="
        raise BadValue(f"model has weights of few bits: {cure}")
    texts, ids = _tokenizer_texts(tokenizer)
    named = {f"{role}_id": ids[role] for role in ("bos_token", "eos_token") if role in ids}
    keys = model.config.to_dict() | named
    if model.config.model_type != "llama":
        keys["model_file"] = _MODEL_FILE.name
        texts[_MODEL_FILE.name] = _MODEL_FILE.read_text(encoding="utf-8")
    # The config comes last: a directory without one is not a model yet.
    contents = {**(extra or {}), "config.json": keys}
    texts |= {name: _json(content) for name, content in contents.items()}
    if dtype is not None:
        weights = {name: weight.astype(dtype) for name, weight in weights.items()}
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    with replacing(path / "model.safetensors") as file:
        try:
            mx.save_safetensors(str(file), weights, {"format": "mlx"})
        except RuntimeError as error:
            raise OSError(f"{path} could not be written: {error}") from None
    for name, text in texts.items():
        write_whole(path / name, text)
    return path


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def _tokenizer_texts(tokenizer: Any) -> tuple[dict[str, str], dict[str, int]]:
    """Return the tokenizer's files as texts, and the ids of its special tokens by their roles."""
    if isinstance(tokenizer, str | Path):
        return _copied_texts(Path(tokenizer))
    tokens = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    if hasattr(tokenizer, "backend_tokenizer"):  # transformers, or mlx-lm's wrapper of it
        tokens = {role: getattr(tokenizer, role) for role in tokens}
        tokenizer = tokenizer.backend_tokenizer
    if not isinstance(tokenizer, Tokenizer):
        raise BadType(f"tokenizer must be a tokenizer or a directory, got {tokenizer!r}")
    vocabulary = tokenizer.get_vocab()
    known = {role: token for role, token in tokens.items() if token in vocabulary}
    written, settings = tokenizer.to_str(pretty=True), _json(PLAIN | known)
    texts = {"tokenizer.json": written, "tokenizer_config.json": settings}
    return texts, {role: vocabulary[token] for role, token in known.items()}


def _copied_texts(source: Path) -> tuple[dict[str, str], dict[str, int]]:
    vocabulary = read_json(source / "tokenizer.json")
    settings = read_json(source / "tokenizer_config.json")
    added = {token["content"]: token["id"] for token in vocabulary.get("added_tokens", [])}
    named = {role: settings.get(role) for role in ("bos_token", "eos_token")}
    tokens = {role: t["content"] if isinstance(t, dict) else t for role, t in named.items()}
    files = [source / name for name in _TOKENIZER_FILES if (source / name).is_file()]
    texts = {file.name: file.read_text(encoding="utf-8") for file in files}
    return texts, {role: added[token] for role, token in tokens.items() if token in added}

"""Makes a directory of a Llama's GGUF file: a ``LanguageModel``, whose file is read in no time."""

import dataclasses
import json
import tempfile
from pathlib import Path

from lablib.machine.arrays import flattened
from lablib.models import LanguageModel, ModelConfig, zoo
from lablib.models.gguf import header
from lablib.tools.saving import save
from lablib.validation import BadValue

import mlx.core as mx

_ROLES = ("bos_token", "eos_token", "unk_token", "pad_token")
_FIELDS = ("clean_up_tokenization_spaces", "model_max_length", *_ROLES, "chat_template")


def convert(source: str | Path, out: str | Path) -> Path:
    """Write the model of a GGUF file as a directory that ``lablib.load`` and mlx-lm open.

    Weights are stored in float16, whatever they were rounded to before.

    Raises:
        BadValue: there is no such file, or ``lablib.load`` refuses it, or it is no plain Llama, or
            has weights beyond float16. Nothing has been written.
        OSError: there is no room. ``out`` has no ``config.json``, and is no model.
    """
    source = Path(source)
    if not source.is_file():
        raise BadValue(f"source must be a GGUF file, got {str(source)!r}")
    theirs, tokenizer = zoo.load(source, dtype=mx.float32)
    args = vars(theirs.args)
    if args["model_type"] != "llama" or args["rope_scaling"]:
        raise BadValue(f"{source} is no plain Llama: lablib.load opens it as it is")
    names = {field.name for field in dataclasses.fields(ModelConfig)}
    model = LanguageModel(ModelConfig(**{k: v for k, v in args.items() if k in names}), seed=0)
    weights = flattened(theirs.parameters())
    for name, weight in weights:
        if not mx.isfinite(weight.astype(mx.float16)).all().item():
            raise BadValue(f"{source}: {name} holds numbers that are not finite in float16")
    model.load_weights(weights)
    keys = header.read(source).keys
    origin = {key: keys[key] for key in ("general.name", "general.license") if key in keys}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    given = {key: getattr(tokenizer, key) for key in _FIELDS}
    settings |= {key: value for key, value in given.items() if value is not None}
    with tempfile.TemporaryDirectory() as work:
        written = tokenizer.backend_tokenizer.to_str()
        Path(work, "tokenizer.json").write_text(written, encoding="utf-8")
        Path(work, "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        extra = {"origin.json": origin | {"file": source.name}}
        return save(model, work, Path(out), mx.float16, extra)

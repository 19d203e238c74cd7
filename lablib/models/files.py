"""Reads the files of a model directory; an error names the file and the problem."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lablib.machine import stored_weights
from lablib.machine.arrays import flattened
from lablib.models.base import LanguageModel
from lablib.models.config import MOST_LAYERS, ModelConfig
from lablib.models.lazy_tokenizer import ROLES, LazyTokenizer, reads_alike
from lablib.models.stored import Stored
from lablib.validation import BadType, BadValue, integer, number, shown

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from tokenizers import Tokenizer

# What fields of tokenizer_config.json are in JSON: transformers takes many as they come, and who
# counts, cuts or chats with them first finds out.
TOKENIZER_FIELDS = (
    ("a number", (int, float), "model_max_length max_len"),
    ("true or false", bool, "clean_up_tokenization_spaces split_special_tokens add_prefix_space"),
    ("true or false", bool, "add_bos_token add_eos_token legacy"),
    ("a text", str, "tokenizer_class padding_side truncation_side tool_parser_type"),
    ("a text or an object", (str, dict), "bos_token eos_token unk_token pad_token"),
    ("a text, a list or an object", (str, list, dict), "chat_template"),
    ("a list", list, "additional_special_tokens chat_control_tokens model_input_names"),
    ("a list or an object", (list, dict), "extra_special_tokens"),
    ("an object", dict, "added_tokens_decoder"),
)
# What it says beside tokens of a role, as ``lablib.save`` writes it, and files that count, too.
PLAIN = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
_OTHERS = {"special_tokens_map.json", "added_tokens.json", "tokenizer.model", "chat_template.jinja"}
_OTHERS |= {"vocab.json", "merges.txt", "vocab.txt", "additional_chat_templates"}
MOST_TOKENS = 10**6  # that a number in tokenizer_config.json may ask for: each is made
MOST_MODULES = 200_000  # of a model: mlx-lm builds each
LARGEST = 2**28  # bytes of a JSON file
LINES, LONGEST = 4, 400  # of an error's text, which may name every parameter of a model
IDS = mx.int32, mx.int64  # a table of ids may be one of floats where it is built
_building = threading.RLock()  # who builds counts what is built
# What a tokenizer is asked when it is loaded: a damaged one gives up then, and not in a lesson.
TRIAL = "", "éa", "".join(map(chr, range(32, 127))) + "\n\té≠"


CODES = "model.gguf"  # beside model.safetensors: the same weights, as codes


def read(
    path: Path, fill_codes: Callable[[nn.Module, Path], None] | None
) -> tuple[LanguageModel, Callable[[], Any]]:
    """Return a directory's model, and what reads its tokenizer; errors as in ``zoo.load``.

    Where the directory has its weights as codes, ``fill_codes`` gives them to the model.
    """
    keys = read_json(path / "config.json")
    try:
        model = LanguageModel(ModelConfig.from_dict(keys), seed=0)
    except (BadValue, BadType) as error:
        raise BadValue(f"{path / 'config.json'}: {error}") from None
    if fill_codes and (path / CODES).is_file() and stored_weights.product() is not None:
        fill_codes(model, path / CODES)
    else:
        file = path / "model.safetensors"
        fill(model, model.sanitize(read_arrays(file)), file)
    model.eval()
    return model, partial(_read_tokenizer, path, keys, model.vocab_size)


def check(path: Path) -> dict[str, Any]:
    """Return the keys of a directory's config.json; refuse code, and what is not to be built.

    mlx-lm builds what it is told, layer by layer, reads weights as they lie, and takes the ends
    from generation_config.json, if there is one that has them.
    """
    file = path / "tokenizer_config.json"
    if file.exists():
        _check_tokenizer(file, read_json(file))
    file = path / "tokenizer.json"
    if file.exists():
        _check_merges(file, read_json(file).get("model"))
    for file in path.glob("model*.safetensors"):
        read_arrays(file, whole=False)
    keys = read_json(path / "config.json")
    _check_numbers(path / "config.json", keys)
    inner = keys.get("text_config")
    size = keys.get("vocab_size", inner.get("vocab_size") if isinstance(inner, dict) else None)
    _check_ends(path / "config.json", keys, size)
    if (path / "generation_config.json").exists():
        file = path / "generation_config.json"
        _check_ends(file, read_json(file), size)
    return keys


def _check_tokenizer(file: Path, settings: dict[str, Any]) -> None:
    """Refuse code, and fields of another type than theirs; null is as good as no field."""
    if "auto_map" in settings:  # transformers would ask to run it
        raise BadValue(f"{file}: auto_map names code of the model's own, and load runs none")
    for kind, types, names in TOKENIZER_FIELDS:
        for name in names.split():
            value = settings.get(name)
            flag = isinstance(value, bool) and types is not bool  # Python's flags are numbers
            if value is not None and (flag or not isinstance(value, types)):
                raise BadType(f"{file}: {name} must be {kind}, got {shown(value)}")
    for name in settings.keys() - {"model_max_length", "max_len", "max_length"}:
        if type(settings[name]) is int:  # of extra tokens, say
            integer(f"{file}: {name}", settings[name], maximum=MOST_TOKENS)


def _check_merges(file: Path, model: Any) -> None:
    """Refuse merges that tokenizers would cut within a letter: that ends the process."""
    prefix = model.get("continuing_subword_prefix") if isinstance(model, dict) else None
    merges = model.get("merges") if prefix else None
    for merge in merges if isinstance(merges, list) else ():
        last = merge.split(" ")[-1:] if isinstance(merge, str) else list(merge)[-1:]
        if not str(prefix).isascii() or not "".join(map(str, last)).startswith(str(prefix)):
            raise BadValue(f"{file}: {shown(merge)} merges what does not begin with {prefix!r}")


def _check_ends(path: Path, keys: dict[str, Any], vocab_size: Any) -> None:
    """Refuse an ``eos_token_id`` that is neither a token nor a list of them."""
    ends = keys.get("eos_token_id")
    most = vocab_size - 1 if isinstance(vocab_size, int) else None
    for end in ends if isinstance(ends, list) else [] if ends is None else [ends]:
        integer(f"{path}: eos_token_id", end, 0, most)


def _check_numbers(path: Path, keys: dict[str, Any]) -> None:
    """Refuse groups of 0 weights, by which MLX divides, and layers without end, which it builds."""
    parts = [keys]
    for part in parts:  # it grows
        for key, value in part.items():
            if isinstance(value, dict):
                parts.append(value)
            elif key == "group_size" and value == 0:
                raise BadValue(f"{path}: group_size must be at least 1, got 0")
            elif key.endswith(("layer", "layers")) and type(value) is int:
                integer(f"{path}: {key}", value, maximum=MOST_LAYERS)
            elif isinstance(value, str | list):  # a layer for each letter, or each part
                integer(f"{path}: the length of {key}", len(value), maximum=MOST_LAYERS)


def _find(path: Path) -> None:
    """Refuse what is no file: nobody waits for what comes out of a pipe."""
    if not path.is_file():
        raise BadValue(f"{path} is missing: a model directory needs it")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file."""
    _find(path)
    if path.stat().st_size > LARGEST:
        raise BadValue(f"{path} has more than {LARGEST >> 20} MB")
    try:
        keys = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadValue(f"{path} is not readable JSON: {error}") from None
    if not isinstance(keys, dict):
        raise BadValue(f"{path} must hold a JSON object, got a {type(keys).__name__}")
    return keys


def read_arrays(path: Path, whole: bool = True) -> dict[str, mx.array]:
    """Return the arrays in a safetensors file; in memory, if they are read as a ``whole``."""
    _find(path)
    try:
        arrays: Any = mx.load(str(path))  # a dict: other kinds of file hold other things
        if sum(array.nbytes for array in arrays.values()) > path.stat().st_size:
            raise ValueError("its arrays lie upon each other")  # a small file would fill the memory
        if whole:
            mx.eval(arrays)
    except (RuntimeError, ValueError) as error:
        raise BadValue(f"{path} is corrupt or truncated: {error}") from None
    return arrays


def fill(module: nn.Module, weights: dict[str, mx.array], path: Path) -> None:
    """Give a module all its weights, finite ones, which came from the file ``path``."""
    for name, weight in weights.items():
        if not mx.issubdtype(weight.dtype, mx.floating) or not _is_finite(weight):
            raise BadValue(f"{path} is corrupt: {name} must hold finite floating-point numbers")
    try:
        module.load_weights(list(weights.items()))
    except ValueError as error:
        raise BadValue(f"{path} does not fit its config.json: {one_line(error)}") from None


def _is_finite(array: mx.array) -> bool:
    """Tell whether all numbers are finite, by their bits.

    Without its sign each finite number has fewer than infinity. (``mx.isfinite`` takes 20 times as
    long for float16 on a CPU, 1.2 s for 135M.)
    """
    bits = {2: mx.uint16, 4: mx.uint32, 8: mx.uint64}[array.itemsize]
    infinity: Any = mx.array(float("inf"), dtype=array.dtype).view(bits).item()
    sign = 1 << (8 * array.itemsize - 1)
    largest = (np.asarray(array.view(bits)) & (sign - 1)).max(initial=0)
    return int(largest) < infinity


def one_line(error: BaseException) -> str:
    """Return an error's text on one line: of a list that fills lines the first, and how many more.

    MLX and mlx-lm write a header, and under it each parameter that is wrong.
    """
    text = str(error).strip()
    if isinstance(error, KeyError) or not text:  # a key alone says nothing
        text = f"{type(error).__name__} {text}"
    lines = text.splitlines()
    more = len(lines) - LINES
    kept = [*lines[:LINES], *([f"and {more} more"] if more > 0 else [])]
    return " ".join(" ".join(kept).split())[:LONGEST]


def missing_shards(path: Path) -> list[str]:
    """Return the files that a directory's index names and that are not there."""
    index = path / "model.safetensors.index.json"
    files: Any = None
    with suppress(BadValue):  # it is not what could not be read: mlx-lm doesn't look at it
        files = read_json(index).get("weight_map")
    names = {str(name) for name in files.values()} if isinstance(files, dict) else set()
    return sorted(name for name in names if not (path / name).is_file())


def check_scale(path: Path) -> None:
    """Refuse an adapter_config.json whose arrays would be multiplied by what is no number."""
    settings = read_json(path).get("lora_parameters")
    if isinstance(settings, dict) and "scale" in settings:
        number(f"{path}: scale", settings["scale"])


def check_adapter(model: nn.Module, path: Path) -> None:
    """Refuse an adapter that lacks arrays: mlx-lm would draw them, of any rank that is named."""
    known = read_arrays(path, whole=False)
    for name, _ in flattened(model.parameters()):
        if name.endswith(("lora_a", "lora_b")) and name not in known:
            raise BadValue(f"{path} lacks {name}, which its adapter_config.json asks for")


def _read_tokenizer(path: Path, keys: dict[str, Any], vocab_size: int) -> Any:
    """Return a directory's tokenizer as mlx-lm wraps it; ``keys`` are those of its config.json."""
    file = path / "tokenizer.json"
    _find(file)  # that it is JSON was checked
    ends = keys.get("eos_token_id")
    try:
        with no_panic():
            tokenizer = _lazy_tokenizer(path, ends) or _whole_tokenizer(path, ends)
            try_out(tokenizer)
    except Exception as error:  # transformers and tokenizers raise plain Exceptions
        raise BadValue(f"{file} is not a tokenizer: {error}") from None
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if largest >= vocab_size:
        misfit = f"but vocab_size in config.json is {vocab_size}: this tokenizer belongs to another"
        raise BadValue(f"{file}: token ids go up to {largest}, {misfit} model")
    return tokenizer


def _whole_tokenizer(path: Path, ends: Any) -> Any:
    """Return it as ``mlx_lm.load`` does."""
    from mlx_lm.tokenizer_utils import load
    from transformers import PretrainedConfig

    # transformers guesses a tokenizer class from config.json, and warns where it does not know the
    # model; tokenizer_config.json names the class, so it is handed an empty config.
    settings = {"config": PretrainedConfig(), "trust_remote_code": False}
    with no_remote_code():
        return load(path, settings, eos_token_ids=ends)


def _lazy_tokenizer(path: Path, ends: Any) -> LazyTokenizer | None:
    """Return it as it needs no transformers yet; None if they would change what its files say."""
    file = path / "tokenizer_config.json"
    settings = read_json(file) if file.exists() else {}
    tokens = {role: settings.pop(role) for role in ROLES if role in settings}
    for name in ("chat_template", "model_max_length"):  # of no use to ids
        settings.pop(name, None)
    is_plain = settings == PLAIN and not any((path / name).exists() for name in _OTHERS)
    if not is_plain or any(type(token) is not str for token in tokens.values()):
        return None
    made = Tokenizer.from_file(str(path / "tokenizer.json"))
    if not reads_alike(made, tokens):
        return None
    kept = {name: (path / name).read_bytes() for name in ("tokenizer.json", file.name)}
    more = ends if isinstance(ends, list) else [] if ends is None else [ends]
    return LazyTokenizer(made, tokens, more, partial(_as_it_was, path, kept, ends))


def _as_it_was(path: Path, kept: dict[str, bytes], ends: Any) -> Any:
    """Return the whole one of a directory that may be gone by now, or another's."""
    with TemporaryDirectory() as folder:
        for name, content in kept.items():
            Path(folder, name).write_bytes(content)
        tokenizer = _whole_tokenizer(Path(folder), ends)
    tokenizer.name_or_path = str(path)
    return tokenizer


@contextmanager
def no_panic() -> Iterator[None]:
    """Raise a ``ValueError`` where tokenizers panics, which is no ``Exception``."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"tokenizers gave up: {error}") from error


@contextmanager
def no_remote_code() -> Iterator[None]:
    """Let transformers refuse code of a model's own where it would ask whether to run it.

    It asks wherever it was told nothing: a class of its own that is no tokenizer, and is named as
    one, is told nothing.
    """
    from transformers import dynamic_module_utils as modules

    seconds, modules.TIME_OUT_REMOTE_CODE = modules.TIME_OUT_REMOTE_CODE, 0
    try:
        yield
    finally:
        modules.TIME_OUT_REMOTE_CODE = seconds


@contextmanager
def module_limit() -> Iterator[None]:
    """Refuse to build more modules than anybody's model has: a number in config.json says how many.

    It may be one of experts, embedders or whatever else an architecture has.
    """
    built = 0
    every: Any = nn.Module

    def count(module: nn.Module) -> None:
        nonlocal built
        built += 1
        if built > MOST_MODULES:
            raise ValueError(f"its config.json asks for more than {MOST_MODULES:,} modules")
        begin(module)

    with _building:
        begin, every.__init__ = every.__init__, count
        try:
            yield
        finally:
            every.__init__ = begin


@contextmanager
def floats_for_floats() -> Iterator[None]:
    """Refuse integers where the layer that was built holds floats.

    MLX compares names and shapes alone: it takes a weight of FP8, whose bytes come as uint8, for
    numbers up to 255 wherever no config.json said what they are.
    """
    every: Any = nn.Module

    def compare(module: nn.Module, weights: Any, strict: bool = True) -> nn.Module:
        built = {name: array.dtype for name, array in flattened(module.parameters())}
        wrong = {
            name: str(array.dtype).removeprefix("mlx.core.")
            for name, array in ([] if isinstance(weights, str) else weights)
            if mx.issubdtype(built.get(name, array.dtype), mx.floating)
            and not mx.issubdtype(array.dtype, mx.floating)
            and array.dtype not in IDS
        }
        if wrong:
            kinds, names = ", ".join(sorted({*wrong.values()})), ",\n".join(sorted(wrong))
            raise ValueError(
                f"{len(wrong)} parameters are of {kinds}, and the model's are floats (FP8, or "
                f"another packing that its config.json does not name):\n{names}"
            )
        return load(module, weights, strict)

    with _building:
        load, every.load_weights = every.load_weights, compare
        try:
            yield
        finally:
            every.load_weights = load


def try_out(tokenizer: Any) -> None:
    """Have texts made tokens, and tokens text: whoever panics does so now."""
    for text in TRIAL:
        with suppress(Exception):  # a letter that it does not know is no damage
            tokenizer.decode(tokenizer.encode(text))


def fingerprint(model: LanguageModel) -> str:
    """Return 16 characters that tell one model from another: a hash of all its weights."""
    weights = dict(flattened(model.parameters()))
    for path, layer in model.named_modules():
        if isinstance(layer, Stored):  # the weights that its codes mean
            for name in ("codes", "scales", "minima"):
                weights.pop(f"{path}.{name}")
            weights[f"{path}.weight"] = layer.weight
    digest = hashlib.sha256()
    # Stored in float16; in bfloat16, which has fewer digits still, every type they are loaded in
    # gives the same.
    for name, weight in sorted(weights.items()):
        digest.update(name.encode())
        coarse = weight.astype(mx.float16).astype(mx.bfloat16)
        digest.update(np.array(coarse.view(mx.uint16)).tobytes())
    return digest.hexdigest()[:16]

"""Opens models by name: shipped ones, a directory of mlx-lm's layout, a GGUF file, or a hub id.

``lablib.save`` writes such a directory: config.json, model.safetensors, tokenizer.json. A GPT or a
hybrid names its code in config.json (``model_file``), which mlx-lm runs only when it is asked to:
``mlx_lm.load(path, trust_remote_code=True)``. :func:`load` runs no code of a model's, neither this
nor a tokenizer's (``auto_map``), whatever names it, and asks nobody whether it should.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from lablib import folders
from lablib.machine import pages, scheduling, stored_weights
from lablib.machine.arrays import flattened
from lablib.machine.streams import clear_with_thread
from lablib.models import files, stored
from lablib.models.base import seeded
from lablib.models.gguf import reading
from lablib.models.interface import POSITIONS, count_known, vocab_size_of
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, one_of, shown

import mlx.core as mx
import mlx.nn as nn

CHECKPOINTS = Path(__file__).parent / "checkpoints"
# The names that ``python -m lablib fetch`` knows, see ``lablib.tools.fetch``.
FETCHED = ("gemma3", "smollm2")
# A CPU's products of quantised weights are added up in the type of what they meet, and each sum is
# rounded: the error grows like the square root of their number. Root mean square, mlx 0.32.4.
_COARSE = {mx.bfloat16: "up to 7 %", mx.float16: "up to 1 %"}
_GROUPS = 32, 64  # neighbours that share a scale, the first that fits
_HUB_ID = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}")


def names() -> list[str]:
    """Return the names of the models that came with the package, in alphabetical order."""
    # The verifier beside them has no tokenizer: it is a head on a language model, not one itself.
    folders = (path.parent for path in CHECKPOINTS.glob("*/config.json"))
    return sorted(path.name for path in folders if (path / "tokenizer.json").exists())


def fetched(name: str) -> Path | None:
    """Return a fetched model's directory, or its GGUF file; None if it was not fetched yet."""
    for folder in folders.own():
        path = folder / "models" / name
        if (path / "config.json").is_file():
            return path
        for file in path.glob("*.gguf"):
            return file
    return None


@checks_options
def load(
    name: str | Path,
    dtype: mx.Dtype | None = None,
    *,
    bits: int | None = None,
    adapter_path: str | Path | None = None,
    revision: str | None = None,
    tokenizer_config: Mapping[str, Any] | None = None,
) -> tuple[nn.Module, Any]:
    """Return a model, in evaluation mode with its weights in memory, and its tokenizer.

    A model that ``lablib.save`` wrote comes back as a ``LanguageModel``, all else as mlx-lm's own
    class, a GGUF file's (Llama, Qwen 2 and 3, Gemma 3; docs/model-files.md), too; the tokenizer
    is mlx-lm's ``TokenizerWrapper``, or becomes it when it is asked for more than ids and texts, a
    chat template say: only then transformers is imported. The model knows its end tokens as
    ``stop_tokens``: there its texts end wherever nobody says otherwise. It knows its ``tokenizer``,
    which is compared with a draft model's; and where it has more rows than that has ids, as
    ``known_ids`` how many count: others are never drawn.

    Args:
        name: a shipped name (see :func:`names`), ``"smollm2"`` or ``"gemma3"`` once ``python -m
            lablib fetch`` has brought it, the path of a directory of mlx-lm's layout or of a file
            ``model.gguf``, or a hub id such as ``"mlx-community/Qwen3-0.6B-4bit"``, which mlx-lm
            downloads.
        dtype: the type of the weights and so of the arithmetic. None means the stored type on a
            GPU and float32 on a CPU: MLX sends the BLAS no other products there, and a token of
            half precision takes 3 to 9 times as long, though its weights are half as large. A
            warning says so. Quantised weights stay as they are stored, on Linux, and are multiplied
            by a product of ours: see ``models/stored.py``. It needs a C++ compiler, once. Those of
            a GGUF file, as of ``"smollm2"``, do so for None: a type makes numbers of them.
        bits: 4 or 8 makes the weights codes of so many bits, with a scale and a minimum for each 32
            neighbours, as ``mlx_lm.convert`` does: less memory, and sooner tokens where reading the
            weights takes the time. It is another model then: docs/benchmarks.md says how far off.
        adapter_path: the directory of a LoRA adapter. This and what follows are handed to
            ``mlx_lm.load``, and refused where it is not asked.
        revision: a branch, tag or commit of a hub id.
        tokenizer_config: keywords of the tokenizer.

    Returns:
        The model and its tokenizer.

    Raises:
        BadValue: no such model, or a file of it is missing, corrupt, or does not fit the others.
        BadType: ``name`` or ``dtype`` is of the wrong type.
        ImportError: a GGUF file wants ``pip install 'lablib[gguf]'``.

    Example:
        >>> model, tokenizer = lablib.load("target")
        >>> model.stop_tokens == frozenset(tokenizer.eos_token_ids)
        True
    """
    if not isinstance(name, str | Path):
        raise BadType(f"name must be a model's name or path, got {shown(name)}")
    check_dtype(dtype)
    if bits is not None:
        one_of("bits", bits, (4, 8))
    more = _for_mlx_lm(adapter_path, revision, tokenizer_config)
    path = _find(name)
    if path is not None and "revision" in more:
        raise BadValue(f"revision is of a hub id, and {shown(str(name))} lies on this machine")
    read_tokenizer: Callable[[], Any]
    if path is None:
        model, read_tokenizer = _load_with_mlx_lm(str(name), "from the Hugging Face hub", more)
    elif path.is_file() or "lablib" in files.check(path):
        if more:
            theirs = "of mlx-lm's own classes, in a directory or on the hub"
            raise BadValue(f"{next(iter(more))} is for models {theirs}")
        as_stored = dtype is None and bits is None  # codes stay: nobody asked for other numbers
        if path.is_file():
            model, read_tokenizer = _read_gguf(path, as_stored)
        else:
            model, read_tokenizer = files.read(path, reading.fill if as_stored else None)
    else:
        model, read_tokenizer = _load_with_mlx_lm(str(path), "with mlx-lm", more)
    if dtype is not None or mx.default_device() != mx.gpu:
        stored.set_dtype(model, dtype or mx.float32)
    if bits is not None:
        quantise(model, bits)
    stored.keep_as_stored(model)
    mx.eval(model.parameters())
    arrays = [array for _, array in flattened(model.parameters())]
    # The system's work, on another core. Nobody waits for it: the numbers stay what they are.
    Thread(target=pages.enlarge, args=[arrays], daemon=True).start()
    tokenizer = read_tokenizer()
    model.stop_tokens = frozenset(tokenizer.eos_token_ids) - {None}
    model.tokenizer = tokenizer
    with suppress(BadValue):  # it doesn't say how many rows it has
        model.known_ids = count_known(tokenizer, vocab_size_of(model))
    if mx.default_device() != mx.gpu:
        _warn_of_poor_products(model, str(name))
    return model, tokenizer


def _read_gguf(path: Path, as_stored: bool) -> tuple[nn.Module, Callable[[], Any]]:
    """Return a file's model, and what reads its tokenizer; one that panics does so then."""
    model, read_tokenizer = reading.read(path, as_stored)

    def tried_out() -> Any:
        with files.no_panic():
            tokenizer = read_tokenizer()
            files.try_out(tokenizer)
        return tokenizer

    return model, tried_out


def quantise(model: nn.Module, bits: int) -> None:
    """Make a model's matrices codes of so many bits, as ``mlx_lm.convert`` does: MLX's own layers.

    Tables of positions stay, and what has no whole number of groups.

    Raises:
        BadValue: it is quantised already.
    """
    if any(hasattr(layer, "group_size") for layer in model.modules()):
        raise BadValue(f"bits must be None, got {bits}: the model's weights are codes already")

    def plan(path: str, layer: nn.Module) -> bool | dict[str, int]:
        is_matrix = type(layer) in (nn.Linear, nn.Embedding)
        if not is_matrix or path.split(".")[-1] in POSITIONS:
            return False
        groups = (size for size in _GROUPS if layer.weight.shape[-1] % size == 0)
        return next(({"group_size": size, "bits": bits} for size in groups), False)

    with seeded(0):  # MLX draws weights first, from the state that others draw from
        nn.quantize(model, class_predicate=plan)


def _warn_of_poor_products(model: nn.Module, name: str) -> None:
    """Say in one line what a CPU does to products of other weights than float32, and why."""
    ours = {path for path, layer in model.named_modules() if isinstance(layer, stored.Stored)}
    arrays = flattened(model.parameters())
    types = {a.dtype for name, a in arrays if name.rpartition(".")[0] not in ours} - {mx.float32}
    if not types:
        return
    why = "MLX's CPU products of them bypass the BLAS, 3 to 9 times slower than float32's"
    for half, off in _COARSE.items() if mx.uint32 in types else ():  # packed: quantised
        if half in types:
            rounded = f"those of quantised weights add up in {_named(half)}"
            why += f", and {rounded}: each is wrong by {off} at 4,096 inputs, float32's are not"
    if mx.uint32 in types and stored_weights.obstacle():
        why += f"; lablib's own can't be had here: {stored_weights.obstacle()}"
    kinds = ", ".join(sorted(map(_named, types)))
    warnings.warn(f"{name} has weights of {kinds}: {why}", RuntimeWarning, stacklevel=4)


def _named(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")


def _find(name: str | Path) -> Path | None:
    """Return a model's directory; None if it is on the hub."""
    if name in names():
        return CHECKPOINTS / name
    if name in FETCHED:
        path = fetched(name)
        if path is None:
            cure = f"run python -m lablib fetch {name}"
            raise BadValue(f"name {name!r} is not on this machine: {cure}")
        return path
    with suppress(OSError):  # of a name that is too long for a path
        path = Path(name)
        if str(name) and (path.is_dir() or (path.suffix == ".gguf" and path.is_file())):
            return path
    if isinstance(name, str) and _HUB_ID.fullmatch(name):
        return None
    shipped = ", ".join(map(repr, names())) or "none"
    raise BadValue(
        f"name must be a shipped model ({shipped}), a directory such as './my_model', "
        "a file such as './model.gguf' or a hub id such as 'mlx-community/Qwen3-0.6B-4bit', "
        f"got {shown(str(name))}, and there is no such directory or file"
    )


def check_dtype(dtype: Any) -> None:
    """Refuse all but floating-point types and None."""
    known = (mx.float32, mx.float16, mx.bfloat16)
    if dtype is not None and not (isinstance(dtype, mx.Dtype) and dtype in known):
        raise BadType(f"dtype must be float32, float16, bfloat16 or None, got {shown(dtype)}")


def _for_mlx_lm(adapter_path: Any, revision: Any, tokenizer_config: Any) -> dict[str, Any]:
    """Return the options of ``mlx_lm.load`` that were given."""
    more: dict[str, Any] = {}
    if adapter_path is not None:
        folder = Path(_text("adapter_path", adapter_path))
        if not (folder / "adapters.safetensors").is_file():
            raise BadValue(f"adapter_path must hold adapters.safetensors, got {shown(str(folder))}")
        files.read_arrays(folder / "adapters.safetensors", whole=False)
        files.check_scale(folder / "adapter_config.json")
        more["adapter_path"] = str(folder)
    if revision is not None:
        more["revision"] = _text("revision", revision)
    if tokenizer_config is not None:
        if not isinstance(tokenizer_config, Mapping):
            raise BadType(f"tokenizer_config must be a mapping, got {shown(tokenizer_config)}")
        if tokenizer_config.get("trust_remote_code"):
            raise BadValue("tokenizer_config: load runs no code of a model's; mlx_lm.load does")
        more["tokenizer_config"] = dict(tokenizer_config)
    return more


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str | Path) or not str(value):
        raise BadType(f"{name} must be a text that is not empty, got {shown(value)}")
    return str(value)


def _load_with_mlx_lm(
    name: str, how: str, more: dict[str, Any]
) -> tuple[nn.Module, Callable[[], Any]]:
    import mlx_lm

    scheduling.gather_work()
    clear_with_thread()
    try:
        with (
            files.no_panic(),
            files.no_remote_code(),
            files.module_limit(),
            files.floats_for_floats(),
        ):
            settings = {**more.pop("tokenizer_config", {}), "trust_remote_code": False}
            loaded: Any = mlx_lm.load(name, tokenizer_config=settings, **more)
            files.try_out(loaded[1])
            if "adapter_path" in more:
                files.check_adapter(loaded[0], Path(more["adapter_path"], "adapters.safetensors"))
            return loaded[0], lambda: loaded[1]
    # Whatever goes wrong inside, the caller gets one line about it: one architecture calls exit.
    except (Exception, SystemExit) as error:
        lost = files.missing_shards(Path(name))
        why = f"{', '.join(lost)} is missing, which its index names: " if lost else ""
        raise BadValue(
            f"name: could not load {name!r} {how}: {why}{files.one_line(error)}"
        ) from error

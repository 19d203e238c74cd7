"""Makes public names that load their module when they are first used (PEP 562), and packages.

``mlx_lm``'s ``__init__`` imports transformers, for its tokenizers: two thirds of what a process
with a small model takes until its first token (mlx-lm 0.32.2). Its models and caches, which lie
below it, need nothing of that. ``importlib.util.LazyLoader`` would not help: it runs a package as
soon as a module below it is imported.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec, module_from_spec
from pkgutil import iter_modules
from threading import RLock
from types import ModuleType
from typing import Any

_LOCK = RLock()
_running: set[str] = set()
_DUNDERS = "__version__", "__all__"
# What other libraries call what is here.
_ELSEWHERE = {
    "LLM": "load and generate",
    "pipeline": "load and generate",
    "AutoModelForCausalLM": "load, which returns the model and its tokenizer",
    "AutoTokenizer": "load, which returns the model and its tokenizer",
    "TextStreamer": "stream",
    "TextIteratorStreamer": "stream",
    "embed": "not offered: what models give are logits",
    "SamplingParams": "SamplerOptions, or its fields as keywords",
    "GenerationConfig": "SamplerOptions, or its fields as keywords",
    "make_sampler": "the keywords temperature=, top_p=, min_p=, top_k=",
    "stream_generate": "stream",
    "batch_generate": "generate, which takes a list of prompts",
    "speculative_generate_step": "SpeculativeTokenIterator",
    "generate_step": "TokenIterator",
    "BatchGenerator": "sample_many, or Engine",
    "AsyncLLMEngine": "Engine",
    "AsyncLLM": "Engine",
    "make_prompt_cache": "lablib.cache.kv.make(model)",
    "score": "logprobs, of a text that is there",
    "perplexity": "np.exp(-lablib.logprobs(model, ids).mean())",
    "loglikelihood": "logprobs, whose sum it is",
}


def exports(
    package: str, names: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for the package called ``package``.

    Its modules load in the same way, but only its public names and packages are listed. Nothing is
    kept: a name that was replaced in its module is found as it is now. Type checkers read the same
    names in ``__init__.pyi``, which ``tests/stubs.py`` makes.

    Args:
        package: its ``__name__``.
        names: module -> the public names that it defines, between spaces.
    """
    where = {name: module for module, some in names.items() for name in some.split()}

    def load(name: str) -> Any:
        if name in where:
            return getattr(importlib.import_module(where[name]), name)
        module = f"{package}.{name}"
        if name.startswith("_") or find_spec(module) is None:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}{_hint(package, name, where)}"
            )
        return importlib.import_module(module)

    def listed() -> list[str]:
        own = vars(sys.modules[package])
        dunders = [name for name in own if name.startswith("__")]
        rooms = [module.name for module in iter_modules(own["__path__"]) if module.ispkg]
        return sorted({*dunders, *rooms, *where})

    return load, listed, sorted(name for name in where if not name.startswith("__"))


def _hint(package: str, name: str, names: Iterable[str]) -> str:
    """Say where a name is that the package has not, or which of its own is meant."""
    from difflib import get_close_matches  # which most programs never need

    inner = "lablib.inference"
    if package != "lablib" or name.startswith("_"):
        return ""
    if name in _ELSEWHERE:
        return f" (here it is {_ELSEWHERE[name]})"
    below = importlib.import_module(inner).__all__
    if name in below:
        return f" (it is {inner}.{name})"
    near = get_close_matches(name, [*names, *below], 1)
    return f" (did you mean {near[0]}?)" if near else ""


class _Late(ModuleType):
    """A package whose ``__init__`` has not run; afterwards it is like any other."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _DUNDERS:  # all modules are looked through for it
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _LOCK:  # another thread waits until it has run
            if type(self) is _Late and self.__name__ not in _running:
                self._run()
        return ModuleType.__getattribute__(self, name)

    def _run(self) -> None:
        spec: Any = self.__spec__
        _running.add(self.__name__)
        try:
            spec.loader.exec_module(self)
        finally:
            _running.remove(self.__name__)
        for name, module in [*sys.modules.items()]:
            package, _, inner = name.rpartition(".")
            if package == self.__name__:
                vars(self).setdefault(inner, module)
        super().__setattr__("__class__", ModuleType)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set no module below but ``models``: what ``__init__`` makes may be called as it is."""
        if name == "models" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


def package(name: str, **environment: str) -> None:
    """Have a package that nobody has imported yet wait until something of it is asked for.

    Its ``__init__`` sets the ``environment`` for those that the modules below import.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is not None:
        os.environ.update(environment)
        sys.modules[name] = module = module_from_spec(spec)
        module.__class__ = _Late

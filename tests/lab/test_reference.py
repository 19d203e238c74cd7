"""What ``help`` and the site's reference say: complete, and every example runs."""

import doctest
import importlib
import inspect
import re
from typing import Any, get_type_hints

import lablib
from lablib.inference import keywords
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.tools.site import contents

import pytest

INFERENCE = importlib.import_module("lablib.inference")
NAMES = {name: getattr(INFERENCE, name) for name in INFERENCE.__all__}
NAMES |= {name: getattr(lablib, name) for name in lablib.__all__}
NAMES = {name: each for name, each in NAMES.items() if not inspect.ismodule(each)}
FUNCTIONS = {name: each for name, each in NAMES.items() if not inspect.isclass(each)}


def told(each: Any) -> str:
    return inspect.getdoc(each) or ""


def sections(text: str) -> set[str]:
    return {*re.findall(r"^(\w+):$", text, flags=re.M)}


def returns_something(function: Any) -> bool:
    return inspect.signature(function).return_annotation not in (None, "None")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_takes_returns_and_raises(name: str) -> None:
    function, text = FUNCTIONS[name], told(FUNCTIONS[name])
    assert "Raises" in sections(text)
    assert ("Returns" in sections(text)) is returns_something(function)
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"(?<!\w){parameter}(?!\w)", text), parameter


@pytest.mark.parametrize("name", NAMES)
def test_a_class_and_its_methods_have_docstrings(name: str) -> None:
    each = NAMES[name]
    assert len(told(each)) > 40
    for member, method in vars(each).items() if inspect.isclass(each) else ():
        function = getattr(method, "__func__", getattr(method, "fget", method))
        if inspect.isfunction(function) and not member.startswith("_"):
            text = function.__doc__ or told(getattr(each.__mro__[1], member, None))
            assert text, member


# --- every option of generate ------------------------------------------------------------------
def options_of_generate() -> set[str]:
    typed = [keywords.TextKeywords, keywords.SeveralKeywords]
    named = {"max_tokens"}
    return named | {name for each in typed for name in get_type_hints(each)}


def entries() -> dict[str, str]:
    """Return what the docstring of generate says of each option."""
    found = {}
    starts = r"^(?:- |    (?=\**\w+: ))"  # of a list's entry, and of an argument
    for entry in re.split(starts, told(lablib.generate), flags=re.M)[1:]:
        heads, _, body = entry.partition(":")
        found |= dict.fromkeys(re.findall(r"\w+", heads), body)
    return found


def test_help_of_generate_lists_every_option_with_its_default() -> None:
    parameters = inspect.signature(SpeculativeTokenIterator.__init__).parameters
    defaults = {name: each.default for name, each in parameters.items()}
    defaults |= {name: getattr(SamplerOptions(), name) for name in SamplerOptions.names()}
    defaults |= {"stop": (), "draft_model": None, "max_batch": None, "max_tokens": 100}
    defaults |= {"template": None, "n": None}
    for option, text in entries().items():
        if option in options_of_generate():
            assert text.startswith(f" {defaults[option]}"), (option, text)
    assert {*entries()} >= options_of_generate()


def test_what_may_be_a_list_is_marked_and_nothing_else() -> None:
    each = {*get_type_hints(keywords.SamplersOfEach), "max_tokens"}
    marked = {option for option in options_of_generate() if "[each]" in entries()[option]}
    assert marked == each


# --- examples ----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the examples may use: no more than the reference says they begin with."""
    names: dict[str, Any] = {}
    exec(contents.EXAMPLES, names)
    return {**names, "folder": tmp_path_factory.mktemp("examples")}


def failures(name: str, text: str, world: dict[str, Any]) -> tuple[int, str]:
    """Run the examples in a docstring; return how many there are, and what went wrong."""
    test = doctest.DocTestParser().get_doctest(text, dict(world), name, name, 0)
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append)
    return len(test.examples), "".join(said)


@pytest.mark.parametrize("name", NAMES)
def test_each_public_name_has_an_example_and_it_runs(name, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    count, wrong = failures(name, told(NAMES[name]), world)
    assert count
    assert not wrong, wrong


@pytest.mark.parametrize("text", [">>> 1 + 1\n3", ">>> lablib.no_such_name"])
def test_a_wrong_example_is_noticed(text: str, world: dict[str, Any]) -> None:
    assert failures("planted", text, world)[1]

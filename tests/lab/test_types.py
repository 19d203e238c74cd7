"""The types of public names: what an editor and a type checker make of calls, right and wrong."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args, get_type_hints

import lablib
from lablib.inference import keywords
from lablib.inference.arguments import read_request
from lablib.inference.completions import complete
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.unknown_options import options_of

import pytest
import stubs

ROOT = Path(__file__).parents[2]
CALLS = ROOT / "tests" / "typed"


def checked(command: list[str]) -> subprocess.CompletedProcess:
    tool = [sys.executable, "-m", *command]
    return subprocess.run(tool, cwd=ROOT, capture_output=True, text=True, check=False)


def mypy(*paths: Path) -> set[int]:
    """Return the lines that mypy marks."""
    done = checked(["mypy", "--output=json", *map(str, paths)])
    assert done.returncode in (0, 1), done.stderr
    marks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {mark["line"] for mark in marks if mark["severity"] == "error"}


def pyright(*paths: Path) -> set[int]:
    """Return the lines that Pyright marks (basedpyright, which fetches nothing)."""
    here = f"--pythonpath={sys.executable}"  # else it looks for the packages of a .venv, if any
    done = checked(["basedpyright", "--level=error", "--outputjson", here, *map(str, paths)])
    marks = json.loads(done.stdout)["generalDiagnostics"]
    return {mark["range"]["start"]["line"] + 1 for mark in marks}


CHECKERS = pytest.mark.parametrize(
    "lines", [mypy, pytest.param(pyright, marks=pytest.mark.thorough)]
)


@pytest.mark.grid(lambda lines: lines is pyright, rest="slow")
@pytest.mark.thorough
@CHECKERS
def test_right_calls_are_accepted(lines: Callable[..., set[int]]) -> None:
    assert lines(CALLS / "right.py", CALLS / "trial.py") == set()


@CHECKERS
def test_each_mistake_is_marked_and_nothing_else(lines: Callable[..., set[int]]) -> None:
    path = CALLS / "wrong.py"
    source = path.read_text().splitlines()
    planted = {number for number, line in enumerate(source, 1) if line.endswith("  ##")}
    assert len(planted) >= 20
    assert lines(path) == planted


def test_the_engine_is_clean() -> None:
    done = checked(["mypy", "--output=json"])
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr


def test_the_stubs_name_what_the_packages_do() -> None:
    made = stubs.stubs()
    assert len(made) >= 8
    for path, text in made.items():
        assert path.read_text() == text, f"run python tests/stubs.py: {path}"


def test_the_public_names_are_listed_and_no_others() -> None:
    seen = {name for name in dir(lablib) if not name.startswith("__")}
    assert seen - {*lablib.__all__} == {
        "cache",
        "course",
        "inference",
        "machine",
        "models",
        "tools",
    }


INNER = {
    "n",
    "name",
    "several",
    "each",
    "streams",
    "cache",
    "cached_tokens",
}  # what doors say to each other
GIVEN = {"max_tokens", "draft_tokens", "temperature"}  # names of their own, in some doors
DOORS = {
    keywords.SampleKeywords: (None, {*keywords.DraftKeywords.__annotations__}),
    keywords.SpeculativeKeywords: (None, set()),
    keywords.VoteKeywords: (None, {"max_tokens", "temperature"}),
    keywords.RoundsKeywords: (None, {"max_tokens", "temperature", "max_batch"}),
    keywords.DecodeKeywords: (SpeculativeTokenIterator, GIVEN),
    keywords.StreamKeywords: (
        SpeculativeTokenIterator,
        {"max_tokens", "stop_tokens", "tokenizer"},
    ),
}


@pytest.mark.parametrize("typed", DOORS, ids=lambda each: each.__name__)
def test_typed_keywords_are_those_of_the_function_but_for_what_its_door_names(typed: type) -> None:
    function, named = DOORS[typed]
    if function is None:  # one of many texts
        own = {*options_of(complete), *options_of(read_request)} - INNER
        own |= {*keywords.DraftKeywords.__annotations__}
    else:
        own = {*options_of(function)}
    assert {*typed.__annotations__} == {*own, *SamplerOptions.names()} - named


def test_the_samplers_keywords_are_its_options() -> None:
    expected = get_type_hints(SamplerOptions)
    each = get_type_hints(keywords.SamplersOfEach)
    assert [*each] == [*get_type_hints(keywords.SamplerKeywords)]
    for name in each:
        assert each[name] == expected[name] | Sequence[expected[name]]
    assert get_type_hints(keywords.SamplerKeywords) == {
        name: expected[name] for name in SamplerOptions.names()
    }
    taken = [TokenIterator.__init__, SpeculativeTokenIterator.__init__]
    for each in taken:
        (unpacked,) = get_args(each.__annotations__["sampler_options"])
        assert unpacked is keywords.SamplerKeywords


@pytest.mark.parametrize(
    ("option", "cure"),
    [
        ("temp", "here it is temperature="),
        ("max_new_tokens", "here it is max_tokens="),
        ("sampler", "its options, temperature="),
        ("prompt_cache", "here it is cache="),
        ("verbose", "stream()"),
        ("kv_bits", "QuantizedKVCache"),
        ("max_kv_size", "RotatingKVCache"),
        ("repetition_penalty", "here it is repeat_penalty="),
        ("typical_p", "menu.typical(...)"),
        ("xtc_threshold", "menu.xtc(...)"),
        ("temprature", "did you mean temperature"),
        ("max_toknes", "did you mean max_tokens"),
    ],
)
def test_an_option_of_another_library_names_its_counterpart_here(option: str, cure: str) -> None:
    with pytest.raises(TypeError, match="unknown option") as caught:
        lablib.sample_n(lambda tokens, cache: None, [1], 1, **{option: 1})
    assert cure in str(caught.value)

"""The tables of what is written elsewhere and here: every line of them does what it is for."""

import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lablib
from lablib.cache import kv
from lablib.conversation import chat_options
from lablib.inference.speculation import speculative_decode
from lablib.inference.voting import best_of_n, majority_vote, vote_until
from lablib.models import zoo

import mlx.core as mx
import mlx_lm
import pytest
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.sample_utils import make_logits_processors, make_sampler
from oracles.coming_from import CHAT, EFFECTS, PROMPT, Line, new_tokenizer, read
from transformers import GenerationConfig, set_seed

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text("utf-8")


def table() -> list[tuple[str, str, str, str]]:
    """Return the rows: what to do, and the code of mlx-lm, Hugging Face and lablib."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    cells = [line.strip("| ").split(" | ") for line in lines]
    rows = [tuple(cell.strip().strip("`") for cell in row) for row in cells]
    rows = [row for row in rows if row[-1] != "lablib"]
    assert {len(row) for row in rows} == {2, 4}
    # vLLM needs a GPU and has a table of two columns: nothing of its own is run.
    return [row if len(row) == 4 else (row[0], "–", "–", row[1]) for row in rows]


ROWS = table()


@pytest.fixture(scope="module")
def models() -> list[Any]:
    """mlx-lm's own models of the same weights."""
    loaded = [mlx_lm.load(str(zoo.CHECKPOINTS / name))[0] for name in ("target", "draft")]
    for model in loaded:
        model.set_dtype(mx.float32)
    return loaded


@pytest.fixture
def names(models: list[Any]) -> dict:
    """What the lines may use."""
    (foreign, draft), tokenizer = models, new_tokenizer()
    return {
        "lablib": lablib, "mlx_lm": mlx_lm, "mx": mx,
        "GenerationConfig": strict, "set_seed": set_seed,
        "make_sampler": make_sampler, "make_logits_processors": make_logits_processors,
        "make_prompt_cache": make_prompt_cache, "model": foreign, "tokenizer": tokenizer,
        "draft": draft, "prompt": PROMPT, "ids": tokenizer.encode(PROMPT),
        "chat": [{"role": "user", "content": PROMPT}], "f": lambda tokens, logits: 2 * logits,
        "g": lambda logprobs: mx.argsort(-logprobs, axis=-1)[:, 1],  # the second best
        "asyncio": asyncio, "read": read, "kv": kv,
    }  # fmt: skip


def strict(**options: object) -> GenerationConfig:
    """Make a configuration; the real one takes any name without a word."""
    unknown = options.keys() - vars(GenerationConfig()).keys()
    assert not unknown, unknown
    return GenerationConfig(**options)


def value(code: str, names: dict) -> object:
    found = eval(code, dict(names))
    return list(found) if isinstance(found, lablib.TokenIterator) else found


def test_the_table_has_what_engineers_look_for() -> None:
    assert len(ROWS) >= 24
    assert all(code != "–" for *_, code in ROWS)
    assert sum(code != "–" for _, code, _, _ in ROWS) >= 12


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_each_line_runs_and_texts_are_the_same(row: tuple[str, ...], names: dict) -> None:
    _, theirs, others, ours = row
    wanted = None if theirs == "–" else value(theirs, names)
    if others != "–":
        value(others, names)
    got = value(ours, names | {"tokenizer": new_tokenizer()})
    assert isinstance(got, str) or got is not None
    if isinstance(wanted, str):  # a text, of the best tokens
        assert got.removeprefix(" ") == wanted


# --- what each line is for ---------------------------------------------------------------------
def test_every_line_has_an_effect_to_be_seen_by() -> None:
    assert [row[0] for row in ROWS] == [*EFFECTS]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_each_line_does_what_it_is_for(row: tuple[str, ...], names: dict) -> None:
    EFFECTS[row[0]](Line(row, names))


def test_a_wrong_line_would_be_noticed(names: dict) -> None:
    with pytest.raises(AssertionError, match="max_tokens"):
        value("GenerationConfig(max_tokens=8)", names)
    with pytest.raises(TypeError):
        value("lablib.generate(model, tokenizer, prompt, max_new_tokens=8)", names)
    with pytest.raises(TypeError):
        value("make_sampler(temperature=0.8)", names)


def default(function: Callable, name: str) -> object:
    return inspect.signature(function).parameters[name].default


def test_the_defaults_are_those_that_the_page_tells() -> None:
    names = ("temperature", "max_tokens")
    said = {name: re.findall(rf"- `{name}` is (.*)", PAGE)[0] for name in names}
    assert said["temperature"].startswith("1 in `generate`")
    assert lablib.SamplerOptions().temperature == 1
    for function, temperature, tokens in [
        (majority_vote, 0.8, 50),
        (vote_until, 0.8, 50),
        (best_of_n, 0.8, 100),
        (speculative_decode, 0.0, 100),
    ]:
        assert default(function, "temperature") == temperature
        assert default(function, "max_tokens") == tokens
    for function in (lablib.generate, lablib.stream, lablib.TokenIterator):
        assert default(function, "max_tokens") == 100
    assert default(lablib.sample_many, "max_tokens") == 100
    assert default(lablib.forecast, "max_tokens") == 64
    assert "256 in `chat`" in said["max_tokens"]
    assert chat_options(None, {}) == {"max_tokens": 256}
    assert "0.5, with `top_p=0.9`, in a `chat`" in said["temperature"]
    model, tokenizer = lablib.load("target")
    assert lablib.chat(model, tokenizer).conversation.temperature == 1
    tokenizer.chat_template = CHAT
    assert lablib.chat(model, tokenizer).conversation.temperature == 0.5

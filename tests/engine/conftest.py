"""A model whose every text is known, and how an engine is asked."""

import asyncio

import lablib

import pytest
from oracles.scripted import Ragged, random_table


@pytest.fixture(scope="module")
def tokenizer():
    return lablib.load("target")[1]


@pytest.fixture
def model(tokenizer):
    """Return a model that writes down how it was called."""
    return Ragged(random_table(97, len(tokenizer), 1))


@pytest.fixture
def draft(tokenizer):
    return Ragged(random_table(97, len(tokenizer), 1) + random_table(97, len(tokenizer), 7))


@pytest.fixture
def serve(tokenizer):
    """Return a function that runs a client, given an engine, in an event loop of its own."""

    def run(client, model, *drafter, **settings):
        async def main():
            engine = lablib.Engine(model, tokenizer, *drafter, **settings)
            for each in (model, *drafter):  # the engine has tried them out
                if isinstance(each, Ragged):
                    each.calls.clear()
            async with engine:
                return await asyncio.wait_for(client(engine), 60)

        return asyncio.run(main())

    return run

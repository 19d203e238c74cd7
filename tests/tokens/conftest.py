"""Tokenizers of the tests of generate and stream."""

from lablib.course.tasks import save_pretrained

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

TEMPLATE = (
    "{% for m in messages %}{{ '<s>' + m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folder of the shipped tokenizer."""
    path = tmp_path_factory.mktemp("tokenizer")
    save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def shipped(saved):
    return load_tokenizer(saved)


@pytest.fixture(scope="session")
def templated(saved):
    """The same with a chat template, given to it after it was loaded."""
    tokenizer = load_tokenizer(saved)
    tokenizer.chat_template = TEMPLATE
    return tokenizer

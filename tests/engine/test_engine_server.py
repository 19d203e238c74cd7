"""The server of ``docs/serving.md`` answers OpenAI's own client, with the texts of ``generate``."""

import re
import threading
import time
from pathlib import Path

import lablib

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)


def code_of(n: int) -> str:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[n]


@pytest.fixture(scope="module")
def loaded():
    model, tokenizer = lablib.load("target")
    tokenizer.chat_template = TEMPLATE
    tokenizer.has_chat_template = True
    return model, tokenizer


@pytest.fixture(scope="module")
def client(loaded):
    openai, uvicorn = pytest.importorskip("openai"), pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    names = {"__name__": "server"}
    exec(code_of(1), names)
    settings = uvicorn.Config(names["serve"]("target", *loaded), port=0, log_level="error")
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="-", max_retries=0) as made:
        yield made
    server.should_exit = True
    thread.join()


@pytest.mark.thorough
def test_completions_and_chats_have_the_texts_of_generate(client, loaded):
    how = {"max_tokens": 24, "temperature": 0.7, "seed": 5}
    prompt = "On a sunny day, Mia finds"
    made = client.completions.create(model="target", prompt=prompt, stop=".", **how)
    wanted = lablib.generate(*loaded, prompt, stop=".", **how)
    assert made.choices[0].text == wanted
    assert made.choices[0].finish_reason == wanted.finish_reason
    assert made.usage.completion_tokens == len(wanted.tokens)
    messages = [{"role": "user", "content": "Tell me of Otto."}]
    made = client.chat.completions.create(model="target", messages=messages, **how)
    wanted = lablib.generate(*loaded, messages=messages, **how)
    assert made.choices[0].message.content == wanted


@pytest.mark.thorough
def test_a_stream_comes_in_pieces(client, loaded):
    how = {"max_tokens": 24, "temperature": 0.7, "seed": 6}
    messages = [{"role": "user", "content": "Tell me of Mia."}]
    asked = {"model": "target", "messages": messages, "stream": True, **how}
    parts = [each.choices[0] for each in client.chat.completions.create(**asked)]
    assert len(parts) > 3
    wanted = lablib.generate(*loaded, messages=messages, **how)
    assert "".join(each.delta.content for each in parts) == wanted
    assert parts[-1].finish_reason == wanted.finish_reason


@pytest.mark.thorough
def test_a_bad_request_is_answered_with_the_reason(client):
    from openai import BadRequestError

    with pytest.raises(BadRequestError, match="temperature"):
        client.completions.create(model="target", prompt="Mia", temperature=-1.0)


@pytest.mark.thorough
def test_a_field_is_honoured_or_refused_by_name(client):
    from openai import BadRequestError

    how = {"model": "target", "prompt": "Mia"}
    extra = {"max_completion_tokens": 5, "stop": None, "top_p": None, "n": 1, "user": "ada"}
    made = client.completions.create(**how, extra_body=extra)
    assert made.usage.completion_tokens <= 5
    for extra in ({"n": 2}, {"logprobs": 3}, {"best_of": 2}, {"suffix": "x"}):
        with pytest.raises(BadRequestError, match=next(iter(extra))):
            client.completions.create(**how, extra_body=extra)


@pytest.mark.thorough
def test_who_hangs_up_leaves_and_others_are_served(client):
    how = {"model": "target", "prompt": "On a sunny day", "max_tokens": 400}
    with client.completions.create(**how, stream=True) as stream:
        next(iter(stream))
    assert client.completions.create(**{**how, "max_tokens": 3}).usage.completion_tokens <= 3


def test_the_server_is_short():
    assert len([line for line in code_of(1).splitlines() if line.strip()]) <= 50


@pytest.mark.thorough
def test_the_first_example_runs(capsys):
    exec(code_of(0), {"__name__": "__main__"})
    assert "'finished': 10" in capsys.readouterr().out

"""Texts and conversations in a terminal: ``lablib generate`` and ``lablib chat``."""

import io

import lablib
from lablib.__main__ import main
from lablib.tools import terminal

import pytest

PROMPT = "On a sunny day, Mia finds"


def test_generate_writes_what_the_library_does(capsys) -> None:
    model, tokenizer = lablib.load("target")
    how = ["--temperature", "0", "--max-tokens", "12"]
    wanted = lablib.generate(model, tokenizer, PROMPT, temperature=0.0, max_tokens=12)
    for more in ([], ["--draft", "draft"]):
        assert main(["generate", "target", PROMPT, *how, *more]) == 0
        assert capsys.readouterr().out == f"{wanted}\n"


def test_a_prompt_may_come_from_standard_input(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(PROMPT))
    assert main(["generate", "target", "-", "--seed", "3", "--max-tokens", "9"]) == 0
    model, tokenizer = lablib.load("target")
    text = lablib.generate(model, tokenizer, PROMPT, seed=3, max_tokens=9)
    assert capsys.readouterr().out == f"{text}\n"


def test_what_is_wrong_is_said_in_one_line(capsys) -> None:
    assert main(["generate", "target", "", "--seed", "3"]) == 2
    assert capsys.readouterr().err == "lablib: prompt must hold some text, got ''\n"
    assert main(["chat", "nosuch"]) == 2
    assert "name must be a shipped model" in capsys.readouterr().err


def test_a_model_that_chats_answers(monkeypatch, capsys) -> None:
    model, tokenizer = lablib.load("target")
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    monkeypatch.setattr(terminal, "load", lambda name: (model, tokenizer))
    terminal.generate("mine", PROMPT, temperature=0.0, max_tokens=9)
    talk = [{"role": "user", "content": PROMPT}]
    how = {"temperature": 0.0, "max_tokens": 9, "top_p": 0.9}
    assert capsys.readouterr().out == f"{lablib.generate(model, tokenizer, messages=talk, **how)}\n"


def chat(monkeypatch: pytest.MonkeyPatch, *lines: str | type[BaseException], **more) -> None:
    said = iter([*lines, EOFError])

    def answer(_: str) -> str:
        line = next(said)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", answer)
    terminal.chat("target", seed=1, max_tokens=8, **more)


def test_a_chat_goes_on_and_begins_again(monkeypatch, capsys) -> None:
    chat(monkeypatch, "Mia", "", "and then", "/new", "Mia", "/bye", "never")
    first, second, again = capsys.readouterr().out.splitlines()[1:4]
    assert first == again != second
    model, tokenizer = lablib.load("target")
    assert first == lablib.generate(model, tokenizer, "Mia", seed=1, max_tokens=8)


def test_an_answer_that_is_stopped_is_kept_and_the_chat_goes_on(monkeypatch, capsys) -> None:
    kept: list[str] = []
    respond = terminal.Conversation.respond

    def interrupted(talk, text):
        for count, answer in enumerate(respond(talk, text)):
            kept.append(answer.text)
            yield answer
            if text == "Mia" and count == 1:
                talk.stop()
                raise KeyboardInterrupt

    monkeypatch.setattr(terminal.Conversation, "respond", interrupted)
    chat(monkeypatch, "Mia", "On")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == kept[1]
    assert len(lines[2]) > 0


def test_a_chat_that_outgrows_the_model_says_so_and_stays(monkeypatch, capsys) -> None:
    chat(monkeypatch, "Mia " * 2000, "Mia")
    captured = capsys.readouterr()
    assert "must fit the model's context" in captured.err
    assert len(captured.out.splitlines()) == 3


def test_colour_is_for_terminals_only(monkeypatch) -> None:
    assert terminal.paint("Mia", -0.01) == "Mia"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal.paint("Mia", -0.01) == "\x1b[32mMia\x1b[0m"
    assert terminal.paint("Mia", -9.0) == "\x1b[35mMia\x1b[0m"

"""Completes a text, or talks with a model, in a terminal; colour is how sure the model was."""

import math
import os
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

from lablib.conversation import Conversation, chat_options, has_template
from lablib.models import load
from lablib.text_stream import stream

# Sure, likely, possible, surprising: the terminal's green, cyan, yellow and magenta.
COLOURS = ((0.9, 32), (0.5, 36), (0.1, 33), (0.0, 35))


def generate(name: str, prompt: str, draft: str | None = None, **options: Any) -> None:
    """Complete a text, or answer it if the model is one that chats.

    Args:
        name: of the model, as ``load`` takes it.
        prompt: a text; "-" stands for what standard input has.
        draft: the name of a smaller model, which drafts.
        **options: of ``stream``.
    """
    prompt = sys.stdin.read() if prompt == "-" else prompt
    model, tokenizer = load(name)
    helper = None if draft is None else load(draft)[0]
    options = chat_options(tokenizer, options)
    begins: dict[str, Any] = {"prompt": prompt}
    if has_template(tokenizer):
        begins = {"messages": [{"role": "user", "content": prompt}]}
    with stream(model, tokenizer, **begins, draft_model=helper, **options) as pieces:
        seen = 0
        for piece in pieces:
            logprobs = pieces.iterator.logprobs
            _write(piece, logprobs[seen:])
            seen = len(logprobs)
    print(flush=True)


def chat(name: str, draft: str | None = None, system: str | None = None, **options: Any) -> None:
    """Talk with a model, until the input ends or somebody types /bye.

    Args:
        name: of the model, as ``load`` takes it.
        draft: the name of a smaller model, which drafts.
        system: what the model is told before the conversation.
        **options: of ``stream``.
    """
    with suppress(ImportError):
        import readline  # noqa: F401  input() then edits lines, and remembers them
    model, tokenizer = load(name)
    helper = None if draft is None else load(draft)[0]
    before = [] if system is None else [{"role": "system", "content": system}]
    options = chat_options(tokenizer, options)
    talk = Conversation(model, tokenizer, helper, messages=before, **options)
    print("Ctrl-C stops an answer. /new begins again, /bye ends.")
    while True:
        try:
            said = input("> ").strip()
        except EOFError:
            print()
            said = "/bye"
        if said == "/bye":
            return
        if said == "/new":
            talk.reset()
        elif said:
            _answer(talk, said)


def _answer(talk: Conversation, said: str) -> None:
    try:
        written = seen = 0
        with suppress(KeyboardInterrupt), closing(talk.respond(said)) as answers:
            for answer in answers:
                logprobs = [token.logprob for token in answer.tokens]
                _write(answer.text[written:], logprobs[seen:])
                written, seen = len(answer.text), len(logprobs)
        print(flush=True)
    except ValueError as error:  # it outgrows the model: the conversation is what it was
        print(f"lablib: {error}", file=sys.stderr)


def _write(piece: str, logprobs: Sequence[float]) -> None:
    """Write a piece at once, as sure as its least likely token."""
    print(paint(piece, min(logprobs, default=0.0)), end="", flush=True)


def paint(text: str, logprob: float) -> str:
    """Colour a text by how sure the model was of it."""
    probability = math.exp(logprob)
    return escape(text, next(code for least, code in COLOURS if probability >= least))


def bold(text: str) -> str:
    """Make a text bold."""
    return escape(text, 1)


def escape(text: str, code: int) -> str:
    """Colour for a terminal; plain text for a file, a pipe, or whoever set NO_COLOR."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if plain else f"\x1b[{code}m{text}\x1b[0m"

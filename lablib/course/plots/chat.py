"""A chat with a model, in a notebook: ``lablib.chat(model, tokenizer)``.

The answer streams in, each token coloured by how sure the model was, and whoever points at one is
told what else it thought of; drafts that were kept are marked. It is written by a task on the
kernel's event loop that steps aside after each piece, so the stop button works and other cells run
in between. All forwards are made on that loop's thread: a front end may deliver a click on another
one, where MLX could not go on.
"""

import asyncio
import html
import math
import time
from typing import Any

from lablib.conversation import Answer, Conversation, chat_options
from lablib.course.plots.access import aids
from lablib.course.plots.explorer import slider
from lablib.course.plots.pictures import Picture, visible
from lablib.course.plots.strips import surprise_html
from lablib.inference.decoding.token_iterator import Token
from lablib.text_stream import stream
from lablib.unknown_options import check_options, options_of

import ipywidgets as widgets

_EVERY = 0.06  # seconds at least from picture to picture of a growing answer
_A_SECOND = 2e5  # letters to send at most: Jupyter drops what exceeds a million
_SETTLES = 0.15  # seconds: a browser tells that Enter was pressed before it tells what was typed
_NAMES = {"user": "You", "assistant": "Model", "system": "System"}
_BROKEN = "\ufffd"  # what stands for a letter that isn't whole
_BEFORE = 8  # tokens with which one is decoded: a space may depend on what stands before
_ELSE = 3  # other tokens that are named to whoever points at one
# Each picture of a growing answer brings this anew; when none comes any more it is seen.
_QUIET = (
    "<style>@keyframes lablib-quiet{to{visibility:visible}}"
    ".lablib-quiet{visibility:hidden;animation:lablib-quiet 0s 15s forwards}</style>"
    '<small class="lablib-quiet" role="status">Nothing has come for a quarter of a minute. The '
    "model is slow, or its kernel has died: then choose <i>Kernel, Restart Kernel</i>, and run the "
    "cells anew.</small>"
)
_STILL = "(What was said when this notebook was saved: run this cell to go on.)"


def chat(model: Any, tokenizer: Any, draft_model: Any = None, **options: Any) -> "Chat":
    """Return a chat with a model, to be the last line of a notebook's cell.

    Enter sends what was typed; *Stop* ends the answer where it is; *New* begins again. A model
    whose tokenizer has no chat template goes on with your text instead of answering it.

    Args:
        model: as ``load`` returns it.
        tokenizer: as ``load`` returns it.
        draft_model: a smaller model, or a drafter such as ``NGram()``: the same text, sooner.
        **options: those of ``stream``, such as ``temperature=0.7``, and ``messages=``, what was
            said before. Unless they are given, ``max_tokens`` is 256 and a model with a chat
            template answers calmly, at temperature 0.5 with ``top_p=0.9``.

    Raises:
        ValueError, TypeError: an argument is out of range.

    Returns:
        The chat, which shows itself; ``say("Hello")`` waits for an answer.

    Example:
        >>> chat = lablib.chat(model, tokenizer, max_tokens=4)
        >>> answer = asyncio.run(chat.say("On a sunny day, "))
        >>> len(answer.tokens)
        4
    """
    check_options(chat, options, options_of(stream))
    options = chat_options(tokenizer, {"top_logprobs": 1 + _ELSE, **options})
    return Chat(Conversation(model, tokenizer, draft_model, **options))


class Chat:
    """A conversation on the screen.

    Attributes:
        conversation: its :class:`Conversation`.
        box: the widget.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._error, self._asked, self._busy, self._stopping = "", "", False, False
        self._task: asyncio.Task | None = None
        try:
            self._loop = asyncio.get_running_loop()  # the kernel's: here the forwards are made
        except RuntimeError:  # no notebook
            self._loop = None
        self._said, self._view = widgets.HTML(), widgets.HTML()
        self._text = widgets.Text(description="You", placeholder="Say something and press Enter")
        self._text.continuous_update = False  # keys would arrive late, after it was emptied
        self._text.layout, self._text.style.description_width = {"flex": "1 1 18em"}, "2.5em"
        self._text.on_msg(lambda _, content, __: self._on_message(content))
        self._buttons = {
            name: self._button(name, *how)
            for name, how in {
                "Send": ("Send what was typed (Enter)", self._on_send),
                "Stop": ("End the answer here", self.stop),
                "New": ("Begin a new conversation", self.reset),
            }.items()
        }
        self._ids: list[int] = []
        self._pieces: list[str] = []
        warm = max(2.0, conversation.temperature)
        self._heat = slider(float(conversation.temperature), 0.0, warm, 0.1, "temperature")
        self._heat.style.description_width, self._heat.layout.width = "6.5em", "20em"
        self._heat.observe(self._warm, "value")
        row = widgets.HBox([self._text, *self._buttons.values()], layout={"flex_flow": "row wrap"})
        parts = [aids(), self._said, self._view, row, self._heat]
        self.box = widgets.VBox(parts, layout={"max_width": "60em"})
        self.box.add_class("lablib-chat")
        self._draw()

    def send(self, text: str) -> None:
        """Say something, as the *Send* button does; the answer is written by and by.

        Outside of a notebook it has been written when this returns.
        """
        if self._loop is None or self._loop.is_closed():
            asyncio.run(self.say(text))
        else:
            self._loop.call_soon_threadsafe(self._start, text)

    async def say(self, text: str) -> Answer | None:
        """Say something and wait for the answer, in a cell: ``await chat.say("Hello")``.

        Returns:
            The answer; None if there was an error, which is shown, or one is being written already.
        """
        if self._busy:
            return None
        self._busy, self._stopping, self._error, self._asked = True, False, "", text
        self.conversation.answer, drawn = None, -math.inf
        self._draw()
        try:
            for _ in self.conversation.respond(text):
                if time.monotonic() - drawn > max(_EVERY, len(self._view.value) / _A_SECOND):
                    self._draw_answer()
                    drawn = time.monotonic()
                await asyncio.sleep(0)  # here the kernel hears the stop button
                if self._stopping:
                    self.conversation.stop()
        except Exception as error:
            what = (str(error).strip() or "no more is known").splitlines()[0]
            self._error = f"{type(error).__name__}: {what}"
        except KeyboardInterrupt:  # another cell is being interrupted; the kernel must survive it
            self.conversation.stop()
        finally:
            self._busy = False
            self._draw()
        return self.conversation.answer

    def stop(self) -> None:
        """End the answer that is being written; what there is of it stays."""
        self._stopping = True

    def reset(self) -> None:
        """Begin a new conversation."""
        if not self._busy:
            self.conversation.reset()
            self._error = ""
            self._draw()

    @property
    def still(self) -> Picture:
        """Return what was said for readers without a kernel."""
        count = len(self.conversation.messages)
        caption = f"A conversation of {count} messages." if count else "Nothing was said yet."
        said = f"{self._said_html()}{self._answer_html()}<p><small>{_STILL}</small></p>"
        return Picture(said, caption)

    def _button(self, name: str, hint: str, action: Any) -> widgets.Button:
        button = widgets.Button(description=name, tooltip=hint, layout={"width": "5em"})
        button.on_click(lambda _: action())
        return button

    def _on_message(self, content: dict[str, Any]) -> None:
        if content.get("event") != "submit":  # Enter
            return
        if self._loop is None:
            self._on_send()
        else:
            self._loop.call_soon_threadsafe(self._loop.call_later, _SETTLES, self._on_send)

    def _on_send(self) -> None:
        if self._text.value.strip() and not self._busy:
            text, self._text.value = self._text.value, ""
            self.send(text)

    def _start(self, text: str) -> None:
        self._task = self._loop.create_task(self.say(text))

    def _warm(self, change: dict[str, Any]) -> None:
        self.conversation.temperature = change["new"]

    def _draw(self) -> None:
        self._buttons["Send"].disabled = self._buttons["New"].disabled = self._busy
        self._buttons["Stop"].disabled = not self._busy
        self._said.value = self._said_html()
        self._draw_answer()

    def _draw_answer(self) -> None:
        self._view.value = self._answer_html()

    def _said_html(self) -> str:
        """Return all messages, but for an answer that is shown with its tokens."""
        messages = self.conversation.messages
        if self._busy:
            messages = [*messages, {"role": "user", "content": self._asked}]
        elif self.conversation.answer is not None:
            messages = messages[:-1]
        return "".join(_turn(each["role"], str(each.get("content") or "")) for each in messages)

    def _answer_html(self) -> str:
        """Return the last answer with its tokens, an error, or nothing."""
        answer = self.conversation.answer
        if self._error:
            text = html.escape(self._error)
            return f'<pre role="alert" style="white-space:pre-wrap">{text}</pre>'
        if answer is None:
            return _turn("assistant", "…") + _QUIET if self._busy else ""
        told = summary(answer)
        text = Picture(self._coloured(answer), f"The answer: {answer.text} {told}").to_html()
        note = _QUIET if self._busy else f'<small aria-live="polite">{html.escape(told)}</small>'
        return _beside("assistant", text + note)

    def _coloured(self, answer: Answer) -> str:
        kept = [token.from_draft for token in answer.tokens]
        probabilities = [math.exp(token.logprob) for token in answer.tokens]
        drafts = "total_drafted" in answer.stats
        hints = [self._others(token) for token in answer.tokens]
        return surprise_html(self._read(answer), probabilities, kept if drafts else None, hints)

    def _others(self, token: Token) -> str:
        """Return what else might have stood there, with its probability."""
        others = [pair for pair in token.top_logprobs if pair[0] != token.id][:_ELSE]
        decode = self.conversation.tokenizer.decode
        named = [f"“{visible(decode([i]))}” {math.exp(logprob):.1%}" for i, logprob in others]
        return "; else " + ", ".join(named) if named else ""

    def _read(self, answer: Answer) -> list[str]:
        """Return the tokens' texts; a letter that takes several stands at its last."""
        ids, decode = [token.id for token in answer.tokens], self.conversation.tokenizer.decode
        if ids[: len(self._ids)] != self._ids:
            self._ids, self._pieces = [], []
        for end in range(len(self._ids), len(ids)):
            start = max(0, end - _BEFORE)
            before, after = decode(ids[start:end]), decode(ids[start : end + 1])
            self._pieces.append(after.rstrip(_BROKEN)[len(before.rstrip(_BROKEN)) :])
        self._ids = ids
        return self._pieces

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        data, metadata = self.still.bundle()
        view = self.box._repr_mimebundle_()
        return {**view, **data}, metadata


def summary(answer: Answer) -> str:
    """Say in a line how an answer was written."""
    stats = answer.stats
    parts = [f"{stats['tokens']} tokens, {stats['tokens_per_second']:.0f} a second"]
    if "total_drafted" in stats:
        parts.append(f"{stats['total_accepted']} of {stats['total_drafted']} drafts kept")
    reasons = {"length": "max_tokens ended it", "closed": "stopped"}
    parts += filter(None, [reasons.get(stats["finish_reason"])])
    return f"{'; '.join(parts)}."


def _turn(role: str, text: str) -> str:
    return _beside(role, html.escape(text.strip()))


def _beside(role: str, content: str) -> str:
    name = html.escape(_NAMES.get(role, role))
    return (
        '<div style="display:flex;gap:.8em;margin:.3em 0;line-height:1.5">'
        f'<b style="flex:0 0 4em;text-align:right">{name}</b>'
        f'<div style="white-space:pre-wrap;overflow-wrap:anywhere">{content}</div></div>'
    )

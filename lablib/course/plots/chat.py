"""A chat with a model, in a notebook: ``lablib.chat(model, tokenizer)``.

The answer streams in, and below it stand its tokens, coloured by how sure the model was; drafts
that were kept are marked. It is written by a task on the kernel's event loop that steps aside after
each piece, so the stop button works and other cells run in between. All forwards are made on that
loop's thread: a front end may deliver a click on another one, where MLX could not go on.
"""

import asyncio
import html
import math
import time
from typing import Any

from lablib.course.plots.charts import Picture, show, write_below
from lablib.course.plots.conversation import Answer, Conversation
from lablib.course.plots.strips import surprise_html

import ipywidgets as widgets

_EVERY = 0.06  # seconds at least from picture to picture of a growing answer
_A_SECOND = 2e5  # letters to send at most: Jupyter drops what exceeds a million
_SETTLES = 0.15  # seconds: a browser tells that Enter was pressed before it tells what was typed
_NAMES = {"user": "You", "assistant": "Model", "system": "System"}
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
            said before. ``max_tokens`` is 256 unless it is given.

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
    return Chat(Conversation(model, tokenizer, draft_model, **{"max_tokens": 256, **options}))


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
        row = widgets.HBox([self._text, *self._buttons.values()], layout={"flex_flow": "row wrap"})
        self.box = widgets.VBox([self._said, self._view, row], layout={"max_width": "60em"})
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
        return show(write_below(self._said_html() + self._answer_html(), _STILL), caption)

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
        return "".join(_turn(each["role"], each["content"]) for each in messages)

    def _answer_html(self) -> str:
        """Return the last answer with its tokens, an error, or nothing."""
        answer = self.conversation.answer
        if self._error:
            text = html.escape(self._error)
            return f'<pre role="alert" style="white-space:pre-wrap">{text}</pre>'
        if answer is None:
            return _turn("assistant", "…") if self._busy else ""
        told = summary(answer)
        strip = Picture(self._strip(answer), f"The tokens of the answer. {told}").to_html()
        note = f'<small aria-live="polite">{"" if self._busy else html.escape(told)}</small>'
        return f"{_turn('assistant', answer.text)}{strip}{note}"

    def _strip(self, answer: Answer) -> str:
        tokenizer = self.conversation.tokenizer
        texts = [tokenizer.decode([token.id]) for token in answer.tokens]
        kept = [token.from_draft for token in answer.tokens]
        probabilities = [math.exp(token.logprob) for token in answer.tokens]
        drafts = "total_drafted" in answer.stats
        return surprise_html(texts, probabilities, kept if drafts else None)

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
    name, text = html.escape(_NAMES.get(role, role)), html.escape(text.strip())
    return (
        '<div style="display:flex;gap:.8em;margin:.3em 0;line-height:1.5">'
        f'<b style="flex:0 0 4em;text-align:right">{name}</b>'
        f'<div style="white-space:pre-wrap;overflow-wrap:anywhere">{text}</div></div>'
    )

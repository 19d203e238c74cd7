"""A conversation and its widget, without a browser: scripted models, and the kernel's loop."""

import asyncio
import html
import re
import threading

from lablib.cache import kv
from lablib.conversation import Conversation
from lablib.course.plots import chat as chats
from lablib.course.plots.chat import Chat, chat
from lablib.course.plots.strips import LOOKS, surprise_html
from lablib.course.tasks import save_pretrained
from lablib.inference import NGram
from lablib.inference.speculation import EarlyExit
from lablib.models import LanguageModel, hybrid_config, llama_config, load
from lablib.text import generate
from lablib.text_stream import stream

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer
from oracles.refusals import refuses
from oracles.scripted import scripted

TEMPLATE = (
    "{% for m in messages %}{{ '<s>' + m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant: ' }}{% endif %}"
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    save_pretrained(path)
    return load_tokenizer(path)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("templated")
    save_pretrained(path)
    tokenizer = load_tokenizer(path)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


class Counted(LanguageModel):
    read = 0

    def __call__(self, tokens, *arguments, **keywords):
        self.read += tokens.size
        return super().__call__(tokens, *arguments, **keywords)


@pytest.fixture(scope="module", params=[llama_config, hybrid_config], ids=["llama", "hybrid"])
def model(request, plain):
    return Counted(request.param(len(plain), 32, 2, 2), seed=3)


@pytest.fixture(scope="module")
def drafts(plain):
    return {
        "none": None, "model": LanguageModel(llama_config(len(plain), 32, 1, 2), seed=4),
        "look up": NGram(), "early exit": EarlyExit(1),
    }  # fmt: skip


def last(answers):
    return [*answers][-1]


@pytest.mark.grid(lambda model, draft, more: not more or draft in ("none", "model"))
@pytest.mark.parametrize("draft", ["none", "model", "look up", "early exit"])
@pytest.mark.parametrize(
    "more", [{}, {"stop": "e"}, {"repeat_penalty": 1.5}, {"presence_penalty": 1.5}]
)
def test_an_answer_is_what_generate_answers_to_all_messages(model, tokenizer, drafts, draft, more):
    """Whether the caches were used again or not: reusing them changes no token."""
    options = {"draft_model": drafts[draft], "max_tokens": 12, "seed": 7, "rule": "match", **more}
    if draft == "none":
        options.pop("rule")
    talk = Conversation(model, tokenizer, **options)
    for turn, said in enumerate(["Hello", "Why is that?", "I see."]):
        asked = [*talk.messages, {"role": "user", "content": said}]
        answer = last(talk.respond(said))
        alone = generate(model, tokenizer, messages=asked, stream=turn, **options)
        assert answer.text == alone
        assert [token.id for token in answer.tokens] == alone.tokens
        assert answer.stats["finish_reason"] == alone.finish_reason
        assert talk.messages == [*asked, {"role": "assistant", "content": alone}]


def test_the_caches_are_read_on_from_where_the_new_turn_differs(plain, tokenizer):
    model = Counted(llama_config(len(plain), 32, 2, 2), seed=3)
    draft = Counted(llama_config(len(plain), 32, 1, 2), seed=4)
    penalty, other = {"repeat_penalty": 1.3}, {"logits_processors": [lambda _, logits: logits]}
    kinds = (None, {}), (draft, {}), (None, penalty), (draft, penalty), (NGram(), {}), (None, other)
    for drafter, more in kinds:
        talk = Conversation(model, tokenizer, drafter, max_tokens=8, seed=1, **more)
        last(talk.respond("Hello " * 40))
        before = len(stream(model, tokenizer, messages=talk.messages).iterator.prompt)
        model.read = draft.read = 0
        last(talk.respond("Why?"))
        assert talk.reused > before - 20
        assert model.read < 80
        assert draft.read < 80
        # Stopped in the middle of an answer, or of a text that is tokenised anew: the same.
        for _ in talk.respond("And?"):
            if len(talk.answer.tokens) == 3:
                talk.stop()
        assert talk.answer.stats["finish_reason"] == "closed"
        last(talk.respond("So."))
        assert talk.reused > before
        assert kv.offset(talk._caches["cache"]) == len(talk._read)


def test_a_model_without_a_template_goes_on_with_the_text(model, plain):
    options = {"max_tokens": 3, "seed": 5}
    talk = Conversation(model, plain, **options)
    first = last(talk.respond("On a"))
    assert first.stats["finish_reason"] == "length"
    second = last(talk.respond(" day"))
    assert second.text == generate(model, plain, f"On a{first.text} day", stream=1, **options)
    # Where the model ends it, the next message begins another text.
    talk = Conversation(model, plain, stop_tokens=range(len(plain)), **options)
    assert last(talk.respond("On a")).stats["finish_reason"] == "stop"
    answer = last(talk.respond("In a"))
    alone = generate(model, plain, "In a", stream=1, stop_tokens=range(len(plain)), **options)
    assert [token.id for token in answer.tokens] == alone.tokens
    assert [each["content"] for each in talk.messages] == ["On a", "", "In a", ""]


def test_a_cache_that_cannot_go_back_is_read_on_where_the_text_only_grows():
    model, tokenizer = load("hybrid")
    talk = Conversation(model, tokenizer, max_tokens=8, seed=1)
    last(talk.respond("Mia finds a red ball."))
    read = len(talk._read)
    last(talk.respond(" Then"))
    assert talk.reused == read > 8


def test_an_error_leaves_the_conversation_as_it_was(tokenizer):
    model = scripted(tokenizer, [40, 50, 60])
    talk = Conversation(model, tokenizer, max_tokens=30, temperature=0)
    last(talk.respond("One"))
    before = list(talk.messages)

    def fail(call):
        raise RuntimeError("out of memory\nand more")

    model.hook = fail
    refuses(RuntimeError, "out of memory", last, talk.respond("Two"))
    assert (talk.messages, talk.answer) == (before, None)
    model.hook = lambda call: None
    last(talk.respond("Two"))
    assert talk.reused == 0
    assert len(talk.messages) == 4


def test_the_next_message_and_reset_end_an_answer(tokenizer):
    talk = Conversation(scripted(tokenizer, [40]), tokenizer, max_tokens=30, temperature=0)
    first = talk.respond("One")
    next(first)
    last(talk.respond("Two"))
    assert list(first) == []
    assert [each["content"] for each in talk.messages][::2] == ["One", "Two"]
    assert len(talk.messages) == 4
    started = talk.respond("Three")
    next(started)
    talk.reset()
    assert (talk.messages, talk.answer, list(started)) == ([], None, [])
    begun = [{"role": "system", "content": "Be brief."}]
    talk = Conversation(scripted(tokenizer, [40]), tokenizer, messages=begun, max_tokens=2)
    last(talk.respond("One"))
    assert talk.messages[0] == begun[0]
    talk.reset()
    assert talk.messages == begun


def test_bad_input_is_refused_at_the_call(plain, tokenizer):
    model = scripted(plain, [40])
    for options, message in (
        ({"temperature": -1}, "temperature must be"),
        ({"cache": []}, "cache cannot be given: a conversation has its own"),
        ({"stream": 1}, "stream cannot be given"),
        ({"trace": True}, "trace cannot be given: a conversation shows no verdicts"),
        ({"cached_tokens": []}, "cached_tokens cannot be given"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"stop": ""}, "stop must be of strings"),
        ({"tempature": 1}, "unknown option 'tempature'"),
        ({"messages": [{"role": "user"}]}, "messages must be dicts"),
        ({"draft_model": 3}, "draft_model must be a model"),
    ):
        refuses((ValueError, TypeError), message, chat, model, tokenizer, **options)
    with pytest.raises(ValueError, match="messages need a chat template"):
        chat(model, plain, messages=[{"role": "user", "content": "x"}])
    refuses(TypeError, "tokenizer must be", chat, model, None)
    talk = Conversation(model, tokenizer)
    for text in ("", "  ", None, 3):
        refuses((ValueError, TypeError), "text must", talk.respond, text)
    assert model.calls == []


# --- the widget -------------------------------------------------------------------------------
def shown(talk):
    return re.sub(r"<style>.*?</style>", "", talk._said.value + talk._view.value)


def test_the_view_shows_what_was_said_the_tokens_and_the_drafts(tokenizer):
    model = scripted(tokenizer, tokenizer.encode("Mia & Leo <find> a kite." * 20))
    talk = chat(model, tokenizer, NGram(), max_tokens=60, temperature=0)
    assert talk._buttons["Stop"].disabled
    assert talk.still.caption == "Nothing was said yet."
    talk.send("Hello <b>you</b>")
    page = shown(talk)
    assert "Hello &lt;b&gt;you&lt;/b&gt;" in page
    assert page.count("<span") == 60 + len(LOOKS) + 1
    assert 'class="l0 kept"' in page
    assert re.search(r"60 tokens, \d+ a second; \d+ of \d+ drafts kept; max_tokens ended it", page)
    assert talk._buttons["Stop"].disabled
    assert not talk._buttons["Send"].disabled
    talk.send("More")
    assert shown(talk).count(">You<") == 2
    assert shown(talk).count('class="lablib-strip"') == 1  # of the last answer
    data, _ = talk._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == "A conversation of 4 messages."
    assert "Hello" in data["text/html"]
    assert "run this cell to go on" in data["text/html"]
    talk._buttons["New"].click()
    assert shown(talk) == ""


def test_a_call_of_a_tool_has_nothing_to_show(tokenizer):
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "add"}}]}
    for own in ({}, {"content": None}):
        talk = chat(scripted(tokenizer, [40]), tokenizer, messages=[{**call, **own}], max_tokens=2)
        talk.send("Hello")
        assert "None" not in shown(talk)
        assert len(talk.conversation.messages) == 3


def test_the_text_stands_there_once_and_each_token_names_its_rivals(tokenizer):
    for words in ("Mia & Leo <find> a kite.\n\nIt is “blue”: 🪁 été.", " Late, on a"):
        ids = tokenizer.encode(words, add_special_tokens=False)
        talk = chat(scripted(tokenizer, ids), tokenizer, max_tokens=len(ids), temperature=0)
        talk.send("Hello")
        answer = talk.conversation.answer
        assert "".join(talk._read(answer)).strip() == answer.text.strip()
        page = html.unescape(re.sub(r"<[^>]+>", "", shown(talk)))
        assert page.count(answer.text.strip()) == 1
        titles = re.findall(r'title="([^"]*)"', shown(talk))
        assert len(titles) == len(ids)
        rivals = answer.tokens[0].top_logprobs[1:]
        assert titles[0].count("“") == len(rivals) == 3


def test_the_slider_sets_the_temperature_of_the_next_answer(model, plain, tokenizer):
    talk = chat(model, plain, max_tokens=12, seed=1)
    assert talk._heat.value == talk.conversation.temperature == 1.0
    talk.send("On a")
    talk._buttons["New"].click()
    talk._heat.value = 0.0
    talk.send("On a")
    alone = generate(model, plain, "On a", max_tokens=12, temperature=0, seed=1)
    assert talk.conversation.answer.text == alone
    with pytest.raises(ValueError, match="temperature must be"):
        talk.conversation.temperature = -1
    assert talk.conversation.temperature == 0.0
    # A model that was trained to chat is asked calmly, unless somebody says how.
    calm, own = chat(model, tokenizer), chat(model, tokenizer, temperature=1.5)
    assert (calm._heat.value, calm.conversation._options["top_p"]) == (0.5, 0.9)
    assert (own._heat.value, own.conversation._options.get("top_p")) == (1.5, None)


def test_a_kernel_that_says_nothing_any_more_is_spoken_of(tokenizer, monkeypatch):
    monkeypatch.setattr(chats, "_EVERY", 0)
    talk, seen = chat(scripted(tokenizer, [40]), tokenizer, max_tokens=5), []
    talk._view.observe(lambda change: seen.append("lablib-quiet" in change["new"]), "value")
    talk.send("Hello")
    assert len(seen) > 2
    assert all(seen[:-1])
    assert not seen[-1]


def test_an_error_is_one_line_in_the_view_and_the_next_message_works(tokenizer):
    model = scripted(tokenizer, [40])
    talk = chat(model, tokenizer, max_tokens=3)

    def fail(call):
        raise RuntimeError("no <memory>\nat all")

    model.hook = fail
    talk.send("One")
    assert '<pre role="alert"' in shown(talk)
    assert "RuntimeError: no &lt;memory&gt;</pre>" in shown(talk)
    assert not talk._buttons["Send"].disabled
    model.hook = lambda call: None
    talk.send("Two")
    assert "alert" not in shown(talk)
    assert talk.conversation.messages[0]["content"] == "Two"


def test_enter_sends_what_was_typed_once(tokenizer):
    talk = chat(scripted(tokenizer, [40]), tokenizer, max_tokens=3)
    talk._text.value = "  "
    talk._text._handle_custom_msg({"event": "submit"}, [])
    assert talk.conversation.messages == []
    talk._text.value = "Hello"
    talk._text._handle_custom_msg({"event": "submit"}, [])
    talk._text._handle_custom_msg({"event": "submit"}, [])
    assert talk._text.value == ""
    assert len(talk.conversation.messages) == 2


def test_other_tasks_run_in_between_and_the_stop_button_ends_it(tokenizer, monkeypatch):
    monkeypatch.setattr(chats, "_EVERY", 0)
    model, threads = scripted(tokenizer, [40]), set()
    model.hook = lambda call: threads.add(threading.get_ident())

    async def main():
        talk = Chat(Conversation(model, tokenizer, max_tokens=400, temperature=0))
        # As in JupyterLab with ipykernel 7: a click comes in a thread of its own.
        clicks = threading.Thread(target=talk.send, args=("Hello",))
        clicks.start()
        seen = []
        while len(seen) < 10:
            await asyncio.sleep(0)
            if talk.conversation.answer:
                seen.append(len(talk.conversation.answer.tokens))
                assert not talk._buttons["Stop"].disabled
                assert talk._buttons["Send"].disabled
        assert await talk.say("Too soon") is None
        talk._buttons["Stop"].click()
        await talk._task
        clicks.join()
        return talk, seen

    talk, seen = asyncio.run(main())
    assert seen == sorted(seen)
    assert seen[-1] <= len(talk.conversation.answer.tokens) < 30
    assert talk.conversation.answer.stats["finish_reason"] == "closed"
    assert "; stopped." in shown(talk)
    assert [each["role"] for each in talk.conversation.messages] == ["user", "assistant"]
    assert threads == {threading.get_ident()}


def test_an_interrupt_ends_the_answer_and_spares_the_loop(tokenizer):
    model = scripted(tokenizer, [40])

    def interrupt(call):
        if call == 9:
            raise KeyboardInterrupt

    model.hook = interrupt
    talk = chat(model, tokenizer, max_tokens=400, temperature=0)
    talk.send("Hello")
    assert talk.conversation.answer.text
    assert len(talk.conversation.messages) == 2
    assert not talk._busy


def test_the_strip_marks_sureness_and_drafts():
    texts, hints = [" a", "\n", "<"], ["; else “␣b” 4.0%", "", ""]
    strip = surprise_html(texts, [0.95, 0.2, 0.005], [True, False, False], hints)
    assert '<span class="l0 kept" title="95.0%; else “␣b” 4.0%"> a</span>' in strip
    assert '<span class="l2" title="20.0%">\n</span>' in strip
    assert '<span class="l3" title="0.5%">&lt;</span>' in strip
    assert "a draft that was kept" in strip
    assert "draft" not in surprise_html(["a"], [0.5], None, [""])

"""Exercises of lesson 12: chat templates, a cache's bytes, the fastest pace; pairs lie beside."""

from collections.abc import Iterator
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges
from lablib.course.lessons.lesson_12.exercises_pairs import COMPARED  # noqa: F401 (one of these)

import numpy as np

Messages = list[dict[str, str]]
DEFAULT = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

# ------------------------------------------------------------------ 12.1 the chat template


def render(messages, default, ask):
    """Return the text that a chat model reads for these messages.

    messages: a list of {"role": ..., "content": ...}, perhaps empty.   default: a text.
    Each message is <|im_start|>role, a line end, content<|im_end|>, a line end. If there is a first
    message and its role is not "system", a system message with the default comes before it.
    ask: whether to end with <|im_start|>assistant and a line end, so that the model answers.
    """
    text = ""
    if messages and messages[0]["role"] != "system":
        text += f"<|im_start|>system\n{default}<|im_end|>\n"
    for message in messages:
        text += f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
    return text + "<|im_start|>assistant\n" * ask


def render_by_joining(messages, default, ask):
    turns = [(message["role"], message["content"]) for message in messages]
    if turns and turns[0][0] != "system":
        turns.insert(0, ("system", default))
    pieces = ["<|im_start|>" + role + "\n" + content + "<|im_end|>\n" for role, content in turns]
    if ask:
        pieces.append("<|im_start|>assistant\n")
    return "".join(pieces)


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _chats(rng: np.random.Generator) -> Iterator[tuple[Messages, str, bool]]:
    hello, answer = _message("user", "Hello."), _message("assistant", "Hi!\nSo?")
    system = _message("system", "In rhymes.")
    yield [hello], "Be brief.", True
    yield [hello], "Be brief.", False
    yield [system, hello], "Be brief.", True
    yield [hello, answer, _message("user", "  Fine.\n")], "", True
    yield [hello, system, answer], "Be brief.", False  # a system message that is not the first
    yield [], "Be brief.", True
    yield [system], "Be brief.", False
    yield [_message("system", " A\n \n")], "", False  # kept as it is
    yield [_message("system", "A"), _message("system", "B")], "", False


def _odd_chats(rng: np.random.Generator) -> Iterator[tuple[Messages, str, bool]]:
    yield [], "Be brief.", False
    yield [_message("user", "")], "", True
    yield [_message("assistant", "Hi")], "Be brief.", True  # the answer is to go on
    yield [_message("system", "")], "Be brief.", True  # an empty system message is one
    yield [{"content": "No.", "role": "System"}], "Be brief.", False  # another role than "system"
    yield [_message("system_note", "No.")], "Be brief.\n", False  # the default is kept as it is
    yield [_message("system", "A"), _message("user", ""), _message("user", "B")], "", False
    yield [_message("user", "Hi"), _message("user", "Hi")], "Hi", False  # equal, and both are said
    yield [_message("system", "role content")], "", False  # the names of the keys are words, too
    yield [_message("system", "<|im_end|>")], "", False
    yield [_message("tool", "{'a': ½}"), _message("user", "<|im_end|>")], "Be brief.", True
    yield [_message("user", "{role} {default} %s %%\r\n\t")], "{x}", True
    yield [_message("user", "Hi"), _message("system", "A")], "B", False  # not first, and the last
    yield [_message("system", "\n\nA\n\n\\n\n\n")], "", False  # empty lines belong to the message
    roles = ["user", "assistant", "system", "tool"]
    for _ in range(4):
        turns = [_message(str(rng.choice(roles)), f"{i}?\n") for i in range(int(rng.integers(6)))]
        yield turns, "Be brief.", bool(rng.integers(2))


RENDER = Exercise(
    id="12.1",
    title="A chat template",
    task=(
        "A chat model has read millions of texts of one form. One line end more or less, and it "
        "reads something that it has never seen. Write the form for a list of messages, exactly."
    ),
    stars=1,
    minutes=7,
    reference=render,
    alternatives=[render_by_joining],
    wrong={
        changed(
            render, "no_default", 'messages and messages[0]["role"] != "system"', "False"
        ): "without a system message first, one with the default text has to come.",
        changed(
            render, "default_always", 'messages and messages[0]["role"] != "system"', "True"
        ): "the default comes only where no system message is the first one.",
        changed(
            render,
            "default_unless_anywhere",
            'messages and messages[0]["role"] != "system"',
            'messages and all(m["role"] != "system" for m in messages)',
        ): ("a system message further on does not count: only the *first* message is looked at."),
        changed(
            render,
            "default_without_messages",
            "messages and messages[0]",
            "not messages or messages[0]",
        ): "no messages, no default: there is no first message.",
        changed(
            render,
            "no_line_after_the_end",
            "return text",
            'return text.replace("<|im_end|>\\n", "<|im_end|>")',
        ): "after each <|im_end|> comes a line end.",
        changed(
            render,
            "role_and_text_in_one_line",
            "return text",
            'return __import__("re").sub(r"(>\\w+)\\n", r"\\1 ", text)',
        ): "between a role and its text comes a line end, not a space.",
        changed(
            render, "always_asks", "* ask", "* 1"
        ): "you open the assistant's turn also where ask is False.",
        changed(render, "never_asks", "* ask", "* 0"): (
            "ask is True and the assistant's turn is not opened: the model may go on with another "
            "question of the user."
        ),
        changed(render, "closes_the_answer", 'assistant\\n"', 'assistant\\n<|im_end|>\\n"'): (
            "the assistant's turn must stay open: after <|im_end|> there is nothing to answer."
        ),
        changed(
            render, "no_line_after_assistant", 'assistant\\n"', 'assistant"'
        ): "after the last <|im_start|>assistant comes a line end, too.",
        changed(
            render, "strips", "message['content']", "message['content'].strip()"
        ): "a message is kept as it is, with the white space at its ends.",
    },
    cases=_chats,
    checker=edges(_odd_chats),
    tolerance=0.0,
    hints=[
        "One helper for one message makes it short: role and content in, four lines out as text.",
        'Look at messages[0] only if there is one; "text" * ask is "" where ask is False.',
    ],
    next="What happens if a user writes <|im_end|> into a message? Who has to prevent that?",
    further=True,
)

# ------------------------------------------------------------------ 12.2 bytes of a cache


def bytes_per_token(config, bits, group_size=None, scale_bits=32):
    """Return the bytes that the KV cache grows by with each token.

    config: as in a config.json: "num_hidden_layers", "num_attention_heads", "hidden_size", and
        perhaps "num_key_value_heads" (else as many as heads) and "head_dim" (else the hidden size
        divided by the heads).
    bits: of one number.   group_size: None, or so many numbers share a scale and an offset, each
        of scale_bits bits.
    """
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads", heads)
    head_dim = config.get("head_dim", config["hidden_size"] // heads)
    numbers = 2 * config["num_hidden_layers"] * kv_heads * head_dim
    extra = 0 if group_size is None else 2 * scale_bits / group_size
    return numbers * (bits + extra) / 8


def bytes_by_parts(config, bits, group_size=None, scale_bits=32):
    heads = config["num_attention_heads"]
    size = config.get("head_dim") or config["hidden_size"] / heads
    key = size * (config.get("num_key_value_heads") or heads)
    total = key * bits / 8
    if group_size:
        total += key / group_size * (scale_bits + scale_bits) / 8
    return sum(total + total for _ in range(config["num_hidden_layers"]))


def _config(layers: int, width: int, heads: int, **more: int) -> dict[str, int]:
    sizes = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
    return {**sizes, **more}


def _configs(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield _config(30, 576, 9, num_key_value_heads=3), 32  # SmolLM2
    yield _config(30, 576, 9, num_key_value_heads=3), 8, 64, 32
    yield _config(3, 576, 9, num_key_value_heads=3, head_dim=128), 16
    yield _config(2, 256, 4), 16
    yield _config(2, 256, 4), 4, 32, 16
    for bits in (2, 4, 8):
        more = {"num_key_value_heads": int(rng.choice([1, 2, 4]))}
        config = _config(int(rng.integers(2, 60)), 1024, 8, **more)
        yield config, bits, int(rng.choice([32, 64, 128])), int(rng.choice([16, 32]))


def _odd_configs(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield _config(2, 64, 4, num_key_value_heads=2), 8, 16  # scale_bits left out
    yield _config(1, 64, 4), 16, None, 16
    yield _config(1, 64, 4), 4  # few bits, and no groups
    yield _config(1, 64, 2), 4, 64, 16  # half a bit for each number
    yield _config(1, 64, 2), 3, 32, 32  # bits that don't divide eight
    yield _config(1, 64, 2), 32, 32, 32  # many bits, and scales all the same
    yield _config(1, 64, 2), 16, 1, 8  # a group of one
    yield _config(2, 96, 3, num_key_value_heads=1), 4, 128, 16  # a group over several heads
    yield _config(4, 64, 4, num_key_value_heads=1, head_dim=32), 4, 32, 16
    yield _config(1, 64, 4, head_dim=8), 16
    yield _config(2, 64, 4, vocab_size=9, intermediate_size=7, torch_dtype=1), 16


BYTES = Exercise(
    id="12.2",
    title="The cache of a config",
    task=(
        "How many bytes does each token add to the KV cache of a model of which you have only the "
        "`config.json`? The number may be rounded to few bits; then groups of numbers share a "
        "scale and an offset, and those take room as well."
    ),
    stars=2,
    minutes=8,
    reference=bytes_per_token,
    alternatives=[bytes_by_parts],
    wrong={
        changed(
            bytes_per_token, "every_query_head", 'config.get("num_key_value_heads", heads)', "heads"
        ): ("only the key/value heads are kept: with grouped heads there are fewer of them."),
        changed(
            bytes_per_token,
            "head_dim_always_divided",
            'config.get("head_dim", config["hidden_size"] // heads)',
            'config["hidden_size"] // heads',
        ): ("where the config gives head_dim it need not be the hidden size over the heads."),
        changed(
            bytes_per_token,
            "divided_by_kv_heads",
            '"hidden_size"] // heads',
            '"hidden_size"] // kv_heads',
        ): ("the width is divided by the *query* heads; the key/value heads have the same size."),
        changed(
            bytes_per_token, "keys_only", "numbers = 2 *", "numbers ="
        ): "half is missing: a token leaves a key and a value.",
        changed(
            bytes_per_token, "one_layer", 'config["num_hidden_layers"] * ', ""
        ): "that is one layer: each keeps its own keys and values.",
        changed(bytes_per_token, "in_bits", " / 8", ""): "those are bits; wanted are bytes.",
        changed(
            bytes_per_token, "scales_forgotten", "(bits + extra)", "bits"
        ): "each group also keeps a scale and an offset, of scale_bits bits each.",
        changed(bytes_per_token, "no_offset", "else 2 * scale_bits", "else scale_bits"): (
            "a group keeps two numbers beside its own: a scale *and* an offset. (The same number "
            "comes out where only the groups of the keys are counted; the values have theirs.)"
        ),
        changed(
            bytes_per_token, "a_scale_for_each_number", " / group_size", ""
        ): "group_size numbers share one scale and one offset.",
        changed(
            bytes_per_token, "scale_bits_as_bytes", "else 2 *", "else 16 *"
        ): "scale_bits are bits already, as bits are.",
        changed(
            bytes_per_token,
            "scales_without_groups",
            "0 if group_size is None else 2 * scale_bits / group_size",
            "2 * scale_bits / (group_size or 64)",
        ): "without a group size nothing is rounded, and there are no scales.",
    },
    cases=_configs,
    checker=edges(_odd_configs),
    hints=[
        "Count the numbers first: keys and values, layers, key/value heads, numbers of a head.",
        "A number takes bits, and its share of the group: 2 * scale_bits / group_size more.",
    ],
    next="From which length on is this model's cache larger than its weights?",
    further=True,
)

# ------------------------------------------------------------------ 12.3 the roofline


def best_speedup(drafts, batch, weights, bandwidth, work, speed):
    """Return the highest speed-up that speculation can have on a machine.

    A forward moves all weights (bytes) once, at bandwidth (bytes a second), and does `work`
    operations for each token of each text, at `speed` operations a second. Both go on at the same
    time, so it takes as long as the slower of the two. batch texts are decoded side by side.
    At best all drafts are kept and cost nothing; the forward that checks them adds one token more.
    """

    def seconds(tokens):
        return max(weights / bandwidth, batch * tokens * work / speed)

    return (drafts + 1) * seconds(1) / seconds(drafts + 1)


def best_speedup_in_rates(drafts, batch, weights, bandwidth, work, speed):
    tokens = np.array([batch, batch * (drafts + 1)], dtype=float)
    times = np.maximum(weights / bandwidth, tokens * work / speed)
    plain, speculative = tokens / times
    return speculative / plain


def _machines(rng: np.random.Generator) -> Iterator[tuple[float, ...]]:
    machine = 540e6, 12e9, 270e6, 50e9  # weights, bandwidth, work, speed
    for drafts, batch in ((4, 1), (4, 8), (12, 1), (12, 3), (1, 64), (7, 2)):
        yield drafts, batch, *machine
    yield 1, 2, 1, 1, 3, 1  # arithmetic sets the pace of one text alone
    yield 3, 1, 16e9, 3.3e12, 16e9, 900e12
    yield 3, 200, 16e9, 3.3e12, 16e9, 900e12
    for _ in range(6):
        low = rng.uniform(0.5, 2, size=4).round(2)  # few digits: a case can be pasted
        yield (
            int(rng.integers(1, 16)),
            int(rng.integers(1, 20)),
            *(low * [500e6, 12e9, 270e6, 50e9]),
        )


def _odd_machines(rng: np.random.Generator) -> Iterator[tuple[float, ...]]:
    yield 0, 1, 540e6, 12e9, 270e6, 50e9  # plain decoding
    yield 0, 500, 540e6, 12e9, 270e6, 50e9
    yield 4, 1, 1.0, 1.0, 1.0, 1e9
    yield 4, 2, 8, 2, 1, 1  # 4 seconds to move, 2 and 10 to compute
    yield 3, 1, 8, 2, 1, 1  # both take as long
    yield 1, 9, 8, 2, 1, 2  # bound by arithmetic from the start
    yield 2, 1, 1, 10, 1, 4  # seconds below one


BEST = Exercise(
    id="12.3",
    title="Never faster than this",
    task=(
        "A machine moves bytes and does arithmetic, and the slower of the two sets the pace: that "
        "is its *roofline*. Compute how much speculation can gain at best, for one text or for a "
        "batch."
    ),
    stars=2,
    minutes=8,
    reference=best_speedup,
    alternatives=[best_speedup_in_rates],
    wrong={
        changed(
            best_speedup,
            "one_after_the_other",
            "max(weights / bandwidth, batch * tokens * work / speed)",
            "weights / bandwidth + batch * tokens * work / speed",
        ): "moving and computing go on at the same time: the slower one counts.",
        changed(
            best_speedup, "the_faster_counts", "max(", "min("
        ): "the *slower* of the two sets the pace. (The same numbers come out where the seconds of "
        "the forward that checks are divided by those of a plain one.)",
        changed(
            best_speedup,
            "memory_only",
            "max(weights / bandwidth, batch * tokens * work / speed)",
            "weights / bandwidth",
        ): ("with many tokens in a forward the arithmetic takes longer than moving the weights."),
        changed(
            best_speedup,
            "arithmetic_only",
            "max(weights / bandwidth, batch * tokens * work / speed)",
            "batch * tokens * work / speed",
        ): (
            "with few tokens moving the weights takes longer than the arithmetic, and they are "
            "moved once for all tokens of a forward, not once for each."
        ),
        changed(best_speedup, "batch_forgotten", "batch * tokens", "tokens"): (
            "each text of the batch has its own tokens: batch times the work, while the weights "
            "are moved once for all."
        ),
        changed(
            best_speedup, "no_token_beside_the_drafts", "return (drafts + 1)", "return drafts"
        ): "the forward that checks γ drafts yields γ + 1 tokens.",
        changed(best_speedup, "checks_one_too_few", "/ seconds(drafts + 1)", "/ seconds(drafts)"): (
            "the forward reads the last token and the drafts: γ + 1 tokens of each text."
        ),
        changed(
            best_speedup, "counts_all_rows", "return (drafts", "return batch * (drafts"
        ): "both ways write batch texts: in a ratio that cancels out.",
        changed(
            best_speedup,
            "upside_down",
            "(drafts + 1) * seconds(1) / seconds(drafts + 1)",
            "seconds(drafts + 1) / seconds(1) / (drafts + 1)",
        ): "that is the time it takes, not the speed-up: turn it round.",
        changed(
            best_speedup, "plain_moves_only", "seconds(1)", "weights / bandwidth"
        ): "plain decoding does arithmetic too, and at a large batch that counts.",
    },
    cases=_machines,
    checker=edges(_odd_machines),
    hints=[
        "Write seconds(tokens) for one forward first: the larger of two times.",
        "Tokens a second with and without: (γ + 1) / seconds(γ + 1) over 1 / seconds(1).",
    ],
    next="At which batch does a single draft gain nothing any more, on your machine?",
)

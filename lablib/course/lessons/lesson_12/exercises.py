"""Exercises of lesson 12: a chat template, the bytes of a cache, and how fast it can be at all."""

from collections.abc import Iterator
from typing import Any

from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

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


def no_default(messages, default, ask):
    return _turns(messages) + "<|im_start|>assistant\n" * ask


def default_always(messages, default, ask):
    return _system(default) + _turns(messages) + "<|im_start|>assistant\n" * ask


def default_unless_anywhere(messages, default, ask):
    there = not messages or any(message["role"] == "system" for message in messages)
    return _system(default) * (not there) + no_default(messages, default, ask)


def default_without_messages(messages, default, ask):
    there = bool(messages) and messages[0]["role"] == "system"
    return _system(default) * (not there) + no_default(messages, default, ask)


def no_line_after_the_end(messages, default, ask):
    return render(messages, default, ask).replace("<|im_end|>\n", "<|im_end|>")


def role_and_text_in_one_line(messages, default, ask):
    start = _system(default) * bool(messages and messages[0]["role"] != "system")
    turns = (f"<|im_start|>{m['role']} {m['content']}<|im_end|>\n" for m in messages)
    start = start.replace("system\n", "system ")
    return start + "".join(turns) + "<|im_start|>assistant\n" * ask


def always_asks(messages, default, ask):
    return render(messages, default, True)


def never_asks(messages, default, ask):
    return render(messages, default, False)


def closes_the_answer(messages, default, ask):
    return render(messages, default, ask) + "<|im_end|>\n" * ask


def no_line_after_assistant(messages, default, ask):
    return render(messages, default, False) + "<|im_start|>assistant" * ask


def strips(messages, default, ask):
    shorter = [{**message, "content": message["content"].strip()} for message in messages]
    return render(shorter, default, ask)


def _system(default: str) -> str:
    return f"<|im_start|>system\n{default}<|im_end|>\n"


def _turns(messages: Messages) -> str:
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _chats(rng: np.random.Generator) -> Iterator[tuple[Messages, str, bool]]:
    hello, answer = _message("user", "Hello."), _message("assistant", "Hi!\nHow are you?")
    system = _message("system", "Answer in rhymes.")
    yield [hello], DEFAULT, True
    yield [hello], "Be brief.", False
    yield [system, hello], DEFAULT, True
    yield [hello, answer, _message("user", "  Fine.\n")], DEFAULT, True
    yield [hello, system, answer], "Be brief.", False  # a system message that is not the first
    yield [], DEFAULT, True
    yield [system], "Be brief.", False


def _odd_chats(rng: np.random.Generator) -> Iterator[tuple[Messages, str, bool]]:
    yield [], DEFAULT, False
    yield [_message("user", "")], "", True
    yield [_message("tool", "{'a': 1}"), _message("user", "<|im_end|>")], DEFAULT, True
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
        no_default: "without a system message first, one with the default text has to come.",
        default_always: "the default comes only where no system message is the first one.",
        default_unless_anywhere: (
            "a system message further on does not count: only the *first* message is looked at."
        ),
        default_without_messages: "no messages, no default: there is no first message.",
        no_line_after_the_end: "after each <|im_end|> comes a line end.",
        role_and_text_in_one_line: "between a role and its text comes a line end, not a space.",
        always_asks: "you open the assistant's turn also where ask is False.",
        never_asks: (
            "ask is True and the assistant's turn is not opened: the model may go on with another "
            "question of the user."
        ),
        closes_the_answer: (
            "the assistant's turn must stay open: after <|im_end|> there is nothing to answer."
        ),
        no_line_after_assistant: "after the last <|im_start|>assistant comes a line end, too.",
        strips: "a message is kept as it is, with the white space at its ends.",
    },
    cases=_chats,
    checker=edges(_odd_chats),
    tolerance=0.0,
    hints=[
        "One helper for one message makes it short: role and content in, four lines out as text.",
        'Look at messages[0] only if there is one; "text" * ask is "" where ask is False.',
    ],
    next="What happens if a user writes <|im_end|> into a message? Who has to prevent that?",
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


def every_query_head(config, bits, group_size=None, scale_bits=32):
    config = {**config, "num_key_value_heads": config["num_attention_heads"]}
    return bytes_per_token(config, bits, group_size, scale_bits)


def head_dim_always_divided(config, bits, group_size=None, scale_bits=32):
    config = {key: value for key, value in config.items() if key != "head_dim"}
    return bytes_per_token(config, bits, group_size, scale_bits)


def divided_by_kv_heads(config, bits, group_size=None, scale_bits=32):
    heads = config.get("num_key_value_heads", config["num_attention_heads"])
    size = config.get("head_dim", config["hidden_size"] // heads)
    return bytes_per_token({**config, "head_dim": size}, bits, group_size, scale_bits)


def keys_only(config, bits, group_size=None, scale_bits=32):
    return bytes_per_token(config, bits, group_size, scale_bits) / 2


def one_layer(config, bits, group_size=None, scale_bits=32):
    return bytes_per_token({**config, "num_hidden_layers": 1}, bits, group_size, scale_bits)


def in_bits(config, bits, group_size=None, scale_bits=32):
    return bytes_per_token(config, bits, group_size, scale_bits) * 8


def scales_forgotten(config, bits, group_size=None, scale_bits=32):
    return bytes_per_token(config, bits)


def no_offset(config, bits, group_size=None, scale_bits=32):
    return bytes_per_token(config, bits, group_size, scale_bits / 2)


def a_scale_for_each_number(config, bits, group_size=None, scale_bits=32):
    return bytes_per_token(config, bits, None if group_size is None else 1, scale_bits)


def scale_bits_as_bytes(config, bits, group_size=None, scale_bits=32):
    return bytes_per_token(config, bits, group_size, 8 * scale_bits)


def scales_without_groups(config, bits, group_size=None, scale_bits=32):
    return bytes_per_token(config, bits, group_size or 64, scale_bits)


SMOLLM2 = {
    "num_hidden_layers": 30,
    "hidden_size": 576,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}


def _configs(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield SMOLLM2, 32
    yield SMOLLM2, 8, 64, 32
    yield {**SMOLLM2, "head_dim": 128}, 16
    yield {"num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4}, 16
    yield {"num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4}, 4, 32, 16
    for bits in (2, 4, 8):
        config = {
            "num_hidden_layers": int(rng.integers(2, 60)),
            "hidden_size": 1024,
            "num_attention_heads": 8,
            "num_key_value_heads": int(rng.choice([1, 2, 4])),
        }
        yield config, bits, int(rng.choice([32, 64, 128])), int(rng.choice([16, 32]))


def _odd_configs(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield SMOLLM2, 8, 64
    yield {**SMOLLM2, "num_hidden_layers": 1}, 16, None, 16
    yield {**SMOLLM2, "head_dim": 32, "num_key_value_heads": 1}, 4, 32, 16


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
        every_query_head: (
            "only the key/value heads are kept: with grouped heads there are fewer of them."
        ),
        head_dim_always_divided: (
            "where the config gives head_dim it need not be the hidden size over the heads."
        ),
        divided_by_kv_heads: (
            "the width is divided by the *query* heads; the key/value heads have the same size."
        ),
        keys_only: "half is missing: a token leaves a key and a value.",
        one_layer: "that is one layer: each keeps its own keys and values.",
        in_bits: "those are bits; wanted are bytes.",
        scales_forgotten: "each group also keeps a scale and an offset, of scale_bits bits each.",
        no_offset: "a group keeps two numbers beside its own: a scale *and* an offset.",
        a_scale_for_each_number: "group_size numbers share one scale and one offset.",
        scale_bits_as_bytes: "scale_bits are bits already, as bits are.",
        scales_without_groups: "without a group size nothing is rounded, and there are no scales.",
    },
    cases=_configs,
    checker=edges(_odd_configs),
    hints=[
        "Count the numbers first: keys and values, layers, key/value heads, numbers of a head.",
        "A number takes bits, and its share of the group: 2 * scale_bits / group_size more.",
    ],
    next="From which length on is this model's cache larger than its weights?",
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


def _roofline(time, bonus=1, checked=1):
    def answer(drafts, batch, weights, bandwidth, work, speed):
        def seconds(tokens):
            return time(weights / bandwidth, tokens * work / speed, batch)

        return (drafts + bonus) * seconds(1) / seconds(drafts + checked)

    return answer


def one_after_the_other(*machine):
    return _roofline(lambda move, compute, batch: move + batch * compute)(*machine)


def the_faster_counts(*machine):
    return _roofline(lambda move, compute, batch: min(move, batch * compute))(*machine)


def memory_only(*machine):
    return _roofline(lambda move, compute, batch: move)(*machine)


def arithmetic_only(*machine):
    return _roofline(lambda move, compute, batch: compute)(*machine)


def batch_forgotten(*machine):
    return _roofline(lambda move, compute, batch: max(move, compute))(*machine)


def no_token_beside_the_drafts(*machine):
    return _roofline(lambda move, compute, batch: max(move, batch * compute), bonus=0)(*machine)


def checks_one_too_few(*machine):
    return _roofline(lambda move, compute, batch: max(move, batch * compute), checked=0)(*machine)


def counts_all_rows(drafts, batch, *machine):
    return batch * best_speedup(drafts, batch, *machine)


def upside_down(drafts, batch, *machine):
    return 1 / best_speedup(drafts, batch, *machine)


def plain_moves_only(drafts, batch, weights, bandwidth, work, speed):
    round_ = max(weights / bandwidth, batch * (drafts + 1) * work / speed)
    return (drafts + 1) * (weights / bandwidth) / round_


def _machines(rng: np.random.Generator) -> Iterator[tuple[float, ...]]:
    machine = 540e6, 12e9, 270e6, 50e9  # weights, bandwidth, work, speed
    for drafts, batch in ((4, 1), (4, 8), (12, 1), (12, 3), (1, 64), (7, 2)):
        yield drafts, batch, *machine
    yield 3, 1, 16e9, 3.3e12, 16e9, 900e12
    yield 3, 200, 16e9, 3.3e12, 16e9, 900e12
    for _ in range(6):
        low = rng.uniform(0.5, 2, size=4)
        yield (
            int(rng.integers(1, 16)),
            int(rng.integers(1, 20)),
            *(low * [500e6, 12e9, 270e6, 50e9]),
        )


def _odd_machines(rng: np.random.Generator) -> Iterator[tuple[float, ...]]:
    yield 0, 1, 540e6, 12e9, 270e6, 50e9  # plain decoding
    yield 0, 500, 540e6, 12e9, 270e6, 50e9
    yield 4, 1, 1.0, 1.0, 1.0, 1e9


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
        one_after_the_other: "moving and computing go on at the same time: the slower one counts.",
        the_faster_counts: "the *slower* of the two sets the pace.",
        memory_only: (
            "with many tokens in a forward the arithmetic takes longer than moving the weights."
        ),
        arithmetic_only: "with few tokens moving the weights takes longer than the arithmetic.",
        batch_forgotten: (
            "each text of the batch has its own tokens: batch times the work, while the weights "
            "are moved once for all."
        ),
        no_token_beside_the_drafts: "the forward that checks γ drafts yields γ + 1 tokens.",
        checks_one_too_few: (
            "the forward reads the last token and the drafts: γ + 1 tokens of each text."
        ),
        counts_all_rows: "both ways write batch texts: in a ratio that cancels out.",
        upside_down: "that is the time it takes, not the speed-up: turn it round.",
        plain_moves_only: "plain decoding does arithmetic too, and at a large batch that counts.",
    },
    cases=_machines,
    checker=edges(_odd_machines),
    hints=[
        "Write seconds(tokens) for one forward first: the larger of two times.",
        "Tokens a second with and without: (γ + 1) / seconds(γ + 1) over 1 / seconds(1).",
    ],
    next="At which batch does a single draft gain nothing any more, on your machine?",
)

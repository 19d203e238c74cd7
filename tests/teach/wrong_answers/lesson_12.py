"""Answers to the exercises of lesson 12, as students write them: right ones and wrong ones."""

from textwrap import dedent

import lablib  # noqa: F401 (before mlx)

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

# ------------------------------------------------------------------ 12.1 the chat template


def turn(role, content):
    return f"<|im_start|>{role}\n{content}<|im_end|>\n"


def chat(default_if=lambda m: m and m[0]["role"] != "system", one=turn, opened=None, joined=""):
    """Return an answer to 12.1 with one of its parts replaced."""
    opened = opened or (lambda ask: "<|im_start|>assistant\n" if ask else "")

    def render(messages, default, ask):
        turns = [one("system", default)] if default_if(messages) else []
        turns += [one(each["role"], each["content"]) for each in messages]
        return joined.join(turns) + opened(ask)

    return render


def changes_the_messages(messages, default, ask):
    if messages and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": default})
    return chat(lambda m: False)(messages, default, ask)


def system_at_the_end(messages, default, ask):
    late = turn("system", default) if messages and messages[0]["role"] != "system" else ""
    return "".join(turn(m["role"], m["content"]) for m in messages) + late + chat()([], "", ask)


def looks_at_the_last(messages, default, ask):
    return chat(lambda m: m and m[-1]["role"] != "system")(messages, default, ask)


def asks_after_a_user(messages, default, ask):
    return chat()(messages, default, ask and bool(messages) and messages[-1]["role"] == "user")


# ------------------------------------------------------------------ 12.2 bytes of a cache


def cache(
    heads=lambda c: c.get("num_key_value_heads", c["num_attention_heads"]),
    size=lambda c: c.get("head_dim", c["hidden_size"] // c["num_attention_heads"]),
    group=lambda group, scale: 2 * scale / group if group else 0,
    give=lambda bits: bits / 8,
):
    """Return an answer to 12.2 with one of its parts replaced."""

    def count(config, bits, group_size=None, scale_bits=32):
        numbers = 2 * config["num_hidden_layers"] * heads(config) * size(config)
        return give(numbers * (bits + group(group_size, scale_bits)))

    return count


# ------------------------------------------------------------------ 12.3 the roofline


def roof(take=max, rows=lambda b: b, tokens=lambda d: d + 1, checked=lambda d: d + 1):
    """Return an answer to 12.3 with one of its parts replaced."""

    def gain(drafts, batch, weights, bandwidth, work, speed):
        plain = take(weights / bandwidth, rows(batch) * work / speed)
        verify = take(weights / bandwidth, rows(batch) * checked(drafts) * work / speed)
        return tokens(drafts) * plain / verify

    return gain


def whole_seconds(drafts, batch, weights, bandwidth, work, speed):
    time = [max(weights // bandwidth, batch * t * work // speed) for t in (1, drafts + 1)]
    return (drafts + 1) * time[0] / time[1]


def seconds_only(drafts, batch, weights, bandwidth, work, speed):
    return max(weights / bandwidth, batch * (drafts + 1) * work / speed)


def moves_in_the_plain_step(drafts, batch, weights, bandwidth, work, speed):
    return (
        (drafts + 1)
        * (weights / bandwidth)
        / seconds_only(drafts, batch, weights, bandwidth, work, speed)
    )


# ------------------------------------------------------------------ 12.4 pairs


def pairs(error=None, far=0.84, say=None):
    """Return an answer to 12.4 with one of its parts replaced."""
    error = error or (lambda b, a: np.std(a - b, ddof=1) / np.sqrt(len(a)))
    say = say or (
        lambda low, high: ("not told apart", "held", "not held")[int(low > 0) - int(high < 0)]
    )

    def tell(before, after, factor):
        mean, half = float(np.mean(after - before)), factor * error(before, after)
        ends = mean - half, mean + half
        return *ends, say(*ends), half + far * error(before, after)

    return tell


def no_pairs(b, a):
    return np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))


RIGHT = [
    ("12.4", pairs()),
    ("12.4", lambda b, a, f: list(pairs()(b, a, f))),
    ("12.4", pairs(lambda b, a: float(np.sqrt(np.var(b - a, ddof=1) / a.size)))),
    ("12.1", chat()),
    ("12.1", chat(lambda m: bool(m[:1]) and m[0].get("role") != "system")),
    ("12.1", chat(one=lambda r, c: "<|im_start|>" + "\n".join([r, c]) + "<|im_end|>\n")),
    ("12.1", lambda m, d, a: str(chat()(list(m), d, a))),
    ("12.2", cache()),
    ("12.2", cache(give=lambda bits: int(bits) // 8)),
    ("12.2", cache(give=lambda bits: mx.array(float(bits)) / 8)),
    ("12.2", cache(give=lambda bits: np.float64(bits) * 0.125)),
    ("12.3", roof()),
    ("12.3", roof(take=lambda a, b: a if a > b else b)),
    ("12.3", lambda *a: np.float64(roof()(*a))),
    ("12.3", roof(rows=float)),
]
WRONG = [
    ("12.4", "as_if_no_pairs", pairs(no_pairs)),
    ("12.4", "spread_for_error", pairs(lambda b, a: np.std(a - b, ddof=1))),
    ("12.4", "spread_of_the_many", pairs(lambda b, a: np.std(a - b) / np.sqrt(len(a)))),
    ("12.4", "seen_half_the_time", pairs(far=0)),
    ("12.4", "undecided_is_refuted", pairs(say=lambda lo, hi: "held" if lo > 0 else "not held")),
    ("12.4", "the_other_way_round", lambda b, a, f: pairs()(a, b, f)),
    ("12.4", None, pairs(far=1.64)),
    ("12.4", None, pairs(say=lambda lo, hi: "held" if lo + hi > 0 else "not held")),
    ("12.4", None, pairs(say=lambda lo, hi: "not told apart")),
    ("12.1", "no_default", chat(lambda m: False)),
    ("12.1", "default_always", chat(lambda m: True)),
    (
        "12.1",
        "default_unless_anywhere",
        chat(lambda m: m and not {x["role"] for x in m} & {"system"}),
    ),
    ("12.1", "default_without_messages", chat(lambda m: not m or m[0]["role"] != "system")),
    ("12.1", "no_line_after_the_end", chat(one=lambda r, c: turn(r, c)[:-1])),
    (
        "12.1",
        "role_and_text_in_one_line",
        chat(one=lambda r, c: f"<|im_start|>{r} {c}<|im_end|>\n"),
    ),
    ("12.1", "always_asks", chat(opened=lambda ask: "<|im_start|>assistant\n")),
    ("12.1", "never_asks", chat(opened=lambda ask: "")),
    ("12.1", "closes_the_answer", chat(opened=lambda ask: turn("assistant", "") if ask else "")),
    ("12.1", "no_line_after_assistant", chat(opened=lambda ask: "<|im_start|>assistant" * ask)),
    ("12.1", "strips", chat(one=lambda r, c: turn(r, c.strip()))),
    ("12.1", None, changes_the_messages),
    ("12.1", None, system_at_the_end),
    ("12.1", None, looks_at_the_last),
    ("12.1", None, asks_after_a_user),
    ("12.1", None, chat(joined="\n")),
    ("12.1", None, chat(one=lambda r, c: turn(r.capitalize(), c))),
    ("12.1", None, chat(one=lambda r, c: turn(r, "".join(c.split("<|im_end|>"))))),
    ("12.1", None, chat(one=lambda r, c: turn(r, c) if c else "")),
    ("12.1", None, lambda m, d, a: chat()(m, d, a).rstrip("\n")),
    ("12.1", None, lambda m, d, a: chat()(m, d, a).splitlines()),
    ("12.2", "every_query_head", cache(heads=lambda c: c["num_attention_heads"])),
    (
        "12.2",
        "head_dim_always_divided",
        cache(size=lambda c: c["hidden_size"] // c["num_attention_heads"]),
    ),
    ("12.2", "keys_only", cache(give=lambda bits: bits / 16)),
    ("12.2", "in_bits", cache(give=lambda bits: bits)),
    ("12.2", "scales_forgotten", cache(group=lambda g, s: 0)),
    ("12.2", "no_offset", cache(group=lambda g, s: s / g if g else 0)),
    ("12.2", "a_scale_for_each_number", cache(group=lambda g, s: 2 * s if g else 0)),
    ("12.2", "scale_bits_as_bytes", cache(group=lambda g, s: 16 * s / g if g else 0)),
    ("12.2", "scales_without_groups", cache(group=lambda g, s: 2 * s / (g or 64))),
    ("12.2", None, cache(heads=lambda c: c["num_key_value_heads"])),
    ("12.2", None, cache(size=lambda c: c["head_dim"])),
    ("12.2", None, cache(size=lambda c: 64)),
    ("12.2", None, cache(give=lambda bits: bits / 8 / 1024)),
    ("12.2", None, cache(group=lambda g, s: 2 * 32 / g if g else 0)),
    ("12.3", "the_faster_counts", roof(take=min)),
    ("12.3", "one_after_the_other", roof(take=lambda a, b: a + b)),
    ("12.3", "memory_only", roof(take=lambda a, b: a)),
    ("12.3", "arithmetic_only", roof(take=lambda a, b: b)),
    ("12.3", "batch_forgotten", roof(rows=lambda b: 1)),
    ("12.3", "no_token_beside_the_drafts", roof(tokens=lambda d: d)),
    ("12.3", "checks_one_too_few", roof(checked=lambda d: d)),
    ("12.3", "counts_all_rows", lambda d, b, *m: b * roof()(d, b, *m)),
    ("12.3", "upside_down", lambda *m: 1 / roof()(*m)),
    ("12.3", "plain_moves_only", moves_in_the_plain_step),
    ("12.3", None, whole_seconds),
    ("12.3", None, seconds_only),
    ("12.3", None, roof(rows=lambda b: b * b)),
    ("12.3", None, roof(tokens=lambda d: d + 2)),
    ("12.3", None, roof(tokens=lambda d: 1)),
]

ANSWERS = Answers(RIGHT, WRONG)
LOOKS = 'messages[0]["role"] != "system"'
ANSWERS.changed("12.1", "asks_only_after_a_message", "* ask", "* (ask and len(messages) > 0)")
ANSWERS.changed("12.1", "strips_the_default", "{default}", "{default.strip()}")
ANSWERS.changed("12.1", "any_kind_of_system", '["role"] != "system"', '["role"][:6] != "system"')
ANSWERS.changed(
    "12.1",
    "leaves_out_empty_ones_but_the_first",
    "for message in messages:",
    'for message in [*messages[:1], *(m for m in messages[1:] if m["content"])]:',
)
ANSWERS.changed(
    "12.1", "an_empty_system_is_none", LOOKS, f'not (not {LOOKS} and messages[0]["content"])'
)
ANSWERS.changed(
    "12.1",
    "any_case_is_system",
    LOOKS,
    LOOKS.replace("]) !=", "] !=").replace('"] !=', '"].lower() !='),
)
ANSWERS.changed(
    "12.1", "not_after_the_assistant", "* ask", "* (ask and 'assistant' not in text[-40:])"
)
ANSWERS.changed(
    "12.1",
    "once_each",
    "for message in messages:",
    "for message in {str(m): m for m in messages}.values():",
)
ANSWERS.changed("12.2", "whole_scales", "/ group_size", "// group_size")
ANSWERS.changed("12.2", "whole_bytes_of_a_number", "(bits + extra) / 8", "(bits // 8 + extra / 8)")
ANSWERS.changed("12.2", "groups_within_a_head", "/ group_size", "/ min(group_size, head_dim)")
ANSWERS.changed("12.2", "wide_numbers_have_no_scales", "is None", "is None or bits >= 32")
ANSWERS.changed("12.2", "a_layer_less", '["num_hidden_layers"]', '["num_hidden_layers"] - 1')
ANSWERS.changed(
    "12.3", "weights_for_each_text", "weights / bandwidth", "batch * weights / bandwidth"
)
ANSWERS.changed("12.3", "drafts_for_one_text", "batch * tokens", "(batch + tokens - 1)")
ANSWERS.changed(
    "12.3", "plain_for_one_text", "seconds(1)", "max(weights / bandwidth, work / speed)"
)
ANSWERS.changed(
    "12.3",
    "never_more_than_the_drafts",
    "(drafts + 1) * seconds(1)",
    "min(drafts, drafts + 1) * seconds(1)",
)
ANSWERS.changed(
    "12.1",
    "placeholders_in_the_text",
    "f\"<|im_start|>{message['role']}\\n{message['content']}<|im_end|>\\n\"",
    '"<|im_start|>role\\ncontent<|im_end|>\\n".replace("content", message["content"]).replace('
    '"role", message["role"])',
)
ANSWERS.changed(
    "12.2",
    "few_bits_have_scales",
    "0 if group_size is None else 2 * scale_bits / group_size",
    "0 if group_size is None and bits >= 16 else 2 * scale_bits / (group_size or 64)",
)


@ANSWERS.wrong("12.1")
def blank_lines_are_cleared(messages, default, ask):
    if messages and messages[0]["role"] != "system":
        messages = [{"role": "system", "content": default}, *messages]
    text = "".join(dedent(turn(each["role"], each["content"])) for each in messages)
    return text + "<|im_start|>assistant\n" * ask


@ANSWERS.wrong("12.1")
def one_line_end_at_a_time(messages, default, ask):
    if messages and messages[0]["role"] != "system":
        messages = [{"role": "system", "content": default}, *messages]
    text = "\n".join(turn(each["role"], each["content"]) for each in messages)
    return text.replace("\n\n", "\n") + "<|im_start|>assistant\n" * ask


@ANSWERS.wrong("12.1")
def line_ends_spelt_out(messages, default, ask):
    return chat()(messages, default, ask).replace("\\n", "\n")


@ANSWERS.wrong("12.1")
def one_empty_line_at_most(messages, default, ask):
    text = chat()(messages, default, ask)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text


ANSWERS.changed("12.1", "by_the_order_of_keys", "message['role']", "[*message.values()][0]")
ANSWERS.changed(
    "12.1",
    "a_content_is_a_template",
    "message['content']",
    "message['content'].replace('{role}', message['role'])",
)
ANSWERS.changed(
    "12.1",
    "other_letters_of_one_kind",
    "message['content']",
    "__import__('unicodedata').normalize('NFKC', message['content'])",
)
ANSWERS.changed(
    "12.1", "two_per_cent_signs", "message['content']", "message['content'].replace('%%', '%')"
)
ANSWERS.changed(
    "12.1",
    "no_default_beside_a_last_one",
    'messages[0]["role"] != "system"',
    '"system" not in (messages[0]["role"], messages[-1]["role"])',
)
ANSWERS.changed(
    "12.2",
    "whole_bytes_without_groups",
    "extra = 0 if",
    "extra = max(0, 8 - bits) if",
)

"""A byte-level BPE tokenizer in plain Python, with the keys of a GGUF file for its settings.

GPT-2's, as its authors describe it, and SmolLM's, which takes digits one by one first. Slow and
obvious; shares nothing with the libraries that it judges, not even a regular expression.
"""

import itertools
import random
import unicodedata

NORMAL, CONTROL, USER = 1, 3, 4  # types of tokens
END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TEXT = (
    "The reader in the other room is reading the other reader's words, and she's there again. "
    "They'd rather be there than here; we'll see, won't we? In 1984 there were 12 readers.\n\n"
    "The theatre of the north, the three of them, and the end of it all: there!  "
)


def _letters():
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {b: chr(256 + n) for n, b in enumerate(hidden)}


LETTERS = _letters()  # a byte's letter in the vocabulary
_BYTES = {letter: byte for byte, letter in LETTERS.items()}
_SPACES = {*map(ord, "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000")}
_SPACES |= {*range(0x2000, 0x200B)}
_ENDINGS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")


def sort(char, table=unicodedata):
    """What GPT-2's pattern sees in a character: a space, a letter, a number or something else."""
    if ord(char) in _SPACES:
        return "space"
    return {"L": "letter", "N": "number"}.get(table.category(char)[0], "other")


def settled(char):
    """Whether all versions of Unicode since 2002 see the same: libraries follow different ones."""
    same = sort(char) == sort(char, unicodedata.ucd_3_2_0)
    return same and unicodedata.category(char) not in ("Cn", "Cs")


def composed(text):
    """Return a text in Unicode's form C, as Qwen reads it."""
    return unicodedata.normalize("NFC", text)


def cut(text):
    """Cut as GPT-2: an ending, a word, a number or signs, each with one space before, and spaces.

    's|'t|'re|'ve|'m|'ll|'d| ?letters| ?numbers| ?others|spaces (not the last before a text)|spaces
    """
    pieces, at = [], 0
    while at < len(text):
        end = next((at + len(e) for e in _ENDINGS if text.startswith(e, at)), None)
        if end is None:
            start = at + (text[at] == " " and at + 1 < len(text) and sort(text[at + 1]) != "space")
            kind, end = sort(text[start]), start + 1
            while end < len(text) and sort(text[end]) == kind:
                end += 1
            if kind == "space" and end < len(text) and end - start > 1:
                end -= 1
        pieces.append(text[at:end])
        at = end
    return pieces


def split(text, digits):
    """Cut a text; numbers are single pieces first if ``digits``, as SmolLM has it."""
    if not digits:
        return cut(text)
    pieces, word = [], ""
    for char in text:
        if sort(char) == "number":
            pieces += [*cut(word), char]
            word = ""
        else:
            word += char
    return pieces + cut(word)


def merged(parts, ranks):
    """Join a piece's letters, the earliest rule first, as often as there is one."""
    while len(parts) > 1:
        rank, pair = min((ranks.get(p, float("inf")), p) for p in itertools.pairwise(parts))
        if rank == float("inf"):
            break
        parts = _joined(parts, pair)
    return parts


def encode(text, keys, cache=None):
    """Return the ids of a text, with a file's tokens and merges; no token is named in the text.

    A byte without a token is dropped before anything is merged, as in Hugging Face's tokenizers.
    """
    cache = {} if cache is None else cache
    if not cache:
        cache["ids"] = {t: i for i, t in enumerate(keys["tokenizer.ggml.tokens"])}
        rules = (tuple(m.split(" ")) for m in keys["tokenizer.ggml.merges"])
        cache["ranks"] = {pair: rank for rank, pair in enumerate(rules)}
    pieces = split(text, digits=keys["tokenizer.ggml.pre"] == "smollm")
    ids = cache["ids"]
    words = ([LETTERS[b] for b in p.encode() if LETTERS[b] in ids] for p in pieces)
    return [ids[part] for word in words for part in merged(word, cache["ranks"])]


def decode(ids, keys):
    """Return the text of ids."""
    letters = "".join(keys["tokenizer.ggml.tokens"][i] for i in ids)
    return bytes(_BYTES[letter] for letter in letters).decode()


def learned(text, n):
    """Return the ``n`` merges that byte-pair encoding learns from a text."""
    words = [[LETTERS[b] for b in piece.encode()] for piece in cut(text)]
    merges = {}
    for _ in range(n):
        counts = {}
        for parts in words:
            for pair in itertools.pairwise(parts):
                counts[pair] = counts.get(pair, 0) + 1
        best = max(counts, key=lambda pair: (counts[pair], pair))
        merges[best] = len(merges)
        words = [_joined(parts, best) for parts in words]
    return [*merges]


def _joined(parts, pair):
    joined, at = [], 0
    while at < len(parts):
        both = tuple(parts[at : at + 2]) == pair
        joined.append("".join(parts[at : at + 1 + both]))
        at += 1 + both
    return joined


def tokenizer_keys(text=TEXT, merges=60, pre="smollm", size=None):
    """Return the metadata of a tokenizer learned from a text: 3 control tokens, bytes, merges."""
    rules = learned(text, merges)
    joined = dict.fromkeys("".join(pair) for pair in rules)  # two rules may make one token
    tokens = [END, START, STOP, *LETTERS.values(), *joined]
    tokens += [f"[PAD{i}]" for i in range((size or 0) - len(tokens))]
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL] * 3 + [NORMAL] * (len(tokens) - 3),
        "tokenizer.ggml.merges": [" ".join(pair) for pair in rules],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": template,
    }


def random_texts(n, seed=0, only_settled=False):
    """Texts of every plane, with what tokenizers trip over: spaces, marks, controls, emoji."""
    draw = random.Random(seed)
    tricky = [
        "'s", "'ll", "''", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\x00", "\x7f", "\x85",
        "\xa0", "\u200b", "\u200d", "\u2028", "\u3000", "\ufeff", "e\u0301", "\u0300", "\ufe0f",
        "👩‍👩‍👧", "🏳️‍🌈", "½", "٣", "12", "3.14", "don't", "THE", "the", " the", "ß", "ﬁ", "語", "ก็",
    ]  # fmt: skip

    def char():
        while True:
            plane = draw.choice((0x80, 0x800, 0x10000, 0x20000, 0x110000))
            one = chr(draw.randrange(plane))
            if 0xD800 <= ord(one) < 0xE000 or (only_settled and not settled(one)):
                continue
            return one

    for _ in range(n):
        many = range(draw.randrange(40))
        parts = [draw.choice(tricky) if draw.random() < 0.4 else char() for _ in many]
        text = "".join(parts)
        yield "".join(c for c in text if settled(c)) if only_settled else text

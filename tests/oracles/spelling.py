"""Small tokenizers of every kind, made here, and what a completion's text is by definition."""

from functools import cache
from itertools import takewhile
from operator import eq

import numpy as np
from mlx_lm.tokenizer_utils import load as load_tokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

KINDS = ("byte-level", "sentencepiece", "sentencepiece without bytes", "unigram",
         "unigram without bytes", "wordpiece")  # fmt: skip
SPECIAL = ("<s>", "</s>", "<tool>")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = ["▁", "▁▁", "▁cat", "▁hello", "▁the", "cat", "hello", "the", "s", "é", "▁é", "🦙", ".",
         "▁.", ",", "'", "▁n", "\ufffd", "\n", "\x00"]  # fmt: skip
PARTS = ["cat", "##s", "hello", "##llo", "the", ".", ",", "'", "##é", "n't", "do", "not", "🦙"]
PIECES = [" ", "  ", " cat", " hello", "cat", "the", "s", "é", " é", "b🦙", ".", " .", "\n"]


def bytelevel(text):
    """Return how a byte-level vocabulary writes a text, or raw bytes."""
    raw = text if isinstance(text, bytes) else text.encode()
    table = dict(zip(bytes_in_order(), sorted(pre_tokenizers.ByteLevel.alphabet()), strict=True))
    return "".join(table[byte] for byte in raw)


@cache
def bytes_in_order():
    """Return the bytes as their letters of the byte-level alphabet are sorted: GPT-2's table."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return printable + sorted({*range(256)} - {*printable})


def _inner(kind):
    """Return a tokenizer of the library ``tokenizers``."""
    spaces = decoders.Replace("▁", " ")
    sequence, strip = decoders.Sequence, decoders.Strip(" ", 1, 0)
    has_bytes = "without" not in kind
    words = ["<unk>", *SPECIAL, *(BYTES if has_bytes else []), *WORDS]
    if kind == "byte-level":
        words = [bytelevel(bytes([byte])) for byte in range(256)] + [*map(bytelevel, PIECES)]
        inner = Tokenizer(models.BPE({w: i for i, w in enumerate(dict.fromkeys(words))}, []))
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
    elif kind.startswith("sentencepiece"):
        vocab = {word: i for i, word in enumerate(words)}
        how = {"unk_token": "<unk>", "byte_fallback": has_bytes, "fuse_unk": True}
        inner = Tokenizer(models.BPE(vocab, [], **how))
        fallback = [decoders.ByteFallback()] if has_bytes else []
        inner.decoder = sequence([spaces, *fallback, decoders.Fuse(), strip])
    elif kind.startswith("unigram"):
        scores = [(word, -float(i)) for i, word in enumerate(words)]
        inner = Tokenizer(models.Unigram(scores, 0, has_bytes))
        inner.pre_tokenizer = pre_tokenizers.Metaspace()
        metaspace = decoders.Metaspace()
        inner.decoder = sequence([decoders.ByteFallback(), metaspace]) if has_bytes else metaspace
    else:
        vocab = {word: i for i, word in enumerate(["[UNK]", *PARTS])}
        inner = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
        inner.pre_tokenizer = pre_tokenizers.Whitespace()
        inner.decoder = decoders.WordPiece()
    inner.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    inner.add_tokens([AddedToken("<added> token", normalized=False)])
    return inner


def tokenizer_of(kind, path):
    """Return a tokenizer as ``load`` returns one; its files lie in ``path``."""
    ends = {"bos_token": "<s>", "eos_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=_inner(kind), **ends).save_pretrained(path)
    return load_tokenizer(path)


def text(tokenizer, prompt, tokens):
    """Return what tokens add to a prompt's text."""
    whole = tokenizer.decode([*prompt, *tokens])
    return whole[sum(takewhile(bool, map(eq, whole, tokenizer.decode([*prompt])))) :]


def tokens_of(tokenizer, rng, longest):
    """Return random tokens: any ones, byte by byte, of blanks, of one kind many times."""
    size, n = len(tokenizer), int(rng.integers(1, longest + 1))
    name = tokenizer.convert_tokens_to_ids
    if rng.random() < 0.4:
        return rng.integers(0, size, n).tolist()
    letters = "é🦙 \nß\x00a".encode()
    some = [f"<0x{letters[i]:02X}>" for i in rng.integers(0, len(letters), 4)]
    raw = [bytelevel(bytes([letters[i]])) for i in rng.integers(0, len(letters), 4)]
    known = tokenizer.get_vocab()
    blanks = ["▁", "▁▁", " ", "Ġ", "ĠĠ", "Ġcat", "▁cat", "##s", "<tool>", "</s>", "\x00"]
    wanted = [each for each in [*some, *raw, *blanks, *BYTES[195:197]] if each in known]
    ids = [name(each) for each in wanted]
    if rng.random() < 0.5:  # characters byte by byte, the last one perhaps cut
        whole = [f"<0x{b:02X}>" for b in letters], [bytelevel(bytes([b])) for b in letters]
        for spelt in whole:
            if spelt[0] in known:
                at = int(rng.integers(0, len(spelt)))
                return ([name(each) for each in spelt] * 3)[at : at + n]
    return [ids[i] for i in rng.integers(0, len(ids), n)]


def generator(*numbers):
    """Return random numbers of their own."""
    return np.random.default_rng(numbers)

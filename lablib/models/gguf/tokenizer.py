"""Makes a tokenizer of the lists of tokens, scores and merges in a GGUF file.

Two kinds: byte-level BPE (``gpt2``), where ``tokenizer.ggml.pre`` says how a text is cut before
letters are merged; and SentencePiece's BPE (``llama``), which cuts nothing, merges by the score of
what comes out, and spells what it has no token for in bytes.
"""

from functools import partial
from typing import Any

from lablib.models.lazy_tokenizer import LazyTokenizer, reads_alike
from lablib.validation import BadType, BadValue, flag, integer, one_of, sequence, shown

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, processors
from tokenizers import normalizers as normal
from tokenizers import pre_tokenizers as cutting

_NORMAL, _CONTROL, _USER = 1, 3, 4  # types of tokens
_SPACE = "▁"  # SentencePiece's
_LONGEST = 1000  # letters of its tokens: each is cut at each letter
# What would change how a text is read, and isn't known here.
_OFF = "add_sep_token", "remove_extra_whitespaces"
# Control tokens that end an answer, by whatever name a family has: as llama.cpp knows them.
_ENDS = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"}
_ENDS |= {"<end_of_turn>"}
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{%s}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# What is cut out of a text before bytes are merged. ("default", which a file without the key means,
# was written where nobody knew better.)
_CUTS: dict[str, list[Any]] = {
    "gpt-2": [],
    "smollm": [cutting.Digits(individual_digits=True)],
    "llama-bpe": [cutting.Split(Regex(_WORDS % "1,3"), "isolated")],
    "qwen2": [cutting.Split(Regex(_WORDS % "1"), "isolated")],
}


def tokenizer_of(keys: dict[str, Any], config: dict[str, Any]) -> Any:
    """Return the tokenizer as mlx-lm wraps it, with its chat template and its ends.

    Raises:
        BadValue, BadType: a key is missing, wrong or not known here; the line names it.
    """
    made, settings, ends = build(keys)
    if len(keys["tokenizer.ggml.tokens"]) > config["vocab_size"]:
        most = f"at most {config['vocab_size']}, as many as token_embd.weight has rows"
        raise BadValue(f"tokenizer.ggml.tokens must be {most}")
    settings["model_max_length"] = config["max_position_embeddings"]
    is_pieces = keys["tokenizer.ggml.model"] == "llama"
    begins = _begins_with_space(keys) if is_pieces else None
    whole = partial(_wrap, made, settings, ends, begins)
    return LazyTokenizer(made, settings, ends, whole) if reads_alike(made, settings) else whole()


def _wrap(
    made: Tokenizer, settings: dict[str, Any], ends: list[int], begins_with_space: bool | None
) -> Any:
    """Return mlx-lm's wrapper; None: the tokenizer merges bytes, and not pieces of a sentence."""
    from mlx_lm import tokenizer_utils as theirs
    from transformers import PreTrainedTokenizerFast

    pieces: Any = theirs.BPEStreamingDetokenizer
    if begins_with_space is not None:
        pieces = partial(theirs.SPMStreamingDetokenizer, trim_space=begins_with_space)
    inner = PreTrainedTokenizerFast(tokenizer_object=made, **settings)
    return theirs.TokenizerWrapper(inner, pieces, eos_token_ids=ends)


def build(keys: dict[str, Any]) -> tuple[Tokenizer, dict[str, Any], list[int]]:
    """Return a tokenizer, the fields of its tokenizer_config.json, and the ids that end a text."""
    kind = one_of("tokenizer.ggml.model", keys.get("tokenizer.ggml.model"), ["gpt2", "llama"])
    tokens = keys.get("tokenizer.ggml.tokens")
    types = sequence("tokenizer.ggml.token_type", keys.get("tokenizer.ggml.token_type"), "numbers")
    if not isinstance(tokens, list) or len({*tokens}) != len(tokens) or len(types) != len(tokens):
        raise BadValue("tokenizer.ggml.tokens must differ, and have a token_type each")
    for name in _OFF:
        one_of(f"tokenizer.ggml.{name}", keys.get(f"tokenizer.ggml.{name}", False), [False])
    if kind == "gpt2" and _begins_with_space(keys):
        raise BadValue("tokenizer.ggml.add_space_prefix must be False where bytes are merged")
    ids = {token: i for i, token in enumerate(tokens)}
    made = (_byte_level if kind == "gpt2" else _sentence_piece)(keys, ids, types)
    # SentencePiece looks for a user's tokens where spaces have become another sign.
    in_text = kind == "llama" and not _begins_with_space(keys)
    whole = [(t, of) for t, of in zip(tokens, types, strict=True) if of in (_CONTROL, _USER)]
    made.add_tokens(
        [
            AddedToken(t, special=of == _CONTROL, normalized=in_text and of == _USER)
            for t, of in whole
        ]
    )
    roles = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    named: dict[str, int] = {}
    for role, key in (roles | {"eot": "eot", "eom": "eom"}).items():
        name = f"tokenizer.ggml.{key}_token_id"
        if name in keys:
            named[role] = integer(name, keys[name], 0, len(tokens) - 1)
    _frame(made, keys, {role: (tokens[i], i) for role, i in named.items()})
    settings: dict[str, Any] = {"clean_up_tokenization_spaces": False}
    settings |= {f"{role}_token": tokens[named[role]] for role in roles if role in named}
    ends = [named[role] for role in ("eos", "eot", "eom") if role in named]
    template = keys.get("tokenizer.chat_template")
    if template is not None:
        if not isinstance(template, str):
            raise BadType(f"tokenizer.chat_template must be a text, got {shown(template)}")
        settings["chat_template"] = template
        ends += [ids[end] for end in _ENDS & ids.keys() if types[ids[end]] in (_CONTROL, _USER)]
    return made, settings, sorted({*ends})


def _byte_level(keys: dict[str, Any], ids: dict[str, int], types: list[int]) -> Tokenizer:
    """Return GPT-2's kind: a text is cut, and the bytes of each piece are merged by rank."""
    cut = one_of("tokenizer.ggml.pre", keys.get("tokenizer.ggml.pre", "default"), _CUTS)
    lines = keys.get("tokenizer.ggml.merges")
    if not isinstance(lines, list):
        raise BadType("tokenizer.ggml.merges must be a list of texts")
    merges = [tuple(line.split(" ")) for line in lines]
    for merge in merges:
        if len(merge) != 2 or not ids.keys() >= {*merge, "".join(merge)}:
            raise BadValue(f"tokenizer.ggml.merges must join tokens to a token, got {merge}")
    # Llama 3 takes a piece that is a token whole, whatever its merges would make of it.
    made = Tokenizer(models.BPE(ids, merges, ignore_merges=cut == "llama-bpe"))
    if cut == "qwen2":
        made.normalizer = normal.NFC()
    whole = cut in ("llama-bpe", "qwen2")  # else GPT-2's pattern cuts, too
    level = cutting.ByteLevel(add_prefix_space=False, use_regex=not whole)
    made.pre_tokenizer = cutting.Sequence([*_CUTS[cut], level])
    made.decoder = decoders.ByteLevel()
    return made


def _sentence_piece(keys: dict[str, Any], ids: dict[str, int], types: list[int]) -> Tokenizer:
    """Return SentencePiece's kind (Kudo and Richardson 2018, 1808.06226), which merges characters.

    A pair is as good as what it makes: each way to put a token together has the token's place.
    """
    scores = np.asarray(keys.get("tokenizer.ggml.scores", ()))
    if scores.shape != (len(ids),) or scores.dtype.kind != "f" or not np.isfinite(scores).all():
        raise BadValue("tokenizer.ggml.scores must be finite numbers, one for each token")
    most = max(map(len, ids), default=0)
    if most > _LONGEST:
        raise BadValue(f"tokenizer.ggml.tokens must have at most {_LONGEST} letters, got {most}")
    tokens = list(ids)
    plain = {token for token, i in ids.items() if types[i] == _NORMAL}
    merges = [
        (token[:at], token[at:])
        for token in (tokens[i] for i in np.argsort(-scores, stable=True))
        if token in plain
        for at in range(1, len(token))
        if token[:at] in plain and token[at:] in plain
    ]
    made = Tokenizer(models.BPE(ids, merges, unk_token=None, fuse_unk=True, byte_fallback=True))
    spaces: Any = normal.Replace(" ", _SPACE)
    back = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if _begins_with_space(keys):
        spaces = normal.Sequence([normal.Prepend(_SPACE), spaces])
        back.append(decoders.Strip(" ", 1, 0))
    made.normalizer = spaces
    made.decoder = decoders.Sequence(back)
    return made


def _begins_with_space(keys: dict[str, Any]) -> bool:
    """Return whether each piece of a text is read as if a space stood before it."""
    name = "tokenizer.ggml.add_space_prefix"
    return flag(name, keys.get(name, keys["tokenizer.ggml.model"] == "llama"))


def _frame(made: Tokenizer, keys: dict[str, Any], named: dict[str, tuple[str, int]]) -> None:
    """Have a text begin or end with a token where the file says so."""
    begins = keys["tokenizer.ggml.model"] == "llama" or keys["tokenizer.ggml.pre"] == "llama-bpe"
    single = ["$A"]
    for role, default in (("bos", begins and "bos" in named), ("eos", False)):
        name = f"tokenizer.ggml.add_{role}_token"
        if flag(name, keys.get(name, default)):
            if role not in named:
                raise BadValue(f"tokenizer.ggml.{role}_token_id is missing, and {name} asks for it")
            single = [role, *single] if role == "bos" else [*single, role]
    used = [
        {"id": role, "ids": [named[role][1]], "tokens": [named[role][0]]}
        for role in single
        if role != "$A"
    ]
    if used:
        made.post_processor = processors.TemplateProcessing(single=single, special_tokens=used)

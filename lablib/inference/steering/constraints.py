"""Only texts of a grammar: a mask over the model's own tokens, and a drafter that knows them.

A grammar of letters says which bytes may come next; llguidance (Moskal et al., MIT licence) walks
the vocabulary with it. A token is allowed if the text and the token are the beginning of a text of
the grammar; the stop token, if the text is one. Any way to cut a text into tokens is allowed: the
mask makes no choice of its own.

``Grammar`` is a logits processor with a state, so it works in every function that writes text.
Drafts that are refused leave no trace in it. In ``smc`` it is a proposal, and the weights tell what
the mask has hidden: it makes every text obey, and not the texts that the model would have written
had it obeyed by itself.
"""

import json
from collections.abc import Sequence
from copy import copy as shallow_copy
from typing import Any

from lablib.extras import need
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.drafter import Drafter, Limits, Texts
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.stop_strings import wrapped
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, integer, sequence, shown

import mlx.core as mx
import numpy as np

LONGEST = 200  # letters of why one can't be read, which may quote all of it
TOKENIZERS = "a fast tokenizer that is byte-level, SentencePiece's or WordPiece, or texts"
_BY_BYTES = {"Replace", "ByteFallback", "Fuse", "Strip"}  # decoders, as SentencePiece's are written
_FREE = '%llguidance {"no_forcing": true}\n'  # else only the tokenizer's own way is allowed


@checks_options
class Vocabulary:
    """The bytes of each token. To make one takes a while: grammars may share it.

    Args:
        tokens: a fast tokenizer of Hugging Face, or mlx-lm's wrapper of one: byte-level,
            SentencePiece's (BPE or Unigram, with bytes or without) or WordPiece. Or each token's
            text, in order of the ids.
        stop_tokens: ids that end a text; None: the tokenizer's own.

    Raises:
        BadType, BadValue: it is a tokenizer of another kind, or no token ends a text.
        ImportError: llguidance is missing: ``pip install "lablib[grammar]"``.

    Example:
        >>> words = lablib.inference.Vocabulary(["<end>", "a", "b", "ab"], [0])
        >>> words.stop_tokens
        frozenset({0})
    """

    def __init__(self, tokens: Any, stop_tokens: Sequence[int] | None = None) -> None:
        need("grammars", "llguidance", extra="grammar")
        from llguidance import LLTokenizer, TokenizerWrapper

        if hasattr(tokens, "convert_tokens_to_ids"):
            size, texts, special = _spelling(tokens)
            if stop_tokens is None:
                stop_tokens = sorted(wrapped(tokens).eos_token_ids - {None})
        else:
            texts, special = sequence("tokens", tokens, "texts"), []
            size = len(texts)
        stops = [integer("stop_tokens", i, 0, size - 1) for i in stop_tokens or ()]
        if not stops:
            raise BadValue("stop_tokens must name a token that ends a text, got none")
        if texts is None:
            self.table = LLTokenizer(tokens.backend_tokenizer.to_str(), eos_token=stops)
        else:
            spelled = TokenizerWrapper(_Spelled(texts, stops, [*stops, *special]))
            self.table = LLTokenizer(spelled, eos_token=stops, slices=[])
        self.stop_tokens = frozenset(stops)


def _spelling(tokenizer: Any) -> tuple[int, list[str] | None, list[int]]:
    """Return how many ids there are, the text that each adds to a text, and which are no text.

    None instead of texts where llguidance reads them itself, as bytes. A tokenizer whose tokens'
    texts hang on their neighbours is refused: a mask would let other texts through.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise BadType(f"tokens must be {TOKENIZERS}, got the slow {type(tokenizer).__name__}")
    size = 1 + max(backend.get_vocab().values(), default=-1)
    decoder = json.loads(backend.to_str())["decoder"] or {"type": "no decoder"}
    kinds = [each["type"] for each in decoder.get("decoders", [decoder])]
    if tokenizer.clean_up_tokenization_spaces and type(backend.model).__name__ != "BPE":
        kinds.append("clean_up_tokenization_spaces")  # it takes spaces back; never BPE's
    elif "ByteLevel" in kinds or ("ByteFallback" in kinds and {*kinds} <= _BY_BYTES):
        return size, None, []
    elif kinds in (["Metaspace"], ["WordPiece"], ["Fuse"]):
        pieces = [backend.id_to_token(i) for i in range(size)]
        decode, before = backend.decoder.decode, "a"  # behind which a token is no beginning
        texts = ["" if each is None else decode([before, each])[1:] for each in pieces]
        added = backend.get_added_tokens_decoder()
        return size, texts, [i for i, token in added.items() if token.special]
    raise BadType(f"tokens must be {TOKENIZERS}, got one that decodes by {' and '.join(kinds)}")


class _Spelled:
    """A tokenizer as llguidance wants to see it, made of the tokens' texts."""

    bos_token_id = None

    def __init__(self, texts: Sequence[str], stops: list[int], special: list[int]) -> None:
        self.special_token_ids = special
        self.eos_token_id = stops[0]
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise BadType(f"tokens[{i}] must be a text, got {shown(text)}")
        self.tokens = [text.encode() for text in texts]

    def __call__(self, text: bytes) -> list[int]:
        return []  # asked where a grammar forces letters, which we don't let it do


@checks_options
class Grammar:
    """A logits processor that leaves only the tokens with which a text can go on.

    Args:
        vocabulary: a ``Vocabulary``, or a tokenizer to make one of.
        regex: the whole completion matches it (Rust's syntax).
        lark: it is a ``start`` of this context-free grammar, in Lark's syntax.
        json_schema: it is JSON that obeys this schema, a dict, without spaces between its parts.

    Raises:
        ValueError: not one of the three is given, or it is no grammar; the message says why.

    Example:
        >>> digits = lablib.inference.Grammar(tokenizer, regex="[0-9]{2}")
        >>> how = {"logits_processors": [digits], "temperature": 0.0}
        >>> str(lablib.generate(model, tokenizer, "sum 7 3:", **how)).isdigit()
        True
    """

    def __init__(
        self,
        vocabulary: Any,
        *,
        regex: str | None = None,
        lark: str | None = None,
        json_schema: dict[str, Any] | None = None,
    ) -> None:
        given = {"regex": regex, "lark": lark, "json_schema": json_schema}
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise BadValue(f"one of regex, lark, json_schema must be given, got {named}")
        kind, what = (str, "a text") if json_schema is None else (dict, "a dict")
        if not isinstance(given[named[0]], kind):
            raise BadType(f"{named[0]} must be {what}, got {shown(given[named[0]])}")
        if not isinstance(vocabulary, Vocabulary):
            vocabulary = Vocabulary(vocabulary)
        from llguidance import LLMatcher

        if regex is not None:
            (made,) = json.loads(LLMatcher.grammar_from_regex(regex))["grammars"]
            lark = made["lark_grammar"]
        elif json_schema is not None:
            compact = {"x-guidance": {"whitespace_flexible": False}}
            try:
                lark = f"start: %json {json.dumps(compact | json_schema)}"
            except (TypeError, ValueError, RecursionError) as error:
                raise BadValue(f"json_schema must be what JSON can hold: {error}") from None
        self.vocabulary = vocabulary
        self._matcher = LLMatcher(vocabulary.table, f"{_FREE}{lark}", log_level=0)
        if self._matcher.is_error():
            why = self._matcher.get_error().splitlines()[0]
            raise BadValue(f"{named[0]} must be a grammar that can be read, got {why[:LONGEST]}")
        self._read: int | None = None  # tokens of prompt and completion so far

    def copy(self) -> "Grammar":
        """Return one that goes its own way from here."""
        twin = shallow_copy(self)
        twin._matcher = self._matcher.deep_copy()
        return twin

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Mask ``logits (1, V)`` of the token after ``tokens``; the first call's are the prompt."""
        text: Any = tokens.tolist()
        self.read(text)
        if self._matcher.is_error():  # after a draft that is refused anyway
            return logits
        may, size = self.allowed(), logits.shape[-1]
        if len(may) != size:  # what a model has beyond its tokenizer may not come
            may = np.pad(may, (0, size))[:size]
        return mx.where(mx.array(may), logits, -mx.inf)

    def read(self, text: Sequence[int]) -> None:
        """Read what is new of a text; the first time all of it is the prompt."""
        new = [] if self._read is None else text[self._read :]
        self._read = len(text)
        for token in new:
            self._matcher.consume_token(token)

    def allowed(self) -> np.ndarray:
        """Return for each id whether it may come next, bool ``(V,)``; none may at a dead end."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        may = np.unpackbits(bits, bitorder="little").view(bool)
        if not self._matcher.is_accepting():
            may[[*self.vocabulary.stop_tokens]] = False
        return may

    def forced(self, most: int, branches: int = 1) -> tuple[list[int], list[int]]:
        """Return up to ``most`` tokens that must come next, and the parent of each; -1: the text.

        Where no more than ``branches`` tokens may come, one of them must.
        """
        tokens: list[int] = []
        parents: list[int] = []
        ends = [(-1, self)]
        for parent, grammar in ends:  # new ends join while we go
            ids = np.flatnonzero(grammar.allowed()).tolist()
            if len(ids) > branches:
                continue
            if len(tokens) + len(ids) > most:
                break
            for token in ids:
                tokens.append(token)
                parents.append(parent)
                if token not in self.vocabulary.stop_tokens:
                    after = grammar.copy()
                    after._matcher.consume_token(token)
                    ends.append((len(tokens) - 1, after))
        return tokens, parents


@checks_options
class GrammarDrafter(Drafter):
    """Proposes what the grammar forces: where one token may come, no model need be asked.

    These drafts are always kept. The grammar is the ``Grammar`` among the logits processors.

    Args:
        branches: with more than 1 it drafts a tree, of all tokens where no more than so many may
            come: one of them is kept. Models are then those of ``lablib.models``.

    Example:
        >>> forced = lablib.inference.Grammar(tokenizer, regex="#42")
        >>> drafter = lablib.inference.GrammarDrafter()
        >>> how = {"logits_processors": [forced], "max_tokens": 9}
        >>> ids, stats = lablib.speculative_decode(model, drafter, prompt, **how)
        >>> stats["total_accepted"] == stats["total_drafted"] > 0
        True
    """

    def __init__(self, branches: int = 1) -> None:
        self.branches = integer("branches", branches, 1)
        self.trees = self.branches > 1
        self.batches = not self.trees

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Look at each text's grammar, as far as it has been read."""
        guesses = []
        for row, (text, limit) in enumerate(zip(texts, limits, strict=True)):
            grammars = [each for each in sampler.states(row) if isinstance(each, Grammar)]
            if not grammars:
                raise BadType("logits_processors must hold a Grammar for a GrammarDrafter")
            grammar = grammars[0].copy()
            grammar.read(list(text))
            tokens, parents = grammar.forced(limit, self.branches)
            guesses.append(tokens)
        proposal = Proposal.of(guesses)
        if proposal is not None and self.trees:
            proposal = Proposal(proposal.tokens, parents=parents)
        return proposal

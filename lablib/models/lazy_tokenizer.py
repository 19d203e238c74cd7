"""A tokenizer that needs no transformers until it is asked for more than ids and texts.

``import transformers`` reads the sources of all its models: 1.3 s, most of what a small model's
first token takes in a process (5.24.0). ``tokenizers``, which does the work, is there at once.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from threading import RLock
from typing import Any

from tokenizers import Tokenizer

_LOCK = RLock()
_WRAPPER = "mlx_lm.tokenizer_utils"
ROLES = "unk_token", "bos_token", "eos_token", "pad_token"


class LazyTokenizer:
    """Becomes mlx-lm's ``TokenizerWrapper`` when it is asked for what it doesn't know by itself.

    Until then ids, texts and end tokens are those that the wrapper would give. Afterwards it is
    one, by its class, too: nobody who can look can tell.

    Args:
        made: the tokenizer of Hugging Face's ``tokenizers``.
        tokens: the tokens that have a role: ``bos_token`` and so on.
        ends: the ids that end a text, beside that of ``eos_token``.
        build: makes the wrapper, of a tokenizer that reads and writes as ``made`` does.
    """

    def __init__(
        self,
        made: Tokenizer,
        tokens: Mapping[str, Any],
        ends: Iterable[int],
        build: Callable[[], Any],
    ) -> None:
        known: dict[str, Any] = {role: tokens.get(role) for role in ROLES}
        ids = {f"{role}_id": made.token_to_id(token or "") for role, token in known.items()}
        every = {*ends, ids["eos_token_id"]} - {None}
        own = {"_made": made, "_build": build, "eos_token_ids": every}
        vars(self).update(known, **ids, **own, clean_up_tokenization_spaces=False)

    def encode(self, text: Any, *more: Any, **how: Any) -> Any:
        """Return a text's ids."""
        if type(text) is not str or more or how.keys() - {"add_special_tokens"}:
            return self.whole().encode(text, *more, **how)
        return self._made.encode(text, **how).ids

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **how: Any) -> Any:
        """Return the text of ids."""
        if type(token_ids) is list and not how:
            with suppress(TypeError):  # texts, say
                return self._made.decode(token_ids, skip_special_tokens)
        return self.whole().decode(token_ids, skip_special_tokens, **how)

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        """Return a token's id, or that of what has none."""
        if type(tokens) is not str:
            return self.whole().convert_tokens_to_ids(tokens)
        index = self._made.token_to_id(tokens)
        return self.unk_token_id if index is None else index

    def convert_ids_to_tokens(self, ids: Any, **how: Any) -> Any:
        """Return an id's token; None if there is none."""
        if type(ids) is not int or how:
            return self.whole().convert_ids_to_tokens(ids, **how)
        return self._made.id_to_token(ids)

    def get_vocab(self) -> dict[str, int]:
        """Return the id of each token."""
        return self._made.get_vocab()

    def __len__(self) -> int:
        return self._made.get_vocab_size()

    @property
    def backend_tokenizer(self) -> Tokenizer:
        """The tokenizer of ``tokenizers``."""
        return self._made

    @property
    def detokenizer(self) -> Any:
        """mlx-lm's, which writes token by token."""
        return self.whole().detokenizer

    def whole(self) -> Any:
        """Become mlx-lm's wrapper, and return it: this object."""
        with _LOCK:
            if type(self) is LazyTokenizer:
                made = self._build()
                made.eos_token_ids = self.eos_token_ids  # somebody may have added one
                kept = {"_made": made.backend_tokenizer}  # another thread may be in ``decode``
                vars(self).clear()
                vars(self).update(vars(made), **kept)
                _class.__set__(self, type(made))
        return self

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The wrapper's, once anybody can name it: ``isinstance`` goes by it."""
        return getattr(sys.modules.get(_WRAPPER), "TokenizerWrapper", LazyTokenizer)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.whole(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.whole(), name, value)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.whole().__reduce_ex__(protocol)


def reads_alike(made: Tokenizer, tokens: Mapping[str, Any]) -> bool:
    """Return whether transformers would leave a tokenizer as it is, neither add nor cut anything.

    Args:
        made: the tokenizer.
        tokens: those that have a role, as texts, perhaps among other settings.
    """
    special = {each.content for each in made.get_added_tokens_decoder().values() if each.special}
    is_whole = special >= {tokens[role] for role in ROLES if role in tokens}
    return is_whole and not (made.truncation or made.padding)


_class: Any = vars(object)["__class__"]

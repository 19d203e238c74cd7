"""The one tokenizer of the shipped models: byte-pair encoding over the three tasks.

At most 512 tokens; every digit is a token of its own and so is ``#``. Its alphabet is printable
ASCII and the newline; anything else becomes ``<unk>``. Every text starts with ``<s>``.
"""

import json
import string
from importlib.resources import files
from pathlib import Path

from lablib.course.tasks import edits, stories, sums

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

VOCAB_SIZE = 512
UNK, BOS, EOS = "<unk>", "<s>", "</s>"
SPECIAL = (UNK, BOS, EOS)
# What byte-level encoding writes for printable ASCII: itself, but for the space and the newline.
ALPHABET = sorted((set(string.printable) - set(string.whitespace)) | {"Ġ", "Ċ"})
_SEED = 20261120
# Enough edits to make each of their words one token; more of them would starve the stories.
_COUNTS = {stories: 16000, sums: 2000, edits: 4000}


def train_tokenizer() -> Tokenizer:
    """Train the tokenizer on documents of the three tasks; the same one every time."""
    tokenizer = Tokenizer(models.BPE(unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("[0-9#]"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIAL),
        initial_alphabet=ALPHABET,
        limit_alphabet=len(ALPHABET),
        show_progress=False,
    )
    texts = [text for task, n in _COUNTS.items() for text in task.documents(_SEED, n)]
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A",
        pair=f"{BOS} $A {BOS} $B",
        special_tokens=[(BOS, tokenizer.token_to_id(BOS))],
    )
    return tokenizer


def load_tokenizer() -> Tokenizer:
    """Return the tokenizer that comes with the package, as :func:`train_tokenizer` made it."""
    return Tokenizer.from_str(_packaged().decode("utf-8"))


def _packaged() -> bytes:
    return files("lablib.course.tasks").joinpath("tokenizer.json").read_bytes()


def save_pretrained(directory: str | Path) -> None:
    """Write tokenizer.json and tokenizer_config.json, as transformers and mlx-lm read them."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_bytes(_packaged())
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "unk_token": UNK,
        "clean_up_tokenization_spaces": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")

"""Holds small language models: one class, three shapes, and a zoo that opens them by name."""

from lablib.models.base import LanguageModel
from lablib.models.config import ModelConfig
from lablib.models.draft_block import DraftBlock, load_block
from lablib.models.gpt import gpt_config
from lablib.models.head import DraftHead, load_head
from lablib.models.llama import llama_config
from lablib.models.retention import hybrid_config
from lablib.models.zoo import load, names

__all__ = [
    "DraftBlock",
    "DraftHead",
    "LanguageModel",
    "ModelConfig",
    "gpt_config",
    "hybrid_config",
    "llama_config",
    "load",
    "load_block",
    "load_head",
    "names",
]

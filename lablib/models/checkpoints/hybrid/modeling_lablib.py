"""Opens this directory in mlx-lm: mlx_lm.load(path, trust_remote_code=True); needs lablib."""

from lablib.models.base import LanguageModel as Model
from lablib.models.config import ModelConfig as ModelArgs

__all__ = ["Model", "ModelArgs"]

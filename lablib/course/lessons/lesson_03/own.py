"""A cut of one's own in the place of the library's: lesson 03 writes its stories with it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from lablib.inference.sampling import transforms

import mlx.core as mx
import numpy as np


def in_place_of(
    name: str, cut: Callable[[np.ndarray, float], np.ndarray]
) -> AbstractContextManager[Any]:
    """Return a block inside which a cut runs wherever the library's transform would.

    Args:
        name: of the transform, such as ``"top_p"``.
        cut: ``(probabilities (N, V), setting) -> (N, V)``, 0 where a token was cut.
    """

    def transform(scores: mx.array, setting: Any) -> mx.array:
        probs = np.array(mx.softmax(scores, axis=-1)).reshape(-1, scores.shape[-1])
        left = cut(probs, float(np.ravel(np.array(setting))[0]))
        return mx.log(mx.array(left, mx.float32)).reshape(scores.shape)

    return patch.dict(transforms.ORDER, {name: transform})

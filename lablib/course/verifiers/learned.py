"""A verifier that has learned from finished solutions, right and wrong ones."""

from pathlib import Path
from typing import Any

from lablib.models import files, zoo
from lablib.models.base import LanguageModel
from lablib.validation import BadType, BadValue

import mlx.core as mx

_ROWS = 256  # sequences read at once
KIND = "lablib-verifier"


class Verifier:
    """``verifier(sequences (n, L), lengths (n,)) -> (n,)``: the log-odds that each is right.

    A language model's output layer reads the state after ``x_1 … x_{t-1}`` and says how *likely*
    each next token is. The verifier, a second output layer on the same state, says how *right* each
    is: the log-odds of a right solution are ``b + Σ_t W[x_t] · h_{t-1}``. It learns from finished
    solutions and whether their answer was right (outcome supervision, Cobbe et al. 2021,
    2110.14168); which step was to blame it has to find out by itself, and :meth:`token_scores`
    shows what it found.

    The head on the hidden states of ``model`` is ``weight (V, hidden)``, a row for each token, and
    ``bias``, the log-odds of a sequence whose tokens all score 0.
    """

    def __init__(self, model: LanguageModel, weight: mx.array, bias: float):
        if not isinstance(model, LanguageModel):
            raise BadType(f"model must be a LanguageModel, got {type(model).__name__}")
        shape = model.vocab_size, model.config.hidden_size
        if weight.shape != shape:
            raise BadValue(f"weight must have shape {shape}, got {weight.shape}")
        self.model, self.weight, self.bias = model, weight.astype(mx.float32), float(bias)

    def __call__(self, sequences: mx.array, lengths: mx.array | None = None) -> mx.array:
        """Return the log-odds ``(n,)`` of sequences ``(n, L)``, prompt and completion; float32.

        Row i ends after ``lengths[i]`` tokens, by default after L; anything may follow as padding.
        """
        return self.bias + self.token_scores(sequences, lengths).sum(axis=-1)

    def token_scores(self, sequences: mx.array, lengths: mx.array | None = None) -> mx.array:
        """Return what each token adds to them, ``(n, L)``; 0 for the first one and for padding."""
        sequences, lengths = self._checked(sequences, lengths)
        parts = []
        for rows in mx.split(sequences, list(range(_ROWS, len(sequences), _ROWS))):
            states = self.model.hidden(rows[:, :-1]).astype(mx.float32)
            parts.append((self.weight[rows[:, 1:]] * states).sum(axis=-1))
            mx.eval(parts[-1])
        scores = mx.pad(mx.concatenate(parts), [(0, 0), (1, 0)])
        return mx.where(mx.arange(scores.shape[1]) < lengths[:, None], scores, 0)

    def _checked(self, sequences: Any, lengths: Any) -> tuple[mx.array, mx.array]:
        sequences = mx.array(sequences)
        if sequences.ndim != 2 or 0 in sequences.shape or sequences.shape[1] < 2:
            raise BadValue(f"sequences must have shape (n, L) with L ≥ 2, got {sequences.shape}")
        if not mx.issubdtype(sequences.dtype, mx.integer):
            raise BadType(f"sequences must be token ids, got {sequences.dtype}")
        n, longest = sequences.shape
        lengths = mx.full((n,), longest) if lengths is None else mx.array(lengths)
        if lengths.shape != (n,):
            raise BadValue(f"lengths must have shape ({n},), got {lengths.shape}")
        sequences = mx.where(mx.arange(longest) < lengths[:, None], sequences, 0)  # 0 for padding
        low, high, last = sequences.min().item(), sequences.max().item(), self.model.vocab_size - 1
        if low < 0 or high > last:
            raise BadValue(f"sequences must hold ids between 0 and {last}, got {low} to {high}")
        return sequences.astype(mx.int32), lengths


def load_verifier(name: str | Path = "verifier", model: LanguageModel | None = None) -> Verifier:
    """Return the shipped "verifier", or the one that the workshop wrote at a path.

    ``model`` is by default the one that its directory names, which lies beside it or is shipped.

    Raises:
        BadValue: there is no such verifier, or its head was trained on another model.
    """
    if not isinstance(name, str | Path):
        raise BadType(f"name must be a verifier's name or path, got {name!r}")
    path = zoo.CHECKPOINTS / name if name == "verifier" else Path(name)
    keys = files.read_json(path / "config.json")
    if keys.get("model_type") != KIND:
        raise BadValue(f"{path} does not hold a verifier, but a {keys.get('model_type')!r}")
    if model is None:
        beside = path.parent / keys["target"]
        model, _ = zoo.load(beside if beside.is_dir() else keys["target"])
    if files.fingerprint(model) != keys["fingerprint"]:
        raise BadValue(f"model must be the {keys['target']!r} that the verifier was trained on")
    weights = files.read_arrays(path / "model.safetensors")
    return Verifier(model, weights["weight"], weights["bias"].item())

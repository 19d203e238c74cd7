#!/usr/bin/env bash
# mlx-lm 0.32.2: past a model's sliding window, greedy speculation writes another text than the model
# does, in silence.
#
# Expected: at temperature 0 a draft model changes no token. Seen: that holds until drafts reach the
# window's end. From there on `RotatingKVCache.is_trimmable` says no, `trim_prompt_cache` takes back
# nothing and says so by its result, 0, at which `speculative_generate_step` doesn't look. So drafts
# that were refused stay in the cache, and the text goes on behind them. Gemma 3 has such layers, of
# 512 tokens. `stream_generate(..., draft_model=...)` is the same function. (Reported as mlx-lm#1423.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "mlx[cpu]==0.32.4" "mlx-lm==0.32.2"
"$folder/venv/bin/python" - <<'PYTHON'
import mlx.core as mx
import mlx_lm
from mlx_lm.generate import generate_step, speculative_generate_step
from mlx_lm.models import gemma3_text

WINDOW, LENGTH, DRAFTS = 32, 96, 3
SIZES = dict(
    model_type="gemma3_text", hidden_size=64, num_hidden_layers=2, intermediate_size=128,
    num_attention_heads=4, head_dim=16, rms_norm_eps=1e-6, vocab_size=128,
    num_key_value_heads=1, sliding_window_pattern=2,
)


def model(seed, window):
    """Return a model of random weights, one of whose two layers has a window."""
    mx.random.seed(seed)
    made = gemma3_text.Model(gemma3_text.ModelArgs(**SIZES, sliding_window=window))
    made.update({"model": {"embed_tokens": {"weight": mx.random.normal((128, 64))}}})
    mx.eval(made.parameters())
    return made


def parted(window):
    """Return where each of 20 texts parts from the plain one, or None."""
    target, draft, places = model(1, window), model(2, window), []
    for first in range(20):
        prompt = mx.array([first, 7, 3, 11])
        plain = [int(t) for t, _ in generate_step(prompt, target, max_tokens=LENGTH)]
        steps = speculative_generate_step(
            prompt, target, draft, num_draft_tokens=DRAFTS, max_tokens=LENGTH
        )
        pairs = enumerate(zip(plain, (int(t) for t, *_ in steps), strict=True))
        places.append(next((4 + i for i, (a, b) in pairs if a != b), None))
    return places


mx.set_default_device(mx.cpu)
wide, narrow = parted(256), parted(WINDOW)
print(f"mlx-lm {mlx_lm.__version__}, a window of 256: texts part at", *wide)
print(f"a window of {WINDOW}: texts part at", *narrow)
assert not any(wide), "they part within the window, too"
assert all(place and place >= WINDOW - DRAFTS for place in narrow), "it has changed"
PYTHON

"""Lays what llama.cpp makes of a GGUF file beside what ``lablib.load`` does.

    python tests/oracles/llama_cpp.py PYTHON FILE.gguf [--places 200]

``PYTHON`` is one of another environment, with ``pip install xllamacpp==2026.10.11549``. llama.cpp
multiplies stored weights by activations of 8 bits; so it also runs the same numbers written out in
float32, and what the two differ by is its own rounding.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import lablib
from lablib.models.gguf import header, weights

import mlx.core as mx
import numpy as np

sys.path[0] = str(Path(__file__).parents[1])  # beside this file lies one that is named gguf
oracle = import_module("oracles.gguf")

TEXT = Path(__file__).parents[1] / "real" / "text.txt"
PROMPTS = [
    "Once upon a time, there was a", "The capital of France is", "def fibonacci(n):\n    ",
    "Water boils at", "1, 2, 3, 4, 5,",
]  # fmt: skip
LENGTH = 24  # tokens of a greedy text
THEIRS = """
import json, sys, xllamacpp
asked = json.load(sys.stdin)
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = asked["file"], 2048, 1
params.cpuparams.n_threads = 1
server = xllamacpp.Server(params)
out = []
for prompt in asked["prompts"]:
    how = {"n_predict": asked["n"], "n_probs": 20, "temperature": 0.0, "ignore_eos": True}
    said = server.handle_completions({"prompt": prompt, "cache_prompt": True, **how})
    steps = said["choices"][0]["logprobs"]["content"]
    tops = [{t["id"]: t["logprob"] for t in step["top_logprobs"]} for step in steps]
    out.append([[step["id"], top] for step, top in zip(steps, tops)])
json.dump(out, open(asked["out"], "w"))
"""


def theirs(python, file, prompts, n):
    """Return llama.cpp's steps: a token, and the log-probabilities of twenty by their ids."""
    with tempfile.TemporaryDirectory() as work:
        asked = {"file": str(file), "prompts": prompts, "n": n, "out": f"{work}/out.json"}
        command = [python, "-c", THEIRS]
        subprocess.run(command, input=json.dumps(asked), text=True, check=True, capture_output=True)
        said = json.loads(Path(work, "out.json").read_text())
    return [[(t, {int(i): p for i, p in top.items()}) for t, top in steps] for steps in said]


def written_out(source, out):
    """Write the numbers of a file as float32, behind the same keys."""
    found = header.read(source)
    keys = {}
    for name, value in found.keys.items():
        if isinstance(value, np.ndarray):
            kind = f"{value.dtype.name}"
            value = [oracle.As(kind, each) for each in value.tolist()]
        elif isinstance(value, float):
            value = oracle.As("float32", value)
        keys[name] = value
    keys["general.file_type"] = 0
    tensors = {
        name: ("F32", tensor.shape, weights.floats(source, tensor).tobytes())
        for name, tensor in found.tensors.items()
    }
    return oracle.write(out, keys, tensors)


def logprobs(model, ids):
    logits = np.array(model(mx.array([ids]))[0], np.float64)
    top = logits.max(-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def compare_places(model, ids, places, said):
    """Print how far, and how often, the two are apart at the same places of a text."""
    ours = logprobs(model, ids)[np.array(places) - 1]
    best = ours.argmax(-1)
    second, first = np.sort(ours, -1)[:, -2:].T
    lead = first - second
    tops = {name: [steps[0] for steps in every] for name, every in said.items()}
    for name, steps in tops.items():
        apart = [max(abs(top[i] - ours[k, i]) for i in top) for k, (_, top) in enumerate(steps)]
        same = sum(token == best[k] for k, (token, _) in enumerate(steps))
        print(f"{name}: best token equal at {same} of {len(places)} places")
        how = f"{np.median(apart):.4f} (median), {max(apart):.4f} (most)"
        print(f"  log-probabilities of its 20 best differ by {how}")
    stored, floats = tops.values()
    rounding = np.array([
        max(abs(a[1][i] - b[1][i]) for i in a[1].keys() & b[1].keys())
        for a, b in zip(stored, floats, strict=True)
    ])  # fmt: skip
    print(f"its own rounding: {np.median(rounding):.3f} (median), {rounding.max():.3f} (most)")
    clear = lead > 2 * rounding  # either of two tokens may move by it
    wrong = sum(clear[k] and token != best[k] for k, (token, _) in enumerate(stored))
    print(f"our lead is larger than twice that at {clear.sum()} places: another best at {wrong}")
    others = [k for k, (token, _) in enumerate(stored) if token != best[k]]
    print("where the best is another, lead and rounding:",
          *(f"{lead[k]:.3f}/{rounding[k]:.3f}" for k in others))  # fmt: skip


def compare_texts(model, prompts, said):
    """Print how many greedy texts are equal, and how far apart two tokens are where one parts."""
    for name, every in said.items():
        equal = 0
        for prompt, steps in zip(prompts, every, strict=True):
            tokens = [token for token, _ in steps]
            ours = logprobs(model, [*prompt, *tokens[:-1]])[len(prompt) - 1 :]
            parted = [k for k, token in enumerate(tokens) if ours[k].argmax() != token]
            equal += not parted
            if parted:
                k = parted[0]
                gap = ours[k].max() - ours[k, tokens[k]]
                print(f"{name}: text {prompts.index(prompt)} parts at {k}, our two {gap:.3f} apart")
        print(f"{name}: {equal} of {len(prompts)} greedy texts of {LENGTH} tokens are equal")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("file", type=Path)
    parser.add_argument("--places", type=int, default=200)
    options = parser.parse_args()
    model, tokenizer = lablib.load(options.file, dtype=mx.float32)
    ids = tokenizer.encode(TEXT.read_text(encoding="utf-8"))
    places = [20 + 3 * k for k in range(options.places)]
    prompts = [tokenizer.encode(prompt) for prompt in PROMPTS]
    with tempfile.TemporaryDirectory() as work:
        twin = written_out(options.file, Path(work, "float32.gguf"))
        files = {"llama.cpp": options.file, "llama.cpp, float32": twin}
        said = {
            name: theirs(options.python, file, [ids[:place] for place in places], 1)
            for name, file in files.items()
        }
        compare_places(model, ids[: places[-1]], places, said)
        said = {n: theirs(options.python, file, prompts, LENGTH) for n, file in files.items()}
        compare_texts(model, prompts, said)


if __name__ == "__main__":
    main()

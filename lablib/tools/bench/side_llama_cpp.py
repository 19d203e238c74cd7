"""The work for llama.cpp; run by a Python that has its wheel, without lablib.

``pip install xllamacpp==2026.10.11549`` makes its environment. It reads the same GGUF file.
"""

import os
import sys
import time
from typing import Any

import turns


def make(settings: dict[str, Any]) -> dict[str, turns.Run]:
    """Return its cases by name."""
    import xllamacpp

    if settings["file"] is None:
        raise ValueError("smollm2's file is not here: run python -m lablib fetch")
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = settings["file"], 2048, 1
    params.cpuparams.n_threads = int(os.environ["LABLIB_THREADS"])
    server = xllamacpp.Server(params)
    now, new = time.process_time, settings["plan"]["stored"]

    def spent(prompt: list[int], n: int) -> float:
        """Return the seconds for a prompt, and ``n`` tokens behind it."""
        start = now()
        asked = {"prompt": prompt, "n_predict": n, "temperature": 0.0, "ignore_eos": True}
        server.handle_completions(asked | {"cache_prompt": False})
        return now() - start

    def decode(_: int) -> turns.Answer:
        prompt = settings["prompts"][str(settings["plan"]["prompt"])]
        return {"seconds": -spent(prompt, 1) + spent(prompt, new + 1), "units": new}

    def read(length: int) -> turns.Answer:
        return {"seconds": spent(settings["prompts"][str(length)], 1), "units": length}

    lengths = settings["plan"]["prompts"]
    reading = {f"stored, prompt of {n}": lambda _, n=n: read(n) for n in lengths}
    return {"stored, decode": decode} | reading


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose names are no modules for others
    turns.serve(make)

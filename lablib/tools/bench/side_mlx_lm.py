"""mlx-lm's side of a comparison, by its public names, with the same weights and prompts."""

from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from lablib.tools.bench.parts import logits_of, steps_of
from lablib.tools.bench.plan import SAMPLERS
from lablib.tools.bench.side_lablib import after_first, peak_of, prompt_read, queue_of, tokens_of
from lablib.tools.bench.turns import Answer, Run, clock, serve

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx_lm.generate import batch_generate, generate_step, speculative_generate_step
from mlx_lm.sample_utils import make_sampler

# batch_generate wants a tokenizer for its stop tokens and to decode what it generated.
_NO_TEXT = SimpleNamespace(eos_token_ids=[], decode=lambda tokens: "")


def make(settings: dict[str, Any]) -> dict[str, Run]:
    """Return mlx-lm's cases by name."""
    side = _MlxLM(settings)
    return side.decoding() | side.speculation() | side.votes() | side.sampler()


class _MlxLM:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.plan = settings, settings["plan"]
        self.load = cache(self._load)
        self.lengths: dict[str, int] = {}  # drafts a round, by case

    def _load(self, name: str) -> tuple[Any, Any]:
        model, tokenizer = mlx_lm.load(self.settings["models"][name])
        if mx.default_device() == mx.cpu:
            model.set_dtype(mx.float32)  # as lablib does: half precision has no BLAS
        mx.eval(model.parameters())
        return model, tokenizer

    # --- one token at a time ------------------------------------------------------------------

    def decoding(self) -> dict[str, Run]:
        found: dict[str, Run] = {"decode, text": self._stream}
        for name, n in self.plan["decode"]:
            found[f"decode, {name}"] = partial(self._decode, name, n)
        return found

    def _decode(self, name: str, n: int, _: int) -> Answer:
        prompt = mx.array(self.settings["prompts"][str(self.plan["prompt"])])
        steps = generate_step(prompt, self.load(name)[0], max_tokens=n + 2)
        return after_first((token for token, _ in steps), n)

    def _stream(self, _: int) -> Answer:
        model, tokenizer = self.load("target")
        now = clock()
        start, most = now(), dict(self.plan["decode"])["target"]
        pieces = mlx_lm.stream_generate(model, tokenizer, self.settings["text"], max_tokens=most)
        text = "".join(piece.text for piece in pieces)
        seconds, tokens = now() - start, tokens_of(tokenizer, text)
        return {"seconds": seconds, "units": len(tokens), "tokens": [tokens]}

    # --- speculation --------------------------------------------------------------------------

    def speculation(self) -> dict[str, Run]:
        found: dict[str, Run] = {}
        for task in self.settings["texts"]:
            for temperature in (0, 1):
                name = f"{task}, temperature {temperature}"
                arguments = name, task, float(temperature)
                found[f"plain, {name}"] = partial(self._plain, *arguments)
                found[name] = partial(self._speculate, *arguments)
        return found

    def _plain(self, name: str, task: str, temperature: float, turn: int) -> Answer:
        return self._complete(task, temperature, turn, 0)

    def _speculate(self, name: str, task: str, temperature: float, turn: int) -> Answer:
        if name not in self.lengths:  # its best, and it too gets to warm up
            speeds = {}
            for length in self.plan["lengths"]:
                answers = [self._complete(task, temperature, i, length) for i in (0, 1)]
                speeds[length] = max(each["units"] / each["seconds"] for each in answers)
            self.lengths[name] = max(speeds, key=speeds.__getitem__)
        return self._complete(task, temperature, turn, self.lengths[name])

    def _complete(self, task: str, temperature: float, turn: int, length: int) -> Answer:
        """Complete every text of a task; the clock runs from the prompts' last tokens on."""
        models = [self.load(each)[0] for each in ("target", "draft")[: 2 if length else 1]]
        sampler = make_sampler(temp=temperature)
        options = {"max_tokens": self.plan["most"], "sampler": sampler}
        texts, seconds, rounds, now = [], 0.0, 0, clock()
        for i, prompt in enumerate(self.settings["texts"][task]):
            caches = prompt_read(models, prompt)
            options["prompt_cache"] = [layer for layers in caches for layer in layers]
            mx.random.seed(1000 * turn + i)
            start = now()
            last = mx.array(prompt[-1:])
            if length:
                steps = speculative_generate_step(last, *models, num_draft_tokens=length, **options)
            else:
                steps = generate_step(last, models[0], **options)
            tokens, drafted = [], [False]
            for token, _, *drafted in steps:
                tokens.append(token)
                rounds += drafted == [False]
                if token == self.settings["stop"]:
                    break
            steps.close()
            rounds += drafted == [True]  # the last round ended among its drafts
            seconds += now() - start
            texts.append(tokens)
        answer = {"seconds": seconds, "units": sum(map(len, texts)), "tokens": texts}
        if length:
            answer |= {"per_round": answer["units"] / rounds, "drafts": length}
        return answer

    # --- many rows ----------------------------------------------------------------------------

    def votes(self) -> dict[str, Run]:
        return {"many": self._many} | {
            f"votes, {name}, prompt of {length}": partial(self._vote, name, length)
            for name in self.plan["voters"]
            for length in self.plan["prompts"]
        }

    def _vote(self, name: str, length: int, turn: int) -> Answer:
        prompts, n = [self.settings["prompts"][str(length)]] * self.plan["rows"], self.plan["rows"]
        how = {"max_tokens": self.plan["new"], "sampler": make_sampler(temp=0.8)}
        how |= {"completion_batch_size": n, "prefill_batch_size": n}
        return self._batch(self.load(name)[0], _NO_TEXT, prompts, how, turn)

    def _many(self, turn: int) -> Answer:
        asked = self.settings["queue"]
        queue = queue_of(self.settings["stories"], self.plan["queue"], turn)
        how = {"max_tokens": asked["max_tokens"], "completion_batch_size": asked["rows"]}
        how["sampler"] = make_sampler(temp=1.0)
        prompts = [prompt for prompt in queue for _ in range(asked["n"])]
        stops = SimpleNamespace(eos_token_ids=[self.settings["stop"]], decode=_NO_TEXT.decode)
        return self._batch(self.load("target")[0], stops, prompts, how, turn)

    def _batch(self, model: Any, tokenizer: Any, prompts: list, how: dict, turn: int) -> Answer:
        mx.random.seed(turn)
        now = clock()
        start = now()
        copies = [list(prompt) for prompt in prompts]
        found, peak = peak_of(
            lambda: batch_generate(model, tokenizer, copies, return_token_ids=True, **how)
        )
        units = sum(map(len, found.token_ids))
        return {"seconds": now() - start, "units": units, "peak": peak}

    # --- a sampler ----------------------------------------------------------------------------

    def sampler(self) -> dict[str, Run]:
        found: dict[str, Run] = {}
        for rows, size in self.plan["sampler"]:
            for kind, options in SAMPLERS.items():
                run = partial(self._sample, options, rows, size)
                found[f"sampler, {rows} × {size}, {kind}"] = run
        return found

    def _sample(self, options: dict[str, float], rows: int, size: int, _: int) -> Answer:
        cuts = {name: options.get(name, 0) for name in ("top_p", "min_p", "top_k")}
        sampler, logits = make_sampler(options["temperature"], **cuts), logits_of(rows, size)
        for _ in range(steps_of(rows, size)):
            np.array(sampler(logits))
        return {"units": rows * steps_of(rows, size)}


if __name__ == "__main__":
    serve(make)

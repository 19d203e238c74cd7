"""lablib's side of a comparison, and the exact answers that the other sides are held to."""

import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from typing import Any

import lablib
from lablib.cache import kv
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import AdaptiveLength, EarlyExit, NGram, Tree
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.tools.bench import particles, parts
from lablib.tools.bench.plan import MLX_LM, drafters
from lablib.tools.bench.turns import Answer, Run, clock, serve
from lablib.tools.forecast import forecast

import mlx.core as mx
from mlx.utils import tree_flatten


def make(settings: dict[str, Any]) -> dict[str, Run]:
    """Return lablib's cases by name."""
    side = _Lablib(settings)
    own = parts.cases(settings, lambda: side.load("target")[0])
    one = side.decoding() | side.stored() | side.speculation()
    return one | side.drafters() | side.many() | own


def after_first(tokens: Iterator[int], n: int) -> Answer:
    """Return the ``n`` tokens after the first, with the seconds that they took.

    What is timed begins and ends with a forward in flight, on every side.
    """
    now, first = clock(), next(tokens)
    start = now()
    rest = list(islice(tokens, n))
    return {"seconds": now() - start, "units": n, "tokens": [[first, *rest]]}


def tokens_of(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of a completion, but for a space at its start, which mlx-lm drops."""
    return tokenizer.encode(text.lstrip(), add_special_tokens=False)


def peak_of(run: Callable[[], Any]) -> tuple[Any, int]:
    """Return what ``run`` does, and the most bytes that it needed beside what there was."""
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    found = run()
    return found, mx.get_peak_memory() - before


def queue_of(stories: list[int], count: int, turn: int) -> list[list[int]]:
    """Return prompts of 16 to 512 tokens, cut out of stories; none begins like another."""
    drawn = random.Random(turn)
    lengths = [drawn.randrange(16, 513) for _ in range(count)]
    return [stories[i : i + n] for n in lengths for i in [drawn.randrange(len(stories) - 512)]]


def prompt_read(models: list[Any], prompt: list[int]) -> list[list[Any]]:
    """Return a cache for each model that has read all of a prompt but its last token."""
    caches = [kv.make(model) for model in models]
    for model, layers in zip(models, caches, strict=True):
        mx.eval(model(mx.array([prompt[:-1]]), cache=layers), [layer.state for layer in layers])
    return caches


def _bytes(model: Any, context: float) -> float:
    """Return what must be read for one token after ``context`` tokens."""
    config = model.config
    weights = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
    embedding = model.model.embed_tokens.weight
    if not config.tie_word_embeddings:
        weights -= embedding.nbytes
    width = config.num_key_value_heads * config.head_dim * embedding.itemsize
    return weights + 2 * len(model.layers) * width * context


def _rounds(iterators: list[Any]) -> Answer:
    """Return the share of the drafts that was kept, and the tokens a round."""
    rounds, accepted, drafted = (
        sum(each.stats[what] for each in iterators)
        for what in ("rounds", "total_accepted", "total_drafted")
    )
    return {"kept": accepted / max(1, drafted), "per_round": (accepted + rounds) / rounds}


class _Lablib:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.plan = settings, settings["plan"]
        self.load = cache(self._load)
        self.real = cache(lambda: lablib.load("smollm2"))
        self.foreign = cache(self._load_foreign)
        self.drafter = cache(self._load_drafter)
        self.drafts = cache(self._load_drafts)
        self.lengths: dict[tuple[str, str], int] = {}  # drafts a round, by drafter and case

    # --- one token at a time ------------------------------------------------------------------

    def decoding(self) -> dict[str, Run]:
        found: dict[str, Run] = {}
        for name, n in self.plan["decode"]:
            found[f"decode, {name}"] = partial(self._decode, name, n, self.load)
            found[f"decode, {name}, {MLX_LM}"] = partial(self._decode, name, n, self.foreign)
            found[f"decode, {name}, exactly"] = partial(self._decode_exactly, name, n)
        found["decode, text"] = self._stream
        found["decode, text, exactly"] = self._stream_exactly
        return found

    def _decode(self, name: str, n: int, load: Callable, _: int) -> Answer:
        model, prompt = load(name)[0], self.settings["prompts"][str(self.plan["prompt"])]
        options = {"max_tokens": n + 2, "temperature": 0.0, "stop_tokens": ()}
        tokens = TokenIterator(model, prompt, **options)
        answer = after_first((token.id for token in tokens), n)
        return answer | {"bytes": _bytes(self.load(name)[0], len(prompt) + n / 2)}

    def stored(self) -> dict[str, Run]:
        """Return the cases of a GGUF file's model, if it is here, beside llama.cpp."""
        if self.settings["file"] is None:
            return {}
        found: dict[str, Run] = {"stored, decode": self._decode_stored}
        for n in self.plan["prompts"]:
            found[f"stored, prompt of {n}"] = partial(self._read_stored, n)
        return found

    def _decode_stored(self, _: int) -> Answer:
        prompt = self.settings["prompts"][str(self.plan["prompt"])]
        options = {"max_tokens": self.plan["stored"] + 2, "temperature": 0.0, "stop_tokens": ()}
        tokens = TokenIterator(self.real()[0], prompt, **options)
        return after_first((token.id for token in tokens), self.plan["stored"])

    def _read_stored(self, length: int, _: int) -> Answer:
        prompt = self.settings["prompts"][str(length)]
        options = {"max_tokens": 1, "temperature": 0.0, "stop_tokens": ()}
        next(TokenIterator(self.real()[0], prompt, **options))
        return {"units": length}

    def _decode_exactly(self, name: str, n: int, _: int) -> Answer:
        prompt = self.settings["prompts"][str(self.plan["prompt"])]
        return exactly(self.load(name)[0], [prompt], max_tokens=n + 1)

    def _stream(self, _: int) -> Answer:
        model, tokenizer = self.load("target")
        now = clock()
        start, most = now(), dict(self.plan["decode"])["target"]
        pieces = lablib.stream(
            model, tokenizer, self.settings["text"], max_tokens=most, temperature=0.0,
            stop_tokens=[self.settings["stop"]],
        )  # fmt: skip
        text = "".join(pieces)
        seconds, tokens = now() - start, tokens_of(tokenizer, text)
        return {"seconds": seconds, "units": len(tokens), "tokens": [tokens]}

    def _stream_exactly(self, _: int) -> Answer:
        model, tokenizer = self.load("target")
        most = dict(self.plan["decode"])["target"]
        prompt = tokenizer.encode(self.settings["text"])
        found = exactly(model, [prompt], max_tokens=most, stop_tokens=[self.settings["stop"]])
        tokens = found["tokens"][0]
        text = tokenizer.decode(tokens[:-1] if tokens[-1] == self.settings["stop"] else tokens)
        return found | {"tokens": [tokens_of(tokenizer, text)]}

    # --- speculation --------------------------------------------------------------------------

    def speculation(self) -> dict[str, Run]:
        found: dict[str, Run] = {}
        for task in self.settings["texts"]:
            found[f"{task}, exactly"] = partial(self._texts_exactly, task)
            for temperature in (0, 1):
                name = f"{task}, temperature {temperature}"
                arguments = name, task, float(temperature)
                found[f"forecast, {name}"] = partial(self._forecast, "draft", *arguments)
                found[f"plain, {name}"] = partial(self._plain, *arguments[1:])
                found[name] = partial(self._speculate, "draft", *arguments)
                found[f"head, {name}"] = partial(self._speculate, "head", *arguments)
        return found

    def _texts_exactly(self, task: str, _: int) -> Answer:
        target, texts = self.load("target")[0], self.settings["texts"][task]
        stop = [self.settings["stop"]]
        return exactly(target, texts, max_tokens=self.plan["most"], stop_tokens=stop)

    def _load_drafter(self, kind: str) -> Any:
        if kind == "draft":
            return self.load("draft")[0]
        return lablib.Head(lablib.load_head("target-head", self.load("target")[0]))

    def _forecast(self, kind: str, name: str, task: str, temperature: float, turn: int) -> Answer:
        found = forecast(
            self.load("target")[0], self.drafter(kind), prompts=self.settings["texts"][task],
            max_tokens=self.plan["most"], temperature=temperature,
            stop_tokens=[self.settings["stop"]], seed=1000 * turn,
        )  # fmt: skip
        length = self.lengths.setdefault((kind, name), max(1, found.draft_tokens))
        return {"speedup": found.speedups[length], "drafts": length}

    def _plain(self, task: str, temperature: float, turn: int) -> Answer:
        target = self.load("target")[0]

        def start(prompt: list[int], caches: list[Any], options: dict[str, Any]) -> Any:
            return TokenIterator(target, prompt[-1:], cache=caches[0], **options)

        return self._complete([target], start, task, temperature, turn)[0]

    def _speculate(self, kind: str, name: str, task: str, temperature: float, turn: int) -> Answer:
        if (kind, name) not in self.lengths:
            self._forecast(kind, name, task, temperature, turn)
        length = self.lengths[kind, name]
        target, drafter = self.load("target")[0], self.drafter(kind)
        read_before = [target, drafter] if kind == "draft" else []  # a head needs states

        def start(prompt: list[int], caches: list[Any], options: dict[str, Any]) -> Any:
            held = dict(zip(("cache", "draft_cache"), caches, strict=False))
            text, how = prompt[-1:] if held else prompt, {"draft_tokens": length} | held | options
            return SpeculativeTokenIterator(target, drafter, text, **how)

        answer, iterators = self._complete(read_before, start, task, temperature, turn)
        answer |= _rounds(iterators) | {"drafts": length}
        if kind == "draft":
            context = self.plan["most"] / 2
            read = _bytes(target, context) + length * _bytes(drafter, context)
            answer["bytes"] = read / answer["per_round"]
        return answer

    def drafters(self) -> dict[str, Run]:
        return {
            f"drafts, {kind}, {task}, temperature {temperature}":
                partial(self._draft, kind, task, float(temperature))
            for task in self.settings["texts"]
            for temperature in (0, 1)
            for kind in drafters(temperature)
        }  # fmt: skip

    def _draft(self, kind: str, task: str, temperature: float, turn: int) -> Answer:
        target = self.load("target")[0]
        drafter, how = self.drafts(kind)

        def start(prompt: list[int], _: list[Any], options: dict[str, Any]) -> Any:
            return SpeculativeTokenIterator(target, drafter, prompt, **how, **options)

        answer, iterators = self._complete([], start, task, temperature, turn)
        return answer | _rounds(iterators)

    def _load_drafts(self, kind: str) -> tuple[Any, dict[str, Any]]:
        """Return a kind's drafter and options: as many drafts as serve it well."""
        if kind == "look-up":
            return NGram(), {"draft_tokens": AdaptiveLength()}
        if kind == "trained block":
            block = lablib.load_block("target-block", self.load("target")[0])
            return lablib.Block(block), {"draft_tokens": block.size}
        if kind == "early exit":
            return EarlyExit(2), {"draft_tokens": 3}
        if kind == "tree":
            return Tree(self.drafter("draft")), {"draft_tokens": 8}
        if kind in ("draft", "head"):
            return self.drafter(kind), {"draft_tokens": 4}
        return self.drafter("draft"), {"draft_tokens": 4, "rule": kind}

    def _complete(
        self, models: list[Any], begin: Any, task: str, temperature: float, turn: int
    ) -> tuple[Answer, list[Any]]:
        """Complete every text of a task; reading the prompts but for their last tokens is free."""
        iterators, seconds, now = [], 0.0, clock()
        for i, prompt in enumerate(self.settings["texts"][task]):
            caches = prompt_read(models, prompt)
            options = {
                "max_tokens": self.plan["most"], "stop_tokens": [self.settings["stop"]],
                "temperature": temperature, "seed": 1000 * turn + i,
            }  # fmt: skip
            start = now()
            iterator = begin(prompt, caches, options)
            seconds += now() - start
            iterator._read_prompt()  # what no cache holds: a head wants the states of all of it
            mx.eval([layer.state for layer in iterator.cache])
            start = now()
            for _ in iterator:
                pass
            seconds += now() - start
            iterators.append(iterator)
        tokens = [each.tokens for each in iterators]
        return {"seconds": seconds, "units": sum(map(len, tokens)), "tokens": tokens}, iterators

    # --- many rows ----------------------------------------------------------------------------

    def many(self) -> dict[str, Run]:
        found: dict[str, Run] = {}
        for name in self.plan["voters"]:
            for length in self.plan["prompts"]:
                case = f"votes, {name}, prompt of {length}"
                found[case] = partial(self._vote, name, length)
        found |= {"many": self._many, "best of n": self._best_of_n, "smc": self._smc}
        steps = particles.cases(self.plan, self.settings["prompts"])
        for name, each in steps.items():
            found[name] = partial(self._particles, each, self.load)
            found[f"{name}, {MLX_LM}"] = partial(self._particles, each, self.foreign)
        return found

    def _vote(self, name: str, length: int, turn: int) -> Answer:
        model, n = self.load(name)[0], self.plan["rows"]
        prompt, new, now = self.settings["prompts"][str(length)], self.plan["new"], clock()
        start = now()
        options = {"temperature": 0.8, "stop_tokens": (), "seed": turn}
        votes, peak = peak_of(lambda: lablib.majority_vote(model, prompt, n, new, **options))
        seconds = now() - start
        units = sum(len(tokens) * count for tokens, count in votes)
        return {"seconds": seconds, "units": units, "peak": peak}

    def _many(self, turn: int) -> Answer:
        model, asked = self.load("target")[0], self.settings["queue"]
        queue = queue_of(self.settings["stories"], self.plan["queue"], turn)
        options = [lablib.SamplerOptions(seed=1000 * turn + i) for i in range(len(queue))]
        how = {"max_batch": asked["rows"], "max_tokens": asked["max_tokens"]}
        how["stop_tokens"] = [self.settings["stop"]]
        now = clock()
        start = now()
        samples, peak = peak_of(
            lambda: list(lablib.sample_many(model, queue, options, asked["n"], **how))
        )
        seconds, units = now() - start, sum(sum(each.lengths) for each in samples)
        return {"seconds": seconds, "units": units, "peak": peak}

    def _smc(self, turn: int) -> Answer:
        asked, prompt = self.settings["smc"], self.settings["prompts"][str(self.plan["prompt"])]
        lm = lablib.AsyncMlxLM(self.load("target")[0], None, batch_size=asked["n"])
        how = {"max_tokens": asked["max_tokens"], "ess": asked["ess"], "resample": "systematic"}

        def potential(tokens: list[int], _: bool) -> float:
            return particles.odd(tokens, asked["cost"])

        how |= {"stop_tokens": [self.settings["stop"]], "seed": turn}
        (cloud,) = lablib.inference.smc(lm, [prompt], asked["n"], potential, **how)
        return {"units": asked["n"] * asked["max_tokens"], "log_evidence": cloud.log_evidence}

    def _best_of_n(self, turn: int) -> Answer:
        model, prompt = self.load("target")[0], self.settings["prompts"][str(self.plan["prompt"])]
        options = {"stop_tokens": (), "seed": turn}
        best = lablib.best_of_n(model, prompt, self.plan["rows"], self.plan["new"], **options)
        mx.eval(best)
        return {"units": self.plan["rows"] * self.plan["new"]}

    def _particles(self, case: particles.Case, load: Callable, _: int) -> Answer:
        lm = lablib.AsyncMlxLM(load("target")[0], None, batch_size=case.rows)
        return particles.ask(lm, case, clock())

    def _load(self, name: str) -> tuple[Any, Any]:
        """Return a model that writes all of its ids, as mlx-lm's does, also those without text."""
        model, tokenizer = lablib.load(self.settings["models"][name])
        model.known_ids = None
        return model, tokenizer

    def _load_foreign(self, name: str) -> tuple[Any, Any]:
        """Return a model as mlx-lm makes it, so that the engine alone is compared."""
        import mlx_lm

        model, tokenizer = mlx_lm.load(self.settings["models"][name])
        model.set_dtype(self.load(name)[0].model.norm.weight.dtype)
        return model, tokenizer


def exactly(model: Any, prompts: list[list[int]], **options: Any) -> Answer:
    """Return the tokens of greedy decoding, and how far ahead of the next best each one is."""
    tokens, gaps = [], []
    options = {"stop_tokens": ()} | options
    for prompt in prompts:
        iterator = TokenIterator(model, prompt, temperature=0.0, top_logprobs=2, **options)
        best = [[logprob for _, logprob in token.top_logprobs] for token in iterator]
        tokens.append(iterator.tokens)
        gaps.append([first - second for first, second in best])
    half = prompts and model.model.norm.weight.dtype != mx.float32
    return {"tokens": tokens, "gaps": gaps, "tie": 5e-2 if half else 1e-3}


if __name__ == "__main__":
    serve(make)

"""What each line of the page "coming from" is for, seen by its effect."""

import ast
import asyncio
import inspect
import re
from collections.abc import AsyncIterable, Callable
from typing import Any

import lablib
from lablib.models import zoo

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.sample_utils import make_logits_processors
from mlx_lm.tokenizer_utils import load as load_tokenizer
from oracles.enumeration import transformed

PROMPT = "On a sunny day, Mia finds"
CHAT = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


async def read(pieces: AsyncIterable[str]) -> str:
    """Join what comes."""
    return "".join([piece async for piece in pieces])


def new_tokenizer() -> Any:
    """One that no line has changed yet."""
    tokenizer = load_tokenizer(zoo.CHECKPOINTS / "target")
    tokenizer.chat_template = CHAT
    return tokenizer


class Line:
    """A line of the page, to be run with more options or other names."""

    def __init__(self, row: tuple[str, ...], names: dict):
        _, self.theirs, _, self.ours = row
        self.names = names | {"tokenizer": new_tokenizer()}

    def run(self, other: dict | None = None, **options: Any) -> Any:
        """Return the line's value, ``options`` added to its call of lablib."""
        tree = ast.parse(self.ours, mode="eval")
        calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
        call = next(each for each in calls if ast.unparse(each.func) in DOORS)
        kept = [each for each in call.keywords if each.arg not in options]
        added = [ast.keyword(name, ast.Name(f"own_{name}", ast.Load())) for name in options]
        call.keywords = kept + added
        names = self.names | {f"own_{name}": each for name, each in options.items()}
        code = ast.unparse(ast.fix_missing_locations(tree))
        return eval(code, names | (other or {}))

    def generate(self, prompt: Any = PROMPT, **options: Any) -> Any:
        return lablib.generate(self.names["model"], self.names["tokenizer"], prompt, **options)

    def logits(self, tokens: list[int]) -> np.ndarray:
        """The model's, before each of these tokens after the prompt."""
        ids = self.names["ids"]
        return np.array(self.names["model"](mx.array([ids + tokens]))[0, len(ids) - 1 : -1])


DOORS = {f"lablib.{name}" for name in lablib.__all__ if inspect.isfunction(getattr(lablib, name))}
DOORS |= {"lablib.TokenIterator"}


def only(token: int) -> Callable:
    """A logits processor that leaves one token."""
    return lambda tokens, logits: mx.where(mx.arange(logits.shape[-1]) == token, 0.0, -mx.inf)[None]


def is_completed(line: Line) -> None:
    text = line.run()
    assert text == line.generate(max_tokens=8, temperature=0.0)
    assert 1 <= len(text.tokens) <= 8


def comes_in_pieces(line: Line) -> None:
    pieces = line.run(seed=1)
    assert len(pieces) > 2
    assert "".join(pieces) == line.generate(max_tokens=8, seed=1)


def is_cut(line: Line) -> None:
    cuts = {"temperature": 0.8, "top_p": 0.9, "min_p": 0.05, "top_k": 40}
    assert line.run(seed=2) != line.generate(seed=2)
    for seed in range(4):
        tokens = line.run(seed=seed, max_tokens=20).tokens
        for token, scores in zip(tokens, line.logits(tokens), strict=True):
            assert transformed(scores, (), **cuts)[token] > 0


def is_what_the_sampler_says(line: Line) -> None:
    tokens = line.run().tokens
    assert tokens == np.argsort(-line.logits(tokens), axis=-1, kind="stable")[:, 1].tolist()


def is_the_same_again(line: Line) -> None:
    assert line.run() == line.run() == line.generate(seed=1)
    assert line.run() != line.run(seed=2)


def repeats_less(line: Line) -> None:
    """As mlx-lm's penalty of the same window does."""
    window = 64 if "=64" in line.ours else 10_000
    penalty = make_logits_processors(repetition_penalty=1.1, repetition_context_size=window)
    options = {"max_tokens": 90, "temperature": 0.0, "stop_tokens": ()}
    got, plain = line.run(**options), line.generate(**options)
    prompt, how = mx.array(line.names["ids"]), {"max_tokens": 90, "logits_processors": penalty}
    theirs = generate_step(prompt, line.names["model"], **how)
    assert got.tokens == [int(token) for token, _ in theirs]
    assert len({*got.tokens}) > len({*plain.tokens})


def ends_at_the_string(line: Line) -> None:
    text = line.run(temperature=0.0)
    assert text.finish_reason == "stop"
    assert "." not in text
    assert "." in line.names["tokenizer"].decode(text.tokens)


def samples_end_at_the_string(line: Line) -> None:
    longer = {"max_tokens": 60, "seed": 1}
    texts = line.run(**longer)
    assert not any("." in text for text in texts)
    samples = lablib.sample_n(line.names["model"], line.names["ids"], 4, **longer)
    whole = samples.texts(line.names["tokenizer"])
    assert any("." in text for text in whole)
    assert [text.strip() for text in texts] == [text.split(".")[0].strip() for text in whole]


def ends_at_the_tokens(line: Line) -> None:
    at = len(line.names["ids"]) + 3
    for token in (2, 7):
        # A stop token comes after three others, and would go on coming.
        found = line.run(logits_processors=[lambda t, x, token=token: only(
            token if len(t) >= at else 9)(t, x)])  # fmt: skip
        assert found.tokens == [9, 9, 9, token]
        assert found.finish_reason == "stop"


def does_not_end(line: Line) -> None:
    end = line.names["tokenizer"].eos_token_id
    ids = [each.id for each in line.run(logits_processors=[only(end)])]
    assert ids == [end] * (8 if "max_tokens=8" in line.ours else 100)
    assert len(line.generate(logits_processors=[only(end)]).tokens) == 1


def obeys_the_function(line: Line) -> None:
    assert line.run({"f": only(5)}).tokens == [5] * 8


def is_cut_in_other_ways(line: Line) -> None:
    is_biased(line)
    for seed in range(3):
        tokens = line.run(seed=seed, max_tokens=20).tokens
        for token, scores in zip(tokens, line.logits(tokens), strict=True):
            scores[5] += 1.0
            log_p = scores - scores.max()
            log_p -= np.log(np.exp(log_p).sum())
            p = np.exp(log_p)
            off = np.abs(-log_p + (p * log_p).sum())
            order = np.argsort(off, kind="stable")
            before = (np.cumsum(p[order]) - p[order])[order.tolist().index(token)]
            assert before < 0.9 + 1e-4


def is_biased(line: Line) -> None:
    line.ours = line.ours.replace("{5: 1.0}", "bias")
    assert {*line.run({"bias": {5: 1e4}}, max_tokens=5).tokens} == {5}
    assert 5 not in line.run({"bias": {5: -1e4}}, max_tokens=60, stop_tokens=()).tokens
    line.names["bias"] = {5: 1.0}


def obeys_the_grammar(line: Line) -> None:
    plain = line.generate(temperature=0.0)
    assert not re.fullmatch("[a-z ]*", plain)
    assert re.fullmatch("[a-z ]*", line.run(temperature=0.0))
    assert re.fullmatch("[a-z ]*", line.run(seed=3))


def answers(line: Line) -> None:
    ids = line.names["tokenizer"].apply_chat_template(
        line.names["chat"], add_generation_prompt=True
    )
    assert line.run(seed=1) == line.generate(ids, seed=1)


def are_each_as_alone(line: Line) -> None:
    found = line.run(seed=1)
    ids = line.names["ids"]
    prompts = [ids, ids[:3]] if "ids[:3]" in line.ours else [PROMPT, PROMPT]
    assert found == [
        line.generate(prompt, max_tokens=8, seed=1, stream=i) for i, prompt in enumerate(prompts)
    ]


def has_options_of_its_own(line: Line) -> None:
    first, second = line.run()
    ids = line.names["ids"]
    assert first == line.generate(ids, max_tokens=8, temperature=0.0)
    assert second == line.generate(ids[:3], max_tokens=4, seed=2)


def is_several(line: Line) -> None:
    samples = line.run(seed=1)
    assert len(samples) == 4
    assert len({*map(tuple, samples.tokens)}) > 1
    assert all(len(row) <= 8 for row in samples.tokens)


def is_the_most_frequent(line: Line) -> None:
    model, ids, tokenizer = (line.names[name] for name in ("model", "ids", "tokenizer"))
    votes = line.run(seed=1)
    samples = lablib.sample_n(model, ids, 4, max_tokens=8, temperature=0.8, seed=1)
    texts = [tokenizer.decode(row, skip_special_tokens=True).strip() for row in samples.tokens]
    assert votes.drawn == 4
    assert texts.count(votes.winner) == max(map(texts.count, texts))


def is_the_likeliest(line: Line) -> None:
    best, ranked = line.run(seed=1), line.run(seed=1, return_all=True)
    means = [each.score for each in ranked]
    assert len({*means}) > 1
    assert best.tolist() == ranked[int(np.argmax(means))].tokens.tolist()


def is_drafted(line: Line) -> None:
    """By three tokens at once, and the text is the model's own."""
    prompt = "Mia finds a kite. " * 3 + "Mia"  # something to look up
    other = {"prompt": prompt}
    text = line.run(other, temperature=0.0, trace=True, max_tokens=20)
    assert text == line.generate(prompt, temperature=0.0, max_tokens=20)
    assert max(len(each.drafted) for each in text.rounds) == 3
    assert text.stats["total_drafted"] > 0


def has_log_probabilities(line: Line) -> None:
    pairs = line.run(seed=1)
    tokens = [token for token, _ in pairs]
    scores = line.logits(tokens)
    log_p = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    assert [pair[1] for pair in pairs] == pytest.approx(log_p[range(len(tokens)), tokens], abs=1e-3)


def is_as_likely(line: Line) -> None:
    ids = line.names["ids"]
    scores = np.array(line.names["model"](mx.array([ids]))[0, :-1])
    log_p = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    assert line.run() == pytest.approx(log_p[range(len(ids) - 1), ids[1:]], abs=1e-3)


def has_the_best(line: Line) -> None:
    tokens = line.generate(max_tokens=8, seed=1).tokens
    wanted = np.argsort(-line.logits(tokens), axis=-1, kind="stable")[:, :3].tolist()
    assert [[i for i, _ in best] for best in line.run(seed=1)] == wanted


def lets_others_work(line: Line) -> None:
    ticks = []

    async def beside(pieces: AsyncIterable[str]) -> str:
        async def tick() -> None:
            while True:
                ticks.append(1)
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        text = await read(pieces)
        ticking.cancel()
        return text

    assert line.run({"read": beside}, seed=1) == line.generate(max_tokens=8, seed=1)
    assert len(ticks) > 3


def cache_of(line: Line, maker: str) -> Any:
    """Make the cache beforehand, to look at it afterwards."""
    call = re.search(r"cache=(.*)\)$", line.ours)[1]
    assert maker in call
    line.ours = line.ours.replace(call, "kept")
    line.names["kept"] = eval(call, dict(line.names))
    return line.names["kept"]


def keeps_the_cache(line: Line) -> None:
    model, ids = line.names["model"], line.names["ids"]
    cache = cache_of(line, "make_prompt_cache")
    tokens = [each.id for each in line.run(temperature=0.0, max_tokens=5)]
    assert {layer.offset for layer in cache} == {len(ids) + 4}
    whole = [*lablib.TokenIterator(model, ids, temperature=0.0, max_tokens=9)]
    more = lablib.TokenIterator(model, tokens[-1:], temperature=0.0, max_tokens=4, cache=cache)
    assert tokens + [each.id for each in more] == [each.id for each in whole]


def keeps_it_for_a_conversation(line: Line) -> None:
    chat, options = [*line.names["chat"]], {"seed": 1, "stop_tokens": ()}
    kept = {"cache": make_prompt_cache(line.names["model"]), "cached_tokens": []}
    read = []
    for said in ("Then?", "And?"):
        text = line.run({"chat": chat}, **options, **kept)
        assert text == line.generate(None, messages=chat, max_tokens=8, **options)
        read.append(text.stats["token_forwards"])
        turns = {"role": "assistant", "content": text}, {"role": "user", "content": said}
        chat = [*chat, *turns]
    assert read[1] < text.stats["prompt_tokens"]


def bounds_the_cache(line: Line) -> None:
    cache = cache_of(line, "max_kv_size=64")
    assert len([*line.run(max_tokens=300)]) == 300
    for layer in cache:
        assert layer.offset == len(line.names["ids"]) + 299
        assert layer.keys.shape[2] == layer.values.shape[2] == 64


def is_a_queue(line: Line) -> None:
    found = [samples.tokens for samples in line.run()]
    ids = line.names["ids"]
    assert found == [[line.generate(ids, max_tokens=8, seed=i, stop_tokens=()).tokens]
                     for i in (1, 2)]  # fmt: skip


EFFECTS = {
    "complete a text": is_completed,
    "see it as it comes": comes_in_pieces,
    "sample": is_cut,
    "sample as your own function says": is_what_the_sampler_says,
    "get the same sample again": is_the_same_again,
    "discourage repeats": repeats_less,
    "end at a string": ends_at_the_string,
    "end samples at a string": samples_end_at_the_string,
    "end at other tokens": ends_at_the_tokens,
    "not to end": does_not_end,
    "constrain it": obeys_the_function,
    "cut in other ways": is_cut_in_other_ways,
    "have it obey a grammar": obeys_the_grammar,
    "answer a conversation": answers,
    "complete several texts": are_each_as_alone,
    "give each its own options": has_options_of_its_own,
    "draw n completions": is_several,
    "vote on them": is_the_most_frequent,
    "take the likeliest of n": is_the_likeliest,
    "draft with a smaller model": is_drafted,
    "draft from the text itself": is_drafted,
    "get tokens and log-probabilities": has_log_probabilities,
    "get the best tokens beside them": has_the_best,
    "score a text that is there": is_as_likely,
    "read it beside other tasks": lets_others_work,
    "keep the cache": keeps_the_cache,
    "keep it for a conversation": keeps_it_for_a_conversation,
    "bound the cache": bounds_the_cache,
    "n=4": is_several,
    "repetition_penalty=1.1": repeats_less,
    "stop_token_ids=[2, 7]": ends_at_the_tokens,
    "ignore_eos=True": does_not_end,
    "logprobs=3": has_the_best,
    "logit_bias={5: 1.0}": is_biased,
    'structured_outputs=StructuredOutputsParams(regex="[a-z ]*")': obeys_the_grammar,
    "llm.generate(prompts, params)": are_each_as_alone,
    "llm.generate(prompts, [first, second])": is_a_queue,
    'speculative_config={"num_speculative_tokens": 3}': is_drafted,
}

"""Measure lesson 12's table on real models, once, and keep it; the lesson does a slice again.

    python -m lablib.course.lessons.lesson_12.measured facts greedy law drafts match

measures the parts that are named and writes ``stored/PART.json`` after each portion. It goes on
where such a file ends: whoever stops it has what was done, and deletes the file to begin anew.
``law:10`` measures ten portions more and no further. ``window`` and ``places`` ask Gemma 3, all
others SmolLM2; ``facts --model NAME`` asks any model that ``lablib.load`` opens.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import lablib
from lablib.course.lessons.lesson_12.borders import borders, pieces
from lablib.course.lessons.lesson_12.facts import Fact, facts
from lablib.course.lessons.lesson_12.jobs import jobs
from lablib.course.lessons.lesson_12.places import places
from lablib.course.lessons.lesson_12.runs import LETTERS, STORED, stored
from lablib.course.lessons.lesson_12.window import parted, window
from lablib.course.replay import measure
from lablib.inference import Head, NGram
from lablib.inference.decoding.rows import Samples
from lablib.models import load_head

import mlx.core as mx
import numpy as np

COMMAND = "python -m lablib.course.lessons.lesson_12.measured"
HEAT, SAMPLES = 0.8, 8  # of a question
PORTION = 12  # every twelfth question of each kind: a portion has all kinds
LENGTH = 32  # tokens of a text that is drafted for
BATCH = 8  # texts of a portion
TEMPERATURES = (0.7, 1.0)

Record = dict[str, Any]
Numbered = list[tuple[int, Fact]]  # questions, and where each stands among all


# ------------------------------------------------------------------ questions and votes
def answered(model: Any, tokenizer: Any, asked: Numbered) -> Iterator[Record]:
    """Yield what a model answers to questions, eight times each."""
    options = [lablib.SamplerOptions(temperature=HEAT, seed=number) for number, _ in asked]
    many = written(model, tokenizer, asked, options, SAMPLES)
    for (number, _), each in zip(asked, many, strict=True):
        yield {"number": number, **record(tokenizer, each)}


def written(model: Any, tokenizer: Any, asked: Numbered, options: Any, n: int) -> list[Samples]:
    """Return ``n`` continuations of each question's list, up to the line's end."""
    prompts = [fact.prompt for _, fact in asked]
    longest = [len(tokenizer.encode(" " + fact.truth)) + 3 for _, fact in asked]
    how: Any = {"max_batch": 64, "max_tokens": longest, "stop": "\n", "tokenizer": tokenizer}
    return lablib.sample_many(model, prompts, options, n, **how)


def record(tokenizer: Any, samples: Samples) -> Record:
    """Return different texts ``[text, log-probability, tokens]``, and of each sample which."""
    texts: dict[tuple[int, ...], list[Any]] = {}
    of = []
    for tokens, logprobs in zip(samples.tokens, samples.logprobs, strict=True):
        key, text = tuple(tokens), tokenizer.decode(tokens, skip_special_tokens=True)
        texts.setdefault(key, [text, round(sum(logprobs), 2), len(tokens)])
        of.append(LETTERS[[*texts].index(key)])
    return {"texts": [*texts.values()], "of": "".join(of)}


def measure_facts(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[Record]]:
    """Yield portions of all questions; here and below ``done`` are the numbers that are there."""
    for first in range(PORTION):
        if first not in done:
            yield [*answered(model, tokenizer, [*enumerate(facts())][first::PORTION])]


def measure_greedy(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[Record]]:
    """Yield portions of all questions, with the greedy answers of 32 and of 4 bits."""
    few, _ = lablib.load("smollm2", bits=4)
    for first in range(PORTION):
        if first not in done:
            some = [*enumerate(facts())][first::PORTION]
            yield [*greedy_answers({"32": model, "4": few}, tokenizer, some)]


def greedy_answers(models: dict[str, Any], tokenizer: Any, asked: Numbered) -> Iterator[Record]:
    """Yield of each question the greedy text of each model, by its name."""
    cold, texts = lablib.SamplerOptions(temperature=0.0), {}
    for name, model in models.items():
        ones = written(model, tokenizer, asked, cold, 1)
        texts[name] = [tokenizer.decode(x.tokens[0], skip_special_tokens=True) for x in ones]
    for i, (number, _) in enumerate(asked):
        yield {"number": number, **{name: each[i] for name, each in texts.items()}}


# ------------------------------------------------------------------ drafts
def drafters(model: Any) -> dict[str, tuple[Any, int]]:
    """Return who drafts for SmolLM2, and how many tokens."""
    return {"head": (Head(load_head("smollm2-head", model)), 2), "look-up": (NGram(), 4)}


def asked_of(tokenizer: Any, each: int = 8) -> Iterator[tuple[int, str, list[int]]]:
    """Yield of each job its number, its kind and its prompt's ids."""
    for number, (kind, question) in enumerate(jobs(each)):
        message = [{"role": "user", "content": question}]
        yield number, kind, tokenizer.apply_chat_template(message, add_generation_prompt=True)


def timed(writer: Any) -> tuple[list[int], float]:
    """Return a text's tokens, and the seconds from its first one on."""
    now = measure.clock()
    with writer:
        first, start = next(writer).id, now()
        return [first, *(token.id for token in writer)], now() - start


def measure_drafts(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[Record]]:
    """Yield of each job its greedy text's time, plain and with each drafter, and if it is equal."""
    who = drafters(model)
    for number, kind, prompt in asked_of(tokenizer):
        if number in done:
            continue
        how = {"max_tokens": LENGTH, "temperature": 0.0}
        plain, seconds = timed(lablib.TokenIterator(model, prompt, **how))
        found: Record = {
            "number": number,
            "kind": kind,
            "tokens": len(plain),
            "seconds": round(seconds, 4),
        }
        for name, (drafter, n) in who.items():
            text = lablib.SpeculativeTokenIterator(model, drafter, prompt, draft_tokens=n, **how)
            same, took = timed(text)
            found[name] = {"equal": same == plain, "seconds": round(took, 4), **counts(text.stats)}
        yield [found]


def counts(stats: dict[str, Any]) -> Record:
    """Return what is kept of a text's counts."""
    names = {"rounds": "rounds", "total_accepted": "kept", "total_reached": "judged"}
    kept = {short: stats[name] for name, short in names.items()}
    return {**kept, "per_call": round(stats["tokens_per_round"], 3)}


def measure_match(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[Record]]:
    """Yield if texts at T = 1 are equal, plain and drafted for under ``match``."""
    who, some = drafters(model), [*asked_of(tokenizer)]
    for begin in range(0, len(some), BATCH):
        if begin in done:
            continue
        portion = []
        for number, kind, prompt in some[begin : begin + BATCH]:
            how = {"max_tokens": LENGTH, "seed": number}
            alone, _ = timed(lablib.TokenIterator(model, prompt, **how))
            found: Record = {"number": number, "kind": kind, "tokens": len(alone)}
            for name, (drafter, n) in who.items():
                more: Any = {**how, "draft_tokens": n, "rule": "match"}
                text = lablib.SpeculativeTokenIterator(model, drafter, prompt, **more)
                same, _ = timed(text)
                found[name] = {"equal": same == alone, **counts(text.stats)}
            portion.append(found)
        yield portion


def measure_rounding(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[Record]]:
    """Yield of each text of ``match`` that parted where it did, and whether same bits mend it."""
    who, prompts = drafters(model), {number: ids for number, _, ids in asked_of(tokenizer)}
    for each in stored("match"):
        for name, (drafter, n) in who.items():
            number = each["number"]
            if each[name]["equal"] or number in done:
                continue
            how: Any = {"max_tokens": LENGTH, "seed": number}
            more: Any = {**how, "draft_tokens": n, "rule": "match"}
            ids = prompts[number]
            some = [
                [*lablib.TokenIterator(model, ids, **how)],
                [*lablib.SpeculativeTokenIterator(model, drafter, ids, **more)],
            ]
            at = parted(*([token.id for token in text] for text in some))
            logs = [token.logprob for token in (text[at] for text in some)]
            off = max(
                abs(a.logprob - b.logprob) for a, b in zip(*(t[:at] for t in some), strict=True)
            )
            with lablib.same_bits():
                one, _ = timed(lablib.TokenIterator(model, ids, **how))
                other, _ = timed(lablib.SpeculativeTokenIterator(model, drafter, ids, **more))
            yield [
                {
                    "number": number,
                    "drafter": name,
                    "place": at,
                    "words": [tokenizer.decode([text[at].id]) for text in some],
                    "p": [float(f"{np.exp(log):.2g}") for log in logs],
                    "off": float(f"{off:.2g}"),
                    "equal with same_bits": one == other,
                }
            ]


def measure_law(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[Record]]:
    """Yield of each job how many drafts rejection kept, and what p and q promised."""
    who = drafters(model)
    for number, kind, prompt in asked_of(tokenizer):
        if number in done:
            continue
        portion = []
        # A seed each: with one for all, four texts share their luck, and the interval is too small.
        settings = enumerate(product(who.items(), TEMPERATURES), start=1)
        for i, ((name, (drafter, n)), temperature) in settings:
            how: Any = {"max_tokens": LENGTH, "temperature": temperature, "draft_tokens": n}
            text = lablib.SpeculativeTokenIterator(
                model, drafter, prompt, seed=1000 * i + number, trace=True, **how
            )
            timed(text)
            about = {"number": number, "kind": kind, "drafter": name, "T": temperature}
            portion.append(about | promised(text.rounds))
        yield portion


def promised(rounds: Iterable[Any]) -> Record:
    """Return the drafts that were kept and judged, the sums of Σ min(p, q) and of its variances."""
    rounds = [*rounds]
    shared = np.array([x for each in rounds for x in each.min_pq[: each.reached]], dtype=float)
    both = np.array([x for each in rounds for x in each.dot_pq[: each.reached]], dtype=float)
    return {
        "kept": sum(each.accepted for each in rounds),
        "judged": len(shared),
        "min": round(float(shared.sum()), 3),
        "variance": round(float((shared * (1 - shared)).sum()), 3),
        "dot": round(float(both.sum()), 3),
    }


# ------------------------------------------------------------------ bits
def measure_bits(model: Any, tokenizer: Any, done: set[int]) -> Iterator[list[Record]]:
    """Yield for 32, 8 and 4 bits the bytes and seconds of a token, and what rounding changes.

    The texts are the model's own, at T = 1, one behind each of ten jobs.
    """
    some = [*asked_of(tokenizer, 2)]
    options = [lablib.SamplerOptions(seed=number) for number, *_ in some]
    prompts = [prompt for *_, prompt in some]
    rows = lablib.sample_many(model, prompts, options, max_tokens=LENGTH, max_batch=16)
    texts = [(p, p + row.tokens[0]) for p, row in zip(prompts, rows, strict=True)]
    whole = [log_p(model, *text) for text in texts]
    for bits in {32, 8, 4} - done:
        fewer = model if bits == 32 else lablib.load("smollm2", bits=bits)[0]
        kls, flips = [], []
        for text, exact in zip(texts, whole, strict=True):
            rounded = exact if bits == 32 else log_p(fewer, *text)
            kls.append(float((np.exp(exact) * (exact - rounded)).sum(-1).mean()))
            flips.append(float((exact.argmax(-1) != rounded.argmax(-1)).mean()))
        times, speeds = [], []
        for prompt, _ in texts[:6]:  # in turn, as a shared memory has slow moments
            writer = lablib.TokenIterator(fewer, prompt, max_tokens=17, temperature=0.0)
            tokens, took = timed(writer)
            times.append(took / (len(tokens) - 1))
            speeds.append(measure.bandwidth(64, 5))
        yield [
            {
                "number": bits,
                "bytes": sum(array.nbytes for array in leaves(fewer)),
                "seconds": [round(each, 5) for each in times],
                "bandwidth": round(float(np.median(speeds)) / 1e9, 2),
                "kl": [round(each, 5) for each in kls],
                "flips": [round(each, 4) for each in flips],
            }
        ]


def log_p(model: Any, prompt: list[int], text: list[int]) -> np.ndarray:
    """Return the log-probabilities ``(T, V)`` at each place behind a prompt."""
    logits = model(mx.array([text]))[0, len(prompt) - 1 : -1].astype(mx.float32)
    return np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))


def leaves(model: Any) -> Iterator[mx.array]:
    """Yield the arrays that a model's weights are kept in."""
    from mlx.utils import tree_flatten

    return (array for _, array in tree_flatten(model.parameters()))


PARTS = {
    "facts": measure_facts,
    "greedy": measure_greedy,
    "drafts": measure_drafts,
    "match": measure_match,
    "rounding": measure_rounding,
    "law": measure_law,
    "borders": borders,
    "pieces": pieces,
    "bits": measure_bits,
    "window": window,
    "places": places,
}
OF_GEMMA = ("window", "places")
AS_STORED = ("window",)  # as a reader loads it: two hours of one core, and twice that in float32


def main() -> None:
    """Measure the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", help=f"of {', '.join(PARTS)}; or facts:2 and so on")
    parser.add_argument("--model", help="who is asked the facts; smollm2 unless it is given")
    options = parser.parse_args()
    opened: dict[Any, Any] = {}
    for each in options.parts:
        part, _, most = each.partition(":")
        if part not in PARTS or (options.model and part != "facts"):
            parser.error(f"parts must be of {', '.join(PARTS)}, with --model facts, got {each!r}")
        name = options.model or ("gemma3" if part in OF_GEMMA else "smollm2")
        kept = part if options.model is None else f"{part}-{Path(name).name}"
        dtype = None if part in AS_STORED else mx.float32
        if (name, dtype) not in opened:
            opened = {(name, dtype): lablib.load(name, dtype=dtype)}
        records = stored(kept) if (STORED / f"{kept}.json").exists() else []
        portions = PARTS[part](*opened[name, dtype], {each["number"] for each in records})
        for portion in islice(portions, int(most) if most else None):
            records += portion
            keep(kept, name, records)
            print(f"{kept}: {len(records)}", flush=True)


def keep(part: str, name: str, records: list[Record]) -> None:
    """Write a part's records, a line each, with the command that made them."""
    STORED.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in records)
    command = COMMAND + " " + part.replace("-", " --model ")
    about = json.dumps({"model": name, "command": command})
    text = f'{{"about": {about},\n"records": [\n{lines}\n]}}\n'
    (STORED / f"{part}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

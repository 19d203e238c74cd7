"""Measure how sure real models were of lesson 12's answers, once, and keep it.

    python -m lablib.course.lessons.lesson_18.real sure
    python -m lablib.course.lessons.lesson_18.real sure --model gemma3

``sure`` reads the texts of lesson 12's stored run once more, eight of each question, with all that
the model thought at each token. It goes on where its file ends, as lesson 12's parts do, and
``sure:2`` measures two portions more and no further.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import lablib
from lablib.cache import kv
from lablib.course.lessons.lesson_12 import runs
from lablib.course.lessons.lesson_12.facts import Fact, facts
from lablib.course.lessons.lesson_12.measured import HEAT, PORTION, SAMPLES

import mlx.core as mx
import numpy as np

COMMAND = "python -m lablib.course.lessons.lesson_18.real"
STORED = Path(__file__).with_name("stored")
BEST = 5  # log-probabilities of which a token's confidence is the mean
# Of a text: its log-probability at HEAT, DeepConf's three confidences, self-certainty, the entropy.
KEPT = ("warm", "best 5", "tail", "lowest", "all", "entropy")
TAIL = 2  # tokens, the last of which ends the line: answers have four or five
OFF = 0.05  # nats: both are rounded

Record = dict[str, Any]


# ------------------------------------------------------------------ how sure
def sure(model: Any, tokenizer: Any, known: Sequence[Record]) -> Iterator[Record]:
    """Yield of each question its ``number``, and of each of its different texts what ``said`` says.

    A question whose texts don't come again, with the log-probabilities that were stored, is left
    out.

    Args:
        model: who wrote the texts.
        tokenizer: its own.
        known: records of lesson 12's ``facts``.
    """
    every, read = facts(), Read(model)
    for record in known:
        number, fact = record["number"], every[record["number"]]
        prompt = tokenizer.encode(fact.prompt)
        texts = [ids_of(tokenizer, text, size) for text, _, size in record["texts"]]
        rows = thought(read, prompt, texts)
        if not same(record, rows):  # a text can be written with other tokens: write it once more
            rows = thought(read, prompt, written(model, tokenizer, number, fact))
        if same(record, rows):
            yield {"number": number, "texts": [said(row) for row in rows]}


def written(model: Any, tokenizer: Any, number: int, fact: Fact) -> list[list[int]]:
    """Return the different texts of a question's samples, drawn again as lesson 12 drew them."""
    options = lablib.SamplerOptions(temperature=HEAT, seed=number)
    longest = len(tokenizer.encode(" " + fact.truth)) + 3
    how: Any = {"max_tokens": longest, "stop": "\n", "tokenizer": tokenizer}
    (samples,) = lablib.sample_many(model, [fact.prompt], options, SAMPLES, **how)
    return [*{tuple(each): each for each in samples.tokens}.values()]


def ids_of(tokenizer: Any, text: str, size: int) -> list[int]:
    """Return a stored text's ids, of which there were ``size``; an end is no text, but was one."""
    ids = tokenizer.encode(text, add_special_tokens=False)
    return [*ids, tokenizer.eos_token_id] if len(ids) == size - 1 else ids


def same(record: Record, rows: Sequence[np.ndarray]) -> bool:
    """Say whether texts have the lengths and the log-probabilities that were stored."""
    if len(rows) != len(record["texts"]):
        return False
    pairs = zip(record["texts"], rows, strict=True)
    return all(
        size == len(row) and abs(log - row[:, 0].sum()) < OFF for (_, log, size), row in pairs
    )


class Read:
    """A model that has read a prompt, and of the next one only what differs.

    Args:
        model: any.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.cache, self.ids = model, kv.make(model), list[int]()

    def after(self, prompt: list[int]) -> mx.array:
        """Return the logits behind a prompt, ``(1, 1, V)``."""
        pairs = zip(self.ids, prompt[:-1], strict=False)
        shared = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
        kv.trim(self.cache, len(self.ids) - shared)
        self.ids = prompt
        return self.model(mx.array([prompt[shared:]]), cache=self.cache)[:, -1:]


def thought(read: Read, prompt: list[int], texts: list[list[int]]) -> list[np.ndarray]:
    """Return of each text five numbers of each of its tokens, ``(T, 5)``.

    They are the log-probability, that at the temperature at which it was drawn, minus the mean of
    the best 5 log-probabilities, minus the mean of all, and minus the entropy.
    """
    first = read.after(prompt)
    longest = max(map(len, texts))
    rows = mx.array([text + [0] * (longest - len(text)) for text in texts])
    logits = mx.broadcast_to(first, (len(texts), 1, first.shape[-1]))
    if longest > 1:
        later = read.model(rows[:, :-1], cache=kv.expand(read.cache, len(texts)))
        logits = mx.concatenate([logits, later], axis=1)
    logs, warm = (scaled(logits.astype(mx.float32) / heat) for heat in (1.0, HEAT))
    each = [mx.take_along_axis(x, rows[..., None], axis=-1)[..., 0] for x in (logs, warm)]
    each += [-mx.topk(logs, BEST, axis=-1).mean(axis=-1), -logs.mean(axis=-1)]
    each.append((mx.exp(logs) * logs).sum(axis=-1))
    numbers = np.array(mx.stack(each, axis=-1), np.float64)
    return [row[: len(text)] for row, text in zip(numbers, texts, strict=True)]


def said(row: np.ndarray) -> list[float]:
    """Return what is kept of a text's numbers ``(T, 5)``, in the order of ``KEPT``."""
    _, warm, best, every, entropy = row.T
    kept = warm.sum(), best.mean(), best[-TAIL:].mean(), best.min(), every.mean(), entropy.mean()
    return [float(round(each, 3)) + 0.0 for each in kept]  # no minus before 0


def scaled(logits: mx.array) -> mx.array:
    """Return log-probabilities."""
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


# ------------------------------------------------------------------ what is kept
PARTS = {"sure": sure}


def name_of(part: str, model: str) -> str:
    """Return a part's name, as lesson 12 has it: SmolLM2 goes without saying."""
    return part if model == "smollm2" else f"{part}-{model}"


def stored(part: str, model: str = "smollm2") -> list[Record]:
    """Return the records of a run."""
    return json.loads((STORED / f"{name_of(part, model)}.json").read_text("utf-8"))["records"]


def command(part: str, model: str = "smollm2") -> str:
    """Return what made them."""
    return f"{COMMAND} {part}" + ("" if model == "smollm2" else f" --model {model}")


def measure(part: str, name: str) -> Iterator[int]:
    """Measure and keep what is missing of a part; yield how many questions are done."""
    model, tokenizer = lablib.load(name, dtype=mx.float32)
    records = stored(part, name) if (STORED / f"{name_of(part, name)}.json").exists() else []
    done = {record["number"] for record in records}
    for first in range(PORTION):
        whole = runs.stored(name_of("facts", name))
        some = [each for each in whole if each["number"] % PORTION == first]
        if some and not done & {each["number"] for each in some}:
            records += PARTS[part](model, tokenizer, some)
            keep(part, name, records)
            yield len(records)


def keep(part: str, name: str, records: list[Record]) -> None:
    """Write a part's records, a line each, with the command that made them."""
    STORED.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in records)
    about = json.dumps({"model": name, "command": command(part, name)})
    text = f'{{"about": {about},\n"records": [\n{lines}\n]}}\n'
    (STORED / f"{name_of(part, name)}.json").write_text(text, encoding="utf-8")


def main() -> None:
    """Measure a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", help=f"of {', '.join(PARTS)}; or sure:2 and so on")
    parser.add_argument("--model", default="smollm2", help="smollm2 unless it is given")
    options = parser.parse_args()
    part, _, most = options.part.partition(":")
    if part not in PARTS:
        parser.error(f"part must be of {', '.join(PARTS)}, got {options.part!r}")
    for done in islice(measure(part, options.model), int(most) if most else None):
        print(f"{name_of(part, options.model)}: {done}", flush=True)


if __name__ == "__main__":
    main()

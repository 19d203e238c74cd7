"""What a grammar's mask costs a token, at a vocabulary of 49,152.

    python tests/benchmarks/bench_grammars.py [texts]

Texts wander through each grammar; at each token the clock stops for: the parser's step and its walk
through the vocabulary (``read`` and ``allowed``), and the whole logits processor, with the mask's
way to the device and its ``where``. Medians, in µs. Exit code 1 if the median of the first, over
all tokens, is above 50 µs.

The vocabulary is made here: pieces of words as a tokenizer has them, bytes first, so that nothing
needs to be fetched.
"""

import itertools
import random
import statistics
import string
import sys
import time

from lablib.inference.steering import Grammar, Vocabulary

import mlx.core as mx
import numpy as np

V = 49_152
MOST = 50.0  # µs
SYLLABLES = [a + b + c for a in "bcdfglmnprst" for b in "aeiou" for c in ("", "n", "r", "s", "l")]

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
GRAMMARS = {
    "JSON of a schema": {"json_schema": PERSON},
    "any letters": {"regex": "[a-z ]*"},
    "a date": {"regex": "[0-9]{4}-[0-9]{2}-[0-9]{2}"},
    "sums in brackets": {
        "lark": 'start: term | start "+" term\nterm: /[0-9]+/ | "(" start ")"',
    },
}


def texts() -> list[str]:
    """Return 49,152 different pieces: the end, letters and signs, numbers, parts of words."""
    found = dict.fromkeys(["<end>", *string.printable, *map(str, range(1000))])
    words = (
        space + "".join(parts)
        for n in (1, 2, 3)
        for parts in itertools.product(SYLLABLES, repeat=n)
        for space in ("", " ")
    )
    for word in words:
        found[word] = None
        if len(found) == V:
            return list(found)
    raise AssertionError("too few words")


def wander(grammar: Grammar, rng: random.Random, most: int = 24) -> list[tuple[float, float]]:
    """Return the µs of the mask and of the whole processor at each token of a random text."""
    logits = mx.zeros((1, V))
    whole = grammar.copy()
    text, times = [1], []
    while len(text) < most:
        start = time.perf_counter()
        grammar.read(text)
        may = grammar.allowed()
        masked = time.perf_counter()
        mx.eval(whole(mx.array(text), logits))
        times.append((1e6 * (masked - start), 1e6 * (time.perf_counter() - masked)))
        ids = np.flatnonzero(may)
        ids = ids[ids != 0]
        if not len(ids):
            break
        text.append(int(rng.choice(ids)))
    return times


def main() -> int:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    start = time.perf_counter()
    vocabulary = Vocabulary(texts(), [0])
    print(f"vocabulary of {V}: {time.perf_counter() - start:.2f} s")
    everything = []
    print(f"{'':20} {'mask':>7} {'95 %':>7} {'processor':>10}")
    for name, how in GRAMMARS.items():
        rng = random.Random(1)
        grammar = Grammar(vocabulary, **how)
        times = [pair for _ in range(n) for pair in wander(grammar.copy(), rng)]
        masks, processors = (sorted(column) for column in zip(*times, strict=True))
        everything += masks
        late = masks[int(0.95 * len(masks))]
        print(
            f"{name:20} {statistics.median(masks):7.1f} {late:7.1f} "
            f"{statistics.median(processors):10.1f}"
        )
    median = statistics.median(everything)
    print(f"{'all':20} {median:7.1f}  of at most {MOST:.0f} µs")
    return int(median > MOST)


if __name__ == "__main__":
    sys.exit(main())

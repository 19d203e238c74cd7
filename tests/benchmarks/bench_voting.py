"""Cost of n samples of one prompt: ``sample_n`` (under every vote) against mlx-lm's batch_generate.

Both draw 64 completions of 32 tokens at temperature 0.8 from the same float32 Llama of 5.4M
parameters, with a prompt of 512 and of 16 tokens; mlx-lm gets 64 copies of the prompt and may
decode all of them together. Runs alternate in one process: what else the machine does hits both
(and hits the ratio of processor time least, where the model runs on the CPU).

mlx-lm's model cannot share the prompt's keys and values among its rows; a ``LanguageModel`` can.
``sharing`` compares steps and memory of rows that do with rows that don't: from where on it pays.

    python tests/benchmarks/bench_voting.py            prints the table
    python tests/benchmarks/bench_voting.py sharing    prints the other one
    pytest -m benchmark tests/benchmarks/bench_voting.py
"""

import statistics
import sys
import time
from types import SimpleNamespace
from typing import NamedTuple

from lablib.cache import kv, shared
from lablib.inference.voting.vote import majority_vote
from lablib.models import zoo

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.generate import batch_generate
from mlx_lm.models import llama
from mlx_lm.sample_utils import make_sampler

N, NEW, TEMPERATURE, VOCAB = 64, 32, 0.8, 1024
WANTED = {512: 4.0, 16: 1.0}  # at least this many times mlx-lm's tokens/s


class Result(NamedTuple):
    prompt: int
    ours: list[tuple[float, float]]  # tokens per second of the clock, and of the processor
    theirs: list[tuple[float, float]]
    our_forwards: int  # tokens the model was given
    their_forwards: int

    def ratios(self, clock=0):
        return sorted(a[clock] / b[clock] for a, b in zip(self.ours, self.theirs, strict=True))


def make_model():
    shape = llama.ModelArgs(
        model_type="llama", hidden_size=256, num_hidden_layers=6, intermediate_size=768,
        num_attention_heads=4, rms_norm_eps=1e-5, vocab_size=VOCAB, tie_word_embeddings=True,
    )  # fmt: skip
    mx.random.seed(0)
    model = llama.Model(shape)
    mx.eval(model.parameters())
    return model


class Counted:
    """The model, counting the tokens it is given."""

    def __init__(self, model):
        self.model, self.tokens = model, 0

    def __call__(self, tokens, cache=None, **others):
        self.tokens += tokens.size
        return self.model(tokens, cache=cache, **others)

    def __getattr__(self, name):
        return getattr(self.model, name)


def ours(model, prompt):
    votes = majority_vote(model, prompt, n=N, max_tokens=NEW, temperature=TEMPERATURE, seed=1)
    return sum(len(tokens) * count for tokens, count in votes)


def theirs(model, prompt):
    response = batch_generate(
        model,
        SimpleNamespace(eos_token_ids=[], decode=str),
        [list(prompt)] * N,
        max_tokens=NEW,
        sampler=make_sampler(temp=TEMPERATURE),
        completion_batch_size=N,
        prefill_batch_size=N,
        return_token_ids=True,  # they come beside the texts that it insists on decoding
    )
    return sum(len(tokens) for tokens in response.token_ids)


def rate(function, model, prompt):
    mx.clear_cache()
    wall, processor = time.perf_counter(), time.process_time()
    tokens = function(model, prompt)
    return tokens / (time.perf_counter() - wall), tokens / (time.process_time() - processor)


def forwards(function, model, prompt):
    counted = Counted(model)
    made = function(counted, prompt)
    return counted.tokens, made


def compare(prompt_length, rounds=5):
    model = make_model()
    prompt = [(7 * i + 3) % VOCAB for i in range(prompt_length)]
    our_forwards, made = forwards(ours, model, prompt)
    assert our_forwards == prompt_length + made - N  # the last token of a row is never read
    their_forwards, _ = forwards(theirs, model, prompt)
    pairs = [(rate(ours, model, prompt), rate(theirs, model, prompt)) for _ in range(rounds)]
    return Result(prompt_length, *map(list, zip(*pairs, strict=True)), our_forwards, their_forwards)


def show(results):
    size = sum(array.size for _, array in tree_flatten(make_model().parameters())) / 1e6
    print(f"n={N}, {NEW} new tokens, {size:.1f}M parameters, float32, {mx.default_device()}")
    print(
        "prompt  votes tok/s  mlx-lm tok/s  ratio (lowest..highest)  of CPU time  tokens forwarded"
    )
    for r in results:
        ours, theirs = (statistics.median(wall for wall, _ in side) for side in (r.ours, r.theirs))
        wall, processor = r.ratios(), statistics.median(r.ratios(clock=1))
        print(
            f"{r.prompt:6d} {ours:12.0f} {theirs:13.0f}  {statistics.median(wall):5.2f} "
            f"({wall[0]:.2f}..{wall[-1]:.2f}) {processor:17.2f} "
            f"{r.our_forwards:10,d} vs {r.their_forwards:,d}"
        )


def steps_and_peak(model, expand, count=NEW):
    """Seconds of ``count`` steps of rows that were just expanded, their cache and the peak."""
    clock = time.process_time if mx.default_device() == mx.cpu else time.perf_counter
    mx.clear_cache()
    before, start = mx.get_active_memory(), clock()
    mx.reset_peak_memory()
    cache = expand()
    tokens = mx.ones((kv.rows(cache), 1), mx.int32)
    for _ in range(count):
        mx.eval(model(tokens, cache=cache))
    return clock() - start, kv.nbytes(cache), mx.get_peak_memory() - before


def show_sharing(turns=7, rows=(2, 4, 8, 16, 64), prompts=(16, 64, 256, 768)):
    model, _ = zoo.load("target")
    print(f"target, {NEW} steps, medians of {turns} turns; MB; * is what is taken")
    print(" rows  prompt   each, ms  shared, ms  ratio    caches     peaks")
    for n in rows:
        for length in prompts:
            prefix = kv.make(model)
            mx.eval(model(mx.ones((1, length), mx.int32), cache=prefix))
            sides = (
                lambda n=n, prefix=prefix: kv.expand(prefix, n),
                lambda n=n, prefix=prefix: [shared.SharedPrefix(layer, n) for layer in prefix],
            )
            found = [[steps_and_peak(model, side) for side in sides] for _ in range(turns + 1)][1:]
            each, sharing = (1e3 * statistics.median(t[side][0] for t in found) for side in (0, 1))
            ratio = statistics.median(ours[0] / plain[0] for plain, ours in found)
            sizes = [f"{found[0][0][i] / 1e6:4.0f} {found[0][1][i] / 1e6:4.0f}" for i in (1, 2)]
            taken = "*" if (n - 1) ** 2 * length >= shared._PAYS else " "
            print(f"{n:5d} {length:7d} {each:10.0f} {sharing:11.0f} {ratio:6.2f}{taken}", *sizes)


@pytest.mark.benchmark
@pytest.mark.parametrize("prompt_length", WANTED)
def test_votes_cost_one_prompt(prompt_length):
    result = compare(prompt_length)
    show([result])
    assert statistics.median(result.ratios()) >= WANTED[prompt_length]
    assert result.our_forwards < result.their_forwards


if __name__ == "__main__":
    if sys.argv[1:2] == ["sharing"]:
        show_sharing()
        sys.exit()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    show([compare(length, rounds) for length in WANTED])

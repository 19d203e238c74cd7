"""All doors from ids to text, beside what a text is by definition.

``cd tests; python -m oracles.one_text`` sends 20,352 prompts of six tokenizers through every door.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import lablib
from lablib.course.verifiers import Exact
from lablib.inference import SamplerOptions
from lablib.inference.decoding.rows import Samples
from lablib.inference.stop_strings import TextReader

from oracles.scripted import Recorder, random_table
from oracles.spelling import KINDS, generator, text, tokenizer_of, tokens_of

STOPS = [" cat", "é", "s", "\n", "e ", "🦙.", "  ", "</s>"]


def stopped(tokenizer, prompt, tokens, stops):
    """Return the text up to the stop that is complete first, and how many tokens that takes."""
    for n in range(1, len(tokens) + 1):
        so_far = text(tokenizer, prompt, tokens[:n])
        so_far = so_far if n == len(tokens) else so_far.rstrip("\ufffd")
        ends = [(so_far.find(stop) + len(stop), so_far.find(stop)) for stop in stops]
        ends = [end for end in ends if end[1] >= 0]
        if ends:
            return so_far[: min(ends)[1]], n
    return text(tokenizer, prompt, tokens), None


def check_reader(tokenizer, prompt, tokens, stops):
    """See that pieces add up, come as soon as they are certain, and end at a stop."""
    whole = text(tokenizer, prompt, tokens)
    reader, pieces = TextReader(tokenizer, prompt), []
    cleans = tokenizer.clean_up_tokenization_spaces  # then a space may wait for what follows it
    for n in range(1, len(tokens) + 1):
        pieces.append(reader.read(tokens[:n]))
        is_byte = tokenizer.convert_ids_to_tokens(tokens[n - 1]).startswith("<0x")
        if not (is_byte or cleans):
            assert reader.text.startswith(text(tokenizer, prompt, tokens[:n]).rstrip("\ufffd"))
    pieces.append(reader.read(tokens, last=True))
    assert "".join(pieces) == reader.text == whole
    assert TextReader(tokenizer, prompt).read(tokens, last=True) == whole
    own = {"stop_tokens": frozenset(), "prompts": [prompt]}
    assert Samples([tokens], [[]], [False], **own).texts(tokenizer) == [whole]
    wanted, end = stopped(tokenizer, prompt, tokens, stops)
    reader, pieces = TextReader(tokenizer, prompt, stops), []
    for n in range(1, len(tokens) + 1):
        pieces.append(reader.read(tokens[:n]))
        assert reader.end == (end if end is not None and n >= end and end < len(tokens) else
                              reader.end)  # fmt: skip
    pieces.append(reader.read(tokens, last=True))
    assert ("".join(pieces), reader.end) == (wanted, end)


def check_some(tokenizer, seed, n, longest=14):
    """See to ``n`` random prompts and completions."""
    rng = generator(seed)
    for _ in range(n):
        prompt = tokens_of(tokenizer, rng, longest)
        tokens = tokens_of(tokenizer, rng, longest) if rng.random() < 0.95 else []
        stops = [STOPS[i] for i in rng.integers(0, len(STOPS), 2)]
        check_reader(tokenizer, prompt, tokens, stops)


def check_doors(tokenizer, seed, n):
    """See that all doors make the same text of ``n`` prompts' completions."""
    rng = generator(seed)
    prompts = [tokens_of(tokenizer, rng, 9) for _ in range(n)]
    model = Recorder(random_table(97, len(tokenizer), seed))
    draft = Recorder(random_table(97, len(tokenizer), seed) + random_table(97, len(tokenizer), 7))
    seeds = [seed * n + i for i in range(n)]
    how = {"max_tokens": rng.integers(1, 13, n).tolist(), "seed": seeds}
    how["stop_tokens"] = [tokenizer.eos_token_id]
    drafts = {"draft_model": draft, "rule": "match"}
    plain = lablib.generate(model, tokenizer, prompts, **how)
    rows = [each.tokens for each in plain]
    written = [row[: len(row) - (row[-1] == tokenizer.eos_token_id)] for row in rows]
    texts = [text(tokenizer, *pair) for pair in zip(prompts, written, strict=True)]
    assert plain == texts
    more = {**how, "tokenizer": tokenizer}
    assert lablib.inference.samples(model, prompts, **more).join().texts(tokenizer) == texts
    options = [SamplerOptions(seed=each) for each in seeds]
    own = {**more, "options": options}
    own.pop("seed")
    found = lablib.sample_many(model, prompts, **own)
    assert [samples.texts(tokenizer)[0] for samples in found] == texts
    drafted = lablib.inference.samples(model, prompts, **more, **drafts).join()
    assert drafted.texts(tokenizer) == texts
    for i in range(0, n, 16):
        one = {name: values[i] for name, values in how.items() if name != "stop_tokens"}
        one["stop_tokens"] = how["stop_tokens"]
        check_one(tokenizer, model, drafts, prompts[i], one, texts[i])
    stops = [STOPS[i] for i in rng.integers(0, len(STOPS), 2)]
    cut = [stopped(tokenizer, *pair, stops) for pair in zip(prompts, written, strict=True)]
    for ended in (
        lablib.generate(model, tokenizer, prompts, stop=stops, **how),
        lablib.generate(model, tokenizer, prompts, stop=stops, **how, **drafts),
    ):
        assert ended == [each for each, _ in cut]
        ends = [end or len(row) for (_, end), row in zip(cut, rows, strict=True)]
        assert [len(each.tokens) for each in ended] == ends
    ended = lablib.inference.samples(model, prompts, stop=stops, **more).join()
    assert ended.texts(tokenizer) == [each for each, _ in cut]


def check_one(tokenizer, model, drafts, prompt, how, wanted):
    """See the doors that take one prompt."""
    seen = []

    def extract(answer):
        seen.append(answer)
        return answer

    async def pieces():
        return [piece async for piece in lablib.stream(model, tokenizer, prompt, **how)]

    assert lablib.generate(model, tokenizer, prompt, **how, **drafts) == wanted
    assert "".join(lablib.stream(model, tokenizer, prompt, **how)) == wanted
    assert "".join(asyncio.run(pieces())) == wanted
    assert lablib.sample_n(model, prompt, 2, **how).texts(tokenizer)[0] == wanted
    voting = {**how, "extract": lablib.on_text(tokenizer, extract), "temperature": 1.0}
    lablib.majority_vote(model, prompt, 1, **voting)
    lablib.majority_vote(model, prompt, 1, **voting, **drafts)
    lablib.vote_until(model, prompt, 1, **voting)
    scored = {**how, "temperature": 1.0, "return_all": True}
    exact = Exact(tokenizer, lambda answer: extract(answer) is None)
    lablib.best_of_n(model, prompt, 1, score_fn=exact, **scored)
    own = lambda sequences, samples: seen.extend(samples.texts(tokenizer)) or [0.0]  # noqa: E731
    lablib.best_of_n(model, prompt, 1, score_fn=own, **scored)
    assert seen == [wanted] * 5


def main():
    """Send many prompts of each kind through every door."""
    for kind in KINDS:
        with TemporaryDirectory() as path:
            tokenizer = tokenizer_of(kind, Path(path))
            for seed in range(53):
                check_doors(tokenizer, 100 + seed, 64)
            print(kind, 53 * 64, flush=True)


if __name__ == "__main__":
    main()

"""The page's engine against the library: ids, logits, random numbers, texts, votes and rules."""

import itertools
import random
import string

import lablib
from lablib.course.tasks import edits, stories, sums
from lablib.inference.sampling import random_numbers, transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.speculation import rules
from lablib.tools.site import play

import mlx.core as mx
import numpy as np
import pytest
from oracles import page
from oracles.enumeration import Language, joint
from scipy import stats

NEAR = 1e-3  # what a draw may be off by and still be called a near tie
TASKS = stories, sums, edits

# Of writing, 20: each alone and together, extremes, and each rule of speculation.
SETTINGS = [
    {"temperature": 1.0},
    {"temperature": 0.0},
    {"temperature": 0.3},
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 1.0, "min_p": 0.1},
    {"temperature": 1.0, "top_k": 5},
    {"temperature": 1.5, "top_k": 20, "top_p": 0.8, "min_p": 0.05},
    {"temperature": 2.0},
    {"temperature": 1.0, "repeat_penalty": 1.3},
    {"temperature": 0.9, "presence_penalty": 0.5, "frequency_penalty": 0.2},
    {"temperature": 0.0, "repeat_penalty": 1.5, "repeat_last_n": 8},
    {"temperature": 1.0, "top_p": 0.5, "frequency_penalty": 0.7, "repeat_last_n": -1},
    {"temperature": 1.0, "rule": "match"},
    {"temperature": 0.8, "rule": "coupled", "top_p": 0.95},
    {"temperature": 1.0, "rule": "rejection"},
    {"temperature": 1.0, "rule": "block"},
    {"temperature": 0.0, "rule": "rejection", "draft_tokens": 7},
    {"temperature": 0.7, "rule": "rejection", "top_k": 8, "draft_tokens": 2},
    {"temperature": 1.3, "rule": "block", "min_p": 0.05, "draft_tokens": 6},
    {"temperature": 1.0, "rule": "coupled", "repeat_penalty": 1.2, "draft_tokens": 3},
]
BY_HEAD = [{**options, "drafter": play.HEAD} for options in SETTINGS if "rule" in options]


@pytest.fixture(scope="module", autouse=True)
def _node():
    page.need()


@pytest.fixture(scope="module")
def target():
    return lablib.load("target")


@pytest.fixture(scope="module")
def head(target):
    return lablib.load_head(play.HEAD, target[0])


@pytest.fixture(scope="module")
def drafters(head):
    return {"draft": lablib.load("draft")[0], play.HEAD: lablib.Head(head)}


def texts(n: int) -> list[str]:
    """Texts of the three worlds, and of what a keyboard has: spaces, other scripts, specials."""
    rng = random.Random(7)
    letters = string.printable + "éßÆ 漢字🙂\x85\u00a0\u2003ñ"
    whole = [text for task in TASKS for text in task.documents(3, n // 6)]
    more = ["<s>", "</s>", "<unk>", "", "  ", " \n", "it's 5#", "don't  stop", "a\u0301b", *letters]
    while len(whole) + len(more) < n:
        base = rng.choice(whole) if rng.random() < 0.5 else "".join(rng.choices(letters, k=30))
        at = rng.randrange(len(base))
        word = rng.choice(["'ll", "<s>", "  ", "é", "\n\n", "'S", "12", "\t ", "</s>"])
        more.append(base[:at] + word + base[at : at + rng.randrange(40)])
    return [*whole, *more]


def test_ids_are_the_tokenizers(target):
    _, tokenizer = target
    given = [text for text in texts(10_000) if text]
    assert len(given) >= 9_990
    wanted = [tokenizer.encode(x, add_special_tokens=not x.startswith("<s>")) for x in given]
    encoded, decoded = page.run({"do": "encode", "texts": given}, {"do": "decode", "ids": wanted})
    assert [t for t, a, b in zip(given, encoded, wanted, strict=True) if a != b] == []
    shown = [tokenizer.decode(ids, skip_special_tokens=True) for ids in wanted]
    assert [t for t, a, b in zip(given, decoded, shown, strict=True) if a != b] == []


def test_random_numbers_are_the_librarys():
    keys = [(0, 0), (1, 0), (20261120, 63), (2**63 + 5, 2, 7), (2**70 + 3, 1)]
    (found,) = page.run({"do": "numbers", "keys": [[str(s), *rest] for s, *rest in keys], "n": 9})
    for (seed, *path), (key, number, noise) in zip(keys, found, strict=True):
        wanted = random_numbers.key(seed, *path)
        assert int(key) == wanted
        assert number == random_numbers.uniforms(np.array([wanted], np.uint64), np.array([9]))[0]
        exact = random_numbers.exponentials(np.array([wanted], np.uint64), 9)[0]
        assert np.allclose(noise, exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 192, 8), (1500, 96, 112)])
def test_products_are_numpys_with_webassembly_and_without(shape):
    rows, n, m = shape  # the last is more than its desk holds at a time
    rng = np.random.default_rng(rows)
    x, weight, bias = (rng.normal(size=size).astype(np.float32) for size in ((rows, n), (m, n), m))
    given = {"x": x.ravel(), "weight": weight.ravel(), "bias": bias}
    job = {"do": "products", "rows": rows} | {name: each.tolist() for name, each in given.items()}
    (found,) = page.run(job)
    exact = x.astype(float) @ weight.T.astype(float) + bias
    fast, plain = (np.reshape(each, exact.shape) for each in found)
    assert not np.array_equal(fast, plain) or n == 4  # it sums in another order: WebAssembly ran
    for each in (fast, plain):
        np.testing.assert_allclose(each, exact, atol=4 * np.sqrt(n) * np.finfo(np.float32).eps * 8)


def mixed(tokenizer, n: int) -> list[int]:
    """A text of n tokens, of the three worlds in turn."""
    parts = zip(*(task.documents(11, 40) for task in TASKS), strict=True)
    tokens = tokenizer.encode("\n".join(itertools.chain(*parts)))[:n]
    assert len(tokens) == n
    return tokens


PIECES = [1, 5, 4, 64]


@pytest.mark.parametrize("name", play.NAMES)
def test_logits_are_mlxs(name):
    """Over a text of 1,000 tokens, read in pieces; float32 on both sides."""
    model, tokenizer = lablib.load(name)
    tokens = mixed(tokenizer, 1000)
    (found,) = page.run({"do": "logits", "model": name, "tokens": tokens, "pieces": PIECES})
    check_logits(name, found, np.array(model(mx.array([tokens]))[0]))


def test_logits_of_the_head_are_mlxs(target, head):
    """And so are the states that it reads: the target's, of the page here and of MLX there."""
    model, tokenizer = target
    tokens = mixed(tokenizer, 1001)
    job = {"do": "logits", "model": play.HEAD, "target": "target", "pieces": PIECES}
    (found,) = page.run({**job, "tokens": tokens})
    states = head(model.hidden(mx.array([tokens[:-1]]), None), mx.array([tokens[1:]]))
    check_logits(play.HEAD, found, np.array(head.logits(states[0])))


def check_logits(name: str, found: str, wanted: np.ndarray) -> None:
    logits = page.floats(found, *wanted.shape)
    worst = np.abs(logits - wanted).max()
    print(f"{name}: the logits of {len(wanted)} tokens differ by {worst:.1e} at most")
    assert worst <= 1e-3
    assert np.abs(logits[:, ::-1] - wanted).max() > 1  # and would be seen


@pytest.mark.parametrize("name", ["draft", play.HEAD])
def test_a_weight_is_no_other_number(name):
    told, text = play.pack(name)
    arrays = mx.load(str(play.zoo.CHECKPOINTS / name / "model.safetensors"))
    assert {*arrays} - {name for name, _ in told["tensors"]} <= {"ids"}
    packed = play.zlib.decompress(unz85(text)[: told["bytes"]])
    planes = np.frombuffer(packed, np.uint8).reshape(2, -1)
    numbers = np.ascontiguousarray(planes[::-1].T).view(np.float16)[:, 0]
    at = 0
    for name, shape in told["tensors"]:
        size = int(np.prod(shape))
        assert np.array_equal(numbers[at : at + size].reshape(shape), np.array(arrays[name]))
        at += size
    assert at == len(numbers)


def unz85(text: str) -> bytes:
    """Decode Z85 with Python's ints."""
    digits = [play._LETTERS.index(letter) for letter in text]
    fours = zip(*(digits[i::5] for i in range(5)), strict=True)
    numbers = (sum(d * 85 ** (4 - i) for i, d in enumerate(four)) for four in fours)
    return b"".join(number.to_bytes(4, "big") for number in numbers)


@pytest.mark.parametrize("options", SETTINGS[:12], ids=str)
def test_transforms_are_the_librarys(options):
    rng = np.random.default_rng(5)
    logits = (rng.normal(size=(20, 64)) * 3).round(1).astype(np.float32)  # with ties
    text = rng.integers(0, 64, 100).tolist()
    (found,) = page.run({"do": "cut", "logits": logits.tolist(), "text": text, "options": options})
    scores = transforms.apply(mx.array(logits), SamplerOptions(**options), text)
    wanted = np.array(mx.softmax(scores, axis=-1))
    assert np.array_equal(np.array(found) > 0, wanted > 0)
    assert np.abs(np.array(found) - wanted).max() < 1e-6


# --- texts ---
def runs(tokenizer, each: int, settings=SETTINGS) -> list[dict]:
    """``each`` texts of all settings, with prompts of the three worlds in turn."""
    prompts = [problem.prompt for task in TASKS for problem in task.problems(5, 3)]
    found = []
    for number, options in enumerate(settings):
        for i in range(each):
            prompt = tokenizer.encode(prompts[(number + i) % len(prompts)])
            kind = {"prompt": prompt, "max_tokens": 60, "seed": 1000 * number + i}
            drafter = {"drafter": "draft"} if "rule" in options else {}
            found.append({**drafter, **options, **kind})
    return found


def in_python(target, drafters, run: dict) -> dict:
    """Return a text of the library, and its rounds if drafts are made: what they are and become."""
    model, tokenizer = target
    options = dict(run)
    if "rule" not in run:
        return {"text": lablib.generate(model, tokenizer, options.pop("prompt"), **options).tokens}
    drafter, prompt = drafters[options.pop("drafter")], options.pop("prompt")
    more = {"stop_tokens": [tokenizer.eos_token_id], "trace": True}
    ids, stats = lablib.speculative_decode(model, drafter, prompt, **options, **more)
    rounds = [[list(each.drafted), each.accepted, each.reached] for each in stats["trace"]]
    return {"text": ids[0, len(prompt) :].tolist(), "rounds": rounds}


def is_near(target, run: dict, theirs: list[int], ours: list[int]) -> bool:
    """Return whether a plain text parts at a draw that 1e-3 of a number would have changed."""
    at = next(i for i, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b)
    text = [*run["prompt"], *theirs[:at]]
    logits = target[0](mx.array([text]))[0, -1]
    options = {key: value for key, value in run.items() if key in SamplerOptions.names()}
    key = np.array([random_numbers.key(run["seed"], 0)], np.uint64)
    u = random_numbers.uniforms(key, np.array([at]))[0]
    found = set()
    for off in (-NEAR, 0, NEAR):
        changed = {**options}
        for name in ("top_p", "min_p"):
            if name in options:
                changed[name] = min(1.0, options[name] + off)
        scores = transforms.apply(logits, SamplerOptions(**changed), text)
        for shift in (-NEAR, 0, NEAR):
            here = mx.array([[min(max(u + shift, 0), 1 - 2**-24)]])
            found.add(transforms.draw(mx.exp(scores)[None], here).item())
    if options["temperature"] == 0:
        gaps = transforms.log_softmax(logits)
        return abs((gaps[theirs[at]] - gaps[ours[at]]).item()) < NEAR
    return ours[at] in found


def compare_texts(target, drafters, each: int, settings: list[dict]) -> None:
    wanted = runs(target[1], each, settings)
    (found,) = page.run({"do": "texts", "runs": wanted}, seconds=1500)
    near, tokens, rounds = 0, 0, 0
    for run, ours in zip(wanted, found, strict=True):
        theirs = in_python(target, drafters, run)
        tokens += len(theirs["text"])
        rounds += len(theirs.get("rounds", []))
        if "rule" in run and ours != theirs:
            near += 1
        elif ours["text"] != theirs["text"]:
            near += 1
            assert is_near(target, run, theirs["text"], ours["text"]), run
    print(f"{len(wanted)} texts, {tokens} tokens, {rounds} rounds: {near} parted at a near tie")
    assert near <= max(1, len(wanted) // 100)


@pytest.mark.grid(lambda settings, each: settings is BY_HEAD, rest="slow")
@pytest.mark.parametrize("each", [3, pytest.param(25, marks=pytest.mark.slow)])
@pytest.mark.parametrize("settings", [SETTINGS, BY_HEAD], ids=["", "by the head"])
def test_seeded_texts_are_the_librarys(target, drafters, settings, each):
    compare_texts(target, drafters, each, settings)


def test_a_head_has_no_guess_until_the_target_has_read(target, drafters):
    """After a prompt of one token the first round is plain, here as there."""
    run = {**BY_HEAD[0], "prompt": [1], "max_tokens": 30, "seed": 4}
    (found,) = page.run({"do": "texts", "runs": [run]})
    assert found == [in_python(target, drafters, run)]
    assert found[0]["rounds"][0] == [[], 0, 0]
    assert sum(accepted for _, accepted, _ in found[0]["rounds"]) > 0


def test_a_text_of_another_seed_is_another(target, drafters):
    run = {**runs(target[1], 1)[0], "prompt": target[1].encode("On a sunny day,")}
    (found,) = page.run({"do": "texts", "runs": [run, {**run, "seed": run["seed"] + 1}]})
    assert found[0]["text"] == in_python(target, drafters, run)["text"]
    assert found[0]["text"] != found[1]["text"]


# --- votes ---
def test_samples_of_a_vote_are_the_librarys(target):
    model, tokenizer = target
    prompt = tokenizer.encode(sums.problems(5, 1)[0].prompt)
    run = {"prompt": prompt, "max_tokens": 40, "seed": 3, "temperature": 1.0}
    tally = {"do": "tally", "answers": ["3", None, "5", "5", "3", "1", None]}
    samples, counts = page.run({"do": "samples", "run": run, "n": 24}, tally)
    wanted = lablib.sample_n(model, prompt, 24, max_tokens=40, seed=3, temperature=1.0)
    assert sum(a != b for a, b in zip(samples, wanted.tokens, strict=True)) <= 1
    rows = {"3": [0, 4], "5": [2, 3], "1": [5]}
    assert counts == [{"answer": answer, "rows": own} for answer, own in rows.items()]


def test_steps_are_judged_as_the_tasks_do(target):
    problems = sums.problems(8, 12)
    chains = [(p, text) for p in problems for text in sums.simulate(p, np.random.default_rng(2), 6)]
    chains += [(problems[0], text) for text in ("", "1+2=3", "a+1=2;#2", "9+9=8;9+9=8;9+9=8;#1")]
    (found,) = page.run({"do": "steps", "chains": [[p.prompt, text] for p, text in chains]})
    assert found == [sums.verify_steps(p, text) for p, text in chains]
    assert {True, False} <= {step for steps in found for step in steps}


# --- rules ---
@pytest.mark.parametrize("rule", rules.RULE)
def test_outcomes_are_the_librarys(rule):
    """Of a rule that is played out, the lengths alone: its next token is the target's own."""
    rng = np.random.default_rng(6)
    jobs, wanted = [], []
    for case in range(30):
        size, gamma = rng.integers(2, 9), rng.integers(1, 6)
        p, q = (rng.gamma(0.4, size=(n, size)) + 1e-9 for n in (gamma + 1, gamma))
        p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
        if case % 3 == 0:
            q = p[:-1] if case % 2 else np.eye(size)[rng.integers(0, size, gamma)]
        drafts = np.array([rng.choice(size, p=row) for row in q])
        jobs.append({"do": "outcome", "rule": rule, "p": p.tolist(), "q": q.tolist()})
        jobs[-1]["drafts"] = drafts.tolist()
        with mx.stream(mx.cpu):
            arrays = (mx.array(x, dtype=mx.float64) for x in (p, q))
            outcome = rules.RULE[rule](*arrays, mx.array(drafts))
            wanted.append((np.array(outcome.kept), np.array(outcome.following)))
    for (kept, following), (right_kept, right) in zip(page.run(*jobs), wanted, strict=True):
        assert np.abs(np.array(kept) - right_kept).max() < 1e-9
        assert (following is None) == (rule in ("match", "coupled"))
        if following is None:
            continue
        possible = right_kept > 1e-9
        assert np.abs(np.array(following)[possible] - right[possible]).max() < 1e-6


SIZE, GAMMA, LENGTH, ROUNDS = 4, 2, 3, 10_000
PROMPT = [2, 1]  # a head drafts from the second token on


@pytest.fixture(scope="module", params=[{}, {"temperature": 0.7, "top_k": 3}], ids=str)
def pair(request):
    """Two models without a network, which sample with the same options; and these."""
    options = request.param
    return Language(SIZE, 5, **options), Language(SIZE, 77, **options), options


def rounds(pair, rule: str, **more: bool) -> dict:
    """A job: 10,000 texts, by a ``bug`` or ``byHead`` if that is asked for."""
    target, draft, options = pair
    ends = [c for n in range(LENGTH + GAMMA) for c in itertools.product(range(SIZE), repeat=n)]
    contexts = [PROMPT[:1], *([*PROMPT, *end] for end in ends)]
    run = {"prompt": PROMPT, "max_tokens": LENGTH, "rule": rule, "draft_tokens": GAMMA, "stop": -1}
    job = {"do": "rounds", "size": SIZE, "run": {**run, **options}, "seeds": ROUNDS, **more}
    for name, each in (("target", target), ("draft", draft)):
        job[name] = {" ".join(map(str, c)): each.scores(c).tolist() for c in contexts}
    return job


def chance(counts: np.ndarray, expected: np.ndarray) -> float:
    """Return the chance of counts as far from what is expected (χ²), given that it is true."""
    expected = expected * counts.sum()
    assert counts[expected < 1e-6].sum() == 0
    rare = expected < 5  # together
    parts = [np.append(x[~rare], x[rare].sum()) for x in (counts, expected)]
    parts = [x[parts[1] > 0] for x in parts]
    return stats.chisquare(*parts, sum_check=False).pvalue


def chance_of(found: list, pair) -> float:
    """Return the chance of the texts."""
    told = np.zeros((SIZE,) * LENGTH)
    for _, text in found:
        told[tuple(text)] += 1
    assert told.sum() == ROUNDS
    return chance(told.ravel(), joint(pair[0], PROMPT, LENGTH).ravel())


def kept_by(pair, rule: str) -> np.ndarray:
    """Enumerate a first round: the chance of each number of kept drafts."""
    target, draft, _ = pair
    total = np.zeros(GAMMA + 1)
    for block in itertools.product(range(SIZE), repeat=GAMMA):
        before = [[*PROMPT, *block[:i]] for i in range(GAMMA + 1)]
        p, q = (np.array([each.probs(c) for c in before]) for each in (target, draft))
        outcome = rules.RULE[rule](mx.array(p), mx.array(q[:-1]), mx.array(block))
        total += np.prod([q[i, x] for i, x in enumerate(block)]) * np.array(outcome.kept)
    return total


@pytest.mark.grid(lambda pair, rule, by_head: not by_head or rule == "block", rest="slow")
@pytest.mark.grid(lambda pair, rule, by_head: not by_head)
@pytest.mark.parametrize("by_head", [False, True], ids=["model", "head"])
@pytest.mark.parametrize("rule", rules.RULE)
def test_ten_thousand_rounds_are_as_enumerated(pair, rule, by_head):
    """Kept drafts, and the texts: each false alarm once in 10⁶ (the seeds are fixed, too)."""
    (found,) = page.run(rounds(pair, rule, byHead=by_head))
    kept = np.bincount([accepted for accepted, _ in found], minlength=GAMMA + 1)
    assert chance(kept, kept_by(pair, rule)) > 1e-6
    assert chance_of(found, pair) > 1e-6


def test_a_residual_that_was_forgotten_is_found(pair):
    (found,) = page.run(rounds(pair, "rejection", bug=True))
    assert chance_of(found, pair) < 1e-6

"""Heads: trained from their recipe, interrupted or not; the shipped ones are what they say."""

import json
import re
from dataclasses import asdict, replace

from lablib.course.tasks import TASKS, load_tokenizer
from lablib.inference.speculation import Head
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.models import LanguageModel, llama_config, load, load_head, zoo
from lablib.models.head import DraftHead
from lablib.tools import chat_prompts, descent, head_training
from lablib.tools.head_training import HEADS, HeadRecipe, guesses, prompts_of, save_head, train_head
from lablib.tools.saving import save
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from oracles.refusals import refuses

TINY = HeadRecipe(
    "teacher", chat=False, texts=24, max_tokens=12, intermediate_size=16, steps=12, batch=8, ids=64
)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A folder with an untrained model of the shipped tokenizer, and the recipe for its head."""
    folder = tmp_path_factory.mktemp("models")
    model = LanguageModel(llama_config(512, d_model=32, n_heads=2, n_layers=1, d_ff=32), seed=1)
    save(model, load_tokenizer(), folder / "teacher")
    return replace(TINY, target=str(folder / "teacher"))


def weights(path):
    return {name: np.array(w) for name, w in mx.load(str(path / "model.safetensors")).items()}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_the_learning_rate_rises_to_its_peak_and_ends_at_a_twentieth():
    optimizer = descent.Descent(100, 1e-3, warmup=20).optimizer()
    rates = []
    for _ in range(101):
        optimizer.apply_gradients({}, {})
        rates.append(optimizer.learning_rate.item())
    assert [rates[20], rates[100]] == pytest.approx([1e-3, 5e-5])


def test_a_run_that_was_stopped_ends_in_the_same_weights(teacher, tmp_path, monkeypatch):
    def run(out, **options):
        recipe = replace(teacher, **options)
        return train_head("x", tmp_path / out, recipe=recipe, save_every=4, progress=False)

    whole = run("whole")
    add, steps = descent.Progress.add, []

    def stop(progress, loss, last):
        steps.append(loss)
        if len(steps) == 7:
            raise KeyboardInterrupt
        add(progress, loss, last)

    monkeypatch.setattr(descent.Progress, "add", stop)
    with pytest.raises(KeyboardInterrupt):
        run("stopped")
    assert (tmp_path / "stopped" / "resume.safetensors").is_file()
    monkeypatch.setattr(descent.Progress, "add", add)
    refuses(BadValue, "another recipe", run, "stopped", learning_rate=0.5)
    again = run("stopped")
    assert same(weights(whole), weights(again))
    assert sorted(path.name for path in again.iterdir()) == [
        "config.json", "model.safetensors", "training.json",
    ]  # fmt: skip
    before = (again / "model.safetensors").stat().st_mtime_ns
    assert run("stopped") == again  # a finished run is left as it is
    assert (again / "model.safetensors").stat().st_mtime_ns == before
    refuses(BadValue, "another recipe", run, "stopped", seed=3)


def test_it_learns(teacher, tmp_path):
    recipe = replace(teacher, steps=60, texts=48, learning_rate=3e-3)
    out = train_head("x", tmp_path / "long", recipe=recipe, progress=False)
    curve = json.loads((out / "training.json").read_text())["loss"]
    assert curve[-1][1] < curve[0][1]
    head = load_head(out, load(teacher.target)[0])
    assert len(head.ids) <= 64


def test_what_is_saved_comes_back_for_its_own_model_only(teacher, tmp_path):
    model, _ = load(teacher.target)
    head = DraftHead(model, range(0, 512, 3), 16, seed=5)
    path = save_head(head, tmp_path / "head", "teacher")
    back = load_head(path, model)
    assert back.ids.tolist() == [*range(0, 512, 3)]
    pairs = zip(tree_flatten(head.parameters()), tree_flatten(back.parameters()), strict=True)
    for (name, a), (_, b) in pairs:
        assert np.abs(np.array(a - b)).max() < 1e-3, name  # stored in float16
    other = LanguageModel(model.config, seed=2)
    with pytest.raises(BadValue, match="target must be the 'teacher' that the head was trained on"):
        load_head(path, other)
    refuses(BadValue, "does not hold a draft head", load_head, teacher.target, model)
    refuses(BadValue, r"config\.json is missing", load_head, tmp_path / "nothing", model)
    (path / "model.safetensors").write_bytes(b"x" * 100)
    refuses(BadValue, "corrupt or truncated", load_head, path, model)


@pytest.mark.slow
def test_questions_are_varied_and_the_unseen_are_of_other_topics():
    # So many that each topic comes up: there are a thousand.
    seen, unseen = (chat_prompts.prompts(0, 24_000, unseen=flag) for flag in (False, True))
    assert len(set(seen)) > 20_000
    assert seen == chat_prompts.prompts(0, 24_000)
    mentioned = {flag: set() for flag in (False, True)}
    for kind in chat_prompts._KINDS:
        for flag in mentioned:
            mentioned[flag] |= set(chat_prompts._topics(kind, flag))
        topics = [" ".join(t.split()) for t in f"{kind.topics}, {kind.more}".split(",")]
        assert len(topics) == len(set(topics)), "a topic stands twice, and may be on both sides"
    assert not mentioned[False] & mentioned[True]
    words = {
        flag: f" {re.sub('[^a-z ]', ' ', ' '.join(some).lower())} "
        for flag, some in ((False, seen), (True, unseen))
    }
    parts = [f"{k.forms} {k.topics} {k.more}" for k in chat_prompts._KINDS]
    everywhere = " ".join([*parts, chat_prompts._WISHES])
    everywhere = f" {' '.join(re.sub('[^a-z ]', ' ', everywhere.lower()).split())} "
    for flag, topics in mentioned.items():
        for topic in (re.sub("[^a-z ]", " ", topic.lower()) for topic in topics):
            assert f" {topic} " in words[flag], topic
            if everywhere.count(f" {topic} ") == 1:  # no form or wish says it too
                assert f" {topic} " not in words[not flag], topic


def test_a_guess_in_training_is_the_guess_that_the_head_makes_as_it_drafts():
    """At every place of a text, by running the head with a cache of its own: to rounding."""
    shape = llama_config(32, d_model=16, n_heads=4, n_kv_heads=2, n_layers=2, d_ff=32)
    target = LanguageModel(shape, seed=1)
    head = DraftHead(target, range(32), 24, seed=2)
    tokens = mx.random.randint(0, 32, (2, 9), key=mx.random.key(3))
    states = target.hidden(tokens)
    for i, given in enumerate(guesses(head, states, tokens, 4), start=1):
        assert given.shape == (2, 9 - i, 16)
        for root in range(9 - i):
            cache = head.make_cache()
            guess = head(states[:, : root + 1], tokens[:, 1 : root + 2], cache)[:, -1:]
            for step in range(1, i):
                place = root + 1 + step
                guess = head(guess, tokens[:, place : place + 1], cache)
            assert np.abs(np.array(guess[:, 0] - given[:, root])).max() < 1e-4, (i, root)


@pytest.mark.parametrize("name", HEADS)
def test_the_shipped_heads_are_made_of_their_recipes(name):
    folder = zoo.CHECKPOINTS / name
    said = json.loads((folder / "training.json").read_text())
    assert json.loads(json.dumps(asdict(HEADS[name]))) == said["recipe"]
    assert said["loss"][-1][0] == HEADS[name].steps
    size = (folder / "model.safetensors").stat().st_size
    assert size < (8e6 if name == "smollm2-head" else 1e6)


def test_the_shipped_head_guesses_what_the_target_says():
    """Above 4 tokens a round on every task, γ = 4; it was 4.2 to 4.6 when it was trained."""
    target, tokenizer = load("target", dtype=mx.float32)
    head = Head(load_head("target-head", target))
    stop = tokenizer.eos_token_ids
    for task in TASKS.values():
        tokens = rounds = 0
        for problem in task.problems(77, 8):
            ids = tokenizer.encode(problem.prompt)
            options = {"max_tokens": 60, "temperature": 0.0, "stop_tokens": stop}
            with SpeculativeTokenIterator(target, head, ids, **options) as iterator:
                tokens += len([*iterator])
            rounds += iterator.stats["rounds"]
        assert tokens > 4 * rounds


def test_prompts_of_training_and_of_trials_differ():
    _, tokenizer = load("draft")
    recipe = HEADS["target-head"]
    seen = {tuple(ids) for ids in prompts_of(recipe, tokenizer, 600)}
    unseen = [tuple(ids) for ids in prompts_of(recipe, tokenizer, 60, unseen=True)]
    assert sum(ids in seen for ids in unseen) < 6  # chance meets a short prompt now and then


def test_a_head_learns_to_draft_every_token_of_a_text_the_first_one_too(teacher):
    """The state that wrote token t stands at t - 1, the prompt's last one wrote the first."""
    recipe = replace(teacher, batch=2)
    texts = [(np.arange(1, 13), 4), (np.arange(1, 8), 6)]
    tokens, weights = next(head_training._batches(texts, recipe))
    for row, written in zip(np.array(tokens), np.array(weights), strict=True):
        ids, prompt = next((ids, n) for ids, n in texts if len(ids) == (row > 0).sum())
        assert row[1:][written[:-1] > 0].tolist() == ids[prompt:].tolist()

"""Blocks: trained from their recipe, interrupted or not; the shipped one is what it says."""

import json
from dataclasses import asdict, replace

from lablib.course.tasks import load_tokenizer
from lablib.models import DraftBlock, DraftHead, LanguageModel, llama_config, load, load_block, zoo
from lablib.tools import block_training, descent
from lablib.tools.block_training import (
    BLOCKS,
    BlockRecipe,
    guesses,
    loss_of,
    start_from,
    states_of,
    train_block,
)
from lablib.tools.saving import save
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles.refusals import refuses

TINY = BlockRecipe(
    "teacher", chat=False, texts=24, max_tokens=12, intermediate_size=16, steps=10, batch=8,
    guesses=4, head=None, known=8, reach=12,
)  # fmt: skip


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A recipe whose target is an untrained model of the shipped tokenizer."""
    folder = tmp_path_factory.mktemp("models")
    model = LanguageModel(llama_config(512, d_model=32, n_heads=2, n_layers=1, d_ff=32), seed=1)
    save(model, load_tokenizer(), folder / "teacher")
    return replace(TINY, target=str(folder / "teacher"))


def weights(path):
    return {name: np.array(w) for name, w in mx.load(str(path / "model.safetensors")).items()}


def test_a_run_that_was_stopped_ends_in_the_same_weights(teacher, tmp_path, monkeypatch):
    def run(out, **options):
        recipe = replace(teacher, **options)
        return train_block("x", tmp_path / out, recipe=recipe, save_every=4, progress=False)

    whole = weights(run("whole"))
    add, steps = descent.Progress.add, []

    def stop(progress, loss, last):
        steps.append(loss)
        if len(steps) == 7:
            raise KeyboardInterrupt
        add(progress, loss, last)

    monkeypatch.setattr(descent.Progress, "add", stop)
    with pytest.raises(KeyboardInterrupt):
        run("stopped")
    monkeypatch.setattr(descent.Progress, "add", add)
    refuses(BadValue, "another recipe", run, "stopped", learning_rate=0.5)
    again = run("stopped")
    assert all(np.array_equal(whole[name], w) for name, w in weights(again).items())
    assert sorted(path.name for path in again.iterdir()) == [
        "config.json", "model.safetensors", "training.json",
    ]  # fmt: skip
    assert run("stopped") == again  # a finished run is left as it is
    target, _ = load(teacher.target)
    assert load_block(again, target).size == 4
    refuses(BadValue, "does not hold a draft block", load_block, teacher.target, target)


def test_it_learns(teacher, tmp_path):
    recipe = replace(teacher, steps=60, texts=48, learning_rate=3e-3)
    out = train_block("x", tmp_path / "long", recipe=recipe, progress=False)
    curve = json.loads((out / "training.json").read_text())["loss"]
    assert curve[-1][1] < curve[0][1]


@pytest.fixture
def small():
    shape = llama_config(32, d_model=16, n_heads=4, n_kv_heads=2, n_layers=2, d_ff=32)
    target = LanguageModel(shape, seed=1)
    return target, DraftBlock(target, 4, None, 24, seed=2)


def test_a_guess_in_training_is_the_guess_that_the_block_makes_as_it_drafts(small):
    """At every root of a text, with padding before it: to rounding."""
    target, block = small
    tokens = mx.random.randint(0, 32, (2, 9), key=mx.random.key(3))
    states = target.hidden(tokens)
    before = [mx.concatenate([mx.zeros((2, 2, 16)), states[:, :-1]], axis=1)]
    behind = mx.concatenate([mx.zeros((2, 2), mx.int32), tokens[:, 1:]], axis=1)
    real = mx.array([[0.0] * 2 + [1.0] * 8] * 2)
    roots = np.array([2, 4, 5, 9])
    given = guesses(block, before[0], behind, roots, real)
    assert given.shape == (2, 4, 4, 16)
    for i, root in enumerate(roots - 2):
        alone = block(states[:, : root + 1], tokens[:, 1 : root + 2])
        assert np.abs(np.array(alone - given[:, i])).max() < 1e-4, root


def test_it_begins_as_the_head_began(small):
    target, block = small
    head = DraftHead(target, None, 8, seed=5)
    start_from(block, head)
    tokens = mx.random.randint(0, 32, (1, 7), key=mx.random.key(3))
    states = target.hidden(tokens)
    first = block(states[:, :-1], tokens[:, 1:])[:, 0]
    wanted = head(states[:, :-1], tokens[:, 1:])[:, -1]
    assert np.abs(np.array(first - wanted)).max() < 1e-5
    assert mx.abs(block.coupling(tokens)).max().item() == 0


def test_every_token_of_a_text_is_learned_behind_the_pair_that_comes_before_it(small):
    """Column by column: a state, the token behind it, and the first root where drafting begins."""
    target, _ = small
    texts = [(np.arange(1, 13), 4), (np.arange(1, 16), 12)]
    recipe = replace(TINY, batch=2, stride=1)
    states = [np.array(s, np.float32) for s in states_of(target, texts)]
    taken, tokens, real = map(np.array, next(block_training._batches(texts, states, recipe)))
    for row in range(2):
        ids, prompt = next(text for text in texts if text[0][-1] == tokens[row].max())
        there = np.flatnonzero(real[row])
        root = recipe.known  # its pair's token is the prompt's last
        assert tokens[row, root] == ids[prompt - 1]
        assert tokens[row, there].tolist() == ids[-len(there) :].tolist()
        own = states[0] if len(ids) == 12 else states[1]
        assert np.array_equal(taken[row, there], own[-len(there) - 1 : -1])


def test_the_loss_of_a_perfect_block_is_the_targets_entropy(small, monkeypatch):
    """Guesses that are the target's states cost what the target's own doubt is."""
    target, block = small
    texts = [(np.arange(1, 13), 4)] * 2
    recipe = replace(TINY, batch=2, stride=1, confidence_weight=0.0, fading=1.0)
    batch = next(block_training._batches(texts, states_of(target, texts), recipe))
    block.couple.weight = mx.zeros_like(block.couple.weight)
    states = batch[0]

    def perfect(block, given, tokens, roots, real):
        index = mx.array(roots[:, None] + np.arange(1, block.size + 1))
        return states[:, index]

    worse = loss_of(recipe, block, *batch).item()
    monkeypatch.setattr(block_training, "guesses", perfect)
    best = loss_of(recipe, block, *batch).item()
    assert 0 < best < worse


def test_the_shipped_block_is_made_of_its_recipe():
    folder = zoo.CHECKPOINTS / "target-block"
    said = json.loads((folder / "training.json").read_text())
    recipe = BLOCKS["target-block"]
    assert json.loads(json.dumps(asdict(recipe))) == said["recipe"]
    assert said["loss"][-1][0] == recipe.steps
    assert (folder / "model.safetensors").stat().st_size < 1.2e6

"""Training: packed rows, the same weights from the same seed, and a run that is interrupted."""

import dataclasses
import hashlib
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from lablib.course import tasks
from lablib.machine import backend
from lablib.models import hybrid_config, llama_config, zoo
from lablib.models.files import fingerprint
from lablib.tools import training
from lablib.tools.recipes import RECIPES, VOCAB_SIZE, Recipe, Stage
from lablib.tools.training import batches, train
from lablib.tools.verifier_training import VerifierRecipe, train_verifier

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

TINY = Recipe(
    llama_config(VOCAB_SIZE, d_model=32, n_heads=2, n_layers=1, d_ff=32),
    stages=(Stage(30, 4, 48), Stage(6, 2, 96)),
    learning_rate=5e-3,
    warmup=4,
)


SHARD = training._SHARD


@pytest.fixture(scope="module", autouse=True)
def small_shards() -> Iterator[None]:
    """Documents come 200 at a time, in a fraction of the time; a tiny run goes through a few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_SHARD", 200)
        yield


def weights(folder: Path) -> dict[str, mx.array]:
    model, _ = zoo.load(folder, dtype=mx.float32)
    return dict(tree_flatten(model.parameters()))


def same(a: Path, b: Path) -> bool:
    first, second = weights(a), weights(b)
    return first.keys() == second.keys() and all(
        mx.array_equal(first[name], second[name]) for name in first
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train("tiny", tmp_path_factory.mktemp("tiny"), recipe=TINY, progress=False)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(trained, tmp_path):
    assert same(trained, train("tiny", tmp_path / "again", recipe=TINY, progress=False))
    other = dataclasses.replace(TINY, seed=1)
    assert not same(trained, train("tiny", tmp_path / "other", recipe=other, progress=False))


def stop(monkeypatch: pytest.MonkeyPatch, recipe: Recipe, step: int) -> None:
    """Interrupt the training of this recipe at this step; other recipes are left alone."""
    real = batches

    def stopping(asked: Recipe):
        for number, batch in enumerate(real(asked)):
            if asked == recipe and number == step:
                raise KeyboardInterrupt
            yield batch

    monkeypatch.setattr(training, "batches", stopping)


@pytest.mark.parametrize("stop_at", [7, 33])
def test_an_interrupted_run_goes_on_to_the_same_weights(trained, tmp_path, monkeypatch, stop_at):
    """Stopped in either stage, a few steps after a resume point."""
    stop(monkeypatch, TINY, stop_at)
    with pytest.raises(KeyboardInterrupt):
        train("tiny", tmp_path, recipe=TINY, save_every=3, progress=False)
    assert not (tmp_path / "model.safetensors").exists()
    monkeypatch.undo()
    train("tiny", tmp_path, recipe=TINY, save_every=3, progress=False)
    assert same(trained, tmp_path)
    assert loss_curve(tmp_path) == loss_curve(trained)
    assert not list(tmp_path.glob("*resume*"))


SHORT = dataclasses.replace(TINY, stages=(Stage(8, 4, 48), Stage(4, 2, 96)))


def kinds_of_recipe(teacher: Path) -> dict[str, Recipe]:
    """One of every kind that is shipped, small: a chain of runs, a student, a hybrid."""
    biased = dataclasses.replace(SHORT.config, attention_bias=True)
    stages = tuple(dataclasses.replace(stage, teacher=str(teacher)) for stage in SHORT.stages)
    return {
        "chain": dataclasses.replace(SHORT, seed=3, prompt_weight=1.0, after=SHORT),
        "student": dataclasses.replace(SHORT, config=biased, stages=stages, bias_scale=0.5),
        "hybrid": dataclasses.replace(SHORT, config=hybrid_config(VOCAB_SIZE, 32, 2, 2)),
    }


@pytest.mark.parametrize(
    ("kind", "stop_at"), [("chain", 10), ("chain first", 5), ("student", 10), ("hybrid", 5)]
)
def test_every_kind_of_run_is_repeatable_and_goes_on_after_an_interrupt(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, stop_at: int
) -> None:
    recipe = kinds_of_recipe(trained)[kind.split()[0]]
    twice = [train(kind, tmp_path / name, recipe=recipe, progress=False) for name in "ab"]
    assert same(*twice)
    stop(monkeypatch, recipe.after if kind.endswith("first") else recipe, stop_at)
    with pytest.raises(KeyboardInterrupt):
        train(kind, tmp_path / "c", recipe=recipe, save_every=4, progress=False)
    monkeypatch.undo()
    assert list((tmp_path / "c").rglob("resume.safetensors"))
    train(kind, tmp_path / "c", recipe=recipe, save_every=4, progress=False)
    assert same(tmp_path / "a", tmp_path / "c")
    assert loss_curve(tmp_path / "a") == loss_curve(tmp_path / "c")


def loss_curve(folder: Path) -> list:
    return json.loads((folder / "training.json").read_text())["loss"]


def test_training_leaves_the_global_random_state_alone(tmp_path: Path) -> None:
    mx.random.seed(11)
    before = mx.random.state[0].tolist()
    train("tiny", tmp_path, recipe=dataclasses.replace(SHORT, seed=4), progress=False)
    assert mx.random.state[0].tolist() == before


def test_a_resume_point_of_another_recipe_is_refused(tmp_path, monkeypatch):
    real = batches
    monkeypatch.setattr(training, "batches", lambda recipe: itertools.islice(real(recipe), 6))
    monkeypatch.setattr(training, "save", lambda *_, **__: pytest.fail("must not finish"))
    with pytest.raises(RuntimeError, match="ran out of data"):
        train("tiny", tmp_path, recipe=TINY, save_every=5, progress=False)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="another recipe: finish it as it began, or delete"):
        train("tiny", tmp_path, recipe=dataclasses.replace(TINY, seed=3), progress=False)
    now = backend.threads()
    monkeypatch.setattr(backend, "threads", lambda: now + 1)
    with pytest.raises(ValueError, match=f"of {now} BLAS threads, not {now + 1}: finish"):
        train("tiny", tmp_path, recipe=TINY, progress=False)


def test_a_finished_run_is_left_as_it_is(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(training, "batches", lambda _: pytest.fail("must not train"))
    assert train("tiny", tmp_path, recipe=TINY, progress=False) == tmp_path
    with pytest.raises(ValueError, match="out holds a run of another recipe: delete"):
        train("tiny", tmp_path, recipe=dataclasses.replace(TINY, seed=3), progress=False)


def test_teachers_come_from_the_folder_of_models_if_they_were_trained_there(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not in the folder, or not finished there, is the shipped checkpoint."""
    assert training.checkpoint("target", None) == "target"
    assert training.checkpoint("target", tmp_path) == "target"
    (tmp_path / "target").mkdir()
    assert training.checkpoint("target", tmp_path) == "target"
    shutil.copytree(trained, tmp_path / "target", dirs_exist_ok=True)
    stages = tuple(dataclasses.replace(stage, teacher="target") for stage in SHORT.stages)
    recipe = dataclasses.replace(SHORT, stages=stages)
    student = train("draft", tmp_path / "draft", recipe=recipe, models=tmp_path, progress=False)
    report = json.loads((student / "training.json").read_text())
    teacher, _ = zoo.load(trained, mx.float32)
    assert report["teachers"] == {"target": fingerprint(teacher)}
    named = tuple(dataclasses.replace(stage, teacher=str(trained)) for stage in SHORT.stages)
    by_path = dataclasses.replace(recipe, stages=named)
    assert same(student, train("draft", tmp_path / "b", recipe=by_path, progress=False))
    stop(monkeypatch, recipe, 5)
    with pytest.raises(KeyboardInterrupt):
        train("draft", tmp_path / "c", recipe=recipe, models=tmp_path, save_every=4, progress=False)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="of another teacher: finish it as it began"):
        train("draft", tmp_path / "c", recipe=recipe, progress=False)
    little = VerifierRecipe(documents=8, samples=4, steps=3, batch=4)
    verifier = train_verifier(tmp_path / "v", recipe=little, models=tmp_path, progress=False)
    assert json.loads((verifier / "config.json").read_text())["fingerprint"] == fingerprint(teacher)


def test_it_learns_and_leaves_a_curve(trained: Path) -> None:
    report = json.loads((trained / "training.json").read_text())
    losses = [loss for _, loss in report["loss"]]
    assert losses[-1] < losses[0] - 0.5
    assert report["loss"][-1][0] == TINY.steps
    assert report["tokens"] == 30 * 4 * 48 + 6 * 2 * 96
    assert report["recipe"]["seed"] == 0


def test_rows_are_whole_documents_that_start_at_the_beginning() -> None:
    tokenizer = tasks.load_tokenizer()
    begin, end = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
    for inputs, targets, weights in itertools.islice(batches(TINY), 3):
        rows, following = np.array(inputs), np.array(targets)
        assert weights.shape == targets.shape
        assert rows.shape == following.shape == (4, 48)
        assert (rows[:, 0] == begin).all()
        assert (rows[:, 1:] == following[:, :-1]).all()
        after_end = following[rows == end]
        assert (after_end == begin).all()
    shapes = [inputs.shape for inputs, *_ in batches(TINY)]
    assert shapes == [(4, 48)] * 30 + [(2, 96)] * 6


def test_a_prompt_weighs_less_than_its_answer() -> None:
    """Cut at the weights, a row falls into the prompts and answers of its documents."""
    tokenizer = tasks.load_tokenizer()
    _, targets, weights = (np.array(x) for x in next(batches(TINY)))
    assert set(np.unique(weights)) == {np.float32(0.1), np.float32(1)}
    for row, weight in zip(targets, weights, strict=True):
        cuts = np.flatnonzero(np.diff(weight)) + 1
        texts = [tokenizer.decode(part.tolist()) for part in np.split(row, cuts)]
        prompts = texts[0::2]
        assert all(tasks.prompt_of(p) == p for p in prompts[: len(cuts) // 2 + len(cuts) % 2])
    plain = dataclasses.replace(TINY, prompt_weight=1.0)
    assert (np.array(next(batches(plain))[2]) == 1).all()


def test_a_student_learns_from_its_teacher(trained, tmp_path, monkeypatch):
    """It comes nearer to the teacher than it was, and than the same training without one."""
    alone = dataclasses.replace(TINY, stages=(Stage(70, 4, 48), Stage(6, 2, 96)), seed=5)
    taught = [dataclasses.replace(stage, teacher=str(trained)) for stage in alone.stages]
    recipe = dataclasses.replace(alone, stages=tuple(taught))
    student, _ = zoo.load(train("student", tmp_path, recipe=recipe, progress=False), mx.float32)
    teacher, _ = zoo.load(trained, mx.float32)
    untaught, _ = zoo.load(
        train("alone", tmp_path / "alone", recipe=alone, progress=False), mx.float32
    )
    fresh = type(student)(TINY.config, seed=5)
    tokens = next(iter(batches(dataclasses.replace(TINY, seed=77))))[0]

    def distance(model) -> float:
        p, q = (mx.softmax(m(tokens), axis=-1) for m in (teacher, model))
        return (0.5 * mx.abs(p - q).sum(-1)).mean().item()

    assert distance(student) < 0.8 * distance(untaught)
    assert distance(student) < 0.5 * distance(fresh)


@pytest.mark.parametrize(
    ("name", "digest"),
    [("target", "67963c758e79b006"), ("draft", "bd783f19487f1203"), ("hybrid", "f440b40f5e1d1b62")],
)
def test_the_shipped_recipes_begin_with_the_batch_that_they_began_with(name, digest, monkeypatch):
    """Else training would not reproduce what is shipped: generator, tokenizer, shards, packing."""
    monkeypatch.setattr(training, "_SHARD", SHARD)
    batch = next(batches(RECIPES[name]))
    found = hashlib.sha256(b"".join(np.array(part).tobytes() for part in batch))
    assert found.hexdigest()[:16] == digest


def test_an_unknown_name_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name must be one of 'target', 'draft'"):
        train("giant", tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


def test_the_shipped_checkpoints_are_within_their_limits() -> None:
    sizes = {}
    for name in RECIPES:
        stored = mx.load(str(zoo.CHECKPOINTS / name / "model.safetensors"))
        assert {value.dtype for value in stored.values()} == {mx.float16}
        sizes[name] = sum(value.size for value in stored.values())
        config = json.loads((zoo.CHECKPOINTS / name / "config.json").read_text())
        assert config == RECIPES[name].config.to_dict() | config
        assert config["max_position_embeddings"] >= 512
    assert 2.5e6 <= sizes["target"] <= 3.5e6
    assert sizes["draft"] <= 0.2e6
    assert sizes["hybrid"] <= 1e6
    assert RECIPES["target"].config.num_hidden_layers >= 6
    assert RECIPES["target"].config.head_dim == 64
    binary = sum(file.stat().st_size for file in zoo.CHECKPOINTS.rglob("*.safetensors"))
    assert binary <= 20e6


def test_bias_scale_spreads_the_biases_of_queries_and_keys_only(tmp_path: Path) -> None:
    biased = dataclasses.replace(TINY.config, attention_bias=True)
    usual = dataclasses.replace(TINY, config=biased, stages=(Stage(1, 1, 24),), learning_rate=1e-9)
    usual = dataclasses.replace(usual, weight_decay=0.0)
    spread = dataclasses.replace(usual, bias_scale=0.5)
    plain, large = (
        weights(train("tiny", tmp_path / str(i), recipe=recipe, progress=False))
        for i, recipe in enumerate((usual, spread))
    )
    other = {name for name in plain if not mx.allclose(plain[name], large[name], atol=1e-3)}
    assert other == {f"model.layers.0.self_attn.{kind}_proj.bias" for kind in "qk"}
    sizes = [mx.std(large[name]).item() for name in other]
    assert 0.25 < min(sizes) <= max(sizes) < 0.75


BIASED = dataclasses.replace(TINY.config, attention_bias=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bias_scale": 0.5}, "bias_scale must be None without"),
        ({"config": BIASED, "bias_scale": 0.5, "after": TINY}, "bias_scale must be .* with after="),
        ({"config": BIASED, "after": TINY}, "config must be that of"),
    ],
)
def test_what_a_recipe_could_not_honour_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **options)


def test_a_first_run_of_another_recipe_is_refused(tmp_path: Path, trained: Path) -> None:
    shutil.copytree(trained, tmp_path / "out" / "first")
    recipe = dataclasses.replace(TINY, after=dataclasses.replace(TINY, seed=4))
    with pytest.raises(ValueError, match="out holds a run of another recipe"):
        train("tiny", tmp_path / "out", recipe=recipe, progress=False)


def test_a_recipe_goes_on_from_the_stored_weights_of_another(tmp_path: Path, trained: Path) -> None:
    still = dataclasses.replace(
        TINY, stages=(Stage(1, 1, 24),), learning_rate=1e-9, weight_decay=0.0, seed=8, after=TINY
    )
    out = train("tiny", tmp_path / "both", recipe=still, progress=False)
    assert same(out / "first", trained)
    assert same(out, trained)
    report = json.loads((out / "training.json").read_text())
    assert report["first"]["loss"] == json.loads((trained / "training.json").read_text())["loss"]
    assert report["recipe"]["after"] == report["first"]["recipe"]
    other = dataclasses.replace(still, learning_rate=1e-2, after=TINY)
    assert not same(train("tiny", tmp_path / "other", recipe=other, progress=False), trained)


@pytest.mark.parametrize("name", RECIPES)
def test_the_shipped_checkpoints_were_made_by_these_recipes(name: str) -> None:
    report = json.loads((zoo.CHECKPOINTS / name / "training.json").read_text())
    recipe = RECIPES[name]
    while recipe is not None:
        assert report["recipe"] == recipe.to_dict()
        recipe, report = recipe.after, report.get("first")
    assert report is None

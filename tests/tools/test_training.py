"""Training: packed rows, the same weights from the same seed, and a run that is interrupted."""

import functools
import hashlib
import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lablib.course import tasks
from lablib.machine import backend
from lablib.models import hybrid_config, llama_config, zoo
from lablib.models.files import fingerprint
from lablib.tools import training
from lablib.tools.recipes import RECIPES, VOCAB_SIZE, Recipe, Stage
from lablib.tools.training import batches
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
train = functools.partial(training.train, progress=False)


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
    alike = (mx.array_equal(first[name], second[name]) for name in first)
    return first.keys() == second.keys() and all(alike)


def report_of(folder: Path) -> dict:
    return json.loads((folder / "training.json").read_text())


def taught(recipe: Recipe, teacher: str | Path) -> Recipe:
    stages = tuple(replace(stage, teacher=str(teacher)) for stage in recipe.stages)
    return replace(recipe, stages=stages)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train("tiny", tmp_path_factory.mktemp("tiny"), recipe=TINY)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(trained, tmp_path):
    assert same(trained, train("tiny", tmp_path / "again", recipe=TINY))
    other = replace(TINY, seed=1)
    assert not same(trained, train("tiny", tmp_path / "other", recipe=other))


def interrupted(recipe: Recipe, step: int, /, *arguments, **options) -> None:
    """Train, and interrupt that at this step of this recipe; other recipes are left alone."""

    def stopping(asked: Recipe):
        for number, batch in enumerate(batches(asked)):
            if asked == recipe and number == step:
                raise KeyboardInterrupt
            yield batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "batches", stopping)
        with pytest.raises(KeyboardInterrupt):
            train(*arguments, **options)


@pytest.mark.parametrize("stop_at", [7, 33])
def test_an_interrupted_run_goes_on_to_the_same_weights(trained, tmp_path, stop_at):
    """Stopped in either stage, a few steps after a resume point."""
    interrupted(TINY, stop_at, "tiny", tmp_path, recipe=TINY, save_every=3)
    assert not (tmp_path / "model.safetensors").exists()
    train("tiny", tmp_path, recipe=TINY, save_every=3)
    assert same(trained, tmp_path)
    assert report_of(tmp_path)["loss"] == report_of(trained)["loss"]
    assert not list(tmp_path.glob("*resume*"))


SHORT = replace(TINY, stages=(Stage(8, 4, 48), Stage(4, 2, 96)))


def kinds_of_recipe(teacher: Path) -> dict[str, Recipe]:
    """One of every kind that is shipped, small: a chain of runs, a student, a hybrid."""
    biased = replace(SHORT.config, attention_bias=True)
    return {
        "chain": replace(SHORT, seed=3, prompt_weight=1.0, after=SHORT),
        "student": replace(taught(SHORT, teacher), config=biased, bias_scale=0.5),
        "hybrid": replace(SHORT, config=hybrid_config(VOCAB_SIZE, 32, 2, 2)),
    }


@pytest.mark.grid(lambda kind, stop_at: kind != "student")
@pytest.mark.parametrize(
    ("kind", "stop_at"), [("chain", 10), ("chain first", 5), ("student", 10), ("hybrid", 5)]
)
def test_every_kind_of_run_is_repeatable_and_goes_on_when_stopped(trained, tmp_path, kind, stop_at):
    recipe = kinds_of_recipe(trained)[kind.split()[0]]
    twice = [train(kind, tmp_path / name, recipe=recipe) for name in "ab"]
    assert same(*twice)
    given = {"recipe": recipe, "save_every": 4}
    first = recipe.after if kind.endswith("first") else recipe
    interrupted(first, stop_at, kind, tmp_path / "c", **given)
    assert list((tmp_path / "c").rglob("resume.safetensors"))
    train(kind, tmp_path / "c", **given)
    assert same(tmp_path / "a", tmp_path / "c")
    assert report_of(tmp_path / "a")["loss"] == report_of(tmp_path / "c")["loss"]


def test_training_leaves_the_global_random_state_alone(tmp_path: Path) -> None:
    mx.random.seed(11)
    before = mx.random.state[0].tolist()
    train("tiny", tmp_path, recipe=replace(SHORT, seed=4))
    assert mx.random.state[0].tolist() == before


def test_a_resume_point_of_another_recipe_is_refused(tmp_path, monkeypatch):
    real = batches
    monkeypatch.setattr(training, "batches", lambda recipe: itertools.islice(real(recipe), 6))
    monkeypatch.setattr(training, "save", lambda *_, **__: pytest.fail("must not finish"))
    with pytest.raises(RuntimeError, match="ran out of data"):
        train("tiny", tmp_path, recipe=TINY, save_every=5)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="another recipe: finish it as it began, or delete"):
        train("tiny", tmp_path, recipe=replace(TINY, seed=3))
    now = backend.threads()
    monkeypatch.setattr(backend, "threads", lambda: now + 1)
    with pytest.raises(ValueError, match=f"of {now} BLAS threads, not {now + 1}: finish"):
        train("tiny", tmp_path, recipe=TINY)


def test_a_finished_run_is_left_as_it_is(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(training, "batches", lambda _: pytest.fail("must not train"))
    assert train("tiny", tmp_path, recipe=TINY) == tmp_path
    with pytest.raises(ValueError, match="out holds a run of another recipe: delete"):
        train("tiny", tmp_path, recipe=replace(TINY, seed=3))


def test_teachers_come_from_the_folder_of_models_if_trained_there(trained, tmp_path) -> None:
    """What is not in the folder, or not finished there, is the shipped checkpoint."""
    assert training.checkpoint("target", None) == "target"
    assert training.checkpoint("target", tmp_path) == "target"
    (tmp_path / "target").mkdir()
    assert training.checkpoint("target", tmp_path) == "target"
    shutil.copytree(trained, tmp_path / "target", dirs_exist_ok=True)
    recipe = taught(SHORT, "target")
    student = train("draft", tmp_path / "draft", recipe=recipe, models=tmp_path)
    teacher, _ = zoo.load(trained, mx.float32)
    assert report_of(student)["teachers"] == {"target": fingerprint(teacher)}
    assert same(student, train("draft", tmp_path / "b", recipe=taught(SHORT, trained)))
    given = {"recipe": recipe, "models": tmp_path, "save_every": 4}
    interrupted(recipe, 5, "draft", tmp_path / "c", **given)
    with pytest.raises(ValueError, match="of another teacher: finish it as it began"):
        train("draft", tmp_path / "c", recipe=recipe)
    little = VerifierRecipe(documents=8, samples=4, steps=3, batch=4)
    verifier = train_verifier(tmp_path / "v", recipe=little, models=tmp_path, progress=False)
    assert json.loads((verifier / "config.json").read_text())["fingerprint"] == fingerprint(teacher)


def test_it_learns_and_leaves_a_curve(trained: Path) -> None:
    report = report_of(trained)
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
    plain = replace(TINY, prompt_weight=1.0)
    assert (np.array(next(batches(plain))[2]) == 1).all()


def test_a_student_learns_from_its_teacher(trained, tmp_path):
    """It comes nearer to the teacher than it was, and than the same training without one."""
    alone = replace(TINY, stages=(Stage(70, 4, 48), Stage(6, 2, 96)), seed=5)
    by_teacher = train("student", tmp_path, recipe=taught(alone, trained))
    student, _ = zoo.load(by_teacher, mx.float32)
    teacher, _ = zoo.load(trained, mx.float32)
    untaught, _ = zoo.load(train("alone", tmp_path / "alone", recipe=alone), mx.float32)
    fresh = type(student)(TINY.config, seed=5)
    tokens = next(iter(batches(replace(TINY, seed=77))))[0]

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
        train("giant", tmp_path / "out")
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
    biased = replace(TINY.config, attention_bias=True)
    usual = replace(TINY, config=biased, stages=(Stage(1, 1, 24),), learning_rate=1e-9)
    usual = replace(usual, weight_decay=0.0)
    spread = replace(usual, bias_scale=0.5)
    runs = [(tmp_path / str(i), recipe) for i, recipe in enumerate((usual, spread))]
    plain, large = (weights(train("tiny", out, recipe=recipe)) for out, recipe in runs)
    other = {name for name in plain if not mx.allclose(plain[name], large[name], atol=1e-3)}
    assert other == {f"model.layers.0.self_attn.{kind}_proj.bias" for kind in "qk"}
    sizes = [mx.std(large[name]).item() for name in other]
    assert 0.25 < min(sizes) <= max(sizes) < 0.75


BIASED = replace(TINY.config, attention_bias=True)


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
        replace(TINY, **options)


def test_a_first_run_of_another_recipe_is_refused(tmp_path: Path, trained: Path) -> None:
    shutil.copytree(trained, tmp_path / "out" / "first")
    recipe = replace(TINY, after=replace(TINY, seed=4))
    with pytest.raises(ValueError, match="out holds a run of another recipe"):
        train("tiny", tmp_path / "out", recipe=recipe)


def test_a_recipe_goes_on_from_the_stored_weights_of_another(tmp_path: Path, trained: Path) -> None:
    still = replace(TINY, stages=(Stage(1, 1, 24),), learning_rate=1e-9, weight_decay=0.0)
    still = replace(still, seed=8, after=TINY)
    out = train("tiny", tmp_path / "both", recipe=still)
    assert same(out / "first", trained)
    assert same(out, trained)
    report = report_of(out)
    assert report["first"]["loss"] == report_of(trained)["loss"]
    assert report["recipe"]["after"] == report["first"]["recipe"]
    other = replace(still, learning_rate=1e-2, after=TINY)
    assert not same(train("tiny", tmp_path / "other", recipe=other), trained)


@pytest.mark.parametrize("name", RECIPES)
def test_the_shipped_checkpoints_were_made_by_these_recipes(name: str) -> None:
    report, recipe = report_of(zoo.CHECKPOINTS / name), RECIPES[name]
    while recipe is not None:
        assert report["recipe"] == recipe.to_dict()
        recipe, report = recipe.after, report.get("first")
    assert report is None

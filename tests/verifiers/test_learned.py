"""The learned verifier: what a score is, padding, storage, training, and its use as a scorer."""

import json
from pathlib import Path

from lablib.course import tasks
from lablib.course.verifiers import Verifier, load_verifier, log_weight
from lablib.inference.decoding.batches import sample_n
from lablib.inference.voting.scoring import score
from lablib.inference.voting.vote import best_of_n
from lablib.models import LanguageModel, hybrid_config, llama_config, zoo
from lablib.tools.saving import save
from lablib.tools.verifier_training import VerifierRecipe, save_verifier, train_verifier

import mlx.core as mx
import numpy as np
import pytest
from oracles.refusals import refuses

V, D = 64, 32
PROMPT = [1, 5, 9, 6]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel(llama_config(V, D, 2, 2), seed=3)


@pytest.fixture(scope="module")
def verifier(model: LanguageModel) -> Verifier:
    return Verifier(model, mx.random.normal((V, D), key=mx.random.key(1)), bias=-0.75)


def rows(n: int, length: int) -> mx.array:
    return mx.random.randint(0, V, (n, length), key=mx.random.key(n))


def by_hand(verifier: Verifier, row: list[int]) -> float:
    states = np.array(verifier.model.hidden(mx.array([row])))[0]
    weight = np.array(verifier.weight)
    return verifier.bias + sum(weight[row[t]] @ states[t - 1] for t in range(1, len(row)))


def test_the_score_is_the_bias_and_one_term_for_each_token(verifier: Verifier) -> None:
    tokens = rows(5, 11)
    expected = [by_hand(verifier, row) for row in tokens.tolist()]
    scores = verifier(tokens)
    assert scores.shape == (5,)
    assert scores.dtype == mx.float32
    assert np.allclose(np.array(scores), expected, atol=1e-3)
    terms = verifier.token_scores(tokens)
    assert terms.shape == tokens.shape
    assert (np.array(terms[:, 0]) == 0).all()
    assert np.allclose(np.array(terms.sum(-1)) + verifier.bias, expected, atol=1e-3)


def test_padding_and_batch_change_nothing(verifier: Verifier) -> None:
    tokens, lengths = rows(300, 9), mx.array([2 + i % 8 for i in range(300)])
    scores = np.array(verifier(tokens, lengths))
    for i in (0, 1, 7, 255, 256, 299):
        row = tokens[i].tolist()[: lengths[i].item()]
        assert abs(scores[i] - by_hand(verifier, row)) < 1e-3
    inside = mx.arange(9) < lengths[:, None]
    for junk in (0, V - 1, -1, 10**6):  # padding may be anything
        assert np.array_equal(np.array(verifier(mx.where(inside, tokens, junk), lengths)), scores)
    assert (np.array(verifier.token_scores(tokens, lengths))[~np.array(inside)] == 0).all()


def test_it_ranks_and_weighs_samples(verifier: Verifier, model: LanguageModel) -> None:
    samples = sample_n(model, PROMPT, 6, max_tokens=8, stop_tokens=[2], seed=4)
    expected = [by_hand(verifier, PROMPT + row) for row in samples.tokens]
    assert np.allclose(score(verifier, PROMPT, samples), expected, atol=1e-3)
    weights = np.exp(score(log_weight(verifier), PROMPT, samples))
    assert np.allclose(weights, 1 / (1 + np.exp(-np.array(expected))), atol=1e-3)
    options = {"max_tokens": 8, "temperature": 1.0, "stop_tokens": [2], "seed": 4}
    best = best_of_n(model, PROMPT, 6, score_fn=verifier, **options)
    assert best.tolist()[0] == PROMPT + samples.tokens[int(np.argmax(expected))]


@pytest.mark.parametrize("config", [llama_config(V, D, 2, 2), hybrid_config(V, D, 2, 2)])
def test_hidden_states_are_what_the_output_layer_reads(config) -> None:
    model = LanguageModel(config, seed=1)
    tokens = rows(2, 7)
    assert mx.array_equal(model.output(model.hidden(tokens)), model(tokens))
    caches = model.make_cache(), model.make_cache()
    for part in (tokens[:, :4], tokens[:, 4:]):
        states = model.hidden(part, caches[0])
        assert states.shape == (*part.shape, D)
        assert mx.array_equal(model.output(states), model(part, caches[1]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: v(mx.array([1, 2])), "sequences must have shape"),
        (lambda v: v(mx.zeros((0, 4), mx.int32)), "sequences must have shape"),
        (lambda v: v(mx.array([[1.0, 2.0]])), "sequences must be token ids"),
        (lambda v: v(mx.array([[1, V]])), f"sequences must hold ids between 0 and {V - 1}"),
        (lambda v: v(mx.array([[-1, 2]])), "sequences must hold ids"),
        (lambda v: v(mx.array([[1, 2]]), mx.array([2, 2])), "lengths must have shape"),
        (lambda v: Verifier(v.model, mx.zeros((D, V)), 0.0), "weight must have shape"),
        (lambda v: Verifier(None, v.weight, 0.0), "model must be a LanguageModel"),
    ],
)
def test_bad_input_is_refused_in_one_line(verifier: Verifier, call, message: str) -> None:
    refuses((ValueError, TypeError), message, call, verifier)


TASK = llama_config(512, D, 2, 1)  # the tasks' vocabulary
TINY = {"documents": 90, "samples": 10, "steps": 200, "batch": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of checkpoints: a target, and a verifier trained on it."""
    folder = tmp_path_factory.mktemp("checkpoints")
    save(LanguageModel(TASK, seed=1), tasks.load_tokenizer(), folder / "target")
    recipe = VerifierRecipe(target=str(folder / "target"), **TINY)
    train_verifier(folder / "verifier", recipe=recipe, progress=False)
    return folder


def test_training_lowers_the_loss_and_repeats_itself(folder: Path, tmp_path: Path) -> None:
    report = json.loads((folder / "verifier" / "training.json").read_text())
    assert report["loss"][-1][1] < 0.65  # log 2 = 0.69 is what knowing nothing costs
    assert 0.2 < report["right"] < 0.8
    recipe = VerifierRecipe(target=str(folder / "target"), **TINY)
    again = train_verifier(tmp_path / "again", recipe=recipe, progress=False)
    other = VerifierRecipe(target=str(folder / "target"), **TINY, seed=1)
    other = train_verifier(tmp_path / "other", recipe=other, progress=False)
    folders = (folder / "verifier", again, other)
    stored = [(path / "model.safetensors").read_bytes() for path in folders]
    assert stored[0] == stored[1] != stored[2]


def test_it_is_stored_in_half_precision_and_is_no_language_model(folder, monkeypatch):
    weights = mx.load(str(folder / "verifier" / "model.safetensors"))
    assert {w.dtype for w in weights.values()} == {mx.float16}
    assert weights["weight"].shape == (512, D)
    assert (np.array(weights["weight"])[0] == 0).all()  # padding taught it nothing
    monkeypatch.setattr(zoo, "CHECKPOINTS", folder)
    assert zoo.names() == ["target"]
    shipped = load_verifier()
    tokens = mx.array([[1, 40, 41, 42]])
    assert mx.array_equal(shipped(tokens), load_verifier(folder / "verifier")(tokens))


def test_storing_it_keeps_its_scores(folder: Path, tmp_path: Path) -> None:
    model, _ = zoo.load(folder / "target", dtype=mx.float32)
    made = Verifier(model, mx.random.normal((512, D), key=mx.random.key(5)), bias=0.5)
    found = load_verifier(save_verifier(made, tmp_path / "v", "target"), model=model)
    tokens = mx.array([[1, 40, 41, 42], [1, 300, 20, 511]])
    assert mx.allclose(found(tokens), made(tokens), atol=0.02)
    assert found.model is model


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_it_knows_its_model_in_every_type(folder: Path, dtype: mx.Dtype) -> None:
    model, _ = zoo.load(folder / "target", dtype=dtype)
    found = load_verifier(folder / "verifier", model=model)
    exact, tokens = load_verifier(folder / "verifier"), mx.array([[1, 40, 41, 42]])
    assert abs((found(tokens) - exact(tokens)).item()) < 0.1


def test_it_refuses_another_model_and_broken_files(folder: Path, tmp_path: Path) -> None:
    other = LanguageModel(TASK, seed=2)
    refuses(ValueError, "was trained on", load_verifier, folder / "verifier", model=other)
    refuses(ValueError, "is missing", load_verifier, tmp_path / "nothing")
    refuses(ValueError, "does not hold a verifier, but a 'llama'", load_verifier, folder / "target")
    refuses(TypeError, "name must be", load_verifier, 7)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text((folder / "verifier" / "config.json").read_text())
    (broken / "model.safetensors").write_bytes(b"no weights")
    model, _ = zoo.load(folder / "target")
    refuses(ValueError, "is corrupt or truncated", load_verifier, broken, model=model)

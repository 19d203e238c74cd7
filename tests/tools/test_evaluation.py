"""The pieces of the evaluation against oracles, and a whole evaluation of tiny models."""

import json
import shutil
from pathlib import Path

from lablib import __main__
from lablib import tools as workshop
from lablib.course import tasks
from lablib.course.verifiers import Verifier, load_verifier
from lablib.inference.completions import sample_n
from lablib.inference.decoding.batches import sample_many
from lablib.inference.decoding.rows import Samples
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.speculation import NGram
from lablib.inference.speculation.costs import Costs, speedup
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.machine.doctor import doctor
from lablib.models import LanguageModel, hybrid_config, llama_config, zoo
from lablib.tools import cards, parts, report, results, speculation, votes
from lablib.tools import evaluation as run
from lablib.tools.completions import QUICK, Drawn, Plan, distinct_ngrams, examples, quality
from lablib.tools.requirements import checks
from lablib.tools.results import at
from lablib.tools.saving import save
from lablib.tools.sweep import read, rounds
from lablib.tools.verifier_training import save_verifier

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from oracles.refusals import refuses
from oracles.speculation import near

V = 512
END = 2
# Not tied: a random model with a tied output layer repeats its last token for ever.
CONFIGS = {
    "llama": llama_config(V, 32, 2, 1, tie_word_embeddings=False),
    "hybrid": hybrid_config(V, 32, 2, 2),
}
TINY = Plan(
    problems=4, samples=8, few_samples=4, repeats=2, temperatures=(0.0, 0.5, 1.0, 2.0),
    overlap_temperatures=(1.0,), long_rows=2, long_tokens=60, timings=3, orders=4, seed=5,
)  # fmt: skip


@pytest.fixture(scope="module")
def target() -> LanguageModel:
    return LanguageModel(CONFIGS["llama"], seed=1)


@pytest.fixture(scope="module")
def draft(target: LanguageModel) -> LanguageModel:
    return near(target, 0.1)


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_many_prompts_at_once_get_what_sample_n_draws(kind: str, temperature: float) -> None:
    model = LanguageModel(CONFIGS[kind], seed=2)
    prompts = [[1, 9, 30], [1, 7], [1, 40, 41], [1, 8, 9, 10], [1, 3]]
    options = {"max_tokens": 9, "stop_tokens": [*range(2, 90)]}
    seeded = [SamplerOptions(temperature, seed=seed) for seed in range(5)]
    for max_batch in (2, 7, 100):
        found = sample_many(model, prompts, seeded, 3, max_batch=max_batch, **options)
        for seed, (prompt, samples) in enumerate(zip(prompts, found, strict=True)):
            alone = sample_n(model, prompt, 3, seed=seed, temperature=temperature, **options)
            assert samples.tokens == alone.tokens
            assert samples.finished == alone.finished
            for mine, its in zip(samples.logprobs, alone.logprobs, strict=True):
                assert np.allclose(mine, its, atol=1e-4)
    assert any(samples.finished) or temperature == 0


def drawn_of(task: str, completions: list[list[int]], temperature: float = 0.0) -> Drawn:
    tokenizer = tasks.load_tokenizer()
    problems = tasks.TASKS[task].problems(3, len(completions))
    prompts = [tokenizer.encode(problem.prompt).ids for problem in problems]
    samples = [Samples([row], [[-1.0] * len(row)], [row[-1] == END]) for row in completions]
    return Drawn(task, problems, prompts, {temperature: samples})


def answers_of(task: str, n: int) -> list[list[int]]:
    """The right answers as token ids, ``</s>`` included."""
    encode = tasks.load_tokenizer().encode
    problems = tasks.TASKS[task].problems(3, n)
    return [[*encode(problem.answer).ids[1:], END] for problem in problems]


def test_right_answers_are_right_and_must_end() -> None:
    for task in tasks.TASKS:
        answers = answers_of(task, 6)
        assert quality(drawn_of(task, answers), 1)[0]["accuracy"] == 1.0
        endless = [row[:-1] for row in answers]
        assert quality(drawn_of(task, endless), 1)[0]["accuracy"] == 0.0
        swapped = [*answers[1:], answers[0]]
        assert quality(drawn_of(task, swapped), 1)[0]["accuracy"] < 0.6


def test_diversity_counts_distinct_completions_and_ngrams() -> None:
    assert distinct_ngrams([[1, 2, 3, 4], [1, 2, 3, 5]]) == 3 / 4
    assert distinct_ngrams([[1, 1, 1, 1, 1]]) == 1 / 3
    assert distinct_ngrams([[1, 2]]) == 0.0
    drawn = drawn_of("sums", answers_of("sums", 2))
    row = drawn.samples[0.0][0].tokens[0]
    four = Samples([row, row, row[:-2], row], [[0.0]] * 4, [True] * 4)
    drawn.samples[1.0] = [four, four]
    greedy, sampled = quality(drawn, repeats=4)
    assert greedy["distinct"] == 1 / 4
    assert sampled["distinct"] == 2 / 4
    assert quality(drawn, repeats=2)[1]["distinct"] == 1 / 2


def test_overlap_agrees_with_numpy(target: LanguageModel, draft: LanguageModel) -> None:
    completions = [row[:length] for row, length in zip(answers_of("stories", 3), (9, 4, 12))]  # noqa: B905
    drawn = drawn_of("stories", completions, temperature=0.5)
    by_task, by_class = speculation.overlaps(target, draft, [drawn], [0.5])
    least, dot = [], []
    for prompt, completion in zip(drawn.prompts, completions, strict=True):
        row = mx.array([[*prompt, *completion]])
        p, q = (np.array(mx.softmax(m(row)[0] * 2, axis=-1), np.float64) for m in (target, draft))
        for place in range(len(prompt) - 1, len(prompt) + len(completion) - 1):
            least.append(np.minimum(p[place], q[place]).sum())
            dot.append(p[place] @ q[place])
    for name in ("stories", "all"):
        row = at(by_task, task=name, temperature=0.5)
        assert row["tokens"] == len(least) == 25
        assert row["rejection"] == pytest.approx(np.mean(least), abs=1e-5)
        assert row["match"] == pytest.approx(np.mean(dot), abs=1e-5)
    assert sum(row["tokens"] for row in by_class) == 25
    total = sum(row["tokens"] * row["rejection"] for row in by_class)
    assert total == pytest.approx(sum(least), abs=1e-3)
    assert len({row["class"] for row in by_class}) >= 3


def test_each_token_has_the_class_of_its_characters() -> None:
    for name, task in tasks.TASKS.items():
        for problem, row in zip(task.problems(3, 20), answers_of(name, 20), strict=True):
            classes = speculation.token_classes(problem, row)
            assert len(classes) == len(row)
            assert classes[-1] == speculation.END
            assert set(classes[:-1]) <= set(task.CLASSES) - {"other"}
            if name == "sums":
                step = ["running-total", "boilerplate", "operand", "boilerplate", "result"]
                step.append("boilerplate")
                assert classes[:6] == ["operand", *step[1:]]
                assert classes[6:-3] == step * 4
            if name == "edits":
                assert sorted(classes[:-1]) == ["copy"] * 15 + ["replacement"]


@pytest.mark.parametrize("kind", ["draft", "n-gram"])
def test_greedy_replay_counts_what_the_engine_counts(target, draft, kind):
    """Accepted, reached and rounds of the real engine on the same texts."""
    stops = list(range(2, 30))
    tokenizer = tasks.load_tokenizer()
    problems = tasks.sums.problems(3, 6)
    prompts = [tokenizer.encode(problem.prompt).ids for problem in problems]
    greedy = [SamplerOptions(temperature=0.0)] * 6
    samples = sample_many(target, prompts, greedy, max_tokens=60, stop_tokens=stops)
    assert all(s.finished[0] for s in samples)
    accepted = reached = rounds = length = 0
    for prompt, s in zip(prompts, samples, strict=True):
        iterator = SpeculativeTokenIterator(
            target, draft if kind == "draft" else NGram(), prompt,
            max_tokens=80, stop_tokens=stops, temperature=0.0,
        )  # fmt: skip
        assert [token.id for token in iterator] == s.tokens[0]
        accepted += iterator.stats["total_accepted"]
        reached += iterator.stats["total_reached"]
        rounds += iterator.stats["rounds"]
        length += len(s.tokens[0])
    drawn = Drawn("sums", problems, prompts, {0.0: samples})
    assert 0 < accepted < reached
    if kind == "n-gram":
        assert speculation.ngram_tokens_per_call(drawn) == length / rounds
        return
    found = speculation.greedy(drawn, draft, [4])
    assert found["alpha"] == accepted / reached
    assert found["tokens_per_round"]["4"] == length / rounds


def target_rows(target: LanguageModel, temperature: float):
    """Problems, prompts and completions of four edits."""
    tokenizer = tasks.load_tokenizer()
    problems = tasks.edits.problems(TINY.seed, 4)
    prompts = [tokenizer.encode(problem.prompt).ids for problem in problems]
    seeded = [SamplerOptions(temperature, seed=seed) for seed in range(4)]
    drawn = sample_many(target, prompts, seeded, max_tokens=24, stop_tokens=[END])
    return problems, prompts, drawn


def test_a_draft_that_is_the_target_is_always_right(target: LanguageModel) -> None:
    rows = [target_rows(target, t) for t in (0.0, 1.0)]
    drawn = Drawn("edits", *rows[0][:2], {0.0: rows[0][2], 1.0: rows[1][2]})
    found = speculation.greedy(drawn, target, [1, 4])
    assert found["alpha"] == found["agreement"] == 1.0
    assert found["tokens_per_round"]["1"] == pytest.approx(2.0, abs=0.1)
    by_task, _ = speculation.overlaps(target, target, [drawn], [1.0])
    assert at(by_task, task="all")["rejection"] == pytest.approx(1.0, abs=1e-4)


def test_speedups() -> None:
    known = Costs((2.0, 2.5, 3.0), 0.5)
    found = speculation.speedups({"1": 1.8, "2": 2.4}, known)
    assert found == {"1": pytest.approx(1.8 * 2 / 3.0), "2": pytest.approx(2.4 * 2 / 4.0)}
    assert speculation.speedups({"2": 1 + 0.5 + 0.25}, known)["2"] == speedup(0.5, 2, known)


def test_stopping_early_is_compared_at_the_same_n() -> None:
    rows = {"n": 8, "accuracy": 0.75, "used": 8.0}
    found = {
        "majority": [rows | {"n": 4, "accuracy": 0.1}, rows],
        "certain": [rows | {"n": 4}, rows | {"used": 6.0}],
        "confident": [rows | {"n": 4}, rows | {"used": 2.0, "accuracy": 0.5}],
    }
    assert votes.adaptive(found, 8) == {
        "certain": {"accuracy": 0.75, "used": 6.0, "share_used": 0.75, "lost": 0.0},
        "confident": {"accuracy": 0.5, "used": 2.0, "share_used": 0.25, "lost": 0.25},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, target, draft) -> Path:
    """Checkpoints of tiny models, evaluated in place."""
    folder = tmp_path_factory.mktemp("checkpoints")
    models = {"target": target, "draft": draft, "hybrid": LanguageModel(CONFIGS["hybrid"], seed=4)}
    for name, model in models.items():
        save(model, tasks.load_tokenizer(), folder / name)
    weight = mx.random.normal((V, 32), key=mx.random.key(0))
    model, _ = zoo.load(folder / "target")
    save_verifier(Verifier(model, weight, 0.0), folder / "verifier", "target")
    workshop.evaluate(folder, models=folder, plan=TINY, say=lambda _: None)
    return folder


def test_an_evaluation_is_stored_whole(folder: Path) -> None:
    found = workshop.stored(folder)
    parts = {"about", "context", "quality", "examples", "sums", "speculation", "past_the_end"}
    assert found.keys() == parts | {"checks"}
    assert found["about"]["plan"]["seed"] == 5
    assert found["about"]["machine"].startswith(doctor().facts["machine"])
    assert set(found["quality"]) == {"target", "draft", "hybrid"}
    for task in tasks.TASKS:
        rows = found["quality"]["target"][task]
        assert [row["temperature"] for row in rows] == list(TINY.temperatures)
        assert all(0 <= row["low"] <= row["accuracy"] <= row["high"] <= 1 for row in rows)
    assert found["sums"]["counts"] == [1, 2, 4, 8]
    assert all(len(rows) == 4 for rows in found["sums"]["curves"].values())
    assert len(found["speculation"]["target_seconds"]) == 9
    text = (folder / results.REPORT).read_text()
    assert text == report.report(found)
    assert text.count("FAILS") == sum(not row["passed"] for row in found["checks"])
    row = found["past_the_end"][0]
    assert f"{row['begun']:.3f} | " in text
    for part in found["sums"]["by_temperature"]["majority"]:
        assert " | ".join(f"{accuracy:7.3f}" for accuracy in part) in text


def test_the_stored_samples_are_those_that_sample_n_draws(folder: Path) -> None:
    """What a lesson does: recompute a slice."""
    model, _ = zoo.load(folder / "target")
    verifier = load_verifier(folder / "verifier", model=model)
    tokenizer = tasks.load_tokenizer()
    records = workshop.stored_sums(folder)
    for number, problem in enumerate(tasks.sums.problems(TINY.seed, 2)):
        record = records[number]
        assert record["digits"] == "".join(map(str, problem.data))
        prompt = tokenizer.encode(problem.prompt).ids
        samples = sample_n(
            model, prompt, TINY.samples, max_tokens=40, stop_tokens=[END],
            temperature=1.0, seed=TINY.seed * 1000 + number,
        )  # fmt: skip
        sums = [sum(row) for row in samples.logprobs]
        assert np.allclose(record["logprobs"], sums, atol=0.01)
        scores = [verifier(mx.array([prompt + row])).item() for row in samples.tokens]
        assert np.allclose(record["scores"], scores, atol=0.02)


def evaluated(out: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    """Evaluate in two goes: the first is killed when half of the batches are drawn."""
    draw, drawn = parts.Completions.__call__, []

    def killed(self: parts.Completions, group: list) -> list:
        drawn.append(str(group))
        return stop() if len(drawn) == 40 else draw(self, group)

    monkeypatch.setattr(parts.Completions, "__call__", killed)
    monkeypatch.setattr(rounds, "round_seconds", lambda *_: 0.05)
    with pytest.raises(KeyboardInterrupt):
        workshop.evaluate(out, models=models, plan=TINY, say=lambda _: None)
    begun = len(read(out / run.COMPLETIONS)[1])
    found = workshop.evaluate(out, models=models, plan=TINY, say=lambda _: None)
    assert 0 < begun < 40
    assert len(drawn) == 40 + len({*drawn}) - begun
    assert not (out / run.COMPLETIONS).exists()
    return found


@pytest.mark.slow
@pytest.mark.thorough
def test_the_same_seed_measures_the_same(folder, tmp_path, monkeypatch):
    again = evaluated(tmp_path, folder, monkeypatch)
    assert again == workshop.stored(tmp_path)
    before = workshop.stored(folder)
    for part in ("quality", "examples", "past_the_end"):
        assert again[part] == before[part]
    assert again["sums"]["curves"] == before["sums"]["curves"]
    assert again["speculation"]["overlap"] == before["speculation"]["overlap"]
    assert (tmp_path / results.SUMS).read_text() == (folder / results.SUMS).read_text()
    assert not (tmp_path / "target").exists()  # cards are written beside checkpoints only


def test_each_checkpoint_gets_a_card(folder: Path) -> None:
    found = workshop.stored(folder)
    for name in ("target", "draft", "hybrid", "verifier"):
        card = (folder / name / "README.md").read_text()
        assert card == cards.card(folder / name, found)
        assert card.startswith(f"# {name}\n")
        for heading in ("## How it was trained", "## What it cannot do"):
            assert heading in card
        assert "](../evaluation.md)" in card
        assert f"`python -m lablib train {name}` reproduces it on the same machine." in card
        assert " None" not in card
    model, _ = zoo.load(folder / "target")
    size = sum(weight.size for _, weight in tree_flatten(model.parameters()))
    card = (folder / "target" / "README.md").read_text()
    assert f"{size:,} parameters (float16); 1 attention layer, width 32, 2 heads of 16," in card
    row = at(found["quality"]["target"]["sums"], temperature=1.0)
    assert f"{row['accuracy']:.3f} of its samples at temperature 1 are right" in card


def test_pages_are_written_anew_from_what_is_stored(folder: Path, capsys) -> None:
    """By the command line; nothing is measured, so what is stored stays."""
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    pages = [folder / results.REPORT, folder / "target" / "README.md"]
    for page in pages:
        page.write_text("old")
    assert __main__.main(["evaluate", "--render", "--out", str(folder)]) == 0
    assert pages[0].read_bytes() == files[pages[0]]
    assert pages[1].read_text() == "old"  # not beside the shipped checkpoints: no card is written
    both = ["--out", str(folder), "--models", str(folder)]
    assert __main__.main(["evaluate", "--render", *both]) == 0
    assert all(path.read_bytes() == content for path, content in files.items())
    assert __main__.main(["evaluate", "--render", "--out", str(folder / "target")]) == 2
    assert "evaluation.json is missing" in capsys.readouterr().err


def test_a_card_says_how_a_checkpoint_was_trained(folder: Path, tmp_path: Path) -> None:
    """From what a run records; of what an older one did not record it says nothing."""
    shutil.copytree(folder / "target", tmp_path / "target")
    stage = {"steps": 40, "batch": 2, "length": 64, "mix": {"sums": 3, "edits": 1}, "teacher": None}
    recipe = {"stages": [stage], "learning_rate": 1e-3, "seed": 7, "prompt_weight": 0.5}
    first = {"recipe": recipe, "loss": [[40, 2.5]], "tokens": 2_000_000, "seconds": 120}
    taught = recipe | {"stages": [stage | {"teacher": "wise"}], "bias_scale": 0.25}
    whole = first | {"recipe": taught, "first": first, "mlx": "9.9", "blas_threads": 2}

    def card(report: dict) -> str:
        (tmp_path / "target" / "training.json").write_text(json.dumps(report))
        return cards.card(tmp_path / "target", workshop.stored(folder))

    text = card(whole | {"teachers": {"wise": "abc"}})
    for part in (
        "- 40 steps of 2 × 64 tokens (75% sums, 25% edits). Peak learning rate 0.001, seed 7, a "
        "prompt's tokens weigh 0.5. Final loss 2.5 after 2.0 M tokens, 2 minutes.",
        "(75% sums, 25% edits), against the distributions of `wise`. Peak",
        "Each run starts from the weights of the one before.",
        "biases of queries and keys of size 0.25 at first",
        "on the same machine with 2 BLAS threads, MLX 9.9, the same `wise` (fingerprint `abc`).",
    ):
        assert part in text
    text = card(first)
    assert "reproduces it on the same machine." in text
    for part in ("Each run", "distributions", "biases"):
        assert part not in text


def test_checks_follow_the_numbers(folder: Path) -> None:
    found = workshop.stored(folder)
    rows = {row["what"]: row for row in checks(found)}
    assert [row["passed"] for row in rows.values()] == [r["passed"] for r in found["checks"]]
    alpha = rows["draft: greedy α on edits"]
    found["speculation"]["greedy"]["edits"]["alpha"] = 0.8
    (new,) = (row for row in checks(found) if row["what"] == alpha["what"])
    assert (new["measured"], new["passed"]) == (0.8, True)
    found["speculation"]["greedy"]["edits"]["alpha"] = 0.79
    (new,) = (row for row in checks(found) if row["what"] == alpha["what"])
    assert not new["passed"]
    single = rows["sums: single sample, at most"]
    assert single["relation"] == "≤"
    assert single["passed"] == (single["measured"] <= 0.65)


def test_a_table_shows_temperatures_short_and_numbers_to_three_digits() -> None:
    lines = report._table(["temperature", "x", 4], [[0.5, 0.5, "a"], [2.0, 12.25, "b"]]).split("\n")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "-" not in line]
    assert rows == [["temperature", "x", "4"], ["0.5", "0.500", "a"], ["2", "12.250", "b"]]


def test_results_are_json_with_five_digits() -> None:
    content = {"a": [1.23456789, {"b": (1, 2.0)}], "c": "é" * 120, "d": {"x": None, "y": True}}
    text = results.text(content)
    assert json.loads(text) == results.rounded(content)
    assert json.loads(text)["a"] == [1.2346, {"b": [1, 2.0]}]
    assert json.loads(text)["d"] == {"x": None, "y": True}
    assert len(text.splitlines()) > 3


def test_what_is_missing_is_said_in_one_line(tmp_path: Path, capsys) -> None:
    refuses(ValueError, "run `python -m lablib evaluate`", workshop.stored, tmp_path)
    with pytest.raises(ValueError, match=r"target/config\.json"):
        workshop.evaluate(tmp_path / "out", models=tmp_path)
    assert not (tmp_path / "out").exists()
    refuses(ValueError, "plan or quick", workshop.evaluate, tmp_path, plan=QUICK, quick=True)
    assert __main__.main(["evaluate", "--quick", "--models", str(tmp_path)]) == 2
    assert "train it" in capsys.readouterr().err


ENDS = [(True, [], 0), (False, [], 1), (False, ["--quick"], 0)]


@pytest.mark.parametrize(("passed", "options", "status"), ENDS)
def test_the_status_says_if_all_is_met_but_of_a_quick_run(monkeypatch, passed, options, status):
    rows = [{"passed": True}, {"passed": passed}]
    monkeypatch.setattr(run, "evaluate", lambda *_, **__: {"checks": rows})
    assert __main__.main(["evaluate", *options]) == status


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_leaves_the_old_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = files()
    measured = {k: v for k, v in workshop.stored(folder).items() if k not in ("about", "checks")}
    monkeypatch.setattr(run, "_measure", lambda *_: (measured, []))
    monkeypatch.setattr(run.report, "report", stop)
    with pytest.raises(KeyboardInterrupt):
        workshop.evaluate(folder, models=folder, plan=TINY, say=lambda _: None)
    kept = folder / run.COMPLETIONS  # the next run goes on from it
    assert read(kept)[0]["settings"]["plan"]["seed"] == TINY.seed
    kept.unlink()
    assert before == files()
    write, written = Path.write_text, []

    def write_two(path: Path, *arguments: object, **options: object) -> int:
        written.append(path)
        return stop() if len(written) == 3 else write(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", write_two)
    texts = {folder / name: "new" for name in ("evaluation.json", "evaluation.md", "other.txt")}
    with pytest.raises(KeyboardInterrupt):
        results.replace(texts)
    assert len(written) == 3
    assert before == files()


def test_examples_are_the_first_completions() -> None:
    drawn = drawn_of("stories", answers_of("stories", 4), temperature=0.5)
    drawn.samples[1.0] = drawn.samples[0.5]
    drawn.samples[2.0] = [Samples([[40, 41]], [[-1.0] * 2], [False])] * 4
    cold, warm, hot = examples(drawn)
    wanted = [problem.prompt + problem.answer for problem in drawn.problems[:3]]
    assert cold == {"task": "stories", "temperature": 0.5, "texts": wanted}
    assert (warm["temperature"], warm["texts"]) == (1.0, wanted)
    assert [text.endswith(" …") for text in hot["texts"]] == [True] * 3


def test_a_plan_must_hold_the_temperatures_that_are_looked_at() -> None:
    refuses(ValueError, "temperatures must hold", Plan, temperatures=(0.0, 1.0, 2.0))
    refuses(ValueError, "and overlap_temperatures", Plan, overlap_temperatures=(0.5,))
    assert Plan().long_rows >= 200
    assert Plan().problems >= 200

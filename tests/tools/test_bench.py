"""The bench: turns, processes that end, ratios, answers that must agree, and the command."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lablib
from lablib import __main__
from lablib.models.base import LanguageModel
from lablib.tools.bench import plan as plans
from lablib.tools.bench import report, run, side_lablib
from lablib.tools.bench.plan import HEAD, LABLIB, MLX_LM, OLD, QUICK, Case, Plan
from lablib.tools.bench.turns import Side, SideError, take_turns

import numpy as np
import pytest
from mlx.utils import tree_flatten
from oracles.refusals import refuses

ROOT = Path(__file__).parents[2]
SERVE = "import sys; sys.path.insert(0, 'lablib/tools/bench'); import turns; turns.serve({})"
CASES = """lambda told: {
    "echo": lambda turn: print("noise") or {"told": told, "turn": turn},
    "own": lambda turn: {"seconds": 7.0},
    "bad": lambda turn: 1 / 0,
    "dead": lambda turn: __import__("os")._exit(3),
    "slow": lambda turn: __import__("time").sleep(600),
}"""


def side(cases: str = CASES, told: object = None) -> Side:
    return Side([sys.executable, "-c", SERVE.format(cases)], told)


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_a_side_answers_and_keeps_what_it_was_told() -> None:
    with side(told={"x": [1]}) as one:
        assert one.names == ["echo", "own", "bad", "dead", "slow"]
        answer = one.run("echo", 4)
        assert (answer["told"], answer["turn"]) == ({"x": [1]}, 4)
        assert 0 <= answer["seconds"] < 1
        assert one.run("own") == {"seconds": 7.0}
        refuses(SideError, "ZeroDivisionError: division by zero", one.run, "bad")
        assert one.run("own") == {"seconds": 7.0}  # it goes on
        refuses(SideError, "no case 'other'", one.run, "other")
        refuses(SideError, "ended with status 3", one.run, "dead")


def test_a_side_that_cannot_start_says_why() -> None:
    with side("lambda told: told['x']", {}) as one, pytest.raises(SideError, match="KeyError: 'x'"):
        _ = one.names
    with (
        Side([sys.executable, "-c", "import no_such_thing"]) as one,
        pytest.raises(SideError, match="No module named 'no_such_thing'"),
    ):
        _ = one.names


def test_leaving_ends_the_process_whatever_it_does() -> None:
    start = time.perf_counter()
    with side() as one:
        assert one.names
        one._send(["slow", 0])
    assert time.perf_counter() - start < 60
    assert one._process.returncode is not None


def test_everyone_is_first_in_turn() -> None:
    seen = []
    runs = {name: lambda turn, name=name: seen.append((turn, name)) or {} for name in "abc"}
    assert len(take_turns(runs, 3)) == 3
    assert [name for _, name in seen] == [*"abc", *"bca", *"cab", *"abc"]
    assert [turn for turn, _ in seen] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


# --- the numbers ------------------------------------------------------------------------------
def turn(ours: float, theirs: float, tokens: tuple = ([5, 6, 7], [5, 6, 7])) -> dict:
    """Answers of 10 tokens in so many seconds each, beside a memory of 100 bytes a second."""
    return {
        LABLIB: {"seconds": ours, "units": 10, "tokens": [tokens[0]], "bytes": 4.0},
        MLX_LM: {"seconds": theirs, "units": 10, "tokens": [tokens[1]]},
        "memory": {"seconds": 2.0, "bytes": 200},
    }


CASE = Case("decode", "a model", {LABLIB: (LABLIB, "x"), MLX_LM: (MLX_LM, "x")})
EXACT = {"tokens": [[5, 6, 7]], "gaps": [[1.0, 1.0, 1e-4]], "tie": 1e-3}


def test_ratios_are_medians_of_pairs() -> None:
    found = report.summary(CASE, [turn(1, 2), turn(2, 3), turn(1, 4)], EXACT)
    ours, theirs = found["sides"]
    assert ours["times"] == 2.0  # of 2, 1.5 and 4; the ratio of the medians is 3
    assert ours["interval"] == (1.5, 4.0)
    assert (ours["per_second"], theirs["per_second"]) == (10.0, pytest.approx(10 / 3))
    assert (theirs["times"], theirs["interval"]) == (1.0, (1.0, 1.0))
    assert (ours["limit"], ours["reached"]) == (25.0, pytest.approx(0.4))
    assert "limit" not in theirs
    assert "decode: a model" in report.table([found])
    assert "lablib ×2.00" in report.line(found)


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covers = 0
    for _ in range(100):
        low, high = report.interval(rng.normal(1.5, 0.1, 15).tolist())
        covers += low <= 1.5 <= high
    assert covers >= 85  # 95 expected; below 85 with a chance of 1e-5 even at 93 %


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ([5, 6, 7], None),
        ([5, 6, 8], None),  # the best two were a tie
        ([5, 6], None),
        ([5, 4, 7], "text 0, token 1: [4], not [6]"),
        ([5], "text 0, token 1: [], not [6]"),
        ([5, 6, 7, 8], "text 0, token 3: [8], not []"),
    ],
)
def test_no_ratio_beside_a_wrong_answer(told: list[int], wrong: str | None) -> None:
    turns = [turn(1, 2), turn(1, 2, ([5, 6, 7], told))]
    found = report.summary(CASE, turns, EXACT)
    ours, theirs = found["sides"]
    assert theirs["wrong"] == wrong
    assert ("times" in ours) == ("times" in theirs) == (wrong is None)
    assert ("WRONG" in report.table([found])) == (wrong is not None)
    assert (wrong is not None) == ("×nan" in report.line(found))


def test_random_models_have_the_size_they_are_named_for(tmp_path: Path) -> None:
    for name, size in (("20M", 20e6), ("100M", 100e6)):
        model = plans.random_model(name)
        assert isinstance(model, LanguageModel)
        found = sum(array.size for _, array in tree_flatten(model.parameters()))
        assert found == pytest.approx(size, rel=0.1)
    told = plans.settings(QUICK, tmp_path, ["target"])
    assert json.loads(json.dumps(told)) is not None
    assert not list(tmp_path.iterdir())  # no random model was wanted


def test_a_random_model_writes_what_mlx_lms_does(tmp_path: Path) -> None:
    """Its tokenizer has 512 of its 8,192 ids; ``load`` writes none without text, mlx-lm all."""
    side = side_lablib._Lablib(plans.settings(QUICK, tmp_path, ["20M"]))
    prompt = plans.prompt_of(8)
    texts = []
    for model, _ in (side.load("20M"), side.foreign("20M")):
        tokens = lablib.TokenIterator(model, prompt, max_tokens=3, temperature=0.0, stop_tokens=())
        texts.append([token.id for token in tokens])
    assert texts[0] == texts[1]
    assert max(texts[0]) >= 512


# --- the command ------------------------------------------------------------------------------
@pytest.mark.thorough
def test_a_quick_bench_of_everything_against_mlx_lm(tmp_path, capsys):
    """Both sides' greedy texts must agree, or the status is 1."""
    numbers, picture = tmp_path / "bench.json", tmp_path / "bench.svg"
    arguments = ["bench", "--quick", "--turns", "1", "--only", "decode|sums|votes"]
    files = ["--json", str(numbers), "--out", str(picture)]
    assert __main__.main([*arguments, *files]) == 0
    found = json.loads(numbers.read_text())
    assert found["memory"] > 1e8
    assert {case["what"] for case in found["cases"]} == {"decode", "speculation", "votes"}
    for case in found["cases"]:
        sides = {each["side"]: each for each in case["sides"]}
        assert sides[LABLIB]["times"] > 0
        assert all(each["wrong"] is None for each in case["sides"])
        assert (HEAD in sides) == (case["what"] == "speculation")
    printed = capsys.readouterr()
    assert "| decode: target" in printed.out
    assert "forecast ×" in printed.out
    assert "times the tokens/s of mlx-lm" in picture.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fly"], "what must be one of 'decode'"),
        (["decode", "--turns", "0"], "turns must be at least 1"),
        (["--only", "("], "only must be a regular expression"),
        (["--only", "nothing"], "only must be found in one of the cases"),
        (["async"], "genlm must be a Python with genlm-backend, which async needs; got None"),
        (["best_of_n"], "lmxlab must be a Python with lmxlab"),
        (["stored"], "llama_cpp must be a Python with llama_cpp"),
        (["--old", "/nowhere"], "old must be the root of a checkout with a bench"),
        (["--out", "x.pdf"], "out must end in .svg or .png"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(arguments, words, monkeypatch, capsys):
    monkeypatch.setattr(run, "Side", lambda *_: pytest.fail("it went to work"))
    assert __main__.main(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.thorough
def test_an_environment_without_the_peer_is_named() -> None:
    peers = {sys.executable: "No module named|genlm", "/no/such/python": "No such"}
    for python, words in peers.items():
        with pytest.raises(ValueError, match=f"genlm must be a Python with genlm-backend.*{words}"):
            run.bench(["async"], plan=QUICK, genlm=python)


@pytest.mark.slow
@pytest.mark.thorough
def test_an_old_checkout_takes_its_turns_in_place_of_the_peers(capsys):
    found = run.bench(["decode", "products"], plan=QUICK, turns=1, only="target$|192", old=ROOT)
    assert {case["base"] for case in found["cases"]} == {OLD}
    assert {side["side"] for case in found["cases"] for side in case["sides"]} == {LABLIB, OLD}
    assert {case["what"] for case in found["cases"]} == {"decode", "products"}
    for case in found["cases"]:
        case["sides"][0]["times"] = 0.5
    assert report.write(found, json_file=None, picture=None) == 1  # it is slower than it was
    assert "| the old checkout" in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="process groups")
def test_ctrl_c_ends_every_process() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "lablib", "bench", "decode", "--only", "target$"],
        start_new_session=True, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    time.sleep(6)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:  # nobody of the group is left
            return
        time.sleep(0.1)
    pytest.fail("a side is still running")


def test_plans_are_what_the_documentation_says() -> None:
    names = [case.what for case in plans.cases(Plan())]
    assert set(names) == {*plans.WHAT, *plans.PARTS}
    assert all(case.base in case.runs for case in plans.cases(Plan()))

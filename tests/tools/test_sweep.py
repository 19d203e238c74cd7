"""Sweeps in real processes: the same bytes for any number of ranks, and after any accident."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from lablib import __main__
from lablib.course.replay.sampled import RULES
from lablib.course.tasks import TASKS
from lablib.models import LanguageModel, llama_config
from lablib.tools.sweep import SweepError, drawing, grouped, read, run, seed_of, start
from lablib.tools.sweep.file import Records, header
from lablib.tools.sweep.kinds import Asked, fingerprint
from lablib.validation import BadType, BadValue

import mlx.core as mx
import psutil
import pytest
from mlx.utils import tree_flatten
from oracles.refusals import refuses

SWEPT = Path(__file__).with_name("swept.py")
UNITS = [{"problem": i, "temperature": t} for t in (0.5, 1.0) for i in range(4)]


def swept(ranks: int, out: Path, *, patience: float = 20, fault: str = "") -> tuple[int, str]:
    """Run ``swept.py``; return its status and what was said."""
    command = [sys.executable, str(SWEPT), str(out), str(patience), *[fault] * bool(fault)]
    with open(out.with_suffix(".log"), "w+") as log:
        status = start(ranks, command, stdout=log, stderr=subprocess.STDOUT)
        log.seek(0)
        return status, log.read()


def content(out: Path) -> list[str]:
    return sorted(out.read_text().splitlines(keepends=True))


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> list[str]:
    out = tmp_path_factory.mktemp("alone") / "alone.jsonl"
    assert swept(1, out) == (0, "")
    assert len(content(out)) == 41
    return content(out)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_change_nothing(ranks: int, alone: list[str], tmp_path: Path) -> None:
    assert swept(ranks, tmp_path / "swept.jsonl")[0] == 0
    assert content(tmp_path / "swept.jsonl") == alone


@pytest.mark.grid(lambda fault, said: fault in ("kill:1", "raise:1", "stop:1"), rest="slow")
@pytest.mark.grid(lambda fault, said: fault in ("kill:1", "raise:1"))
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("kill:1", r"rank 1 \(.+, process \d+\) has died; .* the same command goes on"),
        ("stop:1", r"rank 1 \(.+, process \d+\) has not answered for \d+ s;"),
        ("kill:0", r"rank 0 \(.+, process \d+\) has died;"),
        ("sleep:1", r"rank 1 \(.+, process \d+\) has been at .*problem.* for more than 3 s;"),
        ("raise:1", r"rank 1 \(.+, process \d+\) failed at .*ValueError: no such luck"),
    ],
)
def test_a_lost_rank_is_named_and_the_run_goes_on(fault, said, alone, tmp_path):
    out, begun = tmp_path / "swept.jsonl", time.monotonic()
    status, words = swept(2, out, patience=1.5, fault=fault)
    assert status != 0
    assert time.monotonic() - begun < 30
    assert re.search(said, words), words
    before = content(out)
    assert 1 < len(before) < len(alone)
    assert set(before) < set(alone)
    assert swept(1, out)[0] == 0
    assert content(out) == alone


def test_nobody_waits_for_ever_for_a_rank_that_does_not_come(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.json"
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    hosts.write_text(json.dumps([[f"127.0.0.1:{port}"], ["127.0.0.1:9"]]))
    code = "from lablib.tools.sweep import ranks; ranks._START = 1; ranks.Ranks()"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
        env=os.environ | {"MLX_RANK": "0", "MLX_HOSTFILE": str(hosts)},
    )  # fmt: skip
    assert found.returncode == -signal.SIGKILL
    assert re.search(r"lablib: rank 0 \(.+\) has waited 1 s for the other ranks", found.stderr)


def work(group):
    return [{"sum": unit["problem"] + unit["temperature"]} for unit in group]


def test_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    out, asked = tmp_path / "a" / "run.jsonl", []

    def listening(group):
        asked.append(group)
        return work(group)

    groups = grouped(UNITS, 2)
    found = run(groups, listening, out=out, settings={"seed": 1}, progress=False)
    assert found == run(groups, work, progress=False)
    assert [each["sum"] for each in found] == [u["problem"] + u["temperature"] for u in UNITS]
    whole = out.read_bytes()
    lines = whole.splitlines(keepends=True)
    # Two lines of three whole groups are gone with half of the fourth, and a piece of one is left.
    out.write_bytes(b"".join(lines[:4]) + lines[4][:9])
    asked.clear()
    again = run(groups, listening, out=out, settings={"seed": 1}, progress=False)
    assert again == found
    assert asked == groups[1:]
    assert out.read_bytes() == whole
    first, records = read(out)
    assert first["settings"] == {"seed": 1}
    assert first["unit"] == ["problem", "temperature"]
    assert records == found
    for other in ({"settings": {"seed": 2}}, {"settings": {"seed": 1}, "what": "votes"}):
        with pytest.raises(BadValue, match=r"holds a sweep with (seed 1|sweep \"sweep\")"):
            run(groups, work, out=out, progress=False, **other)
    assert out.read_bytes() == whole


def test_a_unit_that_is_no_longer_asked_for_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    run(grouped(UNITS), work, out=out, progress=False)
    refuses(BadValue, "was not asked for", run, grouped(UNITS[1:]), work, out=out, progress=False)


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "notes.txt"
    for text in ("my notes\n", "{}\n", '["a"]\n', "no end"):
        out.write_text(text)
        with pytest.raises(BadValue, match="is no file of a sweep"):
            run(grouped(UNITS), work, out=out, progress=False)
        assert out.read_text() == text
    refuses(BadValue, "is no file of a sweep", read, tmp_path / "none.jsonl")


def test_groups_are_of_a_kind() -> None:
    groups = grouped(UNITS, 3, like=lambda unit: unit["temperature"])
    assert [len(group) for group in groups] == [3, 1, 3, 1]
    assert [unit for group in groups for unit in group] == UNITS
    for bad in ([], [[]], [UNITS, []], [UNITS, UNITS[:1]], [[{"a": 1}], [{"b": 1}]]):
        with pytest.raises(BadValue):
            run(bad, work, progress=False)
    with pytest.raises(BadType):
        run(grouped(UNITS), None, progress=False)
    with pytest.raises(SweepError, match="must return 8 records, got 0"):
        run([UNITS], lambda group: [], progress=False)


def test_a_seed_is_the_units_own() -> None:
    seeds = [seed_of(1, unit) for unit in UNITS]
    assert len({*seeds, seed_of(2, UNITS[0])}) == 9
    assert seed_of(1, dict(reversed(UNITS[0].items()))) == seeds[0]
    assert all(0 <= seed < 2**48 for seed in seeds)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_one_other_number_is_another_model(dtype) -> None:
    """Else a sweep goes on with records of a checkpoint that has been trained on, or damaged."""
    models = [LanguageModel(llama_config(50, 16, 2, 1), seed=0) for _ in range(2)]
    for model in models:
        model.set_dtype(dtype)
    assert fingerprint(models[0]) == fingerprint(models[1])
    name, weight = tree_flatten(models[1].parameters())[0]
    assert weight.size > 256
    changed = mx.where(mx.arange(weight.size) == weight.size - 1, 1, weight.reshape(-1))
    models[1].load_weights([(name, changed.reshape(weight.shape))], strict=False)
    assert fingerprint(models[0]) != fingerprint(models[1])


def test_a_command_sweeps_and_draws(tmp_path: Path, capsys) -> None:
    asked = {
        "votes": "--n 2 4 --temperature 0 1",
        "acceptance": "--n 2 --temperature 0.5 --gamma 1 2 --rule match --draft ngram",
        "speed": "--n 1 2 --gamma 0 2 --draft ngram",
    }
    rows = {"votes": 4, "acceptance": 4, "speed": 8}
    for what, options in asked.items():
        out = tmp_path / f"{what}.jsonl"
        command = ["sweep", what, "draft", "--problems", "2", "--out", str(out), *options.split()]
        assert __main__.main(command) == 0
        assert len(read(out)[1]) == rows[what]
        assert __main__.main(["sweep", "plot", str(out)]) == 0
        assert out.with_suffix(".png").stat().st_size > 5000
        assert __main__.main([*command, "--seed", "3"]) == 2
        assert "holds a sweep with seed 2026, and this one has 3" in capsys.readouterr().err
    records = read(tmp_path / "acceptance.jsonl")[1]
    assert all(0 <= r["accepted"] <= r["reached"] <= r["drafted"] for r in records)
    problems = TASKS["sums"].problems(2026, 2)
    for record in read(tmp_path / "votes.jsonl")[1]:
        assert record["truth"] == str(sum(problems[record["problem"]].data) % 10)
        assert len(record["answers"]) == (4 if record["temperature"] else 1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"what": "vote"}, "what must be one of"),
        ({"task": "stories"}, "task must be one of"),
        ({"gammas": (4,)}, "votes has no gammas"),
        ({"draft": "draft"}, "draft is of no use to votes"),
        ({"n": (0,)}, "n must be at least 1"),
        ({"temperatures": (-1.0,)}, "temperature must be between 0 and 1e"),
        ({"temperatures": (1e308,)}, "temperature must be between 0 and 1e"),
        ({"what": "acceptance", "n": (1, 2)}, "n must be one number"),
        ({"what": "acceptance", "rules": ("coin",)}, "rule must be one of"),
        ({"what": "acceptance", "gammas": (0,)}, "gamma must be at least 1"),
        ({"what": "speed", "rules": ("match", "block")}, "rule must be one for speed"),
    ],
)
def test_it_refuses_in_one_line(wrong: dict, said: str) -> None:
    refuses(BadValue, said, Asked, **{"what": "votes", "model": "draft"} | wrong)


def test_the_default_rules_are_all_that_there_are() -> None:
    assert Asked("acceptance", "draft").rules == RULES


def test_a_ratio_and_its_interval() -> None:
    pairs = [(1.0, 2.0), (3.0, 4.0), (2.0, 2.0)]
    whole, low, high = drawing.ratio(pairs)
    assert whole == 6 / 8
    assert 0.5 <= low < whole < high <= 1.0
    assert drawing.ratio([(1.0, 4.0)] * 5) == (0.25, 0.25, 0.25)


def test_records_reach_the_disk_as_they_are_added(tmp_path: Path) -> None:
    first = header("sweep", ["problem"], {})
    records = Records(tmp_path / "x.jsonl", first, [[{"problem": 1}]])
    assert [json.loads(each) for each in content(tmp_path / "x.jsonl")] == [first]
    records.add(['{"problem":1}'])
    assert len(content(tmp_path / "x.jsonl")) == 2
    records.close()


@pytest.mark.slow
def test_a_real_sweep_with_the_patience_that_it_has(tmp_path: Path) -> None:
    """Votes of the shipped target: 1, 2, 3 ranks; a kill by hand, a stop; each ends in 30 s."""
    options = ["--problems", "24", "--n", "16", "--temperature", "0", "0.5", "1"]
    command = [sys.executable, "-m", "lablib", "sweep", "votes", "target", *options, "--out"]
    found = []
    for ranks in (1, 2, 3):
        assert start(ranks, [*command, str(tmp_path / f"{ranks}.jsonl")]) == 0
        found.append(content(tmp_path / f"{ranks}.jsonl"))
    assert found[0] == found[1] == found[2]
    for name in ("SIGKILL", "SIGSTOP"):
        out, log = tmp_path / f"{name}.jsonl", tmp_path / f"{name}.log"
        with log.open("w") as file:
            process = subprocess.Popen([*command, str(out), "--ranks", "2"], stderr=file)
            begun = time.monotonic()
            while not out.exists() or len(content(out)) < 2:
                assert process.poll() is None
                assert time.monotonic() < begun + 60
                time.sleep(0.05)
            last = psutil.Process(process.pid).children()[-1]
            last.send_signal(getattr(signal, name))
            begun = time.monotonic()
            assert process.wait() != 0
            assert time.monotonic() < begun + 30
        assert f"rank 1 ({socket.gethostname()}, process {last.pid})" in log.read_text()
        assert len(content(out)) < len(found[0])
        assert start(3, [*command, str(out)]) == 0
        assert content(out) == found[0]

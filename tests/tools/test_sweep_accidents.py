"""What sweeps survive: kills at any moment, two writers, a damaged file, a full disk, no answer."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import lablib
from lablib import __main__
from lablib.models import LanguageModel, llama_config
from lablib.tools.saving import save
from lablib.tools.sweep import grouped, read, run
from lablib.tools.sweep.file import Records, header
from lablib.tools.sweep.kinds import Asked
from lablib.validation import BadType, BadValue

import numpy as np
import psutil
import pytest
from kills import KINDS, LAUNCH, Trials

UNITS = [{"problem": i, "temperature": t} for t in (0.5, 1.0) for i in range(4)]
LONG = """
import sys, time
from lablib.tools.sweep import run
groups = [[{"problem": i}] for i in range(100)]
run(groups, lambda group: time.sleep(0.3) or [{}], out=sys.argv[1], progress=False)
"""
LATE = """
import os, time
from lablib.tools.sweep.ranks import Ranks
if os.environ["MLX_RANK"] == "1":
    time.sleep(60)
Ranks()
"""


def work(group):
    return [{"sum": unit["problem"] + unit["temperature"]} for unit in group]


def swept(out: Path, size: int = 2, asked: list | None = None) -> list[dict]:
    """Run a small sweep in this process; ``asked`` gets the groups that it had to work on."""
    asked = [] if asked is None else asked
    return run(grouped(UNITS, size), lambda g: asked.append(g) or work(g), out=out, progress=False)


def launched(ranks: int, code: str, *arguments: str) -> subprocess.Popen:
    """Start ranks by a launcher of their own, which can be killed."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen([sys.executable, "-c", LAUNCH, str(ranks), *command])


def children(process: subprocess.Popen, count: int) -> list[psutil.Process]:
    end = time.monotonic() + 30
    found = []
    while len(found) < count:
        assert time.monotonic() < end
        time.sleep(0.02)
        found = psutil.Process(process.pid).children()
    return found


def until(exists: Path) -> None:
    end = time.monotonic() + 30
    while not exists.exists() or not exists.stat().st_size:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_end_with_their_launcher(ranks: int, number: int, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    launcher = launched(ranks, LONG, str(out))
    found = children(launcher, ranks)
    until(out)
    launcher.send_signal(number)
    launcher.wait()
    _, alive = psutil.wait_procs(found, 5)
    for process in alive:
        process.kill()
    assert not alive


def test_a_rank_that_waits_for_another_ends_with_its_launcher() -> None:
    launcher = launched(2, LATE)
    first, second = children(launcher, 2)
    children(first, 1)  # its guard is there: it waits in MLX, which lets no thread run
    launcher.kill()
    launcher.wait()
    try:
        first.wait(5)
    finally:
        second.kill()


def test_a_rank_behind_another_command_takes_nothing_else_for_its_pipe(tmp_path: Path) -> None:
    """A command that closes what it was not told of may leave the number to somebody's file."""
    code = "from lablib.tools.sweep.ranks import Ranks; import time; Ranks(); time.sleep(0.5)"
    (tmp_path / "empty").touch()
    for number in (-1, 0, 3, 99):
        with (tmp_path / "empty").open() as empty:
            done = subprocess.run(
                [sys.executable, "-c", code],
                stdin=empty,
                capture_output=True,
                text=True,
                env=os.environ | {"LABLIB_LAUNCHER": str(number)},
            )
        assert (done.returncode, done.stderr) == (0, "")


def test_one_writer_at_a_time(tmp_path: Path, capsys) -> None:
    out = tmp_path / "out.jsonl"
    options = ["--problems", "2", "--n", "2", "--out", str(out)]
    first = subprocess.Popen([sys.executable, "-c", LONG, str(out)])
    try:
        until(out)
        assert __main__.main(["sweep", "votes", "draft", *options]) == 2
        said = capsys.readouterr().err
        day = time.strftime("%Y-%m-")
        holder = f"is being written by process {first.pid} ({socket.gethostname()}) since {day}"
        assert holder in said
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()
    assert not out.with_name("out.jsonl.damaged").exists()
    with pytest.raises(BadValue, match="holds a sweep with"):  # its lock has ended with it
        swept(out)


def test_a_lock_leaves_nothing_and_is_taken_again(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    swept(out)
    assert [each.name for each in tmp_path.iterdir()] == ["out.jsonl"]
    first = header("sweep", list(UNITS[0]), {})
    records = Records(out, first, grouped(UNITS))
    with pytest.raises(BadValue, match=f"written by process {os.getpid()}"):
        Records(out, first, grouped(UNITS))
    records.close()
    for other in ("sweep", "votes"):  # a refusal gives it back as well
        with pytest.raises(BadValue, match="holds a sweep with"):
            Records(out, header(other, ["x"], {}), grouped(UNITS))
    swept(out)
    assert [each.name for each in tmp_path.iterdir()] == ["out.jsonl"]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda line: line[:5] + b"#" + line[6:], "KeyError: 'problem'"),
        (lambda line: line[:9] + line, "JSONDecodeError"),
        (lambda line: line + line, "JSONDecodeError: Extra data"),
        (lambda line: b"1" + line, "JSONDecodeError: Extra data: line 1 column 2"),
        (lambda line: line[:12] + b"\xff" + line[13:], "UnicodeDecodeError"),
        (lambda line: b'{"problem":1}', "KeyError: 'temperature'"),
        (lambda line: b"[" * 100_000, "RecursionError|JSONDecodeError"),
        (lambda line: b"17", "TypeError"),
        (lambda line: b"", "JSONDecodeError"),
    ],
)
def test_a_damaged_line_is_named_set_aside_and_computed_again(
    damage, why: str, tmp_path: Path, capsys
) -> None:
    out, asked = tmp_path / "out.jsonl", []
    found = swept(out)
    whole = out.read_bytes()
    lines = whole.splitlines()
    lines[4] = damage(lines[4])
    out.write_bytes(b"\n".join(lines) + b"\n")
    assert len(read(out)[1]) == 7
    said = capsys.readouterr().err
    assert f"{out}, line 5 is damaged (" in said
    assert any(each in said for each in why.split("|"))
    assert "left out" in said
    assert swept(out, asked=asked) == found
    assert asked == [UNITS[2:4]]  # the group of the line, and no other
    said = capsys.readouterr().err
    assert f"{out}, line 5 is damaged (" in said
    assert "set aside in out.jsonl.damaged, and computed again" in said
    assert out.with_name("out.jsonl.damaged").read_bytes() == lines[4] + b"\n"
    assert sorted(out.read_bytes().splitlines()) == sorted(whole.splitlines())
    swept(out)
    assert capsys.readouterr().err == ""


def test_lines_that_are_there_twice_count_once(tmp_path: Path, capsys) -> None:
    out, asked = tmp_path / "out.jsonl", []
    found = swept(out)
    whole = out.read_bytes()
    lines = whole.splitlines(keepends=True)
    out.write_bytes(whole + lines[3] + lines[5])
    assert len(read(out)[1]) == 8
    assert "lines 10, 11 repeat others: each unit counts once" in capsys.readouterr().err
    assert swept(out, asked=asked) == found
    assert not asked
    assert out.read_bytes() == whole
    # Nobody knows which of two that differ is right.
    out.write_bytes(whole + lines[3].replace(b'"sum":2.5', b'"sum":3.5'))
    assert len(read(out)[1]) == 7
    assert "line 4 is damaged (lines 4, 10 contradict each other" in capsys.readouterr().err
    assert swept(out, asked=asked) == found
    assert asked == [UNITS[2:4]]
    assert sorted(out.read_bytes().splitlines()) == sorted(whole.splitlines())


def test_many_damaged_lines_are_said_in_few(tmp_path: Path, capsys) -> None:
    out = tmp_path / "out.jsonl"
    swept(out)
    with out.open("ab") as file:
        file.write(b"?\n" * 500)
    swept(out)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 6
    assert "so are lines 15, 16, 17" in said[-1]
    assert "and 485 more" in said[-1]


def test_a_disk_that_takes_half_a_line_gives_it_back(tmp_path: Path, monkeypatch) -> None:
    out, real = tmp_path / "out.jsonl", os.write
    records = Records(out, header("sweep", ["problem"], {}), [[{"problem": 1}]])
    before = out.read_bytes()
    room = [10]

    def write(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = real(file, data[: room[0]])
        room[0] -= done
        return done

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space left") as caught:
        records.add(['{"problem":1,"sum":2}'])
    assert caught.value.filename == str(out)
    assert out.read_bytes() == before
    records.close()


@pytest.mark.parametrize("name", ["model", "draft", "what", "task", "rules"])
def test_an_array_is_no_name(name: str) -> None:
    asked = {"what": "acceptance", "model": "draft"}
    array = np.array(["draft", "sums"])
    wrong = (array,) if name == "rules" else array
    with pytest.raises(
        (BadValue, BadType), match=rf"^{name.removesuffix('s')} must be .*got array"
    ):
        Asked(**asked | {name: wrong})


def test_votes_without_an_answer_say_why(tmp_path: Path, capsys) -> None:
    _, tokenizer = lablib.load("draft")
    config = llama_config(len(tokenizer.get_vocab()), 16, 2, 1)
    model = save(LanguageModel(config, seed=1), tokenizer, tmp_path / "untaught")
    out = tmp_path / "votes.jsonl"
    options = ["--problems", "2", "--n", "2", "--temperature", "1", "--out", str(out)]
    for _ in range(2):  # the second time it has nothing to do
        assert __main__.main(["sweep", "votes", str(model), *options]) == 1
        found = capsys.readouterr()
        assert "draws it" not in found.out
        assert f"no answer to sums by {model} in 4 completions" in found.err
        assert "tokens long on average, of 40 at most" in found.err
    answers = [each for record in read(out)[1] for each in record["answers"]]
    assert answers == [None] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_changes_nothing(kind: str, tmp_path: Path) -> None:
    """Few of what ``kills.py`` does a thousand times."""
    trials = Trials(tmp_path, seed=KINDS.index(kind))
    trials.hit(kind, 2 - KINDS.index(kind) % 2, again=0)
    assert trials.counts.total() == 1


@pytest.mark.slow
def test_a_hundred_kills(tmp_path: Path) -> None:
    trials = Trials(tmp_path, seed=7)
    while trials.counts.total() < 100:
        trials.hit(trials.random.choice(KINDS), trials.random.randint(1, 3))


VOTE = {"task": "sums", "problem": 0, "truth": "7", "answers": ["7"], "logprobs": [-1.0]}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"answers": ...}, "KeyError: 'answers'"),
        ({"answers": None}, "answers must be list, got NoneType"),
        ({"answers": 1}, "answers must be list, got int"),
        ({"tokens": "3"}, "tokens must be int, got str"),
        ({"tokens": True}, "tokens must be int, got bool"),
    ],
)
def test_a_line_of_another_shape_is_damaged(change, why: str, tmp_path: Path, capsys) -> None:
    """It would count as finished for good, and end every plot with words of Python's."""
    record = {**VOTE, "tokens": 3}
    broken = {key: value for key, value in (record | change).items() if value is not ...}
    lines = [header("votes", ["task", "problem"], {}), record | {"problem": 1}, broken]
    out = tmp_path / "votes.jsonl"
    out.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    assert read(out)[1] == [record | {"problem": 1}]
    assert f"line 3 is damaged ({why.split(':')[0]}" in capsys.readouterr().err.replace(
        "TypeError: ", ""
    )


@pytest.mark.parametrize("change", [{"settings": [1]}, {"unit": 5}, {"sweep": None}])
def test_a_first_line_of_another_shape_is_no_sweeps(change, tmp_path: Path) -> None:
    out = tmp_path / "votes.jsonl"
    out.write_text(json.dumps(header("votes", ["problem"], {}) | change) + "\n")
    with pytest.raises(BadValue, match="is no file of a sweep"):
        read(out)

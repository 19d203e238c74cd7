"""What sweeps survive: kills at any moment, two writers, a damaged file, a full disk, no answer."""

import contextlib
import errno
import json
import math
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import lablib
from lablib import __main__
from lablib.folders import write_whole
from lablib.models import LanguageModel, llama_config
from lablib.tools.saving import save
from lablib.tools.sweep import SweepError, grouped, read, rounds, run
from lablib.tools.sweep.drawing import ratio
from lablib.tools.sweep.file import Records, header, line
from lablib.tools.sweep.kinds import Asked
from lablib.tools.sweep.watch import _BEAT, _END, Watch, _Peer
from lablib.validation import BadType, BadValue

import numpy as np
import psutil
import pytest
from kills import KINDS, LAUNCH, Trials
from oracles.refusals import refuses

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


@contextlib.contextmanager
def killed(code: str, out: Path) -> Iterator[subprocess.Popen]:
    """Start a sweep of a process of its own, and kill it at the end."""
    process = subprocess.Popen([sys.executable, "-c", code, str(out)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


def children(process: subprocess.Popen, count: int) -> list[psutil.Process]:
    end = time.monotonic() + 30
    found = []
    while len(found) < count:
        assert time.monotonic() < end
        time.sleep(0.02)
        found = psutil.Process(process.pid).children()
    return found


def written(out: Path, *lines: object) -> Path:
    """Write a file of such lines."""
    out.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    return out


def until(exists: Path) -> None:
    end = time.monotonic() + 30
    while not exists.exists() or not exists.stat().st_size:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.grid(lambda ranks, number: ranks == 2, rest="slow")
@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_end_with_their_launcher(ranks: int, number: int, out: Path) -> None:
    launcher = launched(ranks, LONG, str(out))
    found = children(launcher, ranks)
    until(out)
    launcher.send_signal(number)
    launcher.wait()
    _, alive = psutil.wait_procs(found, 5)
    for process in alive:
        process.kill()
    assert not alive


@pytest.mark.thorough
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


@pytest.mark.thorough
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


def test_one_writer_at_a_time(out: Path, capsys) -> None:
    options = ["--problems", "2", "--n", "2", "--out", str(out)]
    with killed(LONG, out) as first:
        until(out)
        assert __main__.main(["sweep", "votes", "draft", *options]) == 2
        said = capsys.readouterr().err
        day = time.strftime("%Y-%m-")
        holder = f"is being written by process {first.pid} ({socket.gethostname()}) since {day}"
        assert holder in said
        assert first.poll() is None
    assert not out.with_name("out.jsonl.damaged").exists()
    with pytest.raises(BadValue, match="holds a sweep with"):  # its lock has ended with it
        swept(out)


@pytest.mark.grid(lambda number: number == "ENOLCK", rest="slow")
@pytest.mark.parametrize("number", ["ENOSYS", "ENOLCK", "EOPNOTSUPP"])
def test_where_a_disk_knows_no_locks_there_is_one_writer_too(number: str, out: Path) -> None:
    """Who was killed was said to be writing for ever, or nothing ran at all."""
    unlocked = f"""
import errno, fcntl, os
def flock(*_):
    raise OSError(errno.{number}, "no locks")
fcntl.flock = flock
{LONG}
"""
    with killed(unlocked, out) as first:
        until(out)
        second = [sys.executable, "-c", unlocked, str(out)]
        done = subprocess.run(second, capture_output=True, text=True)
        assert f"{out} is being written by process {first.pid}, as " in done.stderr
        assert first.poll() is None
    had = len(out.read_text().splitlines())
    with killed(unlocked, out) as more:
        end = time.monotonic() + 30
        while len(out.read_text().splitlines()) == had:
            assert more.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def a_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("make", [a_folder, a_pipe, a_socket, a_device])
def test_what_is_no_file_is_refused_before_any_work(make, linked, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lablib.models, "load", lambda *_: pytest.fail("it has begun"))
    monkeypatch.chdir(tmp_path)  # a socket's path may not be long
    out = Path("there")
    make(out)
    kind = out.stat().st_mode
    if linked:
        out = Path("link")
        out.symlink_to("there")
    assert __main__.main(["sweep", "votes", "draft", "--out", str(out)]) == 2
    what = make.__name__.replace("_", " ")
    assert capsys.readouterr().err == f"lablib: out must be a file, and {out} is {what}\n"
    refuses(BadValue, "out must be a file", swept, out)
    refuses(OSError, "there", write_whole, Path("there"), "text")
    assert Path("there").stat().st_mode == kind
    assert {each.name for each in tmp_path.iterdir()} == {"there", out.name}


def test_a_loop_of_links_is_refused_in_one_line(tmp_path: Path, capsys) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert __main__.main(["sweep", "votes", "draft", "--out", str(tmp_path / "loop")]) == 2
    assert "loop" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["moved away", "written anew", "deleted"])
def test_a_file_that_is_another_one_by_now_ends_the_sweep_at_once(how, tmp_path: Path) -> None:
    """An editor that saves it does so: what is written from then on would be in no file."""
    out, moved, asked = tmp_path / "out.jsonl", tmp_path / "moved.jsonl", []

    def spoiled(group):
        asked.append(group)
        if len(asked) == 2:
            if how == "deleted":
                out.unlink()
            else:
                out.rename(moved)
            if how == "written anew":
                out.write_bytes(moved.read_bytes())
        return work(group)

    with pytest.raises(OSError, match="is another file by now, or none"):
        run(grouped(UNITS), spoiled, out=out, progress=False)
    if how == "moved away":
        assert len(read(moved)[1]) == len(asked)
    assert len(swept(out, 1)) == len(UNITS)


def test_a_picture_is_not_drawn_over_its_records(tmp_path: Path, capsys) -> None:
    out = written(tmp_path / "votes.png", header("votes", ["problem"], {}))
    before = out.read_bytes()
    (tmp_path / "link.svg").symlink_to(out)
    for options in ([], ["--out", str(tmp_path / "link.svg")]):
        assert __main__.main(["sweep", "plot", str(out), *options]) == 2
        assert "out must be another file than the records" in capsys.readouterr().err
        assert out.read_bytes() == before


def test_a_rank_that_ends_is_heard_to_the_last_word() -> None:
    """It was lost: held back behind a beat, and thrown away as the other's beat was not read."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        ending = _Peer(socket.create_connection(door.getsockname()))
        hearing = _Peer(door.accept()[0])
    for _ in range(20):  # as they beat, the system learns to be slow to say that it has got one
        for one, other in ((ending, hearing), (hearing, ending)):
            one.send(_BEAT)
            other.receive()
        time.sleep(0.05)
    hearing.send(_BEAT)
    for word in (_BEAT, f"{_END}why"):
        ending.send(word)
    ending.socket.close()
    heard: list[str] = []
    while (words := hearing.receive()) is not None:
        heard += words
    assert heard[-1] == f"{_END}why"
    hearing.socket.close()


@pytest.mark.parametrize("words", [b"5\n", b'["\xc3\xa9",1]\n', b"[" * 100_000 + b"\n", b"\xff\n"])
def test_a_stranger_at_the_door_is_not_heard(words: bytes, monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        where = door.getsockname()
        with socket.create_connection(where) as stranger, socket.create_connection(where) as rank:
            stranger.sendall(words)
            rank.sendall(b'["secret",1]\n')
            watch = Watch.__new__(Watch)
            watch._peers = {}
            watch._answer(door, "secret", 1)
            assert [*watch._peers] == [1]
            watch._peers[1].socket.close()


@pytest.mark.parametrize("settings", [{"\x1b[2Jkey": 1}, {"seed": "\x1b[31m\u009b31m\ud800"}])
def test_another_sweeps_file_says_nothing_to_a_terminal(settings, out: Path) -> None:
    first = header("sweep", list(UNITS[0]), settings)
    written(out, first)
    with pytest.raises(BadValue, match="holds a sweep with") as refused:
        Records(out, first | {"settings": {"seed": 1}}, grouped(UNITS))
    assert str(refused.value).isprintable()


def test_a_lock_leaves_nothing_and_is_taken_again(tmp_path: Path, out: Path) -> None:
    swept(out)
    assert [each.name for each in tmp_path.iterdir()] == ["out.jsonl"]
    first = header("sweep", list(UNITS[0]), {})
    records = Records(out, first, grouped(UNITS))
    refuses(BadValue, f"written by process {os.getpid()}", Records, out, first, grouped(UNITS))
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
def test_a_damaged_line_is_named_set_aside_and_computed_again(damage, why, out, capsys):
    asked = []
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


def test_what_is_set_aside_goes_by_no_link_into_another_file(tmp_path: Path) -> None:
    """Else whoever hands a sweep on adds a line of theirs to your shell's settings."""
    out, mine = tmp_path / "out.jsonl", tmp_path / "mine"
    swept(out)
    mine.write_text("# mine\n")
    out.with_name("out.jsonl.damaged").symlink_to(mine)
    damaged = out.read_bytes() + b"anything\n"
    out.write_bytes(damaged)
    refuses(OSError, r"out\.jsonl\.damaged", swept, out)
    assert mine.read_text() == "# mine\n"
    assert out.read_bytes() == damaged


def test_what_is_set_aside_waits_for_nobody_at_a_pipe(out: Path) -> None:
    swept(out)
    os.mkfifo(out.with_name("out.jsonl.damaged"))
    damaged = out.read_bytes() + b"anything\n"
    out.write_bytes(damaged)
    refuses(ValueError, r"out\.jsonl\.damaged is a pipe", swept, out)
    assert out.read_bytes() == damaged


def test_lines_that_are_there_twice_count_once(out: Path, capsys) -> None:
    asked = []
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


def test_many_damaged_lines_are_said_in_few(out: Path, capsys) -> None:
    swept(out)
    with out.open("ab") as file:
        file.write(b"?\n" * 500)
    swept(out)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 6
    assert "so are lines 15, 16, 17" in said[-1]
    assert "and 485 more" in said[-1]


def test_a_disk_that_takes_half_a_line_gives_it_back(out: Path, monkeypatch) -> None:
    real = os.write
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


def test_more_problems_than_can_be_made_are_refused_at_once() -> None:
    with pytest.raises(BadValue, match="problems must be between 1 and 1000000, got 1000000000000"):
        Asked("votes", "draft", problems=10**12)


@pytest.mark.parametrize("name", ["model", "draft", "what", "task", "rules"])
def test_an_array_is_no_name(name: str) -> None:
    asked = {"what": "acceptance", "model": "draft"}
    array = np.array(["draft", "sums"])
    wrong = (array,) if name == "rules" else array
    said = rf"^{name.removesuffix('s')} must be .*got array"
    refuses((BadValue, BadType), said, Asked, **asked | {name: wrong})


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


@pytest.mark.grid(lambda kind: kind == KINDS[0], rest="slow")
@pytest.mark.thorough
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


VOTE = {"task": "sums", "problem": 0, "temperature": 1.0, "truth": "7", "tokens": 3}
VOTE |= {"answers": ["7", None], "logprobs": [-1.0, 0.0]}
COUNTS = {"problem": 0, "rounds": 2, "tokens": 5, "drafted": 6, "reached": 4, "accepted": 3}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"answers": ...}, "KeyError: 'answers'"),
        ({"answers": None}, "answers must be list, got NoneType"),
        ({"answers": 1}, "answers must be list, got int"),
        ({"tokens": "3"}, "tokens must be int, got str"),
        ({"tokens": True}, "tokens must be int, got bool"),
        ({"tokens": -5}, "ValueError: tokens must be at least 0, and finite"),
        ({"answers": []}, "ValueError: it must hold n answers"),
        ({"answers": ["7"]}, "ValueError: it must hold n answers"),
        ({"answers": ["7", {}]}, "ValueError: it must hold n answers"),
        ({"logprobs": [-1.0, math.nan]}, "ValueError: it must hold n answers"),
        ({"logprobs": [-1.0, -math.inf]}, "ValueError: it must hold n answers"),
        ({"logprobs": [-1.0, "x"]}, "ValueError: it must hold n answers"),
        ({"temperature": 0.0}, "ValueError: it must hold n answers"),
    ],
)
def test_a_line_of_another_shape_is_damaged(change, why: str, tmp_path: Path, capsys) -> None:
    """It would count as finished for good, and end every plot with words of Python's."""
    broken = {key: value for key, value in (VOTE | change).items() if value is not ...}
    first = header("votes", ["task", "problem"], {"n": [1, 2]})
    out = written(tmp_path / "votes.jsonl", first, VOTE | {"problem": 1}, broken)
    assert read(out)[1] == [VOTE | {"problem": 1}]
    said = capsys.readouterr().err.replace("TypeError: ", "")
    assert f"line 3 is damaged ({why.split(':')[0]}" in said


def test_counts_that_cannot_be_are_damaged(tmp_path: Path, capsys) -> None:
    odd = [{"accepted": 5}, {"reached": 7}, {"rounds": -1}]
    broken = [COUNTS | change | {"problem": i} for i, change in enumerate(odd, start=1)]
    first = header("acceptance", ["problem"], {})
    out = written(tmp_path / "acceptance.jsonl", first, COUNTS, *broken)
    assert read(out)[1] == [COUNTS]
    assert capsys.readouterr().err.count("is damaged (ValueError: ") == 3


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("what", ["votes", "acceptance", "speed"])
def test_what_would_be_read_as_damaged_is_refused_before_it_is_written(what, kept, tmp_path):
    """Each further run would have set it aside, and computed it again."""
    out = tmp_path / "out.jsonl" if kept else None
    named = rf"failed at .*BadValue: what must be another name than '{what}', or units.*KeyError"
    refuses(SweepError, named, run, grouped(UNITS, 2), work, out=out, what=what, progress=False)
    if kept:
        assert read(out)[1] == []


@pytest.mark.parametrize(
    ("record", "said"),
    [({"i": 9}, r'got {"i":9}'), ({"i": 0, "x": "\ud800"}, r"UnicodeEncodeError: .*surrogates")],
)
def test_a_record_that_would_cost_others_theirs_is_its_units_failure(record, said, tmp_path):
    """Four became one; and of a whole round nothing was written."""
    out = tmp_path / "own.jsonl"
    groups = [[{"i": 1}], [{"i": 0}]]
    with pytest.raises(SweepError, match=rf'failed at {{"i":0}}: .*{said}'):
        run(groups, lambda group: [record] if group[0]["i"] == 0 else [{}], out=out, progress=False)
    assert read(out)[1] == [{"i": 1}]
    assert len(run(groups, lambda group: [{}], out=out, progress=False)) == 2


def test_units_whose_keys_are_no_texts_are_refused(tmp_path):
    """Each further run set their lines aside, and computed them again."""
    with pytest.raises(BadValue, match="keys are texts, got"):
        run([[{1: 2}]], lambda group: [{}], out=tmp_path / "own.jsonl", progress=False)


@pytest.mark.parametrize("change", [{"settings": [1]}, {"unit": 5}, {"sweep": None}])
def test_a_first_line_of_another_shape_is_no_sweeps(change, tmp_path: Path) -> None:
    out = written(tmp_path / "votes.jsonl", header("votes", ["problem"], {}) | change)
    refuses(BadValue, "is no file of a sweep", read, out)


DRAWN = {
    "model": "target", "draft": None, "task": "sums", "problems": 1, "n": [2],
    "temperatures": [1.0], "gammas": [], "rules": [], "seed": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "record"),
    [
        ({"n": ...}, {}),
        ({"n": "ab"}, {}),
        ({"n": [2**63]}, {}),
        ({"n": [{}]}, {}),
        ({"n": ["\x1b[2J"]}, {}),
        ({"task": "$\\frac$"}, {}),  # a formula that matplotlib reads when it draws
        ({"gammas": "\x1b[2J"}, {}),  # an order for the terminal
        ({"gammas": [1] * 10_000}, {}),  # more than anybody reads
        ({"seed": -1}, {}),
        ({"seed": "x"}, {}),
        ({}, {"temperature": []}),
        ({}, {"answers": [["4"], ["5"]]}),
        ({}, {"logprobs": ["a", "b"]}),
        ({}, {"logprobs": []}),
    ],
)
def test_a_file_that_cannot_be_drawn_is_named(settings, record, tmp_path: Path, capsys) -> None:
    """Somebody else made it, or an editor: no words of Python's, and no picture."""
    asked = {key: value for key, value in (DRAWN | settings).items() if value is not ...}
    row = {"task": "sums", "problem": 0, "temperature": 1.0, "truth": "4", "answers": ["4", "5"]}
    row |= {"logprobs": [-1.0, -2.0], "tokens": 3}
    first = header("votes", ["task", "problem"], asked)
    out = written(tmp_path / "votes.jsonl", first, row | record)
    assert __main__.main(["sweep", "plot", str(out)]) == 2
    said = capsys.readouterr().err
    *lines, last = said.splitlines()
    damaged = f"lablib: {out}, line 2 is damaged ("
    assert all(line.startswith(damaged) for line in lines)
    wrong = "holds no record yet" if lines else "is no sweep's file, or"
    assert last.startswith(f"lablib: {out} {wrong}")
    assert "".join([*lines, last]).isprintable()
    assert len(said) < 300 + 2 * len(str(out))
    assert not out.with_suffix(".png").exists()
    written(out, first | {"settings": DRAWN}, row)
    assert __main__.main(["sweep", "plot", str(out)]) == 0
    written(out, first | {"settings": DRAWN}, row | {"answers": [None, None]})
    assert __main__.main(["sweep", "plot", str(out)]) == 2
    assert f"lablib: {out}: no answer to sums by " in capsys.readouterr().err


@pytest.mark.filterwarnings("error")
def test_a_ratio_of_nothing_is_none() -> None:
    assert np.isnan(ratio([])).all()
    assert np.isnan(ratio([(0, 0), (0, 0)])).all()


def test_a_picture_that_cannot_be_made_is_named(tmp_path: Path, capsys) -> None:
    """Matplotlib finds out when it draws: infinity has no place on an axis of whole numbers."""
    asked = DRAWN | {"draft": "draft", "gammas": [0, 4], "rules": ["rejection"], "n": [1]}
    row = {"problem": 0, "temperature": 1.0, "seconds": 0.5, "tokens": 9, "host": "h"}
    first = header("speed", ["n", "gamma"], asked)
    settings = [(1, 0), (8, 0), (1, 4), (8, 4), (float("inf"), 0)]
    rows = [row | {"n": n, "gamma": gamma} for n, gamma in settings]
    out = written(tmp_path / "speed.jsonl", first, *rows)
    assert __main__.main(["sweep", "plot", str(out)]) == 2
    assert f"{out} is no sweep's file, or damaged: " in capsys.readouterr().err
    assert not out.with_suffix(".png").exists()


def test_a_file_has_one_writer_by_whatever_name_and_without_its_lock(tmp_path):
    out, other = tmp_path / "x.jsonl", tmp_path / "y.jsonl"
    first = header("sweep", ["problem"], {})
    asked = first, [[{"problem": 1}]]
    Records(out, *asked).close()
    os.link(out, other)
    records = Records(out, *asked)
    refuses(BadValue, "is being written by another", Records, other, *asked)
    (tmp_path / ".x.jsonl.lock").unlink()
    refuses(BadValue, "is being written by another", Records, out, *asked)
    records.add([line({"problem": 1})])
    records.close()
    Records(other, *asked).close()
    assert len(read(out)[1]) == 1


def test_a_file_that_was_saved_over_while_it_was_written_is_named(tmp_path: Path, monkeypatch):
    """An editor that writes into the file puts back what it once read: records are gone."""
    monkeypatch.setattr(rounds, "goes_on", lambda *_, **__: False)
    out = tmp_path / "s.jsonl"

    def edited(group):
        if group[0]["problem"] == 3:
            out.write_bytes(out.read_bytes().split(b"\n")[0] + b"\n")
        return work(group)

    with pytest.raises(SweepError, match=r"s\.jsonl lacks \d records.*the same command"):
        run(grouped(UNITS, 1), edited, out=out, progress=False)
    assert len(swept(out, 1)) == len(UNITS)


def test_no_sweep_writes_over_another_file_on_its_way(tmp_path: Path):
    beside = tmp_path / "writing-s.jsonl"
    swept(beside)
    before = beside.read_bytes()
    swept(tmp_path / "s.jsonl")
    assert beside.read_bytes() == before


WRITES = """
import sys
from pathlib import Path
from lablib.folders import write_whole
for _ in range(1000):
    write_whole(Path(sys.argv[1]), sys.argv[2] * 100_000)
"""


@pytest.mark.thorough
def test_two_who_write_one_file_leave_a_whole_one_and_neither_fails(tmp_path: Path):
    """Two notebooks that keep their marks in one folder, say."""
    file = tmp_path / "progress.json"
    command = [sys.executable, "-c", WRITES, str(file)]
    writers = [subprocess.Popen([*command, letter]) for letter in "ab"]
    while any(writer.poll() is None for writer in writers):
        text = file.read_text() if file.exists() else "a" * 100_000
        assert text in ("a" * 100_000, "b" * 100_000)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_what_a_killed_writer_had_half_written_is_removed(tmp_path: Path):
    """By the next sweep into the file, and by whoever else writes it.

    A sweep is alone with its file: who lives with a writer's number, or is about to end, is none.
    """
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    other, at_work = f".writing-{ended.pid}-of-s.jsonl", f".writing-{os.getppid()}-s.jsonl"
    for write, kept in (swept, {other}), (lambda file: write_whole(file, "1"), {other, at_work}):
        for name in (f".writing-{ended.pid}-s.jsonl", f".writing-{os.getpid()}-s.jsonl"):
            (tmp_path / name).write_text("half")
        for name in (other, at_work):
            (tmp_path / name).write_text("another file's, or of somebody at work")
        write(tmp_path / "s.jsonl")
        assert {each.name for each in tmp_path.iterdir()} == {"s.jsonl", *kept}

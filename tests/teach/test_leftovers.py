"""What a killed grading leaves behind is removed by the next one, and nothing else is."""

import os
import subprocess
import sys
import tempfile
import time

from lablib.teach.apart import leftovers
from lablib.teach.handed_in import clean

import pytest

pytestmark = pytest.mark.thorough


@pytest.fixture
def dead():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def wait():
    for each in leftovers._at_work:
        assert each.wait(60) == 0


def test_only_old_folders_of_dead_processes_are_removed(dead, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    living = os.getpid()
    long_ago = time.time() - 2 * leftovers.AGE
    kept = [f"lablib-{living}-abcd_123", f"lablib-{dead}-short", "lablib-0", "lablib-bench-x"]
    for name in (*kept, f"lablib-{dead}-abcd_123", f"lablib-{dead}-fresh123"):
        (tmp_path / name / "work").mkdir(parents=True)
        os.utime(tmp_path / name, (long_ago, long_ago))
    os.utime(tmp_path / f"lablib-{dead}-fresh123")
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / f"lablib-{dead}-linked12"
    link.symlink_to(tmp_path / "elsewhere")
    os.utime(link, (long_ago, long_ago), follow_symlinks=False)
    leftovers.sweep()
    wait()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*kept, f"lablib-{dead}-fresh123", "elsewhere", link.name}


def test_folders_in_folders_without_end_end_nobodys_grading(dead, tmp_path, monkeypatch):
    """Where there are no walls they lie on the teacher's disk when a referee has been ended."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    inner = tmp_path / f"lablib-{dead}-abcd_123"
    inner.mkdir()
    monkeypatch.chdir(inner)
    for _ in range(2 * sys.getrecursionlimit()):
        os.mkdir("d")
        os.chdir("d")
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    leftovers.remove(dead)
    wait()
    assert [*tmp_path.iterdir()] == []


def test_grade_sweeps_and_names_its_own_folders_so(dead, tmp_path):
    old = tmp_path / f"lablib-{dead}-abcd_123"
    old.mkdir()
    os.utime(old, (0, 0))
    (tmp_path / "work").mkdir()
    subprocess.run(
        [sys.executable, "-m", "lablib", "grade", str(tmp_path / "work")],
        env={**os.environ, "TMPDIR": str(tmp_path)}, check=True, capture_output=True,
    )  # fmt: skip
    assert not old.exists()
    folder = tempfile.mkdtemp(prefix=leftovers.prefix(), dir=tmp_path)
    assert clean(f"no file {folder}/x") == "no file …/x"

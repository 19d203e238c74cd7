"""The wheel, alone, and the suite, in an environment of each Python that this machine has."""

import sys
from pathlib import Path

import pytest
import standalone
import versions


@pytest.mark.slow  # .ci/run does it, before the suite
def test_the_wheel_works_alone(capsys: pytest.CaptureFixture[str]) -> None:
    failed = standalone.main()
    assert not failed, capsys.readouterr().out


def test_a_python_is_found_for_this_version_and_none_for_what_is_not_there() -> None:
    here = f"{sys.version_info.minor}"
    (found,) = standalone.pythons(f">=3.{here},<3.{int(here) + 1}")
    code = "import sys; print(sys.version_info.minor)"
    assert standalone.run([found, "-c", code], Path()) == f"{here}\n"
    assert [*standalone.pythons(">=3.90,<3.92")] == []


def test_a_command_that_fails_says_what_it_said() -> None:
    with pytest.raises(RuntimeError, match=r"ended with 1\s[\s\S]*ZeroDivisionError"):
        standalone.run([sys.executable, "-c", "1 / 0"], Path())


def test_the_other_pythons_are_of_other_versions() -> None:
    here = sys.version_info[:2]
    found = versions.others(f">=3.11,<3.{here[1] + 1}")
    numbers = [tuple(map(int, version.split(".")[:2])) for version in found]
    assert numbers == sorted({*numbers} - {here})
    assert versions.others(f">=3.{here[1]},<3.{here[1] + 1}") == {}


def test_a_suite_that_fails_on_one_python_fails_and_shows_its_end(monkeypatch, capsys):
    def suite(python: Path, folder: Path, *more: str, instead: list[str]) -> tuple[int, str]:
        assert folder.is_dir()
        asked_pairs.append(instead)
        assert more == ("tests/cache",)
        if python == Path("broken"):
            raise RuntimeError("pip ended with 1\nno such package")
        return (1, "E  a reason\n1 failed") if python == Path("wrong") else (0, "...\n7 passed")

    asked_pairs: list[list[str]] = []
    monkeypatch.setattr(versions, "suite", suite)
    asked = {"3.90.1": Path("right"), "3.91.0": Path("wrong"), "3.92.0": Path("broken")}
    for failing in ({}, {"3.91.0"}, {"3.92.0"}):
        some = {v: p for v, p in asked.items() if v == "3.90.1" or v in failing}
        monkeypatch.setattr(versions, "others", lambda accepted, some=some: some)
        assert versions.main("tests/cache") == bool(failing)
        said = capsys.readouterr().out
        assert said.endswith(": 7 passed\n")  # the newest one comes first
        assert bool(failing) == ("Python 3.90.1: 7 passed" in said)  # else it has the lowest pair
        assert ("E  a reason\n1 failed" in said) == ("3.91.0" in failing)
        assert ("no such package" in said) == ("3.92.0" in failing)
    pair, others = asked_pairs[0], [each for each in asked_pairs if not each]
    assert [each.partition("==")[0] for each in pair] == ["mlx[cpu]", "mlx-lm"]
    assert (len(asked_pairs), len(others)) == (5, 2)
    monkeypatch.setattr(versions, "BEGINS", -1)
    assert versions.main("tests/cache") == 0
    assert capsys.readouterr().out.count("not begun, as 0 minutes are over") == 2


def test_a_part_of_the_suite_has_something_of_each_room() -> None:
    found = [Path(file).relative_to(versions.ROOT / "tests").parts[0] for file in versions.files()]
    assert found[: len(versions.ROOMS)] == [*versions.ROOMS]
    assert len({*versions.files()}) == len(found) > 70


@pytest.mark.grid(lambda closing, wrong: closing.startswith("1 failed"))
@pytest.mark.parametrize(
    ("closing", "wrong"),
    [("71 passed in 2s", 0), ("1 failed, 70 passed in 2s", 1), ("1 passed, 1 error in 2s", 1)],
)
def test_a_suite_that_takes_long_is_stopped_and_says_what_it_has_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, closing: str, wrong: int
) -> None:
    script = f"""
import time
try:
    time.sleep(60)
except KeyboardInterrupt:
    print({closing!r}, flush=True)
    raise SystemExit(2)
"""
    monkeypatch.setattr(versions, "environment", lambda python, folder: python)
    monkeypatch.setattr(versions, "run", lambda command, folder: "")
    monkeypatch.setattr(versions, "SUITE", ["-c", script])
    monkeypatch.setattr(versions, "ENDS", 3)
    found, said = versions.suite(Path(sys.executable), tmp_path)
    assert found == wrong
    assert said == f"{closing} (a part: stopped after 0.05 minutes)"
    monkeypatch.setattr(versions, "SUITE", ["-c", "print('all'); raise SystemExit(5)"])
    assert versions.suite(Path(sys.executable), tmp_path) == (5, "all\n")

"""The wheel, alone, in an empty environment of each Python that this machine has."""

import sys
from pathlib import Path

import pytest
import standalone


@pytest.mark.slow  # .ci/run does it, before the suite
def test_the_wheel_works_alone(capsys: pytest.CaptureFixture[str]) -> None:
    failed = standalone.main()
    assert not failed, capsys.readouterr().out


def test_a_python_is_found_for_this_version_and_none_for_what_is_not_there() -> None:
    here = f"{sys.version_info.minor}"
    (found,) = standalone.pythons(f">=3.{here},<3.{int(here) + 1}")
    assert (
        standalone.run([found, "-c", "import sys; print(sys.version_info.minor)"], Path())
        == f"{here}\n"
    )
    assert [*standalone.pythons(">=3.90,<3.92")] == []


def test_a_command_that_fails_says_what_it_said() -> None:
    with pytest.raises(RuntimeError, match=r"ended with 1\s[\s\S]*ZeroDivisionError"):
        standalone.run([sys.executable, "-c", "1 / 0"], Path())

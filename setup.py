"""Says the version and where the packages are, and compiles for wheels.

All else is in pyproject.toml.
"""

import platform
import re
import runpy
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

FEW_ROWS = Path("lablib", "machine", "few_rows.py")
few_rows = runpy.run_path(str(FEW_ROWS))
ARCHIVED = "$Format:%ct %D$"  # where `git archive` says its commit's time and names
compiles = sys.platform == "linux" and few_rows["compiler"]() is not None


def version() -> str:
    """Return the version of this commit's tag, v0.2.0, or one before the next release.

    The changelog names that release, and the commit's time follows: it grows with every commit, and
    is the same in a clone, a shallow one and an archive. A copy without Git has a 0 in its place.
    """
    packed = Path("PKG-INFO")  # of an sdist
    if packed.exists():
        return re.search(r"^Version: (\S+)$", packed.read_text("utf-8"), re.MULTILINE)[1]
    commit = ARCHIVED
    if Path(".git").exists():
        with suppress(OSError):  # no Git
            ask = ["git", "log", "-1", "--format=%ct %D"]
            commit = subprocess.run(ask, capture_output=True, text=True).stdout
    tag = re.search(r"tag: v(\d[\w.]*)", commit)
    if tag:
        return tag[1]
    following = re.search(r"^## (\S+),", Path("CHANGELOG.md").read_text("utf-8"), re.MULTILINE)[1]
    seconds = re.match(r"\d+", commit)
    moment = time.strftime("%Y%m%d%H%M%S", time.gmtime(int(seconds[0]))) if seconds else "0"
    return f"{following}.dev{moment}"


class Build(build_py):
    """Puts few_rows.c, compiled, beside its source. A checkout compiles it when it is imported."""

    def run(self) -> None:
        """Build; see setuptools."""
        super().run()
        if compiles and not self.editable_mode:
            for processor in few_rows["processors"]():
                path = Path(self.build_lib, FEW_ROWS).with_name(f"few_rows-{processor}.so")
                few_rows["build"](path.absolute(), processor)


class Wheel(bdist_wheel):
    """Names the machine that the compiled file is for; it needs no Python, and glibc as MLX."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the wheel's tag; see setuptools."""
        tag = super().get_tag()
        return (*tag[:2], f"manylinux_2_35_{platform.machine()}") if compiles else tag


# A clone has its lessons beside the package. Without them setuptools installs it as a path, and
# that is found above the clone, too, where a folder named lablib would hide the package.
lessons = {} if "editable_wheel" in sys.argv else {"lablib.notebooks": "notebooks"}

setup(
    version=version(),
    packages=[*find_namespace_packages(include=["lablib*"]), *lessons],
    package_dir=lessons or {"": "."},  # an installed lablib opens the same lessons
    cmdclass={"build_py": Build, "bdist_wheel": Wheel},
)

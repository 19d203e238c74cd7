"""Says where the packages are, and compiles for wheels; all else is in pyproject.toml."""

import platform
import runpy
import sys
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

FEW_ROWS = Path("lablib", "machine", "few_rows.py")
few_rows = runpy.run_path(str(FEW_ROWS))
compiles = sys.platform == "linux" and few_rows["compiler"]() is not None


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
    packages=[*find_namespace_packages(include=["lablib*"]), *lessons],
    package_dir=lessons or {"": "."},  # an installed lablib opens the same lessons
    cmdclass={"build_py": Build, "bdist_wheel": Wheel},
)

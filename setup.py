"""Says where the packages are; all else is in pyproject.toml."""

import sys

from setuptools import find_namespace_packages, setup

# A clone has its lessons beside the package. Without them setuptools installs it as a path, and
# that is found above the clone, too, where a folder named lablib would hide the package.
lessons = {} if "editable_wheel" in sys.argv else {"lablib.notebooks": "notebooks"}

setup(
    packages=[*find_namespace_packages(include=["lablib*"]), *lessons],
    package_dir=lessons or {"": "."},  # an installed lablib opens the same lessons
)

"""Says where the packages are; all else is in pyproject.toml."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[*find_namespace_packages(include=["lablib*"]), "lablib.notebooks"],
    package_dir={"lablib.notebooks": "notebooks"},  # an installed lablib opens the same lessons
)

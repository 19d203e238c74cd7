"""The version that is installed: ``setup.py`` makes it of the changelog and the commit."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("lablib")
except PackageNotFoundError:  # a folder on the path
    __version__ = "0"

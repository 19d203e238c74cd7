"""One JupyterLab in one Chromium for all tests of this folder."""

import os
import shutil
import warnings
from pathlib import Path

import pytest
from oracles import browser

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Copies of all lessons: JupyterLab saves what it opens."""
    folder = tmp_path_factory.mktemp("notebooks")
    for path in NOTEBOOKS.glob("*.ipynb"):
        shutil.copy(path, folder)
    return folder


@pytest.fixture(scope="module")
def lab(folder):
    """JupyterLab open in a browser, one for all tests."""
    if browser.chromium() is None:
        message = "no Chromium: set LABLIB_CHROMIUM or install it; the lessons' widgets go untested"
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(message)
        warnings.warn(message, stacklevel=1)  # pytest prints warnings, but not why it skipped
        pytest.skip(message)
    with browser.server(folder) as address, browser.opened(address) as page:
        yield page

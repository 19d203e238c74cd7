"""One JupyterLab in one Chromium for all tests of this folder."""

import shutil
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
    browser.need("the lessons' widgets")
    with browser.server(folder) as address, browser.opened(address) as page:
        yield page

"""What pytest collects everywhere, and in which tier.

The lesson on a real model waits for the model. A recorded notebook has a picture where a run has a
scene's data, from which the page draws it.
"""

import lablib  # noqa: F401 (before mlx)
from lablib.course.plots import scene
from lablib.models import zoo

import pytest

NEEDS = {"12_a_real_model.ipynb": "smollm2"}  # notebook -> the model that has to be fetched for it
BUILT = {"chrome", "site"}  # fixtures of the second tier: Chromium, and the site whole


def pytest_configure(config: pytest.Config) -> None:
    """Let ``-m thorough`` mean the second tier, in which what is slow stays a choice of its own."""
    if config.option.markexpr == "thorough":
        config.option.markexpr = "thorough and not slow and not benchmark"


def is_thorough(item: pytest.Item) -> bool:
    """Tell whether a browser is driven, the site is built, or it is one more case of a grid."""
    if item.get_closest_marker("browser") or BUILT & {*getattr(item, "fixturenames", ())}:
        return True
    return any(not mark.args[0](**item.callspec.params) for mark in item.iter_markers("grid"))


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the notebooks, and what runs them in a browser, whose model is not on this machine."""
    for item in items:
        if is_thorough(item):
            item.add_marker(pytest.mark.thorough)
        if hasattr(item.parent, "skip_compare"):
            item.parent.skip_compare += (scene.MIME,) * (scene.MIME not in item.parent.skip_compare)
        path = getattr(item, "callspec", None) and item.callspec.params.get("path")
        runs = path if path and item.get_closest_marker("browser") else item.path
        name = NEEDS.get(runs.name)
        if name and zoo.fetched(name) is None:
            reason = f"{name} is not on this machine: python -m lablib fetch {name}"
            item.add_marker(pytest.mark.skip(reason=reason))

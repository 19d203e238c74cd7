"""Names what a plain install leaves out, and how to get it.

``lablib`` brings the engine; ``lablib[lab]`` also JupyterLab, widgets and plots for the lessons.
"""

import importlib.util

from lablib.validation import NotInstalled


def need(what: str, *modules: str) -> None:
    """Refuse to go on without the modules of the extra ``lab``.

    Raises:
        ImportError: one is missing; the line names it, ``what`` (a plural) needs it, and the
            command.
    """
    missing = ", ".join(name for name in modules if importlib.util.find_spec(name) is None)
    if missing:
        raise NotInstalled(f"{what} need {missing}: pip install 'lablib[lab]'")

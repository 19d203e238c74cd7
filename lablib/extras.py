"""Names the modules that a plain install leaves out, and the command that brings them.

``lablib`` brings the engine; ``lablib[lab]`` also JupyterLab, widgets and plots for the lessons.
"""

from importlib.util import find_spec

from lablib.validation import NotInstalled


def need(users: str, *modules: str) -> None:
    """Refuse to go on without the modules of the extra ``lab``.

    Raises:
        ImportError: one is missing; the line names it, its ``users`` (a plural) and the command.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise NotInstalled(f"{users} need {', '.join(missing)}: pip install 'lablib[lab]'")

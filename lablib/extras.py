"""Names the modules that a plain install leaves out, and the command that brings them.

``lablib`` brings the engine; ``lablib[lab]`` also JupyterLab, widgets and plots for the lessons;
``lablib[site]`` also what makes pages of them; ``lablib[grammar]`` masks of grammars;
``lablib[gguf]`` GGUF files.
"""

from importlib.util import find_spec

from lablib.validation import NotInstalled


def need(users: str, *modules: str, extra: str = "lab") -> None:
    """Refuse to go on without the modules of an extra.

    Raises:
        ImportError: one is missing; the line names it, its ``users`` (a plural) and the command.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise NotInstalled(f"{users} need {', '.join(missing)}: pip install 'lablib[{extra}]'")

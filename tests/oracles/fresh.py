"""Code in an interpreter of its own, for what is settled once a process."""

import os
import subprocess
import sys


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code without the settings that this process was started with."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("LABLIB_", "OMP_"))}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True)

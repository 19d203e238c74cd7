"""Without the extra `lab`, the engine works and what draws says in one line what it needs."""

import subprocess
import sys
from pathlib import Path

from lablib.course.working_copy import notebooks_folder
from lablib.folders import FIRST_LESSON

import pytest

EXTRA = (
    "matplotlib",
    "ipywidgets",
    "jupyterlab",
    "IPython",
    "nbformat",
    "ipykernel",
    "PIL",
    "scipy",
)
BLOCKED = f"import sys\nsys.modules.update(dict.fromkeys({EXTRA}))\n"
COMMAND = "from lablib.__main__ import main\nsys.exit(main(sys.argv[1:]))"

ENGINE = """
import lablib

model, tokenizer = lablib.load("target")
draft, _ = lablib.load("draft")
plain = lablib.generate(model, tokenizer, "On a sunny day,", max_tokens=12, temperature=0)
assert plain == lablib.generate(
    model, tokenizer, "On a sunny day,", max_tokens=12, temperature=0, draft_model=draft
)
prompt = tokenizer.encode("sum 7 3 9 0 4 8:")
assert sum(count for _, count in lablib.majority_vote(model, prompt, n=4, extract=len)) == 4
_, stats = lablib.speculative_decode(model, draft, prompt, max_tokens=12)
assert 0 < stats["acceptance_rate"] <= 1
votes = lablib.vote_until(model, prompt, n=20, max_tokens=8, confidence=0.9, stop_rule="dirichlet")
assert votes.reason
told = lablib.forecast(model, draft, tokenizer, ["On a sunny day"], max_tokens=8, repeats=1)
assert told.speedup >= 1 and "speed-up" in str(told)
assert lablib.bias(lablib.rules.block) < 1e-9
for name in set(lablib.__all__) - {"chat"}:
    getattr(lablib, name)
try:
    lablib.chat
except ImportError as error:
    print(error)
"""


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKED + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_engine_runs_without_what_draws_and_chat_names_the_extra() -> None:
    result = python(ENGINE)
    assert result.stderr == ""
    said = "plots and widgets need matplotlib, ipywidgets: pip install 'lablib[lab]'"
    assert result.stdout == f"{said}\n"


@pytest.mark.parametrize(
    ("arguments", "what", "needed"),
    [
        (("lab",), "the lessons", "jupyterlab, ipywidgets, matplotlib"),
        (("grade", "elsewhere"), "submitted notebooks", "IPython"),
        (("score", "."), "submitted notebooks", "IPython"),
        (("sweep", "votes", "target", "--out", "none.jsonl"), "sweeps", "scipy"),
        (("evaluate",), "tables", "scipy"),
        (("bench", "decoding"), "tables", "scipy"),
    ],
)
def test_a_command_that_needs_the_extra_is_refused_in_one_line(
    arguments: tuple[str, ...], what: str, needed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # so that grade does not start over, unblocked
    result = python(COMMAND, *arguments)
    assert result.returncode == 2
    assert result.stderr == f"lablib: {what} need {needed}: pip install 'lablib[lab]'\n"


def test_editions_need_no_extra(tmp_path: Path) -> None:
    released = python(COMMAND, "release", str(tmp_path), str(notebooks_folder() / FIRST_LESSON))
    assert released.returncode == 0, released.stderr

"""The doors lead to the same place: pyproject.toml, environment.yml, the README's commands."""

import json
import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import lablib

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
README = (ROOT / "README.md").read_text()


def conda_pip_lines() -> list[str]:
    return re.findall(r"^ {6}- (.+)$", (ROOT / "environment.yml").read_text(), re.MULTILINE)


def test_environment_yml_equals_pyproject() -> None:
    lines = conda_pip_lines()
    assert lines[-1] == "-e .[lab]"
    assert lines[:-1] == PROJECT["dependencies"] + EXTRAS["lab"]


def test_who_grades_with_nbgrader_can_run_a_lesson() -> None:
    assert "lablib[lab]" in EXTRAS["teach"]


@pytest.mark.parametrize("command", ["editable_wheel", "bdist_wheel"])
def test_a_clone_is_installed_as_a_path_and_a_wheel_has_the_lessons(command, monkeypatch) -> None:
    """A path is found even above the clone, where its folder would hide what a finder finds."""
    setuptools = pytest.importorskip("setuptools")
    told: dict = {}
    monkeypatch.setattr(setuptools, "setup", lambda **wanted: told.update(wanted))
    # The environment's own setuptools may be older than what pyproject.toml builds with.
    newer = SimpleNamespace(bdist_wheel=object)
    monkeypatch.setitem(sys.modules, "setuptools.command.bdist_wheel", newer)
    monkeypatch.setattr("sys.argv", ["setup.py", command])
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    if command == "editable_wheel":  # what setuptools wants of a project that a path will do for
        assert told["package_dir"] == {"": "."}
        assert all(Path(*name.split(".")).is_dir() for name in told["packages"])
    else:
        assert told["package_dir"] == {"lablib.notebooks": "notebooks"}
        assert "lablib.notebooks" in told["packages"]
    assert {"lablib", "lablib.teach"} <= {*told["packages"]}


def test_mlx_and_mlx_lm_are_pinned_exactly_and_the_rest_by_range() -> None:
    for line in PROJECT["dependencies"] + EXTRAS["lab"] + EXTRAS["test"]:
        pinned = "==" in line.split(";")[0]
        assert pinned == line.startswith(("mlx[", "mlx-lm")), line


def test_python_of_environment_yml_is_supported() -> None:
    version = re.search(r"python=(3\.\d+)", (ROOT / "environment.yml").read_text()).group(1)
    low, high = re.findall(r"3\.(\d+)", PROJECT["requires-python"])
    assert int(low) <= int(version.split(".")[1]) < int(high)


def test_the_readme_names_the_pythons_that_pip_accepts_colabs_among_them() -> None:
    """Colab, where README and doctor send people with an older machine, has Python 3.13."""
    low, high = map(int, re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
    assert f"Python 3.{low} to 3.{high - 1}," in README
    assert low <= 13 < high


def test_readme_has_the_two_commands_first() -> None:
    run, test = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)[:2]
    assert run.strip().endswith("python -m lablib")
    assert '".[test]"' in test
    assert test.strip().endswith("python -m pytest -n 2 --dist loadfile --no-loadscope-reorder")


def test_the_readmes_hours_are_the_lessons() -> None:
    """In all, without what may be skipped and with it."""
    least = most = 0
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        first = "".join(json.loads(path.read_text())["cells"][0]["source"])
        (said,) = re.findall(r"\*\*Time\*\* (.*?) ·", first)
        minutes = [int(n) for n in re.findall(r"(\d+)(?= minutes| without)", said)]
        least, most = least + minutes[-1], most + minutes[0]
    assert f"take {least / 60:.0f} to {most / 60:.0f} hours" in README


def test_the_version_is_said_once_and_repeated_truly() -> None:
    assert "version" in PROJECT["dynamic"]
    assert f"## {lablib.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == lablib.__version__


def test_all_name_one_version_of_what_formats_the_javascript() -> None:
    files = "biome.jsonc", "CONTRIBUTING.md", ".pre-commit-config.yaml"
    named = [re.findall(r"biome[@/]([\d.]+\d)", (ROOT / file).read_text()) for file in files]
    assert all(named)
    assert len({version for found in named for version in found}) == 1
    schema = re.search(r"schemas/([\d.]+)/schema", (ROOT / "biome.jsonc").read_text())[1]
    assert schema == named[0][0]


def test_the_workflow_and_the_classifiers_name_each_python_that_pip_accepts() -> None:
    low, high = map(int, re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
    versions = [f"3.{minor}" for minor in range(low, high)]
    (job,) = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"].values()
    matrix = job["strategy"]["matrix"]
    assert matrix["python"] == versions
    whole = re.findall(r"matrix\.(\w+) == '([^']+)'", job["steps"][-1]["env"]["ONE_TIER"])
    assert {name for name, value in whole if value in matrix[name]} == {"os", "python"}
    python = "Programming Language :: Python :: "
    named = [c.removeprefix(python) for c in PROJECT["classifiers"] if c.startswith(python)]
    assert named == versions


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_what_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    files = re.findall(r"(?<![\w/])((?:tests|lablib|notebooks)/[\w/]+\.\w+)", text)
    for target in files:
        if not re.search("NN", target):
            assert (ROOT / target).exists(), target


def test_every_lesson_is_on_the_readme_map() -> None:
    for lesson in (ROOT / "notebooks").glob("[0-9]*.ipynb"):
        assert f"notebooks/{lesson.name}" in README, lesson.name


def example(page: str) -> str:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    return code


def test_the_readmes_example_prints_what_stands_below_it(capsys) -> None:
    exec(example("README.md"), names := {})
    (said,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert capsys.readouterr().out == said
    assert "and 3 is right" in README
    digits = re.findall(r"\d", names["tokenizer"].decode(names["question"]))
    assert names["votes"].winner == str(sum(map(int, digits)) % 10) == "3"


def test_the_librarys_example_runs(capsys) -> None:
    exec(code := example("docs/library.md"), names := {})
    assert len(names["samples"].tokens) == 64
    assert sum(count for _, count in names["votes"]) == 32
    shown = capsys.readouterr().out
    assert "On" not in shown.split()  # what is streamed is the continuation
    said = r"print\(votes.winner\)  # (\d), which is right .*; at temperature 0 .* ends in (\d)"
    elected, likeliest = re.search(said, code).groups()
    model, tokenizer, prompt = (names[name] for name in ("model", "tokenizer", "prompt"))
    assert elected == names["votes"].winner
    text = lablib.generate(model, tokenizer, prompt, temperature=0.0)
    assert text[-1] == likeliest != elected
    assert 0 < names["stats"]["acceptance_rate"] <= 1
    assert names["logprobs"].shape == (512,)


def test_the_readmes_numbers_stand_where_it_says_that_they_were_measured() -> None:
    table = (ROOT / "lablib/models/checkpoints/evaluation.md").read_text("utf-8")
    greedy = table.partition("## Greedy speculation")[2]
    (said,) = re.findall(r"model writes ([\d.]+) tokens", README)
    stories = re.search(r"^\| stories .*", greedy, re.MULTILINE)[0].split("|")
    assert said == f"{float(stories[4]):.1f}"
    beside = README.partition("## Beside others")[2]
    rows = re.findall(r"^\| .* \| ([\d.]+) \| .* \|$", beside, re.MULTILINE)
    assert len(rows) == 4
    benchmarks = (ROOT / "docs/benchmarks.md").read_text("utf-8")
    assert all(f"| {row} |" in benchmarks for row in rows)
    assert "four rules are off by less than 10⁻¹⁵" in README
    assert len(lablib.rules.RULE) == 4
    assert all(lablib.bias(rule) < 1e-15 for rule in lablib.rules.RULE.values())


def test_the_readmes_shares_of_right_votes_are_those_of_the_evaluation() -> None:
    table = (ROOT / "lablib/models/checkpoints/evaluation.md").read_text("utf-8")
    pattern = r"sample is right on (\d+) % of the sums, a vote of 32 on (\d+) %"
    one, vote = re.search(pattern, README).groups()
    columns = re.search(r"^\| strategy .*", table, re.MULTILINE)[0].split("|")
    place = [column.strip() for column in columns].index("32")
    shares = {
        name: re.search(rf"^\| {name} .*", table, re.MULTILINE)[0].split("|")[place]
        for name in ("single", "majority")
    }
    assert {name: round(100 * float(share.split()[0])) for name, share in shares.items()} == {
        "single": int(one), "majority": int(vote),
    }  # fmt: skip
